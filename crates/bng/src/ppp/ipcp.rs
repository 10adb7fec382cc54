//! IPCP: addresses of IPv4 (RFC 1332) and name servers (RFC 1877).
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::net::Ipv4Addr;

use super::negotiation::{Judgement, Protocol};
use super::packet::OptionList;
use super::protocol;

/// Type of the option that has an address.
pub const ADDRESS: u8 = 3;
const DNS: [u8; 2] = [129, 131];

/// The side of the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The concentrator has an address, and gives the client one.
    Concentrator,
    /// The client takes what it gets.
    Client,
}

/// Addresses of a session. Unspecified (0.0.0.0): not known, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Addresses {
    /// Of the concentrator.
    pub gateway: Ipv4Addr,
    /// Of the client.
    pub client: Ipv4Addr,
    /// Name servers, the first first.
    pub dns: [Ipv4Addr; 2],
}

/// Addresses as they are negotiated.
#[derive(Debug)]
pub struct Ipcp {
    side: Side,
    addresses: Addresses,
    /// Options that the client asks for.
    asks: Vec<u8>,
}

impl Ipcp {
    /// The concentrator's side, with what it gives.
    pub fn concentrator(addresses: Addresses) -> Ipcp {
        Ipcp { side: Side::Concentrator, addresses, asks: vec![ADDRESS] }
    }

    /// A client that has nothing and asks for everything.
    pub fn client() -> Ipcp {
        let none = Ipv4Addr::UNSPECIFIED;
        Ipcp::client_with(Addresses { gateway: none, client: none, dns: [none; 2] })
    }

    /// A client that has these, and asks for them.
    pub fn client_with(addresses: Addresses) -> Ipcp {
        Ipcp { side: Side::Client, addresses, asks: vec![ADDRESS, DNS[0], DNS[1]] }
    }

    /// What was agreed on.
    pub fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// The concentrator's value of an option of the client; `None`: it does not have the option.
    fn given(&self, kind: u8) -> Option<Ipv4Addr> {
        let [first, second] = self.addresses.dns;
        match kind {
            ADDRESS => Some(self.addresses.client),
            kind if kind == DNS[0] => Some(first).filter(|dns| !dns.is_unspecified()),
            kind if kind == DNS[1] => Some(second).filter(|dns| !dns.is_unspecified()),
            _ => None,
        }
    }

    /// This side's value of an option.
    fn own(&mut self, kind: u8) -> Option<&mut Ipv4Addr> {
        let [first, second] = &mut self.addresses.dns;
        match (self.side, kind) {
            (Side::Concentrator, ADDRESS) => Some(&mut self.addresses.gateway),
            (Side::Concentrator, _) => None,
            (Side::Client, ADDRESS) => Some(&mut self.addresses.client),
            (Side::Client, kind) if kind == DNS[0] => Some(first),
            (Side::Client, kind) if kind == DNS[1] => Some(second),
            (Side::Client, _) => None,
        }
    }

    fn judge_client(&self, asked: &OptionList) -> Judgement {
        let (mut rejected, mut wrong) = (OptionList::default(), OptionList::default());
        for (kind, value) in asked.iter() {
            match self.given(kind) {
                None => rejected.push(kind, value),
                Some(given) if given.octets() != value => wrong.push(kind, &given.octets()),
                Some(_) => {}
            }
        }
        // The client's address must be negotiated: it is asked to ask (RFC 1332, section 3.3).
        if asked.get(ADDRESS).is_none() {
            wrong.push(ADDRESS, &self.addresses.client.octets());
        }
        match (rejected.is_empty(), wrong.is_empty()) {
            (false, _) => Judgement::Reject(rejected),
            (true, false) => Judgement::Nak(wrong),
            (true, true) => Judgement::Ack,
        }
    }

    fn judge_concentrator(&mut self, asked: &OptionList) -> Judgement {
        let mut rejected = OptionList::default();
        asked
            .iter()
            .filter(|(kind, _)| *kind != ADDRESS)
            .for_each(|(kind, value)| rejected.push(kind, value));
        if !rejected.is_empty() {
            return Judgement::Reject(rejected);
        }
        self.addresses.gateway =
            asked.fixed(ADDRESS).map_or(Ipv4Addr::UNSPECIFIED, <Ipv4Addr as From<[u8; 4]>>::from);
        Judgement::Ack
    }
}

impl Protocol for Ipcp {
    const NUMBER: u16 = protocol::IPCP;

    fn request(&self) -> OptionList {
        let mut options = OptionList::default();
        for kind in &self.asks {
            let [first, second] = self.addresses.dns;
            let value = match (self.side, *kind) {
                (Side::Concentrator, _) => self.addresses.gateway,
                (Side::Client, ADDRESS) => self.addresses.client,
                (Side::Client, kind) => {
                    if kind == DNS[0] {
                        first
                    } else {
                        second
                    }
                }
            };
            options.push(*kind, &value.octets());
        }
        options
    }

    fn judge(&mut self, asked: &OptionList) -> Judgement {
        match self.side {
            Side::Concentrator => self.judge_client(asked),
            Side::Client => self.judge_concentrator(asked),
        }
    }

    /// The concentrator keeps its address, whatever the client wants.
    fn naked(&mut self, options: &OptionList) {
        if self.side == Side::Client {
            for (kind, value) in options.iter() {
                let value: Result<[u8; 4], _> = value.try_into();
                if let (Ok(value), Some(own)) = (value, self.own(kind)) {
                    *own = value.into();
                }
            }
        }
    }

    fn rejected(&mut self, options: &OptionList) {
        self.asks.retain(|kind| options.get(*kind).is_none());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GATEWAY: Ipv4Addr = Ipv4Addr::new(100, 64, 0, 1);
    const CLIENT: Ipv4Addr = Ipv4Addr::new(100, 64, 0, 9);

    fn given(dns: [Ipv4Addr; 2]) -> Ipcp {
        Ipcp::concentrator(Addresses { gateway: GATEWAY, client: CLIENT, dns })
    }

    fn options(list: &[(u8, [u8; 4])]) -> OptionList {
        let mut options = OptionList::default();
        list.iter().for_each(|(kind, value)| options.push(*kind, value));
        options
    }

    #[test]
    fn l8_an_address_of_zero_is_naked_with_the_address() {
        let mut ipcp = given([Ipv4Addr::UNSPECIFIED; 2]);
        let right = options(&[(ADDRESS, CLIENT.octets())]);
        for asked in [options(&[(ADDRESS, [0; 4])]), options(&[(ADDRESS, [192, 0, 2, 9])]), options(&[])] {
            assert_eq!(ipcp.judge(&asked), Judgement::Nak(right.clone()));
        }
        assert_eq!(ipcp.judge(&right), Judgement::Ack);
        ipcp.naked(&options(&[(ADDRESS, [192, 0, 2, 7])]));
        assert_eq!(ipcp.request(), options(&[(ADDRESS, GATEWAY.octets())]), "the gateway keeps its address");
    }

    #[test]
    fn l8_name_servers_are_told_and_other_options_rejected() {
        let dns = Ipv4Addr::new(192, 0, 2, 53);
        let mut ipcp = given([dns, Ipv4Addr::UNSPECIFIED]);
        let asked =
            options(&[(ADDRESS, [0; 4]), (2, [0, 0x2d, 15, 1]), (129, [0; 4]), (130, [0; 4]), (131, [0; 4])]);
        let rejected = options(&[(2, [0, 0x2d, 15, 1]), (130, [0; 4]), (131, [0; 4])]);
        assert_eq!(ipcp.judge(&asked), Judgement::Reject(rejected));
        let asked = options(&[(ADDRESS, CLIENT.octets()), (129, [0; 4])]);
        assert_eq!(ipcp.judge(&asked), Judgement::Nak(options(&[(129, dns.octets())])));
    }

    #[test]
    fn a_client_takes_what_it_gets() {
        let mut client = Ipcp::client();
        client.rejected(&options(&[(131, [0; 4])]));
        client.naked(&options(&[(ADDRESS, CLIENT.octets()), (129, [192, 0, 2, 53])]));
        assert_eq!(client.request(), options(&[(ADDRESS, CLIENT.octets()), (129, [192, 0, 2, 53])]));
        assert_eq!(client.judge(&options(&[(ADDRESS, GATEWAY.octets())])), Judgement::Ack);
        let Addresses { gateway, client, dns: [dns, _] } = client.addresses();
        assert_eq!((gateway, client, dns), (GATEWAY, CLIENT, Ipv4Addr::new(192, 0, 2, 53)));
    }
}
