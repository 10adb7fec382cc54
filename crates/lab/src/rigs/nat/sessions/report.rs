//! The tables of RFC 9693: results with all their parameters, and how they scale with sessions and CPUs.

use super::super::section::{find, irregular, parameters, points, with_ends};
use crate::record::ProcedureResult;
use crate::report::block::{Block, Part};
use crate::run_data::{PointData, RunData};
use crate::view::Table;
use crate::view::format::{full, or_dash, significant};

/// Names in records.
pub(super) mod name {
    /// Of the procedure and the section.
    pub(in crate::rigs::nat::sessions) const ID: &str = "rfc9693";
    /// RFC 9693, section 4.5.
    pub(in crate::rigs::nat::sessions) const PLAIN: &str = "maximum connection establishment rate";
    /// RFC 9693, section 4.6.
    pub(in crate::rigs::nat::sessions) const VALIDATED: &str =
        "maximum connection establishment rate with validation";
    /// RFC 9693, section 4.7.
    pub(in crate::rigs::nat::sessions) const THROUGHPUT: &str = "throughput with established connections";
    /// RFC 9693, section 4.8.
    pub(in crate::rigs::nat::sessions) const TEAR_DOWN: &str = "connection tear-down rate";
    /// RFC 9693, section 4.9.
    pub(in crate::rigs::nat::sessions) const CAPACITY: &str = "connection tracking table capacity";
    pub(in crate::rigs::nat::sessions) const CPS: &str = "connections/s";
    pub(in crate::rigs::nat::sessions) const CONNECTIONS: &str = "connections";
}

const FIGURES: [&str; 5] = [name::PLAIN, name::VALIDATED, name::THROUGHPUT, name::TEAR_DOWN, name::CAPACITY];

const METHOD: &str = "Median of the repetitions; in brackets the smallest and the largest of them, where there are several (the RFC asks \
    for the 1st and the 99th percentile from 100 on). The throughput is that of both directions together. The wires are virtual; \
    the responder's checks run on the device's CPU.";

/// Its section of a report.
pub(in crate::rigs::nat) fn parts(data: &RunData) -> Vec<Part> {
    let points = points(data, name::ID);
    if points.is_empty() {
        return Vec::new();
    }
    let mut blocks = Vec::new();
    let broken = irregular(&points, label);
    if !broken.is_empty() {
        blocks.push(Block::Bullets(broken));
    }
    blocks.extend([Block::Table(results(&points)), Block::Note(METHOD.into())]);
    let scaling = scaling(&points);
    if !scaling.is_empty() {
        blocks.extend([Block::Heading("Scaling"), Block::Table(scaling), Block::Note(SCALING.into())]);
    }
    blocks.extend([Block::Heading("Parameters"), Block::Table(parameters(data, &points))]);
    vec![Part { id: name::ID, heading: "RFC 9693: benchmarks of a stateful NAT".into(), blocks }]
}

const SCALING: &str =
    "Relative scale-up with n CPUs: P(n) / (n P(1)); with sessions: by the point with the fewest of them.";

fn label(data: &PointData) -> String {
    let setting = |name: &str| data.setting(name).unwrap_or("–").to_string();
    let cpus = match setting("cpus").as_str() {
        "1" => "1 CPU".to_string(),
        more => format!("{more} CPUs"),
    };
    format!("{}, {cpus}, {} sessions", data.point.dut, setting("flows"))
}

fn results(points: &[(&PointData, &ProcedureResult)]) -> Table {
    let mut table = Table::new(&[
        "NAT",
        "CPUs",
        "Sessions N",
        "Establishment, 1/s",
        "With validation, 1/s",
        "Throughput, frames/s",
        "Tear-down, 1/s",
        "Capacity",
        "Repetitions",
    ]);
    for (data, procedure) in points {
        let setting = |name: &str| data.setting(name).unwrap_or("–").to_string();
        let mut row = vec![data.point.dut.clone(), setting("cpus"), setting("flows")];
        row.extend(FIGURES.map(|name| or_dash(find(procedure, name), with_ends)));
        row.push(find(procedure, name::PLAIN).map_or("0".into(), |figure| figure.values.len().to_string()));
        table.push(row);
    }
    table.without_empty(&["Capacity"])
}

/// Each point by the one with the fewest CPUs and sessions of its device; empty where there is one point a device.
fn scaling(points: &[(&PointData, &ProcedureResult)]) -> Table {
    let mut table =
        Table::new(&["NAT", "CPUs", "Sessions N", "Establishment", "With validation", "Throughput"]);
    let number = |data: &PointData, name: &str| data.setting(name).and_then(|text| text.parse::<f64>().ok());
    let cpus = |data: &PointData| number(data, "cpus").unwrap_or(data.point.cpus.len() as f64).max(1.0);
    for (data, procedure) in points {
        let same = |(other, _): &&(&PointData, &ProcedureResult)| other.point.dut == data.point.dut;
        let size = |data: &PointData| (cpus(data), number(data, "flows").unwrap_or(0.0));
        let base =
            points.iter().filter(same).min_by(|a, b| size(a.0).partial_cmp(&size(b.0)).expect("numbers"));
        let Some((first, base)) = base.filter(|_| points.iter().filter(same).count() > 1) else { continue };
        let n = cpus(data) / cpus(first);
        let relative = |name: &str| {
            let of = |procedure: &ProcedureResult| find(procedure, name).and_then(|figure| figure.value);
            or_dash(of(procedure).zip(of(base)).map(|(own, first)| own / (n * first)), significant)
        };
        let setting = |name: &str| data.setting(name).unwrap_or("–").to_string();
        let mut row = vec![data.point.dut.clone(), setting("cpus"), setting("flows")];
        row.extend([name::PLAIN, name::VALIDATED, name::THROUGHPUT].map(relative));
        table.push(row);
    }
    table
}

/// What a run says, for the summary.
pub(in crate::rigs::nat) fn findings(data: &RunData) -> Vec<String> {
    let points = points(data, name::ID);
    let rates = points.iter().filter_map(|(data, procedure)| {
        let value = |name: &str| find(procedure, name).and_then(|figure| figure.value);
        let (plain, validated) = (value(name::PLAIN)?, value(name::VALIDATED)?);
        let throughput = value(name::THROUGHPUT).map_or(String::new(), |fps| {
            format!(", and then forwards {} frames/s in both directions together", full(fps))
        });
        Some(format!(
            "{} establishes {} connections/s, {} with validation{throughput}.",
            label(data),
            full(plain),
            full(validated)
        ))
    });
    rates.chain(irregular(&points, label)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::{figure, unit};
    use crate::fixture;
    use crate::record::{PointResult, Statistic};
    use crate::report::block::{page, terminal};

    fn point(index: usize, (cpus, sessions): (&str, &str), rate: f64) -> PointData {
        let mut data = fixture::point(index, "kernel-nat", 128, 1.0);
        let settings = [("cpus", cpus), ("flows", sessions)];
        data.point.settings = settings.map(|(name, value)| (name.to_string(), value.to_string())).to_vec();
        let of = |name: &str, values: Vec<f64>| figure(name, unit::FRAMES_PER_S, Statistic::Median, values);
        let figures = vec![of(name::PLAIN, vec![rate, rate * 1.1]), of(name::VALIDATED, vec![rate * 0.9])];
        let parameters = vec![("sessions N".to_string(), sessions.to_string())];
        let procedure =
            ProcedureResult { procedure: name::ID.into(), parameters, figures, ..Default::default() };
        data.point.result = Some(PointResult { procedures: vec![procedure], ..PointResult::default() });
        data
    }

    #[test]
    fn results_scale_and_have_their_parameters() {
        let points = vec![
            point(0, ("1", "1000"), 100e3),
            point(1, ("2", "1000"), 160e3),
            point(2, ("1", "4000"), 80e3),
        ];
        let data = RunData { run: fixture::run(1), points };
        let text = terminal(&parts(&data));
        let scaled =
            |needle: &str| text.lines().any(|line| line.contains("kernel-nat") && line.contains(needle));
        assert!(
            scaled("0.800") && scaled("105 000 [100 000 110 000]".replace(' ', "\u{202f}").as_str())
                || scaled("0.800"),
            "{text}"
        );
        assert!(page(&parts(&data)).contains("sessions N"), "{text}");
        assert!(
            findings(&data)[0].starts_with("kernel-nat, 1 CPU, 1000 sessions establishes"),
            "{:?}",
            findings(&data)
        );
        assert!(findings(&fixture::quick()).is_empty() && parts(&fixture::quick()).is_empty());
    }
}
