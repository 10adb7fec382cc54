//! NAT64 (RFC 6146): hosts with IPv6 reach IPv4 through the same table, the headers translated by RFC 7915.
//!
//! ```text
//!  outward  v6  inside > prefix + remote    becomes  v4  X' > remote
//!  inward   v4  remote > X'                 becomes  v6  prefix + remote > inside
//! ```
//! The header is written in front of what it carried; going inward it is 20 bytes longer, so that the payload moves back
//! where the port's memory has room behind it, else into a copy. Checksums change by the difference of what they cover.
//! Fragments follow their first one, as those of IPv4 do; the checksum of ICMP covers the addresses on one side alone, so
//! that its fragments wait until all are there.
//!
//! With the well-known prefix, packets of addresses that are not global are dropped, outer addresses of errors among them
//! (RFC 6052, section 3.1). To reach private hosts, configure a prefix of your own, or 64:ff9b:1::/96, which exists for that (RFC
//! 8215).
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::arithmetic_side_effects)]

use weir_packet::checksum::sum;
use weir_packet::fields::be16;
use weir_packet::headers::{ICMP, ICMP6, UDP};
use weir_packet::options::options;

use super::flow::{Flow, clamp, has_ports};
use super::fragments::Fragments;
use super::next::{Next, refuse};
use super::slot::{Inside, Remote};
use super::table::Table;
use super::translation::{Translation, send6};
use crate::address::{bits, words6};
use crate::dir::Dir;
use crate::drops::DropReason;
use crate::extensions;
use crate::frame::{Fragment, Frame};
use crate::icmp::Error;
use crate::prefix::{is_link_local6, is_unicast6};
use crate::stage::Step;
use crate::table::tcp::Segment;

pub(super) mod errors;
pub(super) mod header;
pub(super) mod packet;
pub(super) mod prefix;

use header::{give_checksum, proto4, to_v4};
use prefix::Prefix64;

/// The two ends of an IPv6 frame, if its destination is in the prefix.
#[inline]
pub(super) fn ends(frame: &Frame<'_>, prefix: Prefix64) -> Option<(Inside, Remote)> {
    let (src, dst) = frame.addresses6();
    let ((sport, dport), remote) = (frame.ports(), prefix.extract(dst)?);
    let dport = if frame.proto() == ICMP6 { 0 } else { dport };
    let inside = Inside { address: words6(src), port: sport, proto: proto4(frame.proto()) };
    Some((inside, Remote { address: remote, port: dport }))
}

/// A frame of IPv6 on its way out.
pub(super) fn out(
    table: &mut Table,
    fragments: &mut Fragments,
    step: &mut Step<'_, '_>,
    i: usize,
    (hash, guess): (u32, u32),
) -> Next {
    let frame = &mut step.frames[i];
    let Some(prefix) = table.config.prefix64 else { return Next::On };
    let Some((inside, remote)) = ends(frame, prefix) else { return Next::On };
    let (src, _) = frame.addresses6();
    // With a source of the prefix it would come back as often as its hops allow (RFC 6146, section 3.5); an unspecified, group or
    // link-local source would be translated into a valid one.
    if prefix.extract(src).is_some() || !is_unicast6(src) || is_link_local6(src) {
        return Next::Drop(DropReason::MartianSource);
    }
    if extensions::walk(frame.ip()).is_some_and(|carried| carried.is_routed) {
        // RFC 7915, section 5.1.
        let back = step.back(Dir::Outward);
        step.refuse(i, DropReason::NatRouted, Error::Routed, back);
        return Next::Gone;
    }
    if !prefix.may_stand_for(remote.address) {
        return Next::Drop(DropReason::NatNotGlobal);
    }
    let is_whole = frame.fragment() == Fragment::Whole;
    let has_header = frame.fragment_header().is_some();
    if frame.fragment() == Fragment::Later && has_header {
        return fragments.later(table, step, i, Dir::Outward);
    }
    if table.node.routes6 && frame.ttl() <= 1 {
        // Too big here and behind (RFC 7915, section 5.1): so its sender gets the error from the address that it knows.
        let back = step.back(Dir::Outward);
        step.refuse(i, DropReason::TtlExpired, Error::TimeExceeded, back);
        return Next::Gone;
    }
    if frame.icmp_error() && (is_whole || has_header) {
        return if is_whole {
            errors::error_out(table, step, i, prefix)
        } else {
            errors::gather(table, fragments, step, i, Dir::Outward)
        };
    }
    if !is_whole && !has_header || !has_ports(frame) {
        return Next::Drop(DropReason::NatProtocol);
    }
    let bytes = if frame.fragment() == Fragment::First && frame.proto() == ICMP6 {
        match fragments.gathered(table, step, i, Dir::Outward) {
            Ok(bytes) => bytes,
            Err(next) => return next,
        }
    } else {
        frame.l4().len()
    };
    let frame = &mut step.frames[i];
    let flow = Flow { inside, remote, segment: Segment::of(frame) };
    let number = match table.outbound(step.now, flow, hash, guess) {
        Ok(number) => number,
        Err(reason) => return refuse(table, step, i, reason),
    };
    let slot = &table.sessions[number];
    let (outside, port) = (slot.outside, slot.outside_port);
    let (id, ends) = (table.next_id(outside), (table.outside.address(outside), remote.address));
    if has_header {
        fragments.first64(step, i, Dir::Outward, Translation::ToV4 { ends, id, bytes });
    }
    let frame = &mut step.frames[i];
    frame.set_sport(port);
    if let Err(reason) = to_v4(frame, ends, id, bytes) {
        return Next::Drop(reason);
    }
    if let Some(mss) = table.config.mss {
        clamp(frame, mss);
    }
    if table.is_public(remote.address) { Next::Hairpin } else { Next::On }
}

/// An IPv4 frame for an inside end with IPv6.
pub(super) fn back(
    table: &Table,
    fragments: &mut Fragments,
    step: &mut Step<'_, '_>,
    i: usize,
    inside: Inside,
) -> Next {
    let frame = &mut step.frames[i];
    let prefix = match table.config.prefix_for(frame.addresses4().0) {
        Ok(prefix) => prefix,
        Err(drop) => return Next::Drop(drop),
    };
    if frame.icmp_query() && !frame.is_echo() {
        // ICMPv6 has no such queries (RFC 7915, section 4.2).
        return Next::Drop(DropReason::NatProtocol);
    }
    if is_source_routed(frame) {
        // RFC 7915, section 4.1.
        let back = step.back(Dir::Inward);
        step.refuse(i, DropReason::NatRouted, Error::Routed, back);
        return Next::Gone;
    }
    let frame = &mut step.frames[i];
    let is_whole = frame.fragment() == Fragment::Whole;
    let is_without_sum = frame.proto() == UDP && be16(frame.l4(), 6) == Some(0);
    let mut bytes = frame.l4().len();
    if is_whole && is_without_sum {
        let covered = sum(frame.l4());
        give_checksum(frame, covered, bytes);
    }
    if !is_whole && (frame.proto() == ICMP || is_without_sum) {
        bytes = match fragments.gathered(table, step, i, Dir::Inward) {
            Ok(bytes) => bytes,
            Err(next) => return next,
        };
    }
    let frame = &mut step.frames[i];
    let ends = (prefix.embed(frame.addresses4().0), bits(inside.address));
    let translation = Translation::ToV6 { ends, bytes };
    if !is_whole {
        fragments.first64(step, i, Dir::Inward, translation);
    }
    let frame = &mut step.frames[i];
    frame.set_dport(inside.port);
    if let Some(mss) = table.config.mss {
        clamp(frame, mss);
    }
    send6(table, step, i, translation)
}

/// Whether a packet of IPv4 visits further nodes on its way: loose and strict source routes that are not yet at their end
/// (RFC 791, section 3.1).
fn is_source_routed(frame: &Frame<'_>) -> bool {
    let is_route = |option: &[u8]| matches!(option, [131 | 137, length, pointer, ..] if pointer <= length);
    options(frame.options4()).any(is_route)
}

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "a test's own lengths")]
mod tests {
    use weir_packet::checksum::{self, write_ipv4};

    use super::header::LONGER;
    use super::*;
    use crate::batch::Verdict;
    use crate::config::Config;
    use crate::extensions::FRAGMENT as FRAGMENT_HEADER;
    use crate::frame::{ETHERNET, HEAD_ROOM, IPV4};
    use crate::plane::Plane;
    use crate::scenario::packet as packet_of;

    /// A NAT, and what becomes of packets that come to it in at a port.
    fn nat() -> impl FnMut(u16, &[u8]) -> (Verdict, Vec<u8>) {
        let config = Config::read("n", "nat(public 192.0.2.1, prefix64 2001:db8:2::/96)").expect("a node");
        let mut plane = Plane::new(&config, &[[2; 6], [4; 6]]);
        move |port, ip| {
            let ether_type = if ip[0] >> 4 == 4 { [8, 0] } else { [0x86, 0xdd] };
            let mut buf = [&[0; HEAD_ROOM][..], &[2; 12], &ether_type, ip].concat();
            let end = buf.len();
            buf.resize(end + LONGER, 0);
            let mut batch = crate::Batch::default();
            batch.push(Frame::new(&mut buf, HEAD_ROOM, end, crate::PortId(port)));
            plane.run(crate::Time::from_ms(1), &mut batch);
            let (frame, verdict) = batch.outcome().next().expect("one");
            (verdict, frame.ip().to_vec())
        }
    }

    #[test]
    fn fragments_behind_other_extension_headers_are_translated_too() {
        let mut nat = nat();
        for (place, expected) in [("0+", 0x2000), ("16", 2)] {
            let ends =
                if place == "0+" { ":1000 > [2001:db8:2::c613:9]:53" } else { " > 2001:db8:2::c613:9" };
            let from = if place == "0+" { "[2001:db8:1::2]" } else { "2001:db8:1::2" };
            let line = format!("udp {from}{ends} len 16 whole 32 frag {place} id 9");
            let mut ip = packet_of(&line).unwrap_or_else(|wrong| panic!("{line}: {wrong}"));
            ip.splice(40..40, [FRAGMENT_HEADER, 0, 1, 4, 0, 0, 0, 0]);
            (ip[5], ip[6]) = (ip[5] + 8, 60);
            let (verdict, left) = nat(0, &ip);
            assert_eq!(verdict, Verdict::Out(crate::PortId(1)), "{line}");
            assert_eq!((left[0], be16(&left, 6)), (0x45, Some(expected)), "{line}");
        }
    }

    #[test]
    fn of_queries_only_echo_has_one_of_icmp6() {
        let mut nat = nat();
        let echo = packet_of("icmp echo 2001:db8:1::2 > 2001:db8:2::c613:9 id 7").expect("a packet");
        let (verdict, left) = nat(0, &echo);
        assert_eq!(verdict, Verdict::Out(crate::PortId(1)));
        for (kind, expected) in
            [(0, Verdict::Out(crate::PortId(0))), (14, Verdict::Dropped(DropReason::NatProtocol))]
        {
            let mut back = left.clone();
            let (src, dst) = back[12..20].split_at_mut(4);
            src.swap_with_slice(dst);
            back[20] = kind;
            checksum::write(&mut back[20..], 2, 0);
            assert_eq!(nat(1, &back).0, expected, "type {kind}");
        }
    }

    #[test]
    fn what_is_to_go_by_given_nodes_is_not_translated() {
        let mut nat = nat();
        let routed = Verdict::Dropped(DropReason::NatRouted);
        let out = packet_of("udp [2001:db8:1::2]:1000 > [2001:db8:2::c613:9]:53 len 16").expect("a packet");
        let (verdict, left) = nat(0, &out);
        assert_eq!(verdict, Verdict::Out(crate::PortId(1)));
        for (segments_left, expected) in [(1, routed), (0, Verdict::Out(crate::PortId(1)))] {
            let mut ip = out.clone();
            ip.splice(40..40, [[UDP, 2, 3, segments_left].as_slice(), &[0; 20]].concat());
            (ip[5], ip[6]) = (ip[5] + 24, 43);
            assert_eq!(nat(0, &ip).0, expected, "{segments_left} segments left");
        }
        let mut back = left;
        let (src, dst) = back[12..20].split_at_mut(4);
        src.swap_with_slice(dst);
        let (sport, dport) = back[20..24].split_at_mut(2);
        sport.swap_with_slice(dport);
        for (pointer, expected) in [(4, routed), (8, Verdict::Out(crate::PortId(0)))] {
            let mut ip = back.clone();
            ip.splice(20..20, [131, 7, pointer, 192, 0, 2, 9, 0]);
            (ip[0], ip[3]) = (ip[0] + 2, ip[3] + 8);
            write_ipv4(&mut ip[..28]);
            assert_eq!(nat(1, &ip).0, expected, "a source route at {pointer}");
        }
    }

    #[test]
    fn source_routes_are_found_until_they_end() {
        for (options, is_routed) in [
            (&[131, 7, 4, 192, 0, 2, 1, 0][..], true),
            (&[1, 137, 7, 4, 192, 0, 2, 1], true),
            (&[131, 7, 8, 192, 0, 2, 1, 0], false),
            (&[7, 7, 4, 0, 0, 0, 0, 0], false),
            (&[0, 131, 7, 4, 0, 0, 0, 0], false),
            (&[7, 0, 131, 4, 4, 0, 0, 0], false),
            (&[7, 200, 131, 4], false),
        ] {
            let bytes = IPV4 + options.len() + 8;
            let mut ip = vec![0x45 + options.len() as u8 / 4, 0, 0, bytes as u8, 0, 0, 0, 0, 64, UDP, 0, 0];
            ip.extend([[10, 0, 0, 1], [10, 0, 0, 2]].concat().iter().chain(options).chain(&[0; 8]));
            let header = IPV4 + options.len();
            write_ipv4(&mut ip[..header]);
            let mut buf = [&[0; HEAD_ROOM][..], &[2; 12], &[8, 0], &ip].concat();
            let end = buf.len();
            let mut frame = Frame::new(&mut buf, HEAD_ROOM, end, crate::frame::PortId(0));
            frame.read(ETHERNET - 2).expect("a right frame");
            assert_eq!(is_source_routed(&frame), is_routed, "{options:?}");
        }
    }
}
