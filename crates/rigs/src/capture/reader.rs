//! The capture threads of a trial: each takes the frames of one queue, notes once in a millisecond how many it has, and completes
//! its accounting.

use std::io;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use weir_load::counts::Mark;
use weir_load::xdp::pin_to;
use weir_port::bpf::now_ns;
use weir_port::capture::{Account, Frame, Granted, Queue};

use super::consumer;

/// A thread looks this often whether the trial is over.
const WAIT: Duration = Duration::from_millis(20);
/// Nothing is under way any more when nothing was taken for so long after the last frame was sent.
const QUIET: Duration = Duration::from_millis(60);
const LOOK: Duration = Duration::from_millis(5);

/// From one note of what was taken to the next.
const NOTE_NS: u64 = 1_000_000;
/// A thread that takes frames one by one looks at the clock after so many.
const FRAMES_PER_LOOK: u64 = 16;

/// What the threads of a trial share.
pub(super) struct Watch {
    start: Barrier,
    over: AtomicBool,
    /// Frames taken by each.
    taken: Vec<AtomicU64>,
}

/// What a thread did.
pub(super) struct Read {
    pub(super) account: Account,
    pub(super) granted: Granted,
    pub(super) user_ns: u64,
    pub(super) system_ns: u64,
    /// The thread's number.
    pub(super) thread: u32,
    /// Times that it went to sleep.
    pub(super) wakeups: u64,
    /// How many frames it had taken at which time, CLOCK_MONOTONIC.
    pub(super) marks: Vec<Mark>,
}

/// Notes how many frames a thread has taken, once in [`NOTE_NS`].
#[derive(Default)]
struct Notes {
    taken: u64,
    /// Frames at the last look at the clock.
    looked: u64,
    marks: Vec<Mark>,
}

impl Notes {
    fn add(&mut self, frames: u64, clock_ns: impl FnOnce() -> u64) {
        self.taken += frames;
        if self.taken - self.looked < FRAMES_PER_LOOK {
            return;
        }
        self.looked = self.taken;
        let at_ns = clock_ns();
        if self.marks.last().is_none_or(|mark| at_ns >= mark.at_ns + NOTE_NS) {
            self.marks.push(Mark { at_ns, frames: self.taken });
        }
    }
}

impl Watch {
    /// For so many threads.
    pub(super) fn new(threads: usize) -> Watch {
        let taken = (0..threads).map(|_| AtomicU64::new(0)).collect();
        Watch { start: Barrier::new(threads + 1), over: AtomicBool::new(false), taken }
    }

    /// Waits until all threads are ready.
    pub(super) fn begin(&self) {
        self.start.wait();
    }

    /// Frames taken so far.
    pub(super) fn taken(&self) -> u64 {
        self.taken.iter().map(|taken| taken.load(Ordering::Relaxed)).sum()
    }

    /// Waits until no more frames are taken, `stopped` or not, and ends the threads.
    pub(super) fn end(&self, stopped: impl Fn() -> bool) {
        let mut last = (self.taken(), Instant::now());
        while last.1.elapsed() < QUIET && !stopped() {
            std::thread::sleep(LOOK);
            let now = self.taken();
            if now != last.0 {
                last = (now, Instant::now());
            }
        }
        self.over.store(true, Ordering::Release);
    }

    /// Takes the frames of queue number `i` on `cpu` until the end, and what is left in it after that.
    pub(super) fn read(&self, i: usize, cpu: usize, mut queue: Box<dyn Queue>) -> io::Result<Read> {
        let placed = pin_to(cpu);
        debug_assert!(placed.is_ok(), "{placed:?}");
        self.start.wait();
        let (before, mut sum, mut notes) = (usage(), 0, Notes::default());
        let mut consume = |frame: &Frame<'_>| sum = consumer::consume(sum, frame.bytes);
        while !self.over.load(Ordering::Acquire) {
            let n = queue.take(WAIT, &mut consume)?;
            self.taken[i].fetch_add(n as u64, Ordering::Relaxed);
            notes.add(n as u64, now_ns);
        }
        queue.stop()?;
        while queue.take(WAIT, &mut consume)? > 0 {}
        let after = usage();
        // What keeps the consumer from being optimised away.
        std::hint::black_box(sum);
        let since = |of: fn(&libc::rusage) -> i64| (of(&after) - of(&before)).max(0) as u64;
        Ok(Read {
            account: queue.account()?,
            thread: weir_port::thread::number(),
            granted: queue.granted(),
            user_ns: 1000 * since(|u| u.ru_utime.tv_sec * 1_000_000 + u.ru_utime.tv_usec),
            system_ns: 1000 * since(|u| u.ru_stime.tv_sec * 1_000_000 + u.ru_stime.tv_usec),
            wakeups: since(|u| u.ru_nvcsw),
            marks: notes.marks,
        })
    }
}

/// What the calling thread has used so far.
fn usage() -> libc::rusage {
    // SAFETY: all-zero is a value; the kernel writes one rusage.
    unsafe {
        let mut usage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &mut usage);
        usage
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_noted_once_in_a_millisecond_and_the_clock_is_read_seldom() {
        let (mut notes, mut looks) = (Notes::default(), 0);
        // One frame each 10 us.
        for i in 0..1000_u64 {
            notes.add(1, || {
                looks += 1;
                i * 10_000
            });
        }
        notes.add(5000, || 10_200_000);
        let marks: Vec<(u64, u64)> = notes.marks.iter().map(|mark| (mark.at_ns, mark.frames)).collect();
        assert_eq!(looks, 1000 / FRAMES_PER_LOOK);
        assert_eq!((marks[0], marks[1]), ((150_000, 16), (1_270_000, 128)));
        assert_eq!((marks.len(), marks.last()), (10, Some(&(10_200_000, 6000))));
        assert!(marks.windows(2).all(|pair| pair[1].0 - pair[0].0 >= NOTE_NS), "{marks:?}");
    }
}
