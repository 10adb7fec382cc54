//! Records for other programs and for the terminal: JSON, CSV, text tables.

use crate::record::{Run, Stream, Trial};
use crate::report::format::{or_dash, si, time_ns};
use crate::report::{Comparison, Rate, Table, generators_text};
use crate::run_data::{PointData, RunData, latency, loss_ratio, name};

/// The columns of [`csv`]. Units are in the names; fields without a value are empty.
///
/// - `settings`: all axes of the point as `name=value`, separated by `;`
/// - `loss_ratio`: `lost / sent`, 0 to 1
/// - `latency_ns_*`: of all streams together
/// - `steal`, `dut_wait`: shares of the trial, 0 to 1; `rate_error`: `(sent - offered) / offered`
/// - `ledger`: named losses as `owner:name=frames`, separated by `;`
pub const CSV_COLUMNS: [&str; 38] = [
    "run",
    "plan",
    "point",
    "trial",
    "dut",
    "frame",
    "frame_bytes_mean",
    "settings",
    "purpose",
    "started",
    "duration_s",
    "overhead_s",
    "offered_fps",
    "offered",
    "sent",
    "received",
    "lost",
    "loss_ratio",
    "reordered",
    "duplicated",
    "corrupted",
    "latency_count",
    "latency_ns_min",
    "latency_ns_p50",
    "latency_ns_p90",
    "latency_ns_p99",
    "latency_ns_p999",
    "latency_ns_max",
    "dut_cpu_ns",
    "dut_ns_per_frame",
    "dut_cycles_per_frame",
    "steal",
    "dut_wait",
    "rate_error",
    "ledger",
    "unexplained",
    "verdict",
    "reasons",
];

/// A whole run as one JSON document: the run, its points, their trials.
pub fn json(data: &RunData) -> String {
    serde_json::to_string_pretty(data).expect("records are plain data with text keys")
}

/// One row per trial (RFC 4180: comma, CRLF, quotes doubled), with a header; see [`CSV_COLUMNS`].
pub fn csv(data: &RunData) -> String {
    let mut text = csv_line(&CSV_COLUMNS.map(String::from));
    for point in &data.points {
        for trial in &point.trials {
            text.push_str(&csv_line(&csv_row(&data.run, point, trial)));
        }
    }
    text
}

fn csv_row(run: &Run, point: &PointData, t: &Trial) -> [String; CSV_COLUMNS.len()] {
    let sum = |of: fn(&Stream) -> u64| t.streams.iter().map(of).sum::<u64>().to_string();
    let latency = latency(&t.streams).unwrap_or_default();
    let ns = |value: u64| if latency.count > 0 { value.to_string() } else { String::new() };
    let settings = point.point.settings.iter().map(|(name, value)| format!("{name}={value}"));
    let ledger = t.ledger.iter().map(|l| format!("{}:{}={}", name(&l.owner), l.name, l.frames));
    [
        run.id.to_string(),
        run.plan.clone(),
        point.point.index.to_string(),
        t.index.to_string(),
        point.point.dut.clone(),
        point.point.frame.clone(),
        point.point.frame_bytes_mean.to_string(),
        settings.collect::<Vec<_>>().join(";"),
        name(&t.purpose),
        t.started.clone(),
        t.duration_s.to_string(),
        t.overhead_s.to_string(),
        t.offered_fps.to_string(),
        t.offered.to_string(),
        t.sent.to_string(),
        t.received.to_string(),
        t.lost.to_string(),
        optional(loss_ratio(t)),
        sum(|s| s.reordered),
        sum(|s| s.duplicated),
        sum(|s| s.corrupted),
        latency.count.to_string(),
        ns(latency.min_ns),
        ns(latency.p50_ns),
        ns(latency.p90_ns),
        ns(latency.p99_ns),
        ns(latency.p999_ns),
        ns(latency.max_ns),
        optional(t.cost.dut_cpu_ns),
        optional(t.cost.ns_per_frame),
        optional(t.cost.cycles_per_frame),
        t.noise.steal.to_string(),
        t.noise.dut_wait.to_string(),
        t.noise.rate_error.to_string(),
        ledger.collect::<Vec<_>>().join(";"),
        t.unexplained.to_string(),
        t.verdict.name().into(),
        t.reasons.join(" "),
    ]
}

fn optional<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(String::new, |v| v.to_string())
}

fn csv_line(fields: &[String]) -> String {
    let quoted = fields.iter().map(|field| {
        if field.contains([',', '"', '\r', '\n']) {
            format!("\"{}\"", field.replace('"', "\"\""))
        } else {
            field.clone()
        }
    });
    quoted.collect::<Vec<_>>().join(",") + "\r\n"
}

/// Runs as an aligned table for a terminal, oldest first.
pub fn list(runs: &[Run]) -> String {
    if runs.is_empty() {
        return "no runs are recorded\n".into();
    }
    let mut table = Table::new(&["run", "started", "state", "plan", "version", "question"]);
    for run in runs {
        table.push(vec![
            run.id.to_string(),
            run.started.clone(),
            name(&run.state),
            run.plan.clone(),
            run.version.clone(),
            run.question.clone(),
        ]);
    }
    table.text()
}

/// A run with one line per point and goal for a terminal.
pub fn show(data: &RunData) -> String {
    let run = &data.run;
    let end = run.finished.as_deref().map_or_else(String::new, |end| format!(" to {end}"));
    let head = format!(
        "run {} of {} ({}), {}{end}, weir {}, seed {}\n{}\n{}, {} CPUs, {}\n",
        run.id,
        run.plan,
        name(&run.state),
        run.started,
        run.version,
        run.seed,
        run.question,
        run.machine.cpu,
        run.machine.cpus,
        run.machine.kernel
    );
    let points = points(data);
    let tables: Vec<String> =
        std::iter::once(points.text()).filter(|_| !points.is_empty()).chain(generators_text(data)).collect();
    if tables.is_empty() {
        return head + "\nno points were measured\n";
    }
    format!("{head}\n{}", tables.join("\n"))
}

fn points(data: &RunData) -> Table {
    let head =
        ["frame", "device", "goal", "frames/s", "bit/s", "95 % interval", "p99 near it", "trials", "valid"];
    let mut table = Table::new(&head);
    for (series, point) in Comparison::new(std::slice::from_ref(data)).all() {
        let goals = point.goals().iter().map(|goal| (goal.goal.as_str(), Rate::of(goal)));
        let goals: Vec<_> = if point.goals().is_empty() { vec![("–", None)] } else { goals.collect() };
        let near = point.at_headline();
        let near = near.first().and_then(|t| latency(&t.streams));
        for (i, (goal, rate)) in goals.into_iter().enumerate() {
            // The trials near the headline rate say nothing about the rate of another goal.
            let near = near.as_ref().filter(|_| i == 0);
            table.push(vec![
                point.point.frame.clone(),
                series.label.clone(),
                goal.into(),
                or_dash(rate, |r| r.sign()),
                or_dash(rate, |r| si(point.mbit_per_s(r.fps) * 1e6)),
                or_dash(rate.and_then(|r| r.interval), |(a, b)| format!("{} – {}", si(a), si(b))),
                or_dash(near, |l| time_ns(l.p99_ns as f64)),
                point.measured().count().to_string(),
                point.valid().count().to_string(),
            ]);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    #[test]
    fn json_is_the_whole_run_and_can_be_read_back() {
        let data = fixture::quick();
        assert_eq!(serde_json::from_str::<RunData>(&json(&data)).unwrap(), data);
    }

    #[test]
    fn csv_has_a_row_per_trial_and_its_numbers() {
        let data = fixture::quick();
        let text = csv(&data);
        let lines: Vec<_> = text.split_terminator("\r\n").collect();
        assert_eq!(lines.len(), 1 + data.points.iter().map(|p| p.trials.len()).sum::<usize>());
        assert_eq!(lines[0], CSV_COLUMNS.join(","));
        let trial = &data.points[0].trials[0];
        let fields: Vec<_> = lines[1].split(',').collect();
        assert_eq!(fields.len(), CSV_COLUMNS.len());
        let field = |name| fields[CSV_COLUMNS.iter().position(|c| *c == name).unwrap()];
        assert_eq!(field("sent"), trial.sent.to_string());
        assert_eq!(field("offered_fps").parse(), Ok(trial.offered_fps));
        assert_eq!(field("settings"), "dut=wire;frame_bytes=64;cpus=1;ip=4");
        assert_eq!(field("verdict"), "valid");
    }

    #[test]
    fn csv_quotes_as_rfc4180_says() {
        let fields = ["plain", "a,b", "say \"no\"", "two\nlines", ""].map(String::from);
        assert_eq!(csv_line(&fields), "plain,\"a,b\",\"say \"\"no\"\"\",\"two\nlines\",\r\n");
    }

    #[test]
    fn tables_for_the_terminal() {
        let data = fixture::quick();
        let text = show(&data).replace('\u{202f}', " ");
        let line = text.lines().find(|l| l.contains("kernel-forward") && l.contains("NDR")).unwrap();
        assert_eq!(
            line.split_whitespace().collect::<Vec<_>>().join(" "),
            "64 kernel-forward NDR 412 k 211 M 410 k – 415 k 3.00 ms 17 16"
        );
        assert!(text.lines().any(|l| l.contains("wire") && l.contains("≥ 4.12 M")), "{text}");
        assert!(list(std::slice::from_ref(&data.run)).contains("quick"));
        assert_eq!(list(&[]), "no runs are recorded\n");
        let empty = RunData { run: data.run, points: Vec::new() };
        assert!(show(&empty).ends_with("\nno points were measured\n"));
    }
}
