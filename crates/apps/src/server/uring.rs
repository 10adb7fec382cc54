//! One thread that hands its calls to the kernel in batches (io_uring(7)): one accept that goes on for ever, and for each
//! connection calls that are linked, so that it costs two or three completions.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use io_uring::squeue::{Entry, Flags};
use io_uring::types::Fd;
use io_uring::{IoUring, cqueue, opcode};

use super::dialogue::MOST;
use super::{Closing, Service, Shop};
use crate::tally::Worker;

const ENTRIES: u32 = 4096;

/// What a completion is of, in the upper half of its number; the lower half is the descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
enum Call {
    Accept = 1,
    Ask,
    Reply,
    Hold,
    Close,
}

impl Call {
    fn number(self, fd: RawFd) -> u64 {
        (self as u64) << 32 | u64::from(fd as u32)
    }

    fn of(number: u64) -> (Option<Call>, RawFd) {
        let call = [Call::Accept, Call::Ask, Call::Reply, Call::Hold, Call::Close];
        (call.into_iter().find(|call| *call as u64 == number >> 32), number as u32 as RawFd)
    }
}

/// Why the kernel does not allow it.
pub(super) fn obstacle() -> Option<String> {
    let error = ring().err()?;
    let cause = match error.raw_os_error() {
        Some(libc::EPERM) => "the kernel forbids it (kernel.io_uring_disabled, or a filter of system calls)",
        Some(libc::ENOSYS) => "the kernel has no io_uring",
        _ => return Some(format!("io_uring does not work here: {error}")),
    };
    Some(cause.into())
}

fn ring() -> io::Result<IoUring> {
    // Completions are worked on when this thread asks for them, by itself: Linux 6.1.
    let modern = IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_cqsize(4 * ENTRIES)
        .build(ENTRIES);
    match modern {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => IoUring::new(ENTRIES),
        ring => ring,
    }
}

pub(super) fn serve(shop: Shop<'_>, listener: &OwnedFd, ready: impl FnOnce()) -> io::Result<()> {
    let ring = ring().map_err(|error| obstacle().map_or(error, io::Error::other))?;
    let worker = shop.tally.worker(0);
    let mut server =
        Server { ring, service: shop.service, worker, texts: Vec::new(), rest: Box::new([0; 64]) };
    let mut completed: Vec<cqueue::Entry> = Vec::new();
    server.accept(listener)?;
    ready();
    loop {
        match server.ring.submit_and_wait(1) {
            Err(error) if error.raw_os_error() == Some(libc::EINTR) => continue,
            // More has completed than there is room for: that is read first.
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {}
            result => drop(result?),
        }
        completed.extend(server.ring.completion());
        for entry in completed.drain(..) {
            server.completed(&entry, listener)?;
        }
    }
}

struct Server<'a> {
    ring: IoUring,
    service: &'a Service,
    worker: &'static Worker,
    /// What a connection has asked, then the reply, by its descriptor. The kernel reads and writes it: an entry stays
    /// where it is until the call that has it is completed.
    texts: Vec<Vec<u8>>,
    /// Buffer for discarded bytes of all connections.
    rest: Box<[u8; 64]>,
}

impl Server<'_> {
    fn push(&mut self, entries: &[Entry]) -> io::Result<()> {
        // SAFETY: buffers live as long as the server or until their call is completed, see `texts`.
        while unsafe { self.ring.submission().push_multiple(entries) }.is_err() {
            self.ring.submit()?;
        }
        Ok(())
    }

    fn accept(&mut self, listener: &OwnedFd) -> io::Result<()> {
        let entry = opcode::AcceptMulti::new(Fd(listener.as_raw_fd())).flags(libc::SOCK_CLOEXEC).build();
        self.push(&[entry.user_data(Call::Accept.number(0))])
    }

    fn completed(&mut self, entry: &cqueue::Entry, listener: &OwnedFd) -> io::Result<()> {
        let (call, fd) = Call::of(entry.user_data());
        let result = entry.result();
        match call {
            Some(Call::Accept) => {
                if !cqueue::more(entry.flags()) {
                    self.accept(listener)?;
                }
                match result {
                    fd if fd >= 0 => {
                        self.worker.accepted();
                        if self.service.reply.has_request() { self.ask(fd) } else { self.reply(fd) }
                    }
                    error if [libc::EMFILE, libc::ENFILE].contains(&-error) => {
                        Err(io::Error::from_raw_os_error(-error))
                    }
                    _ => Ok(()),
                }
            }
            Some(Call::Ask) => self.asked(fd, result),
            Some(Call::Hold) if result > 0 => self.hold(fd),
            Some(Call::Hold) => self.close(fd),
            Some(Call::Close) => {
                self.worker.ended();
                Ok(())
            }
            // A reply that could not be sent; its connection is closed, or is found closed, by the next call.
            Some(Call::Reply) | None => Ok(()),
        }
    }

    fn text(&mut self, fd: RawFd) -> &mut Vec<u8> {
        let index = fd as usize;
        if index >= self.texts.len() {
            // Their buffers stay where they are.
            self.texts.resize_with(index + 1, Vec::new);
        }
        &mut self.texts[index]
    }

    fn ask(&mut self, fd: RawFd) -> io::Result<()> {
        let text = self.text(fd);
        text.clear();
        text.reserve_exact(MOST);
        self.ask_more(fd)
    }

    fn ask_more(&mut self, fd: RawFd) -> io::Result<()> {
        let room = self.text(fd).spare_capacity_mut();
        let (at, size) = (room.as_mut_ptr().cast(), room.len() as u32);
        self.push(&[opcode::Recv::new(Fd(fd), at, size).build().user_data(Call::Ask.number(fd))])
    }

    fn asked(&mut self, fd: RawFd, result: i32) -> io::Result<()> {
        let reply = self.service.reply;
        let text = self.text(fd);
        let Some(n) = usize::try_from(result).ok().filter(|n| *n > 0) else { return self.close(fd) };
        // SAFETY: the kernel has written so many bytes into the room that it was given.
        unsafe { text.set_len(text.len() + n) };
        if reply.is_whole(text) {
            self.reply(fd)
        } else if text.len() == text.capacity() {
            self.close(fd)
        } else {
            self.ask_more(fd)
        }
    }

    /// Sends the reply, then closes or waits for the client, in one go.
    fn reply(&mut self, fd: RawFd) -> io::Result<()> {
        let (reply, closing) = (self.service.reply, self.service.closing);
        let (at, size) = match reply {
            super::Reply::Busy => (super::dialogue::BUSY.as_ptr(), super::dialogue::BUSY.len()),
            _ => {
                let text = self.text(fd);
                let answer = reply.with_text(text, <[u8]>::to_vec);
                *text = answer;
                (text.as_ptr(), text.len())
            }
        };
        let send = opcode::Send::new(Fd(fd), at, size as u32).flags(libc::MSG_NOSIGNAL).build();
        let send = send.flags(Flags::IO_HARDLINK | Flags::SKIP_SUCCESS).user_data(Call::Reply.number(fd));
        let then = match closing {
            Closing::AfterReply => self.closing(fd),
            Closing::AfterClient => self.holding(fd),
        };
        self.push(&[send, then])
    }

    fn holding(&mut self, fd: RawFd) -> Entry {
        let (at, size) = (self.rest.as_mut_ptr(), self.rest.len() as u32);
        opcode::Recv::new(Fd(fd), at, size).build().user_data(Call::Hold.number(fd))
    }

    fn closing(&self, fd: RawFd) -> Entry {
        opcode::Close::new(Fd(fd)).build().user_data(Call::Close.number(fd))
    }

    fn hold(&mut self, fd: RawFd) -> io::Result<()> {
        let entry = self.holding(fd);
        self.push(&[entry])
    }

    fn close(&mut self, fd: RawFd) -> io::Result<()> {
        let entry = self.closing(fd);
        self.push(&[entry])
    }
}
