//! The two ends of the tester towards the box. Each is an interface of this host, or of another one.

use std::net::IpAddr;

use weir_packet::neighbour::Host;

use super::neighbours::{self, Responder};
use crate::error::Result;
use crate::interface::{Device, Port, read_device};
use weir_linux::namespace::Namespace;
use weir_linux::rtnl::{Mac, Rtnl};

/// An interface of the tester towards the box. While it is there, questions about the tester's addresses are answered
/// on it.
pub trait PortEnd: Send + Sync {
    /// The interface; the address of its next hop is not known yet. On another host it has the index 0.
    fn port(&self) -> Port;

    /// The Ethernet address of the box's address `target` on this link, asked by the tester's address `from`.
    ///
    /// # Errors
    /// The target does not answer, or the other host does not.
    fn resolve(&self, from: IpAddr, target: IpAddr) -> Result<Mac>;

    /// What the interface has counted.
    ///
    /// # Errors
    /// It is gone, or the other host does not answer.
    fn counters(&self) -> Result<Device>;

    /// Why it cannot be used any more, in words; `None` while all is well.
    fn broken(&self) -> Option<String>;
}

/// An interface of this host.
pub struct NearEnd {
    port: Port,
    _responder: Responder,
}

impl NearEnd {
    /// Finds the interface in `here`, and answers for the tester's addresses on it.
    ///
    /// # Errors
    /// It is not there, or the kernel refuses.
    pub fn open(name: &str, addresses: &[IpAddr], here: &Namespace) -> Result<NearEnd> {
        // The programs of the point before may have been detached just now.
        let link = here.run(|| Rtnl::open()?.link_after_reset(name))?;
        let hosts = addresses.iter().map(|&ip| Host { mac: link.mac, ip }).collect();
        let responder = Responder::start(here, link.ifindex, hosts)?;
        let port = Port {
            ifname: link.name,
            ifindex: link.ifindex,
            mac: link.mac,
            next_hop_mac: [0; 6],
            namespace: here.clone(),
        };
        Ok(NearEnd { port, _responder: responder })
    }
}

impl PortEnd for NearEnd {
    fn port(&self) -> Port {
        self.port.clone()
    }

    fn resolve(&self, from: IpAddr, target: IpAddr) -> Result<Mac> {
        let from = Host { mac: self.port.mac, ip: from };
        self.port.namespace.run(|| neighbours::resolve(self.port.ifindex, from, target))
    }

    fn counters(&self) -> Result<Device> {
        self.port.namespace.run(|| read_device(&self.port.ifname))
    }

    /// What becomes of an interface of this host shows in its counters and in the losses.
    fn broken(&self) -> Option<String> {
        None
    }
}
