//! What a frame is: sizes, flows, signatures, and how test frames are built and read. Pure: no I/O, no
//! clock, no unsafe.
//!
//! Files:
//! - `frame.rs`: the layout of a test frame; the eBPF programs have the same one in `bpf/weir.h`
//! - `headers.rs`, `fields.rs`, `options.rs`, `checksum.rs`, `ecn.rs`: headers of Ethernet, IP, TCP, UDP and ICMP
//! - `encapsulation.rs`: finds the IP packet behind PPPoE, MPLS, SNAP and VLAN tags
//! - `offload.rs`: segments and checksums that a sender left to its network card
//! - `flow.rs`: flows of test frames; `steer.rs`: the thread of a node that a frame belongs to, from its addresses
//! - `size.rs`, `named.rs`: sizes of frames; names of enumerations
//! - `neighbour.rs`: ARP and neighbour discovery
#![forbid(unsafe_code)]

#[macro_use]
mod named;

pub mod checksum;
pub mod ecn;
pub mod encapsulation;
pub mod fields;
pub mod flow;
pub mod frame;
pub mod headers;
pub mod neighbour;
pub mod offload;
pub mod options;
pub mod size;
pub mod steer;
