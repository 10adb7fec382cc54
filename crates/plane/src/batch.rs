//! Up to 64 frames that pass the node together, and what becomes of each.
//!
//! A frame is known by its number in the batch, from 0. Numbers come out of a [`Set`], and index the types of this file: only
//! here it must be true that the frame exists.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::ops::{Index, IndexMut};

use crate::drops::DropReason;
use crate::frame::{Frame, PortId};
use crate::kept::Ticket;
use crate::local::Punt;
use crate::punt::PuntReason;
use crate::threads::{Handover, Ingress};

/// Frames of a batch: each stage's tables are touched for all of them before any is acted upon, so that they wait for
/// memory together.
pub const BATCH: usize = 64;

/// Some frames of a batch, a bit for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Set(u64);

impl Set {
    /// None.
    pub const EMPTY: Set = Set(0);

    /// One alone.
    #[inline]
    pub fn one(i: usize) -> Set {
        Set(1 << i)
    }

    /// The first `n`.
    pub fn first(n: usize) -> Set {
        debug_assert!(n <= BATCH);
        if n == BATCH { Set(u64::MAX) } else { Set((1 << n) - 1) }
    }

    /// One more.
    #[inline]
    pub fn insert(&mut self, i: usize) {
        self.0 |= 1 << i;
    }

    /// One less.
    #[inline]
    pub fn remove(&mut self, i: usize) {
        self.0 &= !(1 << i);
    }

    /// Whether `i` is one of them.
    #[inline]
    pub fn contains(self, i: usize) -> bool {
        self.0 >> i & 1 != 0
    }

    /// How many there are.
    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Those of either.
    pub fn or(self, other: Set) -> Set {
        Set(self.0 | other.0)
    }

    /// Those of both.
    pub fn and(self, other: Set) -> Set {
        Set(self.0 & other.0)
    }

    /// Those that are not in `other`.
    pub fn without(self, other: Set) -> Set {
        Set(self.0 & !other.0)
    }
}

impl Iterator for Set {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let i = self.0.trailing_zeros() as usize;
        self.0 &= self.0 - 1;
        // Tells the compiler that a bit of 64 is below 64.
        Some(i & (BATCH - 1))
    }
}

/// A value for each frame of a batch, by the frame's number.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PerFrame<T>([T; BATCH]);

impl<T: Copy> PerFrame<T> {
    /// The same for each.
    #[inline]
    pub(crate) fn all(one: T) -> PerFrame<T> {
        PerFrame([one; BATCH])
    }

    /// In the order of the frames.
    pub(crate) fn in_order(&self) -> impl Iterator<Item = T> + use<T> {
        self.0.into_iter()
    }
}

impl<T> Index<usize> for PerFrame<T> {
    type Output = T;

    #[inline]
    #[expect(clippy::indexing_slicing, reason = "the number of a frame is one of 64")]
    fn index(&self, i: usize) -> &T {
        &self.0[i]
    }
}

impl<T> IndexMut<usize> for PerFrame<T> {
    #[inline]
    #[expect(clippy::indexing_slicing, reason = "the number of a frame is one of 64")]
    fn index_mut(&mut self, i: usize) -> &mut T {
        &mut self.0[i]
    }
}

/// The frames of a batch, by their numbers.
#[derive(Debug)]
pub(crate) struct Frames<'s, 'a>(pub(crate) &'s mut [Frame<'a>]);

impl<'a> Index<usize> for Frames<'_, 'a> {
    type Output = Frame<'a>;

    #[inline]
    #[expect(clippy::indexing_slicing, reason = "a frame's number comes from a set of this batch")]
    fn index(&self, i: usize) -> &Frame<'a> {
        &self.0[i]
    }
}

impl<'a> IndexMut<usize> for Frames<'_, 'a> {
    #[inline]
    #[expect(clippy::indexing_slicing, reason = "a frame's number comes from a set of this batch")]
    fn index_mut(&mut self, i: usize) -> &mut Frame<'a> {
        &mut self.0[i]
    }
}

/// What becomes of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Still on its way.
    Live,
    /// Leaves by this port.
    Out(PortId),
    /// Is for the machine that the node runs on; before a batch has passed, [`Verdict::Punted`] or a drop is to follow.
    Local,
    /// Goes to the machine that the node runs on, for this reason.
    Punted(Punt),
    /// Goes to the control program, for this reason.
    Control(PuntReason),
    /// Waits in the memory that it came in: the caller of the plane sets that memory aside, see [`crate::Shelf`].
    Kept(Ticket),
    /// A copy waits inside the node.
    KeptCopy,
    /// Goes on in another thread of the node; the caller hands it over.
    Handed(Handover),
    /// Goes no further.
    Dropped(DropReason),
}

/// Frames that pass the node together.
#[derive(Debug)]
pub struct Batch<'a> {
    pub(crate) frames: Vec<Frame<'a>>,
    pub(crate) verdicts: PerFrame<Verdict>,
    pub(crate) ingress: PerFrame<Ingress>,
    /// How many frames were handed over by other threads.
    pub(crate) handed: usize,
    /// The control program has injected them.
    pub(crate) is_injected: bool,
    /// In a batch of frames that were kept: the ticket of each.
    pub(crate) tickets: Vec<Ticket>,
}

impl Default for Batch<'_> {
    fn default() -> Self {
        Batch {
            frames: Vec::with_capacity(BATCH),
            verdicts: PerFrame::all(Verdict::Live),
            ingress: PerFrame::all(Ingress::Wire),
            handed: 0,
            is_injected: false,
            tickets: Vec::new(),
        }
    }
}

impl<'a> Batch<'a> {
    /// A batch for frames that the control program has injected.
    pub fn injected() -> Batch<'a> {
        Batch { is_injected: true, ..Batch::default() }
    }

    /// Takes one more frame.
    ///
    /// # Panics
    /// If there are [`BATCH`] already.
    pub fn push(&mut self, frame: Frame<'a>) {
        assert!(self.frames.len() < BATCH, "room in the batch");
        self.frames.push(frame);
    }

    /// Takes one more frame, which another thread of the node has handed over.
    ///
    /// # Panics
    /// If there are [`BATCH`] already.
    pub fn push_handed(&mut self, frame: Frame<'a>, ingress: Ingress) {
        self.ingress[self.frames.len()] = ingress;
        self.handed += usize::from(ingress != Ingress::Wire);
        self.push(frame);
    }

    /// Takes one more frame, which was kept and comes back; such frames have batches of their own.
    ///
    /// # Panics
    /// If there are [`BATCH`] already.
    pub fn push_kept(&mut self, frame: Frame<'a>, ticket: Ticket) {
        self.tickets.push(ticket);
        self.push(frame);
    }

    /// How many frames there are.
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// The frames in the order they came in, each with what became of it.
    pub fn outcome(&self) -> impl Iterator<Item = (&Frame<'a>, Verdict)> {
        self.frames.iter().zip(self.verdicts.in_order())
    }
}

impl<'a> Index<usize> for Batch<'a> {
    type Output = Frame<'a>;

    #[inline]
    #[expect(clippy::indexing_slicing, reason = "a frame's number comes from a set of this batch")]
    fn index(&self, i: usize) -> &Frame<'a> {
        &self.frames[i]
    }
}

impl<'a> IndexMut<usize> for Batch<'a> {
    #[inline]
    #[expect(clippy::indexing_slicing, reason = "a frame's number comes from a set of this batch")]
    fn index_mut(&mut self, i: usize) -> &mut Frame<'a> {
        &mut self.frames[i]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_count_and_walk_in_order() {
        let mut set = Set::first(3).or(Set(1 << 63));
        assert_eq!(set.collect::<Vec<_>>(), [0, 1, 2, 63]);
        set.remove(1);
        assert_eq!((set.len(), set.contains(1), set.contains(63)), (3, false, true));
        assert_eq!(set.without(Set(1)).and(Set::first(64)).collect::<Vec<_>>(), [2, 63]);
        assert_eq!((Set::first(64).len(), Set::first(0).is_empty()), (64, true));
    }
}
