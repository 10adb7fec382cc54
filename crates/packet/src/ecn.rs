//! The ECN field of the packet in a frame, behind whatever encapsulates it (see [`crate::encapsulation`]): read before a queue, and
//! set to CE in frames that the queue has marked (RFC 3168, section 5).
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::arithmetic_side_effects)]

use crate::checksum::fold;
use crate::encapsulation::{Link, network};
use crate::flow::IpVersion;

/// The two bits of the field; 0 (Not-ECT) of a frame of Ethernet without IP.
#[inline]
pub fn bits(frame: &[u8]) -> u8 {
    let field = || {
        let found = network(Link::Ethernet, frame).ok()?;
        let &[_, second] = frame.get(found.at..)?.first_chunk::<2>()?;
        Some(if found.ip == IpVersion::V4 { second } else { second >> 4 } & 3)
    };
    field().unwrap_or_default()
}

/// Sets CE, and the checksum of IPv4 with it (RFC 1624).
pub fn mark(frame: &mut [u8]) {
    let Ok(found) = network(Link::Ethernet, frame) else { return };
    match (found.ip, frame.get_mut(found.at..)) {
        (IpVersion::V4, Some([first, second, _, _, _, _, _, _, _, _, high, low, ..])) => {
            let old = u16::from_be_bytes([*first, *second]);
            *second |= 3;
            let new = u16::from_be_bytes([*first, *second]);
            let sum = u16::from_be_bytes([*high, *low]);
            let sum = [!sum, !old, new].into_iter().map(u64::from).sum::<u64>();
            [*high, *low] = (!fold(sum)).to_be_bytes();
        }
        (IpVersion::V6, Some([_, second, ..])) => *second |= 0x30,
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::{is_right_ipv4, write_ipv4};

    /// What stands between the Ethernet addresses and the packet: tags, a session of PPPoE behind tags, labels of MPLS, SNAP.
    const FRONTS: [&[u8]; 6] = [
        &[8, 0],
        &[0x81, 0, 0, 7, 8, 0],
        &[0x88, 0xa8, 0, 7, 0x81, 0, 0, 9, 8, 0],
        &[0x88, 0xa8, 0, 7, 0x81, 0, 0, 9, 0x88, 0x64, 0x11, 0, 0, 1, 0, 42, 0, 0x21],
        &[0x88, 0x47, 0, 1, 0, 64, 0, 1, 1, 64],
        &[0, 48, 0xaa, 0xaa, 3, 0, 0, 0, 8, 0],
    ];

    #[test]
    fn a_mark_is_ce_with_a_right_checksum() {
        for front in FRONTS {
            for ecn in 0..4_u8 {
                let mut frame = [&[2; 12], front].concat();
                let at = frame.len();
                frame.extend([
                    0x45,
                    0xb8 | ecn,
                    0,
                    40,
                    0,
                    9,
                    0x40,
                    0,
                    64,
                    6,
                    0,
                    0,
                    198,
                    18,
                    0,
                    1,
                    192,
                    0,
                    2,
                    1,
                ]);
                write_ipv4(&mut frame[at..]);
                frame.extend([0; 20]);
                assert_eq!(bits(&frame), ecn, "{front:?}");
                mark(&mut frame);
                assert_eq!((bits(&frame), frame[at + 1] & !3), (3, 0xb8), "{front:?}");
                assert!(is_right_ipv4(frame[at..].first_chunk().unwrap()), "{ecn} {front:?}");
            }
        }
        let mut frame = [vec![2; 12], vec![0x86, 0xdd, 0x60, 0x2f, 0xff, 0xff], vec![0; 36]].concat();
        assert_eq!(bits(&frame), 2);
        mark(&mut frame);
        assert_eq!((bits(&frame), &frame[14..18]), (3, &[0x60, 0x3f, 0xff, 0xff][..]));
    }

    #[test]
    fn what_is_no_ip_stays() {
        for frame in [&[][..], &[1; 13], &[1; 40], &[[2; 12].as_slice(), &[8, 0, 0x45]].concat()] {
            let mut copy = frame.to_vec();
            mark(&mut copy);
            assert_eq!((bits(frame), copy), (0, frame.to_vec()));
        }
    }
}
