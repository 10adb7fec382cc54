//! Frames that are punted to the control program of the node, each for a reason, where their port says so.
//!
//! | reason | frames | limit per second |
//! |---|---|---|
//! | `ppp_control` | PPPoE sessions (EtherType 0x8864), but for IPv4 and IPv6 in them: LCP, PAP, CHAP, IPCP, IPV6CP | `punt-ppp-control` 60000 |
//! | `nd` | router and neighbour discovery, redirects (RFC 4861) | `punt-nd` 1000 |
//! | `arp` | ARP | `punt-arp` 1000 |
//! | `dhcp4` | UDP to port 67, sent to a group, to 255.255.255.255 or to an address of the node | `punt-dhcp4` 20000 |
//! | | at access ports also UDP from port 67 to 68: a server among the subscribers | |
//! | `dhcp6` | UDP to port 547, sent to a group or to an address of the node | `punt-dhcp6` 1000 |
//! | `pppoe_discovery` | PPPoE discovery (EtherType 0x8863) | `punt-pppoe-discovery` 12000 |
//! | `unknown_source` | packets of a source that no subscriber has | `punt-unknown-source` 1000 |
//!
//! Of each rate the frames of one line (port and VLAN tags) get at most a half, and those of one sender (Ethernet address of a
//! line) a quarter: a customer that floods, also under made-up Ethernet addresses, leaves room for the others.
//!
//! Invariant: a node none of whose ports punts has no state here, and its frames pay nothing.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::arithmetic_side_effects)]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weir_packet::headers::UDP;

use crate::config::Config;
use crate::drops::DropReason;
use crate::frame::{Fragment, Frame, Kind, PortId};
use crate::icmp;
use crate::limits::Limits;
use crate::punt::{PuntReason, PuntReasons};
use crate::table::quota::Quota;
use crate::table::shares::Host;
use crate::threads::Share;
use crate::time::Time;

/// Places for senders, and for lines.
const SENDERS: usize = 4096;
const LINES: usize = 1024;
const DHCP4: u16 = 67;
const DHCP4_CLIENT: u16 = 68;
const DHCP6: u16 = 547;
const PPPOE_DISCOVERY: u16 = 0x8863;
const PPPOE_SESSION: u16 = 0x8864;

/// What the control program is given, and how much of it.
#[derive(Debug)]
pub(crate) struct Punter {
    /// By port.
    ports: Vec<PuntReasons>,
    /// By port, whether subscribers are at it.
    access: Vec<bool>,
    /// Addresses of the node.
    own: Vec<IpAddr>,
    /// By reason.
    quotas: [ReasonQuota; PuntReason::ALL.len()],
    share: Share,
    /// Whether there is a control program that takes frames.
    pub(crate) is_attached: bool,
}

/// What is left of the rate of a reason, for each line and for each sender.
#[derive(Debug)]
struct ReasonQuota {
    lines: Quota,
    senders: Quota,
}

impl Punter {
    /// That of a node; `None` if no port of it punts.
    pub(crate) fn new(config: &Config) -> Option<Box<Punter>> {
        let ports: Vec<PuntReasons> = config.ports.iter().map(|port| port.punt).collect();
        if ports.iter().all(|reasons| reasons.is_empty()) {
            return None;
        }
        let quotas = PuntReason::ALL.map(|reason| {
            let rates = config.limits.punts(reason, config.share);
            ReasonQuota {
                lines: Quota::new(config.seed, LINES, rates.of_line),
                senders: Quota::new(config.seed, SENDERS, rates.of_sender),
            }
        });
        let own = config.ports.iter().flat_map(|port| &port.addresses).map(|local| local.host()).collect();
        let access = config.ports.iter().map(|port| port.is_access).collect();
        Some(Box::new(Punter { ports, access, own, quotas, share: config.share, is_attached: false }))
    }

    /// The same with the rates as they were used up so far.
    pub(crate) fn continuing(mut self: Box<Punter>, old: Option<Box<Punter>>) -> Box<Punter> {
        if let Some(old) = old {
            self.quotas = old.quotas;
        }
        self
    }

    /// Sets other limits.
    pub(crate) fn limit(&mut self, limits: &Limits) {
        for (quota, reason) in self.quotas.iter_mut().zip(PuntReason::ALL) {
            let rates = limits.punts(reason, self.share);
            quota.lines.set_rates(rates.of_line);
            quota.senders.set_rates(rates.of_sender);
        }
    }

    /// What a port punts.
    pub(crate) fn of_port(&self, port: PortId) -> PuntReasons {
        self.ports.get(usize::from(port.0)).copied().unwrap_or_default()
    }

    /// The reason to punt a frame for what it is, if its port punts such frames.
    pub(crate) fn reason(&self, frame: &Frame<'_>) -> Option<PuntReason> {
        let reasons = self.of_port(frame.port);
        if reasons.is_empty() {
            return None;
        }
        let reason = match frame.kind() {
            Kind::Arp => Some(PuntReason::Arp),
            Kind::V6 if icmp::is_about_neighbours(frame) => self.nd(frame),
            Kind::V4 | Kind::V6 => self.dhcp(frame),
            Kind::Other => pppoe(frame),
        };
        reason.filter(|reason| reasons.contains(*reason)).or_else(|| unknown_source(frame, reasons))
    }

    /// Neighbour and router discovery. At access ports the node answers all but the question for a router.
    fn nd(&self, frame: &Frame<'_>) -> Option<PuntReason> {
        const ROUTER_SOLICITATION: u8 = 133;
        let is_asked = matches!(frame.icmp(), Some((ROUTER_SOLICITATION, _)));
        (is_asked || !self.is_access(frame.port)).then_some(PuntReason::Nd)
    }

    fn is_access(&self, port: PortId) -> bool {
        self.access.get(usize::from(port.0)) == Some(&true)
    }

    /// A message of DHCP to a server that may be the node, or to any. Fragments of one pass as other packets do.
    fn dhcp(&self, frame: &Frame<'_>) -> Option<PuntReason> {
        if frame.proto() != UDP || frame.fragment() != Fragment::Whole {
            return None;
        }
        // A DHCP server among the subscribers: the control program reports it.
        if self.is_access(frame.port) && frame.kind() == Kind::V4 && frame.ports() == (DHCP4, DHCP4_CLIENT) {
            return Some(PuntReason::Dhcp4);
        }
        let (reason, to): (_, IpAddr) = match (frame.kind(), frame.ports().1) {
            (Kind::V4, DHCP4) => (PuntReason::Dhcp4, Ipv4Addr::from(frame.addresses4().1).into()),
            (Kind::V6, DHCP6) => (PuntReason::Dhcp6, Ipv6Addr::from(frame.addresses6().1).into()),
            _ => return None,
        };
        let is_for_all = frame.is_to_group() || to == IpAddr::V4(Ipv4Addr::BROADCAST) || to.is_multicast();
        (is_for_all || self.own.contains(&to)).then_some(reason)
    }

    /// Whether the control program takes one more frame for this reason at `now`; if so, it counts.
    ///
    /// # Errors
    /// The reason to drop it.
    pub(crate) fn allow(
        &mut self,
        now: Time,
        frame: &Frame<'_>,
        reason: PuntReason,
    ) -> Result<(), DropReason> {
        if !self.is_attached {
            return Err(DropReason::NoControl);
        }
        let quota = self.quotas.get_mut(reason as usize);
        // First the line: what it has used up costs others nothing.
        let is_allowed = quota.is_some_and(|quota| {
            quota.lines.allows(now, line(frame)) && quota.senders.allows(now, sender(frame))
        });
        if is_allowed { Ok(()) } else { Err(reason.over_limit()) }
    }
}

/// Whether a frame is one of a PPPoE session.
#[inline]
pub(crate) fn is_pppoe_session(frame: &Frame<'_>) -> bool {
    frame.kind() == Kind::Other && frame.ether_type() == PPPOE_SESSION
}

/// Whether a frame is one of PPPoE.
pub(crate) fn is_pppoe(frame: &Frame<'_>) -> bool {
    frame.kind() == Kind::Other && matches!(frame.ether_type(), PPPOE_DISCOVERY | PPPOE_SESSION)
}

/// A packet of a source that no subscriber has.
fn unknown_source(frame: &Frame<'_>, reasons: PuntReasons) -> Option<PuntReason> {
    let is_packet = matches!(frame.kind(), Kind::V4 | Kind::V6) && !icmp::is_about_neighbours(frame);
    let is_unknown = frame.subscriber().is_none() && reasons.contains(PuntReason::UnknownSource);
    (is_packet && is_unknown).then_some(PuntReason::UnknownSource)
}

/// PPPoE, but for packets of IP in it (RFC 2516; the protocol may be compressed to one byte, which is odd: RFC 1661, section 6.5).
fn pppoe(frame: &Frame<'_>) -> Option<PuntReason> {
    match (frame.ether_type(), frame.ip()) {
        (PPPOE_DISCOVERY, _) => Some(PuntReason::PppoeDiscovery),
        (PPPOE_SESSION, [_, _, _, _, _, _, 0x00, 0x21 | 0x57, ..]) => None,
        (PPPOE_SESSION, [_, _, _, _, _, _, first, _, ..]) if first & 1 == 0 => Some(PuntReason::PppControl),
        _ => None,
    }
}

/// The line of a frame: its port and its VLAN tags.
fn line(frame: &Frame<'_>) -> Host {
    let (tags, _) = frame.ethernet().get(12..).unwrap_or_default().as_chunks::<4>();
    // The upper four bits of a tag are its priority.
    let number = |tag: Option<&[u8; 4]>| tag.map_or(0, |tag| u32::from_be_bytes(*tag) & 0xffff_0fff);
    Host([number(tags.first()), number(tags.get(1)), frame.port.0.into(), 1 << 31])
}

/// The sender of a frame on its line.
pub(crate) fn sender(frame: &Frame<'_>) -> Host {
    let (Host([outer, inner, port, _]), Host([_, _, high, low])) = (line(frame), Host::station(frame));
    // Two bytes of the Ethernet address beside the port, which has the lower ones.
    Host([outer, inner, port | high << 16, low])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::HEAD_ROOM;

    /// The protocol of PPP says what is control.
    #[test]
    fn ppp_that_carries_no_packet_is_control() {
        for (session, expected) in [
            (&[0x11, 0, 0, 7, 0, 2, 0xc0, 0x21][..], Some(PuntReason::PppControl)),
            (&[0x11, 0, 0, 7, 0, 2, 0x80, 0x57], Some(PuntReason::PppControl)),
            (&[0x11, 0, 0, 7, 0, 2, 0x00, 0x21], None),
            (&[0x11, 0, 0, 7, 0, 2, 0x00, 0x57], None),
            // Compressed, and cut short.
            (&[0x11, 0, 0, 7, 0, 2, 0x21, 0x45], None),
            (&[0x11, 0, 0, 7, 0, 2, 0xc0], None),
        ] {
            let mut buf = [&[0; HEAD_ROOM][..], &[2; 12], &[0x88, 0x64], session].concat();
            let end = buf.len();
            let mut frame = Frame::new(&mut buf, HEAD_ROOM, end, PortId(0));
            frame.read(12).expect("readable");
            assert_eq!(pppoe(&frame), expected, "{session:x?}");
        }
    }

    #[test]
    fn a_line_is_a_port_with_tags_and_a_sender_an_address_on_it() {
        let hosts = |port: u16, mac: u8, tags: &[u8]| {
            let mut buf = [&[0; HEAD_ROOM][..], &[2; 11], &[mac], tags, &[8, 6]].concat();
            let end = buf.len();
            let mut frame = Frame::new(&mut buf, HEAD_ROOM, end, PortId(port));
            frame.read(12 + tags.len()).expect("readable");
            (line(&frame), sender(&frame))
        };
        let [s, c] = [[0x88, 0xa8, 0, 7], [0x81, 0, 0, 9]];
        let first = hosts(0, 1, &[s, c].concat());
        assert_eq!(hosts(0, 1, &[[0x88, 0xa8, 0xe0, 7], c].concat()), first, "a priority is no line");
        assert_eq!(hosts(0, 2, &[s, c].concat()).0, first.0);
        let others =
            [hosts(0, 2, &[s, c].concat()), hosts(1, 1, &[s, c].concat()), hosts(0, 1, &s), hosts(0, 1, &[])];
        assert!(others.iter().all(|other| other.1 != first.1), "{others:?}");
        assert!(others[1..].iter().all(|other| other.0 != first.0), "{others:?}");
    }
}
