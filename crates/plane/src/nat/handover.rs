//! One NAT of several threads: which of its frames go on in another one, see `table/steer.rs`.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use super::table::Table;
use crate::dir::{Dir, EntryPoint};
use crate::frame::Frame;
use crate::stage::Step;
use crate::threads::{Handover, Ingress};

/// Where a frame of the stage's own enters, if its destination is a public address.
pub(super) fn hairpin_entry(table: &Table, step: &Step<'_, '_>, frame: &Frame<'_>) -> EntryPoint {
    match table.owner_of_destination(frame) {
        to if to != table.share.thread && table.share.of > 1 => {
            EntryPoint::Hand(Handover { to, ingress: Ingress::Turned(table.number()) })
        }
        _ => step.again(Dir::Inward),
    }
}

/// Asks another thread whether there is a mapping for a frame to an address of the node itself, if the frame would belong to that
/// thread.
pub(super) fn ask_other(table: &Table, step: &mut Step<'_, '_>, i: usize) -> bool {
    let owner = table.owner_of_destination(&step.frames[i]);
    let is_other = owner != table.share.thread;
    if is_other {
        step.hand(i, owner, Ingress::Asks(table.number()));
    }
    is_other
}
