//! The thread of a frame that the node's machine has sent: that of its answers, so that a filter sees both directions of a
//! connection.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use weir_packet::steer::pick;

use super::nats::Owner;
use super::{Directed, Steering, addresses, ends};
use crate::batch::Verdict;
use crate::frame::{Fragment, Kind};
use crate::stage::Together;
use crate::stages::Stage;
use crate::time::Time;

impl Steering {
    /// What becomes of a frame of the machine on its way in `dir`, if this is not its thread.
    pub(crate) fn elsewhere_from_machine(
        &mut self,
        now: Time,
        directed: Directed<'_, '_>,
        stages: &[Stage],
    ) -> Option<Verdict> {
        let frame = directed.frame;
        if self.is_alone() {
            return None;
        }
        let owner = match self.together {
            Together::Nothing => return None,
            Together::Fragments if frame.fragment() == Fragment::Whole => return None,
            Together::Fragments => pick(addresses(frame), self.share.of),
            Together::Ends => pick(ends(frame), self.share.of),
            Together::Inside => self.owner_of_answer(now, directed, stages),
        };
        self.hand(owner)
    }

    /// The thread of the answer to a packet, where NATs say so. A machine sends the first fragment of a packet first.
    fn owner_of_answer(&mut self, now: Time, directed: Directed<'_, '_>, stages: &[Stage]) -> u8 {
        let frame = directed.frame;
        if frame.fragment() == Fragment::Later
            && let Some(owner) = self.meeting.find(now, directed)
        {
            return owner;
        }
        let owner = match self.nats.owner_of_answer(directed, stages) {
            Owner::Thread(thread) => thread,
            Owner::Hash(hash) => pick(hash, self.share.of),
        };
        if frame.fragment() == Fragment::First && frame.kind() == Kind::V4 {
            // None of its later fragments has come before it.
            self.meeting.learn(now, directed, owner);
        }
        owner
    }
}
