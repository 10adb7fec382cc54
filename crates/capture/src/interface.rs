//! The captured interface: its counters, and obstacles that keep frames from arriving.

use weir_linux::error::Result;
use weir_linux::ethtool::{self, Offload};
use weir_linux::napi;
use weir_linux::rtnl::{Link, LinkStats, Rtnl};

/// Its counters, asked by its number: it may be renamed, and another one may take its name.
pub(crate) fn counters(rtnl: &mut Rtnl, link: &Link) -> Result<LinkStats> {
    Ok(rtnl.link_at(link.ifindex)?.stats)
}

/// Why frames may not arrive, or not all of them, as far as it can be seen before any has: each a sentence with its
/// remedy.
pub(crate) fn obstacles(link: &Link) -> Vec<String> {
    let name = &link.name;
    let mut found = Vec::new();
    if !link.up {
        found.push(format!("{name} is down and receives nothing: `ip link set {name} up`"));
    } else if !link.carrier {
        found.push(format!(
            "{name} has no carrier and receives nothing: plug in the cable, or set the other end up"
        ));
    }
    if link.kind.as_deref() == Some("veth") && ethtool::offload(name, Offload::Gro).is_ok_and(|on| !on) {
        found.push(format!(
            "{name} is a veth without NAPI: the kernel drops frames that XDP programs send to it, unless an XDP program \
             is attached here; use `ethtool -K {name} gro on`"
        ));
    }
    found
}

/// Why a reader that polls busily may gain nothing by it; asked once its XDP program is attached.
pub(crate) fn poll_obstacle(link: &Link) -> Option<String> {
    let name = &link.name;
    let instances: Vec<_> =
        napi::list().ok()?.into_iter().filter(|napi| napi.ifindex == link.ifindex).collect();
    if instances.is_empty() {
        return Some(format!("the driver of {name} has no NAPI to poll: --busy-poll only costs CPU time"));
    }
    instances.iter().any(|napi| napi.defer_hard_irqs == Some(0)).then(|| {
        format!(
            "{name} still has interrupts during busy polling: `echo 2 > /sys/class/net/{name}/napi_defer_hard_irqs` and \
             `echo 200000 > /sys/class/net/{name}/gro_flush_timeout` defer them"
        )
    })
}

/// Does the machine itself talk through this interface? Then frames must not be taken away from its network stack.
pub(crate) fn carries_own_traffic(rtnl: &mut Rtnl, link: &Link) -> bool {
    // In doubt, it does.
    link.enslaved || link.name == "lo" || rtnl.has_address(link.ifindex).unwrap_or(true)
}
