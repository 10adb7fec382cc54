//! Sessions that the node does not take: its table is full, another session is in the way, or it has another text.
//!
//! ```text
//! refused > never in the node > ends at once, and its subscriber has none for a while: it does not begin and end again and again
//!         > was in the node   > has the grace: a node with another text may have that of before soon > ends
//! ```
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::collections::HashMap;
use std::time::Duration;

use super::accepted::Refusal;
use super::{Bng, Deadline, Outputs};
use crate::drops::DropReason;
use crate::io::Lacks;
use crate::session::{EndCause, SessionId};
use crate::subscribers::Index;

/// How long a subscriber gets no session after the node has refused one.
const HELD_OFF: Duration = Duration::from_secs(10);

/// A session that was in the node, and that the node does not take.
#[derive(Debug)]
struct Refused {
    until: Duration,
    cause: EndCause,
    why: Box<str>,
}

/// Until when a subscriber gets no session, and why.
#[derive(Debug)]
struct HeldOff {
    until: Duration,
    why: Box<str>,
}

/// What the node does not take.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    sessions: HashMap<SessionId, Refused>,
    subscribers: HashMap<Index, HeldOff>,
}

impl Bng {
    /// The node does not have a session, or has it as it was.
    pub(super) fn refused_by_node(&mut self, session: SessionId, lacks: Lacks, why: &str, out: &mut Outputs) {
        let Some(index) = self.sessions.get(&session).copied() else { return };
        let (now, grace) = (self.now.at, self.config.grace);
        let Some(online) = self.online_mut(index) else { return };
        online.in_node = None;
        let was_in_node = online.was_in_node;
        let cause = match lacks {
            Lacks::Port => EndCause::PortRemoved,
            Lacks::Place => EndCause::Refused,
        };
        if !was_in_node {
            let held_off = HeldOff { until: now + HELD_OFF, why: why.into() };
            self.refusals.subscribers.insert(index, held_off);
            return self.end_refused(index, cause, why, out);
        }
        let until = self.refusals.sessions.get(&session).map_or(now + grace, |before| before.until);
        self.refusals.sessions.insert(session, Refused { until, cause, why: why.into() });
        self.deadlines.insert((until, Deadline::Refusal(session)));
    }

    /// A session ends, unless the node has taken it meanwhile.
    pub(super) fn refusal_is_due(&mut self, session: SessionId, out: &mut Outputs) {
        let Some(Refused { cause, why, .. }) = self.refusals.sessions.remove(&session) else { return };
        let Some(index) = self.sessions.get(&session).copied() else { return };
        if self.online_mut(index).is_some_and(|online| online.in_node.is_none()) {
            self.end_refused(index, cause, &why, out);
        }
    }

    fn end_refused(&mut self, index: Index, cause: EndCause, why: &str, out: &mut Outputs) {
        let service = self.subscribers.get(index).and_then(|entry| self.add_session(entry));
        let Some(online) = self.online_mut(index) else { return };
        // The node may have it as it was before a change: it is asked to remove it, and for its counters.
        online.in_node = service.map(|add| add.service);
        let device = online.session.lease.device.clone();
        self.end(index, cause, out);
        self.traces.explain(&device.line, device.mac, why);
    }

    /// Whether a subscriber may have a session.
    ///
    /// # Errors
    /// The node has just refused one.
    pub(super) fn check_refusals(&mut self, index: Index) -> Result<(), Refusal> {
        let now = self.now.at;
        let Some(held_off) = self.refusals.subscribers.get(&index) else { return Ok(()) };
        if held_off.until > now {
            return Err(Refusal { reason: DropReason::NodeRefused, message: held_off.why.to_string() });
        }
        self.refusals.subscribers.remove(&index);
        Ok(())
    }

    /// A subscriber is removed: its number may be another one's.
    pub(super) fn forget_held_off(&mut self, index: Index) {
        self.refusals.subscribers.remove(&index);
    }

    /// A session has ended.
    pub(super) fn forget_refusal(&mut self, session: SessionId) {
        if let Some(Refused { until, .. }) = self.refusals.sessions.remove(&session) {
            self.deadlines.remove(&(until, Deadline::Refusal(session)));
        }
    }
}
