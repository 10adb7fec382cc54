//! What went wrong with the frames of a trial. Pure: what was counted, when, and how long it took goes in; names come
//! out. It does not use any information about the device.
//!
//! Loss is distinguished by its runs, frames lost in a row: single ones, bursts, and runs so long that for a millisecond
//! and more nothing passed. A trial whose tester or device did not get its CPU is no evidence against the device:
//! such a trial has no other finding.

use weir_record::record::{Fault, Finding, LossEvent, Noise, Stream};

/// From this on a run of lost frames is a stall, ns.
const STALL_NS: u64 = 1_000_000;
/// A run of fewer frames is no stall, however seldom frames come.
const STALL_FRAMES: u64 = 3;
/// Of a stall, at least this share of the frames is lost: periods of loss may also have gaps.
const STALL_SHARE: f64 = 0.9;
/// Runs that are longer than this in the mean are bursts, not chance.
const BURST_FRAMES: f64 = 1.5;
/// Shares of a trial that its threads may wait for their CPUs.
const WAIT: f64 = 0.05;
/// Latency beyond that of the wire, of the fastest frame, ns.
const DELAY_NS: u64 = 100_000;

/// What a trial is judged by.
pub(crate) struct Symptoms<'a> {
    pub(crate) streams: &'a [Stream],
    pub(crate) noise: &'a Noise,
    /// Frames that the tester itself lost.
    pub(crate) tester_lost: u64,
    /// Length of the trial.
    pub(crate) duration_s: f64,
    /// What the fastest frame takes on a wire at such a rate, ns; `None` where that is not known.
    pub(crate) wire_min_ns: Option<u64>,
}

/// All that went wrong, tester first.
pub(crate) fn diagnose(symptoms: &Symptoms) -> Vec<Finding> {
    let starved = starved(symptoms.noise);
    if !starved.is_empty() {
        return starved;
    }
    let tester_lost = symptoms.tester_lost;
    let own = (tester_lost > 0).then_some(Fault::TesterLost { frames: tester_lost });
    let own = own.map(|fault| Finding { direction: String::new(), fault });
    own.into_iter()
        .chain(symptoms.streams.iter().flat_map(|stream| stream_findings(stream, symptoms)))
        .collect()
}

fn starved(noise: &Noise) -> Vec<Finding> {
    let tester = (noise.tester_wait > WAIT)
        .then_some(Fault::TesterStarved { wait: noise.tester_wait, late_max_ns: noise.late_max_ns });
    let device = (noise.dut_wait > WAIT).then_some(Fault::DeviceStarved { wait: noise.dut_wait });
    let finding = |fault| Finding { direction: String::new(), fault };
    tester.into_iter().chain(device).map(finding).collect()
}

fn stream_findings(stream: &Stream, symptoms: &Symptoms) -> Vec<Finding> {
    let frames = |count: u64, fault: fn(u64) -> Fault| (count > 0).then(|| fault(count));
    let by = stream.reorder_extent_max;
    let mut faults = losses(stream, symptoms);
    faults.extend((stream.reordered > 0).then_some(Fault::Reordered { frames: stream.reordered, by }));
    faults.extend(frames(stream.duplicated, |frames| Fault::Duplicated { frames }));
    faults.extend(frames(stream.corrupted, |frames| Fault::Corrupted { frames }));
    faults.extend(delay(stream, symptoms.wire_min_ns));
    faults.into_iter().map(|fault| Finding { direction: stream.direction.clone(), fault }).collect()
}

fn delay(stream: &Stream, wire_min_ns: Option<u64>) -> Option<Fault> {
    let by_ns = stream.latency.min_ns.saturating_sub(wire_min_ns?);
    (stream.latency.count > 0 && by_ns > DELAY_NS).then_some(Fault::Delayed { by_ns })
}

fn losses(stream: &Stream, symptoms: &Symptoms) -> Vec<Fault> {
    let gap_ns = symptoms.duration_s * 1e9 / stream.sent.max(1) as f64;
    let stalls: Vec<Stall> = stream.loss_events.iter().filter_map(|event| Stall::of(event, gap_ns)).collect();
    let stalled: u64 = stalls.iter().map(|stall| stall.frames).sum();
    let mut faults = Vec::new();
    if let Some(first) = stalls.first() {
        faults.push(Fault::Stall {
            stalls: stalls.len() as u64,
            frames: stalled,
            first_at_ns: first.at_ns,
            longest_ns: stalls.iter().map(|stall| stall.length_ns).max().unwrap_or(0),
        });
    }
    // Corrupted frames did arrive, only not as themselves: one by one they are missing in the sequence.
    // What the tester lost cannot be distinguished from what the device did: it is taken from each stream.
    let elsewhere = stalled + stream.corrupted + symptoms.tester_lost;
    let frames = stream.lost.saturating_sub(elsewhere);
    let runs = stream.loss_runs.saturating_sub(stalls.len() as u64 + stream.corrupted).max(1);
    if frames == 0 {
        return faults;
    }
    faults.push(if frames as f64 > BURST_FRAMES * runs as f64 {
        Fault::LossBursts { bursts: runs, frames, longest: stream.loss_run_max.min(frames) }
    } else {
        Fault::Loss { frames, ratio: frames as f64 / stream.sent.max(1) as f64 }
    });
    faults
}

/// A period of loss in which nothing passed.
struct Stall {
    frames: u64,
    at_ns: u64,
    length_ns: u64,
}

impl Stall {
    /// `gap_ns` is the time between two frames.
    fn of(event: &LossEvent, gap_ns: f64) -> Option<Stall> {
        if event.lost < STALL_FRAMES {
            return None;
        }
        // From the first frame that was lost to the first that was not.
        let span_ns = (event.last_sent_ns - event.first_sent_ns) as f64;
        let length_ns = span_ns * event.lost as f64 / (event.lost - 1) as f64;
        let in_a_row = event.lost as f64 * gap_ns >= STALL_SHARE * length_ns;
        let stalled = in_a_row && length_ns >= STALL_NS as f64;
        stalled.then_some(Stall {
            frames: event.lost,
            at_ns: event.first_sent_ns,
            length_ns: length_ns as u64,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_record::record::Latency;

    /// 100,000 frames in a second, 10 us apart; what of them went wrong is the change.
    fn check(change: impl Fn(&mut Stream), expected: &[&str]) {
        let latency = Latency { count: 100_000, min_ns: 3_000, ..Latency::default() };
        let mut stream = Stream { direction: "a>b".into(), sent: 100_000, latency, ..Stream::default() };
        change(&mut stream);
        let symptoms = Symptoms {
            streams: &[stream],
            noise: &Noise::default(),
            tester_lost: 0,
            duration_s: 1.0,
            wire_min_ns: Some(2_000),
        };
        let found: Vec<String> = diagnose(&symptoms).iter().map(ToString::to_string).collect();
        assert_eq!(found, expected);
    }

    fn event(first_frame: u64, last_frame: u64, lost: u64) -> LossEvent {
        let [first_sent_ns, last_sent_ns] = [first_frame, last_frame].map(|n| n * 10_000);
        LossEvent { first_sent_ns, last_sent_ns, lost, outage_ns: 0 }
    }

    fn lose(stream: &mut Stream, lost: u64, runs: u64, longest: u64) {
        (stream.lost, stream.loss_runs, stream.loss_run_max) = (lost, runs, longest);
    }

    #[test]
    fn loss_is_reported_by_its_runs() {
        check(|_| {}, &[]);
        check(|s| lose(s, 1, 1, 1), &["a>b loss: 1 single frames, 1.0e-5 of all"]);
        // One in a hundred: all of it is one period of less than a millisecond between losses.
        let all = |s: &mut Stream| s.loss_events = vec![event(99, 99_999, 1000)];
        check(
            |s| {
                lose(s, 1000, 990, 2);
                all(s);
            },
            &["a>b loss: 1000 single frames, 1.0e-2 of all"],
        );
        check(
            |s| {
                lose(s, 1000, 100, 10);
                all(s);
            },
            &["a>b loss-bursts: 100 times, 1000 frames, at most 10 in a row"],
        );
        check(
            |s| {
                lose(s, 2003, 4, 2000);
                s.loss_events = vec![event(5, 5, 1), event(1000, 2999, 2000), event(7000, 7100, 2)];
            },
            &[
                "a>b stall: once, 2000 frames, first after 10.0 ms, at most 20.0 ms long",
                "a>b loss: 3 single frames, 3.0e-5 of all",
            ],
        );
        // Long enough, but too few frames to tell: two frames in a row.
        check(|s| (s.sent, s.loss_events) = (100, vec![event(0, 1000, 2)]), &[]);
    }

    #[test]
    fn corrupted_frames_are_no_loss() {
        let corrupt = |s: &mut Stream, lost, runs| {
            lose(s, lost, runs, 1);
            s.corrupted = 40;
        };
        check(|s| corrupt(s, 40, 40), &["a>b corrupted: 40 frames"]);
        check(
            |s| corrupt(s, 50, 50),
            &["a>b loss: 10 single frames, 1.0e-4 of all", "a>b corrupted: 40 frames"],
        );
    }

    #[test]
    fn order_copies_and_delay() {
        check(
            |s| (s.reordered, s.reorder_extent_max, s.duplicated) = (7, 3, 9),
            &["a>b reordered: 7 frames, late by at most 3", "a>b duplicated: 9 frames"],
        );
        check(|s| s.latency.min_ns = 2_002_000, &["a>b delayed: every frame by at least 2.000 ms"]);
        check(|s| s.latency.min_ns = 90_000, &[]);
    }

    #[test]
    fn a_starved_trial_accuses_nobody_else() {
        let stream = Stream { sent: 10, lost: 10, loss_runs: 1, loss_run_max: 10, ..Stream::default() };
        let noise = Noise { tester_wait: 0.5, dut_wait: 0.06, late_max_ns: 5_000_000, ..Noise::default() };
        let symptoms = Symptoms {
            streams: &[stream],
            noise: &noise,
            tester_lost: 0,
            duration_s: 1.0,
            wire_min_ns: None,
        };
        let found: Vec<&str> = diagnose(&symptoms).iter().map(|finding| finding.fault.name()).collect();
        assert_eq!(found, ["tester-starved", "device-starved"]);
    }
}
