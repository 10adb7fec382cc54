//! Plans: what to vary, what to measure, and the question in one sentence.
//!
//! ```text
//! plan.toml + --set > read > Plan > points: dut x rules x cpus x ip x flows x order x direction x frame
//! ```
//! A list in a plan is an axis. A [`Plan`] that exists is valid: what it asks for can be measured.

use std::path::Path;
use std::time::Duration;

use weir_testbed::external::ExternalSpec;
use weir_testbed::fault::Faults;

mod axes;
mod capture;
mod capture_peers;
mod detect_peers;
mod percent;
mod point;
mod procedures;
mod read;
mod read_external;
mod read_procedures;
mod read_search;
mod search_spec;
mod set;
mod short;
mod spreading;

use short::Form;

pub use axes::{DutAxes, TrafficAxes};
pub use capture::{Ladder, Offered, Step};
pub use capture_peers::{CapturePeer, CapturePeers, CapturePlace, Job};
pub use detect_peers::{DetectPeer, DetectPeers};
pub use point::{Cpus, MIN_IPV6_FRAME_BYTES, PointSpec, Routing};
pub(crate) use procedures::percents;
pub use procedures::{
    BackToBackSpec, BurstsSpec, ForwardingSpec, FrameLossSpec, LatencySpec, PdvSpec, Procedures,
    RecoverySpec, ResetKind, ResetSpec, SoakSpec,
};
pub use search_spec::{ClassicSpec, FixedSpec, LoadRange, MlrSpec, Rfc2544Spec, SearchSpec};
pub use spreading::SpreadAxes;
pub use weir_config::{Mistake, Mistakes, Place};

/// A valid plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Name of a shipped plan, or of the file without its ending.
    pub name: String,
    /// The question that it answers, in one sentence.
    pub question: String,
    /// The procedure that it follows (`RFC 2544, section 26.1`).
    pub cites: Option<String>,
    /// What is done.
    pub experiment: Experiment,
    /// When a trial is not to be believed.
    pub limits: Limits,
    /// The longest time of its declared short form, `[short]`; `None` if it has none, or is it.
    pub short: Option<Duration>,
    /// TOML text with `--set` changes applied; reading it gives the same plan.
    pub text: String,
}

/// What a plan does.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "there is one plan at a time")]
pub enum Experiment {
    /// Searches for the highest rate at each point.
    Throughput(Throughput),
    /// Compares the frame generator with those of others.
    PeersGenerator(Peers),
    /// Climbs the capture ladder.
    Capture(Ladder),
    /// Compares `weir capture` with other programs that capture.
    PeersCapture(CapturePeers),
    /// Compares `weir detect` with other programs that watch for attacks.
    PeersDetect(DetectPeers),
}

/// The experiment `throughput`.
#[derive(Debug, Clone, PartialEq)]
pub struct Throughput {
    /// Devices under test.
    pub dut: DutAxes,
    /// What the device `faulty` does wrong.
    pub faults: Faults,
    /// The machine of its own that the device `external` is; there if a plan has such a device.
    pub external: Option<ExternalSpec>,
    /// Test traffic.
    pub traffic: TrafficAxes,
    /// Search at each point.
    pub search: SearchSpec,
    /// How often the search at each point is repeated.
    pub repeat: Repeat,
    /// Trials after the search; `None`: none.
    pub curve: Option<Curve>,
    /// What is measured after that.
    pub procedures: Procedures,
}

impl Throughput {
    /// Upper bound of the trial time at a point.
    fn estimate(&self, point: &PointSpec) -> Duration {
        self.before_procedures() + self.procedures.estimate(point.is_smallest(&self.traffic.frame_bytes))
    }

    fn before_procedures(&self) -> Duration {
        let curve = self.curve.as_ref().map_or(Duration::ZERO, |c| c.trial * c.percent.len() as u32);
        self.search.estimate() * self.repeat.times + curve
    }

    /// The share of the time at a point that has gone by when its procedure `name` begins, 0..=1, if everything takes as
    /// long as it can.
    pub(crate) fn share_before(&self, point: &PointSpec, name: &str) -> f64 {
        let procedures = self.procedures.estimates(point.is_smallest(&self.traffic.frame_bytes));
        let before = procedures.iter().take_while(|(other, _)| *other != name).map(|(_, time)| *time);
        let before = self.before_procedures() + before.sum::<Duration>();
        before.div_duration_f64(self.estimate(point).max(Duration::from_nanos(1))).min(1.0)
    }
}

/// Independent repetitions of the search at each point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repeat {
    /// How many, at least 1.
    pub times: u32,
    /// Devices that do the same job at the same traffic take turns, a repetition each.
    pub in_turn: bool,
}

/// Loss and latency against load: trials at shares of the throughput that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// Percent of the throughput, above 0, at most 1000, at least one.
    pub percent: Vec<f64>,
    /// Length of each trial.
    pub trial: Duration,
}

/// The experiment `peers-generator`: all generators in turn, round by round.
#[derive(Debug, Clone, PartialEq)]
pub struct Peers {
    /// Generators to compare with, at least one.
    pub names: Vec<Peer>,
    /// Rounds, at least 1.
    pub rounds: u32,
    /// Length of each trial.
    pub trial: Duration,
    /// Frame sizes in bytes, FCS included, at least one.
    pub frame_bytes: Vec<u16>,
    /// Numbers of flows, at least one.
    pub flows: Vec<u32>,
}

impl Peers {
    /// Rates at which the generator's pacing is measured, frames/s.
    pub const PACES_FPS: [f64; 5] = [1e3, 1e4, 1e5, 1e6, 2e6];
    /// Measurements of the receiver: on the sender's CPU, and on one of its own.
    const RECEIVERS: usize = 2;
}

/// A frame generator by somebody else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// netsniff-ng's trafgen.
    Trafgen,
    /// tcpreplay with a prepared capture.
    Tcpreplay,
    /// iperf3 sending UDP.
    Iperf3,
    /// xdp-trafficgen of xdp-tools.
    XdpTrafficgen,
}

impl Peer {
    /// All peers with the names of their programs.
    pub const ALL: [(Peer, &'static str); 4] = [
        (Peer::Trafgen, "trafgen"),
        (Peer::Tcpreplay, "tcpreplay"),
        (Peer::Iperf3, "iperf3"),
        (Peer::XdpTrafficgen, "xdp-trafficgen"),
    ];

    /// The name of its program.
    pub fn name(self) -> &'static str {
        Peer::ALL.iter().find(|(peer, _)| *peer == self).expect("every peer is in ALL").1
    }
}

/// When a trial is not to be believed. Shares are 0..1.
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    /// Lost frames that no counter explains, as a share of the frames sent.
    pub unexplained: f64,
    /// Difference between offered and sent rate, as a share of the offered rate.
    pub rate_error: f64,
    /// CPU time taken by the hypervisor.
    pub steal: f64,
    /// How often a noisy trial is repeated.
    pub retries: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { unexplained: 0.001, rate_error: 0.001, steal: 0.01, retries: 3 }
    }
}

impl Plan {
    /// The points of the plan, in the order of measuring: frame sizes fastest, devices slowest. Empty for an
    /// experiment without a device under test.
    pub fn points(&self) -> Vec<PointSpec> {
        match &self.experiment {
            Experiment::Throughput(t) => axes::points(&t.dut, &t.traffic),
            _ => Vec::new(),
        }
    }

    /// Upper bound of the trial time. Repeated noisy trials, building test beds and measuring the wire are
    /// not counted.
    pub fn estimate(&self) -> Duration {
        match &self.experiment {
            Experiment::Throughput(t) => self.points().iter().map(|point| t.estimate(point)).sum(),
            Experiment::PeersGenerator(p) => {
                // Two generators of ours with each number of flows; peers repeat one frame.
                let generators = (p.names.len() + 2 * p.flows.len()) * p.frame_bytes.len();
                let others = Peers::PACES_FPS.len() + Peers::RECEIVERS;
                p.trial * p.rounds * (generators + others) as u32
            }
            Experiment::Capture(ladder) => ladder.estimate(),
            Experiment::PeersCapture(peers) => peers.estimate(),
            Experiment::PeersDetect(peers) => peers.estimate(),
        }
    }
}

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// Neither a shipped plan nor a file.
    #[error("`{name}` is neither a plan that ships with weir nor a file: {remedy}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// What to write instead.
        remedy: String,
    },
    /// The file cannot be read.
    #[error("cannot read the plan {path}")]
    File {
        /// Its path.
        path: String,
        /// Why not.
        source: std::io::Error,
    },
    /// The plan is wrong.
    #[error("the plan has mistakes:\n{0}")]
    Mistakes(Mistakes),
}

/// The plans that ship with weir: name and text.
pub fn shipped() -> &'static [(&'static str, &'static str)] {
    &[
        ("quick", include_str!("../../../../plans/quick.toml")),
        ("router", include_str!("../../../../plans/router.toml")),
        ("bridge", include_str!("../../../../plans/bridge.toml")),
        ("rules", include_str!("../../../../plans/rules.toml")),
        ("flows", include_str!("../../../../plans/flows.toml")),
        ("rfc2544", include_str!("../../../../plans/rfc2544.toml")),
        ("rfc8219", include_str!("../../../../plans/rfc8219.toml")),
        ("soak", include_str!("../../../../plans/soak.toml")),
        ("node", include_str!("../../../../plans/node.toml")),
        ("peers-generator", include_str!("../../../../plans/peers-generator.toml")),
        ("capture", include_str!("../../../../plans/capture.toml")),
        ("peers-capture", include_str!("../../../../plans/peers-capture.toml")),
        ("peers-detect", include_str!("../../../../plans/peers-detect.toml")),
    ]
}

/// A plan with every option, each explained: the reference for those who write plans.
pub fn options() -> &'static str {
    include_str!("../../../../plans/options.toml")
}

/// The plan `name_or_path` with the changes `sets` (`key.path=value`). The name of a shipped plan comes
/// first; a file of the same name is reached as `./quick`.
///
/// # Errors
/// See [`PlanError`]; the message says what to do.
pub fn load(name_or_path: &str, sets: &[String]) -> Result<Plan, PlanError> {
    load_form(name_or_path, Form::Full, sets)
}

/// The short form that a plan declares, with the changes `sets` on top.
///
/// # Errors
/// As [`load`], and if it declares none.
pub fn load_short(name_or_path: &str, sets: &[String]) -> Result<Plan, PlanError> {
    load_form(name_or_path, Form::Short, sets)
}

fn load_form(name_or_path: &str, form: Form, sets: &[String]) -> Result<Plan, PlanError> {
    if let Some((name, text)) = shipped().iter().find(|(name, _)| *name == name_or_path) {
        return read::read(&read::Label { name, place: name }, text, form, sets).map_err(PlanError::Mistakes);
    }
    let path = Path::new(name_or_path);
    if !path.exists() {
        let names: Vec<_> = shipped().iter().map(|(name, _)| *name).collect();
        let remedy = weir_config::did_you_mean(name_or_path, &names);
        return Err(PlanError::Unknown { name: name_or_path.to_string(), remedy });
    }
    let text = std::fs::read_to_string(path)
        .map_err(|source| PlanError::File { path: name_or_path.to_string(), source })?;
    let name = path.file_stem().map_or(name_or_path.into(), |stem| stem.to_string_lossy());
    let label = read::Label { name: &name, place: name_or_path };
    read::read(&label, &text, form, sets).map_err(PlanError::Mistakes)
}

/// The plan of a record: its name and its text as kept.
///
/// # Errors
/// [`PlanError::Mistakes`] if another version of weir wrote it and this one reads it differently.
pub fn reload(name: &str, text: &str) -> Result<Plan, PlanError> {
    let label = read::Label { name, place: "the plan in the record" };
    read::read(&label, text, Form::Full, &[]).map_err(PlanError::Mistakes)
}

#[cfg(test)]
mod tests;
