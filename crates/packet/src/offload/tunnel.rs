//! What a tunnel carries: the packet in it may have a partial checksum, too, which the stack that has put it there has left to a
//! network card. The checksum in front of it is right once that one is finished (local checksum offload, see
//! Documentation/networking/checksum-offloads.rst).
//!
//! ```text
//!  | Ethernet, IP, UDP | VXLAN, Geneve | Ethernet, IP, TCP |      | Ethernet, IP | GRE | IP, TCP |      | Ethernet, IP | IP, TCP |
//! ```
//! Source: RFC 7348, RFC 8926, RFC 2784 and 2890, RFC 2003, RFC 2473.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use super::Transport;
use crate::headers::{UDP, words};

const IP_IN_IP: u8 = 4;
const IPV6_IN_IP: u8 = 41;
const GRE: u8 = 47;
const VXLAN_PORT: u16 = 4789;
const GENEVE_PORT: u16 = 6081;

const TYPE_ETHERNET: u16 = 0x6558;
const TYPE_IPV4: u16 = 0x0800;
const TYPE_IPV6: u16 = 0x86dd;

/// The transport of the packet that one of a tunnel carries.
#[inline]
pub(super) fn inside(frame: &[u8], outer: &Transport) -> Option<Transport> {
    match outer.protocol {
        UDP => {
            let &[_, _, a, b] = frame.get(outer.at..outer.end)?.first_chunk()?;
            match u16::from_be_bytes([a, b]) {
                VXLAN_PORT => behind_vxlan(frame, outer),
                GENEVE_PORT => behind_geneve(frame, outer),
                _ => None,
            }
        }
        GRE => behind_gre(frame, outer),
        IP_IN_IP => Transport::behind_v4(frame.get(..outer.end)?, outer.at),
        IPV6_IN_IP => Transport::behind_v6(frame.get(..outer.end)?, outer.at),
        _ => None,
    }
}

#[cold]
fn behind_vxlan(frame: &[u8], outer: &Transport) -> Option<Transport> {
    const HAS_NUMBER: u8 = 0x08;
    match frame.get(outer.at.saturating_add(8)..outer.end)?.first_chunk()? {
        [HAS_NUMBER, _, _, _, _, _, _, 0] => {
            Transport::of_ethernet(frame.get(..outer.end)?, outer.at.saturating_add(16))
        }
        _ => None,
    }
}

#[cold]
fn behind_geneve(frame: &[u8], outer: &Transport) -> Option<Transport> {
    let &[first, _, a, b] = frame.get(outer.at.saturating_add(8)..outer.end)?.first_chunk()?;
    let at = outer.at.saturating_add(16).saturating_add(words(first & 0x3f));
    if first >> 6 == 0 { behind(frame, outer, at, u16::from_be_bytes([a, b])) } else { None }
}

#[cold]
fn behind_gre(frame: &[u8], outer: &Transport) -> Option<Transport> {
    let &[flags, version, a, b] = frame.get(outer.at..outer.end)?.first_chunk()?;
    // Checksum, key, sequence number: four bytes each. Version 1 is that of PPTP.
    let fields = words([0x80, 0x20, 0x10].iter().map(|flag| u8::from(flags & flag != 0)).sum());
    let is_plain = flags & 0x4f == 0 && version == 0;
    let at = outer.at.saturating_add(4).saturating_add(fields);
    if is_plain { behind(frame, outer, at, u16::from_be_bytes([a, b])) } else { None }
}

fn behind(frame: &[u8], outer: &Transport, at: usize, ether_type: u16) -> Option<Transport> {
    let frame = frame.get(..outer.end)?;
    match ether_type {
        TYPE_ETHERNET => Transport::of_ethernet(frame, at),
        TYPE_IPV4 => Transport::behind_v4(frame, at),
        TYPE_IPV6 => Transport::behind_v6(frame, at),
        _ => None,
    }
}
