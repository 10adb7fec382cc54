//! What a device does with DHCP.

use std::net::Ipv4Addr;

use weir_bng::dhcp4::frame::{self, SERVER_PORT};
use weir_bng::dhcp4::message::{BOOTREPLY, Message, MessageType};
use weir_bng::dhcp4::options::{LEASE_TIME, REBINDING_TIME, RENEWAL_TIME, ROUTER, SERVER_ID, SUBNET_MASK};
use weir_bng::{DropReason, Mac, Tags};

use super::{Emulator, Output};
use crate::device::{Device, NEVER, State};
use crate::exchange;
use crate::summary::Step;

const SECOND_NS: u64 = 1_000_000_000;
/// Least time between two requests of a renewal (RFC 2131, section 4.4.5).
const RENEWAL_NS: u64 = 60 * SECOND_NS;

impl Emulator {
    /// A device begins, or begins again.
    pub(super) fn discover(&mut self, number: u32, now_ns: u64, out: &mut Vec<Output>) {
        let xid = self.rng.next_u64() as u32;
        let device = &mut self.devices[number as usize];
        device.enter(State::Selecting, now_ns);
        device.xid = xid;
        self.retransmit(number, now_ns, out);
    }

    /// Sends DISCOVER or REQUEST, for the first time or again; a device that did so too often has failed.
    pub(super) fn retransmit(&mut self, number: u32, now_ns: u64, out: &mut Vec<Output>) {
        let device = &mut self.devices[number as usize];
        let is_first = device.state == State::Selecting;
        if device.sends >= self.options.tries {
            let step = if is_first { Step::Discover } else { Step::Request };
            return self.fail(number, step, now_ns);
        }
        device.sends += 1;
        let sends = device.sends;
        let again = u64::from(sends > 1);
        let kind = if is_first { MessageType::Discover } else { MessageType::Request };
        if is_first {
            self.retransmissions.discover += again;
        } else {
            self.retransmissions.request += again;
        }
        self.send(number, kind, now_ns, out);
        let wait_ns = self.retransmission_ns(sends);
        self.set_due(number, now_ns + wait_ns);
    }

    fn send(&mut self, number: u32, kind: MessageType, now_ns: u64, out: &mut Vec<Output>) {
        match kind {
            MessageType::Discover => self.messages.discovers += 1,
            MessageType::Request => self.messages.requests += 1,
            _ => {}
        }
        let frame = exchange::frame(&self.options, number, &self.devices[number as usize], kind, now_ns);
        self.send_control(number, frame, now_ns, out);
    }

    /// Takes in a frame to port 68, which had these tags.
    pub(super) fn dhcp(&mut self, tags: Tags, bytes: &[u8], now_ns: u64, out: &mut Vec<Output>) {
        if self.loses_answer() {
            return;
        }
        let Ok((server_mac, message, kind)) = read(bytes) else {
            self.messages.malformed += 1;
            return;
        };
        let number = self.options.device(message.chaddr);
        let number = number.filter(|_| message.op == BOOTREPLY && kind.is_of_server());
        let Some(number) = number else {
            self.messages.unexpected += 1;
            return;
        };
        if self.tags(number) != tags {
            self.foreign += 1;
            return;
        }
        let is_taken = self.devices[number as usize].xid == message.xid
            && match kind {
                MessageType::Offer => self.offered(number, &message, now_ns, out),
                MessageType::Ack => self.acknowledged(number, server_mac, &message, now_ns, out),
                _ => self.refused(number, &message, now_ns),
            };
        self.messages.unexpected += u64::from(!is_taken);
    }

    /// Takes the first offer. False: the device waits for none, or it is no whole offer.
    fn offered(&mut self, number: u32, message: &Message, now_ns: u64, out: &mut Vec<Output>) -> bool {
        let device = &mut self.devices[number as usize];
        let server = message.options.address(SERVER_ID).ok().flatten();
        let Some(server) = server.filter(|_| device.state == State::Selecting) else { return false };
        self.messages.offers += 1;
        device.enter(State::Requesting, now_ns);
        (device.address, device.server) = (message.yiaddr, server);
        self.retransmit(number, now_ns, out);
        true
    }

    /// The lease begins, or goes on.
    fn acknowledged(
        &mut self,
        number: u32,
        server_mac: Mac,
        message: &Message,
        now_ns: u64,
        out: &mut Vec<Output>,
    ) -> bool {
        let device = &mut self.devices[number as usize];
        let Some(times) = LeaseTimes::of(message) else { return false };
        match device.state {
            State::Requesting => {}
            State::Renewing | State::Rebinding if message.yiaddr == device.address => {
                self.messages.acks += 1;
                self.messages.renewals += 1;
                times.put_into(device, now_ns);
                device.enter(State::Up, now_ns);
                let renew_ns = device.renew_ns;
                self.set_due(number, renew_ns);
                return true;
            }
            _ => return false,
        }
        self.messages.acks += 1;
        let router = router_of(message);
        let (offered, address) = (device.address, message.yiaddr);
        if !is_usable(address, router) || address != offered || self.by_address.contains_key(&address) {
            self.send(number, MessageType::Decline, now_ns, out);
            self.fail(number, Step::Declined, now_ns);
            return true;
        }
        times.put_into(device, now_ns);
        device.server_mac = server_mac;
        device.prefix_len = mask_of(message).leading_ones() as u8;
        device.next_hop =
            router.or_else(|| self.options.far.map(|far| *far.ip()).filter(|far| is_on_link(message, *far)));
        self.by_address.insert(address, number);
        self.count_bound(number, now_ns);
        self.resolve(number, now_ns, out);
        true
    }

    /// A NAK: the device begins again after a time-out, or it has failed.
    fn refused(&mut self, number: u32, message: &Message, now_ns: u64) -> bool {
        let tries = self.options.tries;
        let device = &mut self.devices[number as usize];
        let server = message.options.address(SERVER_ID).ok().flatten();
        match device.state {
            State::Requesting if server.is_none_or(|server| server == device.server) => {}
            State::Renewing | State::Rebinding => {
                self.messages.naks += 1;
                self.fail(number, Step::Renew, now_ns);
                return true;
            }
            _ => return false,
        }
        self.messages.naks += 1;
        device.naks += 1;
        let naks = device.naks;
        if naks >= tries {
            self.fail(number, Step::Nak, now_ns);
            return true;
        }
        device.enter(State::Selecting, now_ns);
        let xid = self.rng.next_u64() as u32;
        self.devices[number as usize].xid = xid;
        let wait_ns = self.retransmission_ns(naks);
        self.set_due(number, now_ns + wait_ns);
        true
    }

    /// T1, T2 or the end of the lease has come, or a request was not answered (RFC 2131, section 4.4.5).
    pub(super) fn renew(&mut self, number: u32, now_ns: u64, out: &mut Vec<Output>) {
        let xid = self.rng.next_u64() as u32;
        let device = &mut self.devices[number as usize];
        let Device { rebind_ns, end_ns, .. } = *device;
        if now_ns >= end_ns {
            return self.fail(number, Step::Renew, now_ns);
        }
        let state = if now_ns >= rebind_ns { State::Rebinding } else { State::Renewing };
        if device.state != state {
            device.enter(state, now_ns);
            device.xid = xid;
        }
        device.sends += 1;
        self.retransmissions.request += u64::from(device.sends > 1);
        let until_ns = if state == State::Renewing { rebind_ns } else { end_ns };
        let next_ns = now_ns + ((until_ns - now_ns) / 2).max(RENEWAL_NS);
        self.send(number, MessageType::Request, now_ns, out);
        self.set_due(number, next_ns.min(until_ns));
    }

    /// A device ends its session, if it has one, in order.
    pub(super) fn end_session(&mut self, number: u32, now_ns: u64, out: &mut Vec<Output>) {
        if self.options.pppoe.is_some() {
            self.hang_up(number, now_ns, out);
        } else if self.devices[number as usize].is_bound() {
            self.send(number, MessageType::Release, now_ns, out);
        }
    }

    /// Sends the releases that are due, evenly paced.
    pub(super) fn release_devices(&mut self, now_ns: u64, out: &mut Vec<Output>) {
        for _ in 0..super::MOST_AT_ONCE {
            if self.released == self.options.devices {
                self.enter(super::Phase::Done, now_ns);
                return;
            }
            if self.release_ns() > now_ns {
                return;
            }
            let number = self.released;
            self.released += 1;
            let is_bound = self.devices[number as usize].is_bound();
            self.end_session(number, now_ns, out);
            if is_bound {
                self.devices[number as usize].enter(State::Released, now_ns);
                self.forget_address(number);
            }
        }
    }
}

/// A message of a server, and from where its frame came.
fn read(bytes: &[u8]) -> Result<(Mac, Message, MessageType), DropReason> {
    let datagram = frame::read(bytes)?;
    if datagram.src_port != SERVER_PORT {
        return Err(DropReason::NotDhcp);
    }
    let message = Message::read(datagram.payload)?;
    let kind = message.message_type()?;
    Ok((datagram.src_mac, message, kind))
}

fn router_of(message: &Message) -> Option<Ipv4Addr> {
    message.options.get(ROUTER).and_then(|routers| routers.first_chunk::<4>().copied()).map(Ipv4Addr::from)
}

/// Whether a host can have this address beside this router.
fn is_usable(address: Ipv4Addr, router: Option<Ipv4Addr>) -> bool {
    let [first, ..] = address.octets();
    (1..224).contains(&first) && !address.is_loopback() && Some(address) != router
}

fn mask_of(message: &Message) -> u32 {
    message.options.address(SUBNET_MASK).ok().flatten().map_or(u32::MAX, u32::from)
}

fn is_on_link(message: &Message, host: Ipv4Addr) -> bool {
    let mask = mask_of(message);
    u32::from(message.yiaddr) & mask == u32::from(host) & mask
}

/// Times of a lease, ns from now; the longest time is never (RFC 2131, section 3.3).
struct LeaseTimes {
    lease_ns: u64,
    renew_ns: u64,
    rebind_ns: u64,
}

impl LeaseTimes {
    fn of(message: &Message) -> Option<LeaseTimes> {
        let seconds = |code| message.options.fixed::<4>(code).ok().flatten().map(u32::from_be_bytes);
        let lease_s = seconds(LEASE_TIME).filter(|lease_s| *lease_s > 0)?;
        let ns = |seconds: u64| if lease_s == u32::MAX { NEVER } else { seconds * SECOND_NS };
        let lease = u64::from(lease_s);
        let rebind = seconds(REBINDING_TIME).map_or(lease * 7 / 8, u64::from).min(lease);
        let renew = seconds(RENEWAL_TIME).map_or(lease / 2, u64::from).min(rebind);
        Some(LeaseTimes { lease_ns: ns(lease), renew_ns: ns(renew), rebind_ns: ns(rebind) })
    }

    fn put_into(&self, device: &mut Device, now_ns: u64) {
        device.renew_ns = now_ns.saturating_add(self.renew_ns);
        device.rebind_ns = now_ns.saturating_add(self.rebind_ns);
        device.end_ns = now_ns.saturating_add(self.lease_ns);
    }
}
