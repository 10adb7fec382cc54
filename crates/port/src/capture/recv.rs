//! The lowest method: a packet socket, and a system call for each frame, as programs did before there were rings.
//!
//! The kernel makes a socket buffer for each frame or clones it, puts it into the socket's queue and wakes the reader, and the
//! reader copies it out: three locks, a wake-up and a system call per frame.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use super::tag::{self, Tag};
use super::tap::{Tap, after_error};
use super::wide::Wide;
use super::{Account, CaptureError, Drops, Frame, Granted, Interface, Options, Queue};
use crate::packet::{set, set_at};

/// What the kernel counts for a frame in a socket's queue beside its bytes: head room, the tail's record of fragments.
const AROUND_BYTES: u64 = 256 + 320;
/// The socket buffer itself.
const BUFFER_BYTES: u64 = 256;
/// The stamps of a frame are made as it arrives only when the kernel has turned that on, which it does a moment later.
const STAMPS_ON: Duration = Duration::from_millis(2);
/// Room for what is reported beside a frame: its stamp, its tag and lengths, and drops.
const CONTROL_WORDS: usize = 24;

pub(super) fn open(interface: &Interface, options: &Options) -> Result<Vec<Box<dyn Queue>>, CaptureError> {
    let socket = QueueSocket::open(interface, options, 1)?;
    let bytes = vec![0; tag::ROOM + options.snap as usize];
    socket.tap.bind()?;
    socket.tap.admit()?;
    Ok(vec![Box::new(Recv { socket, bytes, beside: Beside::EMPTY, waits: None })])
}

/// Aligned as control messages are.
#[derive(Clone, Copy)]
pub(super) struct Beside(pub(super) [u64; CONTROL_WORDS]);

impl Beside {
    pub(super) const EMPTY: Beside = Beside([0; CONTROL_WORDS]);
}

/// What was reported beside a frame.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Reported {
    at: u64,
    wire_len: u32,
    tag: Option<Tag>,
    /// Frames dropped since the socket was opened, modulo 2^32; not reported while there are none.
    dropped: Option<u32>,
}

impl Reported {
    /// Reads the control messages of a frame that was received.
    ///
    /// # Safety
    /// `header` is as the kernel left it, and its control buffer still lives.
    pub(super) unsafe fn of(header: &libc::msghdr) -> Reported {
        let mut reported = Reported::default();
        // SAFETY: the header's control buffer is valid, by the caller; the macros stay within it, and each kind of
        // message holds the structure that is read.
        unsafe {
            let mut message = libc::CMSG_FIRSTHDR(header);
            // By pointer: a reference to the head of a message would not reach to what follows it.
            while !message.is_null() {
                let data = libc::CMSG_DATA(message);
                match ((*message).cmsg_level, (*message).cmsg_type) {
                    (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                        let time = data.cast::<libc::timespec>().read_unaligned();
                        reported.at = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
                    }
                    (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => {
                        reported.dropped = Some(data.cast::<u32>().read_unaligned());
                    }
                    (libc::SOL_PACKET, libc::PACKET_AUXDATA) => {
                        let aux = data.cast::<libc::tpacket_auxdata>().read_unaligned();
                        reported.tag = Tag::reported(aux.tp_status, aux.tp_vlan_tpid, aux.tp_vlan_tci);
                        reported.wire_len =
                            aux.tp_len + if reported.tag.is_some() { tag::ROOM as u32 } else { 0 };
                    }
                    _ => {}
                }
                message = libc::CMSG_NXTHDR(header, message);
            }
        }
        reported
    }
}

/// A socket with a queue of frames, and its accounting: what this method and [`super::recvmmsg`] share.
pub(super) struct QueueSocket {
    pub(super) tap: Tap,
    snap: u32,
    /// Frames dropped when the last frame arrived.
    reported: Wide,
    received: u64,
    dropped: u64,
    taken: u64,
    pub(super) calls: u64,
    granted: Granted,
}

impl QueueSocket {
    /// One of `queues` sockets that share the buffer.
    pub(super) fn open(
        interface: &Interface,
        options: &Options,
        queues: u64,
    ) -> Result<QueueSocket, CaptureError> {
        let tap = Tap::open(interface, options)?;
        let fd = &tap.fd;
        set(fd, libc::PACKET_AUXDATA, &1i32).map_err(interface.refused("asking for tags and lengths"))?;
        let option = |option| set_at(fd.as_fd(), libc::SOL_SOCKET, option, &1i32);
        option(libc::SO_TIMESTAMPNS).map_err(interface.refused("asking for time stamps"))?;
        option(libc::SO_RXQ_OVFL).map_err(interface.refused("asking for drops"))?;
        std::thread::sleep(STAMPS_ON);
        let cost = cost_of(options.buffer.frame_bytes);
        let wanted = options.buffer.frames_of_each(queues, cost) * cost;
        let memory = set_buffer(&tap, wanted).map_err(interface.refused("sizing the buffer"))?;
        let granted = Granted { method: "socket queue".into(), memory, frames: memory / cost };
        let snap = options.snap;
        Ok(QueueSocket {
            tap,
            snap,
            reported: Wide::default(),
            received: 0,
            dropped: 0,
            taken: 0,
            calls: 0,
            granted,
        })
    }

    /// Hands on a frame that begins [`tag::ROOM`] bytes into `bytes`.
    pub(super) fn hand_on(&mut self, bytes: &mut [u8], reported: Reported, each: &mut dyn FnMut(&Frame<'_>)) {
        let lost_before = reported.dropped.map_or(0, |dropped| self.reported.follow(dropped));
        self.taken += 1;
        let bytes = tag::put_back(bytes, reported.tag, self.snap);
        each(&Frame { bytes, wire_len: reported.wire_len, at: reported.at, lost_before });
    }

    /// After a call that returned an error: nothing to take is none.
    pub(super) fn after_error(&self, error: &io::Error) -> io::Result<()> {
        let code = error.raw_os_error().unwrap_or(libc::EIO);
        if code == libc::EAGAIN {
            return self.tap.interface.check();
        }
        after_error(code, &self.tap.interface)
    }

    pub(super) fn account(&mut self) -> io::Result<Account> {
        let new = self.tap.statistics()?;
        self.received += u64::from(new.received);
        self.dropped += u64::from(new.dropped);
        let drops = vec![Drops { name: "socket queue full", frames: self.dropped }];
        Ok(Account { received: self.received, taken: self.taken, drops, freezes: 0, calls: self.calls })
    }

    pub(super) fn granted(&self) -> Granted {
        self.granted.clone()
    }
}

/// Bytes that the kernel counts for a frame in a socket's queue: whole pages, as drivers and live frames have them,
/// and the socket buffer.
fn cost_of(frame_bytes: u32) -> u64 {
    (u64::from(frame_bytes) + AROUND_BYTES).next_multiple_of(4096) + BUFFER_BYTES
}

/// Sets the queue's size, beyond the system's limit where we may; returns what it has become.
fn set_buffer(tap: &Tap, bytes: u64) -> io::Result<u64> {
    // The kernel doubles the number that it is given.
    let half = i32::try_from(bytes / 2).unwrap_or(i32::MAX / 2).min(i32::MAX / 2);
    let to = |option| set_at(tap.fd.as_fd(), libc::SOL_SOCKET, option, &half);
    to(libc::SO_RCVBUFFORCE).or_else(|_| to(libc::SO_RCVBUF))?;
    let (mut now, mut length) = (0i32, size_of::<i32>() as u32);
    // SAFETY: pointer and length describe `now`.
    let result = unsafe {
        libc::getsockopt(
            tap.fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVBUF,
            std::ptr::from_mut(&mut now).cast(),
            &mut length,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(now as u64) }
}

/// The method itself.
struct Recv {
    socket: QueueSocket,
    bytes: Vec<u8>,
    beside: Beside,
    /// How long the socket waits for a frame, once that was set.
    waits: Option<Duration>,
}

impl Recv {
    fn set_wait(&mut self, wait: Duration) -> io::Result<()> {
        if wait.is_zero() || self.waits == Some(wait) {
            return Ok(());
        }
        let wait_us = wait.as_micros().max(1);
        let time = libc::timeval {
            tv_sec: (wait_us / 1_000_000) as libc::time_t,
            tv_usec: (wait_us % 1_000_000) as libc::suseconds_t,
        };
        self.waits = Some(wait);
        set_at(self.socket.tap.fd.as_fd(), libc::SOL_SOCKET, libc::SO_RCVTIMEO, &time)
    }
}

impl Queue for Recv {
    fn take(&mut self, wait: Duration, each: &mut dyn FnMut(&Frame<'_>)) -> io::Result<usize> {
        self.set_wait(wait)?;
        let room = &mut self.bytes[tag::ROOM..];
        let mut vector = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() };
        // SAFETY: all-zero is a valid header; the fields that matter are set below.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        header.msg_iov = &mut vector;
        header.msg_iovlen = 1;
        header.msg_control = self.beside.0.as_mut_ptr().cast();
        header.msg_controllen = size_of_val(&self.beside.0) as _;
        self.socket.calls += 1;
        let flags = if wait.is_zero() { libc::MSG_DONTWAIT } else { 0 };
        // SAFETY: the header points to our buffers, with their lengths; all live through the call.
        let length = unsafe { libc::recvmsg(self.socket.tap.fd.as_raw_fd(), &mut header, flags) };
        if length < 0 {
            self.socket.after_error(&io::Error::last_os_error())?;
            return Ok(0);
        }
        // SAFETY: the kernel has just filled the header, and its buffers live.
        let reported = unsafe { Reported::of(&header) };
        self.socket.hand_on(&mut self.bytes[..tag::ROOM + length as usize], reported, each);
        Ok(1)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Control messages of these kinds, one after the other, as the kernel lays them out.
    fn beside(messages: &[(i32, i32, &[u8])]) -> (Beside, usize) {
        let (mut beside, mut at) = (Beside::EMPTY, 0);
        let words = |at: usize| at / size_of::<u64>();
        for (level, kind, data) in messages {
            // SAFETY: arithmetic only.
            let (length, space) =
                unsafe { (libc::CMSG_LEN(data.len() as u32), libc::CMSG_SPACE(data.len() as u32)) };
            // SAFETY: integers; zero is a value.
            let mut head: libc::cmsghdr = unsafe { std::mem::zeroed() };
            (head.cmsg_len, head.cmsg_level, head.cmsg_type) = (length as _, *level, *kind);
            let to = beside.0[words(at)..words(at + space as usize)].as_mut_ptr().cast::<u8>();
            // SAFETY: so many words as the message takes, of which the header comes first.
            unsafe {
                to.cast::<libc::cmsghdr>().write(head);
                to.add(size_of::<libc::cmsghdr>()).copy_from_nonoverlapping(data.as_ptr(), data.len());
            }
            at += space as usize;
        }
        (beside, at)
    }

    fn reported(messages: &[(i32, i32, &[u8])]) -> Reported {
        let (mut beside, length) = beside(messages);
        // SAFETY: all-zero is a valid header.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        header.msg_control = beside.0.as_mut_ptr().cast();
        header.msg_controllen = length as _;
        // SAFETY: made as the kernel makes it, and it lives.
        unsafe { Reported::of(&header) }
    }

    #[test]
    fn what_is_reported_beside_a_frame_is_read_in_any_order() {
        let stamp = [7u64.to_ne_bytes(), 9u64.to_ne_bytes()].concat();
        // tp_status, tp_len, tp_snaplen, tp_mac and tp_net, tp_vlan_tci and tp_vlan_tpid
        let tagged = libc::TP_STATUS_VLAN_VALID | libc::TP_STATUS_VLAN_TPID_VALID;
        let words = [tagged, 1000, 60, 0, 5 | 0x88a8 << 16].map(u32::to_ne_bytes).concat();
        let dropped = 77u32.to_ne_bytes();
        let mut messages = [
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS, &stamp[..]),
            (libc::SOL_SOCKET, libc::SO_RXQ_OVFL, &dropped),
            (libc::SOL_PACKET, libc::PACKET_AUXDATA, &words),
            (libc::SOL_SOCKET, 999, b"strange"),
        ];
        let tag = Tag::reported(tagged, 0x88a8, 5);
        let all = Reported { at: 7_000_000_009, wire_len: 1004, tag, dropped: Some(77) };
        for _ in 0..messages.len() {
            messages.rotate_left(1);
            assert_eq!(reported(&messages), all);
        }
        assert_eq!(reported(&[]), Reported::default());
    }

    #[test]
    fn a_frame_costs_whole_pages_in_a_queue() {
        assert_eq!([60, 1500, 3520, 3521, 9000].map(cost_of), [4352, 4352, 4352, 8448, 12_544]);
    }
}
