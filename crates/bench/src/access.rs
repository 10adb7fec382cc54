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
const TEXT: &str = "lan(access) > access(gateway 100.64.0.1/10) > route(default via 198.19.0.2)
    > wan(198.19.0.1/24, neighbour 198.19.0.2 02:00:00:00:cc:02)";

pub(super) fn rows(bench: &mut Bench<'_>) -> io::Result<()> {
    let mut online = None;
    for (name, from) in [("64k subscribers, from", true), ("64k subscribers, to", false)] {
        if !bench.wants(name) {
            continue;
        }
        let plane = online.get_or_insert_with(all_online);
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
    Ok(())
}

fn mac(n: u32) -> [u8; 6] {
    let [_, a, b, c] = n.to_be_bytes();
    [2, 0, 0, a, b, c]
}

/// A node with all sessions; each has rates that it never reaches.
fn all_online() -> Plane {
    let mut config = Config::read("bench", TEXT).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    let mut plane = Plane::new(&config, &MACS);
    let add = |n: u32| {
        Command::Subscriber(SubscriberCommand::Add(SubscriberEntry {
            session: u64::from(n) + 1,
            revision: 0,
            port: "lan".into(),
            tags: "untagged".into(),
            mac: MacText::from(mac(n)),
            prefixes: vec![Prefix { address: (FIRST + n).to_be_bytes().into(), len: 32 }],
            from_bits_per_s: Some(100_000_000_000),
            to_bits_per_s: Some(100_000_000_000),
            ..SubscriberEntry::default()
        }))
    };
    let changes = config.decide(&(0..SUBSCRIBERS).map(add).collect::<Vec<_>>()).expect("each has its own");
    plane.take(Time::from_ms(1), Update::of_changes(&changes)).expect("room");
    plane
}
