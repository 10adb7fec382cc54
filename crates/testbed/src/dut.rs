//! Devices under test: the program that forwards the frames ([`System`]), and its function ([`Function`]).
//!
//! Only the pairs of the table below can be made. A new one is a line there, with its name and with what it is made of;
//! what a device can do follows from the methods of [`DutKind`]; the text of a node is in `device/node.rs`, and
//! the settings of the kernel are in `bed.rs` (`rule_set`) and `topology.rs`.

use std::fmt;
use std::str::FromStr;

use weir_packet::flow::IpVersion;

use crate::topology::Side;

/// Kind of device under test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DutKind {
    system: System,
    function: Function,
}

/// The program that forwards the frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum System {
    /// None: the tester's two ports are connected directly.
    Wire,
    /// Linux.
    Kernel,
    /// An XDP program on both ports.
    Xdp,
    /// This project's own node, see the crate `node`.
    Node(NodeIo),
    /// An external DUT: another machine between interfaces of this one, see [`crate::external`].
    External,
    /// A program that does wrong on purpose, which checks the tester.
    Faulty,
}

/// How a node gets its frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NodeIo {
    /// By AF_XDP.
    Xdp,
    /// By AF_PACKET.
    Packet,
    /// By AF_XDP, with a fast path: XDP programs pass on what the node has decided. It is one thread's.
    Fast,
}

/// What is done with frames: devices of the same function can be held against each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Function {
    /// Nothing.
    Pass,
    /// They are forwarded by the longest prefix of their destination.
    Forward,
    /// They pass N rules, frame by frame; only the last rule accepts.
    Stateless,
    /// The same rules with the states of connections.
    Stateful,
    /// Source NAT towards side b; by an XDP program host by host and without state, for a whole network (RFC 3022, section 4.1).
    Nat,
    /// NAT64 (RFC 6146): side a has IPv6, side b IPv4.
    Nat64,
    /// They are switched by their Ethernet addresses.
    Bridge,
    /// They pass a link with a rate, a queue and a delay, see [`crate::link::LinkSpec`].
    Queue,
    /// They are dropped, reordered, duplicated, corrupted or delayed.
    Faults,
    /// Whatever an external DUT does.
    Unknown,
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $name:literal: $system:expr, $function:ident;)*) => {
        impl DutKind {
            $($(#[$doc])* pub const $kind: DutKind = DutKind { system: $system, function: Function::$function };)*

            /// All kinds with their names in plans, on the command line and in records.
            pub const ALL: [(DutKind, &'static str); [$($name),*].len()] = [$((DutKind::$kind, $name)),*];
        }
    };
}

kinds! {
    /// Nothing: the tester's two ports are wired together.
    WIRE = "wire": System::Wire, Pass;
    /// Linux IP forwarding.
    KERNEL_FORWARD = "kernel-forward": System::Kernel, Forward;
    /// Linux forwarding, N nftables rules without connection tracking.
    KERNEL_STATELESS = "kernel-stateless": System::Kernel, Stateless;
    /// The same rules with connection tracking.
    KERNEL_STATEFUL = "kernel-stateful": System::Kernel, Stateful;
    /// Linux forwarding with source NAT (masquerade).
    KERNEL_NAT = "kernel-nat": System::Kernel, Nat;
    /// A Linux bridge between the two ports.
    KERNEL_BRIDGE = "kernel-bridge": System::Kernel, Bridge;
    /// An XDP program that looks up the kernel's routing table and redirects.
    XDP_FORWARD = "xdp-forward": System::Xdp, Forward;
    /// The node, forwarding.
    NODE_FORWARD = "node-forward": System::Node(NodeIo::Xdp), Forward;
    /// The same by AF_PACKET.
    NODE_FORWARD_PACKET = "node-forward-packet": System::Node(NodeIo::Packet), Forward;
    /// The node with the rules of the kernel's filters, frame by frame.
    NODE_STATELESS = "node-stateless": System::Node(NodeIo::Xdp), Stateless;
    /// The same rules with the states of connections.
    NODE_STATEFUL = "node-stateful": System::Node(NodeIo::Xdp), Stateful;
    /// The node with NAT, for IPv4.
    NODE_NAT = "node-nat": System::Node(NodeIo::Xdp), Nat;
    /// The node with NAT64.
    NODE_NAT64 = "node-nat64": System::Node(NodeIo::Xdp), Nat64;
    /// The forwarding node with a fast path.
    NODE_FORWARD_FAST = "node-forward-fast": System::Node(NodeIo::Fast), Forward;
    /// The stateful filter with a fast path.
    NODE_STATEFUL_FAST = "node-stateful-fast": System::Node(NodeIo::Fast), Stateful;
    /// The NAT with a fast path.
    NODE_NAT_FAST = "node-nat-fast": System::Node(NodeIo::Fast), Nat;
    /// The node with a link between its ports, whose rate is the limit.
    BOTTLENECK = "bottleneck": System::Node(NodeIo::Xdp), Queue;
    /// An XDP program that translates the network of the subscribers into a public one: what a NAT costs that keeps nothing
    /// in mind, and, with faults, a NAT that does wrong.
    PREFIX_NAT = "prefix-nat": System::Xdp, Nat;
    /// Another machine.
    EXTERNAL = "external": System::External, Unknown;
    /// Drops, reorders, duplicates, corrupts or delays on purpose.
    FAULTY = "faulty": System::Faulty, Faults;
}

impl DutKind {
    /// The program that forwards the frames.
    pub fn system(self) -> System {
        self.system
    }

    /// What is done with them.
    pub fn function(self) -> Function {
        self.function
    }

    /// Is it this project's own node?
    pub fn is_node(self) -> bool {
        matches!(self.system, System::Node(_))
    }

    /// Has the node a fast path, which is one thread's?
    pub fn is_fast(self) -> bool {
        self.system == System::Node(NodeIo::Fast)
    }

    /// Is it one thread's?
    pub fn is_one_thread(self) -> bool {
        self.is_fast() || self.function == Function::Queue
    }

    /// Does it take frames from the driver by AF_XDP?
    pub fn takes_by_xdp(self) -> bool {
        matches!(self.system, System::Node(NodeIo::Xdp | NodeIo::Fast))
    }

    /// Does it see a frame in the driver, as a page of memory, before the kernel does?
    pub fn is_in_driver(self) -> bool {
        self.system == System::Xdp || self.takes_by_xdp()
    }

    /// Has it CPUs of its own among those of this machine?
    pub fn has_cpus(self) -> bool {
        !matches!(self.system, System::Wire | System::External)
    }

    /// Does it forward by routes of the kernel?
    pub fn has_kernel_routes(self) -> bool {
        match self.system {
            System::Kernel => self.function != Function::Bridge,
            System::Xdp => self.function == Function::Forward,
            System::Wire | System::Node(_) | System::External | System::Faulty => false,
        }
    }

    /// Has it filter rules?
    pub fn has_rules(self) -> bool {
        matches!(self.function, Function::Stateless | Function::Stateful)
    }

    /// Does it translate addresses, so that only side a can begin a flow?
    pub fn translates(self) -> bool {
        matches!(self.function, Function::Nat | Function::Nat64)
    }

    /// The only IP version that it can be sent on side a; `None`: both.
    pub fn only_ip(self) -> Option<IpVersion> {
        match (self.function, self.system) {
            (Function::Nat64, _) => Some(IpVersion::V6),
            (Function::Nat, System::Node(_) | System::Xdp) => Some(IpVersion::V4),
            _ => None,
        }
    }

    /// The IP version of its frames on a side, where those of the bed are `ip`.
    pub fn ip_on(self, side: Side, ip: IpVersion) -> IpVersion {
        match (self.function, side) {
            (Function::Nat64, Side::A) => IpVersion::V6,
            (Function::Nat64, Side::B) => IpVersion::V4,
            _ => ip,
        }
    }
}

impl fmt::Display for DutKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(DutKind::ALL.iter().find(|(kind, _)| kind == self).expect("only those of ALL are made").1)
    }
}

impl FromStr for DutKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        DutKind::ALL.iter().find(|(_, name)| *name == text).map(|(kind, _)| *kind).ok_or_else(|| {
            let names: Vec<_> = DutKind::ALL.iter().map(|(_, name)| *name).collect();
            format!("`{text}` is no device under test: use {}", names.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_each_kind_can_do() {
        let can = |kind: DutKind| {
            let only = kind.only_ip().map(|ip| format!("IPv{ip} "));
            let words = [
                (kind.is_node(), "node "),
                (kind.is_fast(), "fast "),
                (kind.is_one_thread(), "thread "),
                (kind.takes_by_xdp(), "af-xdp "),
                (kind.is_in_driver(), "driver "),
                (kind.has_cpus(), "cpus "),
                (kind.has_kernel_routes(), "routes "),
                (kind.has_rules(), "rules "),
                (kind.translates(), "translates "),
            ];
            let words = words.iter().filter(|(is, _)| *is).map(|(_, word)| *word).collect::<String>();
            format!("{kind}: {words}{}", only.unwrap_or_default()).trim_end().to_string()
        };
        let all: Vec<String> = DutKind::ALL.iter().map(|(kind, _)| can(*kind)).collect();
        let expected = "\
            wire:\n\
            kernel-forward: cpus routes\n\
            kernel-stateless: cpus routes rules\n\
            kernel-stateful: cpus routes rules\n\
            kernel-nat: cpus routes translates\n\
            kernel-bridge: cpus\n\
            xdp-forward: driver cpus routes\n\
            node-forward: node af-xdp driver cpus\n\
            node-forward-packet: node cpus\n\
            node-stateless: node af-xdp driver cpus rules\n\
            node-stateful: node af-xdp driver cpus rules\n\
            node-nat: node af-xdp driver cpus translates IPv4\n\
            node-nat64: node af-xdp driver cpus translates IPv6\n\
            node-forward-fast: node fast thread af-xdp driver cpus\n\
            node-stateful-fast: node fast thread af-xdp driver cpus rules\n\
            node-nat-fast: node fast thread af-xdp driver cpus translates IPv4\n\
            bottleneck: node thread af-xdp driver cpus\n\
            prefix-nat: driver cpus translates IPv4\n\
            external:\n\
            faulty: cpus";
        assert_eq!(all.join("\n"), expected);
    }

    #[test]
    fn a_name_is_one_kind_and_a_pair_has_one_name() {
        for (kind, name) in DutKind::ALL {
            assert_eq!((name.parse(), kind.to_string()), (Ok(kind), name.to_string()));
            let same = DutKind::ALL.iter().filter(|(other, _)| *other == kind).count();
            assert_eq!(same, 1, "{name}");
        }
        let error = "node-bridge".parse::<DutKind>().unwrap_err();
        assert!(
            error.starts_with("`node-bridge` is no device under test: use wire, kernel-forward,"),
            "{error}"
        );
    }
}
