//! Redirected destinations: a host that sends to one of them reaches a server of the operator, as a resolver, and the answers
//! seem to come from the original destination.
//!
//! ```text
//!  outward   inside > asked      becomes   X':x' > server
//!  inward    server > X':x'      becomes   asked > inside
//! ```
//! Each inside end has an outside port of its own for each destination, so that two destinations asked from one socket are
//! distinguished though one server answers for both. Only the server may send inward. The server is outside, or a public end that
//! a forward leads inside. Packets to a public address of the NAT, or to the node itself, are not redirected.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use super::flow::Flow;
use super::ranges::Ranges;
use super::slot::Remote;
use crate::prefix::Prefix;

/// Destinations that are redirected to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Redirect {
    pub(crate) proto: u8,
    /// Hosts that are redirected.
    pub(crate) from: Prefix,
    /// Destinations, and their port.
    pub(crate) asked: (Prefix, u16),
    pub(crate) server: (u32, u16),
}

impl Redirect {
    /// Whether it redirects packets to a destination.
    fn is_asked(&self, proto: u8, remote: Remote) -> bool {
        let (network, port) = self.asked;
        (proto, remote.port) == (self.proto, port)
            && network.contains(Ipv4Addr::from(remote.address).into())
            && (remote.address, remote.port) != self.server
    }

    pub(super) fn holds(&self, flow: &Flow) -> bool {
        let [_, _, _, inside] = flow.inside.address;
        self.is_asked(flow.inside.proto, flow.remote) && self.from.contains(Ipv4Addr::from(inside).into())
    }
}

/// An index of the redirects by protocol and port: a frame without a redirect costs the logarithm of their number. The list of
/// redirects is searched only for a frame that the index finds.
#[derive(Debug, Default)]
pub(super) struct Reach(Vec<((u8, u16), Ends)>);

#[derive(Debug)]
struct Ends {
    /// Redirected destinations.
    asked: Ranges,
    /// Redirected hosts.
    from: Ranges,
}

impl Reach {
    /// The index of all redirects of a configuration. It takes its time.
    pub(super) fn new(redirects: &[Redirect]) -> Reach {
        let mut of_port: BTreeMap<(u8, u16), Vec<&Redirect>> = BTreeMap::new();
        for redirect in redirects {
            of_port.entry((redirect.proto, redirect.asked.1)).or_default().push(redirect);
        }
        let ends = |(key, those): ((u8, u16), Vec<&Redirect>)| {
            let mut asked: Ranges = those.iter().map(|redirect| redirect.asked.0.range4()).collect();
            let servers: BTreeSet<u32> = those.iter().map(|redirect| redirect.server.0).collect();
            for address in servers {
                let remote = Remote { address, port: key.1 };
                if !those.iter().any(|redirect| redirect.is_asked(key.0, remote)) {
                    asked.remove(address);
                }
            }
            (key, Ends { asked, from: those.iter().map(|redirect| redirect.from.range4()).collect() })
        };
        Reach(of_port.into_iter().map(ends).collect())
    }

    /// Whether source and destination of a frame may be in a redirect; `false`: no redirect holds.
    #[inline]
    pub(super) fn holds(&self, flow: &Flow) -> bool {
        let (Remote { address, port }, [_, _, _, inside]) = (flow.remote, flow.inside.address);
        self.0.binary_search_by_key(&(flow.inside.proto, port), |(key, _)| *key).is_ok_and(|at| {
            let (_, ends) = &self.0[at];
            ends.asked.contains(address) && ends.from.contains(inside)
        })
    }
}

#[cfg(test)]
mod tests {
    use weir_packet::headers::{TCP, UDP};

    use super::*;
    use crate::address::{address_of, mapped4};
    use crate::nat::slot::Inside;
    use crate::random::Random;
    use crate::table::tcp::Segment;

    #[test]
    fn who_is_in_reach_is_reported_as_by_a_walk_over_all() {
        for seed in 0..300 {
            let mut random = Random(seed);
            let mut below = |n: u64| random.below(n) as u32;
            // Few addresses and ports, so that networks overlap and servers are asked themselves.
            let redirects: Vec<Redirect> = (0..below(7))
                .map(|_| {
                    let mut network =
                        || Prefix { address: below(32).to_be_bytes().into(), len: 27 + below(6) as u8 };
                    let (from, asked) = (network(), network());
                    Redirect {
                        proto: [TCP, UDP][below(2) as usize],
                        from,
                        asked: (asked, 53 + below(2) as u16),
                        server: (below(32), 53 + below(2) as u16),
                    }
                })
                .collect();
            let reach = Reach::new(&redirects);
            for (proto, port) in [(TCP, 53), (TCP, 54), (UDP, 53), (UDP, 54)] {
                for (address, host) in (0..32).flat_map(|address| (0..32).map(move |host| (address, host))) {
                    let remote = Remote { address, port };
                    let inside = Inside { address: mapped4(host), port: 1, proto };
                    let flow = Flow { inside, remote, segment: Segment::default() };
                    let is_asked = redirects.iter().any(|redirect| redirect.is_asked(proto, remote));
                    let mut of_port =
                        redirects.iter().filter(|other| (other.proto, other.asked.1) == (proto, port));
                    let is_in_reach =
                        is_asked && of_port.any(|other| other.from.contains(address_of(inside.address)));
                    assert_eq!(reach.holds(&flow), is_in_reach, "seed {seed}: {flow:?} of {redirects:?}");
                    assert!(is_in_reach || !redirects.iter().any(|redirect| redirect.holds(&flow)));
                }
            }
        }
    }
}
