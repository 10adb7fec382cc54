//! Two namespaces with a veth pair between them.

use std::process::Command;

use weir_testbed::namespace::Namespace;
use weir_testbed::rtnl::{Rtnl, VethConfig, VethEnd};

/// Interface a here, b there.
pub(crate) struct Pair {
    /// Has interface a.
    pub(crate) here: Namespace,
    /// Has interface b.
    pub(crate) there: Namespace,
}

impl Pair {
    /// Both ends up; `None`, aloud, where that is not allowed.
    pub(crate) fn new() -> Option<Pair> {
        let (Ok(here), Ok(there)) = (Namespace::new(), Namespace::new()) else {
            println!("skipped: this needs root (network namespaces)");
            return None;
        };
        let a = VethEnd { name: "a", mac: [2, 0, 0, 0, 0, 1], namespace: here.fd() };
        let b = VethEnd { name: "b", mac: [2, 0, 0, 0, 0, 2], namespace: there.fd() };
        here.run(|| Rtnl::open()?.add_veth([a, b], VethConfig { mtu: 1500, queues: 1 })).unwrap();
        let pair = Pair { here, there };
        set_up(&pair.here, "a", true);
        set_up(&pair.there, "b", true);
        Some(pair)
    }
}

/// Sets an interface up, or down.
pub(crate) fn set_up(namespace: &Namespace, name: &str, up: bool) {
    namespace.run(|| {
        let mut rtnl = Rtnl::open().unwrap();
        let ifindex = rtnl.link(name).unwrap().ifindex;
        rtnl.set_up(ifindex, up).unwrap();
    });
}

/// A bridge on top of an interface, whose driver has no XDP.
#[allow(dead_code, reason = "few tests need one")]
pub(crate) fn bridge(namespace: &Namespace, name: &str, over: &str) {
    for line in [
        format!("link add {name} type bridge forward_delay 0"),
        format!("link set dev {over} master {name}"),
        format!("link set dev {name} up"),
    ] {
        let ip = || Command::new("ip").args(line.split(' ')).output();
        let output = namespace.run(ip).expect("iproute2 is there");
        assert!(output.status.success(), "{line}: {output:?}");
    }
}
