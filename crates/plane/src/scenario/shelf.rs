//! The frames that a plane in virtual time keeps, in vectors.

use crate::batch::{BATCH, Batch, Verdict};
use crate::frame::{Frame, HEAD_ROOM, PortId};
use crate::kept::{Emitted, Shelf, Ticket};
use crate::plane::Plane;
use crate::time::Time;

/// A frame in a vector, with head room in front, and the port that it came in by.
#[derive(Debug)]
pub struct Vector {
    port: PortId,
    buf: Vec<u8>,
}

impl Shelf<Vector> {
    /// Sets the frame of a batch aside that a plane keeps.
    pub fn copy(&mut self, ticket: Ticket, frame: &Frame<'_>) {
        let buf = [&[0; HEAD_ROOM], frame.bytes()].concat();
        self.put(ticket, Vector { port: frame.port, buf });
    }

    /// Brings back all that a plane emits; returns what became of each frame, with the port that it came in by and its bytes.
    pub fn resume(&mut self, plane: &mut Plane, now: Time) -> Vec<(Verdict, PortId, Vec<u8>)> {
        let mut outcome = Vec::new();
        loop {
            let mut back = Vec::new();
            while let Some(emitted) = (back.len() < BATCH).then(|| plane.next_emitted()).flatten() {
                match emitted {
                    Emitted::Free(ticket) => _ = self.take(ticket),
                    Emitted::Back(ticket) => back.push((ticket, self.take(ticket))),
                }
            }
            if back.is_empty() {
                return outcome;
            }
            let mut batch = Batch::default();
            for (ticket, Vector { port, buf }) in &mut back {
                let end = buf.len();
                batch.push_kept(Frame::new(buf, HEAD_ROOM, end, *port), *ticket);
            }
            plane.resume(now, &mut batch);
            for (frame, verdict) in batch.outcome() {
                match verdict {
                    Verdict::Kept(ticket) => self.copy(ticket, frame),
                    verdict => outcome.push((verdict, frame.port, frame.bytes().to_vec())),
                }
            }
        }
    }
}
