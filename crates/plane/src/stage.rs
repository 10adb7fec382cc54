//! What stages have in common: the directions, what a stage may do with the frames of a batch, and what it is asked (`stage/kind.rs`);
//! what its configuration is asked (`stage/config.rs`).
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

mod config;
mod kind;
mod surroundings;

use std::ops::{Index, IndexMut};

use crate::access::Subscribers;
use crate::batch::{Frames, PerFrame, Set, Verdict};
use crate::dir::{Dir, EntryPoint};
use crate::drops::{DropReason, Drops};
use crate::frame::{PortId, Subscriber};
use crate::icmp::Error;
use crate::kept::Ticket;
use crate::outbox::Outbox;
use crate::threads::{Handover, Ingress};
use crate::time::Time;

pub(crate) use config::{ConfigKind, Configured, Loss, NodeParts, ObjectChange, Reading, StageCommand};
pub(crate) use kind::{StageKind, Together, Waiting};
pub(crate) use surroundings::{Forwarding, Mtus, Surroundings};

/// One of a kind for each direction, so that neither end takes from the other.
#[derive(Debug)]
pub(crate) struct ByDir<T> {
    outward: T,
    inward: T,
}

impl<T> ByDir<T> {
    /// Two that are made alike.
    pub(crate) fn new(one: impl Fn() -> T) -> ByDir<T> {
        ByDir { outward: one(), inward: one() }
    }

    /// One for each direction.
    pub(crate) fn each_of(one: impl Fn(Dir) -> T) -> ByDir<T> {
        ByDir { outward: one(Dir::Outward), inward: one(Dir::Inward) }
    }

    /// Both, to be looked at.
    pub(crate) fn both(&self) -> [&T; 2] {
        [&self.outward, &self.inward]
    }

    /// Both.
    pub(crate) fn each(&mut self) -> [&mut T; 2] {
        [&mut self.outward, &mut self.inward]
    }
}

impl<T> Index<Dir> for ByDir<T> {
    type Output = T;

    fn index(&self, dir: Dir) -> &T {
        match dir {
            Dir::Outward => &self.outward,
            Dir::Inward => &self.inward,
        }
    }
}

impl<T> IndexMut<Dir> for ByDir<T> {
    fn index_mut(&mut self, dir: Dir) -> &mut T {
        match dir {
            Dir::Outward => &mut self.outward,
            Dir::Inward => &mut self.inward,
        }
    }
}

/// A batch at a stage.
pub(crate) struct Step<'s, 'a> {
    pub(crate) now: Time,
    pub(crate) frames: Frames<'s, 'a>,
    pub(crate) outbox: &'s mut Outbox,
    pub(crate) drops: &'s mut Drops,
    pub(crate) subscribers: &'s mut Subscribers,
    pub(super) verdicts: &'s mut PerFrame<Verdict>,
    /// Frames that have turned at this stage.
    pub(super) turned: Set,
    /// The stage in the order of the text.
    pub(super) stage: usize,
}

impl Step<'_, '_> {
    /// The frame goes no further.
    pub(crate) fn drop(&mut self, i: usize, reason: DropReason) {
        self.drops.count(reason);
        self.verdicts[i] = Verdict::Dropped(reason);
    }

    /// The frame goes no further, and its sender is informed; the error enters the pipeline at `back`.
    pub(crate) fn refuse(&mut self, i: usize, reason: DropReason, error: Error, back: EntryPoint) {
        self.outbox.report(self.now, &self.frames[i], error, back);
        self.drop(i, reason);
    }

    /// The frame goes on in another thread, with this ingress.
    pub(crate) fn hand(&mut self, i: usize, to: u8, ingress: Ingress) {
        self.verdicts[i] = Verdict::Handed(Handover { to, ingress });
    }

    /// The stage keeps the frame, which it passes on later with [`Outbox::emit`], or gives up with [`Outbox::discard`].
    pub(crate) fn keep(&mut self, i: usize) -> Ticket {
        let ticket = self.outbox.keep(&self.frames[i]);
        self.verdicts[i] = Verdict::Kept(ticket);
        ticket
    }

    /// The stage has made a copy, which it passes on in the frame's place with [`Outbox::emit_copy`], or gives up with
    /// [`Outbox::discard_copies`].
    pub(crate) fn keep_copy(&mut self, i: usize) {
        self.outbox.kept_count += 1;
        self.verdicts[i] = Verdict::KeptCopy;
    }

    /// The frame is for the machine that the node runs on.
    pub(crate) fn local(&mut self, i: usize) {
        self.verdicts[i] = Verdict::Local;
    }

    /// The frame leaves by this port.
    pub(crate) fn leave(&mut self, i: usize, port: PortId) {
        self.verdicts[i] = Verdict::Out(port);
    }

    /// The outward frame turns here and passes the stages before this one inward; it is not among those that go on.
    pub(crate) fn turn(&mut self, i: usize) {
        // The subscriber of the outward direction is not that of the inward one.
        (self.frames[i].policed_host, self.frames[i].subscriber) = (0, Subscriber::NONE);
        self.turned.insert(i);
    }

    /// Where a frame of the stage's own goes on that answers one on its way in `dir`: back to where that came from.
    pub(crate) fn back(&self, dir: Dir) -> EntryPoint {
        match dir {
            Dir::Outward => EntryPoint::Inward { below: self.stage },
            Dir::Inward => EntryPoint::Outward { above: self.stage + 1 },
        }
    }

    /// Where a frame comes to this stage once more on its way in `dir`.
    pub(crate) fn again(&self, dir: Dir) -> EntryPoint {
        match dir {
            Dir::Outward => EntryPoint::Outward { above: self.stage },
            Dir::Inward => EntryPoint::Inward { below: self.stage + 1 },
        }
    }

    /// Where a frame goes on that this stage kept on its way in `dir`.
    pub(crate) fn onward(&self, dir: Dir) -> EntryPoint {
        match dir {
            Dir::Outward => EntryPoint::Outward { above: self.stage + 1 },
            Dir::Inward => EntryPoint::Inward { below: self.stage },
        }
    }
}
