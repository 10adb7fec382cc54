//! Rewrites the frames of a mapping.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use super::flow::clamp;
use super::table::Table;
use crate::frame::{Fragment, Frame};

/// Rewrites the source of a frame to the outside end of a mapping. Each frame comes here: a call would cost some cycles.
#[inline(always)]
pub(super) fn translate_source(table: &mut Table, frame: &mut Frame<'_>, number: u32) {
    let slot = &table.sessions[number];
    let (outside, port) = (slot.outside, slot.outside_port);
    frame.set_source4(table.outside.address(outside), port);
    if !frame.keeps_whole() || frame.fragment() != Fragment::Whole {
        frame.set_id4(table.next_id(outside));
    }
    if let Some(mss) = table.config.mss {
        clamp(frame, mss);
    }
}
