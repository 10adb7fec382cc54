//! One NAT of several threads: whose a frame is. Each has tables and blocks of ports of its own, so that what two threads
//! know never differs.
//!
//! | frame | belongs to the thread of |
//! |---|---|
//! | from inside | its source address; without ports, as GRE: its remote address |
//! | for a port of a public address | who gives it out, see `deal.rs` |
//! | for a port that is forwarded, an address that is one-to-one, a block that is somebody's for good | the inside address |
//! | for a public address, without ports | its remote address |
//! | that is not translated | both addresses |
//! | an error of ICMP | the packet that it quotes, as if it came back |
//!
//! A frame from inside for a public address has two owners: the first translates its source, the second its destination.
//! A forward holds its port in all threads, so that all know whose it is, and none gives the port to somebody else.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use weir_packet::steer::{mix4, mix6, pick};

use super::icmp::quote;
use super::outside::{Place, Space};
use super::slot::{Address, Slot};
use super::table::Table;
use super::{Nat, Owner};
use crate::address::bits;
use crate::frame::{Fragment, Frame, Kind};
use crate::stage::{Dir, Step};
use crate::steer::{Way, quoted6};

impl Nat {
    /// The thread that a frame belongs to on its way in `dir`. That of a later fragment for a port is its first one's.
    pub(crate) fn owner(&self, frame: &Frame<'_>, dir: Dir) -> u8 {
        let mixed = match (frame.kind(), dir) {
            (Kind::V4, Dir::Outward) => self.mixed_out(frame),
            (Kind::V4, Dir::Inward) => match self.mixed_in(frame) {
                Ok(mixed) => mixed,
                Err(place) => return self.table.owner(place),
            },
            _ => self.mixed6(frame, dir),
        };
        pick(mixed, self.table.share.of)
    }

    /// Whether a frame is a fragment whose owner follows from its packet's first one.
    pub(crate) fn is_piece(&self, frame: &Frame<'_>, dir: Dir) -> bool {
        if frame.kind() != Kind::V4 {
            return frame.is_piece_of_icmp();
        }
        dir == Dir::Inward
            && frame.fragment() != Fragment::Whole
            && Space::of(frame.proto()).is_some()
            && self.table.outside.number(frame.addresses4().1).is_some()
    }

    fn mixed_out(&self, frame: &Frame<'_>) -> u32 {
        let ((inside, remote), proto) = match quoted(frame) {
            Some(quote) => ((quote.dst.0, quote.src.0), quote.proto),
            None => (frame.addresses4(), frame.proto()),
        };
        let config = &self.table.config;
        if config.exclude.contains(remote) {
            mix4(inside).wrapping_add(mix4(remote))
        } else if Space::of(proto).is_none() && config.pairs.of(inside).is_none() {
            mix4(remote)
        } else {
            mix4(inside)
        }
    }

    fn mixed_in(&self, frame: &Frame<'_>) -> Result<u32, Place> {
        let ((remote, own), port, proto) = match quoted(frame) {
            Some(quote) => ((quote.dst.0, quote.src.0), quote.src.1, quote.proto),
            None => (frame.addresses4(), frame.ports().1, frame.proto()),
        };
        if let Some(pair) = self.table.config.pairs.at(own) {
            return Ok(mix4(pair.inside));
        }
        match (self.table.outside.number(own), Space::of(proto)) {
            (None, _) => Ok(mix4(own).wrapping_add(mix4(remote))),
            (_, None) => Ok(mix4(remote)),
            (Some(outside), Some(space)) => Err(Place { outside, space, port }),
        }
    }

    fn mixed6(&self, frame: &Frame<'_>, dir: Dir) -> u32 {
        let (inside, remote) = match (quoted6(frame), dir) {
            (Some((src, dst)), Dir::Outward) => (dst, src),
            _ => frame.addresses6(),
        };
        let is_translated = self.table.config.prefix64.is_some_and(|prefix| prefix.extract(remote).is_some());
        match dir == Dir::Outward && is_translated {
            true => mix6(inside),
            false => mix6(inside).wrapping_add(mix6(remote)),
        }
    }

    /// Hands a frame whose source is translated to the thread that its destination belongs to, if that is another.
    pub(super) fn hand_hairpin(&mut self, step: &mut Step<'_, '_>, i: usize) -> bool {
        if self.table.share.of == 1 {
            return false;
        }
        let owner = match step.frames[i].fragment() {
            Fragment::Later => self.thread_of_first(step, i),
            _ => self.owner(&step.frames[i], Dir::Inward),
        };
        if owner == self.table.share.thread {
            return false;
        }
        if step.frames[i].fragment() == Fragment::First {
            self.note_thread(step, i, owner);
        }
        step.hand(i, owner, Way::Turned);
        true
    }

    /// Asks the thread that a frame for an address of the node itself would belong to, whether a mapping awaits it, if
    /// that is another.
    pub(super) fn ask_other(&self, step: &mut Step<'_, '_>, i: usize) -> bool {
        let owner = self.owner(&step.frames[i], Dir::Inward);
        let is_other = owner != self.table.share.thread;
        if is_other {
            step.hand(i, owner, Way::Asks);
        }
        is_other
    }
}

fn quoted(frame: &Frame<'_>) -> Option<super::icmp::Quote> {
    if frame.is_whole_icmp_error() { quote(frame).ok() } else { None }
}

impl Table {
    /// The thread that a port of a public address belongs to.
    fn owner(&self, place: Place) -> u8 {
        if self.has_forwards {
            let number = self.outside.slot(place);
            if number != 0 && self.sessions[number].is_fixed() {
                return self.owner_of(self.sessions[number].inside().address);
            }
        }
        let fixed = self.config.deterministic.as_ref();
        match fixed.map(|fixed| fixed.owner_at(place.outside.into(), place.port)) {
            Some(Owner::Subscriber(address)) => pick(mix4(address), self.share.of),
            _ => {
                let address = self.outside.address(place.outside);
                self.config.deal.map_or(0, |deal| deal.thread(address, place.port))
            }
        }
    }

    /// The thread of an inside address.
    pub(super) fn owner_of(&self, address: Address) -> u8 {
        let mixed = match address {
            [0, 0, 0xffff, v4] => mix4(v4),
            words => mix6(bits(words)),
        };
        pick(mixed, self.share.of)
    }

    /// Whether a mapping by configuration is there for another thread to use, and here only holds its port.
    pub(super) fn is_foreign(&self, slot: &Slot) -> bool {
        self.share.of > 1 && slot.is_fixed() && self.owner_of(slot.inside().address) != self.share.thread
    }
}
