//! The flow that a frame is of: both ends, the lower one first, so that both directions are one. Its hash is what filters find
//! connections by, and what routers spread flows by. It cannot be predicted from outside: it follows from the seed of the node.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use weir_packet::headers::{ICMP, ICMP6, SCTP, TCP, UDP};

use crate::address::words6;
use crate::frame::{Fragment, Frame, Kind};
use crate::quote;
use crate::table::secret::Secret;

/// The kinds of flows.
pub(crate) mod kind {
    pub(crate) const TCP: u8 = 1;
    pub(crate) const UDP: u8 = 2;
    pub(crate) const ICMP: u8 = 3;
    pub(crate) const ICMP6: u8 = 4;
    pub(crate) const OTHER: u8 = 5;
    pub(crate) const SCTP: u8 = 6;
}

/// Both ends of a frame in their order, and its kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Flow {
    pub(crate) low: [u32; 4],
    pub(crate) high: [u32; 4],
    /// Ports of the low and the high end.
    pub(crate) ports: u32,
    /// One of [`kind`].
    pub(crate) kind: u8,
    pub(crate) from_low: bool,
}

/// One end of a flow.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FlowEnd<A> {
    pub(crate) address: A,
    pub(crate) port: u16,
}

impl<A> From<(A, u16)> for FlowEnd<A> {
    #[inline(always)]
    fn from((address, port): (A, u16)) -> FlowEnd<A> {
        FlowEnd { address, port }
    }
}

impl Flow {
    /// Of IPv4, between these ends.
    #[inline(always)]
    pub(crate) fn v4(src: FlowEnd<u32>, dst: FlowEnd<u32>, proto: u8) -> Flow {
        let (kind, sport, dport) = kind_of(proto, src.port, dst.port);
        let from = u64::from(src.address) << 16 | u64::from(sport);
        let to = u64::from(dst.address) << 16 | u64::from(dport);
        let from_low = from <= to;
        let (low, high) = if from_low { (from, to) } else { (to, from) };
        let mapped = |end: u64| [0, 0, 0xffff, (end >> 16) as u32];
        let ports = (low as u32 & 0xffff) << 16 | (high as u32 & 0xffff);
        Flow { low: mapped(low), high: mapped(high), ports, kind, from_low }
    }

    /// Of IPv6, between these ends.
    pub(crate) fn v6(src: FlowEnd<u128>, dst: FlowEnd<u128>, proto: u8) -> Flow {
        let (kind, sport, dport) = kind_of(proto, src.port, dst.port);
        let (from, to) = (FlowEnd { port: sport, ..src }, FlowEnd { port: dport, ..dst });
        let from_low = from <= to;
        let (low, high) = if from_low { (from, to) } else { (to, from) };
        let ports = u32::from(low.port) << 16 | u32::from(high.port);
        Flow { low: words6(low.address), high: words6(high.address), ports, kind, from_low }
    }

    /// That of a frame. Each frame comes here: a call would cost some clocks.
    #[inline(always)]
    pub(crate) fn of(frame: &Frame<'_>) -> Flow {
        if let (Kind::V4, TCP | UDP) = (frame.kind(), frame.proto()) {
            let ((src, dst), (sport, dport)) = (frame.addresses4(), frame.ports());
            return Flow::v4((src, sport).into(), (dst, dport).into(), frame.proto());
        }
        Flow::of_other(frame)
    }

    #[inline(never)]
    fn of_other(frame: &Frame<'_>) -> Flow {
        let (mut sport, mut dport) = frame.ports();
        // An identifier is that of the querying host; a query in the opposite direction is another flow.
        if frame.icmp_query() {
            if frame.icmp_answer() { sport = 0 } else { dport = 0 }
        }
        match frame.kind() {
            Kind::V4 => {
                let (src, dst) = frame.addresses4();
                Flow::v4((src, sport).into(), (dst, dport).into(), frame.proto())
            }
            _ => {
                let (src, dst) = frame.addresses6();
                Flow::v6((src, sport).into(), (dst, dport).into(), frame.proto())
            }
        }
    }

    /// The flow of the packet that an ICMP error quotes, if the error is for the sender of that packet: about packets of others
    /// it says nothing.
    pub(crate) fn quoted(frame: &Frame<'_>) -> Option<Flow> {
        match frame.kind() {
            Kind::V4 => {
                let quote = quote::v4(frame).ok().filter(|quote| quote.is_for(frame.addresses4().1))?;
                let (src, dst) = quote.asker();
                Some(Flow::v4(src.into(), dst.into(), quote.proto))
            }
            _ => {
                let quote = quote::v6(frame).ok().filter(|quote| quote.is_for(frame.addresses6().1))?;
                let (src, dst) = quote.asker();
                Some(Flow::v6(src.into(), dst.into(), quote.proto))
            }
        }
    }

    /// The hash of this flow, the same in either direction.
    #[inline(always)]
    pub(crate) fn hash(&self, secret: &Secret) -> u32 {
        let rest = u64::from(self.kind) << 32 | u64::from(self.ports);
        if let ([0, 0, 0xffff, low], [_, _, _, high]) = (self.low, self.high) {
            return secret.hash([0, 0, low, high], rest);
        }
        secret.hash(self.high, u64::from(secret.hash(self.low, rest)))
    }
}

/// The hash by which flows are spread over next hops.
#[inline]
pub(crate) fn spread(frame: &Frame<'_>, secret: &Secret) -> u32 {
    match frame.fragment() {
        Fragment::Whole => Flow::of(frame).hash(secret),
        _ => without_ports(frame).hash(secret),
    }
}

/// The flow of a packet that is cut: only its first fragment has ports, so that they count for none.
#[cold]
fn without_ports(frame: &Frame<'_>) -> Flow {
    match frame.kind() {
        Kind::V4 => {
            let (src, dst) = frame.addresses4();
            Flow::v4((src, 0).into(), (dst, 0).into(), frame.proto())
        }
        _ => {
            let (src, dst) = frame.addresses6();
            Flow::v6((src, 0).into(), (dst, 0).into(), frame.proto())
        }
    }
}

/// The kind of a flow; a protocol without ports has its number in their place.
#[inline]
fn kind_of(proto: u8, sport: u16, dport: u16) -> (u8, u16, u16) {
    match proto {
        TCP => (kind::TCP, sport, dport),
        UDP => (kind::UDP, sport, dport),
        ICMP => (kind::ICMP, sport, dport),
        ICMP6 => (kind::ICMP6, sport, dport),
        other => other_kind(other, sport, dport),
    }
}

#[cold]
fn other_kind(proto: u8, sport: u16, dport: u16) -> (u8, u16, u16) {
    match proto {
        SCTP => (kind::SCTP, sport, dport),
        other => (kind::OTHER, u16::from(other), u16::from(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{HEAD_ROOM, PortId};
    use crate::recipe::Key;
    use crate::scenario::packet;

    /// Does something with the frame of a packet.
    fn with<T>(line: &str, run: impl FnOnce(&mut Frame<'_>) -> T) -> T {
        let ip = packet(line).unwrap_or_else(|wrong| panic!("{line}: {wrong}"));
        let ether_type = if ip[0] >> 4 == 4 { [8, 0] } else { [0x86, 0xdd] };
        let mut buf = [&[0; HEAD_ROOM][..], &[2; 12], &ether_type, &ip].concat();
        let end = buf.len();
        let mut frame = Frame::new(&mut buf, HEAD_ROOM, end, PortId(0));
        frame.read(12).expect("readable");
        run(&mut frame)
    }

    #[test]
    fn both_directions_of_a_flow_have_one_hash_and_others_another() {
        let secret = Secret::new(3);
        let hash = |line: &str| with(line, |frame| spread(frame, &secret));
        for (out, back, other) in [
            ("udp 10.0.0.1:1 > 10.0.0.2:2", "udp 10.0.0.2:2 > 10.0.0.1:1", "tcp 10.0.0.1:1 > 10.0.0.2:2 S"),
            (
                "udp [2001:db8::1]:1 > [2001:db8::2]:2",
                "udp [2001:db8::2]:2 > [2001:db8::1]:1",
                "udp [2001:db8::1]:2 > [2001:db8::2]:1",
            ),
            (
                "icmp echo 10.0.0.1 > 10.0.0.2 id 7",
                "icmp reply 10.0.0.2 > 10.0.0.1 id 7",
                "icmp echo 10.0.0.2 > 10.0.0.1 id 7",
            ),
        ] {
            assert_eq!(hash(out), hash(back), "{out}");
            assert_ne!(hash(out), hash(other), "{out}");
            let by_key = with(out, |frame| Key::of_any(frame).flow().hash(&secret));
            assert!(out.starts_with("icmp") || by_key == hash(out), "{out}: a recipe leads elsewhere");
        }
        assert_ne!(spread_with(4), spread_with(5), "nobody foresees it");
    }

    fn spread_with(seed: u64) -> u32 {
        with("udp 10.0.0.1:1 > 10.0.0.2:2", |frame| spread(frame, &Secret::new(seed)))
    }

    #[test]
    fn fragments_of_a_packet_go_one_way() {
        for (first, later) in [
            (
                "udp 10.0.0.1:1 > 10.0.0.2:2 len 16 whole 64 frag 0+ id 9",
                "udp 10.0.0.1 > 10.0.0.2 len 16 whole 64 frag 24+ id 9",
            ),
            (
                "udp [2001:db8::1]:1 > [2001:db8::2]:2 len 16 whole 64 frag 0+ id 9",
                "udp 2001:db8::1 > 2001:db8::2 len 16 whole 64 frag 24+ id 9",
            ),
        ] {
            let secret = Secret::new(3);
            let hash = |line: &str| with(line, |frame| spread(frame, &secret));
            assert_eq!(hash(first), hash(later), "{first}");
        }
    }
}
