//! When the fast path is used: all ports can take its frames, and enough frames find an entry.

use std::time::Duration;

use weir_plane::{FastCounts, Time};
use weir_port::fast::NO_ENTRY;

use super::Worker;
use crate::fast::Table;

impl Worker {
    /// Has XDP programs pass frames on; false: not all ports can take such frames now. With `hit_rate` the programs do so as long
    /// as that is faster.
    pub(crate) fn be_fast(&mut self, table: Table, hit_rate: Option<HitRate>) -> bool {
        self.hit_rate = hit_rate;
        self.plane.set_fast(Box::new(table));
        self.look_fast()
    }

    /// Turns the fast path on or off: on if all ports take its frames and it is faster. False: not all ports take them.
    pub(super) fn look_fast(&mut self) -> bool {
        let can = self.ports.iter().all(|port| port.takes_redirected());
        let counts = self.plane.fast_state().map(|state| state.counts);
        let pays = self
            .hit_rate
            .as_mut()
            .zip(counts)
            .is_none_or(|(hit_rate, counts)| hit_rate.is_enough(self.now, &counts));
        self.plane.use_fast(can && pays);
        can
    }
}

/// Whether enough frames find an entry. The look-up costs every frame; an entry saves the way through the node, several times
/// that cost (docs/node.md). With fewer hits than a quarter of the misses the node is faster without the fast path.
#[derive(Debug, Default)]
pub(crate) struct HitRate {
    /// Frames that found an entry, and frames that did not, when they were last compared.
    seen: (u64, u64),
    off_until: Option<Time>,
}

/// Most misses per hit.
const MOST_MISSES: u64 = 4;
/// Hits and misses are compared after so many misses.
const JUDGED: u64 = 100_000;
/// After this time the fast path is tried again.
const AGAIN: Duration = Duration::from_secs(60);

impl HitRate {
    /// Whether the fast path is to be used from now on.
    pub(crate) fn is_enough(&mut self, now: Time, counts: &FastCounts) -> bool {
        let missed = counts.punts.iter().filter(|(why, _)| *why == NO_ENTRY).map(|(_, n)| n).sum::<u64>();
        let sums = (counts.received.iter().sum::<u64>(), missed);
        if self.off_until.is_some_and(|until| now < until) {
            return false;
        }
        if self.off_until.take().is_some() {
            self.seen = sums;
            return true;
        }
        let (hits, misses) = (sums.0 - self.seen.0, sums.1 - self.seen.1);
        if misses < JUDGED {
            return true;
        }
        self.seen = sums;
        let is_enough = misses <= hits * MOST_MISSES;
        self.off_until = (!is_enough).then(|| now + AGAIN);
        is_enough
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_that_few_frames_find_are_not_used_for_a_minute() {
        let counts = |hits, misses| FastCounts {
            received: vec![hits, 0],
            punts: vec![(NO_ENTRY, misses)],
            ..FastCounts::default()
        };
        let (mut hit_rate, at) = (HitRate::default(), |s: u64| Time::from_ns(s * 1_000_000_000));
        for (second, hits, misses, used) in [
            (1, 0, 99_999, true),       // too few to judge
            (2, 30_000, 120_000, true), // one of five frames
            (3, 30_000, 200_000, true),
            (4, 40_000, 250_000, false), // 10,000 of 140,000
            (63, 40_000, 900_000, false),
            (64, 40_000, 900_000, true), // tried again, whatever there was meanwhile
            (65, 60_000, 950_000, true),
            (66, 60_000, 999_999, true),
            (67, 60_000, 1_050_000, false),
        ] {
            assert_eq!(hit_rate.is_enough(at(second), &counts(hits, misses)), used, "second {second}");
        }
    }
}
