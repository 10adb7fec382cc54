//! When the threads of a node may end: no frame can come from any of them any more.
//!
//! Invariant: a frame counts as landed when it has been dealt with, and handed on where need be. So when all threads are done
//! with their ports and all frames that were handed over have landed, nothing can come any more.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::word::Word;

/// What each thread has handed over and taken, and which threads are done.
pub(crate) struct Termination<W = AtomicU64> {
    counts: Vec<Counts<W>>,
    /// Threads that are done: their ports have nothing left and get nothing new.
    done: W,
    /// 1: a thread has ended before it was done, and never will be.
    failed: W,
}

/// Counters that one thread writes, in a cache line of their own.
#[repr(align(64))]
struct Counts<W> {
    handed: W,
    landed: W,
}

impl<W: Word> Termination<W> {
    pub(crate) fn new(threads: usize) -> Termination<W> {
        let counts = || Counts { handed: W::new(0), landed: W::new(0) };
        Termination { counts: (0..threads).map(|_| counts()).collect(), done: W::new(0), failed: W::new(0) }
    }

    /// A thread has handed over so many frames; called before the frame can come out at the other end.
    pub(crate) fn handed(&self, thread: usize, frames: u64) {
        self.counts[thread].handed.store(frames, Ordering::Release);
    }

    /// A thread has dealt with so many of the frames that were handed to it.
    pub(crate) fn landed(&self, thread: usize, frames: u64) {
        self.counts[thread].landed.store(frames, Ordering::Release);
    }

    /// The ports of one more thread have nothing left and get nothing new.
    pub(crate) fn done(&self) {
        self.done.add(1, Ordering::SeqCst);
    }

    /// A thread has ended before it was done.
    pub(crate) fn failed(&self) {
        self.failed.store(1, Ordering::Relaxed);
    }

    /// Whether nothing can come from any thread any more, or one of them has failed.
    pub(crate) fn is_over(&self) -> bool {
        if self.failed.load(Ordering::Relaxed) == 1 {
            return true;
        }
        if self.done.load(Ordering::SeqCst) < self.counts.len() as u64 {
            return false;
        }
        // In this order: if they are equal, they were so when the last of the landed was read (Mattern, "Algorithms for
        // distributed termination detection", 1987).
        let landed: u64 = self.counts.iter().map(|counts| counts.landed.load(Ordering::Acquire)).sum();
        let handed: u64 = self.counts.iter().map(|counts| counts.handed.load(Ordering::Acquire)).sum();
        landed == handed
    }
}

#[cfg(test)]
mod tests {
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicU64 as Tried;

    use super::*;

    /// One thread hands a frame to another, which hands it on to the third, where it lands: a thread that finds the node is over
    /// finds the frame landed.
    #[test]
    fn no_interleaving_is_over_while_a_frame_is_on_its_way() {
        struct World {
            termination: Termination<Tried>,
            /// Frames in the rings of the second and the third thread.
            rings: [Tried; 2],
            /// It has come to its end.
            is_there: Tried,
        }
        let mut model = loom::model::Builder::new();
        // Of all interleavings those with three changes of threads that nothing forces (LOOM_MAX_PREEMPTIONS allows more).
        model.preemption_bound = model.preemption_bound.or(Some(3));
        model.check(|| {
            let rings = [Tried::new(0), Tried::new(0)];
            let world = Arc::new(World { termination: Termination::new(3), rings, is_there: Tried::new(0) });
            let second = world.clone();
            let relay = loom::thread::spawn(move || {
                second.termination.done();
                if second.rings[0].load(Ordering::Acquire) == 1 {
                    second.termination.handed(1, 1);
                    second.rings[1].store(1, Ordering::Release);
                    second.termination.landed(1, 1);
                }
            });
            let third = world.clone();
            let end = loom::thread::spawn(move || {
                third.termination.done();
                if third.rings[1].load(Ordering::Acquire) == 1 {
                    third.is_there.store(1, Ordering::Relaxed);
                    third.termination.landed(2, 1);
                }
            });
            world.termination.handed(0, 1);
            world.rings[0].store(1, Ordering::Release);
            world.termination.done();
            if world.termination.is_over() {
                assert_eq!(
                    world.is_there.load(Ordering::Relaxed),
                    1,
                    "it is over, and a frame is on its way"
                );
            }
            [relay, end].into_iter().for_each(|thread| thread.join().expect("it does not panic"));
        });
    }
}
