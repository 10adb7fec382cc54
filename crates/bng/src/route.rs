//! Networks behind a subscriber (Framed-Route, Framed-IPv6-Route): who has which.
//!
//! ```text
//! 203.0.113.0/28         2001:db8:9::/56
//! ```
//! Networks of two subscribers never overlap, and none has an address of a pool or of the node.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use crate::index::Index;

/// Most networks of a session: the node takes 16 prefixes, of which one is its address and one that of its link.
pub(crate) const MOST_ROUTES: usize = 14;
/// Shortest lengths of IPv4 and IPv6.
const SHORTEST: (u8, u8) = (8, 16);

/// A network behind a subscriber.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Route {
    address: IpAddr,
    len: u8,
}

impl Route {
    /// A network; `None`: there are bits behind its length, or it is no network of hosts.
    pub fn new(address: IpAddr, len: u8) -> Option<Route> {
        let (least, most, is_of_hosts) = match address {
            IpAddr::V4(address) => (
                SHORTEST.0,
                32,
                !address.is_multicast() && !address.is_loopback() && !address.is_unspecified(),
            ),
            IpAddr::V6(address) => {
                let is_of_hosts = !address.is_multicast() && !address.is_unicast_link_local();
                (SHORTEST.1, 128, is_of_hosts && !address.is_unspecified() && !address.is_loopback())
            }
        };
        let route = Route { address, len };
        let is_network = (least..=most).contains(&len) && route.shortened(len) == Some(route);
        (is_network && is_of_hosts).then_some(route)
    }

    /// Its first address.
    pub fn address(self) -> IpAddr {
        self.address
    }

    /// Its length.
    pub fn prefix_len(self) -> u8 {
        self.len
    }

    /// Whether it has an address.
    pub(crate) fn has(self, address: IpAddr) -> bool {
        let host = Route { address, len: if address.is_ipv4() { 32 } else { 128 } };
        host.shortened(self.len) == Some(self)
    }

    /// Whether some address is in both.
    pub(crate) fn overlaps(self, other: Route) -> bool {
        self.has(other.address) || other.has(self.address)
    }

    /// The network of this length that it is in.
    fn shortened(self, len: u8) -> Option<Route> {
        let address = match self.address {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(32_u32.checked_sub(len.into())?).unwrap_or(0);
                IpAddr::from(Ipv4Addr::from(u32::from(address) & mask))
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(128_u32.checked_sub(len.into())?).unwrap_or(0);
                IpAddr::from(Ipv6Addr::from(u128::from(address) & mask))
            }
        };
        Some(Route { address, len })
    }

    /// The last address.
    fn last(self) -> IpAddr {
        match self.address {
            IpAddr::V4(address) => {
                let hosts = u32::MAX.checked_shr(self.len.into()).unwrap_or(0);
                Ipv4Addr::from(u32::from(address) | hosts).into()
            }
            IpAddr::V6(address) => {
                let hosts = u128::MAX.checked_shr(self.len.into()).unwrap_or(0);
                Ipv6Addr::from(u128::from(address) | hosts).into()
            }
        }
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.len)
    }
}

impl FromStr for Route {
    type Err = String;

    fn from_str(text: &str) -> Result<Route, String> {
        let route = text.split_once('/').and_then(|(address, len)| {
            Route::new(address.parse().ok()?, len.parse().ok().filter(|_| !len.starts_with('+'))?)
        });
        route.ok_or_else(|| {
            format!("`{text}` is no network behind a subscriber: use 203.0.113.0/28 or 2001:db8:9::/56")
        })
    }
}

/// A route of a RADIUS server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FramedRoute {
    pub(crate) route: Route,
    /// `None`: the subscriber itself.
    pub(crate) gateway: Option<IpAddr>,
}

impl FramedRoute {
    /// Reads `192.0.2.0/24 0.0.0.0 1` or `2001:db8:9::/56 :: 1` (RFC 2865, section 5.22; RFC 3162, section 2.5). Metrics mean nothing here.
    /// Without a length it is that of the address's class.
    pub(crate) fn read(text: &str) -> Option<FramedRoute> {
        let mut words = text.split_whitespace();
        let network = words.next()?;
        let route = match network.parse::<Ipv4Addr>() {
            Ok(address) => {
                let [first, ..] = address.octets();
                let len = match first {
                    0..=127 => 8,
                    128..=191 => 16,
                    _ => 24,
                };
                Route::new(address.into(), len)?
            }
            Err(_) => network.parse().ok()?,
        };
        let gateway: Option<IpAddr> = match words.next() {
            Some(gateway) => Some(gateway.parse().ok()?),
            None => None,
        };
        let is_of_family = gateway.is_none_or(|gateway| gateway.is_ipv4() == route.address.is_ipv4());
        let gateway = gateway.filter(|address| !address.is_unspecified());
        (is_of_family && words.all(|metric| metric.parse::<i64>().is_ok()))
            .then_some(FramedRoute { route, gateway })
    }
}

/// Which subscriber has which networks.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    holders: BTreeMap<Route, Index>,
}

impl Routes {
    /// A network of another subscriber that overlaps with this one, and its subscriber.
    pub(crate) fn other(&self, route: Route, subscriber: Index) -> Option<(Route, Index)> {
        let shorter = (0..route.len).filter_map(|len| route.shortened(len));
        let around = shorter.filter_map(|shorter| Some((shorter, *self.holders.get(&shorter)?)));
        let last = Route { address: route.last(), len: u8::MAX };
        let within =
            self.holders.range(Route { len: 0, ..route }..=last).map(|(route, holder)| (*route, *holder));
        around.chain(within).find(|(found, holder)| *holder != subscriber && found.overlaps(route))
    }

    /// These are the subscriber's from now on.
    pub(crate) fn hold(&mut self, routes: &[Route], subscriber: Index) {
        routes.iter().for_each(|route| _ = self.holders.insert(*route, subscriber));
    }

    /// These are free, if they are the subscriber's.
    pub(crate) fn release(&mut self, routes: &[Route], subscriber: Index) {
        for route in routes {
            if self.holders.get(route) == Some(&subscriber) {
                self.holders.remove(route);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(text: &str) -> Route {
        text.parse().expect("a route")
    }

    #[test]
    fn networks_are_read_as_they_are_written() {
        for text in ["203.0.113.0/28", "10.0.0.0/8", "203.0.113.9/32", "2001:db8:9::/56", "2001:db8::1/128"] {
            assert_eq!(text.parse::<Route>().map(|route| route.to_string()).as_deref(), Ok(text));
        }
        for wrong in [
            "",
            "203.0.113.1/28",
            "0.0.0.0/0",
            "10.0.0.0/7",
            "10.0.0.0/33",
            "10.0.0.0",
            "10.0.0.0/+8",
            "224.0.0.0/8",
            "fe80::/64",
            "2001:db8::1/64",
            "2001::/8",
            "::/0",
            "127.0.0.0/8",
        ] {
            assert!(wrong.parse::<Route>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn routes_of_servers_have_gateways_and_metrics() {
        for (text, read) in [
            ("203.0.113.0/28", Some("203.0.113.0/28")),
            ("203.0.113.0/28 0.0.0.0 1", Some("203.0.113.0/28")),
            ("203.0.113.0/28 100.64.0.9 1 2 -1 3 400", Some("203.0.113.0/28 by 100.64.0.9")),
            ("203.0.113.0 0.0.0.0 1", Some("203.0.113.0/24")),
            ("172.16.0.0", Some("172.16.0.0/16")),
            ("2001:db8:9::/56 :: 1", Some("2001:db8:9::/56")),
            ("2001:db8:9::/56 fe80::1 1", Some("2001:db8:9::/56 by fe80::1")),
            ("2001:db8:9::/56 0.0.0.0", None),
            ("203.0.113.0/28 here", None),
            ("203.0.113.0/28 0.0.0.0 x", None),
            ("203.0.113.0/29 :: 1", None),
            ("", None),
        ] {
            let found = FramedRoute::read(text).map(|FramedRoute { route, gateway }| match gateway {
                Some(gateway) => format!("{route} by {gateway}"),
                None => route.to_string(),
            });
            assert_eq!(found.as_deref(), read, "{text}");
        }
    }

    #[test]
    fn networks_of_two_subscribers_do_not_overlap() {
        let (a, b) = (Index(0), Index(1));
        let mut routes = Routes::default();
        routes.hold(&[route("203.0.113.16/28"), route("2001:db8:9::/56")], a);
        for (text, is_free) in [
            ("203.0.113.0/24", false),
            ("203.0.113.16/28", false),
            ("203.0.113.17/32", false),
            ("203.0.113.31/32", false),
            ("203.0.113.32/28", true),
            ("203.0.113.0/28", true),
            ("203.0.0.0/8", false),
            ("2001:db8:9:1::/64", false),
            ("2001:db8::/32", false),
            ("2001:db8:a::/56", true),
        ] {
            let Ok(route) = text.parse() else { continue };
            assert_eq!(routes.other(route, b).is_none(), is_free, "{text}");
            assert_eq!(routes.other(route, a), None, "{text}: its own");
        }
        routes.release(&[route("203.0.113.16/28")], b);
        assert!(routes.other(route("203.0.113.16/28"), b).is_some(), "the holder alone releases it");
        routes.release(&[route("203.0.113.16/28")], a);
        assert_eq!(routes.other(route("203.0.113.16/28"), b), None);
    }
}
