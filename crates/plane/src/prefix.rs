//! A network: an address and how many of its bits count.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// An address with the length of its network, as `ip address` writes it: bits behind the length may be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Prefix {
    /// The address as it was written.
    pub address: IpAddr,
    /// Bits that count, from the left: up to 32 or 128.
    pub len: u8,
}

impl From<Prefix> for String {
    fn from(prefix: Prefix) -> String {
        prefix.to_string()
    }
}

impl TryFrom<String> for Prefix {
    type Error = String;

    fn try_from(text: String) -> Result<Prefix, String> {
        text.parse()
    }
}

impl JsonSchema for Prefix {
    fn schema_name() -> Cow<'static, str> {
        "Prefix".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "description": "A network: an address, and how many of its bits count, as in 192.0.2.0/24" })
    }
}

impl Prefix {
    /// The prefix without bits behind its length.
    pub fn network(self) -> Prefix {
        let address = match self.address {
            IpAddr::V4(address) => IpAddr::from((u32::from(address) & mask4(self.len)).to_be_bytes()),
            IpAddr::V6(address) => IpAddr::from((u128::from(address) & mask6(self.len)).to_be_bytes()),
        };
        Prefix { address, len: self.len }
    }

    /// Whether an address lies in the network.
    pub fn contains(self, address: IpAddr) -> bool {
        address.is_ipv4() == self.address.is_ipv4()
            && Prefix { address, len: self.len }.network() == self.network()
    }

    /// The address of a host in it: the one written, or the first where only the network was written.
    pub fn host(self) -> IpAddr {
        let full = if self.address.is_ipv4() { 31 } else { 127 };
        if self.len >= full || self.network() != self {
            return self.address;
        }
        match self.address {
            IpAddr::V4(address) => IpAddr::from((u32::from(address) + 1).to_be_bytes()),
            IpAddr::V6(address) => IpAddr::from((u128::from(address) + 1).to_be_bytes()),
        }
    }

    /// The first and the last address of a network of IPv4.
    pub(crate) fn range4(self) -> (u32, u32) {
        let IpAddr::V4(address) = self.address else { panic!("{self} is of IPv6") };
        let rest = !mask4(self.len);
        (u32::from(address) & !rest, u32::from(address) | rest)
    }
}

/// The first `len` bits of an IPv4 address.
pub const fn mask4(len: u8) -> u32 {
    if len == 0 { 0 } else { u32::MAX << (32 - len) }
}

/// The first `len` bits of an IPv6 address.
pub const fn mask6(len: u8) -> u128 {
    if len == 0 { 0 } else { u128::MAX << (128 - len) }
}

/// Whether a host can have the IPv4 address (RFC 1122, section 3.2.1.3).
pub(crate) const fn is_unicast4(address: u32) -> bool {
    !matches!(address >> 24, 0 | 127 | 224..)
}

/// The same of an IPv6 address, be it of a link alone (RFC 4291, sections 2.5.2, 2.5.3, 2.7).
pub(crate) const fn is_unicast6(address: u128) -> bool {
    address > 1 && address >> 120 != 0xff
}

/// Whether an address of IPv6 is one of a single link.
pub(crate) fn is_link_local(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local())
}

/// Whether an IPv6 address is of its link alone (RFC 4291, section 2.5.6).
pub(crate) const fn is_link_local6(address: u128) -> bool {
    address >> 118 == 0xfe80 >> 6
}

/// Networks of IPv4 that are no part of the Internet: those of the registry of special-purpose addresses that are not
/// globally reachable (RFC 6890, RFC 8190), the relays of 6to4 (RFC 7526), and multicast.
const NOT_GLOBAL4: [(u32, u8); 14] = [
    (0, 8),
    (0x0a00_0000, 8),
    (0x6440_0000, 10),
    (0x7f00_0000, 8),
    (0xa9fe_0000, 16),
    (0xac10_0000, 12),
    (0xc000_0000, 24),
    (0xc000_0200, 24),
    (0xc058_6300, 24),
    (0xc0a8_0000, 16),
    (0xc612_0000, 15),
    (0xc633_6400, 24),
    (0xcb00_7100, 24),
    (0xe000_0000, 3),
];
/// Of those, anycast addresses that are globally reachable (RFC 7723, RFC 8155).
const GLOBAL4: [u32; 2] = [0xc000_0009, 0xc000_000a];

/// Whether an IPv4 address is the same host's from everywhere.
pub(crate) fn is_global4(address: u32) -> bool {
    let is_in = |&(network, len): &(u32, u8)| address & mask4(len) == network;
    !NOT_GLOBAL4.iter().any(is_in) || GLOBAL4.contains(&address)
}

impl FromStr for Prefix {
    type Err = String;

    /// `192.0.2.0/24`, `2001:db8::/32`, or a single address.
    fn from_str(text: &str) -> Result<Self, String> {
        let (address, len) = text.split_once('/').map_or((text, None), |(address, len)| (address, Some(len)));
        let address: IpAddr = address.parse().map_err(|_| {
            format!("`{text}` is no network: write an address and a length, as in 192.0.2.0/24")
        })?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let len = len.map_or(Some(most), |len| len.parse().ok().filter(|&len| len <= most));
        let len = len.ok_or_else(|| format!("`{text}` has no length of 0 to {most} behind the slash"))?;
        Ok(Prefix { address, len })
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.len)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn the_addresses_beside_each_special_network_are_global() {
        let of = |text: &str| u32::from(text.parse::<Ipv4Addr>().expect("an address"));
        for (first, last) in [
            ("0.0.0.0", "0.255.255.255"),
            ("10.0.0.0", "10.255.255.255"),
            ("100.64.0.0", "100.127.255.255"),
            ("127.0.0.0", "127.255.255.255"),
            ("169.254.0.0", "169.254.255.255"),
            ("172.16.0.0", "172.31.255.255"),
            ("192.0.0.0", "192.0.0.8"),
            ("192.0.0.11", "192.0.0.255"),
            ("192.0.2.0", "192.0.2.255"),
            ("192.88.99.0", "192.88.99.255"),
            ("192.168.0.0", "192.168.255.255"),
            ("198.18.0.0", "198.19.255.255"),
            ("198.51.100.0", "198.51.100.255"),
            ("203.0.113.0", "203.0.113.255"),
            ("224.0.0.0", "255.255.255.255"),
        ] {
            let (start, end) = (of(first), of(last));
            assert!(!is_global4(start) && !is_global4(end), "{first} {last}");
            assert!(start.checked_sub(1).is_none_or(is_global4), "{first}");
            assert!(end.checked_add(1).is_none_or(is_global4), "{last}");
        }
    }

    #[test]
    fn networks_hold_their_addresses() {
        for (prefix, address, holds) in [
            ("192.0.2.0/24", "192.0.2.255", true),
            ("192.0.2.77/24", "192.0.2.1", true),
            ("192.0.2.0/24", "192.0.3.0", false),
            ("0.0.0.0/0", "198.18.0.1", true),
            ("0.0.0.0/0", "::1", false),
            ("2001:db8::/32", "2001:db8:1::9", true),
            ("2001:db8::1", "2001:db8::2", false),
            ("2001:db8::/64", "198.18.0.1", false),
        ] {
            let prefix: Prefix = prefix.parse().expect("a prefix");
            assert_eq!(prefix.contains(address.parse().expect("an address")), holds, "{prefix} {address}");
        }
        for (prefix, host) in [
            ("192.0.2.0/24", "192.0.2.1"),
            ("192.0.2.9/24", "192.0.2.9"),
            ("192.0.2.0/31", "192.0.2.0"),
            ("2001:db8::/64", "2001:db8::1"),
        ] {
            assert_eq!(prefix.parse::<Prefix>().expect("a prefix").host().to_string(), host, "{prefix}");
        }
        for wrong in ["192.0.2.0/33", "2001:db8::/129", "192.0.2/24", "x", "192.0.2.0/"] {
            assert!(wrong.parse::<Prefix>().is_err(), "{wrong}");
        }
    }
}
