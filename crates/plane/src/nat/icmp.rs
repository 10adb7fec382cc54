//! Errors of ICMP through the NAT (RFC 5508): the packet that they quote is turned back into what the receiver of the
//! error once sent. No error keeps a session alive or ends one. Of one in fragments the first is judged by what it quotes, and the
//! others follow it; its checksum, which cannot be verified (REQ-3), changes by the difference, so that a wrong one stays wrong.
//!
//! ```text
//!  inward   ICMP  router > X'      { X':x' > remote }   becomes   router > inside  { inside:i > remote }
//!  outward  ICMP  inside > remote  { remote > inside:i } becomes   X' > remote     { remote > X':x' }
//! ```
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::arithmetic_side_effects)]

use weir_packet::checksum::{fold, sum};
use weir_packet::fields::put;
use weir_packet::headers::{ICMP, TCP, UDP};

use super::flow::is_v4;
use super::fragments::Fragments;
use super::nat64;
use super::next::Next;
use super::outside::{Endpoint, Space};
use super::quoted::{Quote, quote};
use super::slot::{Inside, Kind, Remote};
use super::table::Table;
use crate::address::mapped4;
use crate::dir::Dir;
use crate::drops::DropReason;
use crate::frame::{Fragment, adjust, adjust_transport, delta16, delta32};
use crate::quote::ERROR;
use crate::stage::Step;

/// An end of a quoted packet.
#[derive(Clone, Copy)]
enum End {
    Source,
    Destination,
}

/// Gives an end of the quoted packet another address and port, with all checksums that cover them; that of the quoted
/// transport if it is there.
fn requote(l4: &mut [u8], quote: &Quote, end: End, (address, port): (u32, u16)) {
    let (old, at, port_at) = match (end, quote.proto) {
        (End::Source, ICMP) => (quote.src, 12, 4),
        (End::Destination, ICMP) => (quote.dst, 16, 4),
        (End::Source, _) => (quote.src, 12, 0),
        (End::Destination, _) => (quote.dst, 16, 2),
    };
    let (delta, port_delta) = (delta32(old.0, address), delta16(old.1, port));
    let before = fold(sum(l4));
    let Some((ip, inner)) = l4.split_at_mut_checked(quote.l4_at) else { return };
    let Some(ip) = ip.get_mut(ERROR..) else { return };
    put(ip, at, address.to_be_bytes());
    adjust(ip, 10, delta);
    let mut covered = delta;
    if matches!(quote.proto, TCP | UDP | ICMP) {
        put(inner, port_at, port.to_be_bytes());
        covered = covered.saturating_add(port_delta);
    }
    match quote.proto {
        ICMP => adjust(inner, 2, port_delta),
        proto => adjust_transport(inner, proto, covered),
    }
    let after = fold(sum(l4));
    adjust(l4, 2, delta16(before, after));
}

/// An error from inside (RFC 5508 REQ-5).
pub(super) fn error_out(table: &mut Table, step: &mut Step<'_, '_>, i: usize) -> Next {
    let frame = &mut step.frames[i];
    let quote = match quote(frame) {
        Ok(quote) => quote,
        Err(reason) => return Next::Drop(reason),
    };
    let (address, port) = quote.dst;
    let inside = Inside { address: mapped4(address), port, proto: quote.proto };
    let asked = Remote { address: quote.src.0, port: quote.src.1 };
    let redirected = table.redirected(step.now, &inside, asked);
    if redirected != 0 {
        return error_redirected_out(table, step, i, &quote, redirected);
    }
    let outside = match table.config.pairs.of(address) {
        Some(pair) => Some((pair.outside, port)),
        None => {
            let remote_port = if quote.proto == ICMP { 0 } else { quote.src.1 };
            let remote = Remote { address: quote.src.0, port: remote_port };
            let slot = table.mapping_of(step.now, &inside, remote);
            let endpoint = slot.map(|slot| (slot.outside, slot.outside_port));
            endpoint.map(|(outside, port)| (table.outside.address(outside), port))
        }
    };
    let Some(outside) = outside else { return Next::Drop(DropReason::NatNoMapping) };
    requote(frame.l4_mut(), &quote, End::Destination, outside);
    frame.set_src4(outside.0);
    if frame.fragment() == Fragment::First
        && let Some(number) = table.outside.number(outside.0)
    {
        frame.set_id4(table.next_id(number));
    }
    error_left(table, step, i)
}

/// An error from inside about what a redirect's server said.
fn error_redirected_out(
    table: &Table,
    step: &mut Step<'_, '_>,
    i: usize,
    quote: &Quote,
    number: u32,
) -> Next {
    let frame = &mut step.frames[i];
    let slot = &table.sessions[number];
    let outside = (table.outside.address(slot.outside), slot.outside_port);
    let server = table.server(number);
    requote(frame.l4_mut(), quote, End::Destination, outside);
    requote(frame.l4_mut(), quote, End::Source, server);
    frame.set_src4(outside.0);
    frame.set_dst4(server.0);
    error_left(table, step, i)
}

/// An error on its way out, with its source translated: it may be for the inside.
fn error_left(table: &Table, step: &Step<'_, '_>, i: usize) -> Next {
    if table.is_public(step.frames[i].addresses4().1) { Next::Hairpin } else { Next::On }
}

/// An error from outside (RFC 5508 REQ-4).
pub(super) fn error_back(
    table: &mut Table,
    fragments: &mut Fragments,
    step: &mut Step<'_, '_>,
    i: usize,
) -> Next {
    let frame = &mut step.frames[i];
    let quote = match quote(frame) {
        Ok(quote) => quote,
        Err(reason) => return Next::Drop(reason),
    };
    let (address, port) = quote.src;
    // The server of a redirected session, and the destination that was asked.
    let mut asked = None;
    let inside = match table.config.pairs.at(address) {
        Some(pair) => Some(Inside { address: mapped4(pair.inside), port, proto: quote.proto }),
        None => {
            let outside = table.outside.number(address);
            outside.and_then(|outside| match Space::of(quote.proto) {
                Some(space) => {
                    let endpoint = Endpoint { outside, space, port };
                    let slot = *table.holder(step.now, endpoint)?;
                    if slot.kind() == Kind::Redirected {
                        let server = table.server(table.outside.slot(endpoint));
                        if quote.dst != server {
                            return None;
                        }
                        asked = Some((server.0, slot.remote()));
                    }
                    Some(slot.inside())
                }
                None => {
                    let number = table.portless(step.now, outside, quote.proto, quote.dst.0);
                    (number != 0).then(|| table.sessions[number].inside())
                }
            })
        }
    };
    let inside = match inside {
        Some(inside) if !is_v4(&inside) && frame.fragment() == Fragment::First => {
            return nat64::errors::gather(table, fragments, step, i, Dir::Inward);
        }
        Some(inside) if !is_v4(&inside) => return nat64::errors::error_back(table, step, i, &quote, inside),
        inside => inside.map(|inside| (inside.address[3], inside.port)),
    };
    let Some(inside) = inside else { return Next::Drop(DropReason::NatNoMapping) };
    requote(frame.l4_mut(), &quote, End::Source, inside);
    frame.set_dst4(inside.0);
    if let Some((server, asked)) = asked {
        requote(frame.l4_mut(), &quote, End::Destination, (asked.address, asked.port));
        if frame.addresses4().0 == server {
            frame.set_src4(asked.address);
        }
    }
    Next::On
}
