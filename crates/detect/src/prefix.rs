//! Prefixes, and which set of them an address is in. IPv4 is held as IPv4-mapped IPv6 (RFC 4291, section 2.5.5.2).

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// Addresses with the same first bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Prefix {
    bits: u128,
    mask: u128,
}

/// An address of either version as 128 bits.
#[inline]
pub(crate) fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => 0xffff_0000_0000 | u128::from(u32::from(v4)),
        IpAddr::V6(v6) => u128::from(v6),
    }
}

/// The address back.
pub(crate) fn address(bits: u128) -> IpAddr {
    std::net::Ipv6Addr::from(bits).to_canonical()
}

impl Prefix {
    /// One address.
    pub(crate) fn host(address: IpAddr) -> Prefix {
        Prefix { bits: bits(address), mask: u128::MAX }
    }

    #[inline]
    pub(crate) fn contains(self, address: u128) -> bool {
        address & self.mask == self.bits
    }

    /// Whether some address is in both.
    pub(crate) fn meets(self, other: Prefix) -> bool {
        (self.bits ^ other.bits) & self.mask & other.mask == 0
    }

    /// Bits that all its addresses share, those of the IPv4 mapping included.
    pub(crate) fn length(self) -> u32 {
        self.mask.count_ones()
    }
}

impl FromStr for Prefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Prefix, String> {
        let wrong = || format!("`{text}` is no prefix: write 198.18.0.0/15 or 2001:db8::/32");
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length.parse::<u32>().map_err(|_| wrong())?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let length = length.unwrap_or(most);
        if length > most {
            return Err(format!("`{text}`: an address of this version has {most} bits: use /0 to /{most}"));
        }
        let mask = u128::MAX.checked_shl(most - length).unwrap_or(0);
        // The bits of the mapping belong to the prefix of an IPv4 address.
        let mask = if most == 32 { mask | u128::MAX << 32 } else { mask };
        let bits = bits(address);
        let network = Prefix { bits: bits & mask, mask };
        if bits & mask == bits {
            Ok(network)
        } else {
            Err(format!("`{text}` has host bits set: use {network}"))
        }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = address(self.bits);
        let hidden = if address.is_ipv4() { 96 } else { 0 };
        write!(f, "{address}/{}", self.length() - hidden)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_read_and_written() {
        for (text, inside, outside) in [
            ("198.18.0.0/15", "198.19.255.255", "198.20.0.0"),
            ("192.0.2.7/32", "192.0.2.7", "192.0.2.6"),
            ("2001:db8::/32", "2001:db8:ffff::1", "2001:db9::"),
            ("2001:db8::1/128", "2001:db8::1", "2001:db8::2"),
        ] {
            let prefix: Prefix = text.parse().expect(text);
            assert_eq!(prefix.to_string(), text);
            let has = |address: &str| prefix.contains(bits(address.parse().expect(address)));
            assert!(has(inside) && !has(outside), "{text}");
        }
        let all: Prefix = "0.0.0.0/0".parse().expect("all of IPv4");
        assert!(all.contains(bits([1, 2, 3, 4].into())));
        assert!(!all.contains(bits("2001:db8::1".parse().expect("an address"))));
    }

    #[test]
    fn mistakes_say_what_to_write() {
        for (text, part) in [
            ("198.18.0.1/15", "`198.18.0.1/15` has host bits set: use 198.18.0.0/15"),
            ("198.18.0.0/33", "`198.18.0.0/33`: an address of this version has 32 bits: use /0 to /32"),
            ("office", "`office` is no prefix: write 198.18.0.0/15 or 2001:db8::/32"),
            ("::/x", "`::/x` is no prefix: write 198.18.0.0/15 or 2001:db8::/32"),
        ] {
            let message = text.parse::<Prefix>().expect_err(text);
            assert_eq!(message, part);
        }
    }
}
