//! Descriptors that one process passes to another with the bytes of a Unix socket (SCM_RIGHTS, unix(7)).
//!
//! ```text
//!   send:     bytes ------->  receive: bytes
//!             descriptors ->           descriptors, all closed on exec
//! ```
//! Invariant: the descriptors go with the first byte of the call that sends them, and one call of [`receive`] returns those of one
//! call of [`send`] at most. That call may also return bytes that were sent before, without descriptors.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, RecvMsg, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// Most descriptors of one call: the limit of the kernel (SCM_MAX_FD).
pub const MOST: usize = 253;

/// Sends bytes, and these descriptors with the first one. Returns how many bytes were sent: if any, then the descriptors too. The
/// caller keeps its own descriptors open or closes them, as it likes.
///
/// # Errors
/// More than [`MOST`] descriptors, or descriptors without a byte; and errors of sendmsg(2).
pub fn send(socket: impl AsFd, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<usize> {
    if descriptors.len() > MOST || (bytes.is_empty() && !descriptors.is_empty()) {
        let why = format!("{} descriptors cannot go with {} bytes", descriptors.len(), bytes.len());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        let has_room = control.push(SendAncillaryMessage::ScmRights(descriptors));
        assert!(has_room, "there is room for the most that are allowed");
    }
    Ok(sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?)
}

/// Receives bytes, and the descriptors that came with them are appended to `descriptors`. Returns the number of bytes; 0: the other
/// end has ended.
///
/// # Errors
/// Some descriptors could not be received, for example because this process may open no more; and errors of recvmsg(2).
pub fn receive(socket: impl AsFd, into: &mut [u8], descriptors: &mut Vec<OwnedFd>) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let RecvMsg { bytes, flags, .. } =
        recvmsg(socket, &mut [IoSliceMut::new(into)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(all) = message {
            descriptors.extend(all);
        }
    }
    if flags.contains(ReturnFlags::CTRUNC) {
        return Err(io::Error::other(
            "descriptors were lost: this process may open no more (see its limit of open files)",
        ));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read, Write, pipe};
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;
    use std::process::Command;

    use super::*;

    /// What one call receives.
    fn received(socket: &UnixStream, most: usize) -> (Vec<u8>, Vec<OwnedFd>) {
        let (mut bytes, mut descriptors) = (vec![0; most], Vec::new());
        let length = receive(socket, &mut bytes, &mut descriptors).expect("it was sent");
        bytes.truncate(length);
        (bytes, descriptors)
    }

    #[test]
    fn several_descriptors_arrive_in_their_order_and_work() {
        let (one, other) = UnixStream::pair().expect("two ends");
        let pipes: Vec<_> = (0..3).map(|_| pipe().expect("two ends")).collect();
        let writers: Vec<BorrowedFd<'_>> = pipes.iter().map(|(_, writer)| writer.as_fd()).collect();
        assert_eq!(send(&one, b"three\n", &writers).expect("room"), 6);
        let (bytes, descriptors) = received(&other, 100);
        assert_eq!((bytes.as_slice(), descriptors.len()), (&b"three\n"[..], 3));
        for (n, descriptor) in descriptors.into_iter().enumerate() {
            let flags = rustix::io::fcntl_getfd(&descriptor).expect("it is open");
            assert!(flags.contains(rustix::io::FdFlags::CLOEXEC), "a program that is started has it not");
            File::from(descriptor).write_all(&[n as u8]).expect("its reader is there");
        }
        for (n, (mut reader, writer)) in pipes.into_iter().enumerate() {
            drop(writer);
            let mut bytes = Vec::new();
            reader.read_to_end(&mut bytes).expect("its writers have gone");
            assert_eq!(bytes, [n as u8]);
        }
    }

    #[test]
    fn one_call_returns_the_descriptors_of_one_call() {
        let (one, other) = UnixStream::pair().expect("two ends");
        let files: Vec<File> = (0..3).map(|_| File::open("/dev/null").expect("it is there")).collect();
        send(&one, b"before", &[]).expect("room");
        send(&one, b"first", &[files[0].as_fd()]).expect("room");
        send(&one, b"second", &[files[1].as_fd(), files[2].as_fd()]).expect("room");
        let mut found = Vec::new();
        let mut text = Vec::new();
        while text.len() < b"beforefirstsecond".len() {
            let (bytes, descriptors) = received(&other, 100);
            text.extend(bytes);
            found.extend((!descriptors.is_empty()).then_some((text.len(), descriptors.len())));
        }
        // Each with bytes of its own call, and of none that follows.
        assert_eq!(found, [(b"beforefirst".len(), 1), (text.len(), 2)]);
    }

    #[test]
    fn they_stay_open_where_they_are_received_when_the_sender_has_ended() {
        let (mut reader, writer) = pipe().expect("two ends");
        let (one, other) = UnixStream::pair().expect("two ends");
        send(&one, b"x", &[writer.as_fd()]).expect("room");
        drop((one, writer));
        let (_, mut descriptors) = received(&other, 1);
        let child = Command::new("echo").arg("hello").stdout(descriptors.remove(0)).status().expect("echo");
        assert!(child.success());
        let mut text = String::new();
        reader.read_to_string(&mut text).expect("its writers have gone");
        assert_eq!(text, "hello\n");
        assert_eq!(received(&other, 1).0, b"", "the end");
    }

    #[test]
    fn what_the_kernel_does_not_send_is_refused() {
        let (one, other) = UnixStream::pair().expect("two ends");
        let null = File::open("/dev/null").expect("it is there");
        for (bytes, n) in [(&b""[..], 1), (b"x", MOST + 1)] {
            let all = vec![null.as_fd(); n];
            let error = send(&one, bytes, &all).expect_err("refused").to_string();
            assert_eq!(error, format!("{n} descriptors cannot go with {} bytes", bytes.len()));
        }
        assert_eq!(send(&one, b"x", &vec![null.as_fd(); MOST]).expect("room"), 1);
        assert_eq!(received(&other, 1).1.len(), MOST);
        drop(other);
        // An error rather than a signal.
        let error = send(&one, b"x", &[null.as_fd()]).expect_err("the other end has gone");
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe, "{}", one.as_raw_fd());
    }
}
