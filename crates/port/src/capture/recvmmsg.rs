//! A packet socket, read many frames at a time; alone, or as one of several that share the frames of an interface.
//!
//! It saves system calls and nothing else: each frame still has a socket buffer, its place in a queue, and its copy.

use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

use super::recv::{Beside, QueueSocket, Reported};
use super::{Account, CaptureError, Frame, Granted, Interface, Options, Queue, fanout, tag};

/// Frames of one call.
const BATCH: usize = 64;

/// As many sockets as `options` wants, in a fan-out.
pub(super) fn open_fanout(
    interface: &Interface,
    options: &Options,
) -> Result<Vec<Box<dyn Queue>>, CaptureError> {
    fanout::open(options, |sockets| RecvMmsg::open(interface, options, sockets), |queue| &queue.socket.tap)
}

pub(super) fn open(interface: &Interface, options: &Options) -> Result<Vec<Box<dyn Queue>>, CaptureError> {
    let queue = RecvMmsg::open(interface, options, 1)?;
    queue.socket.tap.bind()?;
    queue.socket.tap.admit()?;
    Ok(vec![Box::new(queue)])
}

struct RecvMmsg {
    socket: QueueSocket,
    /// [`BATCH`] frames with room for their tags.
    bytes: Vec<u8>,
    each_bytes: usize,
    beside: Vec<Beside>,
}

impl RecvMmsg {
    fn open(interface: &Interface, options: &Options, queues: u64) -> Result<RecvMmsg, CaptureError> {
        let each_bytes = tag::ROOM + options.snap as usize;
        let socket = QueueSocket::open(interface, options, queues)?;
        let (bytes, beside) = (vec![0; BATCH * each_bytes], vec![Beside::EMPTY; BATCH]);
        Ok(RecvMmsg { socket, bytes, each_bytes, beside })
    }

    /// Hands on what is there, up to [`BATCH`] frames.
    fn look(&mut self, each: &mut dyn FnMut(&Frame<'_>)) -> io::Result<usize> {
        // SAFETY: all-zero vectors and headers are valid and empty.
        let (mut vectors, mut headers): ([libc::iovec; BATCH], [libc::mmsghdr; BATCH]) =
            unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        let frames = self.bytes.chunks_exact_mut(self.each_bytes).zip(&mut self.beside);
        for ((bytes, beside), (vector, header)) in frames.zip(vectors.iter_mut().zip(&mut headers)) {
            let room = &mut bytes[tag::ROOM..];
            *vector = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() };
            header.msg_hdr.msg_iov = vector;
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_control = beside.0.as_mut_ptr().cast();
            header.msg_hdr.msg_controllen = size_of_val(&beside.0) as _;
        }
        self.socket.calls += 1;
        let (fd, now) = (self.socket.tap.fd.as_raw_fd(), std::ptr::null_mut());
        // SAFETY: the headers point to vectors, and those to our buffers with their lengths; all live through the call.
        let n =
            unsafe { libc::recvmmsg(fd, headers.as_mut_ptr(), BATCH as u32, libc::MSG_DONTWAIT as _, now) };
        if n < 0 {
            self.socket.after_error(&io::Error::last_os_error())?;
            return Ok(0);
        }
        for (header, bytes) in headers[..n as usize].iter().zip(self.bytes.chunks_exact_mut(self.each_bytes))
        {
            // SAFETY: the kernel has just filled the header, and its buffers live.
            let reported = unsafe { Reported::of(&header.msg_hdr) };
            self.socket.hand_on(&mut bytes[..tag::ROOM + header.msg_len as usize], reported, each);
        }
        Ok(n as usize)
    }
}

impl Queue for RecvMmsg {
    fn take(&mut self, wait: Duration, each: &mut dyn FnMut(&Frame<'_>)) -> io::Result<usize> {
        let n = self.look(each)?;
        if n > 0 || wait.is_zero() {
            return Ok(n);
        }
        self.socket.calls += 1;
        if self.socket.tap.wait(wait)? { self.look(each) } else { Ok(0) }
    }

    fn stop(&mut self) -> io::Result<()> {
        self.socket.tap.stop()
    }

    fn account(&mut self) -> io::Result<Account> {
        self.socket.account()
    }

    fn granted(&self) -> Granted {
        self.socket.granted()
    }
}
