//! Two hosts with stacks of their own, and a namespace between them in which a link can be.

use weir_testbed::namespace::Namespace;
use weir_testbed::rtnl::{Rtnl, VethConfig, VethEnd};

use crate::weir::Started;

/// Leaves a test, aloud, where the kernel would refuse it.
macro_rules! need_root {
    () => {
        if !std::fs::read_to_string("/proc/self/status").unwrap().contains("\nUid:\t0\t") {
            return eprintln!("skipped: {} needs root (network namespaces)", module_path!());
        }
    };
}
pub(crate) use need_root;

/// Host 198.18.0.1 - m0 [ middle ] m1 - host 198.18.0.2.
pub(crate) struct Street {
    pub(crate) left: Namespace,
    pub(crate) middle: Namespace,
    pub(crate) right: Namespace,
}

impl Street {
    pub(crate) fn new() -> Street {
        let [left, middle, right] = [(); 3].map(|()| Namespace::new().unwrap());
        for space in [&left, &middle, &right] {
            // No host speaks unasked. A kernel without IPv6 does not anyway.
            let _ = space.run(|| std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1"));
        }
        for (number, host, name, inner, address) in
            [(1, &left, "l0", "m0", "198.18.0.1"), (2, &right, "r0", "m1", "198.18.0.2")]
        {
            let outer = VethEnd { name, mac: [2, 0, 0, 0, 0, number], namespace: host.fd() };
            let inner_end = VethEnd { name: inner, mac: [2, 0, 0, 0, 1, number], namespace: middle.fd() };
            let config = VethConfig { mtu: 1500, queues: 1 };
            host.run(|| Rtnl::open()?.add_veth([outer, inner_end], config)).unwrap();
            let up = |space: &Namespace, name: &str| {
                space.run(|| {
                    let mut rtnl = Rtnl::open().unwrap();
                    let link = rtnl.link(name).unwrap();
                    rtnl.set_up(link.ifindex, true).unwrap();
                    link.ifindex
                })
            };
            up(&middle, inner);
            let index = up(host, name);
            host.run(|| Rtnl::open()?.add_address(index, address.parse().unwrap(), 24)).unwrap();
        }
        Street { left, middle, right }
    }

    /// `weir bottleneck` between both, at work.
    pub(crate) fn start(&self, line: &str) -> Started {
        Started::new(&self.middle, &format!("bottleneck m0 m1 {line}"), "bottleneck between")
    }
}
