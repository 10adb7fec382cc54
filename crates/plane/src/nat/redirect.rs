//! Destinations that lead elsewhere: who asks one of them reaches a server of the network's own, as a resolver, and hears
//! it as the one that was asked.
//!
//! ```text
//!  outward   inside > asked      becomes   X':x' > server
//!  inward    server > X':x'      becomes   asked > inside
//! ```
//! Each inside end has an outside port of its own for each destination that it asks, so that two of them asked from one
//! socket are distinguished though one server answers for both. Nobody but the server is let in. The server is outside, or a
//! public end that a forward leads inside; who asks a public address of the NAT or the node itself is not redirected.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use weir_packet::headers::TCP;

use super::ranges::Ranges;
use super::slot::{Inside, Kind, Remote};
use super::table::{Arrival, Flow, New, Table};
use super::{Nat, Next};
use crate::drops::Drop;
use crate::prefix::Prefix;
use crate::stage::Step;
use crate::table::tcp::{Segment, Side};
use crate::time::Time;

/// Destinations that lead to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Redirect {
    pub(crate) proto: u8,
    /// Who is redirected.
    pub(crate) from: Prefix,
    /// Destinations, and their port.
    pub(crate) asked: (Prefix, u16),
    pub(crate) server: (u32, u16),
}

impl Redirect {
    /// Whether it is about a destination.
    fn is_asked(&self, proto: u8, remote: Remote) -> bool {
        let (network, port) = self.asked;
        (proto, remote.port) == (self.proto, port)
            && network.contains(Ipv4Addr::from(remote.address).into())
            && (remote.address, remote.port) != self.server
    }

    fn holds(&self, flow: &Flow) -> bool {
        let [_, _, _, inside] = flow.inside.address;
        self.is_asked(flow.inside.proto, flow.remote) && self.from.contains(Ipv4Addr::from(inside).into())
    }
}

/// What redirects say of each protocol and port, so that a frame that none is about is reported at a cost that grows with the
/// logarithm of their number. Which of several holds is only asked for those who are in reach of one.
#[derive(Debug, Default)]
pub(super) struct Reach(Vec<((u8, u16), Ends)>);

#[derive(Debug)]
struct Ends {
    /// Destinations that one of them is about.
    asked: Ranges,
    /// Who is redirected by one of them.
    from: Ranges,
}

impl Reach {
    /// Of all redirects of a configuration. It takes its time.
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

    /// Whether who sends a frame and what it asks are in reach; `false` if no redirect holds.
    #[inline]
    fn holds(&self, flow: &Flow) -> bool {
        let (Remote { address, port }, [_, _, _, inside]) = (flow.remote, flow.inside.address);
        self.0.binary_search_by_key(&(flow.inside.proto, port), |(key, _)| *key).is_ok_and(|at| {
            let (_, ends) = &self.0[at];
            ends.asked.contains(address) && ends.from.contains(inside)
        })
    }
}

impl Table {
    /// Redirects by number are those that ever were configured: sessions outlive them.
    pub(super) fn number_redirects(&mut self, come: &[Redirect]) {
        for redirect in come {
            if let Entry::Vacant(vacant) = self.redirect_numbers.entry(*redirect) {
                vacant.insert(self.redirects.len() as u16);
                self.redirects.push(*redirect);
            }
        }
    }

    /// The redirected session of a frame from the inside, a new one if need be and the frame is in reach; `None` if it goes
    /// where it wants to.
    fn outbound_redirected(&mut self, now: Time, flow: &Flow, in_reach: bool) -> Result<Option<u32>, Drop> {
        let known = self.redirected(now, &flow.inside, flow.remote);
        if known != 0 {
            self.heard(now, known, Side::Inside, &flow.segment);
            return Ok(Some(known));
        }
        let first = || self.config.redirects.iter().find(|redirect| redirect.holds(flow));
        let Some(redirect) = in_reach.then(first).flatten() else { return Ok(None) };
        let number = self.redirect_numbers[redirect];
        // A connection that began before there was this redirect goes on.
        if flow.inside.proto == TCP && self.is_connected(now, flow) {
            return Ok(None);
        }
        let track = Table::begin(flow.inside.proto, Side::Inside, &flow.segment)?;
        let new = New { kind: Kind::Redirected, redirect: number, track };
        self.create_as(now, flow.inside, flow.remote, new).map(Some)
    }

    /// The redirected session of an inside end and the destination that it asked, or 0.
    pub(super) fn redirected(&mut self, now: Time, inside: &Inside, asked: Remote) -> u32 {
        let number = self.sessions.session(&self.secret, inside, asked, Kind::Redirected);
        self.alive(now, number)
    }

    fn is_connected(&mut self, now: Time, flow: &Flow) -> bool {
        let slot = self.mapping_of(now, &flow.inside, flow.remote).copied();
        slot.is_some_and(|slot| {
            let (outside, port) = (slot.outside, slot.outside_port);
            let space = super::outside::Space::Tcp;
            self.has_session(now, super::outside::Endpoint { outside, space, port }, flow.remote)
        })
    }

    /// The server of a redirected session.
    pub(super) fn server(&self, number: u32) -> (u32, u16) {
        self.redirects[usize::from(self.sessions[number].dependents)].server
    }

    /// What the inside asked for to which this frame is the answer.
    fn inbound_redirected(&mut self, now: Time, arrival: &Arrival, number: u32) -> Result<Remote, Drop> {
        if self.alive(now, number) == 0 {
            return Err(Drop::NatNoMapping);
        }
        let Remote { address, port } = arrival.remote;
        if (address, port) != self.server(number) {
            return Err(Drop::NatFiltered);
        }
        self.heard(now, number, Side::Outside, &arrival.segment);
        Ok(self.sessions[number].remote())
    }
}

impl Nat {
    /// A packet with ports on its way out, if it is redirected.
    pub(super) fn out_redirected(&mut self, step: &mut Step<'_, '_>, i: usize) -> Option<Next> {
        let flow = super::flow(&step.frames[i]);
        let (asked, in_reach) = (flow.remote.address, self.table.reach.holds(&flow));
        if !in_reach && !self.table.were_redirects || self.is_public(asked) || self.local.contains(&asked) {
            return None;
        }
        let number = match self.table.outbound_redirected(step.now, &flow, in_reach) {
            Ok(number) => number?,
            Err(reason) => return Some(self.refuse(step, i, reason)),
        };
        let (address, port) = self.table.server(number);
        let frame = &mut step.frames[i];
        frame.set_destination4(address, port);
        self.translate_source(frame, number);
        Some(if self.is_public(address) { Next::Hairpin } else { Next::On })
    }

    /// A packet for the port of a redirected session.
    pub(super) fn back_redirected(&mut self, step: &mut Step<'_, '_>, i: usize, number: u32) -> Next {
        let endpoint = self.endpoint(&step.frames[i]).expect("a session has it");
        let frame = &mut step.frames[i];
        let (remote, segment) = (super::remote(frame), Segment::of(frame));
        let arrival = Arrival { endpoint, proto: frame.proto(), remote, segment };
        match self.table.inbound_redirected(step.now, &arrival, number) {
            Ok(asked) => {
                let Inside { address: [_, _, _, inside], port, .. } = self.table.sessions[number].inside();
                frame.set_source4(asked.address, asked.port);
                frame.set_destination4(inside, port);
                if let Some(mss) = self.table.config.mss {
                    super::clamp(frame, mss);
                }
                Next::On
            }
            Err(reason) => Next::Drop(reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_packet::headers::UDP;

    use super::*;
    use crate::address::{address_of, mapped4};
    use crate::random::Random;

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
