//! BBR version 2: the rules that differ from version 3 (google/bbr, branch v2alpha), on the same engine.
//!
//! Version 2 of 2019 ends its probe upward once 1.25 times the bandwidth-delay product has been in flight for a round trip,
//! where version 3 waits for a plateau of the delivery rate.

use super::bbr3::{Plateau, Rules, UpEnds};

/// Version 2.
pub const RULES: Rules = Rules {
    startup_pacing_gain: 2.885,
    startup_cwnd_gain: 2.885,
    startup_loss_events: 8,
    plateau: Plateau::MaxBw,
    drain_gain: 0.347,
    drain_rounds: None,
    down_gain: 0.75,
    up_cwnd_gain: 2.0,
    up_ends: UpEnds::InFlight(1.25),
    ecn_reprobe_gain: None,
};
