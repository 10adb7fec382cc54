//! Per-packet values (Nádas, Turányi, Rácz 2016; "Core-Stateless AQM"): resource sharing without state of flows.
//!
//! ```text
//! edge:   a flow's rate --V(b)--> each packet carries the value of the bandwidth at which it would still be sent
//! node:   drop what has the lowest value; what is worth keeping is the same for all flows
//! ```
//! If all packets below a value are dropped, each flow keeps the bandwidth that V assigns to this value, whatever its
//! congestion control and round trip. The same V for all gives equal shares; V(b / w) gives w-fold ones.
//!
//! - [`marker`]: sets values: a ladder of token buckets, or at random from the measured rate.
//! - [`DropMin`]: when full, the lowest value makes room.
//! - [`PvPie`]: PIE's probability as a quantile of recent values.
//! - [`CoreStateless`]: the threshold for which the kept bytes fit into the link.
//!
//! Parts of this are claimed in patents: US 11,563,698 (drop by value), US 12,021,756 (threshold from bytes per value),
//! US 12,500,850 (virtual queues, not implemented here). Ask the authors before products use it.

mod core_stateless;
mod drop_min;
mod histogram;
pub mod marker;
mod pvpie;
mod store;

pub use core_stateless::{CoreStateless, CoreStatelessConfig};
pub use drop_min::{DropMin, DropMinConfig};
pub use pvpie::{PvPie, PvPieConfig};

/// Values are 0 to `LEVELS` - 1.
pub const LEVELS: usize = 1024;

/// Bandwidth of the highest value, in bits/s.
const SLOWEST: f64 = 10e3;
/// Bandwidth of value 0, in bits/s.
const FASTEST: f64 = 10e9;

/// V: the value of a packet that is sent at `bits_per_s`, falling with the logarithm of the bandwidth from 10 kbit/s to
/// 10 Gbit/s; one value is a step of 1.4 %.
pub fn value(bits_per_s: f64) -> u16 {
    let share = (FASTEST / bits_per_s.max(SLOWEST)).ln().max(0.0) / (FASTEST / SLOWEST).ln();
    (share * (LEVELS - 1) as f64).round() as u16
}

/// The bandwidth of a value, in bits/s: the inverse of [`value`].
pub fn bandwidth(value: u16) -> f64 {
    FASTEST / (f64::from(value) / (LEVELS - 1) as f64 * (FASTEST / SLOWEST).ln()).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_fall_with_the_bandwidth_and_back() {
        for (bits_per_s, expected) in
            [(0.0, 1023), (10e3, 1023), (1e6, 682), (100e6, 341), (10e9, 0), (1e12, 0)]
        {
            assert_eq!(value(bits_per_s), expected, "{bits_per_s} bit/s");
        }
        for level in 0..LEVELS as u16 {
            assert_eq!(value(bandwidth(level)), level);
        }
    }
}
