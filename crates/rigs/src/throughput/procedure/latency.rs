//! Latency at the throughput: RFC 2544, section 26.2, with the tags and figures of RFC 8219, section 7.2.
//!
//! A stream as long as two minutes; the frames of its second half are timed, all of them. Each stream gives a median
//! (typical latency) and a 99.9th percentile (worst case); over the streams, the median of each counts.

use std::time::Duration;

use weir_load::counts::Load;

use super::{Bench, empty, fewer, load_parameter, loss_remark, parameter, seconds, shorter, valid};
use crate::throughput::LatencySpec;
use weir_lab::error::RunError;
use weir_record::figure::{figure, name, procedure, unit};
use weir_record::record::{Latency, ProcedureResult, Statistic, Trial};
use weir_record::run_data;

const CITES: &str = "RFC 2544, section 26.2; RFC 8219, section 7.2";

pub(super) fn measure(spec: &LatencySpec, bench: &mut Bench) -> Result<ProcedureResult, RunError> {
    let empty = empty(procedure::LATENCY, CITES);
    let Some(fps) = bench.known.load(spec.percent) else { return Ok(super::without_throughput(empty)) };
    let load = Load { timed_from: spec.after, ..Load::steady(fps, spec.stream) };
    let trials = bench.trials(&load, spec.times)?;
    Ok(result(spec, fps, &trials))
}

fn result(spec: &LatencySpec, fps: f64, trials: &[Trial]) -> ProcedureResult {
    let (good, not_valid) = valid(trials);
    let of = |value: fn(&Latency) -> f64| -> Vec<f64> {
        let latencies = good.iter().filter_map(|t| run_data::latency(&t.streams));
        latencies.map(|l| value(&l) / 1e9).collect()
    };
    let figure = |name: &str, statistic, values| figure(name, unit::SECONDS, statistic, values);
    ProcedureResult {
        parameters: vec![
            load_parameter(spec.percent, fps),
            seconds("stream", spec.stream),
            seconds("timed from", spec.after),
            parameter("streams", spec.times, ""),
            parameter("latency", "from the generator's program to the receiver's", ""),
        ],
        figures: vec![
            figure(name::TYPICAL_LATENCY, Statistic::Median, of(|l| l.p50_ns as f64)),
            figure(name::WORST_CASE_LATENCY, Statistic::Median, of(|l| l.p999_ns as f64)),
            figure(name::MEAN_LATENCY, Statistic::Average, of(|l| l.mean_ns)),
        ],
        irregular: not_valid.into_iter().chain(loss_remark(&good)).collect(),
        ..empty(procedure::LATENCY, CITES)
    }
}

pub(super) fn deviations(spec: &LatencySpec) -> Vec<String> {
    let tags = "Latency: every frame after the first part of a stream is timed, where RFC 2544 tags one and RFC 8219 \
                at least 500; the time stamps are those of the tester's programs, not of a line.";
    let half = Duration::from_secs(60);
    let load = (spec.percent != 100.0).then(|| {
        let percent = spec.percent;
        format!("Latency at {percent} % of the throughput, where RFC 2544 section 26.2 wants the throughput itself.")
    });
    [
        Some(tags.to_string()),
        load,
        shorter("Latency: streams", spec.stream, 2 * half, "RFC 2544 section 26.2"),
        shorter("Latency: frames timed after a start", spec.after, half, "RFC 2544 section 26.2"),
        fewer("Latency streams", spec.times, 20, "RFC 2544 section 26.2"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::throughput::procedure::testing::trial;
    use weir_record::record::{Stream, Verdict};

    fn timed(p50_ns: u64, lost: u64, verdict: Verdict) -> Trial {
        let latency = Latency {
            count: 1000,
            mean_ns: p50_ns as f64 * 1.5,
            p50_ns,
            p999_ns: p50_ns * 10,
            ..Latency::default()
        };
        let streams = vec![Stream { latency, ..Stream::default() }];
        Trial { streams, verdict, ..trial() }.counting(|counts| counts.lost = lost)
    }

    #[test]
    fn each_stream_counts_once_and_only_if_it_is_valid() {
        let spec = LatencySpec {
            percent: 100.0,
            stream: Duration::from_secs(2),
            after: Duration::from_secs(1),
            times: 4,
        };
        let trials = [
            timed(10_000, 0, Verdict::Valid),
            timed(12_000, 0, Verdict::Valid),
            timed(99_000, 0, Verdict::Noisy),
            timed(30_000, 5, Verdict::Valid),
        ];
        let result = result(&spec, 1e5, &trials);
        let values: Vec<_> = result.figures.iter().map(|f| (f.name.as_str(), f.value)).collect();
        assert_eq!(
            values,
            [
                ("typical latency", Some(12e-6)),
                ("worst-case latency", Some(120e-6)),
                ("mean latency", Some((15e-6 + 18e-6 + 45e-6) / 3.0)),
            ]
        );
        assert_eq!(
            result.irregular,
            [
                "1 of 4 trials are not valid and were not used.",
                "Frames were lost in 1 of 3 trials; those that arrived were timed."
            ]
        );
        assert_eq!(deviations(&spec).len(), 4, "{:?}", deviations(&spec));
    }
}
