//! System recovery: RFC 2544, section 26.5.
//!
//! ```text
//! 110 % of the throughput ----A---- 50 % of that ----B--------- end
//!                             |- recovery -|
//! ```
//! A is when the load drops, B when the last frame was sent that the device lost. (The RFC prints the subtraction the
//! wrong way round.)

use std::time::Duration;

use weir_load::counts::{Load, Shape};

use super::{Bench, Known, empty, frames_per_s, once, parameter, seconds, shorter, valid};
use crate::throughput::RecoverySpec;
use weir_lab::error::RunError;
use weir_record::figure::{figure, name, procedure, unit};
use weir_record::record::{ProcedureResult, Statistic, Trial};

const CITES: &str = "RFC 2544, section 26.5";
/// Loss in this last part of a trial means that the device has not recovered.
const END: f64 = 0.05;

pub(super) fn measure(spec: &RecoverySpec, bench: &mut Bench) -> Result<ProcedureResult, RunError> {
    let empty = empty(procedure::RECOVERY, CITES);
    let Some(fps) = bench.known.load(spec.percent) else { return Ok(super::without_throughput(empty)) };
    let shape = Shape::Step { at: spec.overload, fps: fps * spec.drop_percent / 100.0 };
    let load = Load { shape, ..Load::steady(fps, spec.overload + spec.settle) };
    let trials = bench.trials(&load, spec.times)?;
    Ok(result(spec, fps, bench.known, &trials))
}

/// How a device came through.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Recovery {
    /// So much time after the drop of the load, its last frame was lost; 0 if that was before.
    After(f64),
    /// The overload was none.
    NothingLost,
    /// It still lost frames at the end.
    NotYet,
}

impl Recovery {
    fn of(trial: &Trial, spec: &RecoverySpec) -> Recovery {
        let planned_ns = spec.overload.as_nanos() as u64;
        let dropped_ns = trial.rate_changed_ns.unwrap_or(planned_ns);
        let last = trial.streams.iter().flat_map(|s| &s.loss_events).map(|event| event.last_sent_ns).max();
        let end_ns = planned_ns + spec.settle.mul_f64(1.0 - END).as_nanos() as u64;
        match last {
            None => Recovery::NothingLost,
            Some(last_ns) if last_ns >= end_ns => Recovery::NotYet,
            Some(last_ns) => Recovery::After(last_ns.saturating_sub(dropped_ns) as f64 / 1e9),
        }
    }
}

fn result(spec: &RecoverySpec, fps: f64, known: &Known, trials: &[Trial]) -> ProcedureResult {
    let (good, not_valid) = valid(trials);
    let found: Vec<Recovery> = good.iter().map(|trial| Recovery::of(trial, spec)).collect();
    let count = |kind: Recovery| found.iter().filter(|f| **f == kind).count();
    let times = found.iter().filter_map(|f| if let Recovery::After(s) = f { Some(*s) } else { None });
    let mut irregular: Vec<String> = not_valid.into_iter().collect();
    let wanted = known.throughput_fps.map_or(0.0, |found| found * spec.percent / 100.0);
    if fps < wanted {
        let (fps, wanted) = (fps.round(), wanted.round());
        irregular.push(format!(
            "The overload was {fps} frames/s instead of {wanted}: the tester cannot pace more."
        ));
    }
    for (n, what) in [
        (count(Recovery::NothingLost), "no frame was lost, so that there was nothing to recover from"),
        (count(Recovery::NotYet), "frames were lost until the end: raise settle_s"),
    ] {
        irregular.extend((n > 0).then(|| format!("In {n} of {} trials {what}.", found.len())));
    }
    ProcedureResult {
        parameters: vec![
            frames_per_s("throughput", known.throughput_fps.unwrap_or_default()),
            parameter(
                "overload",
                format!("{} % of the throughput, {}", spec.percent, fps.round()),
                "frames/s",
            ),
            seconds("overload lasts", spec.overload),
            parameter("then", spec.drop_percent, "% of that"),
            seconds("which lasts", spec.settle),
            parameter("trials", spec.times, ""),
        ],
        figures: vec![figure(name::RECOVERY_TIME, unit::SECONDS, Statistic::Average, times.collect())],
        irregular,
        ..empty(procedure::RECOVERY, CITES)
    }
}

pub(super) fn deviations(spec: &RecoverySpec) -> Vec<String> {
    let differs = |what: &str, here: f64, there: f64| {
        (here != there).then(|| format!("{what} {here} %, where RFC 2544 section 26.5 wants {there} %."))
    };
    let found = [
        differs("System recovery: overload of", spec.percent, 110.0),
        differs("System recovery: drop to", spec.drop_percent, 50.0),
        shorter("System recovery: overload", spec.overload, Duration::from_secs(60), "RFC 2544 section 26.5"),
        once("System recovery", spec.times, "RFC 2544 section 26.5"),
    ];
    found.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::throughput::procedure::testing::{known, trial};
    use weir_record::record::{LossEvent, Stream};

    const SPEC: RecoverySpec = RecoverySpec {
        percent: 110.0,
        overload: Duration::from_secs(60),
        drop_percent: 50.0,
        settle: Duration::from_secs(10),
        times: 4,
    };

    /// A trial that lost its last frames at these times, s, one stream each.
    fn lost_at(times_s: &[f64]) -> Trial {
        let stream = |s: &f64| {
            let last_sent_ns = (s * 1e9) as u64;
            let event =
                LossEvent { first_sent_ns: last_sent_ns - 1000, last_sent_ns, lost: 2, outage_ns: 3000 };
            Stream { loss_events: vec![LossEvent { last_sent_ns: 9, ..event }, event], ..Stream::default() }
        };
        Trial { streams: times_s.iter().map(stream).collect(), ..trial() }
    }

    #[test]
    fn recovery_lasts_from_the_drop_of_the_load_to_the_last_loss() {
        let late = Trial { rate_changed_ns: Some(60_001_000_000), ..lost_at(&[60.003]) };
        let trials = [lost_at(&[59.9]), lost_at(&[60.002, 60.004]), lost_at(&[69.9]), lost_at(&[]), late];
        let result = result(&SPEC, 0.55e6, &known(), &trials);
        assert_eq!(result.figures[0].values, [0.0, 0.004, 0.002]);
        assert_eq!(
            result.irregular,
            [
                "In 1 of 5 trials no frame was lost, so that there was nothing to recover from.",
                "In 1 of 5 trials frames were lost until the end: raise settle_s."
            ]
        );
        assert!(deviations(&SPEC).is_empty());
        assert_eq!(deviations(&RecoverySpec { times: 1, percent: 120.0, ..SPEC }).len(), 2);
    }

    #[test]
    fn an_overload_that_the_tester_cannot_offer_is_reported() {
        let mut known = known();
        known.throughput_fps = Some(0.85e6);
        let fps = known.load(110.0).expect("a throughput");
        let result = result(&SPEC, fps, &known, &[lost_at(&[60.5])]);
        assert_eq!(
            result.irregular,
            ["The overload was 900000 frames/s instead of 935000: the tester cannot pace more."]
        );
    }
}
