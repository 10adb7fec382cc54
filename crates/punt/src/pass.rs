//! Descriptors with a message over a Unix socket (unix(7), SCM_RIGHTS): how the ends of rings come to the other process.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// Most descriptors of a message (SCM_MAX_FD of the kernel).
pub const MOST_DESCRIPTORS: usize = 253;

/// A message that was received.
#[derive(Debug)]
pub struct Message {
    /// How many bytes there were; 0: the other process has closed its end.
    pub bytes: usize,
    /// The descriptors, in the order in which they were sent; each is closed on exec.
    pub descriptors: Vec<OwnedFd>,
}

/// Sends a message with descriptors, which are duplicated: the caller closes its own. It waits until the socket has room, if the
/// socket is blocking. In a stream they come with the first byte of the message. Returns how many bytes were sent: fewer than
/// there are only in a stream, whose rest has no descriptors.
///
/// # Errors
/// The message is empty, there are more than [`MOST_DESCRIPTORS`], or what sendmsg(2) says.
pub fn send_descriptors(
    socket: BorrowedFd<'_>,
    message: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<usize> {
    if message.is_empty() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "descriptors need a message of a byte or more",
        ));
    }
    if descriptors.len() > MOST_DESCRIPTORS {
        let text =
            format!("a message carries {MOST_DESCRIPTORS} descriptors at most, not {}", descriptors.len());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let has_room = descriptors.is_empty() || control.push(SendAncillaryMessage::ScmRights(descriptors));
    assert!(has_room, "there is room for as many");
    Ok(sendmsg(socket, &[IoSlice::new(message)], &mut control, SendFlags::NOSIGNAL)?)
}

/// Receives a message with its descriptors. In a stream it ends where the next message with descriptors begins, or earlier.
///
/// # Errors
/// A message or its descriptors were cut because they are longer than `bytes`, or more than [`MOST_DESCRIPTORS`], or more than
/// this process may have open; or what recvmsg(2) says. What came of the descriptors is closed then.
pub fn receive_descriptors(socket: BorrowedFd<'_>, bytes: &mut [u8]) -> io::Result<Message> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(socket, &mut [IoSliceMut::new(bytes)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(some) = message {
            descriptors.extend(some);
        }
    }
    if received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a message with descriptors was cut"));
    }
    Ok(Message { bytes: received.bytes, descriptors })
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;

    fn pair(kind: SocketType) -> [OwnedFd; 2] {
        socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)
            .expect("descriptors are left")
            .into()
    }

    #[test]
    fn descriptors_come_with_their_message_in_their_order() {
        for kind in [SocketType::STREAM, SocketType::SEQPACKET] {
            let [one, other] = pair(kind);
            let files = [(); 4].map(|()| pair(SocketType::STREAM));
            let sent: Vec<_> = files.iter().map(|[file, _]| file.as_fd()).collect();
            assert_eq!(send_descriptors(one.as_fd(), b"rings", &sent).expect("room"), 5);
            assert_eq!(send_descriptors(one.as_fd(), b"more", &[]).expect("room"), 4);
            let mut bytes = [0; 64];
            let message = receive_descriptors(other.as_fd(), &mut bytes).expect("a message");
            assert!(bytes.starts_with(b"rings"), "{kind:?}");
            assert_eq!(message.descriptors.len(), 4, "{kind:?}");
            // Each is the one that was sent: its other end hears it.
            for ([_, end], (own, n)) in files.iter().zip(message.descriptors.iter().zip(0_u8..)) {
                rustix::io::write(own, &[n]).expect("room");
                let mut heard = [9];
                rustix::io::read(end, &mut heard).expect("a byte");
                assert_eq!(heard, [n], "{kind:?}");
            }
            drop(one);
            if message.bytes == 5 {
                assert_eq!(receive_descriptors(other.as_fd(), &mut bytes).expect("more").bytes, 4);
            }
            assert_eq!(receive_descriptors(other.as_fd(), &mut bytes).expect("the end").bytes, 0);
        }
    }

    #[test]
    fn what_cannot_be_sent_or_was_cut_is_an_error() {
        let [one, other] = pair(SocketType::SEQPACKET);
        let many = vec![one.as_fd(); MOST_DESCRIPTORS + 1];
        let wrong = send_descriptors(one.as_fd(), b"x", &many).expect_err("too many").to_string();
        assert_eq!(wrong, "a message carries 253 descriptors at most, not 254");
        assert!(send_descriptors(one.as_fd(), b"", &many[..1]).is_err());
        send_descriptors(one.as_fd(), b"longer", &many[..2]).expect("room");
        let wrong = receive_descriptors(other.as_fd(), &mut [0; 3]).expect_err("cut").to_string();
        assert_eq!(wrong, "a message with descriptors was cut");
        send_descriptors(one.as_fd(), b"all", &many[1..]).expect("room");
        let message = receive_descriptors(other.as_fd(), &mut [0; 3]).expect("a message");
        assert_eq!(message.descriptors.len(), MOST_DESCRIPTORS);
    }
}
