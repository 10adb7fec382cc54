//! The events of an attack: start, update and end.

use std::net::IpAddr;

use serde::Serialize;

use crate::class::Class;
use crate::counts::{Direction, Metric, Rates};
use crate::evidence::Evidence;

/// One line of the log of attacks. Times are ns since 1970.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Event {
    /// What happened.
    pub event: Kind,
    /// Number of the attack, from 1.
    pub attack: u64,
    /// When the slot ended that led to the event.
    pub time_ns: u64,
    /// When the rate over a second was first seen above the limit.
    pub crossed_ns: u64,
    /// The host; `None`: the group as a whole.
    pub host: Option<IpAddr>,
    /// Its group in the configuration.
    pub group: Option<String>,
    /// Which way the frames go.
    pub direction: Direction,
    /// What kind of attack it is: `SYN flood`, `DNS amplification`.
    pub class: Class,
    /// Which limit was exceeded most.
    pub metric: Metric,
    /// That limit.
    pub limit: f64,
    /// Whether it was learned, not configured.
    pub limit_learned: bool,
    /// Rates over the last `measured_s` before `time_ns`.
    pub rates: Rates,
    /// One second, but for the start of an attack with a rate that is known sooner: from half a second on, the time for which
    /// it has been steady. Had it ended then, its rate over a second would have been less: see `peak_pps`.
    pub measured_s: f64,
    /// Frames of the last second that were lost before they could be counted, of all hosts together. Where this is not
    /// zero, all rates are lower bounds.
    pub lost_pps: f64,
    /// By how much `rates.pps` may be too high at most, where more hosts came than fit into memory.
    pub error_pps: f64,
    /// Highest rate over a whole second so far, frames/s.
    pub peak_pps: f64,
    /// Highest rate over a whole second so far, bits/s.
    pub peak_bits_per_s: f64,
    /// Frames so far, from a second before the start.
    pub frames: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// What the frames since the last event have in common.
    pub evidence: Evidence,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A limit was exceeded.
    Start,
    /// It still is.
    Update,
    /// It is no more, by the margin and for the time of the configuration.
    End,
}
