//! Slots of protocols without ports, see `../portless.rs`.

use super::Table;
use crate::drops::DropReason;
use crate::nat::flow::Flow;
use crate::nat::slot::{Inside, Kind, Remote};
use crate::table::tcp::Segment;
use crate::table::timers::Tick;
use crate::time::Time;

impl Table {
    /// The slot of a frame from inside, a new one if need be.
    pub(crate) fn outbound_portless(
        &mut self,
        now: Time,
        inside: Inside,
        remote: u32,
    ) -> Result<u32, DropReason> {
        let remote = Remote { address: remote, port: 0 };
        let known = self.sessions.session(&self.secret, &inside, remote, Kind::Private);
        match self.alive(now, known) {
            0 => self.create(now, &Flow { inside, remote, segment: Segment::default() }),
            known => {
                self.sessions[known].seen = Tick::of(now);
                Ok(known)
            }
        }
    }
}
