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

/// Its number among all processes and threads.
pub fn number() -> u32 {
    // SAFETY: no arguments, cannot fail.
    unsafe { libc::gettid() as u32 }
}
