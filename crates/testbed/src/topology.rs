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
use std::time::{Duration, Instant};

use weir_packet::flow::{IpVersion, network_size};

use crate::error::{Error, Result};
use crate::ethtool::{Offload, set_offload};
use crate::namespace::Namespace;
use crate::rtnl::{Mac, Rtnl, VethConfig, VethEnd};

/// Who answers for an interface, and for the frames lost there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// The tester: what it loses makes a trial invalid.
    Tester,
    /// The device under test: what it loses is the result.
    Dut,
}

/// Side of the DUT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Where d0 and t0 are.
    A,
    /// Where d1 and t1 are.
    B,
}

/// One end of a wire.
#[derive(Clone)]
pub(crate) struct End {
    pub(crate) name: &'static str,
    pub(crate) owner: Owner,
    pub(crate) side: Side,
    pub(crate) mac: Mac,
    pub(crate) ifindex: u32,
    pub(crate) namespace: Namespace,
}

/// The two ends of each wire.
pub(crate) type Wires = Vec<[End; 2]>;

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

impl End {
    fn new(owner: Owner, side: Side, namespace: &Namespace) -> End {
        let (name, last) = match (owner, side) {
            (Owner::Tester, Side::A) => ("t0", 2),
            (Owner::Tester, Side::B) => ("t1", 2),
            (Owner::Dut, Side::A) => ("d0", 1),
            (Owner::Dut, Side::B) => ("d1", 1),
        };
        // 02: locally administered, not assigned by a vendor.
        let mac = [2, 0, 0, side.octet(), 0, last];
        End { name, owner, side, mac, ifindex: 0, namespace: namespace.clone() }
    }

    /// Why no frame can pass here, if that is so.
    pub(crate) fn broken(&self) -> Option<String> {
        let link = self.namespace.run(|| Rtnl::open()?.link(self.name));
        let what = match link {
            Err(Error::Netlink { source, .. }) if source.raw_os_error() == Some(libc::ENODEV) => "vanished",
            Err(error) => return Some(error.to_string()),
            Ok(link) if link.ifindex != self.ifindex => "was replaced by another",
            Ok(link) if !link.up => "was set down",
            Ok(link) if !link.carrier => "lost its carrier",
            Ok(_) => return None,
        };
        Some(format!("interface {} {what}", self.name))
    }

    fn as_veth(&self) -> VethEnd<'_> {
        VethEnd { name: self.name, mac: self.mac, namespace: self.namespace.fd() }
    }
}

/// Makes the wires and sets all ends up. Without a DUT, the tester's ports are wired together.
pub(crate) fn wire_up(tester: &Namespace, dut: Option<&Namespace>, config: VethConfig) -> Result<Wires> {
    let [t0, t1] = [Side::A, Side::B].map(|side| End::new(Owner::Tester, side, tester));
    let mut wires = match dut {
        None => vec![[t0, t1]],
        Some(dut) => {
            vec![[t0, End::new(Owner::Dut, Side::A, dut)], [t1, End::new(Owner::Dut, Side::B, dut)]]
        }
    };
    for wire in &mut wires {
        tester.run(|| Rtnl::open()?.add_veth([wire[0].as_veth(), wire[1].as_veth()], config))?;
        for end in wire {
            let namespace = end.namespace.clone();
            end.ifindex = namespace.run(|| prepare(end))?;
        }
    }
    for end in wires.iter().flatten() {
        end.namespace.run(|| Rtnl::open()?.set_up(end.ifindex, true))?;
    }
    for end in wires.iter().flatten() {
        end.namespace.run(|| wait_until_operational(end.name))?;
    }
    Ok(wires)
}

/// The carrier comes with the second end, but the kernel takes note in a work queue of its own, and drops
/// all frames (noop qdisc) until then. Asking for the link makes it take note (rtnl_getlink, linkwatch).
pub(crate) fn wait_until_operational(name: &str) -> Result<()> {
    let mut rtnl = Rtnl::open()?;
    let deadline = Instant::now() + Duration::from_secs(10);
    while !rtnl.link(name)?.operational {
        if Instant::now() > deadline {
            return Err(Error::Input(format!("interface {name} did not come up within 10 s")));
        }
        std::thread::yield_now();
    }
    Ok(())
}

/// Switches of one end, while it is down; returns its number. GRO on a veth is what creates its NAPI,
/// without which neither threads nor redirected frames work; all else is off, so that frames stay as the
/// tester made them and go through the receiver's ring (a sender with TSO on bypasses it).
///
/// Both ends are prepared before one is set up: a veth takes redirected frames only if its peer had GRO on
/// when it was opened, and drops them in silence otherwise (veth_open, veth_set_xdp_features).
fn prepare(end: &End) -> Result<u32> {
    for offload in [Offload::Tso, Offload::Gso, Offload::TxChecksum] {
        set_offload(end.name, offload, false)?;
    }
    set_offload(end.name, Offload::Gro, true)?;
    let mut rtnl = Rtnl::open()?;
    let ifindex = rtnl.link(end.name)?.ifindex;
    if end.owner == Owner::Dut {
        rtnl.keep_quiet(ifindex)?;
    }
    Ok(ifindex)
}

/// Sysctls of the tester's namespace, before its interfaces exist: a kernel that keeps silent.
pub(crate) fn silence() -> Result<()> {
    for which in ["all", "default"] {
        sysctl(&format!("ipv6/conf/{which}/disable_ipv6"), "1")?;
    }
    Ok(())
}

/// Sysctls of the DUT's namespace, before its interfaces exist, so that they are born with them.
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

/// Makes the DUT's namespace a router: forwarding, addresses, routes and neighbours. With several networks it has a
/// route to each of them and no other.
pub(crate) fn route(wires: &Wires, ip: IpVersion, networks: u32) -> Result<()> {
    // Only now: an interface that is born with forwarding on joins the group of all routers and reports that,
    // before it can be kept quiet.
    match ip {
        IpVersion::V4 => sysctl("ipv4/ip_forward", "1")?,
        IpVersion::V6 => sysctl("ipv6/conf/all/forwarding", "1")?,
    }
    let mut rtnl = Rtnl::open()?;
    for [tester, dut] in wires {
        let (side, host_prefix) = (dut.side, if ip == IpVersion::V4 { 32 } else { 128 });
        rtnl.add_address(dut.ifindex, side.dut(ip), host_prefix)?;
        rtnl.add_neighbour(dut.ifindex, side.tester(ip), tester.mac)?;
        let routes = match networks {
            1 => vec![side.network(ip)],
            _ => side.networks(ip, networks).collect(),
        };
        for network in routes {
            rtnl.add_route(network, side.tester(ip), dut.ifindex)?;
        }
    }
    Ok(())
}

/// Sets the DUT's interfaces down and up again, in its namespace. Routes and neighbours are gone then, and the addresses
/// of IPv6.
pub(crate) fn cycle(wires: &Wires) -> Result<()> {
    let mut rtnl = Rtnl::open()?;
    for up in [false, true] {
        for [_, dut] in wires {
            rtnl.set_up(dut.ifindex, up)?;
        }
    }
    wires.iter().try_for_each(|[_, dut]| wait_until_operational(dut.name))
}

/// The interface of the bridge.
pub(crate) const BRIDGE: &str = "br0";

/// Makes the DUT's namespace a bridge between its two interfaces. The entries for the tester's addresses are
/// static, so that none is missing at first or expires; learning stays on, so that its share of the work is done.
pub(crate) fn bridge(wires: &Wires) -> Result<()> {
    // Where br_netfilter is loaded, a new namespace hands all bridged frames to iptables.
    for family in ["iptables", "ip6tables", "arptables"] {
        sysctl(&format!("bridge/bridge-nf-call-{family}"), "0")?;
    }
    let mut rtnl = Rtnl::open()?;
    // An address of its own, or it would be that of a port.
    rtnl.add_bridge(BRIDGE, [2, 0, 0, 0, 0, 0xfe])?;
    let bridge = rtnl.link(BRIDGE)?.ifindex;
    rtnl.keep_quiet(bridge)?;
    for [tester, dut] in wires {
        rtnl.enslave(dut.ifindex, bridge)?;
        rtnl.add_forwarding_entry(dut.ifindex, tester.mac)?;
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
