//! Counters of sessions over several lives of the node: what a node counted before it ended is kept as the base of what the next
//! one counts.
//!
//! ```text
//! total = base + count of the node
//! ```
//! After a start of this program the base is what the store has beyond the count of the node: at most what was counted within the
//! last minute before a node ended is lost, and no total goes back.

use std::collections::HashMap;

use weir_bng::{Counters, SessionId};

use crate::table::Row;

/// Bases of sessions, but for those that are zero.
#[derive(Debug, Default)]
pub(super) struct Totals(HashMap<SessionId, Counters>);

impl Totals {
    /// A node with these counts was attached to, while these sessions had theirs.
    pub(super) fn begin<'a>(
        &mut self,
        sessions: impl Iterator<Item = (SessionId, Counters)>,
        rows: impl Iterator<Item = &'a Row>,
    ) {
        let counts: HashMap<u64, Counters> = rows.map(|row| (row.session, row.counters)).collect();
        self.0.clear();
        for (session, total) in sessions {
            let count = counts.get(&session.0).copied().unwrap_or_default();
            self.take(session, total, count);
        }
    }

    /// A session has this total, and its node this count.
    fn take(&mut self, session: SessionId, total: Counters, count: Counters) {
        let base = beyond(total, count);
        if base != Counters::default() {
            self.0.insert(session, base);
        }
    }

    /// What a session has counted in all.
    pub(super) fn total(&self, session: SessionId, count: Counters) -> Counters {
        self.0.get(&session).map_or(count, |base| sum(*base, count))
    }

    /// A session has ended.
    pub(super) fn forget(&mut self, session: SessionId) {
        self.0.remove(&session);
    }
}

/// What `total` has beyond `count`; nothing, if the node counted on since the total was written.
fn beyond(total: Counters, count: Counters) -> Counters {
    let has_counted_on = count.max(total) == count;
    let left = |total: u64, count: u64| if has_counted_on { 0 } else { total.saturating_sub(count) };
    Counters {
        down_frames: left(total.down_frames, count.down_frames),
        down_bytes: left(total.down_bytes, count.down_bytes),
        up_frames: left(total.up_frames, count.up_frames),
        up_bytes: left(total.up_bytes, count.up_bytes),
    }
}

fn sum(base: Counters, count: Counters) -> Counters {
    Counters {
        down_frames: base.down_frames.saturating_add(count.down_frames),
        down_bytes: base.down_bytes.saturating_add(count.down_bytes),
        up_frames: base.up_frames.saturating_add(count.up_frames),
        up_bytes: base.up_bytes.saturating_add(count.up_bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counters with these frames, and ten times as many bytes.
    fn counters(down: u64, up: u64) -> Counters {
        Counters { down_frames: down, down_bytes: 10 * down, up_frames: up, up_bytes: 10 * up }
    }

    #[test]
    fn totals_go_on_over_restarts() {
        for (name, total, count, then, expected) in [
            ("the same node", counters(5, 5), counters(7, 8), counters(9, 9), counters(9, 9)),
            ("a new node", counters(5, 5), counters(0, 0), counters(2, 3), counters(7, 8)),
            (
                "a node that is newer than this program",
                counters(50, 50),
                counters(20, 5),
                counters(21, 6),
                counters(51, 51),
            ),
            (
                "one direction is behind",
                counters(50, 50),
                counters(20, 60),
                counters(21, 61),
                counters(51, 61),
            ),
        ] {
            let mut totals = Totals::default();
            totals.take(SessionId(1), total, count);
            assert_eq!(totals.total(SessionId(1), then), expected, "{name}");
        }
    }
}
