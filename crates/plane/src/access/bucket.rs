//! The token bucket of one direction of a subscriber, as the policer's (`police/buckets.rs`), but within its entry.
//!
//! ```text
//! lacks   what the bucket lacks until it is full: bits/s times ns, that is, billionths of a bit, so that nothing is rounded
//! a frame lacks - granted since then + its bits <= burst: it passes, and the bucket lacks that much
//! ```
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use crate::time::Time;

/// Billionths of a bit in a byte.
const BYTE: u64 = 8_000_000_000;
/// The burst is what the rate grants in this time, ns. TCP that has lost much waits for 200 ms or more (RTO), and is to find the tokens
/// of that time then: with 100 ms it gets half of the rate.
const BURST_NS: u64 = 500_000_000;
/// But at least the longest frame of any port, bytes.
const LEAST_BURST_BYTES: u64 = 9244;
/// And at most so much, which `lacks` can hold: 90 ms of the largest rate.
const MOST_BURST: u64 = 9_000_000_000_000_000_000;
/// The largest rate, bits/s.
pub(super) const MOST_BITS_PER_S: u64 = 100_000_000_000;

/// A bucket; full at first.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Bucket {
    /// 0: no limit.
    bits_per_s: u64,
    lacks: u64,
    at: Time,
}

impl Bucket {
    /// Sets the rate, at most [`MOST_BITS_PER_S`]; the bucket lacks what it lacked, but no more than the new burst.
    pub(super) fn set_rate(&mut self, bits_per_s: u64) {
        self.bits_per_s = bits_per_s;
        self.lacks = self.lacks.min(self.burst());
    }

    /// The rate; 0: no limit.
    #[inline]
    pub(super) fn bits_per_s(&self) -> u64 {
        self.bits_per_s
    }

    /// A frame passes that no bucket limits: then this one is full.
    #[inline]
    pub(super) fn note(&mut self, now: Time) {
        (self.lacks, self.at) = (0, now);
    }

    /// When the last frame passed; the beginning of time, if there was none.
    pub(super) fn last(&self) -> Time {
        self.at
    }

    fn burst(&self) -> u64 {
        self.bits_per_s.saturating_mul(BURST_NS).clamp(LEAST_BURST_BYTES * BYTE, MOST_BURST)
    }

    /// Whether there are tokens for a frame of so many bytes; if so, they are taken.
    #[inline]
    pub(super) fn allow(&mut self, now: Time, bytes: usize) -> bool {
        if self.bits_per_s == 0 {
            self.note(now);
            return true;
        }
        let granted = self.bits_per_s.saturating_mul((now - self.at).as_nanos() as u64);
        let lacks = self.lacks.saturating_sub(granted) + bytes as u64 * BYTE;
        if lacks > self.burst() {
            return false;
        }
        (self.lacks, self.at) = (lacks, now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whenever frames come: of a subscriber that always has more to send the burst and the rate pass, to the frame.
    #[test]
    fn the_rate_is_exact() {
        let mut bucket = Bucket::default();
        bucket.set_rate(80_000_000);
        let (mut passed, mut ns) = (0_u64, 0_u64);
        // A frame of 1000 bytes takes 100 us; the burst has 5000 of them.
        for step in 0..100_000_u64 {
            ns += step * 7919 % 61_000;
            passed += u64::from(bucket.allow(Time::from_ns(ns), 1000));
        }
        let all = 5000 + ns / 100_000;
        assert!((all - 1..=all).contains(&passed), "{passed} of {all} in {ns} ns");
    }

    #[test]
    fn a_smaller_rate_begins_with_no_more_than_its_burst_to_make_good() {
        let mut bucket = Bucket::default();
        assert!(bucket.allow(Time::default(), 9000), "no limit");
        bucket.set_rate(MOST_BITS_PER_S);
        assert!((0..100_000).all(|_| bucket.allow(Time::default(), 9000)));
        bucket.set_rate(800_000);
        assert!(!bucket.allow(Time::default(), 1));
        // All of its 50,000 bytes are there again after 500 ms.
        assert!(
            (0..5).all(|_| bucket.allow(Time::from_ms(500), 9244)) && !bucket.allow(Time::from_ms(500), 9244)
        );
    }
}
