//! Streams in virtual time, and the reported events.

use std::net::{IpAddr, Ipv4Addr};

use weir_packet::headers::{ACK, SYN, TCP, UDP};

use super::*;

const S: u64 = 1_000_000_000;
/// Not at the beginning of a slot.
const T0: u64 = 1_000_000 * S + 137_000_000;

/// One stream of frames at even distances.
#[derive(Clone, Copy)]
struct Stream {
    headers: Headers,
    bytes: u32,
    pps: u64,
    /// Since T0, ms.
    from_ms: u64,
    to_ms: u64,
    /// So many sources alternate.
    sources: u32,
}

fn udp(dst: [u8; 4]) -> Headers {
    Headers {
        src: [203, 0, 113, 1].into(),
        dst: dst.into(),
        protocol: UDP,
        ports: (53, 4000),
        tcp_flags: 0,
        later_fragment: false,
        is_cut: false,
        header_bytes: 42,
    }
}

fn stream(dst: [u8; 4], pps: u64, from_ms: u64, to_ms: u64) -> Stream {
    Stream { headers: udp(dst), bytes: 96, pps, from_ms, to_ms, sources: 1 }
}

fn engine(config: &str) -> Engine {
    let config = Config::read("test", config).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    Engine::new(config, [0x1234, 0x5678])
}

/// Runs streams through an engine until `to_ms` after T0.
fn run(engine: &mut Engine, streams: &[Stream], to_ms: u64) -> Vec<Event> {
    let mut frames = Vec::new();
    for stream in streams {
        let gap = S / stream.pps;
        let count = (stream.to_ms - stream.from_ms) * stream.pps / 1000;
        for n in 0..count {
            let mut headers = stream.headers;
            if let IpAddr::V4(src) = headers.src {
                headers.src = Ipv4Addr::from(u32::from(src) + (n % u64::from(stream.sources)) as u32).into();
            }
            frames.push((T0 + stream.from_ms * 1_000_000 + n * gap, headers, stream.bytes));
        }
    }
    frames.sort_by_key(|(at, ..)| *at);
    let mut events = Vec::new();
    for (at, headers, bytes) in frames {
        engine.frame(headers, bytes, at, &mut events);
    }
    engine.advance(T0 + to_ms * 1_000_000, &mut events);
    events
}

const LIMIT_20K: &str =
    "networks = [\"198.18.0.0/15\"]\n[in]\npps = \"20k\"\n[events]\nend_s = 2\nupdate_s = 3\n";
const VICTIM: [u8; 4] = [198, 18, 0, 9];

#[test]
fn the_first_event_comes_in_time_and_has_the_true_rate() {
    // From just above the limit to far above, at all phases of a slot.
    for pps in [20_200, 25_000, 40_000, 100_000, 400_000] {
        for phase_ms in [0, 60, 113, 170, 249] {
            let attack = stream(VICTIM, pps, 2000 + phase_ms, 5000 + phase_ms);
            let calm = stream(VICTIM, 100, 0, 5000);
            let events = run(&mut engine(LIMIT_20K), &[attack, calm], 5000);
            let first = events.first().unwrap_or_else(|| panic!("{pps} at {phase_ms}: nothing"));
            assert_eq!((first.event, first.host), (Kind::Start, Some(VICTIM.into())));
            let off = first.rates.pps / (pps + 100) as f64;
            assert!((0.98..1.02).contains(&off), "{pps} at {phase_ms}: {off}");
            let begin = T0 + (2000 + phase_ms) * 1_000_000;
            // Half a second and the slot that it began in; where the limit is near, the whole second.
            let (latest_ms, longest_s) = if pps >= 100_000 { (600, 0.6) } else { (1200, 1.0) };
            assert!(first.time_ns <= begin + latest_ms * 1_000_000, "{pps} at {phase_ms}");
            assert!(
                (0.5..=longest_s).contains(&first.measured_s),
                "{pps} at {phase_ms}: {}",
                first.measured_s
            );
            assert!(first.peak_pps <= first.rates.pps, "no second was faster");
            assert!(
                first.crossed_ns >= begin && first.time_ns - first.crossed_ns <= S,
                "{pps} at {phase_ms}"
            );
        }
    }
}

#[test]
fn what_stays_below_its_limit_is_not_reported() {
    let near = stream(VICTIM, 19_500, 0, 6000);
    // 0.3 s at three times the limit is less than the limit over a second.
    let burst = stream([198, 18, 0, 10], 60_000, 2000, 2300);
    let foreign = stream([198, 20, 0, 1], 100_000, 0, 2000);
    let mut engine = engine(LIMIT_20K);
    assert_eq!(run(&mut engine, &[near, burst, foreign], 9000), []);
    let status = engine.status();
    assert_eq!((status.foreign, status.attacks), (200_000, 0));
    assert_eq!(status.frames, 19_500 * 6 + 18_000 + 200_000);
}

#[test]
fn a_burst_is_reported_as_what_it_was_over_a_second() {
    let burst = stream(VICTIM, 200_000, 2000, 2300);
    let events = run(&mut engine(LIMIT_20K), &[burst], 9000);
    let [start, end] = &events[..] else { panic!("{events:?}") };
    assert_eq!((start.event, end.event), (Kind::Start, Kind::End));
    for event in [start, end] {
        assert_eq!((event.measured_s, event.peak_pps, event.frames), (1.0, 60_000.0, 60_000), "{event:?}");
    }
    assert_eq!(start.rates.pps, 60_000.0);
}

#[test]
fn pulses_with_pauses_between_them_are_watched() {
    // 3000 frames within 50 ms, ten times in 3 s: 10,000 frames/s.
    let pulses: Vec<_> = (0..10).map(|n| stream(VICTIM, 60_000, n * 300, n * 300 + 50)).collect();
    let limit = "networks = [\"198.18.0.0/15\"]\n[in]\npps = 8000\n";
    let events = run(&mut engine(limit), &pulses, 3000);
    let [start] = &events[..] else { panic!("{events:?}") };
    assert!((9000.0..=12_000.0).contains(&start.rates.pps), "{start:?}");
}

#[test]
fn an_attack_is_reported_of_until_it_is_over_by_the_margin() {
    // 17 k is below the limit, but above 80 % of it: the attack goes on.
    let streams = [
        stream(VICTIM, 30_000, 1000, 6000),
        stream(VICTIM, 17_000, 6000, 10_000),
        stream(VICTIM, 1000, 10_000, 15_000),
    ];
    let mut engine = engine(LIMIT_20K);
    let events = run(&mut engine, &streams, 15_000);
    let kinds: Vec<_> = events.iter().map(|event| event.event).collect();
    assert_eq!(kinds, [Kind::Start, Kind::Update, Kind::Update, Kind::Update, Kind::End]);
    let end = events.last().expect("an end");
    assert!(events.iter().all(|event| event.attack == 1));
    assert!((30_000.0..=30_001.0).contains(&end.peak_pps), "{}", end.peak_pps);
    // From its first whole slot to the end: 5 s and 4 s, and two seconds of hysteresis at most.
    let all = 30_000 * 5 + 17_000 * 4;
    assert!((all - 7500..all + 4000).contains(&end.frames), "{}", end.frames);
    assert_eq!(end.bytes, end.frames * 96);
    assert_eq!(engine.status().attacks, 0);
    // And again later: a new one.
    let again = run(&mut engine, &[stream(VICTIM, 30_000, 20_000, 22_000)], 23_000);
    assert_eq!((again[0].event, again[0].attack), (Kind::Start, 2));
}

#[test]
fn each_metric_has_its_limit_and_each_direction_its_own() {
    let tcp = |flags| Headers { protocol: TCP, tcp_flags: flags, ..udp(VICTIM) };
    let fragment = Headers { ports: (0, 0), later_fragment: true, ..udp(VICTIM) };
    let outwards = Headers { src: VICTIM.into(), dst: [203, 0, 113, 1].into(), ..udp(VICTIM) };
    let icmp = Headers { protocol: 1, ..udp(VICTIM) };
    for (limit, headers, metric, rate) in [
        ("[in]\nudp_pps = 2000", udp(VICTIM), Metric::UdpPps, 3000.0),
        ("[in]\ntcp_pps = 2000", tcp(ACK), Metric::TcpPps, 3000.0),
        ("[in]\nsyn_pps = 2000", tcp(SYN), Metric::SynPps, 3000.0),
        ("[in]\nsyn_share = 0.9", tcp(SYN), Metric::SynShare, 1.0),
        ("[in]\nicmp_pps = 2000", icmp, Metric::IcmpPps, 3000.0),
        ("[in]\nfragment_pps = 2000", fragment, Metric::FragmentPps, 3000.0),
        ("[in]\nbits_per_s = \"2M\"", udp(VICTIM), Metric::BitsPerS, 3000.0 * 96.0 * 8.0),
        ("[in]\nflows_per_s = 2000", udp(VICTIM), Metric::FlowsPerS, 3000.0),
        ("[out]\npps = 2000", outwards, Metric::Pps, 3000.0),
    ] {
        let config = format!("networks = [\"198.18.0.0/15\"]\n{limit}\n");
        let sources = if limit.starts_with("[out]") { 1 } else { 60_000 };
        let attack = Stream { headers, sources, ..stream(VICTIM, 3000, 500, 3000) };
        let events = run(&mut engine(&config), &[attack], 3000);
        let [start] = &events[..] else { panic!("{limit}: {events:?}") };
        let expected = if limit.starts_with("[out]") { Direction::Out } else { Direction::In };
        assert_eq!((start.metric, start.direction), (metric, expected), "{limit}");
        let off = start.rates.get(metric) / rate;
        assert!((0.98..1.02).contains(&off), "{limit}: {}", start.rates.get(metric));
    }
    // The same flow again and again is one new flow.
    let few = "networks = [\"198.18.0.0/15\"]\n[in]\nflows_per_s = 2000\n";
    assert_eq!(run(&mut engine(few), &[stream(VICTIM, 30_000, 0, 3000)], 3000), []);
    let answers = Stream { headers: tcp(SYN | ACK), ..stream(VICTIM, 30_000, 0, 3000) };
    let syn = "networks = [\"198.18.0.0/15\"]\n[in]\nsyn_pps = 2000\nsyn_share = 0.5\n";
    assert_eq!(run(&mut engine(syn), &[answers], 3000), []);
}

#[test]
fn groups_have_limits_of_their_own_and_of_all_together() {
    let config = "networks = [\"198.18.0.0/15\"]\n[in]\npps = \"5k\"\n[[group]]\nname = \"web\"\n\
                  prefixes = [\"198.18.1.0/24\"]\nin = { pps = \"50k\" }\ntotal_in = { pps = \"30k\" }\n\
                  [[group]]\nname = \"one\"\nprefixes = [\"198.18.1.7/32\"]\nin = { pps = \"1k\" }\n";
    let hosts = (10..20).map(|n| stream([198, 18, 1, n], 4000, 0, 3000));
    let one = stream([198, 18, 1, 7], 1500, 0, 3000);
    let events = run(&mut engine(config), &hosts.chain([one]).collect::<Vec<_>>(), 3000);
    let reported: Vec<_> = events.iter().map(|e| (e.host, e.group.as_deref(), e.rates.pps.round())).collect();
    let one: IpAddr = [198, 18, 1, 7].into();
    assert_eq!(reported, [(None, Some("web"), 40_000.0), (Some(one), Some("one"), 1500.0)]);
}

#[test]
fn what_is_usual_is_learned_and_judged_by() {
    let config = "networks = [\"198.18.0.0/15\"]\n[baseline]\nfactor = 4\nlearn_s = 20\nfloor_pps = 100\n";
    let busy = [198, 18, 0, 20];
    let streams = [
        stream(busy, 2000, 0, 40_000),
        // Three times the usual is not four times.
        stream(busy, 4000, 30_000, 33_000),
        stream(VICTIM, 300, 0, 40_000),
        stream(VICTIM, 2000, 35_000, 40_000),
    ];
    let events = run(&mut engine(config), &streams, 40_000);
    let [start] = &events[..] else { panic!("{events:?}") };
    assert_eq!((start.host, start.metric, start.limit_learned), (Some(VICTIM.into()), Metric::Pps, true));
    assert!((1200.0..1700.0).contains(&start.limit), "{}", start.limit);
}

#[test]
fn the_evidence_names_what_the_frames_have_in_common() {
    let attack = Stream { sources: 200_000, ..stream(VICTIM, 60_000, 0, 4000) };
    let one = Stream {
        headers: Headers { src: [192, 0, 2, 66].into(), ..udp(VICTIM) },
        ..stream(VICTIM, 40_000, 0, 4000)
    };
    let events = run(&mut engine(LIMIT_20K), &[attack, one], 4000);
    let evidence = &events[0].evidence;
    assert_eq!(evidence.others[0].value.to_string(), "192.0.2.66");
    assert!((0.3..0.45).contains(&evidence.others[0].share), "{evidence:?}");
    assert_eq!((evidence.source_ports[0].value, evidence.protocols[0].value.as_str()), (53, "UDP"));
    assert!(evidence.source_ports[0].share > 0.99 && evidence.frame_bytes[0].value == 96);
}

#[test]
fn losses_make_rates_lower_bounds_for_a_second() {
    let mut engine = engine(LIMIT_20K);
    let mut events = run(&mut engine, &[stream(VICTIM, 30_000, 0, 800)], 800);
    engine.lost(500);
    events.extend(run(&mut engine, &[stream(VICTIM, 30_000, 800, 6000)], 6000));
    assert_eq!((events[0].event, events[0].lost_pps), (Kind::Start, 500.0));
    assert_eq!((events[1].event, events[1].lost_pps), (Kind::Update, 0.0));
    assert_eq!(engine.status().lost, 500);
}

#[test]
fn an_attack_is_found_among_a_million_hosts() {
    let mut engine = engine("networks = [\"10.0.0.0/8\"]\n[in]\npps = \"20k\"\n[memory]\nhosts_mib = 128\n");
    let mut events = Vec::new();
    // 2 s of a million frames/s, each to another host, and one in 25 to the victim: 40,000 frames/s.
    for n in 0..2_000_000_u32 {
        let host = if n % 25 == 0 { 0x0aff_ffff } else { 0x0a00_0000 + n % 1_000_000 };
        let headers = Headers { dst: Ipv4Addr::from(host).into(), ..udp(VICTIM) };
        engine.frame(headers, 60, T0 + u64::from(n) * 1000, &mut events);
    }
    let [start] = &events[..] else { panic!("{events:?}") };
    assert_eq!(start.host, Some(Ipv4Addr::from(0x0aff_ffff).into()));
    assert!((39_990.0..=40_010.0 + start.error_pps).contains(&start.rates.pps), "{start:?}");
    let status = engine.status();
    assert!((959_000..=960_001).contains(&status.hosts) && status.hosts_evicted == 0, "{status:?}");
}

#[test]
fn an_attack_among_more_hosts_than_fit_is_known_with_its_error() {
    let mut engine = engine("networks = [\"10.0.0.0/8\"]\n[in]\npps = \"20k\"\n[memory]\nhosts_mib = 1\n");
    let mut events = Vec::new();
    // 600,000 frames/s, two of three each to another host: 40,000 in a slot, of which 16,384 fit.
    for n in 0..480_000_u32 {
        let host = if n % 3 == 0 { 0x0aff_ffff } else { 0x0a00_0000 + n };
        let headers = Headers { dst: Ipv4Addr::from(host).into(), ..udp(VICTIM) };
        engine.frame(headers, 60, T0 + u64::from(n) * 5000 / 3, &mut events);
    }
    let [start] = &events[..] else { panic!("{events:?}") };
    assert_eq!(start.measured_s, 0.5);
    assert!((1.0..=1000.0).contains(&start.error_pps), "{start:?}");
    assert!((199_990.0..=200_010.0 + start.error_pps).contains(&start.rates.pps), "{start:?}");
    assert!(engine.status().hosts_evicted > 0);
}

#[test]
fn a_pause_of_hours_costs_nothing_and_old_frames_do_no_harm() {
    let mut engine = engine(LIMIT_20K);
    let first = run(&mut engine, &[stream(VICTIM, 30_000, 0, 3000)], 3000);
    assert_eq!(first[0].event, Kind::Start);
    let mut events = Vec::new();
    engine.advance(T0 + 36_000 * S, &mut events);
    assert_eq!(events.last().map(|event| event.event), Some(Kind::End));
    engine.frame(udp(VICTIM), 60, T0, &mut events);
    engine.frame(udp(VICTIM), 60, u64::MAX - 2 * SLOT_NS, &mut events);
    assert_eq!(engine.status().attacks, 0);
}

#[test]
fn the_clock_may_be_set_while_frames_are_counted() {
    // Both ways, and by more than slots have numbers. Groups are watched at all times.
    const YEAR: i64 = 365 * 86_400 * 1_000_000_000;
    let config = &format!("{LIMIT_20K}[total_in]\npps = \"1M\"\n");
    for step in [-3_600_000_000_000, -(T0 as i64), 3_600_000_000_000, 60 * YEAR, 200 * YEAR] {
        let mut engine = engine(config);
        let calm = stream(VICTIM, 1000, 0, 2000);
        assert_eq!(run(&mut engine, &[calm], 2000), []);
        let begin = (T0 + 2 * S).saturating_add_signed(step);
        let mut events = Vec::new();
        for n in 0..60_000_u64 {
            let at_ns = begin + n * S / 30_000;
            // As the program does, each 50 ms and with a lag.
            if n % 1500 == 0 {
                engine.advance(at_ns - S / 10, &mut events);
            }
            engine.frame(udp(VICTIM), 96, at_ns, &mut events);
        }
        let [start] = &events[..] else { panic!("{step}: {events:?}") };
        assert!((29_400.0..30_600.0).contains(&start.rates.pps), "{step}: {start:?}");
        assert!(start.time_ns < begin + 2 * S, "{step}: {start:?}");
        // Where no time can be.
        (0..100).for_each(|n| engine.frame(udp(VICTIM), 96, u64::MAX - n, &mut events));
        engine.advance(u64::MAX, &mut events);
    }
}

#[test]
fn a_time_that_lies_back_is_not_believed_against_the_frames() {
    let mut engine = engine(LIMIT_20K);
    let mut events = Vec::new();
    for n in 0..60_000_u64 {
        let at_ns = T0 + n * S / 30_000;
        if n % 1500 == 0 {
            engine.advance(at_ns - 3600 * S, &mut events);
        }
        engine.frame(udp(VICTIM), 96, at_ns, &mut events);
    }
    assert!(matches!(&events[..], [start] if (29_900.0..30_100.0).contains(&start.rates.pps)), "{events:?}");
}

/// 25,000 frames/s for four seconds, dated by a clock that is set back by 64.9 s in the middle.
fn with_a_step_back(engine: &mut Engine, pps: u64) -> Vec<Event> {
    let mut events = Vec::new();
    for n in 0..4 * pps {
        let is_behind = n >= 2 * pps;
        let at_ns = T0 + n * S / pps - if is_behind { 64_900_000_000 } else { 0 };
        if n == 2 * pps {
            engine.advance(T0 + 2 * S, &mut events);
            engine.set_back(at_ns, &mut events);
        }
        engine.frame(udp(VICTIM), 60, at_ns, &mut events);
    }
    engine.advance(T0 + 4 * S - 64_900_000_000, &mut events);
    events
}

#[test]
fn a_clock_that_is_set_back_makes_no_attack_and_ends_none() {
    let mut calm = engine(LIMIT_20K);
    assert_eq!(with_a_step_back(&mut calm, 19_000), []);
    let [step] = calm.take_steps()[..] else { panic!("one step") };
    assert_eq!((step.back_ns + 50_000) / 100_000_000, 648, "{step:?}");
    let mut attacked = engine(LIMIT_20K);
    let events = with_a_step_back(&mut attacked, 30_000);
    let kinds: Vec<_> = events.iter().map(|event| event.event).collect();
    assert_eq!(kinds, [Kind::Start, Kind::Update], "{events:?}");
    assert!(events[1].crossed_ns < events[1].time_ns && events[1].time_ns - events[1].crossed_ns < 4 * S);
    assert!((29_000.0..31_000.0).contains(&events[1].rates.pps), "{}", events[1].rates.pps);
    assert_eq!(attacked.status().clock_steps, 1);
}

#[test]
fn times_from_zero_on_are_times() {
    let mut engine = engine(LIMIT_20K);
    let mut events = Vec::new();
    (0..60_000).for_each(|n| engine.frame(udp(VICTIM), 60, n * S / 30_000, &mut events));
    engine.advance(2 * S, &mut events);
    assert_eq!(
        (events[0].event, engine.status().hosts),
        (Kind::Start, 1),
        "one host of the networks: {events:?}"
    );
}

#[test]
fn joined_frames_exceed_a_limit_as_their_segments_do() {
    let mut bulk = stream(VICTIM, 1000, 0, 3000);
    (bulk.bytes, bulk.headers.header_bytes) = (57_900, 66);
    let mut engine = engine(LIMIT_20K);
    let events = run(&mut engine, &[bulk], 3000);
    let rates = &events[0].rates;
    assert!((39_000.0..41_000.0).contains(&rates.pps), "{rates:?}");
    assert!((rates.bits_per_s / (rates.pps * 1512.0 * 8.0) - 1.0).abs() < 0.01, "{rates:?}");
    assert_eq!(events[0].evidence.frame_bytes[0].value, 1514);
    let status = engine.status();
    assert_eq!((status.frames, status.joined), (120_000, 3000));
    // Where frames may be so long, they are frames.
    let events = run(&mut self::engine(&format!("mtu = 65_535\n{LIMIT_20K}")), &[bulk], 3000);
    assert_eq!(events, []);
}
