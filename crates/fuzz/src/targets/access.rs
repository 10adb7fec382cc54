//! Frames at access ports: PPPoE sessions, IP over Ethernet, subscribers behind a router, and packets to all of them from the network.
//!
//! ```text
//!   what | length: 2 bytes | frame | what ..      what: bits 0 and 1 the port, 2 lengths and checksums made right, 3 to 7 time to wait
//! ```
//! A frame begins behind its Ethernet addresses: each port has one device, and the network one router.

use std::time::Duration;

use weir_plane::scenario::packet;
use weir_plane::{
    Batch, Command, Config, Frame, HEAD_ROOM, MacText, Plane, PortId, SubscriberCommand, SubscriberEntry,
    Time, UnknownSessions, Update, Verdict,
};
use weir_testkit::repair;

const TEXT: &str = "a(access, vlan 1-9.1-4094) b(access) > access(gateway 100.64.0.1/10, gateway 2001:db8:100::1/40, loops reject)
    > route(default via 198.18.0.2, ::/0 via 2001:db8:ff::2)
    > wan(198.18.0.1/24, 2001:db8:ff::1/64, mtu 1400, neighbour 198.18.0.2 02:00:00:00:00:99, neighbour 2001:db8:ff::2 02:00:00:00:00:99)";
const WAN: u16 = 2;
/// Of the ports, and of the device at each.
const OWN: [[u8; 6]; 3] = [[2, 0, 0, 0, 0, 0xa1], [2, 0, 0, 0, 0, 0xa2], [2, 0, 0, 0, 0, 0xff]];
const DEVICES: [[u8; 6]; 3] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 0x99]];

fn entry(
    session: u64,
    port: usize,
    tags: &str,
    prefixes: &[&str],
    pppoe_session: Option<u16>,
) -> SubscriberEntry {
    SubscriberEntry {
        session,
        port: ["a", "b"][port].into(),
        tags: tags.into(),
        mac: MacText::from(DEVICES[port]),
        prefixes: prefixes.iter().map(|text| text.parse().expect("a prefix")).collect(),
        pppoe_session,
        magic: pppoe_session.map(u32::from),
        behind_router: port == 1 && pppoe_session.is_none(),
        ..SubscriberEntry::default()
    }
}

fn online() -> Plane {
    let mut config = Config::read("fuzz", TEXT).expect("a node");
    let mut plane = Plane::new(&config, &OWN);
    plane.set_control(true);
    let first = SubscriberEntry { mru: Some(600), ..entry(1, 0, "7.9", &["100.64.0.2/32"], Some(7)) };
    let entries = [
        first,
        entry(2, 0, "7.9", &["100.64.0.3/32", "2001:db8:101::/48"], Some(8)),
        entry(3, 0, "7.10", &["100.64.0.4/32"], None),
        entry(4, 1, "untagged", &["100.64.1.0/24"], Some(7)),
        entry(5, 1, "untagged", &["100.64.2.0/24", "2001:db8:102::/48"], None),
    ];
    let add = |entry| Command::Subscriber(SubscriberCommand::Add(entry));
    let unknown = SubscriberCommand::UnknownSessions(UnknownSessions::Terminate);
    let commands: Vec<Command> = entries.into_iter().map(add).chain([Command::Subscriber(unknown)]).collect();
    let changes = config.decide(&commands).expect("each has its own");
    plane.take(Time::default(), Update::of_changes(&changes)).expect("there is room");
    plane
}

/// Each frame is accounted for; what leaves for a PPPoE session has a header that fits.
pub(super) fn access(input: &[u8]) {
    let (mut plane, mut now, mut rest) = (online(), Time::default(), input);
    while let [what, a, b, behind @ ..] = rest {
        let length = usize::from(u16::from_be_bytes([*a, *b])).min(behind.len()).min(9000);
        let (frame, behind) = behind.split_at(length);
        rest = behind;
        now = now + Duration::from_millis(1 << (what >> 4));
        run(&mut plane, now, *what, frame);
    }
}

fn run(plane: &mut Plane, now: Time, what: u8, behind: &[u8]) {
    let port = usize::from(what & 3) % 3;
    let mut behind = behind.to_vec();
    if what & 4 != 0 {
        repaired(&mut behind);
    }
    let mut buf = [&[0; HEAD_ROOM][..], &OWN[port], &DEVICES[port], &behind].concat();
    let end = buf.len();
    let mut batch = Batch::default();
    batch.push(Frame::new(&mut buf, HEAD_ROOM, end, PortId(port as u16)));
    plane.run(now, &mut batch);
    for (frame, verdict) in batch.outcome() {
        match verdict {
            Verdict::Out(to) => left(to, frame.bytes()),
            // A frame that is punted is as it came, but for padding and the priority of its tags.
            Verdict::Control(_) if port == 1 => assert!(
                [&OWN[port][..], &DEVICES[port], &behind].concat().starts_with(frame.bytes())
                    || behind.starts_with(&[0x81, 0])
            ),
            _ => {}
        }
    }
    while plane.tick(now) {}
    plane.departures().for_each(|departure| {
        if let weir_plane::Leave::Port(to) = departure.to {
            left(to, &departure.bytes);
        }
    });
    plane.subscriber_events();
    assert!(plane.accounting().balance(), "{:?}", plane.accounting());
}

/// What leaves by an access port in a session is for one that there is, as long as it says, and no longer than the MRU.
fn left(to: PortId, frame: &[u8]) {
    let tags = usize::from(to == PortId(0)) * 8;
    let Some([0x88, 0x64, rest @ ..]) = frame.get(12 + tags..) else {
        assert!(to == PortId(WAN) || !frame.ends_with(&[0x88, 0x64]));
        return;
    };
    let [0x11, 0, a, b, c, d, ppp @ ..] = rest else { panic!("{frame:02x?}") };
    let id = u16::from_be_bytes([*a, *b]);
    assert!(matches!((to, id), (PortId(0), 7 | 8) | (PortId(1), 7)), "{frame:02x?}");
    assert_eq!(usize::from(u16::from_be_bytes([*c, *d])), ppp.len(), "{frame:02x?}");
    let most = if (to, id) == (PortId(0), 7) { 600 } else { 1492 };
    assert!(ppp.len() <= most + 2, "{frame:02x?}");
}

/// Makes the length of PPPoE, and lengths and checksums of the packet, right.
fn repaired(behind: &mut [u8]) {
    let mut at = 0;
    while matches!(behind.get(at..at + 2), Some([0x81, 0] | [0x88, 0xa8])) {
        at += 4;
    }
    match behind.get_mut(at..) {
        Some([0x88, 0x64, version, code, _, _, c, d, high, low, packet @ ..]) => {
            (*version, *code) = (0x11, 0);
            [*c, *d] = (packet.len() as u16 + 2).to_be_bytes();
            if *high == 0 {
                *low = if packet.first().is_some_and(|first| first >> 4 == 6) { 0x57 } else { 0x21 };
                repair(packet);
            }
        }
        Some([0x08, 0x00, packet @ ..] | [0x86, 0xdd, packet @ ..]) => repair(packet),
        _ => {}
    }
}

pub(super) fn access_seeds() -> Vec<Vec<u8>> {
    const TAGS: [[u8; 8]; 2] = [[0x88, 0xa8, 0, 7, 0x81, 0, 0, 9], [0x88, 0xa8, 0, 7, 0x81, 0, 0, 10]];
    let step = |what: u8, behind: &[u8]| [&[what][..], &(behind.len() as u16).to_be_bytes(), behind].concat();
    let session = |id: u8, ppp: [u8; 2], bytes: &[u8]| {
        let length = (bytes.len() as u16 + 2).to_be_bytes();
        [&[0x88, 0x64, 0x11, 0, 0, id][..], &length, &ppp, bytes].concat()
    };
    let ip = |line: &str| packet(line).expect("a packet");
    let v4 = |id, line: &str| session(id, [0, 0x21], &ip(line));
    let lcp = |id, bytes: &[u8]| session(id, [0xc0, 0x21], bytes);
    let up = [
        v4(7, "udp 100.64.0.2:1 > 198.51.100.9:53"),
        v4(7, "tcp 100.64.0.2:1 > 198.51.100.9:80 S"),
        v4(7, "udp 100.64.0.2:1 > 100.64.0.3:53 len 900"),
        v4(9, "udp 100.64.0.2:1 > 198.51.100.9:53"),
        session(8, [0, 0x57], &ip("udp [2001:db8:101::5]:1 > [2001:db8:101:7::9]:53")),
        session(8, [0, 0x57], &ip("icmp 133/0 [fe80::5] > [ff02::2]")),
        lcp(7, &[9, 1, 0, 12, 1, 2, 3, 4, 5, 6, 7, 8]),
        lcp(7, &[10, 1, 0, 8, 1, 2, 3, 4]),
        lcp(7, &[5, 1, 0, 4]),
        vec![0x88, 0x63, 0x11, 9, 0, 0, 0, 4, 1, 1, 0, 0],
    ];
    let mut seeds: Vec<Vec<u8>> = up.iter().map(|behind| step(4, &[&TAGS[0][..], behind].concat())).collect();
    seeds.push(up.iter().flat_map(|behind| step(0x84, &[&TAGS[0][..], behind].concat())).collect());
    seeds.push(step(4, &[&TAGS[1][..], &[8, 0], &ip("udp 100.64.0.4:1 > 100.64.1.9:53")].concat()));
    seeds.push(step(5, &v4(7, "udp 100.64.1.9:1 > 100.64.0.2:53 len 700")));
    seeds.push(step(5, &[&[8, 0][..], &ip("udp 100.64.2.9:1 > 198.51.100.9:53")].concat()));
    for line in [
        "udp 198.51.100.9:53 > 100.64.0.2:1 len 900",
        "udp 198.51.100.9:53 > 100.64.2.9:1",
        "tcp 198.51.100.9:80 > 100.64.0.3:1 SA",
    ] {
        seeds.push(step(6, &[&[8, 0][..], &ip(line)].concat()));
    }
    seeds.push(step(
        6,
        &[&[0x86, 0xdd][..], &ip("udp [2001:db8:9::9]:53 > [2001:db8:101::5]:1 len 1400")].concat(),
    ));
    seeds
}
