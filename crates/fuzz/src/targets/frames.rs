//! Frames from a wire: parsed, and through planes that stay as they are or become others meanwhile.

use std::sync::LazyLock;
use std::time::Duration;

use weir_packet::{frame as test_frame, headers, neighbour};
use weir_plane::scenario::{Vector, packet, suites};
use weir_plane::{Batch, Config, Frame, HEAD_ROOM, Plane, PortId, Shelf, Time, Verdict};

use super::files;
use crate::mutate::{self, Record, frames};
use weir_testkit::Dice;

/// Each of the parsers: what is read of a part is what is read of the whole.
pub(super) fn frame(bytes: &[u8]) {
    let whole = headers::read(bytes);
    if let Some(part) = headers::read(&bytes[..bytes.len().saturating_sub(1)]) {
        let whole = whole.expect("a frame that is longer can be read, too");
        assert_eq!((part.src, part.dst), (whole.src, whole.dst));
    }
    if let test_frame::Parsed::Test(signature) = test_frame::parse(bytes) {
        let mut turned = bytes.to_vec();
        test_frame::reflect(&mut turned);
        assert_eq!(test_frame::parse(&turned), test_frame::Parsed::Test(signature));
    }
    neighbour::parse(bytes);
}

pub(super) fn frame_seeds() -> Vec<Vec<u8>> {
    SENT.iter().flatten().map(|record| record.bytes.clone()).collect()
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
static SENT: LazyLock<Vec<Vec<Record>>> = LazyLock::new(|| {
    let scenario = |text: &str| text.lines().filter_map(sent).collect::<Vec<_>>();
    let texts = files("tests", "txt").into_iter().map(|file| String::from_utf8_lossy(&file).into_owned());
    let all = texts.flat_map(|text| text.split("\n== ").skip(1).map(scenario).collect::<Vec<_>>());
    all.filter(|records| !records.is_empty()).collect()
});

/// The frame of a line such as `0ms in udp ...`; what a scenario has found out before is some port.
fn sent(line: &str) -> Option<Record> {
    let (_, what) = line
        .split_once(" in ")
        .map(|(_, what)| (0, what))
        .or(line.split_once(" back ").map(|(_, what)| (1, what)))?;
    let port = u8::from(line.contains(" back "));
    let words: String = what.trim().replace("$p", "1024").replace("$q", "1025").replace("$r", "1026");
    let packet = packet(&words).ok()?;
    let kind: [u8; 2] = if packet.first()? >> 4 == 4 { [8, 0] } else { [0x86, 0xdd] };
    let bytes = [&mac(port)[..], &[2, 0, 0, 0, 0xcc, port], &kind, &packet].concat();
    Some(Record { port, wait: 1, bytes })
}

fn mac(port: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0xaa, port]
}

fn macs(config: &Config) -> Vec<[u8; 6]> {
    (0..config.ports.len()).map(|port| mac(port as u8)).collect()
}

/// Sends a frame; each frame is accounted for.
fn send((plane, kept): (&mut Plane, &mut Shelf<Vector>), now: Time, port: u8, bytes: &[u8]) {
    let mut buf = [&[0; HEAD_ROOM], bytes].concat();
    let end = buf.len();
    let mut batch = Batch::default();
    batch.push(Frame::new(&mut buf, HEAD_ROOM, end, PortId(port)));
    plane.run(now, &mut batch);
    for (frame, verdict) in batch.outcome() {
        if let Verdict::Kept(ticket) = verdict {
            kept.copy(ticket, frame);
        }
    }
    kept.resume(plane, now);
    plane.tick(now);
    kept.resume(plane, now);
    plane.departures().for_each(drop);
    assert!(plane.accounting().balance(), "{:?}", plane.accounting());
}

/// Any frames at any time through nodes of every stage. The input is a node's number, then frames.
pub(super) fn plane(input: &[u8]) {
    let Some((&number, rest)) = input.split_first() else { return };
    let config = &CONFIGS[usize::from(number) % CONFIGS.len()];
    let macs = macs(config);
    let mut plane = Plane::new(config, &macs);
    let (mut kept, mut now) = (Shelf::default(), Time::default());
    for (port, wait, bytes) in frames(rest) {
        now = now + Duration::from_millis(u64::from(wait) * 50);
        send((&mut plane, &mut kept), now, port % macs.len() as u8, bytes);
    }
}

/// The frames of each scenario, for the node of the same place in the list.
pub(super) fn plane_seeds() -> Vec<Vec<u8>> {
    let number = |n: usize| vec![(n * 7) as u8];
    SENT.iter().enumerate().map(|(n, records)| [number(n), encoded(records)].concat()).collect()
}

pub(super) fn mutate_plane(dice: &mut Dice, input: &[u8], others: &[Vec<u8>]) -> Vec<u8> {
    let number = match (dice.one_in(4), input.first()) {
        (false, Some(number)) => *number,
        _ => dice.roll(256) as u8,
    };
    let without: Vec<Vec<u8>> =
        dice.pick(others).into_iter().map(|other| other[1.min(other.len())..].to_vec()).collect();
    [vec![number], mutate::records(dice, input.get(1..).unwrap_or_default(), &without)].concat()
}

/// A node becomes another one, and another one again, frames before and after each. The input is two texts, each ended
/// by a zero, then frames: every third of them is followed by a change to the other text.
pub(super) fn apply(input: &[u8]) {
    let mut parts = input.splitn(3, |byte| *byte == 0);
    let mut text = || String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned();
    let (one, other) = (text(), text());
    let Ok(mut is) = Config::read("fuzz", &one) else { return };
    let Ok(mut next) = Config::read("fuzz", &other) else { return };
    let macs = macs(&is);
    let mut plane = Plane::new(&is, &macs);
    let (mut kept, mut now) = (Shelf::default(), Time::default());
    let rest = parts.next().unwrap_or_default();
    for (n, (port, wait, bytes)) in frames(rest).enumerate() {
        now = now + Duration::from_millis(u64::from(wait) * 50);
        send((&mut plane, &mut kept), now, port % macs.len() as u8, bytes);
        if n % 3 == 2 {
            match plane.apply(now, &is, &next) {
                Ok(_) => std::mem::swap(&mut is, &mut next),
                Err(why) => assert!(!why.is_empty()),
            }
            kept.resume(&mut plane, now);
            plane.departures().for_each(drop);
            assert!(plane.accounting().balance(), "{:?}", plane.accounting());
        }
    }
    plane.events();
    plane.blocks();
}

/// Each node with the one after it, of which many are what it becomes in its scenario.
pub(super) fn apply_seeds() -> Vec<Vec<u8>> {
    let pairs = NODES.windows(2).zip(SENT.iter().cycle());
    let seed = |(pair, records): (&[String], &Vec<Record>)| {
        [pair[0].as_bytes(), &[0], pair[1].as_bytes(), &[0], &encoded(records).repeat(4)].concat()
    };
    pairs.map(seed).collect()
}

pub(super) fn mutate_apply(dice: &mut Dice, input: &[u8], others: &[Vec<u8>]) -> Vec<u8> {
    let part = |of: &[u8], n: usize| of.splitn(3, |byte| *byte == 0).nth(n).unwrap_or_default().to_vec();
    let mut parts = [0, 1, 2].map(|n| part(input, n));
    let other: Vec<Vec<u8>> =
        (0..3).map(|n| dice.pick(others).map_or(Vec::new(), |other| part(other, n))).collect();
    match dice.roll(6) {
        0 => parts[0] = mutate::text(dice, &parts[0], &other[..2]),
        1 => parts[1] = mutate::text(dice, &parts[1], &other[..2]),
        2 => parts[1] = other[1].clone(),
        _ => parts[2] = mutate::records(dice, &parts[2], &other[2..]),
    }
    for text in &mut parts[..2] {
        text.retain(|byte| *byte != 0);
    }
    parts.join(&0)
}

fn encoded(records: &[Record]) -> Vec<u8> {
    records.iter().flat_map(Record::encoded).collect()
}
