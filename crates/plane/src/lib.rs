//! What happens to a frame inside a node: a pure function of the state, the time and a batch of frames. The same code
//! forwards in real time, in tests and in simulated time.
//!
//! ```text
//! text > Config > Plane          batch at a time > Plane::run > a verdict for each frame, and frames of the node's own
//! ```
#![forbid(unsafe_code)]

mod address;
mod batch;
mod cache;
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
mod pipeline;
mod plane;
mod police;
mod port;
mod prefix;
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
mod stage;
mod steer;
mod table;
pub mod text;
mod threads;
mod time;
mod unread_log;
mod update;

pub use address::{address_of, words_of};
pub use batch::{BATCH, Batch, Set, Verdict};
pub use config::{Beside, Config};
pub use dir::Dir;
pub use drops::{DropReason, Drops};
pub use fast::{FastCounts, FastState, FastTable, FlowKey, FlowRule, FlowUses};
pub use filter::{Count, Logged};
pub use frame::{Fragment, Frame, HEAD_ROOM, Kind, PortId};
pub use kept::{Emitted, Shelf, Ticket};
pub use local::{Punt, Punts};
pub use nat::{BlockEvent, Deterministic, Event, EventKind, NewBlocks, Owner, PortBlock, Usage};
pub use plane::{Accounting, Departure, Leave, Plane};
pub use police::PoliceCounts;
pub use port::{Port, Rpf};
pub use prefix::{Prefix, mask4, mask6};
pub use queue::QueueCounts;
pub use recipe::Ends;
pub use recover::Recovered;
pub use route::{NextHop, NoLink, Options, Route, Target};
pub use sessions::{Cursor, Session};
pub use table::tcp::Progress;
pub use threads::{Handover, Ingress, MOST_THREADS, NeighbourNews, Share};
pub use time::Time;
pub use unread_log::UnreadLog;
pub use update::Update;
