//! TCP load: many flows, each with its own congestion control, source address and start, counted where they arrive.
//!
//! ```text
//!  client: threads, one per CPU > flows ........................> server: threads, one per CPU > bytes of each flow
//!          TCP_INFO of each flow   control connection: barrier, intervals, sums <-- exact intervals, by the server's clock
//! ```
//! - All flows are connected before the first one sends (barrier); how far apart they began is part of the result.
//! - Goodput is what arrived in an interval, over the length of that interval as it was, for each flow. What arrives after the
//!   deadline is counted apart and never adds to a rate.
//! - A flow without progress for five retransmission timeouts is named, with its times.
//! - A flow ends by FIN and waits for that of the other side, or by RST. Sockets are set to send RST when they are closed
//!   early, so that a killed program leaves no connection that retransmits by itself.
//!
//! Files:
//! - `client/`: starts flows together and sends; `server.rs`: counts what arrives
//! - `wire.rs`: the control connection; `info.rs`: TCP_INFO; `ports.rs`, `preflight.rs`: checks before the first connection

#![deny(unsafe_op_in_unsafe_fn)]

mod client;
pub mod epoll;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod info;
mod ports;
mod preflight;
mod result;
mod server;
mod sys;
mod wire;

pub use client::{Group, IPERF3_PORT, Load, Observe, run};
pub use info::Info;
pub use result::{FlowOutcome, Interval, Outcome, Stall, jain};
pub use server::{PORT, Server, listen};

/// What prevents a load.
#[derive(Debug, thiserror::Error)]
pub enum FlowsError {
    /// A limit of this machine, or of the other; the text says which one, and what to do.
    #[error("{0}")]
    Limit(String),
    /// A system call.
    #[error("{step}: {source}")]
    System {
        /// What was tried.
        step: String,
        /// What the kernel says.
        source: std::io::Error,
    },
    /// No connection to the server can be made.
    #[error("connecting to {to} (there, `{program}` must run): {source}")]
    Unreachable {
        /// The server.
        to: std::net::SocketAddr,
        /// What must run there.
        program: &'static str,
        /// What the kernel says.
        source: std::io::Error,
    },
    /// The other side does not keep to the protocol.
    #[error("unexpected answer `{0}`: the server must be `weir flows --serve` of the same version")]
    Answer(String),
    /// The other side has closed the control connection.
    #[error("the server closed the control connection: it ended, or was killed")]
    Gone,
    /// The other side says nothing, for so many seconds.
    #[error(
        "nothing arrived on the control connection for {0} s: check that `weir flows --serve` runs there"
    )]
    Silent(u64),
}

impl FlowsError {
    pub(crate) fn at(step: impl Into<String>) -> impl FnOnce(std::io::Error) -> FlowsError {
        let step = step.into();
        move |source| FlowsError::System { step, source }
    }
}
