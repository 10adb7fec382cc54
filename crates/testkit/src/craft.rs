//! Packets of every form that a node reads, each field ordinary, at a limit or at random. Then lengths and checksums are
//! made right again: a packet with a wrong sum would end in the first check, and never reach what stands behind it.
//!
//! ```text
//! new | sent before | an answer to, or an error about, what the node let out | another fragment  >  changed  >  repaired
//! ```

use std::ops::{Deref, DerefMut};

use weir_packet::checksum::{fold, pseudo_header, sum};

use crate::Dice;

const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP: u8 = 1;
const ICMP6: u8 = 58;
const FRAGMENT: u8 = 44;
/// Extension headers that a node passes over, and some that it does not know.
const EXTENSIONS: &[u8] = &[0, 43, 60, FRAGMENT, 135, 139, 140, 51, 59, 50];

/// Hosts of both sides, the node itself, what it translates to, and unused addresses.
const ADDRESSES: &[&str] = &[
    "198.18.0.2",
    "198.18.0.3",
    "198.19.0.9",
    "192.0.2.1",
    "192.0.2.9",
    "198.18.0.1",
    "198.19.0.1",
    "0.0.0.0",
    "127.0.0.1",
    "224.0.0.1",
    "255.255.255.255",
    "2001:db8:1::2",
    "2001:db8:1::3",
    "2001:db8:2::9",
    "2001:db8:2::c613:9",
    "2001:db8:2::c000:201",
    "2001:db8:1::1",
    "2001:db8:2::1",
    "::",
    "::1",
    "fe80::1",
    "ff02::1",
];
const PORTS: &[u16] = &[0, 53, 80, 1000, 1040, 1041, 1042, 1043, 1111, 5350, 5351, 65_535];
/// Places of fragments, in units of eight bytes: the last ones end behind the longest packet, or just before.
const PLACES: &[u16] = &[0, 0, 0, 1, 2, 3, 4, 8, 64, 159, 160, 185, 8189, 8190, 8191];

/// A maker of packets, with what was sent and what has left by each of two ports.
#[derive(Debug)]
pub struct Craft {
    dice: Odd,
    sent: [Vec<Vec<u8>>; 2],
    left: [Vec<Vec<u8>>; 2],
    /// The packet of which a fragment was sent last: more of them follow.
    cut: [Option<Vec<u8>>; 2],
}

impl Craft {
    /// One that has seen nothing.
    pub fn new(dice: Dice) -> Craft {
        Craft { dice: Odd(dice), sent: Default::default(), left: Default::default(), cut: Default::default() }
    }

    /// What decides.
    pub fn dice(&mut self) -> &mut Dice {
        &mut self.dice
    }

    /// Has seen an IP packet leave by a port.
    pub fn saw(&mut self, port: usize, packet: &[u8]) {
        remember(&mut self.left[port], packet.to_vec(), &mut self.dice);
    }

    /// What comes in by a port next: an Ethernet type and what stands behind it.
    pub fn payload(&mut self, port: usize) -> ([u8; 2], Vec<u8>) {
        let mut packet = match self.dice.roll(12) {
            0..=3 => None,
            4 | 5 => self.dice.0.pick(&self.sent[port]).cloned(),
            6 | 7 => self.dice.0.pick(&self.left[port]).map(|packet| turned(packet.clone())),
            8 | 9 => self.dice.0.pick(&self.left[port]).cloned().map(|packet| self.about(&packet)),
            _ => self.cut[port].clone(),
        }
        .unwrap_or_else(|| self.dice.packet(2));
        let is_cut = self.cut[port].as_ref() == Some(&packet);
        if is_cut || self.dice.one_in(12) {
            self.cut[port] = Some(packet.clone());
            packet = self.dice.fragment(packet);
        }
        if self.dice.one_in(if is_cut { 6 } else { 2 }) {
            self.dice.change(&mut packet);
        }
        if !self.dice.one_in(16) {
            repair(&mut packet);
        }
        remember(&mut self.sent[port], packet.clone(), &mut self.dice);
        let is_v6 = packet.first().is_some_and(|first| first >> 4 == 6);
        let own = if is_v6 { [0x86, 0xdd] } else { [8, 0] };
        if self.dice.one_in(24) {
            return self.dice.enclosed(own, packet);
        }
        (own, packet)
    }

    /// An ICMP error about a packet, to its sender.
    fn about(&mut self, packet: &[u8]) -> Vec<u8> {
        let quoted = &packet[..packet.len().min(self.dice.pick(&[28, 48, 64, 548, 1232]))];
        let is_v6 = packet[0] >> 4 == 6;
        let source = match packet.get(if is_v6 { 8..24 } else { 12..16 }) {
            Some(source) => source.to_vec(),
            None => self.dice.address(is_v6),
        };
        let error = self.dice.error(is_v6, quoted);
        let from = self.dice.address(is_v6);
        self.dice.ip(is_v6, (from, source), (if is_v6 { ICMP6 } else { ICMP }, error))
    }
}

/// Keeps one more of some.
fn remember(those: &mut Vec<Vec<u8>>, packet: Vec<u8>, dice: &mut Dice) {
    if packet.len() < 20 || packet.len() > 3000 {
        return;
    }
    if those.len() < 32 { those.push(packet) } else { those[dice.roll(32)] = packet }
}

/// Dice of which packets are made, mostly of odd ones.
#[derive(Debug)]
struct Odd(Dice);

impl Deref for Odd {
    type Target = Dice;

    fn deref(&self) -> &Dice {
        &self.0
    }
}

impl DerefMut for Odd {
    fn deref_mut(&mut self) -> &mut Dice {
        &mut self.0
    }
}

impl Odd {
    fn pick<T: Copy>(&mut self, those: &[T]) -> T {
        *self.0.pick(those).expect("there are some")
    }

    fn byte(&mut self) -> u8 {
        self.roll(256) as u8
    }

    fn word(&mut self) -> [u8; 2] {
        [self.byte(), self.byte()]
    }

    fn port(&mut self) -> [u8; 2] {
        if self.one_in(8) { self.word() } else { self.pick(PORTS).to_be_bytes() }
    }

    fn bytes(&mut self, most: usize) -> Vec<u8> {
        (0..self.roll(most + 1)).map(|_| self.byte()).collect()
    }

    /// A packet with its own EtherType in a frame of another kind, or with another EtherType.
    fn enclosed(&mut self, own: [u8; 2], packet: Vec<u8>) -> ([u8; 2], Vec<u8>) {
        let ppp = if own == [8, 0] { [0x00, 0x21] } else { [0x00, 0x57] };
        let length = |bytes: usize| (bytes as u16).to_be_bytes();
        let (kind, front) = match self.roll(8) {
            0 => ([0x88, 0x64], [&[0x11, 0, 0, 7][..], &length(packet.len() + 2), &ppp].concat()),
            1 => ([0x88, 0x47], vec![0, 1, 1, 64]),
            2 => (length(packet.len() + 8), [&[0xaa, 0xaa, 3, 0, 0, 0][..], &own].concat()),
            3 => ([0x81, 0], [&[0xe0, 0][..], &own].concat()),
            _ => (self.pick(&[[8, 6], [0x81, 0], [0x88, 0xa8], [0x88, 0xcc], [0x86, 0xdd]]), Vec::new()),
        };
        (kind, [front, packet].concat())
    }

    /// An address of one kind of IP.
    fn address(&mut self, is_v6: bool) -> Vec<u8> {
        loop {
            let text = self.pick(ADDRESSES);
            let bytes = match text.parse().expect("an address") {
                std::net::IpAddr::V4(address) => address.octets().to_vec(),
                std::net::IpAddr::V6(address) => address.octets().to_vec(),
            };
            if (bytes.len() == 16) == is_v6 {
                return bytes;
            }
        }
    }

    /// An IP packet; errors in it quote others, so many deep.
    fn packet(&mut self, depth: usize) -> Vec<u8> {
        let is_v6 = self.one_in(2);
        let ends = (self.address(is_v6), self.address(is_v6));
        let carried = self.carried(is_v6, depth);
        self.ip(is_v6, ends, carried)
    }

    /// A protocol, and a packet of it.
    fn carried(&mut self, is_v6: bool, depth: usize) -> (u8, Vec<u8>) {
        match self.roll(12) {
            0..=2 => (UDP, [&self.port()[..], &self.port(), &[0; 4], &self.bytes(64)].concat()),
            3..=5 => (TCP, self.tcp()),
            6 | 7 => {
                let kinds: &[u8] = if is_v6 { &[128, 129] } else { &[8, 0, 13, 14, 15, 17] };
                let echo = [&[self.pick(kinds), 0, 0, 0][..], &self.port(), &self.word(), &self.bytes(40)];
                (if is_v6 { ICMP6 } else { ICMP }, echo.concat())
            }
            8 | 9 if depth > 0 => {
                let mut quoted = if self.one_in(8) { self.bytes(64) } else { self.packet(depth - 1) };
                if !self.one_in(4) {
                    quoted.truncate(self.pick(&[20, 28, 40, 48, 56, 64, 548]));
                }
                (if is_v6 { ICMP6 } else { ICMP }, self.error(is_v6, &quoted))
            }
            // SCTP, GRE, ESP, AH, IP in IP, ICMP of the other kind, neighbours.
            10 => {
                let proto = self.pick(&[132, 47, 50, 51, 4, 41, 1, 58, 2]);
                (proto, [&self.port()[..], &self.port(), &self.bytes(64)].concat())
            }
            11 if is_v6 => {
                (ICMP6, [&[self.pick(&[133, 134, 135, 136, 137]), 0][..], &self.bytes(48)].concat())
            }
            _ => (self.byte(), self.bytes(80)),
        }
    }

    fn tcp(&mut self) -> Vec<u8> {
        let options: Vec<u8> = match self.roll(4) {
            0 => vec![2, 4, 5, 0xb4],
            1 => vec![2, 4, 5, 0xb4, 1, 3, 3, 7],
            2 => [self.bytes(3), self.bytes(40)].concat(),
            _ => Vec::new(),
        };
        let mut header = [&self.port()[..], &self.port()].concat();
        let (seq, ack) = (self.pick(&[0, 1, 2, 1000, u32::MAX]), self.pick(&[0, 1, 2, 1001u32]));
        header.extend([seq.to_be_bytes(), ack.to_be_bytes()].concat());
        let length = if self.one_in(8) { self.roll(16) } else { 5 + options.len().div_ceil(4) };
        let flags =
            if self.one_in(4) { self.byte() } else { self.pick(&[2, 0x12, 0x10, 0x18, 0x11, 4, 0x14]) };
        header.extend([(length as u8) << 4, flags, 0x20, 0, 0, 0, 0, 0]);
        [header, options, self.bytes(32)].concat()
    }

    /// An error of ICMP that quotes something.
    fn error(&mut self, is_v6: bool, quoted: &[u8]) -> Vec<u8> {
        let kinds: &[u8] = if is_v6 { &[1, 2, 2, 3, 4] } else { &[3, 3, 3, 11, 12, 5, 4] };
        let word: u32 = self.pick(&[0, 6, 68, 576, 1280, 1400, 1500, 9000, 0x0800_0000, 0xffff_ffff]);
        let code = if self.one_in(8) { self.byte() } else { self.roll(6) as u8 };
        [&[self.pick(kinds), code, 0, 0], &word.to_be_bytes()[..], quoted].concat()
    }

    /// A packet of IP with options or extension headers, now and then a fragment.
    fn ip(&mut self, is_v6: bool, (src, dst): (Vec<u8>, Vec<u8>), (proto, l4): (u8, Vec<u8>)) -> Vec<u8> {
        let hops = self.pick(&[64, 64, 255, 2, 1, 0]);
        if !is_v6 {
            let options = if self.one_in(8) { self.options() } else { Vec::new() };
            let (id, flags) = (self.pick(&[5, 7]), if self.one_in(4) { 0x40 } else { 0 });
            let header = [0x45 + options.len() as u8 / 4, 0, 0, 0, 0, id, flags, 0, hops, proto, 0, 0];
            return [&header[..], &src, &dst, &options, &l4].concat();
        }
        let (mut kinds, mut all) = (vec![], vec![]);
        if self.one_in(4) {
            (0..self.pick(&[1, 1, 2, 3, 8, 9])).for_each(|_| kinds.push(self.pick(EXTENSIONS)));
        }
        let nexts = kinds.iter().skip(1).copied().chain([proto]).collect::<Vec<_>>();
        for (&kind, next) in kinds.iter().zip(nexts) {
            all.extend(self.extension(kind, next));
        }
        let first = kinds.first().copied().unwrap_or(proto);
        [&[0x60, 0, 0, 0, 0, 0, first, hops][..], &src, &dst, &all, &l4].concat()
    }

    fn extension(&mut self, kind: u8, next: u8) -> Vec<u8> {
        if kind == FRAGMENT {
            let place = self.pick(PLACES) << 3 | self.roll(2) as u16;
            return [&[next, 0][..], &place.to_be_bytes(), &[0, 0, 0, self.pick(&[5, 7])]].concat();
        }
        let words = self.pick(&[0, 0, 1, 2]);
        let mut bytes = vec![0; 8 + 8 * usize::from(words)];
        // A routing header of type 0 or 2 with segments left; padding of options.
        (bytes[0], bytes[1], bytes[2], bytes[3]) =
            (next, words, self.pick(&[0, 1, 2, 4]), self.pick(&[0, 1, 2]));
        bytes
    }

    /// Options of IPv4: padding, routes, recorded routes, timestamps, nonsense; whole words.
    fn options(&mut self) -> Vec<u8> {
        let mut options = match self.roll(6) {
            0 => vec![1, 1, 1, 0],
            1 => [&[self.pick(&[131, 137]), 7, self.pick(&[4, 8])][..], &self.address(false)].concat(),
            2 => [&[7, 11, self.pick(&[4, 8, 12, 0])][..], &[0; 8]].concat(),
            3 => vec![68, 12, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            4 => vec![148, 4, 0, 0],
            _ => self.bytes(40),
        };
        options.truncate(40);
        options.resize(options.len().next_multiple_of(4), 0);
        options
    }

    /// A fragment of a packet, or another one of that which it is a fragment of.
    fn fragment(&mut self, mut packet: Vec<u8>) -> Vec<u8> {
        let (place, more) = (self.pick(PLACES), self.roll(2) as u16);
        let is_v6 = packet.first().is_some_and(|first| first >> 4 == 6);
        if packet.len() < 48 {
            return packet;
        }
        if is_v6 && packet[6] != FRAGMENT {
            let header = [packet[6], 0, 0, 0, 0, 0, 0, 7];
            packet[6] = FRAGMENT;
            packet.splice(40..40, header);
        }
        if is_v6 {
            packet[42..44].copy_from_slice(&(place << 3 | more).to_be_bytes())
        } else {
            packet[6..8].copy_from_slice(&(place | more << 13).to_be_bytes())
        }
        let header = if is_v6 { 48 } else { 20 };
        match more {
            // But for the last, what fragments carry is whole words of eight bytes.
            1 => packet.truncate(packet.len() - (packet.len() - header) % 8),
            _ => packet.truncate(header + self.pick(&[1, 8, 15, 1500])),
        }
        packet
    }

    /// Changes a few bytes, mostly of headers.
    fn change(&mut self, packet: &mut Vec<u8>) {
        for _ in 0..=self.roll(3) {
            if packet.is_empty() {
                return;
            }
            let reach = self.pick(&[600, 64, 64, 64]);
            let at = self.roll(packet.len().min(reach));
            match self.roll(10) {
                0 => packet.truncate(at),
                1 => packet.insert(at, self.byte()),
                2 => drop(packet.remove(at)),
                3 => packet.extend(self.bytes(8)),
                4 | 5 => packet[at] ^= 1 << self.roll(8_u32),
                6 | 7 => packet[at] = self.pick(&[0, 1, 0x40, 0x45, 0x4f, 0x60, 0x7f, 0x80, 0xff]),
                _ => packet[at] = self.byte(),
            }
        }
    }
}

/// The packet that answers one: ends and ports exchanged.
fn turned(mut packet: Vec<u8>) -> Vec<u8> {
    let is_v6 = packet[0] >> 4 == 6;
    let (at, bytes, l4) = if is_v6 { (8, 16, 40) } else { (12, 4, usize::from(packet[0] & 15) * 4) };
    if packet.len() < at + 2 * bytes {
        return packet;
    }
    let (src, dst) = packet[at..at + 2 * bytes].split_at_mut(bytes);
    src.swap_with_slice(dst);
    let proto = packet[if is_v6 { 6 } else { 9 }];
    match packet.get_mut(l4..l4 + 14) {
        Some(ports) if matches!(proto, TCP | UDP) => {
            let (sport, dport) = ports[..4].split_at_mut(2);
            sport.swap_with_slice(dport);
            if proto == TCP && ports[13] == 2 {
                ports[13] = 0x12;
            }
        }
        Some(echo) if proto == ICMP && echo[0] == 8 => echo[0] = 0,
        Some(echo) if proto == ICMP6 && echo[0] == 128 => echo[0] = 129,
        _ => {}
    }
    packet
}

/// Makes lengths and checksums right, as far as the headers can be followed; those of what is quoted as well.
pub fn repair(packet: &mut [u8]) {
    match packet.first().map(|first| first >> 4) {
        Some(4) if packet.len() >= 20 => repair_v4(packet),
        Some(6) if packet.len() >= 40 => repair_v6(packet),
        _ => {}
    }
}

fn repair_v4(packet: &mut [u8]) {
    let header = usize::from(packet[0] & 15) * 4;
    let total = packet.len().min(65_535) as u16;
    if !(20..=packet.len()).contains(&header) {
        return;
    }
    packet[2..4].copy_from_slice(&total.to_be_bytes());
    let (ip, l4) = packet.split_at_mut(header);
    put(ip, 10, 0);
    if u16::from_be_bytes([ip[6], ip[7]]) & 0x1fff == 0 {
        repair_l4(ip[9], &ip[12..20], l4);
    }
}

fn repair_v6(packet: &mut [u8]) {
    let payload = (packet.len() - 40).min(65_535) as u16;
    packet[4..6].copy_from_slice(&payload.to_be_bytes());
    let (mut proto, mut at) = (packet[6], 40);
    while let (true, Some(&[next, words, a, b])) =
        (EXTENSIONS[..7].contains(&proto), packet.get(at..at + 4).and_then(|bytes| bytes.first_chunk()))
    {
        if proto == FRAGMENT && u16::from_be_bytes([a, b]) >> 3 != 0 {
            return;
        }
        at += if proto == FRAGMENT { 8 } else { 8 + 8 * usize::from(words) };
        proto = next;
    }
    if at <= packet.len() {
        let (ip, l4) = packet.split_at_mut(at);
        repair_l4(proto, &ip[8..40], l4);
    }
}

fn repair_l4(proto: u8, addresses: &[u8], l4: &mut [u8]) {
    if matches!((proto, addresses.len()), (ICMP, 8) | (ICMP6, 32)) {
        let is_error = match l4.first() {
            Some(kind) if proto == ICMP => matches!(kind, 3 | 4 | 5 | 11 | 12),
            kind => kind.is_some_and(|&kind| kind < 128),
        };
        if let (true, Some(quoted)) = (is_error, l4.get_mut(8..)) {
            let length = quoted.get(2..6).map(<[u8]>::to_vec);
            repair(quoted);
            // A quote is the beginning of a packet: its length says how long that was.
            if let (Some(length), Some(6)) = (length, quoted.first().map(|first| first >> 4)) {
                quoted[2..6].copy_from_slice(&length);
            }
        }
    }
    let pseudo = pseudo_header(addresses, proto, l4.len());
    match proto {
        TCP if l4.len() >= 18 => put(l4, 16, pseudo),
        UDP if l4.len() >= 8 => {
            let bytes = (l4.len().min(65_535) as u16).to_be_bytes();
            l4[4..6].copy_from_slice(&bytes);
            // One in a few has none, which IPv4 allows.
            if addresses.len() == 8 && l4[3].is_multiple_of(8) {
                l4[6..8].fill(0)
            } else {
                put(l4, 6, pseudo)
            }
        }
        ICMP if l4.len() >= 4 => put(l4, 2, 0),
        ICMP6 if l4.len() >= 4 => put(l4, 2, pseudo),
        _ => {}
    }
}

/// Writes the checksum of bytes and what else it covers.
fn put(bytes: &mut [u8], at: usize, covered: u64) {
    bytes[at..at + 2].fill(0);
    let checksum = match !fold(sum(bytes) + covered) {
        0 => 0xffff,
        checksum => checksum,
    };
    bytes[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
}
