//! Reset: RFC 2544, section 26.6, as updated by RFC 6201. The smallest frames at the throughput; in the middle of a
//! trial the device is reset.
//!
//! ```text
//! frames in:   ||||||||||||||||||||||||||||
//! frames out:  |||||||||A          B|||||||    B - A by time stamps; lost frames / offered rate by frame loss
//! ```

use weir_load::counts::Load;

use super::{Bench, Known, empty, load_parameter, once, parameter, seconds, valid};
use crate::throughput::ResetSpec;
use weir_lab::error::RunError;
use weir_lab::frames::ResetKind;
use weir_lab::frames::disturbance::Disturbance;
use weir_record::figure::{figure, name, procedure, unit};
use weir_record::record::{LossEvent, ProcedureResult, Purpose, Statistic, Trial};

const CITES: &str = "RFC 2544, section 26.6, as updated by RFC 6201";
/// Periods of loss beside the reset that matter: more than this share of the frames that the longest one cost.
const ELSEWHERE: f64 = 0.01;

pub(super) fn measure(spec: &ResetSpec, bench: &mut Bench) -> Result<ProcedureResult, RunError> {
    let mut empty = empty(procedure::RESET, CITES);
    let dut = bench.known.spec.dut;
    if !spec.kind.fits(dut) {
        empty.irregular.push(format!("{dut} has nothing that `{}` resets.", spec.kind.name()));
        return Ok(empty);
    }
    let Some(fps) = bench.known.load(100.0) else { return Ok(super::without_throughput(empty)) };
    let load = Load::steady(fps, spec.trial);
    let one = |_| {
        let begin = || Disturbance::new(spec.kind, spec.trial / 2, spec.stall);
        bench.trials.disturbed(bench.setup, &load, Purpose::Procedure, begin)
    };
    let trials = (0..spec.times).map(one).collect::<Result<Vec<Trial>, RunError>>()?;
    Ok(result(spec, fps, bench.known, &trials))
}

/// How long a device passed nothing on.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Outage {
    by_loss_s: f64,
    by_time_stamps_s: f64,
    /// Frames were lost at another time too.
    elsewhere: bool,
}

impl Outage {
    /// Of a trial in which each direction sent `fps`: that of the direction where it was longer.
    fn of(trial: &Trial, fps: f64) -> Outage {
        let mut directions: Vec<&str> = trial.streams.iter().map(|s| s.direction.as_str()).collect();
        directions.dedup();
        let outages = directions.iter().map(|direction| {
            let streams = || trial.streams.iter().filter(|s| s.direction == **direction);
            let lost = streams().map(|s| s.lost).sum::<u64>() as f64;
            let events: Vec<&LossEvent> = streams().flat_map(|s| &s.loss_events).collect();
            let longest_ns = events.iter().map(|e| e.outage_ns).max().unwrap_or(0);
            // Groups of flows see the same reset, each a part of its loss.
            let at_reset = |e: &&&LossEvent| e.outage_ns as f64 > 0.5 * longest_ns as f64;
            let reset: u64 = events.iter().filter(at_reset).map(|e| e.lost).sum();
            Outage {
                by_loss_s: lost / fps,
                by_time_stamps_s: longest_ns as f64 / 1e9,
                elsewhere: lost - reset as f64 > ELSEWHERE * reset as f64,
            }
        });
        outages.max_by(|a, b| a.by_time_stamps_s.total_cmp(&b.by_time_stamps_s)).unwrap_or_default()
    }
}

fn result(spec: &ResetSpec, fps: f64, known: &Known, trials: &[Trial]) -> ProcedureResult {
    let (good, not_valid) = valid(trials);
    let outages: Vec<Outage> = good.iter().map(|trial| Outage::of(trial, fps / known.streams())).collect();
    let average = |name: &str, value: fn(&Outage) -> f64| {
        figure(name, unit::SECONDS, Statistic::Average, outages.iter().map(value).collect())
    };
    let elsewhere = outages.iter().filter(|o| o.elsewhere).count();
    let lossy = (elsewhere > 0).then(|| {
        let all = outages.len();
        format!("In {elsewhere} of {all} trials frames were lost apart from the reset; the time by frame loss has them.")
    });
    let mut parameters = vec![
        parameter("reset", what(spec.kind), ""),
        load_parameter(100.0, fps),
        seconds("trial", spec.trial),
        parameter("trials", spec.times, ""),
    ];
    if spec.kind == ResetKind::Stall {
        parameters.push(seconds("stall", spec.stall));
    }
    ProcedureResult {
        parameters,
        figures: vec![
            average(name::RESET_BY_LOSS, |o| o.by_loss_s),
            average(name::RESET_BY_TIME_STAMPS, |o| o.by_time_stamps_s),
        ],
        irregular: not_valid.into_iter().chain(lossy).collect(),
        ..empty(procedure::RESET, CITES)
    }
}

/// In words.
fn what(kind: ResetKind) -> &'static str {
    match kind {
        ResetKind::Links => "both interfaces down, then up, addresses and routes anew",
        ResetKind::Rules => "all rules anew, connections forgotten",
        ResetKind::Stall => "a stall of the faulty device",
    }
}

pub(super) fn deviations(spec: &ResetSpec) -> Vec<String> {
    let kind = format!(
        "Reset: {}, which is none of the hardware, software and power resets of RFC 6201.",
        what(spec.kind)
    );
    let few = once("Reset", spec.times, "RFC 6201 section 3");
    [kind].into_iter().chain(few).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::throughput::procedure::testing::{known, trial};
    use weir_record::record::Stream;

    /// A direction of a trial: outages in ms and frames lost in each.
    fn direction(name: &str, events: &[(u64, u64)]) -> Stream {
        let event = |(ms, lost): &(u64, u64)| LossEvent {
            outage_ns: ms * 1_000_000,
            lost: *lost,
            ..LossEvent::default()
        };
        Stream {
            direction: name.into(),
            lost: events.iter().map(|(_, lost)| lost).sum(),
            loss_events: events.iter().map(event).collect(),
            ..Stream::default()
        }
    }

    #[test]
    fn both_methods_of_rfc_6201() {
        let of = |streams| Outage::of(&Trial { streams, ..trial() }, 1e5);
        let outage =
            |by_loss_s, by_time_stamps_s, elsewhere| Outage { by_loss_s, by_time_stamps_s, elsewhere };
        assert_eq!(of(vec![direction("a>b", &[(500, 50_000)])]), outage(0.5, 0.5, false));
        assert_eq!(of(vec![direction("a>b", &[])]), Outage::default(), "a reset without loss");
        let both = vec![direction("a>b", &[(500, 50_000)]), direction("b>a", &[(700, 70_000)])];
        assert_eq!(of(both), outage(0.7, 0.7, false), "the direction that was longer without");
        let groups = vec![direction("a>b", &[(500, 30_000)]), direction("a>b", &[(501, 20_000)])];
        assert_eq!(of(groups), outage(0.5, 0.501, false), "two groups of one direction");
        let also = vec![direction("a>b", &[(3, 1000), (500, 50_000)])];
        assert_eq!(of(also), outage(0.51, 0.5, true));
    }

    #[test]
    fn a_trial_that_lost_more_than_the_reset_cost_is_reported() {
        let spec = ResetSpec {
            kind: ResetKind::Stall,
            trial: Duration::from_secs(2),
            stall: Duration::from_millis(500),
            times: 2,
        };
        let streams = |events: &[(u64, u64)]| Trial { streams: vec![direction("a>b", events)], ..trial() };
        let trials = [streams(&[(500, 50_000)]), streams(&[(3, 1000), (500, 50_000)])];
        let result = result(&spec, 1e5, &known(), &trials);
        assert_eq!(result.figures[1].values, [0.5, 0.5]);
        assert_eq!(
            result.irregular,
            ["In 1 of 2 trials frames were lost apart from the reset; the time by frame loss has them."]
        );
    }
}
