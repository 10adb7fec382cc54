//! A node's place in tests: a namespace between those of two hosts.

use weir_linux::ethtool::{Offload, set_offload};
use weir_linux::namespace::Namespace;
use weir_testkit::wires::{Wire, join, keep_quiet, set_up};

/// Two wires with a node's namespace between: l0 - n0, n1 - r0.
pub(crate) struct Street {
    pub(crate) hosts: [Namespace; 2],
    pub(crate) node: Namespace,
}

pub(crate) const HOST: [&str; 2] = ["l0", "r0"];
/// The end of a third wire at its host.
pub(crate) const THIRD: &str = "x0";
const NODE: [&str; 2] = ["n0", "n1"];

impl Street {
    pub(crate) fn new() -> Street {
        Street::with_queues(1)
    }

    /// Wires with so many queues each.
    pub(crate) fn with_queues(queues: u32) -> Street {
        let new = || Namespace::new().unwrap();
        let street = Street { hosts: [new(), new()], node: new() };
        for side in 0..2 {
            let ends = [(&street.hosts[side], HOST[side]), (&street.node, NODE[side])];
            join_ends(ends, Wire { number: side as u8, queues });
        }
        street
    }

    /// The wire of this side once more, after it was removed.
    pub(crate) fn join_again(&self, side: usize) {
        let ends = [(&self.hosts[side], HOST[side]), (&self.node, NODE[side])];
        join_ends(ends, Wire { number: side as u8, queues: 1 });
    }

    /// One more wire, from the node to another host: n2 - x0.
    pub(crate) fn join_third(&self, host: &Namespace, queues: u32) {
        join_ends([(host, THIRD), (&self.node, "n2")], Wire { number: 2, queues });
    }
}

fn join_ends(ends: [(&Namespace, &str); 2], wire: Wire) {
    join(ends, wire);
    for end in ends {
        end.0.run(|| set_offload(end.1, Offload::Gro, true)).unwrap();
        keep_quiet(end);
    }
    ends.into_iter().for_each(|end| set_up(end, true));
}
