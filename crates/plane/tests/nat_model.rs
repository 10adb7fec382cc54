//! The NAT against a naive one, over random schedules of packets, time and reconfiguration.
//!
//! The naive one keeps mappings in maps and looks at all of them each time. Which port a new mapping gets it cannot
//! know: it learns it from what left, and checks that no other host has it, that it is of the pool, that it rested, and
//! that the host keeps its address. All else it foretells: which packets pass, where they go, and that all checksums are right.
//! `MODEL_SEEDS=5000 cargo test --release -p weir-plane --test plane nat_model::` goes on for minutes; `MODEL_FROM=4000` begins
//! there. A schedule that fails is printed without the steps that are not needed, as a test can have it.

mod model;
mod packet;
mod schedule;

use std::collections::{HashMap, HashSet};
use std::net::Ipv4Addr;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};

use model::{Filtering, Model};
use packet::{End, ICMP, Packet, SYN, TCP, UDP, ends};
use schedule::{Event, Step, schedule, shortened};
use weir_plane::{Batch, Config, Cursor, Frame, HEAD_ROOM, Plane, PortId, Time, Verdict};
use weir_testkit::number;

/// Steps of a schedule.
const STEPS: usize = 4000;

/// The text of a NAT with the two addresses `pool` as its pool.
fn text(filtering: Filtering, udp_ms: u64, pool: [u32; 2]) -> String {
    let filtering = match filtering {
        Filtering::Independent => "endpoint-independent",
        Filtering::Address => "address-dependent",
        Filtering::AddressAndPort => "address-and-port-dependent",
    };
    let [first, second] = pool.map(Ipv4Addr::from);
    let udp_s = udp_ms / 1000;
    format!(
        "node nat(public {first}, public {second}, filtering {filtering}, udp-timeout {udp_s}s, block 64)"
    )
}

/// The NAT and the naive one, under the same steps.
struct Pair {
    filtering: Filtering,
    plane: Plane,
    config: Config,
    model: Model,
    now_ms: u64,
    /// Outside ends that an inside end of a protocol had, the last one at the end.
    known: HashMap<(u8, End), Vec<End>>,
    /// Packets that passed.
    passed: usize,
}

impl Pair {
    fn new(filtering: Filtering) -> Pair {
        let (udp_ms, pool) = (300_000, [0xc000_0201, 0xc000_0202]);
        let config = Config::read("n", &text(filtering, udp_ms, pool)).expect("right");
        let plane = Plane::new(&config, &[[2; 6], [4; 6]]);
        let model = Model::new(filtering, udp_ms, pool.to_vec());
        Pair { filtering, plane, config, model, now_ms: 1000, known: HashMap::new(), passed: 0 }
    }

    /// One step.
    ///
    /// # Panics
    /// The NAT does not do what the naive one does.
    fn step(&mut self, step: &Step) {
        self.now_ms += step.after_ms;
        // Ages are kept in ticks of a millisecond: no packet is sent at the very end of one.
        while self.model.expire(self.now_ms) <= 3 {
            self.now_ms += 10;
        }
        match step.event {
            Event::Apply { udp_ms, first } => self.apply(udp_ms, [0xc000_0201 + first, 0xc000_0204]),
            Event::Out(packet) => self.out(&packet),
            Event::Back { packet, inside, ago } => {
                let known = self.known.get(&(packet.proto, inside)).map_or(&[][..], Vec::as_slice);
                let Some(&dst) = known.iter().rev().nth(ago).or(known.last()) else { return };
                self.back(&Packet { dst, ..packet });
            }
        }
        let mut ends = HashSet::new();
        for (&(proto, inside), mapping) in &self.model.mappings {
            assert!(ends.insert((proto, mapping.outside)), "{inside:?}: an outside end has one inside end");
        }
    }

    fn apply(&mut self, udp_ms: u64, pool: [u32; 2]) {
        // What is over, but not yet taken away, would live on by a longer time.
        self.take_away();
        self.model.apply(udp_ms, pool.to_vec());
        let next = Config::read("n", &text(self.filtering, udp_ms, pool)).expect("right");
        self.plane.apply(Time::from_ms(self.now_ms), &self.config, &next).expect("can be changed");
        self.config = next;
    }

    fn out(&mut self, packet: &Packet) {
        let expected = self.model.out(self.now_ms, packet);
        let seen = self.pass(packet);
        let what = || format!("{packet:?}: expected {expected:?}, seen {seen:?}");
        match (expected, seen) {
            (None, None) => {}
            (Some(outside), Some((src, dst))) => {
                assert!(is_same(packet.proto, dst, packet.dst), "{}", what());
                match outside {
                    Some(outside) => assert_eq!(src, outside, "{}", what()),
                    None => self.model.learn(self.now_ms, packet, src),
                }
                let known = self.known.entry((packet.proto, packet.src)).or_default();
                if known.last() != Some(&src) {
                    known.push(src);
                }
                self.passed += 1;
            }
            _ => panic!("{}", what()),
        }
    }

    fn back(&mut self, packet: &Packet) {
        let expected = self.model.back(self.now_ms, packet);
        let seen = self.pass(packet);
        let what = || format!("{packet:?}: expected {expected:?}, seen {seen:?}");
        match (expected, seen) {
            (None, None) => {}
            (Some(inside), Some((src, dst))) => {
                assert!(is_same(packet.proto, src, packet.src), "{}", what());
                assert_eq!(dst, inside, "{}", what());
                self.passed += 1;
            }
            _ => panic!("{}\n{}", what(), self.views(packet)),
        }
    }

    /// Gives the NAT a packet; its ends as they leave, if it leaves by the other side.
    fn pass(&mut self, packet: &Packet) -> Option<(End, End)> {
        if packet.proto == TCP || self.filtering != Filtering::Independent {
            // A mapping without a session of its own lives on until its other sessions are taken away.
            self.take_away();
        }
        let mut buf = [&[0; HEAD_ROOM][..], &packet.bytes()].concat();
        let end = buf.len();
        let port = PortId(u16::from(packet.src.0 >> 24 != 10));
        let mut batch = Batch::default();
        batch.push(Frame::new(&mut buf, HEAD_ROOM, end, port));
        self.plane.run(Time::from_ms(self.now_ms), &mut batch);
        self.plane.departures().for_each(drop);
        assert!(self.plane.accounting().balance());
        let (frame, verdict) = batch.outcome().next().expect("one");
        match verdict {
            Verdict::Out(to) if to != port => Some(ends(frame.bytes())),
            Verdict::Out(_) => panic!("{packet:?} turned"),
            _ => None,
        }
    }

    /// Takes all away that is over.
    fn take_away(&mut self) {
        let now = Time::from_ms(self.now_ms);
        (0..20).for_each(|_| _ = self.plane.tick(now));
    }

    /// What both know of the end that a packet from outside is for.
    fn views(&self, packet: &Packet) -> String {
        let (address, port) = (Ipv4Addr::from(packet.dst.0), packet.dst.1);
        let end = format!(" as {address}:{port} ");
        let mut lines =
            vec![format!("{} ms, the model:", self.now_ms), self.model.view(packet.proto, packet.dst)];
        lines.push("the NAT:".into());
        let mut from = Some(Cursor::default());
        while let Some(cursor) = from {
            let (sessions, next) = self.plane.sessions(cursor);
            lines.extend(sessions.iter().map(ToString::to_string).filter(|line| line.contains(&end)));
            from = next;
        }
        lines.join("\n")
    }
}

/// Whether a remote end is what it was; a query of ICMP has one number for both ends.
fn is_same(proto: u8, is: End, was: End) -> bool {
    is == was || proto == ICMP && is.0 == was.0
}

/// Runs all steps, and sees that all is given back in the end; how many packets passed.
fn run(filtering: Filtering, steps: &[Step]) -> usize {
    let mut pair = Pair::new(filtering);
    for (n, step) in steps.iter().enumerate() {
        let done = catch_unwind(AssertUnwindSafe(|| pair.step(step)));
        if let Err(wrong) = done {
            panic!("step {n}: {}", words(&*wrong));
        }
    }
    pair.now_ms += 8_000_000;
    pair.take_away();
    assert_eq!(pair.plane.nat_usage().sessions, 0);
    pair.passed
}

/// What a panic says.
fn words(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("no words")
}

/// Why these steps fail, if they do.
fn failure(filtering: Filtering, steps: &[Step]) -> Option<String> {
    catch_unwind(|| run(filtering, steps)).err().map(|wrong| words(&*wrong).to_string())
}

fn check(seed: u64, filtering: Filtering) {
    let steps = schedule(seed, filtering, STEPS);
    let Ok(passed) = catch_unwind(|| run(filtering, &steps)) else {
        let hook = take_hook();
        set_hook(Box::new(|_| {}));
        let steps = shortened(steps, |steps| failure(filtering, steps).is_some());
        let wrong = failure(filtering, &steps).unwrap_or_default();
        set_hook(hook);
        panic!("seed {seed}, {filtering:?}: {wrong}\n{steps:?}");
    };
    assert!(passed > STEPS / 5, "seed {seed}, {filtering:?}: only {passed} passed");
}

#[test]
fn the_nat_does_as_a_naive_one_does() {
    for seed in number("MODEL_FROM", 0)..number("MODEL_SEEDS", 10) {
        for filtering in [Filtering::Independent, Filtering::Address, Filtering::AddressAndPort] {
            check(seed, filtering);
        }
    }
}

/// A mapping lives until the last of its sessions is taken away, which may be a round of the hand after its end: longer than
/// RFC 5382 REQ-5 asks for, which is allowed. A remote host that calls in between reaches the host.
#[test]
fn a_mapping_whose_sessions_are_over_ends_when_they_are_taken_away() {
    let step = |after_ms, event| Step { after_ms, event };
    let host = (0x0a00_0002, 1002);
    let syn = |src, dst| Packet { proto: TCP, src, dst, flags: SYN, data: 0, nosum: false };
    let question =
        |port| Packet { proto: UDP, src: (0x0a00_0001, port), flags: 0, ..syn(host, (0xc613_0001, 53)) };
    let (one, two, third) = ((0xc613_0000, 50), (0xc613_0002, 50), (0xc613_0000, 51));
    // Some are looked at with each frame: wherever that has come to, between the two ends of its sessions.
    for others in 0..100 {
        let mut steps = vec![step(0, Event::Out(syn(host, one)))];
        steps.extend((0..others).map(|n| step(0, Event::Out(question(1000 + n)))));
        steps.push(step(1000, Event::Out(syn(host, two))));
        steps.push(step(239_111, Event::Out(syn((0x0a00_0001, 1002), one))));
        steps.push(step(1000, Event::Back { packet: syn(third, (0, 0)), inside: host, ago: 0 }));
        run(Filtering::Independent, &steps);
    }
}
