//! `weir receive`: receives test frames on an interface of the user, and reports loss, order, duplicates and latency.

use std::io::Write;

use anyhow::Result;
use serde_json::{Value, json};
use weir_linux::rtnl::Link;
use weir_load::counts::{Arrivals, Arrived};
use weir_load::receive::{GROUPS, Receiver, Until};
use weir_load::xdp::Interface;
use weir_load::{LoadError, TesterKind};
use weir_port::bpf::{BpfError, Mode};

use crate::generate::name;
use crate::live::Live;
use crate::outcome::Outcome;
use crate::{cli, interface, run};
use weir_service::say;

/// A larger latency means that the two clocks are not synchronised.
const IMPLAUSIBLE_NS: u64 = 10_000_000_000;

/// Receives the frames, and prints the counts.
pub(crate) fn count(arguments: &cli::Receive, out: &mut impl Write) -> Result<Outcome> {
    let link = weir_lab::interface::find(&arguments.interface)?;
    weir_lab::interface::check_ready(&link)?;
    let mut notes = Vec::new();
    let kind = interface::tester_kind(arguments.tester, &mut notes)?;
    let stop = run::stop_flag()?;
    let (kind, mut receiver) = start(arguments, kind, &link, &mut notes)?;
    say::notes(&notes);
    // A script that waits for this line may begin to send.
    say::say(&format!("receiving on {}, {}", link.name, name(kind)));
    let live = Live::new();
    let until = Until { duration: arguments.duration, frames: arguments.count, stop: &stop };
    let result = receiver.run(&until, |arrivals| live.update("received", arrivals.frames, &brief(arrivals)));
    live.finish();
    let arrivals = result?;
    notes.extend(remarks(&arrivals));
    if arguments.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&document(arguments, kind, &arrivals, &notes))?)?;
    } else {
        out.write_all(text(arguments, &arrivals, &notes).as_bytes())?;
    }
    let stopped = stop.load(std::sync::atomic::Ordering::Relaxed);
    let asked_for_end = arguments.duration.is_some() || arguments.count.is_some();
    Ok(if stopped && asked_for_end { Outcome::Interrupted } else { Outcome::Done })
}

/// XDP in the driver, else in the kernel's receive path, else a packet socket with --tester auto.
fn start(
    arguments: &cli::Receive,
    kind: TesterKind,
    link: &Link,
    notes: &mut Vec<String>,
) -> Result<(TesterKind, Receiver), LoadError> {
    let open = |kind, mode| {
        let port = Interface { ifindex: link.ifindex, mode, pass: true };
        Receiver::start(kind, port, arguments.reflect)
    };
    match open(kind, Mode::Native) {
        Err(LoadError::Bpf(error @ BpfError::Attach { .. })) => {
            notes.push(format!(
                "Using XDP in the kernel's receive path, which is several times slower than in the driver: {error}."
            ));
            match open(kind, Mode::Generic) {
                Err(LoadError::Bpf(error)) if arguments.tester == cli::TesterKind::Auto => {
                    notes.push(format!("Using a packet socket instead of XDP: {error}."));
                    Ok((TesterKind::Packet, open(TesterKind::Packet, Mode::Native)?))
                }
                started => Ok((kind, started?)),
            }
        }
        started => Ok((kind, started?)),
    }
}

fn brief(arrivals: &Arrivals) -> String {
    let sum = |count: fn(&Arrived) -> u64| arrivals.groups.iter().map(count).sum::<u64>();
    let (lost, corrupted) = (sum(Arrived::lost), arrivals.port.corrupted);
    let (duplicated, reordered) = (sum(|g| g.counts.duplicated), sum(|g| g.counts.reordered));
    format!(", lost {lost}, duplicated {duplicated}, reordered {reordered}, corrupted {corrupted}")
}

/// Notes on the validity of these results.
fn remarks(arrivals: &Arrivals) -> Vec<String> {
    let mut remarks = Vec::new();
    let timed = || arrivals.groups.iter().filter(|group| group.counts.received > 0);
    if timed().any(|group| group.counts.latency_max_ns > IMPLAUSIBLE_NS) {
        remarks.push(
            "Latencies above 10 s: sender and receiver have different clocks, so the latencies are invalid."
                .into(),
        );
    } else if timed().any(|group| group.counts.latency_max_ns == 0) {
        remarks.push(
            "Latencies of zero: the sender's clock is ahead of this one, so the latencies are invalid."
                .into(),
        );
    }
    let grouped: u64 = arrivals.groups.iter().map(|g| g.counts.received + g.counts.duplicated).sum();
    if arrivals.frames > grouped {
        let others = arrivals.frames - grouped;
        remarks
            .push(format!("{others} frames belong to flow groups from {GROUPS} on, which have no counters."));
    }
    if arrivals.ring_drops > 0 {
        let drops = arrivals.ring_drops;
        remarks
            .push(format!("{drops} frames of any kind were lost here, because this receiver was too slow."));
    }
    remarks
}

fn document(arguments: &cli::Receive, kind: TesterKind, arrivals: &Arrivals, notes: &[String]) -> Value {
    json!({
        "interface": arguments.interface,
        "tester": name(kind),
        "received": arrivals.frames,
        "corrupted": arrivals.port.corrupted,
        "other": arrivals.port.other,
        "reflected": arrivals.port.reflected,
        "ring_drops": arrivals.ring_drops,
        "groups": arrivals.groups.iter().map(group_json).collect::<Vec<_>>(),
        "notes": notes,
    })
}

fn group_json(group: &Arrived) -> Value {
    let counts = &group.counts;
    let percentile = |p| counts.latency.percentile(p);
    json!({
        "group": group.group,
        "received": counts.received,
        "duplicated": counts.duplicated,
        "reordered": counts.reordered,
        "lost": group.lost(),
        "latency_ns": {
            "min": counts.latency_min_ns,
            "mean": mean_ns(group),
            "p50": percentile(0.5),
            "p99": percentile(0.99),
            "p999": percentile(0.999),
            "max": counts.latency_max_ns,
        },
    })
}

fn mean_ns(group: &Arrived) -> u64 {
    group.counts.latency_sum_ns / group.counts.received.max(1)
}

fn text(arguments: &cli::Receive, arrivals: &Arrivals, notes: &[String]) -> String {
    let port = &arrivals.port;
    let mut text = format!(
        "received  {} test frames, {} corrupted, {} other frames\n",
        arrivals.frames, port.corrupted, port.other
    );
    if arguments.reflect {
        text += &format!("reflected {}\n", port.reflected);
    }
    for group in &arrivals.groups {
        let counts = &group.counts;
        text += &format!(
            "group {:<3} received {}, duplicated {}, reordered {}, lost {}\n",
            group.group,
            counts.received,
            counts.duplicated,
            counts.reordered,
            group.lost()
        );
        let us = |ns: u64| ns as f64 / 1000.0;
        let percentile = |p| us(counts.latency.percentile(p));
        text += &format!(
            "          latency in us: min {:.1}, mean {:.1}, p50 {:.1}, p99 {:.1}, p99.9 {:.1}, max {:.1}\n",
            us(counts.latency_min_ns),
            us(mean_ns(group)),
            percentile(0.5),
            percentile(0.99),
            percentile(0.999),
            us(counts.latency_max_ns)
        );
    }
    notes.iter().for_each(|note| text += &format!("note      {note}\n"));
    text
}
