//! Limits of a machine under load: each setting that stops or slows it, and the cost of raising it.
//!
//! ```text
//! /proc, /sys, ethtool > Host > rules > ceilings, the worst first > fixes > written, with an undo file
//! ```
//! Rules are pure: they read a [`Host`], which may be a folder of a test. A [`Ceiling`] is computed against the [`Load`] that
//! the machine is meant for, before the load meets it.
//!
//! Files:
//! - `host.rs`: reads the machine; `ceiling.rs`: one ceiling; `rules/`: one file for each family of settings
//! - `fix.rs`: commands, their journal and their undo; `persist.rs`, `systemd.rs`: settings that survive a reboot

mod ceiling;
mod fix;
mod host;
mod persist;
mod rules;
pub mod systemd;

pub use ceiling::{Ceiling, Effect, Fix};
pub use fix::{FixError, Undo, Undone, apply, undo};
pub use host::{Host, Nic};
pub use persist::{forget, persist};
pub use rules::examine;

/// What the machine is meant for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// It forwards packets.
    Router,
    /// It forwards, and tracks connections.
    Nat,
    /// It captures packets.
    Capture,
    /// It sends and receives over few TCP connections of high rate.
    Tcp,
    /// It answers many TCP connections.
    Servers,
}

impl Role {
    /// All, in the order of the help text.
    pub const ALL: [Role; 5] = [Role::Router, Role::Nat, Role::Capture, Role::Tcp, Role::Servers];

    /// As people write it.
    pub fn name(self) -> &'static str {
        match self {
            Role::Router => "router",
            Role::Nat => "nat",
            Role::Capture => "capture",
            Role::Tcp => "tcp",
            Role::Servers => "servers",
        }
    }
}

/// The load that the machine is to carry.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load {
    /// TCP connections at the same time.
    pub connections: u64,
    /// Flows that a NAT or a stateful filter knows at the same time.
    pub flows: u64,
    /// Frames per second that one interface receives.
    pub frames_per_s: f64,
    /// Rate of one TCP connection, bit/s.
    pub bits_per_s: f64,
    /// Its round-trip time, seconds.
    pub rtt_s: f64,
}

impl Load {
    /// Bandwidth times delay, bytes.
    pub fn bdp_bytes(&self) -> f64 {
        self.bits_per_s / 8.0 * self.rtt_s
    }
}
