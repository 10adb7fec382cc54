//! One line per figure, whatever rig it is of: what a run found, for spreadsheets and for statistics of one's own.

use super::csv::{csv_line, setting_names, values};
use crate::record::{GoalResult, ProcedureResult};
use crate::run_data::{PointData, RunData};

/// The columns of [`figures`]. Fields without a value are empty.
///
/// - `settings`: all axes of the point as `name=value`, separated by `;`
/// - `of`: the procedure that the figure is of; empty for rates of a search
/// - `value`, `low`, `high`: the figure and its 95 % interval, in the unit
/// - `values`: those of the repetitions, separated by `;`
/// - behind these, a column for each further setting of the run, by its name
pub const FIGURE_COLUMNS: [&str; 13] = [
    "run", "plan", "point", "dut", "frame", "settings", "of", "figure", "unit", "value", "low", "high",
    "values",
];

/// One row per figure (RFC 4180), with a header; see [`FIGURE_COLUMNS`].
pub fn figures(data: &RunData) -> String {
    let settings = setting_names(data, &FIGURE_COLUMNS);
    let names = FIGURE_COLUMNS.iter().chain(&settings).map(ToString::to_string);
    let mut text = csv_line(&names.collect::<Vec<_>>());
    for point in &data.points {
        let procedures = point.point.result.iter().flat_map(|result| &result.procedures);
        for figure in point.goals().iter().map(goal).chain(procedures.flat_map(of)) {
            let row = row(data, point, figure).into_iter().chain(values(point, &settings));
            text.push_str(&csv_line(&row.collect::<Vec<_>>()));
        }
    }
    text
}

/// The columns from `of` on.
type Own = [String; 7];

fn goal(goal: &GoalResult) -> Own {
    let values: Vec<f64> = goal.repetitions.iter().filter_map(|repetition| repetition.fps).collect();
    let interval = goal.fps_interval;
    own(["", &goal.goal, crate::figure::unit::FRAMES_PER_S], (goal.fps_median, interval), &values)
}

fn of(procedure: &ProcedureResult) -> impl Iterator<Item = Own> {
    let name = &procedure.procedure;
    procedure.figures.iter().map(|f| own([name, &f.name, &f.unit], (f.value, f.interval), &f.values))
}

fn own(
    [of, name, unit]: [&str; 3],
    (value, interval): (Option<f64>, Option<(f64, f64)>),
    values: &[f64],
) -> Own {
    let number = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
    let values: Vec<String> = values.iter().map(f64::to_string).collect();
    let (low, high) = (interval.map(|i| i.0), interval.map(|i| i.1));
    [of.into(), name.into(), unit.into(), number(value), number(low), number(high), values.join(";")]
}

fn row(data: &RunData, PointData { point, .. }: &PointData, own: Own) -> Vec<String> {
    let settings: Vec<String> =
        point.settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let place = [data.run.id.to_string(), data.run.plan.clone(), point.index.to_string()];
    let device = [point.dut.clone(), point.frame.clone(), settings.join(";")];
    place.into_iter().chain(device).chain(own).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn each_rate_and_each_figure_has_a_line() {
        let data = fixture::procedures();
        let text = figures(&data);
        let results = || data.points.iter().filter_map(|p| p.point.result.as_ref());
        let figures = results().flat_map(|r| &r.procedures).map(|p| p.figures.len()).sum::<usize>();
        let goals = results().map(|r| r.goals.len()).sum::<usize>();
        assert_eq!(text.matches("\r\n").count(), 1 + goals + figures);
        const OF_LATENCY: &str =
            "1,quick,3,kernel-forward,64,dut=kernel-forward;frame_bytes=64;cpus=1;ip=4,latency,";
        let first =
            |start: &str| text.lines().find(|line| line.starts_with(start)).expect("a line").to_string();
        assert_eq!(
            [first("run,"), first("1,quick,0,"), first(OF_LATENCY)],
            [
                "run,plan,point,dut,frame,settings,of,figure,unit,value,low,high,values,frame_bytes,cpus,ip",
                "1,quick,0,wire,64,dut=wire;frame_bytes=64;cpus=1;ip=4,,NDR,frames/s,4120000,4095280,4148839.9999999995,\
                 4095280;4120000;4148839.9999999995,64,1,4",
                "1,quick,3,kernel-forward,64,dut=kernel-forward;frame_bytes=64;cpus=1;ip=4,latency,typical latency,s,\
                 0.000019403347077370845,,,0.000019015280135823426;0.000019403347077370845;0.00001998544748969197,64,1,4",
            ]
        );
    }
}
