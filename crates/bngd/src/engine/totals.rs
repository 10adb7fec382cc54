//! Counters of sessions over several lives of the node: what a node counted before it ended is kept as the base of what the next
//! one counts.
//!
//! ```text
//! total = base + count of the node
//! ```
//! After a start of this program the base is what the store has beyond the count of the node: at most what was counted within the
//! last minute before a node ended is lost, and no total goes back.

use std::collections::HashMap;

use weir_bng::{Counters, Session, SessionId};

use crate::table::Row;

/// Bases of sessions, but for those that are zero.
#[derive(Debug, Default)]
pub(super) struct Totals(HashMap<SessionId, Counters>);

impl Totals {
    /// A node with these counts was attached to, while these sessions had theirs.
    pub(super) fn begin<'a>(&mut self, sessions: impl Iterator<Item = &'a Session>, rows: &[Row]) {
        let counts: HashMap<u64, Counters> = rows.iter().map(|row| (row.session, row.counters)).collect();
        self.0.clear();
        for session in sessions {
            let count = counts.get(&session.id.0).copied().unwrap_or_default();
            let base = beyond(session.counters, count);
            if base != Counters::default() {
                self.0.insert(session.id, base);
            }
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
