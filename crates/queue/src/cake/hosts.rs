//! How many bulk flows each host has, as sender and as receiver.

use std::collections::HashMap;

use crate::packet::Packet;

/// Bulk flows by host. Exact: unlike CAKE's table, hosts do not share entries.
#[derive(Debug, Default)]
pub(crate) struct Hosts {
    sources: HashMap<u32, u32>,
    destinations: HashMap<u32, u32>,
}

/// The two ends of a flow.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Ends {
    pub(crate) source: u32,
    pub(crate) destination: u32,
}

impl Ends {
    pub(crate) fn of<T>(packet: &Packet<T>) -> Ends {
        Ends { source: packet.source, destination: packet.destination }
    }
}

impl Hosts {
    pub(crate) fn add(&mut self, ends: Ends) {
        *self.sources.entry(ends.source).or_default() += 1;
        *self.destinations.entry(ends.destination).or_default() += 1;
    }

    pub(crate) fn remove(&mut self, ends: Ends) {
        for (table, host) in [(&mut self.sources, ends.source), (&mut self.destinations, ends.destination)] {
            if let Some(flows) = table.get_mut(&host) {
                *flows -= 1;
                if *flows == 0 {
                    table.remove(&host);
                }
            }
        }
    }

    /// Bulk flows of the busier end, at least 1.
    pub(crate) fn load(&self, ends: Ends) -> u32 {
        let flows = |table: &HashMap<u32, u32>, host| table.get(&host).copied().unwrap_or(0);
        flows(&self.sources, ends.source).max(flows(&self.destinations, ends.destination)).max(1)
    }
}
