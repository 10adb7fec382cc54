//! Forwarding rates under overload: RFC 2889, sections 5.1 and 5.6, with the terms of RFC 2285, section 3.6.
//!
//! ```text
//! throughput, + step, + 2 steps, ... > as fast as the tester can
//!     forwarding rate at each                 FRMOL
//!     the highest of all: MFR
//! ```

use std::time::Duration;

use weir_load::counts::Load;

use super::{Bench, Known, empty, parameter, seconds, shorter};
use crate::throughput::ForwardingSpec;
use weir_lab::error::RunError;
use weir_record::figure::{figure, name, procedure, unit};
use weir_record::record::{ProcedureResult, Statistic, Trial, Verdict};

const CITES: &str = "RFC 2889, sections 5.1 and 5.6";

/// A forwarding rate and the load at which it was measured, frames/s.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Forwarded {
    offered_fps: f64,
    fps: f64,
}

/// One repetition: what was forwarded at each load, `None` where that is not known.
#[derive(Debug, Default, PartialEq)]
struct Round {
    paced: Vec<Option<Forwarded>>,
    at_maximum: Option<Forwarded>,
}

pub(super) fn measure(spec: &ForwardingSpec, bench: &mut Bench) -> Result<ProcedureResult, RunError> {
    let loads = loads(spec, bench.known);
    let mut rounds = Vec::new();
    for _ in 0..spec.times {
        let mut round = Round::default();
        for &fps in &loads {
            round.paced.push(forwarded(&bench.trial(&Load::steady(fps, spec.trial))?));
        }
        round.at_maximum = forwarded(&bench.trial(&Load::full_speed(spec.trial))?);
        rounds.push(round);
    }
    Ok(result(spec, bench.known, &rounds))
}

/// What went through at the load that was really sent: a tester that sends less than intended offers less, and what
/// the device forwards of it is no less true.
fn forwarded(trial: &Trial) -> Option<Forwarded> {
    let counts = matches!(trial.verdict, Verdict::Valid | Verdict::TesterLimited) && trial.counts().sent > 0;
    let offered_fps = trial.sent_fps();
    let share = trial.counts().received as f64 / trial.counts().sent.max(1) as f64;
    counts.then_some(Forwarded { offered_fps, fps: offered_fps * share })
}

/// Loads from the throughput up, as far as the tester can pace them; none where there is no throughput.
fn loads(spec: &ForwardingSpec, known: &Known) -> Vec<f64> {
    let percents = spec.percents();
    let loads = percents.iter().filter_map(|percent| Some(known.throughput_fps? * percent / 100.0));
    loads.take_while(|fps| *fps <= known.paced_fps).collect()
}

fn result(spec: &ForwardingSpec, known: &Known, rounds: &[Round]) -> ProcedureResult {
    let highest = |round: &Round| {
        let all = round.paced.iter().chain([&round.at_maximum]).flatten().copied();
        all.max_by(|a, b| a.fps.total_cmp(&b.fps))
    };
    let best: Vec<_> = rounds.iter().filter_map(highest).collect();
    let full: Vec<_> = rounds.iter().filter_map(|round| round.at_maximum).collect();
    let median = |name: &str, of: &[Forwarded], value: fn(&Forwarded) -> f64| {
        figure(name, unit::FRAMES_PER_S, Statistic::Median, of.iter().map(value).collect())
    };
    let mut irregular = Vec::new();
    if known.throughput_fps.is_none() {
        irregular.push("No throughput was found at this point: only the maximum load was offered.".into());
    }
    let unknown: usize = rounds.iter().map(|r| r.paced.iter().filter(|load| load.is_none()).count()).sum();
    if unknown > 0 {
        let of = rounds.iter().map(|r| r.paced.len()).sum::<usize>();
        irregular.push(format!("{unknown} of {of} loads had no valid trial; the rate there may be higher."));
    }
    if full.len() < rounds.len() {
        let bad = rounds.len() - full.len();
        irregular.push(format!("{bad} of {} trials at the maximum load are not valid.", rounds.len()));
    }
    ProcedureResult {
        parameters: vec![
            parameter("loads", "as sent, where the tester sent less than intended", ""),
            parameter("first load", "the throughput", ""),
            parameter("step", spec.step_percent, "% of the throughput"),
            parameter("last load before the maximum", spec.up_to_percent, "% of the throughput"),
            seconds("trial", spec.trial),
        ],
        figures: vec![
            median(name::MFR, &best, |f| f.fps),
            median(name::LOAD_OF_MFR, &best, |f| f.offered_fps),
            median(name::FRMOL, &full, |f| f.fps),
            median(name::MAXIMUM_LOAD, &full, |f| f.offered_fps),
        ],
        irregular,
        ..empty(procedure::FORWARDING, CITES)
    }
}

pub(super) fn deviations(spec: &ForwardingSpec) -> Vec<String> {
    let trial = shorter("Forwarding rates: trials", spec.trial, Duration::from_secs(30), "RFC 2889");
    let mut list = vec![
        "Forwarding rates: the maximum offered load is what the tester sends as fast as it can, since a veth has no \
         medium that limits it; no learning frames are sent, because the bridge's entries are static."
            .to_string(),
    ];
    list.extend(trial);
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::throughput::procedure::testing::{known, trial};

    const SPEC: ForwardingSpec =
        ForwardingSpec { step_percent: 20.0, up_to_percent: 200.0, trial: Duration::from_secs(30), times: 1 };

    fn at(offered_fps: f64, fps: f64) -> Option<Forwarded> {
        Some(Forwarded { offered_fps, fps })
    }

    fn values(result: &ProcedureResult) -> Vec<Option<f64>> {
        result.figures.iter().map(|figure| figure.value).collect()
    }

    #[test]
    fn loads_go_up_from_the_throughput_as_far_as_the_tester_can() {
        let mut known = known();
        // 0.5 M frames/s found, 0.9 M can be paced.
        assert_eq!(loads(&SPEC, &known), [0.5e6, 0.6e6, 0.7e6, 0.8e6, 0.9e6]);
        known.paced_fps = 9e6;
        assert_eq!(loads(&SPEC, &known).last(), Some(&1e6));
        known.throughput_fps = None;
        assert_eq!(loads(&SPEC, &known), [0.0; 0]);
    }

    #[test]
    fn the_highest_rate_may_be_anywhere_and_frmol_is_that_of_the_maximum_load() {
        let rounds = [
            Round { paced: vec![at(5e5, 5e5), at(6e5, 5.5e5), at(7e5, 4e5)], at_maximum: at(1e6, 3e5) },
            Round { paced: vec![at(5e5, 5e5), at(6e5, 5.7e5), None], at_maximum: at(1.1e6, 6e5) },
            Round { paced: vec![at(5e5, 5e5), at(6e5, 5.8e5), at(7e5, 4e5)], at_maximum: None },
        ];
        let result = result(&SPEC, &known(), &rounds);
        assert_eq!(values(&result), [Some(5.8e5), Some(6e5), Some(4.5e5), Some(1.05e6)]);
        assert_eq!(
            result.irregular,
            [
                "1 of 9 loads had no valid trial; the rate there may be higher.",
                "1 of 3 trials at the maximum load are not valid."
            ]
        );
    }

    #[test]
    fn without_a_throughput_there_is_the_maximum_load_alone() {
        let known = Known { throughput_fps: None, ..known() };
        let result = result(&SPEC, &known, &[Round { paced: vec![], at_maximum: at(1e6, 3e5) }]);
        assert_eq!(values(&result), [Some(3e5), Some(1e6), Some(3e5), Some(1e6)]);
        assert_eq!(
            result.irregular,
            ["No throughput was found at this point: only the maximum load was offered."]
        );
    }

    #[test]
    fn the_load_is_what_was_sent_and_noisy_trials_do_not_count() {
        let mut slow = Trial { verdict: Verdict::TesterLimited, ..trial() }
            .counting(|c| (c.offered_fps, c.sent, c.received) = (1e6, 80_000, 60_000));
        slow.noise.rate_error = -0.2;
        assert_eq!(forwarded(&slow), at(8e5, 6e5));
        for verdict in [Verdict::Noisy, Verdict::Invalid] {
            assert_eq!(forwarded(&Trial { verdict, ..slow.clone() }), None);
        }
        assert_eq!(forwarded(&slow.counting(|counts| counts.sent = 0)), None);
    }

    #[test]
    fn shorter_trials_are_a_deviation() {
        assert_eq!(deviations(&SPEC).len(), 1);
        let short = deviations(&ForwardingSpec { trial: Duration::from_secs(1), ..SPEC });
        assert_eq!(short[1], "Forwarding rates: trials of 1 s, where RFC 2889 wants 30 s.");
    }
}
