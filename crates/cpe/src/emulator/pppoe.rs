//! What a device does with PPPoE: discovery, PPP, and echoes of sessions that are up.
//!
//! ```text
//!  PADI > PADO > PADR > PADS > Endpoint: LCP > PAP or CHAP > IPCP, IPV6CP > first packet > up; the endpoint is dropped
//!                              a packet of LCP or an NCP in a session that is up makes it anew
//! ```

use std::net::Ipv4Addr;
use std::time::Duration;

use weir_bng::ppp::endpoint::{Endpoint, Layer, Output as Ppp, Stage};
use weir_bng::ppp::ipcp::Addresses;
use weir_bng::ppp::packet::{Packet, code};
use weir_bng::ppp::protocol;
use weir_bng::pppoe::discovery::{Code, Discovery};
use weir_bng::pppoe::session::SessionFrame;
use weir_bng::ra::{self, Advertisement};
use weir_bng::{Mac, Tags};

use super::{Emulator, Output};
use crate::device::{NEVER, State};
use crate::dial;
use crate::options::{Pppoe, Preset};
use crate::session::{MOST_ECHOES, Work};
use crate::summary::Step;
use crate::wire::out_of_session;

impl Emulator {
    /// A device begins to dial in.
    pub(super) fn solicit(&mut self, number: u32, now_ns: u64, out: &mut Vec<Output>) {
        let Some(pppoe) = &self.options.pppoe else { return };
        let dial_end_ns = now_ns.saturating_add(pppoe.dial_timeout.as_nanos() as u64);
        let xid = self.rng.next_u64() as u32;
        let device = &mut self.devices[number as usize];
        device.enter(State::Soliciting, now_ns);
        device.xid = xid;
        let session = &mut self.sessions[number as usize];
        session.end();
        session.dial_end_ns = dial_end_ns;
        match pppoe.preset {
            None => self.send_discovery(number, now_ns, out),
            Some(preset) => self.take_preset(number, preset, now_ns, out),
        }
    }

    /// The session of a device exists already.
    fn take_preset(&mut self, number: u32, preset: Preset, now_ns: u64, out: &mut Vec<Output>) {
        let session = &mut self.sessions[number as usize];
        let none = Ipv4Addr::UNSPECIFIED;
        session.id = preset.id(number);
        session.ipv4 = Some(Addresses { gateway: none, client: preset.address(number), dns: [none; 2] });
        let device = &mut self.devices[number as usize];
        (device.server_mac, device.next_hop_mac) = (preset.bng_mac, preset.bng_mac);
        match self.take_address(number, now_ns) {
            true => self.has_gateway(number, now_ns, out),
            false => self.give_up(number, Step::Ipcp, now_ns, out),
        }
    }

    /// Sends PADI or PADR, for the first time or again.
    fn send_discovery(&mut self, number: u32, now_ns: u64, out: &mut Vec<Output>) {
        let Some(pppoe) = &self.options.pppoe else { return };
        let device = &mut self.devices[number as usize];
        let session = &self.sessions[number as usize];
        let step = session.step;
        if device.sends >= self.options.tries {
            return self.give_up(number, step, now_ns, out);
        }
        device.sends += 1;
        let (xid, again) = (device.xid, u64::from(device.sends > 1));
        let frame = match &session.work {
            Work::Offer(offer) => {
                self.messages.padrs += 1;
                self.retransmissions.padr += again;
                dial::padr(&self.options, pppoe, number, xid, device.server_mac, offer)
            }
            _ => {
                self.messages.padis += 1;
                self.retransmissions.padi += again;
                dial::padi(&self.options, pppoe, number, xid)
            }
        };
        let sends = device.sends;
        self.send_control(number, frame, now_ns, out);
        let wait_ns = self.retransmission_ns(sends);
        self.set_dial_due(number, now_ns + wait_ns);
    }

    /// The next deadline of a device that dials.
    fn set_dial_due(&mut self, number: u32, due_ns: u64) {
        let end_ns = self.sessions[number as usize].dial_end_ns;
        self.set_due(number, due_ns.min(end_ns));
    }

    /// A device that dials did not get what it waited for.
    pub(super) fn dial_deadline(&mut self, number: u32, now_ns: u64, out: &mut Vec<Output>) {
        let session = &mut self.sessions[number as usize];
        if now_ns >= session.dial_end_ns {
            let step = session.step;
            return self.give_up(number, step, now_ns, out);
        }
        let Some(mut endpoint) = session.take_endpoint() else {
            return self.send_discovery(number, now_ns, out);
        };
        let mut said = Vec::new();
        endpoint.timer(Duration::from_nanos(now_ns), &mut said);
        let sent = said.iter().filter(|said| matches!(said, Ppp::Send { .. }));
        self.retransmissions.ppp += sent.count() as u64;
        self.proceed(number, endpoint, said, now_ns, out);
    }

    /// Takes in a packet of discovery, which had these tags.
    pub(super) fn discovery(&mut self, tags: Tags, frame: &[u8], now_ns: u64, out: &mut Vec<Output>) {
        if self.loses_answer() {
            return;
        }
        let Ok(packet) = Discovery::read(frame) else {
            self.messages.malformed += 1;
            return;
        };
        let Some(number) = self.device_of(packet.dst, tags) else { return };
        let is_taken = match packet.code {
            Code::Pado => self.pado(number, packet, now_ns, out),
            Code::Pads => self.pads(number, &packet, now_ns, out),
            Code::Padt => self.padt(number, &packet, now_ns, out),
            Code::Padi | Code::Padr => false,
        };
        self.messages.unexpected += u64::from(!is_taken);
    }

    /// The device of a frame; `None`, counted: it is of none, or came with the tags of another one.
    fn device_of(&mut self, dst: Mac, tags: Tags) -> Option<u32> {
        let number = self.options.device(dst);
        match number {
            None => self.messages.unexpected += 1,
            Some(number) if self.tags(number) != tags => self.foreign += 1,
            _ => return number,
        }
        None
    }

    /// Takes the first offer of this exchange.
    fn pado(&mut self, number: u32, packet: Discovery, now_ns: u64, out: &mut Vec<Output>) -> bool {
        let device = &mut self.devices[number as usize];
        if device.state != State::Soliciting || !dial::is_answer(&packet, number, device.xid) {
            return false;
        }
        self.messages.pados += 1;
        device.enter(State::Confirming, now_ns);
        device.server_mac = packet.src;
        let session = &mut self.sessions[number as usize];
        session.step = Step::Padr;
        session.work = Work::Offer(Box::new(packet.tags));
        self.send_discovery(number, now_ns, out);
        true
    }

    /// The session has an id, or is refused.
    fn pads(&mut self, number: u32, packet: &Discovery, now_ns: u64, out: &mut Vec<Output>) -> bool {
        let Some(pppoe) = &self.options.pppoe else { return false };
        let device = &mut self.devices[number as usize];
        let is_awaited = device.state == State::Confirming
            && device.server_mac == packet.src
            && dial::is_of(packet, number, device.xid);
        if !is_awaited {
            return false;
        }
        self.messages.padss += 1;
        if packet.session_id == 0 || !dial::is_answer(packet, number, device.xid) {
            self.give_up(number, Step::Padr, now_ns, out);
            return true;
        }
        device.enter(State::Negotiating, now_ns);
        device.next_hop_mac = packet.src;
        let role = dial::role(&self.options, pppoe, number);
        let (mru, timers) = (dial::max_mru(packet, pppoe), dial::timers(&self.options));
        let mut endpoint = Box::new(Endpoint::new(role, mru, timers, &mut self.random));
        let session = &mut self.sessions[number as usize];
        (session.id, session.step, session.work) = (packet.session_id, Step::Lcp, Work::None);
        let mut said = Vec::new();
        endpoint.start(Duration::from_nanos(now_ns), &mut said);
        self.proceed(number, endpoint, said, now_ns, out);
        true
    }

    /// The BNG has ended the session.
    fn padt(&mut self, number: u32, packet: &Discovery, now_ns: u64, out: &mut Vec<Output>) -> bool {
        let session = &mut self.sessions[number as usize];
        let device = &self.devices[number as usize];
        if session.id == 0 || (session.id, device.server_mac) != (packet.session_id, packet.src) {
            return false;
        }
        self.messages.padts_received += 1;
        let step = session.failed_at(session.step);
        session.end();
        self.give_up(number, step, now_ns, out);
        true
    }

    /// Takes in a frame of a session, which had these tags.
    pub(super) fn session_frame(&mut self, tags: Tags, frame: &[u8], now_ns: u64, out: &mut Vec<Output>) {
        let Ok(frame) = SessionFrame::read(frame) else {
            self.messages.malformed += 1;
            return;
        };
        let Some(number) = self.device_of(frame.dst, tags) else { return };
        let (session, device) = (&self.sessions[number as usize], &self.devices[number as usize]);
        let is_packet = matches!(frame.protocol, protocol::IPV4 | protocol::IPV6);
        if session.id == 0 || (session.id, device.server_mac) != (frame.session_id, frame.src) {
            // A packet of a session that this device never had is that of another one.
            let is_late = session.previous_id == frame.session_id;
            let is_bound = device.is_bound();
            if is_packet && is_late {
                self.late_packet(frame.payload, frame.protocol);
            }
            if is_packet && !is_late && is_bound {
                self.foreign += 1;
            } else {
                self.messages.unexpected += 1;
            }
        } else if is_packet {
            if frame.protocol == protocol::IPV6 {
                self.advertised(number, frame.payload, now_ns);
            }
            let mut room = std::mem::take(&mut self.packet_room);
            if out_of_session(&frame, &mut room) {
                self.packet_at_device(tags, &room, now_ns, out);
            }
            self.packet_room = room;
        } else {
            if !self.loses_answer() {
                self.ppp(number, &frame, now_ns, out);
            }
        }
    }

    /// A packet of a session that its device has just ended: the BNG sent it before it knew.
    fn late_packet(&mut self, packet: &[u8], protocol: u16) {
        let is_v6 = protocol == protocol::IPV6;
        if !is_v6 || Advertisement::read(packet).is_none() {
            self.churn.late += 1;
            self.churn.late6 += u64::from(is_v6);
        }
    }

    /// A packet of IPv6, which may be a router advertisement: the device makes its address of the prefix in it.
    fn advertised(&mut self, number: u32, packet: &[u8], now_ns: u64) {
        let session = &mut self.sessions[number as usize];
        let Some((_, advertisement)) = Advertisement::read(packet).filter(|_| session.ipv6.is_some()) else {
            return;
        };
        self.messages.advertisements += 1;
        let had_none = session.prefix.is_none();
        session.prefix = advertisement.prefix.map(|found| found.prefix).or(session.prefix);
        if had_none && session.prefix.is_some() {
            let device = &mut self.devices[number as usize];
            device.had_prefix = true;
            if device.is_up() {
                // No further solicitation is due.
                let due_ns = self.up_due_ns(number, now_ns);
                self.set_due(number, due_ns);
            }
        }
    }

    fn ppp(&mut self, number: u32, frame: &SessionFrame<'_>, now_ns: u64, out: &mut Vec<Output>) {
        self.messages.ppp_received += 1;
        let is_bound = self.devices[number as usize].is_bound();
        if is_bound && frame.protocol == protocol::LCP && self.echo(number, frame.payload, now_ns, out) {
            return;
        }
        let endpoint = self.sessions[number as usize].take_endpoint();
        let Some(mut endpoint) = endpoint.or_else(|| is_bound.then(|| self.restored(number)).flatten())
        else {
            self.messages.unexpected += 1;
            return;
        };
        let mut said = Vec::new();
        let now = Duration::from_nanos(now_ns);
        let is_taken = endpoint.frame(now, frame.protocol, frame.payload, &mut said);
        self.messages.unexpected += u64::from(!is_taken);
        self.proceed(number, endpoint, said, now_ns, out);
    }

    /// The negotiation of a session that is up, from what was kept of it.
    fn restored(&mut self, number: u32) -> Option<Box<Endpoint>> {
        let role = dial::role(&self.options, self.options.pppoe.as_ref()?, number);
        let session = &self.sessions[number as usize];
        let (agreed, layers) = (session.agreed, session.layers());
        let timers = dial::timers(&self.options);
        Some(Box::new(Endpoint::opened(role, agreed, &layers, timers, &mut self.random)))
    }

    /// Answers an Echo-Request, or takes the answer to an own one. False: it is another packet.
    fn echo(&mut self, number: u32, payload: &[u8], now_ns: u64, out: &mut Vec<Output>) -> bool {
        let Some(packet) = Packet::read(payload) else { return false };
        let session = &mut self.sessions[number as usize];
        match packet.code {
            code::ECHO_REQUEST => {
                let magic = session.agreed.magic.to_be_bytes();
                let data: Vec<u8> = magic.iter().chain(packet.data.iter().skip(4)).copied().collect();
                let reply = Packet { code: code::ECHO_REPLY, id: packet.id, data: &data }.write();
                self.messages.echoes_answered += 1;
                self.send_ppp(number, protocol::LCP, &reply, now_ns, out);
            }
            code::ECHO_REPLY => {
                let is_own = packet.id == session.echo_id && session.echoes > 0;
                self.messages.echo_replies += u64::from(is_own);
                self.messages.unexpected += u64::from(!is_own);
                if is_own {
                    session.echoes = 0;
                }
            }
            _ => return false,
        }
        true
    }

    /// Sends a router solicitation if one is due; they are repeated until an advertisement comes.
    fn solicit_router(&mut self, number: u32, now_ns: u64, out: &mut Vec<Output>) -> bool {
        let Some(src) = self.sessions[number as usize].solicit(now_ns) else { return false };
        self.messages.solicitations += 1;
        self.send_ppp(number, protocol::IPV6, &ra::solicitation(src), now_ns, out);
        true
    }

    /// Time for a router solicitation or an Echo-Request of a session that is up.
    pub(super) fn attend_session(&mut self, number: u32, now_ns: u64, out: &mut Vec<Output>) {
        if !self.solicit_router(number, now_ns, out) {
            return self.ask_echo(number, now_ns, out);
        }
        let due_ns = self.up_due_ns(number, now_ns);
        self.set_due(number, due_ns);
    }

    /// Time for an Echo-Request of a session that is up; one without answers has ended.
    fn ask_echo(&mut self, number: u32, now_ns: u64, out: &mut Vec<Output>) {
        let session = &mut self.sessions[number as usize];
        if session.echoes >= MOST_ECHOES {
            return self.give_up(number, Step::Ended, now_ns, out);
        }
        session.echoes += 1;
        session.echo_id = session.echo_id.wrapping_add(1);
        let magic = session.agreed.magic.to_be_bytes();
        let request = Packet { code: code::ECHO_REQUEST, id: session.echo_id, data: &magic }.write();
        self.messages.echoes += 1;
        self.send_ppp(number, protocol::LCP, &request, now_ns, out);
        let due_ns = self.up_due_ns(number, now_ns);
        self.set_due(number, due_ns);
    }

    /// When the next Echo-Request is due.
    pub(super) fn echo_due_ns(&self, now_ns: u64) -> u64 {
        let interval = self.options.pppoe.as_ref().and_then(|pppoe: &Pppoe| pppoe.echo);
        interval.map_or(NEVER, |interval| now_ns.saturating_add(interval.as_nanos() as u64))
    }

    /// Does what the negotiation wants, and keeps it as long as it has something to do.
    fn proceed(
        &mut self,
        number: u32,
        endpoint: Box<Endpoint>,
        said: Vec<Ppp>,
        now_ns: u64,
        out: &mut Vec<Output>,
    ) {
        let mut has_ended = false;
        for said in said {
            let session = &mut self.sessions[number as usize];
            match said {
                Ppp::Send { protocol, payload } => self.send_ppp(number, protocol, &payload, now_ns, out),
                Ppp::Up(Layer::Ipv4(addresses)) => {
                    session.ipv4 = Some(addresses);
                    if !self.take_address(number, now_ns) {
                        return self.give_up(number, Step::Ipcp, now_ns, out);
                    }
                }
                Ppp::Up(Layer::Ipv6(ids)) => {
                    session.ipv6 = Some(ids);
                    self.solicit_router(number, now_ns, out);
                }
                Ppp::Down(Layer::Ipv4(_)) => {
                    session.ipv4 = None;
                    self.forget_address(number);
                }
                Ppp::Down(Layer::Ipv6(_)) => session.close_ipv6(),
                Ppp::Ended(_) => has_ended = true,
                // Only a concentrator asks.
                Ppp::Ask(_) => {}
            }
        }
        let session = &mut self.sessions[number as usize];
        session.step = match endpoint.stage() {
            Stage::Link => Step::Lcp,
            Stage::Authentication => Step::Auth,
            Stage::Network if session.ipv4.is_none() => Step::Ipcp,
            Stage::Network => Step::Ipv6cp,
            Stage::End => session.step,
        };
        let step = session.step;
        if has_ended {
            return self.give_up(number, step, now_ns, out);
        }
        match endpoint.deadline() {
            None if endpoint.stage() == Stage::Network => {
                self.network_is_settled(number, &endpoint, now_ns, out)
            }
            deadline => self.negotiate(number, endpoint, deadline, now_ns),
        }
    }

    /// The negotiation goes on; also that of a session that was up.
    fn negotiate(&mut self, number: u32, endpoint: Box<Endpoint>, deadline: Option<Duration>, now_ns: u64) {
        let session = &mut self.sessions[number as usize];
        session.work = Work::Ppp(endpoint);
        let device = &mut self.devices[number as usize];
        if device.state != State::Negotiating {
            device.enter(State::Negotiating, now_ns);
            let timeout = self.options.pppoe.as_ref().map_or(0, |pppoe| pppoe.dial_timeout.as_nanos() as u64);
            session.dial_end_ns = now_ns.saturating_add(timeout);
        }
        self.set_dial_due(number, deadline.map_or(NEVER, |at| at.as_nanos() as u64));
    }

    /// Nothing is left to be negotiated: each protocol of the network layer is open, or is refused.
    fn network_is_settled(&mut self, number: u32, endpoint: &Endpoint, now_ns: u64, out: &mut Vec<Output>) {
        let is_dual_stack = self.options.pppoe.as_ref().is_some_and(|pppoe| pppoe.dual_stack);
        let session = &mut self.sessions[number as usize];
        session.agreed = endpoint.agreed();
        let step = session.step;
        let is_open = session.ipv4.is_some() && (session.ipv6.is_some() || !is_dual_stack);
        match self.devices[number as usize].state {
            State::Negotiating if !is_open => self.give_up(number, step, now_ns, out),
            State::Negotiating => self.has_gateway(number, now_ns, out),
            // It was up all the time.
            _ => {}
        }
    }

    /// IPCP is open: the device has an address. False: another device has it, or no host can.
    fn take_address(&mut self, number: u32, now_ns: u64) -> bool {
        let Some(addresses) = self.sessions[number as usize].ipv4 else { return false };
        let address = addresses.client;
        let is_other = self.by_address.get(&address).is_some_and(|owner| *owner != number);
        if address.is_unspecified() || is_other {
            return false;
        }
        self.by_address.insert(address, number);
        let device = &mut self.devices[number as usize];
        device.address = address;
        device.next_hop = Some(addresses.gateway).filter(|gateway| !gateway.is_unspecified());
        self.count_bound(number, now_ns);
        true
    }

    /// A device has failed, or its session has ended; the BNG is told.
    pub(super) fn give_up(&mut self, number: u32, step: Step, now_ns: u64, out: &mut Vec<Output>) {
        let step = self.sessions.get(number as usize).map_or(step, |session| session.failed_at(step));
        self.hang_up(number, now_ns, out);
        self.fail(number, step, now_ns);
    }

    /// Ends the session of a device by PADT, if it has one.
    pub(super) fn hang_up(&mut self, number: u32, now_ns: u64, out: &mut Vec<Output>) {
        let Some(id) = self.sessions.get_mut(number as usize).and_then(|session| session.end()) else {
            return;
        };
        let server_mac = self.devices[number as usize].server_mac;
        let frame = dial::padt(self.options.mac(number), server_mac, id);
        self.messages.padts += 1;
        self.send_control(number, frame, now_ns, out);
    }

    fn send_ppp(&mut self, number: u32, protocol: u16, payload: &[u8], now_ns: u64, out: &mut Vec<Output>) {
        self.messages.ppp_sent += 1;
        let frame = SessionFrame {
            dst: self.devices[number as usize].server_mac,
            src: self.options.mac(number),
            session_id: self.sessions[number as usize].id,
            protocol,
            payload,
        };
        let frame = frame.write();
        self.send_control(number, Some(frame), now_ns, out);
    }
}
