//! The node's own frames: they pass the pipeline in batches of their own, and leave.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use super::{Plane, enter};
use crate::batch::{BATCH, Batch, Verdict};
use crate::drops::DropReason;
use crate::filter::Filter;
use crate::frame::{Frame, HEAD_ROOM, PortId};
use crate::kept::Originated;
use crate::local::Punt;
use crate::pipeline::Entries;
use crate::threads::Handover;
use crate::time::Time;

/// A frame of the node's own that leaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Departure {
    /// Where it goes.
    pub to: Leave,
    /// The frame, Ethernet header first.
    pub bytes: Vec<u8>,
}

/// Where a frame of the node's own goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leave {
    /// By this port.
    Port(PortId),
    /// To the machine that the node runs on, for this reason, as if it had come in by this port.
    Machine(Punt, PortId),
    /// To another thread of the node; it counts as come in by this port.
    Thread(Handover, PortId),
}

impl Plane {
    /// Frames of the node's own that leave since the last call.
    pub fn departures(&mut self) -> impl Iterator<Item = Departure> {
        self.departures.drain(..)
    }

    /// Runs the node's own frames through the pipeline until there are no more.
    pub(crate) fn run_outbox(&mut self, now: Time) {
        while !self.outbox.waiting.is_empty() {
            let mut waiting: Vec<Originated> =
                self.outbox.waiting.drain(..self.outbox.waiting.len().min(BATCH)).collect();
            let mut batch = Batch::default();
            let mut entries = Entries::default();
            for (i, Originated { then, known, buf }) in waiting.iter_mut().enumerate() {
                let end = buf.len();
                batch.push(Frame::new(buf, HEAD_ROOM, end, known.port));
                match self.go_on(now, &mut batch[i], known, *then) {
                    Ok(entry) => enter(&mut entries, &batch, i, entry),
                    Err(verdict) => self.decide(&mut batch, i, verdict),
                }
            }
            self.outbox.kept.is_originated = true;
            self.pass(now, &mut batch, entries);
            self.outbox.kept.is_originated = false;
            let leave =
                |(frame, verdict): (&Frame<'_>, Verdict)| (verdict, frame.port, frame.bytes().to_vec());
            let outcome: Vec<_> = batch.outcome().map(leave).collect();
            for (verdict, port, bytes) in outcome {
                let to = match verdict {
                    Verdict::Out(port) => Leave::Port(port),
                    Verdict::Punted(punt) => Leave::Machine(punt, port),
                    Verdict::Handed(to) => Leave::Thread(to, port),
                    Verdict::Kept(ticket) => {
                        self.outbox.set_aside(ticket, &bytes);
                        continue;
                    }
                    _ => continue,
                };
                self.departures.push(Departure { to, bytes });
            }
        }
        self.pipeline.filters_mut().for_each(Filter::forget_refused);
        let refused = std::mem::take(&mut self.outbox.refused);
        (0..refused).for_each(|_| self.accounting.drops.count(DropReason::OriginatedLimit));
        let gave_way = std::mem::take(&mut self.outbox.gave_way);
        (0..gave_way).for_each(|_| self.accounting.drops.count(DropReason::FragmentLimit));
        let lost = std::mem::take(&mut self.outbox.lost);
        (0..lost).for_each(|_| self.accounting.drops.count(DropReason::Panic));
    }
}
