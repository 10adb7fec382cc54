//! Where frames were lost: all counters of a bed before and after a trial, and what they say.
//!
//! ```text
//! sender X --veth--> [ring of Y, 256 per queue] --NAPI--> Y --> (backlog) --> IP, filter, ... --> next X
//!           X.tx_dropped                       Y.rx_queue_drops  Y core drops   snmp, nft, conntrack
//! ```
//! A veth shows the same loss in up to three places, so that each is read in one place only:
//! - a full ring of Y is in X's tx_dropped, for any sender (socket, redirect or XDP_TX). The same frames are in
//!   X's `tx_queue_N_xdp_xmit_errors` (redirect), X's `rx_queue_N_xdp_tx_errors` (XDP_TX), and both again in
//!   Y's rx_dropped;
//! - what is left of Y's rx_dropped without those and without Y's own `rx_queue_N_drops` was dropped by the
//!   core of the stack, that is, at a full per-CPU backlog, or because nothing wanted the frame.
//!
//! A bridge that does not know an address floods, which between two ports is forwarding: it loses only frames that
//! are for itself. Its own interface counts them, and what IP thinks of them is no second loss.
//!
//! Source: drivers/net/veth.c (veth_get_stats64, veth_get_ethtool_stats), net/core/dev.c.

use std::collections::BTreeMap;

use crate::dut::{DutKind, Function, System};
use crate::error::Result;
use crate::external::{self, External};
use crate::graph::Graph;
use crate::interface::{Device, read_device, subtract};
use crate::rules::{RuleSet, Verdicts};
use crate::topology::{BRIDGE, Owner};
use weir_linux::conntrack::{self, ConntrackStats};
use weir_linux::rtnl::Rtnl;

/// One CPU's line of /proc/net/softnet_stat. The counters are those of the machine, not of a namespace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Softnet {
    /// Frames dropped at a full backlog.
    pub dropped: u64,
    /// Times a softirq ran out of budget with work left.
    pub time_squeeze: u64,
}

/// A wire in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Direction {
    sender: &'static str,
    receiver: &'static str,
    receiver_owner: Owner,
}

/// All counters of a bed at one moment, or (see [`Delta`]) between two.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snapshot {
    directions: Vec<Direction>,
    /// Interfaces by name: t0, t1, d0 and d1 unless the DUT is a wire, br0 if it is a bridge.
    pub devices: BTreeMap<&'static str, Device>,
    /// The DUT's IP and ICMP counters, named as in /proc/net: `Ip.InDiscards`, `IpExt.InNoRoutes`,
    /// `Icmp.OutTimeExcds`, `Ip6InNoRoutes`.
    pub ip: BTreeMap<String, u64>,
    /// softnet_stat by CPU.
    pub softnet: BTreeMap<usize, Softnet>,
    /// The DUT's connection tracking; `entries` and `max` are states, not counters.
    pub conntrack: ConntrackStats,
    /// What the DUT's filter accepted and refused.
    pub filter: Option<Verdicts>,
    /// Of an external DUT: what this one's interfaces and the box counted.
    pub external: Option<external::Sample>,
}

/// What was counted between two snapshots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delta(pub Snapshot);

/// Frames lost at one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drop {
    /// The place, in words.
    pub name: &'static str,
    /// The owner of the loss.
    pub owner: Owner,
    /// How many; never 0.
    pub frames: u64,
    /// The counter that says so.
    pub source: String,
}

impl Snapshot {
    /// Reads all counters of a bed with this DUT.
    pub(crate) fn take(
        graph: &Graph,
        dut: DutKind,
        rules: Option<&RuleSet>,
        external: Option<&External>,
    ) -> Result<Snapshot> {
        let mut snapshot = Snapshot::default();
        for (sender, receiver) in graph.directions() {
            snapshot.directions.push(Direction {
                sender: sender.name,
                receiver: receiver.name,
                receiver_owner: receiver.owner,
            });
        }
        for end in graph.ends() {
            let mut device = end.namespace.run(|| read_device(end.name))?;
            if end.owner == Owner::Dut && dut.takes_by_xdp() {
                device.forget_drops();
            }
            snapshot.devices.insert(end.name, device);
        }
        // After the devices: what drops a frame counts it here first, so that no frame is found there alone.
        snapshot.softnet = softnet_counters();
        snapshot.external = external.map(External::sample).transpose()?;
        let Some(host) = graph.host_of(Owner::Dut) else { return Ok(snapshot) };
        host.run(|| {
            match (dut.system(), dut.function()) {
                // It takes frames from sockets; what the kernel thinks of its copies is no loss.
                (System::Faulty | System::Node(_), _) => {}
                (_, Function::Bridge) => {
                    // A bridge has no counters of a driver.
                    let link = Rtnl::open()?.link(BRIDGE)?.stats;
                    snapshot.devices.insert(BRIDGE, Device { link, ..Device::default() });
                }
                _ => snapshot.ip = ip_counters(),
            }
            snapshot.conntrack = conntrack::stats()?;
            if let Some(rules) = rules {
                snapshot.filter = rules.verdicts()?;
            }
            Ok(snapshot)
        })
    }

    /// What was counted since `earlier`, a snapshot of the same bed. Rule counters start at 0 with
    /// [`crate::bed::Bed::reset`]: take `earlier` after it.
    pub fn since(&self, earlier: &Snapshot) -> Delta {
        let mut delta = self.clone();
        for (name, device) in &mut delta.devices {
            if let Some(before) = earlier.devices.get(name) {
                device.subtract(before);
            }
        }
        subtract(&mut delta.ip, &earlier.ip);
        for (cpu, now) in &mut delta.softnet {
            let before = earlier.softnet.get(cpu).copied().unwrap_or_default();
            now.dropped = now.dropped.saturating_sub(before.dropped);
            now.time_squeeze = now.time_squeeze.saturating_sub(before.time_squeeze);
        }
        delta.conntrack = conntrack_since(&self.conntrack, &earlier.conntrack);
        if let (Some(now), Some(before)) = (&mut delta.filter, &earlier.filter) {
            now.accepted = now.accepted.saturating_sub(before.accepted);
            now.refused = now.refused.saturating_sub(before.refused);
        }
        if let (Some(now), Some(before)) = (&self.external, &earlier.external) {
            delta.external = Some(now.since(before));
        }
        Delta(delta)
    }
}

/// Name of frames that found a CPU's backlog full, to which RPS handed them.
pub const BACKLOG: &str = "softnet backlog";

/// Name of frames that the device took for itself.
pub const TO_DUT: &str = "addressed to the dut";

impl Delta {
    /// Frames that IP took in, and neither forwarded nor counted as lost: a router does so to frames for the broadcast
    /// address of Ethernet that are for another network (ip_forward, ip6_forward: `pkt_type != PACKET_HOST`).
    pub fn discarded_unnamed(&self) -> u64 {
        let mut lost = Vec::new();
        self.ip_drops(&mut lost);
        self.filter_drops(&mut lost);
        // These were forwarded first.
        let later = self.ip("Ip.OutDiscards") + self.ip("Ip6OutDiscards");
        let named = lost.iter().map(|drop| drop.frames).sum::<u64>() - later;
        let taken = self.ip("Ip.InReceives") + self.ip("Ip6InReceives");
        let forwarded = self.ip("Ip.ForwDatagrams") + self.ip("Ip6OutForwDatagrams");
        taken.saturating_sub(forwarded + named)
    }

    /// All losses that the counters name, the tester's own included; they add up to sent - received.
    pub fn drops(&self) -> Vec<Drop> {
        let mut drops = Vec::new();
        for direction in &self.0.directions {
            self.wire_drops(direction, &mut drops);
        }
        self.bridge_drops(&mut drops);
        self.ip_drops(&mut drops);
        self.filter_drops(&mut drops);
        drops.retain(|drop| drop.frames > 0);
        drops
    }

    fn wire_drops(&self, direction: &Direction, drops: &mut Vec<Drop>) {
        let Direction { sender: from, receiver: to, receiver_owner: owner } = *direction;
        let (Some(sender), Some(receiver)) = (self.0.devices.get(from), self.0.devices.get(to)) else {
            return;
        };
        let mut add = |name, frames, source| drops.push(Drop { name, owner, frames, source });
        let full = match owner {
            Owner::Tester => "tester ring full",
            Owner::Dut => "dut ring full",
        };
        add(full, sender.link.tx_dropped, format!("tx_dropped of {from}"));
        let own = receiver.queues("rx_queue_", "drops");
        add("receive error", own, format!("rx_queue_N_drops of {to}"));
        if owner == Owner::Dut {
            // On the tester's side, dropping is how the receiving program ends a frame's life.
            let xdp = receiver.queues("rx_queue_", "xdp_drops");
            add("xdp drop", xdp, format!("rx_queue_N_xdp_drops of {to}"));
        }
        let at_ring =
            sender.queues("tx_queue_", "xdp_xmit_errors") + sender.queues("rx_queue_", "xdp_tx_errors");
        let core = receiver.link.rx_dropped.saturating_sub(own + at_ring);
        let backlog = core.min(self.0.softnet.values().map(|cpu| cpu.dropped).sum());
        add(BACKLOG, backlog, format!("rx_dropped of {to} beyond its ring, softnet_stat"));
        add("unwanted frame", core - backlog, format!("rx_dropped of {to} beyond its ring"));
    }

    fn bridge_drops(&self, drops: &mut Vec<Drop>) {
        let frames = self.0.devices.get(BRIDGE).map_or(0, |bridge| bridge.link.rx_packets);
        let source = format!("rx_packets of {BRIDGE}");
        drops.push(Drop { name: TO_DUT, owner: Owner::Dut, frames, source });
    }

    fn ip_drops(&self, drops: &mut Vec<Drop>) {
        let mut add = |name, counters: &[&str]| {
            let frames = counters.iter().map(|counter| self.ip(counter)).sum();
            drops.push(Drop { name, owner: Owner::Dut, frames, source: counters.join(" + ") });
        };
        // Expired frames and broken headers share a counter; only the former are answered.
        let expired = self.ip("Icmp.OutTimeExcds") + self.ip("Icmp6OutTimeExcds") > 0;
        add(if expired { "ttl expired" } else { "bad header" }, &["Ip.InHdrErrors", "Ip6InHdrErrors"]);
        add("no route", &["IpExt.InNoRoutes", "Ip6InNoRoutes"]);
        add("bad address", &["Ip.InAddrErrors", "Ip6InAddrErrors"]);
        add("ip discards", &["Ip.InDiscards", "Ip.OutDiscards", "Ip6InDiscards", "Ip6OutDiscards"]);
        add("truncated", &["IpExt.InTruncatedPkts", "Ip6InTruncatedPkts"]);
        add("larger than the mtu", &["Ip.FragFails", "Ip6InTooBigErrors"]);
        add(TO_DUT, &["Ip.InDelivers", "Ip6InDelivers"]);
    }

    fn filter_drops(&self, drops: &mut Vec<Drop>) {
        let mut add = |name, frames, source: &str| {
            drops.push(Drop { name, owner: Owner::Dut, frames, source: source.into() });
        };
        add("filter", self.0.filter.unwrap_or_default().refused, "the filter's counter after its last rule");
        // insert_failed counts frames that are in one of these two.
        add("conntrack full", self.0.conntrack.drop, "drop of /proc/net/stat/nf_conntrack");
        let chain = "chainlength of /proc/net/stat/nf_conntrack";
        add("conntrack chain too long", self.0.conntrack.chain_too_long, chain);
    }

    fn ip(&self, counter: &str) -> u64 {
        self.0.ip.get(counter).copied().unwrap_or(0)
    }
}

fn conntrack_since(now: &ConntrackStats, before: &ConntrackStats) -> ConntrackStats {
    ConntrackStats {
        entries: now.entries,
        max: now.max,
        drop: now.drop.saturating_sub(before.drop),
        insert_failed: now.insert_failed.saturating_sub(before.insert_failed),
        early_drop: now.early_drop.saturating_sub(before.early_drop),
        chain_too_long: now.chain_too_long.saturating_sub(before.chain_too_long),
        invalid: now.invalid.saturating_sub(before.invalid),
    }
}

/// The IP counters of the calling thread's namespace.
/// IP and ICMP counters of the calling thread's network namespace, see [`Snapshot::ip`].
pub(crate) fn ip_counters() -> BTreeMap<String, u64> {
    let read =
        |name: &str| weir_disk::kernel_text(format!("/proc/thread-self/net/{name}")).unwrap_or_default();
    let mut counters = BTreeMap::new();
    for file in ["snmp", "netstat"] {
        parse_snmp(&read(file), &mut counters);
    }
    for line in read("snmp6").lines() {
        if let Some((name, value)) = line.split_once(char::is_whitespace) {
            counters.insert(name.to_string(), value.trim().parse().unwrap_or(0));
        }
    }
    counters
}

/// Pairs of lines, names and values, with the same prefix: proc_pid_net(5), snmp.
fn parse_snmp(text: &str, counters: &mut BTreeMap<String, u64>) {
    let mut lines = text.lines();
    while let (Some(names), Some(values)) = (lines.next(), lines.next()) {
        let Some((group, names)) = names.split_once(": ") else { continue };
        let values = values.split_ascii_whitespace().skip(1);
        for (name, value) in names.split_ascii_whitespace().zip(values) {
            // Some are signed (MaxConn -1), none of those used here.
            counters.insert(format!("{group}.{name}"), value.parse().unwrap_or(0));
        }
    }
}

/// softnet_stat by CPU.
pub(crate) fn softnet_counters() -> BTreeMap<usize, Softnet> {
    parse_softnet(&weir_disk::kernel_text("/proc/net/softnet_stat").unwrap_or_default())
}

/// One line per online CPU in hexadecimal; column 2 dropped, 3 time_squeeze, 13 the CPU
/// (net/core/net-procfs.c, softnet_seq_show).
fn parse_softnet(text: &str) -> BTreeMap<usize, Softnet> {
    let line = |(n, line): (usize, &str)| {
        let columns: Vec<u64> =
            line.split_ascii_whitespace().map(|c| u64::from_str_radix(c, 16).unwrap_or(0)).collect();
        let cpu = columns.get(12).map_or(n, |&cpu| cpu as usize);
        Some((cpu, Softnet { dropped: *columns.get(1)?, time_squeeze: *columns.get(2)? }))
    };
    text.lines().enumerate().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_linux::rtnl::LinkStats;

    fn device(rx_dropped: u64, tx_dropped: u64, driver: &[(&str, u64)]) -> Device {
        let link = LinkStats { rx_dropped, tx_dropped, ..LinkStats::default() };
        Device { link, driver: driver.iter().map(|(name, value)| (name.to_string(), *value)).collect() }
    }

    fn check(snapshot: Snapshot, expected: &[(&str, u64)]) {
        let drops = Delta(snapshot).drops();
        let found: Vec<_> = drops.iter().map(|drop| (drop.name, drop.frames)).collect();
        assert_eq!(found, expected, "{drops:#?}");
    }

    fn one_wire(sender: Device, receiver: Device) -> Snapshot {
        Snapshot {
            directions: vec![Direction { sender: "t0", receiver: "d0", receiver_owner: Owner::Dut }],
            devices: [("t0", sender), ("d0", receiver)].into(),
            ..Snapshot::default()
        }
    }

    #[test]
    fn a_full_ring_is_counted_once() {
        // 5 by redirect, 3 by XDP_TX, 2 by sockets; the first two are in the receiver's rx_dropped too.
        let sender = device(
            0,
            10,
            &[
                ("tx_queue_0_xdp_xmit_errors", 4),
                ("tx_queue_1_xdp_xmit_errors", 1),
                ("rx_queue_0_xdp_tx_errors", 3),
            ],
        );
        check(one_wire(sender, device(8, 0, &[])), &[("dut ring full", 10)]);
    }

    #[test]
    fn what_the_core_drops_is_what_the_driver_did_not() {
        let receiver = || device(9, 0, &[("rx_queue_0_drops", 2), ("rx_queue_0_xdp_drops", 6)]);
        let mut snapshot = one_wire(Device::default(), receiver());
        snapshot.softnet.insert(1, Softnet { dropped: 4, time_squeeze: 0 });
        check(
            snapshot,
            &[("receive error", 2), ("xdp drop", 6), ("softnet backlog", 4), ("unwanted frame", 3)],
        );
    }

    #[test]
    fn ip_and_filter_counters_have_names() {
        let ip =
            [("Ip.InHdrErrors", 1), ("IpExt.InNoRoutes", 2), ("Ip6InNoRoutes", 3), ("Icmp.OutTimeExcds", 1)];
        let snapshot = Snapshot {
            ip: ip.iter().map(|(name, value)| (name.to_string(), *value)).collect(),
            conntrack: ConntrackStats { drop: 4, insert_failed: 4, ..ConntrackStats::default() },
            filter: Some(Verdicts { accepted: 100, refused: 5 }),
            ..Snapshot::default()
        };
        check(snapshot, &[("ttl expired", 1), ("no route", 5), ("filter", 5), ("conntrack full", 4)]);
    }

    #[test]
    fn what_ip_did_nothing_with_was_discarded() {
        let delta = |counters: &[(&str, u64)], refused| {
            let ip = counters.iter().map(|(name, value)| (name.to_string(), *value)).collect();
            let filter = Some(Verdicts { accepted: 0, refused });
            Delta(Snapshot { ip, filter, ..Snapshot::default() }).discarded_unnamed()
        };
        let v4 = [
            ("Ip.InReceives", 110),
            ("Ip.ForwDatagrams", 90),
            ("IpExt.InNoRoutes", 3),
            ("Ip.OutDiscards", 5),
        ];
        assert_eq!(delta(&v4, 7), 10);
        assert_eq!(delta(&[("Ip6InReceives", 50), ("Ip6OutForwDatagrams", 48)], 0), 2);
        assert_eq!(delta(&[("Ip.ForwDatagrams", 9)], 0), 0);
    }

    #[test]
    fn files_of_proc_are_read_by_their_headers() {
        let mut counters = BTreeMap::new();
        parse_snmp("Ip: A B\nIp: 1 2\nTcp: MaxConn\nTcp: -1\n", &mut counters);
        assert_eq!(counters["Ip.B"], 2);
        assert_eq!(counters["Tcp.MaxConn"], 0);
        let softnet = parse_softnet("a b c 0 0 0 0 0 0 0 0 0 00000003 0 0\nbroken\n");
        assert_eq!(softnet.get(&3), Some(&Softnet { dropped: 11, time_squeeze: 12 }));
        assert_eq!(softnet.len(), 1);
    }
}
