//! How fast the device's core was in each of two runs. The host of a virtual machine clocks its cores by what all its guests
//! do: within hours a loop that waits for nothing but the core takes 6 % less, and so does a device for a frame. Capacities of
//! two runs are compared as if the core had been as fast in both; what varies between runs is then half as much.

use weir_measure::placement::is_alone;

use super::Across;
use crate::figure::unit;
use crate::run_data::RunData;
use crate::stats::median;

/// The same loop on the device's core, in each run.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct CoreSteps {
    /// Time of a step in the base, ns.
    pub base_ns: f64,
    /// The same in the other run.
    pub other_ns: f64,
}

impl CoreSteps {
    /// `None` where a run was not probed, or where different machines are what is compared.
    pub fn of(base: &RunData, other: &RunData, across: &[Across]) -> Option<CoreSteps> {
        if across.contains(&Across::Machine) {
            return None;
        }
        Some(CoreSteps { base_ns: step_ns(base)?, other_ns: step_ns(other)? })
    }

    /// How many times as fast the core was in the other run.
    pub fn speed_up(&self) -> f64 {
        self.base_ns / self.other_ns
    }

    /// What `other / base` of a capacity in this unit owes to the core alone.
    pub(super) fn share_of_core(&self, of_unit: &str) -> f64 {
        match of_unit {
            unit::FRAMES_PER_S => self.speed_up(),
            unit::CYCLES => 1.0 / self.speed_up(),
            _ => 1.0,
        }
    }
}

/// Median over the probes of a run, without those in which another guest used the core, too.
fn step_ns(run: &RunData) -> Option<f64> {
    let trials = run.points.iter().flat_map(|point| &point.trials);
    let all: Vec<f64> = trials.filter_map(|trial| trial.noise.core_step_ns).flatten().collect();
    let shortest_ns = all.iter().copied().reduce(f64::min)?;
    let alone: Vec<f64> = all.into_iter().filter(|step_ns| is_alone(*step_ns, shortest_ns)).collect();
    median(&alone)
}
