//! What a run needs is tried before it begins: each device of the plan is built, and some frames sent through it. A run
//! that cannot succeed leaves no record, and `weir doctor` says beforehand what `weir run` will say.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use weir_load::counts::Load;
use weir_load::{Control, TesterKind};
use weir_port::capture::Rung;
use weir_testbed::dut::DutKind;
use weir_testbed::fault::Faults;
use weir_testbed::journal::{self, Journal};

use super::capture::opens;
use super::{Rig, RunError, Settings};
use crate::plan::{Experiment, Limits, Plan, PointSpec};

/// Frames of a trial, and how fast they come.
const FRAMES: u64 = 100;
const FPS: f64 = 10_000.0;
const LONGEST: Duration = Duration::from_secs(1);

/// Why a plan cannot be run here.
#[derive(Debug, thiserror::Error)]
pub enum Unfit {
    /// A device under test.
    #[error("{dut} cannot be measured here: {source}; leave it out of dut.kind, or see `weir doctor`")]
    Device {
        /// Which.
        dut: DutKind,
        /// Why.
        source: Box<RunError>,
    },
    /// A way of capturing.
    #[error("{rung} cannot capture here: {source}; leave it out of capture.rungs, or see `weir doctor`")]
    Rung {
        /// Which.
        rung: Rung,
        /// Why.
        source: Box<RunError>,
    },
}

/// Tries what the plan needs, each kind of device and each rung once. Machines of their own are not touched.
///
/// # Errors
/// The first that does not work, and why.
pub fn preflight(plan: &Plan, tester: TesterKind) -> Result<(), Unfit> {
    match &plan.experiment {
        Experiment::Throughput(_) => {
            let mut tried = Vec::new();
            for spec in plan.points() {
                if !tried.contains(&spec.dut) {
                    let refused = |error| Unfit::Device { dut: spec.dut, source: Box::new(error) };
                    device(&spec, tester).map_err(refused)?;
                    tried.push(spec.dut);
                }
            }
        }
        Experiment::Capture(ladder) => {
            let mut tried = Vec::new();
            for step in ladder.steps() {
                if !tried.contains(&step.rung) {
                    opens(&step, ladder)
                        .map_err(|error| Unfit::Rung { rung: step.rung, source: Box::new(error) })?;
                    tried.push(step.rung);
                }
            }
        }
        // Programs that are not here are left out of comparisons, which say so.
        Experiment::PeersGenerator(_) | Experiment::PeersCapture(_) | Experiment::PeersDetect(_) => {}
    }
    Ok(())
}

/// Sends some frames through a device.
///
/// # Errors
/// It cannot be built, or no frame passes.
pub fn device(spec: &PointSpec, tester: TesterKind) -> Result<(), RunError> {
    // A machine of its own is set up by its own commands, once; the faulty device may drop everything on purpose.
    if matches!(spec.dut, DutKind::External | DutKind::Faulty) {
        return Ok(());
    }
    let settings = Settings { tester, seed: 1, limits: Limits::default(), external: None, tsc_hz: None };
    let mut journal = Journal::in_dir(&journal::default_dir());
    let mut rig = Rig::build(spec, &settings, &Faults::default(), &mut journal)?;
    let load = Load { max_frames: Some(FRAMES), ..Load::steady(FPS, LONGEST) };
    let stop = AtomicBool::new(false);
    match rig.out_of_turn(&load, &Control::new(&stop, &|_, _| {}))? {
        0 => Err(RunError::NothingPasses(FRAMES)),
        _ => Ok(()),
    }
}
