//! What happens to a frame inside a node: a pure function of the state, the time and a batch of frames. The same code
//! forwards in real time, in tests and in simulated time.
//!
//! ```text
//! text > Config > Plane          batch at a time > Plane::run > a verdict for each frame, and frames of the node's own
//! ```
//!
//! Files:
//! - `plane.rs`: a batch passes; `plane/admit.rs` is before the first stage, `plane/queries.rs` what is asked of a plane,
//!   `plane/commands.rs` small changes
//! - `pipeline.rs`: the stages and their order
//! - `batch.rs`, `frame.rs`, `extensions.rs`, `fragment.rs`: frames of a batch and their headers, read once
//! - `stages.rs`: the list of the stages between the ports, `filter/`, `nat/`, `queue/`, `police/`; `stage.rs` and `stage/` are what
//!   they have in common; `route/` and `access/` stand at the ends of them
//! - `neighbour.rs`: ARP and neighbour discovery; `neighbour/asked.rs` says which addresses are asked for, `neighbour/news.rs`
//!   what threads tell each other
//! - `local.rs`: frames for this machine, and how many of each kind it gets; `plane/machine.rs`: what it sends; `punt.rs`, `punter.rs`,
//!   `plane/control.rs`: frames for the control program and from it
//! - `table/`: tables of connections and sessions; `limits.rs`: how much each of them holds; `tests/shares.rs`: what a flood
//!   takes
//! - `steer.rs`: the thread of the node that a frame belongs to; `threads.rs`: what planes on
//!   several threads share; `dir.rs`: directions
//! - `kept.rs`: frames that a stage keeps without a copy and emits later
//! - `recipe.rs`: the changes of all stages to the frames of a flow; each stage's part is in its `recipe.rs`. `cache.rs` and
//!   `tests/flow_cache.rs` prove that recipes are right
//! - `fast.rs`: entries of the fast path, made of recipes
//! - `drops.rs`: all drop reasons; `unread_log.rs`: what is left to read of stages that have ended; `sessions.rs`: the
//!   sessions that a node shows
//! - `icmp.rs`, `quote.rs`, `query.rs`, `report.rs`, `reset.rs`: ICMP messages and TCP resets
//! - `shape/`: rates of subscribers and groups: frames that wait, and which goes on next
//! - `profile.rs`: NAT profiles of subscribers
//! - `access/`: subscribers, by line and by address, and their sessions; `tags.rs`: VLAN tags of frames and of ports
//! - `update.rs`: changes a running plane to another text; the stages' parts are `filter/ruleset.rs` and `nat/table/apply.rs`
//! - `recover.rs`: continues after a panic; `faults.rs` plants panics for tests
//! - `scenario/`: runs the texts in `tests/*.txt` of the repository: packets in, packets out, in virtual time
#![forbid(unsafe_code)]

mod access;
mod address;
mod batch;
mod cache;
mod change;
mod command;
mod config;
mod dir;
mod drops;
mod extensions;
mod fast;
#[cfg(feature = "faults")]
pub mod faults;
mod filter;
mod flow;
mod fragment;
mod frame;
mod icmp;
mod kept;
mod limiter;
mod limits;
mod local;
mod nat;
mod neighbour;
mod outbox;
mod pages;
mod pipeline;
mod plane;
mod police;
mod port;
mod prefix;
mod profile;
mod punt;
mod punter;
mod query;
mod queue;
mod quote;
#[cfg(test)]
mod random;
mod recipe;
mod recover;
mod report;
mod reset;
mod route;
pub mod scenario;
mod sessions;
mod shape;
mod stage;
mod stages;
mod steer;
mod table;
mod tags;
pub mod text;
mod threads;
mod time;
mod unread_log;
mod update;
mod was;

pub use access::{
    AccessState, ClassCount, LabelCounts, NatProfile, SubscriberCommand, SubscriberConfig, SubscriberCount,
    SubscriberEntry, SubscriberEvent, SubscriberState, UnknownSessions,
};
pub use address::{address_of, words_of};
pub use batch::{BATCH, Batch, Set, Verdict};
pub use change::Change;
pub use command::Refused;
pub use config::{Beside, Config};
pub use dir::Dir;
pub use drops::{DropReason, Drops};
pub use fast::{FastCounts, FastState, FastTable, FlowKey, FlowRule, FlowUses};
pub use filter::{Count, FilterCommand, FilterSession, Logged, RuleCount};
pub use frame::{Fragment, Frame, HEAD_ROOM, Kind, Line, PortId, Subscriber};
pub use kept::{Emitted, Shelf, Ticket};
pub use local::{Punt, Punts};
pub use nat::{
    BlockEvent, Deterministic, Event, EventKind, ForwardEntry, NatCommand, NatSession, NewBlocks,
    OneToOneEntry, Owner, PortBlock, Transport, Usage,
};
pub use neighbour::{NeighbourCommand, NeighbourEntry, NeighbourState};
pub use plane::{Accounting, Departure, Leave, Plane};
pub use police::{PoliceCommand, PoliceCounts};
pub use port::{End, MacText, Port, Rpf};
pub use prefix::{Prefix, mask4, mask6};
pub use punt::{PuntCounts, PuntReason, PuntReasons};
pub use queue::{QueueCounts, QueueState};
pub use recipe::Ends;
pub use recover::Recovered;
pub use route::{
    NextHop, NoLink, Options, Route, RouteCommand, RouteEntry, RouteTarget, Routes, Target, Via,
};
pub use sessions::{Cursor, Session, SessionRecord};
pub use shape::{GroupState, QueueFigures};
pub use stages::Command;
pub use table::tcp::Progress;
pub use tags::{TagSet, Tags, Vids};
pub use threads::{Handover, Ingress, MOST_THREADS, NeighbourNews, Share};
pub use time::Time;
pub use unread_log::UnreadLog;
pub use update::{AT_A_TIME, Update};
pub use weir_memory::Populator;
