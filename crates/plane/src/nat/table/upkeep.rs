//! What ends by time.

use super::Table;
use crate::nat::log::EventKind;
use crate::table::timers::{Tick, WALK_INTERVAL};
use crate::time::Time;

/// Blocks that one call gives back to the pool.
const BLOCKS_AT_A_TIME: usize = 16;
impl Table {
    /// When something is due: leases exactly, and while there are sessions or resting blocks, the walk over all.
    pub(crate) fn due(&self, now: Time) -> Option<Time> {
        let has_any =
            self.sessions.live() > self.foreign || self.pool.has_resting() || !self.awaited.is_empty();
        [self.leases_due(), has_any.then(|| now + WALK_INTERVAL)].into_iter().flatten().min()
    }

    /// Ends what is too old, a part of it in each call; true if there is more.
    pub(crate) fn expire(&mut self, now: Time) -> bool {
        let tick = Tick::of(now);
        if !self.awaited.is_empty() {
            self.do_awaited(now);
        }
        let more_leases = self.end_leases(now);
        for number in self.hand.walk(tick, self.sessions.numbers()).into_iter().flatten() {
            let slot = &self.sessions[number];
            if self.ages.over(slot.track.class, slot.seen, tick) {
                self.end_session(now, number);
            }
        }
        for _ in 0..BLOCKS_AT_A_TIME {
            let Some((owner, id)) = self.pool.rested(tick) else {
                return more_leases || self.hand.is_behind();
            };
            let block = self.pool.release(id, &mut self.subscribers[owner].holding);
            self.log_block(now, EventKind::BlockReleased, owner, block);
            self.subscribers.forget_idle(&self.secret, owner);
        }
        true
    }
}
