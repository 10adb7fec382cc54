//! A bottleneck between two wires in memory, on a clock that the test sets, beside independent models that get the same arrivals.

use std::collections::VecDeque;

use weir_bottleneck::{Bridge, Clock, Entry, Settings};
use weir_port::duplex::{Memory, MemoryEnd, Pool};
use weir_queue::{Bottleneck, Config, Time};
use weir_rng::Rng;

struct Bed {
    bridge: Bridge,
    left: MemoryEnd,
    right: MemoryEnd,
}

fn settings(lines: &[(&str, &str)]) -> Settings {
    let mut settings = Settings::default();
    for (name, value) in lines {
        settings.set(name, value).unwrap_or_else(|error| panic!("{name} {value}: {error}"));
    }
    settings
}

fn bed(settings: &Settings) -> Bed {
    let ((one, left), (other, right)) = (Memory::new().unwrap(), Memory::new().unwrap());
    let pool = Pool::new(4096, 1514).unwrap();
    let bridge = Bridge::new([Box::new(one), Box::new(other)], pool, settings.clone(), true).unwrap();
    Bed { bridge, left, right }
}

impl Bed {
    fn turn(&mut self, now: Time) {
        while self.bridge.turn(&Clock::Set(now)).unwrap() {}
    }
}

/// A frame of UDP of a flow, with a number in it.
fn frame(bytes: usize, flow: u8, ecn: u8, number: u32) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, ecn];
    frame.extend((bytes as u16 - 14).to_be_bytes());
    frame.extend([0, 9, 0, 0, 64, 17, 0, 0, 198, 18, 0, flow, 192, 0, 2, 1, 0, 7, 0, flow, 0, 0, 0, 0]);
    frame.extend(number.to_be_bytes());
    frame.resize(bytes, 0);
    frame
}

fn number_of(frame: &[u8]) -> u32 {
    u32::from_be_bytes(frame[42..46].try_into().unwrap())
}

/// Taildrop on a link, as one would write it on paper; accepted frames and when their last bit has left, in ps.
#[derive(Default)]
struct Paper {
    waiting: VecDeque<(u32, u64)>,
    bytes: u64,
    free_ps: u64,
    remainder: u64,
    left: Vec<(u32, u64)>,
}

impl Paper {
    fn advance(&mut self, until_ps: u64, bits_per_s: u64, arrived_ps: u64) {
        while let Some(&(number, bytes)) = self.waiting.front() {
            let start = self.free_ps.max(arrived_ps);
            if start > until_ps {
                return;
            }
            self.waiting.pop_front();
            self.bytes -= bytes;
            let parts = u128::from(bytes) * 8_000_000_000_000 + u128::from(self.remainder);
            self.remainder = (parts % u128::from(bits_per_s)) as u64;
            self.free_ps = start + (parts / u128::from(bits_per_s)) as u64;
            self.left.push((number, self.free_ps));
        }
    }
}

#[test]
fn taildrop_is_exact_to_the_byte_and_departures_to_the_picosecond() {
    const BITS: u64 = 9_999_991;
    let delay = Time::from_us(3_333);
    for limit in [1514, 1515, 4542, 20_000, 60_001] {
        let settings =
            settings(&[("rate", &BITS.to_string()), ("delay", "3333us"), ("buffer", &limit.to_string())]);
        let (mut bed, mut paper, mut rng) = (bed(&settings), Paper::default(), Rng::new(limit));
        let (mut now, mut number, mut got) = (Time::ZERO, 0, Vec::new());
        let mut last_arrival = 0;
        while now < Time::from_ms(400) {
            now += Time::from_ps((rng.unit() * 2e9) as u64);
            for _ in 0..rng.below(6) {
                let bytes = 60 + rng.below(1455);
                assert!(bed.left.send(&frame(bytes, 1, 0, number)));
                paper.advance(now.ps(), BITS, last_arrival);
                last_arrival = now.ps();
                if paper.bytes + bytes as u64 <= limit {
                    paper.bytes += bytes as u64;
                    paper.waiting.push_back((number, bytes as u64));
                }
                number += 1;
            }
            bed.turn(now);
            while let Some(frame) = bed.right.receive() {
                got.push((number_of(&frame), now));
            }
        }
        paper.advance(now.ps(), BITS, last_arrival);
        let due: Vec<(u32, Time)> =
            paper.left.iter().map(|&(number, ps)| (number, Time::from_ps(ps) + delay)).collect();
        let there = due.iter().filter(|(_, at)| *at <= now).count();
        assert!(there > 100 && got.len() == there, "limit {limit}: {} of {there}", got.len());
        for (&(number, at), &(expected, due)) in got.iter().zip(&due) {
            assert!(
                number == expected && at >= due,
                "limit {limit}: frame {number}, not {expected}, {at:?} {due:?}"
            );
        }
        let outcome = bed.bridge.outcome(now).unwrap();
        let there = &outcome.directions[0];
        assert_eq!((there.unexplained, there.entered), (0, u64::from(number)));
        assert_eq!(there.port_drops.len(), 0);
    }
}

/// The queue by itself in front of a link, as the simulator drives it.
fn simulated(entries: &[Entry], config: &Config, at: &Bottleneck) -> Vec<(Option<u64>, bool)> {
    let mut queue = config.build::<usize>(at).unwrap();
    let mut pace = weir_queue::Pace::new(at.bits_per_s);
    let (mut free, mut now) = (Time::ZERO, Time::ZERO);
    let mut outcomes = vec![(None, false); entries.len()];
    for (number, entry) in entries.iter().enumerate() {
        let arrives = Time::from_ps(entry.at_ps);
        while let Some(start) = queue.due(now).map(|due| due.max(free)).filter(|&start| start <= arrives) {
            now = start;
            if let Some(packet) = queue.take(start) {
                outcomes[packet.payload].0 = Some(start.ps());
                free = start + pace.slot(packet.bytes.into());
            }
        }
        now = arrives;
        queue.offer(entry.packet(number), arrives);
        queue.dropped().drain(..).for_each(|drop| outcomes[drop.packet.payload].1 = true);
    }
    outcomes
}

#[test]
fn every_queue_does_what_it_does_in_the_simulator() {
    for (name, config) in Config::catalogue() {
        let settings = settings(&[("rate", "10mbit"), ("delay", "1ms"), ("buffer", "60kB"), ("aqm", name)]);
        let (mut bed, mut rng, mut now) = (bed(&settings), Rng::new(11), Time::ZERO);
        for number in 0..6000 {
            now += Time::from_ps((rng.unit() * 1.4e9) as u64);
            bed.left.send(&frame(
                1514 - rng.below(2) * 1000,
                1 + rng.below(5) as u8,
                rng.below(4) as u8,
                number,
            ));
            bed.turn(now);
            while bed.right.receive().is_some() {}
        }
        let entries = bed.bridge.log(0).unwrap().entries();
        let expected = simulated(entries, &config, &settings.bottleneck(0).unwrap());
        let dropped = entries.iter().filter(|entry| entry.dropped).count();
        assert!(entries.len() == 6000 && dropped > 5, "{name}: {dropped} dropped");
        let last = entries.last().unwrap().at_ps;
        for (number, (entry, expected)) in entries.iter().zip(&expected).enumerate() {
            // What starts behind the last arrival, the model does not see.
            if entry.starts_ps.is_none_or(|at| at < last) && expected.0.is_none_or(|at| at < last) {
                assert_eq!((entry.starts_ps, entry.dropped), *expected, "{name}: packet {number}");
            }
        }
        assert_eq!(bed.bridge.outcome(now).unwrap().directions[0].unexplained, 0, "{name}");
    }
}

#[test]
fn delay_lines_lose_nothing_and_paths_have_their_own() {
    let settings = settings(&[
        ("rate", "10gbit"),
        ("back-rate", "none"),
        ("delay", "50ms"),
        ("path", "198.18.0.2/32=10ms"),
        ("buffer", "10M"),
        ("jitter", "2ms"),
    ]);
    let mut bed = bed(&settings);
    let mut came = [const { Vec::new() }; 2];
    for ms in 0..200_u64 {
        for flow in [1, 2] {
            if ms < 100 {
                assert!(bed.left.send(&frame(100, flow, 0, ms as u32)));
                assert!(bed.right.send(&frame(100, flow, 0, ms as u32)));
            }
        }
        bed.turn(Time::from_ms(ms));
        for (end, came) in [&bed.right, &bed.left].into_iter().zip(&mut came) {
            while let Some(frame) = end.receive() {
                came.push((frame[29], number_of(&frame), ms));
            }
        }
    }
    for came in &came {
        for (flow, delay) in [(1, 50), (2, 10)] {
            let own: Vec<_> = came.iter().filter(|one| one.0 == flow).collect();
            assert!(own.iter().map(|one| one.1).eq(0..100), "flow {flow} in its order: {own:?}");
            for (_, sent, at) in own {
                assert!((delay..=delay + 3).contains(&(at - u64::from(*sent))), "{flow} {sent} {at}");
            }
        }
    }
}

#[test]
fn the_rate_is_exact_over_a_long_time_and_changes_when_it_is_told_to() {
    let settings = settings(&[("rate", "33333333"), ("delay", "1ms"), ("buffer", "100kB")]);
    let mut bed = bed(&settings);
    let offer = |bed: &mut Bed, from: u64, to: u64| {
        for ms in from..to {
            (0..4).for_each(|i| assert!(bed.left.send(&frame(1514, 1, 0, i))));
            bed.turn(Time::from_ms(ms));
            while bed.right.receive().is_some() {}
        }
        bed.bridge.outcome(Time::from_ms(to)).unwrap().directions[0].link_bytes
    };
    let bytes = offer(&mut bed, 0, 10_000);
    let exact = 33_333_333.0 / 8.0 * 10.0;
    assert!((bytes as f64 / exact - 1.0).abs() < 1e-3, "{bytes} of {exact}");
    bed.bridge.change("rate", "10mbit", Time::from_s(10)).unwrap();
    let slower = offer(&mut bed, 10_000, 20_000) - bytes;
    assert!((slower as f64 / 12.5e6 - 1.0).abs() < 2e-3, "{slower}");
    for (name, value) in [("aqm", "codel"), ("buffer", "20ms"), ("aqm", "fq-codel"), ("loss", "1%")] {
        bed.bridge.change(name, value, Time::from_s(20)).unwrap();
    }
    offer(&mut bed, 20_000, 21_000);
    let there = &bed.bridge.outcome(Time::from_s(21)).unwrap().directions[0];
    assert!(there.unexplained == 0 && there.lost > 0, "{there:?}");
    assert!(bed.bridge.change("aqm", "none", Time::from_s(21)).unwrap_err().contains("is no queue"));
    assert!(bed.bridge.change("back-rate", "none", Time::from_s(21)).unwrap_err().contains("cannot change"));
}

#[test]
fn a_late_program_is_reported_and_drops_the_same() {
    let settings = settings(&[("rate", "10mbit"), ("delay", "1ms"), ("buffer", "5000")]);
    let mut bed = bed(&settings);
    (0..5).for_each(|number| assert!(bed.left.send(&frame(1000, 1, 0, number))));
    bed.turn(Time::from_ms(1));
    bed.turn(Time::from_ms(50));
    let outcome = bed.bridge.outcome(Time::from_ms(50)).unwrap();
    assert!(!outcome.valid && outcome.invalid[0].contains("late"), "{outcome:?}");
    assert_eq!((outcome.directions[0].sent, outcome.directions[0].dropped.len()), (5, 0));
}

#[test]
fn marks_are_in_the_frames() {
    let settings = settings(&[("rate", "1mbit"), ("delay", "0"), ("buffer", "1M"), ("aqm", "codel")]);
    let mut bed = bed(&settings);
    let mut marked = 0;
    for ms in 0..2000_u64 {
        bed.left.send(&frame(500, 1, 2, ms as u32));
        bed.turn(Time::from_ms(ms));
        while let Some(frame) = bed.right.receive() {
            marked += u64::from(frame[15] & 3 == 3);
        }
    }
    let there = &bed.bridge.outcome(Time::from_s(2)).unwrap().directions[0];
    assert!(marked > 3 && there.marked.abs_diff(marked) <= 1, "{marked} of {}", there.marked);
}
