//! The capture threads of a trial: each takes the frames of one queue, and completes its accounting.

use std::io;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use weir_load::xdp::pin_to;
use weir_port::capture::{Account, Frame, Granted, Queue};

use super::consumer;

/// A thread looks this often whether the trial is over.
const WAIT: Duration = Duration::from_millis(20);
/// Nothing is under way any more when nothing was taken for so long after the last frame was sent.
const QUIET: Duration = Duration::from_millis(60);
const LOOK: Duration = Duration::from_millis(5);

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
        let (before, mut sum) = (usage(), 0);
        let mut consume = |frame: &Frame<'_>| sum = consumer::consume(sum, frame.bytes);
        while !self.over.load(Ordering::Acquire) {
            let n = queue.take(WAIT, &mut consume)?;
            self.taken[i].fetch_add(n as u64, Ordering::Relaxed);
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
