//! The rate of a NAT there and back in steady overload: it does not depend on a single stop, which decides the loss of a short
//! trial, and is the main result if the plan has it.
//!
//! ```text
//! first round: as fast as can be paced > 135 % of what came back > again, until that is the load
//! each round:  trials at that load | windows of 16 ms | > median > median over the trials of all rounds
//! ```

use std::time::Duration;

use weir_load::counts::Load;
use weir_measure::capacity::{Overload, Round, compared, is_overloaded, rate};

use super::bench::{Bench, CEILING_SHARE};
use super::plan::{APPROACH, NatLoad};
use weir_lab::error::RunError;
use weir_record::figure::{figure, name, procedure, unit};
use weir_record::record::{Comparison, Owner, ProcedureResult, Purpose, Statistic, Trial, Verdict};

/// What is offered, by what comes back.
const TIMES: f64 = 1.35;
/// What will do of that.
const LEAST: f64 = 1.2;
const MOST: f64 = 1.5;

/// What a figure is that the tester ended.
pub(super) const IS_LOWER_BOUND: &str = "the capacity is a lower bound";

/// What a device has shown of its capacity.
#[derive(Debug, Clone, Default)]
pub(super) struct Capacity {
    next_fps: Option<f64>,
    pub(super) trials: Vec<Round>,
    cycles: Vec<f64>,
    /// Trials in which the tester could offer no more than the device translated.
    short: usize,
}

impl Capacity {
    /// The trials of a round.
    pub(super) fn round(
        &mut self,
        experiment: &NatLoad,
        bench: &mut Bench<'_>,
        ceiling_fps: f64,
    ) -> Result<(), RunError> {
        if experiment.capacity_trials == 0 {
            return Ok(());
        }
        let overload =
            Overload { times: TIMES, least: LEAST, most: MOST, most_fps: ceiling_fps * CEILING_SHARE };
        let mut fps = match self.next_fps {
            Some(fps) => fps,
            None => approach(experiment.capacity_trial, bench, &overload)?,
        };
        for _ in 0..experiment.capacity_trials {
            let trial = bench.one(&Load::overload(fps, experiment.capacity_trial), Purpose::Procedure)?;
            let found = translated(&trial);
            self.trials.push(Round { fps: found, place: None });
            if let Some(found) = found {
                self.short += usize::from(!is_overloaded(trial.sent_fps(), found));
                self.cycles.extend(trial.cost.cycles_per_frame);
                fps = overload.next_fps(fps, found);
            }
        }
        self.next_fps = Some(fps);
        Ok(())
    }

    /// The figures, and how they relate to those of the device with this index; `None` where nothing was found.
    pub(super) fn result(
        &self,
        trial: Duration,
        reference: Option<(usize, &[Round])>,
    ) -> Option<ProcedureResult> {
        let values: Vec<f64> = self.trials.iter().filter_map(|round| round.fps).collect();
        if values.is_empty() {
            return None;
        }
        let lost = self.trials.len() - values.len();
        let mut figures = vec![figure(name::CAPACITY, unit::FRAMES_PER_S, Statistic::Median, values)];
        if !self.cycles.is_empty() {
            figures.push(figure(name::CYCLES, unit::CYCLES, Statistic::Median, self.cycles.clone()));
        }
        let comparisons = reference.and_then(|(point_index, other)| {
            let (ratio, rounds) = compared(&self.trials, other, None)?;
            let (ratio, interval) = (ratio.value, ratio.interval);
            Some(Comparison { point_index, ratio, interval, rounds, ..Comparison::default() })
        });
        let mut irregular = Vec::new();
        if self.short > 0 {
            irregular.push(format!(
                "In {} of {} trials the tester could not offer more than the device translates{}.",
                self.short,
                self.trials.len(),
                if 2 * self.short >= self.trials.len() {
                    format!(": {IS_LOWER_BOUND}")
                } else {
                    String::new()
                }
            ));
        }
        if lost > 0 {
            irregular
                .push(format!("{lost} of {} trials found no rate and were not used.", self.trials.len()));
        }
        Some(ProcedureResult {
            procedure: procedure::CAPACITY.into(),
            parameters: vec![
                ("trials".into(), self.trials.len().to_string()),
                ("trial".into(), format!("{} s", trial.as_secs_f64())),
                ("overload".into(), format!("{:.0} % of what comes back", TIMES * 100.0)),
            ],
            figures,
            comparisons: comparisons.into_iter().collect(),
            irregular,
            ..ProcedureResult::default()
        })
    }
}

/// So many times what the device translates.
fn approach(trial: Duration, bench: &mut Bench<'_>, overload: &Overload) -> Result<f64, RunError> {
    let mut fps = overload.most_fps;
    for _ in 0..APPROACH {
        let trial = bench.one(&Load::overload(fps, trial), Purpose::Procedure)?;
        let Some(found) = translated(&trial) else { continue };
        let next = overload.next_fps(fps, found);
        if next == fps {
            break;
        }
        fps = next;
    }
    Ok(fps)
}

/// Frames/s that came back inside as they should, over the windows of a trial.
fn translated(trial: &Trial) -> Option<f64> {
    let is_lost =
        trial.verdict == Verdict::Invalid || trial.dropped_by(Owner::Tester) > trial.counts().sent / 1000;
    if is_lost { None } else { rate(&trial.windows) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[Option<f64>]) -> Capacity {
        let trials = values.iter().map(|fps| Round { fps: *fps, place: None }).collect();
        Capacity { trials, cycles: vec![900.0, 1000.0, 1100.0], ..Capacity::default() }
    }

    #[test]
    fn the_median_of_all_trials_is_the_figure_and_ratios_are_those_of_the_same_trials() {
        let one = of(&[Some(1e6), Some(1.2e6), None, Some(0.8e6), Some(1e6), Some(1e6)]);
        let two = of(&[Some(2e6), Some(2.4e6), Some(9e6), Some(1.6e6), Some(2e6), Some(2e6)]);
        let found = two.result(Duration::from_millis(200), Some((3, &one.trials))).unwrap();
        assert_eq!((found.figures[0].value, found.figures[1].value), (Some(2e6), Some(1000.0)));
        let [comparison] = &found.comparisons[..] else { panic!("{:?}", found.comparisons) };
        assert_eq!((comparison.point_index, comparison.ratio, comparison.rounds), (3, 2.0, 5));
        assert!(found.irregular.is_empty(), "{:?}", found.irregular);
        let found = one.result(Duration::from_millis(200), None).unwrap();
        assert!(found.irregular[0].starts_with("1 of 6 trials found no rate"), "{:?}", found.irregular);
        assert_eq!(of(&[None]).result(Duration::from_millis(200), None), None);
    }
}
