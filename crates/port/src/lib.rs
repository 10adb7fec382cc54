//! Where frames enter and leave: eBPF programs that generate, receive and forward, captures, and the
//! ports of a node.
//!
//! This is the crate with the unsafe code: system calls, memory shared with the kernel, loaded programs.
//!
//! Files:
//! - `duplex.rs`: ports of a node, one file below it for each kind; `tests/duplex.rs` has what every port promises
//! - `capture.rs`: captures, one file below it for each capture method; `tests/capture.rs` has what every method promises
//! - `fast.rs`: maps of the XDP program of the fast path (`bpf/fast.bpf.c`); `fast/index.rs` chooses the entry of a flow
//! - `bpf.rs`: loads and attaches eBPF programs; `bpf/congestion.rs` loads congestion controls (`bpf/dctcp.bpf.c`,
//!   `bpf/bbr2.bpf.c`, `bpf/bbr3.bpf.c` with the engine `bpf/bbr.h`)
//! - `refusal.rs`: writes what the kernel's verifier said to a file
//! - `perf.rs`: samples of each CPU; `perf/ticks.rs` and `perf/idle.rs` find stops of a CPU
//! - `pcap.rs`, `pcapng.rs`: capture files, read and written
//! - `descriptors.rs`: how many descriptors this process may have
//! - `confined.rs`: system calls that a thread that handles frames may use
//! - `xsk.rs`, `packet.rs`, `shared.rs`, `mapping.rs`: AF_XDP and AF_PACKET sockets, memory shared with the kernel

pub mod bpf;
pub mod capture;
pub mod confined;
pub mod descriptors;
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
