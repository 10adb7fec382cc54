//! The network of IPv6 that stands for IPv4 (RFC 6052).
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::arithmetic_side_effects)]

use std::net::IpAddr;

use crate::prefix::{Prefix, is_global4};

/// The network that stands for IPv4 (RFC 6052).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Prefix64 {
    bits: u128,
    len: u8,
}

/// The well-known prefix: it stands for addresses that are the same everywhere (RFC 6052, section 2.1).
const WELL_KNOWN: Prefix64 = Prefix64 { bits: 0x0064_ff9b << 96, len: 96 };

impl Prefix64 {
    /// The lengths that RFC 6052 allows.
    pub(crate) fn new(prefix: Prefix) -> Result<Prefix64, String> {
        match prefix.network().address {
            IpAddr::V6(address) if [32, 40, 48, 56, 64, 96].contains(&prefix.len) => {
                Ok(Prefix64 { bits: u128::from(address), len: prefix.len })
            }
            _ => Err(format!(
                "`{prefix}` cannot stand for IPv4: write a network of IPv6 with a length of 32, 40, 48, 56, 64 or 96 \
                 (RFC 6052), as in 64:ff9b::/96"
            )),
        }
    }

    /// Whether packets with an address may be translated: by the well-known prefix only if it is global (RFC 6052,
    /// section 3.1).
    pub(in crate::nat) fn may_stand_for(self, address: u32) -> bool {
        self != WELL_KNOWN || is_global4(address)
    }

    /// The address of IPv6 that stands for one of IPv4: it follows the prefix, but for the bits 64 to 71, which are left out.
    #[expect(clippy::arithmetic_side_effects, reason = "a length of RFC 6052 is 96 at most")]
    pub(crate) fn embed(self, address: u32) -> u128 {
        let behind = u128::from(address) << (96 - self.len);
        match self.len {
            96 => self.bits | behind,
            _ => self.bits | behind & !LOW | (behind & LOW) >> 8,
        }
    }

    /// The address of IPv4 that one of IPv6 stands for.
    #[inline]
    #[expect(clippy::arithmetic_side_effects, reason = "a length of RFC 6052 is 96 at most")]
    pub(crate) fn extract(self, address: u128) -> Option<u32> {
        if (address ^ self.bits) >> (128 - self.len) != 0 {
            return None;
        }
        let behind = match self.len {
            96 => address,
            _ => address & !LOW | (address << 8) & LOW,
        };
        Some((behind >> (96 - self.len)) as u32)
    }
}

/// The lower half of an address.
const LOW: u128 = u64::MAX as u128;

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;

    #[test]
    fn the_addresses_of_rfc6052() {
        // Section 2.4, table 2: 192.0.2.33.
        for (prefix, address) in [
            ("2001:db8::/32", "2001:db8:c000:221::"),
            ("2001:db8:100::/40", "2001:db8:1c0:2:21::"),
            ("2001:db8:122::/48", "2001:db8:122:c000:2:2100::"),
            ("2001:db8:122:300::/56", "2001:db8:122:3c0:0:221::"),
            ("2001:db8:122:344::/64", "2001:db8:122:344:c0:2:2100::"),
            ("2001:db8:122:344::/96", "2001:db8:122:344::192.0.2.33"),
        ] {
            let prefix64 = Prefix64::new(prefix.parse().expect("a prefix")).expect("a length of RFC 6052");
            let expected: Ipv6Addr = address.parse().expect("an address");
            assert_eq!(Ipv6Addr::from(prefix64.embed(0xc000_0221)), expected, "{prefix}");
            assert_eq!(prefix64.extract(u128::from(expected)), Some(0xc000_0221), "{prefix}");
            assert_eq!(prefix64.extract(0), None, "{prefix}");
        }
        assert!(Prefix64::new("2001:db8::/33".parse().expect("a prefix")).is_err());
        assert!(Prefix64::new("192.0.2.0/32".parse().expect("a prefix")).is_err());
    }
}
