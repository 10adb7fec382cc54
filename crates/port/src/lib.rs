//! Where frames enter and leave: eBPF programs that generate, receive and forward, captures, and the
//! ports of a node.
//!
//! This is the crate with the unsafe code: system calls, memory shared with the kernel, loaded programs.

pub mod bpf;
pub mod capture;
pub mod confined;
pub mod duplex;
pub mod fast;
mod mapping;
pub mod neighbour;
pub mod packet;
pub mod pcap;
pub mod pcapng;
pub mod perf;
pub mod refusal;
pub mod shared;
mod spread;
pub mod thread;
pub mod translation;
mod xsk;
