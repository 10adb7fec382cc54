//! The subscribers of a node, and the stage `access`, at which their sessions begin and end.
//!
//! ```text
//! from a subscriber: port, tags, Ethernet address > index > source address, counters > shaper > other stages
//! to a subscriber:   stages of the other direction > address > index > Ethernet header, tags > shaper > counters > port
//! anything else of an access port: punted to the control program, or dropped by name
//! ```
//! Sessions come from the control program as commands, some from the text. The stage stands in front of all others; what it does
//! to a frame from a subscriber happens when the frame is admitted, what it does to one to a subscriber at the exit of the router.
//!
//! Invariant: no frame of an access port goes further than this stage unless a session has its line, its Ethernet address and its
//! source address.

mod answer;
mod bucket;
mod command;
mod config;
mod counts;
mod dscp;
mod echo;
mod fixed;
mod labels;
pub(crate) mod lcp;
mod removed;
mod sessions;
mod state;
mod table;
mod walled;

pub use answer::{LabelCounts, SubscriberCount, SubscriberState};
pub(crate) use command::SubscriberChange;
pub use command::{SubscriberCommand, SubscriberEntry, UnknownSessions};
pub(crate) use config::{AccessConfig, AccessPolicy, Loops, read};
pub use counts::ClassCount;
pub(crate) use echo::EchoTimes;
pub use echo::SubscriberEvent;
pub use fixed::SubscriberConfig;
pub(crate) use fixed::read as read_fixed;
pub(crate) use labels::name;
pub(crate) use sessions::{AccessSession, AccessSessions, Grace};
pub use state::{AccessState, NatProfile};
pub(crate) use table::{Denied, Receiver, Subscribers, clamp_mss};
