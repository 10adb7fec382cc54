//! The test bed of a trial: namespaces, wires, devices under test, CPU placement, counters, and undo.
//!
//! ```text
//!  tester namespace                     DUT namespace
//!  t0 ---- veth ---- d0 [ forwarding, filter, NAT ] d1 ---- veth ---- t1 (tester namespace)
//! ```
//! [`graph`] makes hosts and links from a plan; [`bed::Bed`] builds this for each [`dut::DutKind`]; [`counters`] says where
//! frames were lost;
//! [`journal`] remembers what must be undone. Nothing here touches the host's own interfaces, switches or
//! firewall, but for what [`spread`] writes to masks of interfaces that a plan names, and undoes.
//!
//! Files:
//! - `dut.rs`: all DUTs, and what each can do
//! - `graph.rs`: hosts and links as data; `topology.rs`: those of a DUT's bed; `bed.rs`: builds it
//! - `device.rs`, `device/node.rs`, `device/prefix.rs`: DUTs that are programs; `link.rs`: the DUT `bottleneck`; `rules.rs`:
//!   rules of kernel DUTs
//! - `external/`: a DUT that is another machine; `agent.rs`: weir on that machine; `setup/`: the configurations that `weir setup` prints
//! - `receive.rs`, `spread.rs`: CPUs of receive threads, interrupts, RPS, XPS
//! - `counters.rs`: where a frame can be lost, and the counter that says so
//! - `core_distance.rs`, `core_speed.rs`: how far apart two CPUs are, and whether another program or guest uses the core
//! - `updates.rs`: routes that change during a trial; `hog.rs`, `fault.rs`: planted faults
//! - `journal.rs`: what must be undone after a crash; `publish.rs`: names of namespaces under /run/netns

pub mod agent;
pub mod bed;
pub mod core_distance;
pub mod core_speed;
pub mod counters;
pub mod cpu;
pub mod device;
pub mod dut;
pub mod error;
pub mod external;
pub mod fault;
pub mod graph;
pub mod hog;
pub mod interface;
pub mod journal;
pub mod link;
pub mod memory;
mod publish;
pub mod receive;
pub mod rules;
pub mod setup;
pub mod spread;
pub mod topology;
pub mod updates;
