//! A node's place in tests: a namespace between those of two hosts.

use weir_testbed::ethtool::{Offload, set_offload};
use weir_testbed::namespace::Namespace;
use weir_testbed::rtnl::{Rtnl, VethConfig, VethEnd};

/// Two wires with a node's namespace between: l0 - n0, n1 - r0.
pub(crate) struct Street {
    pub(crate) hosts: [Namespace; 2],
    pub(crate) node: Namespace,
}

pub(crate) const HOST: [&str; 2] = ["l0", "r0"];
const NODE: [&str; 2] = ["n0", "n1"];

impl Street {
    pub(crate) fn new() -> Street {
        let new = || Namespace::new().unwrap();
        let street = Street { hosts: [new(), new()], node: new() };
        for side in 0..2 {
            let mac = |n| [2, 0, 0, 0, side as u8, n];
            let ends = [(HOST[side], mac(1), &street.hosts[side]), (NODE[side], mac(2), &street.node)];
            street.node.run(|| {
                let ends = ends.map(|(name, mac, ns)| VethEnd { name, mac, namespace: ns.fd() });
                Rtnl::open().unwrap().add_veth(ends, VethConfig { mtu: 1500, queues: 1 }).unwrap();
            });
            for (name, _, ns) in ends {
                ns.run(|| {
                    std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1").unwrap();
                    set_offload(name, Offload::Gro, true).unwrap();
                });
            }
            for (name, _, ns) in ends {
                ns.run(|| {
                    let mut rtnl = Rtnl::open().unwrap();
                    let index = rtnl.link(name).unwrap().ifindex;
                    rtnl.keep_quiet(index).unwrap();
                    rtnl.set_up(index, true).unwrap();
                });
            }
        }
        street
    }
}
