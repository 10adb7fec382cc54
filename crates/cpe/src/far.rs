//! The far end: a host behind the BNG, with an address of IPv4 and perhaps one of IPv6. It answers ARP and neighbour solicitations, and takes
//! numbered packets.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV4};

use weir_bng::Mac;
use weir_packet::neighbour::{self, Heard, Host};

/// The far end.
#[derive(Debug)]
pub(crate) struct Far {
    pub(crate) end: SocketAddrV4,
    pub(crate) address6: Option<Ipv6Addr>,
    pub(crate) mac: Mac,
    /// From where frames come, and to where they go.
    pub(crate) peer: Option<Mac>,
}

impl Far {
    /// Its end of numbered packets of IPv6.
    pub(crate) fn end6(&self) -> Option<SocketAddr> {
        Some((self.address6?, self.end.port()).into())
    }

    /// Whether a packet is for it.
    pub(crate) fn is(&self, end: SocketAddr) -> bool {
        end == SocketAddr::V4(self.end) || self.end6() == Some(end)
    }

    /// Takes in a frame of ARP or neighbour discovery; its answer, if it asks for an own address.
    pub(crate) fn neighbour(&mut self, frame: &[u8]) -> Option<Vec<u8>> {
        let Heard::Question { from, target } = neighbour::parse(frame)? else { return None };
        let is_own = target == IpAddr::V4(*self.end.ip()) || self.address6.map(IpAddr::V6) == Some(target);
        is_own.then(|| {
            self.peer = Some(Mac(from.mac));
            neighbour::answer(Host { mac: self.mac.0, ip: target }, from)
        })
    }
}
