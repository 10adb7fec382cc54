//! Blocks of pcapng, appended to a buffer: little endian, time stamps in ns.
//!
//! Nothing is allocated where the buffer has room, which [`packet_bytes`] tells for a packet. A file is a [`section`],
//! then its [`interface`]s, then packets and statistics.

use super::{
    BYTE_ORDER, INTERFACE, Interface, PACKET, Packet, SECTION, STATISTICS, Statistics, option, padding,
};

/// The author of a section; empty texts are left out.
#[derive(Debug, Clone, Copy, Default)]
pub struct Author<'a> {
    /// The machine.
    pub hardware: &'a str,
    /// The operating system.
    pub system: &'a str,
    /// The program.
    pub application: &'a str,
}

/// Block type, two lengths, interface, time stamp, captured and original length.
const PACKET_OVERHEAD: usize = 32;
/// An option of 8 bytes, and the end of options.
const DROP_OPTION: usize = 4 + 8 + 4;

/// At most how many bytes a packet takes of which `captured` are kept.
pub const fn packet_bytes(captured: usize) -> usize {
    PACKET_OVERHEAD + captured + padding(captured) + DROP_OPTION
}

/// Begins a section of unknown length.
pub fn section(to: &mut Vec<u8>, author: &Author<'_>) {
    block(to, SECTION, |to| {
        to.extend(BYTE_ORDER.to_le_bytes());
        to.extend(1_u16.to_le_bytes());
        to.extend(0_u16.to_le_bytes());
        to.extend((-1_i64).to_le_bytes());
        text(to, option::SECTION_HARDWARE, author.hardware);
        text(to, option::SECTION_OS, author.system);
        text(to, option::SECTION_APPLICATION, author.application);
        end(to);
    });
}

/// Describes the next interface of the section; they are numbered from 0.
pub fn interface(to: &mut Vec<u8>, interface: &Interface) {
    block(to, INTERFACE, |to| {
        to.extend(interface.link_type.to_le_bytes());
        to.extend(0_u16.to_le_bytes());
        to.extend(interface.snap.to_le_bytes());
        text(to, option::INTERFACE_NAME, &interface.name);
        text(to, option::INTERFACE_DESCRIPTION, &interface.description);
        number(to, option::INTERFACE_SPEED, interface.bits_per_s);
        option(to, option::INTERFACE_RESOLUTION, &[9]);
        if !interface.filter.is_empty() {
            // 0: the filter is a text, not a program.
            let filter = [&[0], interface.filter.as_bytes()].concat();
            option(to, option::INTERFACE_FILTER, &filter);
        }
        text(to, option::INTERFACE_OS, &interface.system);
        end(to);
    });
}

/// A packet, with the gap before it if there is one.
#[inline]
pub fn packet(to: &mut Vec<u8>, packet: &Packet<'_>) {
    let captured = packet.bytes.len();
    let options = if packet.dropped == 0 { 0 } else { DROP_OPTION };
    let length = (PACKET_OVERHEAD + captured + padding(captured) + options) as u32;
    let mut head = [0; 28];
    let words = [
        PACKET,
        length,
        packet.interface,
        (packet.at_ns >> 32) as u32,
        packet.at_ns as u32,
        captured as u32,
        packet.wire_len,
    ];
    for (to, word) in head.chunks_exact_mut(4).zip(words) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    to.extend_from_slice(&head);
    to.extend_from_slice(packet.bytes);
    to.extend_from_slice(&[0; 3][..padding(captured)]);
    if packet.dropped > 0 {
        option(to, option::PACKET_DROPPED, &packet.dropped.to_le_bytes());
        end(to);
    }
    to.extend_from_slice(&length.to_le_bytes());
}

/// Counters of an interface.
pub fn statistics(to: &mut Vec<u8>, statistics: &Statistics) {
    block(to, STATISTICS, |to| {
        to.extend(statistics.interface.to_le_bytes());
        to.extend(time(statistics.at_ns));
        for (code, at) in
            [(option::STATISTICS_START, statistics.start_ns), (option::STATISTICS_END, statistics.end_ns)]
        {
            if let Some(at) = at {
                option(to, code, &time(at));
            }
        }
        number(to, option::STATISTICS_RECEIVED, statistics.received);
        number(to, option::STATISTICS_DROPPED_BY_INTERFACE, statistics.dropped_by_interface);
        number(to, option::STATISTICS_ACCEPTED, statistics.accepted);
        number(to, option::STATISTICS_DROPPED_BY_SYSTEM, statistics.dropped_by_system);
        number(to, option::STATISTICS_DELIVERED, statistics.delivered);
        end(to);
    });
}

fn block(to: &mut Vec<u8>, kind: u32, body: impl FnOnce(&mut Vec<u8>)) {
    let start = to.len();
    to.extend(kind.to_le_bytes());
    to.extend([0; 4]);
    body(to);
    let length = ((to.len() + 4 - start) as u32).to_le_bytes();
    to.extend(length);
    to[start + 4..start + 8].copy_from_slice(&length);
}

/// A time stamp is two words, the higher one first, in any byte order.
fn time(ns: u64) -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&((ns >> 32) as u32).to_le_bytes());
    bytes[4..].copy_from_slice(&(ns as u32).to_le_bytes());
    bytes
}

fn option(to: &mut Vec<u8>, code: u16, value: &[u8]) {
    to.extend_from_slice(&code.to_le_bytes());
    to.extend_from_slice(&(value.len() as u16).to_le_bytes());
    to.extend_from_slice(value);
    to.extend_from_slice(&[0; 3][..padding(value.len())]);
}

/// A text, cut where an option cannot hold more.
fn text(to: &mut Vec<u8>, code: u16, text: &str) {
    let most = text.floor_char_boundary(u16::MAX.into());
    if most > 0 {
        option(to, code, &text.as_bytes()[..most]);
    }
}

fn number(to: &mut Vec<u8>, code: u16, value: Option<u64>) {
    if let Some(value) = value {
        option(to, code, &value.to_le_bytes());
    }
}

fn end(to: &mut Vec<u8>) {
    option(to, option::END, &[]);
}
