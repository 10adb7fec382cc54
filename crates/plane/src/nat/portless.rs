//! Protocols without ports, as GRE and ESP: one host at a time for each public address and remote end.
//!
//! ```text
//! inside, protocol, remote  <->  outside address, protocol, remote        found by either side
//! ```
//! A second host with the same public address that talks to the same remote end is refused: the receiver of an answer would not
//! be known. An authentication header covers the inside address: its receiver would drop a translated packet.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use weir_packet::headers::AH;

use super::next::{Next, refuse};
use super::slot::Inside;
use super::table::Table;
use crate::address::mapped4;
use crate::drops::DropReason;
use crate::stage::Step;

/// A packet without ports on its way out.
pub(super) fn out(table: &mut Table, step: &mut Step<'_, '_>, i: usize) -> Next {
    let frame = &mut step.frames[i];
    let (src, dst) = frame.addresses4();
    if table.is_public(dst) {
        return if table.node.local.contains(&dst) { Next::On } else { Next::Drop(DropReason::NatProtocol) };
    }
    if frame.proto() == AH {
        return Next::Drop(DropReason::NatAuthenticated);
    }
    let inside = Inside { address: mapped4(src), port: 0, proto: frame.proto() };
    let number = match table.outbound_portless(step.now, inside, dst) {
        Ok(number) => number,
        Err(reason) => return refuse(table, step, i, reason),
    };
    let outside = table.sessions[number].outside;
    frame.set_src4(table.outside.address(outside));
    if !frame.keeps_whole() {
        frame.set_id4(table.next_id(outside));
    }
    Next::On
}

/// A packet without ports for a public address.
pub(super) fn back(table: &mut Table, step: &mut Step<'_, '_>, i: usize) -> Next {
    let frame = &mut step.frames[i];
    let (src, dst) = frame.addresses4();
    let outside = table.outside.number(dst);
    let number = outside.map_or(0, |outside| table.portless(step.now, outside, frame.proto(), src));
    if number == 0 {
        return if table.node.local.contains(&dst) { Next::On } else { Next::Drop(DropReason::NatNoMapping) };
    }
    let [_, _, _, inside] = table.sessions[number].inside().address;
    frame.set_dst4(inside);
    Next::On
}
