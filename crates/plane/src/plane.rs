//! The node without its ports' memory and threads: what happens to the frames of a batch.
//!
//! ```text
//! batch > admit (headers, tags, neighbours) > pipeline (stages, exit) > verdicts
//! ```
//!
//! Invariant: entered + originated + injected + taken = left + kept + local + control + handed + dropped, at any time between two batches; what
//! is handed over and taken is the same for all threads of a node together.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

mod access;
mod accounting;
mod admit;
mod commands;
mod control;
mod flows;
mod machine;
mod make;
mod originated;
mod pppoe;
mod queries;
mod threads;

use weir_packet::frame::Mac;

use crate::batch::{Batch, Verdict};
use crate::cache::FlowCache;
use crate::config::Config;
use crate::dir::EntryPoint;
use crate::drops::DropReason;
use crate::fast::FastPath;
use crate::frame::{Frame, Known, Passage};
use crate::kept::{Emitted, Then, Ticket};
use crate::limiter::Limiter;
use crate::local::{Local, Sender};
use crate::outbox::Outbox;
use crate::pipeline::{Entries, Exit, Pipeline, PipelinePort};
use crate::punter::Punter;
use crate::stage::ByDir;
use crate::stages::Stage;
use crate::steer::Steering;
use crate::time::Time;
use crate::unread_log::UnreadLog;

pub use accounting::Accounting;
pub(crate) use make::local_addresses;
pub(crate) use make::stage_of;
use make::{exit, subscribers};
pub use originated::{Departure, Leave};

/// A node's data plane.
#[derive(Debug)]
pub struct Plane {
    pub(crate) pipeline: Pipeline,
    pub(crate) outbox: Outbox,
    pub(crate) local: Local,
    /// What goes to the control program, if a port punts.
    pub(crate) punter: Option<Box<Punter>>,
    /// Whether a control program is attached.
    pub(crate) has_control: bool,
    departures: Vec<Departure>,
    pub(crate) steering: Steering,
    pub(crate) accounting: Accounting,
    /// The flow cache, if a test asks for one.
    pub(crate) cache: Option<Box<FlowCache>>,
    /// The fast path, if there is one.
    pub(crate) fast: Option<Box<FastPath>>,
    /// The log of stages that a panic ended.
    pub(crate) unread_log: UnreadLog,
}

impl Plane {
    /// A node as `config` says; `macs` are the Ethernet addresses of the ports, for ports without one in the text.
    pub fn new(config: &Config, macs: &[Mac]) -> Plane {
        assert_eq!(macs.len(), config.ports.len(), "a port has an Ethernet address");
        let stages: Vec<Stage> = config.stages.iter().map(|stage| stage_of(stage, config)).collect();
        let mut outbox = Outbox::new(
            config.ports.iter().map(local_addresses).collect(),
            Limiter::new(config.ports.len(), &config.limits, config.share, config.seed),
        );
        Plane {
            steering: Steering::new(config.share, &stages, &config.limits),
            pipeline: Pipeline {
                ports: config.ports.iter().map(PipelinePort::of).collect(),
                across: ByDir::each_of(|dir| config.across(dir)),
                stages,
                exit: exit(config, macs, &mut outbox),
                subscribers: subscribers(config),
                has_access: config.access.is_some(),
                text_epoch: 0,
            },
            outbox,
            local: Local::new(&config.limits, config.share, config.seed),
            punter: Punter::new(config),
            has_control: false,
            departures: Vec::new(),
            accounting: Accounting::default(),
            cache: None,
            fast: None,
            unread_log: UnreadLog::default(),
        }
    }

    /// Decides what becomes of the frames of a batch that came in at `now`.
    pub fn run(&mut self, now: Time, batch: &mut Batch<'_>) {
        self.accounting.taken += batch.handed as u64;
        let came =
            if batch.is_injected { &mut self.accounting.injected } else { &mut self.accounting.entered };
        *came += (batch.len() - batch.handed) as u64;
        self.outbox.begin();
        let entries = self.admit(now, batch);
        match self.fast {
            Some(_) => self.pass_beside(now, batch, entries),
            None => self.pass(now, batch, entries),
        }
        self.emit_shaped(now);
        self.run_outbox(now);
        self.publish();
    }

    /// Resumes a batch of frames that were kept, as [`Plane::next_emitted`] has asked for.
    pub fn resume(&mut self, now: Time, batch: &mut Batch<'_>) {
        self.outbox.begin();
        // Before anything can fail: with the batch the memory of its frames is gone.
        let tickets = std::mem::take(&mut batch.tickets);
        assert_eq!(tickets.len(), batch.len(), "a batch of frames that were kept");
        tickets.iter().for_each(|ticket| self.outbox.kept.touch(*ticket));
        let kept: Vec<(Known, Then)> =
            tickets.into_iter().map(|ticket| self.outbox.kept.redeem(ticket)).collect();
        self.outbox.kept_count -= kept.len() as u64;
        let mut entries = Entries::default();
        for (i, (known, then)) in kept.iter().enumerate() {
            match self.go_on(now, &mut batch[i], known, *then) {
                Ok(entry) => enter(&mut entries, batch, i, entry),
                Err(verdict) => self.decide(batch, i, verdict),
            }
        }
        self.pass(now, batch, entries);
        self.emit_shaped(now);
        self.run_outbox(now);
        self.publish();
    }

    /// Emits frames of subscribers that waited for a rate. True: there is more.
    fn emit_shaped(&mut self, now: Time) -> bool {
        let (outbox, drops) = (&mut self.outbox, &mut self.accounting.drops);
        self.pipeline.subscribers.emit_shaped(now, outbox, drops)
    }

    /// Where a frame that was kept enters the pipeline, or its verdict if it does not.
    fn go_on(
        &mut self,
        now: Time,
        frame: &mut Frame<'_>,
        known: &Known,
        then: Then,
    ) -> Result<EntryPoint, Verdict> {
        if let Then::Leave(port, mac) = then {
            frame.set_receiver(mac);
            return Err(Verdict::Out(port));
        }
        if let Then::Whole { port, is_marked } = then {
            if is_marked {
                frame.mark_known(known);
            }
            return Err(Verdict::Out(port));
        }
        let read = frame.read_known(known);
        match (then, read) {
            // What it says about neighbours is no packet.
            (Then::On(EntryPoint::Leave(port)), _) => Err(Verdict::Out(port)),
            (_, Err(reason)) => Err(Verdict::Dropped(reason)),
            (Then::On(EntryPoint::Hand(to)), _) => Err(Verdict::Handed(to)),
            (Then::On(entry), _) => Ok(entry),
            (Then::Marked(entry), _) => {
                frame.mark_congestion();
                Ok(entry)
            }
            (Then::Refuse(reason, error, back), _) => {
                self.outbox.report(now, frame, error, back);
                Err(Verdict::Dropped(reason))
            }
            (Then::Leave(..) | Then::Whole { .. }, _) => unreachable!("it has left"),
        }
    }

    /// A number that grows from batch to batch as long as frames leave the node that wait in it. When it has grown by two, all frames
    /// have left that were in the node before: an index of a subscriber that was removed then may be used again, as soon as that is
    /// so of each thread.
    pub fn frames_epoch(&self) -> u64 {
        self.outbox.kept.epoch()
    }

    /// What to do with the memory of a frame that was kept. The caller calls it until it returns `None`, behind each other call,
    /// and brings frames back before the text changes.
    pub fn next_emitted(&mut self) -> Option<Emitted> {
        self.outbox.kept.next_emitted()
    }

    /// There is no memory for a frame that was kept as a copy and is to come back.
    pub fn lost_while_kept(&mut self, ticket: Ticket) {
        self.outbox.kept.redeem(ticket);
        self.outbox.kept_count -= 1;
        self.accounting.drops.count(DropReason::NoMemory);
    }

    /// Time has passed: does a bounded part of what is due. True: there is more, for another call as soon as the caller has
    /// nothing else to do.
    pub fn tick(&mut self, now: Time) -> bool {
        self.outbox.begin();
        if self.fast.as_mut().is_some_and(|path| path.read_if_due(&mut self.pipeline, now)) {
            return true;
        }
        let mut more = self.pipeline.tick_stages(now, &mut self.outbox, &mut self.accounting.drops);
        self.steering.tick(now, &mut self.outbox, &mut self.accounting.drops);
        more |= self.ask_silent_sessions(now);
        if let Exit::Router(router) = &mut self.pipeline.exit {
            more |= router.tick(now, &mut self.outbox);
        }
        more |= self.emit_shaped(now);
        self.run_outbox(now);
        self.publish();
        more
    }

    /// When [`Plane::tick`] is to be called at the latest, if nothing comes before: the least of what its stages, steering,
    /// neighbours and fast path wait for. `None`: nothing is due until a frame comes.
    pub fn due(&self, now: Time) -> Option<Time> {
        let router = match &self.pipeline.exit {
            Exit::Router(router) => router.due(),
            Exit::Across => None,
        };
        let stages = self.pipeline.stages.iter().filter_map(|stage| stage.kind().due(now));
        let fast = self.fast.as_ref().and_then(|path| path.next_read(now));
        let sessions = self.pipeline.subscribers.due(now);
        let subscribers = sessions.into_iter().chain(self.pipeline.subscribers.shaped_due(now));
        stages.chain(self.steering.due()).chain(router).chain(fast).chain(subscribers).min()
    }

    /// The verdict of a frame that comes to no stage.
    fn decide(&mut self, batch: &mut Batch<'_>, i: usize, verdict: Verdict) {
        if let Verdict::Dropped(reason) = verdict {
            self.accounting.drops.count(reason);
        }
        batch.verdicts[i] = verdict;
    }

    /// The pipeline, and the accounting of what came of it.
    fn pass(&mut self, now: Time, batch: &mut Batch<'_>, entries: Entries) {
        let (pipeline, outbox, drops) = (&mut self.pipeline, &mut self.outbox, &mut self.accounting.drops);
        match &mut self.cache {
            Some(cache) if !entries.has_machine() => cache.run(pipeline, now, batch, entries, outbox, drops),
            _ => pipeline.run(now, batch, entries, outbox, drops),
        }
        let mut left = 0;
        for i in 0..batch.len() {
            match batch.verdicts[i] {
                Verdict::Out(_) => left += 1,
                // Counted where they were decided.
                Verdict::Kept(_) | Verdict::KeptCopy | Verdict::Control(_) | Verdict::Dropped(_) => {}
                Verdict::Local => self.punt(now, batch, i),
                Verdict::Handed(to) => batch.verdicts[i] = self.hand_over(&mut batch[i], to),
                Verdict::Punted(_) | Verdict::Live => {
                    unreachable!("each frame has a verdict behind the pipeline")
                }
            }
        }
        self.accounting.left += left;
        self.pipeline.filters_mut().for_each(|filter| filter.settle(&batch.verdicts));
    }

    /// Punts a frame to the machine, if that is within the limits.
    #[cold]
    fn punt(&mut self, now: Time, batch: &mut Batch<'_>, i: usize) {
        let is_near = matches!(&self.pipeline.exit, Exit::Router(router) if router.is_near(&batch[i]));
        let sender = if is_near { Sender::OnLink } else { Sender::Elsewhere };
        match self.local.punt(now, &batch[i], sender) {
            Err(reason) => self.decide(batch, i, Verdict::Dropped(reason)),
            Ok(punt) => {
                self.accounting.local.count(punt);
                batch.verdicts[i] = Verdict::Punted(punt);
            }
        }
    }
}

/// A frame of a batch enters the pipeline.
fn enter(entries: &mut Entries, batch: &Batch<'_>, i: usize, entry: EntryPoint) {
    if batch[i].is_ip() {
        entries.insert(i, entry)
    } else {
        entries.insert_no_ip(i, entry)
    }
    if batch[i].passage == Passage::FromMachine {
        entries.note_machine(i);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{HEAD_ROOM, PortId};
    use crate::tags::Tags;
    use weir_packet::flow::Flow;
    use weir_packet::frame::{Ends, Signature};

    /// The frame of a test with these tags in front of its type, with room in front.
    fn buffer(tags: &[[u8; 4]]) -> Vec<u8> {
        let ends = Ends::v4([2; 6], [4; 6]);
        let flow = Flow { src: 0xc612_0001, dst: 0xc613_0001, sport: 1, dport: 2, group: 0 };
        let mut bytes = vec![0; HEAD_ROOM];
        bytes.extend(ends.frame(&flow, 64, Signature::default()));
        bytes.splice(HEAD_ROOM + 12..HEAD_ROOM + 12, tags.concat());
        bytes
    }

    fn passed(text: &str, port: u16, tags: &[[u8; 4]]) -> (Verdict, Vec<u8>) {
        let config = Config::read("n", text).expect("a node");
        let mut plane = Plane::new(&config, &[[2; 6], [4; 6]]);
        let mut buf = buffer(tags);
        let end = buf.len();
        let mut batch = Batch::default();
        batch.push(Frame::new(&mut buf, HEAD_ROOM, end, PortId(port)));
        plane.run(Time::from_ms(1), &mut batch);
        assert!(plane.accounting().balance(), "{:?}", plane.accounting());
        let (frame, verdict) = batch.outcome().next().expect("one");
        (verdict, frame.bytes().to_vec())
    }

    #[test]
    fn a_bump_in_the_wire_passes_frames_both_ways_and_changes_tags() {
        let plain = buffer(&[])[HEAD_ROOM..].to_vec();
        assert_eq!(passed("lan > wan", 0, &[]), (Verdict::Out(PortId(1)), plain.clone()));
        assert_eq!(passed("lan > wan", 1, &[]), (Verdict::Out(PortId(0)), plain.clone()));
        let tags = [[0x88, 0xa8, 0, 7], [0x81, 0, 0, 9]];
        let (verdict, bytes) = passed("lan > wan(vlan 7.9)", 0, &[]);
        assert_eq!((verdict, &bytes[..]), (Verdict::Out(PortId(1)), &buffer(&tags)[HEAD_ROOM..]));
        assert_eq!(passed("lan(vlan 7.9) > wan", 0, &[[0x88, 0xa8, 0xe0, 7], tags[1]]).1, plain);
        // A priority alone is no VLAN.
        let priority = [0x81, 0, 0xe0, 0];
        for (text, port, before, behind) in [
            ("lan > wan", 0, &[priority][..], &[priority][..]),
            ("lan > wan(vlan 7.9)", 0, &[priority], &[tags[0], tags[1], priority]),
            ("lan(vlan 7.9) > wan", 0, &[tags[0], tags[1], priority], &[priority]),
            ("lan(vlan 7.9) > wan(vlan 9)", 0, &[tags[0], tags[1], priority], &[tags[1], priority]),
            ("lan(vlan 9) > wan(vlan 7.9)", 1, &[tags[0], tags[1]], &[tags[1]]),
        ] {
            let bytes = buffer(behind)[HEAD_ROOM..].to_vec();
            assert_eq!(passed(text, port, before), (Verdict::Out(PortId(1 - port)), bytes), "{text}");
        }
        let hidden = Verdict::Dropped(DropReason::HiddenVlan);
        assert_eq!(passed("lan(vlan 7.9) > wan", 0, &tags[1..]).0, hidden, "the inner tag alone");
        for (text, tags) in
            [("lan > wan", &tags[1..]), ("lan(vlan 9) > wan", &[]), ("lan(vlan 9) > wan", &tags[..1])]
        {
            assert_eq!(passed(text, 0, tags).0, Verdict::Dropped(DropReason::UnknownVlan), "{text}");
        }
    }

    /// What a bump in the wire says by itself goes back by the addresses of the frame that it answers.
    #[test]
    fn answers_of_a_bump_in_the_wire_have_the_addresses_of_what_they_answer_swapped() {
        let text = "lan(198.18.0.1/24, vlan 7) filter(reject tcp, reject udp, policy accept) > wan";
        for line in ["tcp 198.18.0.2:1 > 198.18.0.9:80 S", "udp 198.18.0.2:1 > 198.18.0.9:53"] {
            let mut plane = Plane::new(&Config::read("n", text).expect("a node"), &[[2; 6], [4; 6]]);
            let packet = crate::scenario::packet(line).expect("a packet");
            let (gateway, host) = ([0x02, 1, 1, 1, 1, 1], [0x02, 7, 7, 7, 7, 7]);
            let tag = [0x81, 0, 0, 7];
            let mut buf = [&[0; HEAD_ROOM][..], &gateway, &host, &tag, &[8, 0], &packet].concat();
            let end = buf.len();
            let mut batch = Batch::default();
            batch.push(Frame::new(&mut buf, HEAD_ROOM, end, PortId(0)));
            plane.run(Time::from_ms(1), &mut batch);
            let all: Vec<Departure> = plane.departures().collect();
            let [Departure { to: Leave::Port(PortId(0)), bytes }] = &all[..] else {
                panic!("{line}: {all:?}")
            };
            assert_eq!(bytes[..18], [&host[..], &gateway, &tag, &[8, 0]].concat(), "{line}");
        }
    }

    /// What stands in place of tags that a port with several lines does not have, and tags that it has.
    #[test]
    fn frames_with_other_tags_than_those_of_a_line_go_no_further() {
        let text = "lan(vlan 100-199.1-4094, untagged) > wan(vlan 1-4094.1-4094, untagged)";
        let (s, c) = (
            |vid: u16| [[0x88, 0xa8], vid.to_be_bytes()].concat(),
            |vid: u16| [[0x81, 0x00], vid.to_be_bytes()].concat(),
        );
        for (tags, is_passed) in [
            (vec![], true),
            (vec![c(0xe000)], true),
            (vec![s(100), c(1)], true),
            (vec![s(0x6000 | 199), c(0xe000 | 4094)], true),
            (vec![s(100), c(1), c(0xe000)], true),
            (vec![s(99), c(1)], false),
            (vec![s(200), c(1)], false),
            (vec![s(100), c(0)], false),
            (vec![s(100), c(4095)], false),
            (vec![s(0), c(5)], false),
            (vec![s(100)], false),
            (vec![c(100)], false),
            (vec![c(100), c(1)], false),
            (vec![s(100), s(1)], false),
            (vec![c(0), c(1)], false),
            (vec![s(100), c(1), c(1)], false),
            (vec![s(100), c(1), s(0)], false),
            (vec![s(100), c(1), c(0), c(0)], false),
        ] {
            let tags: Vec<[u8; 4]> =
                tags.iter().map(|tag| tag.as_slice().try_into().expect("four bytes")).collect();
            let (verdict, bytes) = passed(text, 0, &tags);
            let is_as_it_came = bytes == buffer(&tags)[HEAD_ROOM..];
            let dropped = Verdict::Dropped(DropReason::UnknownVlan);
            let expected = if is_passed { Verdict::Out(PortId(1)) } else { dropped };
            assert_eq!((verdict, is_as_it_came), (expected, true), "{tags:02x?}");
        }
        let whole = buffer(&[[0x88, 0xa8, 0, 100], [0x81, 0, 0, 1]]);
        for end in 0..HEAD_ROOM + 22 {
            let config = Config::read("n", text).expect("a node");
            let mut plane = Plane::new(&config, &[[2; 6], [4; 6]]);
            let mut buf = whole[..end.max(HEAD_ROOM)].to_vec();
            let end = buf.len();
            let mut batch = Batch::default();
            batch.push(Frame::new(&mut buf, HEAD_ROOM, end, PortId(0)));
            plane.run(Time::from_ms(1), &mut batch);
            let (_, verdict) = batch.outcome().next().expect("one");
            assert_eq!(verdict, Verdict::Dropped(DropReason::Malformed), "{} bytes", end - HEAD_ROOM);
        }
    }

    /// A question of one line is answered on it, and says nothing of another line.
    #[test]
    fn neighbours_of_one_line_are_none_of_another() {
        use weir_packet::neighbour::{Host, answer, parse, question};
        let text = "access1(198.18.0.1/16, 2001:db8:1::1/64, vlan 100-199.1-4094) > route > wan(198.19.0.1/16, vlan 7)";
        let mut plane = Plane::new(&Config::read("n", text).expect("a node"), &[[2; 6], [4; 6]]);
        let tags = [[0x88, 0xa8, 0, 100], [0x81, 0, 0, 5]];
        let host = [0x02, 7, 7, 7, 7, 7];
        let send = |plane: &mut Plane, frame: Vec<u8>| {
            let mut buf = [&[0; HEAD_ROOM], &frame[..12], &tags.concat(), &frame[12..]].concat();
            let end = buf.len();
            let mut batch = Batch::default();
            batch.push(Frame::new(&mut buf, HEAD_ROOM, end, PortId(0)));
            plane.run(Time::from_ms(1), &mut batch);
            assert!(plane.accounting().balance(), "{:?}", plane.accounting());
        };
        for (own, node) in [("198.18.0.5", "198.18.0.1"), ("2001:db8:1::5", "2001:db8:1::1")] {
            let [own, node] = [own, node].map(|address| address.parse().expect("an address"));
            send(&mut plane, question(Host { mac: host, ip: own }, node));
            let all: Vec<Departure> = plane.departures().collect();
            let [Departure { to: Leave::Port(PortId(0)), bytes }] = &all[..] else { panic!("{all:?}") };
            assert_eq!(bytes[..20], [&host[..], &[2; 6], &tags[0], &tags[1]].concat(), "{own}");
            let said = parse(&[&bytes[..12], &bytes[20..]].concat()).expect("an answer");
            assert_eq!(said, weir_packet::neighbour::Heard::Answer(Host { mac: [2; 6], ip: node }));
            // An answer that nobody asked for, and a question for another host.
            send(&mut plane, answer(Host { mac: host, ip: own }, Host { mac: [2; 6], ip: node }));
            send(&mut plane, question(Host { mac: host, ip: own }, own));
            assert_eq!(plane.departures().count(), 0);
        }
        let Exit::Router(router) = &plane.pipeline.exit else { panic!("a router") };
        assert_eq!(router.neighbours(), 0);
    }

    /// An index that was removed while frames with it wait is used again only when they have left, and they name no other
    /// subscriber meanwhile.
    #[test]
    fn an_index_is_used_again_when_the_frames_that_name_it_have_left() {
        use crate::frame::{Line, Subscriber};
        use crate::kept::Shelf;
        let text = "lan(vlan 7-9) > queue(outward 8kbit, aqm fifo) > wan(vlan 7-9)
                    subscribers(anna lan 7 02:07:07:07:07:07)";
        let mut plane = Plane::new(&Config::read("n", text).expect("a node"), &[[2; 6], [4; 6]]);
        let mut shelf = Shelf::default();
        let packet = crate::scenario::packet("udp 198.18.0.2:1 > 198.18.0.9:53 len 958").expect("a packet");
        for _ in 0..4 {
            let mut buf =
                [&[0; HEAD_ROOM][..], &[4; 6], &[2, 7, 7, 7, 7, 7], &[0x81, 0, 0, 7, 8, 0], &packet].concat();
            let end = buf.len();
            let mut batch = Batch::default();
            batch.push(Frame::new(&mut buf, HEAD_ROOM, end, PortId(0)));
            plane.run(Time::from_ms(1), &mut batch);
            if let Some((frame, Verdict::Kept(ticket))) = batch.outcome().next() {
                assert_eq!(
                    plane.outbox.kept.known(ticket).subscriber,
                    Subscriber { index: 1, generation: 0 }
                );
                shelf.copy(ticket, frame);
            }
        }
        let line = Line {
            port: PortId(0),
            tags: Tags { outer: 7, inner: 0 },
            mac: [2, 7, 7, 7, 7, 7],
            pppoe_session: 0,
        };
        let anna = plane.pipeline.subscribers.lookup_from(line);
        let (epoch, mut waited, mut now) = (plane.frames_epoch(), 0, 1);
        assert!(plane.pipeline.subscribers.remove(anna, epoch));
        while plane.accounting().kept > 0 {
            assert!(plane.frames_epoch() < epoch + 2, "a frame that names the index waits");
            (waited, now) = (waited + 1, now + 100);
            plane.tick(Time::from_ms(now));
            shelf.resume(&mut plane, Time::from_ms(now));
        }
        assert!(waited > 20, "it took {waited} ticks");
        let other = plane.pipeline.subscribers.insert(line, Vec::new()).expect("room");
        assert_eq!(other, Subscriber { index: 2, generation: 0 }, "it rests");
        while plane.frames_epoch() < epoch + 64 {
            plane.tick(Time::from_ms(now));
        }
        let epoch = plane.frames_epoch();
        let table = &mut plane.pipeline.subscribers;
        table.change(None, None, epoch);
        let other = table.insert(Line { port: PortId(1), ..line }, Vec::new()).expect("room");
        assert_eq!(other, Subscriber { index: 1, generation: 1 });
        assert!(table.line(anna).is_none());
    }
}
