//! The rig `throughput`: the highest rate of each device at each point, then loss and latency against load, and the
//! procedures of the benchmarking RFCs.
//!
//! Files:
//! - `plan/`: its part of a plan; `run.rs`, `point.rs`, `trials.rs`: the order of a run, of a point, of a trial
//! - `capacity.rs`: rounds of forwarding capacity
//! - `procedure/`: one file for each procedure after the search
//! - `answer/`: the first screen, one file for each kind of question

use std::sync::Arc;
use std::time::Duration;

use weir_config::Section;
use weir_load::TesterKind;
use weir_testbed::external::ExternalSpec;
use weir_testbed::fault::Faults;

use weir_lab::error::RunError;
use weir_lab::error::Unfit;
use weir_lab::frames::{PointSpec, preflight};
use weir_lab::plan::Plan;
use weir_lab::rig::{Experiment, Rig};
use weir_lab::run::Running;
use weir_record::run_data::RunData;
use weir_report::report::answer::Answer;

mod answer;
mod capacity;
mod measuring;
mod plan;
mod point;
mod procedure;
mod run;
mod trials;

pub use plan::*;

/// The rig.
pub(super) struct ThroughputRig;

/// As plans name it.
const NAME: &str = "throughput";

impl Rig for ThroughputRig {
    fn name(&self) -> &'static str {
        NAME
    }

    fn plans(&self) -> &'static [(&'static str, &'static str)] {
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
        ]
    }

    fn options(&self) -> &'static str {
        include_str!("../../../../plans/options.toml")
    }

    fn answer(&self, data: &RunData) -> Option<Answer> {
        answer::of_run(data)
    }

    fn read(&self, root: &Section<'_>) -> Option<Arc<dyn Experiment>> {
        plan::read(root).map(|experiment| Arc::new(experiment) as _)
    }
}

impl Experiment for Throughput {
    fn estimate(&self) -> Duration {
        Throughput::points(self).iter().map(|point| self.estimate_at(point)).sum()
    }

    fn points(&self) -> usize {
        Throughput::points(self).len()
    }

    fn bases(&self) -> Vec<Vec<usize>> {
        point::bases(&Throughput::points(self), self)
    }

    fn settings(&self) -> Vec<Vec<(String, String)>> {
        Throughput::points(self).iter().map(PointSpec::settings).collect()
    }

    fn deviations(&self) -> Vec<String> {
        procedure::deviations(self)
    }

    fn preflight(&self, tester: TesterKind) -> Result<(), Unfit> {
        self.external.iter().try_for_each(preflight::ports)?;
        preflight::devices(&Throughput::points(self), tester)
    }

    fn run(&self, run: Running<'_>) -> Result<(), RunError> {
        measuring::Measuring::from(run.of(self)).all_points(&Throughput::points(self))
    }
}

/// The experiment `throughput`.
#[derive(Debug, Clone, PartialEq)]
pub struct Throughput {
    /// Devices under test.
    pub dut: DutAxes,
    /// What the device `faulty` does wrong.
    pub faults: Faults,
    /// The external DUT; there if a plan has one.
    pub external: Option<ExternalSpec>,
    /// Test traffic.
    pub traffic: TrafficAxes,
    /// Search at each point.
    pub search: SearchSpec,
    /// Which lost frames count in it.
    pub search_loss: SearchLoss,
    /// What all points forward in overload, before their searches; `None`: not asked for.
    pub capacity: Option<CapacitySpec>,
    /// How often the search at each point is repeated.
    pub repeat: Repeat,
    /// Trials after the search; `None`: none.
    pub curve: Option<Curve>,
    /// What is measured after that.
    pub procedures: Procedures,
}

/// The points of a plan with a device under test, in the order of measuring: frame sizes fastest, devices slowest.
pub fn points(plan: &Plan) -> Vec<PointSpec> {
    Throughput::of(plan).map(Throughput::points).unwrap_or_default()
}

impl Throughput {
    /// The experiment of a plan, if it is this one.
    pub fn of(plan: &Plan) -> Option<&Throughput> {
        plan.experiment.of()
    }

    /// The points, in the order of measuring: frame sizes fastest, devices slowest.
    pub fn points(&self) -> Vec<PointSpec> {
        plan::points(&self.dut, &self.traffic)
    }

    /// Upper bound of the trial time at a point.
    fn estimate_at(&self, point: &PointSpec) -> Duration {
        self.before_procedures() + self.procedures.estimate(point.is_smallest(&self.traffic.frame_bytes))
    }

    /// The rounds of the capacity in turns of points: how much of the run they are, of which the other turns are so many.
    fn turns_of_capacity(&self, points: &[(usize, &PointSpec)], turns: usize) -> usize {
        let rounds =
            self.capacity.as_ref().map_or(Duration::ZERO, CapacitySpec::estimate) * points.len() as u32;
        let all: Duration = points.iter().map(|(_, point)| self.estimate_at(point)).sum();
        let rest = all.saturating_sub(rounds).max(Duration::from_millis(1));
        (turns as f64 * rounds.div_duration_f64(rest)).ceil() as usize
    }

    fn before_procedures(&self) -> Duration {
        let curve = self.curve.as_ref().map_or(Duration::ZERO, |c| c.trial * c.percent.len() as u32);
        let capacity = self.capacity.as_ref().map_or(Duration::ZERO, CapacitySpec::estimate);
        capacity + self.search.estimate() * self.search_loss.searches() * self.repeat.times + curve
    }

    /// The share of the time at a point that has gone by when its procedure `name` begins, 0..=1, if everything takes as
    /// long as it can.
    fn share_before(&self, point: &PointSpec, name: &str) -> f64 {
        let procedures = self.procedures.estimates(point.is_smallest(&self.traffic.frame_bytes));
        let before = procedures.iter().take_while(|(other, _)| *other != name).map(|(_, time)| *time);
        let before = self.before_procedures() + before.sum::<Duration>();
        before.div_duration_f64(self.estimate_at(point).max(Duration::from_nanos(1))).min(1.0)
    }
}

/// Independent repetitions of the search at each point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repeat {
    /// How many, at least 1.
    pub times: u32,
    /// Devices that do the same job at the same traffic alternate, a repetition each.
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
