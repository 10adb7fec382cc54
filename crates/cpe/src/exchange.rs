//! The messages of DHCP that a device sends (RFC 2131, table 5).
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::arithmetic_side_effects)]

use std::net::Ipv4Addr;

use weir_bng::Mac;
use weir_bng::dhcp4::frame::{self, CLIENT_PORT, Datagram, SERVER_PORT};
use weir_bng::dhcp4::message::{BROADCAST, Message, MessageType};
use weir_bng::dhcp4::options::{
    CLIENT_ID, DNS, LEASE_TIME, MESSAGE_TYPE, PARAMETER_LIST, RELAY_INFO, REQUESTED_ADDRESS, ROUTER,
    SERVER_ID, SUBNET_MASK,
};
use weir_bng::dhcp4::relay_info::{CIRCUIT_ID, REMOTE_ID};

use crate::device::{Device, State};
use crate::options::{ClientId, Options};

/// The frame of a message of a device in its state, without tags. `None`: a device sends no such message then.
pub(crate) fn frame(
    options: &Options,
    number: u32,
    device: &Device,
    kind: MessageType,
    now_ns: u64,
) -> Option<Vec<u8>> {
    let mac = options.mac(number);
    let mut message = Message::request(device.xid, mac);
    message.secs = u16::try_from(now_ns.saturating_sub(device.first_ns) / 1_000_000_000).unwrap_or(u16::MAX);
    message.options.push(MESSAGE_TYPE, &[kind as u8]);
    let has_address = !matches!(kind, MessageType::Discover | MessageType::Decline) && device.is_bound();
    if has_address {
        message.ciaddr = device.address;
    } else if options.broadcast {
        message.flags = BROADCAST;
    }
    let (address, server) = ([device.address], [device.server]);
    match (kind, has_address) {
        (MessageType::Request, false) | (MessageType::Decline, _) => {
            message.options.push_addresses(REQUESTED_ADDRESS, &address);
            message.options.push_addresses(SERVER_ID, &server);
        }
        (MessageType::Release, _) => message.options.push_addresses(SERVER_ID, &server),
        _ => {}
    }
    if matches!(kind, MessageType::Discover | MessageType::Request) {
        message.options.push(PARAMETER_LIST, &[SUBNET_MASK, ROUTER, DNS, LEASE_TIME]);
    }
    push_identity(options, number, &mut message);
    let is_unicast = kind == MessageType::Release || device.state == State::Renewing;
    write(&message, mac, is_unicast.then_some(device))
}

/// Client identifier, and what an access node adds last (RFC 3046, section 2.1).
fn push_identity(options: &Options, number: u32, message: &mut Message) {
    let (mac, tags) = (message.chaddr, options.lines.tags(number));
    match &options.client_id {
        ClientId::None => {}
        ClientId::Mac => message.options.push(CLIENT_ID, &[&[1][..], &mac.0].concat()),
        ClientId::Text(text) => {
            message.options.push(CLIENT_ID, &[&[0][..], &text.of(number, mac, tags)].concat());
        }
    }
    let mut info = Vec::new();
    for (code, template) in [(CIRCUIT_ID, &options.circuit), (REMOTE_ID, &options.remote)] {
        if let Some(template) = template {
            let value = template.of(number, mac, tags);
            info.extend([code, u8::try_from(value.len()).unwrap_or(u8::MAX)]);
            info.extend(value);
        }
    }
    if !info.is_empty() {
        message.options.push(RELAY_INFO, &info);
    }
}

/// To all; or to the server of a device, from its address.
fn write(message: &Message, mac: Mac, to_server_of: Option<&Device>) -> Option<Vec<u8>> {
    let payload = message.write();
    let datagram = Datagram {
        dst_mac: to_server_of.map_or(Mac::BROADCAST, |device| device.server_mac),
        src_mac: mac,
        src: message.ciaddr,
        dst: to_server_of.map_or(Ipv4Addr::BROADCAST, |device| device.server),
        src_port: CLIENT_PORT,
        dst_port: SERVER_PORT,
        payload: &payload,
    };
    frame::write(&datagram).ok()
}
