//! Panics of the plane: the batch at work is lost and reported, and the thread goes on.

use std::panic::{AssertUnwindSafe, catch_unwind};

use weir_plane::{Plane, PortId, Recovered, Time};

use super::{Origin, Worker};

/// Reports that wait until they are read; further panics are only counted.
const MOST_REPORTS: usize = 8;

/// A panic of the plane, that is, a bug of the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PanicReport {
    /// When it happened, in the time of the node.
    pub at: Time,
    /// Frames that were lost.
    pub frames: u64,
    /// The stage that began anew, if one did: its number in the text, from 0, and its kind.
    pub stage: Option<(usize, &'static str)>,
    /// The batch as it was left, each with the port that it came in by; empty if no batch was at work.
    pub batch: Vec<(PortId, Vec<u8>)>,
}

impl Worker {
    /// Calls the plane outside of a batch; a panic in it does not end the thread.
    pub(super) fn guarded(&mut self, what: impl FnOnce(&mut Plane)) {
        let plane = &mut self.plane;
        if catch_unwind(AssertUnwindSafe(|| what(plane))).is_err() {
            self.recover(Vec::new());
        }
    }

    /// Gives up the batch that has arrived, after a panic.
    #[cold]
    pub(super) fn give_up(&mut self) {
        self.tickets.clear();
        let (pool, kept) = (&mut self.pool, self.panic_reports.len() < MOST_REPORTS);
        let mut batch = Vec::new();
        for (chunk, Origin { port, .. }) in self.arrived.drain(..).zip(self.arrived_by.drain(..)) {
            if kept {
                batch.push((port, pool.bytes(&chunk).to_vec()));
            }
            pool.give_back(chunk);
        }
        self.recover(batch);
    }

    /// The plane goes on after a panic, and a report of it is kept.
    #[cold]
    fn recover(&mut self, batch: Vec<(PortId, Vec<u8>)>) {
        self.panics += 1;
        let Recovered { frames, stage } = self.plane.recover(self.now);
        if self.panic_reports.len() < MOST_REPORTS {
            self.panic_reports.push(PanicReport { at: self.now, frames, stage, batch });
        }
    }

    /// The reports of panics since the last call.
    pub(crate) fn panic_reports(&mut self) -> Vec<PanicReport> {
        std::mem::take(&mut self.panic_reports)
    }

    /// Has the plane panic: passes what the second port has, as if it came by a port that does not exist.
    #[cfg(test)]
    pub(crate) fn provoke_panic(&mut self) {
        self.ports[1].receive(&mut self.pool, &mut self.arrived).expect("frames");
        self.arrived_by.resize(self.arrived.len(), Origin::wire(PortId(9)));
        self.pass();
    }
}
