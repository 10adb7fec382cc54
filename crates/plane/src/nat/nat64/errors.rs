//! Errors of ICMP: another type, and the quoted packet translated as well (RFC 7915, sections 4.2, 4.3, 5.2 and 5.3).
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::arithmetic_side_effects)]

use weir_packet::checksum::{self, fold, pseudo_header, sum};
use weir_packet::fields::{be16, put};
use weir_packet::headers::{ICMP, ICMP6};

use super::header::{MOST_V6, header4, header6, proto4, readdress, traffic};
use super::packet::packet;
use super::prefix::Prefix64;
use crate::address::{bits, words6};
use crate::dir::Dir;
use crate::drops::DropReason;
use crate::extensions;
use crate::frame::{IPV4, IPV6, adjust, delta16};
use crate::nat::fragments::Fragments;
use crate::nat::next::Next;
use crate::nat::quoted::unclear;
use crate::nat::slot::{Inside, Remote};
use crate::nat::table::Table;
use crate::nat::translation::send_on;
use crate::quote::{self, ERROR, Quote};
use crate::stage::Mtus;
use crate::stage::Step;

/// Bytes that an error of IPv4 quotes at most.
const MOST_QUOTED_V4: usize = 548;

/// The first fragment of an error, whose checksum covers all of them: it comes once more when they are in one fragment.
pub(in crate::nat) fn gather(
    table: &Table,
    fragments: &mut Fragments,
    step: &mut Step<'_, '_>,
    i: usize,
    dir: Dir,
) -> Next {
    match fragments.gathered(table, step, i, dir) {
        Ok(_) => Next::Drop(DropReason::NatFragment),
        Err(next) => next,
    }
}

/// An error of ICMPv6 from inside (RFC 7915, section 5.2).
pub(super) fn error_out(table: &mut Table, step: &mut Step<'_, '_>, i: usize, prefix: Prefix64) -> Next {
    let frame = &step.frames[i];
    let (_, dst) = frame.addresses6();
    let quote = match quote::v6(frame) {
        Ok(quote) if quote.is_for(dst) => quote,
        Ok(_) => return Next::Drop(DropReason::NatBadIcmp),
        Err(why) => return Next::Drop(unclear(why)),
    };
    let (Some(target), Some(remote)) = (prefix.extract(dst), prefix.extract(quote.src.0)) else {
        return Next::Drop(DropReason::NatNoMapping);
    };
    let proto = proto4(quote.proto);
    let inside = Inside { address: words6(quote.dst.0), port: quote.dst.1, proto };
    let remote_end = Remote { address: remote, port: if proto == ICMP { 0 } else { quote.src.1 } };
    let slot = table.mapping_of(step.now, &inside, remote_end);
    let Some((outside, port)) = slot.map(|slot| (slot.outside, slot.outside_port)) else {
        return Next::Drop(DropReason::NatNoMapping);
    };
    let public = table.outside.address(outside);
    let Some(icmp) = error4(frame.l4(), &quote, table.node.mtus, (remote, (public, port))) else {
        return Next::Drop(DropReason::NatProtocol);
    };
    // Whichever inside host it is from, its source is the address of the mapping.
    let ip = header4(traffic(frame.ip()), icmp.len(), ICMP, (0, 0x4000), (public, target));
    let buf = packet(frame, [8, 0], &[&ip, &icmp]);
    send_on(table, step, i, buf)
}

/// An error of ICMP about what a host with IPv6 sent (RFC 7915, section 4.2): the source of the packet that it quotes
/// is the outside end of `inside`.
pub(in crate::nat) fn error_back(
    table: &Table,
    step: &mut Step<'_, '_>,
    i: usize,
    quote: &Quote<u32>,
    inside: Inside,
) -> Next {
    let frame = &step.frames[i];
    let prefix = match table.config.prefix_for(frame.addresses4().0) {
        Ok(prefix) => prefix,
        Err(drop) => return Next::Drop(drop),
    };
    let host = bits(inside.address);
    let ends = ((host, inside.port), prefix.embed(quote.dst.0));
    let Some(mut icmp) = error6(frame.l4(), quote, table.node.mtus, ends) else {
        return Next::Drop(DropReason::NatProtocol);
    };
    let ends = (prefix.embed(frame.addresses4().0), host);
    let ip = header6(traffic(frame.ip()), icmp.len(), ICMP6, ends);
    let pseudo = pseudo_header(&ip[8..], ICMP6, icmp.len());
    checksum::write(&mut icmp, 2, pseudo);
    let buf = packet(frame, [0x86, 0xdd], &[&ip, &icmp]);
    send_on(table, step, i, buf)
}

#[derive(Clone, Copy)]
enum End {
    Source,
    Destination,
}

/// The quoted transport with the port that the receiver of the error knows. Its checksum is corrected where it covers other
/// addresses; these are their sums.
fn quote_port(inner: &mut [u8], proto: u8, (end, port): (End, u16), (old, new): (u64, u64)) {
    let at = match (proto, end) {
        (ICMP, _) => 4,
        (_, End::Source) => 0,
        (_, End::Destination) => 2,
    };
    let was = be16(inner, at).unwrap_or_default();
    put(inner, at, port.to_be_bytes());
    if proto != ICMP {
        return readdress(inner, proto, old + u64::from(was), new + u64::from(port));
    }
    let Some(kind) = inner.first_mut() else { return };
    let was_kind = *kind;
    *kind = match was_kind {
        8 => 128,
        0 => 129,
        128 => 8,
        _ => 0,
    };
    let [was_kind, is_kind] = [was_kind, *kind].map(|kind| u64::from(kind) << 8);
    let (was, is) = (old + was_kind + u64::from(was), new + is_kind + u64::from(port));
    adjust(inner, 2, delta16(fold(was), fold(is)));
}

/// MTUs that are common (RFC 1191, section 7), those that an error of IPv6 may name.
const PLATEAUS: [u16; 7] = [65_535, 32_000, 17_914, 8_166, 4_352, 2_002, 1_492];

/// The error of IPv6, without checksum, for one of IPv4: what it quotes was sent from the first of these ends to the second.
/// `None`: IPv6 has no such error.
fn error6(
    l4: &[u8],
    quote: &Quote<u32>,
    mtus: Mtus,
    ((host, port), remote): ((u128, u16), u128),
) -> Option<Vec<u8>> {
    let (inner, ip) = (l4.get(quote.l4_at..)?, l4.get(ERROR..quote.l4_at)?);
    let total = be16(ip, 2)?;
    let (kind, code, word) = kind6(*l4.first_chunk()?, total, mtus)?;
    let inner_bytes = usize::from(total).saturating_sub(ip.len());
    let proto6 = if quote.proto == ICMP { ICMP6 } else { quote.proto };
    let header = header6(traffic(ip), inner_bytes, proto6, (host, remote));
    let sums = match quote.proto {
        ICMP => (0, pseudo_header(&header[8..], ICMP6, inner_bytes)),
        _ => (sum(ip.get(12..IPV4)?), sum(&header[8..])),
    };
    let mut inner = inner.to_vec();
    quote_port(&mut inner, quote.proto, (End::Source, port), sums);
    let mut icmp = [&[kind, code, 0, 0][..], &word.to_be_bytes(), &header, &inner].concat();
    icmp.truncate(MOST_V6 - IPV6);
    Some(icmp)
}

/// The error of IPv4 for one of IPv6: what it quotes was sent from the first of these ends to the second. `None`: IPv4 has no
/// such error.
fn error4(
    l4: &[u8],
    quote: &Quote<u128>,
    mtus: Mtus,
    (remote, (public, port)): (u32, (u32, u16)),
) -> Option<Vec<u8>> {
    let (kind, code, word) = kind4(*l4.first_chunk()?, mtus)?;
    let (ip, inner) = (l4.get(ERROR..)?, l4.get(quote.l4_at..)?);
    let proto = proto4(quote.proto);
    // Extension headers are not translated (RFC 7915, section 5.3), but for that of fragments.
    let extensions = quote.l4_at.saturating_sub(ERROR + IPV6);
    let quoted_bytes = usize::from(be16(ip, 4)?).saturating_sub(extensions);
    let fragment = match extensions::walk(ip).and_then(|carried| carried.fragment) {
        Some(header) => (header.id as u16, header.frag_off()),
        None => (0, 0x4000),
    };
    let header = header4(traffic(ip), quoted_bytes, proto, fragment, (remote, public));
    let addresses = ip.get(8..IPV6)?;
    let sums = match proto {
        ICMP => (pseudo_header(addresses, ICMP6, quoted_bytes), 0),
        _ => (sum(addresses), sum(&header[12..])),
    };
    let mut inner = inner.to_vec();
    quote_port(&mut inner, proto, (End::Destination, port), sums);
    let mut icmp = [&[kind, code, 0, 0][..], &word.to_be_bytes(), &header, &inner].concat();
    icmp.truncate(ERROR + MOST_QUOTED_V4);
    checksum::write(&mut icmp, 2, 0);
    Some(icmp)
}

/// Type, code and second word of an IPv6 error for an IPv4 error with this header; also the length of the quoted packet.
fn kind6(
    [kind, code, _, _, pointer, _, c, d]: [u8; ERROR],
    refused: u16,
    mtus: Mtus,
) -> Option<(u8, u8, u32)> {
    Some(match (kind, code) {
        (3, 2) => (4, 1, 6),
        (3, 3) => (1, 4, 0),
        (3, 4) => {
            // A router that names no MTU is asked for less than what it refused (RFC 1191, section 7.1).
            let mtu = match u16::from_be_bytes([c, d]) {
                0 => PLATEAUS.into_iter().find(|&plateau| plateau < refused).map_or(0, u32::from),
                mtu => mtu.into(),
            };
            // Of the links of the node the shorter one counts, too (RFC 7915, section 4.2).
            let here = u32::from(mtus.inside).min(u32::from(mtus.outside).saturating_add(20));
            (2, 0, mtu.saturating_add(20).min(here).max(1280))
        }
        (3, 9 | 10 | 13 | 15) => (1, 1, 0),
        (3, 0 | 1 | 5..=8 | 11 | 12) => (1, 0, 0),
        (11, code) => (3, code, 0),
        (12, 0 | 2) => {
            // Into the header, byte by byte of that of IPv4.
            let pointer = match pointer {
                0 | 1 => pointer.into(),
                2 | 3 => 4,
                8 => 7,
                9 => 6,
                12..16 => 8,
                16..20 => 24,
                _ => return None,
            };
            (4, 0, pointer)
        }
        _ => return None,
    })
}

/// Type, code and second word of an IPv4 error for an IPv6 error with this header.
fn kind4([kind, code, _, _, a, b, c, d]: [u8; ERROR], mtus: Mtus) -> Option<(u8, u8, u32)> {
    let word = u32::from_be_bytes([a, b, c, d]);
    Some(match (kind, code) {
        (1, 0 | 2 | 3) => (3, 1, 0),
        (1, 1) => (3, 10, 0),
        (1, 4) => (3, 3, 0),
        (2, _) => {
            // RFC 7915, section 5.2.
            let here = mtus.outside.min(mtus.inside.saturating_sub(20));
            (3, 4, word.saturating_sub(20).min(here.into()))
        }
        (3, code) => (11, code, 0),
        (4, 1) => (3, 2, 0),
        (4, 0) => {
            let pointer = match word {
                0 | 1 => word,
                4 | 5 => 2,
                6 => 9,
                7 => 8,
                8..24 => 12,
                24..40 => 16,
                _ => return None,
            };
            (12, 0, pointer << 24)
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quoted_echo_has_the_checksum_of_its_kind_of_ip() {
        let ends6 = [7; 32];
        let ping = |kind: u8, id: u16, pseudo: u64| {
            let mut icmp = [&[kind, 0, 0, 0][..], &id.to_be_bytes(), &[0, 1, 9, 9, 9]].concat();
            let checksum = !fold(sum(&icmp) + pseudo);
            icmp[2..4].copy_from_slice(&checksum.to_be_bytes());
            icmp
        };
        let (of6, of4) = (ping(129, 7, pseudo_header(&ends6, ICMP6, 11)), ping(0, 5000, 0));
        let mut quoted = of6.clone();
        quote_port(&mut quoted, ICMP, (End::Destination, 5000), (pseudo_header(&ends6, ICMP6, 11), 0));
        assert_eq!(quoted, of4);
        quote_port(&mut quoted, ICMP, (End::Source, 7), (0, pseudo_header(&ends6, ICMP6, 11)));
        assert_eq!(quoted, of6);
    }
}
