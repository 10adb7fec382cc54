//! The result of a point: rates of its search, figures of its procedures.

use serde::{Deserialize, Serialize};
use weir_measure::placement::Place;
use weir_measure::search::GoalValue;

use super::Bound;

/// What the search found at a point.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PointResult {
    /// `mlrsearch`, `rfc2544`, `classic`, or `fixed` (no search).
    pub search: String,
    /// One entry per goal.
    pub goals: Vec<GoalResult>,
    /// How the rate relates to those of others that were measured alternately with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub comparisons: Vec<Comparison>,
    /// What the procedures after the search found, in the order in which they were made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub procedures: Vec<ProcedureResult>,
}

impl PointResult {
    /// Of a point that was not searched, with one procedure.
    pub fn without_search(way: &str, procedure: ProcedureResult) -> PointResult {
        PointResult { search: way.into(), procedures: vec![procedure], ..PointResult::default() }
    }
}

/// What one procedure found at a point: latency, back-to-back frames, system recovery and the like.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcedureResult {
    /// Its name, that of its section in the plan: `latency`, `back-to-back`, `recovery`.
    pub procedure: String,
    /// Where it is defined: `RFC 8219, section 7.2`.
    pub cites: String,
    /// All parameters as name and value with unit.
    pub parameters: Vec<(String, String)>,
    /// What was found; the first is the headline.
    pub figures: Vec<Figure>,
    /// How its first figure relates to that of other points, within rounds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub comparisons: Vec<Comparison>,
    /// Why figures are missing or mean less than they should, one sentence each.
    pub irregular: Vec<String>,
    /// Losses with their dates, oldest first, where the procedure looks for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<DatedLoss>,
}

/// A period in which frames were lost, by the clock on the wall.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DatedLoss {
    /// When its first lost frame was sent, UTC, RFC 3339, to the tenth of a second.
    pub at: String,
    /// `a>b` or `b>a`.
    pub direction: String,
    /// Frames lost.
    pub lost: u64,
    /// From the arrival of the last frame before it to that of the first frame after it, s.
    pub outage_s: f64,
    /// How many of them were lost by stops of CPUs; `None` where stops were not noted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_stops: Option<u64>,
    /// Was the trial valid? In others the tester or the host may have had a part in it.
    pub valid: bool,
}

/// One figure of a procedure with all its repetitions.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// What it is: `median latency`, `corrected buffer time`.
    pub name: String,
    /// Unit of all numbers: `s`, `frames`, `frames/s`, `ratio`.
    pub unit: String,
    /// Which way it is better; records of before do not say, see [`Figure::better`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub better: Option<Better>,
    /// How `value` follows from `values`.
    pub statistic: Statistic,
    /// The reported value; `None` if no repetition gave one.
    pub value: Option<f64>,
    /// One value per repetition that gave one, in order.
    pub values: Vec<f64>,
    /// Interval (95 %) of `value`: of a median from order statistics, with six repetitions or more; of an average by
    /// Student, with three or more.
    pub interval: Option<(f64, f64)>,
    /// How `value` relates to the true one; see [`RunData::mark_bounds`](crate::run_data::RunData::mark_bounds).
    #[serde(default, skip_serializing_if = "Bound::is_exact")]
    pub bound: Bound,
}

/// Which values of a figure are the better ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Better {
    /// Higher ones: rates.
    Higher,
    /// Lower ones: times, losses, costs.
    Lower,
    /// Neither: it describes.
    Neither,
}

/// How a figure follows from its repetitions: each procedure names its own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Statistic {
    /// Arithmetic mean.
    #[default]
    Average,
    /// Median.
    Median,
}

/// A rate divided by that of another point, round by round.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Order of the other point in the run.
    pub point_index: usize,
    /// Where the CPUs were in the rounds that count, if they are kept apart by that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// Median over the rounds of this point's rate by that of the other one.
    pub ratio: f64,
    /// Exact interval of that median (95 %), when there are at least six rounds.
    pub interval: Option<(f64, f64)>,
    /// Rounds in which both have a rate.
    pub rounds: usize,
    /// How `ratio` relates to the true one: the tester may have been the limit of one of the two, or of both.
    #[serde(default, skip_serializing_if = "Bound::is_exact")]
    pub bound: Bound,
}

/// The result for one goal of a search. Rates are frames/s, all directions together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GoalResult {
    /// Short name: `NDR`, `PDR 0.5%`, `throughput`, `classic 0.15%`.
    pub goal: String,
    /// All parameters of the goal as name and value with unit: a rate without them says nothing.
    pub parameters: Vec<(String, String)>,
    /// One value per repetition, in order.
    pub repetitions: Vec<GoalValue>,
    /// Median of the repetitions' `fps`; `None` if none was found.
    pub fps_median: Option<f64>,
    /// Exact interval of the median (95 %), when there are at least six repetitions.
    pub fps_interval: Option<(f64, f64)>,
}
