//! The SYN flood: from some hosts inside, mixed evenly into the connections that are tried meanwhile, and from hosts outside to
//! the public addresses of the NAT. Pure.

use std::net::Ipv4Addr;

use weir_load::tcp::FLOOD;
use weir_packet::flow::Flow;
use weir_rng::Rng;

use super::plan::{FLOODERS, Flood, Side};
use weir_lab::frames::setup::{AddressRange, FIRST_HOST};

/// SYN from outside before they begin anew.
const FROM_OUTSIDE: u32 = 65_536;
const FIRST_PORT: u32 = 1024;
const PORTS: u32 = 65_536 - FIRST_PORT;

impl Flood {
    /// SYN/s from inside and from outside.
    pub(super) fn sides(&self) -> (f64, f64) {
        match self.from {
            Side::Inside => (self.fps, 0.0),
            Side::Outside => (0.0, self.fps),
            Side::Both => (self.fps, self.fps),
        }
    }
}

/// What leaves inside: SYN of connections and of a flood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mix {
    /// Connections.
    pub(super) connections: u32,
    /// All SYN.
    pub(super) all: u32,
}

impl Mix {
    /// So many connections at a rate, and a flood meanwhile; fewer where there is room for fewer SYN.
    pub(super) fn of(connections: u32, rate: f64, flood_fps: f64, room: u32) -> Mix {
        let times = (rate + flood_fps) / rate;
        let connections = f64::from(connections).min(f64::from(room) / times).max(1.0) as u32;
        let all = ((f64::from(connections) * times) as u32).clamp(connections, room.max(connections));
        Mix { connections, all }
    }

    /// The flows in the order of sending: these connections, and those that flood evenly between them. Their hosts are those
    /// after the first `subscribers`.
    pub(super) fn flows(self, connections: &[Flow], subscribers: u32, seed: u64) -> Vec<Flow> {
        let (own, all) = (u64::from(self.connections), u64::from(self.all));
        let mut left = connections.iter();
        let mut random = Rng::new(seed ^ 0xf10d);
        let target = connections.first().copied();
        let is_own = |i: u64| (i + 1) * own / all > i * own / all;
        let flow = |i: u64| {
            if is_own(i) {
                left.next().copied()
            } else {
                target.map(|to| from_inside(i, to, subscribers, &mut random))
            }
        };
        (0..all).filter_map(flow).collect()
    }
}

/// SYN number `i`, each from another host and port; to where the connections go.
fn from_inside(i: u64, to: Flow, subscribers: u32, random: &mut Rng) -> Flow {
    let (host, turn) = ((i % u64::from(FLOODERS)) as u32, (i / u64::from(FLOODERS)) as u32);
    let sport = (FIRST_PORT + turn % PORTS) as u16;
    let dport = 1 + random.next_u64() as u16 % 49_151;
    Flow { src: FIRST_HOST[0] + subscribers + host, dst: to.dst, sport, dport, group: FLOOD }
}

/// SYN from outside, to ports of the public addresses; at most `room`.
pub(super) fn from_outside(public: &[AddressRange], room: u32, seed: u64) -> Vec<Flow> {
    let mut random = Rng::new(seed ^ 0xf_100d);
    let mut one = |i: u32| {
        let (first, last) = *public.get(i as usize % public.len().max(1))?;
        let (first, last) = (u32::from(first), u32::from(last));
        let dst = first + random.next_u64() as u32 % (last - first + 1);
        let port = |random: &mut Rng| (FIRST_PORT + random.next_u64() as u32 % PORTS) as u16;
        let (sport, dport) = (port(&mut random), port(&mut random));
        Some(Flow { src: FIRST_HOST[1] + i % FLOODERS, dst, sport, dport, group: FLOOD })
    };
    (0..FROM_OUTSIDE.min(room)).map_while(&mut one).collect()
}

/// A range in words.
pub(super) fn named((first, last): AddressRange) -> String {
    let is_one = |first: Ipv4Addr| first == last;
    if is_one(first) { first.to_string() } else { format!("{first} to {last}") }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn flow(sport: u16) -> Flow {
        Flow { src: FIRST_HOST[0], dst: FIRST_HOST[1], sport, dport: 80, group: 0 }
    }

    #[test]
    fn a_flood_is_mixed_in_evenly() {
        for (connections, rate, flood, room, expected) in [
            (100, 1e3, 9e3, 10_000, (100, 1000)),
            (100, 1e3, 0.0, 10_000, (100, 100)),
            (100, 1e3, 9e3, 500, (50, 500)),
            (100, 1e3, 500.0, 10_000, (100, 150)),
        ] {
            let mix = Mix::of(connections, rate, flood, room);
            assert_eq!((mix.connections, mix.all), expected);
            let own: Vec<Flow> = (0..mix.connections as u16).map(flow).collect();
            let flows = mix.flows(&own, 10, 7);
            assert_eq!(flows.len(), mix.all as usize);
            let kept: Vec<Flow> = flows.iter().copied().filter(|flow| flow.group != FLOOD).collect();
            assert_eq!(kept, own, "in their order");
            let half = flows[..flows.len() / 2].iter().filter(|flow| flow.group != FLOOD).count();
            assert!(half.abs_diff(own.len() / 2) <= 1, "{half} of {} in the first half", own.len());
            let floods = flows.iter().filter(|flow| flow.group == FLOOD);
            let tuples: HashSet<_> = floods.clone().map(|flow| (flow.src, flow.sport)).collect();
            assert_eq!(tuples.len(), floods.clone().count(), "each SYN is of a new connection");
            assert!(floods.clone().all(|flow| flow.src >= FIRST_HOST[0] + 10));
        }
    }

    #[test]
    fn a_flood_from_outside_meets_the_public_addresses() {
        let public = [(Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 4))];
        let flows = from_outside(&public, 1000, 7);
        let found: HashSet<_> = flows.iter().map(|flow| Ipv4Addr::from(flow.dst).octets()[3]).collect();
        assert_eq!((flows.len(), found), (1000, HashSet::from([1, 2, 3, 4])));
        assert_eq!(from_outside(&[], 1000, 7), []);
    }
}
