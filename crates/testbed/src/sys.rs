//! System calls without a safe wrapper in std: one small function each, all with owned or borrowed
//! arguments, so that few other files of this crate need unsafe.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::Path;

/// Result of a system call that returns -1 and sets errno.
pub(crate) fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Lets waits of the calling thread end when they should, not up to 50 us later.
pub(crate) fn exact_timers() {
    // SAFETY: no pointers; what it changes belongs to the calling thread.
    let result = unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_u64) };
    debug_assert_eq!(result, 0, "any thread may set its slack");
}

/// Puts a thread before all ordinary ones; 0: the calling one.
pub(crate) fn run_in_real_time(tid: u32) -> io::Result<()> {
    let priority = libc::sched_param { sched_priority: 1 };
    // SAFETY: the parameter lives through the call.
    check(unsafe { libc::sched_setscheduler(tid as libc::pid_t, libc::SCHED_FIFO, &priority) }).map(drop)
}

/// What sched_setattr(2) takes (linux/sched/types.h, of its first version).
#[repr(C)]
#[derive(Default)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

/// Has an ordinary thread run as soon as it has something to do, for this long at a time, and no more of a busy CPU than
/// others have: since Linux 6.12. Before, it has the slices of all; false then.
pub(crate) fn run_in_slices(tid: u32, runtime_ns: u64) -> io::Result<bool> {
    let size = size_of::<SchedAttr>() as u32;
    let wanted = SchedAttr { size, runtime_ns, ..SchedAttr::default() };
    // SAFETY: the attributes live through the call, and say their size.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, tid, &raw const wanted, 0) };
    check(result as libc::c_int)?;
    let mut found = SchedAttr::default();
    // SAFETY: the kernel writes at most `size` bytes to attributes that live through the call.
    let result = unsafe { libc::syscall(libc::SYS_sched_getattr, tid, &raw mut found, size, 0) };
    check(result as libc::c_int)?;
    Ok(found.runtime_ns == runtime_ns)
}

/// unshare(2) for the calling thread.
pub(crate) fn unshare(flags: libc::c_int) -> io::Result<()> {
    // SAFETY: no pointers; what it changes belongs to the calling thread.
    check(unsafe { libc::unshare(flags) }).map(drop)
}

/// setns(2) for the calling thread.
pub(crate) fn setns(fd: BorrowedFd<'_>, kind: libc::c_int) -> io::Result<()> {
    // SAFETY: the descriptor is open while it is borrowed.
    check(unsafe { libc::setns(fd.as_raw_fd(), kind) }).map(drop)
}

/// mount(2) without data.
pub(crate) fn mount(source: &Path, target: &Path, kind: &str, flags: libc::c_ulong) -> io::Result<()> {
    let (source, target, kind) = (c_path(source)?, c_path(target)?, CString::new(kind)?);
    // SAFETY: three NUL-terminated strings that outlive the call; no data.
    check(unsafe { libc::mount(source.as_ptr(), target.as_ptr(), kind.as_ptr(), flags, std::ptr::null()) })
        .map(drop)
}

/// umount2(2).
pub(crate) fn unmount(target: &Path, flags: libc::c_int) -> io::Result<()> {
    let target = c_path(target)?;
    // SAFETY: a NUL-terminated string that outlives the call.
    check(unsafe { libc::umount2(target.as_ptr(), flags) }).map(drop)
}

fn c_path(path: &Path) -> io::Result<CString> {
    use std::os::unix::ffi::OsStrExt;
    Ok(CString::new(path.as_os_str().as_bytes())?)
}

/// A new close-on-exec socket.
pub(crate) fn socket(family: libc::c_int, kind: libc::c_int, protocol: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: no pointers.
    let fd = check(unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC, protocol) })?;
    // SAFETY: the kernel just made this descriptor; nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// setsockopt(2) with an int.
pub(crate) fn set_option(
    fd: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    value: i32,
) -> io::Result<()> {
    let size = std::mem::size_of::<i32>() as libc::socklen_t;
    // SAFETY: the pointer and size describe `value`, which outlives the call.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, (&raw const value).cast(), size) }).map(drop)
}

/// Binds a thread to CPUs (0 = the calling thread).
pub(crate) fn set_affinity(tid: u32, cpus: &[usize]) -> io::Result<()> {
    // SAFETY: cpu_set_t is a plain bit array; all zero is the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for &cpu in cpus.iter().filter(|&&cpu| cpu < libc::CPU_SETSIZE as usize) {
        // SAFETY: the index is inside the set, see the filter.
        unsafe { libc::CPU_SET(cpu, &mut set) };
    }
    // SAFETY: pointer and size describe `set`.
    check(unsafe { libc::sched_setaffinity(tid as i32, std::mem::size_of_val(&set), &set) }).map(drop)
}

/// CPUs that a thread may use (0 = the calling thread), ascending.
pub(crate) fn affinity(tid: u32) -> io::Result<Vec<usize>> {
    // SAFETY: as above.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: pointer and size describe `set`.
    check(unsafe { libc::sched_getaffinity(tid as i32, std::mem::size_of_val(&set), &mut set) })?;
    // SAFETY: the index is inside the set.
    Ok((0..libc::CPU_SETSIZE as usize).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).collect())
}

/// Asks the kernel to kill the calling process when the thread that started it ends.
/// Async-signal-safe, for use between fork and exec.
pub(crate) fn die_with_parent() -> io::Result<()> {
    // SAFETY: no pointers.
    check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) }).map(drop)
}

/// A descriptor for a process, immune to the reuse of its number.
pub(crate) fn pidfd(pid: u32) -> io::Result<OwnedFd> {
    // SAFETY: no pointers.
    let fd = check(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) } as libc::c_int)?;
    // SAFETY: the kernel just made this descriptor; nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// SIGKILL through a process descriptor.
pub(crate) fn kill(pidfd: BorrowedFd<'_>) -> io::Result<()> {
    let no_info = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: the descriptor is open while it is borrowed; a null siginfo is allowed.
    let result =
        unsafe { libc::syscall(libc::SYS_pidfd_send_signal, pidfd.as_raw_fd(), libc::SIGKILL, no_info, 0) };
    check(result as libc::c_int).map(drop)
}

/// Exclusive flock(2); waits for it.
pub(crate) fn lock(fd: BorrowedFd<'_>) -> io::Result<()> {
    loop {
        // SAFETY: the descriptor is open while it is borrowed.
        match check(unsafe { libc::flock(fd.as_raw_fd(), libc::LOCK_EX) }) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result.map(drop),
        }
    }
}

/// Exclusive flock(2) if nobody else has it; true if it is ours now.
pub(crate) fn try_lock(fd: BorrowedFd<'_>) -> io::Result<bool> {
    // SAFETY: the descriptor is open while it is borrowed.
    match check(unsafe { libc::flock(fd.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) }) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        result => result.map(|_| true),
    }
}

/// Whether the effective user is root (of its user namespace).
#[cfg(test)]
pub(crate) fn is_root() -> bool {
    // SAFETY: no arguments, cannot fail.
    unsafe { libc::geteuid() == 0 }
}
