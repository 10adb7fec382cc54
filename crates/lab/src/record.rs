//! What was measured: runs, points, trials, results. Plain data, append-only, serialised as JSON.
//!
//! A *run* is one execution of a plan. A *point* is one combination of the plan's axes. A *trial* is one
//! measurement at one offered load. A report is a pure function of these types.

use serde::{Deserialize, Serialize};

mod capture;
mod detection;
mod finding;

pub use capture::{Capture, CaptureTime};
pub use detection::Detection;
pub use finding::{Fault, Finding, invisible_loss};

/// One execution of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Number in the store, from 1.
    pub id: i64,
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
    /// How it ended.
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Number in the store.
    pub id: i64,
    /// Run that it belongs to.
    pub run_id: i64,
    /// Order in the run, from 0.
    pub index: usize,
    /// All axes as name and value in plan order, the constant ones too (`dut`, `frame_bytes`, `cpus`, `ip`, ...).
    pub settings: Vec<(String, String)>,
    /// Device under test, as in the plan (`kernel-forward`; `wire` is the tester's own ceiling).
    pub dut: String,
    /// Frame size as in the plan (`64`, `imix`).
    pub frame: String,
    /// Mean frame size in bytes, FCS included.
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
    /// Result; `None` until the point is finished.
    pub result: Option<PointResult>,
}

/// What the search found at a point.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PointResult {
    /// `mlrsearch`, `rfc2544`, `classic`, or `fixed` (no search).
    pub search: String,
    /// One entry per goal.
    pub goals: Vec<GoalResult>,
    /// How the rate relates to those of others that were measured in turns with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub comparisons: Vec<Comparison>,
    /// What the procedures after the search found, in the order in which they were made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub procedures: Vec<ProcedureResult>,
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
    /// How `value` follows from `values`.
    pub statistic: Statistic,
    /// The reported value; `None` if no repetition gave one.
    pub value: Option<f64>,
    /// One value per repetition that gave one, in order.
    pub values: Vec<f64>,
    /// Interval (95 %) of `value`: of a median from order statistics, with six repetitions or more; of an average by
    /// Student, with three or more.
    pub interval: Option<(f64, f64)>,
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

/// The first goal's rate divided by that of another point, round by round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Order of the other point in the run.
    pub point_index: usize,
    /// Median over the rounds of this point's rate by that of the other one.
    pub ratio: f64,
    /// Exact interval of that median (95 %), when there are at least six rounds.
    pub interval: Option<(f64, f64)>,
    /// Rounds in which both have a rate.
    pub rounds: usize,
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

/// One measurement at one offered load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Number in the store.
    pub id: i64,
    /// Point that it belongs to.
    pub point_id: i64,
    /// Order within the point, from 0.
    pub index: usize,
    /// What it was for.
    pub purpose: Purpose,
    /// Start, UTC, RFC 3339 with milliseconds.
    pub started: String,
    /// Intended length of sending in seconds.
    pub duration_s: f64,
    /// Time spent on this trial beyond `duration_s`, in seconds: set-up, drain, reading counters.
    pub overhead_s: f64,
    /// Intended load in frames/s, all directions together: at first, if the rate changes, and as a mean of bursts.
    pub offered_fps: f64,
    /// What the load was beyond rate and time, as name and value: `bursts`, `rate changes`, `timed`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub load: Vec<(String, String)>,
    /// Frames that the tester was to send.
    pub offered: u64,
    /// Frames that left the tester.
    pub sent: u64,
    /// Frames that came back, each counted once.
    pub received: u64,
    /// Frames that did not: `sent - received`.
    pub lost: u64,
    /// When the rate changed, in a trial whose load does so: the departure of the first frame that is followed by
    /// the new gap, ns after the first frame of the trial was due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_changed_ns: Option<u64>,
    /// Broadcasts that went along, in no other count of this trial; `None` unless they were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broadcasts: Option<Broadcasts>,
    /// Counts and latency per direction and flow group.
    pub streams: Vec<Stream>,
    /// Where the lost frames went, by name.
    pub ledger: Vec<LedgerLine>,
    /// Lost frames that no counter explains (negative: counters explain more than was lost).
    pub unexplained: i64,
    /// Is this trial to be believed?
    pub verdict: Verdict,
    /// Why the verdict is not `Valid`, one sentence each; also remarks on valid trials.
    pub reasons: Vec<String>,
    /// What the trial cost the device under test.
    pub cost: Cost,
    /// How quiet the machine and how exact the tester was.
    pub noise: Noise,
    /// What went wrong with frames, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
    /// How frames were captured, and what that cost; `None` where they were not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capture: Option<Capture>,
    /// How a program that watches for attacks told this one; `None` where none watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detection: Option<Detection>,
}

/// Frames to the Ethernet broadcast address that went along with the test frames (RFC 2544, section 11.1).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Broadcasts {
    /// That left the tester.
    pub sent: u64,
    /// That a bridge, or whatever forwards them, brought to the other port.
    pub received: u64,
    /// That the device took in and did not pass on, as a router does: by its own counters, or, of a machine of its own,
    /// all others. The rest is in the ledger, where it was lost.
    #[serde(default)]
    pub discarded: u64,
}

impl Trial {
    /// Frames that a ledger line of this owner explains.
    pub fn dropped_by(&self, owner: Owner) -> u64 {
        self.ledger.iter().filter(|line| line.owner == owner).map(|line| line.frames).sum()
    }

    /// The load that was really sent, frames/s: less than intended where the tester was too slow.
    pub fn sent_fps(&self) -> f64 {
        self.offered_fps * (1.0 + self.noise.rate_error)
    }

    /// The loss that a search or a procedure may count, 0..=1: all but what the tester lost itself.
    pub fn dut_loss_ratio(&self) -> f64 {
        let lost = self.lost.saturating_sub(self.dropped_by(Owner::Tester));
        if self.sent == 0 { 0.0 } else { lost as f64 / self.sent as f64 }
    }
}

/// What a trial was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    /// First contact; not used for any figure.
    WarmUp,
    /// One step of a search.
    Search,
    /// A point of the loss and latency curve.
    Curve,
    /// The tester's own ceiling.
    Ceiling,
    /// How exactly frames leave at an asked rate.
    Pacing,
    /// A trial of a procedure after the search: [`ProcedureResult`].
    Procedure,
}

/// Is a trial to be believed?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The tester did its part, the machine was quiet, the books close.
    Valid,
    /// The tester could not send what was offered, or lost frames itself.
    TesterLimited,
    /// Steal, foreign load or pacing error beyond the limits.
    Noisy,
    /// The books do not close, the test bed changed, the clock jumped.
    Invalid,
}

impl Verdict {
    /// The name used in records, reports and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Valid => "valid",
            Verdict::TesterLimited => "tester-limited",
            Verdict::Noisy => "noisy",
            Verdict::Invalid => "invalid",
        }
    }
}

/// Counts and latency of one flow group in one direction.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Stream {
    /// `a>b`, `b>a`, `a>b>a` when the far end reflects, or `a>a` when the device sends frames back where they came in.
    pub direction: String,
    /// Flow group, from 0.
    pub group: u32,
    /// Frames that left the tester.
    pub sent: u64,
    /// Frames received, each counted once.
    pub received: u64,
    /// `sent - received`.
    pub lost: u64,
    /// Received after a frame with a higher sequence number (RFC 4737 type-P-reordered).
    pub reordered: u64,
    /// How far behind the highest number a frame arrived, at most: the reordering extent (RFC 4737, section 4.2.2)
    /// where none in between was lost.
    #[serde(default)]
    pub reorder_extent_max: u64,
    /// Received again.
    pub duplicated: u64,
    /// Received with a wrong IP or UDP checksum or signature.
    pub corrupted: u64,
    /// Time from departure to arrival.
    pub latency: Latency,
    /// Periods of loss, oldest first; only the last ones where there were too many.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loss_events: Vec<LossEvent>,
    /// How many there were.
    #[serde(default)]
    pub loss_event_count: u64,
    /// Frames lost in a row are a run, a single one too: how many there were.
    #[serde(default)]
    pub loss_runs: u64,
    /// Frames of the longest run.
    #[serde(default)]
    pub loss_run_max: u64,
    /// Differences between the latencies of consecutive frames; `None` unless they were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipdv: Option<Ipdv>,
}

/// A period in which frames were lost: gaps in the sequence with less than a millisecond between them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LossEvent {
    /// When its first lost frame was sent, ns after the first frame of the trial was due.
    pub first_sent_ns: u64,
    /// When its last lost frame was sent.
    pub last_sent_ns: u64,
    /// Frames lost between these.
    pub lost: u64,
    /// From the arrival of the last frame before it to that of the first frame after it, ns.
    pub outage_ns: u64,
}

/// IP packet delay variation (RFC 3393 as used by RFC 8219, section 7.3.2): latency of a frame minus that of the one
/// sent before it, ns.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Ipdv {
    /// Pairs of consecutive frames that both arrived.
    pub count: u64,
    /// Smallest difference.
    pub min_ns: i64,
    /// Median.
    pub p50_ns: i64,
    /// Largest difference.
    pub max_ns: i64,
}

/// Summary of a latency histogram, nanoseconds. All zero when `count` is zero.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Frames measured.
    pub count: u64,
    /// Smallest value.
    pub min_ns: u64,
    /// Arithmetic mean.
    pub mean_ns: f64,
    /// Median.
    pub p50_ns: u64,
    /// 90th percentile.
    pub p90_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p999_ns: u64,
    /// Largest value.
    pub max_ns: u64,
    /// The histogram: (upper bound of bucket in ns, frames), empty buckets left out.
    pub buckets: Vec<(u64, u64)>,
}

/// One named place where frames were lost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerLine {
    /// Short name: `dut ring full`, `tester ring full`, `ip discards`, `conntrack full`, `filter`, ...
    pub name: String,
    /// Whose loss it is.
    pub owner: Owner,
    /// Frames.
    pub frames: u64,
    /// The counters that it was read from (`t0 tx_queue_0_xdp_xmit_errors`).
    pub source: String,
}

/// Whose loss a ledger line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Owner {
    /// Lost in the tester: never the DUT's fault.
    Tester,
    /// Lost in the device under test.
    Dut,
}

/// What a trial cost the device under test.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// CPU time of the DUT during the trial, ns: that of its threads, or, on several CPUs, whatever the tester did
    /// not use of them. `None` for a wire.
    pub dut_cpu_ns: Option<u64>,
    /// DUT CPU time per received frame, ns.
    pub ns_per_frame: Option<f64>,
    /// The same in reference cycles (TSC).
    pub cycles_per_frame: Option<f64>,
    /// Per CPU: number, busy share 0..1 of the trial, and who used it.
    pub cpus: Vec<CpuUse>,
    /// Conntrack entries of the DUT at the end of the trial.
    pub conntrack_entries: Option<u64>,
    /// Routes that were added or removed meanwhile, if the plan asks for that; the time is part of `dut_cpu_ns`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route_changes: Option<u64>,
    /// Memory in use by the DUT by name, bytes (`conntrack`, `slab growth`, `rss`).
    pub memory_bytes: Vec<(String, i64)>,
    /// What a machine of its own counted during the trial, by name.
    #[serde(default)]
    pub box_counters: Vec<(String, i64)>,
}

impl Cost {
    /// The CPU time of some frames; none where there were no frames.
    pub(crate) fn per_frame(cpu_ns: u64, frames: u64, tsc_hz: Option<f64>) -> Cost {
        let ns_per_frame = (frames > 0).then(|| cpu_ns as f64 / frames as f64);
        let cycles_per_frame = ns_per_frame.zip(tsc_hz).map(|(ns, hz)| ns * hz / 1e9);
        Cost { dut_cpu_ns: Some(cpu_ns), ns_per_frame, cycles_per_frame, ..Cost::default() }
    }
}

/// Use of one CPU during a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CpuUse {
    /// Logical CPU.
    pub cpu: usize,
    /// Share of the trial that it was busy, 0..1.
    pub busy: f64,
    /// Share of the trial that DUT threads ran on it, 0..1.
    pub dut: f64,
    /// Share of the trial that tester threads ran on it, 0..1.
    pub tester: f64,
}

/// How quiet the machine and how exact the tester was.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Noise {
    /// Share of time stolen by the hypervisor on the CPUs used, 0..1.
    pub steal: f64,
    /// Share of the trial in which DUT threads wanted to run but a foreign task had the CPU, 0..1.
    pub dut_wait: f64,
    /// Share of the trial in which the tester wanted to run but something else had its CPU, 0..1.
    #[serde(default)]
    pub tester_wait: f64,
    /// Of two directions that are sent by two hosts: share of the trial by which one began before the other, at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_skew: Option<f64>,
    /// (sent rate - offered rate) / offered rate, from what was not sent and how late the last frame left.
    pub rate_error: f64,
    /// Departure lateness, 99.9th percentile, ns.
    pub late_p999_ns: u64,
    /// Largest departure lateness, ns.
    pub late_max_ns: u64,
    /// Time of a cache line from the tester's CPU to the DUT's just before the trial, ns. On a virtual machine
    /// it tells where the host had put the virtual CPUs.
    #[serde(default)]
    pub handover_ns: Option<f64>,
    /// When frames left, in a trial that was made to find this out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub departures: Option<Departures>,
}

/// How exactly the frames of a paced trial left.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Departures {
    /// Frames/s between the due time of the first frame and the departure of the last one.
    pub rate_fps: f64,
    /// Frames.
    pub count: u64,
    /// Lateness: median.
    pub late_p50_ns: u64,
    /// 99th percentile.
    pub late_p99_ns: u64,
    /// 99.9th percentile.
    pub late_p999_ns: u64,
    /// Largest value.
    pub late_max_ns: u64,
    /// The histogram: (upper bound of bucket in ns, frames), empty buckets left out.
    pub buckets: Vec<(u64, u64)>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    #[test]
    fn what_the_tester_lost_is_never_loss_of_the_dut() {
        let line = |(owner, frames)| LedgerLine { name: "ring".into(), owner, frames, source: "test".into() };
        let ledger = [(Owner::Tester, 60), (Owner::Dut, 40)].map(line).to_vec();
        let trial = fixture::quick().points[0].trials[0].clone();
        let trial = Trial { sent: 1000, received: 900, lost: 100, ledger, ..trial };
        assert_eq!(trial.dut_loss_ratio(), 0.04);
        assert_eq!(trial.dropped_by(Owner::Tester), 60);
        assert_eq!(Trial { sent: 0, lost: 0, ..trial }.dut_loss_ratio(), 0.0);
    }
}
