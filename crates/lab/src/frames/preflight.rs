//! Sends some frames through each kind of device of a plan, before its run begins.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use weir_load::counts::Load;
use weir_load::{Control, TesterKind};
use weir_testbed::dut::DutKind;
use weir_testbed::external::ExternalSpec;
use weir_testbed::fault::Faults;
use weir_testbed::journal::{self, Journal};

use super::setup::cpu_plan;
use super::{Limits, PointSpec, Settings, Setup};
use crate::error::{RunError, Unfit};
use crate::interface;

/// Frames of a trial, and how fast they come.
const FRAMES: u64 = 100;
const FPS: f64 = 10_000.0;
const LONGEST: Duration = Duration::from_secs(1);
/// On a machine that is busy with something else, tester or receiver may get no time in a trial as short as this, or in the
/// moment after it: each trial waits twice as long for its frames as the one before.
const TRIALS: u32 = 4;
const DRAIN: Duration = Duration::from_millis(500);

/// The interfaces of this machine that a plan names must be there and fit.
pub fn ports(spec: &ExternalSpec) -> Result<(), Unfit> {
    spec.ports.iter().try_for_each(|name| {
        interface::find(name).and_then(|link| interface::check_ethernet(&link)).map_err(|error| Unfit {
            what: format!("nothing can be sent at {name}"),
            option: "external.ports",
            source: Box::new(error.into()),
        })
    })
}

/// Tries each kind of device once, and whether there are as many CPUs as each point wants. Machines of their own are not
/// touched.
pub fn devices(points: &[PointSpec], tester: TesterKind) -> Result<(), Unfit> {
    for spec in points {
        cpu_plan(spec).map_err(|error| Unfit {
            what: format!("{} cannot be measured", spec.dut),
            option: "dut.cpus",
            source: Box::new(error.into()),
        })?;
    }
    let mut tried = Vec::new();
    for spec in points {
        if !tried.contains(&spec.dut) {
            device(spec, tester).map_err(|error| Unfit {
                what: format!("{} cannot be measured", spec.dut),
                option: "dut.kind",
                source: Box::new(error),
            })?;
            tried.push(spec.dut);
        }
    }
    Ok(())
}

/// Sends some frames through a device.
///
/// # Errors
/// It cannot be built, or no frame passes.
pub fn device(spec: &PointSpec, tester: TesterKind) -> Result<(), RunError> {
    // An external DUT is set up by its own commands, once; the faulty device may drop everything on purpose.
    if matches!(spec.dut, DutKind::EXTERNAL | DutKind::FAULTY) {
        return Ok(());
    }
    let settings = Settings { tester, seed: 1, limits: Limits::default(), external: None, tsc_hz: None };
    let mut journal = Journal::in_dir(&journal::default_dir());
    let mut setup = Setup::build(spec, &settings, &Faults::default(), &mut journal)?;
    let stop = AtomicBool::new(false);
    for n in 0..TRIALS {
        let drain = Some(DRAIN * 2_u32.pow(n));
        let load = Load { max_frames: Some(FRAMES), drain, ..Load::steady(FPS, LONGEST) };
        if setup.out_of_turn(&load, &Control::new(&stop, &|_, _| {}))? > 0 {
            return Ok(());
        }
    }
    Err(RunError::NothingPasses(FRAMES))
}
