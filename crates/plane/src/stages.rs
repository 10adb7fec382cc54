//! The list of all kinds of stages, and the commands of those that have some. What a kind does is in its folder: `config`, `stage`,
//! `command`, `answer`.
//!
//! ```text
//! filter > Config: ConfigKind, Filter: Configured + StageKind     one row of the list; a row of commands, if it has some
//! ```
//! `access` and `route` are no stages of this list: they stand at the ends of the others, once in a node.

mod decide;
#[macro_use]
mod list;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_packet::steer::Spread;

use crate::access::SubscriberCommand;
use crate::filter::{self, FilterCommand};
use crate::frame::PortId;
use crate::nat::{self, NatCommand};
use crate::neighbour::NeighbourCommand;
use crate::police::{self, PoliceCommand};
use crate::port::Port;
use crate::queue;
use crate::route::RouteCommand;
use crate::stage::{ConfigKind, Configured, Loss, NodeParts, ObjectChange, Reading, StageKind};
use crate::text::Item;
use crate::time::Time;
use crate::was::Was;
pub(crate) use decide::Decided;
use decide::decide;
pub(crate) use list::{Listed, OneOf};

stages! {
    Filter: filter,
    Nat: nat,
    Queue: queue,
    Police: police,
}

/// A change of one object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// Of a router's routes.
    Route(RouteCommand),
    /// Of hosts with configured Ethernet addresses.
    Neighbour(NeighbourCommand),
    /// Of a filter.
    Filter(FilterCommand),
    /// Of a NAT.
    Nat(NatCommand),
    /// Of a policer.
    Police(PoliceCommand),
    /// Of the sessions of subscribers.
    Subscriber(SubscriberCommand),
}

impl Command {
    /// What it changes in one of these stages, if it is a command for a stage.
    pub(crate) fn change_of_stage(&self, stages: &[StageConfig], ports: &[Port]) -> Option<Decided> {
        Some(match self {
            Command::Filter(command) => decide(command, stages, ports),
            Command::Nat(command) => decide(command, stages, ports),
            Command::Police(command) => decide(command, stages, ports),
            Command::Route(_) | Command::Neighbour(_) | Command::Subscriber(_) => return None,
        })
    }
}
