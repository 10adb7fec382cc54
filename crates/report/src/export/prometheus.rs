//! Prometheus text format (version 0.0.4), as node_exporter's textfile collector reads it: base units, no time
//! stamps, each series once. Series are distinguished by the settings of a point, not by the number of the run, so that
//! the next run continues them.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::figure::unit;
use crate::record::{Point, Trial, Verdict};
use crate::run_data::{PointData, RunData, latency, loss_ratio, name, received_fps};
use crate::time::unix_seconds;
use crate::view::curve::by_load;

/// All metrics with their explanation; every metric is a gauge. Those of procedures are named after their unit.
const METRICS: [(&str, &str); 18] = [
    ("weir_run_info", "Properties of the run, as labels; always 1."),
    ("weir_run_start_timestamp_seconds", "Start of the run since the Unix epoch."),
    ("weir_run_complete", "1 if all points of the plan were measured."),
    (
        "weir_throughput_frames_per_second",
        "Rate found for a goal, all directions together: median of the repetitions.",
    ),
    ("weir_throughput_bits_per_second", "Rate in bits of frames with FCS, without preamble and gap."),
    ("weir_throughput_low_frames_per_second", "Lower end of the 95 % interval of the rate."),
    ("weir_throughput_high_frames_per_second", "Upper end of the 95 % interval of the rate."),
    ("weir_throughput_repetitions", "Number of repetitions of the rate."),
    ("weir_throughput_regular", "0 if a search for the goal ended irregularly: the rate is a bound."),
    (
        "weir_load_received_frames_per_second",
        "Frames received at an offered load: median of the valid trials.",
    ),
    ("weir_load_loss_ratio", "Lost frames / sent frames at an offered load: median of the valid trials."),
    ("weir_load_latency_seconds", "Latency at an offered load: median of the valid trials."),
    ("weir_trials", "Trials of the point by verdict, without warm-up."),
    ("weir_figure_seconds", "Figure of a procedure: a time."),
    ("weir_figure_frames", "Figure of a procedure: a number of frames."),
    ("weir_figure_frames_per_second", "Figure of a procedure: a rate."),
    ("weir_figure_per_second", "Figure of a procedure: how often something happens."),
    ("weir_figure_ratio", "Figure of a procedure: a share."),
];

/// The results of a run.
pub fn prometheus(data: &RunData) -> String {
    let mut metrics = Metrics::default();
    metrics.run(data);
    for point in &data.points {
        metrics.point(data, point);
    }
    metrics.text()
}

type Labels = Vec<(String, String)>;

/// Series by metric, then by their labels as text.
#[derive(Default)]
struct Metrics(BTreeMap<&'static str, BTreeMap<String, f64>>);

impl Metrics {
    fn run(&mut self, data: &RunData) {
        let run = &data.run;
        let plan = vec![label("plan", &run.plan)];
        let info = [
            ("run", run.id.to_string()),
            ("state", name(&run.state)),
            ("version", run.version.clone()),
            ("cpu", run.machine.cpu.clone()),
            ("kernel", run.machine.kernel.clone()),
        ];
        let info = plan.iter().cloned().chain(info.map(|(name, value)| label(name, &value)));
        self.add("weir_run_info", &info.collect::<Labels>(), 1.0);
        if let Some(start) = unix_seconds(&run.started) {
            self.add("weir_run_start_timestamp_seconds", &plan, start as f64);
        }
        let complete = run.state == crate::record::RunState::Complete;
        self.add("weir_run_complete", &plan, f64::from(u8::from(complete)));
    }

    fn point(&mut self, data: &RunData, point: &PointData) {
        let labels = labels(data, &point.point);
        let with = |more: &[(&str, &str)]| -> Labels {
            labels.iter().cloned().chain(more.iter().map(|(name, value)| label(name, value))).collect()
        };
        for goal in point.goals() {
            let labels = with(&[("goal", &goal.goal)]);
            if let Some(fps) = goal.fps_median {
                self.add("weir_throughput_frames_per_second", &labels, fps);
                self.add("weir_throughput_bits_per_second", &labels, point.mbit_per_s(fps) * 1e6);
            }
            if let Some((low, high)) = goal.fps_interval {
                self.add("weir_throughput_low_frames_per_second", &labels, low);
                self.add("weir_throughput_high_frames_per_second", &labels, high);
            }
            let regular = goal.repetitions.iter().all(|r| r.irregular.is_none());
            self.add("weir_throughput_repetitions", &labels, goal.repetitions.len() as f64);
            self.add("weir_throughput_regular", &labels, f64::from(u8::from(regular)));
        }
        self.loads(point, with);
        for verdict in [Verdict::Valid, Verdict::TesterLimited, Verdict::Noisy, Verdict::Invalid] {
            let n = point.measured().filter(|t| t.verdict == verdict).count();
            self.add("weir_trials", &with(&[("verdict", verdict.name())]), n as f64);
        }
        for procedure in point.point.result.iter().flat_map(|r| &r.procedures) {
            for figure in &procedure.figures {
                let (metric, in_base) = match figure.unit.as_str() {
                    unit::SECONDS => ("weir_figure_seconds", 1.0),
                    unit::FRAMES => ("weir_figure_frames", 1.0),
                    unit::FRAMES_PER_S => ("weir_figure_frames_per_second", 1.0),
                    unit::PER_HOUR => ("weir_figure_per_second", 1.0 / 3600.0),
                    unit::RATIO => ("weir_figure_ratio", 1.0),
                    // Without a base unit it has no name here.
                    _ => continue,
                };
                if let Some(value) = figure.value {
                    let labels = with(&[("procedure", &procedure.procedure), ("figure", &figure.name)]);
                    self.add(metric, &labels, value * in_base);
                }
            }
        }
    }

    /// Rates received at loads that were given, not searched for.
    fn loads(&mut self, point: &PointData, with: impl Fn(&[(&str, &str)]) -> Labels) {
        let chosen = || point.chosen_loads();
        let mut add = |metric, more: &[(&str, &str)], value: &dyn Fn(&Trial) -> Option<f64>| {
            for (load, median) in by_load(chosen().filter_map(|t| Some((t.counts().offered_fps, value(t)?))))
            {
                let load = format!("{load:.0}");
                let labels = with(&[&[("offered_frames_per_second", load.as_str())], more].concat());
                self.add(metric, &labels, median);
            }
        };
        add("weir_load_received_frames_per_second", &[], &|t| Some(received_fps(t)));
        add("weir_load_loss_ratio", &[], &loss_ratio);
        for (percentile, of) in [("50", 0), ("99", 1), ("99.9", 2)] {
            let value =
                |t: &Trial| latency(&t.streams).map(|l| [l.p50_ns, l.p99_ns, l.p999_ns][of] as f64 / 1e9);
            add("weir_load_latency_seconds", &[("percentile", percentile)], &value);
        }
    }

    /// Adds a series; a twin with the same labels keeps the first value.
    fn add(&mut self, metric: &'static str, labels: &[(String, String)], value: f64) {
        if value.is_finite() {
            let pairs: Vec<_> = labels.iter().map(|(name, value)| format!("{name}=\"{value}\"")).collect();
            self.0.entry(metric).or_default().entry(pairs.join(",")).or_insert(value);
        }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for (metric, help) in METRICS {
            let Some(series) = self.0.get(metric) else { continue };
            writeln!(text, "# HELP {metric} {help}\n# TYPE {metric} gauge")
                .expect("a String takes everything");
            for (labels, value) in series {
                writeln!(text, "{metric}{{{labels}}} {value}").expect("a String takes everything");
            }
        }
        text
    }
}

/// Plan, device, frame size and all other settings of a point. Points with the same settings are numbered.
fn labels(data: &RunData, point: &Point) -> Labels {
    let mut labels =
        vec![label("plan", &data.run.plan), label("dut", &point.dut), label("frame", &point.frame)];
    for (name, value) in &point.settings {
        let label = label(name, value);
        let taken = labels.iter().any(|(name, _)| *name == label.0);
        if !taken && label.0 != "frame_bytes" {
            labels.push(label);
        }
    }
    let twins = data.points.iter().filter(|p| p.point.settings == point.settings);
    if twins.count() > 1 {
        labels.push(label("point", &point.index.to_string()));
    }
    labels
}

/// A label: a name of letters, digits and `_`, and an escaped value.
fn label(name: &str, value: &str) -> (String, String) {
    let mut name: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if name.starts_with(|c: char| c.is_ascii_digit()) {
        name.insert(0, '_');
    }
    (name, value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::fixture;

    /// The samples of a text that keeps to the format: `metric{labels}` and value. Written from the description of the
    /// format: names, escapes, HELP and TYPE before the samples, all samples of a metric together, none twice.
    fn read(text: &str) -> Vec<(String, f64)> {
        assert!(text.ends_with('\n'));
        let (mut samples, mut typed, mut current) = (Vec::new(), BTreeSet::new(), String::new());
        for line in text.lines() {
            if let Some(comment) = line.strip_prefix("# ") {
                let [kind, metric, rest] = comment.splitn(3, ' ').collect::<Vec<_>>()[..] else {
                    panic!("{line}")
                };
                match kind {
                    "HELP" => assert!(!rest.contains('\n') && !rest.contains('\\'), "{line}"),
                    "TYPE" => assert!(rest == "gauge" && typed.insert(metric.to_string()), "{line}"),
                    _ => panic!("{line}"),
                }
                current = metric.to_string();
                continue;
            }
            let (series, value) = line.rsplit_once(' ').expect("a value");
            let (metric, labels) = series.split_once('{').expect("labels");
            assert!(metric == current && typed.contains(metric) && is_name(metric), "{line}");
            let mut rest = labels.strip_suffix('}').expect("a brace");
            let mut names = BTreeSet::new();
            while !rest.is_empty() {
                let (name, after) = rest.split_once("=\"").expect("a label");
                assert!(is_name(name) && names.insert(name), "{line}");
                let end = end_of_value(after);
                rest = after[end + 1..].strip_prefix(',').unwrap_or(&after[end + 1..]);
            }
            samples.push((series.to_string(), value.parse().expect("a number")));
        }
        let unique: BTreeSet<_> = samples.iter().map(|(series, _)| series).collect();
        assert_eq!(unique.len(), samples.len(), "a series twice");
        samples
    }

    fn is_name(name: &str) -> bool {
        let rest = |c: char| c.is_ascii_alphanumeric() || c == '_';
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && name.chars().all(rest)
    }

    /// Index of the quote that ends a value; a backslash may stand before `\`, `"` and `n` only.
    fn end_of_value(text: &str) -> usize {
        let mut letters = text.char_indices();
        while let Some((i, c)) = letters.next() {
            match c {
                '"' => return i,
                '\\' => assert!(letters.next().is_some_and(|(_, c)| "\\\"n".contains(c)), "{text}"),
                c => assert_ne!(c, '\n'),
            }
        }
        panic!("no end: {text}")
    }

    #[test]
    fn results_are_series() {
        let data = fixture::procedures();
        let samples = read(&prometheus(&data));
        let value = |series: &str| {
            let found = samples.iter().find(|(s, _)| s == series);
            found.unwrap_or_else(|| panic!("{series} in {samples:#?}")).1
        };
        let at = "plan=\"quick\",dut=\"kernel-forward\",frame=\"64\",cpus=\"1\",ip=\"4\"";
        let ndr = value(&format!("weir_throughput_frames_per_second{{{at},goal=\"NDR\"}}"));
        assert!((ndr - 412_300.0).abs() < 1.0);
        let bits = value(&format!("weir_throughput_bits_per_second{{{at},goal=\"NDR\"}}"));
        assert_eq!(bits, ndr * 512.0);
        assert_eq!(value("weir_run_start_timestamp_seconds{plan=\"quick\"}"), 1_772_359_200.0);
        assert_eq!(value("weir_run_complete{plan=\"quick\"}"), 1.0);
        assert_eq!(value(&format!("weir_trials{{{at},verdict=\"noisy\"}}")), 1.0);
        let wire = at.replace("kernel-forward", "wire");
        assert_eq!(value(&format!("weir_throughput_regular{{{wire},goal=\"NDR\"}}")), 0.0);
        let load = format!("{at},offered_frames_per_second=\"{:.0}\"", ndr * 1.5);
        let loss = value(&format!("weir_load_loss_ratio{{{load}}}"));
        assert!((loss - 1.0 / 3.0).abs() < 0.001, "{loss}");
        assert!(value(&format!("weir_load_latency_seconds{{{load},percentile=\"99\"}}")) > 1e-6);
        let figure = "procedure=\"latency\",figure=\"typical latency\"";
        assert!(value(&format!("weir_figure_seconds{{{at},{figure}}}")) > 1e-6);
        let figure = "procedure=\"soak\",figure=\"loss events per hour\"";
        let per_hour = value(&format!("weir_figure_per_second{{{at},{figure}}}")) * 3600.0;
        assert!((per_hour - 0.75).abs() < 0.01, "{per_hour}");
    }

    #[test]
    fn odd_names_and_twins_keep_to_the_format() {
        let mut data = fixture::quick();
        data.run.plan = "a \"plan\"\\with\nlines".into();
        let twin = data.points[3].clone();
        data.points.push(PointData { point: Point { index: 18, ..twin.point.clone() }, ..twin });
        for p in &mut data.points {
            p.point.settings.push(("2 odd-name".into(), "x{y}=\"".into()));
            p.point.settings.push(("plan".into(), "other".into()));
        }
        let text = prometheus(&data);
        let samples = read(&text);
        for twin in [3, 18] {
            let series = format!(
                r#"weir_throughput_frames_per_second{{plan="a \"plan\"\\with\nlines",dut="kernel-forward",frame="64",cpus="1",ip="4",_2_odd_name="x{{y}}=\"",point="{twin}",goal="NDR"}}"#
            );
            assert!(samples.iter().any(|(found, _)| *found == series), "{series} in {text}");
        }
        let empty = RunData { points: Vec::new(), ..data };
        assert_eq!(read(&prometheus(&empty)).len(), 3);
    }
}
