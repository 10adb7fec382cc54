//! Programs that detect attacks: how soon each reports one, and which rate it states.

use weir_measure::stats;
use weir_record::record::{Detection, Trial};
use weir_record::run_data::{Measures, PointData, RunData};
use weir_report::report::bars::Bar;
use weir_report::report::block::{Block, Part};
use weir_report::view::Table;
use weir_report::view::format::{full, or_dash, percent, range, si, significant};

use super::answer::answer;
use crate::peers::report::{Chart, bar, drawing, table as columns, unique};

/// Its section of a report.
pub(super) fn parts(data: &RunData) -> Vec<Part> {
    let detectors = detectors(data);
    if detectors.is_empty() {
        return Vec::new();
    }
    let blocks = vec![
        drawing(chart(&detectors), CAPTION),
        Block::Table(table(&detectors).without_empty(&["95 % interval", "Left out"])),
        Block::Note(METHOD.into()),
    ];
    vec![Part { id: ID, heading: "Programs that watch for attacks".into(), blocks }]
}

/// The findings of a run.
pub(super) fn findings(data: &RunData) -> Vec<String> {
    answer(data).map_or_else(|| left_out(&detectors(data)), |answer| answer.sentences)
}

/// Why programs were left out, each reason once.
pub(super) fn left_out(detectors: &[Detector<'_>]) -> Vec<String> {
    unique(detectors.iter().filter_map(Detector::left_out)).into_iter().map(String::from).collect()
}

/// Of the section, and of the figures in records.
pub(super) const ID: &str = "detection";

pub(super) const CAPTION: &str = "Seconds from the first frame of an attack until it is reported; median of the rounds, whiskers: 95 % \
    interval of the median. Shorter is better.";

const METHOD: &str = "All programs watch the same interface alternately within each round, and one host is attacked with frames \
    of one flow. Each is started anew, watches for a calm second, and is attacked until it tells, or until the time of the \
    plan is over. weir tells by a line of JSON, FastNetMon by its script: what it has said is looked for every 2 ms. Stated: \
    the rate in its first event. True: the mean rate of the frames that arrived until then. FastNetMon has the \
    configuration that it comes with, but for networks, interface and limit: a mean over 5 s, looked at each second, which \
    passes the limit the sooner the larger an attack is, and is then the further from its rate. weir has its defaults: it \
    tells when more came within a second than the limit allows and the rate is known to 2 %, after half a second at the \
    soonest. Intervals need six rounds.";

/// A program and an attack, with what became of it.
pub(super) struct Detector<'a> {
    pub(super) data: &'a PointData,
    pub(super) attack_fps: f64,
    pub(super) found: Vec<Detection>,
}

pub(super) fn detectors(data: &RunData) -> Vec<Detector<'_>> {
    let points = data.points.iter().filter(|point| point.measures() == Some(Measures::Detector));
    let detector = |data: &'_ PointData| -> Option<f64> { data.setting("attack_fps")?.parse().ok() };
    points
        .filter_map(|data| {
            let found = data.measured().filter_map(Trial::believed).collect();
            Some(Detector { data, attack_fps: detector(data)?, found })
        })
        .collect()
}

impl Detector<'_> {
    pub(super) fn name(&self) -> &str {
        self.data.setting("program").unwrap_or(&self.data.point.dut)
    }

    pub(super) fn of(&self, value: impl Fn(&Detection) -> Option<f64>) -> Vec<f64> {
        self.found.iter().filter_map(value).collect()
    }

    pub(super) fn after_s(&self) -> Vec<f64> {
        self.of(|detection| detection.after_s)
    }

    pub(super) fn error(&self) -> Option<f64> {
        stats::median(&self.of(Detection::error))
    }

    /// Why there is nothing to say of it.
    fn left_out(&self) -> Option<&str> {
        self.data.why_left_out().filter(|_| self.found.is_empty())
    }
}

const CHART: Chart = Chart {
    heading: "Seconds until an attack is reported, by program",
    unit: "s",
    number: significant,
    said: |group, bar| format!("attack of {group}: {}", bar.title),
};

pub(super) fn chart(detectors: &[Detector<'_>]) -> String {
    let label = |detector: &&Detector<'_>| format!("{} frames/s", si(detector.attack_fps));
    CHART.draw(detectors, label, one_bar)
}

fn one_bar(detector: &Detector<'_>) -> Bar {
    let times = detector.after_s();
    let none = if detector.found.is_empty() { "left out" } else { "not reported" };
    let value = stats::median(&times);
    let text = value.map_or_else(|| none.into(), |s| format!("{} s", significant(s)));
    bar(detector.name(), value, stats::median_interval(&times), text)
}

fn table(detectors: &[Detector<'_>]) -> Table {
    let mut table = columns(
        "Attack, frames/s | Program | Version | Reported | After, s | 95 % interval | Longest, s | Stated, frames/s | \
         True, frames/s | Error | Left out",
    );
    for detector in detectors {
        let times = detector.after_s();
        let median = |value: fn(&Detection) -> Option<f64>| stats::median(&detector.of(value));
        let longest = times.iter().copied().reduce(f64::max);
        table.push(vec![
            full(detector.attack_fps),
            detector.name().into(),
            detector.data.setting("version").unwrap_or("–").into(),
            format!("{} of {}", times.len(), detector.found.len()),
            or_dash(stats::median(&times), significant),
            or_dash(stats::median_interval(&times), range),
            or_dash(longest, significant),
            or_dash(median(|detection| detection.stated_fps), full),
            or_dash(median(|detection| Some(detection.true_fps)), full),
            or_dash(detector.error(), signed),
            detector.left_out().unwrap_or("").into(),
        ]);
    }
    table
}

/// `−42.0 %`, `+0.100 %`.
pub(super) fn signed(share: f64) -> String {
    let sign = if share < 0.0 { "−" } else { "+" };
    sign.to_string() + &percent(share.abs())
}

/// How far a stated rate is from the true one, as a part of a sentence.
pub(super) fn rate_error(error: f64) -> String {
    match error {
        _ if error.abs() < 0.001 => ", and states its rate within 0.1 %".into(),
        _ if error < 0.0 => format!(", and states a rate that is {} too low", percent(-error)),
        _ => format!(", and states a rate that is {} too high", percent(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_record::fixture;
    use weir_record::record::PointResult;
    use weir_report::report::block::{self, terminal};

    /// A program that tells an attack of 40,000 frames/s after so long.
    fn detector(index: usize, program: &str, reported: &[(f64, f64)]) -> PointData {
        let mut data = fixture::point(index, program, 64, 1.0);
        let settings =
            [("measures", "detector"), ("program", program), ("attack_fps", "40000"), ("version", "1.2")];
        data.point.settings = settings.map(|(name, value)| (name.to_string(), value.to_string())).to_vec();
        data.point.result = Some(PointResult { search: "rounds".into(), ..PointResult::default() });
        let trial = data.trials[1].clone();
        let one = |&(after_s, stated): &(f64, f64)| {
            let reported = after_s > 0.0;
            trial.clone().with_detail(&Detection {
                after_s: reported.then_some(after_s),
                stated_fps: reported.then_some(stated),
                true_fps: 40_000.0,
            })
        };
        data.trials = reported.iter().map(one).collect();
        data
    }

    fn run() -> RunData {
        let mut absent = detector(2, "other", &[]);
        absent.point.notes = vec!["other is left out: it is not installed.".into()];
        let points = vec![
            detector(0, "weir detect", &[(1.2, 40_000.0), (1.4, 40_400.0), (1.3, 40_200.0)]),
            detector(1, "fastnetmon", &[(4.0, 20_000.0), (0.0, 0.0), (5.0, 24_000.0)]),
            absent,
        ];
        RunData { run: fixture::run(1), points }
    }

    #[test]
    fn an_attack_has_a_sentence_and_each_program_a_row() {
        let found = findings(&run()).join("\n");
        let shown = [found, terminal(&parts(&run()))].join("\n\n").replace('\u{202f}', " ");
        weir_testkit::golden!("src/peers/detect/golden.txt", &shown);
    }

    /// The one that missed an attack is compared in the rounds in which both told it.
    #[test]
    fn the_first_screen_says_who_is_first_and_by_how_much() {
        let text = weir_report::export::answer(&run(), crate::sections(), 80);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        weir_testkit::golden!("src/peers/detect/answer.txt", &text);
    }

    #[test]
    fn the_page_has_a_bar_for_each() {
        let page = block::page(&parts(&run())).replace('\u{202f}', " ");
        for text in ["weir detect: 1.30 s", "fastnetmon: 4.50 s", "other: left out", "Shorter is better"] {
            assert!(page.contains(text), "{text}");
        }
        assert_eq!(block::page(&parts(&fixture::quick())), "");
    }
}
