//! When the fast path is used: all ports can take its frames, and it has enough hits.

use std::time::Duration;

use weir_plane::{FastCounts, Time};
use weir_port::fast::NO_ENTRY;

use super::Worker;
use crate::fast::Table;

impl Worker {
    /// Has programs pass frames on; false: not all ports can take them now.
    /// With `worth` they do as long as that pays.
    pub(crate) fn be_fast(&mut self, table: Table, worth: Option<Worth>) -> bool {
        self.worth = worth;
        self.plane.set_fast(Box::new(table));
        self.look_fast()
    }

    /// Frames leave otherwise than by the plane where all ports take them.
    pub(super) fn look_fast(&mut self) -> bool {
        let can = self.ports.iter().all(|port| port.takes_redirected());
        let counts = self.plane.fast_state().map(|state| state.counts);
        let pays =
            self.worth.as_mut().zip(counts).is_none_or(|(worth, counts)| worth.judge(self.now, &counts));
        self.plane.use_fast(can && pays);
        can
    }
}

/// Whether entries are worth what it costs each frame to look for one. An entry saves a frame the way through the node, several
/// times what the look costs (docs/node.md): with fewer hits than a quarter of the misses the node is faster without.
#[derive(Debug, Default)]
pub(crate) struct Worth {
    /// Frames that found one, and those that did not, at the last judgement.
    seen: (u64, u64),
    off_until: Option<Time>,
}

/// Misses for each hit, at most.
const MOST_MISSES: u64 = 4;
/// Nothing is judged by fewer frames without an entry.
const JUDGED: u64 = 100_000;
/// After this time entries are tried again.
const AGAIN: Duration = Duration::from_secs(60);

impl Worth {
    /// Are entries to be used from now on?
    pub(crate) fn judge(&mut self, now: Time, counts: &FastCounts) -> bool {
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
        let is_worth = misses <= hits * MOST_MISSES;
        self.off_until = (!is_worth).then(|| now + AGAIN);
        is_worth
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
        let (mut worth, at) = (Worth::default(), |s: u64| Time::from_ns(s * 1_000_000_000));
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
            assert_eq!(worth.judge(at(second), &counts(hits, misses)), used, "second {second}");
        }
    }
}
