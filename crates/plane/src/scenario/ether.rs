//! Packets of scenarios in frames of another kind than one with the packet's own EtherType.
//!
//! | `ether` | frame |
//! |---|---|
//! | `priority` | with a tag that names a priority and no VLAN (IEEE 802.1Q, section 9.6) |
//! | `pppoe` | in a session of PPPoE (RFC 2516) |
//! | `lcp` | likewise, but said to be a message of LCP |
//! | `padi` | said to be a message of PPPoE discovery |
//! | `mpls` | with one label (RFC 3032) |
//! | `snap` | with a length and a SNAP header (RFC 1042) |
//! | `0x88cc` | with this EtherType, or this length, in front of the packet |
//!
//! `tags 100.5`, `tags 7` or `tags untagged` say the line of a frame, where its port has several; else it is the first one. `priority 5` is
//! that of these tags.
//!
//! Where targets exchange packets such a frame is a byte of zero, which begins no packet of IP, and what stands behind the Ethernet
//! addresses.

use super::fields::Fields;
use super::wire;
use crate::tags::Tags;

/// PPP's number of IPv4 and IPv6, and the EtherType of either.
const VERSIONS: [([u8; 2], [u8; 2]); 2] = [([0x00, 0x21], [0x08, 0x00]), ([0x00, 0x57], [0x86, 0xdd])];
const PRIORITY: [u8; 4] = [0x81, 0x00, 0xe0, 0x00];
const LCP: [u8; 2] = [0xc0, 0x21];
const PADI: [u8; 6] = [0x88, 0x63, 0x11, 0x09, 0x00, 0x00];
const PPPOE: [u8; 6] = [0x88, 0x64, 0x11, 0x00, 0x00, 0x07];
/// Label 16, the last one, 64 hops to live.
const MPLS: [u8; 6] = [0x88, 0x47, 0x00, 0x01, 0x01, 0x40];
const SNAP: [u8; 6] = [0xaa, 0xaa, 0x03, 0x00, 0x00, 0x00];

/// Whether this is a frame and no packet of IP.
pub(super) fn is_frame(packet: &[u8]) -> bool {
    packet.first() == Some(&0)
}

/// The frame of a packet, from the byte of zero on, or the packet itself.
pub(super) fn packet(fields: &Fields) -> Result<Vec<u8>, String> {
    let packet = wire::packet(fields)?;
    let (ppp, own) = VERSIONS[usize::from(packet[0] >> 4 == 6)];
    let tags = fields.get("tags").map(|tags| Tags::read(tags)).transpose()?;
    let mut tags = tags.map(|tags| tags.write(&mut [[0; 4]; 2]).concat());
    if let Some(priority) = fields.get("priority") {
        let number = priority.parse::<u8>().ok().filter(|number| *number < 8);
        let number = number.ok_or_else(|| format!("`priority {priority}`: use 0 to 7"))?;
        tags.iter_mut().flat_map(|tags| tags.chunks_exact_mut(4)).for_each(|tag| tag[2] |= number << 5);
    }
    let Some(ether) = fields.get("ether") else {
        return Ok(tags.map_or(packet.clone(), |tags| [&[0][..], &tags, &own, &packet].concat()));
    };
    let length = |bytes: usize| (bytes as u16).to_be_bytes();
    let front = match ether.as_str() {
        "priority" => [&PRIORITY[..], &own].concat(),
        "pppoe" => [&PPPOE[..], &length(packet.len() + 2), &ppp].concat(),
        "lcp" => [&PPPOE[..], &length(packet.len() + 2), &LCP].concat(),
        "padi" => [&PADI[..], &length(packet.len())].concat(),
        "mpls" => MPLS.to_vec(),
        "snap" => [&length(packet.len() + 8)[..], &SNAP, &own].concat(),
        number => number
            .strip_prefix("0x")
            .and_then(|digits| u16::from_str_radix(digits, 16).ok())
            .ok_or_else(|| {
                format!("`ether {number}`: use priority, pppoe, lcp, padi, mpls, snap, or a number as 0x88cc")
            })?
            .to_be_bytes()
            .to_vec(),
    };
    Ok([&[0][..], &tags.unwrap_or_default(), &front, &packet].concat())
}

/// Whether what stands behind the addresses of a frame begins with a tag that names a VLAN.
pub(super) fn has_tags(behind: &[u8]) -> bool {
    matches!(behind, [0x88, 0xa8, ..]) || matches!(behind, [0x81, 0, high, low, ..] if high & 15 | low != 0)
}

/// Of what stands behind the addresses of a frame that says its line: the packet behind its tags, and whether there are none.
pub(super) fn behind_tags(behind: &[u8]) -> Option<(&[u8], bool)> {
    let mut inner = behind;
    while has_tags(inner) {
        inner = inner.get(4..)?;
    }
    let is_untagged = inner.len() == behind.len();
    match inner {
        [0x08, 0x00, packet @ ..] | [0x86, 0xdd, packet @ ..] => Some((packet, is_untagged)),
        _ => None,
    }
}

/// The packet in a PPPoE session, of what stands behind the addresses of a frame.
pub(super) fn in_session(behind: &[u8]) -> Option<&[u8]> {
    let mut inner = behind;
    while has_tags(inner) {
        inner = inner.get(4..)?;
    }
    match inner {
        [0x88, 0x64, _, _, _, _, _, _, _, _, packet @ ..] => Some(packet),
        _ => None,
    }
}

/// Bytes of the source of a packet, by which hosts are told apart.
pub(super) fn source(packet: &[u8]) -> Option<&[u8]> {
    packet.get(if packet.first()? >> 4 == 6 { 20..24 } else { 12..16 })
}

/// What a packet says, or the one in a frame.
pub(super) fn seen(packet: &[u8]) -> Result<Fields, String> {
    if !is_frame(packet) {
        return wire::seen(packet);
    }
    let (mut vids, mut priority, mut behind) = (Vec::new(), 0, &packet[1..]);
    while has_tags(behind) {
        let [_, _, high, low, rest @ ..] = behind else { return Err("it ends within its tags".into()) };
        priority = high >> 5;
        vids.push((u16::from_be_bytes([*high, *low]) & 0xfff).to_string());
        behind = rest;
    }
    if let [0x08, 0x00, packet @ ..] | [0x86, 0xdd, packet @ ..] = behind {
        let mut fields = wire::seen(packet)?;
        let line = if vids.is_empty() { "untagged".to_string() } else { vids.join(".") };
        fields.insert("tags".to_string(), line);
        note_priority(&mut fields, priority);
        return Ok(fields);
    }
    let &[a, b, ref rest @ ..] = behind else { return Err("it ends before its EtherType".into()) };
    let (ether, skipped) = match (u16::from_be_bytes([a, b]), rest) {
        (0x8100, [_, 0, ..]) => ("priority".to_string(), 4),
        (0x8864, [_, _, _, _, _, _, 0xc0, 0x21, ..]) => ("lcp".to_string(), 8),
        (0x8863, _) => ("padi".to_string(), 6),
        (0x8864, _) => ("pppoe".to_string(), 8),
        (0x8847, _) => ("mpls".to_string(), 4),
        (..0x0600, [0xaa, ..]) => ("snap".to_string(), 8),
        (number, _) => (format!("{number:#06x}"), 0),
    };
    let mut fields = wire::seen(rest.get(skipped..).ok_or("it ends before its packet")?)?;
    fields.insert("ether".to_string(), ether);
    if !vids.is_empty() {
        fields.insert("tags".to_string(), vids.join("."));
    }
    note_priority(&mut fields, priority);
    Ok(fields)
}

fn note_priority(fields: &mut Fields, priority: u8) {
    if priority > 0 {
        fields.insert("priority".to_string(), priority.to_string());
    }
}
