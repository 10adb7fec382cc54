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

/// Sum of the pseudo header of UDP over IPv4 or IPv6: addresses, length, protocol.
pub fn pseudo_header(addresses: &[u8], udp_bytes: usize) -> u64 {
    sum(addresses) + udp_bytes as u64 + u64::from(crate::headers::UDP)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sum_is_the_example_of_rfc1071() {
        assert_eq!(fold(sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7])), 0xddf2);
        assert_eq!(fold(sum(&[1])), 0x0100);
    }
}
