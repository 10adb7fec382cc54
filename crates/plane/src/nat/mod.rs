//! Network address translation: NAT44 from one address for a home to a pool for a carrier's subscribers.
//!
//! ```text
//!  outward  frame > flow (inside end, remote end) > table > mapping > source rewritten   > on, or back in (hairpin)
//!  inward   frame > port of a public address      > table > mapping > destination rewritten > on
//! ```
//!
//! Each file uses what stands above it here, and nothing below.
//!
//! | question | file |
//! |---|---|
//! | What is a frame to a NAT, and which packet is an ICMP error about? | `flow.rs`, `quoted.rs` |
//! | What is a mapping, and how is it found? | `slot.rs`, `sessions.rs` |
//! | Which host has which outside port? | `outside.rs`; which port is next: `ports.rs`, `block_set.rs`, `resting.rs`, `deterministic.rs` |
//! | How is what was configured by address found? | `pairs.rs`, `ranges.rs`, `redirect.rs` |
//! | What does `nat(...)` take? | `config.rs`, `words.rs` |
//! | Which packets may pass, how do mappings begin and end, what is evicted, which thread owns a frame? | `table/mod.rs` lists its files |
//! | When is a session over? | `../table/timers.rs`, `tcp.rs` |
//! | Where does a frame go next? | `next.rs`, in another thread `handover.rs` |
//! | What happens to fragments? | `fragments.rs`, `translation.rs` |
//! | What is done to a packet with ports, without, to an ICMP error, to a redirected packet? | `rewrite.rs`, `portless.rs`, `icmp.rs`, `redirected.rs` |
//! | How do hosts ask for ports themselves? | `pcp.rs` |
//! | How do hosts with IPv6 reach IPv4? | `nat64/` |
//! | What is asked for which frame? | `stage.rs` |

mod block_events;
mod block_set;
mod config;
mod deterministic;
mod flow;
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

pub use block_events::{BlockEvent, NewBlocks, PortBlock};
pub(crate) use config::Config;
pub use deterministic::{Deterministic, Owner};
pub(crate) use flow::has_ports_of;
pub use log::{Event, EventKind};
pub(crate) use node::{Forwarding, Mtus};
pub(crate) use quoted::{Receiver, Sender};
pub(crate) use sharding::Sharding;
pub(crate) use stage::Nat;
pub use table::Usage;
pub(crate) use table::{Departs, Destination, Mapped, Update};
