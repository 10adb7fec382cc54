//! Whether packets are forwarded at all, and to how many neighbours.

use super::count;
use crate::{Ceiling, Effect, Fix, Host, Load};

/// Rules for routers and NATs.
pub(super) fn examine(host: &Host, _: &Load) -> Vec<Ceiling> {
    let forward = [
        ("net.ipv4.ip_forward", "IPv4 packets for other hosts are dropped."),
        ("net.ipv6.conf.all.forwarding", "IPv6 packets for other hosts are dropped."),
    ];
    let forward = forward.map(|(name, why)| {
        let is_on = host.sysctl_one(name)? != 0.0;
        Some(if is_on {
            Ceiling::fits(name, 1, "Packets for other hosts are forwarded.")
        } else {
            Ceiling::fits(name, 0, why)
                .short(Effect::Stops, 0.0)
                .raise(1, "The machine forwards between all its interfaces: set up a filter first.")
                .by(Fix::sysctl(name, 1))
        })
    });
    forward.into_iter().chain([neighbours(host), backlog(host)]).flatten().collect()
}

/// Hosts that may be in the networks which are attached directly.
fn neighbours(host: &Host) -> Option<Ceiling> {
    let name = "net.ipv4.neigh.default.gc_thresh3";
    let limit = host.sysctl_one(name)?;
    let wanted = attached(&host.text("/proc/net/route").unwrap_or_default());
    let why = format!(
        "Neighbour entries of the kernel; {wanted:.0} hosts may be in the networks of its interfaces. Above this, packets to new neighbours \
         are dropped (\"neighbour table overflow\")."
    );
    let ceiling = count(name, limit, wanted, why);
    Some(match ceiling.effect {
        Effect::Fits => ceiling,
        _ => ceiling
            .raise(format!("{wanted:.0}"), "About 500 bytes for each entry.")
            .by(Fix::sysctl(name, format!("{wanted:.0}"))),
    })
}

/// Addresses of hosts in the routes without a gateway of /proc/net/route, whose masks are hexadecimal words in the byte
/// order of the machine.
fn attached(routes: &str) -> f64 {
    let hosts = |line: &str| {
        let words: Vec<_> = line.split_ascii_whitespace().collect();
        let (gateway, mask) = (words.get(2)?, u32::from_str_radix(words.get(7)?, 16).ok()?);
        let is_attached = *gateway == "00000000" && mask != 0;
        Some(if is_attached { f64::from(!u32::from_be(mask)) - 1.0 } else { 0.0 })
    };
    routes.lines().skip(1).filter_map(hosts).map(|hosts| hosts.max(0.0)).sum()
}

/// Frames that wait for a CPU to which RPS or a veth hands them.
fn backlog(host: &Host) -> Option<Ceiling> {
    let name = "net.core.netdev_max_backlog";
    let limit = host.sysctl_one(name)?;
    let why = "Frames that RPS or a virtual wire passes to another CPU wait here; above this, they are dropped \
               (/proc/net/softnet_stat, second column).";
    let ceiling = count(name, limit, 4096.0, why);
    Some(match ceiling.effect {
        Effect::Fits => ceiling,
        _ => ceiling
            .short(Effect::Slows, 0.9)
            .raise(4096, "Memory for up to this many frames per CPU, and their waiting time.")
            .by(Fix::sysctl(name, 4096)),
    })
}
