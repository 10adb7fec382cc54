//! Any text as a file of rules: mistakes, or a filter that decides about frames as it did when it was new, whatever it
//! was before. The first line is what the filter was; never a panic.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use weir_plane::scenario::packet;
use weir_plane::{Batch, Beside, Config, Fate, Frame, HEAD_ROOM, Plane, PortId, Time};

/// Packets of all kinds that rules tell apart.
static PACKETS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let lines = [
        "udp 198.18.0.2:1111 > 198.19.0.9:53 len 100",
        "udp 198.18.0.2 > 198.19.0.9 len 24 whole 48 frag 32 id 9",
        "tcp 198.18.0.2:1000 > 198.19.0.9:80 S seq 1",
        "tcp 198.18.0.2:1000 > 198.19.0.9:80 FA seq 1",
        "icmp echo 198.18.0.2 > 198.19.0.9 id 7",
        "icmp unreachable/4 198.18.0.2 > 198.19.0.9 mtu 1400 {udp 198.19.0.9:53 > 198.18.0.2:1111}",
        "udp [2001:db8:1::2]:1111 > [2001:db8:2::9]:53",
        "icmp echo 2001:db8:1::2 > 2001:db8:2::9 id 7",
        "proto/47 198.18.0.2 > 198.19.0.9",
    ];
    lines.iter().map(|line| packet(line).expect(line)).collect()
});

/// A node with these rules.
fn config(rules: &str) -> Option<Config> {
    let file = |_: &str| Ok(rules.to_string());
    let mut beside = Beside { item: &mut |_, _| false, file: &file };
    match Config::read_with("fuzz", "node lan > filter(rules.fw) > wan", &mut beside) {
        Ok(config) => Some(config),
        Err(mistakes) => {
            assert!(!mistakes.list.is_empty() && !mistakes.to_string().is_empty());
            None
        }
    }
}

/// What becomes of each packet, in both directions.
fn fates(plane: &mut Plane) -> Vec<Fate> {
    let mut fates = vec![];
    for (n, packet) in PACKETS.iter().enumerate() {
        let kind = if packet[0] >> 4 == 4 { [8, 0] } else { [0x86, 0xdd] };
        let mut buf = [&[0; HEAD_ROOM][..], &[2; 12], &kind, packet].concat();
        let end = buf.len();
        let mut batch = Batch::default();
        batch.push(Frame::new(&mut buf, HEAD_ROOM, end, PortId(n as u8 % 2)));
        plane.run(Time::default(), &mut batch);
        fates.extend(batch.outcome().map(|(_, fate)| fate));
        plane.departures().for_each(drop);
        assert!(plane.books().balance(), "{:?}", plane.books());
    }
    fates
}

fuzz_target!(|text: &str| {
    let (before, rules) = text.split_once('\n').unwrap_or(("", text));
    let Some(config) = self::config(rules) else { return };
    let macs = [[2, 0, 0, 0, 0xaa, 0], [2, 0, 0, 0, 0xaa, 1]];
    let expected = fates(&mut Plane::new(&config, &macs));
    if let Some(old) = self::config(before) {
        let mut changed = Plane::new(&old, &macs);
        changed.apply(Time::default(), &old, &config).expect("rules can be changed");
        assert_eq!(fates(&mut changed), expected);
    }
});
