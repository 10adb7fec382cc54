//! An answer to a client, and how it gets there (RFC 2131, section 4.1).
//!
//! | the request has | the answer goes to |
//! |---|---|
//! | giaddr | the relay, UDP port 67 |
//! | ciaddr, and is no DHCPNAK | this address |
//! | the broadcast flag, or is a DHCPNAK | all on the link |
//! | else | the address that is assigned, at the client's MAC |
//!
//! Option 82 is echoed whole and stands last (RFC 3046, section 2.2); the client identifier is echoed (RFC 6842). Options are
//! never written into other fields. What a client did not ask for gives way where it accepts no longer message.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::arithmetic_side_effects)]

use std::net::Ipv4Addr;

use super::frame::{self, CLIENT_PORT, Datagram, HEADER_BYTES, SERVER_PORT};
use super::message::{BOOTREPLY, BROADCAST, FIXED_BYTES, Message, MessageType};
use super::options::{
    CAPTIVE_PORTAL, CLASSLESS_ROUTES, CLASSLESS_ROUTES_MS, CLIENT_ID, DNS, LEASE_TIME, MAX_SIZE,
    MESSAGE_TYPE, Options, PARAMETER_LIST, REBINDING_TIME, RELAY_INFO, RENEWAL_TIME, ROUTER, SERVER_ID,
    SUBNET_MASK,
};
use super::request::Request;
use crate::config::LeaseTimes;
use crate::drops::DropReason;
use crate::mac::Mac;

/// Shortest maximum that a client may name, with the headers of IPv4 and UDP (RFC 2132, section 9.10).
const LEAST_MAX_SIZE: u16 = 576;

/// What an answer says.
#[derive(Debug, Clone)]
pub(crate) struct Reply<'a> {
    pub(crate) kind: MessageType,
    /// The MAC address of the port that it leaves by.
    pub(crate) src_mac: Mac,
    /// The address of the server.
    pub(crate) server: Ipv4Addr,
    /// The address that is assigned, and for how long; none in answers to DHCPINFORM.
    pub(crate) lease: Option<(Ipv4Addr, LeaseTimes)>,
    /// The options that describe the network to a client; none in a DHCPNAK.
    pub(crate) network: Option<Network<'a>>,
}

/// What clients are told of their network.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Network<'a> {
    pub(crate) mask: Ipv4Addr,
    pub(crate) router: Ipv4Addr,
    pub(crate) dns: &'a [Ipv4Addr],
    /// URI of option 114.
    pub(crate) captive: Option<&'a str>,
}

impl Reply<'_> {
    /// The frame.
    ///
    /// # Errors
    /// It is longer than the client or a link accepts.
    pub(crate) fn frame(&self, request: &Request) -> Result<Vec<u8>, DropReason> {
        let asked = &request.message;
        let is_nak = self.kind == MessageType::Nak;
        let mut message = Message::request(asked.xid, asked.chaddr);
        message.op = BOOTREPLY;
        message.flags = asked.flags;
        message.giaddr = asked.giaddr;
        if !is_nak {
            message.ciaddr = asked.ciaddr;
            message.yiaddr = self.lease.map_or(Ipv4Addr::UNSPECIFIED, |(address, _)| address);
        } else if request.relay().is_some() {
            // So that the relay tells all: the client may be at another address (section 4.3.2).
            message.flags |= BROADCAST;
        }
        message.options = self.options(request)?;
        let (dst_mac, dst, dst_port) = self.destination(request);
        let datagram = Datagram {
            dst_mac,
            src_mac: self.src_mac,
            src: self.server,
            dst,
            src_port: SERVER_PORT,
            dst_port,
            payload: &message.write(),
        };
        frame::write(&datagram)
    }

    fn destination(&self, request: &Request) -> (Mac, Ipv4Addr, u16) {
        let asked = &request.message;
        let all = (Mac::BROADCAST, Ipv4Addr::BROADCAST, CLIENT_PORT);
        if let Some(relay) = request.relay() {
            return (request.src_mac, relay, SERVER_PORT);
        }
        match self.lease {
            _ if self.kind == MessageType::Nak => all,
            // By the way that it came, which may be a router behind which there is a relay.
            _ if !asked.ciaddr.is_unspecified() => (request.src_mac, asked.ciaddr, CLIENT_PORT),
            Some((address, _)) if asked.flags & BROADCAST == 0 => (asked.chaddr, address, CLIENT_PORT),
            _ => all,
        }
    }

    fn options(&self, request: &Request) -> Result<Options, DropReason> {
        let asked = &request.message.options;
        let mut options = Options::default();
        options.push(MESSAGE_TYPE, &[self.kind as u8]);
        options.push_addresses(SERVER_ID, &[self.server]);
        if let Some((_, times)) = self.lease {
            options.push_seconds(LEASE_TIME, times.lease_s);
            options.push_seconds(RENEWAL_TIME, times.renewal_s);
            options.push_seconds(REBINDING_TIME, times.rebinding_s);
        }
        if let Some(network) = self.network {
            options.push_addresses(SUBNET_MASK, &[network.mask]);
            options.push_addresses(ROUTER, &[network.router]);
        }
        if let Some(id) = &request.client_id {
            options.push(CLIENT_ID, id);
        }
        let max_size = asked.fixed::<2>(MAX_SIZE)?.map_or(0, u16::from_be_bytes).max(LEAST_MAX_SIZE);
        let most_bytes = usize::from(max_size).min(frame::MTU).saturating_sub(HEADER_BYTES);
        for (code, value) in self.network.map(|network| network.wanted(asked)).unwrap_or_default() {
            let mut longer = options.clone();
            longer.push(code, &value);
            if message_bytes(&longer) <= most_bytes {
                options = longer;
            }
        }
        if message_bytes(&options) > most_bytes {
            return Err(DropReason::TooLong);
        }
        // A relay takes it off again, so that it is not part of what the client accepts.
        if let Some(info) = &request.relay_info {
            options.push(RELAY_INFO, info);
        }
        Ok(options)
    }
}

fn message_bytes(options: &Options) -> usize {
    options.as_bytes().len().saturating_add(FIXED_BYTES).saturating_add(1)
}

impl Network<'_> {
    /// Options that a client may want, the most important first.
    fn wanted(&self, asked: &Options) -> Vec<(u8, Vec<u8>)> {
        let list = asked.get(PARAMETER_LIST).unwrap_or_default();
        let mut wanted = Vec::new();
        if !self.dns.is_empty() {
            wanted.push((DNS, self.dns.iter().flat_map(Ipv4Addr::octets).collect()));
        }
        if let Some(uri) = self.captive {
            wanted.push((CAPTIVE_PORTAL, uri.as_bytes().to_vec()));
        }
        // A router outside of the client's own prefix is reached by a route of its own.
        if self.mask == Ipv4Addr::BROADCAST {
            let codes = [CLASSLESS_ROUTES, CLASSLESS_ROUTES_MS];
            wanted.extend(
                codes.into_iter().filter(|code| list.contains(code)).map(|code| (code, self.routes())),
            );
        }
        wanted
    }

    /// The router is on the link, and the way to all others (RFC 3442).
    fn routes(&self) -> Vec<u8> {
        [&[32][..], &self.router.octets(), &[0, 0, 0, 0], &[0], &self.router.octets()].concat()
    }
}
