//! Frame loss rate: RFC 2544, section 26.3. Loads go down from the maximum rate until two in a row lose nothing.
//!
//! ```text
//! the line, or as fast as the tester can > steps of the maximum rate below that > ... > two without loss
//! ```
//! Where the tester sends less than a step asks for, what the device lost of that is booked at the load that was sent.

use std::time::Duration;

use weir_load::counts::Load;

use super::{Bench, Maximum, empty, frames_per_s, parameter, seconds, shorter};
use crate::throughput::FrameLossSpec;
use crate::throughput::plan::percents;
use weir_lab::error::RunError;
use weir_record::figure::{figure, name, procedure, unit};
use weir_record::record::{ProcedureResult, Statistic};

const CITES: &str = "RFC 2544, section 26.3";

pub(super) fn measure(spec: &FrameLossSpec, bench: &mut Bench) -> Result<ProcedureResult, RunError> {
    let line = bench.known.spec.line_bits_per_s.map(|_| bench.known.maximum());
    let fps = highest(spec, line, bench)?;
    let top = (fps > 0.0).then(|| loss_at(spec, bench, None, fps)).transpose()?;
    let Some(top) = top.filter(|top| top.fps > 0.0) else {
        let irregular = vec!["The tester could send nothing to this device.".into()];
        return Ok(ProcedureResult { irregular, ..empty(procedure::FRAME_LOSS, CITES) });
    };
    let scale = Scale::of(line, top);
    let found = down(&scale.steps(spec), scale.top, |step| loss_at(spec, bench, Some(step), step.fps))?;
    Ok(result(spec, &scale, &found))
}

/// The load to begin with: that of the line, or what the tester gets rid of at full speed, of which it may be able to pace
/// a part only.
fn highest(spec: &FrameLossSpec, line: Option<Maximum>, bench: &mut Bench) -> Result<f64, RunError> {
    if let Some(line) = line.filter(|line| line.fps <= bench.known.paced_fps) {
        return Ok(line.fps);
    }
    let fastest = bench.trial(&Load::full_speed(spec.trial))?.sent_fps();
    Ok(line.map_or(fastest, |line| line.fps.min(fastest)))
}

fn loss_at(spec: &FrameLossSpec, bench: &mut Bench, asked: Option<Step>, fps: f64) -> Result<Loss, RunError> {
    let trial = bench.trial(&Load::steady(fps, spec.trial))?;
    let loss_ratio = bench.trials.tells_of_what_was_sent(&trial).then(|| trial.dut_loss_ratio());
    Ok(Loss { asked, fps: trial.sent_fps(), loss_ratio })
}

/// What loads are measured by.
#[derive(Debug, Clone, Copy)]
struct Scale {
    /// The rate of 100 %.
    maximum: Maximum,
    /// The loss at the highest load that the tester can offer.
    top: Loss,
}

impl Scale {
    /// A virtual wire has no speed of its own: frames enter it as fast as the device's end and the tester can hand them
    /// over, which the device takes part in. So 100 % is what the tester sent to this device, if the plan names no line.
    fn of(line: Option<Maximum>, top: Loss) -> Scale {
        let sent = Maximum { fps: top.fps, source: "the tester, paced towards this device" };
        Scale { maximum: line.unwrap_or(sent), top }
    }

    /// The steps below the highest load.
    fn steps(&self, spec: &FrameLossSpec) -> Vec<Step> {
        let step = |percent| Step { percent, fps: self.maximum.fps * percent / 100.0 };
        let steps = percents(spec.step_percent).into_iter().map(step);
        steps.filter(|step| step.fps < self.top.fps).collect()
    }
}

/// A load in percent of the maximum rate and in frames/s.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Step {
    percent: f64,
    fps: f64,
}

/// What a device lost at a load.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Loss {
    /// The step; none for the highest load.
    asked: Option<Step>,
    /// What was sent, frames/s.
    fps: f64,
    /// Share of the frames sent; `None` where no trial can be believed.
    loss_ratio: Option<f64>,
}

/// A tester that is slower than asked for by no more than this still offers that step.
const STILL_THE_STEP: f64 = 0.005;

impl Loss {
    /// The step that was really offered: none where the tester was too slow for it.
    fn step(&self) -> Option<Step> {
        self.asked.filter(|step| self.loss_ratio.is_none() || self.fps >= step.fps * (1.0 - STILL_THE_STEP))
    }

    /// Its place on the scale: a step where that was offered, otherwise a whole percent of what was sent.
    fn percent(&self, maximum: Maximum) -> f64 {
        self.step().map_or((100.0 * self.fps / maximum.fps).round(), |step| step.percent)
    }
}

/// Goes down from the highest load until two in a row lost nothing; returns what was lost at each.
fn down<E>(
    steps: &[Step],
    top: Loss,
    mut loss_at: impl FnMut(Step) -> Result<Loss, E>,
) -> Result<Vec<Loss>, E> {
    let mut found = vec![top];
    for &step in steps {
        found.push(loss_at(step)?);
        if without_loss(&found).is_some() {
            break;
        }
    }
    Ok(found)
}

/// The higher of two successive loads that lost nothing, frames/s.
fn without_loss(found: &[Loss]) -> Option<f64> {
    let clean = found.windows(2).find(|pair| pair.iter().all(|loss| loss.loss_ratio == Some(0.0)))?;
    let offered = clean.iter().map(|loss| loss.step().map_or(loss.fps, |step| step.fps));
    offered.reduce(f64::max)
}

fn result(spec: &FrameLossSpec, scale: &Scale, found: &[Loss]) -> ProcedureResult {
    let average = |name: &str, unit, values: Vec<f64>| figure(name, unit, Statistic::Average, values);
    let clean = without_loss(found);
    let mut figures = vec![average(name::LOAD_WITHOUT_LOSS, unit::FRAMES_PER_S, clean.into_iter().collect())];
    let mut percents: Vec<f64> = found.iter().map(|loss| loss.percent(scale.maximum)).collect();
    percents.sort_by(|a, b| b.total_cmp(a));
    percents.dedup();
    figures.extend(percents.into_iter().map(|percent| {
        let here = found.iter().filter(|loss| loss.percent(scale.maximum) == percent);
        let ratios = here.filter_map(|loss| loss.loss_ratio).collect();
        average(&name::loss_at(percent), unit::RATIO, ratios)
    }));
    ProcedureResult {
        parameters: vec![
            frames_per_s("maximum rate", scale.maximum.fps),
            parameter("maximum rate is that of", scale.maximum.source, ""),
            parameter("step", spec.step_percent, "%"),
            seconds("trial", spec.trial),
        ],
        figures,
        irregular: irregular(scale, found),
        ..empty(procedure::FRAME_LOSS, CITES)
    }
}

fn irregular(scale: &Scale, found: &[Loss]) -> Vec<String> {
    let mut list = Vec::new();
    let highest = scale.top.percent(scale.maximum);
    if highest < 100.0 {
        list.push(format!(
            "The tester can pace at most {} frames/s here: the loss above {highest} % of the maximum rate is not known.",
            scale.top.fps.round()
        ));
    }
    let slow = found.iter().filter(|loss| loss.asked.is_some() && loss.step().is_none()).count();
    let unknown = found.iter().filter(|loss| loss.loss_ratio.is_none()).count();
    for (n, what) in [
        (slow, "the tester sent less than the step: the loss is that of the load that was sent"),
        (unknown, "no trial was valid"),
    ] {
        list.extend((n > 0).then(|| format!("At {n} of {} loads {what}.", found.len())));
    }
    if without_loss(found).is_none() {
        list.push("No two successive loads were without loss.".into());
    }
    list
}

pub(super) fn deviations(spec: &FrameLossSpec) -> Vec<String> {
    let scale = "Frame loss: where the plan names no line rate, 100 % is what the tester can pace towards the device; a \
                 loss is assigned to the load that was really sent, if that is less than the step.";
    let coarse = (spec.step_percent > 10.0).then(|| {
        format!(
            "Frame loss in steps of {} %, where RFC 2544 section 26.3 wants 10 % at most.",
            spec.step_percent
        )
    });
    let short = shorter("Frame loss: trials", spec.trial, Duration::from_secs(60), "RFC 2544 section 24");
    [Some(scale.to_string()), coarse, short].into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    const SPEC: FrameLossSpec = FrameLossSpec { step_percent: 10.0, trial: Duration::from_secs(60) };

    /// A simulated device with its tester, frames/s.
    struct Sim {
        /// What the device forwards.
        capacity: f64,
        /// What the tester paces at its best.
        top: f64,
        /// What it paces later on.
        paced: f64,
        /// A line of the plan.
        line: Option<f64>,
        /// Loads at which no trial can be believed.
        unknown: fn(f64) -> bool,
    }

    const SIM: Sim = Sim { capacity: 0.65e6, top: 1e6, paced: 1e6, line: None, unknown: |_| false };

    impl Sim {
        fn loss(&self, asked: Option<Step>, fps: f64) -> Loss {
            let loss_ratio = (1.0 - self.capacity / fps).max(0.0);
            Loss { asked, fps, loss_ratio: (!(self.unknown)(fps)).then_some(loss_ratio) }
        }

        fn run(&self) -> ProcedureResult {
            let line = self.line.map(|fps| Maximum { fps, source: "the line" });
            let top = self.line.map_or(self.top, |line| line.min(self.top));
            let scale = Scale::of(line, self.loss(None, top));
            let found = down(&scale.steps(&SPEC), scale.top, |step| {
                Ok::<_, Infallible>(self.loss(Some(step), step.fps.min(self.paced)))
            });
            let Ok(found) = found;
            result(&SPEC, &scale, &found)
        }
    }

    /// The figures as `name=value`, and what was irregular.
    fn check(sim: &Sim, figures: &str, irregular: &[&str]) {
        let result = sim.run();
        let value = |v: Option<f64>| v.map_or("?".into(), |v| format!("{v:.3}"));
        let words = result
            .figures
            .iter()
            .map(|f| format!("{}={}", f.name.trim_start_matches("loss at "), value(f.value)));
        assert_eq!(words.collect::<Vec<_>>().join(" "), figures);
        assert_eq!(result.irregular, irregular);
    }

    #[test]
    fn it_goes_down_until_two_loads_lose_nothing() {
        check(
            &SIM,
            "load without loss=600000.000 100 %=0.350 90 %=0.278 80 %=0.188 70 %=0.071 60 %=0.000 50 %=0.000",
            &[],
        );
        let fast = Sim { capacity: 2e6, ..SIM };
        check(&fast, "load without loss=1000000.000 100 %=0.000 90 %=0.000", &[]);
        let slow = Sim { capacity: 5e4, ..SIM };
        assert_eq!(slow.run().figures.len(), 11);
        assert_eq!(slow.run().irregular, ["No two successive loads were without loss."]);
    }

    #[test]
    fn what_the_tester_did_not_send_is_no_load() {
        let slow =
            "At 2 of 6 loads the tester sent less than the step: the loss is that of the load that was sent.";
        check(
            &Sim { paced: 0.76e6, ..SIM },
            "load without loss=600000.000 100 %=0.350 76 %=0.145 70 %=0.071 60 %=0.000 50 %=0.000",
            &[slow],
        );
        // Two trials at one load that was sent, and both without loss.
        check(
            &Sim { paced: 0.76e6, capacity: 0.8e6, ..SIM },
            "load without loss=760000.000 100 %=0.200 76 %=0.000",
            &[&slow.replace("of 6", "of 3")],
        );
    }

    #[test]
    fn a_line_that_the_tester_cannot_fill_is_reported() {
        check(
            &Sim { line: Some(2e6), ..SIM },
            "load without loss=600000.000 50 %=0.350 40 %=0.188 30 %=0.000 20 %=0.000",
            &[
                "The tester can pace at most 1000000 frames/s here: the loss above 50 % of the maximum rate is not known.",
            ],
        );
        check(
            &Sim { line: Some(0.7e6), ..SIM },
            "load without loss=630000.000 100 %=0.071 90 %=0.000 80 %=0.000",
            &[],
        );
    }

    #[test]
    fn what_is_not_known_is_no_load_without_loss() {
        check(
            &Sim { unknown: |fps| (fps - 0.6e6).abs() < 1e3, ..SIM },
            "load without loss=500000.000 100 %=0.350 90 %=0.278 80 %=0.188 70 %=0.071 60 %=? 50 %=0.000 40 %=0.000",
            &["At 1 of 7 loads no trial was valid."],
        );
    }
}
