//! Wakes a thread that sleeps, and only then costs a system call.
//!
//! ```text
//!   the giving thread:  put it there > fence > asleep? > ring
//!   the thread:         say "asleep" > fence > is there something? > sleep until it rings
//! ```
//! Invariant: of the two fences one is first, so that either the thread sees what was put there, or the other one sees that
//! it sleeps. The tests try every interleaving.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::word::Word;

/// Wakes a thread.
pub(crate) struct Bell {
    state: State<AtomicU64>,
    wake: UnixStream,
}

/// What both sides know of a bell, each either 0 or 1.
struct State<W> {
    /// The thread sleeps, or is about to.
    asleep: W,
    /// There is something to read where it waits, and has been since before this was set.
    method: W,
}

impl<W: Word> State<W> {
    fn new() -> State<W> {
        State { asleep: W::new(0), method: W::new(0) }
    }

    /// Whether the thread is to be woken, behind whatever was stored for it before; of several that ask one hears so.
    fn is_to_be_woken(&self) -> bool {
        W::fence();
        self.asleep.load(Ordering::Relaxed) == 1 && self.asleep.swap(0, Ordering::Relaxed) == 1
    }

    /// It was woken, by something that can be read.
    fn has_method(&self) {
        self.method.store(1, Ordering::Release);
    }

    /// The thread is about to sleep; false if it must not, because there is something for it.
    fn may_sleep(&self, is_idle: impl Fn() -> bool) -> bool {
        self.asleep.store(1, Ordering::Relaxed);
        W::fence();
        let may = is_idle();
        if !may {
            self.asleep.store(0, Ordering::Relaxed);
        }
        may
    }

    /// The thread is awake; true if there is something to read, which must be read to the end. `is_readable`: its wait said so.
    fn woke(&self, is_readable: bool) -> bool {
        self.asleep.store(0, Ordering::Relaxed);
        let has_method =
            self.method.load(Ordering::Relaxed) == 1 && self.method.swap(0, Ordering::Acquire) == 1;
        is_readable || has_method
    }
}

impl Bell {
    /// A bell, and what its thread waits for.
    pub(crate) fn new() -> io::Result<(Arc<Bell>, UnixStream)> {
        let (wake, woken) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        woken.set_nonblocking(true)?;
        Ok((Arc::new(Bell { state: State::new(), wake }), woken))
    }

    /// Wakes the thread whether it sleeps or not.
    pub(crate) fn ring(&self) {
        // When the socket is full the thread has reason enough to wake.
        let _ = (&self.wake).write(&[0]);
        self.state.has_method();
    }

    /// Wakes the thread if it sleeps, behind whatever was stored for it before.
    pub(crate) fn ring_if_asleep(&self) {
        if self.state.is_to_be_woken() {
            self.ring();
        }
    }

    /// The thread is about to sleep; false if it must not, because it is not idle.
    pub(crate) fn may_sleep(&self, is_idle: impl Fn() -> bool) -> bool {
        self.state.may_sleep(is_idle)
    }

    /// The thread is awake. It empties its descriptor, or the next sleep would end at once, as would all others: also where the
    /// descriptor was rung before the thread slept. `is_readable`: the wait has said that there is something to read. The ringing
    /// thread may not have stored its mark yet: while it waits for a CPU, the woken thread would not sleep.
    pub(crate) fn woke(&self, mut woken: &UnixStream, is_readable: bool) {
        if self.state.woke(is_readable) {
            while woken.read(&mut [0; 64]).is_ok_and(|bytes| bytes > 0) {}
        }
    }
}

#[cfg(test)]
mod tests {
    use loom::sync::atomic::AtomicU64 as Tried;
    use loom::sync::{Arc, Notify};

    use super::*;

    struct World {
        state: State<Tried>,
        socket: Notify,
        /// What there is for the sleeper.
        given: Tried,
    }

    impl World {
        fn new() -> Arc<World> {
            Arc::new(World { state: State::new(), socket: Notify::new(), given: Tried::new(0) })
        }

        fn ring(&self) {
            self.socket.notify();
            self.state.has_method();
        }

        fn give(&self) {
            self.given.fetch_add(1, Ordering::Release);
            if self.state.is_to_be_woken() {
                self.ring();
            }
        }

        /// Sleeps until so many things have been given.
        fn await_all(&self, expected: u64) {
            let have = || self.given.load(Ordering::Acquire);
            let mut taken = have();
            while taken < expected {
                if self.state.may_sleep(|| have() == taken) {
                    // Loom finds the interleavings without a notification.
                    self.socket.wait();
                }
                self.state.woke(false);
                taken = have();
            }
        }
    }

    #[test]
    fn no_interleaving_leaves_a_thread_asleep_that_has_something_to_do() {
        let mut model = loom::model::Builder::new();
        // Of all interleavings those with three changes of threads that nothing forces: the others are too many for each run
        // of the tests (LOOM_MAX_PREEMPTIONS allows more).
        model.preemption_bound = model.preemption_bound.or(Some(3));
        model.check(|| {
            let world = World::new();
            let giver = world.clone();
            let thread = loom::thread::spawn(move || giver.give());
            world.await_all(1);
            thread.join().expect("it does not panic");
        });
    }

    /// The ringing thread has written and not said so.
    #[test]
    fn what_a_wait_has_seen_does_not_end_the_next_one() {
        let (bell, mut woken) = Bell::new().expect("sockets");
        (&bell.wake).write_all(&[0]).expect("there is room");
        bell.woke(&woken, true);
        assert!(woken.read(&mut [0]).is_err(), "it is read");
        bell.state.has_method();
        assert!(bell.state.woke(false), "which costs a read");
    }

    #[test]
    fn who_is_awake_is_not_method_for() {
        let state: State<AtomicU64> = State::new();
        assert!(!state.is_to_be_woken());
        assert!(!state.may_sleep(|| false) && !state.is_to_be_woken());
        assert!(state.may_sleep(|| true) && state.is_to_be_woken() && !state.is_to_be_woken());
        assert!(!state.woke(false));
        state.has_method();
        assert!(state.woke(false) && !state.woke(false));
    }
}
