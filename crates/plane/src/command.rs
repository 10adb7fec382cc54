//! Changes of single objects of a node that runs: routes, neighbours, rules, port forwards, one-to-one addresses, rates.
//!
//! ```text
//! Command (of a program, by names) > decide > Change (what was, what is) > Update > each thread, some behind each batch
//! text, text > the same changes, where only such objects differ (update.rs)
//! ```
//! Each kind of object has its commands in its own folder; here is the list of them, and how they become changes of the
//! configuration.
//!
//! Invariant: a list of commands is decided whole or not at all, and each command costs the same however many objects of its kind
//! there are (but for the logarithm of their number, and for rules, which are compiled together).

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::access::{SubscriberChange, SubscriberCommand};
use crate::change::{Change, Object};
use crate::config::{Config, StageConfig};
use crate::filter::FilterCommand;
use crate::nat::NatCommand;
use crate::neighbour::NeighbourCommand;
use crate::police::PoliceCommand;
use crate::route::RouteCommand;

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

/// Why a list of commands was refused: nothing of it was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The command, counted from 0.
    pub command: usize,
    /// What is wrong with it, and what to do about it.
    pub why: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "command {}: {}; no command of the list was done", self.command, self.why)
    }
}

impl Config {
    /// Does a list of commands in the configuration, and returns what changes. Commands that change nothing leave nothing.
    ///
    /// # Errors
    /// The first command that cannot be done; the configuration is as before.
    pub fn decide(&mut self, commands: &[Command]) -> Result<Vec<Change>, Refused> {
        let mut changes: Vec<Change> = Vec::new();
        for (command, wanted) in commands.iter().enumerate() {
            let decided = self.changes_of(wanted).and_then(|all| {
                for change in all {
                    self.take(&change)?;
                    changes.push(change);
                }
                Ok(())
            });
            if let Err(why) = decided {
                self.undo(changes);
                return Err(Refused { command, why });
            }
        }
        Ok(changes)
    }

    /// All that a command changes: a session may have an address of a NAT.
    fn changes_of(&self, command: &Command) -> Result<Vec<Change>, String> {
        let change = self.change(command)?;
        let mut changes = match &change {
            Some(Change(Object::Subscriber(SubscriberChange::Session(was)))) => self.profile_changes(was)?,
            _ => Vec::new(),
        };
        changes.extend(change);
        Ok(changes)
    }

    /// What a command changes; `None`: it is so already.
    fn change(&self, command: &Command) -> Result<Option<Change>, String> {
        let object = match command {
            Command::Route(command) => {
                let routes = self.routes.as_ref().ok_or("the node has no `route`: it is no router")?;
                command.change(routes, &self.ports)?.map(Object::Route)
            }
            Command::Neighbour(_) if self.routes.is_none() => {
                return Err("the node has no `route`: it knows no neighbours".into());
            }
            Command::Neighbour(command) => command.change(&self.ports)?.map(Object::Neighbour),
            Command::Filter(command) => {
                let (at, filter) = self.stage(command.stage(), "filter", StageConfig::filter)?;
                command.change(filter, &self.ports)?.map(|change| Object::Filter(at, change))
            }
            Command::Nat(command) => {
                let (at, nat) = self.stage(command.stage(), "NAT", StageConfig::nat)?;
                if self.nats().any(|nat| !nat.before.is_empty()) {
                    let why = "several threads share several NATs here, which know each other's ends";
                    return Err(format!("{why}: write it into the text, and apply that"));
                }
                command.change(nat)?.map(|change| Object::Nat(at, change))
            }
            Command::Police(command) => {
                let (at, police) = self.stage(command.stage(), "policer", StageConfig::police)?;
                command.change(police, &self.ports)?.map(|change| Object::Police(at, change))
            }
            Command::Subscriber(command) => {
                let access =
                    self.access.as_ref().ok_or("the node has no `access`: no port of it has subscribers")?;
                command.change(access, &self.sessions, &self.ports)?.map(Object::Subscriber)
            }
        };
        Ok(object.map(Change))
    }

    /// The stage of this number in the text, from 1, if it is one of a kind.
    fn stage<'a, T>(
        &'a self,
        number: usize,
        kind: &str,
        of: impl Fn(&'a StageConfig) -> Option<&'a T>,
    ) -> Result<(usize, &'a T), String> {
        let at = number.wrapping_sub(1);
        self.stages.get(at).and_then(&of).map(|stage| (at, stage)).ok_or_else(|| {
            let all = (1..).zip(&self.stages).filter(|(_, stage)| of(stage).is_some());
            let all: Vec<String> = all.map(|(n, _)| n.to_string()).collect();
            match &all[..] {
                [] => format!("the node has no {kind}"),
                all => format!("stage {number} is no {kind}: those of the node are {}", all.join(", ")),
            }
        })
    }
}
