//! Runs for the tests of answers.

use weir_record::fixture;
use weir_record::run_data::{PointData, RunData};

/// A point of such a run.
pub(super) struct Measured<'a> {
    pub(super) dut: &'a str,
    pub(super) frame: u16,
    /// Further settings, or other values of those that each point has.
    pub(super) settings: Vec<(&'a str, &'a str)>,
    /// The rate that its search found.
    pub(super) fps: f64,
}

/// A run with these points.
pub(super) fn run(points: &[Measured<'_>]) -> RunData {
    let point = |(index, measured): (usize, &Measured<'_>)| {
        let mut data = fixture::point(index, measured.dut, measured.frame, measured.fps);
        for (name, value) in &measured.settings {
            match data.point.settings.iter_mut().find(|(known, _)| known == name) {
                Some((_, known)) => *known = (*value).to_string(),
                None => data.point.settings.push(((*name).to_string(), (*value).to_string())),
            }
            if *name == "cpus" {
                data.point.cpus = (1..=value.parse().unwrap_or(4)).collect();
            }
        }
        data
    };
    let mut data = RunData { run: fixture::run(1), points: points.iter().enumerate().map(point).collect() };
    data.run.plan_toml = "question = \"?\"\n".into();
    data
}

/// Gives the trials near the rate of a point this cost of a frame, reference cycles.
pub(super) fn costs(point: &mut PointData, cycles: f64) {
    for trial in &mut point.trials {
        trial.cost.cycles_per_frame = Some(cycles);
        trial.cost.ns_per_frame = Some(cycles / 2.0);
    }
}

/// The answer as a terminal has it, without narrow spaces.
pub(super) fn shown(data: &RunData) -> String {
    let answer = super::of_run(data).expect("an answer");
    let sentences: String = answer.sentences.iter().map(|sentence| format!("{sentence}\n")).collect();
    format!("{sentences}\n{}", answer.table.text()).replace('\u{202f}', " ")
}
