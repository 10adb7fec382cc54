//! What a client asks for (RFC 2131, section 4.3.2 and table 4).
//!
//! | | server identifier | requested address | ciaddr |
//! |---|---|---|---|
//! | selecting | that of the chosen server | yes | 0 |
//! | after a reboot | no | yes | 0 |
//! | renewing, rebinding | no | no | yes |
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::arithmetic_side_effects)]

use std::net::Ipv4Addr;

use super::frame::{self, Datagram, SERVER_PORT};
use super::message::{BOOTREPLY, BOOTREQUEST, Message, MessageType};
use super::options::{CLIENT_ID, PARAMETER_LIST, RELAY_INFO, REQUESTED_ADDRESS, SERVER_ID};
use super::relay_info::{CIRCUIT_ID, sub_option};
use crate::drops::DropReason;
use crate::mac::Mac;

/// A message of a client.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) message: Message,
    pub(crate) ask: Ask,
    /// Source of its frame.
    pub(crate) src_mac: Mac,
    pub(crate) client_id: Option<Box<[u8]>>,
    /// What its access node or relay wrote, whole.
    pub(crate) relay_info: Option<Box<[u8]>>,
    pub(crate) circuit_id: Option<Box<[u8]>>,
}

impl Request {
    /// Whether the client has listed an option among those that it wants.
    pub(crate) fn wants(&self, code: u8) -> bool {
        self.message.options.get(PARAMETER_LIST).is_some_and(|list| list.contains(&code))
    }
}

/// What it asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ask {
    /// An offer, if possible of this address.
    Discover { wish: Option<Ipv4Addr> },
    /// The address that this server has offered.
    Select { server: Ipv4Addr, address: Ipv4Addr },
    /// The address that it had before it began anew.
    Reboot { address: Ipv4Addr },
    /// More time for the address that it has.
    Renew { address: Ipv4Addr },
    /// Another host uses the address.
    Decline { server: Option<Ipv4Addr>, address: Ipv4Addr },
    /// It gives the address back.
    Release { server: Option<Ipv4Addr>, address: Ipv4Addr },
    /// What else a host with this address should know.
    Inform { address: Ipv4Addr },
}

impl Ask {
    /// Whether it is a DHCPREQUEST.
    pub(crate) fn is_for_lease(self) -> bool {
        matches!(self, Ask::Select { .. } | Ask::Reboot { .. } | Ask::Renew { .. })
    }
}

/// A frame that is not from a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unread {
    pub(crate) reason: DropReason,
    /// Its source, as far as it can be read.
    pub(crate) src_mac: Option<Mac>,
}

impl Request {
    /// Reads a frame without tags.
    ///
    /// # Errors
    /// It is none of a client.
    pub(crate) fn read(bytes: &[u8]) -> Result<Request, Unread> {
        let src_mac = bytes.get(6..).and_then(<[u8]>::first_chunk).map(|mac| Mac(*mac));
        let src_mac = src_mac.filter(|mac| mac.is_station());
        let unread = |reason| Unread { reason, src_mac };
        let datagram = frame::read(bytes).map_err(unread)?;
        Request::of(&datagram).map_err(unread)
    }

    fn of(datagram: &Datagram<'_>) -> Result<Request, DropReason> {
        // Whatever is for clients is from a server.
        if datagram.dst_port == frame::CLIENT_PORT {
            return Err(DropReason::FromServer);
        }
        if datagram.dst_port != SERVER_PORT {
            return Err(DropReason::NotDhcp);
        }
        let message = Message::read(datagram.payload)?;
        let kind = message.message_type();
        if message.op == BOOTREPLY || kind.is_ok_and(MessageType::is_of_server) {
            return Err(DropReason::FromServer);
        }
        if message.op != BOOTREQUEST {
            return Err(DropReason::DhcpMessageType);
        }
        let ask = ask(&message, kind?)?;
        let options = &message.options;
        let client_id = options.get(CLIENT_ID).map(|id| Box::from(&*id));
        let relay_info: Option<Box<[u8]>> = options.get(RELAY_INFO).map(|info| Box::from(&*info));
        let circuit_id = match &relay_info {
            Some(info) => sub_option(info, CIRCUIT_ID)?.map(Box::from),
            None => None,
        };
        let src_mac = datagram.src_mac;
        Ok(Request { ask, src_mac, client_id, relay_info, circuit_id, message })
    }

    /// The relay that passed it on.
    pub(crate) fn relay(&self) -> Option<Ipv4Addr> {
        Some(self.message.giaddr).filter(|giaddr| !giaddr.is_unspecified())
    }
}

fn ask(message: &Message, kind: MessageType) -> Result<Ask, DropReason> {
    let wish = message.options.address(REQUESTED_ADDRESS)?;
    let server = message.options.address(SERVER_ID)?;
    let ciaddr = Some(message.ciaddr).filter(|ciaddr| !ciaddr.is_unspecified());
    let asked = match kind {
        MessageType::Discover => Some(Ask::Discover { wish }),
        MessageType::Request => match (server, wish, ciaddr) {
            (Some(server), Some(address), _) => Some(Ask::Select { server, address }),
            (None, Some(address), None) => Some(Ask::Reboot { address }),
            // Clients that name their address twice.
            (None, wish, Some(address)) if wish.is_none_or(|wish| wish == address) => {
                Some(Ask::Renew { address })
            }
            _ => None,
        },
        MessageType::Decline => wish.map(|address| Ask::Decline { server, address }),
        MessageType::Release => ciaddr.map(|address| Ask::Release { server, address }),
        MessageType::Inform => ciaddr.map(|address| Ask::Inform { address }),
        MessageType::Offer | MessageType::Ack | MessageType::Nak => return Err(DropReason::FromServer),
    };
    asked.ok_or(DropReason::NoAddress)
}
