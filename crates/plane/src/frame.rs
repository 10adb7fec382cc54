//! A frame in a port's memory, with what its headers say kept beside it.
//!
//! ```text
//!      0        start      ip_at       l4_at                end
//!      | head   | Ethernet | IP        | TCP, UDP, ICMP ... | tail |
//! ```
//!
//! Invariant: the description (`addresses`, `ports`, `ttl` ...) says what the bytes say. What changes a header changes
//! both, and the checksums that cover it, by the difference (RFC 1624).

use std::ops::Range;

use weir_packet::checksum::{fold, is_right_ipv4, sum};
use weir_packet::frame::Mac;
use weir_packet::headers::{ICMP, ICMP6, SCTP, TCP, UDP};

use crate::drops::Drop;
use crate::extensions::{self, Piece};

/// Number of a port of the node, in the order of its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortId(pub u8);

/// What stands behind the Ethernet header and its tags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An IPv4 packet.
    V4,
    /// An IPv6 packet.
    V6,
    /// A question or an answer of ARP.
    Arp,
    /// Neither.
    Other,
}

/// Which part of a packet a frame carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fragment {
    /// All of it.
    Whole,
    /// Its first part, with the header of the transport.
    First,
    /// A later part: it has no ports.
    Later,
}

/// Bytes that a port leaves free in front of each frame: two tags fit there.
pub const HEAD_ROOM: usize = 8;
/// Ethernet header without tags.
pub(crate) const ETHERNET: usize = 14;
/// IPv4 header without options.
pub(crate) const IPV4: usize = 20;
/// IPv6 header without extensions.
pub(crate) const IPV6: usize = 40;
/// Longest packet of IPv4, and what one of IPv6 carries at most.
const LONGEST: usize = 65_535;

/// A frame in somebody else's memory.
#[derive(Debug)]
pub struct Frame<'a> {
    buf: &'a mut [u8],
    start: u16,
    end: u16,
    ip_at: u16,
    l4_at: u16,
    /// The port it came in by.
    pub port: PortId,
    /// A mapping awaits it at an address of the node itself: another thread has said so.
    pub(crate) is_awaited: bool,
    /// It goes from one port of the left end to another: no NAT is between them.
    pub(crate) stays_inside: bool,
    kind: Kind,
    proto: u8,
    fragment: Fragment,
    sport: u16,
    dport: u16,
    src4: u32,
    dst4: u32,
}

impl<'a> Frame<'a> {
    /// The frame in `buf[start..end]`, which came in by `port`. Nothing is read yet.
    ///
    /// # Panics
    /// If the range is not one of the buffer, leaves no [`HEAD_ROOM`], or the buffer is longer than 64 KiB.
    pub fn new(buf: &'a mut [u8], start: usize, end: usize, port: PortId) -> Frame<'a> {
        assert!(
            (HEAD_ROOM..=end).contains(&start) && end <= buf.len(),
            "a frame of the buffer with room in front"
        );
        assert!(buf.len() <= usize::from(u16::MAX), "a buffer of a frame");
        Frame {
            buf,
            start: start as u16,
            end: end as u16,
            ip_at: start as u16,
            l4_at: start as u16,
            port,
            is_awaited: false,
            stays_inside: false,
            kind: Kind::Other,
            proto: 0,
            fragment: Fragment::Whole,
            sport: 0,
            dport: 0,
            src4: 0,
            dst4: 0,
        }
    }

    /// Reads the headers from the Ethernet header on, whose tags end at `ether_type_at` (from the frame's start).
    pub(crate) fn read(&mut self, ether_type_at: usize) -> Result<(), Drop> {
        let at = usize::from(self.start) + ether_type_at;
        let bytes =
            self.buf.get(at..usize::from(self.end)).filter(|rest| rest.len() >= 2).ok_or(Drop::Malformed)?;
        self.ip_at = at as u16 + 2;
        match [bytes[0], bytes[1]] {
            [0x08, 0x00] => self.read_v4(),
            [0x86, 0xdd] => self.read_v6(),
            [0x08, 0x06] => {
                self.kind = Kind::Arp;
                Ok(())
            }
            _ => {
                self.kind = Kind::Other;
                Ok(())
            }
        }
    }

    /// Reads again after the packet itself was written anew.
    pub(crate) fn read_ip(&mut self) -> Result<(), Drop> {
        self.read(usize::from(self.ip_at - 2 - self.start))
    }

    /// RFC 1812, section 5.2.2: version, header length, total length and checksum are true.
    fn read_v4(&mut self) -> Result<(), Drop> {
        let ip_at = usize::from(self.ip_at);
        let ip = &self.buf[ip_at..usize::from(self.end)];
        let header = ip.first_chunk::<IPV4>().ok_or(Drop::Malformed)?;
        let header_bytes = usize::from(header[0] & 15) * 4;
        let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
        if header[0] >> 4 != 4 || header_bytes < IPV4 || total < header_bytes || total > ip.len() {
            return Err(Drop::Malformed);
        }
        let is_right = if header_bytes == IPV4 {
            is_right_ipv4(header)
        } else {
            fold(sum(&ip[..header_bytes])) == 0xffff
        };
        if !is_right {
            return Err(Drop::BadChecksum);
        }
        let place = u16::from_be_bytes([header[6], header[7]]);
        self.fragment = match (place & 0x1fff, place & 0x2000) {
            (0, 0) => Fragment::Whole,
            (0, _) => Fragment::First,
            // It would end behind the longest packet there is.
            (at, _) if usize::from(at) * 8 + total > LONGEST => return Err(Drop::Malformed),
            _ => Fragment::Later,
        };
        self.kind = Kind::V4;
        self.proto = header[9];
        self.src4 = u32::from_be_bytes([header[12], header[13], header[14], header[15]]);
        self.dst4 = u32::from_be_bytes([header[16], header[17], header[18], header[19]]);
        // Behind the packet may be padding of Ethernet.
        self.end = (ip_at + total) as u16;
        self.l4_at = (ip_at + header_bytes) as u16;
        self.read_ports()
    }

    fn read_v6(&mut self) -> Result<(), Drop> {
        let ip_at = usize::from(self.ip_at);
        let ip = &self.buf[ip_at..usize::from(self.end)];
        let header = ip.first_chunk::<IPV6>().ok_or(Drop::Malformed)?;
        let total = IPV6 + usize::from(u16::from_be_bytes([header[4], header[5]]));
        if header[0] >> 4 != 6 || total > ip.len() {
            return Err(Drop::Malformed);
        }
        let carried = extensions::walk(&ip[..total]).ok_or(Drop::Malformed)?;
        self.fragment = match carried.fragment {
            None | Some(Piece { offset: 0, more: false, .. }) => Fragment::Whole,
            Some(Piece { offset: 0, .. }) => Fragment::First,
            // RFC 8200, section 4.5.
            Some(piece) if usize::from(piece.offset) + total - carried.at > LONGEST => {
                return Err(Drop::Malformed);
            }
            Some(_) => Fragment::Later,
        };
        self.kind = Kind::V6;
        self.proto = carried.proto;
        self.end = (ip_at + total) as u16;
        self.l4_at = (ip_at + carried.at) as u16;
        self.read_ports()
    }

    /// The ports of TCP, UDP and SCTP; of a query of ICMP its identifier, as both.
    fn read_ports(&mut self) -> Result<(), Drop> {
        (self.sport, self.dport) = (0, 0);
        if self.fragment == Fragment::Later {
            return Ok(());
        }
        let l4 = &self.buf[usize::from(self.l4_at)..usize::from(self.end)];
        let word = |at: usize| u16::from_be_bytes([l4[at], l4[at + 1]]);
        let enough = |bytes: usize| if l4.len() < bytes { Err(Drop::Malformed) } else { Ok(()) };
        match (self.proto, self.kind) {
            (TCP, _) => {
                enough(20)?;
                let header_bytes = usize::from(l4[12] >> 4) * 4;
                if header_bytes < 20 || header_bytes > l4.len() {
                    return Err(Drop::Malformed);
                }
                (self.sport, self.dport) = (word(0), word(2));
            }
            (UDP, _) => {
                enough(8)?;
                (self.sport, self.dport) = (word(0), word(2));
            }
            (ICMP, Kind::V4) | (ICMP6, Kind::V6) => {
                enough(8)?;
                if self.icmp_query() {
                    (self.sport, self.dport) = (word(4), word(4));
                }
            }
            _ => return self.read_other_ports(),
        }
        Ok(())
    }

    /// The ports of SCTP, apart from what nearly all packets are.
    #[cold]
    fn read_other_ports(&mut self) -> Result<(), Drop> {
        if self.proto == SCTP {
            let header = self.l4().first_chunk::<12>().ok_or(Drop::Malformed)?;
            let word = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
            (self.sport, self.dport) = (word(0), word(2));
        }
        Ok(())
    }
}

/// What the headers say.
impl Frame<'_> {
    /// The whole frame, Ethernet header included.
    pub fn bytes(&self) -> &[u8] {
        &self.buf[usize::from(self.start)..usize::from(self.end)]
    }

    /// A copy of the frame without its tags.
    pub(crate) fn untagged(&self) -> Vec<u8> {
        [&self.bytes()[..12], &self.buf[usize::from(self.ip_at) - 2..usize::from(self.end)]].concat()
    }

    /// A copy without tags (the port that it leaves by puts its own), with [`HEAD_ROOM`] in front.
    pub(crate) fn copy(&self) -> Vec<u8> {
        [&[0; HEAD_ROOM][..], &self.untagged()].concat()
    }

    /// Whether there are tags between its Ethernet addresses and its type.
    #[inline]
    pub(crate) fn has_tags(&self) -> bool {
        usize::from(self.ip_at - self.start) > ETHERNET
    }

    /// Where the frame is in its buffer.
    pub fn range(&self) -> Range<usize> {
        self.start.into()..self.end.into()
    }

    /// The IP packet, or what stands in its place.
    pub fn ip(&self) -> &[u8] {
        &self.buf[usize::from(self.ip_at)..usize::from(self.end)]
    }

    /// What stands behind the IP header and its extensions.
    pub fn l4(&self) -> &[u8] {
        &self.buf[usize::from(self.l4_at)..usize::from(self.end)]
    }

    /// The IP packet, to be changed; [`Frame::read_ip`] makes the description true again.
    pub(crate) fn ip_mut(&mut self) -> &mut [u8] {
        &mut self.buf[usize::from(self.ip_at)..usize::from(self.end)]
    }

    /// What stands behind the IP header, to be changed.
    pub(crate) fn l4_mut(&mut self) -> &mut [u8] {
        &mut self.buf[usize::from(self.l4_at)..usize::from(self.end)]
    }

    /// What it carries.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Protocol number behind IP and the extensions of IPv6.
    pub fn proto(&self) -> u8 {
        self.proto
    }

    /// Which part of a packet it is.
    pub fn fragment(&self) -> Fragment {
        self.fragment
    }

    /// What the pieces of a packet have in common beside their addresses; means nothing of a whole one.
    pub(crate) fn fragment_id(&self) -> u32 {
        let ip = self.ip();
        if self.kind == Kind::V4 {
            return u32::from(u16::from_be_bytes([ip[4], ip[5]]));
        }
        extensions::walk(ip).and_then(|carried| carried.fragment).map_or(0, |piece| piece.id)
    }

    /// How many bytes of the packet's payload come before this piece of it.
    pub(crate) fn fragment_offset(&self) -> usize {
        let ip = self.ip();
        if self.fragment != Fragment::Later {
            return 0;
        }
        if self.kind == Kind::V4 {
            return usize::from(u16::from_be_bytes([ip[6], ip[7]]) & 0x1fff) * 8;
        }
        extensions::walk(ip).and_then(|carried| carried.fragment).map_or(0, |piece| piece.offset.into())
    }

    /// Ports of TCP, UDP and SCTP, source and destination; the identifier of a query of ICMP, twice; else zero.
    pub fn ports(&self) -> (u16, u16) {
        (self.sport, self.dport)
    }

    /// Source and destination of an IPv4 packet.
    pub fn addresses4(&self) -> (u32, u32) {
        debug_assert_eq!(self.kind, Kind::V4);
        (self.src4, self.dst4)
    }

    /// Source and destination of an IPv6 packet.
    pub fn addresses6(&self) -> (u128, u128) {
        debug_assert_eq!(self.kind, Kind::V6);
        let ip = self.ip();
        let address = |at: usize| u128::from_be_bytes(*ip[at..].first_chunk().expect("the header was read"));
        (address(8), address(24))
    }

    /// Time to live of IPv4, hop limit of IPv6.
    pub fn ttl(&self) -> u8 {
        self.ip()[if self.kind == Kind::V4 { 8 } else { 7 }]
    }

    /// Identification of an IPv4 packet.
    pub(crate) fn id4(&self) -> u16 {
        let ip = self.ip();
        u16::from_be_bytes([ip[4], ip[5]])
    }

    /// Whether an IPv4 packet may not be cut into fragments.
    #[inline]
    pub(crate) fn keeps_whole(&self) -> bool {
        self.ip()[6] & 0x40 != 0
    }

    /// Flags of TCP, zero for all else.
    pub fn tcp_flags(&self) -> u8 {
        if self.proto == TCP && self.fragment != Fragment::Later { self.l4()[13] } else { 0 }
    }

    /// Type and code of ICMP, if it is such a packet and its first part.
    pub fn icmp(&self) -> Option<(u8, u8)> {
        let is_icmp = match self.kind {
            Kind::V4 => self.proto == ICMP,
            Kind::V6 => self.proto == ICMP6,
            _ => false,
        };
        (is_icmp && self.fragment != Fragment::Later).then(|| (self.l4()[0], self.l4()[1]))
    }

    /// A query of ICMP or its answer, which has an identifier: echo, timestamp, information, address mask (RFC 792, 950).
    pub fn icmp_query(&self) -> bool {
        match (self.icmp(), self.kind) {
            (Some((kind, _)), Kind::V4) => matches!(kind, 0 | 8 | 13..=18),
            (Some((kind, _)), Kind::V6) => matches!(kind, 128 | 129),
            _ => false,
        }
    }

    /// An answer to a query of ICMP.
    pub(crate) fn icmp_answer(&self) -> bool {
        match self.kind {
            Kind::V4 => matches!(self.icmp(), Some((0 | 14 | 16 | 18, _))),
            _ => matches!(self.icmp(), Some((129, _))),
        }
    }

    /// An error of ICMP, which quotes a packet.
    pub fn icmp_error(&self) -> bool {
        match (self.icmp(), self.kind) {
            (Some((kind, _)), Kind::V4) => matches!(kind, 3 | 4 | 5 | 11 | 12),
            (Some((kind, _)), Kind::V6) => kind < 128,
            _ => false,
        }
    }

    /// The same, and it is in one piece: what it quotes can be judged by its checksum.
    pub(crate) fn is_whole_icmp_error(&self) -> bool {
        self.icmp_error() && self.fragment() == Fragment::Whole
    }

    /// ICMP in pieces: whether it is an error, only the first one tells.
    pub(crate) fn is_piece_of_icmp(&self) -> bool {
        let icmp = if self.kind == Kind::V4 { ICMP } else { ICMP6 };
        self.fragment != Fragment::Whole && self.proto == icmp
    }
}

/// Changes, each of which leaves the checksums right.
impl Frame<'_> {
    /// Another source address of IPv4.
    pub fn set_src4(&mut self, address: u32) {
        self.change4(12, self.src4, address);
        self.src4 = address;
    }

    /// Another destination address of IPv4.
    pub fn set_dst4(&mut self, address: u32) {
        self.change4(16, self.dst4, address);
        self.dst4 = address;
    }

    /// Another source, address and port (or identifier of a query) at once.
    #[inline]
    pub(crate) fn set_source4(&mut self, address: u32, port: u16) {
        let delta = self.write4(12, self.src4, address);
        let at = if self.proto == ICMP { 4 } else { 0 };
        self.write_port(at, self.sport, port, delta);
        (self.src4, self.sport) = (address, port);
        if at == 4 {
            self.dport = port;
        }
    }

    /// Another destination, address and port (or identifier of a query) at once.
    #[inline]
    pub(crate) fn set_destination4(&mut self, address: u32, port: u16) {
        let delta = self.write4(16, self.dst4, address);
        let at = if self.proto == ICMP { 4 } else { 2 };
        self.write_port(at, self.dport, port, delta);
        (self.dst4, self.dport) = (address, port);
        if at == 4 {
            self.sport = port;
        }
    }

    /// Writes an address, and tells what that adds to the sums that cover it.
    #[inline]
    fn write4(&mut self, at: usize, old: u32, new: u32) -> u32 {
        let delta = delta32(old, new);
        let header = self.ip_mut().first_chunk_mut::<IPV4>().expect("the header was read");
        *header[at..].first_chunk_mut().expect("inside the header") = new.to_be_bytes();
        adjust(header, 10, delta);
        delta
    }

    /// Writes a port; `delta` is what the address adds to the checksum of the transport.
    #[inline]
    fn write_port(&mut self, at: usize, old: u16, new: u16, delta: u32) {
        let port_delta = delta16(old, new);
        *self.l4_mut()[at..].first_chunk_mut().expect("the ports were read") = new.to_be_bytes();
        match self.proto {
            ICMP => adjust(self.l4_mut(), 2, port_delta),
            _ => self.adjust_l4(delta + port_delta),
        }
    }

    /// Another identification of an IPv4 packet.
    #[inline]
    pub(crate) fn set_id4(&mut self, id: u16) {
        let delta = delta16(self.id4(), id);
        let header = self.ip_mut();
        header[4..6].copy_from_slice(&id.to_be_bytes());
        adjust(header, 10, delta);
    }

    fn change4(&mut self, at: usize, old: u32, new: u32) {
        let delta = delta32(old, new);
        let header = self.ip_mut().first_chunk_mut::<IPV4>().expect("the header was read");
        *header[at..].first_chunk_mut().expect("inside the header") = new.to_be_bytes();
        adjust(header, 10, delta);
        self.adjust_l4(delta);
    }

    /// Another source port, or identifier of a query.
    pub fn set_sport(&mut self, port: u16) {
        let at = if self.proto == ICMP || self.proto == ICMP6 { 4 } else { 0 };
        self.change_port(at, self.sport, port);
        self.sport = port;
        if at == 4 {
            self.dport = port;
        }
    }

    /// Another destination port, or identifier of a query.
    pub fn set_dport(&mut self, port: u16) {
        if self.proto == ICMP || self.proto == ICMP6 {
            return self.set_sport(port);
        }
        self.change_port(2, self.dport, port);
        self.dport = port;
    }

    fn change_port(&mut self, at: usize, old: u16, new: u16) {
        if self.fragment == Fragment::Later {
            return;
        }
        *self.l4_mut()[at..].first_chunk_mut().expect("the ports were read") = new.to_be_bytes();
        let delta = delta16(old, new);
        match self.proto {
            ICMP if self.kind == Kind::V4 => adjust(self.l4_mut(), 2, delta),
            ICMP6 => adjust(self.l4_mut(), 2, delta),
            _ => self.adjust_l4(delta),
        }
    }

    /// The checksum of TCP or UDP after a change of what it covers. That of ICMP for IPv4 covers no address; a UDP
    /// checksum of zero says that there is none, and one that comes out as zero is sent as all ones (RFC 768).
    fn adjust_l4(&mut self, delta: u32) {
        if self.fragment == Fragment::Later {
            return;
        }
        let v6 = self.kind == Kind::V6;
        let proto = self.proto;
        let l4 = self.l4_mut();
        match proto {
            TCP => adjust(l4, 16, delta),
            UDP if l4[6..8] != [0, 0] => {
                adjust(l4, 6, delta);
                if l4[6..8] == [0, 0] {
                    l4[6..8].fill(0xff);
                }
            }
            ICMP6 if v6 => adjust(l4, 2, delta),
            _ => {}
        }
    }

    /// One hop less to live; the caller has seen that there is one left.
    pub fn decrement_ttl(&mut self) {
        match self.kind {
            Kind::V4 => {
                let header = self.ip_mut();
                let old = u16::from_be_bytes([header[8], header[9]]);
                header[8] -= 1;
                adjust(header, 10, delta16(old, old - 0x100));
            }
            _ => self.ip_mut()[7] -= 1,
        }
    }

    /// Whether [`Frame::replace_header`] has room for a header of so many bytes.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        let needed = HEAD_ROOM + ETHERNET + bytes + self.l4().len();
        needed <= self.buf.len()
    }

    /// Another IP header, of either kind, in place of the one there is and its extensions: the rest moves back if there
    /// is no room in front of it, where [`Frame::has_room`] has said that there is some behind. Tags are gone.
    ///
    /// # Errors
    /// With this header it is no packet: a piece of a longer one may stand behind the end of the longest one there is.
    pub(crate) fn replace_header(&mut self, header: &[u8]) -> Result<(), Drop> {
        let start = usize::from(self.start);
        let addresses = *self.buf[start..].first_chunk::<12>().expect("an Ethernet header");
        let least = HEAD_ROOM + ETHERNET + header.len();
        let (l4, end) = (usize::from(self.l4_at), usize::from(self.end));
        let l4_at = l4.max(least);
        self.buf.copy_within(l4..end, l4_at);
        let ip_at = l4_at - header.len();
        self.buf[ip_at..l4_at].copy_from_slice(header);
        let ether_type: [u8; 2] = if header[0] >> 4 == 4 { [0x08, 0x00] } else { [0x86, 0xdd] };
        self.buf[ip_at - 2..ip_at].copy_from_slice(&ether_type);
        self.buf[ip_at - ETHERNET..ip_at - 2].copy_from_slice(&addresses);
        (self.start, self.end) = ((ip_at - ETHERNET) as u16, (end + l4_at - l4) as u16);
        self.read(ETHERNET - 2)
    }

    /// The Ethernet header anew, with these tags (each of four bytes, the outer one first) between the addresses and
    /// the type. It ends where the packet begins; the frame begins earlier or later for it.
    pub(crate) fn set_ethernet(&mut self, dst: Mac, src: Mac, tags: &[[u8; 4]]) {
        debug_assert!(tags.len() * 4 <= HEAD_ROOM);
        let start = usize::from(self.ip_at) - ETHERNET - tags.len() * 4;
        self.start = start as u16;
        let header = &mut self.buf[start..];
        header[..6].copy_from_slice(&dst);
        header[6..12].copy_from_slice(&src);
        for (place, tag) in header[12..].chunks_exact_mut(4).zip(tags) {
            place.copy_from_slice(tag);
        }
    }
}

/// Puts a difference into the checksum at `at` (RFC 1624, equation 3).
pub(crate) fn adjust(bytes: &mut [u8], at: usize, delta: u32) {
    let field = bytes[at..].first_chunk_mut::<2>().expect("a checksum");
    let old = u32::from(!u16::from_be_bytes(*field));
    *field = (!fold16(old + delta)).to_be_bytes();
}

/// What replacing a word adds to a one's complement sum.
pub(crate) fn delta16(old: u16, new: u16) -> u32 {
    u32::from(!old) + u32::from(new)
}

/// What replacing two words adds.
pub(crate) fn delta32(old: u32, new: u32) -> u32 {
    let (old, new) = (!old, new);
    u32::from(fold16((old >> 16) + (old & 0xffff) + (new >> 16) + (new & 0xffff)))
}

fn fold16(sum: u32) -> u16 {
    let once = (sum & 0xffff) + (sum >> 16);
    ((once & 0xffff) + (once >> 16)) as u16
}
