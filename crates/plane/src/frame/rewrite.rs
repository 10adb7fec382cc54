//! Changes of a frame, each of which leaves its checksums right: by what the change adds to them (RFC 1624).

use weir_packet::ecn;
use weir_packet::frame::Mac;
use weir_packet::headers::{DCCP, HIP, ICMP, ICMP6, TCP, UDP, UDP_LITE};

use super::{ETHERNET, Fragment, Frame, HEAD_ROOM, Kind, PPPOE};
use crate::drops::DropReason;

/// Changes, each of which leaves the checksums right.
#[expect(
    clippy::arithmetic_side_effects,
    reason = "places that `read` has checked, and sums of 16 bits in 32"
)]
impl Frame<'_> {
    /// Another source address of IPv4.
    pub(crate) fn set_src4(&mut self, address: u32) {
        let delta = self.write4(12, self.src4, address);
        self.adjust_l4(delta);
        self.src4 = address;
    }

    /// Another destination address of IPv4.
    pub(crate) fn set_dst4(&mut self, address: u32) {
        let delta = self.write4(16, self.dst4, address);
        self.adjust_l4(delta);
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
    #[expect(clippy::indexing_slicing, reason = "addresses are at 12 and 16 of a header of 20 bytes")]
    fn write4(&mut self, at: usize, old: u32, new: u32) -> u32 {
        let delta = delta32(old, new);
        let header = self.header4_mut();
        header[at..at + 4].copy_from_slice(&new.to_be_bytes());
        adjust(header, 10, delta);
        delta
    }

    /// Writes a port; `delta` is what the address adds to the checksum of the transport.
    #[inline(always)]
    #[expect(
        clippy::indexing_slicing,
        reason = "what has ports was read, and has 8 bytes of transport or more"
    )]
    fn write_port(&mut self, at: usize, old: u16, new: u16, delta: u32) {
        debug_assert!(self.fragment != Fragment::Later);
        let (proto, port_delta) = (self.proto, delta16(old, new));
        let l4 = self.l4_mut();
        l4[at..at + 2].copy_from_slice(&new.to_be_bytes());
        match proto {
            UDP => adjust_udp(l4, delta + port_delta),
            TCP => adjust(l4, 16, delta + port_delta),
            ICMP => adjust(l4, 2, port_delta),
            _ => {}
        }
    }

    /// Another identification of an IPv4 packet.
    #[inline]
    pub(crate) fn set_id4(&mut self, id: u16) {
        let delta = delta16(self.id4(), id);
        let header = self.header4_mut();
        header[4..6].copy_from_slice(&id.to_be_bytes());
        adjust(header, 10, delta);
    }

    /// Another source port, or identifier of a query.
    pub(crate) fn set_sport(&mut self, port: u16) {
        let at = if self.proto == ICMP || self.proto == ICMP6 { 4 } else { 0 };
        self.rewrite_port(at, self.sport, port);
        self.sport = port;
        if at == 4 {
            self.dport = port;
        }
    }

    /// Another destination port, or identifier of a query.
    pub(crate) fn set_dport(&mut self, port: u16) {
        if self.proto == ICMP || self.proto == ICMP6 {
            return self.set_sport(port);
        }
        self.rewrite_port(2, self.dport, port);
        self.dport = port;
    }

    /// Writes a port, and nothing else. `at` is 0, 2 or 4.
    #[expect(
        clippy::indexing_slicing,
        reason = "what has ports was read, and has 8 bytes of transport or more"
    )]
    fn put_port(&mut self, at: usize, port: u16) {
        self.l4_mut()[at..at + 2].copy_from_slice(&port.to_be_bytes());
    }

    fn rewrite_port(&mut self, at: usize, old: u16, new: u16) {
        if self.fragment == Fragment::Later {
            return;
        }
        self.put_port(at, new);
        let delta = delta16(old, new);
        match self.proto {
            ICMP if self.kind == Kind::V4 => adjust(self.l4_mut(), 2, delta),
            ICMP6 => adjust(self.l4_mut(), 2, delta),
            _ => self.adjust_l4(delta),
        }
    }

    /// The checksum of the transport after a change of what it covers; that of ICMP for IPv4 covers no address.
    fn adjust_l4(&mut self, delta: u32) {
        if self.fragment == Fragment::Later {
            return;
        }
        let v6 = self.kind == Kind::V6;
        let proto = self.proto;
        let l4 = self.l4_mut();
        match proto {
            ICMP6 if v6 => adjust(l4, 2, delta),
            _ => adjust_transport(l4, proto, delta),
        }
    }

    /// One hop less to live; the caller has seen that there is one left.
    #[inline(always)]
    pub(crate) fn decrement_ttl(&mut self) {
        let ttl = self.ttl - 1;
        self.ttl = ttl;
        match self.kind {
            Kind::V4 => {
                let header = self.header4_mut();
                header[8] = ttl;
                // The sum loses 0x0100, so that the checksum gains it (RFC 1141, and RFC 1624 for the carry).
                let checksum = u32::from(u16::from_be_bytes([header[10], header[11]])) + 0x0100;
                let checksum = (checksum + u32::from(checksum >= 0xffff)) as u16;
                [header[10], header[11]] = checksum.to_be_bytes();
            }
            _ => self.header6_mut()[7] = ttl,
        }
    }

    /// So many hops to live.
    #[inline]
    pub(crate) fn set_ttl(&mut self, ttl: u8) {
        self.ttl = ttl;
        match self.kind {
            Kind::V4 => {
                let header = self.header4_mut();
                let old = u16::from_be_bytes([header[8], header[9]]);
                header[8] = ttl;
                adjust(header, 10, delta16(old, u16::from(ttl) << 8 | old & 0xff));
            }
            _ => self.header6_mut()[7] = ttl,
        }
    }

    /// The ECN field, two bits (RFC 3168); of a frame that is no packet of IP, that of the packet which it encloses.
    pub(crate) fn ecn(&self) -> u8 {
        match self.kind {
            Kind::V4 => self.header4()[1] & 3,
            Kind::V6 => self.header6()[1] >> 4 & 3,
            Kind::Arp | Kind::Other => ecn::bits(self.bytes()),
        }
    }

    /// The code point of a packet (RFC 2474).
    #[inline]
    pub(crate) fn dscp(&self) -> u8 {
        match self.kind {
            Kind::V4 => self.header4()[1] >> 2,
            Kind::V6 => {
                let header = self.header6();
                (header[0] & 0x0f) << 2 | header[1] >> 6
            }
            Kind::Arp | Kind::Other => 0,
        }
    }

    /// Another code point of a packet, 0 to 63; its ECN field stays.
    pub(crate) fn set_dscp(&mut self, dscp: u8) {
        match self.kind {
            Kind::V4 => {
                let header = self.header4_mut();
                let old = u16::from_be_bytes([header[0], header[1]]);
                header[1] = dscp << 2 | header[1] & 3;
                let new = u16::from_be_bytes([header[0], header[1]]);
                adjust(header, 10, delta16(old, new));
            }
            Kind::V6 => {
                let header = self.header6_mut();
                header[0] = header[0] & 0xf0 | dscp >> 2;
                header[1] = header[1] & 0x3f | (dscp & 3) << 6;
            }
            Kind::Arp | Kind::Other => {}
        }
    }

    /// As [`Frame::mark_congestion`], where only the place of its packet is known.
    pub(crate) fn mark_known(&mut self, known: &super::Known) {
        self.ip_at = self.start + u16::from(known.ethernet);
        self.kind = match self.bytes().get(usize::from(known.ethernet)).map(|first| first >> 4) {
            Some(4) => Kind::V4,
            Some(6) => Kind::V6,
            _ => return,
        };
        self.mark_congestion();
    }

    /// Congestion was experienced (RFC 3168, section 5).
    pub(crate) fn mark_congestion(&mut self) {
        match self.kind {
            Kind::V4 => {
                let header = self.header4_mut();
                let old = u16::from_be_bytes([header[0], header[1]]);
                header[1] |= 3;
                adjust(header, 10, delta16(old, old | 3));
            }
            Kind::V6 => self.header6_mut()[1] |= 0x30,
            Kind::Arp | Kind::Other => ecn::mark(self.between_mut(self.start, self.end)),
        }
    }

    /// Back to where it came from: the addresses change places, which no checksum feels (RFC 1071). Ports do not.
    pub(crate) fn swap_addresses(&mut self) {
        let (src, dst) = match self.kind {
            Kind::V4 => self.header4_mut()[12..].split_at_mut(4),
            _ => self.header6_mut()[8..].split_at_mut(16),
        };
        src.swap_with_slice(dst);
        (self.src4, self.dst4) = (self.dst4, self.src4);
    }

    /// Another type of a message of ICMP.
    pub(crate) fn set_icmp_type(&mut self, kind: u8) {
        let l4 = self.l4_mut();
        let Some(place) = l4.first_mut() else { return };
        let old = std::mem::replace(place, kind);
        adjust(l4, 2, delta16(u16::from(old) << 8, u16::from(kind) << 8));
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
    /// With this header it is no packet: a fragment of a longer one may stand behind the end of the longest one there is.
    #[expect(
        clippy::indexing_slicing,
        reason = "`least` is in front of it, and `has_room` has seen to the end"
    )]
    pub(crate) fn replace_header(&mut self, header: &[u8]) -> Result<(), DropReason> {
        debug_assert!(self.has_room(header.len()));
        let (dst, src) = self.macs();
        let least = HEAD_ROOM + ETHERNET + header.len();
        let (l4, end) = (usize::from(self.l4_at), usize::from(self.end));
        let l4_at = l4.max(least);
        self.buf.copy_within(l4..end, l4_at);
        let ip_at = l4_at - header.len();
        self.buf[ip_at..l4_at].copy_from_slice(header);
        let ether_type = if header[0] >> 4 == 4 { [0x08, 0x00] } else { [0x86, 0xdd] };
        let ethernet = &mut self.buf[ip_at - ETHERNET..ip_at];
        ethernet[..6].copy_from_slice(&dst);
        ethernet[6..12].copy_from_slice(&src);
        ethernet[12..].copy_from_slice(&ether_type);
        (self.start, self.end) = ((ip_at - ETHERNET) as u16, (end + l4_at - l4) as u16);
        self.read(ETHERNET - 2)
    }

    /// The Ethernet header anew, with these tags (each of four bytes, the outer one first) between the addresses and
    /// the type. It ends where the packet begins; the frame begins earlier or later for it. There is room for two tags, and for
    /// one more where the frame has one.
    #[expect(
        clippy::indexing_slicing,
        reason = "tags fit into the head room and the tags there are, which stand before a frame that was read"
    )]
    pub(crate) fn set_ethernet(&mut self, dst: Mac, src: Mac, tags: &[[u8; 4]]) {
        debug_assert!(tags.len() * 4 + ETHERNET <= usize::from(self.ip_at));
        let start = usize::from(self.ip_at) - ETHERNET - tags.len() * 4;
        self.start = start as u16;
        let (addresses, rest) = self.buf[start..].split_at_mut(2 * size_of::<Mac>());
        addresses[..6].copy_from_slice(&dst);
        addresses[6..].copy_from_slice(&src);
        for (place, tag) in rest.as_chunks_mut().0.iter_mut().zip(tags) {
            *place = *tag;
        }
    }
}

/// What stands in front of a packet of this kind and length in a PPPoE session: EtherType, the header of PPPoE, the protocol of PPP.
pub(crate) fn pppoe_header(id: u16, kind: Kind, bytes: usize) -> [u8; PPPOE + 2] {
    let protocol = if kind == Kind::V4 { 0x21 } else { 0x57 };
    let [[a, b], [c, d]] = [id.to_be_bytes(), (bytes as u16).saturating_add(2).to_be_bytes()];
    [0x88, 0x64, 0x11, 0, a, b, c, d, 0, protocol]
}

/// The header of PPPoE (RFC 2516, section 4) with the protocol of PPP behind it.
impl Frame<'_> {
    /// The same as [`Frame::set_ethernet`], with the header of a PPPoE session in front of the packet.
    #[inline(never)]
    #[expect(
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        reason = "two tags and this header fit into the head room, which stands before a frame that was read"
    )]
    pub(crate) fn set_session(&mut self, dst: Mac, src: Mac, tags: &[[u8; 4]], id: u16) {
        let ip_at = usize::from(self.ip_at);
        let header = pppoe_header(id, self.kind, self.ip_bytes());
        self.buf[ip_at - PPPOE - 2..ip_at].copy_from_slice(&header);
        self.ip_at -= PPPOE as u16;
        self.set_ethernet(dst, src, tags);
        self.ip_at += PPPOE as u16;
    }

    /// Reads the header of a frame of a PPPoE session. That of a packet is removed, so that the frame is one of Ethernet that holds the
    /// packet; all else stays as it is. Behind the length that the header says may be padding, which is cut off.
    ///
    /// # Errors
    /// It is no header of a session, it is longer than the frame, or the packet is broken.
    #[inline(never)]
    #[expect(
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        reason = "the Ethernet header was read, and the length is compared with the frame's"
    )]
    pub(crate) fn open_session(&mut self) -> Result<(), DropReason> {
        let Some(&[0x11, 0, a, b, c, d, high, low]) = self.ip().first_chunk::<PPPOE>() else {
            return Err(DropReason::Malformed);
        };
        let (id, length) = (u16::from_be_bytes([a, b]), usize::from(u16::from_be_bytes([c, d])));
        let is_whole = (2..=self.ip_bytes() + 2 - PPPOE).contains(&length);
        if !is_whole || matches!(id, 0 | u16::MAX) {
            return Err(DropReason::Malformed);
        }
        self.pppoe_session = id;
        let ether_type = match [high, low] {
            [0, 0x21] => [0x08, 0x00],
            [0, 0x57] => [0x86, 0xdd],
            // The protocol of PPP is compressed: the node never agrees to that (RFC 2516, section 7).
            [first, _] if first & 1 != 0 => return Err(DropReason::Malformed),
            _ => {
                self.end = self.ip_at + (PPPOE - 2 + length) as u16;
                return Ok(());
            }
        };
        let (start, ip_at) = (usize::from(self.start), usize::from(self.ip_at));
        self.end = (ip_at + PPPOE - 2 + length) as u16;
        self.buf.copy_within(start..ip_at - 2, start + PPPOE);
        self.buf[ip_at + PPPOE - 2..ip_at + PPPOE].copy_from_slice(&ether_type);
        self.start += PPPOE as u16;
        self.read(ip_at - 2 - start)
    }

    /// Sends a frame back that is to be answered with itself, by the port with this Ethernet address, with so many bytes behind its
    /// Ethernet header; not more than it has.
    #[expect(
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        reason = "the Ethernet header was read"
    )]
    pub(crate) fn turn_back(&mut self, own: Mac, bytes: usize) {
        let (_, sender) = self.macs();
        self.end = self.ip_at + bytes.min(self.ip_bytes()) as u16;
        let header = self.between_mut(self.start, self.ip_at);
        header[..6].copy_from_slice(&sender);
        header[6..12].copy_from_slice(&own);
    }

    /// Puts the header of its PPPoE session back in front of a packet that came in it.
    pub(crate) fn close_session(&mut self) {
        if self.pppoe_session != 0 && self.is_ip() {
            let ((dst, src), places) = (self.macs(), &mut [[0; 4]; 2]);
            self.set_session(dst, src, self.tags.write(places), self.pppoe_session);
        }
    }
}

/// Puts a difference into the checksum at `at` (RFC 1624, equation 3). A packet that is quoted may end before it, and has
/// none then.
#[expect(clippy::arithmetic_side_effects, reason = "sums of a few times 16 bits in 32")]
#[inline]
pub(crate) fn adjust(bytes: &mut [u8], at: usize, delta: u32) {
    let Some(field) = bytes.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<2>()) else { return };
    let old = u32::from(!u16::from_be_bytes(*field));
    *field = (!fold16(old + delta)).to_be_bytes();
}

/// The checksum of a transport that covers the addresses of its packet, after a change of what it covers. Of those that a NAT of
/// IPv4 may see these are all (RFC 9293, 768, 3828, 4340, 7401): SCTP's covers no addresses, and what an authentication header
/// covers cannot be changed.
#[inline]
pub(crate) fn adjust_transport(l4: &mut [u8], proto: u8, delta: u32) {
    match proto {
        TCP => adjust(l4, 16, delta),
        UDP | UDP_LITE => adjust_udp(l4, delta),
        DCCP => adjust(l4, 6, delta),
        HIP => adjust(l4, 4, delta),
        _ => {}
    }
}

/// The same for UDP: a checksum of zero says that there is none, and one that comes out as zero is sent as all ones
/// (RFC 768).
#[inline]
fn adjust_udp(l4: &mut [u8], delta: u32) {
    let Some(header) = l4.first_chunk_mut::<8>().filter(|header| header[6..] != [0, 0]) else { return };
    adjust(header, 6, delta);
    if header[6..] == [0, 0] {
        header[6..].fill(0xff);
    }
}

/// What replacing a word adds to a one's complement sum.
#[expect(clippy::arithmetic_side_effects, reason = "sums of a few times 16 bits in 32")]
#[inline]
pub(crate) fn delta16(old: u16, new: u16) -> u32 {
    u32::from(!old) + u32::from(new)
}

/// What replacing two words adds.
#[expect(clippy::arithmetic_side_effects, reason = "sums of a few times 16 bits in 32")]
#[inline]
pub(crate) fn delta32(old: u32, new: u32) -> u32 {
    let (old, new) = (!old, new);
    (old >> 16) + (old & 0xffff) + (new >> 16) + (new & 0xffff)
}

#[expect(clippy::arithmetic_side_effects, reason = "sums of a few times 16 bits in 32")]
fn fold16(sum: u32) -> u16 {
    let once = (sum & 0xffff) + (sum >> 16);
    ((once & 0xffff) + (once >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{IPV4, PortId};

    const IP_AT: usize = HEAD_ROOM + ETHERNET;
    const TTL: usize = IP_AT + 8;
    const CHECKSUM: usize = IP_AT + 10;
    const BYTES: usize = IP_AT + IPV4;

    #[test]
    fn one_hop_less_is_what_setting_the_time_to_live_is() {
        for checksum in 0..=u16::MAX {
            for ttl in [1_u8, 2, 64, 255] {
                let mut bytes = [0; BYTES];
                bytes[TTL] = ttl;
                bytes[CHECKSUM..][..2].copy_from_slice(&checksum.to_be_bytes());
                let changed = |change: &dyn Fn(&mut Frame<'_>)| {
                    let (mut buf, end) = (bytes, bytes.len());
                    let mut frame = Frame::new(&mut buf, HEAD_ROOM, end, PortId(0));
                    (frame.kind, frame.ip_at, frame.ttl) = (Kind::V4, IP_AT as u16, ttl);
                    change(&mut frame);
                    assert_eq!(frame.ttl(), frame.header4()[8]);
                    buf
                };
                let one_less = changed(&|frame| frame.decrement_ttl());
                let set = changed(&|frame| frame.set_ttl(ttl.wrapping_sub(1)));
                assert_eq!(one_less, set, "{checksum:04x} {ttl}");
            }
        }
    }
}
