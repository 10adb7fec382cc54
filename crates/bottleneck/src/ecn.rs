//! The ECN field of a frame: read before the queue, and set to CE in frames that the queue has marked.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::arithmetic_side_effects)]

use weir_packet::checksum::fold;
use weir_queue::Ecn;

/// VLAN tags that are looked behind.
const MOST_TAGS: usize = 4;

/// Where the IP header is, and its version.
fn ip_at(frame: &[u8]) -> Option<(usize, u8)> {
    let mut at = 12_usize;
    for _ in 0..=MOST_TAGS {
        let kind = frame.get(at..)?.first_chunk().copied().map(u16::from_be_bytes)?;
        match kind {
            0x8100 | 0x88a8 | 0x9100 => at = at.checked_add(4)?,
            0x0800 => return Some((at.checked_add(2)?, 4)),
            0x86dd => return Some((at.checked_add(2)?, 6)),
            _ => return None,
        }
    }
    None
}

/// The ECN field; that of frames without IP is Not-ECT.
pub(crate) fn of(frame: &[u8]) -> Ecn {
    let field = || {
        let (at, version) = ip_at(frame)?;
        let &[_, second] = frame.get(at..)?.first_chunk::<2>()?;
        Some(Ecn::from_bits(if version == 4 { second } else { second >> 4 }))
    };
    field().unwrap_or_default()
}

/// Sets CE, and the checksum of IPv4 with it (RFC 1624).
pub(crate) fn mark(frame: &mut [u8]) {
    let Some((at, version)) = ip_at(frame) else { return };
    match (version, frame.get_mut(at..)) {
        (4, Some([first, second, _, _, _, _, _, _, _, _, high, low, ..])) => {
            let old = u16::from_be_bytes([*first, *second]);
            *second |= 3;
            let new = u16::from_be_bytes([*first, *second]);
            let sum = u16::from_be_bytes([*high, *low]);
            let sum = [!sum, !old, new].into_iter().map(u64::from).sum::<u64>();
            [*high, *low] = (!fold(sum)).to_be_bytes();
        }
        (6, Some([_, second, ..])) => *second |= 0x30,
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use weir_packet::checksum::{is_right_ipv4, write_ipv4};

    use super::*;

    #[test]
    fn a_mark_is_ce_with_a_right_checksum() {
        for tags in 0..3 {
            for bits in 0..4_u8 {
                let mut frame = vec![2; 12];
                (0..tags).for_each(|_| frame.extend([0x81, 0, 0, 7]));
                frame.extend([8, 0]);
                let at = frame.len();
                frame.extend([
                    0x45,
                    0xb8 | bits,
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
                assert_eq!(of(&frame), Ecn::from_bits(bits));
                mark(&mut frame);
                assert_eq!((of(&frame), frame[at + 1] & !3), (Ecn::Ce, 0xb8));
                assert!(is_right_ipv4(frame[at..].first_chunk().unwrap()), "{bits} {tags}");
            }
        }
        let mut frame = [vec![2; 12], vec![0x86, 0xdd, 0x60, 0x2f, 0xff, 0xff], vec![0; 36]].concat();
        assert_eq!(of(&frame), Ecn::Ect0);
        mark(&mut frame);
        assert_eq!((of(&frame), &frame[14..18]), (Ecn::Ce, &[0x60, 0x3f, 0xff, 0xff][..]));
    }

    #[test]
    fn what_is_no_ip_stays() {
        for frame in [&[][..], &[1; 13], &[1; 40], &[[2; 12].as_slice(), &[8, 0, 0x45]].concat()] {
            let mut copy = frame.to_vec();
            mark(&mut copy);
            assert_eq!((of(frame), copy), (Ecn::NotEct, frame.to_vec()));
        }
    }
}
