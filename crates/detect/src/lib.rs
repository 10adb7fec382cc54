//! Detection of attacks in a stream of frames: hosts that receive or send more than a configured or learned limit.
//!
//! ```text
//! headers > host table, flow set        every tenth of a second:  watches > start, update, end
//! ```
//! Each host inside the configured networks is counted, in both directions, in slots of a tenth of a second. A host
//! that comes near one of its limits is *watched*: its slots are kept, and some of its frames are looked at as
//! evidence. Limits are held against the last ten slots, one second. So the memory of millions of hosts is one cache
//! line each, and nothing is ever summed over all of them.
//!
//! Pure: no clock, no I/O. Time comes with the frames and with [`Engine::advance`], so that a capture file gives the
//! same events as the wire did.
//!
//! Files:
//! - `engine.rs`: events from a stream of headers; `table.rs`, `flows.rs`: counts of hosts and of flows
//! - `watch.rs`: when traffic is an attack; `class.rs`: the name of the attack; `evidence.rs`: what its frames have in common
//! - `unjudged.rs`: frames that are not judged, and how that is reported
//! - `announce.rs`, `standing.rs`, `kept.rs`: what is announced by BGP, how it is withdrawn, and the file that survives a crash
//! - `config.rs`, `prefix.rs`: the configuration
#![forbid(unsafe_code)]

mod announce;
mod class;
mod config;
mod counts;
mod engine;
mod event;
mod evidence;
mod flows;
pub mod kept;
mod prefix;
mod standing;
mod table;
mod unjudged;
mod watch;

pub use announce::{Announce, Commands, Daemon, Route};
pub use class::Class;
pub use config::{Actions, CaptureSpec, Config};
pub use counts::{Direction, Metric, Rates};
pub use engine::{ClockStep, Engine, Status};
pub use event::{Event, Kind};
pub use evidence::{Evidence, Share};
pub use standing::{Announcements, Decision, Order, Standing};
pub use unjudged::{Gap, NotJudged, Unjudged};
