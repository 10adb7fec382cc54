//! Time as an integer, in picoseconds: a 64-byte frame at 400 Gbit/s lasts 1280 of them, and a sum never rounds.

use std::ops::{Add, AddAssign, Div, Mul, Sub};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A point in time since the start, or a length of time, in ps. Range: 0 to 213 days (2^64 ps).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(u64);

impl Time {
    /// The start, or no time at all.
    pub const ZERO: Time = Time(0);
    /// Later than all others: never.
    pub const MAX: Time = Time(u64::MAX);

    /// `ps` picoseconds.
    pub const fn from_ps(ps: u64) -> Time {
        Time(ps)
    }

    /// `ns` nanoseconds, at most 1.8e16 of them.
    pub const fn from_ns(ns: u64) -> Time {
        Time(ns.saturating_mul(1_000))
    }

    /// `us` microseconds.
    pub const fn from_us(us: u64) -> Time {
        Time(us.saturating_mul(1_000_000))
    }

    /// `ms` milliseconds.
    pub const fn from_ms(ms: u64) -> Time {
        Time(ms.saturating_mul(1_000_000_000))
    }

    /// `s` seconds, at most 18 million of them.
    pub const fn from_s(s: u64) -> Time {
        Time(s.saturating_mul(1_000_000_000_000))
    }

    /// `s` seconds to the nearest ps; negative ones and NaN are none, too many are [`Time::MAX`].
    pub fn from_secs(s: f64) -> Time {
        Time((s * 1e12).round() as u64)
    }

    /// Picoseconds.
    pub const fn ps(self) -> u64 {
        self.0
    }

    /// Nanoseconds, rounded down.
    pub const fn ns(self) -> u64 {
        self.0 / 1_000
    }

    /// Seconds.
    pub fn secs(self) -> f64 {
        self.0 as f64 / 1e12
    }
}

impl Add for Time {
    type Output = Time;
    fn add(self, other: Time) -> Time {
        Time(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Time {
    fn add_assign(&mut self, other: Time) {
        *self = *self + other;
    }
}

/// The time between two points; none if the second is later.
impl Sub for Time {
    type Output = Time;
    fn sub(self, other: Time) -> Time {
        Time(self.0.saturating_sub(other.0))
    }
}

impl Mul<u64> for Time {
    type Output = Time;
    fn mul(self, n: u64) -> Time {
        Time(self.0.saturating_mul(n))
    }
}

impl Div<u64> for Time {
    type Output = Time;
    fn div(self, n: u64) -> Time {
        Time(self.0 / n)
    }
}

/// In files a time is a number of seconds.
impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.secs())
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Time, D::Error> {
        let s = f64::deserialize(deserializer)?;
        if (0.0..=1e7).contains(&s) {
            Ok(Time::from_secs(s))
        } else {
            Err(serde::de::Error::custom(format!("{s} s is no time: write 0 to 1e7 seconds")))
        }
    }
}

/// How long packets take on a link of constant rate. The part of a picosecond that is left over is carried to the next
/// packet, so that the long-term rate is exact.
#[derive(Debug, Clone)]
pub struct Pace {
    bits_per_s: u64,
    remainder: u128,
}

impl Pace {
    /// A link of `bits_per_s`; 0 counts as 1.
    pub fn new(bits_per_s: u64) -> Pace {
        Pace { bits_per_s: bits_per_s.max(1), remainder: 0 }
    }

    /// Time on the link of the next packet, of `bytes`.
    pub fn slot(&mut self, bytes: u64) -> Time {
        let parts = u128::from(bytes) * 8 * 1_000_000_000_000 + self.remainder;
        let rate = u128::from(self.bits_per_s);
        self.remainder = parts % rate;
        Time(u64::try_from(parts / rate).unwrap_or(u64::MAX))
    }

    /// The rate, in bits/s.
    pub fn bits_per_s(&self) -> u64 {
        self.bits_per_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_of_a_link_is_exact_over_any_time() {
        for (bits_per_s, packets) in [(1_000_000_000, 7u64), (3_000_000, 3), (999_999_937, 1_000_003), (7, 5)]
        {
            let mut pace = Pace::new(bits_per_s);
            let total: Time = (0..packets).fold(Time::ZERO, |sum, _| sum + pace.slot(1514));
            let exact = u128::from(packets * 1514 * 8) * 1_000_000_000_000 / u128::from(bits_per_s);
            assert_eq!(u128::from(total.ps()), exact, "{packets} packets at {bits_per_s} bit/s");
        }
    }

    #[test]
    fn seconds_are_converted_to_the_nearest_picosecond() {
        for (s, ps) in
            [(0.0, 0), (1.5e-12, 2), (0.015, 15_000_000_000), (-1.0, 0), (f64::NAN, 0), (1e30, u64::MAX)]
        {
            assert_eq!(Time::from_secs(s).ps(), ps, "{s} s");
        }
        assert_eq!(Time::from_ms(1) - Time::from_ms(2), Time::ZERO);
    }
}
