//! The contract of every simulation: conservation, determinism, exact delays, plain errors.

use weir_queue::{Config, Time};
use weir_sim::cc::Name;
use weir_sim::{Buffer, Group, Impairment, Loss, Rate, Scenario};

fn scenario(queue: Config, cc: Name) -> Scenario {
    let groups = vec![Group::new(2, cc, Time::from_ms(20)), Group::new(1, Name::Cubic, Time::from_ms(50))];
    Scenario { seed: 3, ..Scenario::new(queue, 10_000_000, Buffer::Bdp(1.0), groups, Time::from_s(6)) }
}

#[test]
fn every_queue_with_every_congestion_control_moves_data() {
    for (name, queue) in Config::catalogue() {
        for cc in Name::ALL {
            let outcome = scenario(queue, cc).run().unwrap();
            let what = format!("{name}, {}", cc.text());
            let counters = outcome.queue;
            let queued = counters.offered.packets - counters.taken.packets - counters.dropped_packets();
            let offered: u64 = outcome.flows.iter().map(|flow| flow.offered).sum();
            assert_eq!(counters.offered.packets, offered, "{what}");
            assert_eq!(queued * 1514, *outcome.series.queue_bytes.last().unwrap(), "{what}");
            assert!(
                outcome.utilisation > 0.6 && outcome.utilisation <= 1.001,
                "{what}: {:.3}",
                outcome.utilisation
            );
            // the shaper's clock and the link's are not the same: it may wait a part of a slot
            let waits = if name == "cake" { 0.01 } else { 0.0 };
            assert!(outcome.idle_with_backlog <= waits, "{what}: the link waits with a backlog");
            assert!(
                outcome.flows.iter().all(|flow| flow.goodput_bits_per_s > 10e3),
                "{what}: {:?}",
                outcome.flows
            );
            let bytes = outcome.buffer_bytes;
            assert!(
                outcome.series.queue_bytes.iter().all(|&queued| queued <= bytes),
                "{what}: beyond the limit"
            );
        }
    }
}

#[test]
fn the_same_scenario_is_the_same_outcome() {
    for cc in Name::ALL {
        let mut scenario = scenario(Config::named("pie").unwrap(), cc);
        scenario.groups[0].impairment =
            Impairment { loss: Some(Loss::Random(0.001)), jitter: Time::from_ms(1), ..Impairment::default() };
        let first = scenario.run().unwrap();
        assert!(first == scenario.run().unwrap(), "{}: two runs differ", cc.text());
        scenario.seed += 1;
        assert!(first != scenario.run().unwrap(), "{}: the seed changes nothing", cc.text());
    }
}

#[test]
fn a_scenario_and_its_outcome_survive_a_file() {
    let scenario = scenario(Config::named("fq-codel").unwrap(), Name::Bbr3);
    let text = serde_json::to_string(&scenario).unwrap();
    assert_eq!(serde_json::from_str::<Scenario>(&text).unwrap(), scenario);
    let short = r#"{"queue": {"kind": "pie"}, "rate": {"bits_per_s": 1000000}, "buffer": {"bdp": 1.0}, "duration_s": 1,
        "groups": [{"flows": 1, "cc": "cubic", "rtt_s": 0.1}]}"#;
    let outcome = serde_json::from_str::<Scenario>(short).unwrap().run().unwrap();
    assert_eq!(outcome.buffer_bytes, 12_500);
    assert!(serde_json::to_string(&outcome).unwrap().contains("\"utilisation\""));
}

#[test]
fn the_round_trip_is_that_of_the_path_and_the_queue() {
    // a segment in 100 ms never waits: 20 ms and 1514 bytes at 10 Mbit/s
    let mut group = Group::new(1, Name::Reno, Time::from_ms(20));
    group.delayed_ack = 1;
    group.application = vec![(Time::ZERO, 121_120.0)];
    let scenario = Scenario::new(
        Config::named("fifo").unwrap(),
        10_000_000,
        Buffer::Bdp(1.0),
        vec![group],
        Time::from_s(5),
    );
    let outcome = scenario.run().unwrap();
    let srtt_s = *outcome.series.flows[0].srtt_s.last().unwrap();
    assert!((srtt_s - 0.021_211_2).abs() < 1e-9, "{srtt_s} s");
    assert_eq!(outcome.sojourn.max_s, 0.0);
}

#[test]
fn a_link_that_changes_is_used_at_both_rates() {
    let mut scenario = scenario(Config::named("codel").unwrap(), Name::Cubic);
    scenario.rate = Rate::Trace(vec![(Time::ZERO, 20_000_000), (Time::from_s(5), 5_000_000)]);
    scenario.duration = Time::from_s(20);
    let outcome = scenario.run().unwrap();
    assert!(outcome.utilisation > 0.9 && outcome.utilisation <= 1.001, "{:.3}", outcome.utilisation);
    let rate = |second: usize| -> f64 {
        let flows = outcome.series.flows.iter();
        flows.map(|flow| flow.bits_per_s[second * 10..second * 10 + 10].iter().sum::<f64>() / 10.0).sum()
    };
    assert!(rate(3) > 16e6 && (4e6..5.1e6).contains(&rate(15)), "{} and {}", rate(3), rate(15));
}

#[test]
fn losses_cost_reno_what_mathis_says() {
    let mut group = Group { delayed_ack: 1, ..Group::new(1, Name::Reno, Time::from_ms(20)) };
    group.impairment.loss = Some(Loss::Random(0.002));
    let fifo = Config::named("fifo").unwrap();
    let mut scenario = Scenario::new(fifo, 100_000_000, Buffer::Bdp(4.0), vec![group], Time::from_s(120));
    scenario.warm_up = Time::from_s(10);
    let outcome = scenario.run().unwrap();
    let window = outcome.flows[0].throughput_bits_per_s / 8.0 / 1514.0 * 0.02;
    let k = window * 0.002f64.sqrt();
    assert!((1.05..1.4).contains(&k), "K = {k:.2}, theory 1.22");
}

#[test]
fn reordering_is_no_loss() {
    // 2 % of the segments are 8 ms late: more than a quarter of the round trip, once that is known
    let run = |cc: Name, reorder: f64| {
        let mut group = Group::new(1, cc, Time::from_ms(40));
        group.impairment.reorder = reorder;
        group.impairment.reorder_by = Time::from_ms(8);
        let fifo = Config::named("fifo").unwrap();
        Scenario::new(fifo, 10_000_000, Buffer::Bdp(2.0), vec![group], Time::from_s(30)).run().unwrap()
    };
    for cc in [Name::Cubic, Name::Bbr3] {
        let outcome = run(cc, 0.02);
        assert!(outcome.utilisation > 0.9, "{}: {:.3}", cc.text(), outcome.utilisation);
        assert_eq!(outcome.flows[0].timeouts, 0, "{}", cc.text());
    }
}

#[test]
fn bursts_of_losses_are_repaired() {
    for cc in Name::ALL {
        let mut group = Group::new(1, cc, Time::from_ms(20));
        group.impairment.loss = Some(Loss::Burst { enters: 0.002, leaves: 0.3 });
        let fifo = Config::named("fifo").unwrap();
        let scenario = Scenario::new(fifo, 5_000_000, Buffer::Bdp(4.0), vec![group], Time::from_s(30));
        let flow = scenario.run().unwrap().flows[0].clone();
        assert!(flow.retransmitted > 20 && flow.goodput_bits_per_s > 0.5e6, "{}: {flow:?}", cc.text());
    }
}

#[test]
fn senders_that_know_ecn_are_marked_and_lose_nothing() {
    for name in ["red", "ared", "codel", "fq-codel", "dualpi2", "core-stateless", "gsp"] {
        let queue = Config::named(name).unwrap();
        for cc in [Name::Reno, Name::Cubic] {
            let group = Group { ecn: true, ..Group::new(4, cc, Time::from_ms(20)) };
            let mut scenario =
                Scenario::new(queue, 20_000_000, Buffer::Ms(300.0), vec![group], Time::from_s(20));
            scenario.warm_up = Time::from_s(5);
            let outcome = scenario.run().unwrap();
            let (what, group) = (format!("{name}, {}", cc.text()), &outcome.groups[0]);
            assert!(group.marks > 0.0 && group.loss < 0.001, "{what}: {group:?}");
            assert!(outcome.utilisation > 0.75 && outcome.jain > 0.9, "{what}: {:.3}", outcome.utilisation);
        }
    }
}

#[test]
fn any_scenario_keeps_the_contract() {
    let mut rng = weir_rng::Rng::new(11);
    let queues = Config::catalogue();
    for case in 0..150 {
        let (name, queue) = queues[rng.below(queues.len())];
        let mut groups: Vec<Group> = (0..1 + rng.below(3))
            .map(|_| {
                let rtt = Time::from_us(50 + rng.below(80_000) as u64);
                let mut group = Group::new(1 + rng.below(6) as u32, Name::ALL[rng.below(7)], rtt);
                group.ecn = rng.below(2) == 0;
                group.delayed_ack = 1 + rng.below(4) as u32;
                group.start = Time::from_ms(rng.below(500) as u64);
                group.impairment.jitter = Time::from_us(rng.below(2) as u64 * 900);
                group.impairment.reorder = rng.unit() * 0.02 * rng.below(2) as f64;
                group.impairment.reorder_by = Time::from_us(rng.below(30_000) as u64);
                group.impairment.ack_every = Time::from_us(rng.below(2) as u64 * 5000);
                group
            })
            .collect();
        if rng.below(3) == 0 {
            groups[0].impairment.loss = Some(Loss::Random(rng.unit() * 0.3));
        }
        if rng.below(4) == 0 {
            groups[0].application =
                vec![(Time::ZERO, 2e6), (Time::from_ms(900), 0.0), (Time::from_ms(1500), 5e6)];
        }
        let buffer = Buffer::Bytes(1514 + rng.below(300_000) as u64);
        let rate = 500_000 + rng.below(30_000_000) as u64;
        let scenario = Scenario { seed: case, ..Scenario::new(queue, rate, buffer, groups, Time::from_s(3)) };
        let outcome = scenario.run().unwrap_or_else(|error| panic!("case {case}: {error}"));
        let counters = outcome.queue;
        let queued = counters.offered.bytes
            - counters.taken.bytes
            - counters.dropped.iter().map(|tally| tally.bytes).sum::<u64>();
        let what = format!("case {case}, {name}");
        assert!(queued <= outcome.buffer_bytes, "{what}");
        assert_eq!(Some(&queued), outcome.series.queue_bytes.last(), "{what}");
        for flow in &outcome.flows {
            let most = flow.throughput_bits_per_s * 1448.0 / 1514.0 + 1.0;
            assert!(flow.goodput_bits_per_s <= most, "{what}: more arrived than left: {flow:?}");
        }
        // one packet may be in service at the end
        assert!(
            outcome.utilisation <= 1.0 + 1514.0 * 8.0 / (3.0 * rate as f64),
            "{what}: {}",
            outcome.utilisation
        );
    }
}

#[test]
fn wrong_scenarios_are_rejected_with_a_remedy() {
    let good = || scenario(Config::named("fifo").unwrap(), Name::Reno);
    let check = |change: fn(&mut Scenario), says: &str| {
        let mut scenario = good();
        change(&mut scenario);
        assert_eq!(scenario.run().unwrap_err().to_string(), says);
    };
    check(|s| s.groups.clear(), "there are no flows: give at least one group a flow");
    check(
        |s| s.buffer = Buffer::Bytes(9),
        "a buffer of 9 bytes cannot hold a segment of 1514: use a larger one",
    );
    check(|s| s.groups[1].rtt = Time::ZERO, "group 2: rtt_s must be 1e-5 or more");
    check(|s| s.groups[0].delayed_ack = 0, "group 1: delayed_ack must be 1 or more segments");
    check(
        |s| s.rate = Rate::BitsPerS(0),
        "a buffer of 0 bytes cannot hold a segment of 1514: use a larger one",
    );
    let trace = "a trace starts at 0 s, and its times rise";
    check(|s| s.rate = Rate::Trace(vec![(Time::ZERO, 9_000_000), (Time::ZERO, 1)]), trace);
    let rates = "rates are 1 to 10000000000000 bit/s";
    check(|s| s.rate = Rate::Trace(vec![(Time::ZERO, 9_000_000), (Time::from_s(1), 0)]), rates);
    check(|s| (s.rate, s.buffer) = (Rate::BitsPerS(u64::MAX), Buffer::Bytes(9000)), rates);
    let many = "3 flows and 30000000000 samples are too many: at most 100000 flows, and 50000000 samples (flows times \
                duration_s over interval_s)";
    check(|s| (s.duration, s.interval) = (Time::from_s(1_000_000), Time::from_us(100)), many);
    let loss = "group 1: probabilities of loss and reordering are 0 to 1";
    check(|s| s.groups[0].impairment.loss = Some(Loss::Random(1.5)), loss);
}
