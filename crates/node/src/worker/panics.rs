//! Panics of the plane: the batch at work is lost and reported, and the thread goes on.

use std::panic::{AssertUnwindSafe, catch_unwind};

use weir_plane::{Plane, PortId, Recovered, Time};

use super::Worker;

/// Mishaps whose frames are kept until somebody asks: of those behind only the counters tell.
const MOST_MISHAPS: usize = 8;

/// A panic of the plane, that is, a mistake of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mishap {
    /// When, in the time of the node.
    pub at: Time,
    /// Frames that were lost.
    pub frames: u64,
    /// The stage that began anew, if one did: its number in the text, from 0, and what it is.
    pub stage: Option<(usize, &'static str)>,
    /// The batch as it was left, each with the port that it came in by; empty if no batch was at work.
    pub batch: Vec<(PortId, Vec<u8>)>,
}

impl Worker {
    /// Has the plane do something that is about no batch; a panic in it does not end the thread.
    pub(super) fn guarded(&mut self, what: impl FnOnce(&mut Plane)) {
        let plane = &mut self.plane;
        if catch_unwind(AssertUnwindSafe(|| what(plane))).is_err() {
            self.recover(Vec::new());
        }
    }

    /// The batch that has arrived goes no further.
    #[cold]
    pub(super) fn give_up(&mut self) {
        self.tickets.clear();
        let (pool, kept) = (&mut self.pool, self.mishaps.len() < MOST_MISHAPS);
        let mut batch = Vec::new();
        for (chunk, (port, _)) in self.arrived.drain(..).zip(self.arrived_by.drain(..)) {
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
        if self.mishaps.len() < MOST_MISHAPS {
            self.mishaps.push(Mishap { at: self.now, frames, stage, batch });
        }
    }

    /// What was lost by panics since the last call.
    pub(crate) fn mishaps(&mut self) -> Vec<Mishap> {
        std::mem::take(&mut self.mishaps)
    }

    /// Leads what the second port has through the plane as if it came by a port that there is not.
    #[cfg(test)]
    pub(crate) fn mistake(&mut self) {
        self.ports[1].receive(&mut self.pool, &mut self.arrived).expect("frames");
        self.arrived_by.resize(self.arrived.len(), (PortId(9), weir_plane::Ingress::Wire));
        self.pass();
    }
}
