//! A tester with its two ports on two hosts: port b, `remote` in [external], is controlled from here over SSH.
//!
//! ```text
//!  here: Pair --- Tester [a] ---> box ---> [b] Tester --- weir agent tester :there
//!          \__ Remote == Link ========== ssh, JSON lines ============= agent __/
//! ```
//! Each host has a tester with one port, and the three parts of a trial are led from here: both arm, both send, and each
//! stream is settled where it arrives. The clocks of the hosts have nothing to do with each other, so that the latency
//! of what passes from one to the other is not known; for the start of both senders, the difference is measured anew
//! before each trial.
//!
//! The remote side keeps nothing that outlives it, and ends with its connection: at once when it is closed, after
//! [`SILENCE`](weir_agent::protocol::SILENCE) when it is cut without a word.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use weir_load::TesterKind;
use weir_load::counts::{Load, Sent, Traffic};

mod agent;
mod end;
mod heard;
mod pair;
mod tried;

pub use agent::serve;
pub(crate) use end::Remote;
pub(crate) use pair::{Elsewhere, Hosts, Pair};
#[doc(hidden)]
pub use tried::{examples, take_in};

/// A request to the remote tester.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Request {
    /// Take an interface, and answer for the tester's address there. Returns its Ethernet address.
    Open(Opening),
    /// Returns the Ethernet address of the box.
    Resolve { from: IpAddr, target: IpAddr },
    /// Put a tester on the interface. Returns what a reader must know about it.
    Tester { kind: TesterKind, traffic: Traffic },
    /// Returns what the interface has counted.
    Counters,
    /// Returns CLOCK_MONOTONIC, ns.
    Clock,
    /// See [`weir_load::Tester::arm`].
    Arm { load: Load, epoch: u8 },
    /// See [`weir_load::Tester::send`]; `None` = soon. Returns [`Fired`].
    Send { at_ns: Option<u64> },
    /// See [`weir_load::Tester::settle`]. Returns the counts.
    Settle(Sent),
}

/// Which interface, and what for.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Opening {
    port: String,
    /// The tester's address on it.
    address: IpAddr,
    /// Longest frame.
    frame_bytes: u16,
    allow_default_route: bool,
}

/// What the remote side has sent.
#[derive(Debug, Serialize, Deserialize)]
struct Fired {
    sent: Sent,
    /// When its first frame was due, by its own clock.
    at_ns: u64,
    /// How long its thread waited for a CPU meanwhile.
    wait_ns: u64,
}
