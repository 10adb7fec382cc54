//! The concentrators: each runs until its `Device` is ended or dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use weir_cpe::responder;
use weir_lab::error::RunError;
use weir_linux::Error;
use weir_testbed::cpu::{CpuPlan, DutCpus};
use weir_testbed::journal::Journal;

use super::plan::{Concentrators, Dut};
use super::street::{ACCESS, FAR, FAR_MAC, Street, failed};
use super::weir::{self, Weir};

/// A BNG that runs.
pub(super) enum Device {
    Responder(#[expect(dead_code, reason = "it runs until it is dropped")] Responder),
    Weir(Weir),
    External,
}

impl Device {
    /// Starts it; `Err` inside: why it cannot take part.
    pub(super) fn start(
        plan: &Concentrators,
        dut: Dut,
        street: &Street,
        journal: &mut Journal,
    ) -> Result<Result<Device, String>, RunError> {
        let cpus = CpuPlan::choose(DutCpus::Count(1))?.dut;
        match (dut, &street.bng) {
            (Dut::Weir, Some(namespace)) => Ok(match weir::obstacle() {
                Some(why) => Err(why),
                None => Ok(Device::Weir(Weir::start(plan, namespace, cpus, journal)?)),
            }),
            (Dut::Responder, Some(_)) => Ok(Ok(Device::Responder(Responder::start(street, cpus)?))),
            _ => Ok(Ok(Device::External)),
        }
    }

    /// Resident memory of its node and of its control program, bytes; `None`: it has no such processes.
    pub(super) fn memory(&self) -> Option<[u64; 2]> {
        match self {
            Device::Weir(weir) => weir.memory(),
            Device::Responder(_) | Device::External => None,
        }
    }

    /// Kills its control program, and starts it again; how long that took.
    pub(super) fn restart_control(
        &mut self,
        street: &Street,
        journal: &mut Journal,
    ) -> Result<Duration, RunError> {
        match (self, &street.bng) {
            (Device::Weir(weir), Some(namespace)) => weir.restart_control(namespace, journal),
            _ => Ok(Duration::ZERO),
        }
    }

    /// Ends it.
    pub(super) fn end(self, journal: &mut Journal) -> Result<(), RunError> {
        match self {
            Device::Weir(weir) => weir.end(journal),
            Device::Responder(_) | Device::External => Ok(()),
        }
    }
}

/// The smallest responder, in a thread.
pub(super) struct Responder {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), weir_cpe::run::RunError>>>,
}

impl Responder {
    fn start(street: &Street, cpus: Vec<usize>) -> Result<Responder, RunError> {
        let Some(namespace) = &street.bng else {
            return Err(RunError::Linux(Error::Input("a responder needs wires of its own".into())));
        };
        let stop = Arc::new(AtomicBool::new(false));
        let (ready, is_ready) = mpsc::channel();
        let serve = {
            let stop = stop.clone();
            move || {
                // On a CPU that it may not use it runs elsewhere.
                let _ = cpus.first().map(|cpu| weir_port::thread::pin_to(*cpu));
                let far = Some((FAR, FAR_MAC));
                responder::serve(ACCESS, far, &stop, || ready.send(()).unwrap_or_default())
            }
        };
        let mut responder = Responder { stop, thread: Some(namespace.spawn("responder", serve)?) };
        match is_ready.recv() {
            Ok(()) => Ok(responder),
            // It ended before.
            Err(_) => Err(responder.end().map_or_else(failed, |()| {
                RunError::Linux(Error::Input("the responder ended at once".into()))
            })),
        }
    }

    fn end(&mut self) -> Result<(), weir_cpe::run::RunError> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or(Ok(()))
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        // What it could say came too late to change a trial.
        let _ = self.end();
    }
}
