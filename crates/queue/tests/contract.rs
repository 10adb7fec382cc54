//! What every queue promises, whatever its AQM: conservation, a limit that is exact, order within a flow, determinism.

use weir_queue::{Bottleneck, Config, Dropped, Ecn, Packet, Queue, Reason, Time};
use weir_rng::Rng;

const AT: Bottleneck = Bottleneck { limit_bytes: 30_000, bits_per_s: 10_000_000, seed: 3 };

/// A number, and when it arrived: what no queue may change.
type Handle = (u64, Time);

fn packet(rng: &mut Rng, index: u64, now: Time) -> Packet<Handle> {
    let mut packet = Packet::new(40 + rng.below(1475) as u32, rng.below(12) as u32, (index, now));
    packet.source = packet.flow % 5;
    packet.destination = packet.flow % 2;
    packet.ecn = Ecn::from_bits(packet.flow as u8);
    packet.value = rng.below(1024) as u16;
    packet
}

/// What a run left behind.
#[derive(Default, PartialEq, Debug)]
struct Trace {
    taken: Vec<Packet<Handle>>,
    dropped: Vec<Dropped<Handle>>,
}

/// 20,000 calls at random times; `each` sees the queue after each.
fn run(name: &str, config: &Config, seed: u64, mut each: impl FnMut(&dyn Queue<Handle>, &Trace)) -> Trace {
    let mut queue = config.build(&AT).unwrap_or_else(|error| panic!("{name}: {error}"));
    let mut rng = Rng::new(seed);
    let (mut now, mut trace) = (Time::ZERO, Trace::default());
    for index in 0..20_000 {
        now += Time::from_us(rng.below(if index % 4000 < 2000 { 700 } else { 1500 }) as u64);
        if rng.below(5) < 3 {
            queue.offer(packet(&mut rng, index, now), now);
        } else {
            trace.taken.extend(queue.take(now));
        }
        trace.dropped.append(queue.dropped());
        each(queue.as_ref(), &trace);
    }
    while let Some(due) = queue.due(now) {
        now = due + Time::from_us(800);
        trace.taken.extend(queue.take(now));
        trace.dropped.append(queue.dropped());
    }
    each(queue.as_ref(), &trace);
    assert_eq!(queue.backlog().packets, 0, "{name}: something stays");
    assert!(queue.take(now).is_none() && queue.due(now).is_none(), "{name}: an empty queue has something");
    trace
}

fn every_queue(check: impl Fn(&str, &Config)) {
    for (name, config) in Config::catalogue() {
        check(name, &config);
    }
}

#[test]
fn every_packet_is_taken_dropped_or_queued() {
    every_queue(|name, config| {
        let trace = run(name, config, 1, |queue, trace| {
            let (counters, backlog) = (queue.counters(), queue.backlog());
            let dropped_bytes: u64 = counters.dropped.iter().map(|tally| tally.bytes).sum();
            let packets = counters.taken.packets + counters.dropped_packets() + backlog.packets;
            assert_eq!(counters.offered.packets, packets, "{name}");
            assert_eq!(
                counters.offered.bytes,
                counters.taken.bytes + dropped_bytes + backlog.bytes,
                "{name}"
            );
            assert_eq!(counters.taken.packets as usize, trace.taken.len(), "{name}");
            assert_eq!(counters.dropped_packets() as usize, trace.dropped.len(), "{name}");
        });
        let mut seen: Vec<u64> = trace.taken.iter().map(|packet| packet.payload.0).collect();
        seen.extend(trace.dropped.iter().map(|drop| drop.packet.payload.0));
        let all = seen.len();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), all, "{name}: a packet came out twice");
        assert!(trace.taken.len() > 5000 && trace.dropped.len() > 100, "{name}: the test tests little");
    });
}

#[test]
fn the_limit_is_exact_to_the_byte() {
    every_queue(|name, config| {
        run(name, config, 2, |queue, _| {
            assert!(queue.backlog().bytes <= AT.limit_bytes, "{name}: {:?}", queue.backlog());
        });
        // a burst into an empty queue: the last byte is used, one byte more is not there
        for (last, fits) in [(1000, true), (1001, false)] {
            let mut queue = config.build(&AT).unwrap();
            for index in 0..30 {
                let bytes = if index == 29 { last } else { 1000 };
                queue.offer(Packet::new(bytes, index, (0, Time::ZERO)), Time::ZERO);
            }
            assert_eq!(queue.dropped().is_empty(), fits, "{name}: burst of {}", 29_000 + last);
            let expected = if fits { Time::ZERO } else { Time::MAX };
            assert_eq!(queue.backlog().bytes == AT.limit_bytes, expected == Time::ZERO, "{name}");
        }
        let mut queue = config.build(&AT).unwrap();
        queue.offer(Packet::new(30_001, 0, (0, Time::ZERO)), Time::ZERO);
        assert_eq!(
            queue.dropped().pop().map(|drop| drop.reason),
            Some(Reason::Overflow),
            "{name}: too large"
        );
    });
}

#[test]
fn flows_keep_their_order_and_packets_their_arrival() {
    every_queue(|name, config| {
        let trace = run(name, config, 3, |_, _| {});
        let mut last = [0; 12];
        for packet in &trace.taken {
            let (index, at) = packet.payload;
            let last = &mut last[packet.flow as usize];
            // flows with CE have two queues in DualPI2: each flow of this test has one codepoint
            assert!(index >= *last, "{name}: packet {index} of flow {} left after {last}", packet.flow);
            assert_eq!(packet.arrival, at, "{name}: the arrival of packet {index} was changed");
            *last = index;
        }
    });
}

#[test]
fn only_packets_that_know_ecn_are_marked_and_each_mark_is_counted() {
    every_queue(|name, config| {
        let was = |packet: &Packet<Handle>| Ecn::from_bits(packet.flow as u8);
        let mut marked = 0;
        let trace = run(name, config, 4, |queue, _| marked = queue.counters().marked);
        let mut changed = 0;
        for packet in trace.taken.iter().chain(trace.dropped.iter().map(|drop| &drop.packet)) {
            if packet.ecn != was(packet) {
                assert!(was(packet).capable() && packet.ecn == Ecn::Ce, "{name}: {packet:?}");
                changed += 1;
            }
        }
        assert!(marked >= changed, "{name}: {changed} packets were marked, {marked} were counted");
        let never = ["fifo", "pie-basic", "ppv-drop-min"];
        assert_eq!(changed == 0, never.contains(&name), "{name}: {changed} marks");
    });
}

#[test]
fn the_same_calls_give_the_same_drops() {
    every_queue(|name, config| {
        let runs = [5, 5, 6].map(|seed| run(name, config, seed, |_, _| {}));
        assert!(runs[0] == runs[1], "{name}: two runs differ");
        assert!(runs[0] != runs[2], "{name}: other arrivals make no difference");
    });
}

#[test]
fn settings_survive_a_file_and_wrong_ones_are_rejected() {
    every_queue(|name, config| {
        let text = serde_json::to_string(config).unwrap();
        assert_eq!(serde_json::from_str::<Config>(&text).unwrap(), *config, "{name}: {text}");
    });
    assert_eq!(serde_json::from_str::<Config>(r#"{"kind":"pie"}"#).unwrap(), Config::named("pie").unwrap());
    for text in [r#"{"kind":"pie","target":1}"#, r#"{"kind":"pie","target_s":-1}"#, r#"{"kind":"pi"}"#] {
        assert!(serde_json::from_str::<Config>(text).is_err(), "{text} is read");
    }
    for (text, says) in [
        (r#"{"kind":"pie","update_s":0}"#, "pie: update_s must be at least 1e-6"),
        (r#"{"kind":"red","max_p":1.5}"#, "red: max_p is 1.5: it must be 0 to 1"),
        (r#"{"kind":"red","min_bytes":9,"max_bytes":9}"#, "red: min_bytes 9 must be below max_bytes 9"),
        (r#"{"kind":"cake","queues":4}"#, "cake: queues must be a multiple of 8, 8 to 65536"),
        (
            r#"{"kind":"dualpi2","weight_classic":16}"#,
            "dualpi2: weight_classic must be above 0 and below weight_of",
        ),
        (r#"{"kind":"gsp","threshold":{"share":2.0}}"#, "gsp: threshold is 2: it must be 0 to 1"),
    ] {
        let config: Config = serde_json::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let error = config.build::<()>(&AT).map(|_| ()).unwrap_err();
        assert_eq!(error.to_string(), says, "{text}");
    }
}
