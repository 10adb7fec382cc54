//! The concentrators: each runs while its `Device` lives.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;

use weir_cpe::responder;
use weir_lab::error::RunError;
use weir_linux::Error;

use super::plan::{Concentrators, Dut};
use super::street::{ACCESS, FAR, FAR_MAC, Street, failed};

/// A BNG that runs.
pub(super) enum Device {
    Responder(Responder),
    External,
}

impl Device {
    /// Starts it; `Err` inside: why it cannot take part.
    pub(super) fn start(
        _plan: &Concentrators,
        dut: Dut,
        street: &Street,
    ) -> Result<Result<Device, String>, RunError> {
        match dut {
            Dut::Responder => Ok(Ok(Device::Responder(Responder::start(street)?))),
            Dut::External => Ok(Ok(Device::External)),
            Dut::Weir => Ok(Err("weir is left out: this program has no `weir bng`".into())),
        }
    }

    /// Resident memory of its node and of its control program, bytes; `None`: it has no such processes.
    pub(super) fn memory(&self) -> Option<[u64; 2]> {
        None
    }
}

/// The smallest responder, in a thread.
pub(super) struct Responder {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), weir_cpe::run::RunError>>>,
}

impl Responder {
    fn start(street: &Street) -> Result<Responder, RunError> {
        let Some(namespace) = &street.bng else {
            return Err(RunError::Linux(Error::Input("a responder needs wires of its own".into())));
        };
        let stop = Arc::new(AtomicBool::new(false));
        let (ready, is_ready) = mpsc::channel();
        let serve = {
            let stop = stop.clone();
            move || {
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
