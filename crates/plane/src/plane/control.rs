//! Frames for the control program, and frames that it injects. What its ports punt leaves the way of a frame before sources are
//! checked and before the first stage: a client that asks for an address has none yet.
//!
//! ```text
//!   admit > punted? > ARP, neighbour discovery: the node answers and learns > rate of reason, line, sender > control program
//!   control program > injected: enters by a port, and is not punted again
//! ```
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use super::Plane;
use crate::batch::{Batch, Set, Verdict};
use crate::drops::DropReason;
use crate::frame::Frame;
use crate::pipeline::Exit;
use crate::punt::PuntReason;
use crate::threads::Ingress;
use crate::time::Time;

impl Plane {
    /// Whether there is a control program that takes frames from now on. Without one, frames for it are dropped.
    pub fn set_control(&mut self, is_attached: bool) {
        self.has_control = is_attached;
        if let Some(punter) = &mut self.punter {
            punter.is_attached = is_attached;
        }
    }

    /// A frame with the verdict [`Verdict::Control`] did not reach the control program.
    pub fn punt_failed(&mut self, reason: PuntReason, why: DropReason) {
        self.accounting.control.take_back(reason);
        self.accounting.drops.count(why);
    }

    /// The control program has injected a frame, which leaves as it is.
    pub fn injected_leaves(&mut self) {
        self.accounting.injected += 1;
        self.accounting.left += 1;
    }

    /// The control program has injected a frame, which goes no further.
    pub fn injection_dropped(&mut self, why: DropReason) {
        self.accounting.injected += 1;
        self.accounting.drops.count(why);
    }

    /// Gives frames off the wire their verdict that their ports punt for what they are; returns those of a set that go on.
    #[cold]
    pub(super) fn punt_to_control(&mut self, now: Time, batch: &mut Batch<'_>, set: Set) -> Set {
        let mut others = set;
        if batch.is_injected {
            return others;
        }
        for i in set {
            let punter = self.punter.as_ref().filter(|_| batch.ingress[i] == Ingress::Wire);
            let reason = punter.and_then(|punter| punter.reason(&batch[i]));
            let Some(reason) = reason.filter(|_| self.is_for_node(&batch[i])) else { continue };
            others.remove(i);
            let refused = match reason {
                PuntReason::Arp | PuntReason::Nd => self.on_broken_neighbour_frame(now, &batch[i]),
                _ => None,
            };
            let verdict = refused.unwrap_or_else(|| self.control_verdict(now, &batch[i], reason));
            if matches!(verdict, Verdict::Control(_)) {
                batch[i].close_session();
            }
            self.decide(batch, i, verdict);
        }
        others
    }

    /// The verdict of a frame that is punted for this reason: it is counted, or beyond the limits.
    fn control_verdict(&mut self, now: Time, frame: &Frame<'_>, reason: PuntReason) -> Verdict {
        let Some(punter) = &mut self.punter else { return Verdict::Dropped(DropReason::NoControl) };
        match punter.allow(now, frame, reason) {
            Ok(()) => {
                self.accounting.control.count(reason);
                Verdict::Control(reason)
            }
            Err(why) => Verdict::Dropped(why),
        }
    }

    /// Whether a frame was sent to the node or to a group; to a bump in the wire all are.
    fn is_for_node(&self, frame: &Frame<'_>) -> bool {
        match &self.pipeline.exit {
            Exit::Router(router) => frame.is_to_group() || *frame.receiver() == router.mac(frame.port),
            Exit::Across => true,
        }
    }

    /// A router answers what a frame asks and learns what it says; the verdict of a frame that says nothing.
    fn on_broken_neighbour_frame(&mut self, now: Time, frame: &Frame<'_>) -> Option<Verdict> {
        let verdict = self.on_neighbour_frame(now, frame)?;
        (verdict == Verdict::Dropped(DropReason::NoProtocol)).then_some(verdict)
    }
}

#[cfg(test)]
mod tests {
    use weir_packet::frame::Mac;
    use weir_packet::neighbour::{Host, question};

    use super::*;
    use crate::config::Config;
    use crate::frame::{HEAD_ROOM, PortId};
    use crate::scenario::packet;

    const ROUTER: &str = "lan(198.18.0.1/24, 2001:db8:1::1/64, vlan 7, punt arp nd dhcp4 unknown_source) > \
                          route(default via 198.19.0.9) > wan(198.19.0.1/24) limits(punt-arp 160)";
    const MACS: [Mac; 2] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];
    const CLIENT: Mac = [2, 0, 0, 0, 0xcc, 5];

    fn plane(text: &str) -> Plane {
        let mut plane = Plane::new(&Config::read("n", text).expect("a node"), &MACS);
        plane.set_control(true);
        plane
    }

    /// The verdict of a frame by the first port with VLAN 7, the rest of a frame behind its Ethernet addresses.
    fn passed(plane: &mut Plane, batch: Batch<'_>, macs: [Mac; 2], rest: &[u8]) -> Verdict {
        let mut buf = [&[0; HEAD_ROOM][..], &macs.concat(), &[0x81, 0, 0, 7], rest].concat();
        let (end, mut batch) = (buf.len(), Batch { frames: Vec::new(), ..batch });
        batch.push(Frame::new(&mut buf, HEAD_ROOM, end, PortId(0)));
        plane.run(Time::from_ms(1), &mut batch);
        assert!(plane.accounting().balance(), "{:?}", plane.accounting());
        batch.outcome().next().expect("one").1
    }

    /// What asks for an address of the node, from this one.
    fn asks(from: Mac) -> (Mac, Vec<u8>) {
        let frame = question(Host { mac: from, ip: [198, 18, 0, 5].into() }, [198, 18, 0, 1].into());
        (*frame.first_chunk().expect("a frame"), frame.get(12..).expect("a frame").to_vec())
    }

    #[test]
    fn a_router_answers_and_learns_before_the_control_program_is_told() {
        let mut plane = plane(ROUTER);
        let (to, rest) = asks(CLIENT);
        let verdict = passed(&mut plane, Batch::default(), [to, CLIENT], &rest);
        assert_eq!(verdict, Verdict::Control(PuntReason::Arp));
        let answers: Vec<_> = plane.departures().collect();
        assert_eq!(answers.len(), 1, "{answers:?}");
        assert!(answers[0].bytes.starts_with(&CLIENT), "{answers:?}");
        let line = packet("udp 198.19.0.9:1 > 198.18.0.5:2").expect("a packet");
        let mut buf = [&[0; HEAD_ROOM][..], &MACS[1], &CLIENT, &[8, 0], &line].concat();
        let (end, mut batch) = (buf.len(), Batch::default());
        batch.push(Frame::new(&mut buf, HEAD_ROOM, end, PortId(1)));
        plane.run(Time::from_ms(2), &mut batch);
        let (frame, verdict) = batch.outcome().next().expect("one");
        assert_eq!((verdict, &frame.bytes()[..6]), (Verdict::Out(PortId(0)), &CLIENT[..]));
        // A broken one says nothing.
        let verdict = passed(&mut plane, Batch::default(), [to, CLIENT], &rest[..8]);
        assert_eq!(verdict, Verdict::Dropped(DropReason::NoProtocol));
        // One that is for another host is no concern of the node.
        let verdict = passed(&mut plane, Batch::default(), [[2; 6], CLIENT], &rest);
        assert_eq!(verdict, Verdict::Dropped(DropReason::NotForUs));
    }

    #[test]
    fn a_line_that_makes_up_addresses_gets_half_and_without_a_program_all_is_dropped() {
        let mut plane = plane(ROUTER);
        let punted = |plane: &mut Plane| {
            let from = |n| {
                let ((to, rest), mac) = (asks(CLIENT), [2, 0, 0, 0, 0xdd, n]);
                passed(plane, Batch::default(), [to, mac], &rest)
            };
            (0..200).map(from).filter(|verdict| *verdict == Verdict::Control(PuntReason::Arp)).count()
        };
        // 20 at once of 160 per second.
        assert_eq!(punted(&mut plane), 10);
        assert_eq!(plane.accounting().drops[DropReason::PuntArp], 190);
        assert_eq!(plane.accounting().control.of(PuntReason::Arp), 10);
        plane.set_control(false);
        assert_eq!(punted(&mut plane), 0);
        assert_eq!(plane.accounting().drops[DropReason::NoControl], 200);
        plane.punt_failed(PuntReason::Arp, DropReason::PuntFull);
        plane.injection_dropped(DropReason::InjectedInvalid);
        plane.injected_leaves();
        let seen = plane.accounting();
        assert!(seen.balance(), "{seen:?}");
        assert_eq!((seen.control.total(), seen.injected, seen.left, seen.originated - 1), (9, 2, 401, 399));
    }

    /// For a second one line asks 2,000 times, each time as another host; a host of another line asks now and then.
    #[test]
    fn a_flood_of_one_line_takes_nothing_from_another() {
        let mut plane = plane("lan(punt arp) > wan(punt arp) limits(punt-arp 160)");
        let (to, rest) = asks(CLIENT);
        let mut refused = 0;
        for ms in 0..1000_u16 {
            let [high, low] = ms.to_be_bytes();
            let mut flood = [[0, high, low], [1, high, low]]
                .map(|[a, b, c]| [&[0; HEAD_ROOM][..], &to, &[2, 0, 0, a, b, c], &rest].concat());
            let mut honest = [&[0; HEAD_ROOM][..], &to, &CLIENT, &rest].concat();
            let (end, mut batch) = (honest.len(), Batch::default());
            flood.iter_mut().for_each(|buf| batch.push(Frame::new(buf, HEAD_ROOM, end, PortId(0))));
            if ms % 100 == 99 {
                batch.push(Frame::new(&mut honest, HEAD_ROOM, end, PortId(1)));
            }
            plane.run(Time::from_ms(ms.into()), &mut batch);
            let verdicts: Vec<_> = batch.outcome().map(|(_, verdict)| verdict).collect();
            let is_refused = |verdict: &&Verdict| **verdict == Verdict::Dropped(DropReason::PuntArp);
            refused += verdicts.iter().take(2).filter(is_refused).count();
            assert!(
                verdicts.iter().skip(2).all(|verdict| *verdict == Verdict::Control(PuntReason::Arp)),
                "{ms}"
            );
        }
        // 10 at once, and 80 per second.
        assert!((1910..=1920).contains(&refused), "{refused}");
    }

    /// What the control program injects takes the way that it would take without it.
    #[test]
    fn an_injected_frame_is_not_punted_again() {
        let mut plane = plane(ROUTER);
        let (to, rest) = asks(CLIENT);
        let verdict = passed(&mut plane, Batch::injected(), [to, CLIENT], &rest);
        assert_eq!(verdict, Verdict::Punted(crate::Punt::Neighbours));
        let request = [&[8, 0][..], &packet("udp 198.18.0.5:68 > 198.18.0.1:67").expect("a packet")].concat();
        let verdict = passed(&mut plane, Batch::injected(), [MACS[0], CLIENT], &request);
        assert_eq!(verdict, Verdict::Punted(crate::Punt::Rest));
        let verdict = passed(&mut plane, Batch::default(), [MACS[0], CLIENT], &request);
        assert_eq!(verdict, Verdict::Control(PuntReason::Dhcp4));
        assert_eq!((plane.accounting().injected, plane.accounting().entered), (2, 1));
    }

    #[test]
    fn packets_of_unknown_sources_are_punted_where_the_port_says_so() {
        let known = "subscribers(anna lan 7 02:00:00:00:cc:05 198.18.0.5)";
        for (text, known, mac, expected) in [
            (ROUTER, "", CLIENT, Verdict::Control(PuntReason::UnknownSource)),
            (ROUTER, known, [2, 0, 0, 0, 0xcc, 6], Verdict::Control(PuntReason::UnknownSource)),
            (ROUTER, known, CLIENT, Verdict::Dropped(DropReason::NoRoute)),
            (&ROUTER.replace(" unknown_source", ""), "", CLIENT, Verdict::Dropped(DropReason::NoRoute)),
        ] {
            let text = format!("{} {known}", text.replace("default via", "203.0.113.0/24 via"));
            let mut plane = plane(&text);
            let line = [&[8, 0][..], &packet("udp 198.18.0.5:1 > 192.0.2.9:2").expect("a packet")].concat();
            assert_eq!(passed(&mut plane, Batch::default(), [MACS[0], mac], &line), expected, "{text}");
            let injected = passed(&mut plane, Batch::injected(), [MACS[0], mac], &line);
            assert_eq!(injected, Verdict::Dropped(DropReason::NoRoute), "it is not punted again: {text}");
        }
    }
}
