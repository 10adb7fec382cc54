//! A bottleneck between two ports, in real time: the link of `weir-link` with a queue in front and delays, losses and reordering
//! behind it.
//!
//! ```text
//!  port 1 > [ queue | link's rate ] > [ path: loss, delay, jitter, reordering ] > port 2       and the same back
//!           `---- scheduled time ---------------------------------'   ^ sent at real time: lateness is recorded
//! ```
//! - A frame arrives when the kernel received it, not when this program looks. Its departure is computed from arrivals and the
//!   rate alone, in ps. So a program that gets its CPU late drops the same frames as one that is on time: lateness delays
//!   a frame and changes nothing else.
//! - A frame's size on the link is that of its Ethernet header and what follows, without FCS. A frame in service is outside of the
//!   buffer. A frame keeps the rate that the link had at its start.
//! - Delay lines lose nothing and keep the order. They stand behind the queue.
//! - Large frames of senders with segmentation offload are cut before the queue, and checksums are finished, by the port.
//! - entered = sent + dropped + lost + still queued + still in the delay line, in each direction ([`Counts`]).
//!
//! Files:
//! - `bridge.rs`, `way.rs`: both directions; `run.rs`: the loop at real time, and how late frames leave; `clock.rs`: the clocks
//! - `frame.rs`: flow, path and ECN field of a frame; `settings.rs`, `log.rs`, `result.rs`: input and output
//! - `tests/exact.rs`: the same drops and times as the simulated link; `tests/stage.rs`: the same as the stage `queue` of a
//!   node
#![forbid(unsafe_code)]

mod bridge;
mod clock;
mod frame;
mod log;
mod result;
mod run;
mod settings;
mod way;

pub use bridge::{Bridge, chunks_for};
pub use clock::Clock;
pub use log::{Entry, Log};
pub use result::{Direction, Outcome, Quantiles, Snapshot, View, too_late};
pub use run::{Observe, run};
pub use settings::{BackRate, SETTINGS, Settings};
pub use way::{Counts, Leaving, Way};
