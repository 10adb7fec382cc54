//! NAT64 (RFC 6146): hosts with IPv6 reach IPv4 through the same table, the headers translated by RFC 7915.
//!
//! ```text
//!  outward  v6  inside > prefix + remote    becomes  v4  X' > remote
//!  inward   v4  remote > X'                 becomes  v6  prefix + remote > inside
//! ```
//! The header is written in front of what it carried; going inward it is 20 bytes longer, so that the payload moves back
//! where the port's memory has room behind it, else into a copy. Checksums change by the difference of what they cover.
//! Fragments follow their first one, as those of IPv4 do; the checksum of ICMP covers the addresses on one side alone, so
//! that its fragments wait until all are there.
//!
//! With the well-known prefix, packets of addresses that are not global are dropped, outer addresses of errors among them
//! (RFC 6052, section 3.1). Who wants to reach private hosts takes a prefix of their own, or 64:ff9b:1::/96, which is there
//! for that (RFC 8215).
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::arithmetic_side_effects)]

use std::net::{IpAddr, Ipv6Addr};

use weir_packet::checksum::{self, fold, pseudo_header, sum, write_ipv4};
use weir_packet::fields::{be16, put};
use weir_packet::headers::{ICMP, ICMP6, TCP, UDP};
use weir_packet::options::options;

use super::fragments::Change;
use super::slot::{Inside, Remote};
use super::table::Flow;
use super::{Mtus, Nat, Next};
use crate::address::{bits, words6};
use crate::drops::Drop;
use crate::extensions::{self, FRAGMENT as FRAGMENT_HEADER, MORE4};
use crate::frame::{ETHERNET, Fragment, Frame, HEAD_ROOM, IPV4, IPV6, Kind, adjust, adjust_udp, delta16};
use crate::icmp::Error;
use crate::prefix::{Prefix, is_global4, is_link_local6, is_unicast6};
use crate::quote::{self, ERROR, Quote};
use crate::stage::Step;
use crate::table::tcp::Segment;
use crate::way::Dir;

/// Smallest packet that every link of IPv6 carries; translated ones up to it may be cut (RFC 7915, section 5.1).
const ALWAYS_FITS: usize = 1260;
/// Longest error of IPv6, and bytes that an error of IPv4 quotes at most.
const MOST_V6: usize = 1280;
const MOST_QUOTED_V4: usize = 548;

/// The network that stands for IPv4 (RFC 6052).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Prefix64 {
    bits: u128,
    len: u8,
}

/// The one that everybody knows: it stands for addresses that are the same everywhere (RFC 6052, section 2.1).
const WELL_KNOWN: Prefix64 = Prefix64 { bits: 0x0064_ff9b << 96, len: 96 };

impl Prefix64 {
    /// The lengths that RFC 6052 allows.
    pub(crate) fn new(prefix: Prefix) -> Result<Prefix64, String> {
        match prefix.network().address {
            IpAddr::V6(address) if [32, 40, 48, 56, 64, 96].contains(&prefix.len) => {
                Ok(Prefix64 { bits: u128::from(address), len: prefix.len })
            }
            _ => Err(format!(
                "`{prefix}` cannot stand for IPv4: write a network of IPv6 with a length of 32, 40, 48, 56, 64 or 96 \
                 (RFC 6052), as in 64:ff9b::/96"
            )),
        }
    }

    /// Whether packets with an address may be translated: by the well-known prefix only if it is global (RFC 6052,
    /// section 3.1).
    fn may_stand_for(self, address: u32) -> bool {
        self != WELL_KNOWN || is_global4(address)
    }

    /// The address of IPv6 that stands for one of IPv4: it follows the prefix, but for the bits 64 to 71, which are left out.
    #[expect(clippy::arithmetic_side_effects, reason = "a length of RFC 6052 is 96 at most")]
    pub(crate) fn embed(self, address: u32) -> u128 {
        let behind = u128::from(address) << (96 - self.len);
        match self.len {
            96 => self.bits | behind,
            _ => self.bits | behind & !LOW | (behind & LOW) >> 8,
        }
    }

    /// The address of IPv4 that one of IPv6 stands for.
    #[inline]
    #[expect(clippy::arithmetic_side_effects, reason = "a length of RFC 6052 is 96 at most")]
    pub(crate) fn extract(self, address: u128) -> Option<u32> {
        if (address ^ self.bits) >> (128 - self.len) != 0 {
            return None;
        }
        let behind = match self.len {
            96 => address,
            _ => address & !LOW | (address << 8) & LOW,
        };
        Some((behind >> (96 - self.len)) as u32)
    }
}

/// The lower half of an address.
const LOW: u128 = u64::MAX as u128;

/// The protocol as the table keeps it.
fn proto4(proto: u8) -> u8 {
    if proto == ICMP6 { ICMP } else { proto }
}

/// The two ends of a frame of IPv6, if its destination stands for one of IPv4.
#[inline]
pub(super) fn ends(frame: &Frame<'_>, prefix: Prefix64) -> Option<(Inside, Remote)> {
    let (src, dst) = frame.addresses6();
    let ((sport, dport), remote) = (frame.ports(), prefix.extract(dst)?);
    let dport = if frame.proto() == ICMP6 { 0 } else { dport };
    let inside = Inside { address: words6(src), port: sport, proto: proto4(frame.proto()) };
    Some((inside, Remote { address: remote, port: dport }))
}

/// Changes the checksum of the transport for other addresses, as sums (RFC 7915, sections 4.5 and 5.5).
fn readdress(l4: &mut [u8], proto: u8, old: u64, new: u64) {
    let delta = delta16(fold(old), fold(new));
    match proto {
        TCP => adjust(l4, 16, delta),
        UDP => adjust_udp(l4, delta),
        _ => {}
    }
}

/// A header of IPv4.
fn header4(traffic: (u8, u8), bytes: usize, proto: u8, place: (u16, u16), ends: (u32, u32)) -> [u8; IPV4] {
    let mut header = [0; IPV4];
    header[..2].copy_from_slice(&[0x45, traffic.0]);
    header[2..4]
        .copy_from_slice(&u16::try_from(IPV4.saturating_add(bytes)).unwrap_or(u16::MAX).to_be_bytes());
    header[4..6].copy_from_slice(&place.0.to_be_bytes());
    header[6..8].copy_from_slice(&place.1.to_be_bytes());
    header[8..10].copy_from_slice(&[traffic.1, proto]);
    header[12..16].copy_from_slice(&ends.0.to_be_bytes());
    header[16..].copy_from_slice(&ends.1.to_be_bytes());
    write_ipv4(&mut header);
    header
}

/// A header of IPv6.
fn header6(traffic: (u8, u8), bytes: usize, proto: u8, ends: (u128, u128)) -> [u8; IPV6] {
    let mut header = [0; IPV6];
    header[..2].copy_from_slice(&[0x60 | traffic.0 >> 4, traffic.0 << 4]);
    header[4..6].copy_from_slice(&(bytes as u16).to_be_bytes());
    header[6..8].copy_from_slice(&[proto, traffic.1]);
    header[8..24].copy_from_slice(&ends.0.to_be_bytes());
    header[24..].copy_from_slice(&ends.1.to_be_bytes());
    header
}

/// Traffic class or type of service, and hops left.
fn traffic(ip: &[u8]) -> (u8, u8) {
    match *ip {
        [first, tos, _, _, _, _, _, _, ttl, ..] if first >> 4 == 4 => (tos, ttl),
        [first, second, _, _, _, _, _, hops, ..] => (first << 4 | second >> 4, hops),
        _ => (0, 0),
    }
}

/// The sum of both addresses of a frame.
fn sum_of_addresses(frame: &Frame<'_>) -> u64 {
    match frame.kind() {
        Kind::V4 => sum(&frame.header4()[12..]),
        _ => sum(&frame.header6()[8..]),
    }
}

/// Bytes that a packet grows by, at most: the longer header, and a header of fragments.
pub(super) const LONGER: usize = IPV6 - IPV4 + FRAGMENT;
/// Extension header of a fragment.
const FRAGMENT: usize = 8;

/// Another type of ICMP, where the checksum covers a pseudo header with the one sum and is to cover one with the other.
fn retype(frame: &mut Frame<'_>, kind: u8, (old, new): (u64, u64)) {
    adjust(frame.l4_mut(), 2, delta16(fold(old), fold(new)));
    frame.set_icmp_type(kind);
}

/// Gives a frame a header of IPv4 in place of that of IPv6; the transport of the whole packet has `whole_bytes`.
///
/// # Errors
/// There is no such packet.
pub(super) fn to_v4(
    frame: &mut Frame<'_>,
    ends: (u32, u32),
    id: u16,
    whole_bytes: usize,
) -> Result<(), Drop> {
    let (proto, old) = (frame.proto(), sum_of_addresses(frame));
    let (traffic, bytes) = (traffic(frame.ip()), frame.l4().len());
    let new = sum(&ends.0.to_be_bytes()) + sum(&ends.1.to_be_bytes());
    // What may be cut needs an identification; what is longer than every link carries was never to be cut.
    let place = match frame.piece6() {
        Some(piece) => (id, piece.place4()),
        None if IPV4.saturating_add(bytes) <= ALWAYS_FITS => (id, 0),
        None => (0, 0x4000),
    };
    if frame.fragment() != Fragment::Later {
        if proto == ICMP6 {
            // Echo and its answer are all that comes here; the pseudo header is no longer covered.
            let kind = if frame.icmp_answer() { 0 } else { 8 };
            retype(frame, kind, (old + pseudo_header(&[], ICMP6, whole_bytes), 0));
        }
        readdress(frame.l4_mut(), proto, old, new);
    }
    let header = header4(traffic, bytes, proto4(proto), place, ends);
    frame.replace_header(&header)
}

/// Gives UDP of IPv4 a checksum, which IPv6 wants (RFC 7915, section 4.5): `covered` is the sum of all `bytes` of the
/// transport, of which the frame has the first.
pub(super) fn give_checksum(frame: &mut Frame<'_>, covered: u64, bytes: usize) {
    let checksum = !fold(covered + pseudo_header(&frame.header4()[12..], UDP, bytes));
    let checksum = if checksum == 0 { 0xffff } else { checksum };
    put(frame.l4_mut(), 6, checksum.to_be_bytes());
}

/// Where a packet of IPv4 that may be cut would become longer than every link carries: the longest that does not.
pub(super) fn too_long(frame: &Frame<'_>) -> Option<u16> {
    let (header, bytes) = (frame.ip_header().len(), frame.l4().len());
    let extension = if frame.fragment() == Fragment::Whole { 0 } else { FRAGMENT };
    let is_long = IPV6.saturating_add(extension).saturating_add(bytes) > MOST_V6;
    (is_long && !frame.keeps_whole()).then_some((MOST_V6 - IPV6 - FRAGMENT).saturating_add(header) as u16)
}

/// Gives a frame a header of IPv6 in place of that of IPv4; false if there is no room for it. The transport of the whole
/// packet has `whole_bytes`.
///
/// # Errors
/// There is no such packet.
pub(super) fn to_v6(frame: &mut Frame<'_>, ends: (u128, u128), whole_bytes: usize) -> Result<bool, Drop> {
    let (is_whole, is_later) = (frame.fragment() == Fragment::Whole, frame.fragment() == Fragment::Later);
    if !frame.has_room(if is_whole { IPV6 } else { IPV6 + FRAGMENT }) {
        return Ok(false);
    }
    let (proto, old) = (frame.proto(), sum_of_addresses(frame));
    let (traffic, bytes) = (traffic(frame.ip()), frame.l4().len());
    let proto6 = if proto == ICMP { ICMP6 } else { proto };
    let new = sum(&ends.0.to_be_bytes()) + sum(&ends.1.to_be_bytes());
    match proto {
        _ if is_later => {}
        ICMP => {
            let kind = if frame.icmp_answer() { 129 } else { 128 };
            retype(frame, kind, (0, new + pseudo_header(&[], ICMP6, whole_bytes)));
        }
        _ => readdress(frame.l4_mut(), proto, old, new),
    }
    if is_whole {
        return frame.replace_header(&header6(traffic, bytes, proto6, ends)).map(|()| true);
    }
    let place = frame.place4();
    let [a, b] = (place << 3 | u16::from(place & MORE4 != 0)).to_be_bytes();
    let [c, d] = frame.id4().to_be_bytes();
    let piece = [proto6, 0, a, b, 0, 0, c, d];
    let header = header6(traffic, bytes.saturating_add(FRAGMENT), FRAGMENT_HEADER, ends);
    frame.replace_header(&[&header[..], &piece].concat()).map(|()| true)
}

impl Nat {
    /// A frame of IPv6 on its way out.
    pub(super) fn out64(&mut self, step: &mut Step<'_, '_>, i: usize, (hash, guess): (u32, u32)) -> Next {
        let frame = &mut step.frames[i];
        let Some(prefix) = self.table.config.prefix64 else { return Next::On };
        let Some((inside, remote)) = ends(frame, prefix) else { return Next::On };
        let (src, _) = frame.addresses6();
        // With one of the prefix it would come back as often as its hops allow (RFC 6146, section 3.5); an address of nobody,
        // of a group or of the link alone would pass for an honest one.
        if prefix.extract(src).is_some() || !is_unicast6(src) || is_link_local6(src) {
            return Next::Drop(Drop::MartianSource);
        }
        if extensions::walk(frame.ip()).is_some_and(|carried| carried.is_routed) {
            // RFC 7915, section 5.1.
            let back = step.back(Dir::Outward);
            step.refuse(i, Drop::NatRouted, Error::Routed, back);
            return Next::Gone;
        }
        if !prefix.may_stand_for(remote.address) {
            return Next::Drop(Drop::NatNotGlobal);
        }
        let is_whole = frame.fragment() == Fragment::Whole;
        let is_piece = frame.piece6().is_some();
        if frame.fragment() == Fragment::Later && is_piece {
            return self.later(step, i, Dir::Outward);
        }
        if self.routes6 && frame.ttl() <= 1 {
            // Here as well as behind (RFC 7915, section 5.1): so its sender hears of it from the address that it knows.
            let back = step.back(Dir::Outward);
            step.refuse(i, Drop::TtlExpired, Error::TimeExceeded, back);
            return Next::Gone;
        }
        if frame.icmp_error() && (is_whole || is_piece) {
            return match is_whole {
                true => self.error_out64(step, i, prefix),
                false => self.gather_error(step, i, Dir::Outward),
            };
        }
        if !is_whole && !is_piece || !super::has_ports(frame) {
            return Next::Drop(Drop::NatProtocol);
        }
        let bytes = match frame.fragment() == Fragment::First && frame.proto() == ICMP6 {
            false => frame.l4().len(),
            true => match self.gathered(step, i, Dir::Outward) {
                Ok(bytes) => bytes,
                Err(next) => return next,
            },
        };
        let frame = &mut step.frames[i];
        let flow = Flow { inside, remote, segment: Segment::of(frame) };
        let number = match self.table.outbound(step.now, &flow, hash, guess) {
            Ok(number) => number,
            Err(reason) => return self.refuse(step, i, reason),
        };
        let slot = &self.table.sessions[number];
        let (outside, port) = (slot.outside, slot.outside_port);
        let (id, ends) = (self.next_id(outside), (self.table.outside.address(outside), remote.address));
        if is_piece {
            self.first64(step, i, Dir::Outward, Change::ToV4 { ends, id, bytes });
        }
        let frame = &mut step.frames[i];
        frame.set_sport(port);
        if let Err(reason) = to_v4(frame, ends, id, bytes) {
            return Next::Drop(reason);
        }
        if let Some(mss) = self.table.config.mss {
            super::clamp(frame, mss);
        }
        if self.is_own(remote.address) { Next::Hairpin } else { Next::On }
    }

    /// A frame of IPv4 for an inside end with IPv6.
    pub(super) fn back64(&mut self, step: &mut Step<'_, '_>, i: usize, inside: Inside) -> Next {
        let frame = &mut step.frames[i];
        let prefix = match self.prefix_for(frame.addresses4().0) {
            Ok(prefix) => prefix,
            Err(drop) => return Next::Drop(drop),
        };
        if frame.icmp_query() && !frame.is_echo() {
            // ICMPv6 has no such queries (RFC 7915, section 4.2).
            return Next::Drop(Drop::NatProtocol);
        }
        if is_source_routed(frame) {
            // RFC 7915, section 4.1.
            let back = step.back(Dir::Inward);
            step.refuse(i, Drop::NatRouted, Error::Routed, back);
            return Next::Gone;
        }
        let frame = &mut step.frames[i];
        let is_whole = frame.fragment() == Fragment::Whole;
        let is_without_sum = frame.proto() == UDP && be16(frame.l4(), 6) == Some(0);
        let mut bytes = frame.l4().len();
        if is_whole && is_without_sum {
            let covered = sum(frame.l4());
            give_checksum(frame, covered, bytes);
        }
        if !is_whole && (frame.proto() == ICMP || is_without_sum) {
            bytes = match self.gathered(step, i, Dir::Inward) {
                Ok(bytes) => bytes,
                Err(next) => return next,
            };
        }
        let frame = &mut step.frames[i];
        let ends = (prefix.embed(frame.addresses4().0), bits(inside.address));
        let change = Change::ToV6 { ends, bytes };
        if !is_whole {
            self.first64(step, i, Dir::Inward, change);
        }
        let frame = &mut step.frames[i];
        frame.set_dport(inside.port);
        if let Some(mss) = self.table.config.mss {
            super::clamp(frame, mss);
        }
        self.send6(step, i, change)
    }

    /// What a frame became goes on in its place, and to a host inside if it is for a public address.
    pub(super) fn send_on(&mut self, step: &mut Step<'_, '_>, i: usize, mut buf: Vec<u8>) -> Next {
        let (port, end) = (step.frames[i].port, buf.len());
        let mut frame = Frame::new(&mut buf, HEAD_ROOM, end, port);
        if let Err(reason) = frame.read(ETHERNET - 2) {
            return Next::Drop(reason);
        }
        let entry = match frame.kind() {
            Kind::V4 if self.is_own(frame.addresses4().1) => self.hairpin_entry(step, &frame),
            Kind::V4 => step.onward(Dir::Outward),
            _ => step.onward(Dir::Inward),
        };
        step.hold(i);
        step.own.release(entry, port, buf);
        Next::Gone
    }

    /// The first fragment of an error, whose checksum covers all of them: it comes once more when they are in one fragment.
    pub(super) fn gather_error(&mut self, step: &mut Step<'_, '_>, i: usize, dir: Dir) -> Next {
        match self.gathered(step, i, dir) {
            Ok(_) => Next::Drop(Drop::NatFragment),
            Err(next) => next,
        }
    }

    /// An error of ICMPv6 from inside (RFC 7915, section 5.2).
    fn error_out64(&mut self, step: &mut Step<'_, '_>, i: usize, prefix: Prefix64) -> Next {
        let frame = &step.frames[i];
        let (_, dst) = frame.addresses6();
        let quote = match quote::v6(frame) {
            Ok(quote) if quote.is_for(dst) => quote,
            Ok(_) => return Next::Drop(Drop::NatBadIcmp),
            Err(why) => return Next::Drop(super::icmp::unclear(why)),
        };
        let (Some(target), Some(remote)) = (prefix.extract(dst), prefix.extract(quote.src.0)) else {
            return Next::Drop(Drop::NatNoMapping);
        };
        let proto = proto4(quote.proto);
        let inside = Inside { address: words6(quote.dst.0), port: quote.dst.1, proto };
        let remote_end = Remote { address: remote, port: if proto == ICMP { 0 } else { quote.src.1 } };
        let slot = self.table.mapping_of(step.now, &inside, remote_end);
        let Some((outside, port)) = slot.map(|slot| (slot.outside, slot.outside_port)) else {
            return Next::Drop(Drop::NatNoMapping);
        };
        let own = self.table.outside.address(outside);
        let Some(icmp) = error4(frame.l4(), &quote, self.mtus, (remote, (own, port))) else {
            return Next::Drop(Drop::NatProtocol);
        };
        // Whoever it is from, inside, has the address of the mapping.
        let ip = header4(traffic(frame.ip()), icmp.len(), ICMP, (0, 0x4000), (own, target));
        let buf = packet(frame, [8, 0], &[&ip, &icmp]);
        self.send_on(step, i, buf)
    }

    /// An error of ICMP about what a host with IPv6 sent (RFC 7915, section 4.2): the source of the packet that it quotes
    /// is the outside end of `inside`.
    pub(super) fn error_back64(
        &mut self,
        step: &mut Step<'_, '_>,
        i: usize,
        quote: &Quote<u32>,
        inside: Inside,
    ) -> Next {
        let frame = &step.frames[i];
        let prefix = match self.prefix_for(frame.addresses4().0) {
            Ok(prefix) => prefix,
            Err(drop) => return Next::Drop(drop),
        };
        let host = bits(inside.address);
        let ends = ((host, inside.port), prefix.embed(quote.dst.0));
        let Some(mut icmp) = error6(frame.l4(), quote, self.mtus, ends) else {
            return Next::Drop(Drop::NatProtocol);
        };
        let ends = (prefix.embed(frame.addresses4().0), host);
        let ip = header6(traffic(frame.ip()), icmp.len(), ICMP6, ends);
        let pseudo = pseudo_header(&ip[8..], ICMP6, icmp.len());
        checksum::write(&mut icmp, 2, pseudo);
        let buf = packet(frame, [0x86, 0xdd], &[&ip, &icmp]);
        self.send_on(step, i, buf)
    }

    /// The prefix, if it may stand for an address that frames come from.
    fn prefix_for(&self, address: u32) -> Result<Prefix64, Drop> {
        let prefix = self.table.config.prefix64.ok_or(Drop::NatNoMapping)?;
        if prefix.may_stand_for(address) { Ok(prefix) } else { Err(Drop::NatNotGlobal) }
    }

    /// The source of an answer to a host with IPv6.
    pub(super) fn own6(&self, address: u32) -> Option<Ipv6Addr> {
        Some(self.prefix_for(address).ok()?.embed(address).into())
    }
}

/// Whether a packet of IPv4 visits further nodes on its way: loose and strict source routes that are not yet at their end
/// (RFC 791, section 3.1).
fn is_source_routed(frame: &Frame<'_>) -> bool {
    let is_route = |option: &[u8]| matches!(option, [131 | 137, length, pointer, ..] if pointer <= length);
    options(frame.options4()).any(is_route)
}

/// The packet in one fragment whose first fragment this is, with all that its fragments carried; `None` if it is too long.
pub(super) fn whole(first: &Frame<'_>, l4: &[u8]) -> Option<Vec<u8>> {
    let ip = first.ip_header();
    let (ether_type, header) = match ip.first_chunk::<IPV6>() {
        Some(header) if header[0] >> 4 == 6 => {
            let (mut header, bytes) = (*header, u16::try_from(l4.len()).ok()?);
            header[4..6].copy_from_slice(&bytes.to_be_bytes());
            header[6] = ICMP6;
            ([0x86, 0xdd], header.to_vec())
        }
        _ => {
            let (mut header, bytes) = (ip.to_vec(), u16::try_from(ip.len().saturating_add(l4.len())).ok()?);
            put(&mut header, 2, bytes.to_be_bytes());
            put(&mut header, 6, [0; 2]);
            write_ipv4(&mut header);
            ([8, 0], header)
        }
    };
    let buf = packet(first, ether_type, &[&header, l4]);
    (buf.len() <= usize::from(u16::MAX)).then_some(buf)
}

/// A frame with the Ethernet addresses of another, with room in front.
fn packet(frame: &Frame<'_>, ether_type: [u8; 2], parts: &[&[u8]]) -> Vec<u8> {
    let (dst, src) = frame.macs();
    [&[0; HEAD_ROOM][..], &dst, &src, &ether_type, &parts.concat()].concat()
}

#[derive(Clone, Copy)]
enum End {
    Source,
    Destination,
}

/// The quoted transport with the port that the receiver of the error knows, and its checksum where it covers other addresses,
/// whose sums these are.
fn quote_port(inner: &mut [u8], proto: u8, (end, port): (End, u16), (old, new): (u64, u64)) {
    let at = match (proto, end) {
        (ICMP, _) => 4,
        (_, End::Source) => 0,
        (_, End::Destination) => 2,
    };
    let was = be16(inner, at).unwrap_or_default();
    put(inner, at, port.to_be_bytes());
    if proto != ICMP {
        return readdress(inner, proto, old + u64::from(was), new + u64::from(port));
    }
    let Some(kind) = inner.first_mut() else { return };
    let was_kind = *kind;
    *kind = match was_kind {
        8 => 128,
        0 => 129,
        128 => 8,
        _ => 0,
    };
    let [was_kind, is_kind] = [was_kind, *kind].map(|kind| u64::from(kind) << 8);
    let (was, is) = (old + was_kind + u64::from(was), new + is_kind + u64::from(port));
    adjust(inner, 2, delta16(fold(was), fold(is)));
}

/// MTUs that are common (RFC 1191, section 7), those that an error of IPv6 may name.
const PLATEAUS: [u16; 7] = [65_535, 32_000, 17_914, 8_166, 4_352, 2_002, 1_492];

/// The error of IPv6, without checksum, for one of IPv4: what it quotes was sent from the first of these ends to the second.
/// `None`: IPv6 has no such error.
fn error6(
    l4: &[u8],
    quote: &Quote<u32>,
    mtus: Mtus,
    ((host, port), remote): ((u128, u16), u128),
) -> Option<Vec<u8>> {
    let (inner, ip) = (l4.get(quote.l4_at..)?, l4.get(ERROR..quote.l4_at)?);
    let total = be16(ip, 2)?;
    let (kind, code, word) = kind6(*l4.first_chunk()?, total, mtus)?;
    let inner_bytes = usize::from(total).saturating_sub(ip.len());
    let proto6 = if quote.proto == ICMP { ICMP6 } else { quote.proto };
    let header = header6(traffic(ip), inner_bytes, proto6, (host, remote));
    let sums = match quote.proto {
        ICMP => (0, pseudo_header(&header[8..], ICMP6, inner_bytes)),
        _ => (sum(ip.get(12..IPV4)?), sum(&header[8..])),
    };
    let mut inner = inner.to_vec();
    quote_port(&mut inner, quote.proto, (End::Source, port), sums);
    let mut icmp = [&[kind, code, 0, 0][..], &word.to_be_bytes(), &header, &inner].concat();
    icmp.truncate(MOST_V6 - IPV6);
    Some(icmp)
}

/// The error of IPv4 for one of IPv6: what it quotes was sent from the first of these ends to the second. `None`: IPv4 has no
/// such error.
fn error4(
    l4: &[u8],
    quote: &Quote<u128>,
    mtus: Mtus,
    (remote, (own, port)): (u32, (u32, u16)),
) -> Option<Vec<u8>> {
    let (kind, code, word) = kind4(*l4.first_chunk()?, mtus)?;
    let (ip, inner) = (l4.get(ERROR..)?, l4.get(quote.l4_at..)?);
    let proto = proto4(quote.proto);
    // Extension headers are not translated (RFC 7915, section 5.3), but for that of fragments.
    let extensions = quote.l4_at.saturating_sub(ERROR + IPV6);
    let quoted_bytes = usize::from(be16(ip, 4)?).saturating_sub(extensions);
    let place = match extensions::walk(ip).and_then(|carried| carried.fragment) {
        Some(piece) => (piece.id as u16, piece.place4()),
        None => (0, 0x4000),
    };
    let header = header4(traffic(ip), quoted_bytes, proto, place, (remote, own));
    let addresses = ip.get(8..IPV6)?;
    let sums = match proto {
        ICMP => (pseudo_header(addresses, ICMP6, quoted_bytes), 0),
        _ => (sum(addresses), sum(&header[12..])),
    };
    let mut inner = inner.to_vec();
    quote_port(&mut inner, proto, (End::Destination, port), sums);
    let mut icmp = [&[kind, code, 0, 0][..], &word.to_be_bytes(), &header, &inner].concat();
    icmp.truncate(ERROR + MOST_QUOTED_V4);
    checksum::write(&mut icmp, 2, 0);
    Some(icmp)
}

/// Type, code and second word of an error of IPv6 for one of IPv4, whose header this is, and the length that the packet
/// had which it quotes.
fn kind6(
    [kind, code, _, _, pointer, _, c, d]: [u8; ERROR],
    refused: u16,
    mtus: Mtus,
) -> Option<(u8, u8, u32)> {
    Some(match (kind, code) {
        (3, 2) => (4, 1, 6),
        (3, 3) => (1, 4, 0),
        (3, 4) => {
            // A router that names no MTU is asked for less than what it refused (RFC 1191, section 7.1).
            let mtu = match u16::from_be_bytes([c, d]) {
                0 => PLATEAUS.into_iter().find(|&plateau| plateau < refused).map_or(0, u32::from),
                mtu => mtu.into(),
            };
            // Of the links of the node the shorter one counts, too (RFC 7915, section 4.2).
            let here = u32::from(mtus.inside).min(u32::from(mtus.outside).saturating_add(20));
            (2, 0, mtu.saturating_add(20).min(here).max(1280))
        }
        (3, 9 | 10 | 13 | 15) => (1, 1, 0),
        (3, 0 | 1 | 5..=8 | 11 | 12) => (1, 0, 0),
        (11, code) => (3, code, 0),
        (12, 0 | 2) => {
            // Into the header, byte by byte of that of IPv4.
            let pointer = match pointer {
                0 | 1 => pointer.into(),
                2 | 3 => 4,
                8 => 7,
                9 => 6,
                12..16 => 8,
                16..20 => 24,
                _ => return None,
            };
            (4, 0, pointer)
        }
        _ => return None,
    })
}

/// Type, code and second word of an error of IPv4 for one of IPv6, whose header this is.
fn kind4([kind, code, _, _, a, b, c, d]: [u8; ERROR], mtus: Mtus) -> Option<(u8, u8, u32)> {
    let word = u32::from_be_bytes([a, b, c, d]);
    Some(match (kind, code) {
        (1, 0 | 2 | 3) => (3, 1, 0),
        (1, 1) => (3, 10, 0),
        (1, 4) => (3, 3, 0),
        (2, _) => {
            // RFC 7915, section 5.2.
            let here = mtus.outside.min(mtus.inside.saturating_sub(20));
            (3, 4, word.saturating_sub(20).min(here.into()))
        }
        (3, code) => (11, code, 0),
        (4, 1) => (3, 2, 0),
        (4, 0) => {
            let pointer = match word {
                0 | 1 => word,
                4 | 5 => 2,
                6 => 9,
                7 => 8,
                8..24 => 12,
                24..40 => 16,
                _ => return None,
            };
            (12, 0, pointer << 24)
        }
        _ => return None,
    })
}

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "a test's own lengths")]
mod tests {
    use super::*;
    use crate::batch::Verdict;
    use crate::config::Config;
    use crate::plane::Plane;
    use crate::scenario::packet as packet_of;

    #[test]
    fn the_addresses_of_rfc6052() {
        // Section 2.4, table 2: 192.0.2.33.
        for (prefix, address) in [
            ("2001:db8::/32", "2001:db8:c000:221::"),
            ("2001:db8:100::/40", "2001:db8:1c0:2:21::"),
            ("2001:db8:122::/48", "2001:db8:122:c000:2:2100::"),
            ("2001:db8:122:300::/56", "2001:db8:122:3c0:0:221::"),
            ("2001:db8:122:344::/64", "2001:db8:122:344:c0:2:2100::"),
            ("2001:db8:122:344::/96", "2001:db8:122:344::192.0.2.33"),
        ] {
            let prefix64 = Prefix64::new(prefix.parse().expect("a prefix")).expect("a length of RFC 6052");
            let expected: Ipv6Addr = address.parse().expect("an address");
            assert_eq!(Ipv6Addr::from(prefix64.embed(0xc000_0221)), expected, "{prefix}");
            assert_eq!(prefix64.extract(u128::from(expected)), Some(0xc000_0221), "{prefix}");
            assert_eq!(prefix64.extract(0), None, "{prefix}");
        }
        assert!(Prefix64::new("2001:db8::/33".parse().expect("a prefix")).is_err());
        assert!(Prefix64::new("192.0.2.0/32".parse().expect("a prefix")).is_err());
    }

    /// There and back again: the same packet, with right checksums both times.
    #[test]
    fn headers_are_translated_both_ways_in_place() {
        let ends4 = (0xc613_0009, 0xc000_0201);
        let ends6 = (0x0064_ff9b_u128 << 96 | 0xc613_0009, 0x2001_0db8_u128 << 96 | 1);
        for (proto, at, header) in [
            (UDP, 6, &[0, 53, 4, 0, 0, 0, 0, 0][..]),
            (TCP, 16, &[0, 80, 4, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x18, 1, 0, 0, 0, 0, 0]),
            (ICMP, 2, &[0, 0, 0, 0, 0, 7, 0, 1]),
        ] {
            for bytes in [0, 1, 2, 33] {
                let mut l4 = [header, &vec![0xab; bytes]].concat();
                if proto == UDP {
                    let length = (l4.len() as u16).to_be_bytes();
                    l4[4..6].copy_from_slice(&length);
                }
                let ip = header4((4, 61), l4.len(), proto, (7, 0), ends4);
                let pseudo =
                    if proto == ICMP { 0 } else { sum(&ip[12..]) + l4.len() as u64 + u64::from(proto) };
                let checksum = !fold(pseudo + sum(&l4));
                l4[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
                let before = [&[0; HEAD_ROOM][..], &[2; 12], &[8, 0], &ip, &l4].concat();
                let mut buf = [&before[..], &[0; IPV6]].concat();
                let mut frame = Frame::new(&mut buf, HEAD_ROOM, before.len(), crate::frame::PortId(0));
                frame.read(ETHERNET - 2).expect("a right frame");
                assert_eq!(to_v6(&mut frame, ends6, l4.len()), Ok(true));
                assert_eq!(frame.addresses6(), ends6);
                let proto6 = frame.proto();
                let covered = sum(&frame.ip()[8..IPV6]) + frame.l4().len() as u64 + u64::from(proto6);
                assert_eq!(fold(covered + sum(frame.l4())), 0xffff, "{proto} {bytes}");
                to_v4(&mut frame, ends4, 7, l4.len()).expect("a packet");
                assert_eq!(frame.bytes(), &before[HEAD_ROOM..], "{proto} {bytes}");
                let mut full = before.clone();
                let mut frame = Frame::new(&mut full, HEAD_ROOM, before.len(), crate::frame::PortId(0));
                frame.read(ETHERNET - 2).expect("a right frame");
                assert_eq!(to_v6(&mut frame, ends6, l4.len()), Ok(false), "no room");
                assert_eq!(frame.bytes(), &before[HEAD_ROOM..]);
            }
        }
    }

    #[test]
    fn a_quoted_echo_has_the_checksum_of_its_kind_of_ip() {
        let ends6 = [7; 32];
        let ping = |kind: u8, id: u16, pseudo: u64| {
            let mut icmp = [&[kind, 0, 0, 0][..], &id.to_be_bytes(), &[0, 1, 9, 9, 9]].concat();
            let checksum = !fold(sum(&icmp) + pseudo);
            icmp[2..4].copy_from_slice(&checksum.to_be_bytes());
            icmp
        };
        let (of6, of4) = (ping(129, 7, pseudo_header(&ends6, ICMP6, 11)), ping(0, 5000, 0));
        let mut quoted = of6.clone();
        quote_port(&mut quoted, ICMP, (End::Destination, 5000), (pseudo_header(&ends6, ICMP6, 11), 0));
        assert_eq!(quoted, of4);
        quote_port(&mut quoted, ICMP, (End::Source, 7), (0, pseudo_header(&ends6, ICMP6, 11)));
        assert_eq!(quoted, of6);
    }

    /// A NAT, and what becomes of packets that come to it in at a port.
    fn nat() -> impl FnMut(u8, &[u8]) -> (Verdict, Vec<u8>) {
        let config = Config::read("n", "nat(public 192.0.2.1, prefix64 2001:db8:2::/96)").expect("a node");
        let mut plane = Plane::new(&config, &[[2; 6], [4; 6]]);
        move |port, ip| {
            let ether_type = if ip[0] >> 4 == 4 { [8, 0] } else { [0x86, 0xdd] };
            let mut buf = [&[0; HEAD_ROOM][..], &[2; 12], &ether_type, ip].concat();
            let end = buf.len();
            buf.resize(end + LONGER, 0);
            let mut batch = crate::Batch::default();
            batch.push(Frame::new(&mut buf, HEAD_ROOM, end, crate::PortId(port)));
            plane.run(crate::Time::from_ms(1), &mut batch);
            let (frame, verdict) = batch.outcome().next().expect("one");
            (verdict, frame.ip().to_vec())
        }
    }

    #[test]
    fn fragments_behind_other_extension_headers_are_translated_too() {
        let mut nat = nat();
        for (place, expected) in [("0+", 0x2000), ("16", 2)] {
            let ends =
                if place == "0+" { ":1000 > [2001:db8:2::c613:9]:53" } else { " > 2001:db8:2::c613:9" };
            let from = if place == "0+" { "[2001:db8:1::2]" } else { "2001:db8:1::2" };
            let line = format!("udp {from}{ends} len 16 whole 32 frag {place} id 9");
            let mut ip = packet_of(&line).unwrap_or_else(|wrong| panic!("{line}: {wrong}"));
            ip.splice(40..40, [FRAGMENT_HEADER, 0, 1, 4, 0, 0, 0, 0]);
            (ip[5], ip[6]) = (ip[5] + 8, 60);
            let (verdict, left) = nat(0, &ip);
            assert_eq!(verdict, Verdict::Out(crate::PortId(1)), "{line}");
            assert_eq!((left[0], be16(&left, 6)), (0x45, Some(expected)), "{line}");
        }
    }

    #[test]
    fn of_queries_only_echo_has_one_of_icmp6() {
        let mut nat = nat();
        let echo = packet_of("icmp echo 2001:db8:1::2 > 2001:db8:2::c613:9 id 7").expect("a packet");
        let (verdict, left) = nat(0, &echo);
        assert_eq!(verdict, Verdict::Out(crate::PortId(1)));
        for (kind, expected) in
            [(0, Verdict::Out(crate::PortId(0))), (14, Verdict::Dropped(Drop::NatProtocol))]
        {
            let mut back = left.clone();
            let (src, dst) = back[12..20].split_at_mut(4);
            src.swap_with_slice(dst);
            back[20] = kind;
            checksum::write(&mut back[20..], 2, 0);
            assert_eq!(nat(1, &back).0, expected, "type {kind}");
        }
    }

    #[test]
    fn source_routes_are_found_until_they_end() {
        for (options, is_routed) in [
            (&[131, 7, 4, 192, 0, 2, 1, 0][..], true),
            (&[1, 137, 7, 4, 192, 0, 2, 1], true),
            (&[131, 7, 8, 192, 0, 2, 1, 0], false),
            (&[7, 7, 4, 0, 0, 0, 0, 0], false),
            (&[0, 131, 7, 4, 0, 0, 0, 0], false),
            (&[7, 0, 131, 4, 4, 0, 0, 0], false),
            (&[7, 200, 131, 4], false),
        ] {
            let bytes = IPV4 + options.len() + 8;
            let mut ip = vec![0x45 + options.len() as u8 / 4, 0, 0, bytes as u8, 0, 0, 0, 0, 64, UDP, 0, 0];
            ip.extend([[10, 0, 0, 1], [10, 0, 0, 2]].concat().iter().chain(options).chain(&[0; 8]));
            let header = IPV4 + options.len();
            write_ipv4(&mut ip[..header]);
            let mut buf = [&[0; HEAD_ROOM][..], &[2; 12], &[8, 0], &ip].concat();
            let end = buf.len();
            let mut frame = Frame::new(&mut buf, HEAD_ROOM, end, crate::frame::PortId(0));
            frame.read(ETHERNET - 2).expect("a right frame");
            assert_eq!(is_source_routed(&frame), is_routed, "{options:?}");
        }
    }
}
