//! Frames that the machine sends by a TAP device of a port: they leave by that port, with the addresses that the machine has
//! given them and the tags of the port.
//!
//! ```text
//!   TAP of wan > stages, outward > wan          TAP of lan > stages, inward > lan
//! ```
//! The machine has its own routes and neighbours, so the node's are not asked. Filters, policers and queues treat such a frame
//! as any other in that direction. A NAT lets it pass: its source is an address of the node itself. Answers come in by the port,
//! pass the stages the other way, and are punted.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use super::{Plane, enter};
use crate::batch::{Batch, Verdict};
use crate::dir::EntryPoint;
use crate::drops::DropReason;
use crate::frame::{ETHERNET, Frame, Passage};
use crate::pipeline::Entries;
use crate::steer::Directed;
use crate::time::Time;

impl Plane {
    /// Decides what becomes of frames that the machine sends at `now`, each by the TAP device of the port that it is said to have
    /// come in by. They count as originated.
    pub fn send(&mut self, now: Time, batch: &mut Batch<'_>) {
        self.outbox.made += batch.len() as u64;
        self.outbox.begin();
        let mut entries = Entries::default();
        for i in 0..batch.len() {
            match self.admit_from_machine(now, &mut batch[i]) {
                Ok(entry) => enter(&mut entries, batch, i, entry),
                Err(verdict) => self.decide(batch, i, verdict),
            }
        }
        self.pass(now, batch, entries);
        self.run_outbox(now);
        self.publish();
    }

    /// Where a frame of the machine enters the pipeline, or its verdict if it does not.
    fn admit_from_machine(&mut self, now: Time, frame: &mut Frame<'_>) -> Result<EntryPoint, Verdict> {
        frame.passage = Passage::FromMachine;
        frame.read(ETHERNET - 2).map_err(Verdict::Dropped)?;
        let enters = self.pipeline.enters(frame.port).ok_or(Verdict::Dropped(DropReason::PortGone))?;
        let dir = enters.opposite();
        if frame.is_ip()
            && let Some(elsewhere) =
                self.steering.elsewhere_from_machine(now, Directed { frame, dir }, &self.pipeline.stages)
        {
            return Err(elsewhere);
        }
        Ok(EntryPoint::Begin(dir))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::config::Config;
    use crate::frame::{HEAD_ROOM, PortId};
    use crate::kept::Emitted;
    use crate::local::Punt;
    use crate::plane::{Departure, Leave};
    use crate::scenario::packet;

    const LAN: PortId = PortId(0);
    const WAN: PortId = PortId(1);
    const OWN: [u8; 6] = [2, 0, 0, 0, 0, 1];
    const HOST: [u8; 6] = [2, 0, 0, 0, 0, 9];
    const TAGS: [[u8; 4]; 2] = [[0x88, 0xa8, 0, 100], [0x81, 0, 0, 5]];

    fn plane(stages: &str) -> Plane {
        let text = format!(
            "lan(10.0.0.1/24, vlan 100.5) {stages} > route(default via 198.18.0.9) > wan(198.18.0.1/24)"
        );
        let config = Config::read("n", &text).unwrap_or_else(|mistakes| panic!("{mistakes}"));
        Plane::new(&config, &[OWN, OWN])
    }

    fn ethernet(line: &str, tags: &[[u8; 4]]) -> Vec<u8> {
        let packet = packet(line).unwrap_or_else(|wrong| panic!("{line}: {wrong}"));
        let kind: [u8; 2] = if line.contains('[') { [0x86, 0xdd] } else { [8, 0] };
        [&HOST[..], &OWN, &tags.concat(), &kind, &packet].concat()
    }

    fn at(ms: u64) -> Time {
        Time::from_ms(ms)
    }

    /// What becomes of a frame that the machine sends at a port.
    fn sent(plane: &mut Plane, port: PortId, bytes: &[u8]) -> (Verdict, Vec<u8>) {
        let mut buf = [&[0; HEAD_ROOM], bytes].concat();
        let end = buf.len();
        let mut batch = Batch::default();
        batch.push(Frame::new(&mut buf, HEAD_ROOM, end, port));
        plane.send(at(1), &mut batch);
        assert!(plane.accounting().balance(), "{:?}", plane.accounting());
        let (frame, verdict) = batch.outcome().next().expect("one");
        (verdict, frame.bytes().to_vec())
    }

    /// What becomes of a frame that comes in by a port.
    fn received(plane: &mut Plane, port: PortId, bytes: &[u8]) -> Verdict {
        let mut buf = [&[0; HEAD_ROOM], bytes].concat();
        let end = buf.len();
        let mut batch = Batch::default();
        batch.push(Frame::new(&mut buf, HEAD_ROOM, end, port));
        plane.run(at(1), &mut batch);
        batch.outcome().next().expect("one").1
    }

    /// The same frame as the answer of its receiver.
    fn answer(mut bytes: Vec<u8>) -> Vec<u8> {
        bytes[..6].copy_from_slice(&OWN);
        bytes[6..12].copy_from_slice(&HOST);
        bytes
    }

    #[test]
    fn frames_leave_by_their_port_with_its_tags_and_their_own_addresses() {
        // Neither is a route asked, nor a hop counted.
        let (to_lan, to_wan) =
            ("udp 10.0.0.1:7 > 203.0.113.9:7 ttl 1", "udp 198.18.0.1:7 > 203.0.113.9:7 ttl 1");
        for stages in ["", "> nat(public 198.18.0.1)", "filter(accept udp, policy drop)"] {
            let mut plane = plane(stages);
            let (verdict, bytes) = sent(&mut plane, LAN, &ethernet(to_lan, &[]));
            assert_eq!((verdict, bytes), (Verdict::Out(LAN), ethernet(to_lan, &TAGS)), "{stages}");
            let (verdict, bytes) = sent(&mut plane, WAN, &ethernet(to_wan, &[]));
            assert_eq!((verdict, bytes), (Verdict::Out(WAN), ethernet(to_wan, &[])), "{stages}");
            let seen = plane.accounting();
            assert_eq!((seen.originated, seen.left, seen.entered), (2, 2, 0), "{stages}");
        }
    }

    #[test]
    fn arp_and_frames_without_ip_leave_as_well_unless_a_filter_drops_them() {
        let arp = |kind: [u8; 2]| [&[0xff; 6][..], &OWN, &kind, &[0; 28]].concat();
        let tagged = |kind: [u8; 2]| [&[0xff; 6][..], &OWN, &TAGS.concat(), &kind, &[0; 28]].concat();
        let (request, lldp) = ([8, 6], [0x88, 0xcc]);
        for kind in [request, lldp] {
            assert_eq!(sent(&mut plane(""), LAN, &arp(kind)), (Verdict::Out(LAN), tagged(kind)));
        }
        let mut closed = plane("filter(policy drop)");
        assert_eq!(sent(&mut closed, LAN, &arp(request)).0, Verdict::Out(LAN));
        let dropped = Verdict::Dropped(DropReason::FilterEthertype);
        assert_eq!(sent(&mut closed, LAN, &arp(lldp)).0, dropped);
        let malformed = Verdict::Dropped(DropReason::Malformed);
        assert_eq!(sent(&mut closed, LAN, &[2; 13]).0, malformed);
    }

    #[test]
    fn a_filter_sees_connections_of_the_machine_in_both_directions() {
        let rules = "filter(accept state established, accept inward tcp to any port 22, count out outward, policy drop)";
        let mut plane = plane(rules);
        let opens = |port: u16| ethernet(&format!("tcp 10.0.0.1:4000 > 10.0.0.2:{port} S"), &[]);
        let answers = |port: u16| answer(ethernet(&format!("tcp 10.0.0.2:{port} > 10.0.0.1:4000 SA"), &TAGS));
        assert_eq!(received(&mut plane, LAN, &answers(22)), Verdict::Dropped(DropReason::FilterPolicy));
        assert_eq!(sent(&mut plane, LAN, &opens(22)).0, Verdict::Out(LAN));
        assert_eq!(received(&mut plane, LAN, &answers(22)), Verdict::Punted(Punt::Rest));
        assert_eq!(sent(&mut plane, LAN, &opens(80)).0, Verdict::Dropped(DropReason::FilterPolicy));
        assert_eq!(received(&mut plane, LAN, &answers(80)), Verdict::Dropped(DropReason::FilterPolicy));
    }

    #[test]
    fn the_machine_is_told_that_a_filter_rejects_its_connection() {
        let mut plane = plane("filter(reject tcp, policy accept)");
        let (verdict, _) = sent(&mut plane, WAN, &ethernet("tcp 198.18.0.1:4000 > 203.0.113.9:80 S", &[]));
        assert_eq!(verdict, Verdict::Dropped(DropReason::FilterReject));
        let all: Vec<Departure> = plane.departures().collect();
        assert!(matches!(all[..], [Departure { to: Leave::Machine(Punt::Rest, WAN), .. }]), "{all:?}");
    }

    #[test]
    fn a_frame_that_waited_in_a_queue_still_leaves_by_its_port() {
        let mut plane = plane("> queue(inward 8Mbit, delay 5ms) filter(policy accept)");
        let bytes = ethernet("udp 10.0.0.1:7 > 203.0.113.9:7", &[]);
        let (Verdict::Kept(ticket), kept) = sent(&mut plane, LAN, &bytes) else { panic!("it waits") };
        assert!(plane.next_emitted().is_none());
        plane.tick(at(1) + Duration::from_millis(20));
        assert_eq!(plane.next_emitted(), Some(Emitted::Back(ticket)));
        let mut buf = [&[0; HEAD_ROOM][..], &kept].concat();
        let end = buf.len();
        let mut batch = Batch::default();
        batch.push_kept(Frame::new(&mut buf, HEAD_ROOM, end, LAN), ticket);
        plane.resume(at(21), &mut batch);
        let (frame, verdict) = batch.outcome().next().expect("one");
        assert_eq!(
            (verdict, frame.bytes()),
            (Verdict::Out(LAN), &ethernet("udp 10.0.0.1:7 > 203.0.113.9:7", &TAGS)[..])
        );
        assert!(plane.accounting().balance());
    }

    #[test]
    fn a_port_without_a_machine_drops_what_is_for_the_node() {
        let mut plane = plane("").without_machine([WAN]);
        let ping = |line: &str, tags: &[[u8; 4]]| answer(ethernet(line, tags));
        let to_lan = ping("udp 10.0.0.2:7 > 10.0.0.1:7", &TAGS);
        assert_eq!(received(&mut plane, LAN, &to_lan), Verdict::Punted(Punt::Rest));
        let to_wan = ping("udp 198.18.0.2:7 > 198.18.0.1:7", &[]);
        assert_eq!(received(&mut plane, WAN, &to_wan), Verdict::Dropped(DropReason::NoLocal));
    }
}
