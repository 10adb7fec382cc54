//! Hours at a share of the throughput, in trials that follow each other; each loss with its date.
//!
//! No trial is repeated: what happened in a noisy one happened. Its losses are listed, but the figures are of valid
//! trials alone, since in others the tester or the host may have had a part.

use std::time::Duration;

use weir_load::counts::Load;
use weir_measure::stops::{Lost, lost_by_stops};

use super::{Bench, empty, load_parameter, parameter, seconds, valid};
use crate::throughput::SoakSpec;
use weir_lab::error::RunError;
use weir_linux::time;
use weir_record::figure::{figure, name, procedure, unit};
use weir_record::record::{DatedLoss, ProcedureResult, Purpose, Statistic, Trial, Verdict};

const CITES: &str = "";
/// Losses that a record lists; further ones are in its trials.
const LISTED: usize = 10_000;

pub(super) fn measure(spec: &SoakSpec, bench: &mut Bench) -> Result<ProcedureResult, RunError> {
    let empty = empty(procedure::SOAK, CITES);
    let Some(fps) = bench.known.load(spec.percent) else { return Ok(super::without_throughput(empty)) };
    let load = Load { stops: true, ..Load::steady(fps, spec.trial) };
    let one = |_| bench.trials.one(bench.setup, &load, Purpose::Procedure);
    let trials = (0..spec.trials()).map(one).collect::<Result<Vec<Trial>, RunError>>()?;
    Ok(result(spec, fps, &trials, bench.trials.tester_cpus()))
}

fn result(spec: &SoakSpec, fps: f64, trials: &[Trial], testers: &[usize]) -> ProcedureResult {
    let (good, not_valid) = valid(trials);
    let per_hour =
        |t: &&Trial| t.streams.iter().map(|s| s.loss_event_count).sum::<u64>() as f64 * 3600.0 / t.duration_s;
    let average = |name: &str, unit, values| figure(name, unit, Statistic::Average, values);
    let mut events: Vec<DatedLoss> = trials.iter().flat_map(|trial| dated(trial, testers)).collect();
    let all: u64 = trials.iter().flat_map(|t| &t.streams).map(|s| s.loss_event_count).sum();
    events.truncate(LISTED);
    let mut irregular: Vec<String> = not_valid.into_iter().collect();
    if (events.len() as u64) < all {
        irregular.push(format!("{} of {all} losses are listed.", events.len()));
    }
    ProcedureResult {
        parameters: vec![
            load_parameter(spec.percent, fps),
            seconds("duration", spec.trial * spec.trials()),
            seconds("trial", spec.trial),
            parameter("trials", trials.len(), ""),
        ],
        figures: vec![
            average(name::LOSS_EVENTS, unit::PER_HOUR, good.iter().map(per_hour).collect()),
            average(name::LOSS_RATIO, unit::RATIO, good.iter().map(|t| t.dut_loss_ratio()).collect()),
        ],
        irregular,
        events,
        ..empty(procedure::SOAK, CITES)
    }
}

/// The losses of a trial, oldest first.
fn dated(trial: &Trial, testers: &[usize]) -> Vec<DatedLoss> {
    let events = trial.streams.iter().flat_map(|s| s.loss_events.iter().map(move |event| (s, event)));
    let mut events: Vec<_> = events.collect();
    events.sort_by_key(|(_, event)| event.first_sent_ns);
    let by_stops = |event: &weir_record::record::LossEvent| {
        let (first_ns, last_ns) = (event.first_sent_ns, event.last_sent_ns.max(event.first_sent_ns));
        let lost = [Lost { first_ns, last_ns, frames: event.lost }];
        trial.witnessed.as_ref().map(|seen| lost_by_stops(&lost, &seen.stops, testers))
    };
    let one = |(stream, event): (&weir_record::record::Stream, &weir_record::record::LossEvent)| DatedLoss {
        at: time::later(&trial.started, Duration::from_nanos(event.first_sent_ns)).unwrap_or_default(),
        direction: stream.direction.clone(),
        lost: event.lost,
        by_stops: by_stops(event),
        outage_s: event.outage_ns as f64 / 1e9,
        valid: trial.verdict == Verdict::Valid,
    };
    events.into_iter().map(one).collect()
}

pub(super) fn deviations(_: &SoakSpec) -> Vec<String> {
    vec![
        "Soak: between two trials the tester pauses to read its counters; losses in the pauses are not seen."
            .into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::throughput::procedure::testing::trial;
    use weir_measure::stops::{Instead, Stop};
    use weir_record::record::{LossEvent, Stream, Witnessed};

    fn lost(started: &str, at_ms: &[u64], verdict: Verdict) -> Trial {
        let event = |ms: &u64| LossEvent {
            first_sent_ns: ms * 1_000_000,
            lost: 5,
            outage_ns: 7_000_000,
            ..LossEvent::default()
        };
        let stream = Stream {
            direction: "a>b".into(),
            loss_events: at_ms.iter().map(event).collect(),
            loss_event_count: at_ms.len() as u64,
            ..Stream::default()
        };
        let lost = 5 * at_ms.len() as u64;
        Trial { started: started.into(), duration_s: 60.0, streams: vec![stream], verdict, ..trial() }
            .counting(|counts| (counts.sent, counts.lost) = (1000, lost))
    }

    #[test]
    fn losses_have_dates_and_only_those_of_valid_trials_count() {
        let spec =
            SoakSpec { percent: 90.0, duration: Duration::from_secs(170), trial: Duration::from_secs(60) };
        assert_eq!(spec.trials(), 3);
        let trials = [
            lost("2026-02-28T23:59:00.000Z", &[59_500, 60_000], Verdict::Valid),
            lost("2026-03-01T00:00:00.500Z", &[], Verdict::Valid),
            lost("2026-03-01T00:01:01.000Z", &[1], Verdict::Noisy),
        ];
        let result = result(&spec, 0.45e6, &trials, &[0]);
        let values: Vec<_> = result.figures.iter().map(|f| f.value.expect("a value")).collect();
        assert_eq!(values, [60.0, 0.005], "two events in two minutes, ten frames of two thousand");
        let events: Vec<_> =
            result.events.iter().map(|e| (e.at.as_str(), e.lost, e.outage_s, e.valid)).collect();
        assert_eq!(
            events,
            [
                ("2026-02-28T23:59:59.500Z", 5, 0.007, true),
                ("2026-03-01T00:00:00.000Z", 5, 0.007, true),
                ("2026-03-01T00:01:01.001Z", 5, 0.007, false),
            ]
        );
        assert_eq!(result.irregular, ["1 of 3 trials are not valid and were not used."]);
    }

    #[test]
    fn losses_are_laid_to_stops_where_those_were_noted() {
        let mut trial = lost("2026-02-28T23:59:00.000Z", &[100, 500], Verdict::Valid);
        let by_stops =
            |trial: &Trial| dated(trial, &[0]).iter().map(|event| event.by_stops).collect::<Vec<_>>();
        assert_eq!(by_stops(&trial), [None, None]);
        let stop = Stop {
            cpu: 1,
            from_ns: 99_000_000,
            to_ns: 101_000_000,
            least_ns: 1_000_000,
            instead: Instead::Silent,
        };
        trial.witnessed = Some(Witnessed { stops: vec![stop], lost_by_stops: 5 });
        assert_eq!(by_stops(&trial), [Some(5), Some(0)]);
    }
}
