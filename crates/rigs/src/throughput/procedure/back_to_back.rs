//! Back-to-back frames: RFC 2544, section 26.4, as updated by RFC 9004.
//!
//! ```text
//! pause > burst of n frames at full speed > did all arrive? > longer or shorter burst      (one search)
//! average of the searches / maximum rate = implied buffer time
//! implied - implied x throughput / maximum rate = corrected buffer time
//! ```
//! A device that forwards the maximum rate fills no buffer: for such frame sizes there is nothing to measure.

use std::time::Duration;

use weir_load::counts::Load;
use weir_packet::size::FrameSizes;

use super::{Bench, Known, Maximum, empty, fewer, frames_per_s, parameter, seconds, shorter};
use crate::throughput::BackToBackSpec;
use weir_lab::error::RunError;
use weir_measure::search::burst::{Burst, Longest};
use weir_record::figure::{figure, name, procedure, unit};
use weir_record::record::{Owner, ProcedureResult, Purpose, Statistic, Trial, Verdict};

const CITES: &str = "RFC 2544, section 26.4, as updated by RFC 9004";
/// Closer to the longest burst allowed than this, a result says nothing.
const NEAR_LIMIT: f64 = 0.95;
/// The generator may take so many times as long as at the ceiling before a burst is cut short.
const PATIENCE: f64 = 4.0;
const PATIENCE_MIN: Duration = Duration::from_millis(50);

pub(super) fn measure(spec: &BackToBackSpec, bench: &mut Bench) -> Result<ProcedureResult, RunError> {
    let bursts = match Bursts::of(bench.known) {
        Ok(bursts) => bursts,
        Err(why) => {
            let irregular = vec![why];
            return Ok(ProcedureResult { irregular, ..empty(procedure::BACK_TO_BACK, CITES) });
        }
    };
    let search = spec.search(bursts.maximum.fps / bursts.streams);
    let one_search = |_| search.run(|frames| bursts.send(frames, spec, bench));
    let found = (0..spec.times).map(one_search).collect::<Result<Vec<Longest>, RunError>>()?;
    Ok(result(spec, &bursts, &found))
}

/// Bursts at one point. Their length is that in each direction.
struct Bursts {
    maximum: Maximum,
    throughput_fps: f64,
    streams: f64,
}

impl Bursts {
    /// Says why a point is not measured.
    fn of(known: &Known) -> Result<Bursts, String> {
        let maximum = Maximum { fps: known.ceiling_fps, source: "the wire as measured" };
        let Some(throughput_fps) = known.throughput_fps else {
            return Err(
                "No throughput was found at this point, and without it no buffer time can be stated.".into(),
            );
        };
        if !matches!(known.spec.frame, FrameSizes::Fixed(_)) {
            return Err("Mixed frame sizes must not be used for this (RFC 9004, section 3).".into());
        }
        if throughput_fps >= known.paced_fps * NEAR_LIMIT {
            return Err(
                "The throughput is as high as the tester can offer: no burst fills a buffer (RFC 9004, \
                        section 6.1)."
                    .into(),
            );
        }
        Ok(Bursts { maximum, throughput_fps, streams: known.streams() })
    }

    /// Pauses, sends one burst and counts the frames that come back.
    fn send(&self, frames: u64, spec: &BackToBackSpec, bench: &mut Bench) -> Result<Burst, RunError> {
        let length = Duration::from_secs_f64(frames as f64 * self.streams / self.maximum.fps);
        let load = Load {
            max_frames: Some(frames),
            drain: Some(spec.quiet(length)),
            ..Load::full_speed(length.mul_f64(PATIENCE).max(PATIENCE_MIN))
        };
        for _ in 0..=bench.trials.retries() {
            bench.trials.pause(spec.pause(length))?;
            let trial = bench.trials.one(bench.setup, &load, Purpose::Procedure)?;
            if let Some(lossy) = outcome(&trial) {
                return Ok(if lossy { Burst::Lossy } else { Burst::Whole });
            }
        }
        Ok(Burst::Unusable)
    }
}

/// Whether a burst lost frames; `None` if the trial does not tell. Noise does not matter here: the search asks twice
/// before it believes a loss.
fn outcome(trial: &Trial) -> Option<bool> {
    let own = trial.drop_counters.iter().any(|line| line.owner == Owner::Tester && line.frames > 0);
    let usable = trial.verdict != Verdict::Invalid && trial.counts().sent == trial.counts().offered && !own;
    usable.then_some(trial.counts().lost > 0)
}

/// RFC 9004, section 6.4.
#[derive(Debug, Clone, Copy, PartialEq)]
struct BufferTime {
    implied_s: f64,
    corrected_s: f64,
}

impl BufferTime {
    /// Of a burst of so many frames that came in at `max_fps` while `throughput_fps` went out.
    fn of(frames: f64, max_fps: f64, throughput_fps: f64) -> BufferTime {
        let implied_s = frames / max_fps;
        BufferTime { implied_s, corrected_s: implied_s - implied_s * throughput_fps / max_fps }
    }
}

fn result(spec: &BackToBackSpec, bursts: &Bursts, found: &[Longest]) -> ProcedureResult {
    let frames: Vec<f64> = found.iter().filter_map(|longest| longest.frames()).map(|n| n as f64).collect();
    let (max_fps, throughput_fps) =
        (bursts.maximum.fps / bursts.streams, bursts.throughput_fps / bursts.streams);
    let times: Vec<_> = frames.iter().map(|n| BufferTime::of(*n, max_fps, throughput_fps)).collect();
    let average = |name: &str, unit, values| figure(name, unit, Statistic::Average, values);
    ProcedureResult {
        parameters: vec![
            frames_per_s("maximum rate", bursts.maximum.fps),
            parameter("maximum rate is that of", bursts.maximum.source, ""),
            frames_per_s("throughput", bursts.throughput_fps),
            parameter("searches", spec.times, ""),
            parameter("search", "binary search with loss verification (TST009)", ""),
            parameter("trials at each length", spec.trials, "at most"),
            parameter("step", spec.step_frames, "frames"),
            seconds("longest burst", spec.max_burst),
            seconds("pause", spec.idle),
            seconds("counting ends when nothing has arrived for", spec.drain),
        ],
        irregular: irregular(found, spec.search(max_fps).longest),
        figures: vec![
            average(name::BURST, unit::FRAMES, frames),
            average(name::IMPLIED_BUFFER, unit::SECONDS, times.iter().map(|t| t.implied_s).collect()),
            average(name::CORRECTED_BUFFER, unit::SECONDS, times.iter().map(|t| t.corrected_s).collect()),
        ],
        ..empty(procedure::BACK_TO_BACK, CITES)
    }
}

fn irregular(found: &[Longest], longest: u64) -> Vec<String> {
    let count = |is: fn(&Longest) -> bool| found.iter().filter(|l| is(l)).count();
    let near = |l: &&Longest| l.frames().is_some_and(|n| n as f64 >= NEAR_LIMIT * longest as f64);
    let (near, all) = (found.iter().filter(near).count(), found.len());
    let (nothing, unknown) = (count(|l| *l == Longest::Nothing), count(|l| *l == Longest::Unknown));
    [
        (near, "found bursts near the longest one allowed: raise max_burst_s"),
        (nothing, "found no burst at all that came through"),
        (unknown, "ended without a valid trial"),
    ]
    .into_iter()
    .filter(|(n, _)| *n > 0)
    .map(|(n, what)| format!("{n} of {all} searches {what}."))
    .collect()
}

pub(super) fn deviations(spec: &BackToBackSpec) -> Vec<String> {
    let sent = "Back-to-back frames leave at the tester's full speed, since a virtual wire has no minimum gap; the \
                maximum rate is that of the wire as measured.";
    let found = [
        Some(sent.to_string()),
        shorter("Back-to-back: pauses", spec.idle, Duration::from_secs(2), "RFC 9004 section 6.2"),
        shorter(
            "Back-to-back: waits for late frames",
            spec.drain,
            Duration::from_secs(2),
            "RFC 9004 section 6.2",
        ),
        fewer("Back-to-back searches", spec.times, 50, "RFC 2544 section 26.4"),
    ];
    found.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::throughput::procedure::testing::{known, trial};
    use weir_record::record::DropCounter;

    /// RFC 9004, table 1: 26000 frames of 64 bytes on average and a corrected buffer time of 0.00004 s. It names neither
    /// line nor throughput; at 10 Gbit/s they belong to a throughput of 97.71 % of the maximum.
    #[test]
    fn buffer_times_are_those_of_rfc_9004() {
        let max_fps = 10e9 / (84.0 * 8.0);
        let time = BufferTime::of(26_000.0, max_fps, 0.9771 * max_fps);
        assert_eq!(format!("{:.6} {:.5}", time.implied_s, time.corrected_s), "0.001747 0.00004");
        assert_eq!(BufferTime::of(500.0, 1e6, 0.0), BufferTime { implied_s: 5e-4, corrected_s: 5e-4 });
        assert_eq!(BufferTime::of(500.0, 1e6, 1e6).corrected_s, 0.0, "what leaves at once is in no buffer");
    }

    const SPEC: BackToBackSpec = BackToBackSpec {
        max_burst: Duration::from_secs(1),
        idle: Duration::from_secs(2),
        drain: Duration::from_secs(2),
        step_frames: 1,
        trials: 2,
        times: 3,
    };

    #[test]
    fn figures_are_of_one_direction() {
        let maximum = Maximum { fps: 2e6, source: "the wire as measured" };
        let bursts = Bursts { maximum, throughput_fps: 1e6, streams: 2.0 };
        let found = [Longest::Frames(500), Longest::Frames(512), Longest::Frames(524)];
        let result = result(&SPEC, &bursts, &found);
        let values: Vec<_> = result.figures.iter().map(|f| f.value.expect("three values")).collect();
        assert_eq!(values, [512.0, 512e-6, 256e-6]);
        assert!(result.irregular.is_empty(), "{:?}", result.irregular);
    }

    #[test]
    fn late_frames_are_waited_for_as_long_as_the_burst_and_two_seconds() {
        let seconds = Duration::from_secs;
        assert_eq!([1, 30].map(|burst| SPEC.quiet(seconds(burst))), [seconds(2), seconds(30)]);
        assert_eq!(deviations(&SPEC).len(), 2, "{:?}", deviations(&SPEC));
        let hasty = BackToBackSpec { drain: Duration::from_millis(20), ..SPEC };
        assert!(
            deviations(&hasty)[1].contains("late frames of 0.02 s, where RFC 9004"),
            "{:?}",
            deviations(&hasty)
        );
    }

    #[test]
    fn what_says_nothing_is_reported() {
        let found = [Longest::AtLimit(1000), Longest::Frames(960), Longest::Nothing, Longest::Unknown];
        assert_eq!(
            irregular(&found, 1000),
            [
                "2 of 4 searches found bursts near the longest one allowed: raise max_burst_s.",
                "1 of 4 searches found no burst at all that came through.",
                "1 of 4 searches ended without a valid trial.",
            ]
        );
    }

    #[test]
    fn a_point_without_a_buffer_to_fill_is_left_out() {
        let refused = |change: fn(&mut Known<'_>)| {
            let mut known = known();
            change(&mut known);
            Bursts::of(&known).err().unwrap_or_default()
        };
        assert_eq!(refused(|_| ()), "");
        assert_eq!(
            refused(|k| k.throughput_fps = Some(0.9e6)),
            "The throughput is as high as the tester can offer: no burst fills a buffer (RFC 9004, section 6.1)."
        );
        assert_eq!(
            refused(|k| k.throughput_fps = None),
            "No throughput was found at this point, and without it no buffer time can be stated."
        );
        let imix = |k: &mut Known<'_>| {
            let spec =
                weir_lab::frames::PointSpec { frame: "imix".parse().expect("a mix"), ..k.spec.clone() };
            k.spec = Box::leak(Box::new(spec));
        };
        assert_eq!(refused(imix), "Mixed frame sizes must not be used for this (RFC 9004, section 3).");
    }

    #[test]
    fn a_burst_tells_nothing_if_the_tester_failed() {
        let sent = |sent, lost, verdict| {
            Trial { verdict, ..trial() }.counting(|c| (c.offered, c.sent, c.lost) = (100, sent, lost))
        };
        let own = DropCounter { name: "ring".into(), owner: Owner::Tester, frames: 1, source: String::new() };
        for (trial, expected) in [
            (sent(100, 0, Verdict::Valid), Some(false)),
            (sent(100, 1, Verdict::Valid), Some(true)),
            (sent(100, 0, Verdict::Noisy), Some(false)),
            (sent(99, 0, Verdict::TesterLimited), None),
            (sent(100, 1, Verdict::Invalid), None),
            (Trial { drop_counters: vec![own], ..sent(100, 1, Verdict::Valid) }, None),
        ] {
            assert_eq!(outcome(&trial), expected, "{trial:?}");
        }
    }
}
