//! The few rtnetlink requests that a test bed is made of: veth pairs, bridges, addresses, routes, neighbours,
//! link state and counters. Source: rtnetlink(7), linux/if_link.h.

use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::netlink::{Attrs, Message, Reply, Socket, c_text, u32_at, u64_at};

/// A link-layer address.
pub type Mac = [u8; 6];

/// A network card has its carrier again after so long.
const RESET: Duration = Duration::from_secs(10);
/// Time between two looks at it.
const LOOK: Duration = Duration::from_millis(5);

const CREATE: libc::c_int = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
/// What an interface keeps while it is down may be there already.
const CREATE_OR_KEEP: libc::c_int = libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
// linux/veth.h and linux/if_link.h, not in the libc crate.
const VETH_INFO_PEER: u16 = 1;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const IFINFOMSG_BYTES: usize = 16;
const IFLA_OPERSTATE: u16 = 16;
const IFLA_CARRIER: u16 = 33;
const IFLA_LINK_NETNSID: u16 = 37;
const IF_OPER_UP: u8 = 6;
// linux/if_link.h, enum of IFLA_BR_*; linux/neighbour.h.
const IFLA_BR_STP_STATE: u16 = 5;
const IFLA_BR_MCAST_SNOOPING: u16 = 23;
const NTF_MASTER: u8 = 4;
const RTNH_F_ONLINK: u32 = 4;
// linux/rtnetlink.h, linux/pkt_sched.h.
const TCMSG_BYTES: usize = 20;
const TCA_KIND: u16 = 1;
const TC_H_ROOT: u32 = u32::MAX;

/// A socket to rtnetlink in one network namespace.
pub struct Rtnl {
    socket: Socket,
}

/// One end of a veth pair to be.
#[derive(Debug, Clone, Copy)]
pub struct VethEnd<'a> {
    /// Interface name, at most 15 bytes.
    pub name: &'a str,
    /// Its address.
    pub mac: Mac,
    /// The namespace in which it is born.
    pub namespace: BorrowedFd<'a>,
}

/// What both ends of a veth pair have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VethConfig {
    /// Largest payload of a frame in bytes, Ethernet header not counted.
    pub mtu: u32,
    /// Receive queues, and as many transmit queues, of each end.
    pub queues: u32,
}

impl Default for VethConfig {
    /// As the kernel makes them.
    fn default() -> VethConfig {
        VethConfig { mtu: 1500, queues: 1 }
    }
}

/// The other end of a veth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// The interface of this number in the same network namespace.
    Here(u32),
    /// It is in another one.
    Elsewhere,
}

/// An interface as the kernel describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Its number in its namespace.
    pub ifindex: u32,
    /// Its name.
    pub name: String,
    /// Its address; zero for devices without one.
    pub mac: Mac,
    /// Largest payload in bytes.
    pub mtu: u32,
    /// Whether its frames have the header of Ethernet (ARPHRD_ETHER, ARPHRD_LOOPBACK).
    pub ethernet: bool,
    /// Whether it is set up.
    pub up: bool,
    /// Whether both ends are up.
    pub carrier: bool,
    /// Whether the stack has noticed the carrier (IF_OPER_UP): only then are frames sent and routes used.
    pub operational: bool,
    /// What kind of virtual device it is, for example `veth`; `None` for hardware and loopback.
    pub kind: Option<String>,
    /// It is a port of a bridge, a bond or the like.
    pub enslaved: bool,
    /// Its counters.
    pub stats: LinkStats,
}

/// IFLA_STATS64, as far as the frame accounting needs it (linux/if_link.h, rtnl_link_stats64).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkStats {
    /// Frames received.
    pub rx_packets: u64,
    /// Frames sent.
    pub tx_packets: u64,
    /// Receive errors.
    pub rx_errors: u64,
    /// Transmit errors.
    pub tx_errors: u64,
    /// Frames dropped on receive.
    pub rx_dropped: u64,
    /// Frames dropped on transmit.
    pub tx_dropped: u64,
    /// Frames that found no room in the receive ring of a NIC.
    pub rx_missed: u64,
}

impl Rtnl {
    /// Opens a socket in the calling thread's network namespace, where it stays.
    pub fn open() -> Result<Rtnl> {
        Ok(Rtnl { socket: Socket::open(libc::NETLINK_ROUTE)? })
    }

    /// Makes a veth pair, each end in its namespace, both down.
    pub fn add_veth(&mut self, ends: [VethEnd<'_>; 2], config: VethConfig) -> Result<()> {
        let [first, second] = ends;
        for end in ends {
            check_name(end.name)?;
        }
        let message = Message::new(libc::RTM_NEWLINK, CREATE, &[0; IFINFOMSG_BYTES]);
        let message = describe_end(message, first, config).nest(libc::IFLA_LINKINFO, &[], |info| {
            info.attr(IFLA_INFO_KIND, b"veth").nest(IFLA_INFO_DATA, &[], |data| {
                data.nest(VETH_INFO_PEER, &[0; IFINFOMSG_BYTES], |peer| describe_end(peer, second, config))
            })
        });
        self.socket.request(&format!("make veth pair {} and {}", first.name, second.name), message)
    }

    /// Makes a bridge, down, that sends nothing of its own: no spanning tree, no multicast snooping.
    pub fn add_bridge(&mut self, name: &str, mac: Mac) -> Result<()> {
        check_name(name)?;
        let message = Message::new(libc::RTM_NEWLINK, CREATE, &[0; IFINFOMSG_BYTES])
            .attr_text(libc::IFLA_IFNAME, name)
            .attr(libc::IFLA_ADDRESS, &mac)
            .nest(libc::IFLA_LINKINFO, &[], |info| {
                info.attr(IFLA_INFO_KIND, b"bridge").nest(IFLA_INFO_DATA, &[], |data| {
                    data.attr_u32(IFLA_BR_STP_STATE, 0).attr(IFLA_BR_MCAST_SNOOPING, &[0])
                })
            });
        self.socket.request(&format!("make bridge {name}"), message)
    }

    /// Makes an interface a port of a bridge.
    pub fn enslave(&mut self, ifindex: u32, bridge: u32) -> Result<()> {
        let message =
            Message::new(libc::RTM_NEWLINK, 0, &ifinfomsg(ifindex, 0, 0)).attr_u32(libc::IFLA_MASTER, bridge);
        self.socket.request(&format!("make interface {ifindex} a port of bridge {bridge}"), message)
    }

    /// Tells a bridge for good behind which of its ports an address is.
    pub fn add_forwarding_entry(&mut self, port: u32, mac: Mac) -> Result<()> {
        let mut header = vec![libc::AF_BRIDGE as u8, 0, 0, 0];
        header.extend(port.to_ne_bytes());
        header.extend(libc::NUD_NOARP.to_ne_bytes());
        header.extend([NTF_MASTER, 0]);
        let message = Message::new(libc::RTM_NEWNEIGH, CREATE, &header).attr(libc::NDA_LLADDR, &mac);
        self.socket.request(&format!("add a forwarding entry to port {port}"), message)
    }

    /// Sets an interface up or down.
    pub fn set_up(&mut self, ifindex: u32, up: bool) -> Result<()> {
        let flags = if up { libc::IFF_UP as u32 } else { 0 };
        let header = ifinfomsg(ifindex, flags, libc::IFF_UP as u32);
        let what = format!("set interface {ifindex} {}", if up { "up" } else { "down" });
        self.socket.request(&what, Message::new(libc::RTM_NEWLINK, 0, &header))
    }

    /// Sets the longest packet of an interface, bytes.
    pub fn set_mtu(&mut self, ifindex: u32, mtu: u32) -> Result<()> {
        let message =
            Message::new(libc::RTM_NEWLINK, 0, &ifinfomsg(ifindex, 0, 0)).attr_u32(libc::IFLA_MTU, mtu);
        self.socket.request(&format!("set the MTU of interface {ifindex}"), message)
    }

    /// Keeps the stack from sending frames of its own on an interface that is down: neither neighbour
    /// discovery nor ARP (IFF_NOARP), no multicast listener reports.
    pub fn keep_quiet(&mut self, ifindex: u32) -> Result<()> {
        let change = (libc::IFF_NOARP | libc::IFF_MULTICAST) as u32;
        let header = ifinfomsg(ifindex, libc::IFF_NOARP as u32, change);
        self.socket
            .request(&format!("silence interface {ifindex}"), Message::new(libc::RTM_NEWLINK, 0, &header))
    }

    /// Adds an address without duplicate address detection, or keeps it.
    pub fn add_address(&mut self, ifindex: u32, address: IpAddr, prefix: u8) -> Result<()> {
        let mut header = vec![family(address), prefix, libc::IFA_F_NODAD as u8, libc::RT_SCOPE_UNIVERSE];
        header.extend(ifindex.to_ne_bytes());
        let bytes = octets(address);
        let message = Message::new(libc::RTM_NEWADDR, CREATE_OR_KEEP, &header)
            .attr(libc::IFA_LOCAL, &bytes)
            .attr(libc::IFA_ADDRESS, &bytes);
        self.socket.request(&format!("add address {address}/{prefix}"), message)
    }

    /// Adds a route through a gateway that is taken to be on the interface's link, whether an address says
    /// so or not (RTNH_F_ONLINK).
    pub fn add_route(&mut self, to: (IpAddr, u8), gateway: IpAddr, ifindex: u32) -> Result<()> {
        let (network, prefix) = to;
        let mut header = vec![family(network), prefix, 0, 0];
        header.extend([libc::RT_TABLE_MAIN, libc::RTPROT_STATIC, libc::RT_SCOPE_UNIVERSE, libc::RTN_UNICAST]);
        header.extend(RTNH_F_ONLINK.to_ne_bytes());
        let message = Message::new(libc::RTM_NEWROUTE, CREATE, &header)
            .attr(libc::RTA_DST, &octets(network))
            .attr(libc::RTA_GATEWAY, &octets(gateway))
            .attr_u32(libc::RTA_OIF, ifindex);
        self.socket.request(&format!("add route {network}/{prefix} via {gateway}"), message)
    }

    /// Removes a route of this network namespace.
    pub fn remove_route(&mut self, to: (IpAddr, u8)) -> Result<()> {
        let (network, prefix) = to;
        let mut header = vec![family(network), prefix, 0, 0];
        header.extend([libc::RT_TABLE_MAIN, 0, libc::RT_SCOPE_NOWHERE, 0, 0, 0, 0, 0]);
        let message = Message::new(libc::RTM_DELROUTE, 0, &header).attr(libc::RTA_DST, &octets(network));
        self.socket.request(&format!("remove route {network}/{prefix}"), message)
    }

    /// Adds a neighbour that never expires, so that no ARP or neighbour discovery is needed.
    pub fn add_neighbour(&mut self, ifindex: u32, address: IpAddr, mac: Mac) -> Result<()> {
        let mut header = vec![family(address), 0, 0, 0];
        header.extend(ifindex.to_ne_bytes());
        header.extend(libc::NUD_PERMANENT.to_ne_bytes());
        header.extend([0, libc::RTN_UNICAST]);
        let message = Message::new(libc::RTM_NEWNEIGH, CREATE, &header)
            .attr(libc::NDA_DST, &octets(address))
            .attr(libc::NDA_LLADDR, &mac);
        self.socket.request(&format!("add neighbour {address}"), message)
    }

    /// Looks an interface up.
    ///
    /// # Errors
    /// [`Error::Netlink`] with ENODEV when there is none of this name.
    pub fn link(&mut self, name: &str) -> Result<Link> {
        check_name(name)?;
        let message =
            Message::new(libc::RTM_GETLINK, 0, &[0; IFINFOMSG_BYTES]).attr_text(libc::IFLA_IFNAME, name);
        let what = format!("look up interface {name}");
        let replies = self.socket.get(&what, message)?;
        replies.iter().find_map(read_link).ok_or(Error::Input(format!("{what}: the kernel sent no link")))
    }

    /// Looks an interface up, and waits up to 10 s for its carrier: many drivers reset their network card when an XDP program is
    /// attached or detached. A caller that needs a carrier checks for it.
    ///
    /// # Errors
    /// As of [`Rtnl::link`].
    pub fn link_after_reset(&mut self, name: &str) -> Result<Link> {
        let deadline = Instant::now() + RESET;
        loop {
            let link = self.link(name)?;
            if link.carrier || Instant::now() > deadline {
                return Ok(link);
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Looks an interface up by its number, which stays when it is renamed.
    ///
    /// # Errors
    /// [`Error::Netlink`] with ENODEV when there is none.
    pub fn link_at(&mut self, ifindex: u32) -> Result<Link> {
        let what = format!("look up interface number {ifindex}");
        let message = Message::new(libc::RTM_GETLINK, 0, &ifinfomsg(ifindex, 0, 0));
        let replies = self.socket.get(&what, message)?;
        replies.iter().find_map(read_link).ok_or(Error::Input(format!("{what}: the kernel sent no link")))
    }

    /// Where the other end of a veth is; `None`: the interface is none, or its other end has gone.
    pub fn peer(&mut self, name: &str) -> Result<Option<Peer>> {
        if self.link(name)?.kind.as_deref() != Some("veth") {
            return Ok(None);
        }
        let message =
            Message::new(libc::RTM_GETLINK, 0, &[0; IFINFOMSG_BYTES]).attr_text(libc::IFLA_IFNAME, name);
        let replies = self.socket.get(&format!("look up interface {name}"), message)?;
        Ok(replies.iter().find_map(|reply| {
            let attrs = reply.attrs(IFINFOMSG_BYTES);
            let number = attrs.find_u32(libc::IFLA_LINK)?;
            Some(if attrs.find(IFLA_LINK_NETNSID).is_some() { Peer::Elsewhere } else { Peer::Here(number) })
        }))
    }

    /// Whether an interface has an address of IP that reaches beyond its link.
    pub fn has_address(&mut self, ifindex: u32) -> Result<bool> {
        // struct ifaddrmsg: family, prefix length, flags, scope, u32 interface.
        let message = Message::new(libc::RTM_GETADDR, 0, &[0; 8]);
        let replies = self.socket.dump("list addresses", message)?;
        let reaches = |reply: &Reply| {
            let scope = reply.payload().get(3).copied().unwrap_or(0);
            u32_at(reply.payload(), 4) == Some(ifindex) && scope < libc::RT_SCOPE_LINK
        };
        Ok(replies.iter().any(reaches))
    }

    /// The kind of queueing discipline at the root of an interface, such as `mq` or `fq_codel`; `None` if it has none.
    pub fn root_queue(&mut self, ifindex: u32) -> Result<Option<String>> {
        let message = Message::new(libc::RTM_GETQDISC, 0, &[0; TCMSG_BYTES]);
        let replies = self.socket.dump("list queueing disciplines", message)?;
        // struct tcmsg of linux/rtnetlink.h: family, padding, interface, handle, parent, info.
        let is_root = |reply: &&Reply| {
            u32_at(reply.payload(), 4) == Some(ifindex) && u32_at(reply.payload(), 12) == Some(TC_H_ROOT)
        };
        let root = replies.iter().find(is_root);
        Ok(root.and_then(|reply| reply.attrs(TCMSG_BYTES).find(TCA_KIND).map(c_text)))
    }
}

fn check_name(name: &str) -> Result<()> {
    // dev_valid_name() of the kernel: 1 to 15 bytes, no slash, colon or space.
    let bad = |c: char| c == '/' || c == ':' || c.is_whitespace();
    if name.is_empty() || name.len() >= libc::IFNAMSIZ || name == "." || name == ".." || name.contains(bad) {
        return Err(Error::Input(format!(
            "`{name}` is no interface name: use 1 to 15 letters, digits, `-` or `_`"
        )));
    }
    Ok(())
}

fn describe_end(message: Message, end: VethEnd<'_>, config: VethConfig) -> Message {
    message
        .attr_text(libc::IFLA_IFNAME, end.name)
        .attr(libc::IFLA_ADDRESS, &end.mac)
        .attr_u32(libc::IFLA_MTU, config.mtu)
        .attr_u32(libc::IFLA_NUM_RX_QUEUES, config.queues)
        .attr_u32(libc::IFLA_NUM_TX_QUEUES, config.queues)
        .attr_u32(libc::IFLA_NET_NS_FD, end.namespace.as_raw_fd() as u32)
}

/// struct ifinfomsg of linux/rtnetlink.h.
fn ifinfomsg(ifindex: u32, flags: u32, change: u32) -> Vec<u8> {
    [0, ifindex, flags, change].iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn read_link(reply: &Reply) -> Option<Link> {
    let attrs = reply.attrs(IFINFOMSG_BYTES);
    Some(Link {
        ifindex: u32_at(reply.payload(), 4)?,
        name: c_text(attrs.find(libc::IFLA_IFNAME)?),
        mac: attrs.find(libc::IFLA_ADDRESS).and_then(|mac| mac.try_into().ok()).unwrap_or_default(),
        mtu: attrs.find_u32(libc::IFLA_MTU)?,
        ethernet: matches!(
            reply.payload().get(2..4)?.try_into().map(u16::from_ne_bytes).ok()?,
            libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK
        ),
        up: u32_at(reply.payload(), 8)? & libc::IFF_UP as u32 != 0,
        carrier: attrs.find(IFLA_CARRIER).is_some_and(|carrier| carrier == [1]),
        operational: attrs.find(IFLA_OPERSTATE).is_some_and(|state| state == [IF_OPER_UP]),
        kind: attrs.find(libc::IFLA_LINKINFO).and_then(|info| Attrs(info).find(IFLA_INFO_KIND)).map(c_text),
        enslaved: attrs.find_u32(libc::IFLA_MASTER).is_some_and(|master| master != 0),
        stats: read_stats(&attrs)?,
    })
}

fn read_stats(attrs: &Attrs<'_>) -> Option<LinkStats> {
    let stats = attrs.find(libc::IFLA_STATS64)?;
    let nth = |n: usize| u64_at(stats, 8 * n);
    Some(LinkStats {
        rx_packets: nth(0)?,
        tx_packets: nth(1)?,
        rx_errors: nth(4)?,
        tx_errors: nth(5)?,
        rx_dropped: nth(6)?,
        tx_dropped: nth(7)?,
        rx_missed: nth(15)?,
    })
}

fn family(address: IpAddr) -> u8 {
    if address.is_ipv4() { libc::AF_INET as u8 } else { libc::AF_INET6 as u8 }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace::Namespace;
    use weir_testkit::need_root;

    const MAC: Mac = [2, 0, 0, 0, 0, 1];

    #[test]
    fn an_interface_is_found_by_its_number_under_any_name() {
        need_root!();
        let namespace = Namespace::new().unwrap();
        let link = namespace.run(|| {
            let mut rtnl = Rtnl::open().unwrap();
            let lo = rtnl.link("lo").unwrap();
            rtnl.link_at(lo.ifindex).unwrap()
        });
        assert_eq!((link.name.as_str(), link.ethernet), ("lo", true));
        let missing = namespace.run(|| Rtnl::open().unwrap().link_at(4_000_000).unwrap_err());
        assert!(
            matches!(&missing, Error::Netlink { source, .. } if source.raw_os_error() == Some(libc::ENODEV)),
            "{missing}"
        );
    }

    #[test]
    fn both_ends_are_born_in_their_namespaces() {
        need_root!();
        let (here, there) = (Namespace::new().unwrap(), Namespace::new().unwrap());
        let mut rtnl = here.run(Rtnl::open).unwrap();
        let mut remote = there.run(Rtnl::open).unwrap();
        let a = VethEnd { name: "a", mac: MAC, namespace: here.fd() };
        let b = VethEnd { name: "b", mac: [2, 0, 0, 0, 0, 2], namespace: there.fd() };
        rtnl.add_veth([a, b], VethConfig { mtu: 9000, queues: 2 }).unwrap();
        let link = rtnl.link("a").unwrap();
        assert_eq!((link.mac, link.mtu, link.carrier), (MAC, 9000, false));
        let peer = remote.link("b").unwrap();
        assert_eq!((peer.mac, peer.mtu, peer.carrier), (b.mac, 9000, false));
        assert_eq!((link.kind.as_deref(), link.enslaved), (Some("veth"), false));
        rtnl.set_up(link.ifindex, true).unwrap();
        remote.set_up(peer.ifindex, true).unwrap();
        assert!(rtnl.link("a").unwrap().carrier);
        assert!(!rtnl.has_address(link.ifindex).unwrap(), "an address of the link is none");
        rtnl.add_address(link.ifindex, "198.18.0.1".parse().unwrap(), 24).unwrap();
        assert!(rtnl.has_address(link.ifindex).unwrap());
        rtnl.set_up(link.ifindex, false).unwrap();
        assert!(!remote.link("b").unwrap().carrier);
    }

    #[test]
    fn refusals_are_typed_and_carry_the_kernel_s_words() {
        need_root!();
        let ns = Namespace::new().unwrap();
        let mut rtnl = ns.run(Rtnl::open).unwrap();
        assert!(matches!(rtnl.link("a-name-far-too-long"), Err(Error::Input(_))));
        assert!(matches!(rtnl.link(""), Err(Error::Input(_))));
        let Err(Error::Netlink { source, .. }) = rtnl.link("none") else { panic!("there is none") };
        assert_eq!(source.raw_os_error(), Some(libc::ENODEV));
        // The gateway is unreachable, since lo has no such link.
        let remote = "198.18.0.1".parse().unwrap();
        let error = rtnl.add_route(("198.19.0.0".parse().unwrap(), 16), remote, 999).unwrap_err();
        let Error::Netlink { text, .. } = &error else { panic!("{error:?}") };
        assert!(!text.is_empty(), "{error}");
        let end = VethEnd { name: "a", mac: MAC, namespace: ns.fd() };
        let error = rtnl.add_veth([end, end], VethConfig { mtu: 1500, queues: 1 }).unwrap_err();
        assert_eq!(error.to_string(), "make veth pair a and a: File exists (os error 17)");
        assert!(rtnl.link("a").is_err(), "nothing is left behind");
    }
}
