//! The calling thread: where it runs, and what the kernel calls it.

use std::io;
use std::num::NonZeroU64;
use std::time::Duration;

use rustix::process::{getpriority_process, setpriority_process};
use rustix::thread::{CpuSet, gettid, sched_setaffinity, set_current_timer_slack};
use rustix::time::{ClockId, clock_gettime};

/// Pins the calling thread to one CPU.
pub fn pin_to(cpu: usize) -> io::Result<()> {
    let mut set = CpuSet::new();
    if cpu < CpuSet::MAX_CPU {
        set.set(cpu);
    }
    // The kernel refuses a set without a CPU of this machine.
    Ok(sched_setaffinity(None, &set)?)
}

/// Has the waits of the calling thread end when they are over: the kernel may otherwise be 50 us late, to save power
/// (PR_SET_TIMERSLACK).
pub fn exact_waits() -> io::Result<()> {
    Ok(set_current_timer_slack(Some(NonZeroU64::MIN))?)
}

/// Has the scheduler prefer the calling thread to those of ordinary priority (nice -20), if there is another CPU for these. Real time
/// would stop it for 50 ms in each second that it does not sleep.
pub fn prefer() -> io::Result<()> {
    // SAFETY: numbers, no pointers.
    let cpus = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    if cpus > 1 {
        setpriority_process(None, -20)?;
    }
    Ok(())
}

/// Has the scheduler prefer threads of ordinary priority to the calling one (nice 10).
pub fn step_back() -> io::Result<()> {
    Ok(setpriority_process(None, getpriority_process(None)?.max(10))?)
}

/// The CPU time that the calling thread has used (CLOCK_THREAD_CPUTIME_ID).
pub fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec.cast_unsigned() as u32)
}

/// Its number among all processes and threads.
pub fn number() -> u32 {
    gettid().as_raw_nonzero().get().cast_unsigned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nice() -> i32 {
        // SAFETY: numbers, no pointers.
        unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }
    }

    #[test]
    fn the_calling_thread_alone_is_preferred() {
        let before = nice();
        let thread = std::thread::spawn(|| prefer().map(|()| nice()));
        match thread.join().expect("it does not panic") {
            Ok(after) => {
                let several = std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() > 1);
                assert!(after == -20 || !several && after == before, "nice {after}");
            }
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::PermissionDenied),
        }
        let after = std::thread::spawn(|| step_back().map(|()| nice())).join().expect("it does not panic");
        assert_eq!(after.expect("allowed to all"), 10.max(before));
        assert_eq!(nice(), before, "that of another thread");
    }
}
