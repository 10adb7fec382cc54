//! One line per trial, for spreadsheets.

use crate::record::{Run, Stream, Trial};
use crate::run_data::{PointData, RunData, latency, loss_ratio, name};

/// The columns of [`csv`]. Units are in the names; fields without a value are empty: counts of frames in a trial without test
/// frames, too.
///
/// - `settings`: all axes of the point as `name=value`, separated by `;`
/// - `loss_ratio`: `lost / sent`, 0 to 1
/// - `latency_ns_*`: of all streams together
/// - `steal`, `dut_wait`: shares of the trial, 0 to 1; `rate_error`: `(sent - offered) / offered`
/// - `drop_counters`: named losses as `owner:name=frames`, separated by `;`
/// - behind these, a column for each further setting of the run, by its name
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
    "drop_counters",
    "unexplained",
    "verdict",
    "reasons",
];

/// One row per trial (RFC 4180: comma, CRLF, quotes doubled), with a header; see [`CSV_COLUMNS`].
pub fn csv(data: &RunData) -> String {
    let settings = setting_names(data, &CSV_COLUMNS);
    let names = CSV_COLUMNS.iter().chain(&settings).map(ToString::to_string);
    let mut text = csv_line(&names.collect::<Vec<_>>());
    for point in &data.points {
        for trial in &point.trials {
            let row = csv_row(&data.run, point, trial).into_iter().chain(values(point, &settings));
            text.push_str(&csv_line(&row.collect::<Vec<_>>()));
        }
    }
    text
}

/// The settings of all points that are no column yet, in the order in which they come.
pub(super) fn setting_names<'d>(data: &'d RunData, columns: &[&str]) -> Vec<&'d str> {
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in data.points.iter().flat_map(|point| &point.point.settings) {
        if !columns.contains(&name.as_str()) && !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    names
}

/// The values of these settings at a point; empty where it has none.
pub(super) fn values<'p>(point: &'p PointData, names: &'p [&str]) -> impl Iterator<Item = String> + 'p {
    names.iter().map(|name| point.setting(name).unwrap_or_default().to_string())
}

fn csv_row(run: &Run, point: &PointData, t: &Trial) -> [String; CSV_COLUMNS.len()] {
    let frames = |count: &dyn ToString| if t.has_frames() { count.to_string() } else { String::new() };
    let sum = |of: fn(&Stream) -> u64| frames(&t.streams.iter().map(of).sum::<u64>());
    let latency = latency(&t.streams).unwrap_or_default();
    let ns = |value: u64| if latency.count > 0 { value.to_string() } else { String::new() };
    let settings = point.point.settings.iter().map(|(name, value)| format!("{name}={value}"));
    let drop_counters = t.drop_counters.iter().map(|l| format!("{}:{}={}", name(&l.owner), l.name, l.frames));
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
        frames(&t.counts().offered_fps),
        frames(&t.counts().offered),
        frames(&t.counts().sent),
        frames(&t.counts().received),
        frames(&t.counts().lost),
        optional(loss_ratio(t)),
        sum(|s| s.reordered),
        sum(|s| s.duplicated),
        sum(|s| s.corrupted),
        frames(&latency.count),
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
        drop_counters.collect::<Vec<_>>().join(";"),
        frames(&t.counts().unexplained),
        t.verdict.name().into(),
        t.reasons.join(" "),
    ]
}

fn optional<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(String::new, |v| v.to_string())
}

pub(super) fn csv_line(fields: &[String]) -> String {
    let quoted = fields.iter().map(|field| {
        if field.contains([',', '"', '\r', '\n']) {
            format!("\"{}\"", field.replace('"', "\"\""))
        } else {
            field.clone()
        }
    });
    quoted.collect::<Vec<_>>().join(",") + "\r\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn csv_has_a_row_per_trial_and_its_numbers() {
        let data = fixture::quick();
        let text = csv(&data);
        let lines: Vec<_> = text.split_terminator("\r\n").collect();
        assert_eq!(lines.len(), 1 + data.points.iter().map(|p| p.trials.len()).sum::<usize>());
        assert_eq!(
            lines[0],
            CSV_COLUMNS.join(",") + ",frame_bytes,cpus,ip",
            "a column for each setting that is none yet"
        );
        let trial = &data.points[0].trials[0];
        let fields: Vec<_> = lines[1].split(',').collect();
        assert_eq!(fields[CSV_COLUMNS.len()..], ["64", "1", "4"]);
        let field = |name| fields[CSV_COLUMNS.iter().position(|c| *c == name).unwrap()];
        assert_eq!(field("sent"), trial.counts().sent.to_string());
        assert_eq!(field("offered_fps").parse(), Ok(trial.counts().offered_fps));
        assert_eq!(field("settings"), "dut=wire;frame_bytes=64;cpus=1;ip=4");
        assert_eq!(field("verdict"), "valid");
    }

    #[test]
    fn a_trial_without_frames_has_no_counts_of_frames() {
        let mut data = fixture::quick();
        let trial = &mut data.points[0].trials[0];
        *trial = Trial { key: Some("round 1".into()), duration_s: 1.0, ..Trial::default() };
        let text = csv(&data);
        let fields: Vec<_> = text.lines().nth(1).unwrap().split(',').collect();
        for (name, expected) in
            [("duration_s", "1"), ("sent", ""), ("lost", ""), ("reordered", ""), ("unexplained", "")]
        {
            assert_eq!(fields[CSV_COLUMNS.iter().position(|c| *c == name).unwrap()], expected, "{name}");
        }
    }

    #[test]
    fn csv_quotes_as_rfc4180_says() {
        let fields = ["plain", "a,b", "say \"no\"", "two\nlines", ""].map(String::from);
        assert_eq!(csv_line(&fields), "plain,\"a,b\",\"say \"\"no\"\"\",\"two\nlines\",\r\n");
    }
}
