//! NAPI instances of interfaces, and their kernel threads where these receive the frames.
//!
//! Without it a veth's frames are received in the softirq of their sender, and the tester pays for the DUT. Source:
//! Documentation/networking/napi.rst, Documentation/netlink/specs/netdev.yaml.

use std::collections::BTreeSet;
use std::fs;

use crate::error::Result;
use crate::netdev::{self, GENL_HEADER_BYTES};
use crate::netlink::{Message, Socket};

// linux/netdev.h, younger than the libc crate's list.
const NETDEV_CMD_NAPI_GET: u8 = 11;
const NETDEV_A_NAPI_IFINDEX: u16 = 1;
const NETDEV_A_NAPI_ID: u16 = 2;
const NETDEV_A_NAPI_PID: u16 = 4;
const NETDEV_A_NAPI_DEFER_HARD_IRQS: u16 = 5;

/// One NAPI instance of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Napi {
    /// The interface.
    pub ifindex: u32,
    /// The instance's number, unique on the machine.
    pub id: u32,
    /// Its kernel thread, if threaded, numbered as the initial PID namespace does.
    pub pid: Option<u32>,
    /// How often it finds nothing before interrupts are on again; `None` before Linux 6.13, which does not tell.
    pub defer_hard_irqs: Option<u32>,
}

/// All NAPI instances of the calling thread's network namespace (netdev family, Linux 6.8 and later).
pub fn list() -> Result<Vec<Napi>> {
    let mut socket = Socket::open(libc::NETLINK_GENERIC)?;
    let id = netdev::family(&mut socket)?;
    let replies = socket.dump("list NAPI instances", Message::new(id, 0, &[NETDEV_CMD_NAPI_GET, 1, 0, 0]))?;
    let napi = replies.iter().filter_map(|reply| {
        let attrs = reply.attrs(GENL_HEADER_BYTES);
        Some(Napi {
            ifindex: attrs.find_u32(NETDEV_A_NAPI_IFINDEX)?,
            id: attrs.find_u32(NETDEV_A_NAPI_ID)?,
            pid: attrs.find_u32(NETDEV_A_NAPI_PID),
            defer_hard_irqs: attrs.find_u32(NETDEV_A_NAPI_DEFER_HARD_IRQS),
        })
    });
    Ok(napi.collect())
}

/// NAPI threads of interfaces of this name in all namespaces, found by their names: for kernels without
/// [`list`]. Interfaces of the same name are distinguished by comparing before and after.
pub fn threads_by_name(device: &str) -> BTreeSet<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|&pid| is_thread_of(pid, device))
        .collect()
}

/// Whether this process is a NAPI thread of an interface of this name. In a PID namespace, the kernel's numbers may belong to
/// another process.
pub fn is_thread_of(pid: u32, device: &str) -> bool {
    let comm = weir_disk::kernel_text(format!("/proc/{pid}/comm")).unwrap_or_default();
    comm.strip_prefix("napi/")
        .and_then(|rest| rest.strip_prefix(device))
        .is_some_and(|rest| rest.starts_with('-'))
}
