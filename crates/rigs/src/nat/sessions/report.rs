//! The tables of RFC 9693: results with all their parameters, and how they scale with sessions and CPUs.

use super::super::section::{find, irregular, parameters, points};
use weir_measure::stats::percentile;
use weir_record::record::{Figure, ProcedureResult};
use weir_record::run_data::{PointData, RunData};
use weir_report::report::block::{Block, Part};
use weir_report::view::Table;
use weir_report::view::format::{full, or_dash, significant};

/// Names in records.
pub(super) mod name {
    /// Of the procedure and the section.
    pub(in crate::nat::sessions) const ID: &str = "rfc9693";
    pub(in crate::nat::sessions) const PLAIN: &str = "maximum connection establishment rate";
    pub(in crate::nat::sessions) const VALIDATED: &str =
        "maximum connection establishment rate with validation";
    pub(in crate::nat::sessions) const THROUGHPUT: &str = "throughput with established connections";
    pub(in crate::nat::sessions) const TEAR_DOWN: &str = "connection tear-down rate";
    pub(in crate::nat::sessions) const CAPACITY: &str = "connection tracking table capacity";
    pub(in crate::nat::sessions) const CPS: &str = "connections/s";
    pub(in crate::nat::sessions) const CONNECTIONS: &str = "connections";
    /// Why a search ended before the device did.
    pub(in crate::nat::sessions) const TESTER_ENDS: &str = "the tester ends the search";
    pub(in crate::nat::sessions) const CAPACITY_OR_MORE: &str = "connections or more: the search ended there";
}

/// Figures, and what they are called in a table.
const FIGURES: [(&str, &str); 5] = [
    (name::PLAIN, "establishment, 1/s"),
    (name::VALIDATED, "with validation, 1/s"),
    (name::THROUGHPUT, "throughput, frames/s"),
    (name::TEAR_DOWN, "tear-down, 1/s"),
    (name::CAPACITY, "table capacity"),
];
/// Parameters that vary with the sessions, or are of the table of connections.
const SET: [&str; 7] = [
    "source addresses",
    "source ports of each",
    "destination ports",
    "nf_conntrack_buckets",
    "sessions per bucket",
    "nf_conntrack_max",
    "sessions of the node",
];

const METHOD: &str = "A figure is the median of its repetitions; below it the 1st and the 99th percentile, or, with fewer than 100 \
    repetitions, the smallest and the largest. The throughput is that of both directions together. The wires are virtual; the \
    responder's checks run on the device's CPU.";
/// From so many repetitions on there are percentiles.
const FOR_PERCENTILES: usize = 100;

/// Its section of a report.
pub(in crate::nat) fn parts(data: &RunData) -> Vec<Part> {
    let points = points(data, name::ID);
    if points.is_empty() {
        return Vec::new();
    }
    let mut blocks = Vec::new();
    let broken = irregular(&points, label);
    if !broken.is_empty() {
        blocks.push(Block::Bullets(broken));
    }
    blocks.extend(
        points.chunk_by(|a, b| device(a.0) == device(b.0)).map(|points| Block::Table(results(points))),
    );
    blocks.push(Block::Note(METHOD.into()));
    let scaling = scaling(&points);
    if !scaling.is_empty() {
        blocks.extend([Block::Heading("Scaling"), Block::Table(scaling), Block::Note(SCALING.into())]);
    }
    blocks.extend([Block::Heading("Parameters"), Block::Table(parameters(data, &points))]);
    vec![Part { id: name::ID, heading: "RFC 9693: benchmarks of a stateful NAT".into(), blocks }]
}

const SCALING: &str =
    "Relative scale-up with n CPUs: P(n) / (n P(1)); with sessions: by the point with the fewest of them.";

/// A device and its CPUs.
fn device(data: &PointData) -> String {
    let cpus = match data.setting("cpus").unwrap_or("–") {
        "1" => "1 CPU".to_string(),
        more => format!("{more} CPUs"),
    };
    format!("{}, {cpus}", data.point.dut)
}

fn label(data: &PointData) -> String {
    format!("{}, {} sessions", device(data), data.setting("flows").unwrap_or("–"))
}

/// The table of the RFC for a device: what was set, then what was measured, a column for each number of sessions.
fn results(points: &[(&PointData, &ProcedureResult)]) -> Table {
    let sessions = points.iter().map(|(data, _)| data.setting("flows").unwrap_or("–").to_string());
    let head: Vec<String> = [device(points[0].0)].into_iter().chain(sessions).collect();
    let mut table = Table::new(&head);
    let mut push = |name: &str, cell: &dyn Fn(&ProcedureResult) -> Option<String>| {
        let cells: Vec<Option<String>> = points.iter().map(|(_, procedure)| cell(procedure)).collect();
        if cells.iter().any(Option::is_some) {
            let cells = cells.into_iter().map(|cell| cell.unwrap_or("–".into()));
            table.push([name.to_string()].into_iter().chain(cells).collect());
        }
    };
    for name in SET {
        push(name, &|procedure| {
            let set = procedure.parameters.iter().find(|(known, _)| known == name);
            set.map(|(_, value)| value.clone())
        });
    }
    push("repetitions", &|procedure| {
        Some(find(procedure, name::PLAIN).map_or(0, |all| all.values.len()).to_string())
    });
    for (name, heading) in FIGURES {
        push(heading, &|procedure| find(procedure, name)?.value.map(full));
        push("  least, most", &|procedure| find(procedure, name).and_then(ends));
    }
    table
}

/// The 1st and the 99th percentile, or the smallest and the largest of a few repetitions; `None` of one alone.
fn ends(figure: &Figure) -> Option<String> {
    let values = &figure.values;
    let (low, high) = if values.len() < FOR_PERCENTILES { (0.0, 100.0) } else { (1.0, 99.0) };
    let at = |percent| percentile(values, percent).map(full);
    (values.len() > 1).then(|| Some(format!("{}, {}", at(low)?, at(high)?))).flatten()
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
pub(in crate::nat) fn findings(data: &RunData) -> Vec<String> {
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
    use weir_testkit::golden;

    use super::*;
    use weir_record::figure::{figure, unit};
    use weir_record::fixture;
    use weir_record::record::{PointResult, Statistic};
    use weir_report::report::block::terminal;

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
        let shown =
            [findings(&data).join("\n"), terminal(&parts(&data))].join("\n\n").replace('\u{202f}', " ");
        golden!("src/nat/sessions/report.txt", &shown);
        assert!(findings(&fixture::quick()).is_empty() && parts(&fixture::quick()).is_empty());
    }
}
