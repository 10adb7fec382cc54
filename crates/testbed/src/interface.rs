//! An interface of a bed, and what it has counted.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::Result;
use weir_linux::ethtool;
use weir_linux::namespace::Namespace;
use weir_linux::rtnl::{LinkStats, Mac, Rtnl};

/// One of the tester's two ports, or of the DUT's.
#[derive(Clone)]
pub struct Port {
    /// Interface name.
    pub ifname: String,
    /// Interface number in its namespace; 0: none, or on another host.
    pub ifindex: u32,
    /// Its address: the source of frames sent here.
    pub mac: Mac,
    /// The destination of frames sent here: the other end of the wire, or what a bridge has there behind it.
    pub next_hop_mac: Mac,
    /// Where it is.
    pub namespace: Namespace,
}

/// Counters of one interface.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// IFLA_STATS64.
    pub link: LinkStats,
    /// `ethtool -S`, by name.
    pub driver: BTreeMap<String, u64>,
}

impl Device {
    pub(crate) fn subtract(&mut self, before: &Device) {
        let (now, then) = (&mut self.link, &before.link);
        now.rx_packets = now.rx_packets.saturating_sub(then.rx_packets);
        now.tx_packets = now.tx_packets.saturating_sub(then.tx_packets);
        now.rx_errors = now.rx_errors.saturating_sub(then.rx_errors);
        now.tx_errors = now.tx_errors.saturating_sub(then.tx_errors);
        now.rx_dropped = now.rx_dropped.saturating_sub(then.rx_dropped);
        now.tx_dropped = now.tx_dropped.saturating_sub(then.tx_dropped);
        now.rx_missed = now.rx_missed.saturating_sub(then.rx_missed);
        subtract(&mut self.driver, &before.driver);
    }

    /// Leaves out what the driver dropped: frames that found no room in sockets of AF_XDP, whose owner names them
    /// better.
    pub(crate) fn forget_drops(&mut self) {
        let drops = self.queues("rx_queue_", "drops");
        self.link.rx_dropped = self.link.rx_dropped.saturating_sub(drops);
        self.driver.retain(|name, _| !(name.starts_with("rx_queue_") && name.ends_with("_drops")));
    }

    /// A driver counter summed over queues: `rx_queue_` and `drops` for `rx_queue_N_drops`.
    pub(crate) fn queues(&self, prefix: &str, name: &str) -> u64 {
        let of_queue = |counter: &str| {
            let (queue, rest) = counter.strip_prefix(prefix)?.split_once('_')?;
            queue.parse::<u32>().ok().filter(|_| rest == name)
        };
        self.driver.iter().filter(|(counter, _)| of_queue(counter).is_some()).map(|(_, value)| value).sum()
    }
}

/// What was counted since.
pub(crate) fn subtract(now: &mut BTreeMap<String, u64>, before: &BTreeMap<String, u64>) {
    for (name, value) in now {
        *value = value.saturating_sub(before.get(name).copied().unwrap_or(0));
    }
}

/// An interface of the calling thread's namespace.
pub(crate) fn read_device(name: &str) -> Result<Device> {
    let link = Rtnl::open()?.link(name)?.stats;
    // Some drivers have none.
    Ok(Device { link, driver: ethtool::stats(name).unwrap_or_default().into_iter().collect() })
}
