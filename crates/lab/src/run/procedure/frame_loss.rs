//! Frame loss rate: RFC 2544, section 26.3. Loads go down from the maximum rate until two in a row lose nothing.

use std::time::Duration;

use weir_load::counts::Load;

use super::{Bench, Known, Maximum, empty, frames_per_s, parameter, seconds, shorter};
use crate::figure::{figure, name, procedure, unit};
use crate::plan::{FrameLossSpec, percents};
use crate::record::{ProcedureResult, Statistic, Verdict};
use crate::run::{CEILING_SHARE, RunError};

const CITES: &str = "RFC 2544, section 26.3";

pub(super) fn measure(spec: &FrameLossSpec, bench: &mut Bench) -> Result<ProcedureResult, RunError> {
    let maximum = maximum(spec, bench)?;
    let (offered, beyond) = loads(spec, maximum, bench.known.paced_fps);
    let steps = down(&offered, |fps| {
        let trial = bench.trial(&Load::steady(fps, spec.trial))?;
        Ok::<_, RunError>(match trial.verdict {
            Verdict::Valid => Loss::Ratio(trial.dut_loss_ratio()),
            Verdict::TesterLimited => Loss::TesterLimited,
            Verdict::Noisy | Verdict::Invalid => Loss::Unknown,
        })
    })?;
    Ok(result(spec, (maximum, bench.known), &steps, &beyond))
}

/// The rate of 100 %. A virtual wire has no speed of its own: frames enter it as fast as the device's end and the tester
/// can hand them over, which the device takes part in. What the tester gets rid of at full speed, it can nearly pace.
fn maximum(spec: &FrameLossSpec, bench: &mut Bench) -> Result<Maximum, RunError> {
    if bench.known.spec.line_bits_per_s.is_some() {
        return Ok(bench.known.maximum());
    }
    let trial = bench.trial(&Load::full_speed(spec.trial))?;
    let fps = CEILING_SHARE * trial.sent as f64 / trial.duration_s;
    let source = "90 % of what the tester sends towards this device at full speed";
    Ok(Maximum { fps: fps.min(bench.known.paced_fps), source })
}

/// A load in percent of the maximum rate and in frames/s.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Step {
    percent: f64,
    fps: f64,
}

/// What a device lost at a load.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Loss {
    /// This share of the frames.
    Ratio(f64),
    /// The tester was too slow to tell.
    TesterLimited,
    /// No valid trial could be had.
    Unknown,
}

impl Loss {
    fn ratio(self) -> Option<f64> {
        if let Loss::Ratio(ratio) = self { Some(ratio) } else { None }
    }
}

/// The loads that the tester can offer, and the percentages that it cannot.
fn loads(spec: &FrameLossSpec, maximum: Maximum, paced_fps: f64) -> (Vec<Step>, Vec<f64>) {
    let steps = percents(spec.step_percent)
        .into_iter()
        .map(|percent| Step { percent, fps: maximum.fps * percent / 100.0 });
    // 90 % of the ceiling is what can be paced, but for rounding.
    let (offered, beyond): (Vec<Step>, Vec<Step>) =
        steps.partition(|step| step.fps <= paced_fps * (1.0 + 1e-9));
    (offered, beyond.iter().map(|step| step.percent).collect())
}

/// Goes down the loads until two in a row lost nothing; returns what each lost.
fn down<E>(steps: &[Step], mut loss_at: impl FnMut(f64) -> Result<Loss, E>) -> Result<Vec<(Step, Loss)>, E> {
    let mut found: Vec<(Step, Loss)> = Vec::new();
    for &step in steps {
        found.push((step, loss_at(step.fps)?));
        if without_loss(&found).is_some() {
            break;
        }
    }
    Ok(found)
}

/// The higher of two successive loads that lost nothing.
fn without_loss(found: &[(Step, Loss)]) -> Option<Step> {
    let clean = found.windows(2).find(|pair| pair.iter().all(|(_, loss)| *loss == Loss::Ratio(0.0)));
    clean.map(|pair| pair[0].0)
}

fn result(
    spec: &FrameLossSpec,
    (maximum, known): (Maximum, &Known),
    found: &[(Step, Loss)],
    beyond: &[f64],
) -> ProcedureResult {
    let average = |name: String, unit, value: Option<f64>| {
        figure(name, unit, Statistic::Average, value.into_iter().collect())
    };
    let clean = without_loss(found).map(|step| step.fps);
    let mut figures = vec![average(name::LOAD_WITHOUT_LOSS.into(), unit::FRAMES_PER_S, clean)];
    figures.extend(
        found.iter().map(|(step, loss)| average(name::loss_at(step.percent), unit::RATIO, loss.ratio())),
    );
    let mut irregular = Vec::new();
    if let Some(lowest) = beyond.last() {
        irregular.push(format!(
            "The tester paces at most {} frames/s here: the loss at {lowest} % of the maximum rate and above is not \
             known.",
            known.paced_fps.round()
        ));
    }
    for (kind, what) in [
        (
            Loss::TesterLimited,
            "the tester, which is slower with the device than on the wire alone, was the limit",
        ),
        (Loss::Unknown, "no valid trial could be had"),
    ] {
        let n = found.iter().filter(|(_, loss)| *loss == kind).count();
        irregular.extend((n > 0).then(|| format!("At {n} of {} loads {what}.", found.len())));
    }
    if clean.is_none() {
        irregular.push("No two successive loads were without loss.".into());
    }
    ProcedureResult {
        parameters: vec![
            frames_per_s("maximum rate", maximum.fps),
            parameter("maximum rate is that of", maximum.source, ""),
            parameter("step", spec.step_percent, "%"),
            seconds("trial", spec.trial),
        ],
        figures,
        irregular,
        ..empty(procedure::FRAME_LOSS, CITES)
    }
}

pub(super) fn deviations(spec: &FrameLossSpec) -> Vec<String> {
    let coarse = (spec.step_percent > 10.0).then(|| {
        format!(
            "Frame loss in steps of {} %, where RFC 2544 section 26.3 wants 10 % at most.",
            spec.step_percent
        )
    });
    let short = shorter("Frame loss: trials", spec.trial, Duration::from_secs(60), "RFC 2544 section 24");
    coarse.into_iter().chain(short).collect()
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;
    use crate::run::procedure::testing::known;

    const SPEC: FrameLossSpec = FrameLossSpec { step_percent: 10.0, trial: Duration::from_secs(60) };

    /// Runs against a device that forwards `capacity_fps`; loads within `unknown_fps` of it have no valid trial.
    fn run(capacity_fps: f64, unknown_fps: f64) -> ProcedureResult {
        let known = known();
        let (offered, beyond) = loads(&SPEC, known.maximum(), known.paced_fps);
        let found = down(&offered, |fps| {
            let known = (fps - capacity_fps).abs() >= unknown_fps;
            let loss = Loss::Ratio((1.0 - capacity_fps / fps).max(0.0));
            Ok::<_, Infallible>(if known { loss } else { Loss::Unknown })
        });
        let Ok(found) = found;
        result(&SPEC, (known.maximum(), &known), &found, &beyond)
    }

    /// The figures as `name=value`.
    fn shown(result: &ProcedureResult) -> String {
        let value = |v: Option<f64>| v.map_or("?".into(), |v| format!("{v:.3}"));
        let words = result
            .figures
            .iter()
            .map(|f| format!("{}={}", f.name.trim_start_matches("loss at "), value(f.value)));
        words.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn it_goes_down_until_two_loads_lose_nothing() {
        // The ceiling is 1 M frames/s, and 0.9 M can be paced.
        let result = run(0.65e6, 0.0);
        assert_eq!(
            shown(&result),
            "load without loss=600000.000 90 %=0.278 80 %=0.188 70 %=0.071 60 %=0.000 50 %=0.000"
        );
        assert_eq!(
            result.irregular,
            [
                "The tester paces at most 900000 frames/s here: the loss at 100 % of the maximum rate and above is \
              not known."
            ]
        );
        assert_eq!(shown(&run(2e6, 0.0)), "load without loss=900000.000 90 %=0.000 80 %=0.000");
    }

    #[test]
    fn what_is_not_known_is_no_load_without_loss() {
        let result = run(0.6e6, 1e3);
        assert_eq!(
            shown(&result),
            "load without loss=500000.000 90 %=0.333 80 %=0.250 70 %=0.143 60 %=? 50 %=0.000 40 %=0.000"
        );
        assert_eq!(result.irregular[1], "At 1 of 6 loads no valid trial could be had.");
        let nothing = run(0.05e6, 0.0);
        assert_eq!(nothing.figures[0].value, None);
        assert_eq!(nothing.irregular[1], "No two successive loads were without loss.");
        assert_eq!(nothing.figures.len(), 10);
    }
}
