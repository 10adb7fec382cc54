//! Network address translation: NAT44 from one address for a home to a pool for a carrier's subscribers.
//!
//! ```text
//!  outward  frame > flow (inside end, remote end) > table > mapping > source rewritten   > on, or back in (hairpin)
//!  inward   frame > port of a public address      > table > mapping > destination rewritten > on
//! ```
//!
//! Files; each uses only files that are listed before it:
//! - `flow.rs`, `quoted.rs`: what a NAT reads of a frame; the packet that an ICMP error quotes
//! - `slot.rs`, `sessions.rs`: a mapping or session; the tables that find it
//! - `outside.rs`: the owner of each outside port; `ports.rs`, `block_set.rs`, `resting.rs`, `deterministic.rs`: which port a
//!   subscriber gets next
//! - `pairs.rs`, `forwards.rs`, `ranges.rs`, `redirect.rs`: look-up of configured addresses
//! - `config.rs`, `words.rs`: the arguments of `nat(...)`
//! - `table/`: the rules: mappings begin, end and are replaced; `table/mod.rs` lists its files
//! - `../table/timers.rs`, `../table/tcp.rs`: when a session is over
//! - `next.rs`: where a frame goes next; `handover.rs`: in another thread
//! - `fragments.rs`, `translation.rs`: fragments follow the translation of the first one
//! - `rewrite.rs`, `portless.rs`, `icmp.rs`, `redirected.rs`: rewrite packets with ports, packets without, ICMP errors, and
//!   redirected traffic
//! - `pcp.rs`: hosts ask for ports themselves (PCP)
//! - `nat64/`: hosts with IPv6 reach IPv4
//! - `stage.rs`: the stage; it calls all others for each frame

mod answer;
mod block_events;
mod block_set;
mod command;
mod config;
mod configured;
mod deterministic;
mod flow;
mod forwards;
mod fragments;
mod handover;
mod icmp;
mod leases;
mod log;
mod nat64;
mod next;
mod node;
mod outside;
mod pairs;
mod pcp;
mod portless;
mod ports;
mod quoted;
mod ranges;
mod redirect;
mod redirected;
mod resting;
mod rewrite;
mod sessions;
mod sharding;
mod slot;
mod stage;
mod subscribers;
mod table;
mod translation;
mod unsolicited;
mod words;

pub use answer::NatSession;
pub use block_events::{BlockEvent, NewBlocks, PortBlock};
pub(crate) use command::NatChange;
pub use command::{ForwardEntry, NatCommand, OneToOneEntry, Transport};
pub(crate) use config::Config;
pub use deterministic::{Deterministic, Owner};
pub(crate) use flow::has_ports_of;
pub use log::{Event, EventKind};
pub(crate) use pairs::Pair;
pub(crate) use quoted::{Receiver, Sender};
pub(crate) use sharding::Sharding;
pub(crate) use stage::Nat;
pub use table::Usage;
pub(crate) use table::{Departs, Destination, Mapped};
