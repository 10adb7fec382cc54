//! The section of TCP connections: rates, times, states of the kernel's table, and floods.

use super::super::section::{Measured, find, irregular, parameters, points, with_ends};
use super::name;
use super::run::States;
use weir_record::record::{Figure, Trial};
use weir_record::run_data::{PointData, RunData};
use weir_report::report::block::{Block, Part};
use weir_report::view::Table;
use weir_report::view::format::{count, full, or_dash, percent, time_ns};

const METHOD: &str = "Established: SYN, the answer to it back inside at the host that began, and the third segment outside; from a table \
    without connections. Connections: the same, 8 bytes each way, and FIN of both sides, seven segments in all, while the others \
    are open. Each rate is the highest at which all connections of a trial complete, but for the share that may fail, found by \
    halving; nothing is sent twice. A rate that is reached while the machine disturbs the trial counts, one that is missed then does \
    not. Where many are held, up to twelve trials follow each other beside the same ones, each with other connections. Times are from \
    SYN to the last segment, at half of that rate. Both ends are programs that answer on the device's CPU.";

const FLOODS: &str = "Share of connections whose SYN was answered inside, at half of the rate without a flood. SYN from inside are of 16 \
    hosts of their own, each from another port; those from outside go to ports of the public addresses. Nobody answers them, and \
    nothing is sent twice: a host with retransmissions may succeed later.";

const STATES: &str =
    "Entries of the device's namespace in /proc/net/nf_conntrack, by state, in the last repetition.";

fn setting(data: &PointData, name: &str) -> String {
    data.setting(name).unwrap_or("–").to_string()
}

/// Device, CPUs, and how many connections are held.
fn head(data: &PointData) -> Vec<String> {
    vec![data.point.dut.clone(), setting(data, "cpus"), setting(data, "flows")]
}

/// Its section of a report.
pub(in crate::nat) fn parts(data: &RunData) -> Vec<Part> {
    let points = points(data, name::ID);
    if points.is_empty() {
        return Vec::new();
    }
    let mut blocks = Vec::new();
    let irregular = irregular(&points, label);
    if !irregular.is_empty() {
        blocks.push(Block::Bullets(irregular));
    }
    blocks.extend([Block::Table(results(&points)), Block::Note(METHOD.into())]);
    for (heading, table, note) in
        [("SYN floods", floods(&points), FLOODS), ("States of the kernel's table", states(&points), STATES)]
    {
        if !table.is_empty() {
            blocks.extend([Block::Heading(heading), Block::Table(table), Block::Note(note.into())]);
        }
    }
    blocks.extend([Block::Heading("Parameters"), Block::Table(parameters(data, &points))]);
    vec![Part { id: name::ID, heading: "TCP connections through NATs".into(), blocks }]
}

fn label(data: &PointData) -> String {
    format!("{} beside {}", data.point.dut, held(data))
}

/// How many connections are open meanwhile, in words.
fn held(data: &PointData) -> String {
    count(setting(data, "flows").parse().unwrap_or(0), "held connection")
}

fn results(points: &[Measured<'_>]) -> Table {
    let mut table = Table::new(&[
        "NAT",
        "CPUs",
        "Held",
        "Established, 1/s",
        "Connections, 1/s",
        "Time, median",
        "99th percentile",
        "Repetitions",
    ]);
    for (data, procedure) in points {
        let mut row = head(data);
        let time = |figure: &Figure| or_dash(figure.value, |seconds| time_ns(seconds * 1e9));
        row.extend([name::ESTABLISHED, name::WHOLE].map(|name| or_dash(find(procedure, name), with_ends)));
        row.extend([name::TOOK_MEDIAN, name::TOOK_P99].map(|name| or_dash(find(procedure, name), time)));
        row.push(find(procedure, name::WHOLE).map_or("0".into(), |figure| figure.values.len().to_string()));
        table.push(row);
    }
    table
}

fn floods(points: &[Measured<'_>]) -> Table {
    let mut table = Table::new(&["NAT", "CPUs", "Held", "Flood", "Established"]);
    for (data, procedure) in points {
        for figure in &procedure.figures {
            let Some(flood) = figure.name.strip_prefix(name::FLOODED) else { continue };
            let mut row = head(data);
            row.extend([flood.to_string(), or_dash(figure.value, percent)]);
            table.push(row);
        }
    }
    table
}

/// The last states of each point, and a column for each state that occurs.
fn states(points: &[Measured<'_>]) -> Table {
    let of = |data: &PointData| {
        let mut last: Vec<States> = Vec::new();
        for seen in data.trials.iter().filter_map(Trial::detail::<States>) {
            last.retain(|known| known.after != seen.after);
            last.push(seen);
        }
        last
    };
    let all: Vec<(&PointData, States)> =
        points.iter().flat_map(|(data, _)| of(data).into_iter().map(move |seen| (*data, seen))).collect();
    let mut names: Vec<&String> = Vec::new();
    for (name, _) in all.iter().flat_map(|(_, seen)| &seen.entries) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let mut columns: Vec<String> = ["NAT", "CPUs", "Held", "After"].map(String::from).to_vec();
    columns.extend(names.iter().map(|name| (*name).clone()));
    let mut table = Table::new(&columns);
    for (data, seen) in &all {
        let entries = |name: &&String| seen.entries.iter().find(|(known, _)| known == *name);
        let mut row = head(data);
        row.push(seen.after.clone());
        row.extend(names.iter().map(|name| entries(name).map_or("0".into(), |(_, n)| n.to_string())));
        table.push(row);
    }
    table
}

/// What a run says, for the summary.
pub(in crate::nat) fn findings(data: &RunData) -> Vec<String> {
    let points = points(data, name::ID);
    let rates = points.iter().filter_map(|(data, procedure)| {
        let whole = find(procedure, name::WHOLE)?.value?;
        let floods = procedure.figures.iter().filter(|figure| figure.name.starts_with(name::FLOODED));
        let worst =
            floods.filter_map(|figure| Some((figure.value?, figure))).min_by(|a, b| a.0.total_cmp(&b.0));
        let flooded = worst.map_or(String::new(), |(share, figure)| {
            let flood = figure.name.strip_prefix(name::FLOODED).unwrap_or_default();
            format!("; under {flood}, {} of connections are established at half of that rate", percent(share))
        });
        Some(format!(
            "{} carries {} TCP connections/s beside {}{flooded}.",
            data.point.dut,
            full(whole),
            held(data)
        ))
    });
    rates.chain(irregular(&points, label)).collect()
}

#[cfg(test)]
mod tests {
    use weir_testkit::golden;

    use super::*;
    use crate::nat::tcp::plan::{Flood, Side};
    use weir_record::figure::{figure, unit};
    use weir_record::fixture;
    use weir_record::record::{PointResult, ProcedureResult, Statistic};
    use weir_report::report::block::terminal;

    fn point(index: usize, held: &str) -> PointData {
        let mut data = fixture::point(index, "kernel-nat", 66, 1.0);
        let settings = [("cpus", "1"), ("flows", held)];
        data.point.settings = settings.map(|(name, value)| (name.to_string(), value.to_string())).to_vec();
        let of = |name: &str, unit, values: Vec<f64>| figure(name, unit, Statistic::Median, values);
        let flood =
            |fps, share| of(&name::flooded(&Flood { fps, from: Side::Both }), unit::RATIO, vec![share]);
        let figures = vec![
            of(name::WHOLE, name::CPS, vec![40e3, 42e3, 47e3]),
            of(name::TOOK_MEDIAN, unit::SECONDS, vec![0.0002]),
            flood(1e4, 0.99),
            flood(1e5, 0.25),
        ];
        let procedure = ProcedureResult { procedure: name::ID.into(), figures, ..Default::default() };
        data.point.result = Some(PointResult { procedures: vec![procedure], ..PointResult::default() });
        let states = |entries: &[(&str, u64)]| States {
            after: "established".into(),
            entries: entries.iter().map(|(name, n)| (name.to_string(), *n)).collect(),
        };
        data.trials.push(Trial::default().with_detail(&states(&[("SYN_RECV", 3)])));
        data.trials.push(Trial::default().with_detail(&states(&[("ESTABLISHED", 20_000)])));
        data
    }

    #[test]
    fn rates_floods_and_states_are_in_the_report() {
        let data = RunData { run: fixture::run(1), points: vec![point(0, "1"), point(1, "20000")] };
        let shown =
            [findings(&data).join("\n"), terminal(&parts(&data))].join("\n\n").replace('\u{202f}', " ");
        golden!("src/nat/tcp/report.txt", &shown);
        assert!(findings(&fixture::quick()).is_empty() && parts(&fixture::quick()).is_empty());
    }
}
