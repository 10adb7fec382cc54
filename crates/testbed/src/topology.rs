//! Wires and addresses of a test bed.
//!
//! ```text
//!            side a                                                 side b
//! t0 --- d0 198.18.1.1 [route 198.18.0.0/16 via 198.18.1.2 = t0]
//!        d1 198.19.1.1 [route 198.19.0.0/16 via 198.19.1.2 = t1] --- t1
//! ```
//! IPv6 is alike: 2001:db8:18:1::1 in 2001:db8:18::/48, and 19 on side b. The DUT's addresses are host
//! addresses (/32, /128) and the gateways are on-link by decree, so that every other address of the
//! networks, 198.18.1.0 and 198.18.1.255 included, is a test address behind the tester. Neighbours are
//! static: no ARP, no neighbour discovery, and none of its frames between the test frames. The tester's
//! ends have no address.
//!
//! A bridge has no address either: d0 and d1 are its ports, and it knows behind which of them each of the tester's
//! MAC addresses is. Addresses are those of RFC 2544 (198.18.0.0/15, RFC 6815) and RFC 3849.

use std::fs;
use std::io::ErrorKind;
use std::net::IpAddr;

use weir_packet::flow::{IpVersion, network_size};

use crate::error::{Error, Result};
use crate::graph::{End, Graph, Host, Plan, Planned, wait_until_operational};
use weir_linux::ethtool::{Offload, set_offload};
use weir_linux::rtnl::Rtnl;

pub use crate::graph::{Owner, Side};

const TESTER: (&str, Owner) = ("tester", Owner::Tester);
const DUT: (&str, Owner) = ("dut", Owner::Dut);
const T0: Planned = (TESTER.0, "t0", Side::A);
const T1: Planned = (TESTER.0, "t1", Side::B);
pub(crate) const D0: Planned = (DUT.0, "d0", Side::A);
pub(crate) const D1: Planned = (DUT.0, "d1", Side::B);

/// The tester's ports are wired together.
pub(crate) const WIRE: Plan = Plan { hosts: &[TESTER], links: &[[T0, T1]] };
/// A device between them.
pub(crate) const DEVICE: Plan = Plan { hosts: &[TESTER, DUT], links: &[[T0, D0], [T1, D1]] };

impl Side {
    /// All addresses of this side, with the prefix length: what test frames may use, but for [`Side::dut`].
    pub fn network(self, ip: IpVersion) -> (IpAddr, u8) {
        match ip {
            IpVersion::V4 => ([198, self.octet(), 0, 0].into(), 16),
            IpVersion::V6 => ([0x2001, 0xdb8, self.group(), 0, 0, 0, 0, 0].into(), 48),
        }
    }

    /// The networks of the test traffic on this side, if it is spread over several: equal parts of the upper half of
    /// [`Side::network`]. Test frames vary in the last 4 bytes of their addresses, hence the long prefixes of IPv6.
    pub(crate) fn networks(self, ip: IpVersion, count: u32) -> impl Iterator<Item = (IpAddr, u8)> {
        let size = network_size(count);
        let first = u32::from_be_bytes([198, self.octet(), 128, 0]);
        (0..count).map(move |n| {
            let address = first + n * size;
            match ip {
                IpVersion::V4 => (address.to_be_bytes().into(), 32 - size.ilog2() as u8),
                IpVersion::V6 => {
                    let (high, low) = ((address >> 16) as u16, address as u16);
                    let prefix = 128 - size.ilog2() as u8;
                    ([0x2001, 0xdb8, self.group(), 0, 0, 0, high, low].into(), prefix)
                }
            }
        })
    }

    /// The DUT's own address on this side; a NAT's public address on side b.
    pub fn dut(self, ip: IpVersion) -> IpAddr {
        self.host(ip, 1)
    }

    /// The gateway that stands for the tester in the DUT's routes.
    pub fn tester(self, ip: IpVersion) -> IpAddr {
        self.host(ip, 2)
    }

    fn host(self, ip: IpVersion, last: u8) -> IpAddr {
        match ip {
            IpVersion::V4 => [198, self.octet(), 1, last].into(),
            IpVersion::V6 => [0x2001, 0xdb8, self.group(), 1, 0, 0, 0, u16::from(last)].into(),
        }
    }

    fn octet(self) -> u8 {
        match self {
            Side::A => 18,
            Side::B => 19,
        }
    }

    fn group(self) -> u16 {
        match self {
            Side::A => 0x18,
            Side::B => 0x19,
        }
    }
}

/// Switches of one end, while it is down. GRO on a veth is what creates its NAPI,
/// without which neither threads nor redirected frames work; all else is off, so that frames stay as the
/// tester made them and go through the receiver's ring (a sender with TSO on bypasses it).
///
/// Both ends are prepared before one is set up: a veth takes redirected frames only if its peer had GRO on
/// when it was opened, and drops them in silence otherwise (veth_open, veth_set_xdp_features).
pub(crate) fn prepare(end: &End) -> Result<()> {
    for offload in [Offload::Tso, Offload::Gso, Offload::TxChecksum] {
        set_offload(end.name, offload, false)?;
    }
    set_offload(end.name, Offload::Gro, true)?;
    if end.owner == Owner::Dut {
        Rtnl::open()?.keep_quiet(end.ifindex)?;
    }
    Ok(())
}

/// Sysctls of a namespace before its interfaces exist: a kernel that keeps silent.
pub(crate) fn silence() -> Result<()> {
    for which in ["all", "default"] {
        sysctl(&format!("ipv6/conf/{which}/disable_ipv6"), "1")?;
    }
    Ok(())
}

/// Sysctls of a DUT's namespace, before its interfaces exist, so that they are born with them.
pub(crate) fn configure(ip: IpVersion) -> Result<()> {
    if ip == IpVersion::V4 {
        silence()?;
    }
    for which in ["all", "default"] {
        match ip {
            IpVersion::V4 => {
                for name in ["rp_filter", "send_redirects", "accept_redirects"] {
                    sysctl(&format!("ipv4/conf/{which}/{name}"), "0")?;
                }
            }
            IpVersion::V6 => {
                // No link-local address (1 = none), hence no solicitations from it.
                sysctl(&format!("ipv6/conf/{which}/addr_gen_mode"), "1")?;
                for name in ["accept_ra", "autoconf", "accept_dad", "dad_transmits", "accept_redirects"] {
                    sysctl(&format!("ipv6/conf/{which}/{name}"), "0")?;
                }
            }
        }
    }
    Ok(())
}

/// Makes each DUT a router: forwarding, addresses, routes and neighbours. With several networks it has a route to each of
/// them and no other.
pub(crate) fn route(graph: &Graph, ip: IpVersion, networks: u32) -> Result<()> {
    let host_prefix = if ip == IpVersion::V4 { 32 } else { 128 };
    of_duts(graph).try_for_each(|(end, peer)| {
        end.namespace.run(|| {
            // Only now: an interface that is born with forwarding on joins the group of all routers and reports that,
            // before it can be kept quiet.
            match ip {
                IpVersion::V4 => sysctl("ipv4/ip_forward", "1")?,
                IpVersion::V6 => sysctl("ipv6/conf/all/forwarding", "1")?,
            }
            let (mut rtnl, gateway) = (Rtnl::open()?, end.side.tester(ip));
            rtnl.add_address(end.ifindex, end.side.dut(ip), host_prefix)?;
            rtnl.add_neighbour(end.ifindex, gateway, peer.mac)?;
            let routes = match networks {
                1 => vec![end.side.network(ip)],
                _ => end.side.networks(ip, networks).collect(),
            };
            for network in routes {
                rtnl.add_route(network, gateway, end.ifindex)?;
            }
            Ok(())
        })
    })
}

/// Each end of a DUT, and the end that it is wired to.
fn of_duts(graph: &Graph) -> impl Iterator<Item = (&End, &End)> {
    graph.directions().filter(|(end, _)| end.owner == Owner::Dut)
}

/// Sets the interfaces of each DUT down and up again. Routes and neighbours are gone then, and the addresses of IPv6.
pub(crate) fn cycle(graph: &Graph) -> Result<()> {
    for up in [false, true] {
        of_duts(graph).try_for_each(|(end, _)| end.set_up(up))?;
    }
    of_duts(graph).try_for_each(|(end, _)| end.namespace.run(|| wait_until_operational(end.name)))
}

/// The interface of the bridge.
pub(crate) const BRIDGE: &str = "br0";

/// Makes a DUT a bridge between its interfaces, in its namespace. The entries for the tester's addresses are static, so that
/// none is missing at first or expires; learning stays on, so that its share of the work is done.
pub(crate) fn bridge(graph: &Graph, host: &Host) -> Result<()> {
    // Where br_netfilter is loaded, a new namespace hands all bridged frames to iptables.
    for family in ["iptables", "ip6tables", "arptables"] {
        sysctl(&format!("bridge/bridge-nf-call-{family}"), "0")?;
    }
    let mut rtnl = Rtnl::open()?;
    // A separate address, or it would be that of a port.
    rtnl.add_bridge(BRIDGE, [2, 0, 0, 0, 0, 0xfe])?;
    let bridge = rtnl.link(BRIDGE)?.ifindex;
    rtnl.keep_quiet(bridge)?;
    for (end, peer) in of_duts(graph).filter(|(end, _)| end.host == host.name) {
        rtnl.enslave(end.ifindex, bridge)?;
        rtnl.add_forwarding_entry(end.ifindex, peer.mac)?;
    }
    rtnl.set_up(bridge, true)?;
    wait_until_operational(BRIDGE)
}

/// Writes /proc/sys/net/NAME of the calling thread's namespace. What the kernel does not have (IPv6
/// compiled out) needs no switching off.
fn sysctl(name: &str, value: &str) -> Result<()> {
    let path = format!("/proc/sys/net/{name}");
    match fs::write(&path, value) {
        Err(error) if error.kind() == ErrorKind::NotFound && value != "1" => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound && name.ends_with("disable_ipv6") => Ok(()),
        written => written.map_err(Error::os(format!("write {value} to {path}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_test_addresses_and_the_dut_s_are_in_its_networks() {
        let text = |side: Side, ip| {
            let (network, prefix) = side.network(ip);
            format!("{network}/{prefix} {} {}", side.dut(ip), side.tester(ip))
        };
        assert_eq!(text(Side::A, IpVersion::V4), "198.18.0.0/16 198.18.1.1 198.18.1.2");
        assert_eq!(text(Side::B, IpVersion::V4), "198.19.0.0/16 198.19.1.1 198.19.1.2");
        assert_eq!(text(Side::A, IpVersion::V6), "2001:db8:18::/48 2001:db8:18:1::1 2001:db8:18:1::2");
        assert_eq!(text(Side::B, IpVersion::V6), "2001:db8:19::/48 2001:db8:19:1::1 2001:db8:19:1::2");
    }

    #[test]
    fn networks_are_parts_of_the_upper_half() {
        let check = |ip, count, expected: [&str; 2]| {
            let all: Vec<_> =
                Side::B.networks(ip, count).map(|(a, prefix)| format!("{a}/{prefix}")).collect();
            assert_eq!((all.len(), [&all[0][..], all.last().unwrap()]), (count as usize, expected));
        };
        check(IpVersion::V4, 1, ["198.19.128.0/17"; 2]);
        check(IpVersion::V4, 3, ["198.19.128.0/19", "198.19.192.0/19"]);
        check(IpVersion::V4, 256, ["198.19.128.0/25", "198.19.255.128/25"]);
        check(IpVersion::V6, 256, ["2001:db8:19::c613:8000/121", "2001:db8:19::c613:ff80/121"]);
    }
}
