//! The smallest BNG: it answers each device from its MAC address, without a memory of leases, and forwards. With it in place of a
//! BNG a run measures the ceiling of the emulator itself.
//!
//! ```text
//!  MAC address 02:00:00:00:00:01 + n  >  address 100.64.0.2 + n, gateway 100.64.0.1/10
//! ```
//! It speaks DHCP and PPPoE; the password of each device is `secret`. It answers router solicitations, and forwards
//! IPv4, and IPv6 of sessions of PPPoE.

mod pppoe;

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use weir_bng::dhcp4::frame::{self, CLIENT_PORT, Datagram, SERVER_PORT};
use weir_bng::dhcp4::message::{BOOTREPLY, Message, MessageType};
use weir_bng::dhcp4::options::{LEASE_TIME, MESSAGE_TYPE, ROUTER, SERVER_ID, SUBNET_MASK};
use weir_bng::ppp::auth::Method;
use weir_bng::ppp::protocol;
use weir_bng::pppoe::session::SessionFrame;
use weir_bng::pppoe::{DISCOVERY, SESSION};
use weir_bng::{Mac, Tags};
use weir_packet::fields::{be16, be32, put};
use weir_packet::neighbour::{self, Heard, Host};
use weir_port::duplex::mac_of;

use crate::run::{Link, RunError, copied, pool, wait};
use crate::wire::{IPV4, IPV6, in_session, out_of_session, tagged, untagged};
use pppoe::{Change, METHODS, Pppoe};

const GATEWAY: Ipv4Addr = Ipv4Addr::new(100, 64, 0, 1);
const MASK: Ipv4Addr = Ipv4Addr::new(255, 192, 0, 0);
const LEASE_S: u32 = 3600;
const LOOK: Duration = Duration::from_millis(20);
/// Its MAC address on the access side.
const MAC: Mac = Mac([2, 0, 0, 0, 0xff, 0xfe]);

/// Time between two looks at the deadlines of PPP.
const TICK: Duration = Duration::from_millis(500);

/// A frame to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sent {
    /// To the devices, with its tags.
    Access(Vec<u8>),
    /// To the far end.
    Far(Vec<u8>),
}

/// Where a device is.
#[derive(Debug, Clone, Copy)]
struct Place {
    tags: Tags,
    mac: Mac,
    session_id: Option<u16>,
}

/// The BNG, without I/O.
#[derive(Debug)]
pub struct Responder {
    places: HashMap<Ipv4Addr, Place>,
    pppoe: Pppoe,
    /// MAC addresses of the own interface and of the far end.
    own: Mac,
    far: Mac,
    room: Vec<u8>,
}

impl Responder {
    /// With these MAC addresses of the own interface on the far side and of the far end; devices of PPPoE authenticate themselves by one of
    /// `methods`.
    pub fn new(own: Mac, far: Mac, methods: &[Method]) -> Responder {
        Responder { places: HashMap::new(), pppoe: Pppoe::new(methods), own, far, room: Vec::new() }
    }

    /// Takes in a frame of the access side.
    pub fn access_frame(&mut self, frame: &[u8], now: Duration, out: &mut Vec<Sent>) {
        let mut room = std::mem::take(&mut self.room);
        if let Some((tags, frame)) = untagged(frame, &mut room) {
            match be16(frame, 12) {
                Some(DISCOVERY) => self.discovery(tags, frame, now, out),
                Some(SESSION) => self.session_frame(tags, frame, now, out),
                _ => out.extend(self.line_frame(tags, frame)),
            }
        }
        self.room = room;
    }

    fn discovery(&mut self, tags: Tags, frame: &[u8], now: Duration, out: &mut Vec<Sent>) {
        let mut answers = Vec::new();
        let change = self.pppoe.discovery(tags, frame, now, &mut answers);
        out.extend(answers.into_iter().map(|answer| Sent::Access(tagged(tags, answer))));
        self.change(change);
    }

    fn session_frame(&mut self, tags: Tags, frame: &[u8], now: Duration, out: &mut Vec<Sent>) {
        let Ok(frame) = SessionFrame::read(frame) else { return };
        if let Some(answer) = self.pppoe.advertise(tags, &frame) {
            out.push(Sent::Access(tagged(tags, answer)));
            return;
        }
        if matches!(frame.protocol, protocol::IPV4 | protocol::IPV6) {
            let mut packet = Vec::new();
            if self.pppoe.has(tags, &frame) && out_of_session(&frame, &mut packet) {
                out.extend(self.line_frame(tags, &packet));
            }
            return;
        }
        let mut answers = Vec::new();
        let change = self.pppoe.session_frame(tags, &frame, now, &mut answers);
        out.extend(answers.into_iter().map(|answer| Sent::Access(tagged(tags, answer))));
        self.change(change);
    }

    fn change(&mut self, change: Option<Change>) {
        match change {
            Some(Change::Up(address, key, mac)) => {
                let place = Place { tags: key.line.tags, mac, session_id: Some(key.id) };
                self.places.insert(address, place);
            }
            Some(Change::Down(address)) => drop(self.places.remove(&address)),
            None => {}
        }
    }

    /// Deadlines of PPP may have passed.
    pub fn tick(&mut self, now: Duration, out: &mut Vec<Sent>) {
        let answers = self.pppoe.tick(now).into_iter();
        out.extend(answers.map(|(tags, answer)| Sent::Access(tagged(tags, answer))));
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
        matches!(be16(&frame, 12), Some(IPV4 | IPV6)).then(|| {
            put(&mut frame, 0, self.far.0);
            put(&mut frame, 6, self.own.0);
            Sent::Far(frame)
        })
    }

    /// Takes in a frame of the far side.
    pub fn far_frame(&mut self, frame: &[u8]) -> Option<Sent> {
        let dst = match be16(frame, 12)? {
            // The prefix of a device ends with its address.
            IPV6 => be32(frame, 42)?,
            _ => be32(frame, 30)?,
        };
        let dst = Ipv4Addr::from(dst);
        let Place { tags, mac, session_id } = *self.places.get(&dst)?;
        let mut frame = frame.to_vec();
        put(&mut frame, 0, mac.0);
        put(&mut frame, 6, MAC.0);
        let frame = match session_id {
            Some(id) => in_session(&frame, id)?,
            None => frame,
        };
        Some(Sent::Access(tagged(tags, frame)))
    }

    fn dhcp(&mut self, tags: Tags, bytes: &[u8]) -> Option<Vec<u8>> {
        let message = Message::read(frame::read(bytes).ok()?.payload).ok()?;
        let kind = match message.message_type().ok()? {
            MessageType::Discover => MessageType::Offer,
            MessageType::Request => MessageType::Ack,
            _ => return None,
        };
        let address = address_of(message.chaddr);
        if kind == MessageType::Ack {
            self.places.insert(address, Place { tags, mac: message.chaddr, session_id: None });
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

/// The address of the device of a MAC address.
fn address_of(mac: Mac) -> Ipv4Addr {
    let [_, _, rest @ ..] = mac.0;
    Ipv4Addr::from(u32::from(GATEWAY).wrapping_add(u32::from_be_bytes(rest)))
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
    let mut responder = Responder::new(own, far.map_or(MAC, |(_, mac)| mac), &METHODS);
    let (mut access, mut pool) = (Link::open(access)?, pool()?);
    let mut far = far.map(|(name, _)| Link::open(name)).transpose()?;
    ready();
    let mut sent = Vec::new();
    let begin = Instant::now();
    let mut tick = TICK;
    while !stop.load(Ordering::Relaxed) {
        let now = begin.elapsed();
        if now >= tick {
            responder.tick(now, &mut sent);
            tick = now + TICK;
        }
        let mut count = access.receive(&mut pool, |frame| responder.access_frame(frame, now, &mut sent))?;
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
