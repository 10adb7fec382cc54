//! System calls that neither std nor rustix has, and those whose arguments would be long: one small function each, so that
//! few other files of this crate need unsafe.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Result of a system call that returns -1 and sets errno.
pub fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Puts a thread before all ordinary ones; 0: the calling one.
pub fn run_in_real_time(tid: u32) -> io::Result<()> {
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
/// others of the calling process' nice value have: since Linux 6.12. Before, it has the slices of all; false then.
pub fn run_in_slices(tid: u32, runtime_ns: u64) -> io::Result<bool> {
    let size = size_of::<SchedAttr>() as u32;
    let nice = rustix::process::getpriority_process(None)?;
    let wanted = SchedAttr { size, nice, runtime_ns, ..SchedAttr::default() };
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
pub fn unshare(flags: libc::c_int) -> io::Result<()> {
    // SAFETY: no pointers; what it changes belongs to the calling thread.
    check(unsafe { libc::unshare(flags) }).map(drop)
}

/// A new close-on-exec socket.
pub fn socket(family: libc::c_int, kind: libc::c_int, protocol: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: no pointers.
    let fd = check(unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC, protocol) })?;
    // SAFETY: the kernel just created this descriptor; it has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// setsockopt(2) with an int.
pub fn set_option(fd: BorrowedFd<'_>, level: libc::c_int, name: libc::c_int, value: i32) -> io::Result<()> {
    let size = std::mem::size_of::<i32>() as libc::socklen_t;
    // SAFETY: the pointer and size describe `value`, which outlives the call.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, (&raw const value).cast(), size) }).map(drop)
}

/// Binds another thread to CPUs; the calling one: `weir_port::thread::pin_to`.
pub fn set_affinity(tid: u32, cpus: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    cpus.iter().filter(|&&cpu| cpu < CpuSet::MAX_CPU).for_each(|&cpu| set.set(cpu));
    Ok(sched_setaffinity(Pid::from_raw(tid.cast_signed()), &set)?)
}

/// CPUs that a thread may use (0 = the calling thread), ascending.
pub fn affinity(tid: u32) -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(Pid::from_raw(tid.cast_signed()))?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect())
}
