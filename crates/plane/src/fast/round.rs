//! When which entries are read: all of them round by round, in pieces, so that no frame waits for a whole round.

use std::ops::Range;
use std::time::Duration;

use crate::time::Time;

/// In what time all entries are read.
const ROUND: Duration = Duration::from_secs(1);
/// Rounds over more entries than this take longer, so that they take no more of a thread's time.
const EACH_ROUND: u32 = 1 << 17;
/// So many entries are read at once, in some 50 us: frames may wait for them.
pub(super) const PIECE: u32 = 32;
/// A thread with nothing else to do reads again after this time: the entries of so long are few.
pub(super) const PAUSE: Duration = Duration::from_millis(5);

/// One reading of all entries.
#[derive(Default)]
pub(super) struct Round {
    began: Time,
    /// When it was last asked for.
    asked: Time,
    /// The next number to be read.
    at: u32,
}

impl Round {
    /// How long a round over so many entries takes.
    pub(super) fn period(entries: u32) -> Duration {
        ROUND * entries.div_ceil(EACH_ROUND).max(1)
    }

    /// The entries that are to be read now: a piece at most, or all of them if the last call is long ago, so that no entry waits
    /// for two periods.
    pub(super) fn due(&mut self, now: Time, entries: u32) -> Range<u32> {
        let period = Round::period(entries);
        let silence = now - std::mem::replace(&mut self.asked, now);
        if silence >= period / 2 {
            (self.began, self.at) = (now, entries);
            return 0..entries;
        }
        if self.at >= entries && now - self.began >= period {
            (self.began, self.at) = (self.began + period, 0);
        }
        let passed = (now - self.began).min(period);
        let aim = (u128::from(entries) * passed.as_nanos() / period.as_nanos()) as u32;
        let end = aim.min(self.at + PIECE);
        let is_short = end.saturating_sub(self.at) < PIECE;
        if is_short && end < entries {
            return 0..0;
        }
        let piece = self.at..end;
        self.at = end;
        piece
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However many entries there are, and become, and however often the method is called.
    #[test]
    fn every_entry_is_read_in_time_and_few_at_once() {
        for (first, last) in [(1, 1), (PIECE, PIECE), (100, 20_000), (20_000, 20_000), (100_000, 300_000)] {
            for between in [100, 50_000, 499_000, 700_000, 5_000_000].map(Duration::from_micros) {
                let (mut round, mut now, end) =
                    (Round::default(), Time::from_ns(7), Time::from_ns(9_000_000_000));
                let mut read = vec![now; last as usize];
                let mut entries = first;
                while now < end {
                    let share = (now - Time::default()).as_secs_f64() / 9.0;
                    let before = entries;
                    entries = first + (f64::from(last - first) * share) as u32;
                    read[before as usize..entries as usize].fill(now);
                    loop {
                        let piece = round.due(now, entries);
                        let most = if between < ROUND / 2 { PIECE } else { entries };
                        assert!(
                            piece.len() <= most as usize,
                            "{piece:?} of {entries}, asked every {between:?}"
                        );
                        if piece.is_empty() {
                            break;
                        }
                        for number in piece {
                            let passed = now - std::mem::replace(&mut read[number as usize], now);
                            let bound = (Round::period(entries) * 2).max(between);
                            assert!(
                                passed <= bound,
                                "{number} of {entries}, asked every {between:?}: {passed:?}"
                            );
                        }
                    }
                    now = now + between;
                }
                let bound = Round::period(entries) + between;
                let mut all = read[..entries as usize].iter();
                assert!(all.all(|&at| now - at <= bound), "{entries}, asked every {between:?}");
            }
        }
    }
}
