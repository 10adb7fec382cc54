//! What Linux says of a machine, and how it is changed: one file for each interface of the kernel.
//!
//! ```text
//! netlink > rtnl       interfaces, addresses, routes, neighbours
//!         > netdev > napi    NAPI instances and their threads
//!         > conntrack  the connection table of a namespace
//! interface > ethtool, features  one interface by ioctl: driver, queues, rings, offloads, counters
//! namespace            anonymous network namespaces, a thread each
//! time                 clocks, and dates as records have them
//! cpu, process, lock   CPU time and masks, processes by more than their number, turns of runs that measure
//! descriptors, group   descriptors that pass to another process, groups of users
//! ```
//! All functions act in the network namespace of the calling thread, unless stated otherwise. Nothing here knows a node, a
//! test bed or a plan.

pub mod conntrack;
pub mod cpu;
pub mod descriptors;
pub mod error;
pub mod ethtool;
pub mod features;
pub mod group;
pub mod interface;
pub mod lock;
pub mod namespace;
pub mod napi;
pub mod netdev;
mod netlink;
pub mod process;
pub mod rtnl;
pub mod sys;
pub mod time;

pub use error::{Error, Result};
