//! The shaper in virtual time: tables of figures, and random operations beside a naive model.
//!
//! The large tables run by `cargo test --release -p weir-plane shaper -- --ignored`.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::fmt::Write as _;

use super::hosts::HostShares;
use super::scheduler::{Departed, Limits, Lost, NodeId, Offered, Plan, Shaper, Why};
use super::subscriber::Totals;
use super::wheel::SLOT_NS;
use crate::random::Random;

const MS: u64 = 1_000_000;
const S: u64 = 1_000_000_000;
const MBIT: u64 = 1_000_000;
const GBIT: u64 = 1_000_000_000;
/// A full frame.
const FULL: u32 = 1514;

/// Packets of one flow of a subscriber that come at a fixed rate.
#[derive(Clone, Copy)]
struct Source {
    subscriber: u32,
    flow: u32,
    class: u8,
    bytes: u32,
    every_ns: u64,
    /// As many packets come at once.
    burst: u32,
    starts_ns: u64,
}

/// What a subscriber has received.
#[derive(Clone, Copy, Default)]
struct Received {
    packets: u64,
    bytes: u64,
    first_ns: u64,
    last_ns: u64,
    first_bytes: u64,
}

/// A shaper, what arrives at it, and what leaves it.
struct Run {
    shaper: Shaper,
    plans: Vec<Plan>,
    sources: Vec<Source>,
    arrivals: BinaryHeap<Reverse<(u64, usize)>>,
    /// Subscribers that always have so many packets waiting, of that many flows.
    backlogs: Vec<(u32, u32)>,
    received: Vec<Received>,
    /// Delays of packets of these sources' flows, ns.
    watched: HashMap<(u32, u16), Vec<u64>>,
    now_ns: u64,
    sent_bytes: u64,
    lost: u64,
}

impl Run {
    fn new(ports: &[u64], plans: Vec<Plan>) -> Run {
        let mut shaper = Shaper::new(Limits::default(), 7);
        ports.iter().for_each(|&rate| _ = shaper.add_node(None, rate));
        Run {
            shaper,
            received: vec![Received::default(); plans.len()],
            backlogs: vec![(0, 0); plans.len()],
            plans,
            sources: Vec::new(),
            arrivals: BinaryHeap::new(),
            watched: HashMap::new(),
            now_ns: 0,
            sent_bytes: 0,
            lost: 0,
        }
    }

    /// So many subscribers of one port, with equal plans.
    fn equal(port: u64, subscribers: u32, bits_per_s: u64) -> Run {
        Run::new(&[port], vec![plan(bits_per_s, 0); subscribers as usize])
    }

    fn add(&mut self, source: Source) {
        self.arrivals.push(Reverse((source.starts_ns, self.sources.len())));
        self.sources.push(source);
    }

    /// Delays of the packets with this note are recorded.
    fn watch(&mut self, subscriber: u32, note: u16) {
        self.watched.insert((subscriber, note), Vec::new());
    }

    /// The subscriber always has packets that wait, of so many flows.
    fn keep_busy(&mut self, subscriber: u32, flows: u32, packets: u32) {
        self.backlogs[subscriber as usize] = (flows, packets);
        for n in 0..packets {
            self.offer(subscriber, n % flows, 1, FULL);
        }
    }

    fn offer(&mut self, subscriber: u32, flow: u32, class: u8, bytes: u32) {
        let (payload, note) = (flow, class.into());
        let packet = Offered { subscriber, bytes, flow, host: flow % 2, class, is_ect: false, note };
        let plan = self.plans[subscriber as usize];
        if self.shaper.offer(self.now_ns, &packet, || plan, || payload) {
            let charged = bytes;
            let departed =
                Departed { payload, note, is_marked: false, subscriber, bytes, charged, delay_ns: 0 };
            self.leaves(&departed);
        }
    }

    fn leaves(&mut self, departed: &Departed) {
        let known = &mut self.received[departed.subscriber as usize];
        if known.packets == 0 {
            (known.first_ns, known.first_bytes) = (self.now_ns, departed.bytes.into());
        }
        known.packets += 1;
        known.bytes += u64::from(departed.bytes);
        known.last_ns = self.now_ns;
        self.sent_bytes += u64::from(departed.bytes);
        if let Some(delays) = self.watched.get_mut(&(departed.subscriber, departed.note)) {
            delays.push(departed.delay_ns);
        }
        let (flows, _) = self.backlogs[departed.subscriber as usize];
        if flows > 0 {
            self.offer(departed.subscriber, departed.payload, 1, FULL);
        }
    }

    fn until(&mut self, end_ns: u64) {
        loop {
            let arrival = self.arrivals.peek().map(|Reverse((at, _))| *at);
            let due = self.shaper.due_ns(self.now_ns);
            let Some(next) = [arrival, due].into_iter().flatten().min().filter(|&at| at < end_ns) else {
                break;
            };
            self.now_ns = next.max(self.now_ns);
            while let Some(&Reverse((at, n))) = self.arrivals.peek()
                && at <= self.now_ns
            {
                self.arrivals.pop();
                let source = self.sources[n];
                (0..source.burst)
                    .for_each(|_| self.offer(source.subscriber, source.flow, source.class, source.bytes));
                self.arrivals.push(Reverse((at + source.every_ns, n)));
            }
            self.shaper.advance(self.now_ns);
            while let Some(departed) = self.shaper.take(self.now_ns) {
                self.leaves(&departed);
            }
            let lost: Vec<_> = self.shaper.lost().collect();
            self.lost += lost.len() as u64;
            for lost in lost {
                let (flows, _) = self.backlogs[lost.subscriber as usize];
                if flows > 0 {
                    self.offer(lost.subscriber, lost.payload, 1, FULL);
                }
            }
        }
        self.now_ns = end_ns;
    }

    /// The rates of subscribers from their first packet to their last one, bits/s.
    fn rates(&self) -> Vec<f64> {
        let rate = |known: &Received| {
            (known.bytes - known.first_bytes) as f64 * 8e9 / (known.last_ns - known.first_ns) as f64
        };
        self.received.iter().filter(|known| known.packets > 1).map(rate).collect()
    }

    /// Delay at this share of the packets that were watched, us.
    fn delay_us(&self, subscriber: u32, note: u16, share: f64) -> f64 {
        let mut delays = self.watched[&(subscriber, note)].clone();
        delays.sort_unstable();
        assert!(delays.len() > 50, "{} packets", delays.len());
        delays[((delays.len() - 1) as f64 * share) as usize] as f64 / 1000.0
    }
}

fn plan(bits_per_s: u64, parent: u32) -> Plan {
    Plan { bits_per_s, strict_bits_per_s: 0, overhead: 0, parent: NodeId(parent) }
}

/// Jain's index of fairness.
fn jain(all: &[f64]) -> f64 {
    let (sum, squares) = (all.iter().sum::<f64>(), all.iter().map(|x| x * x).sum::<f64>());
    sum * sum / (all.len() as f64 * squares)
}

/// Busy subscribers below the rate of their port: the worst and the mean error of their rates, in percent.
fn rate_error(subscribers: u32, bits_per_s: u64, seconds: u64) -> (f64, f64) {
    let mut run = Run::equal(10 * GBIT, subscribers, bits_per_s);
    (0..subscribers).for_each(|n| run.keep_busy(n, 1, 3));
    run.until(seconds * S);
    let errors: Vec<f64> =
        run.rates().iter().map(|rate| 100.0 * (rate / bits_per_s as f64 - 1.0).abs()).collect();
    assert_eq!(errors.len(), subscribers as usize, "each has sent");
    (errors.iter().copied().fold(0.0, f64::max), errors.iter().sum::<f64>() / errors.len() as f64)
}

/// Subscribers whose plans are twice the rate of the port: Jain's index of their rates, and the share of the port that is used.
fn fairness(port: u64, subscribers: u32, seconds: u64) -> (f64, f64) {
    let mut run = Run::equal(port, subscribers, 2 * port / u64::from(subscribers));
    (0..subscribers).for_each(|n| run.keep_busy(n, 1, 3));
    run.until(S);
    run.received.fill(Received::default());
    run.sent_bytes = 0;
    run.until((1 + seconds) * S);
    let shares: Vec<f64> = run.received.iter().map(|known| known.bytes as f64).collect();
    (jain(&shares), run.sent_bytes as f64 * 8.0 / (port * seconds) as f64)
}

/// One subscriber sends a packet each 10 ms or more, all others twice their rate; the plans are `over` times the port's rate.
/// Its delay, us, at p50, p99 and the largest.
fn idle_beside_busy(port: u64, subscribers: u32, over: f64, seconds: u64) -> [f64; 3] {
    let bits_per_s = (port as f64 * over / f64::from(subscribers)) as u64;
    let mut run = Run::equal(port, subscribers, bits_per_s);
    let mut random = Random(3);
    let every_ns = u64::from(FULL) * 8 * S / (2 * bits_per_s);
    for n in 1..subscribers {
        let starts_ns = random.below(every_ns);
        let (flow, class, bytes, burst) = (n, 1, FULL, 1);
        run.add(Source { subscriber: n, flow, class, bytes, every_ns, burst, starts_ns });
    }
    run.watch(0, 2);
    let ping =
        Source { subscriber: 0, flow: 9, class: 2, bytes: 100, every_ns: 10_123_457, burst: 1, starts_ns: S };
    run.add(ping);
    run.until(seconds * S);
    [0.5, 0.99, 1.0].map(|share| run.delay_us(0, 2, share))
}

/// Pings of a subscriber of 100 Mbit/s that loads its line with eight flows: delay at p50, p95 and the largest, us; and the rate of
/// the flows in percent of the plan.
fn loaded(seconds: u64) -> ([f64; 3], f64) {
    let mut run = Run::equal(10 * GBIT, 1, 100 * MBIT);
    run.keep_busy(0, 8, 8 * 40);
    run.watch(0, 2);
    let (flow, class, bytes) = (99, 2, 98);
    run.add(Source { subscriber: 0, flow, class, bytes, every_ns: 20_123_457, burst: 1, starts_ns: MS });
    run.until(seconds * S);
    (
        [0.5, 0.95, 1.0].map(|share| run.delay_us(0, 2, share)),
        run.sent_bytes as f64 * 8.0 / seconds as f64 / 1e6,
    )
}

/// A group of 1 Gbit/s with 100 busy subscribers of 20 Mbit/s; one of them has calls of its strict class, another the same calls of
/// an ordinary one. Their delays at p50, p99 and the largest, us.
fn priority(seconds: u64) -> [[f64; 3]; 2] {
    let mut shaper_plans = vec![plan(20 * MBIT, 1); 102];
    shaper_plans[100].bits_per_s = 2 * MBIT;
    shaper_plans[101].bits_per_s = 2 * MBIT;
    let mut run = Run::new(&[10 * GBIT], shaper_plans);
    run.shaper.add_node(Some(NodeId(0)), GBIT);
    (0..100).for_each(|n| run.keep_busy(n, 2, 12));
    for (subscriber, class) in [(0, 0), (1, 2)] {
        run.watch(subscriber, class.into());
        let (flow, bytes, every_ns) = (77, 200, 20_123_457);
        run.add(Source { subscriber, flow, class, bytes, every_ns, burst: 1, starts_ns: 5 * MS });
    }
    run.until(seconds * S);
    [(0, 0), (1, 2)]
        .map(|(subscriber, note)| [0.5, 0.99, 1.0].map(|share| run.delay_us(subscriber, note, share)))
}

#[test]
fn shaper_small_tables() {
    let (worst, _) = rate_error(1, 100 * MBIT, 1);
    assert!(worst <= 0.1, "one subscriber: {worst} %");
    let (worst, _) = rate_error(50, 5 * MBIT, 1);
    assert!(worst <= 0.1, "50 subscribers: {worst} %");
    let (jain, used) = fairness(GBIT / 2, 200, 2);
    assert!(jain >= 0.999 && (0.99..=1.011).contains(&used), "Jain's index {jain}, {used} of the port");
    let [_, p99, _] = idle_beside_busy(GBIT / 4, 500, 2.0, 2);
    assert!(p99 <= 1000.0, "an idle subscriber waits for {p99} us");
    let ([_, p95, _], rate) = loaded(2);
    assert!(p95 <= 10_000.0 && rate > 99.0, "a loaded subscriber's ping takes {p95} us at {rate} Mbit/s");
    let [[_, strict, _], _] = priority(2);
    assert!(strict <= 2000.0, "a strict packet waits for {strict} us");
}

#[test]
#[ignore = "takes a minute: cargo test --release -p weir-plane shaper -- --ignored"]
fn shaper_golden_tables() {
    let mut text = String::from("The shaper in virtual time; port of 10 Gbit/s, frames of 1514 bytes\n\n");
    text.push_str("busy subscribers   plan            worst error of a rate   mean\n");
    for (subscribers, bits_per_s, seconds, most) in
        [(1, 100 * MBIT, 10, 0.1), (1000, 9 * MBIT, 10, 0.1), (64_000, 150_000, 10, 1.0)]
    {
        let (worst, mean) = rate_error(subscribers, bits_per_s, seconds);
        assert!(worst <= most, "{subscribers}: {worst} %");
        let rate = bits_per_s / 1000;
        _ = writeln!(text, "{subscribers:>16}   {rate:>6} kbit/s   {worst:>19.4} %   {mean:.4} %");
    }
    text.push_str("\nplans of twice the port's rate   Jain's index   used of the port\n");
    for subscribers in [1000, 64_000] {
        let (index, used) = fairness(10 * GBIT, subscribers, 8);
        assert!(index >= 0.999, "{subscribers}: {index}");
        _ = writeln!(text, "{subscribers:>30}   {index:>12.5}   {:>14.2} %", 100.0 * used);
    }
    text.push_str("\nidle one beside 63,999 that send twice their rate    p50 us    p99 us   largest us\n");
    for (name, over) in [("plans are 0.96 of the port", 0.96), ("plans are 2.00 of the port", 2.0)] {
        let [p50, p99, most] = idle_beside_busy(10 * GBIT, 64_000, over, 6);
        assert!(p99 <= 1000.0, "{name}: {p99} us");
        _ = writeln!(text, "{name:<49} {p50:>9.1} {p99:>9.1} {most:>12.1}");
    }
    let ([p50, p95, most], rate) = loaded(20);
    assert!(p95 <= 10_000.0);
    _ = writeln!(
        text,
        "\nping of a loaded 100 Mbit/s subscriber: p50 {p50:.1}, p95 {p95:.1}, largest {most:.1} us; the load gets {rate:.2} Mbit/s"
    );
    text.push_str("\ncalls through a group of 1 Gbit/s that is full    p50 us    p99 us   largest us\n");
    for (name, [p50, p99, most]) in ["strict class", "ordinary class"].into_iter().zip(priority(20)) {
        _ = writeln!(text, "{name:<46} {p50:>9.1} {p99:>9.1} {most:>12.1}");
    }
    weir_testkit::golden!("tests/golden/shaper.txt", &text);
}

fn offer(
    shaper: &mut Shaper,
    now: u64,
    plan: Plan,
    (subscriber, flow, class): (u32, u32, u8),
    payload: u32,
) -> bool {
    let packet = Offered { subscriber, bytes: 1000, flow, host: flow % 2, class, is_ect: false, note: 0 };
    shaper.offer(now, &packet, || plan, || payload)
}

/// All that leaves until a time: when, and what.
fn all(shaper: &mut Shaper, from_ns: u64, until_ns: u64) -> Vec<(u64, Departed)> {
    let (mut now, mut all) = (from_ns, Vec::new());
    loop {
        shaper.advance(now);
        all.extend(std::iter::from_fn(|| shaper.take(now)).map(|departed| (now, departed)));
        match shaper.due_ns(now).filter(|&due| due <= until_ns) {
            Some(due) => now = due.max(now + 1),
            None => return all,
        }
    }
}

fn one_port(limits: Limits) -> Shaper {
    let mut shaper = Shaper::new(limits, 7);
    shaper.add_node(None, GBIT);
    shaper
}

#[test]
fn a_change_of_rate_loses_no_packet_and_takes_effect_at_once() {
    for (before, after) in [(64_000, 100 * MBIT), (100 * MBIT, 64_000), (8 * MBIT, 0), (0, 8 * MBIT)] {
        let mut shaper = one_port(Limits { each_ns: 10 * S, ..Limits::default() });
        let waits: Vec<u32> =
            (0..40).filter(|&n| !offer(&mut shaper, 0, plan(before, 0), (1, n % 2, 1), n)).collect();
        let mut left: Vec<_> = all(&mut shaper, 0, 5 * MS);
        shaper.set_plan(1, &plan(after, 0), 5 * MS);
        let since = left.len();
        left.extend(all(&mut shaper, 5 * MS, 60 * S));
        let payloads = |flow: u32| {
            left.iter().map(|(_, departed)| departed.payload).filter(|n| n % 2 == flow).collect::<Vec<_>>()
        };
        for flow in 0..2 {
            let is: Vec<u32> = waits.iter().copied().filter(|n| n % 2 == flow).collect();
            let lost = shaper.lost().filter(|lost| lost.why == Why::Limit).count();
            let (was, now) = (payloads(flow), format!("{before} to {after}"));
            assert!(was.is_sorted() && lost == 0, "{now}: {was:?}");
            // COBALT drops some of those that waited for long.
            assert!(was.iter().all(|n| is.contains(n)), "{now}");
        }
        if after > before && before > 0 || after == 0 {
            let (first, _) = left[since];
            assert!(first <= 15 * MS, "{before} to {after}: the first one leaves at {first} ns");
        }
        all(&mut shaper, 60 * S, 62 * S);
        assert_eq!(shaper.used(), [0; 3], "{before} to {after}");
    }
}

/// A year in which nobody calls the shaper costs no time, and delays nothing.
#[test]
fn a_shaper_goes_on_after_a_year() {
    let year = 365 * 86_400 * S;
    let mut shaper = one_port(Limits::default());
    for from in [0, year, year + 50 * MS, 3 * year] {
        let mut left = Vec::new();
        for n in 0..10 {
            if offer(&mut shaper, from, plan(8 * MBIT, 0), (1, 1, 1), n) {
                left.push(from);
            }
        }
        left.extend(all(&mut shaper, from, from + 20 * MS).iter().map(|(at, _)| *at));
        assert!(left.len() == 10 && left[9] <= from + 15 * MS, "{from}: {left:?}");
    }
}

/// Flows of a subscriber of 8 Mbit/s: those with even numbers are of one host, the others of another. Packets of each host that leave
/// within a second.
fn of_hosts(hosts: HostShares, flows: [u32; 2]) -> [usize; 2] {
    let mut shaper = one_port(Limits { hosts, each_ns: 10 * S, ..Limits::default() });
    for n in 0..1500 {
        for (host, flows) in (0..).zip(flows) {
            // The payload of one host is even, that of the other odd.
            let (flow, payload) = (n % flows * 2 + host, n * 2 + host);
            offer(&mut shaper, 0, plan(8 * MBIT, 0), (1, flow, 1), payload);
        }
    }
    let left = all(&mut shaper, 0, S);
    [0, 1].map(|host| left.iter().filter(|(_, departed)| departed.payload % 2 == host).count())
}

#[test]
fn hosts_share_the_rate_of_their_subscriber() {
    // 1000 packets; a flow of the second host has as much as one of the eight of the first.
    let [many, one] = of_hosts(HostShares::Ignored, [8, 1]);
    assert!((850..=900).contains(&many) && (105..=125).contains(&one), "{many} {one}");
    for flows in [[8, 1], [1, 8], [8, 3], [1, 1]] {
        let [many, one] = of_hosts(HostShares::Fair, flows);
        assert!(many.abs_diff(one) <= 8 && many + one >= 990, "{flows:?}: {many} {one}");
    }
}

#[test]
fn idle_subscribers_need_no_memory() {
    for (start, hosts) in [(0, HostShares::Ignored), (10 * S, HostShares::Fair)] {
        let mut shaper = one_port(Limits { hosts, ..Limits::default() });
        for subscriber in 1..200 {
            (0..20).for_each(|n| _ = offer(&mut shaper, start, plan(MBIT, 0), (subscriber, n, 1), n));
        }
        assert!(shaper.bytes() > 0);
        assert!(!all(&mut shaper, start, start + S).is_empty());
        // The parts of the slots are looked at in turn.
        (0..=200).for_each(|n| shaper.advance(start + S + n * 10 * MS));
        // What they have counted is kept.
        let counters = 199 * size_of::<Totals>();
        assert_eq!((shaper.bytes(), shaper.used()), (counters, [0; 3]), "from {start} ns");
        assert!(shaper.totals(7).totals.delays.iter().sum::<u32>() >= 19);
    }
}

#[test]
fn each_packet_that_waited_counts_once() {
    let mut shaper = one_port(Limits { each_ns: 10 * S, ..Limits::default() });
    let waits = (0..1000)
        .filter(|&n| !offer(&mut shaper, 0, plan(8 * MBIT, 0), (1, n % 3, 1 + (n % 3) as u8), n))
        .count();
    let left = all(&mut shaper, 0, 5 * S).len();
    let lost = shaper.lost().count();
    let totals = shaper.totals(1).totals;
    let counted: u32 = totals.delays.iter().sum();
    assert_eq!((counted as usize, left + lost), (left, waits), "{totals:?}");
    assert!(totals.delays.iter().any(|&packets| packets > 255), "{totals:?}");
}

#[test]
fn the_busiest_subscriber_loses_packets() {
    let mut shaper = one_port(Limits { packets: 100, ..Limits::default() });
    let slow = plan(64_000, 0);
    let mut n = 0;
    for subscriber in [1; 70].into_iter().chain([2; 24]).chain(3..30) {
        n += 1;
        offer(&mut shaper, 0, slow, (subscriber, 1, 1), n);
    }
    let lost: Vec<Lost> = shaper.lost().collect();
    assert!(!lost.is_empty() && lost.iter().all(|lost| (lost.subscriber, lost.why) == (1, Why::Limit)));
    assert!(lost.is_sorted_by_key(|lost| lost.payload), "the oldest first: {lost:?}");
}

#[test]
fn the_counters_say_what_limits_a_subscriber() {
    let mut shaper = Shaper::new(Limits::default(), 7);
    let port = shaper.add_node(None, GBIT);
    let group = shaper.add_node(Some(port), 10 * MBIT);
    for (subscriber, plan, by_plan) in
        [(1, plan(5 * MBIT, group.0), true), (2, plan(50 * MBIT, group.0), false)]
    {
        let from = u64::from(subscriber) * 10 * S;
        shaper.advance(from);
        (0..30).for_each(|n| _ = offer(&mut shaper, from, plan, (subscriber, 1, 1), n));
        all(&mut shaper, from, from + S);
        let totals = shaper.totals(subscriber).totals;
        let is = totals.by_plan_ns > 10 * totals.by_parent_ns;
        assert_eq!(is, by_plan, "{subscriber}: {totals:?}");
        assert!(by_plan || totals.by_parent_ns > 3 * totals.by_plan_ns, "{totals:?}");
    }
    assert_eq!(shaper.node_counts(group).waiting, [0, 0]);
}

#[test]
fn strict_packets_beyond_their_limit_wait_as_others_do() {
    let mut shaper = one_port(Limits::default());
    let plan = Plan { strict_bits_per_s: MBIT, ..plan(8 * MBIT, 0) };
    for n in 0..60 {
        offer(&mut shaper, 0, plan, (1, 1, 0), n);
        offer(&mut shaper, 0, plan, (1, 2, 1), 100 + n);
    }
    let left = all(&mut shaper, 0, 40 * MS);
    let strict = left.iter().filter(|(_, departed)| departed.payload < 100).count();
    // 40 packets; the weights are 1 and 4, and 1 Mbit/s has 5 packets.
    assert!(left.len() >= 40 && (8..=14).contains(&strict), "{strict} of {}", left.len());
}

/// What each packet is, until it has left or was lost.
#[derive(Default)]
struct Model {
    waiting: BTreeMap<u32, (u32, u32, u8)>,
    /// The last packet of each flow that has left.
    last: HashMap<(u32, u32, u8), u32>,
    /// Bytes beyond the rate of each subscriber and node, and since when.
    levels: HashMap<(bool, u32), (f64, u64)>,
}

impl Model {
    fn leaves(&mut self, payload: u32, what: &str) -> (u32, u32, u8) {
        let flow = self.waiting.remove(&payload).unwrap_or_else(|| panic!("{what}: {payload} left twice"));
        let last = self.last.insert(flow, payload);
        assert!(last < Some(payload), "{what}: {payload} left behind {last:?}");
        flow
    }

    /// A packet is counted against a rate, of which 10 ms and some packets may be sent at once.
    fn count(&mut self, of: (bool, u32), bytes: u32, bits_per_s: u64, now: u64, what: &str) {
        if bits_per_s == 0 {
            return;
        }
        let (level, at) = self.levels.entry(of).or_insert((0.0, now));
        let sent = (now - *at) as f64 * bits_per_s as f64 / 8e9;
        (*level, *at) = ((*level - sent).max(0.0) + f64::from(bytes), now);
        let most = bits_per_s as f64 * 0.0105 / 8.0 + 2.0 * 1530.0;
        assert!(*level <= most, "{what}: {of:?} sent {level} bytes more than its rate {bits_per_s}");
    }
}

#[test]
fn random_operations_agree_with_a_naive_model() {
    for seed in 1..=4 {
        random_operations(seed, 6_000);
    }
}

#[test]
#[ignore = "takes a minute: cargo test --release -p weir-plane shaper -- --ignored"]
fn shaper_million_random_operations_agree_with_a_naive_model() {
    for seed in 5..=14 {
        random_operations(seed, 100_000);
    }
}

fn random_operations(seed: u64, steps: u32) {
    const RATES: [u64; 5] = [0, 64_000, MBIT, 20 * MBIT, GBIT];
    let hosts = [HostShares::Ignored, HostShares::Fair][seed as usize % 2];
    let limits = Limits { packets: 600, packets_each: 200, hosts, ..Limits::default() };
    let (mut random, mut shaper, mut model) = (Random(seed), Shaper::new(limits, seed), Model::default());
    let mut rates = [GBIT / 10, 0, 30 * MBIT, 10 * MBIT, 5 * MBIT];
    let above: [&[u32]; 5] = [&[0], &[1], &[2, 0], &[3, 0], &[4, 3, 0]];
    for (n, path) in above.iter().enumerate() {
        shaper.add_node(path.get(1).map(|&parent| NodeId(parent)), rates[n]);
    }
    let mut plans: Vec<Plan> =
        (0..40).map(|n| Plan { overhead: (n % 3) as u8 * 8, ..plan(RATES[n as usize % 5], n % 5) }).collect();
    let (mut now, mut passed, mut left, mut gone) = (0, 0, 0, 0_u64);
    for step in 0..steps {
        let what = format!("seed {seed}, step {step}, {now} ns");
        let n = random.below(40) as u32;
        match random.below(100) {
            0..70 => {
                let (flow, class) = (random.below(60) as u32, random.below(4) as u8);
                let bytes = 64 + random.below(1450) as u32;
                let (host, is_ect) = (flow % 7, flow % 2 == 0);
                let packet = Offered { subscriber: n, bytes, flow, host, class, is_ect, note: 0 };
                model.waiting.insert(step + 1, (n, flow, class));
                let known = plans[n as usize];
                if shaper.offer(now, &packet, || known, || step + 1) {
                    passed += 1;
                    model.leaves(step + 1, &what);
                    let bytes = bytes + u32::from(known.overhead);
                    model.count((true, n), bytes, known.bits_per_s, now, &what);
                    for &node in above[known.parent.0 as usize] {
                        model.count((false, node), bytes, rates[node as usize], now, &what);
                    }
                }
            }
            70 => {
                plans[n as usize].bits_per_s = RATES[random.below(5) as usize];
                plans[n as usize].parent = NodeId(random.below(5) as u32);
                model.levels.remove(&(true, n));
                shaper.set_plan(n, &plans[n as usize], now);
            }
            71 => {
                let node = random.below(5) as usize;
                rates[node] = [5 * MBIT, 30 * MBIT, GBIT][random.below(3) as usize];
                model.levels.remove(&(false, node as u32));
                shaper.set_node_rate(NodeId(node as u32), rates[node], now);
            }
            72 => {
                shaper.remove(n);
                model.levels.remove(&(true, n));
                model.last.retain(|(subscriber, ..), _| *subscriber != n);
            }
            73 => now += random.below(300 * MS),
            _ => now += random.below(100_000),
        }
        shaper.advance(now);
        // Each level has a timer of its own.
        let fired = now.saturating_sub(3 * SLOT_NS);
        let any_strict = |shaper: &Shaper, port: &[u32]| {
            (0..40).any(|n| {
                let on = above[plans[n as usize].parent.0 as usize].last();
                port.contains(on.expect("a port")) && shaper.may_send(n, fired)[0]
            })
        };
        let strict = any_strict(&shaper, &[0]) && any_strict(&shaper, &[1]);
        if let Some(departed) = shaper.take(now) {
            let (.., class) = model.waiting[&departed.payload];
            assert!(!strict || class == 0, "{what}: strict packets come first");
            let mut next = Some(departed);
            while let Some(departed) = next {
                left += 1;
                let (subscriber, ..) = model.leaves(departed.payload, &what);
                assert_eq!(subscriber, departed.subscriber, "{what}");
                let known = plans[subscriber as usize];
                model.count((true, subscriber), departed.charged, known.bits_per_s, now, &what);
                for &node in above[known.parent.0 as usize] {
                    model.count((false, node), departed.charged, rates[node as usize], now, &what);
                }
                next = shaper.take(now);
            }
        }
        for lost in shaper.lost() {
            gone += 1;
            assert!(model.waiting.remove(&lost.payload).is_some(), "{what}: {lost:?} was lost twice");
        }
        let busy = (0..40).find(|&n| shaper.may_send(n, fired) != [false; 2]);
        assert_eq!(busy, None, "{what}: this subscriber may send, and does not");
        assert_eq!(shaper.used()[0], model.waiting.len(), "{what}");
        assert!(model.waiting.len() <= 600, "{what}");
        let all: u64 = [0, 1].map(|port| shaper.node_counts(NodeId(port)).waiting[0]).iter().sum();
        assert_eq!(all, model.waiting.len() as u64, "{what}");
    }
    let each = u64::from(steps) / 100;
    assert!(passed > each && left > each && gone > each, "seed {seed}: {passed} {left} {gone}");
    for departed in all(&mut shaper, now, now + 2000 * S) {
        model.waiting.remove(&departed.1.payload);
    }
    shaper.lost().for_each(|lost| _ = model.waiting.remove(&lost.payload));
    assert!(model.waiting.is_empty() && shaper.used() == [0; 3], "seed {seed}: {:?}", shaper.used());
}
