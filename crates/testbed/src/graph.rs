//! Hosts, and the links between interfaces of theirs: what each test bed is made of, as data.
//!
//! ```text
//! sender s0 ---- m0 middle m1 ---- r0 receiver          BOTTLENECK
//! ```
//! A host is a namespace, a link a veth pair. One more host or one more way is one more row of a [`Plan`].

use std::net::IpAddr;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use weir_linux::namespace::Namespace;
use weir_linux::rtnl::{Mac, Rtnl, VethConfig, VethEnd};

/// The owner of an interface, and of the frames lost there.
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
    /// Where the tester's first port is.
    A,
    /// Where its second port is.
    B,
}

/// An end to be: name of its host, of its interface, and the side that is reached through it.
pub type Planned = (&'static str, &'static str, Side);

/// What to build.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Each host with its owner.
    pub hosts: &'static [(&'static str, Owner)],
    /// The two ends of each link.
    pub links: &'static [[Planned; 2]],
}

/// Two hosts with a link.
pub const DIRECT: Plan = Plan {
    hosts: &[("sender", Owner::Tester), ("receiver", Owner::Dut)],
    links: &[[("sender", "s0", Side::A), ("receiver", "r0", Side::B)]],
};

/// Two hosts with another one between them.
pub const BOTTLENECK: Plan = Plan {
    hosts: &[("sender", Owner::Tester), ("middle", Owner::Dut), ("receiver", Owner::Tester)],
    links: &[
        [("sender", "s0", Side::A), ("middle", "m0", Side::A)],
        [("receiver", "r0", Side::B), ("middle", "m1", Side::B)],
    ],
};

/// A host.
#[derive(Clone)]
pub struct Host {
    /// Its name in the plan.
    pub name: &'static str,
    /// Its owner.
    pub owner: Owner,
    /// Where its interfaces are.
    pub namespace: Namespace,
}

/// One end of a link: an interface of a host.
#[derive(Clone)]
pub struct End {
    /// Name of its host in the plan.
    pub host: &'static str,
    /// Interface name.
    pub name: &'static str,
    /// Its owner.
    pub owner: Owner,
    /// What is reached through it.
    pub side: Side,
    /// Its address, 02:00:00:00:LINK:END: assigned by no vendor.
    pub mac: Mac,
    /// Its number in its namespace.
    pub ifindex: u32,
    /// Where it is.
    pub namespace: Namespace,
}

/// Hosts and links that stand until this is dropped.
pub struct Graph {
    plan: Plan,
    hosts: Vec<Host>,
    links: Vec<[End; 2]>,
}

impl Graph {
    /// The hosts of a plan; they have no links yet, so that settings can be made that interfaces are born with.
    ///
    /// # Errors
    /// [`Error::NoNamespace`].
    pub fn new(plan: Plan) -> Result<Graph> {
        let new = |&(name, owner)| Ok(Host { name, owner, namespace: Namespace::new()? });
        let hosts = plan.hosts.iter().map(new).collect::<Result<_>>()?;
        Ok(Graph { plan, hosts, links: Vec::new() })
    }

    /// Hosts and links of a plan, as the kernel makes them.
    ///
    /// # Errors
    /// [`Error::NoNamespace`], or what the kernel refuses.
    pub fn connected(plan: Plan) -> Result<Graph> {
        let mut graph = Graph::new(plan)?;
        graph.connect(VethConfig::default(), |_| Ok(()))?;
        Ok(graph)
    }

    /// An existing host, with links that were not created here.
    pub(crate) fn of(host: Host) -> Graph {
        Graph { plan: Plan { hosts: &[], links: &[] }, hosts: vec![host], links: Vec::new() }
    }

    /// Makes the links and sets them up. `prepare` is called in the namespace of each end, before any is up.
    ///
    /// # Errors
    /// What the kernel refuses, or that of `prepare`.
    pub fn connect(&mut self, config: VethConfig, prepare: impl Fn(&End) -> Result<()> + Sync) -> Result<()> {
        for (number, planned) in self.plan.links.iter().enumerate() {
            let mut ends =
                [0, 1].map(|n| self.end_to_be(planned[n], [2, 0, 0, 0, number as u8, n as u8 + 1]));
            let veth = ends.each_ref().map(|end| VethEnd {
                name: end.name,
                mac: end.mac,
                namespace: end.namespace.fd(),
            });
            ends[0].namespace.run(|| Rtnl::open()?.add_veth(veth, config))?;
            for end in &mut ends {
                end.ifindex = end.namespace.run(|| Rtnl::open()?.link(end.name))?.ifindex;
                end.namespace.run(|| prepare(end))?;
            }
            self.links.push(ends);
        }
        self.ends().try_for_each(|end| end.set_up(true))?;
        self.ends().try_for_each(|end| end.namespace.run(|| wait_until_operational(end.name)))
    }

    fn end_to_be(&self, (host, name, side): Planned, mac: Mac) -> End {
        let Host { owner, namespace, .. } =
            self.hosts.iter().find(|one| one.name == host).expect("a host of the plan");
        End { host, name, owner: *owner, side, mac, ifindex: 0, namespace: namespace.clone() }
    }

    /// Where the host is that this one answers for.
    pub(crate) fn host_of(&self, owner: Owner) -> Option<&Namespace> {
        self.hosts.iter().find(|host| host.owner == owner).map(|host| &host.namespace)
    }

    /// All hosts, in the order of the plan.
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// The namespace of a host.
    ///
    /// # Panics
    /// The plan has none of this name.
    pub fn host(&self, name: &str) -> &Namespace {
        &self.hosts.iter().find(|host| host.name == name).expect("a host of the plan").namespace
    }

    /// The end of this name.
    ///
    /// # Panics
    /// The plan has none of this name, or its links are not made.
    pub fn end(&self, name: &str) -> &End {
        self.ends().find(|end| end.name == name).expect("an end of the plan")
    }

    /// Both ends of each link.
    pub fn ends(&self) -> impl Iterator<Item = &End> {
        self.links.iter().flatten()
    }

    /// Each link in both directions: (sending end, receiving end).
    pub fn directions(&self) -> impl Iterator<Item = (&End, &End)> {
        self.links.iter().flat_map(|[a, b]| [(a, b), (b, a)])
    }
}

impl End {
    /// Gives it an address with a prefix of this length.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub fn add_address(&self, address: IpAddr, prefix: u8) -> Result<()> {
        Ok(self.namespace.run(|| Rtnl::open()?.add_address(self.ifindex, address, prefix))?)
    }

    pub(crate) fn set_up(&self, up: bool) -> Result<()> {
        Ok(self.namespace.run(|| Rtnl::open()?.set_up(self.ifindex, up))?)
    }

    /// Why no frame can pass here, if that is so.
    pub(crate) fn broken(&self) -> Option<String> {
        let link = self.namespace.run(|| Rtnl::open()?.link(self.name));
        let what = match link {
            Err(weir_linux::Error::Netlink { source, .. }) if source.raw_os_error() == Some(libc::ENODEV) => {
                "vanished"
            }
            Err(error) => return Some(error.to_string()),
            Ok(link) if link.ifindex != self.ifindex => "was replaced by another",
            Ok(link) if !link.up => "was set down",
            Ok(link) if !link.carrier => "lost its carrier",
            Ok(_) => return None,
        };
        Some(format!("interface {} {what}", self.name))
    }
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

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, UdpSocket};

    use weir_testkit::need_root;

    use super::*;

    /// Three hosts in a row, with two ways between the first two.
    const THREE: Plan = Plan {
        hosts: &[("a", Owner::Tester), ("b", Owner::Dut), ("c", Owner::Dut)],
        links: &[
            [("a", "a0", Side::A), ("b", "b0", Side::A)],
            [("a", "a1", Side::B), ("b", "b1", Side::A)],
            [("b", "b2", Side::B), ("c", "c0", Side::A)],
        ],
    };

    #[test]
    fn each_link_of_a_plan_carries_packets_both_ways() {
        need_root!();
        let graph = Graph::connected(THREE).unwrap();
        let owners: Vec<_> = graph.hosts().iter().map(|host| (host.name, host.owner)).collect();
        assert_eq!(owners, THREE.hosts);
        for (n, end) in graph.ends().enumerate() {
            let (link, end_of_link) = (n as u8 / 2, n as u8 % 2 + 1);
            assert_eq!((end.mac, end.broken()), ([2, 0, 0, 0, link, end_of_link], None), "{}", end.name);
            end.add_address(Ipv4Addr::new(10, 0, link, end_of_link).into(), 24).unwrap();
        }
        for (n, (from, to)) in graph.directions().enumerate() {
            let [link, sender] = [n as u8 / 2, n as u8 % 2 + 1];
            let address = |last| (Ipv4Addr::new(10, 0, link, last), 9);
            let receive = to.namespace.run(|| UdpSocket::bind(address(3 - sender))).unwrap();
            receive.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            let send = from.namespace.run(|| UdpSocket::bind(address(sender))).unwrap();
            send.send_to(from.name.as_bytes(), address(3 - sender)).unwrap();
            let mut buf = [0; 9];
            let (bytes, source) = receive.recv_from(&mut buf).unwrap();
            assert_eq!((&buf[..bytes], source), (from.name.as_bytes(), address(sender).into()));
        }
        graph.host("c").run(|| Rtnl::open()?.set_up(graph.end("c0").ifindex, false)).unwrap();
        let broken: Vec<_> = graph.ends().filter_map(End::broken).collect();
        assert_eq!(broken, ["interface b2 lost its carrier", "interface c0 was set down"]);
    }
}
