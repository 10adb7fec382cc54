//! Hosts that are namespaces, and wires between them: what each test builds its own street of.

use std::fs;
use std::net::IpAddr;

use weir_linux::namespace::Namespace;
use weir_linux::rtnl::{Rtnl, VethConfig, VethEnd};

/// A host and the name of its interface.
pub type End<'a> = (&'a Namespace, &'a str);

/// A wire.
#[derive(Debug, Clone, Copy)]
pub struct Wire {
    /// In the Ethernet addresses of its ends, 02:00:00:00:`number`:01 and :02.
    pub number: u8,
    /// Of each end.
    pub queues: u32,
}

/// Joins two hosts; the ends are down. Offloads are what the kernel makes them: checksums and segments are left to a network
/// card that there is not.
pub fn join(ends: [End<'_>; 2], wire: Wire) {
    let [one, other] = ends;
    let both = [(one, 1), (other, 2)].map(|((host, name), n)| VethEnd {
        name,
        mac: [2, 0, 0, 0, wire.number, n],
        namespace: host.fd(),
    });
    let config = VethConfig { mtu: 1500, queues: wire.queues };
    one.0.run(|| Rtnl::open()?.add_veth(both, config)).unwrap();
}

/// Does something to an interface by its number.
fn with(end: End<'_>, change: impl FnOnce(&mut Rtnl, u32) + Send) {
    end.0.run(|| {
        let mut rtnl = Rtnl::open().unwrap();
        let index = rtnl.link(end.1).unwrap().ifindex;
        change(&mut rtnl, index);
    });
}

/// Sets an interface up, or down.
pub fn set_up(end: End<'_>, up: bool) {
    with(end, |rtnl, index| rtnl.set_up(index, up).unwrap());
}

/// Sets the MTU of an interface.
pub fn set_mtu(end: End<'_>, mtu: u32) {
    with(end, |rtnl, index| rtnl.set_mtu(index, mtu).unwrap());
}

/// Has an interface that is still down send nothing by itself: no IPv6, if the kernel knows it, and no ARP.
pub fn keep_quiet(end: End<'_>) {
    without_ipv6(end);
    with(end, |rtnl, index| rtnl.keep_quiet(index).unwrap());
}

/// Takes IPv6 from an interface; a kernel without it has nothing to take.
pub fn without_ipv6(end: End<'_>) {
    let _ = ipv6(end, "1");
}

fn ipv6((host, name): End<'_>, disabled: &str) -> std::io::Result<()> {
    host.run(|| fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), disabled))
}

/// Gives an interface an address of a network of 256 hosts (IPv4), or of 2^64 (IPv6).
pub fn address(end: End<'_>, address: &str) {
    let address: IpAddr = address.parse().unwrap();
    if address.is_ipv6() {
        ipv6(end, "0").unwrap();
    }
    with(end, |rtnl, index| {
        rtnl.add_address(index, address, if address.is_ipv6() { 64 } else { 24 }).unwrap()
    });
}

/// Adds a default route to this gateway.
pub fn default_route(end: End<'_>, gateway: &str) {
    let gateway: IpAddr = gateway.parse().unwrap();
    let any = if gateway.is_ipv6() { IpAddr::from([0; 16]) } else { IpAddr::from([0; 4]) };
    with(end, |rtnl, index| rtnl.add_route((any, 0), gateway, index).unwrap());
}
