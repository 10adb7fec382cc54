//! A frame as a NAT sees it: its two ends, and what it says of a connection.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use weir_packet::headers::{ICMP, TCP, UDP};

use super::outside::{Endpoint, Space};
use super::slot::{Inside, Remote};
use crate::address::mapped4;
use crate::dir::Dir;
use crate::frame::{Fragment, Frame, Kind};
use crate::table::tcp::{self, Segment};

/// A frame as the table sees it, from the inside.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flow {
    pub(crate) inside: Inside,
    pub(crate) remote: Remote,
    /// Of a TCP segment; else all zero.
    pub(crate) segment: Segment,
}

/// A frame as the table sees it, from the outside.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) endpoint: Endpoint,
    pub(crate) proto: u8,
    pub(crate) remote: Remote,
    pub(crate) segment: Segment,
}

/// Whether an inside end is one of IPv4.
#[inline]
pub(super) fn is_v4(inside: &Inside) -> bool {
    matches!(inside.address, [0, 0, 0xffff, _])
}

/// Whether a protocol has ports, or identifiers in their place.
pub(crate) fn has_ports_of(proto: u8) -> bool {
    Space::of(proto).is_some()
}

/// A whole packet with ports.
#[inline]
pub(super) fn is_plain(frame: &Frame<'_>) -> bool {
    frame.kind() == Kind::V4 && frame.fragment() == Fragment::Whole && has_ports(frame)
}

#[inline]
pub(super) fn has_ports(frame: &Frame<'_>) -> bool {
    matches!(frame.proto(), TCP | UDP) || frame.icmp_query()
}

/// The two ends of a frame, seen from the inside.
#[inline]
pub(super) fn ends(frame: &Frame<'_>, dir: Dir) -> Flow {
    if frame.kind() != Kind::V4 {
        let inside = Inside { address: [0; 4], port: 0, proto: 0 };
        return Flow { inside, remote: Remote::default(), segment: Segment::default() };
    }
    let ((src, dst), (sport, dport)) = (frame.addresses4(), frame.ports());
    let ((here, hport), (there, tport)) = match dir {
        Dir::Outward => ((src, sport), (dst, dport)),
        Dir::Inward => ((dst, dport), (src, sport)),
    };
    // The identifier of a query is that of the querying host, in either direction.
    let tport = if frame.proto() == ICMP { 0 } else { tport };
    Flow {
        inside: Inside { address: mapped4(here), port: hport, proto: frame.proto() },
        remote: Remote { address: there, port: tport },
        segment: Segment::default(),
    }
}

#[inline]
pub(super) fn flow(frame: &Frame<'_>) -> Flow {
    Flow { segment: Segment::of(frame), ..ends(frame, Dir::Outward) }
}

#[inline]
pub(super) fn remote(frame: &Frame<'_>) -> Remote {
    ends(frame, Dir::Inward).remote
}

/// Lowers the MSS option of a SYN to this, if it is larger.
pub(super) fn clamp(frame: &mut Frame<'_>, mss: u16) {
    if frame.tcp_flags() & tcp::SYN != 0 {
        tcp::clamp_mss(frame.l4_mut(), mss);
    }
}
