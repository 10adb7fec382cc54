//! System calls without a safe wrapper in std: processes, credentials, files relative to a directory.

use std::io::{self, Write};
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

/// Makes files in any directory; a bit of capabilities(7).
pub(crate) const CAP_DAC_OVERRIDE: u64 = 1 << 1;
const LAST_CAPABILITY: libc::c_ulong = 63;
/// _LINUX_CAPABILITY_VERSION_3 of linux/capability.h.
const CAPABILITY_VERSION: u32 = 0x2008_0522;

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Runs `child` in a copy of this process, which ends with it; the caller goes on. Only while there is one thread.
pub(crate) fn fork(child: impl FnOnce()) -> io::Result<()> {
    // SAFETY: no other thread holds a lock that the child could wait for, as the caller promises.
    match check(unsafe { libc::fork() })? {
        0 => {
            // A panic must not unwind into the caller's frames, which belong to the other process.
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child));
            // SAFETY: ends the child at once, without the exit handlers of its parent.
            unsafe { libc::_exit(i32::from(result.is_err())) }
        }
        _ => Ok(()),
    }
}

/// Closes the child's copy of a descriptor that its parent goes on with.
pub(crate) fn close(fd: RawFd) {
    // SAFETY: the child never uses the value that owns it, and ends without dropping it.
    unsafe { libc::close(fd) };
}

/// Leaves signals of a terminal to the other processes.
pub(crate) fn ignore_signals() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGUSR1] {
        // SAFETY: ignoring a signal runs no code.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// No program that is run from now on can give this thread more than the capabilities in `kept`.
pub(crate) fn bound_capabilities(kept: u64) -> io::Result<()> {
    for capability in (0..=LAST_CAPABILITY).filter(|bit| kept >> bit & 1 == 0) {
        // Refused without CAP_SETPCAP, and for those that the kernel does not know; the next call is enough.
        // SAFETY: no pointers.
        unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) };
    }
    // SAFETY: no pointers.
    check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }).map(drop)
}

/// Gives up all capabilities of the calling thread but those in `kept`, for good.
pub(crate) fn keep_capabilities(kept: u64) -> io::Result<()> {
    let header = [CAPABILITY_VERSION, 0];
    let (low, high) = (kept as u32, (kept >> 32) as u32);
    // Effective, permitted, inheritable; twice.
    let data = [low, low, 0, high, high, 0];
    // SAFETY: header and data are as capset(2) describes them for this version.
    check(unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), data.as_ptr()) } as i32).map(drop)
}

/// Keeps the permitted capabilities when root changes to another user.
pub(crate) fn keep_through_change_of_user() -> io::Result<()> {
    // SAFETY: no pointers.
    check(unsafe { libc::prctl(libc::PR_SET_KEEPCAPS, 1, 0, 0, 0) }).map(drop)
}

/// Becomes another user, with no groups but `gid`, for good. Capabilities go with it.
pub(crate) fn become_user(uid: u32, gid: u32) -> io::Result<()> {
    // SAFETY: an empty list.
    check(unsafe { libc::setgroups(0, std::ptr::null()) })?;
    // SAFETY: no pointers.
    check(unsafe { libc::setresgid(gid, gid, gid) })?;
    // SAFETY: no pointers.
    check(unsafe { libc::setresuid(uid, uid, uid) }).map(drop)
}

/// The effective user.
pub(crate) fn user() -> u32 {
    // SAFETY: no arguments, cannot fail.
    unsafe { libc::geteuid() }
}

/// Has the other end said something, or gone, within this time?
pub(crate) fn hears(from: &UnixStream, ms: i32) -> bool {
    let mut poll = libc::pollfd { fd: from.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one pollfd.
    unsafe { libc::poll(&mut poll, 1, ms) > 0 }
}

/// Room for one descriptor beside a message, aligned as control messages are.
#[repr(C, align(8))]
struct Control([u8; 32]);

/// The number of an error, also of one that has words in its place.
fn code_of(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(match error.kind() {
        io::ErrorKind::AlreadyExists => libc::EEXIST,
        io::ErrorKind::PermissionDenied => libc::EACCES,
        _ => libc::EIO,
    })
}

/// Sends a file, or the number of the error in its place.
pub(crate) fn send_file(mut to: &UnixStream, file: io::Result<OwnedFd>) -> io::Result<()> {
    let code = file.as_ref().err().map_or(0, code_of);
    let Ok(file) = file else { return to.write_all(&code.to_ne_bytes()) };
    let mut bytes = code.to_ne_bytes();
    let mut vector = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let mut control = Control([0; 32]);
    // SAFETY: all-zero is an empty header; its vector and control buffer live through the call; the macros stay within
    // the control buffer, which has room for one descriptor.
    check(unsafe {
        let mut header: libc::msghdr = std::mem::zeroed();
        header.msg_iov = &mut vector;
        header.msg_iovlen = 1;
        header.msg_control = control.0.as_mut_ptr().cast();
        header.msg_controllen = libc::CMSG_SPACE(size_of::<i32>() as u32) as _;
        let message = libc::CMSG_FIRSTHDR(&header);
        (*message).cmsg_level = libc::SOL_SOCKET;
        (*message).cmsg_type = libc::SCM_RIGHTS;
        (*message).cmsg_len = libc::CMSG_LEN(size_of::<i32>() as u32) as _;
        libc::CMSG_DATA(message).cast::<i32>().write_unaligned(file.as_raw_fd());
        libc::sendmsg(to.as_raw_fd(), &header, 0) as i32
    })
    .map(drop)
}

/// Receives what [`send_file`] sends.
pub(crate) fn receive_file(from: &UnixStream) -> io::Result<OwnedFd> {
    let mut bytes = [0; 4];
    let mut vector = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let mut control = Control([0; 32]);
    // SAFETY: all-zero is an empty header.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &mut vector;
    header.msg_iovlen = 1;
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = control.0.len() as _;
    loop {
        // SAFETY: vector and control buffer live through the call.
        match check(unsafe { libc::recvmsg(from.as_raw_fd(), &mut header, libc::MSG_CMSG_CLOEXEC) } as i32) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(0) => return Err(io::ErrorKind::BrokenPipe.into()),
            result => {
                result?;
                break;
            }
        }
    }
    match i32::from_ne_bytes(bytes) {
        0 => {}
        code => return Err(io::Error::from_raw_os_error(code)),
    }
    // SAFETY: the kernel has filled header and control buffer; a message of rights holds a descriptor that is ours.
    unsafe {
        // By pointer: a reference to the head of the message would not reach to what follows it.
        let message = libc::CMSG_FIRSTHDR(&header);
        if message.is_null() || (*message).cmsg_type != libc::SCM_RIGHTS {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(OwnedFd::from_raw_fd(libc::CMSG_DATA(message).cast::<i32>().read_unaligned()))
    }
}
