//! Other load on this machine: beside many busy threads neither the tester nor a device is ever in time.

use std::time::{Duration, Instant};

use weir_linux::cpu::ThreadTimes;

/// As long as a thread may compute before others have their turn.
const LOOK: Duration = Duration::from_millis(10);
/// Threads of our own may stand in each other's way for a look or two.
const LOOKS: usize = 20;

/// Is there no moment in which each of as many threads as there are CPUs has half of one?
pub(crate) fn is_crowded() -> bool {
    (0..LOOKS).all(|_| least_share() < 0.5)
}

/// Do others compute here at all? Then a trial may take longer than its frames do.
pub(crate) fn is_loaded() -> bool {
    (0..LOOKS).any(|_| least_share() < 0.8)
}

/// The part of their time that threads have a CPU for, that of the worst off.
fn least_share() -> f64 {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(share)).collect();
        all.into_iter().map(|thread| thread.join().expect("it does not panic")).fold(1.0, f64::min)
    })
}

fn share() -> f64 {
    // SAFETY: no arguments, cannot fail.
    let own = unsafe { libc::gettid() } as u32;
    let begin = Instant::now();
    while begin.elapsed() < LOOK {
        std::hint::spin_loop();
    }
    // A kernel that does not count says nothing of a crowd.
    ThreadTimes::of(own)
        .map_or(1.0, |times| times.run_ns as f64 / (times.run_ns + times.wait_ns).max(1) as f64)
}
