//! Emulates the devices of an ISP's customers, to measure a concentrator (BNG) of any make.
//!
//! ```text
//!                     access side                     far side
//!  devices 0, 1, 2 .. ----------- [ BNG under test ] ----------- far end (own, or an echo server)
//!  DISCOVER > OFFER > REQUEST > ACK > ARP > first packet ----------> counted, timed
//!  PADI > PADO > PADR > PADS > PPP ------ > first packet ----------> counted, timed
//!                                    numbered traffic <-----------> numbered traffic
//! ```
//! [`Emulator`] is pure: (state, now, frame) -> frames. Its time is the argument `now_ns`, ns since the start. [`run`] does the I/O.
//!
//! - Devices start evenly paced, one by one, never in bursts.
//! - Every device ends as up, as failed at a [`Step`], or as released; [`Summary`] counts each once.
//! - A frame for one session that arrives at another one is counted as foreign.
//!
//! Files:
//! - `lines.rs`: the VLAN tags of each device; `options.rs`: what a run is asked to do
//! - `device.rs`: states of a device; `exchange.rs`: its messages; `emulator.rs`: all devices, their starts and deadlines
//! - `session.rs`: a session of PPPoE; `dial.rs`: its packets of discovery
//! - `emulator/dhcp.rs`, `emulator/pppoe.rs`, `emulator/forwarding.rs`: what a device does with DHCP, with PPPoE, and with ARP and packets
//! - `numbered.rs`, `sequence.rs`, `traffic.rs`: numbered packets, and what became of them; `far.rs`: the far end; `flood.rs`: frames of no device
//! - `wire.rs`: VLAN tags and the headers of PPPoE on frames; `summary.rs`: the figures
//! - `run.rs`: I/O of a run; `responder.rs`: the smallest BNG, to measure the emulator's own ceiling
//! - `radius.rs`: a RADIUS server with a stated delay, loss and answers

mod device;
mod dial;
mod emulator;
mod exchange;
mod far;
mod flood;
mod lines;
mod monkey;
mod numbered;
mod options;
pub mod radius;
pub mod responder;
pub mod run;
mod sequence;
mod session;
mod summary;
mod traffic;
mod wire;

pub use emulator::{Emulator, Output, Phase, Side};
pub use flood::{Flood, FloodKind};
pub use lines::Lines;
pub use numbered::{SHORTEST_FRAME, SHORTEST_FRAME6};
pub use options::{ClientId, Load, Options, Pppoe, Preset, Tapped, Template};
pub use summary::{
    ChurnSummary, Failed, Messages, MonkeySummary, Retransmissions, Step, Summary, Times, TrafficSummary,
};
pub use weir_bng::Mac;
pub use weir_bng::ppp::auth::Method;
