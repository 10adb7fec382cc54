//! Frames from a wire: parsed, and through planes that stay as they are or become others meanwhile. Of most frames lengths and
//! checksums are made right first: with a wrong one a frame ends in the first check.

use std::sync::LazyLock;
use std::time::Duration;

use weir_packet::encapsulation::{self, Link, Network};
use weir_packet::flow::IpVersion;
use weir_packet::{frame as test_frame, headers, neighbour};
use weir_plane::scenario::{Vector, packet, suites};
use weir_plane::{
    Batch, Config, Cursor, DropReason, Fragment, Frame, HEAD_ROOM, Plane, PortId, Shelf, Time, Verdict,
};
use weir_testkit::{Craft, Dice, repair};

use super::files;
use crate::grammar::{self, Ends};
use crate::mutate;
use crate::steps::{self, INJECTED, Step, What};

/// Each of the parsers: what is read of a part is what is read of the whole.
pub(super) fn frame(bytes: &[u8]) {
    for link in [Link::Ethernet, Link::RawIp, Link::Cooked, Link::Cooked2] {
        let whole = headers::read_link(link, bytes);
        if let Ok(part) = headers::read_link(link, &bytes[..bytes.len().saturating_sub(1)]) {
            let whole = whole.expect("a frame that is longer can be read, too");
            assert_eq!((part.src, part.dst), (whole.src, whole.dst));
        }
        if let Ok(Network { ip, at }) = encapsulation::network(link, bytes) {
            let header = if ip == IpVersion::V4 { 20 } else { 40 };
            assert!(at + header <= bytes.len(), "the fixed header is there");
        }
    }
    if let test_frame::Parsed::Test(signature) = test_frame::parse(bytes) {
        let mut turned = bytes.to_vec();
        test_frame::reflect(&mut turned);
        assert_eq!(test_frame::parse(&turned), test_frame::Parsed::Test(signature));
    }
    neighbour::parse(bytes);
}

pub(super) fn frame_seeds() -> Vec<Vec<u8>> {
    let sent: Vec<_> = SENT.iter().flatten().map(|record| record.bytes.clone()).collect();
    // The same type fields and headers in front of a packet each: VLAN tags, PPPoE, MPLS, SNAP.
    let layers: [&[u8]; 4] = [
        &[0x88, 0xa8, 0, 7, 0x81, 0, 0, 8],
        &[0x88, 0x64, 0x11, 0, 0, 1, 0, 30, 0, 0x21],
        &[0x88, 0x47, 0, 1, 0, 255, 0, 2, 1, 255],
        &[0, 38, 0xaa, 0xaa, 3, 0, 0, 0],
    ];
    let wrapped = layers.into_iter().zip(sent.iter().step_by(7)).map(|(layer, frame)| {
        let mut frame = frame.clone();
        // A layer with its own type of payload replaces the EtherType.
        let replaced = if layer[0] == 0x88 && layer[1] != 0xa8 { 14 } else { 12 };
        frame.splice(12..replaced, layer.iter().copied());
        frame
    });
    wrapped.collect::<Vec<_>>().into_iter().chain(sent).collect()
}

/// The nodes of all scenarios, in order.
static NODES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let scenarios = suites().into_iter().flat_map(|(_, scenarios)| scenarios);
    scenarios.flat_map(|scenario| scenario.nodes().collect::<Vec<_>>()).collect()
});

/// The same, read.
static CONFIGS: LazyLock<Vec<Config>> =
    LazyLock::new(|| NODES.iter().map(|text| Config::read("fuzz", text).expect("it has been run")).collect());

/// What is sent in each scenario, as frames.
static SENT: LazyLock<Vec<Vec<Step>>> = LazyLock::new(|| {
    let scenario = |text: &str| text.lines().filter_map(sent).collect::<Vec<_>>();
    let texts = files("tests", "txt").into_iter().map(|file| String::from_utf8_lossy(&file).into_owned());
    let all = texts.flat_map(|text| text.split("\n== ").skip(1).map(scenario).collect::<Vec<_>>());
    all.filter(|steps| !steps.is_empty()).collect()
});

/// The frame of a line such as `0ms in udp ...`; what a scenario has found out before is some port.
fn sent(line: &str) -> Option<Step> {
    let (_, what) = line
        .split_once(" in ")
        .map(|(_, what)| (0, what))
        .or(line.split_once(" back ").map(|(_, what)| (1, what)))?;
    let port = u8::from(line.contains(" back "));
    let words: String = what.trim().replace("$p", "1024").replace("$q", "1025").replace("$r", "1026");
    let packet = packet(&words).ok()?;
    let kind: [u8; 2] = if packet.first()? >> 4 == 4 { [8, 0] } else { [0x86, 0xdd] };
    let bytes = [&mac(port)[..], &[2, 0, 0, 0, 0xcc, port], &tags_of(&words), &kind, &packet].concat();
    let mut repaired = bytes.clone();
    repair_frame(&mut repaired);
    // What is wrong with it on purpose stays so.
    let what = if repaired == bytes { What::Repaired } else { What::Frame };
    Some(Step { what, port, wait: 1, bytes })
}

/// The tags that a line says, as they stand in a frame.
fn tags_of(words: &str) -> Vec<u8> {
    let vids = words.split_once(" tags ").and_then(|(_, rest)| rest.split_whitespace().next());
    let vids: Vec<u16> = vids.unwrap_or_default().split('.').filter_map(|vid| vid.parse().ok()).collect();
    let tag = |(n, vid): (usize, &u16)| {
        let kind: u16 = if n + 1 < vids.len() { 0x88a8 } else { 0x8100 };
        [kind.to_be_bytes(), vid.to_be_bytes()].concat()
    };
    vids.iter().enumerate().flat_map(tag).collect()
}

fn mac(port: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0xaa, port]
}

fn macs(config: &Config) -> Vec<[u8; 6]> {
    (0..config.ports.len()).map(|port| mac(port as u8)).collect()
}

/// Makes lengths and checksums of the packet in a frame right.
fn repair_frame(frame: &mut [u8]) {
    let mut at = 12;
    while matches!(frame.get(at..at + 2), Some([0x81, 0] | [0x88, 0xa8])) {
        at += 4;
    }
    if let Some(([.., 8, 0] | [.., 0x86, 0xdd], packet)) = frame.split_at_mut_checked(at + 2) {
        repair(packet);
    }
}

/// How far an input came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Reached {
    /// Frames that left, and those of them that were fragments.
    left: u64,
    fragments: u64,
    /// Most sessions and connections at a time.
    sessions: u32,
    /// Changes that were accepted.
    applied: u64,
}

/// A node under steps.
struct Bench {
    plane: Plane,
    config: Config,
    macs: Vec<[u8; 6]>,
    kept: Shelf<Vector>,
    /// The present frame is injected by a control program.
    is_injected: bool,
    now: Time,
    craft: Craft,
    reached: Reached,
}

impl Bench {
    fn new(config: Config) -> Bench {
        let macs = macs(&config);
        let mut plane = Plane::new(&config, &macs);
        plane.set_control(true);
        Bench {
            plane,
            config,
            macs,
            kept: Shelf::default(),
            is_injected: false,
            now: Time::default(),
            craft: Craft::new(Dice::new(0)),
            reached: Reached::default(),
        }
    }

    /// Takes a step; each frame is accounted for.
    fn go(&mut self, step: &Step) {
        self.now = self.now + Duration::from_millis(u64::from(step.wait) * 50);
        let port = step.port % self.macs.len() as u8;
        self.is_injected = step.port & INJECTED != 0;
        match step.what {
            What::Frame => self.send(port, &step.bytes),
            What::Repaired => {
                let mut frame = step.bytes.clone();
                repair_frame(&mut frame);
                self.send(port, &frame);
            }
            What::Crafted => {
                let frame = self.crafted(port, &step.bytes);
                self.send(port, &frame);
            }
            What::Shown => self.show(),
            What::Node => {}
        }
        self.settle();
    }

    /// The frame that bytes choose.
    fn crafted(&mut self, port: u8, choices: &[u8]) -> Vec<u8> {
        *self.craft.dice() = Dice::of_bytes(choices);
        let (kind, packet) = self.craft.payload(self.end(port.into()));
        let tags = self.config.ports[usize::from(port)].tags().concat();
        [&mac(port)[..], &[2, 0, 0, 0, 0xcc, port], &tags, &kind, &packet].concat()
    }

    /// 0 at the left end, 1 at the right one.
    fn end(&self, port: usize) -> usize {
        usize::from(!self.config.is_left(port))
    }

    fn send(&mut self, port: u8, bytes: &[u8]) {
        let mut buf = [&[0; HEAD_ROOM], bytes].concat();
        let end = buf.len();
        let mut batch = if self.is_injected { Batch::injected() } else { Batch::default() };
        batch.push(Frame::new(&mut buf, HEAD_ROOM, end, PortId(port.into())));
        self.plane.run(self.now, &mut batch);
        let mut left = Vec::new();
        for (frame, verdict) in batch.outcome() {
            match verdict {
                Verdict::Kept(ticket) => self.kept.copy(ticket, frame),
                Verdict::Out(port) => {
                    self.reached.fragments += u64::from(frame.fragment() != Fragment::Whole);
                    left.push((usize::from(port.0), frame.ip().to_vec()));
                }
                Verdict::Control(reason) => {
                    assert!(!self.is_injected, "it is not punted again");
                    if bytes.len() % 2 == 1 {
                        self.plane.punt_failed(reason, DropReason::PuntFull);
                    }
                }
                _ => {}
            }
        }
        for (port, packet) in left {
            self.craft.saw(self.end(port), &packet);
        }
    }

    /// All that waits for nothing but its turn goes on.
    fn settle(&mut self) {
        self.kept.resume(&mut self.plane, self.now);
        self.plane.tick(self.now);
        self.kept.resume(&mut self.plane, self.now);
        self.plane.departures().for_each(drop);
        let accounting = self.plane.accounting();
        assert!(accounting.balance(), "{accounting:?}");
        self.reached.left = accounting.left;
        let sessions = self.plane.nat_usage().sessions + self.plane.connections();
        self.reached.sessions = self.reached.sessions.max(sessions);
    }

    /// What people ask a node for.
    fn show(&mut self) {
        let mut from = Some(Cursor::default());
        while let Some(at) = from {
            let (sessions, next) = self.plane.sessions(at);
            sessions.iter().for_each(|session| assert!(!session.to_string().is_empty()));
            from = next;
        }
        self.plane.filter_counts();
        self.plane.queue_counts();
        self.plane.police_counts();
        self.plane.logged();
        self.plane.events();
        self.plane.blocks();
    }

    /// Becomes another node, if it can.
    fn apply(&mut self, next: Config) {
        match self.plane.apply(self.now, &self.config, &next) {
            Ok(_) => {
                self.config = next;
                self.reached.applied += 1;
            }
            Err(why) => assert!(!why.is_empty()),
        }
        self.settle();
    }
}

/// Any frames at any time through nodes of every stage. The input is a node's number, then steps.
pub(super) fn plane(input: &[u8]) {
    through_plane(input);
}

fn through_plane(input: &[u8]) -> Reached {
    let Some((&number, rest)) = input.split_first() else { return Reached::default() };
    let mut bench = Bench::new(CONFIGS[usize::from(number) % CONFIGS.len()].clone());
    steps::of_bytes(rest).for_each(|step| bench.go(&step));
    bench.reached
}

/// The steps of each scenario, for the node of the same place in the list, and crafted ones.
pub(super) fn plane_seeds() -> Vec<Vec<u8>> {
    let number = |n: usize| vec![(n * 7) as u8];
    let sent = SENT.iter().enumerate().map(|(n, steps)| [number(n), encoded(steps)].concat());
    sent.chain((0..32).map(|n| [number(n), encoded(&chosen(n as u64, &[What::Crafted; 24]))].concat()))
        .collect()
}

pub(super) fn mutate_plane(dice: &mut Dice, input: &[u8], others: &[Vec<u8>]) -> Vec<u8> {
    let number = match (dice.one_in(4), input.first()) {
        (false, Some(number)) => *number,
        _ => dice.roll(256) as u8,
    };
    let without: Vec<Vec<u8>> =
        dice.pick(others).into_iter().map(|other| other[1.min(other.len())..].to_vec()).collect();
    [vec![number], mutate::steps(dice, input.get(1..).unwrap_or_default(), &without)].concat()
}

/// A node becomes another one, and another one again, frames before and after each. The input is steps, of which the first
/// says what the node is.
pub(super) fn apply(input: &[u8]) {
    through_changes(input);
}

fn through_changes(input: &[u8]) -> Reached {
    let mut bench: Option<(Bench, Ends)> = None;
    for step in steps::of_bytes(input) {
        match (&mut bench, step.what) {
            (None, What::Node) => {
                let ends = Ends::new(&mut Dice::of_bytes(&step.bytes));
                bench = text(&step.bytes, &ends).map(|config| (Bench::new(config), ends));
            }
            (None, _) => {}
            (Some((bench, ends)), What::Node) => {
                bench.go(&step);
                if let Some(next) = text(&step.bytes, ends) {
                    bench.apply(next);
                }
            }
            (Some((bench, _)), _) => bench.go(&step),
        }
    }
    bench.map(|(bench, _)| bench.reached).unwrap_or_default()
}

/// The node of a step: its text, or what it chooses to be between these ends.
fn text(bytes: &[u8], ends: &Ends) -> Option<Config> {
    let text = match grammar::choices(bytes) {
        Some(mut dice) => grammar::node(&mut dice, ends),
        None => String::from_utf8_lossy(bytes).into_owned(),
    };
    Config::read("fuzz", &text).ok()
}

/// Each node with the one after it, of which many are what it becomes in its scenario, and nodes that are chosen.
pub(super) fn apply_seeds() -> Vec<Vec<u8>> {
    let node = |text: &str| Step { what: What::Node, port: 0, wait: 0, bytes: text.as_bytes().to_vec() };
    let of_texts = NODES.windows(2).zip(SENT.iter().cycle()).map(move |(pair, sent)| {
        let nodes = [&pair[0], &pair[1], &pair[0]].map(|text| node(text));
        nodes.into_iter().flat_map(|node| [encoded(&[node]), encoded(sent)].concat()).collect()
    });
    let kinds = [&[What::Node][..], &[What::Crafted; 6], &[What::Shown]].concat().repeat(4);
    of_texts.chain((0..64).map(|n| encoded(&chosen(n, &kinds)))).collect()
}

pub(super) use mutate::steps as mutate_apply;

/// Steps of these kinds, whose bytes choose.
fn chosen(seed: u64, kinds: &[What]) -> Vec<Step> {
    let mut dice = Dice::new(seed);
    kinds.iter().map(|what| Step::chosen(&mut dice, *what)).collect()
}

fn encoded(steps: &[Step]) -> Vec<u8> {
    steps.iter().flat_map(Step::encoded).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mutate;

    /// Inputs, one made of the other as fuzzers do.
    const INPUTS: usize = 400;

    /// How many of the inputs came so far: frames left, fragments left, sessions lived, changes were accepted.
    fn reach(run: fn(&[u8]) -> Reached, seeds: &[Vec<u8>], mutate: Mutate) -> [usize; 4] {
        let (mut dice, mut input, mut counts) = (Dice::new(1), Vec::new(), [0; 4]);
        for _ in 0..INPUTS {
            if dice.one_in(6) || input.is_empty() {
                input = dice.pick(seeds).cloned().unwrap_or_default();
            }
            input = mutate(&mut dice, &input, seeds);
            let Reached { left, fragments, sessions, applied } = run(&input);
            let so_far = [left > 0, fragments > 0, sessions > 0, applied > 0];
            counts.iter_mut().zip(so_far).for_each(|(count, so)| *count += usize::from(so));
        }
        counts
    }

    /// Frames that left of those of the scenarios, changed, as steps of a kind.
    fn left(what: What) -> u64 {
        let mut dice = Dice::new(1);
        let mut changed = |mut step: Step| {
            step.change(&mut dice);
            Step { what, ..step }
        };
        let inputs = plane_seeds().into_iter().take(SENT.len());
        let inputs = inputs.map(|seed| {
            let steps: Vec<_> = steps::of_bytes(&seed[1..]).map(&mut changed).collect();
            [&seed[..1], &encoded(&steps)].concat()
        });
        inputs.map(|input| through_plane(&input).left).sum()
    }

    #[test]
    fn frames_with_right_lengths_and_checksums_get_further() {
        let (repaired, as_they_are) = (left(What::Repaired), left(What::Frame));
        println!("{repaired} frames left when repaired, {as_they_are} as they are");
        assert!(repaired > as_they_are * 5 / 4, "{repaired}, {as_they_are}");
    }

    /// What a check accepts must run, and become each other node that a check accepts: texts from a grammar, of which most say what no
    /// scenario does. The mistakes of a text are those of `weir node check`, which reads it as `run` and `apply` do.
    #[test]
    fn whatever_a_check_accepts_runs_and_can_be_applied() {
        const TEXTS: usize = 2500;
        let (mut accepted, mut applied, mut seed) = (0, 0, 0);
        while accepted < TEXTS {
            seed += 1;
            let dice = &mut Dice::new(seed);
            let ends = Ends::new(dice);
            let mut bench: Option<Bench> = None;
            for _ in 0..4 {
                let (node, run) = (grammar::node(dice, &ends), grammar::run(dice));
                let all = node.clone() + &run;
                let read = weir_node::Config::read("fuzz", &all, &|_| Err("no file".into()));
                let Ok(config) = read else { continue };
                accepted += 1;
                let text = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    of_threads(&config);
                    match &mut bench {
                        Some(bench) => bench.apply(config.plane),
                        None => bench = Some(Bench::new(config.plane)),
                    }
                    for _ in 0..2 {
                        let step = Step::chosen(dice, What::Crafted);
                        bench.iter_mut().for_each(|bench| bench.go(&step));
                    }
                }));
                assert!(text.is_ok(), "seed {seed}: {all}");
            }
            applied += bench.map_or(0, |bench| bench.reached.applied);
        }
        println!(
            "{accepted} of {} texts were accepted, {applied} of them applied to a running node",
            seed * 4
        );
        assert!(applied > TEXTS as u64 / 4, "{applied}");
    }

    /// The planes of a node of two or three threads, if it is one.
    fn of_threads(config: &weir_node::Config) {
        let threads = config.settings.threads.len() as u8;
        if !(2..4).contains(&threads) {
            return;
        }
        let mut plane = config.plane.clone().shared_by(threads);
        for thread in 0..threads {
            plane.share = weir_plane::Share { thread, of: threads };
            Plane::new(&plane, &macs(&plane));
        }
    }

    #[test]
    fn changed_inputs_get_behind_the_first_checks() {
        let plane = reach(through_plane, &plane_seeds(), mutate_plane);
        let apply = reach(through_changes, &apply_seeds(), mutate_apply);
        println!("of {INPUTS} inputs of plane {plane:?}, of apply {apply:?}");
        // With each scenario that comes other inputs are drawn: the counts vary by a third.
        let least = [[340, 45, 180, 0], [340, 35, 120, 300]];
        for (counts, least) in [plane, apply].iter().zip(least) {
            assert!(
                counts.iter().zip(least).all(|(count, least)| *count >= least),
                "{counts:?}, at least {least:?}"
            );
        }
    }
}
