//! The sources that a router accepts at a port: a spoofed packet goes no further (BCP 38 = RFC 2827, RFC 3704).
//!
//! ```text
//! source > hop of the way back (Lpm) > the port it leads to > is it one that the packet may have come in by?
//! ```
//!
//! The ports that are accepted are in `rpf.rs`. An invalid source, or an address of the node itself, is refused in any case.
//! Sources are checked before all stages, so that none translates such an address or remembers it.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use super::hops::End;
use super::nexts::Next;
use super::router::{GROUPS, Router, is_of_link};
use super::rpf::Accepted;
use super::{Hop, options};
use crate::batch::{Frames, PerFrame, Set};
use crate::drops::DropReason;
use crate::frame::{Frame, Kind, Passage, PortId};
use crate::prefix::{is_unicast4, is_unicast6};

/// Why a frame that came in goes no further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The source is invalid at this port.
    Source(DropReason),
    /// Its time to live ends here: a stage would only create state for it.
    Ttl,
    /// Its sender says by which nodes it goes.
    SourceRouted,
}

/// Where a hop leads.
enum Leads {
    /// To the node itself, or to all.
    Here,
    Nowhere,
    /// To this port.
    Out(PortId),
    /// To the ports of a group of next hops.
    Group,
}

impl Router {
    /// Checks the sources of frames that have just come in from links, `fresh`; returns those that are refused. Frames of the
    /// left end, `left`, that go to a port there are marked.
    pub(crate) fn check_sources(
        &self,
        mut frames: Frames<'_, '_>,
        fresh: Set,
        left: Set,
    ) -> (Set, PerFrame<Option<Refusal>>) {
        let (mut refused, mut refusals) = (Set::EMPTY, PerFrame::all(None));
        let backs = if self.accepted.iter().any(Option::is_some) {
            self.hops(&frames, fresh, End::Source)
        } else {
            PerFrame::all(Hop::NONE)
        };
        let mut ending = Set::EMPTY;
        for i in fresh {
            let frame = &frames[i];
            if let Some(refusal) = self.refusal(frame, backs[i]) {
                refused.insert(i);
                refusals[i] = Some(refusal);
            } else if frame.ttl() <= 1 {
                ending.insert(i);
            }
        }
        let has_several = self.left_ports > 1;
        let asked = if has_several { left.without(refused) } else { left.and(ending) };
        if asked.is_empty() {
            return (refused, refusals);
        }
        let hops = self.hops(&frames, asked, End::Destination);
        for i in asked {
            let stays_inside = match self.leads(hops[i]) {
                Leads::Out(port) => self.is_left(port),
                Leads::Group => self.ports_of_group(hops[i]).all(|port| self.is_left(port)),
                Leads::Here | Leads::Nowhere => continue,
            };
            if stays_inside {
                frames[i].passage = Passage::Inside;
            }
            if ending.contains(i) {
                refused.insert(i);
                refusals[i] = Some(Refusal::Ttl);
            }
        }
        (refused, refusals)
    }

    /// Why a frame is refused, before its destination is looked at; `back` is the way to its source.
    #[inline]
    fn refusal(&self, frame: &Frame<'_>, back: Hop) -> Option<Refusal> {
        match self.judge(frame, back) {
            Some(reason) => Some(Refusal::Source(reason)),
            None => {
                (frame.has_options4() && options::is_source_routed(frame)).then_some(Refusal::SourceRouted)
            }
        }
    }

    /// Why a source is refused if this hop leads back to it.
    #[inline]
    fn judge(&self, frame: &Frame<'_>, back: Hop) -> Option<DropReason> {
        if is_martian(frame) {
            // A host without an address yet asks all for one (RFC 2131, section 4.1, RFC 4862, section 5.4).
            let asks_all = is_unspecified(frame) && is_for_all(frame);
            return (!asks_all).then_some(DropReason::MartianSource);
        }
        let Some(&Some(accepted)) = self.accepted.get(usize::from(frame.port.0)) else { return None };
        if is_of_link(frame) {
            return None;
        }
        match self.leads(back) {
            Leads::Out(port) if self.accepts(accepted, port) => None,
            Leads::Group if self.is_accepted(back, accepted) => None,
            Leads::Here => Some(DropReason::MartianSource),
            _ => Some(DropReason::ReversePath),
        }
    }

    /// Twice in a loop over frames: a call would cost some cycles.
    #[inline(always)]
    fn leads(&self, hop: Hop) -> Leads {
        match self.nexts.get(hop) {
            Some(Next::Ready { port, .. } | Next::Stale { port, .. } | Next::Connected(port)) => {
                Leads::Out(port)
            }
            Some(Next::Local | Next::All | Next::Broadcast(_)) => Leads::Here,
            Some(Next::Unresolved) => Leads::Out(self.neighbour_port(hop)),
            Some(Next::Blackhole | Next::Unreachable | Next::Prohibit | Next::Martian) => Leads::Nowhere,
            None if hop.0 >= GROUPS && hop != Hop::NONE => Leads::Group,
            None => Leads::Nowhere,
        }
    }

    /// Whether one of the ways back is by a port that is accepted.
    #[cold]
    fn is_accepted(&self, group: Hop, accepted: Accepted) -> bool {
        self.ports_of_group(group).any(|port| self.accepts(accepted, port))
    }

    #[inline]
    fn accepts(&self, accepted: Accepted, port: PortId) -> bool {
        match accepted {
            Accepted::Port(only) => port == only,
            Accepted::End { is_outside } => self.is_left(port) != is_outside,
            Accepted::Any => true,
        }
    }

    /// Whether a port is of the left end.
    #[inline]
    fn is_left(&self, port: PortId) -> bool {
        !self.neighbours.link(port).is_outside
    }

    fn ports_of_group(&self, group: Hop) -> impl Iterator<Item = PortId> {
        self.shared(group).members.iter().map(|&member| self.neighbour_port(Hop(member)))
    }
}

/// Whether no host can have the source address (RFC 1812, section 5.3.7, RFC 4291, sections 2.5.2, 2.5.3, 2.7).
#[inline]
fn is_martian(frame: &Frame<'_>) -> bool {
    match frame.kind() {
        Kind::V4 => !is_unicast4(frame.addresses4().0),
        _ => !is_unicast6(frame.addresses6().0),
    }
}

/// Whether the source address is the unspecified one.
fn is_unspecified(frame: &Frame<'_>) -> bool {
    match frame.kind() {
        Kind::V4 => frame.addresses4().0 == 0,
        _ => frame.addresses6().0 == 0,
    }
}

/// Whether it is for a group, or for all hosts of its link.
fn is_for_all(frame: &Frame<'_>) -> bool {
    match frame.kind() {
        Kind::V4 => frame.addresses4().1 >> 28 == 14 || frame.addresses4().1 == u32::MAX,
        _ => frame.addresses6().1 >> 120 == 0xff,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{Batch, Verdict};
    use crate::config::Config;
    use crate::frame::{HEAD_ROOM, PortId};
    use crate::plane::Plane;
    use crate::scenario::packet;
    use crate::time::Time;

    const MACS: [[u8; 6]; 3] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 3]];

    /// What becomes of a packet at a port of a router with two links inside, and what it is then.
    fn sent(rpf: &str, port: u16, line: &str) -> (Verdict, Vec<u8>) {
        let text = format!(
            "lan(198.18.0.1/24, rpf {rpf}, neighbour 198.18.0.5 02:00:00:00:cc:01)
             dmz(198.18.1.1/24, rpf {rpf}, neighbour 198.18.1.5 02:00:00:00:cc:02)
             nat(public 198.19.0.1) > route(default via 198.19.0.2)
             > wan(198.19.0.1/24, neighbour 198.19.0.2 02:00:00:00:cc:03)"
        );
        let mut plane = Plane::new(&Config::read("n", &text).expect("a node"), &MACS);
        let mac = MACS[usize::from(port)];
        let mut buf =
            [&[0; HEAD_ROOM][..], &mac, &[2; 6], &[8, 0], &packet(line).expect("a packet")].concat();
        let end = buf.len();
        let mut batch = Batch::default();
        batch.push(Frame::new(&mut buf, HEAD_ROOM, end, PortId(port)));
        plane.run(Time::from_ms(1), &mut batch);
        let (frame, verdict) = batch.outcome().next().expect("one");
        (verdict, frame.ip()[12..16].to_vec())
    }

    #[test]
    fn two_links_of_one_end_are_distinguished_only_if_asked() {
        // A packet of a host of the DMZ, by the LAN.
        let other = "udp 198.18.1.5:1 > 192.0.2.1:53";
        for (rpf, expected) in [
            ("strict", Verdict::Dropped(DropReason::ReversePath)),
            ("end", Verdict::Out(PortId(2))),
            ("loose", Verdict::Out(PortId(2))),
        ] {
            assert_eq!(sent(rpf, 0, other).0, expected, "{rpf}");
            assert_eq!(sent(rpf, 1, other).0, Verdict::Out(PortId(2)), "{rpf}");
        }
        assert_eq!(
            sent("loose", 0, "udp 198.18.1.1:1 > 192.0.2.1:53").0,
            Verdict::Dropped(DropReason::MartianSource)
        );
    }

    #[test]
    fn no_nat_is_between_two_links_of_the_inside() {
        let inside = sent("end", 0, "udp 198.18.0.5:1 > 198.18.1.5:53");
        assert_eq!(inside, (Verdict::Out(PortId(1)), vec![198, 18, 0, 5]));
        let outside = sent("end", 0, "udp 198.18.0.5:1 > 192.0.2.1:53");
        assert_eq!(outside, (Verdict::Out(PortId(2)), vec![198, 19, 0, 1]));
    }

    /// As many ports as a node may have, and one more.
    fn many(ports: usize) -> Result<Config, String> {
        let port = |n: usize| {
            let (net, host) = (format!("10.{}.{}", n / 256, n % 256), n as u16);
            let [high, low] = host.to_be_bytes();
            format!(
                "p{n}({net}.1/24, rpf strict, mac 02:00:00:00:{high:02x}:{low:02x}, \
                 neighbour {net}.9 02:00:00:cc:{high:02x}:{low:02x})"
            )
        };
        let all: Vec<String> = (0..ports - 1).map(port).collect();
        let text = format!("{}\nroute\n{}", all.join("\n"), port(ports - 1));
        Config::read("n", &text).map_err(|wrong| wrong.to_string())
    }

    #[test]
    fn a_router_has_1024_ports_and_no_more() {
        let wrong = many(1025).expect_err("one too many");
        assert_eq!(wrong, "n:1: a node has at most 1024 ports: these are 1025");
        let config = many(1024).expect("a node");
        let mut plane = Plane::new(&config, &[[2; 6]; 1024]);
        for (from, source, destination, expected) in [
            (0, "10.0.0.9", "10.3.255.9", Verdict::Out(PortId(1023))),
            (1023, "10.3.255.9", "10.0.0.9", Verdict::Out(PortId(0))),
            (1022, "10.3.254.9", "10.1.44.9", Verdict::Out(PortId(300))),
            (300, "10.1.44.9", "10.3.254.9", Verdict::Out(PortId(1022))),
            (1022, "10.3.253.9", "10.1.44.9", Verdict::Dropped(DropReason::ReversePath)),
            (44, "10.1.44.9", "10.3.254.9", Verdict::Dropped(DropReason::ReversePath)),
        ] {
            let packet = packet(&format!("udp {source}:1 > {destination}:2")).expect("a packet");
            let [high, low] = u16::to_be_bytes(from);
            let mut buf = [&[0; HEAD_ROOM][..], &[2, 0, 0, 0, high, low], &[2; 6], &[8, 0], &packet].concat();
            let end = buf.len();
            let mut batch = Batch::default();
            batch.push(Frame::new(&mut buf, HEAD_ROOM, end, PortId(from)));
            plane.run(Time::from_ms(1), &mut batch);
            let (frame, verdict) = batch.outcome().next().expect("one");
            assert_eq!(verdict, expected, "{source} > {destination}");
            if let Verdict::Out(port) = expected {
                let [high, low] = port.0.to_be_bytes();
                assert_eq!(frame.bytes()[..6], [2, 0, 0, 0xcc, high, low]);
            }
        }
    }
}
