//! Forwarding: next hop, time to live, checksum, Ethernet addresses; with 1 prefix and with 1 M, whose lengths are
//! shared out roughly as in the tables of the Internet. Each frame goes to a random host of a random prefix.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weir_packet::checksum::write_ipv4;
use weir_plane::{Config, Plane, PortId, Prefix, Route, Target, mask4, mask6};

use super::probe::{Bench, MACS};
use weir_rng::Rng;

/// Prefixes of each length out of a hundred.
const LENGTHS_V4: &[(u8, usize)] =
    &[(24, 60), (23, 10), (22, 11), (21, 5), (20, 4), (19, 3), (18, 2), (17, 1), (16, 2), (14, 1), (28, 1)];
const LENGTHS_V6: &[(u8, usize)] = &[
    (48, 47),
    (32, 12),
    (44, 8),
    (40, 8),
    (36, 5),
    (29, 4),
    (46, 4),
    (47, 4),
    (45, 3),
    (42, 3),
    (34, 1),
    (64, 1),
];
/// Allocations that the prefixes of IPv6 lie in.
const ALLOCATIONS: usize = 40_000;
const GATEWAYS: usize = 16;

const TEXT: &str = "lan(198.18.0.1/24, 2001:db8:1::1/64) route > wan(198.19.0.1/24, 2001:db8:2::1/64";

pub(super) fn rows(bench: &mut Bench<'_>) -> io::Result<()> {
    for (name, prefixes, hops, v6) in [
        ("forward 1 prefix IPv4", 1, 1, false),
        ("forward 1 prefix, 2 next hops IPv4", 1, 2, false),
        ("forward 1M prefixes IPv4", 1_000_000, 1, false),
        ("forward 1 prefix IPv6", 1, 1, true),
        ("forward 1M prefixes IPv6", 1_000_000, 1, true),
    ] {
        if !bench.wants(name) {
            continue;
        }
        let mut random = Rng::new(7);
        let routes = routes(prefixes, hops, v6, &mut random);
        let mut plane = router();
        for route in &routes {
            plane.add_route(route).expect("a neighbour");
        }
        let mut prefixes: Vec<Prefix> = routes.iter().map(|route| route.prefix).collect();
        if prefixes.len() == 1 {
            // Of all addresses those that hosts have.
            prefixes = vec![if v6 { "2000::/4" } else { "64.0.0.0/3" }.parse().expect("a prefix")];
        }
        let bytes = plane.route_bytes();
        bench.row(name, &mut plane, bytes, |buf| {
            let prefix = prefixes[random.below(prefixes.len())];
            let host = u128::from(random.next_u64()) << 64 | u128::from(random.next_u64());
            (frame(buf, prefix, host), PortId(0))
        })?;
    }
    Ok(())
}

/// A router with its gateways.
pub(super) fn router() -> Plane {
    let known = |n| {
        let mac = format!("02:00:00:00:cc:{n:02x}");
        format!(", neighbour 198.19.0.{n} {mac}, neighbour 2001:db8:2::{n:x} {mac}")
    };
    let text = format!("{TEXT}{})", (2..2 + GATEWAYS).map(known).collect::<String>());
    let config = Config::read("bench", &text).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    Plane::new(&config, &MACS)
}

/// Routes to so many prefixes, each with so many next hops of equal cost.
pub(super) fn routes(count: usize, hops: usize, v6: bool, random: &mut Rng) -> Vec<Route> {
    let gateways = |random: &mut Rng| {
        let first = random.below(GATEWAYS);
        let gateway = |hop: usize| -> IpAddr {
            let n = 2 + ((first + hop) % GATEWAYS) as u8;
            if v6 {
                [0x20, 1, 0xd, 0xb8, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, n].into()
            } else {
                [198, 19, 0, n].into()
            }
        };
        (0..hops).map(|hop| gateway(hop).into()).collect()
    };
    if count == 1 {
        let all = if v6 { "::/0" } else { "0.0.0.0/0" };
        let target = Target::Via(gateways(random));
        return vec![Route { prefix: all.parse().expect("a prefix"), target }];
    }
    let allocations: Vec<u128> = (0..ALLOCATIONS)
        .map(|_| {
            let top = [0x2001, 0x2400, 0x2600, 0x2800, 0x2a00, 0x2c00][random.below(6)];
            ((top + random.below(16)) as u128) << 112 | (random.below(1 << 16) as u128) << 96
        })
        .collect();
    let mut routes = std::collections::BTreeMap::new();
    while routes.len() < count {
        let (address, len): (IpAddr, _) = if v6 {
            let len = length(LENGTHS_V6, random);
            let inside = u128::from(random.next_u64()) << 64 & !mask6(32);
            let address = (allocations[random.below(ALLOCATIONS)] | inside) & mask6(len);
            (Ipv6Addr::from(address).into(), len)
        } else {
            let len = length(LENGTHS_V4, random);
            // Not in the networks of the ports, and not in 127/8.
            let first = [1 + random.below(126), 128 + random.below(70)][random.below(2)];
            let address = (first << 24 | random.below(1 << 24)) as u32;
            (Ipv4Addr::from(address & mask4(len)).into(), len)
        };
        let prefix = Prefix { address, len };
        routes.insert(prefix, Route { prefix, target: Target::Via(gateways(random)) });
    }
    let mut routes: Vec<Route> = routes.into_values().collect();
    // In no order.
    for n in (1..routes.len()).rev() {
        routes.swap(n, random.below(n + 1));
    }
    routes
}

fn length(shares: &[(u8, usize)], random: &mut Rng) -> u8 {
    let mut left = random.below(shares.iter().map(|(_, share)| share).sum());
    for &(length, share) in shares {
        if left < share {
            return length;
        }
        left -= share;
    }
    unreachable!("the shares sum up")
}

/// Writes a frame of UDP from a host of the lan to a host of this prefix.
pub(super) fn frame(buf: &mut [u8], prefix: Prefix, host: u128) -> usize {
    buf[..6].copy_from_slice(&MACS[0]);
    buf[6..12].copy_from_slice(&[2, 0, 0, 0, 0xcc, 0]);
    let udp = [4, 0, 0, 53, 0, 8, 0, 0];
    match prefix.address {
        IpAddr::V4(address) => {
            let dst = u32::from(address) | (host as u32 & !mask4(prefix.len));
            let mut ip = [0x45, 0, 0, 28, 0, 0, 0x40, 0, 64, 17, 0, 0, 198, 18, 0, 5, 0, 0, 0, 0];
            ip[16..].copy_from_slice(&dst.to_be_bytes());
            write_ipv4(&mut ip);
            buf[12..14].copy_from_slice(&[8, 0]);
            buf[14..34].copy_from_slice(&ip);
            buf[34..42].copy_from_slice(&udp);
            60
        }
        IpAddr::V6(address) => {
            let dst = u128::from(address) | (host & !mask6(prefix.len));
            buf[12..14].copy_from_slice(&[0x86, 0xdd]);
            buf[14..22].copy_from_slice(&[0x60, 0, 0, 0, 0, 8, 17, 64]);
            buf[22..38].copy_from_slice(&Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 5).octets());
            buf[38..54].copy_from_slice(&dst.to_be_bytes());
            buf[54..62].copy_from_slice(&udp);
            62
        }
    }
}
