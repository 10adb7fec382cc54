//! The smallest BNG: it answers each device from its MAC address, without a memory of leases, and forwards. With it in place of a
//! BNG a run measures the ceiling of the emulator itself.
//!
//! ```text
//!  MAC address 02:00:00:00:00:01 + n  >  address 100.64.0.2 + n, gateway 100.64.0.1/10
//! ```

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use weir_bng::dhcp4::frame::{self, CLIENT_PORT, Datagram, SERVER_PORT};
use weir_bng::dhcp4::message::{BOOTREPLY, Message, MessageType};
use weir_bng::dhcp4::options::{LEASE_TIME, MESSAGE_TYPE, ROUTER, SERVER_ID, SUBNET_MASK};
use weir_bng::{Mac, Tags};
use weir_packet::fields::{be16, be32, put};
use weir_packet::neighbour::{self, Heard, Host};
use weir_port::duplex::mac_of;

use crate::run::{Link, RunError, copied, pool, wait};
use crate::wire::{tagged, untagged};

const GATEWAY: Ipv4Addr = Ipv4Addr::new(100, 64, 0, 1);
const MASK: Ipv4Addr = Ipv4Addr::new(255, 192, 0, 0);
const LEASE_S: u32 = 3600;
const LOOK: Duration = Duration::from_millis(20);
/// Its MAC address on the access side.
const MAC: Mac = Mac([2, 0, 0, 0, 0xff, 0xfe]);

/// A frame to send.
#[derive(Debug, PartialEq, Eq)]
enum Sent {
    Access(Vec<u8>),
    Far(Vec<u8>),
}

/// The state: where each device is.
#[derive(Debug, Default)]
struct Responder {
    lines: HashMap<Ipv4Addr, (Tags, Mac)>,
    /// MAC addresses of the own interface and of the far end.
    own: Mac,
    far: Mac,
    room: Vec<u8>,
}

impl Responder {
    fn access_frame(&mut self, frame: &[u8]) -> Option<Sent> {
        let mut room = std::mem::take(&mut self.room);
        let sent = untagged(frame, &mut room).and_then(|(tags, frame)| self.line_frame(tags, frame));
        self.room = room;
        sent
    }

    fn line_frame(&mut self, tags: Tags, frame: &[u8]) -> Option<Sent> {
        if let Some(heard) = neighbour::parse(frame) {
            let Heard::Question { from, target } = heard else { return None };
            let own = Host { mac: MAC.0, ip: IpAddr::V4(GATEWAY) };
            return (target == own.ip).then(|| Sent::Access(tagged(tags, neighbour::answer(own, from))));
        }
        if be16(frame, 36) == Some(SERVER_PORT) {
            return self.dhcp(tags, frame).map(|answer| Sent::Access(tagged(tags, answer)));
        }
        let mut frame = frame.to_vec();
        (be16(&frame, 12) == Some(0x0800)).then(|| {
            put(&mut frame, 0, self.far.0);
            put(&mut frame, 6, self.own.0);
            Sent::Far(frame)
        })
    }

    fn far_frame(&mut self, frame: &[u8]) -> Option<Sent> {
        let dst = Ipv4Addr::from(be32(frame, 30)?);
        let (tags, mac) = self.lines.get(&dst)?;
        let mut frame = frame.to_vec();
        put(&mut frame, 0, mac.0);
        put(&mut frame, 6, MAC.0);
        Some(Sent::Access(tagged(*tags, frame)))
    }

    fn dhcp(&mut self, tags: Tags, bytes: &[u8]) -> Option<Vec<u8>> {
        let message = Message::read(frame::read(bytes).ok()?.payload).ok()?;
        let kind = match message.message_type().ok()? {
            MessageType::Discover => MessageType::Offer,
            MessageType::Request => MessageType::Ack,
            _ => return None,
        };
        let [_, _, rest @ ..] = message.chaddr.0;
        let address = Ipv4Addr::from(u32::from(GATEWAY).wrapping_add(u32::from_be_bytes(rest)));
        if kind == MessageType::Ack {
            self.lines.insert(address, (tags, message.chaddr));
        }
        let mut answer =
            Message { op: BOOTREPLY, yiaddr: address, ..Message::request(message.xid, message.chaddr) };
        answer.options.push(MESSAGE_TYPE, &[kind as u8]);
        answer.options.push_addresses(SERVER_ID, &[GATEWAY]);
        answer.options.push_seconds(LEASE_TIME, LEASE_S);
        answer.options.push_addresses(SUBNET_MASK, &[MASK]);
        answer.options.push_addresses(ROUTER, &[GATEWAY]);
        let payload = answer.write();
        frame::write(&Datagram {
            dst_mac: message.chaddr,
            src_mac: MAC,
            src: GATEWAY,
            dst: address,
            src_port: SERVER_PORT,
            dst_port: CLIENT_PORT,
            payload: &payload,
        })
        .ok()
    }
}

/// Answers on the interface `access` and forwards to and from the interface `far`, whose other end has `far_mac`, until `stop`. Both
/// are in the network namespace of the calling thread. Calls `ready` when frames are received.
///
/// # Errors
/// An interface cannot be used.
pub fn serve(
    access: &str,
    far: Option<(&str, Mac)>,
    stop: &AtomicBool,
    ready: impl FnOnce(),
) -> Result<(), RunError> {
    let own = far.map(|(name, _)| mac_of(name)).transpose()?.map_or(MAC, Mac);
    let mut responder = Responder { own, far: far.map_or(MAC, |(_, mac)| mac), ..Responder::default() };
    let (mut access, mut pool) = (Link::open(access)?, pool()?);
    let mut far = far.map(|(name, _)| Link::open(name)).transpose()?;
    ready();
    let mut sent = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let mut count = access.receive(&mut pool, |frame| sent.extend(responder.access_frame(frame)))?;
        if let Some(far) = &mut far {
            count += far.receive(&mut pool, |frame| sent.extend(responder.far_frame(frame)))?;
        }
        for sent in sent.drain(..) {
            let (link, frame) = match &sent {
                Sent::Access(frame) => (Some(&mut access), frame),
                Sent::Far(frame) => (far.as_mut(), frame),
            };
            if let Some(link) = link {
                link.push(&mut pool, copied(frame));
            }
        }
        access.flush(&mut pool)?;
        far.as_mut().map_or(Ok(()), |far| far.flush(&mut pool))?;
        if count == 0 {
            let links: Vec<&Link> = [Some(&access), far.as_ref()].into_iter().flatten().collect();
            wait(&links, LOOK)?;
        }
    }
    Ok(())
}
