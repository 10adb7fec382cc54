//! Subscribers: 64,000 sessions with rates, of IP over Ethernet and of PPPoE behind two tags; frames from random ones of them, and to
//! random ones.

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
/// Bytes of a frame without tags and PPPoE.
const PLAIN: usize = 60;
/// Frames/s of a row, and bits of a frame.
const FRAMES_PER_S: u64 = 5_000_000;
const FRAME_BITS: u64 = PLAIN as u64 * 8;
/// A rate that is never reached.
const FAST: u64 = 100_000_000_000;

/// How subscribers are connected.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    /// IP over Ethernet, on one line without tags.
    Plain,
    /// PPPoE sessions in QinQ: each subscriber has its own pair of VLAN tags.
    Pppoe,
}

pub(super) fn rows(bench: &mut Bench<'_>) -> io::Result<()> {
    for (access, names) in [
        (Access::Plain, ["64k subscribers, from", "64k subscribers, to"]),
        (Access::Pppoe, ["64k subscribers PPPoE QinQ, from", "64k subscribers PPPoE QinQ, to"]),
    ] {
        let mut online = None;
        for (name, from) in names.into_iter().zip([true, false]) {
            if !bench.wants(name) {
                continue;
            }
            let plane = online.get_or_insert_with(|| all_online(access, ", police", FAST));
            let (bytes, mut random) = (plane.subscriber_bytes(), Rng::new(7));
            bench.row(name, plane, bytes, |buf| {
                let n = random.below(SUBSCRIBERS as usize) as u32;
                if from { frame_from(access, n, buf) } else { frame_to(n, buf) }
            })?;
        }
    }
    let passing = "64k subscribers shaped, to";
    if bench.wants(passing) {
        let (mut plane, mut random) = (all_online(Access::Plain, "", FAST), Rng::new(7));
        let bytes = plane.subscriber_bytes();
        bench.row(passing, &mut plane, bytes, |buf| {
            frame_to(random.below(SUBSCRIBERS as usize) as u32, buf)
        })?;
    }
    // What the rows with frames that wait are to be compared with: the same way of measuring, and no shaper.
    for (name, busy) in
        [("1k busy subscribers not shaped, to", 1000), ("64k busy subscribers not shaped, to", SUBSCRIBERS)]
    {
        if bench.wants(name) {
            let (mut plane, mut random) = (all_online(Access::Plain, ", police", FAST), Rng::new(7));
            bench
                .row_of_waiting(name, &mut plane, |buf| frame_to(random.below(busy as usize) as u32, buf))?;
        }
    }
    // Random arrivals: so much of their rates that most frames find others in front of them, and that all have room.
    for (name, busy, percent) in
        [("1k busy subscribers shaped, to", 1000, 95), ("64k busy subscribers shaped, to", SUBSCRIBERS, 70)]
    {
        if bench.wants(name) {
            let bits_per_s = FRAMES_PER_S * FRAME_BITS * 100 / percent / u64::from(busy);
            let (mut plane, mut random) = (all_online(Access::Plain, "", bits_per_s), Rng::new(7));
            bench
                .row_of_waiting(name, &mut plane, |buf| frame_to(random.below(busy as usize) as u32, buf))?;
        }
    }
    Ok(())
}

/// A frame of 64 bytes with FCS, without the headers of its access.
fn frame_from(access: Access, n: u32, buf: &mut [u8]) -> (usize, PortId) {
    let mut plain = [0; PLAIN];
    headers(&mut plain, UDP, (FIRST + n, 4000), (SERVER, 53));
    plain[38..42].copy_from_slice(&[0, 26, 0, 0]);
    let front = match access {
        Access::Plain => vec![8, 0],
        Access::Pppoe => {
            let [[a, b], [c, d]] = line(n).map(u16::to_be_bytes);
            let [e, f] = session(n).to_be_bytes();
            let length = (PLAIN - 14 + 2) as u8;
            [&[0x88, 0xa8, a, b, 0x81, 0, c, d][..], &[0x88, 0x64, 0x11, 0, e, f, 0, length, 0, 0x21]]
                .concat()
        }
    };
    let frame = [&MACS[0][..], &mac(n), &front, &plain[14..]].concat();
    buf[..frame.len()].copy_from_slice(&frame);
    (frame.len(), PortId(0))
}

fn frame_to(n: u32, buf: &mut [u8]) -> (usize, PortId) {
    buf[..6].copy_from_slice(&MACS[1]);
    buf[6..12].copy_from_slice(&[2, 0, 0, 0, 0xcc, 2]);
    headers(buf, UDP, (SERVER, 53), (FIRST + n, 4000));
    buf[38..42].copy_from_slice(&[0, 26, 0, 0]);
    (PLAIN, PortId(1))
}

fn mac(n: u32) -> [u8; 6] {
    let [_, a, b, c] = n.to_be_bytes();
    [2, 0, 0, a, b, c]
}

/// The pair of VLAN tags of a subscriber.
fn line(n: u32) -> [u16; 2] {
    [100 + (n / 4000) as u16, 1 + (n % 4000) as u16]
}

fn session(n: u32) -> u16 {
    1 + (n % 60_000) as u16
}

/// A node with all sessions, each with these rates.
fn all_online(access: Access, how: &str, bits_per_s: u64) -> Plane {
    let port = if access == Access::Plain { "lan(access)" } else { "lan(access, vlan 100-199.1-4094)" };
    let text = format!(
        "{port} > access(gateway 100.64.0.1/10{how}) > route(default via 198.19.0.2)
         > wan(198.19.0.1/24, neighbour 198.19.0.2 02:00:00:00:cc:02)"
    );
    let mut config = Config::read("bench", &text).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    let mut plane = Plane::new(&config, &MACS);
    let add = |n: u32| {
        let [outer, inner] = line(n);
        Command::Subscriber(SubscriberCommand::Add(SubscriberEntry {
            session: u64::from(n) + 1,
            port: "lan".into(),
            tags: if access == Access::Plain { "untagged".into() } else { format!("{outer}.{inner}") },
            mac: MacText::from(mac(n)),
            prefixes: vec![Prefix { address: (FIRST + n).to_be_bytes().into(), len: 32 }],
            from_bits_per_s: Some(bits_per_s),
            to_bits_per_s: Some(bits_per_s),
            pppoe_session: (access == Access::Pppoe).then(|| session(n)),
            ..SubscriberEntry::default()
        }))
    };
    let changes = config.decide(&(0..SUBSCRIBERS).map(add).collect::<Vec<_>>()).expect("each has its own");
    plane.take(Time::from_ms(1), Update::of_changes(&changes)).expect("room");
    plane
}
