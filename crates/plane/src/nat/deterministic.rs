//! Deterministic NAT (RFC 7422): which subscriber has which ports follows from two prefixes by arithmetic, in both
//! directions, so that nothing needs to be logged.
//!
//! ```text
//! subscriber k of the inside > outside address k / ratio, block k % ratio       blocks from `ratio` on are dynamic
//! ```

use std::ops::RangeInclusive;

use crate::prefix::{Prefix, mask4};

/// The mapping from subscribers to ports, and its inverse.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deterministic {
    first_inside: u32,
    subscribers: u32,
    outside: Vec<u32>,
    ports: RangeInclusive<u16>,
    /// Subscribers of an outside address.
    ratio: u32,
    /// Ports of each subscriber.
    share: u32,
}

/// The owner of an outside port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// Always this inside address.
    Subscriber(u32),
    /// The owner at a time is in the log.
    Dynamic,
    /// None: it is not one of these ports.
    Unassigned,
}

impl Deterministic {
    /// The hosts of `inside` (without network and broadcast address where it has them) share `ports` of the `outside`
    /// addresses evenly; `dynamic` further shares of each address are allocated on demand.
    ///
    /// # Errors
    /// If there is not one port for each.
    pub fn new(
        inside: Prefix,
        outside: Vec<u32>,
        ports: RangeInclusive<u16>,
        dynamic: u32,
    ) -> Result<Deterministic, String> {
        let std::net::IpAddr::V4(address) = inside.network().address else {
            return Err(format!(
                "deterministic ports are for IPv4, not for {inside}: write as 100.64.0.0/20"
            ));
        };
        let all = (!mask4(inside.len)).saturating_add(1);
        let (skip, subscribers) = if inside.len >= 31 { (0, all) } else { (1, all - 2) };
        let addresses = outside.len() as u32;
        if addresses == 0 {
            return Err("deterministic ports need public addresses: write public 192.0.2.0/28".to_string());
        }
        let ratio = subscribers.div_ceil(addresses);
        let share =
            (u32::from(*ports.end()) + 1).saturating_sub(u32::from(*ports.start())) / (ratio + dynamic);
        if share == 0 {
            let most = u64::from(addresses) * ports.len() as u64;
            return Err(format!(
                "{subscribers} subscribers of {inside} cannot share {most} ports: add public addresses or ports"
            ));
        }
        Ok(Deterministic {
            first_inside: u32::from(address) + skip,
            subscribers,
            outside,
            ports,
            ratio,
            share,
        })
    }

    /// Whether an address of this range has deterministic ports.
    pub(crate) fn has_subscriber_in(&self, addresses: &RangeInclusive<u32>) -> bool {
        let last_inside = self.first_inside.saturating_add(self.subscribers - 1);
        *addresses.start() <= last_inside && self.first_inside <= *addresses.end()
    }

    /// Ports of each subscriber.
    pub fn share(&self) -> u16 {
        self.share.min(65_535) as u16
    }

    /// Subscribers of each outside address.
    pub(crate) fn ratio(&self) -> u32 {
        self.ratio
    }

    /// The outside address and ports of an inside address.
    pub fn outside(&self, inside: u32) -> Option<(u32, RangeInclusive<u16>)> {
        let k = inside.checked_sub(self.first_inside).filter(|&k| k < self.subscribers)?;
        let address = *self.outside.get((k / self.ratio) as usize)?;
        let first = u32::from(*self.ports.start()) + k % self.ratio * self.share;
        Some((address, first as u16..=(first + self.share - 1) as u16))
    }

    /// The owner of an outside port.
    pub fn owner(&self, address: u32, port: u16) -> Owner {
        match self.outside.iter().position(|&outside| outside == address) {
            Some(number) => self.owner_at(number, port),
            None => Owner::Unassigned,
        }
    }

    /// The owner of a port of an outside address, which is given by its number.
    pub(crate) fn owner_at(&self, number: usize, port: u16) -> Owner {
        if number >= self.outside.len() || !self.ports.contains(&port) {
            return Owner::Unassigned;
        }
        let block = u32::from(port - self.ports.start()) / self.share;
        let k = number as u32 * self.ratio + block;
        match block < self.ratio {
            true if k < self.subscribers => Owner::Subscriber(self.first_inside + k),
            true => Owner::Unassigned,
            false => Owner::Dynamic,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Deterministic {
        let inside = "198.51.100.0/28".parse().expect("a prefix");
        Deterministic::new(inside, vec![0xc000_0201], 1024..=65535, 2).expect("as in RFC 7422")
    }

    #[test]
    fn the_example_of_rfc7422() {
        let nat = example();
        for (host, ports) in [(1, 1024..=5055), (2, 5056..=9087), (3, 9088..=13119), (14, 53440..=57471)] {
            assert_eq!(nat.outside(0xc633_6400 + host), Some((0xc000_0201, ports)), "{host}");
        }
        for host in [0, 15, 16] {
            assert_eq!(nat.outside(0xc633_6400 + host), None, "{host}");
        }
        for (port, owner) in [
            (2001, Owner::Subscriber(0xc633_6401)),
            (1024, Owner::Subscriber(0xc633_6401)),
            (57471, Owner::Subscriber(0xc633_640e)),
            (57472, Owner::Dynamic),
            (58204, Owner::Dynamic),
            (65535, Owner::Dynamic),
            (1023, Owner::Unassigned),
        ] {
            assert_eq!(nat.owner(0xc000_0201, port), owner, "{port}");
        }
        assert_eq!(nat.owner(0xc000_0202, 2001), Owner::Unassigned);
    }

    #[test]
    fn the_functions_are_inverse() {
        for (inside, addresses, dynamic) in
            [("100.64.0.0/22", 16, 1), ("10.0.0.0/24", 3, 0), ("10.0.0.4/31", 1, 0)]
        {
            let outside = (0..addresses).map(|n| 0xc000_0200 + n).collect();
            let inside = inside.parse().expect("a prefix");
            let nat = Deterministic::new(inside, outside, 1024..=65535, dynamic).expect("enough ports");
            let mut count = 0;
            for subscriber in nat.first_inside..=nat.first_inside + (nat.subscribers - 1) {
                let (address, ports) = nat.outside(subscriber).expect("one of them");
                assert_eq!(nat.owner(address, *ports.start()), Owner::Subscriber(subscriber));
                assert_eq!(nat.owner(address, *ports.end()), Owner::Subscriber(subscriber));
                count += 1;
            }
            assert_eq!(count, nat.subscribers);
        }
    }

    #[test]
    fn too_few_ports_are_refused() {
        let inside = "10.0.0.0/8".parse().expect("a prefix");
        let error = Deterministic::new(inside, vec![1], 1024..=65535, 0).expect_err("too few");
        assert_eq!(
            error,
            "16777214 subscribers of 10.0.0.0/8 cannot share 64512 ports: add public addresses or ports"
        );
    }
}
