//! The far end: a host behind the BNG, with one address, that answers ARP and takes numbered packets.

use std::net::{IpAddr, SocketAddrV4};

use weir_bng::Mac;
use weir_packet::neighbour::{self, Heard, Host};

/// The far end.
#[derive(Debug)]
pub(crate) struct Far {
    pub(crate) end: SocketAddrV4,
    pub(crate) mac: Mac,
    /// From where frames come, and to where they go.
    pub(crate) peer: Option<Mac>,
}

impl Far {
    /// Takes in an ARP frame; its answer, if it asks for this address.
    pub(crate) fn arp(&mut self, frame: &[u8]) -> Option<Vec<u8>> {
        let ip = IpAddr::from(*self.end.ip());
        match neighbour::parse(frame)? {
            Heard::Question { from, target } if target == ip => {
                self.peer = Some(Mac(from.mac));
                Some(neighbour::answer(Host { mac: self.mac.0, ip }, from))
            }
            _ => None,
        }
    }
}
