//! Where frames enter and leave: eBPF programs that generate, receive and forward, and AF_PACKET sockets.
//!
//! This is the crate with the unsafe code: system calls, memory shared with the kernel, loaded programs.

pub mod bpf;
pub mod capture;
mod mapping;
pub mod neighbour;
pub mod packet;
pub mod pcapng;
pub mod perf;
pub mod shared;
