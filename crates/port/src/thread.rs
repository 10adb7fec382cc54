//! The calling thread: where it runs, and what the kernel calls it.

use std::io;

/// Pins the calling thread to one CPU.
pub fn pin_to(cpu: usize) -> io::Result<()> {
    // SAFETY: an all-zero set is valid; CPU_SET stays within it because the kernel's CPU numbers do.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        if libc::sched_setaffinity(0, size_of_val(&set), &set) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Has the waits of the calling thread end when they are over: the kernel may otherwise be 50 us late, to save power
/// (PR_SET_TIMERSLACK).
pub fn exact_waits() -> io::Result<()> {
    // SAFETY: a number, no pointers.
    match unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Has the scheduler prefer the calling thread to those of ordinary priority (nice -20), if there is another CPU for these. Real time
/// would stop it for 50 ms in each second that it does not sleep.
pub fn prefer() -> io::Result<()> {
    // SAFETY: numbers, no pointers.
    let cpus = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    // SAFETY: numbers, no pointers; 0 is the calling thread.
    if cpus > 1 && unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Its number among all processes and threads.
pub fn number() -> u32 {
    // SAFETY: no arguments, cannot fail.
    unsafe { libc::gettid() as u32 }
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
        assert_eq!(nice(), before, "that of another thread");
    }
}
