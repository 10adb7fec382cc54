//! Extension headers of IPv6, between its header and what it carries (RFC 8200, section 4, RFC 7045).
//!
//! ```text
//!  IPv6, next 60 | 60, next 44 | 44, next 17 | UDP
//! ```
//! Behind the header of a later fragment stands the middle of a payload: the walk ends there.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::arithmetic_side_effects)]

use weir_packet::headers::extension_bytes;

/// Bytes of the header of IPv6, without them.
pub(crate) const IPV6: usize = 40;
/// Extension header of a fragment (RFC 8200, section 4.5).
pub(crate) const FRAGMENT: u8 = 44;
/// More fragments follow, in the header of IPv4.
pub(crate) const MORE4: u16 = 0x2000;
const ROUTING: u8 = 43;
/// Most headers that are followed: a packet with more has no transport of any use.
const MOST: usize = 8;

/// The end of a walk: what is carried, and where it begins in the packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Carried {
    pub(crate) proto: u8,
    pub(crate) at: usize,
    /// Which part of a packet it is, if it was cut.
    pub(crate) fragment: Option<FragmentHeader>,
    /// It visits further nodes on its way (RFC 8200, section 4.4).
    pub(crate) is_routed: bool,
}

/// What a fragment header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FragmentHeader {
    /// Bytes that come before it.
    pub(crate) offset: u16,
    pub(crate) more: bool,
    pub(crate) id: u32,
}

impl FragmentHeader {
    /// Offset, and whether more follow, as the header of IPv4 says it.
    pub(crate) fn frag_off(self) -> u16 {
        self.offset >> 3 | if self.more { MORE4 } else { 0 }
    }
}

/// Follows the headers of a packet, which may be cut short behind them; `None` if it ends within one of them, or if there
/// are more than [`MOST`].
pub(crate) fn walk(ip: &[u8]) -> Option<Carried> {
    let mut carried = Carried { proto: *ip.get(6)?, at: IPV6, fragment: None, is_routed: false };
    for _ in 0..MOST {
        if carried.is_end() {
            break;
        }
        let &[next, words, a, b, id @ ..] = ip.get(carried.at..)?.first_chunk::<8>()?;
        let mut bytes = extension_bytes(words);
        match carried.proto {
            FRAGMENT => {
                let frag_off = u16::from_be_bytes([a, b]);
                let id = u32::from_be_bytes(id);
                carried.fragment =
                    Some(FragmentHeader { offset: frag_off & 0xfff8, more: frag_off & 1 != 0, id });
                bytes = 8;
            }
            ROUTING => carried.is_routed |= b != 0,
            _ => {}
        }
        (carried.proto, carried.at) = (next, carried.at.saturating_add(bytes));
    }
    (carried.is_end() && carried.at <= ip.len()).then_some(carried)
}

impl Carried {
    /// It is a later fragment.
    pub(crate) fn is_later(&self) -> bool {
        self.fragment.is_some_and(|header| header.offset > 0)
    }

    /// No further header is to be followed: hop by hop, routing, fragment, destination options, mobility, HIP, shim6.
    fn is_end(&self) -> bool {
        !matches!(self.proto, 0 | ROUTING | FRAGMENT | 60 | 135 | 139 | 140) || self.is_later()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A packet of 48 bytes and these headers.
    fn packet(first: u8, headers: &[&[u8]]) -> Vec<u8> {
        let mut ip = vec![0; IPV6];
        ip[6] = first;
        [ip, headers.concat(), vec![7; 8]].concat()
    }

    #[test]
    fn what_is_carried_stands_behind_all_headers() {
        let options = [FRAGMENT, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let header = |frag_off: u16| [&[17, 0][..], &frag_off.to_be_bytes(), &[0, 0, 0, 9]].concat();
        let first = walk(&packet(60, &[&options, &header(1)])).expect("headers");
        assert_eq!((first.proto, first.at, first.is_later()), (17, 64, false));
        assert_eq!(first.fragment, Some(FragmentHeader { offset: 0, more: true, id: 9 }));
        // Behind a later fragment's header nothing is followed, whatever it looks like.
        let later = walk(&packet(FRAGMENT, &[&[60, 0, 0, 8, 0, 0, 0, 9]])).expect("headers");
        assert_eq!((later.proto, later.at, later.is_later()), (60, 48, true));
    }

    #[test]
    fn segments_left_are_noticed() {
        for (left, is_routed) in [(0, false), (2, true)] {
            let routing = [17, 0, 4, left, 0, 0, 0, 0];
            assert_eq!(walk(&packet(ROUTING, &[&routing])).expect("headers").is_routed, is_routed);
        }
    }

    #[test]
    fn what_ends_early_or_never_carries_nothing() {
        let option = [60, 0, 1, 4, 0, 0, 0, 0];
        let last: &[u8] = &[17, 0, 1, 4, 0, 0, 0, 0];
        let eight = packet(60, &[[&option[..]; 7].as_slice(), &[last]].concat());
        assert_eq!(walk(&eight).map(|carried| carried.proto), Some(17));
        assert_eq!(walk(&packet(60, &[&option[..]; 9])), None, "more than eight");
        let cut = packet(60, &[&[17, 3, 1, 4, 0, 0, 0, 0]]);
        assert_eq!(walk(&cut), None, "longer than the packet");
        (0..48).for_each(|bytes| assert_eq!(walk(&eight[..bytes]), None, "{bytes} bytes"));
    }
}
