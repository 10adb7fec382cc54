//! Frames of which a stack has left something to a network card: the checksum, and cutting them into segments.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use weir_packet::checksum::{fold, pseudo_header, sum, write_ipv4};
use weir_packet::headers::{TCP, UDP};

/// What is sent, and what of it is left to do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Offloads {
    pub(crate) is_v4: bool,
    pub(crate) protocol: u8,
    pub(crate) is_tagged: bool,
    /// Bytes of payload, and of each segment; the frame is not large where they are the same.
    pub(crate) payload: usize,
    pub(crate) segment: usize,
}

impl Offloads {
    fn ip_at(&self) -> usize {
        if self.is_tagged { 18 } else { 14 }
    }

    fn transport_at(&self) -> usize {
        self.ip_at() + if self.is_v4 { 20 } else { 40 }
    }

    fn payload_at(&self) -> usize {
        self.transport_at() + if self.protocol == TCP { 20 } else { 8 }
    }

    fn checksum_at(&self) -> usize {
        if self.protocol == TCP { 16 } else { 6 }
    }

    fn addresses<'a>(&self, frame: &'a [u8]) -> &'a [u8] {
        let at = self.ip_at();
        if self.is_v4 { &frame[at + 12..at + 20] } else { &frame[at + 8..at + 40] }
    }

    fn content(&self) -> Vec<u8> {
        (0..self.payload).map(|i| (i * 7 + i / 251) as u8).collect()
    }

    pub(crate) fn frame(&self) -> Vec<u8> {
        let bytes = self.payload_at() - self.transport_at() + self.payload;
        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
        if self.is_tagged {
            frame.extend([0x81, 0, 0, 7]);
        }
        if self.is_v4 {
            frame.extend([8, 0, 0x45, 0]);
            frame.extend((20 + bytes as u16).to_be_bytes());
            frame.extend([0, 9, 0x40, 0, 64, self.protocol, 0, 0, 198, 18, 0, 1, 192, 0, 2, 1]);
            let at = self.ip_at();
            write_ipv4(&mut frame[at..]);
        } else {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            frame.extend((bytes as u16).to_be_bytes());
            frame.extend([self.protocol, 64, 0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
            frame.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
        }
        match self.protocol {
            TCP => frame.extend([4, 0, 0, 80, 0, 0, 0, 5, 0, 0, 0, 9, 0x50, 0x18, 1, 0, 0, 0, 0, 0]),
            _ => {
                frame.extend([4, 0, 0, 53]);
                frame.extend((bytes as u16).to_be_bytes());
                frame.extend([0, 0]);
            }
        }
        let partial = fold(pseudo_header(self.addresses(&frame), self.protocol, bytes));
        let field = self.transport_at() + self.checksum_at();
        frame[field..field + 2].copy_from_slice(&partial.to_be_bytes());
        frame.extend(self.content());
        frame
    }

    /// struct virtio_net_hdr.
    fn header(&self) -> [u8; 10] {
        let is_large = self.payload > self.segment;
        let kind = match (is_large, self.protocol, self.is_v4) {
            (false, ..) => 0,
            (_, TCP, true) => 1,
            (_, TCP, false) => 4,
            _ => 5,
        };
        let size = if is_large { self.segment } else { 0 };
        let words = [self.payload_at(), size, self.transport_at(), self.checksum_at()];
        let mut header = [1, kind, 0, 0, 0, 0, 0, 0, 0, 0];
        for (to, word) in header[2..].chunks_exact_mut(2).zip(words) {
            to.copy_from_slice(&(word as u16).to_ne_bytes());
        }
        header
    }

    /// Has it leave by an interface of the calling thread's network namespace, as a stack of this machine would.
    pub(crate) fn send(&self, index: u32) -> io::Result<()> {
        const PACKET_VNET_HDR: i32 = 15;
        // SAFETY: no pointers; the result is checked below.
        let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        assert!(fd >= 0, "{}", io::Error::last_os_error());
        // SAFETY: a descriptor that the kernel has just returned.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let on = 1_i32;
        // SAFETY: an open socket, and a value that lives through the call.
        let set = unsafe {
            libc::setsockopt(fd.as_raw_fd(), libc::SOL_PACKET, PACKET_VNET_HDR, (&raw const on).cast(), 4)
        };
        assert_eq!(set, 0, "{}", io::Error::last_os_error());
        // SAFETY: all-zero is a valid address.
        let mut to: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        (to.sll_family, to.sll_ifindex) = (libc::AF_PACKET as u16, index as i32);
        let all = [&self.header()[..], &self.frame()].concat();
        // SAFETY: pointers and lengths of values that live through the call.
        let sent = unsafe {
            let bytes = size_of_val(&to) as u32;
            libc::sendto(fd.as_raw_fd(), all.as_ptr().cast(), all.len(), 0, (&raw const to).cast(), bytes)
        };
        if sent == all.len() as isize { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    pub(crate) fn segments(&self) -> usize {
        self.payload.div_ceil(self.segment)
    }

    /// Whether these are its segments, each with its lengths and checksums.
    pub(crate) fn check(&self, came: &[Vec<u8>], place: &str) {
        let mut content: Vec<u8> = vec![];
        for (n, frame) in came.iter().enumerate() {
            let place = format!("{place}: {self:?}, segment {n}: {frame:02x?}");
            let (ip, at) = (self.ip_at(), self.transport_at());
            let word = |at: usize| usize::from(u16::from_be_bytes([frame[at], frame[at + 1]]));
            assert_eq!(frame[..12], self.frame()[..12], "{place}");
            assert_eq!(word(ip - 2), if self.is_v4 { 0x0800 } else { 0x86dd }, "{place}");
            if self.is_v4 {
                assert_eq!((fold(sum(&frame[ip..at])), word(ip + 2)), (0xffff, frame.len() - ip), "{place}");
            } else {
                assert_eq!(word(ip + 4), frame.len() - at, "{place}");
            }
            if self.protocol == UDP {
                assert_eq!(word(at + 4), frame.len() - at, "{place}");
            } else {
                assert_eq!(word(at + 4) << 16 | word(at + 6), 5 + n * self.segment, "{place}");
            }
            let pseudo = pseudo_header(self.addresses(frame), self.protocol, frame.len() - at);
            assert_eq!(fold(pseudo + sum(&frame[at..])), 0xffff, "{place}");
            content.extend(&frame[self.payload_at()..]);
        }
        assert!(
            content == self.content(),
            "{place}: {self:?}: {} bytes of payload, or others",
            content.len()
        );
    }
}

/// What there is to do, of each kind.
pub(crate) fn all() -> Vec<Offloads> {
    let mut all = vec![];
    for (is_v4, is_tagged) in [(true, false), (false, false), (true, true), (false, true)] {
        for protocol in [TCP, UDP] {
            // One frame; more segments than a call hands on; a large frame that is shorter than others are.
            for (payload, segment) in [(1001, 1001), (50_000, 500), (1201, 400)] {
                all.push(Offloads { is_v4, protocol, is_tagged, payload, segment });
            }
        }
    }
    all
}
