//! Addresses as tables keep them: four words, the first one first; those of IPv4 are mapped (RFC 4291, section 2.5.5.2).

use std::net::{IpAddr, Ipv6Addr};

/// The words of an address.
pub fn words_of(address: IpAddr) -> [u32; 4] {
    match address {
        IpAddr::V4(address) => mapped4(address.into()),
        IpAddr::V6(address) => words6(address.to_bits()),
    }
}

/// The address of these words.
pub fn address_of(words: [u32; 4]) -> IpAddr {
    IpAddr::V6(Ipv6Addr::from_bits(bits(words))).to_canonical()
}

/// The words of an IPv4 address.
#[inline]
pub(crate) fn mapped4(address: u32) -> [u32; 4] {
    [0, 0, 0xffff, address]
}

/// The words of an IPv6 address.
#[inline]
pub(crate) fn words6(address: u128) -> [u32; 4] {
    [96, 64, 32, 0].map(|shift| (address >> shift) as u32)
}

/// The bits of words, as those of an IPv6 address.
#[inline]
pub(crate) fn bits(words: [u32; 4]) -> u128 {
    words.into_iter().fold(0, |all, word| all << 32 | u128::from(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_words_and_back() {
        for (address, words) in [
            ("198.18.0.1", [0, 0, 0xffff, 0xc612_0001]),
            ("2001:db8:0:1:0:2:0:3", [0x2001_0db8, 1, 2, 3]),
            ("::198.18.0.1", [0, 0, 0, 0xc612_0001]),
        ] {
            let address = address.parse().expect("an address");
            assert_eq!((words_of(address), address_of(words)), (words, address));
        }
    }
}
