//! What a device and the far end do with all frames but DHCP: ARP, first packets, numbered traffic, the interface of device 0.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use weir_bng::pppoe::{DISCOVERY, SESSION};
use weir_bng::{LinkPrefix, Mac, Tags};
use weir_packet::fields::{be16, be32, put};
use weir_packet::neighbour::{self, Heard, Host};

use super::{Emulator, Output, Phase, Side};
use crate::device::State;
use crate::numbered::{Kind, Number, Route, SHORTEST_FRAME};
use crate::options::Tapped;
use crate::summary::Step;
use crate::traffic::Direction;
use crate::wire::{ADDRESSES, Head, IPV4, IPV6, tagged, untagged};

/// UDP port of the devices.
const DEVICE_PORT: u16 = 49_152;
/// A first packet is sent again after this time, or after a quarter of the time since the first one.
const FIRST_PACKET_NS: u64 = 10_000_000;
/// Most time between two questions for a gateway.
const ARP_NS: u64 = 1_000_000_000;
const ARP: u16 = 0x0806;
/// Bytes of an Ethernet header without tags.
const ETHERNET: usize = 14;
const CLIENT_PORT: u16 = 68;

impl Emulator {
    /// Takes in a frame of the access side.
    pub fn access_frame(&mut self, frame: &[u8], now_ns: u64, out: &mut Vec<Output>) {
        let mut room = std::mem::take(&mut self.room);
        if let Some((tags, frame)) = untagged(frame, &mut room) {
            self.line_frame(tags, frame, now_ns, out);
        }
        self.room = room;
    }

    fn line_frame(&mut self, tags: Tags, frame: &[u8], now_ns: u64, out: &mut Vec<Output>) {
        let kind = be16(frame, 12).unwrap_or(0);
        if self.options.pppoe.is_some() {
            return match kind {
                DISCOVERY => self.discovery(tags, frame, now_ns, out),
                SESSION => self.session_frame(tags, frame, now_ns, out),
                _ => {}
            };
        }
        if kind == IPV4 && is_to_dhcp_client(frame) {
            return self.dhcp(tags, frame, now_ns, out);
        }
        if kind == ARP {
            self.arp(tags, frame, now_ns, out);
        }
        self.packet_at_device(tags, frame, now_ns, out);
    }

    /// A frame for a device that is no message of DHCP or PPPoE.
    pub(super) fn packet_at_device(&mut self, tags: Tags, frame: &[u8], now_ns: u64, out: &mut Vec<Output>) {
        if let Some((route, number)) = Number::read(frame).filter(|(_, number)| number.run == self.run) {
            return self.numbered_at_device(tags, &route, &number, now_ns);
        }
        let Some(dst) = frame.first_chunk().copied().map(Mac) else { return };
        match self.options.tap {
            Tapped::None => {}
            Tapped::First => {
                let is_own = dst == self.options.mac(0) || !dst.is_station();
                if is_own && tags == self.tags(0) {
                    out.push(Output::Tap(frame.to_vec()));
                }
            }
            Tapped::All => {
                let number = self.options.device(dst).filter(|number| self.tags(*number) == tags);
                if number.is_some() && be16(frame, 12) == Some(IPV4) {
                    let mut frame = frame.to_vec();
                    put(&mut frame, 0, self.options.mac(0).0);
                    out.push(Output::Tap(frame));
                }
            }
        }
    }

    /// Takes in a frame of the far side.
    pub fn far_frame(&mut self, frame: &[u8], now_ns: u64, out: &mut Vec<Output>) {
        let Some(far) = &mut self.far else { return };
        let Some((route, number)) = Number::read(frame) else {
            out.extend(far.neighbour(frame).map(Output::Far));
            return;
        };
        if number.run != self.run || !far.is(route.dst) || number.kind == Kind::ToSubscriber {
            return;
        }
        far.peer = Some(route.src_mac);
        if !self.may_be_from(route.src.ip(), number.device) {
            self.foreign += 1;
            return;
        }
        match (number.kind, &mut self.traffic) {
            (Kind::First, _) => self.first_packet_arrived(number.device, now_ns),
            (_, Some(traffic)) => {
                let latency_ns = now_ns.saturating_sub(number.sent_ns);
                traffic.arrived(Direction::FromSubscriber, &number, route.is_v6(), latency_ns);
            }
            _ => {}
        }
    }

    /// Whether an address is that of a device, or of none: behind a NAT, or of a session that has ended.
    fn may_be_from(&self, address: IpAddr, device: u32) -> bool {
        match address {
            IpAddr::V4(address) => self.by_address.get(&address).is_none_or(|owner| *owner == device),
            IpAddr::V6(address) => {
                let prefix = self.sessions.get(device as usize).and_then(|session| session.prefix);
                prefix.is_none_or(|prefix| prefix == LinkPrefix::of(address))
            }
        }
    }

    /// Takes in a frame of the interface of device 0, or of all.
    pub fn tap_frame(&mut self, frame: &[u8], out: &mut Vec<Output>) {
        let is_own = frame.len() >= ETHERNET && frame.get(6..12) == Some(&self.options.mac(0).0[..]);
        let Some(device) = self.devices.first().filter(|device| device.is_bound() && is_own) else { return };
        let answers = self.options.pppoe.is_some() || self.options.tap == Tapped::All;
        let Some(heard) = answers.then(|| neighbour::parse(frame)).flatten() else {
            out.extend(self.stack_frame(frame));
            return;
        };
        // There is no address resolution in PPP: the emulator answers for all hosts but the device itself.
        if let Heard::Question { from, target } = heard
            && target != IpAddr::V4(device.address)
            && !from.ip.is_unspecified()
        {
            let own = Host { mac: device.server_mac.0, ip: target };
            out.push(Output::Tap(neighbour::answer(own, from)));
        }
    }

    /// A packet of the interface as a frame of its device.
    fn stack_frame(&self, frame: &[u8]) -> Option<Output> {
        if self.options.tap != Tapped::All {
            return self.on_line(0, frame.to_vec());
        }
        let source = be32(frame, ETHERNET + 12).filter(|_| be16(frame, 12) == Some(IPV4))?;
        let number = *self.by_address.get(&Ipv4Addr::from(source))?;
        let device = self.devices.get(number as usize)?;
        let mut frame = frame.to_vec();
        put(&mut frame, 0, device.next_hop_mac.0);
        put(&mut frame, 6, self.options.mac(number).0);
        self.on_line(number, frame)
    }

    /// A device has an address; it asks for the MAC address of its gateway.
    pub(super) fn resolve(&mut self, number: u32, now_ns: u64, out: &mut Vec<Output>) {
        let device = &mut self.devices[number as usize];
        device.enter(State::Resolving, now_ns);
        match (device.next_hop, self.options.far) {
            (Some(_), _) => self.ask_gateway(number, now_ns, out),
            (None, None) => self.is_up(number, now_ns),
            (None, Some(_)) => self.fail(number, Step::Arp, now_ns),
        }
    }

    /// Asks for it, for the first time or again.
    pub(super) fn ask_gateway(&mut self, number: u32, now_ns: u64, out: &mut Vec<Output>) {
        let device = &mut self.devices[number as usize];
        let Some(target) = device.next_hop.filter(|_| device.sends < self.options.tries) else {
            return self.fail(number, Step::Arp, now_ns);
        };
        device.sends += 1;
        self.retransmissions.arp += u64::from(device.sends > 1);
        let from = Host { mac: self.options.mac(number).0, ip: device.address.into() };
        let frame = neighbour::question(from, target.into());
        out.push(Output::Access(tagged(self.tags(number), frame)));
        let wait_ns = (self.options.timeout.as_nanos() as u64).min(ARP_NS);
        self.set_due(number, now_ns + wait_ns);
    }

    fn arp(&mut self, tags: Tags, frame: &[u8], now_ns: u64, out: &mut Vec<Output>) {
        match neighbour::parse(frame) {
            Some(Heard::Question { from, target: IpAddr::V4(target) }) => {
                let owner = self.by_address.get(&target).copied().filter(|owner| self.tags(*owner) == tags);
                // The kernel answers for the device that is an interface.
                let is_stack = |owner: u32| owner == 0 && self.options.tap == Tapped::First;
                let Some(number) = owner.filter(|owner| !is_stack(*owner)) else { return };
                self.messages.arp_answers += 1;
                let own = Host { mac: self.options.mac(number).0, ip: target.into() };
                out.push(Output::Access(tagged(tags, neighbour::answer(own, from))));
            }
            Some(Heard::Answer(gateway)) => {
                let to = frame.first_chunk().copied().map(Mac).and_then(|mac| self.options.device(mac));
                let Some(number) = to.filter(|number| self.tags(*number) == tags) else { return };
                let device = &mut self.devices[number as usize];
                let is_awaited =
                    device.state == State::Resolving && device.next_hop.map(IpAddr::from) == Some(gateway.ip);
                if is_awaited {
                    device.next_hop_mac = Mac(gateway.mac);
                    self.has_gateway(number, now_ns, out);
                }
            }
            _ => {}
        }
    }

    /// A device can send packets: its first one, if there is a far end.
    pub(super) fn has_gateway(&mut self, number: u32, now_ns: u64, out: &mut Vec<Output>) {
        let was_up = self.sessions.get(number as usize).is_some_and(|session| session.was_up);
        if self.options.far.is_none() || was_up {
            return self.is_up(number, now_ns);
        }
        self.devices[number as usize].enter(State::Proving, now_ns);
        self.prove(number, now_ns, out);
    }

    /// Sends the first packet, or sends it again.
    pub(super) fn prove(&mut self, number: u32, now_ns: u64, out: &mut Vec<Output>) {
        let device = &mut self.devices[number as usize];
        let waited_ns = now_ns - device.since_ns;
        if waited_ns >= self.options.first_packet_timeout.as_nanos() as u64 {
            return self.give_up(number, Step::FirstPacket, now_ns, out);
        }
        let sequence = device.sends;
        device.sends += 1;
        self.retransmissions.first_packet += u64::from(sequence > 0);
        let mut frame = vec![0; SHORTEST_FRAME];
        if let Some(route) = self.route(Direction::FromSubscriber, number) {
            self.number(Kind::First, number, sequence, now_ns).write(&route, &mut frame);
        }
        out.extend(self.on_line(number, frame));
        self.set_due(number, now_ns + FIRST_PACKET_NS.max(waited_ns / 4));
    }

    fn first_packet_arrived(&mut self, number: u32, now_ns: u64) {
        let Some(device) = self.devices.get_mut(number as usize) else { return };
        if device.state == State::Proving {
            if !device.was_up {
                device.first_packet_ns = now_ns - device.first_ns;
            }
            self.is_up(number, now_ns);
        }
    }

    fn numbered_at_device(&mut self, tags: Tags, route: &Route, number: &Number, now_ns: u64) {
        let device = number.device;
        let belongs = self.options.device(route.dst_mac) == Some(device) && self.tags(device) == tags;
        if !belongs {
            self.foreign += 1;
            return;
        }
        match (number.kind, &mut self.traffic) {
            // It came back.
            (Kind::First, _) => self.first_packet_arrived(device, now_ns),
            (Kind::ToSubscriber, Some(traffic)) => {
                let latency_ns = now_ns.saturating_sub(number.sent_ns);
                traffic.arrived(Direction::ToSubscriber, number, route.is_v6(), latency_ns);
            }
            _ => {}
        }
    }

    /// Writes the next frame of the numbered traffic that is due on a side, with its tags; its length.
    pub fn traffic(&mut self, side: Side, now_ns: u64, frame: &mut [u8]) -> Option<usize> {
        let (direction, kind) = match side {
            Side::Access => (Direction::FromSubscriber, Kind::FromSubscriber),
            Side::Far => (Direction::ToSubscriber, Kind::ToSubscriber),
        };
        let traffic = self.traffic.as_mut().filter(|_| self.phase == Phase::Holding)?;
        let bytes = traffic.frame_bytes;
        let (device, sequence) = loop {
            let (device, sequence) = traffic.next(direction, now_ns)?;
            if self.devices[device as usize].is_up() {
                break (device, sequence);
            }
            traffic.omit(direction, device);
        };
        let route6 = (sequence % 2 == 1).then(|| self.route6(direction, device)).flatten();
        let ip = if route6.is_some() { IPV6 } else { IPV4 };
        let route = route6.or_else(|| self.route(direction, device))?;
        if let Some(traffic) = self.traffic.as_mut().filter(|_| ip == IPV6) {
            traffic.is_ipv6(direction);
        }
        let number = self.number(kind, device, sequence, now_ns);
        let head = match side {
            Side::Access => {
                let packet_bytes = bytes.saturating_sub(ETHERNET);
                Head::of_packet(ip, self.tags(device), self.session_id(device), packet_bytes)
            }
            Side::Far => Head::of_packet(ip, Tags::None, None, 0),
        };
        // The frame stands behind its place by what is longer than an EtherType, then both addresses go to the front.
        let place = head.bytes().len() - 2;
        number.write(&route, frame.get_mut(place..place + bytes)?);
        if place > 0 {
            frame.copy_within(place..place + ADDRESSES, 0);
            frame.get_mut(ADDRESSES..ADDRESSES + place + 2)?.copy_from_slice(head.bytes());
        }
        Some(place + bytes)
    }

    /// The next frame of the flood that is due, with its tags.
    pub(crate) fn flood(&mut self, now_ns: u64) -> Option<Vec<u8>> {
        self.flooding.as_mut().filter(|_| self.phase == Phase::Holding)?.next(now_ns)
    }

    /// How a packet of a device travels; `None`: nothing has come from the BNG's far side yet.
    fn route(&self, direction: Direction, number: u32) -> Option<Route> {
        let device = self.devices.get(number as usize)?;
        let own = SocketAddr::from((device.address, DEVICE_PORT));
        match direction {
            Direction::FromSubscriber => Some(Route {
                src_mac: self.options.mac(number),
                dst_mac: device.next_hop_mac,
                src: own,
                dst: self.options.far?.into(),
            }),
            Direction::ToSubscriber => {
                let far = self.far.as_ref()?;
                Some(Route { src_mac: far.mac, dst_mac: far.peer?, src: far.end.into(), dst: own })
            }
        }
    }

    /// The same of IPv6; `None`: the far end or the device has no address of IPv6.
    fn route6(&self, direction: Direction, number: u32) -> Option<Route> {
        let (far, session) = (self.far.as_ref()?.end6()?, self.sessions.get(number as usize)?);
        let own = SocketAddr::from((session.prefix?.host(session.ipv6?.own), DEVICE_PORT));
        let route = self.route(direction, number)?;
        Some(match direction {
            Direction::FromSubscriber => Route { src: own, dst: far, ..route },
            Direction::ToSubscriber => Route { src: far, dst: own, ..route },
        })
    }

    fn number(&self, kind: Kind, device: u32, sequence: u32, sent_ns: u64) -> Number {
        Number { run: self.run, kind, device, sequence, sent_ns }
    }
}

/// Whether an IPv4 frame carries UDP to port 68, whatever else is wrong with it.
fn is_to_dhcp_client(frame: &[u8]) -> bool {
    let Some(&first) = frame.get(14) else { return false };
    let header_bytes = usize::from(first & 15) * 4;
    frame.get(23) == Some(&17) && be16(frame, 14 + header_bytes + 2) == Some(CLIENT_PORT)
}
