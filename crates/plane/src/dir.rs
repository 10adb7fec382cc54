//! The direction of a frame through the stages, and where it enters them.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::frame::PortId;
use crate::threads::Handover;

/// The direction in which a frame passes the stages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Dir {
    /// From the left end of the text to the right: from the inside out.
    Outward,
    /// From the right end to the left.
    Inward,
}

impl Dir {
    /// The other direction.
    pub(crate) fn opposite(self) -> Dir {
        match self {
            Dir::Outward => Dir::Inward,
            Dir::Inward => Dir::Outward,
        }
    }
}

/// Where a frame enters the pipeline. The frame came in by a port, was kept by a stage, or is one of the node's own. Stages are
/// numbered as in the present text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryPoint {
    /// Before all stages of its direction.
    Begin(Dir),
    /// Before the stage `above`, on the way to the right; behind all stages if that is their number.
    Outward { above: usize },
    /// Behind the stage `below`, on the way to the left: the first stage it meets is the one before.
    Inward { below: usize },
    /// It is whole and leaves by this port as it is.
    Leave(PortId),
    /// It goes on in another thread.
    Hand(Handover),
}
