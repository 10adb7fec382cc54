//! Where a trial takes place: namespaces, wires, devices under test, CPU placement, counters, and undo.
//!
//! ```text
//!  tester namespace                     DUT namespace
//!  t0 ---- veth ---- d0 [ forwarding, filter, NAT ] d1 ---- veth ---- t1 (tester namespace)
//! ```
//! [`graph`] makes hosts and links from a plan; [`bed::Bed`] builds this for each [`dut::DutKind`]; [`counters`] says where frames were lost;
//! [`journal`] remembers what must be undone. Nothing here touches the host's own interfaces, switches or
//! firewall, but for what [`spread`] writes to masks of interfaces that a plan names, and undoes.

pub mod bed;
pub mod conntrack;
pub mod core_distance;
pub mod core_speed;
pub mod counters;
pub mod cpu;
pub mod device;
pub mod dut;
pub mod error;
pub mod ethtool;
pub mod external;
pub mod fault;
pub mod graph;
pub mod hog;
pub mod interface;
pub mod journal;
pub mod link;
pub mod lock;
pub mod memory;
pub mod namespace;
pub mod napi;
mod netdev;
mod netlink;
pub mod process;
pub mod receive;
pub mod rtnl;
pub mod rules;
pub mod setup;
pub mod spread;
mod sys;
pub mod topology;
pub mod updates;
