//! What becomes of a frame of a client: the DHCP server (RFC 2131, section 4.3).
//!
//! ```text
//! frame > port, relay, option 82 > subscriber > limit > status > DISCOVER: offer          (no subscriber: dhcp_radius.rs)
//!                                                              > REQUEST: grant, or DHCPNAK
//!                                                              > DECLINE, RELEASE, INFORM
//! ```
//! This server decides alone which address a subscriber has. So a subscriber that it knows is told by a DHCPNAK where it asks for
//! another one, whether there is a record of the lease or not; a device of no subscriber is never answered.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::net::Ipv4Addr;
use std::time::Duration;

use super::accepted::Refusal;
use super::{Answer, Bng, Outputs};
use crate::account::Account;
use crate::config::{AtLimit, LeaseTimes, Moves, Port};
use crate::dhcp4::message::MessageType;
use crate::dhcp4::options::CAPTIVE_PORTAL;
use crate::dhcp4::reply::{Network, Reply};
use crate::dhcp4::request::{Ask, Request};
use crate::drops::DropReason;
use crate::io::{Event, Output, Punt};
use crate::line::Line;
use crate::mac::Mac;
use crate::name::Name;
use crate::pppoe;
use crate::prefix::LinkPrefix;
use crate::session::{Device, EndCause, NO_ADDRESS, PppLink};
use crate::subscriber::{Key, Status};
use crate::subscribers::{Index, Offer};
use crate::why::{Direction, Outcome, TraceFrame};

/// Least time between two reports of DHCP servers behind one port.
const SERVER_SEEN_EVERY: Duration = Duration::from_secs(60);

/// EtherType of IPv6.
const IPV6: [u8; 2] = [0x86, 0xdd];

/// Least length of a lease that is shorter than configured, s.
const LEAST_LEASE_S: u64 = 10;

/// What became of a request.
pub(super) enum Answered {
    /// It is answered when its record is on disk.
    Later,
    /// It is answered now.
    Now(Outcome, Vec<u8>),
    /// It wants no answer.
    Silently,
}

/// A request of a known subscriber.
pub(super) struct Call {
    pub(super) index: Index,
    pub(super) device: Device,
    pub(super) request: Request,
    pub(super) src_mac: Mac,
    /// What AAA has said for this request; `None`: it was not asked.
    pub(super) account: Option<Account>,
}

/// What is known of the device that has sent a request.
enum Sender {
    /// The device of a subscriber.
    Known(Index, Device),
    /// RADIUS knows it, perhaps.
    Asked(Device),
}

impl Bng {
    /// A frame that the node did not forward.
    pub(super) fn punt(&mut self, punt: &Punt<'_>, out: &mut Outputs) {
        self.counts.received += 1;
        if pppoe::is_pppoe(punt.bytes) {
            return self.pppoe(punt, out);
        }
        if punt.bytes.get(12..14) == Some(&IPV6) {
            return self.ipv6(punt, out);
        }
        let line = Line { port: punt.port.clone(), tags: punt.tags };
        let request = Request::read(punt.bytes);
        let mac = match &request {
            Ok(request) => Some(request.message.chaddr).filter(|mac| mac.is_station()),
            Err(unread) => unread.src_mac,
        };
        if let Some(mac) = mac {
            let (at, direction) = (self.now.at, Direction::FromSubscriber);
            self.traces.heard(&line, mac, TraceFrame { at, direction, bytes: punt.bytes.to_vec() });
        }
        let mac = mac.unwrap_or_default();
        let own = self.config.ports.get(&line.port).and_then(|port| port.mac);
        let result = match request {
            _ if own == Some(mac) => Err(DropReason::OwnMac.into()),
            Ok(request) => self.request(&line, request, out),
            Err(unread) => {
                if unread.reason == DropReason::FromServer {
                    self.server_seen(&line, mac, out);
                }
                Err(unread.reason.into())
            }
        };
        self.request_is_done(line, mac, result, out);
    }

    /// Answers a request, or notes why there is no answer.
    pub(super) fn request_is_done(
        &mut self,
        line: Line,
        mac: Mac,
        result: Result<Answered, Refusal>,
        out: &mut Outputs,
    ) {
        match result {
            Ok(Answered::Later) => {}
            Ok(Answered::Silently) => self.counts.accepted += 1,
            Ok(Answered::Now(outcome, frame)) => {
                self.trace(&line, mac, outcome);
                self.send(Answer { line, mac, frame }, out);
            }
            Err(Refusal { reason, message }) => {
                self.drop_frame(&line, mac, reason);
                self.traces.explain(&line, mac, &message);
            }
        }
    }

    /// A packet of IPv6, which is a router solicitation.
    fn ipv6(&mut self, punt: &Punt<'_>, out: &mut Outputs) {
        let line = Line { port: punt.port.clone(), tags: punt.tags };
        let mac = punt.bytes.get(6..).and_then(<[u8]>::first_chunk).copied().map_or(Mac::default(), Mac);
        let packet = punt.bytes.get(14..).unwrap_or_default();
        match self.solicited_by_ethernet(&line, mac, packet, out) {
            Ok(()) => self.counts.accepted += 1,
            // It begins nothing, and hides no reason of DHCP.
            Err(reason) => self.counts.drops += reason,
        }
    }

    /// A DHCP server behind a port is reported now and then.
    fn server_seen(&mut self, line: &Line, mac: Mac, out: &mut Outputs) {
        let is_known = self.config.ports.contains_key(&line.port);
        let is_silent = self.servers_seen.get(&line.port).is_none_or(|until| *until <= self.now.at);
        if is_known && is_silent {
            self.servers_seen.insert(line.port.clone(), self.now.at + SERVER_SEEN_EVERY);
            out.push(Output::Event(Event::ServerSeen { line: line.clone(), mac }));
        }
    }

    fn request(&mut self, line: &Line, request: Request, out: &mut Outputs) -> Result<Answered, Refusal> {
        let port = self.config.ports.get(&line.port).ok_or(DropReason::PortUnknown)?;
        let src_mac = port.mac.ok_or(DropReason::PortUnknown)?;
        check_way(port, &request)?;
        let (index, device) = match self.identify(line, &request)? {
            Sender::Known(index, device) => (index, device),
            Sender::Asked(device) => return self.ask_for_device(None, device, request, src_mac, out),
        };
        let limit = self.config.subscriber_limit;
        if !self.limiter.takes(self.now.at, &(line, Some(index)), limit) {
            return Err(DropReason::SubscriberRate.into());
        }
        let index = self.seat_of_request(index, &device, &request.ask)?;
        if self.asks_for_renewal(index, &device, &request) {
            return self.ask_for_device(Some(index), device, request, src_mac, out);
        }
        self.request_of(Call { index, device, request, src_mac, account: None }, out)
    }

    /// A request of a subscriber.
    pub(super) fn request_of(&mut self, call: Call, out: &mut Outputs) -> Result<Answered, Refusal> {
        let index = call.index;
        match self.check_refusals(index) {
            Err(Refusal { reason, .. }) if call.request.ask.is_for_lease() => {
                let frame = self.reply(&call, MessageType::Nak, None)?;
                return Ok(Answered::Now(Outcome::Refused(reason), frame));
            }
            checked => checked?,
        }
        match self.check_status(&call) {
            // The client of a subscriber that was blocked gives its address up at once, and not when its lease ends.
            Err(DropReason::SubscriberBlocked) if call.request.ask.is_for_lease() => {
                let frame = self.reply(&call, MessageType::Nak, None)?;
                return Ok(Answered::Now(Outcome::Refused(DropReason::SubscriberBlocked), frame));
            }
            status => status?,
        }
        let answered = match call.request.ask {
            Ask::Discover { wish } => self.discover(&call, wish, out),
            Ask::Select { server, address } => {
                if !self.is_server(server) {
                    self.withdraw_offer(index);
                    return Err(DropReason::OtherServer.into());
                }
                self.lease(call, address, out)
            }
            Ask::Reboot { address } | Ask::Renew { address } => self.lease(call, address, out),
            Ask::Decline { server, address } => self.declined(&call, server, address, out),
            Ask::Release { server, address } => self.released(&call, server, address, out),
            Ask::Inform { address } => self.inform(&call, address),
        };
        answered.map_err(Refusal::from)
    }

    /// The subscriber and the device of a request.
    fn identify(&mut self, line: &Line, request: &Request) -> Result<Sender, DropReason> {
        let mac = request.message.chaddr;
        let circuit = request.circuit_id.clone().map(Key::Circuit);
        let keys = [circuit, Some(Key::Line(line.clone())), Some(Key::Mac(mac))];
        let known = keys.iter().flatten().find_map(|key| self.subscribers.of_key(key));
        let device = Device { line: line.clone(), mac, relay: request.relay() };
        // What a client sends to the server itself does not pass its relay, or its access node adds no circuit-id to it.
        let online = self.online_device(line, request);
        let is_direct = request.relay().is_some() || request.src_mac == mac;
        match (online, known) {
            (Some((index, device)), known)
                if known.is_none_or(|known| known == self.subscribers.main(index)) =>
            {
                Ok(Sender::Known(index, device))
            }
            _ if !is_direct => Err(DropReason::ChaddrMismatch),
            (_, Some(index)) => Ok(Sender::Known(index, device)),
            (_, None) if self.config.aaa.dhcp.is_some() => match self.accepted_before(&device, request) {
                Some(index) => Ok(Sender::Known(index, device)),
                None if !self.limiter.takes(self.now.at, &(line, None::<Index>), self.config.line_limit) => {
                    Err(DropReason::LineRate)
                }
                None if self.is_asked_for(&request.ask) => Ok(Sender::Asked(device)),
                None => Err(DropReason::NoSubscriber),
            },
            (_, None) if self.limiter.takes(self.now.at, &(line, None::<Index>), self.config.line_limit) => {
                Err(DropReason::NoSubscriber)
            }
            (_, None) => Err(DropReason::LineRate),
        }
    }

    /// The device that has the address which the request names as its own, and its subscriber.
    fn online_device(&self, line: &Line, request: &Request) -> Option<(Index, Device)> {
        let (Ask::Renew { address } | Ask::Release { address, .. } | Ask::Inform { address }) = request.ask
        else {
            return None;
        };
        let index = self.addresses.holder(address)?;
        let lease = &self.subscribers.get(index)?.online.as_ref()?.session.lease;
        let Device { line: of, mac, relay } = &lease.device;
        let is_same =
            lease.ppp.is_none() && lease.address == address && of == line && *mac == request.message.chaddr;
        // By its relay, or by a router behind which the relay is.
        let came = request.relay().is_none() && (relay.is_some() || request.src_mac == *mac);
        (is_same && came).then(|| (index, lease.device.clone()))
    }

    /// Whether the subscriber may be online with this device.
    fn check_status(&self, call: &Call) -> Result<(), DropReason> {
        let Some(entry) = self.subscribers.get(call.index) else { return Err(DropReason::NoSubscriber) };
        let is_elsewhere =
            entry.online.as_ref().is_some_and(|online| online.session.lease.device != call.device);
        match entry.subscriber.status {
            Status::Blocked => Err(DropReason::SubscriberBlocked),
            Status::Active | Status::Walled if self.config.rates(&entry.subscriber.plan).is_none() => {
                Err(DropReason::PlanUnknown)
            }
            Status::Active | Status::Walled
                if is_elsewhere && self.has_one_seat() && self.config.moves == Moves::Refuse =>
            {
                Err(DropReason::SessionElsewhere)
            }
            Status::Active | Status::Walled => self.check_places(call.index, &call.device),
        }
    }

    /// DHCPDISCOVER: the same offer as long as it stands, and for the address that the subscriber has.
    fn discover(
        &mut self,
        call: &Call,
        wish: Option<Ipv4Addr>,
        out: &mut Outputs,
    ) -> Result<Answered, DropReason> {
        let address = match self.current_address(call.index) {
            Some(address) => address,
            None => self.choose_address(call.index, wish, None, out)?,
        };
        let frame = self.reply(call, MessageType::Offer, Some(address))?;
        let until = self.now.at + self.config.offer;
        let entry = self.subscribers.get(call.index);
        let before =
            entry.and_then(|entry| entry.offer.clone()).filter(|before| before.device == call.device);
        let (prefix, permit) = before.map_or((None, None), |before| (before.prefix, before.permit));
        let device = call.device.clone();
        self.hold_offer(call.index, Offer { address, prefix, until, device, permit });
        Ok(Answered::Now(Outcome::Offered(address), frame))
    }

    /// The address of the subscriber's session, or the one that was offered to it.
    pub(super) fn current_address(&self, index: Index) -> Option<Ipv4Addr> {
        let entry = self.subscribers.get(index)?;
        let online = entry.online.as_ref().map(|online| online.session.lease.address);
        let offered = || entry.offer.as_ref().map(|offer| offer.address);
        online.or_else(offered).filter(|address| *address != NO_ADDRESS)
    }

    /// An address for a subscriber that has none.
    pub(super) fn choose_address(
        &mut self,
        index: Index,
        wish: Option<Ipv4Addr>,
        pool: Option<&Name>,
        out: &mut Outputs,
    ) -> Result<Ipv4Addr, DropReason> {
        let entry = self.subscribers.get(index).ok_or(DropReason::NoSubscriber)?;
        if let Some(fixed) = entry.subscriber.fixed_address.filter(|_| entry.seat == 0) {
            return match self.addresses.is_free_for(fixed, index) {
                true => Ok(fixed),
                false if self.addresses.is_declined(fixed) => Err(DropReason::FixedAddressDeclined),
                false => Err(DropReason::FixedAddressInUse),
            };
        }
        let last = entry.last_address;
        let pool = pool.or(entry.subscriber.pool.as_ref());
        if pool.is_some_and(|name| !self.addresses.has_pool(name)) {
            return Err(DropReason::PoolUnknown);
        }
        let was_exhausted = self.addresses.is_exhausted;
        let found = self.addresses.find(index, &[last, wish], pool);
        if self.addresses.is_exhausted && !was_exhausted {
            out.push(Output::Event(Event::PoolExhausted { what: self.addresses.exhausted() }));
        }
        found.ok_or(DropReason::PoolExhausted)
    }

    /// The prefix of the subscriber's session, or the one that was offered to it.
    pub(super) fn current_prefix(&self, index: Index) -> Option<LinkPrefix> {
        let entry = self.subscribers.get(index)?;
        let online = entry.online.as_ref().and_then(|online| online.session.lease.prefix);
        online.or_else(|| entry.offer.as_ref().and_then(|offer| offer.prefix))
    }

    /// The prefix for a subscriber's session: `wish` if there is one, else its own, the one that it has or had, one of a pool. Without
    /// any the session has IPv4 alone.
    ///
    /// # Errors
    /// The wish is another subscriber's.
    pub(super) fn prefix_for(
        &mut self,
        index: Index,
        wish: Option<LinkPrefix>,
        pool: Option<&Name>,
        out: &mut Outputs,
    ) -> Result<Option<LinkPrefix>, DropReason> {
        let entry = self.subscribers.get(index).ok_or(DropReason::NoSubscriber)?;
        let fixed = entry.subscriber.fixed_prefix.filter(|_| entry.seat == 0);
        let (wish, last) = (wish.or(fixed), entry.last_prefix);
        let pool = pool.or(entry.subscriber.prefix_pool.as_ref());
        if pool.is_some_and(|name| !self.prefixes.has_pool(name)) {
            return Err(DropReason::PoolUnknown);
        }
        let current = self
            .current_prefix(index)
            .filter(|prefix| wish == Some(*prefix) || self.prefixes.is_of(*prefix, pool));
        if let Some(wish) = wish {
            let has_it = self.prefixes.holder(wish) == Some(index);
            let is_free = has_it || self.prefixes.is_free_for(wish, index);
            return if is_free { Ok(Some(wish)) } else { Err(DropReason::FixedPrefixInUse) };
        }
        if current.is_some() || self.prefixes.pools().is_empty() {
            return Ok(current);
        }
        let was_exhausted = self.prefixes.is_exhausted;
        let found = self.prefixes.find(index, &[last], pool);
        if self.prefixes.is_exhausted && !was_exhausted {
            out.push(Output::Event(Event::PoolExhausted { what: self.prefixes.exhausted() }));
        }
        Ok(found)
    }

    /// DHCPREQUEST: the lease of an address, if it is the one that the subscriber has or may have.
    fn lease(&mut self, call: Call, address: Ipv4Addr, out: &mut Outputs) -> Result<Answered, DropReason> {
        let permitted = self.subscribers.get(call.index).and_then(|entry| entry.offer.as_ref());
        let permitted = permitted.filter(|offer| offer.permit.is_some() && offer.device == call.device);
        let permitted = permitted.map(|offer| offer.address);
        let may_have = match permitted.or_else(|| self.current_address(call.index)) {
            Some(current) => current == address,
            None => {
                let entry = self.subscribers.get(call.index);
                let fixed = entry.filter(|entry| entry.seat == 0);
                let fixed = fixed.and_then(|entry| entry.subscriber.fixed_address);
                fixed.is_none_or(|fixed| fixed == address) && self.addresses.is_free_for(address, call.index)
            }
        };
        if !may_have {
            let frame = self.reply(&call, MessageType::Nak, None)?;
            return Ok(Answered::Now(Outcome::Refused(DropReason::NoLease), frame));
        }
        let frame = self.reply(&call, MessageType::Ack, Some(address))?;
        let LeaseTimes { lease_s, .. } = self.lease_times(&call);
        let account = call.account.clone().or_else(|| self.permitted(&call));
        if let Some(account) = &account {
            self.check_routes(call.index, &account.facts.routes).map_err(|refusal| refusal.reason)?;
        }
        let Call { index, device, request, .. } = call;
        // A relayed device is not on the line: it hears no advertisement.
        let prefix = match device.relay {
            Some(_) => None,
            None => self.prefix_for(index, None, None, out)?,
        };
        let answer = Answer { line: device.line.clone(), mac: device.mac, frame };
        let client_id = request.client_id;
        let grant = Grant { device, client_id, address, prefix, lease_s, ppp: None, account, answer };
        self.grant(index, grant, out);
        Ok(Answered::Later)
    }

    /// DHCPDECLINE: another host uses the address.
    fn declined(
        &mut self,
        call: &Call,
        server: Option<Ipv4Addr>,
        address: Ipv4Addr,
        out: &mut Outputs,
    ) -> Result<Answered, DropReason> {
        self.check_server(server)?;
        let has_it = self.current_address(call.index) == Some(address);
        if !has_it || self.is_elsewhere(call) {
            return Err(DropReason::NoLease);
        }
        self.quarantine(call.index, address, out);
        Ok(Answered::Silently)
    }

    /// DHCPRELEASE.
    fn released(
        &mut self,
        call: &Call,
        server: Option<Ipv4Addr>,
        address: Ipv4Addr,
        out: &mut Outputs,
    ) -> Result<Answered, DropReason> {
        self.check_server(server)?;
        let entry = self.subscribers.get(call.index);
        let online = entry.and_then(|entry| entry.online.as_ref());
        if online.is_none_or(|online| online.session.lease.address != address) || self.is_elsewhere(call) {
            return Err(DropReason::NoLease);
        }
        self.end(call.index, EndCause::Released, out);
        Ok(Answered::Silently)
    }

    /// DHCPINFORM: all but the lease.
    fn inform(&mut self, call: &Call, address: Ipv4Addr) -> Result<Answered, DropReason> {
        let entry = self.subscribers.get(call.index);
        let online = entry.and_then(|entry| entry.online.as_ref());
        match online.is_some_and(|online| online.session.lease.address == address) && !self.is_elsewhere(call)
        {
            true => Ok(Answered::Now(Outcome::Up(address), self.reply(call, MessageType::Ack, None)?)),
            false => Err(DropReason::NoLease),
        }
    }

    /// Whether the session of the subscriber is one of another device.
    fn is_elsewhere(&self, call: &Call) -> bool {
        let entry = self.subscribers.get(call.index);
        let online = entry.and_then(|entry| entry.online.as_ref());
        online.is_some_and(|online| online.session.lease.device != call.device)
    }

    /// A message without a server identifier is for this server.
    fn check_server(&self, server: Option<Ipv4Addr>) -> Result<(), DropReason> {
        if server.is_none_or(|server| self.is_server(server)) { Ok(()) } else { Err(DropReason::OtherServer) }
    }

    pub(super) fn is_server(&self, address: Ipv4Addr) -> bool {
        self.addresses.pools().iter().any(|pool| pool.router == address)
    }

    /// The times of a lease, which lasts no longer than the session may.
    fn lease_times(&self, call: &Call) -> LeaseTimes {
        let times = self.config.lease;
        let Some(entry) = self.subscribers.get(call.index) else { return times };
        let online = entry.online.as_ref().filter(|online| online.session.lease.device == call.device);
        let of_session = online.and_then(|online| online.session.lease.account.clone());
        let account = call.account.clone().or_else(|| self.permitted(call)).or(of_session);
        let limits = self.limits_of(&entry.subscriber, account.as_ref());
        let is_walled = account.is_some_and(|account| account.is_walled);
        // A session that is walled in the end goes on.
        let ends = self.config.at_limit == AtLimit::End && !is_walled;
        let Some(timeout) = limits.session_timeout_s.filter(|timeout| *timeout > 0 && ends) else {
            return times;
        };
        let lasted_s = online.map_or(0, |online| self.now.wall_s.saturating_sub(online.session.start_s));
        let left_s = u64::from(timeout).saturating_sub(lasted_s).max(LEAST_LEASE_S);
        match u32::try_from(left_s) {
            Ok(left_s) if left_s < times.lease_s => LeaseTimes::of(left_s),
            _ => times,
        }
    }

    /// The URI of option 114 for the client (RFC 8910): that of the API, which says whether the client is in the walled garden, and by
    /// that when it is not any more. Where there is none, walled clients get that of the portal.
    fn captive_uri(&self, call: &Call) -> Option<&str> {
        let entry = self.subscribers.get(call.index)?;
        let status = match &entry.online {
            Some(online) => Bng::status(&entry.subscriber, &online.session),
            None => entry.subscriber.status,
        };
        let portal = self.config.portal.as_deref().filter(|_| status == Status::Walled);
        // A client that is not walled needs it only to ask later.
        let is_wanted = status == Status::Walled || call.request.wants(CAPTIVE_PORTAL);
        self.config.captive.as_deref().filter(|_| is_wanted).or(portal)
    }

    /// The frame of an answer; `assigned` is the address of an offer or a lease.
    pub(super) fn reply(
        &self,
        call: &Call,
        kind: MessageType,
        assigned: Option<Ipv4Addr>,
    ) -> Result<Vec<u8>, DropReason> {
        let address = assigned.or_else(|| self.current_address(call.index));
        let pool = address.and_then(|address| self.addresses.pool(address));
        // A fixed address need not be of a pool: it is reached by the first router.
        let pool = pool.or(self.addresses.pools().first()).ok_or(DropReason::PoolExhausted)?;
        let is_of_pool = address.is_some_and(|address| pool.has(address));
        let mask = if is_of_pool { pool.mask() } else { Ipv4Addr::BROADCAST };
        let captive = self.captive_uri(call);
        let network = Network { mask, router: pool.router, dns: &self.config.dns, captive };
        let reply = Reply {
            kind,
            src_mac: call.src_mac,
            server: pool.router,
            lease: assigned.map(|address| (address, self.lease_times(call))),
            network: (kind != MessageType::Nak).then_some(network),
        };
        reply.frame(&call.request)
    }
}

/// A lease to be granted, and the answer to its client.
pub(super) struct Grant {
    pub(super) device: Device,
    pub(super) client_id: Option<Box<[u8]>>,
    pub(super) address: Ipv4Addr,
    pub(super) prefix: Option<LinkPrefix>,
    /// For how long, s.
    pub(super) lease_s: u32,
    pub(super) ppp: Option<PppLink>,
    /// What AAA has said of it.
    pub(super) account: Option<Account>,
    pub(super) answer: Answer,
}

/// Whether relays and access nodes on a port may say what they say (RFC 3046, section 2.1; TR-101, R-184).
fn check_way(port: &Port, request: &Request) -> Result<(), DropReason> {
    match request.relay() {
        Some(relay) if !port.relays.contains(&relay) => Err(DropReason::GiaddrRefused),
        None if request.relay_info.is_some() && !port.is_trusted => Err(DropReason::Option82Untrusted),
        _ => Ok(()),
    }
}
