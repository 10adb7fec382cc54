//! The concentrators: each runs until its `Device` is ended or dropped.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;
use weir_cpe::radius::Accounted;
use weir_cpe::responder;
use weir_lab::error::RunError;
use weir_linux::Error;
use weir_testbed::cpu::{CpuPlan, DutCpus};
use weir_testbed::journal::Journal;

use super::aaa;
use super::churned::NodeCounts;
use super::plan::{Concentrators, Dut, Entry};
use super::street::{ACCESS, FAR, FAR_MAC, Street, failed};
use super::weir::{self, Weir};

/// A program of a BNG.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Program {
    Control,
    Node,
}

/// A restart.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct RestartTimes {
    /// From the kill until the program was ready.
    pub(super) seconds: f64,
    /// Sessions before and after.
    pub(super) sessions: [u64; 2],
}

/// A BNG that runs.
pub(super) enum Device {
    Responder(#[expect(dead_code, reason = "it runs until it is dropped")] Responder),
    Weir(Box<Weir>),
    External,
}

impl Device {
    /// Starts it; `Err` inside: why it cannot take part.
    pub(super) fn start(
        plan: &Concentrators,
        entry: Entry,
        street: &Street,
        journal: &mut Journal,
    ) -> Result<Result<Device, String>, RunError> {
        let cpus = CpuPlan::choose(DutCpus::Count(1))?.dut;
        match (entry.dut, &street.bng) {
            (Dut::Weir, Some(namespace)) => Ok(match weir::obstacle().or_else(|| aaa::obstacle(entry.aaa)) {
                Some(why) => Err(why),
                None => Ok(Device::Weir(Box::new(Weir::start(plan, entry, namespace, cpus, journal)?))),
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

    /// CPU time of its node and of its control program so far; `None`: it has no such processes.
    pub(super) fn cpu_time(&self) -> Option<Duration> {
        match self {
            Device::Weir(weir) => weir.cpu_time(),
            Device::Responder(_) | Device::External => None,
        }
    }

    /// Sessions that it has when all devices have released theirs; `None`: it does not say.
    pub(super) fn sessions_after_release(&self) -> Result<Option<u64>, RunError> {
        match self {
            Device::Weir(weir) => weir.sessions_after_release().map(Some),
            Device::Responder(_) | Device::External => Ok(None),
        }
    }

    /// What its RADIUS server was told by accounting so far; `None`: it does not say.
    pub(super) fn accounted(&self) -> Option<Accounted> {
        match self {
            Device::Weir(weir) => weir.accounted(),
            Device::Responder(_) | Device::External => None,
        }
    }

    /// The same when each session that began has a Stop, or some time later.
    pub(super) fn accounted_after_release(&self) -> Option<Accounted> {
        match self {
            Device::Weir(weir) => weir.accounted_after_release(),
            Device::Responder(_) | Device::External => None,
        }
    }

    /// What it has counted from and to subscribers so far; `None`: it does not say.
    pub(super) fn forwarded(&self) -> Result<Option<NodeCounts>, RunError> {
        match self {
            Device::Weir(weir) => weir.forwarded().map(Some),
            Device::Responder(_) | Device::External => Ok(None),
        }
    }

    /// Sessions with this plan, as its node shows them; null: it does not say.
    pub(super) fn subscribers(&self, plan: &str) -> Result<Value, RunError> {
        match self {
            Device::Weir(weir) => weir.subscribers(plan),
            Device::Responder(_) | Device::External => Ok(Value::Null),
        }
    }

    /// Frames that its node has dropped so far, by reason; empty: it does not say.
    pub(super) fn drops(&self) -> Result<BTreeMap<String, u64>, RunError> {
        match self {
            Device::Weir(weir) => weir.drops(),
            Device::Responder(_) | Device::External => Ok(BTreeMap::new()),
        }
    }

    /// Frames that its control program has dropped so far, by reason; empty: it does not say.
    pub(super) fn control_drops(&self) -> Result<BTreeMap<String, u64>, RunError> {
        match self {
            Device::Weir(weir) => weir.control_drops(),
            Device::Responder(_) | Device::External => Ok(BTreeMap::new()),
        }
    }

    /// Kills a program of it, and starts it again.
    pub(super) fn restart(
        &mut self,
        what: Program,
        street: &Street,
        journal: &mut Journal,
    ) -> Result<RestartTimes, RunError> {
        match (self, &street.bng) {
            (Device::Weir(weir), Some(namespace)) => weir.restart(what, namespace, journal),
            _ => Ok(RestartTimes::default()),
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
