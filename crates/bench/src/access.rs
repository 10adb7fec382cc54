//! Subscribers: 64,000 sessions with rates; frames from random ones of them, and to random ones.

use std::io;

use weir_plane::{
    Command, Config, MacText, Plane, PortId, Prefix, SubscriberCommand, SubscriberEntry, Time, Update,
};
use weir_rng::Rng;

use super::probe::{Bench, MACS, headers};

const SUBSCRIBERS: u32 = 64_000;
/// The first address of a subscriber.
const FIRST: u32 = 0x6440_0002;
const SERVER: u32 = 0xc633_6409;
const UDP: u8 = 17;
/// Frames/s of a row, and bits of a frame.
const FRAMES_PER_S: u64 = 5_000_000;
const FRAME_BITS: u64 = 60 * 8;
/// A rate that is never reached.
const FAST: u64 = 100_000_000_000;

pub(super) fn rows(bench: &mut Bench<'_>) -> io::Result<()> {
    let mut online = None;
    for (name, from) in [("64k subscribers, from", true), ("64k subscribers, to", false)] {
        if !bench.wants(name) {
            continue;
        }
        let plane = online.get_or_insert_with(|| all_online(", police", FAST));
        let (bytes, mut random) = (plane.subscriber_bytes(), Rng::new(7));
        bench.row(name, plane, bytes, |buf| {
            let n = random.below(SUBSCRIBERS as usize) as u32;
            let (subscriber, server) = ((FIRST + n, 4000), (SERVER, 53));
            let (src, dst, port) = if from { (subscriber, server, 0_u16) } else { (server, subscriber, 1) };
            buf[..6].copy_from_slice(&MACS[usize::from(port)]);
            buf[6..12].copy_from_slice(&if from { mac(n) } else { [2, 0, 0, 0, 0xcc, 2] });
            headers(buf, UDP, src, dst);
            buf[38..42].copy_from_slice(&[0, 26, 0, 0]);
            (60, PortId(port))
        })?;
    }
    let passing = "64k subscribers shaped, to";
    if bench.wants(passing) {
        let (mut plane, mut random) = (all_online("", FAST), Rng::new(7));
        let bytes = plane.subscriber_bytes();
        bench.row(passing, &mut plane, bytes, |buf| to(buf, random.below(SUBSCRIBERS as usize) as u32))?;
    }
    for (name, busy) in
        [("1k busy subscribers shaped, to", 1000), ("64k busy subscribers shaped, to", SUBSCRIBERS)]
    {
        if bench.wants(name) {
            // Random arrivals at 0.95 of the rate: most frames find others in front of them.
            let bits_per_s = FRAMES_PER_S * FRAME_BITS * 100 / 95 / u64::from(busy);
            let (mut plane, mut random) = (all_online("", bits_per_s), Rng::new(7));
            bench.row_of_waiting(name, &mut plane, |buf| to(buf, random.below(busy as usize) as u32))?;
        }
    }
    Ok(())
}

/// A frame to a subscriber.
fn to(buf: &mut [u8], n: u32) -> (usize, PortId) {
    buf[..6].copy_from_slice(&MACS[1]);
    buf[6..12].copy_from_slice(&[2, 0, 0, 0, 0xcc, 2]);
    headers(buf, UDP, (SERVER, 53), (FIRST + n, 4000));
    buf[38..42].copy_from_slice(&[0, 26, 0, 0]);
    (60, PortId(1))
}

fn mac(n: u32) -> [u8; 6] {
    let [_, a, b, c] = n.to_be_bytes();
    [2, 0, 0, a, b, c]
}

/// A node with all sessions, each with these rates.
fn all_online(how: &str, bits_per_s: u64) -> Plane {
    let text = format!(
        "lan(access) > access(gateway 100.64.0.1/10{how}) > route(default via 198.19.0.2)
         > wan(198.19.0.1/24, neighbour 198.19.0.2 02:00:00:00:cc:02)"
    );
    let mut config = Config::read("bench", &text).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    let mut plane = Plane::new(&config, &MACS);
    let add = |n: u32| {
        Command::Subscriber(SubscriberCommand::Add(SubscriberEntry {
            session: u64::from(n) + 1,
            revision: 0,
            port: "lan".into(),
            tags: "untagged".into(),
            mac: MacText::from(mac(n)),
            prefixes: vec![Prefix { address: (FIRST + n).to_be_bytes().into(), len: 32 }],
            from_bits_per_s: Some(bits_per_s),
            to_bits_per_s: Some(bits_per_s),
            ..SubscriberEntry::default()
        }))
    };
    let changes = config.decide(&(0..SUBSCRIBERS).map(add).collect::<Vec<_>>()).expect("each has its own");
    plane.take(Time::from_ms(1), Update::of_changes(&changes)).expect("room");
    plane
}
