//! Devices under test.

use std::fmt;
use std::str::FromStr;

use weir_packet::flow::IpVersion;

use crate::topology::Side;

/// Kind of device under test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DutKind {
    /// Nothing: the tester's two ports are wired together.
    Wire,
    /// Linux IP forwarding.
    KernelForward,
    /// Linux forwarding, N nftables rules without connection tracking; only the last rule accepts.
    KernelStateless,
    /// The same rules with connection tracking.
    KernelStateful,
    /// Linux forwarding with source NAT (masquerade) towards side b.
    KernelNat,
    /// A Linux bridge between the two ports.
    KernelBridge,
    /// An XDP program that looks up the kernel's routing table and redirects.
    XdpForward,
    /// This project's own node, forwarding: see the crate `node`.
    NodeForward,
    /// The same, with AF_PACKET in place of AF_XDP.
    NodeForwardPacket,
    /// The node with the rules of the kernel's filters, frame by frame.
    NodeStateless,
    /// The same rules with the states of connections.
    NodeStateful,
    /// The node with NAT towards side b, for IPv4.
    NodeNat,
    /// The node with NAT64 (RFC 6146): side a has IPv6, side b IPv4.
    NodeNat64,
    /// The forwarding node with a fast path: XDP programs pass on what it has decided.
    NodeForwardFast,
    /// The stateful filter with a fast path.
    NodeStatefulFast,
    /// The NAT with a fast path.
    NodeNatFast,
    /// An XDP program that translates the network of the subscribers into a public one, host by host and without state
    /// (RFC 3022, section 4.1): what a NAT costs that keeps nothing in mind, and, with faults, a NAT that does wrong.
    PrefixNat,
    /// An external DUT: another machine between interfaces of this one, see [`crate::external`].
    External,
    /// Drops, reorders, duplicates, corrupts or delays on purpose: checks the tester.
    Faulty,
}

impl DutKind {
    /// All kinds with their names in plans, on the command line and in records.
    pub const ALL: [(DutKind, &'static str); 19] = [
        (DutKind::Wire, "wire"),
        (DutKind::KernelForward, "kernel-forward"),
        (DutKind::KernelStateless, "kernel-stateless"),
        (DutKind::KernelStateful, "kernel-stateful"),
        (DutKind::KernelNat, "kernel-nat"),
        (DutKind::KernelBridge, "kernel-bridge"),
        (DutKind::XdpForward, "xdp-forward"),
        (DutKind::NodeForward, "node-forward"),
        (DutKind::NodeForwardPacket, "node-forward-packet"),
        (DutKind::NodeStateless, "node-stateless"),
        (DutKind::NodeStateful, "node-stateful"),
        (DutKind::NodeNat, "node-nat"),
        (DutKind::NodeNat64, "node-nat64"),
        (DutKind::NodeForwardFast, "node-forward-fast"),
        (DutKind::NodeStatefulFast, "node-stateful-fast"),
        (DutKind::NodeNatFast, "node-nat-fast"),
        (DutKind::PrefixNat, "prefix-nat"),
        (DutKind::External, "external"),
        (DutKind::Faulty, "faulty"),
    ];
}

impl DutKind {
    /// Does it take frames from the driver by AF_XDP?
    pub fn takes_by_xdp(self) -> bool {
        self.is_node() && self != DutKind::NodeForwardPacket
    }

    /// Has the node a fast path, which is one thread's?
    pub fn is_fast(self) -> bool {
        self.without_fast_path() != self
    }

    /// The same device with all frames by the node itself.
    pub fn without_fast_path(self) -> DutKind {
        match self {
            DutKind::NodeForwardFast => DutKind::NodeForward,
            DutKind::NodeStatefulFast => DutKind::NodeStateful,
            DutKind::NodeNatFast => DutKind::NodeNat,
            other => other,
        }
    }

    /// What it does with frames: kinds of the same job can be held against each other.
    pub fn job(self) -> &'static str {
        match self {
            DutKind::Wire => "pass",
            DutKind::KernelForward
            | DutKind::XdpForward
            | DutKind::NodeForward
            | DutKind::NodeForwardPacket
            | DutKind::NodeForwardFast => "forward",
            DutKind::KernelStateless | DutKind::NodeStateless => "filter",
            DutKind::KernelStateful | DutKind::NodeStateful | DutKind::NodeStatefulFast => {
                "filter with connections"
            }
            DutKind::KernelNat | DutKind::NodeNat | DutKind::NodeNatFast | DutKind::PrefixNat => "translate",
            DutKind::KernelBridge => "bridge",
            DutKind::NodeNat64 => "translate between IPv6 and IPv4",
            DutKind::External => "its own",
            DutKind::Faulty => "err",
        }
    }

    /// Does it translate addresses, so that only side a can begin a flow?
    pub fn translates(self) -> bool {
        let kind = self.without_fast_path();
        matches!(kind, DutKind::KernelNat | DutKind::NodeNat | DutKind::NodeNat64 | DutKind::PrefixNat)
    }

    /// The IP version of its frames on a side, where those of the bed are `ip`.
    pub fn ip_on(self, side: Side, ip: IpVersion) -> IpVersion {
        match (self, side) {
            (DutKind::NodeNat64, Side::A) => IpVersion::V6,
            (DutKind::NodeNat64, Side::B) => IpVersion::V4,
            _ => ip,
        }
    }

    /// Is it this project's own node?
    pub fn is_node(self) -> bool {
        matches!(
            self.without_fast_path(),
            DutKind::NodeForward
                | DutKind::NodeForwardPacket
                | DutKind::NodeStateless
                | DutKind::NodeStateful
                | DutKind::NodeNat
                | DutKind::NodeNat64
        )
    }
}

impl fmt::Display for DutKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(DutKind::ALL.iter().find(|(kind, _)| kind == self).expect("every kind is in ALL").1)
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
