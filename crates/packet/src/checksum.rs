//! The Internet checksum (RFC 1071): one's complement sums of 16-bit words in network order.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::arithmetic_side_effects)]

use crate::fields::put;

/// Sum of the words of `bytes`; an odd last byte is the high half of a word.
///
/// Words are added in the order of this machine, two at a time, and the sum is turned round once (RFC 1071, section 2 (B)).
#[inline]
pub fn sum(bytes: &[u8]) -> u64 {
    let (pairs, rest) = bytes.as_chunks();
    let pairs: u64 = pairs.iter().map(|&pair| u64::from(u32::from_ne_bytes(pair))).sum();
    let rest = match *rest {
        [a, b, c] => u64::from(u16::from_be_bytes([a, b])) + (u64::from(c) << 8),
        [a, b] => u16::from_be_bytes([a, b]).into(),
        [a] => u64::from(a) << 8,
        _ => 0,
    };
    u64::from(u16::from_be(fold(pairs))) + rest
}

/// Folds a sum into 16 bits.
#[inline]
pub fn fold(sum: u64) -> u16 {
    // 33 bits, 32, 17, 16.
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

/// Whether an IPv4 header without options has its checksum: its words then sum up to all ones, in whichever order the bytes of
/// a word stand, so that none is turned round.
#[inline]
pub fn is_right_ipv4(header: &[u8; 20]) -> bool {
    let (words, _) = header.as_chunks();
    let sum: u64 = words.iter().map(|&word| u64::from(u32::from_ne_bytes(word))).sum();
    // A sum folds to its rest by 0xffff, which is written as all ones where it is none.
    sum != 0 && sum.is_multiple_of(0xffff)
}

/// Sum of the pseudo header of a transport over IPv4 or IPv6: addresses, protocol, length of the transport.
#[inline]
pub fn pseudo_header(addresses: &[u8], protocol: u8, bytes: usize) -> u64 {
    sum(addresses) + bytes as u64 + u64::from(protocol)
}

/// Writes the checksum at `at` of bytes that it covers together with what sums up to `others`, as a pseudo header does,
/// over whatever stands there.
#[inline]
pub fn write(bytes: &mut [u8], at: usize, others: u64) {
    put(bytes, at, [0, 0]);
    let checksum = !fold(sum(bytes) + others);
    put(bytes, at, checksum.to_be_bytes());
}

/// Writes the checksum of an IPv4 header, options included, over whatever stands there.
pub fn write_ipv4(header: &mut [u8]) {
    write(header, 10, 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sum_is_the_example_of_rfc1071() {
        assert_eq!(fold(sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7])), 0xddf2);
        assert_eq!(fold(sum(&[1])), 0x0100);
    }

    #[test]
    fn a_sum_is_that_of_its_words_one_by_one() {
        let mut seed = 1_u64;
        let bytes: Vec<u8> = std::iter::from_fn(|| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // Many words that carry.
            Some(if seed >> 62 == 0 { (seed >> 40) as u8 } else { 0xff })
        })
        .take(70_000)
        .collect();
        let plain = |bytes: &[u8]| {
            let words =
                bytes.chunks(2).map(|word| u64::from(word[0]) << 8 | word.get(1).map_or(0, |&b| b.into()));
            let mut sum: u64 = words.sum();
            while sum > 0xffff {
                sum = (sum & 0xffff) + (sum >> 16);
            }
            sum as u16
        };
        for length in (0..200).chain([1480, 65_535, 70_000]) {
            for start in 0..4.min(bytes.len() - length + 1) {
                let some = &bytes[start..start + length];
                assert_eq!(fold(sum(some)), plain(some), "{length} bytes from {start}");
            }
        }
        assert_eq!(fold(sum(&[0; 99])), 0);
        for all in [u64::MAX, u64::MAX - 1, 1 << 63, 0xffff_0000_0001, 0xffff, 0x1_0000, 0] {
            let (mut slow, fast) = (u128::from(all), fold(all));
            while slow > 0xffff {
                slow = (slow & 0xffff) + (slow >> 16);
            }
            assert_eq!(u128::from(fast), slow, "{all:#x}");
        }
    }

    #[test]
    fn a_header_with_its_checksum_sums_up_to_all_ones() {
        let mut header =
            [0x46, 0, 0, 32, 0, 7, 0x40, 0, 64, 17, 9, 9, 192, 0, 2, 1, 198, 18, 0, 1, 1, 1, 1, 0];
        for _ in 0..2 {
            write_ipv4(&mut header);
            assert_eq!(fold(sum(&header)), 0xffff);
        }
        let mut seed = 1_u64;
        for _ in 0..1000 {
            let mut header: [u8; 20] = std::array::from_fn(|_| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (seed >> 56) as u8
            });
            assert_eq!(is_right_ipv4(&header), fold(sum(&header)) == 0xffff, "{header:?}");
            write_ipv4(&mut header);
            assert!(is_right_ipv4(&header), "{header:?}");
            header[seed as usize % 20] ^= 1 << (seed >> 60 & 7);
            assert!(!is_right_ipv4(&header), "{header:?}");
        }
        assert!(!is_right_ipv4(&[0; 20]));
    }
}
