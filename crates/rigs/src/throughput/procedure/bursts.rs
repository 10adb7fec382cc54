//! Bursty traffic: RFC 2544, section 21.
//!
//! ```text
//! ||||||||              ||||||||              ||||||||      bursts at full speed, the gap varies
//!          |---- gap ----|
//! ```
//! For each length of the bursts, the mean load goes down from the throughput until nothing is lost: then the gap is
//! long enough.

use std::time::Duration;

use weir_load::counts::{Load, Shape};

use super::{Bench, Known, empty, frames_per_s, parameter, seconds, shorter};
use crate::throughput::BurstsSpec;
use crate::throughput::plan::percents;
use weir_lab::error::RunError;
use weir_record::figure::{figure, name, procedure, unit};
use weir_record::record::{Figure, ProcedureResult, Statistic, Verdict};

const CITES: &str = "RFC 2544, section 21";

pub(super) fn measure(spec: &BurstsSpec, bench: &mut Bench) -> Result<ProcedureResult, RunError> {
    let empty = empty(procedure::BURSTS, CITES);
    let Some(throughput_fps) = bench.known.load(100.0) else { return Ok(super::without_throughput(empty)) };
    let mut found = Vec::new();
    for &frames in &spec.frames {
        let shape = Shape::Bursts { frames, within_fps: None };
        let losses = down(spec, |percent| {
            let load = Load { shape, ..Load::steady(throughput_fps * percent / 100.0, spec.trial) };
            let trial = bench.trial(&load)?;
            Ok::<_, RunError>((trial.verdict == Verdict::Valid).then(|| trial.dut_loss_ratio()))
        })?;
        found.push((frames, losses));
    }
    Ok(result(spec, bench.known, &found))
}

/// Mean loads in percent of the throughput with the loss there; `None` where it is not known.
type Losses = Vec<(f64, Option<f64>)>;

/// Goes down the loads until nothing is lost.
fn down<E>(spec: &BurstsSpec, mut loss_at: impl FnMut(f64) -> Result<Option<f64>, E>) -> Result<Losses, E> {
    let mut found = Vec::new();
    for percent in percents(spec.step_percent) {
        let loss = loss_at(percent)?;
        found.push((percent, loss));
        if loss == Some(0.0) {
            break;
        }
    }
    Ok(found)
}

/// The pause between two bursts of a stream whose mean rate is `fps`; within a burst it sends `full_fps`.
fn gap_s(frames: u32, fps: f64, full_fps: f64) -> f64 {
    f64::from(frames) * (1.0 / fps - 1.0 / full_fps).max(0.0)
}

fn result(spec: &BurstsSpec, known: &Known, found: &[(u32, Losses)]) -> ProcedureResult {
    let (throughput_fps, streams) = (known.load(100.0).unwrap_or_default(), known.streams());
    let one = |name: String, unit, value: Option<f64>| -> Figure {
        figure(name, unit, Statistic::Average, value.into_iter().collect())
    };
    let (mut clean, mut losses, mut irregular) = (Vec::new(), Vec::new(), Vec::new());
    for (frames, steps) in found {
        let fps = steps.iter().find(|(_, loss)| *loss == Some(0.0)).map(|(p, _)| throughput_fps * p / 100.0);
        let gap = fps.map(|fps| gap_s(*frames, fps / streams, known.ceiling_fps / streams));
        clean.push(one(name::gap_between_bursts(*frames), unit::SECONDS, gap));
        clean.push(one(name::load_in_bursts(*frames), unit::FRAMES_PER_S, fps));
        losses
            .extend(steps.iter().map(|(p, loss)| one(name::loss_in_bursts(*p, *frames), unit::RATIO, *loss)));
        let unknown = steps.iter().filter(|(_, loss)| loss.is_none()).count();
        if unknown > 0 {
            let all = steps.len();
            irregular.push(format!("Bursts of {frames}: {unknown} of {all} loads had no valid trial."));
        }
        if fps.is_none() {
            irregular.push(format!("Bursts of {frames}: no load was without loss."));
        }
    }
    ProcedureResult {
        parameters: vec![
            frames_per_s("throughput", throughput_fps),
            frames_per_s("rate within a burst: full speed, on the wire", known.ceiling_fps),
            parameter("step", spec.step_percent, "% of the throughput"),
            seconds("trial", spec.trial),
        ],
        figures: clean.into_iter().chain(losses).collect(),
        irregular,
        ..empty(procedure::BURSTS, CITES)
    }
}

pub(super) fn deviations(spec: &BurstsSpec) -> Vec<String> {
    let short = shorter("Bursts: trials", spec.trial, Duration::from_secs(60), "RFC 2544 section 24");
    let step = spec.step_percent;
    let gap = format!("Bursts: the gap is found in steps of {step} % of the throughput as the mean load.");
    short.into_iter().chain([gap]).collect()
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;
    use crate::throughput::procedure::testing::known;

    /// The gap is what is left of the time of a burst at the mean rate.
    #[test]
    fn the_gap_is_where_bursts_come_through() {
        let spec = BurstsSpec { frames: vec![16, 256], step_percent: 20.0, trial: Duration::from_secs(60) };
        // Short bursts come through at once, long ones at 60 % of the throughput.
        let losses = |limit: f64| {
            let Ok(found) =
                down(&spec, |percent| Ok::<_, Infallible>(Some((percent - limit).max(0.0) / 100.0)));
            found
        };
        let found = [(16, losses(100.0)), (256, losses(60.0)), (1024, losses(0.0))];
        let result = result(&spec, &known(), &found);
        let shown: Vec<_> = result.figures.iter().map(|f| (f.name.as_str(), f.value)).collect();
        // 0.5 M frames/s are the throughput, 1 M the ceiling.
        assert_eq!(shown[0], ("gap between bursts of 16", Some(16.0 * 1e-6)));
        assert_eq!(shown[1], ("load without loss in bursts of 16", Some(0.5e6)));
        assert_eq!(shown[2].1.map(|s| (s * 1e9).round()), Some(597_333.0));
        assert_eq!(shown[3], ("load without loss in bursts of 256", Some(0.3e6)));
        assert_eq!(shown[5], ("load without loss in bursts of 1024", None));
        assert_eq!(shown[7].0, "loss at 100 % in bursts of 256");
        assert_eq!(shown.len(), 6 + 1 + 3 + 5);
        assert_eq!(result.irregular, ["Bursts of 1024: no load was without loss."]);
    }
}
