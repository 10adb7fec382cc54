//! Untrusted counts from another host: accepted ones can be added up, put into a histogram and dated like counts of our own.

use std::time::Duration;

use crate::counts::{Counts, GroupCounts, Sent, StreamCounts, Traffic};
use crate::histogram::{LATE_BITS, LATENCY_BITS};
use weir_port::shared::{LATE_BUCKETS, LATENCY_BUCKETS, MARKS};

/// Frames, at most: three hours at 100 M/s.
pub const MOST_FRAMES: u64 = 1 << 40;
/// A time, at most, ns: 13 days.
pub const MOST_NS: u64 = 1 << 50;
/// A reading of CLOCK_MONOTONIC, at most, ns: 146 years after the host was started.
pub const MOST_CLOCK_NS: u64 = 1 << 62;

impl Sent {
    /// Whether it can be what these streams of a trial sent, in order.
    ///
    /// # Errors
    /// What cannot be so, in words.
    pub fn check(&self, traffic: &Traffic, streams: &[usize]) -> Result<(), String> {
        check_time("the time of sending", self.sending)?;
        check_streams(&self.streams, traffic, streams)
    }
}

impl Counts {
    /// Whether it can be what was counted of these streams of a trial, in order.
    ///
    /// # Errors
    /// What cannot be so, in words.
    pub fn check(&self, traffic: &Traffic, streams: &[usize]) -> Result<(), String> {
        check_time("the time of sending", self.sending)?;
        for port in &self.ports {
            let frames =
                [port.corrupted, port.stale, port.misdelivered, port.other, port.reflected, port.broadcasts];
            frames.iter().try_for_each(|&n| at_most("frames of a port", n, MOST_FRAMES))?;
        }
        if self.drops.len() > 64 {
            return Err(format!("{} places where the tester lost frames", self.drops.len()));
        }
        for drop in &self.drops {
            at_most("frames that the tester lost", drop.frames, MOST_FRAMES)?;
        }
        check_streams(&self.streams, traffic, streams)
    }
}

fn check_streams(found: &[StreamCounts], traffic: &Traffic, expected: &[usize]) -> Result<(), String> {
    let numbers: Vec<usize> = found.iter().map(|stream| stream.stream).collect();
    if numbers != expected {
        return Err(format!("counts of the streams {numbers:?} in place of {expected:?}"));
    }
    found.iter().try_for_each(|stream| check_stream(stream, usize::from(traffic.flows.groups)))
}

fn check_stream(stream: &StreamCounts, groups: usize) -> Result<(), String> {
    if stream.groups.len() != groups {
        return Err(format!("{} flow groups in place of {groups}", stream.groups.len()));
    }
    if !stream.late.has_form(LATE_BITS, LATE_BUCKETS, MOST_FRAMES) {
        return Err("a histogram of lateness that is none".into());
    }
    for frames in [stream.offered, stream.sent, stream.broadcasts] {
        at_most("frames of a stream", frames, MOST_FRAMES)?;
    }
    at_most("bytes of a stream", stream.sent_bytes, MOST_FRAMES << 16)?;
    for ns in [stream.late_max_ns, stream.late_end_ns, stream.last_ns, stream.turned_ns.unwrap_or(0)] {
        at_most("ns of a stream", ns, MOST_NS)?;
    }
    at_most("the start of a stream", stream.start_ns, MOST_CLOCK_NS)?;
    if stream.marks.len() > MARKS {
        return Err(format!("{} marks of arrivals, which is more than there can be", stream.marks.len()));
    }
    for mark in &stream.marks {
        at_most("frames of a mark", mark.frames, MOST_FRAMES)?;
        at_most("ns of a mark", mark.at_ns, MOST_NS)?;
    }
    stream.groups.iter().try_for_each(check_group)
}

fn check_group(group: &GroupCounts) -> Result<(), String> {
    let GroupCounts { sent, received, duplicated, reordered, extent_max, lost, .. } = group;
    for frames in [sent, received, duplicated, reordered, extent_max, &lost.count, &lost.runs, &lost.run_max]
    {
        at_most("frames of a flow group", *frames, MOST_FRAMES)?;
    }
    if !group.latency.has_form(LATENCY_BITS, LATENCY_BUCKETS, MOST_FRAMES) {
        return Err("a histogram of latency that is none".into());
    }
    if group.latency.total() > 0 && group.latency_min_ns > group.latency_max_ns {
        return Err("a smallest latency that is above the largest".into());
    }
    if group.ipdv.as_ref().is_some_and(|ipdv| !ipdv.is_sound(MOST_FRAMES)) {
        return Err("differences between latencies that contradict each other".into());
    }
    for event in &lost.events {
        at_most("frames of a period of loss", event.lost, MOST_FRAMES)?;
        for ns in [event.first_sent_ns, event.last_sent_ns, event.outage_ns] {
            at_most("ns of a period of loss", ns, MOST_NS)?;
        }
        if event.last_sent_ns < event.first_sent_ns {
            return Err("a period of loss that ends before it begins".into());
        }
    }
    Ok(())
}

fn check_time(what: &str, time: Duration) -> Result<(), String> {
    at_most(what, u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), MOST_NS)
}

fn at_most(what: &str, n: u64, most: u64) -> Result<(), String> {
    if n <= most { Ok(()) } else { Err(format!("{what}: {n}, which is more than there can be")) }
}
