//! Converts the counts of a tester to a record.

use std::time::Duration;

use weir_load::counts::{self, Counts, GroupCounts, Load, Shape, StreamCounts};
use weir_load::ipdv::Ipdv;
use weir_load::tcp::Part;
use weir_testbed::counters::TO_DUT;
use weir_testbed::topology;

use weir_record::record::{self, Broadcasts, Departures, DropCounter, Latency, LossEvent, Owner, Stream};

/// What a load is beyond rate, time and number of frames, as name and value; what is as usual is left out.
pub fn load_parameters(load: &Load) -> Vec<(String, String)> {
    let usual = Load::full_speed(load.duration);
    let mut list = Vec::new();
    let mut add = |name: &str, value: String| list.push((name.to_string(), value));
    let seconds = |time: Duration| format!("{} s", time.as_secs_f64());
    match load.shape {
        Shape::Steady => {}
        Shape::Step { at, fps } => add("rate changes", format!("after {} to {fps} frames/s", seconds(at))),
        Shape::Bursts { frames, within_fps } => {
            let rate = within_fps.map_or("at full speed".into(), |fps| format!("at {fps} frames/s"));
            add("bursts", format!("of {frames} frames {rate}"));
        }
    }
    if let Some(only) = load.only {
        add("streams", if only == 0 { "a>b alone".into() } else { "b>a alone".into() });
    }
    if load.merge != usual.merge {
        add("periods of loss", format!("are at least {} apart", seconds(load.merge)));
    }
    if let Some(drain) = load.drain {
        add("ends", format!("when nothing has arrived for {}", seconds(drain)));
    }
    if !load.timed_from.is_zero() {
        add("timed", format!("from {} on", seconds(load.timed_from)));
    }
    if load.ipdv {
        add("ipdv", "counted".into());
    }
    if load.overload {
        add("arrivals", "counted in windows".into());
    }
    if let Some(every) = load.broadcast_every {
        add("broadcast", format!("before each {every}th frame"));
    }
    if let Some(Part { act, first, count }) = load.tcp {
        add("TCP connections", format!("{count} from number {first} on: {}", act.name()));
    }
    if let Some(share) = load.share {
        add("streams", format!("{share} of the rate is a>b"));
    }
    list
}

/// Mean rate of sending, frames/s, all directions together.
pub(crate) fn sent_fps(counts: &Counts, duration: Duration) -> f64 {
    let sent: u64 = counts.streams.iter().map(|s| s.sent).sum();
    let last_ns = counts.streams.iter().map(|s| s.last_ns).max().unwrap_or(0);
    let time_s = if last_ns > 0 { last_ns as f64 / 1e9 } else { duration.as_secs_f64() };
    sent as f64 / time_s
}

/// When the first frame left after which the rate was another one, ns after the start; in the first direction, half a
/// gap before the other one.
pub(crate) fn rate_changed_ns(counts: &Counts, load: &Load) -> Option<u64> {
    let steps = matches!(load.shape, Shape::Step { .. });
    counts.streams.first().filter(|_| steps)?.turned_ns
}

/// The broadcasts that went along. Of those that did not arrive a device discarded as many as it says at most.
pub(crate) fn broadcasts(counts: &Counts, discarded: u64) -> Broadcasts {
    let sent = counts.streams.iter().map(|s| s.broadcasts).sum();
    // One may have been duplicated.
    let received = counts.ports.iter().map(|p| p.broadcasts).sum::<u64>().min(sent);
    Broadcasts { sent, received, discarded: discarded.min(sent - received) }
}

/// A bridge takes a copy of each broadcast for itself: it is no loss.
pub(crate) fn leave_out_copies(drop_counters: &mut Vec<DropCounter>, mut broadcasts: u64) {
    for line in drop_counters.iter_mut().filter(|line| line.name == TO_DUT) {
        let copies = line.frames.min(broadcasts);
        (line.frames, broadcasts) = (line.frames - copies, broadcasts - copies);
    }
    drop_counters.retain(|line| line.frames > 0);
}

/// Relative difference between the rate that was sent and the one that was asked for: frames that were not
/// sent, and the time that the others took beyond theirs. Where the rate changes, that before the change counts as
/// well: what was late by then and caught up afterwards was not sent at that rate.
pub(crate) fn rate_error(counts: &Counts, load: &Load) -> f64 {
    let (offered, sent) = counts.streams.iter().fold((0, 0), |(o, s), c| (o + c.offered, s + c.sent));
    if offered == 0 {
        return 0.0;
    }
    let stretched =
        |time: Duration, late_ns: u64| time.as_secs_f64() / (time.as_secs_f64() + late_ns as f64 / 1e9);
    let late_ns = counts.streams.iter().map(|s| s.late_end_ns).max().unwrap_or(0);
    // A number of frames may end a trial before its time.
    let time = match (load.fps, load.max_frames) {
        (Some(fps), Some(_)) => load.duration.min(Duration::from_secs_f64(offered as f64 / fps)),
        _ => load.duration,
    };
    let whole = sent as f64 / offered as f64 * stretched(time, late_ns) - 1.0;
    match (load.shape, rate_changed_ns(counts, load)) {
        (Shape::Step { at, .. }, Some(ns)) if !at.is_zero() => {
            whole.min(stretched(at, ns.saturating_sub(at.as_nanos() as u64)) - 1.0)
        }
        _ => whole,
    }
}

pub(crate) fn drop_counter(drop: weir_testbed::counters::Drop) -> DropCounter {
    let owner = match drop.owner {
        topology::Owner::Tester => Owner::Tester,
        topology::Owner::Dut => Owner::Dut,
    };
    DropCounter { name: drop.name.into(), owner, frames: drop.frames, source: drop.source }
}

pub(crate) fn remarks(counts: &Counts) -> Vec<String> {
    let other: u64 = counts.ports.iter().map(|p| p.other).sum();
    (other > 0).then(|| format!("{other} other frames arrived at the tester")).into_iter().collect()
}

pub(crate) fn stream_record(direction: &str, group: u32, corrupted: u64, counts: &GroupCounts) -> Stream {
    Stream {
        direction: direction.to_string(),
        group,
        sent: counts.sent,
        received: counts.received,
        lost: counts.sent.saturating_sub(counts.received),
        reordered: counts.reordered,
        reorder_extent_max: counts.extent_max,
        duplicated: counts.duplicated,
        corrupted,
        latency: latency_record(counts),
        loss_events: counts.lost.events.iter().map(loss_event).collect(),
        loss_event_count: counts.lost.count,
        loss_runs: counts.lost.runs,
        loss_run_max: counts.lost.run_max,
        ipdv: counts.ipdv.as_deref().map(ipdv_record),
    }
}

fn loss_event(event: &counts::LossEvent) -> LossEvent {
    let counts::LossEvent { first_sent_ns, last_sent_ns, lost, outage_ns } = *event;
    LossEvent { first_sent_ns, last_sent_ns, lost, outage_ns }
}

fn ipdv_record(ipdv: &Ipdv) -> record::Ipdv {
    record::Ipdv { count: ipdv.count, min_ns: ipdv.min_ns, p50_ns: ipdv.median_ns(), max_ns: ipdv.max_ns }
}

pub(crate) fn departures(stream: &StreamCounts) -> Departures {
    let percentile = |p| stream.late.percentile(p).min(stream.late_max_ns);
    // The gaps between the first frame's due time and the last departure.
    let gaps = stream.sent.saturating_sub(1) as f64;
    Departures {
        rate_fps: if stream.last_ns == 0 { 0.0 } else { gaps * 1e9 / stream.last_ns as f64 },
        count: stream.sent,
        late_p50_ns: percentile(0.5),
        late_p99_ns: percentile(0.99),
        late_p999_ns: percentile(0.999),
        late_max_ns: stream.late_max_ns,
        buckets: stream.late.buckets(),
    }
}

fn latency_record(counts: &GroupCounts) -> Latency {
    let count = counts.latency.total();
    if count == 0 {
        return Latency::default();
    }
    // A percentile is the middle of a bucket and may lie outside of what was really seen.
    let percentile = |p| counts.latency.percentile(p).clamp(counts.latency_min_ns, counts.latency_max_ns);
    Latency {
        count,
        min_ns: counts.latency_min_ns,
        mean_ns: counts.latency_sum_ns as f64 / count as f64,
        p50_ns: percentile(0.5),
        p90_ns: percentile(0.9),
        p99_ns: percentile(0.99),
        p999_ns: percentile(0.999),
        max_ns: counts.latency_max_ns,
        buckets: counts.latency.buckets(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// One stream of a trial.
    fn check(load: Load, [offered, sent, late_end_ns]: [u64; 3], turned_ns: Option<u64>, expected: f64) {
        let stream = StreamCounts {
            stream: 0,
            offered,
            sent,
            sent_bytes: 0,
            late: counts::empty_lateness(),
            late_max_ns: 0,
            late_end_ns,
            start_ns: 0,
            last_ns: 0,
            turned_ns,
            broadcasts: 0,
            groups: Vec::new(),
            marks: Vec::new(),
        };
        let ports = Default::default();
        let counts = Counts { streams: vec![stream], ports, sending: SECOND, drops: Vec::new() };
        let error = rate_error(&counts, &load);
        assert!((error - expected).abs() < 1e-6, "{load:?}: {error}");
    }

    #[test]
    fn the_rate_is_wrong_by_what_was_not_sent_and_by_what_was_late() {
        let steady = Load::steady(1e6, SECOND);
        check(steady, [1_000_000, 1_000_000, 0], None, 0.0);
        check(steady, [1_000_000, 990_000, 0], None, -0.01);
        check(steady, [1_000_000, 1_000_000, 1_000_000], None, -0.000_999);
        check(Load::full_speed(SECOND), [0, 0, 0], None, 0.0);
        // A thousand frames are a millisecond.
        let few = Load { max_frames: Some(1000), ..steady };
        check(few, [1000, 1000, 1_000_000], None, -0.5);
        check(Load { fps: None, ..few }, [1000, 1000, 0], None, 0.0);
        // What was caught up after the change was missing before it.
        let step = Load { shape: Shape::Step { at: SECOND / 10, fps: 1e3 }, ..steady };
        check(step, [100_900, 100_900, 0], Some(100_000_000), 0.0);
        check(step, [100_900, 100_900, 0], Some(125_000_000), -0.2);
        check(step, [100_900, 50_000, 0], None, 50_000.0 / 100_900.0 - 1.0);
    }

    #[test]
    fn a_plain_load_has_no_parameters() {
        assert_eq!(load_parameters(&Load::steady(1e6, SECOND)), []);
        assert_eq!(load_parameters(&Load::full_speed(SECOND)), []);
        let load = Load {
            shape: Shape::Bursts { frames: 16, within_fps: None },
            timed_from: SECOND * 60,
            ..Load::steady(1e6, SECOND)
        };
        let text: Vec<String> = load_parameters(&load).iter().map(|(n, v)| format!("{n} {v}")).collect();
        assert_eq!(text, ["bursts of 16 frames at full speed", "timed from 60 s on"]);
    }
}
