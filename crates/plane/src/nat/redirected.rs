//! Packets between a redirected host and the server, see `redirect.rs`.

use super::flow::{Arrival, clamp, flow, remote};
use super::next::{Next, refuse};
use super::rewrite::translate_source;
use super::slot::Inside;
use super::table::{Lookup, Table};
use crate::stage::Step;
use crate::table::tcp::Segment;

/// A packet with ports on its way out, if it is redirected.
pub(super) fn out(table: &mut Table, step: &mut Step<'_, '_>, i: usize) -> Option<Next> {
    let flow = flow(&step.frames[i]);
    let (asked, in_reach) = (flow.remote.address, table.reach.holds(&flow));
    if !in_reach && !table.were_redirects || table.is_public(asked) || table.node.local.contains(&asked) {
        return None;
    }
    let lookup = if in_reach { Lookup::OrBegin } else { Lookup::Known };
    let number = match table.outbound_redirected(step.now, &flow, lookup) {
        Ok(number) => number?,
        Err(reason) => return Some(refuse(table, step, i, reason)),
    };
    let (address, port) = table.server(number);
    let frame = &mut step.frames[i];
    frame.set_destination4(address, port);
    translate_source(table, frame, number);
    Some(if table.is_public(address) { Next::Hairpin } else { Next::On })
}

/// A packet for the port of a redirected session.
pub(super) fn back(table: &mut Table, step: &mut Step<'_, '_>, i: usize, number: u32) -> Next {
    let endpoint = table.endpoint(&step.frames[i]).expect("a session has it");
    let frame = &mut step.frames[i];
    let (remote, segment) = (remote(frame), Segment::of(frame));
    let arrival = Arrival { endpoint, proto: frame.proto(), remote, segment };
    match table.inbound_redirected(step.now, &arrival, number) {
        Ok(asked) => {
            let Inside { address: [_, _, _, inside], port, .. } = table.sessions[number].inside();
            frame.set_source4(asked.address, asked.port);
            frame.set_destination4(inside, port);
            if let Some(mss) = table.config.mss {
                clamp(frame, mss);
            }
            Next::On
        }
        Err(reason) => Next::Drop(reason),
    }
}
