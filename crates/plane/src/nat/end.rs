//! A NAT that goes away: the log is informed of all that lived in it that it has ended.

use super::Nat;
use super::log::{Event, What};
use super::ports::Granted;
use super::slot::Slot;
use super::table::Table;
use crate::time::Time;

impl Nat {
    /// What the log is to be reported at last: what it was not asked for yet, then each block and each session as ended; and
    /// how many events there was no room for, ever. It takes its time.
    pub(crate) fn end(&mut self, now: Time) -> (Vec<Event>, u64) {
        let table = &mut self.table;
        let mut reported = Vec::new();
        // At once: the log has room for so many.
        let mut fetch = |table: &mut Table| reported.extend(table.log.drain().0);
        fetch(table);
        let blocks: Vec<(u32, Granted)> = table.pool.granted_all().collect();
        for (owner, block) in blocks {
            table.log_block(now, What::BlockReleased, owner, block);
            fetch(table);
        }
        for number in 1..table.sessions.numbers() {
            let slot: Slot = table.sessions[number];
            if slot.owns_port() && !slot.is_fixed() {
                table.log_session(now, What::SessionDeleted, &slot);
                fetch(table);
            }
        }
        (reported, table.log.drain().1)
    }
}
