//! Two namespaces with a veth pair between them.

use std::process::Command;

use crate::need_root;
use crate::wires::{End, Wire, join, set_up};
use weir_linux::namespace::Namespace;

/// Interface a here, b there.
pub struct Pair {
    /// Has interface a.
    pub here: Namespace,
    /// Has interface b.
    pub there: Namespace,
}

impl Pair {
    /// Both ends up; `None`, aloud, where that is not allowed.
    pub fn new() -> Option<Pair> {
        need_root!(return None);
        let pair = Pair { here: Namespace::new().unwrap(), there: Namespace::new().unwrap() };
        join([pair.a(), pair.b()], Wire { number: 0, queues: 1 });
        set_up(pair.a(), true);
        set_up(pair.b(), true);
        Some(pair)
    }

    /// Interface a.
    pub fn a(&self) -> End<'_> {
        (&self.here, "a")
    }

    /// Interface b.
    pub fn b(&self) -> End<'_> {
        (&self.there, "b")
    }
}

/// A bridge on top of an interface, whose driver has no XDP.
pub fn bridge(namespace: &Namespace, name: &str, over: &str) {
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
