//! Wakes a consumer that sleeps: a byte through a pair of Unix sockets.
//!
//! Not an eventfd: both processes would share one open file, and with it O_NONBLOCK, which either may clear (so does
//! `os.set_blocking` of a Python program). A write to a full eventfd, or a read of an empty one, would then stop the node. An
//! end of a pair of sockets is that of one process, each call says itself that it does not wait (MSG_DONTWAIT), and a process
//! that ends is noticed.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send as send_bytes, socketpair,
};

/// Both ends.
pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?)
}

/// Wakes the other process. It fails when the socket is full, and then it can be read as well, or when the other process has
/// ended, of which its control socket tells.
pub(crate) fn send(own: BorrowedFd<'_>) {
    let _ = send_bytes(own, &[0], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
}

/// Takes wake-ups, or the next sleep would end at once. One call: of a peer that sends without end, some are left. False: the
/// other process has closed its end.
pub(crate) fn receive(own: BorrowedFd<'_>) -> bool {
    match recv(own, &mut [0; 256], RecvFlags::DONTWAIT) {
        Ok((_, bytes)) => bytes > 0,
        Err(error) => matches!(error, Errno::AGAIN | Errno::INTR),
    }
}

/// Waits until it can be read, or for this time.
pub(crate) fn wait(own: BorrowedFd<'_>, timeout: Option<Duration>) -> io::Result<()> {
    // What is longer than the kernel can tell is for ever.
    let timeout = timeout.and_then(|time| Timespec::try_from(time).ok());
    match poll(&mut [PollFd::from_borrowed_fd(own, PollFlags::IN)], timeout.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
