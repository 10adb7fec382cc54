//! The shaper of subscribers: rates by levels, fair queues within each subscriber.
//!
//! ```text
//! port > group (> group) > subscriber > class (strict, and 3 by weight) (> host) > flow (COBALT)
//! ```
//! The scheduler is pure: packets are numbers of the owner with a size, a flow, a class and an ECN field; time is an argument.
//!
//! - `scheduler.rs`: what arrives, and which packet leaves next
//! - `round.rs`: the levels, and which subscriber is served next; `busy.rs`: those with many packets
//! - `due.rs`: timers that expire
//! - `subscriber.rs`: a subscriber that has packets: its classes and flows, and which packet leaves
//! - `flows.rs`: the slabs of packets and flows; `hosts.rs`: hosts that share; `gate.rs`: rates; `wheel.rs`: timers; `ring.rs`: lists
//! - `touch.rs`: prefetches of what the next packets need
//! - `stage.rs`: the shapers of a node, whose packets are frames; `config.rs`: their text; `answer.rs`: what is shown of them

mod answer;
mod busy;
mod config;
mod due;
mod flows;
mod gate;
mod hosts;
mod ring;
mod round;
mod scheduler;
mod stage;
mod subscriber;
#[cfg(test)]
mod tests;
mod touch;
mod wheel;

pub use answer::{GroupState, QueueFigures};
pub(crate) use config::ShapeConfig;
pub(crate) use scheduler::{Departed, Offered, Why};
pub(crate) use stage::{Shapers, Side, plan};
