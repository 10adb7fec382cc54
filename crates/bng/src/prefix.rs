//! Prefixes of IPv6 for the links of subscribers: a /64 each (RFC 8273), of which its devices make their addresses (SLAAC, RFC 4862).
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

use crate::mac::Mac;
use crate::name::Name;
use crate::pool::{Assigned, Stock};

/// A /64: the upper half of its addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkPrefix(u64);

impl LinkPrefix {
    /// Length of each of them.
    pub const LEN: u8 = 64;

    /// The one that an address is in.
    pub fn of(address: Ipv6Addr) -> LinkPrefix {
        let bits = u128::from(address) >> 64;
        LinkPrefix(bits as u64)
    }

    /// Its first address.
    pub fn network(self) -> Ipv6Addr {
        self.host(0)
    }

    /// The address of a host in it, by its interface identifier.
    pub fn host(self, interface_id: u64) -> Ipv6Addr {
        (u128::from(self.0) << 64 | u128::from(interface_id)).into()
    }

    /// Whether hosts can have addresses in it that are routed: no group, no link-local or loopback address.
    pub(crate) fn is_assignable(self) -> bool {
        let network = self.network();
        self.0 != 0 && !network.is_multicast() && !network.is_unicast_link_local()
    }
}

impl fmt::Display for LinkPrefix {
    /// `2001:db8:1:2::/64`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network(), LinkPrefix::LEN)
    }
}

impl FromStr for LinkPrefix {
    type Err = String;

    fn from_str(text: &str) -> Result<LinkPrefix, String> {
        let wrong = || format!("`{text}` is no prefix of a link: use 2001:db8:1:2::/64");
        let address: Ipv6Addr =
            text.strip_suffix("/64").and_then(|address| address.parse().ok()).ok_or_else(wrong)?;
        let prefix = LinkPrefix::of(address);
        if prefix.network() == address && prefix.is_assignable() { Ok(prefix) } else { Err(wrong()) }
    }
}

/// The interface identifier that a MAC address gives (RFC 4291, appendix A).
pub fn interface_id(mac: Mac) -> u64 {
    let [a, b, c, d, e, f] = mac.0;
    u64::from_be_bytes([a ^ 2, b, c, 0xff, 0xfe, d, e, f])
}

/// The link-local address of an interface identifier.
pub fn link_local(interface_id: u64) -> Ipv6Addr {
    LinkPrefix(0xfe80 << 48).host(interface_id)
}

/// All prefixes that were ever used, and those of the pools that were not.
pub(crate) type Prefixes = Assigned<PrefixPool>;

/// A pool of prefixes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrefixPool {
    /// Its name.
    pub name: Name,
    /// Its first prefix.
    pub first: LinkPrefix,
    /// Length of the network that its prefixes are in, 16 to 64.
    pub len: u8,
    /// The address of the node towards these subscribers; its prefix is never assigned.
    pub router: Ipv6Addr,
    /// Length of the network of the node that the pool is in.
    pub router_len: u8,
}

impl PrefixPool {
    /// Number of prefixes that sessions can have.
    pub fn size(&self) -> u64 {
        let has_router = self.is_within(LinkPrefix::of(self.router));
        self.last_place().saturating_add(u64::from(!has_router))
    }

    /// The largest number of a prefix, counted from the first one.
    fn last_place(&self) -> u64 {
        u64::MAX.checked_shr(u32::from(self.len)).unwrap_or(0)
    }

    /// What contradicts itself, each with what to do about it.
    pub(crate) fn contradictions(&self) -> Vec<String> {
        let PrefixPool { name, first, len, router, router_len } = self;
        let mut found = Vec::new();
        if !first.is_assignable() {
            found.push(format!("no host can have addresses of {first}, of pool {name}: use another prefix"));
        }
        let network = |address: Ipv6Addr| u128::from(address).checked_shr(128 - u32::from(*router_len));
        if router_len > len || network(*router) != network(first.network()) {
            found.push(format!(
                "{}/{len} of pool {name} is not in {router}/{router_len}: use a shorter prefix of the router",
                first.network()
            ));
        }
        found
    }

    /// Whether some prefix is in both.
    pub(crate) fn overlaps(&self, other: &PrefixPool) -> bool {
        self.is_within(other.first) || other.is_within(self.first)
    }

    fn is_within(&self, prefix: LinkPrefix) -> bool {
        prefix.0.checked_sub(self.first.0).is_some_and(|place| place <= self.last_place())
    }
}

impl Stock for PrefixPool {
    type Unit = LinkPrefix;

    fn name(&self) -> &Name {
        &self.name
    }

    fn size(&self) -> u64 {
        PrefixPool::size(self)
    }

    fn has(&self, prefix: LinkPrefix) -> bool {
        self.is_within(prefix) && prefix != LinkPrefix::of(self.router)
    }

    fn at(&self, place: u64) -> Option<LinkPrefix> {
        (place <= self.last_place()).then_some(LinkPrefix(self.first.0 | place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(len: u8) -> PrefixPool {
        let first = "2001:db8:100::/64".parse().expect("a prefix");
        let router = "2001:db8:100::1".parse().expect("an address");
        PrefixPool { name: "six".parse().expect("a name"), first, len, router, router_len: 40 }
    }

    #[test]
    fn prefixes_are_read_as_they_are_written() {
        let text = "2001:db8:1:2::/64";
        assert_eq!(text.parse::<LinkPrefix>().map(|prefix| prefix.to_string()).as_deref(), Ok(text));
        for wrong in ["", "2001:db8:1:2::/48", "2001:db8:1:2::1/64", "2001:db8:1:2::", "fe80::/64", "::/64"] {
            assert!(wrong.parse::<LinkPrefix>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_prefix_of_a_pool_is_one_of_it_but_that_of_the_router() {
        let pool = pool(60);
        let all: Vec<LinkPrefix> = (0..).map_while(|place| pool.at(place)).collect();
        assert_eq!((all.len(), pool.size()), (16, 15));
        assert_eq!(all.iter().filter(|prefix| pool.has(**prefix)).count(), 15);
        assert_eq!(all[15].to_string(), "2001:db8:100:f::/64");
        assert!(!pool.has("2001:db8:100:10::/64".parse().expect("a prefix")));
    }

    #[test]
    fn the_identifier_of_a_mac_address_is_that_of_a_kernel() {
        let id = interface_id(Mac([2, 0, 0, 0, 0, 0xfe]));
        assert_eq!(link_local(id).to_string(), "fe80::ff:fe00:fe");
    }

    #[test]
    fn pools_outside_of_their_router_or_in_each_other_are_found() {
        assert!(pool(48).contradictions().is_empty());
        assert_eq!(pool(39).contradictions().len(), 1);
        let far = PrefixPool { router: "2001:db8:200::1".parse().expect("an address"), ..pool(48) };
        assert_eq!(far.contradictions().len(), 1);
        assert!(pool(48).overlaps(&pool(60)) && pool(60).overlaps(&pool(48)));
    }
}
