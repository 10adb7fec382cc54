//! Packet delay variation at the throughput: RFC 8219, section 7.3.
//!
//! All frames of a stream of a minute are timed. Its PDV is the 99.9th percentile of their latencies less the
//! smallest one; over the streams, the median counts. IPDV is the difference between consecutive frames.

use std::time::Duration;

use weir_load::counts::Load;

use super::{Bench, empty, fewer, load_parameter, loss_remark, parameter, seconds, shorter, valid};
use crate::throughput::PdvSpec;
use weir_lab::error::RunError;
use weir_record::figure::{figure, name, procedure, unit};
use weir_record::record::{Ipdv, ProcedureResult, Statistic, Trial};
use weir_record::run_data;

const CITES: &str = "RFC 8219, section 7.3";

pub(super) fn measure(spec: &PdvSpec, bench: &mut Bench) -> Result<ProcedureResult, RunError> {
    let empty = empty(procedure::PDV, CITES);
    let Some(fps) = bench.known.load(spec.percent) else { return Ok(super::without_throughput(empty)) };
    let load = Load { ipdv: true, ..Load::steady(fps, spec.stream) };
    let trials = bench.trials(&load, spec.times)?;
    Ok(result(spec, fps, &trials))
}

fn result(spec: &PdvSpec, fps: f64, trials: &[Trial]) -> ProcedureResult {
    let (good, not_valid) = valid(trials);
    let latencies = good.iter().filter_map(|t| run_data::latency(&t.streams));
    let pdv = latencies.map(|l| l.p999_ns.saturating_sub(l.min_ns) as f64 / 1e9).collect();
    let median = |name: &str, values| figure(name, unit::SECONDS, Statistic::Median, values);
    let mut figures = vec![median(name::PDV, pdv)];
    let ipdv = |value: fn(&Ipdv) -> i64, worst: fn(i64, i64) -> i64| -> Vec<f64> {
        let of_trial = |t: &&Trial| t.streams.iter().filter_map(|s| s.ipdv.as_ref()).map(value).reduce(worst);
        good.iter().filter_map(of_trial).map(|ns| ns as f64 / 1e9).collect()
    };
    for (name, values) in [
        (name::IPDV_MIN, ipdv(|i| i.min_ns, i64::min)),
        (name::IPDV_MEDIAN, ipdv(|i| i.p50_ns, |a, b| if a.abs() > b.abs() { a } else { b })),
        (name::IPDV_MAX, ipdv(|i| i.max_ns, i64::max)),
    ] {
        figures.extend((!values.is_empty()).then(|| median(name, values)));
    }
    ProcedureResult {
        parameters: vec![
            load_parameter(spec.percent, fps),
            seconds("stream", spec.stream),
            parameter("streams", spec.times, ""),
        ],
        figures,
        irregular: not_valid.into_iter().chain(loss_remark(&good)).collect(),
        ..empty(procedure::PDV, CITES)
    }
}

pub(super) fn deviations(spec: &PdvSpec) -> Vec<String> {
    let load = (spec.percent != 100.0).then(|| {
        let percent = spec.percent;
        format!(
            "PDV at {percent} % of the throughput, where RFC 8219 section 7.3 wants the throughput itself."
        )
    });
    let found = [
        load,
        shorter("PDV: streams", spec.stream, Duration::from_secs(60), "RFC 8219 section 7.3"),
        fewer("PDV streams", spec.times, 20, "RFC 8219 section 7.3"),
    ];
    found.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::throughput::procedure::testing::trial;
    use weir_record::record::{Latency, Stream};

    fn timed(min_ns: u64, p999_ns: u64, ipdv: Option<(i64, i64, i64)>) -> Trial {
        let latency = Latency { count: 1000, min_ns, p999_ns, ..Latency::default() };
        let ipdv = ipdv.map(|(min_ns, p50_ns, max_ns)| Ipdv { count: 999, min_ns, p50_ns, max_ns });
        Trial { streams: vec![Stream { latency, ipdv, ..Stream::default() }], ..trial() }
    }

    #[test]
    fn variation_is_from_the_smallest_to_the_worst_but_one_in_a_thousand() {
        let spec = PdvSpec { percent: 90.0, stream: Duration::from_secs(60), times: 3 };
        let trials = [
            timed(5_000, 25_000, Some((-9_000, 0, 8_000))),
            timed(6_000, 36_000, Some((-7_000, 0, 9_000))),
            timed(5_000, 65_000, Some((-8_000, 1_000, 10_000))),
        ];
        let figures = result(&spec, 1e5, &trials).figures;
        let values: Vec<_> = figures.iter().map(|f| (f.name.as_str(), f.value)).collect();
        assert_eq!(
            values,
            [
                ("PDV", Some(30e-6)),
                ("IPDV minimum", Some(-8e-6)),
                ("IPDV median", Some(0.0)),
                ("IPDV maximum", Some(9e-6))
            ]
        );
        let untold = [timed(5_000, 25_000, None)];
        assert_eq!(result(&spec, 1e5, &untold).figures.len(), 1, "no IPDV was measured");
        assert_eq!(deviations(&spec).len(), 2, "{:?}", deviations(&spec));
    }
}
