//! The flows in the rules of a filter besides the test traffic.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weir_packet::flow::IpVersion;

/// One flow that no test frame belongs to: both of its addresses are on side b.
pub(crate) struct Other {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    /// `udp` or `tcp`.
    pub(crate) protocol: &'static str,
    pub(crate) source_port: u32,
    pub(crate) destination_port: u32,
}

/// The first `count` of them.
pub(crate) fn others(ip: IpVersion, count: u32) -> impl Iterator<Item = Other> {
    (0..count).map(move |index| {
        let (source, destination) = addresses(ip, index);
        let (protocol, destination_port) = if index % 3 == 2 { ("tcp", 443) } else { ("udp", 53) };
        Other { source, destination, protocol, source_port: 1024 + index, destination_port }
    })
}

fn addresses(ip: IpVersion, index: u32) -> (IpAddr, IpAddr) {
    match ip {
        IpVersion::V4 => {
            let base = u32::from(Ipv4Addr::new(198, 19, 128, 0));
            (Ipv4Addr::from(base + index).into(), Ipv4Addr::from(base + 0x4000 + index).into())
        }
        IpVersion::V6 => {
            let base = u128::from(Ipv6Addr::new(0x2001, 0xdb8, 0x19, 0x8000, 0, 0, 0, 0));
            let (source, destination) = (base + u128::from(index), base + (1 << 64) + u128::from(index));
            (Ipv6Addr::from(source).into(), Ipv6Addr::from(destination).into())
        }
    }
}
