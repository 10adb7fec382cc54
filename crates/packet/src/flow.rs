//! Flows: which addresses and ports the frames of a stream carry, and in which order.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// IP version of the test traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum IpVersion {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// Order in which a stream goes through its flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FlowOrder {
    /// 0, 1, 2, ... and again.
    Sequential,
    /// Pseudo-random with repeats (RFC 4814, section 4).
    Random,
    /// Pseudo-random order in which each flow comes once before any comes again (RFC 9693, phase 1).
    Unique,
}

/// Which way test frames travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Direction {
    /// From side a to side b.
    Forward,
    /// Both ways at once, the same rate each (RFC 2544, section 14).
    Both,
    /// From a to b, where the tester sends each frame back to a.
    Reflect,
}

/// Most networks of a side (RFC 2544, section 12).
pub const MAX_NETWORKS: u32 = 256;
/// Addresses that all networks of a side share, 15 bits: each can have a host.
pub const MOST_HOSTS: u32 = 1 << 15;

/// Addresses of each network, a power of two, when a side has this many.
pub fn network_size(networks: u32) -> u32 {
    MOST_HOSTS / networks.clamp(1, MAX_NETWORKS).next_power_of_two()
}

/// Most flows of a stream.
pub const MAX_FLOWS: u32 = 16_000_000;

impl fmt::Display for IpVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            IpVersion::V4 => "4",
            IpVersion::V6 => "6",
        })
    }
}

impl FromStr for IpVersion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "4" => Ok(IpVersion::V4),
            "6" => Ok(IpVersion::V6),
            _ => Err(format!("`{text}` is no IP version: use 4, 6")),
        }
    }
}

named!(FlowOrder, "flow order", "sequential" => Sequential, "random" => Random, "unique" => Unique);
named!(Direction, "direction", "forward" => Forward, "both" => Both, "reflect" => Reflect);

/// What the frames of one flow have in common. IPv6 addresses are a prefix and these 4 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Flow {
    /// Source address, or its last 4 bytes.
    pub src: u32,
    /// Destination address, or its last 4 bytes.
    pub dst: u32,
    /// UDP source port.
    pub sport: u16,
    /// UDP destination port.
    pub dport: u16,
    /// Flow group that is counted together.
    pub group: u16,
}

impl Flow {
    /// The same flow seen from the other side.
    pub fn reversed(self) -> Flow {
        Flow { src: self.dst, dst: self.src, sport: self.dport, dport: self.sport, ..self }
    }
}

/// The flows of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowSpec {
    /// Number of different flows, 1 to [`MAX_FLOWS`].
    pub count: u32,
    /// Their order.
    pub order: FlowOrder,
    /// Flow groups, 1 to 256: flow i belongs to group i modulo this.
    pub groups: u16,
    /// Hosts of the sources, 1 to [`MAX_FLOWS`]; more flows than these differ in their source ports. Destinations are as
    /// many at most. Each host must fit into its network, see [`network_size`], if there is more than one.
    pub hosts: u32,
    /// Networks that the addresses of either side are spread over, 1 to [`MAX_NETWORKS`], each of
    /// [`network_size`].
    pub networks: u32,
    /// First source address.
    pub src: u32,
    /// First destination address.
    pub dst: u32,
    /// Seed of pseudo-random ports, addresses and order.
    pub seed: u64,
}

/// Source hosts of a stream unless more are wanted: they fit into all networks of a side.
pub const HOSTS: u32 = 4096;
/// RFC 4814, section 4.5: source ports are 1024 to 65535, destination ports 1 to 49151.
const FIRST_SOURCE_PORT: u32 = 1024;
const SOURCE_PORTS: u32 = 65536 - FIRST_SOURCE_PORT;
const DESTINATION_PORTS: u64 = 49151;
/// A stream in random order repeats after at least this many frames.
const RANDOM_PERIOD: u32 = 1 << 16;

impl FlowSpec {
    /// Flow `i`: source address and port are unique, destination and its port pseudo-random (RFC 4814).
    pub fn flow(&self, i: u32) -> Flow {
        let (host, turn) = (i % self.hosts, i / self.hosts);
        let first_port = mix(self.seed ^ u64::from(host)) % u64::from(SOURCE_PORTS);
        // 4093 shares no factor with the number of ports, so that each turn gives a host a new one.
        let sport = (first_port + u64::from(turn) * 4093) % u64::from(SOURCE_PORTS);
        let far = mix(self.seed.wrapping_add(u64::from(i) << 20));
        Flow {
            src: self.src.wrapping_add(self.spread(host, host)),
            dst: self.dst.wrapping_add(self.spread((far % u64::from(self.hosts.min(self.count))) as u32, i)),
            sport: (FIRST_SOURCE_PORT + sport as u32) as u16,
            dport: (1 + (far >> 32) % DESTINATION_PORTS) as u16,
            group: (i % u32::from(self.groups)) as u16,
        }
    }

    /// The index of a host in its network. Two hosts with the same turn, or each with its own number as turn, are apart.
    fn spread(&self, host: u32, turn: u32) -> u32 {
        turn % self.networks * network_size(self.networks) + host / self.networks
    }

    /// Flows in the order in which a stream sends them; after the last the first follows.
    pub fn sequence(&self) -> Vec<Flow> {
        match self.order {
            FlowOrder::Sequential => (0..self.count).map(|i| self.flow(i)).collect(),
            FlowOrder::Unique => self.shuffled().into_iter().map(|i| self.flow(i)).collect(),
            FlowOrder::Random => (0..self.count.max(RANDOM_PERIOD))
                .map(|n| self.flow((mix(self.seed ^ u64::from(n)) % u64::from(self.count)) as u32))
                .collect(),
        }
    }

    /// All flow numbers once, in pseudo-random order (Fisher and Yates).
    fn shuffled(&self) -> Vec<u32> {
        let mut order: Vec<u32> = (0..self.count).collect();
        for last in (1..order.len()).rev() {
            let other = mix(self.seed.wrapping_mul(3) ^ last as u64) % (last as u64 + 1);
            order.swap(last, other as usize);
        }
        order
    }
}

/// A well-mixed function of a number: the output step of splitmix64.
fn mix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn spec(count: u32, order: FlowOrder) -> FlowSpec {
        FlowSpec {
            count,
            order,
            groups: 4,
            hosts: HOSTS,
            networks: 1,
            src: 0xc612_8000,
            dst: 0xc613_8000,
            seed: 7,
        }
    }

    #[test]
    fn every_flow_is_different() {
        for count in [1, 100, 5000, 300_000] {
            let flows: HashSet<Flow> =
                (0..count).map(|i| spec(count, FlowOrder::Sequential).flow(i)).collect();
            assert_eq!(flows.len(), count as usize);
        }
        let most = spec(MAX_FLOWS, FlowOrder::Sequential);
        let last_turn: HashSet<_> =
            (0..MAX_FLOWS / HOSTS).map(|turn| most.flow(turn * HOSTS).sport).collect();
        assert_eq!(last_turn.len(), (MAX_FLOWS / HOSTS) as usize);
    }

    #[test]
    fn a_stream_has_as_many_hosts_as_are_wanted() {
        let flows = FlowSpec { hosts: 100_000, ..spec(250_000, FlowOrder::Unique) }.sequence();
        let different = |of: fn(&Flow) -> u32| flows.iter().map(of).collect::<HashSet<_>>().len();
        assert_eq!(different(|flow| flow.src), 100_000);
        assert!((80_000..=100_000).contains(&different(|flow| flow.dst)));
        assert_eq!(flows.iter().collect::<HashSet<_>>().len(), 250_000);
        let steps = flows.windows(2).filter(|two| two[0].src + 1 == two[1].src).count();
        assert!(steps < 100, "sources come in no order: {steps}");
    }

    #[test]
    fn networks_share_the_flows_evenly_and_none_leaves_its_part() {
        for networks in [1, 2, 3, 100, 256] {
            let flows = FlowSpec { networks, ..spec(6000, FlowOrder::Sequential) };
            let different: HashSet<_> = (0..6000).map(|i| flows.flow(i)).collect();
            assert_eq!(different.len(), 6000);
            let mut counts = vec![[0; 2]; networks as usize];
            for flow in different {
                for (side, address) in [flow.src - flows.src, flow.dst - flows.dst].into_iter().enumerate() {
                    counts[(address / network_size(networks)) as usize][side] += 1;
                }
            }
            let (least, most) = (6000 / networks - 60.min(6000 / networks / 2), 6000 / networks + 60);
            assert!(counts.iter().flatten().all(|n| (least..=most).contains(n)), "{networks}: {counts:?}");
        }
    }

    #[test]
    fn ports_are_in_the_ranges_of_rfc4814() {
        for flow in spec(50_000, FlowOrder::Sequential).sequence() {
            assert!(flow.sport >= 1024 && (1..=49151).contains(&flow.dport), "{flow:?}");
        }
    }

    #[test]
    fn unique_order_has_each_flow_once_and_is_not_sequential() {
        let unique = spec(10_000, FlowOrder::Unique).sequence();
        assert_eq!(unique.iter().collect::<HashSet<_>>().len(), 10_000);
        assert_ne!(unique, spec(10_000, FlowOrder::Sequential).sequence());
    }

    #[test]
    fn random_order_repeats_flows_and_uses_nearly_all() {
        let random = spec(1000, FlowOrder::Random).sequence();
        assert_eq!(random.len(), RANDOM_PERIOD as usize);
        assert!(random.iter().collect::<HashSet<_>>().len() > 990);
    }
}
