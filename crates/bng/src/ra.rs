//! Router discovery of IPv6 (RFC 4861, sections 4.1 and 4.2): a device asks, the concentrator advertises the prefix of its link, and the
//! device makes its addresses of it (SLAAC). Name servers are in the same message (RFC 8106).
//!
//! ```text
//! IPv6 header: 40, hop limit 255 | ICMPv6 133: solicitation | options
//! IPv6 header: 40, hop limit 255 | ICMPv6 134: advertisement, hop limit, flags, lifetime | prefix, MTU, name servers, source MAC
//! ```
//! The prefix is not on the link (L = 0): devices of a subscriber have no other neighbour than the node.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::net::Ipv6Addr;

use weir_packet::checksum;
use weir_packet::headers::ICMP6;

use crate::mac::Mac;
use crate::prefix::LinkPrefix;

/// All nodes of the link.
pub const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// All routers of the link.
pub const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);

const HEADER: usize = 40;
const CHECKSUM_AT: usize = 2;
const HOP_LIMIT: u8 = 255;
const SOLICITATION: u8 = 133;
const ADVERTISEMENT: u8 = 134;
/// What hosts put into the hop limit of their packets.
const HOP_LIMIT_OF_HOSTS: u8 = 64;
/// Flag of a prefix: addresses may be made of it (A); that it is on the link (L) is not said.
const AUTONOMOUS: u8 = 0x40;
/// Most name servers: what fits beside the rest into 1,280 bytes, and more than a host uses.
const MOST_DNS: usize = 8;

/// Types of options.
mod option {
    pub(super) const SOURCE_MAC: u8 = 1;
    pub(super) const PREFIX: u8 = 3;
    pub(super) const MTU: u8 = 5;
    pub(super) const DNS: u8 = 25;
}

/// What is advertised.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Advertisement {
    /// How long the sender is a default router, s, 0 to 9,000; 0: it is none.
    pub router_lifetime_s: u16,
    /// The prefix of the link.
    pub prefix: Option<Advertised>,
    /// The MTU of the link.
    pub mtu: Option<u32>,
    /// Name servers, for as long as the router lifetime.
    pub dns: Vec<Ipv6Addr>,
    /// The MAC address of the sender; PPP has none.
    pub source_mac: Option<Mac>,
}

/// A prefix of which addresses are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Advertised {
    /// Which.
    pub prefix: LinkPrefix,
    /// How long addresses in it may be used, s.
    pub valid_s: u32,
    /// How long they are used for new connections, s; at most as long.
    pub preferred_s: u32,
}

impl Advertisement {
    /// The packet.
    pub fn packet(&self, src: Ipv6Addr, dst: Ipv6Addr) -> Vec<u8> {
        let [h, i] = self.router_lifetime_s.to_be_bytes();
        // No DHCPv6 (M, O); reachable time and retransmission timer are those of the host.
        let mut message = vec![ADVERTISEMENT, 0, 0, 0, HOP_LIMIT_OF_HOSTS, 0, h, i, 0, 0, 0, 0, 0, 0, 0, 0];
        if let Some(Mac(mac)) = self.source_mac {
            message.extend([option::SOURCE_MAC, 1]);
            message.extend(mac);
        }
        if let Some(mtu) = self.mtu {
            message.extend([option::MTU, 1, 0, 0]);
            message.extend(mtu.to_be_bytes());
        }
        if let Some(Advertised { prefix, valid_s, preferred_s }) = self.prefix {
            message.extend([option::PREFIX, 4, LinkPrefix::LEN, AUTONOMOUS]);
            message.extend(valid_s.to_be_bytes());
            message.extend(preferred_s.to_be_bytes());
            message.extend([0; 4]);
            message.extend(prefix.network().octets());
        }
        let dns = self.dns.get(..MOST_DNS).unwrap_or(&self.dns);
        if !dns.is_empty() {
            message.extend([option::DNS, 1 + 2 * dns.len() as u8, 0, 0]);
            message.extend(u32::from(self.router_lifetime_s).to_be_bytes());
            dns.iter().for_each(|dns| message.extend(dns.octets()));
        }
        packet(src, dst, message)
    }

    /// Reads a packet as a host does (section 6.1.2): the advertisement and its sender; `None`: it is none, or is wrong.
    pub fn read(bytes: &[u8]) -> Option<(Ipv6Addr, Advertisement)> {
        let (src, _, message) = message(bytes)?;
        let (&[ADVERTISEMENT, 0, _, _, _, _, h, i, ..], Some(options)) =
            (message.first_chunk::<16>()?, message.get(16..))
        else {
            return None;
        };
        if !src.is_unicast_link_local() {
            return None;
        }
        let mut found =
            Advertisement { router_lifetime_s: u16::from_be_bytes([h, i]), ..Advertisement::default() };
        for (kind, value) in read_options(options)? {
            match (kind, value) {
                (option::PREFIX, &[len, flags, a, b, c, d, e, f, g, h, _, _, _, _, ref address @ ..])
                    if len == LinkPrefix::LEN && flags & AUTONOMOUS != 0 =>
                {
                    let address: [u8; 16] = address.try_into().ok()?;
                    let (valid_s, preferred_s) =
                        (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]));
                    let prefix = LinkPrefix::of(address.into());
                    found.prefix = Some(Advertised { prefix, valid_s, preferred_s });
                }
                (option::MTU, &[_, _, a, b, c, d]) => found.mtu = Some(u32::from_be_bytes([a, b, c, d])),
                (option::DNS, [_, _, _, _, _, _, dns @ ..]) => {
                    let (dns, _) = dns.as_chunks::<16>();
                    found.dns.extend(dns.iter().map(|dns| Ipv6Addr::from(*dns)));
                }
                (option::SOURCE_MAC, value) => {
                    found.source_mac = value.first_chunk().copied().map(Mac);
                }
                _ => {}
            }
        }
        Some((src, found))
    }
}

/// A solicitation of a device without a MAC address of its own in it.
pub fn solicitation(src: Ipv6Addr) -> Vec<u8> {
    packet(src, ALL_ROUTERS, vec![SOLICITATION, 0, 0, 0, 0, 0, 0, 0])
}

/// The source of a solicitation, perhaps unspecified (section 6.1.1); `None`: it is none, or is wrong.
pub fn read_solicitation(bytes: &[u8]) -> Option<Ipv6Addr> {
    let (src, _, message) = message(bytes)?;
    let (&[SOLICITATION, 0, ..], Some(options)) = (message.first_chunk::<8>()?, message.get(8..)) else {
        return None;
    };
    let has_mac = read_options(options)?.iter().any(|(kind, _)| *kind == option::SOURCE_MAC);
    let is_right = if src.is_unspecified() { !has_mac } else { !src.is_multicast() };
    is_right.then_some(src)
}

fn packet(src: Ipv6Addr, dst: Ipv6Addr, mut message: Vec<u8>) -> Vec<u8> {
    let addresses = [src.octets(), dst.octets()].concat();
    let pseudo = checksum::pseudo_header(&addresses, ICMP6, message.len());
    checksum::write(&mut message, CHECKSUM_AT, pseudo);
    let [h, i] = u16::try_from(message.len()).unwrap_or(u16::MAX).to_be_bytes();
    [&[0x60, 0, 0, 0, h, i, ICMP6, HOP_LIMIT][..], &addresses, &message].concat()
}

/// Source, destination and message of a packet of ICMPv6 from the same link, with the right checksum.
fn message(bytes: &[u8]) -> Option<(Ipv6Addr, Ipv6Addr, &[u8])> {
    let &[0x60..=0x6f, _, _, _, h, i, ICMP6, HOP_LIMIT, ..] = bytes else { return None };
    let addresses = bytes.get(8..HEADER)?;
    let message = bytes.get(HEADER..HEADER + usize::from(u16::from_be_bytes([h, i])))?;
    let pseudo = checksum::pseudo_header(addresses, ICMP6, message.len());
    if checksum::fold(checksum::sum(message) + pseudo) != 0xffff {
        return None;
    }
    let (src, dst) = addresses.split_first_chunk::<16>()?;
    let dst: [u8; 16] = dst.try_into().ok()?;
    Some(((*src).into(), dst.into(), message))
}

/// Options by type, without type and length; `None`: one of them has the length 0 or ends behind the message.
fn read_options(mut rest: &[u8]) -> Option<Vec<(u8, &[u8])>> {
    let mut all = Vec::new();
    while let &[kind, len, ..] = rest {
        let (option, others) = rest.split_at_checked(8 * usize::from(len)).filter(|_| len > 0)?;
        all.push((kind, option.get(2..)?));
        rest = others;
    }
    rest.is_empty().then_some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advertisement() -> Advertisement {
        let prefix = "2001:db8:1:2::/64".parse().expect("a prefix");
        Advertisement {
            router_lifetime_s: 3600,
            prefix: Some(Advertised { prefix, valid_s: 3600, preferred_s: 1800 }),
            mtu: Some(1492),
            dns: vec!["2001:db8::53".parse().expect("an address")],
            source_mac: Some(Mac([2, 0, 0, 0, 0, 0xfe])),
        }
    }

    const ROUTER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);

    #[test]
    fn an_advertisement_is_read_as_it_is_written() {
        let sent = advertisement();
        let packet = sent.packet(ROUTER, ALL_NODES);
        assert_eq!(Advertisement::read(&packet), Some((ROUTER, sent.clone())));
        // Prefix option: on-link flag off, autonomous flag on.
        let at = packet.windows(2).position(|pair| pair == [option::PREFIX, 4]).expect("a prefix");
        assert_eq!(packet[at + 3], 0x40);
        for at in 0..packet.len() {
            assert_eq!(Advertisement::read(&packet[..at]), None, "cut to {at}");
            let mut wrong = packet.clone();
            wrong[at] ^= 0x10;
            // Traffic class and flow label are of no interest.
            let is_ignored = (1..4).contains(&at);
            assert_eq!(Advertisement::read(&wrong) == Some((ROUTER, sent.clone())), is_ignored, "byte {at}");
        }
    }

    #[test]
    fn a_solicitation_has_the_hop_limit_255_and_the_right_checksum() {
        let packet = solicitation(ROUTER);
        assert_eq!(read_solicitation(&packet), Some(ROUTER));
        assert_eq!(read_solicitation(&solicitation(Ipv6Addr::UNSPECIFIED)), Some(Ipv6Addr::UNSPECIFIED));
        for (at, byte) in [(7, 254), (40, 134), (41, 1), (43, 9), (6, 17)] {
            let mut wrong = packet.clone();
            wrong[at] = byte;
            assert_eq!(read_solicitation(&wrong), None, "byte {at} = {byte}");
        }
        // An option of no length would be read for ever.
        let mut endless = vec![SOLICITATION, 0, 0, 0, 0, 0, 0, 0];
        endless.extend([1, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(read_solicitation(&super::packet(ROUTER, ALL_ROUTERS, endless)), None);
    }
}
