//! Results of a trial, and figures of a point. Pure.

use serde::{Deserialize, Serialize};
use weir_apps::client::Percentiles;
use weir_apps::files::{Filed, Phase};

use weir_lab::run::rounds;
use weir_record::figure::{figure, unit};
use weir_record::record::{Detail, Figure, PointResult, ProcedureResult, Statistic};

/// Of the section, and of the figures in records.
pub(super) const ID: &str = "files";

/// A trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Filing {
    pub(super) files: u32,
    pub(super) bytes: u32,
    /// Files made per second, with all that makes them durable.
    pub(super) made_per_s: f64,
    /// `None` of programs by others.
    pub(super) filed: Option<Filed>,
}

impl Detail for Filing {
    const KEY: &'static str = "files";
}

/// One of the percentiles, ns.
type Percentile = fn(&Percentiles) -> u64;

/// A file system of which more is cached than this is memory.
const CACHED: f64 = 0.05;

impl Filing {
    pub(super) fn new(files: u32, bytes: u32, filed: Filed) -> Filing {
        Filing {
            files,
            bytes,
            made_per_s: f64::from(files) / filed.make.seconds.max(1e-9),
            filed: Some(filed),
        }
    }

    fn read_per_s(&self, phase: impl Fn(&Filed) -> Option<&Phase>) -> Option<f64> {
        let phase = phase(self.filed.as_ref()?)?;
        Some(f64::from(self.files) / phase.seconds.max(1e-9))
    }

    pub(super) fn warm_per_s(&self) -> Option<f64> {
        self.read_per_s(|filed| Some(&filed.warm))
    }

    /// `None` where the kernel keeps what it should forget.
    pub(super) fn cold_per_s(&self) -> Option<f64> {
        self.read_per_s(|filed| (filed.still_cached <= CACHED).then_some(&filed.cold))
    }

    /// A time of a call while files were made, s.
    pub(super) fn call_s(&self, call: &str, of: Percentile) -> Option<f64> {
        self.filed.as_ref()?.make.calls.get(call).map(|times| of(times) as f64 / 1e9)
    }

    /// What must be known of a trial that counts.
    pub(super) fn remarks(&self) -> Vec<String> {
        let cached = self.filed.as_ref().map_or(0.0, |filed| filed.still_cached);
        let text =
            || format!("{:.0} % of the files stayed in memory: cold reading has no figure", cached * 100.0);
        (cached > CACHED).then(text).into_iter().collect()
    }
}

/// The result of a point whose files are durable in this way.
pub(super) fn result(found: &[Filing], durability: &str, rounds: u32) -> PointResult {
    if found.is_empty() {
        return PointResult { search: "left out".into(), ..PointResult::default() };
    }
    let of = |name: String, unit: &str, value: &dyn Fn(&Filing) -> Option<f64>| {
        figure(name, unit, Statistic::Median, found.iter().filter_map(value).collect())
    };
    let mut figures: Vec<Figure> = vec![
        of(format!("files made per second, durable: {durability}"), "1/s", &|f| Some(f.made_per_s)),
        of("files read per second, warm".into(), "1/s", &Filing::warm_per_s),
        of("files read per second, cold".into(), "1/s", &Filing::cold_per_s),
    ];
    let times: [(&str, Percentile); 3] =
        [("p50", |times| times.p50), ("p99", |times| times.p99), ("maximum", |times| times.max)];
    figures.extend(times.map(|(name, at)| {
        let name = format!("time of a file, {name}, durable: {durability}");
        of(name, unit::SECONDS, &|filing| filing.call_s("file", at))
    }));
    figures.retain(|figure| !figure.values.is_empty());
    let parameters = vec![("durable in the end".to_string(), durability.to_string())];
    let procedure = ProcedureResult { procedure: ID.into(), parameters, figures, ..Default::default() };
    rounds::result(procedure, rounds, found.iter().flat_map(Filing::remarks).collect())
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeMap;

    use super::*;

    pub(in super::super) fn filing(make_s: f64, still_cached: f64) -> Filing {
        let phase = |seconds| {
            let calls = BTreeMap::from([("file".to_string(), Percentiles::of(vec![1_000_000, 2_000_000]))]);
            Phase { seconds, calls }
        };
        let (make, warm, cold) = (phase(make_s), phase(0.5), phase(2.0));
        Filing::new(1000, 4096, Filed { make, warm, cold, still_cached, drain_s: 0.1, remove_s: 0.1 })
    }

    #[test]
    fn what_stays_in_memory_is_never_read_cold() {
        let disk = filing(4.0, 0.01);
        assert_eq!(
            (disk.made_per_s, disk.warm_per_s(), disk.cold_per_s()),
            (250.0, Some(2000.0), Some(500.0))
        );
        assert!(disk.remarks().is_empty());
        let memory = filing(4.0, 1.0);
        assert_eq!(memory.cold_per_s(), None);
        assert_eq!(memory.remarks(), ["100 % of the files stayed in memory: cold reading has no figure"]);
    }

    #[test]
    fn each_figure_says_what_is_durable() {
        let result = result(&[filing(4.0, 0.0), filing(2.0, 0.0)], "fsync", 2);
        let figures = &result.procedures[0].figures;
        let names: Vec<&str> = figures.iter().map(|figure| figure.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "files made per second, durable: fsync",
                "files read per second, warm",
                "files read per second, cold",
                "time of a file, p50, durable: fsync",
                "time of a file, p99, durable: fsync",
                "time of a file, maximum, durable: fsync",
            ]
        );
        assert_eq!(figures[0].value, Some(375.0));
    }
}
