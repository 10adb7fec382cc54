//! A SYN from outside without a mapping (RFC 5382 REQ-4): its sender is informed after six seconds, not before, because the
//! inside host may be about to send its own SYN to the same end (simultaneous open); then it is forgotten.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::time::Duration;

use super::flow::Arrival;
use super::table::Table;
use super::words::Manner;
use crate::dir::Dir;
use crate::frame::{ETHERNET, Frame, HEAD_ROOM, PortId};
use crate::icmp::Error;
use crate::stage::Step;
use crate::tags::Tags;
use crate::time::Time;

/// How long the answer waits.
const PATIENCE: Duration = Duration::from_secs(6);
/// Answers that wait, at most; further SYNs get none.
const MOST: usize = 256;
/// Longest SYN that is answered.
const MOST_BYTES: usize = 256;

#[derive(Debug)]
struct Waiting {
    at: Time,
    arrival: Arrival,
    port: PortId,
    tags: Tags,
    /// The frame without tags, with room in front.
    buf: Vec<u8>,
}

/// SYNs that wait, in the order of time.
#[derive(Debug, Default)]
pub(super) struct Unsolicited(VecDeque<Waiting>);

impl Unsolicited {
    /// When the first one is to be answered.
    pub(super) fn due(&self) -> Option<Time> {
        self.0.front().map(|waiting| waiting.at + PATIENCE + Duration::from_nanos(1))
    }

    /// Stores what the answer needs.
    pub(super) fn note(&mut self, frame: &Frame<'_>, at: Time, arrival: Arrival) {
        if self.0.len() < MOST && frame.ip().len() <= MOST_BYTES {
            let Frame { port, tags, .. } = *frame;
            self.0.push_back(Waiting { at, arrival, port, tags, buf: frame.copy() });
        }
    }

    /// Answers the SYNs that waited long enough, unless the inside host has begun a session meanwhile.
    pub(super) fn answer(&mut self, table: &mut Table, step: &mut Step<'_, '_>) {
        let now = step.now;
        while let Some(mut waiting) = self.0.pop_front_if(|waiting| now - waiting.at > PATIENCE) {
            let is_forgotten = table.config.unsolicited == Manner::Silent
                || table.has_session(step.now, waiting.arrival.endpoint, waiting.arrival.remote);
            if is_forgotten {
                continue;
            }
            let from = Ipv4Addr::from(table.outside.address(waiting.arrival.endpoint.outside));
            let end = waiting.buf.len();
            let mut frame = Frame::new(&mut waiting.buf, HEAD_ROOM, end, waiting.port);
            frame.tags = waiting.tags;
            // It was readable when it came.
            let is_read = frame.read(ETHERNET - 2).is_ok();
            if is_read {
                let back = step.back(Dir::Inward);
                step.outbox.report_from(from.into(), now, &frame, Error::NoPort, back);
            }
        }
    }
}
