//! Why the simulator is apart from two published figures, and from the kernel and ns-3. Each test changes the one thing that is said
//! to be the cause.

use weir_queue::{Config, Time};
use weir_sim::cc::Name;
use weir_sim::{Buffer, Group, Impairment, Scenario};

fn fifo(mbit_per_s: u64, bdp: f64, groups: Vec<Group>, s: u64) -> Scenario {
    let queue = Config::named("fifo").unwrap();
    let mut scenario =
        Scenario::new(queue, mbit_per_s * 1_000_000, Buffer::Bdp(bdp), groups, Time::from_s(s));
    scenario.warm_up = Time::from_s(s / 4);
    scenario.seed = 7;
    scenario
}

/// C2: one CUBIC flow at 10 Gbit/s and 1 ms, frames of 9000 bytes (Spang, Arslan, McKeown 2021), whose ACKs come in groups: so
/// long are its bursts at the link's rate.
fn utilisation_with_bursts(bdp: f64, burst: Time) -> f64 {
    let impairment = Impairment { ack_every: burst, ..Impairment::default() };
    let group = Group { impairment, ..Group::new(1, Name::Cubic, Time::from_ms(1)) };
    let mut scenario = fifo(10_000, bdp, vec![group], 12);
    (scenario.segment_bytes, scenario.payload_bytes) = (9014, 8948);
    scenario.run().unwrap().utilisation
}

#[test]
fn bursts_take_from_small_buffers_what_a_switch_has_shown() {
    for (bdp, published) in [(0.05, 0.21), (0.13, 0.57), (0.2, 0.78), (0.4, 0.89)] {
        let of = |us| utilisation_with_bursts(bdp, Time::from_us(us));
        let (none, bursts) = (of(0), of(150));
        println!(
            "C2, {bdp} BDP: {none:.2} without bursts, {:.2} of 50 us, {bursts:.2} of 150 us, published {published}",
            of(50)
        );
        assert!(none > published + 0.1, "{bdp} BDP: {none:.2} without bursts");
        assert!(
            (bursts - published).abs() < 0.16,
            "{bdp} BDP: {bursts:.2} with bursts, published {published}"
        );
    }
}

/// C6: the share of one BBR 1 flow against one CUBIC flow at 10 Mbit/s and 40 ms.
fn share_of_bbr(bdp: f64, min_rtt: Option<Time>) -> f64 {
    let bbr = Group { min_rtt, ..Group::new(1, Name::Bbr1, Time::from_ms(40)) };
    let cubic = Group { start: Time::from_ms(500), ..Group::new(1, Name::Cubic, Time::from_ms(40)) };
    fifo(10, bdp, vec![bbr, cubic], 400).run().unwrap().groups[0].share
}

#[test]
fn bbr1_takes_what_the_model_says_if_its_round_trip_contains_the_queue_of_cubic() {
    let rtt_s = 0.04;
    for (bdp, model) in [(2.0, 0.78), (4.0, 0.63), (8.0, 0.55)] {
        // Ware et al., IMC 2019: CUBIC's part of a full buffer.
        let packets = bdp * 10e6 * rtt_s / 8.0 / 1514.0;
        let part = 0.5 - 0.5 / bdp - 4.0 / packets;
        let assumed = Time::from_us((rtt_s * (1.0 + part * bdp) * 1e6) as u64);
        let (free, assumed) = (share_of_bbr(bdp, None), share_of_bbr(bdp, Some(assumed)));
        println!(
            "C6, {bdp} BDP: {free:.2} as it measures, {assumed:.2} with the model's round trip, model {model}"
        );
        assert!(free < model - 0.05, "{bdp} BDP: {free:.2} as it measures");
        assert!(
            assumed > free + 0.2 && (assumed - model).abs() < 0.17,
            "{bdp} BDP: {assumed:.2} with the model's round trip"
        );
    }
}

/// The share of five Reno flows beside five of CUBIC at 20 Mbit/s and 20 ms, whose ACKs come in groups.
fn share_of_reno(bdp: f64, ack_every: Time) -> f64 {
    let rtt = Time::from_ms(20);
    let group = |cc| {
        let impairment = Impairment { ack_every, ..Impairment::default() };
        Group { impairment, spread: rtt, ..Group::new(5, cc, rtt) }
    };
    fifo(20, bdp, vec![group(Name::Reno), group(Name::Cubic)], 40).run().unwrap().groups[0].share
}

#[test]
fn bursts_give_reno_beside_cubic_what_it_has_in_the_kernel_and_in_ns3() {
    // docs/measurements.md
    for (bdp, kernel, ns3) in [(0.5, 0.479, 0.651), (1.0, 0.466, 0.592), (4.0, 0.471, 0.515)] {
        let [none, one, two] = [0, 1, 2].map(|ms| share_of_reno(bdp, Time::from_ms(ms)));
        println!(
            "Reno beside CUBIC, {bdp} BDP: {none:.3} without bursts, {one:.3} of 1 ms, kernel {kernel}, {two:.3} of 2 ms, \
             ns-3 {ns3}"
        );
        assert!(none < kernel - 0.03, "{bdp} BDP: {none:.3} without bursts");
        assert!((one - kernel).abs() < 0.05, "{bdp} BDP: {one:.3} with bursts of 1 ms, kernel {kernel}");
        assert!((two - ns3).abs() < 0.1, "{bdp} BDP: {two:.3} with bursts of 2 ms, ns-3 {ns3}");
    }
}
