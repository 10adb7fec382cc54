//! What a rule asks of the subscriber of a frame: the names of its plan and group, and its state, see `access`.
//!
//! ```text
//! first rule by the trees > its subscriber fits > it holds
//!                         > not                 > as if it did not hold: from the next rule on again
//! ```
//! The subscriber of a frame from subscribers is its sender, that of a frame on its way to them is the one that has its destination.
//! Such rules are tried one after the other, so that many of them in front of the others cost each frame a look.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;

use crate::access::{AccessState, Subscribers};
use crate::dir::Dir;
use crate::frame::Frame;

/// What is asked; where nothing is named, any.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Who {
    pub(super) plan: Option<Arc<str>>,
    pub(super) group: Option<Arc<str>>,
    /// One of these; any, where there is none.
    pub(super) states: Vec<AccessState>,
}

impl Who {
    /// Whether it asks for anything.
    pub(super) fn asks(&self) -> bool {
        *self != Who::default()
    }

    /// Whether the subscriber of a frame on its way in `dir` fits.
    #[cold]
    pub(super) fn fits(&self, frame: &Frame<'_>, dir: Dir, subscribers: &Subscribers) -> bool {
        let subscriber = match dir {
            Dir::Inward if frame.subscriber.is_none() => subscribers.lookup_to(frame.destination()),
            Dir::Outward | Dir::Inward => frame.subscriber,
        };
        let Some((state, labels)) = subscribers.standing(subscriber) else { return false };
        let is_named = |asked: &Option<Arc<str>>, name: &Option<Arc<str>>| asked.is_none() || asked == name;
        is_named(&self.plan, &labels.plan)
            && is_named(&self.group, &labels.group)
            && (self.states.is_empty() || self.states.contains(&state))
    }
}
