//! The flows behind a NAT: unique 4-tuples, so many source addresses and ports, and few destinations (RFC 9693:
//! a large range of source ports, a small one of destinations).

use weir_packet::flow::{Flow, FlowOrder};
use weir_rng::Rng;

use weir_lab::frames::setup::FIRST_HOST;

/// Most subscribers: hosts of the upper half of their network.
pub(super) const MOST_SUBSCRIBERS: u32 = 1 << 15;
/// Source ports that a subscriber uses: none of those that are assigned (RFC 4814, section 4.5).
const FIRST_PORT: u32 = 1024;
const PORTS: u32 = 65_536 - FIRST_PORT;

/// Which flows there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ranges {
    /// How many flows.
    pub flows: u32,
    /// Source addresses; each has as many source ports as it takes, 64,512 at most.
    pub subscribers: u32,
    /// Destination addresses.
    pub destinations: u32,
    /// Destination ports, from 1.
    pub destination_ports: u32,
}

impl Ranges {
    /// Has each flow an inside endpoint of its own?
    pub(super) fn fit(&self) -> bool {
        self.flows.div_ceil(self.subscribers.max(1)) <= PORTS
    }

    /// The flows in the order of sending.
    pub(super) fn list(&self, order: FlowOrder, seed: u64) -> Vec<Flow> {
        let mut list: Vec<Flow> = (0..self.flows).map(|i| self.flow(i, seed)).collect();
        if order != FlowOrder::Sequential {
            shuffle(&mut list, seed);
        }
        list
    }

    /// Flow `i`: subscribers in turn, each with one port after another from a pseudo-random one on.
    fn flow(&self, i: u32, seed: u64) -> Flow {
        let (host, turn) = (i % self.subscribers, i / self.subscribers);
        let first = Rng::new(seed ^ u64::from(host)).next_u64() as u32 % PORTS;
        let mut far = Rng::new(seed.wrapping_add(u64::from(i) << 20));
        Flow {
            src: FIRST_HOST[0] + host,
            dst: FIRST_HOST[1] + far.next_u64() as u32 % self.destinations,
            sport: (FIRST_PORT + (first + turn) % PORTS) as u16,
            dport: (1 + far.next_u64() as u32 % self.destination_ports) as u16,
            group: 0,
        }
    }
}

/// Pseudo-random order (Fisher and Yates), as RFC 9693 asks for.
fn shuffle(list: &mut [Flow], seed: u64) {
    let mut random = Rng::new(seed.wrapping_mul(3));
    for last in (1..list.len()).rev() {
        let other = random.next_u64() % (last as u64 + 1);
        list.swap(last, other as usize);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn flows_are_unique_and_in_their_ranges() {
        for (flows, subscribers) in [(1, 1), (10_000, 100), (60_000, 1), (100_000, 4096)] {
            let ranges = Ranges { flows, subscribers, destinations: 2, destination_ports: 100 };
            assert!(ranges.fit());
            let ordered = ranges.list(FlowOrder::Sequential, 7);
            let random = ranges.list(FlowOrder::Unique, 7);
            let inside: HashSet<_> = ordered.iter().map(|flow| (flow.src, flow.sport)).collect();
            assert_eq!(inside.len(), flows as usize, "an endpoint for each flow");
            let all = |list: &[Flow]| list.iter().copied().collect::<HashSet<_>>();
            assert_eq!(all(&ordered), all(&random));
            assert!(ordered.iter().all(|flow| {
                (1..=100).contains(&flow.dport)
                    && flow.sport >= 1024
                    && flow.src - FIRST_HOST[0] < subscribers
                    && flow.dst - FIRST_HOST[1] < 2
            }));
            assert!(flows == 1 || ordered != random);
        }
        assert!(!Ranges { flows: 64_513, subscribers: 1, destinations: 1, destination_ports: 1 }.fit());
    }
}
