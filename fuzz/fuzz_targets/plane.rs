//! Any frames at any time through nodes of every stage: no panic, and each frame accounted for.
//!
//! The input is a node's number, then frames: two bytes of length, one of the port, one of the time that has passed.

#![no_main]

use std::sync::LazyLock;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use weir_plane::scenario::suites;
use weir_plane::{Batch, Config, Frame, HEAD_ROOM, Plane, PortId, Time};

/// The nodes of all scenarios.
static NODES: LazyLock<Vec<Config>> = LazyLock::new(|| {
    let scenarios = suites().into_iter().flat_map(|(_, scenarios)| scenarios);
    let texts = scenarios.flat_map(|scenario| scenario.nodes().collect::<Vec<_>>());
    texts.map(|text| Config::read("fuzz", &text).expect("the scenarios have been run")).collect()
});

fuzz_target!(|input: &[u8]| {
    let Some((&node, mut rest)) = input.split_first() else { return };
    let config = &NODES[usize::from(node) % NODES.len()];
    let macs: Vec<_> = (0..config.ports.len()).map(|port| [2, 0, 0, 0, 0xaa, port as u8]).collect();
    let mut plane = Plane::new(config, &macs);
    let mut now = Time::default();
    while let [a, b, port, wait, more @ ..] = rest {
        let len = usize::from(u16::from_be_bytes([*a, *b])).min(more.len()).min(9000);
        let (bytes, behind) = more.split_at(len);
        rest = behind;
        now = now + Duration::from_millis(u64::from(*wait) * 50);
        let mut buf = [&[0; HEAD_ROOM], bytes].concat();
        let end = buf.len();
        let mut batch = Batch::default();
        batch.push(Frame::new(&mut buf, HEAD_ROOM, end, PortId(port % macs.len() as u8)));
        plane.run(now, &mut batch);
        plane.tick(now);
        plane.departures().for_each(drop);
        assert!(plane.books().balance(), "{:?}", plane.books());
    }
});
