//! The result of a search for one goal, for the record.

use serde::{Deserialize, Serialize};

/// One repetition's outcome for a goal.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct GoalValue {
    /// The headline figure: conditional throughput (MLRsearch), throughput (RFC 2544), accepted rate (classic).
    pub fps: Option<f64>,
    /// Relevant lower bound, offered frames/s.
    pub lower_fps: Option<f64>,
    /// Relevant upper bound, offered frames/s.
    pub upper_fps: Option<f64>,
    /// `None` for a regular result; otherwise why it is irregular
    /// (`max load is not an upper bound`, `tester-limited`, `min load is lossy`, `time limit`).
    pub irregular: Option<String>,
    /// Trials used.
    pub trials: usize,
    /// Trial time used in seconds.
    pub trial_s: f64,
    /// Where the rate lies, by the trials of this search alone; `None` where the procedure cannot tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<RateInterval>,
}

/// Where a rate lies, and how sure that is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RateInterval {
    /// Lower end, offered frames/s; `None`: the trials do not bound the rate from below.
    pub low_fps: Option<f64>,
    /// Upper end, offered frames/s; `None`: the trials do not bound the rate from above.
    pub high_fps: Option<f64>,
    /// Share of such intervals that hold the rate, at least: 0.95.
    pub confidence: f64,
    /// How it was found.
    pub method: String,
}
