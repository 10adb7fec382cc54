//! A point of the grid on a real bed: kernels' TCP through a bottleneck of this program, in namespaces.
//!
//! ```text
//!  sender, an address for each round trip - veth - [ weir-bottleneck ] - veth - receiver
//! ```
//! The queue is the simulator's code, and its decisions follow from the times at which the kernel received frames. What is
//! real are the senders: the kernel's TCP with its offloads and bursts. Congestion controls that a kernel lacks are loaded
//! meanwhile.

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use weir_bottleneck::{Direction, Quantiles, Settings, Snapshot};
use weir_flows::{Group, Interval, Load, Server, listen};
use weir_linux::ethtool::{Offload, set_offload};
use weir_load::histogram::{Histogram, LATENCY_BITS};
use weir_port::bpf::BpfError;
use weir_port::bpf::congestion::CongestionControl;
use weir_port::shared::LATENCY_BUCKETS;
use weir_sim::cc::Name;
use weir_sim::{FlowSeries, GroupOutcome, Rate, Scenario, Series, Sojourn, jain};
use weir_testbed::graph::{BOTTLENECK, Graph};

use super::history::{History, Response};
use super::mix::{Mix, kernel_name};
use super::plan::Cell;
use super::shared::Shared;
use weir_lab::error::RunError;
use weir_lab::frames::lateness::Lateness;
use weir_lab::run::wires::{INTERVAL, Link, Passed, failed};

/// Late bytes may arrive for so long.
const GRACE: Duration = Duration::from_secs(30);
const RECEIVER: &str = "198.18.0.254";

/// Those of a mix, as long as this lives.
pub(super) struct Controls(Vec<(Name, CongestionControl)>);

impl Controls {
    pub(super) fn provide(mix: &Mix) -> Result<Controls, BpfError> {
        let names = mix.0.iter().filter_map(|&(_, cc)| Some((cc, kernel_name(cc)?)));
        names
            .map(|(cc, name)| Ok((cc, CongestionControl::provide(name)?)))
            .collect::<Result<_, _>>()
            .map(Controls)
    }

    fn name(&self, cc: Name) -> Option<&str> {
        self.0.iter().find(|(own, _)| *own == cc).map(|(_, control)| control.name())
    }

    /// That of the receivers, if it matters.
    fn at_receivers(&self) -> Option<&str> {
        self.0.iter().find(|(_, control)| control.needs_both_ends()).map(|(_, control)| control.name())
    }
}

fn source(path: usize) -> String {
    format!("198.18.0.{}", path + 1)
}

/// The hosts of a cell, with their addresses.
fn connected(cell: &Cell<'_>) -> Result<Graph, RunError> {
    let graph = Graph::connected(BOTTLENECK)?;
    let sources = (0..cell.rtts.0.len()).map(|path| ("s0", source(path)));
    for (end, address) in sources.chain([("r0", RECEIVER.to_string())]) {
        graph.end(end).add_address(address.parse().expect("an address"), 24)?;
    }
    if !cell.offloads {
        let off = || [Offload::Tso, Offload::Gso].iter().try_for_each(|kind| set_offload("s0", *kind, false));
        graph.host("sender").run(off)?;
    }
    Ok(graph)
}

/// The bottleneck of a point: the same rate, buffer to the byte and queue as in its scenario.
fn settings(cell: &Cell<'_>, scenario: &Scenario) -> Result<Settings, RunError> {
    let mut settings = Settings { seed: scenario.seed, ..Settings::default() };
    let mut set = |name: &str, value: &str| settings.set(name, value).map_err(failed);
    set("rate", &scenario.rate.first().to_string())?;
    // ACKs take no capacity, as in the simulator.
    set("back-rate", "none")?;
    set("buffer", &scenario.buffer_bytes().to_string())?;
    set("aqm", cell.queue)?;
    let one_way_us = |rtt_ms: f64| format!("{}us", rtt_ms * 500.0);
    set("delay", &one_way_us(cell.rtts.0.iter().copied().fold(0.0, f64::max)))?;
    for (path, rtt_ms) in cell.rtts.0.iter().enumerate() {
        set("path", &format!("{}/32={}", source(path), one_way_us(*rtt_ms)))?;
    }
    Ok(settings)
}

/// Changes the rate at the times of the scenario, counted from the barrier, until the flows are over.
fn change_rates(rate: &Rate, barrier: &Receiver<Instant>, bottleneck: &Sender<String>) {
    let (Rate::Trace(steps), Ok(began)) = (rate, barrier.recv()) else { return };
    for (at, bits_per_s) in steps.iter().skip(1) {
        let at = began + Duration::from_nanos(at.ns());
        let left = at.saturating_duration_since(Instant::now());
        if barrier.recv_timeout(left) == Err(RecvTimeoutError::Disconnected) {
            return;
        }
        // The bottleneck has gone if it failed, which it reports itself.
        let _ = bottleneck.send(format!("rate {bits_per_s}"));
    }
}

/// Measures a point.
pub(super) fn measure(
    cell: &Cell<'_>,
    scenario: &Scenario,
    stop: &AtomicBool,
) -> Result<(Shared, History), RunError> {
    let controls = Controls::provide(cell.mix).map_err(failed)?;
    let graph = connected(cell)?;
    let (changes, lines) = channel();
    let link = Link::start(&graph, settings(cell, scenario)?, Some(lines))?;
    let address = format!("{RECEIVER}:5301").parse().expect("an address");
    let serve = || listen(address, controls.at_receivers()).and_then(Server::over);
    let server = graph.host("receiver").run(serve).map_err(failed)?;
    let groups = cell.groups().into_iter().map(|(flows, cc, rtt_ms)| Group {
        flows,
        cc: controls.name(cc).map(str::to_string),
        from: cell
            .rtts
            .0
            .iter()
            .position(|rtt| *rtt == rtt_ms)
            .and_then(|path| source(path).parse().ok())
            .map(|from| SocketAddr::new(from, 0)),
        start: Duration::ZERO,
    });
    let load = Load {
        to: address,
        groups: groups.collect(),
        duration: Duration::from_nanos(scenario.duration.ns()),
        interval: INTERVAL,
        grace: GRACE,
        reset: true,
        iperf3: false,
        rate: None,
    };
    let (mut intervals, mut began) = (Vec::new(), None);
    let (tell, barrier) = channel();
    let rate = scenario.rate.clone();
    let changer = std::thread::spawn(move || change_rates(&rate, &barrier, &changes));
    let flows = graph.host("sender").run(|| {
        let mut see = |interval: &Interval| {
            // An interval is seen after its end: the earliest of these times is the nearest to the barrier.
            let barrier = Instant::now().checked_sub(Duration::from_secs_f64(interval.to_s.max(0.0)));
            if let (None, Some(barrier)) = (began, barrier) {
                // Without rate changes there is no receiver.
                let _ = tell.send(barrier);
            }
            began = [began, barrier].into_iter().flatten().min();
            intervals.push(interval.clone());
        };
        weir_flows::run(&load, weir_flows::Observe { stop, see: &mut see })
    });
    drop(tell);
    changer.join().map_err(|_| failed("the thread that changes the rate has panicked"))?;
    drop(server);
    let link = link.end()?;
    let flows = flows.map_err(failed)?;
    let began = began.ok_or_else(|| {
        failed("the trial is shorter than an interval of the flows: use a longer duration_s")
    })?;
    let began_s = began.saturating_duration_since(link.since).as_secs_f64();
    let seen = Seen { link, began_s, intervals, flows };
    let series = seen.series();
    Ok((seen.shared(cell, scenario, &series), History::of(&series, scenario)))
}

/// What was seen of a point.
struct Seen {
    link: Passed,
    /// The flows' barrier by the bottleneck's clock.
    began_s: f64,
    intervals: Vec<Interval>,
    flows: weir_flows::Outcome,
}

impl Seen {
    /// What the bottleneck saw in this time of the flows.
    fn snapshots(&self, from_s: f64, to_s: f64) -> impl Iterator<Item = &Snapshot> {
        let middle = move |one: &&Snapshot| {
            let middle_s = one.at_s - self.began_s - INTERVAL.as_secs_f64() / 2.0;
            (from_s..to_s).contains(&middle_s)
        };
        self.link.snapshots.iter().filter(middle)
    }

    /// The flows in the order of their groups, as of a simulation.
    fn series(&self) -> Series {
        let end_s = self.intervals.last().map_or(0.0, |last| last.to_s);
        let mut order: Vec<usize> = (0..self.flows.flows.len()).collect();
        order.sort_by_key(|&flow| self.flows.flows[flow].group);
        let of = |flow: &usize| {
            let info = |of: fn(&weir_flows::Info) -> f64| {
                self.intervals.iter().map(|one| one.info.get(*flow).map_or(0.0, of)).collect()
            };
            FlowSeries {
                bits_per_s: self.intervals.iter().map(|one| one.goodput_bits_per_s[*flow]).collect(),
                cwnd: info(|info| f64::from(info.cwnd)),
                srtt_s: info(|info| f64::from(info.rtt_us) / 1e6),
            }
        };
        let queue = self.snapshots(0.0, end_s).map(|one| one.directions[0].queue_bytes);
        let mut queue_bytes: Vec<u64> = queue.collect();
        queue_bytes.resize(self.intervals.len(), 0);
        Series { interval_s: INTERVAL.as_secs_f64(), queue_bytes, flows: order.iter().map(of).collect() }
    }

    fn shared(&self, cell: &Cell<'_>, scenario: &Scenario, series: &Series) -> Shared {
        let (warm_up_s, end_s) = (scenario.warm_up.secs(), scenario.duration.secs());
        let first = self.intervals.iter().position(|one| one.from_s >= warm_up_s - 1e-3).unwrap_or(0);
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
        let own: Vec<f64> = series.flows.iter().map(|flow| mean(&flow.bits_per_s[first..])).collect();
        let on_link: Vec<f64> =
            self.snapshots(warm_up_s, end_s).map(|one| one.directions[0].bits_per_s).collect();
        let mut sojourns = Histogram::new(LATENCY_BITS, LATENCY_BUCKETS);
        self.snapshots(warm_up_s, end_s).for_each(|one| sojourns.add(one.directions[0].sojourns.counts()));
        let sojourn = |p| sojourns.percentile(p) as f64 / 1e9;
        let there = &self.link.outcome.directions[0];
        let converged = series.convergence();
        Shared {
            utilisation: mean(&on_link) / scenario.rate.mean(scenario.warm_up, scenario.duration),
            idle_empty: 0.0,
            jain: jain(own.iter().copied()),
            jain_least: converged.map(|(_, least)| least),
            convergence_s: converged.map(|(first, _)| first),
            sojourn: Sojourn {
                p1_s: sojourn(0.01),
                p50_s: sojourn(0.5),
                p95_s: sojourn(0.95),
                p99_s: sojourn(0.99),
                max_s: sojourn(1.0),
                ..Sojourn::default()
            },
            groups: groups(cell, &own),
            loss: there.dropped.values().sum::<u64>() as f64 / there.entered.max(1) as f64,
            stalled: self.flows.stalled.len(),
            invalid: self.link.outcome.invalid.clone(),
            lateness: Some(lateness(there)),
            mathis: None,
            responses: Response::all(series, scenario),
        }
    }
}

fn lateness(there: &Direction) -> Lateness {
    let Quantiles { p50, p95, p99, max } = there.lateness_ns;
    Lateness { p50_ns: p50, p95_ns: p95, p99_ns: p99, max_ns: max, slot_ns: there.slot_ns }
}

/// The groups, from the rates of all flows in their order.
fn groups(cell: &Cell<'_>, own: &[f64]) -> Vec<GroupOutcome> {
    let total: f64 = own.iter().sum();
    let mut flows = own;
    let of = |(count, cc, rtt_ms): (u32, Name, f64)| {
        let (rates, rest) = flows.split_at(flows.len().min(count as usize));
        flows = rest;
        let sum: f64 = rates.iter().sum();
        let share = sum / total.max(1.0);
        GroupOutcome {
            cc: cc.text().into(),
            flows: count,
            rtt_s: rtt_ms / 1e3,
            share,
            share_of_fair: share * own.len() as f64 / f64::from(count.max(1)),
            jain: jain(rates.iter().copied()),
            goodput_bits_per_s: sum / f64::from(count.max(1)),
            loss: 0.0,
            marks: 0.0,
        }
    };
    cell.groups().into_iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_queue::Time;

    /// Changes at these times of a barrier that was so long ago, if the flows end at once or go on.
    fn changes(at_s: &[u64], ago_s: u64, flows_end: bool) -> Vec<String> {
        let step = |&s: &u64| (Time::from_s(s), 1000 + s);
        let rate = Rate::Trace([0].iter().chain(at_s).map(step).collect());
        let (tell, barrier) = channel();
        let (bottleneck, lines) = channel();
        tell.send(Instant::now() - Duration::from_secs(ago_s)).unwrap();
        let flows = (!flows_end).then_some(tell);
        change_rates(&rate, &barrier, &bottleneck);
        drop((bottleneck, flows));
        lines.iter().collect()
    }

    #[test]
    fn rates_change_in_their_order_until_the_flows_end() {
        assert_eq!(changes(&[1, 2], 5, false), ["rate 1001", "rate 1002"]);
        assert_eq!(changes(&[3600], 0, true), [""; 0], "it does not wait for an hour");
    }

    #[test]
    fn every_congestion_control_but_prague_can_be_had() {
        let without: Vec<Name> = Name::ALL.into_iter().filter(|cc| kernel_name(*cc).is_none()).collect();
        assert_eq!(without, [Name::Prague]);
        let ours: Vec<&str> = weir_port::bpf::congestion::names().collect();
        assert!(
            ours.iter().all(|name| Name::ALL.iter().any(|cc| kernel_name(*cc) == Some(name))),
            "{ours:?}"
        );
    }
}
