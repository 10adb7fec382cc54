//! The stage `queue` of a node and a bottleneck between two ports, with the same arrivals, settings and seed: the same
//! frames come out, marked alike, in the same order, at the same time.

use std::collections::HashMap;

use weir_bottleneck::{Bridge, Clock, Settings};
use weir_plane::{Batch, Beside, Config, Emitted, Frame, HEAD_ROOM, Plane, PortId, Ticket, Verdict};
use weir_port::duplex::{Memory, MemoryEnd, Pool};
use weir_queue::Time;
use weir_rng::Rng;

/// Between two looks at both.
const STEP: Time = Time::from_us(50);

/// What stands between the Ethernet addresses and a packet: nothing but its type, PPPoE, MPLS, SNAP, or what cannot be read.
const FRONTS: [&[u8]; 5] = [
    &[8, 0],
    &[0x88, 0x64, 0x11, 0, 0, 1, 0, 42, 0, 0x21],
    &[0x88, 0x47, 0, 1, 1, 64],
    &[0, 48, 0xaa, 0xaa, 3, 0, 0, 0, 8, 0],
    &[0x88, 0xb5],
];

/// A frame with a packet of UDP of a flow, with a number at its end.
fn frame(front: &[u8], bytes: usize, flow: u8, ecn: u8, number: u32) -> Vec<u8> {
    let mut packet = vec![0x45, ecn];
    let packet_bytes = (bytes - 12 - front.len()) as u16;
    packet.extend(packet_bytes.to_be_bytes());
    packet.extend([0, 9, 0, 0, 64, 17, 0, 0, 198, 18, 0, flow, 192, 0, 2, 1, 0, 7, 0, flow]);
    packet.extend((packet_bytes - 20).to_be_bytes());
    packet.resize(usize::from(packet_bytes) - 4, 0);
    packet.extend(number.to_be_bytes());
    weir_packet::checksum::write_ipv4(&mut packet[..20]);
    [&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1], front, &packet].concat()
}

/// The packets that came out: the look at which each did, its number and its ECN field.
type Out = Vec<(u64, u32, u8)>;

fn out(look: u64, frame: &[u8]) -> (u64, u32, u8) {
    (look, u32::from_be_bytes(*frame.last_chunk().unwrap()), weir_packet::ecn::bits(frame))
}

struct Bottleneck {
    bridge: Bridge,
    left: MemoryEnd,
    right: MemoryEnd,
}

impl Bottleneck {
    fn new(lines: &[(&str, &str)], seed: u64) -> Bottleneck {
        let mut settings = Settings { seed, ..Settings::default() };
        for (name, value) in lines {
            settings.set(name, value).unwrap_or_else(|error| panic!("{name} {value}: {error}"));
        }
        let ((one, left), (other, right)) = (Memory::new().unwrap(), Memory::new().unwrap());
        let pool = Pool::new(4096, 1514).unwrap();
        let bridge = Bridge::new([Box::new(one), Box::new(other)], pool, settings, false).unwrap();
        Bottleneck { bridge, left, right }
    }

    fn look(&mut self, look: u64, arrived: &[Vec<u8>], left: &mut Out) {
        arrived.iter().for_each(|frame| assert!(self.left.send(frame)));
        while self.bridge.turn(&Clock::Set(STEP * look)).unwrap() {}
        left.extend(std::iter::from_fn(|| self.right.receive()).map(|frame| out(look, &frame)));
    }
}

struct Stage {
    plane: Plane,
    kept: HashMap<Ticket, Vec<u8>>,
}

impl Stage {
    fn new(arguments: &str, seed: u64) -> Stage {
        let file = |name: &str| std::fs::read_to_string(name).map_err(|error| error.to_string());
        let mut beside = Beside { item: &mut |_, _| false, file: &file };
        let text = format!("lan > queue({arguments}) > wan");
        let mut config = Config::read_with("n", &text, &mut beside).unwrap_or_else(|wrong| panic!("{wrong}"));
        config.seed = seed;
        Stage { plane: Plane::new(&config, &[[2; 6], [4; 6]]), kept: HashMap::new() }
    }

    fn look(&mut self, look: u64, arrived: &[Vec<u8>], left: &mut Out) {
        let now = weir_plane::Time::from_ns((STEP * look).ns());
        for frame in arrived {
            let mut buf = [&[0; HEAD_ROOM], &frame[..]].concat();
            let (end, mut batch) = (buf.len(), Batch::default());
            batch.push(Frame::new(&mut buf, HEAD_ROOM, end, PortId(0)));
            self.plane.run(now, &mut batch);
            for (frame, verdict) in batch.outcome() {
                let Verdict::Kept(ticket) = verdict else { panic!("{verdict:?}") };
                self.kept.insert(ticket, frame.bytes().to_vec());
            }
        }
        while self.plane.tick(now) {}
        while let Some(emitted) = self.plane.next_emitted() {
            let (Emitted::Free(ticket) | Emitted::Back(ticket)) = emitted;
            let mut buf = [&[0; HEAD_ROOM], &self.kept.remove(&ticket).unwrap()[..]].concat();
            if matches!(emitted, Emitted::Free(_)) {
                continue;
            }
            let (end, mut batch) = (buf.len(), Batch::default());
            batch.push_kept(Frame::new(&mut buf, HEAD_ROOM, end, PortId(0)), ticket);
            self.plane.resume(now, &mut batch);
            left.extend(batch.outcome().map(|(frame, _)| out(look, frame.bytes())));
        }
        assert!(self.plane.accounting().balance(), "{:?}", self.plane.accounting());
    }
}

#[test]
fn a_stage_does_what_a_bottleneck_does() {
    let folder = weir_testkit::Folder::new();
    let trace = folder.file("rates", "0 10mbit\n0.2 2mbit\n0.25 0\n0.3 30mbit\n0.4 repeat\n");
    let trace = format!("trace:{}", trace.display());
    let rates = ["10mbit", "wifi:10mbit", "lte:10mbit", &trace];
    let behind = [
        vec![("delay", "1ms")],
        vec![
            ("delay", "20ms"),
            ("path", "198.18.0.2/32=3ms"),
            ("path", "198.18.0.3/32=40ms"),
            ("jitter", "2ms"),
        ],
        vec![("delay", "3ms"), ("loss", "2%"), ("burst", "3"), ("reorder", "5%"), ("reorder-by", "4ms")],
    ];
    let queues = weir_queue::Config::catalogue().into_iter().filter(|(_, queue)| !queue.needs_values());
    for (n, (aqm, _)) in queues.enumerate() {
        let (rate, behind) = (rates[n % rates.len()], &behind[n % behind.len()]);
        let seed = n as u64;
        let lines = [&[("rate", rate), ("buffer", "60kB"), ("aqm", aqm)], &behind[..]].concat();
        let mut bottleneck = Bottleneck::new(&lines, seed);
        let more: Vec<String> = behind.iter().map(|(name, value)| format!("{name} {value}")).collect();
        let arguments = format!("outward {rate}, limit 60kB, aqm {aqm}, {}", more.join(", "));
        let mut stage = Stage::new(&arguments, seed);
        let (mut rng, mut number) = (Rng::new(seed), 0);
        let (mut expected, mut left) = (Vec::new(), Vec::new());
        for look in 0..20_000 {
            let mut arrived = Vec::new();
            for _ in 0..if rng.below(12) == 0 { rng.below(4) } else { 0 } {
                let (bytes, flow) = (1514 - rng.below(2) * 1000, 1 + rng.below(4) as u8);
                let front = FRONTS[rng.below(FRONTS.len())];
                arrived.push(frame(front, bytes, flow, rng.below(4) as u8, number));
                number += 1;
            }
            bottleneck.look(look, &arrived, &mut expected);
            stage.look(look, &arrived, &mut left);
            assert_eq!(left, expected, "{aqm}: {arguments}");
            if look % 1000 == 999 {
                left.clear();
                expected.clear();
            }
        }
        let outcome = bottleneck.bridge.outcome(STEP * 20_000).unwrap();
        let there = &outcome.directions[0];
        let [counts, _] = &stage.plane.queue_counts()[..] else { panic!("both directions") };
        assert_eq!(
            (counts.marked, counts.behind),
            (there.marked, Some((there.delayed, there.lost))),
            "{aqm}"
        );
        assert!(there.unread > 100, "{aqm}: {}", there.unread);
        assert_eq!(counts.dropped, there.dropped.values().sum::<u64>(), "{aqm}");
        assert!(counts.sent.0 > 500 && counts.dropped > 500, "{aqm}: {counts:?}");
    }
}
