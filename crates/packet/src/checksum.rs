//! The Internet checksum (RFC 1071): one's complement sums of 16-bit words in network order.

/// Sum of the words of `bytes`; an odd last byte is the high half of a word.
pub fn sum(bytes: &[u8]) -> u64 {
    let words = bytes.chunks_exact(2);
    let last = words.remainder().first().map_or(0, |&b| u64::from(b) << 8);
    words.map(|w| u64::from(u16::from_be_bytes([w[0], w[1]]))).sum::<u64>() + last
}

/// Folds a sum into 16 bits.
pub fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Whether an IPv4 header without options has its checksum: its words then sum up to all ones, in whichever order the bytes of
/// a word stand, so that none is turned round.
#[inline]
pub fn is_right_ipv4(header: &[u8; 20]) -> bool {
    let (words, _) = header.as_chunks();
    let sum: u64 = words.iter().map(|&word| u64::from(u32::from_ne_bytes(word))).sum();
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16);
    (sum & 0xffff) + (sum >> 16) == 0xffff
}

/// Sum of the pseudo header of a transport over IPv4 or IPv6: addresses, protocol, length of the transport.
pub fn pseudo_header(addresses: &[u8], protocol: u8, bytes: usize) -> u64 {
    sum(addresses) + bytes as u64 + u64::from(protocol)
}

/// Writes the checksum of an IPv4 header, options included, over whatever stands there.
///
/// # Panics
/// If the header is shorter than its checksum's place.
pub fn write_ipv4(header: &mut [u8]) {
    header[10..12].fill(0);
    let checksum = !fold(sum(header));
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
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
