//! A frame in a port's memory, with what its headers say kept beside it.
//!
//! ```text
//!      0        start      ip_at       l4_at                end
//!      | head   | Ethernet | IP        | TCP, UDP, ICMP ... | tail |
//! ```
//!
//! Invariant: the description (`addresses`, `ports`, `ttl` ...) says what the bytes say. What changes a header changes
//! both, and the checksums that cover it, by the difference (RFC 1624).
//!
//! Invariant: start <= ip_at <= l4_at <= end <= length of the buffer. Before the packet stands an Ethernet header of 14
//! bytes or more with [`HEAD_ROOM`] in front, from [`Frame::read`] on. A frame of the kind V4 or V6 has a header of that
//! kind. Each was checked by `read`, which all changes of a place go through; so the accessors below slice without fear.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::arithmetic_side_effects)]

mod rewrite;

use std::ops::Range;

use weir_packet::checksum::{fold, is_right_ipv4, sum};
use weir_packet::frame::Mac;
use weir_packet::headers::{ICMP, ICMP6, SCTP, TCP, UDP, words};

use crate::address::{mapped4, words6};
use crate::drops::DropReason;
use crate::extensions::{self, FragmentHeader};
use crate::query::{self, Query};
use crate::tags::Tags;

pub(crate) use crate::extensions::IPV6;
pub(crate) use rewrite::{adjust, adjust_transport, delta16, delta32, pppoe_header};

/// Most ports of a node.
pub(crate) const MOST_PORTS: usize = 1024;

/// Number of a port of the node, in the order of its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PortId(pub u16);

/// A subscriber as frames name it. It may have been removed since.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Subscriber {
    /// Its number; 0: none.
    pub index: u32,
    /// How often the number has been given back, modulo 256.
    pub generation: u8,
}

impl Subscriber {
    /// No subscriber.
    pub const NONE: Subscriber = Subscriber { index: 0, generation: 0 };

    /// Whether it is none.
    #[inline]
    pub fn is_none(self) -> bool {
        self.index == 0
    }
}

/// Where the frames of a subscriber come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Line {
    /// The port.
    pub port: PortId,
    /// The tags.
    pub tags: Tags,
    /// Their Ethernet address.
    pub mac: Mac,
    /// The id of their PPPoE session; 0: they are no frames of PPPoE.
    pub pppoe_session: u16,
}

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

/// The parts of the node that a frame passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Passage {
    /// All that is between its ports.
    Full,
    /// No NAT: it goes from one port of the left end to another.
    Inside,
    /// No NAT and no route: the machine has sent it, and it leaves by the port that it is said to have come in by.
    FromMachine,
}

/// Bytes that a port leaves free in front of each frame: two tags fit there, a header of PPPoE with the protocol of PPP, and 8 more.
pub const HEAD_ROOM: usize = 24;
/// Ethernet header without tags.
pub(crate) const ETHERNET: usize = 14;
/// Header of PPPoE with the protocol of PPP behind it.
pub(crate) const PPPOE: usize = 8;
/// IPv4 header without options.
pub(crate) const IPV4: usize = 20;
/// Longest packet of IPv4, and what one of IPv6 carries at most.
const LONGEST: usize = 65_535;

/// What is known of a frame beside its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Known {
    /// The port that it came in by.
    pub(crate) port: PortId,
    /// How many bytes its Ethernet header has, tags included.
    pub(crate) ethernet: u8,
    pub(crate) is_awaited: bool,
    pub(crate) passage: Passage,
    /// See [`Frame::class`].
    pub(crate) class: u8,
    /// See [`Frame::policed_host`].
    pub(crate) policed_host: u32,
    /// See [`Frame::subscriber`].
    pub(crate) subscriber: Subscriber,
    /// See [`Frame::tags`].
    pub(crate) tags: Tags,
    /// See [`Frame::pppoe_session`].
    pub(crate) pppoe_session: u16,
    /// The node answers a frame with it: its Ethernet addresses lead back, and its tags are those of that frame.
    pub(crate) is_answer: bool,
}

impl Known {
    /// Of a frame of the node's own, which has no tags.
    pub(crate) fn untagged(port: PortId) -> Known {
        Known {
            port,
            ethernet: ETHERNET as u8,
            is_awaited: false,
            passage: Passage::Full,
            class: 0,
            policed_host: 0,
            subscriber: Subscriber::NONE,
            tags: Tags::NONE,
            pppoe_session: 0,
            is_answer: false,
        }
    }
}

/// A frame in memory of the caller.
#[derive(Debug)]
pub struct Frame<'a> {
    buf: &'a mut [u8],
    start: u16,
    end: u16,
    ip_at: u16,
    l4_at: u16,
    /// The port it came in by.
    pub port: PortId,
    /// Another thread has said that there is a mapping for it, at an address of the node itself.
    pub(crate) is_awaited: bool,
    /// What it passes.
    pub(crate) passage: Passage,
    /// Its class as a rule of a filter has set it, 0 to 7; 0 if none has.
    pub(crate) class: u8,
    /// The host that a policer has counted the frame for, as a hash, in its present direction; 0 if no policer has seen it there.
    pub(crate) policed_host: u32,
    /// The subscriber that it comes from, or goes to, in its present direction.
    pub(crate) subscriber: Subscriber,
    /// The VLANs that it came with, whether or not its tags still stand in it.
    pub(crate) tags: Tags,
    /// The PPPoE session that it came in, at an access port; 0: none. The header of a packet is removed there.
    pub(crate) pppoe_session: u16,
    /// See [`Known::is_answer`].
    pub(crate) is_answer: bool,
    kind: Kind,
    proto: u8,
    fragment: Fragment,
    ttl: u8,
    sport: u16,
    dport: u16,
    src4: u32,
    dst4: u32,
}

const _: () = assert!(size_of::<Frame<'_>>() == 64 && size_of::<Known>() == 28);

/// What the headers of a packet say.
struct Headers {
    proto: u8,
    fragment: Fragment,
    ttl: u8,
    /// Where the transport begins in it, and where it ends: behind may be padding of Ethernet.
    l4_at: usize,
    end: usize,
    /// See [`ports`].
    ports: Option<u32>,
    /// Source and destination of IPv4.
    addresses4: (u32, u32),
}

#[expect(
    clippy::arithmetic_side_effects,
    reason = "places in a buffer of less than 65,536 bytes; lengths from outside are compared with it first"
)]
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
            passage: Passage::Full,
            class: 0,
            policed_host: 0,
            subscriber: Subscriber::NONE,
            tags: Tags::NONE,
            pppoe_session: 0,
            is_answer: false,
            kind: Kind::Other,
            proto: 0,
            fragment: Fragment::Whole,
            ttl: 0,
            sport: 0,
            dport: 0,
            src4: 0,
            dst4: 0,
        }
    }

    /// The same of a subscriber that another thread of the node has found for it.
    #[must_use]
    pub fn of_subscriber(self, subscriber: Subscriber) -> Self {
        Frame { subscriber, ..self }
    }

    /// The subscriber that it comes from, or goes to, if the node knows one.
    pub fn subscriber(&self) -> Subscriber {
        self.subscriber
    }

    /// Reads the headers from the Ethernet header on, whose tags end at `ether_type_at` (from the frame's start).
    pub(crate) fn read(&mut self, ether_type_at: usize) -> Result<(), DropReason> {
        debug_assert!(ether_type_at >= ETHERNET - 2);
        let rest = self.buf.get(usize::from(self.start) + ether_type_at..usize::from(self.end));
        let (&ether_type, packet) =
            rest.and_then(|rest| rest.split_first_chunk()).ok_or(DropReason::Malformed)?;
        self.ip_at = self.start + ether_type_at as u16 + 2;
        (self.kind, self.l4_at) = (Kind::Other, self.ip_at);
        match u16::from_be_bytes(ether_type) {
            0x0800 => {
                let headers = read_v4(packet)?;
                self.describe(Kind::V4, headers)
            }
            0x86dd => self.read_v6(),
            0x0806 => {
                self.kind = Kind::Arp;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Apart, so that the registers of the quick way are its own.
    #[inline(never)]
    fn read_v6(&mut self) -> Result<(), DropReason> {
        let headers = read_v6(self.ip())?;
        self.describe(Kind::V6, headers)
    }

    /// It is a packet with these headers. Once for each kind: what differs between them costs no cycles then.
    #[inline(always)]
    fn describe(&mut self, kind: Kind, headers: Headers) -> Result<(), DropReason> {
        (self.kind, self.proto, self.ttl) = (kind, headers.proto, headers.ttl);
        self.fragment = headers.fragment;
        self.l4_at = self.ip_at + headers.l4_at as u16;
        self.end = self.ip_at + headers.end as u16;
        (self.src4, self.dst4) = headers.addresses4;
        let ports = headers.ports.unwrap_or_default();
        (self.sport, self.dport) = ((ports >> 16) as u16, ports as u16);
        headers.ports.map(|_| ()).ok_or(DropReason::Malformed)
    }

    /// What is known of it beside its bytes.
    pub(crate) fn known(&self) -> Known {
        Known {
            port: self.port,
            ethernet: (self.ip_at - self.start) as u8,
            is_awaited: self.is_awaited,
            passage: self.passage,
            class: self.class,
            policed_host: self.policed_host,
            subscriber: self.subscriber,
            tags: self.tags,
            pppoe_session: self.pppoe_session,
            is_answer: self.is_answer,
        }
    }

    /// What is known of a copy of it without tags, which [`Frame::copy`] makes.
    pub(crate) fn known_of_copy(&self) -> Known {
        // Where a route leads is looked up once more.
        let passage = match self.passage {
            Passage::FromMachine => Passage::FromMachine,
            Passage::Full | Passage::Inside => Passage::Full,
        };
        Known { ethernet: ETHERNET as u8, is_awaited: false, passage, ..self.known() }
    }

    /// Reads the headers again of a frame that was known so.
    pub(crate) fn read_known(&mut self, known: &Known) -> Result<(), DropReason> {
        (self.is_awaited, self.passage) = (known.is_awaited, known.passage);
        (self.class, self.policed_host) = (known.class, known.policed_host);
        self.subscriber = known.subscriber;
        (self.tags, self.is_answer) = (known.tags, known.is_answer);
        self.pppoe_session = known.pppoe_session;
        self.read(usize::from(known.ethernet) - 2)
    }

    /// Reads again after the packet itself was written anew.
    pub(crate) fn read_ip(&mut self) -> Result<(), DropReason> {
        self.read(usize::from(self.ip_at - 2 - self.start))
    }
}

/// RFC 1812, section 5.2.2: version, header length, total length and checksum are true.
#[inline]
#[expect(clippy::arithmetic_side_effects, reason = "an offset of 16 bits and a length of 16 bits")]
fn read_v4(ip: &[u8]) -> Result<Headers, DropReason> {
    let header = ip.first_chunk::<IPV4>().ok_or(DropReason::Malformed)?;
    let [version_and_words, _, m, n, _, _, p, q, ttl, proto, _, _, a, b, c, d, e, f, g, h] = *header;
    let end = usize::from(u16::from_be_bytes([m, n]));
    let l4_at = words(version_and_words & 15);
    let packet = ip.get(..end).ok_or(DropReason::Malformed)?;
    let (with_options, l4) = packet.split_at_checked(l4_at).ok_or(DropReason::Malformed)?;
    let is_right = match version_and_words {
        0x45 => is_right_ipv4(header),
        0x46..=0x4f => is_right_with_options(with_options),
        _ => return Err(DropReason::Malformed),
    };
    if !is_right {
        return Err(DropReason::BadChecksum);
    }
    let fragment = match u16::from_be_bytes([p, q]) & 0x3fff {
        0 => Fragment::Whole,
        0x2000 => Fragment::First,
        // It would end behind the longest packet there is.
        frag_off if usize::from(frag_off & 0x1fff) * 8 + end > LONGEST => return Err(DropReason::Malformed),
        _ => Fragment::Later,
    };
    let ports = ports(l4, proto, fragment, ICMP);
    let addresses4 = (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]));
    Ok(Headers { proto, fragment, ttl, l4_at, end, ports, addresses4 })
}

/// The checksum of a header with options, which few have.
#[cold]
fn is_right_with_options(header: &[u8]) -> bool {
    fold(sum(header)) == 0xffff
}

#[inline]
#[expect(
    clippy::arithmetic_side_effects,
    reason = "lengths of 16 bits and a header; what is carried begins within the packet"
)]
fn read_v6(ip: &[u8]) -> Result<Headers, DropReason> {
    let header =
        ip.first_chunk::<IPV6>().filter(|header| header[0] >> 4 == 6).ok_or(DropReason::Malformed)?;
    let end = IPV6 + usize::from(u16::from_be_bytes([header[4], header[5]]));
    let packet = ip.get(..end).ok_or(DropReason::Malformed)?;
    let carried = extensions::walk(packet).ok_or(DropReason::Malformed)?;
    let fragment = match carried.fragment {
        None | Some(FragmentHeader { offset: 0, more: false, .. }) => Fragment::Whole,
        Some(FragmentHeader { offset: 0, .. }) => Fragment::First,
        // RFC 8200, section 4.5.
        Some(header) if usize::from(header.offset) + end - carried.at > LONGEST => {
            return Err(DropReason::Malformed);
        }
        Some(_) => Fragment::Later,
    };
    let l4 = packet.get(carried.at..).ok_or(DropReason::Malformed)?;
    let ports = ports(l4, carried.proto, fragment, ICMP6);
    let (proto, ttl, l4_at) = (carried.proto, header[7], carried.at);
    Ok(Headers { proto, fragment, ttl, l4_at, end, ports, addresses4: (0, 0) })
}

/// Both ports of TCP, UDP and SCTP, that of the source above; of a query of ICMP, which has this number, its identifier twice.
/// `None`: the transport has no whole header.
#[inline]
fn ports(l4: &[u8], proto: u8, fragment: Fragment, icmp: u8) -> Option<u32> {
    match proto {
        _ if fragment == Fragment::Later => Some(0),
        UDP => {
            let [a, b, c, d, ..] = *l4.first_chunk::<8>()?;
            Some(u32::from_be_bytes([a, b, c, d]))
        }
        TCP => {
            let header = l4.first_chunk::<20>()?;
            let header_bytes = words(header[12] >> 4);
            let [a, b, c, d, ..] = *header;
            (20..=l4.len()).contains(&header_bytes).then_some(u32::from_be_bytes([a, b, c, d]))
        }
        _ => other_ports(l4, proto, icmp),
    }
}

/// Those of SCTP and of queries of ICMP, apart from what nearly all packets are.
#[cold]
fn other_ports(l4: &[u8], proto: u8, icmp: u8) -> Option<u32> {
    if proto == icmp {
        let [kind, _, _, _, a, b, _, _] = *l4.first_chunk::<8>()?;
        let is_query = query::of(proto, kind).is_some();
        return Some(if is_query { u32::from_be_bytes([a, b, a, b]) } else { 0 });
    }
    if proto == SCTP {
        let [a, b, c, d, ..] = *l4.first_chunk::<12>()?;
        return Some(u32::from_be_bytes([a, b, c, d]));
    }
    Some(0)
}

/// The one place where bytes of the buffer are found: by the marks that `read` has checked.
#[expect(clippy::indexing_slicing, clippy::expect_used, reason = "what the file's invariants say is there")]
impl Frame<'_> {
    #[inline]
    fn between(&self, from: u16, to: u16) -> &[u8] {
        &self.buf[usize::from(from)..usize::from(to)]
    }

    #[inline]
    fn between_mut(&mut self, from: u16, to: u16) -> &mut [u8] {
        &mut self.buf[usize::from(from)..usize::from(to)]
    }

    /// The Ethernet address of its receiver; the frame was read.
    #[inline]
    pub(crate) fn receiver(&self) -> &Mac {
        self.buf[usize::from(self.start)..].first_chunk().expect("a type stands behind it")
    }

    /// Destination and source, from Ethernet's header; the frame was read.
    #[inline]
    pub(crate) fn macs(&self) -> (Mac, Mac) {
        let &[a, b, c, d, e, f, ref src @ ..] =
            self.bytes().first_chunk::<12>().expect("a type stands behind them");
        ([a, b, c, d, e, f], *src)
    }

    /// Where it came from; it was read.
    pub(crate) fn line(&self) -> Line {
        let (_, mac) = self.macs();
        Line { port: self.port, tags: self.tags, mac, pppoe_session: self.pppoe_session }
    }

    /// The words of the address that a packet is for.
    pub(crate) fn destination(&self) -> [u32; 4] {
        match self.kind {
            Kind::V4 => mapped4(self.dst4),
            _ => words6(self.addresses6().1),
        }
    }

    /// Another Ethernet address of its receiver; it need not have been read.
    pub(crate) fn set_receiver(&mut self, mac: Mac) {
        self.between_mut(self.start, self.end)[..6].copy_from_slice(&mac);
    }

    /// The header of an IPv4 packet, without options.
    #[inline]
    pub(crate) fn header4(&self) -> &[u8; IPV4] {
        debug_assert_eq!(self.kind, Kind::V4);
        self.buf[usize::from(self.ip_at)..].first_chunk().expect("the header was read")
    }

    #[inline]
    fn header4_mut(&mut self) -> &mut [u8; IPV4] {
        debug_assert_eq!(self.kind, Kind::V4);
        self.buf[usize::from(self.ip_at)..].first_chunk_mut().expect("the header was read")
    }

    /// The header of an IPv6 packet, without extensions.
    #[inline]
    pub(crate) fn header6(&self) -> &[u8; IPV6] {
        debug_assert_eq!(self.kind, Kind::V6);
        self.ip().first_chunk().expect("the header was read")
    }

    /// Source and destination of an IPv6 packet.
    #[inline]
    pub(crate) fn addresses6(&self) -> (u128, u128) {
        let header = self.header6();
        let address = |at: usize| u128::from_be_bytes(*header[at..].first_chunk().expect("16 bytes of 40"));
        (address(8), address(24))
    }

    #[inline]
    fn header6_mut(&mut self) -> &mut [u8; IPV6] {
        debug_assert_eq!(self.kind, Kind::V6);
        self.ip_mut().first_chunk_mut().expect("the header was read")
    }
}

/// What the headers say.
#[expect(
    clippy::arithmetic_side_effects,
    reason = "places that `read` has checked, and sums of 16 bits in 32"
)]
impl Frame<'_> {
    /// The whole frame, Ethernet header included.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.between(self.start, self.end)
    }

    /// Everything in front of the packet: Ethernet addresses, tags, type.
    pub(crate) fn ethernet(&self) -> &[u8] {
        self.between(self.start, self.ip_at)
    }

    /// Whether it was sent to more than one host of the link.
    #[inline]
    pub(crate) fn is_to_group(&self) -> bool {
        self.receiver()[0] & 1 != 0
    }

    /// The front of an answer, up to its type: head room, and Ethernet addresses that lead back to where this one came from. A
    /// router writes others.
    pub(crate) fn front_of_answer(&self) -> Vec<u8> {
        let (dst, src) = self.macs();
        [&[0; HEAD_ROOM][..], &src, &dst].concat()
    }

    /// A copy of the frame without its tags.
    pub(crate) fn untagged(&self) -> Vec<u8> {
        let (dst, src) = self.macs();
        [&dst, &src, self.between(self.ip_at - 2, self.end)].concat()
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

    /// Whether the tags that it came with still stand in it, if it came with any.
    pub(crate) fn keeps_tags(&self) -> bool {
        usize::from(self.ip_at - self.start) >= ETHERNET + 4 * self.tags.count()
    }

    /// What its header says that it carries: an EtherType, or of 802.3 a length, which is less than 0x0600. It was read.
    pub(crate) fn ether_type(&self) -> u16 {
        self.between(self.ip_at - 2, self.ip_at).first_chunk().map_or(0, |kind| u16::from_be_bytes(*kind))
    }

    /// The tag behind those of its line; it names a priority and no VLAN (IEEE 802.1Q, section 9.6).
    pub(crate) fn priority_tag(&self) -> Option<[u8; 4]> {
        let at = ETHERNET - 2 + 4 * self.tags.count();
        let is_there = usize::from(self.ip_at - self.start) == at + 4 + 2;
        self.bytes().get(at..).and_then(<[u8]>::first_chunk).copied().filter(|_| is_there)
    }

    /// Where the frame is in its buffer.
    pub fn range(&self) -> Range<usize> {
        self.start.into()..self.end.into()
    }

    /// How many bytes [`Frame::ip`] has.
    #[inline]
    pub(crate) fn ip_bytes(&self) -> usize {
        usize::from(self.end - self.ip_at)
    }

    /// Whether it is a packet of IPv4 with options, which few have.
    #[inline]
    pub(crate) fn has_options4(&self) -> bool {
        self.kind == Kind::V4 && usize::from(self.l4_at - self.ip_at) > IPV4
    }

    /// Whether it is an IP packet.
    #[inline]
    pub(crate) fn is_ip(&self) -> bool {
        matches!(self.kind, Kind::V4 | Kind::V6)
    }

    /// The IP packet, or what stands in its place.
    #[inline]
    pub fn ip(&self) -> &[u8] {
        self.between(self.ip_at, self.end)
    }

    /// What stands behind the IP header and its extensions.
    #[inline]
    pub fn l4(&self) -> &[u8] {
        self.between(self.l4_at, self.end)
    }

    /// The IP header with its options, or its extensions.
    #[inline]
    pub(crate) fn ip_header(&self) -> &[u8] {
        self.between(self.ip_at, self.l4_at)
    }

    /// The options of an IPv4 packet.
    pub(crate) fn options4(&self) -> &[u8] {
        self.ip_header().get(IPV4..).unwrap_or_default()
    }

    /// The IP packet, to be changed; [`Frame::read_ip`] makes the description true again.
    #[inline]
    pub(crate) fn ip_mut(&mut self) -> &mut [u8] {
        self.between_mut(self.ip_at, self.end)
    }

    /// What stands behind the IP header, to be changed.
    #[inline]
    pub(crate) fn l4_mut(&mut self) -> &mut [u8] {
        self.between_mut(self.l4_at, self.end)
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

    /// What its fragment header says, if it is a packet of IPv6 with one; it may be whole all the same.
    pub(crate) fn fragment_header(&self) -> Option<FragmentHeader> {
        extensions::walk(self.ip()).filter(|_| self.kind == Kind::V6)?.fragment
    }

    /// What the fragments of a packet have in common beside their addresses; means nothing of a whole one.
    pub(crate) fn fragment_id(&self) -> u32 {
        if self.kind == Kind::V4 {
            self.id4().into()
        } else {
            self.fragment_header().map_or(0, |header| header.id)
        }
    }

    /// Where it stands in its packet, and whether more follow, as the header of IPv4 says it.
    pub(crate) fn fragment_field(&self) -> u16 {
        if self.kind == Kind::V4 {
            self.frag_off()
        } else {
            self.fragment_header().map_or(0, FragmentHeader::frag_off)
        }
    }

    /// How many bytes of the packet's payload come before this fragment of it.
    pub(crate) fn fragment_offset(&self) -> usize {
        usize::from(self.fragment_field() & 0x1fff) * 8
    }

    /// Ports of TCP, UDP and SCTP, source and destination; the identifier of a query of ICMP, twice; else zero.
    pub fn ports(&self) -> (u16, u16) {
        (self.sport, self.dport)
    }

    /// Source and destination of an IPv4 packet.
    pub(crate) fn addresses4(&self) -> (u32, u32) {
        debug_assert_eq!(self.kind, Kind::V4);
        (self.src4, self.dst4)
    }

    /// Time to live of IPv4, hop limit of IPv6.
    #[inline]
    pub fn ttl(&self) -> u8 {
        self.ttl
    }

    /// Identification of an IPv4 packet.
    pub(crate) fn id4(&self) -> u16 {
        let header = self.header4();
        u16::from_be_bytes([header[4], header[5]])
    }

    /// Flags and fragment offset, as the header of IPv4 has them.
    pub(crate) fn frag_off(&self) -> u16 {
        let header = self.header4();
        u16::from_be_bytes([header[6], header[7]])
    }

    /// Whether an IPv4 packet may not be cut into fragments.
    #[inline]
    pub(crate) fn keeps_whole(&self) -> bool {
        self.header4()[6] & 0x40 != 0
    }

    /// The header of TCP without options, if there is one.
    #[inline]
    pub(crate) fn tcp(&self) -> Option<&[u8; 20]> {
        let is_there = self.proto == TCP && self.fragment != Fragment::Later;
        self.l4().first_chunk().filter(|_| is_there)
    }

    /// Flags of TCP, zero for all else.
    pub fn tcp_flags(&self) -> u8 {
        self.tcp().map_or(0, |header| header[13])
    }

    /// Type and code of ICMP, if it is such a packet and its first part.
    pub fn icmp(&self) -> Option<(u8, u8)> {
        let is_icmp = match self.kind {
            Kind::V4 => self.proto == ICMP,
            Kind::V6 => self.proto == ICMP6,
            _ => false,
        };
        match self.l4() {
            &[kind, code, ..] if is_icmp && self.fragment != Fragment::Later => Some((kind, code)),
            _ => None,
        }
    }

    /// What a query of ICMP is that has an identifier, or an answer to one.
    fn query(&self) -> Option<Query> {
        self.icmp().and_then(|(kind, _)| query::of(self.proto, kind))
    }

    /// A query of ICMP or its answer, which has an identifier.
    pub(crate) fn icmp_query(&self) -> bool {
        self.query().is_some()
    }

    /// An answer to a query of ICMP.
    pub(crate) fn icmp_answer(&self) -> bool {
        self.query() == Some(Query::Answer)
    }

    /// An echo, or the answer to one.
    pub(crate) fn is_echo(&self) -> bool {
        match self.kind {
            Kind::V4 => matches!(self.icmp(), Some((0 | 8, _))),
            _ => self.icmp_query(),
        }
    }

    /// An error of ICMP, which quotes a packet.
    pub(crate) fn icmp_error(&self) -> bool {
        match (self.icmp(), self.kind) {
            (Some((kind, _)), Kind::V4) => matches!(kind, 3 | 4 | 5 | 11 | 12),
            (Some((kind, _)), Kind::V6) => kind < 128,
            _ => false,
        }
    }

    /// ICMP in fragments: whether it is an error, only the first one tells.
    pub(crate) fn is_piece_of_icmp(&self) -> bool {
        let icmp = if self.kind == Kind::V4 { ICMP } else { ICMP6 };
        self.fragment != Fragment::Whole && self.proto == icmp
    }
}
