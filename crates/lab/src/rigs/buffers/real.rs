//! A point of the grid on a real bed: kernels' TCP through a bottleneck of this program, in namespaces.
//!
//! ```text
//!  sender, an address for each round trip - veth - [ weir-bottleneck ] - veth - receiver
//! ```
//! The queue is the simulator's code, and its decisions follow from the times at which the kernel received frames. What is real are
//! the senders: the kernel's TCP with its offloads and bursts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use weir_bottleneck::{Bridge, Observe, Outcome, Settings, Snapshot, chunks_for};
use weir_flows::{Group, Interval, Load, Server};
use weir_port::duplex::{Packet, Pool, Port};
use weir_queue::Time;
use weir_sim::cc::Name;
use weir_sim::{GroupOutcome, Scenario, Sojourn, jain};
use weir_testbed::namespace::Namespace;
use weir_testbed::rtnl::{Rtnl, VethConfig, VethEnd};

use super::plan::Cell;
use super::run::Shared;
use crate::run::RunError;

/// Length of an interval of both series.
const INTERVAL: Duration = Duration::from_millis(100);
/// Late bytes may arrive for so long.
const GRACE: Duration = Duration::from_secs(30);
/// Longest frame of the wires, with VLAN tags.
const LONGEST: usize = 1522;
const RECEIVER: &str = "198.18.0.254";

/// The kernel's name of a congestion control; `None` where it has none by itself.
pub(super) fn kernel_name(cc: Name) -> Option<&'static str> {
    match cc {
        Name::Reno => Some("reno"),
        Name::Cubic => Some("cubic"),
        Name::Bbr1 => Some("bbr"),
        _ => None,
    }
}

/// Namespaces with their wires.
struct Wires {
    sender: Namespace,
    middle: Namespace,
    receiver: Namespace,
}

fn source(path: usize) -> String {
    format!("198.18.0.{}", path + 1)
}

impl Wires {
    fn new(paths: usize) -> Result<Wires, RunError> {
        let [sender, middle, receiver] = [Namespace::new()?, Namespace::new()?, Namespace::new()?];
        let sources: Vec<String> = (0..paths).map(source).collect();
        let ends =
            [(1, &sender, "s0", "m0", sources), (2, &receiver, "r0", "m1", vec![RECEIVER.to_string()])];
        for (number, host, name, inner, addresses) in ends {
            let outer = VethEnd { name, mac: [2, 0, 0, 0, 0, number], namespace: host.fd() };
            let end = VethEnd { name: inner, mac: [2, 0, 0, 0, 1, number], namespace: middle.fd() };
            host.run(|| Rtnl::open()?.add_veth([outer, end], VethConfig { mtu: 1500, queues: 1 }))?;
            let up = |space: &Namespace, name: &str| {
                space.run(|| {
                    let mut rtnl = Rtnl::open()?;
                    let index = rtnl.link(name)?.ifindex;
                    rtnl.set_up(index, true)?;
                    Ok::<u32, weir_testbed::error::Error>(index)
                })
            };
            up(&middle, inner)?;
            let index = up(host, name)?;
            for address in addresses {
                let address = address.parse().expect("an address");
                host.run(|| Rtnl::open()?.add_address(index, address, 24))?;
            }
        }
        Ok(Wires { sender, middle, receiver })
    }
}

fn failed(error: impl ToString) -> RunError {
    RunError::Search(error.to_string())
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

/// A bottleneck that runs in a thread of its own.
struct Running {
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<Result<(Outcome, Vec<Snapshot>), RunError>>,
}

impl Running {
    fn start(middle: &Namespace, settings: Settings) -> Result<Running, RunError> {
        let bridge = middle.run(|| {
            let open = |name| Packet::open(name, LONGEST, true).map(|port| Box::new(port) as Box<dyn Port>);
            let ports = [open("m0").map_err(failed)?, open("m1").map_err(failed)?];
            let pool = Pool::new(chunks_for(&settings), LONGEST).map_err(failed)?;
            Bridge::new(ports, pool, settings, false).map_err(failed)
        });
        let mut bridge = bridge?;
        let stop = Arc::new(AtomicBool::new(false));
        let ended = stop.clone();
        let thread = middle.spawn("bottleneck", move || {
            let mut seen = Vec::new();
            let observe = Observe {
                stop: &ended,
                changes: None,
                interval: INTERVAL,
                duration: None,
                see: &mut |snapshot| seen.push(snapshot.clone()),
                changed: &mut |_, _| (),
            };
            let outcome = weir_bottleneck::run(&mut bridge, observe).map_err(failed)?;
            Ok((outcome, seen))
        })?;
        Ok(Running { stop, thread })
    }

    fn end(self) -> Result<(Outcome, Vec<Snapshot>), RunError> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| failed("the bottleneck's thread has panicked"))?
    }
}

/// Measures a point.
pub(super) fn measure(cell: &Cell<'_>, scenario: &Scenario, stop: &AtomicBool) -> Result<Shared, RunError> {
    let wires = Wires::new(cell.rtts.0.len())?;
    let (duration, warm_up) = (scenario.duration, scenario.warm_up);
    let link = Running::start(&wires.middle, settings(cell, scenario)?)?;
    let address = format!("{RECEIVER}:5301").parse().expect("an address");
    let server = wires.receiver.run(|| Server::start(address)).map_err(failed)?;
    let groups = cell.groups().into_iter().map(|(flows, cc, rtt_ms)| Group {
        flows,
        cc: kernel_name(cc).map(str::to_string),
        from: cell.rtts.0.iter().position(|rtt| *rtt == rtt_ms).and_then(|path| source(path).parse().ok()),
        start: Duration::ZERO,
    });
    let load = Load {
        to: address,
        groups: groups.collect(),
        duration: Duration::from_nanos(duration.ns()),
        interval: INTERVAL,
        grace: GRACE,
        reset: true,
        rate: None,
    };
    let mut intervals: Vec<Interval> = Vec::new();
    let flows = wires.sender.run(|| {
        let mut see = |interval: &Interval| intervals.push(interval.clone());
        weir_flows::run(&load, weir_flows::Observe { stop, see: &mut see })
    });
    drop(server);
    let (outcome, snapshots) = link.end()?;
    let flows = flows.map_err(failed)?;
    Ok(shared(cell, scenario, Seen { outcome, snapshots, intervals, flows, warm_up }))
}

/// What was seen of a point.
struct Seen {
    outcome: Outcome,
    snapshots: Vec<Snapshot>,
    intervals: Vec<Interval>,
    flows: weir_flows::Outcome,
    warm_up: Time,
}

fn shared(cell: &Cell<'_>, scenario: &Scenario, seen: Seen) -> Shared {
    let Seen { outcome, snapshots, intervals, flows, warm_up } = seen;
    let [there, _] = &outcome.directions;
    // Both series end with the flows; from the end, because the bottleneck had begun before them.
    let counted = intervals.iter().filter(|one| one.from_s >= warm_up.secs());
    let counted: Vec<&Interval> = counted.collect();
    let mut own = vec![0.0; flows.flows.len()];
    for interval in &counted {
        own.iter_mut().zip(&interval.goodput_bits_per_s).for_each(|(sum, rate)| *sum += rate);
    }
    own.iter_mut().for_each(|sum| *sum /= counted.len().max(1) as f64);
    let rate = scenario.rate.first() as f64;
    // The bytes on the link of intervals that were busy from beginning to end.
    let busy = snapshots.iter().map(|one| one.directions[0].bits_per_s).filter(|bits| *bits > 0.0);
    let busy: Vec<f64> = busy.collect();
    let middle =
        busy.get(busy.len().saturating_sub(counted.len() + 1)..busy.len().saturating_sub(1)).unwrap_or(&[]);
    let s = |ns: u64| ns as f64 / 1e9;
    let sojourn = there.sojourn_ns;
    let total: f64 = own.iter().sum();
    let groups = (0..).zip(cell.groups()).map(|(number, (count, cc, rtt_ms)): (u32, _)| {
        let rates: Vec<f64> = flows
            .flows
            .iter()
            .zip(&own)
            .filter(|(flow, _)| flow.group == number)
            .map(|(_, rate)| *rate)
            .collect();
        let sum: f64 = rates.iter().sum();
        let share = sum / total.max(1.0);
        GroupOutcome {
            cc: cc.text().into(),
            flows: count,
            rtt_s: rtt_ms / 1e3,
            share,
            share_of_fair: share * flows.flows.len() as f64 / f64::from(count.max(1)),
            jain: jain(rates.iter().copied()),
            goodput_bits_per_s: sum / f64::from(count.max(1)),
            loss: 0.0,
            marks: 0.0,
        }
    });
    Shared {
        utilisation: middle.iter().sum::<f64>() / middle.len().max(1) as f64 / rate,
        idle_empty: 0.0,
        jain: jain(own.iter().copied()),
        jain_least: None,
        convergence_s: None,
        sojourn: Sojourn {
            p50_s: s(sojourn.p50),
            p95_s: s(sojourn.p95),
            p99_s: s(sojourn.p99),
            max_s: s(sojourn.max),
            ..Sojourn::default()
        },
        groups: groups.collect(),
        loss: there.dropped.values().sum::<u64>() as f64 / there.entered.max(1) as f64,
        stalled: flows.stalled.len(),
        invalid: outcome.invalid,
    }
}
