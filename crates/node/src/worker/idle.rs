//! Whether a thread without frames looks again at once, or sleeps. To sleep and to be woken costs some microseconds of its CPU and
//! of the frame's time, more on a virtual machine, whose CPU is given back to the host meanwhile.
//!
//! ```text
//!   last sleep was short > look again for as long > nothing came > sleep
//!   last sleep was long                                          > sleep
//! ```
//! Invariant: between two sleeps a thread without frames looks again for [`LOOKS_NS`] at most, and not at all after a sleep that
//! was longer: without traffic it takes no CPU time.

/// As long as it looks again: some times what a sleep costs.
const LOOKS_NS: u64 = 30_000;

/// A thread between frames.
#[derive(Debug, Default)]
pub(super) struct Idle {
    /// When it first found nothing.
    since_ns: Option<u64>,
    /// The last sleep was so short that looking again would have found the frame.
    pays: bool,
}

impl Idle {
    /// Nothing was found at this time: whether to look again at once.
    pub(super) fn looks_again(&mut self, now_ns: u64) -> bool {
        if self.pays {
            let since_ns = *self.since_ns.get_or_insert(now_ns);
            self.pays = now_ns.saturating_sub(since_ns) < LOOKS_NS;
        }
        self.pays
    }

    /// Something was found.
    pub(super) fn is_over(&mut self) {
        self.since_ns = None;
    }

    /// The thread has slept for so long.
    pub(super) fn slept(&mut self, ns: u64) {
        *self = Idle { since_ns: None, pays: ns < LOOKS_NS };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_looks_again_only_where_frames_come_soon() {
        let mut idle = Idle::default();
        assert!(!idle.looks_again(0), "nothing is known: it sleeps");
        idle.slept(LOOKS_NS);
        assert!(!idle.looks_again(100_000), "it was a long sleep");
        idle.slept(LOOKS_NS - 1);
        assert!(idle.looks_again(200_000) && idle.looks_again(200_000 + LOOKS_NS - 1));
        idle.is_over();
        assert!(idle.looks_again(300_000), "a frame came in time");
        assert!(!idle.looks_again(300_000 + LOOKS_NS), "it has looked for long enough");
        assert!(!idle.looks_again(300_001 + LOOKS_NS), "until the next short sleep");
    }
}
