//! Two hosts with stacks of their own, and a namespace between them in which a link can be.

use weir_linux::namespace::Namespace;
use weir_testkit::Started;
use weir_testkit::wires::{Wire, address, join, set_up};

use crate::weir;

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
        for (number, host, inner, own) in [
            (1, (&left, "l0"), (&middle, "m0"), "198.18.0.1"),
            (2, (&right, "r0"), (&middle, "m1"), "198.18.0.2"),
        ] {
            join([host, inner], Wire { number, queues: 1 });
            set_up(inner, true);
            set_up(host, true);
            address(host, own);
        }
        Street { left, middle, right }
    }

    /// `weir bottleneck` between both, at work.
    pub(crate) fn start(&self, line: &str) -> Started {
        weir::start(&self.middle, &format!("bottleneck m0 m1 {line}"), "bottleneck between")
    }
}
