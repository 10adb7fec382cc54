//! The record: runs, points, trials, results. Plain data, append-only, serialised as JSON.
//!
//! A *run* is one execution of a plan. A *point* is one combination of the plan's axes. A *trial* is one
//! measurement at one offered load. A report is a pure function of these types.

use serde::{Deserialize, Serialize};

mod bound;
mod capture;
mod cost;
mod detail;
mod detection;
mod finding;
mod key;
mod result;
mod stream;
mod translation;
mod trial;

pub use bound::Bound;
pub use capture::{Capture, CaptureTime};
pub use cost::{Cost, CpuUse, Departures, Noise};
pub use detail::{Detail, Details};
pub use detection::Detection;
pub use finding::{Fault, Finding, invisible_loss};
pub use key::{PointKey, RunId};
pub use result::{
    Better, Comparison, DatedLoss, Figure, GoalResult, PointResult, ProcedureResult, Statistic,
};
pub use stream::{Ipdv, Latency, LossEvent, Stream};
pub use translation::Translation;
pub use trial::{Broadcasts, DropCounter, FrameCounts, Owner, Purpose, Trial, Verdict, Witnessed};
pub use weir_measure::search::{GoalValue, RateInterval};

/// One execution of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Number in the archive, from 1.
    pub id: i64,
    /// The same in every archive; runs of version 0.1.0, which have none, get one when they are read.
    #[serde(default = "RunId::random")]
    pub uuid: RunId,
    /// Name of the plan (`quick`) or of its file without the ending.
    pub plan: String,
    /// The question that the plan asks, in one sentence.
    pub question: String,
    /// Full text of the plan with `--set` changes applied, so that the run can be repeated.
    pub plan_toml: String,
    /// Start, UTC, RFC 3339.
    pub started: String,
    /// End, UTC, RFC 3339; `None` while it runs or after a crash.
    pub finished: Option<String>,
    /// State of the run: running, or how it ended.
    pub state: RunState,
    /// Seed of all randomness in the run.
    pub seed: u64,
    /// Version of weir that measured.
    pub version: String,
    /// Process that measures, as `pid-start time`: tells a run in progress from one that was killed.
    #[serde(default)]
    pub process: String,
    /// Where it was measured.
    pub machine: Machine,
    /// How the tester sends and receives, and on which CPUs.
    pub tester: Tester,
    /// Where the run departs from the procedure that it cites, one sentence each.
    pub deviations: Vec<String>,
    /// When it went on after an interruption, UTC, RFC 3339.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resumed: Vec<String>,
    /// Why it has failed, if it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// A run in a list of runs: without the text of its plan and its machine, which are most of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunSummary {
    /// As [`Run::id`].
    pub id: i64,
    /// As [`Run::uuid`].
    pub uuid: RunId,
    /// As [`Run::plan`].
    pub plan: String,
    /// As [`Run::question`].
    pub question: String,
    /// As [`Run::started`].
    pub started: String,
    /// As [`Run::finished`].
    pub finished: Option<String>,
    /// As [`Run::state`].
    pub state: RunState,
    /// As [`Run::version`].
    pub version: String,
}

impl From<Run> for RunSummary {
    fn from(run: Run) -> RunSummary {
        let Run { id, uuid, plan, question, started, finished, state, version, .. } = run;
        RunSummary { id, uuid, plan, question, started, finished, state, version }
    }
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunState {
    /// Started and not yet ended, or killed.
    Running,
    /// All points were measured.
    Complete,
    /// Stopped by the user; finished trials are kept.
    Interrupted,
    /// Stopped by an error; finished trials are kept.
    Failed,
}

/// Facts about the machine that matter for the numbers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Name of the host; empty in records of versions that did not keep it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub host: String,
    /// Processor name.
    pub cpu: String,
    /// Logical CPUs online.
    pub cpus: usize,
    /// Kernel release and build.
    pub kernel: String,
    /// Operating system name.
    pub os: String,
    /// Total memory in bytes.
    pub memory_bytes: u64,
    /// Everything else, as name and value: mitigations, governor, virtualisation, clock source, sysctls.
    pub facts: Vec<(String, String)>,
}

/// How the tester sends and receives.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Tester {
    /// `xdp-live-frames` or `af-packet`.
    pub generator: String,
    /// `xdp` or `af-packet`.
    pub receiver: String,
    /// CPUs that the tester runs on.
    pub cpus: Vec<usize>,
    /// What is weaker than it could be, and why, one sentence each.
    pub limits: Vec<String>,
}

/// One combination of the plan's axes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Number in the archive.
    pub id: i64,
    /// Number of the run that it belongs to.
    pub run_id: i64,
    /// Place in the run, from 0: with the run, its key.
    pub index: usize,
    /// All axes as name and value in plan order, the constant ones too (`dut`, `frame_bytes`, `cpus`, `ip`, ...).
    pub settings: Vec<(String, String)>,
    /// What is measured: the device under test as in the plan (`kernel-forward`; `wire` is the tester's own ceiling), or, where
    /// [`MEASURES`](crate::run_data::MEASURES) is among the settings, a part of the tester or a tool (`fastnetmon`).
    pub dut: String,
    /// Frame size as in the plan (`64`, `imix`); empty where there are no test frames.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub frame: String,
    /// Mean frame size in bytes, FCS included; 0 where there are no test frames.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub frame_bytes_mean: f64,
    /// CPUs of the device under test; those that the tester uses too are in `cpus_shared`.
    pub cpus: Vec<usize>,
    /// CPUs that the device under test shares with the tester.
    pub cpus_shared: Vec<usize>,
    /// Theoretical maximum in frames/s, all directions together, at the plan's line rate; `None` if it has none.
    pub line_fps: Option<f64>,
    /// What a reader must know about this test bed, one sentence each.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Of a merged run the shards that measured it, from 1 on; none where points are computed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shards: Vec<usize>,
    /// Result; `None` until the point is finished.
    pub result: Option<PointResult>,
}

impl Point {
    /// What identifies it in every archive.
    pub fn key(&self, run: RunId) -> PointKey {
        PointKey { run, index: self.index }
    }
}

fn is_zero(value: &f64) -> bool {
    *value == 0.0
}
