//! The NAT against a naive one, over random schedules of packets, time and reconfiguration.
//!
//! The naive one keeps mappings in maps and looks at all of them each time. Which port a new mapping gets it cannot
//! know: it learns it from what left, and checks that nobody else has it, that it is of the pool, that it rested, and
//! that the host keeps its address. All else it foretells: who passes, whereto, and that all checksums are right.
//! `MODEL_SEEDS=5000 cargo test --release -p weir-plane --test nat_model` goes on for minutes.

use std::collections::HashMap;
use std::net::Ipv4Addr;

use weir_packet::checksum::{fold, sum, write_ipv4};
use weir_plane::{Batch, Config, Frame, HEAD_ROOM, Plane, PortId, Time, Verdict};

const SYN: u8 = 2;
const ACK: u8 = 16;
const FIN: u8 = 1;
const RST: u8 = 4;
const UDP: u8 = 17;
const TCP: u8 = 6;
const ICMP: u8 = 1;

type End = (u32, u16);

#[derive(Debug, Clone, Copy, PartialEq)]
enum Filtering {
    Independent,
    Address,
    AddressAndPort,
}

/// What is sent.
#[derive(Debug, Clone, Copy)]
struct Packet {
    proto: u8,
    src: End,
    dst: End,
    flags: u8,
    data: usize,
    nosum: bool,
}

impl Packet {
    fn bytes(&self) -> Vec<u8> {
        let port = |port: u16| port.to_be_bytes();
        let ([a, b], [c, d]) = (port(self.src.1), port(self.dst.1));
        let mut l4 = match self.proto {
            UDP => {
                let [x, y] = ((8 + self.data) as u16).to_be_bytes();
                vec![a, b, c, d, x, y, 0, 0]
            }
            TCP => {
                let seq = u8::from(self.flags & SYN == 0);
                vec![a, b, c, d, 0, 0, 0, seq, 0, 0, 0, 1, 0x50, self.flags, 0x10, 0, 0, 0, 0, 0]
            }
            // A query of the inside, an answer of the outside.
            _ if self.src.0 >> 24 == 10 => vec![8, 0, 0, 0, a, b, 0, 1],
            _ => vec![0, 0, 0, 0, c, d, 0, 1],
        };
        l4.extend((0..self.data).map(|n| n as u8));
        let addresses = [self.src.0.to_be_bytes(), self.dst.0.to_be_bytes()].concat();
        let pseudo = sum(&addresses) + l4.len() as u64 + u64::from(self.proto);
        match self.proto {
            UDP if self.nosum => {}
            UDP => {
                let checksum = !fold(pseudo + sum(&l4));
                l4[6..8].copy_from_slice(&if checksum == 0 { 0xffff } else { checksum }.to_be_bytes());
            }
            TCP => {
                let checksum = !fold(pseudo + sum(&l4));
                l4[16..18].copy_from_slice(&checksum.to_be_bytes());
            }
            _ => {
                let checksum = !fold(sum(&l4));
                l4[2..4].copy_from_slice(&checksum.to_be_bytes());
            }
        }
        let [x, y] = ((20 + l4.len()) as u16).to_be_bytes();
        let mut ip = vec![0x45, 0, x, y, 0, 7, 0x40, 0, 64, self.proto, 0, 0];
        ip.extend(&addresses);
        write_ipv4(&mut ip);
        [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0][..], &ip, &l4].concat()
    }
}

/// The ends that a frame names, all of whose checksums are right.
fn ends(bytes: &[u8]) -> (End, End) {
    let ip = &bytes[14..];
    assert_eq!(fold(sum(&ip[..20])), 0xffff, "checksum of the header");
    let word = |at: usize| u16::from_be_bytes([ip[at], ip[at + 1]]);
    let address = |at: usize| u32::from_be_bytes([ip[at], ip[at + 1], ip[at + 2], ip[at + 3]]);
    let l4 = &ip[20..];
    let pseudo = sum(&ip[12..20]) + l4.len() as u64 + u64::from(ip[9]);
    match ip[9] {
        ICMP => assert_eq!(fold(sum(l4)), 0xffff, "checksum of ICMP"),
        UDP if word(26) == 0 => {}
        _ => assert_eq!(fold(pseudo + sum(l4)), 0xffff, "checksum of the transport"),
    }
    let (sport, dport) = if ip[9] == ICMP { (word(24), word(24)) } else { (word(20), word(22)) };
    ((address(12), sport), (address(16), dport))
}

/// A connection, naively: flags by side, the inside first.
#[derive(Debug, Clone, Copy, Default)]
struct Connection {
    syn: [bool; 2],
    ack: [bool; 2],
    fin: [bool; 2],
    reset: bool,
}

impl Connection {
    fn is_open(&self) -> bool {
        self.syn == [true; 2] && self.ack == [true; 2]
    }

    fn timeout_ms(&self) -> u64 {
        if !self.reset && self.is_open() && self.fin != [true; 2] { 7_440_000 } else { 240_000 }
    }

    /// Whether its time begins anew.
    fn hear(&mut self, side: usize, packet: &Packet) -> bool {
        let over = self.reset || self.fin == [true; 2] && self.is_open();
        let flags = packet.flags;
        if flags & RST != 0 {
            let counts = self.syn[side] && !self.reset;
            self.reset |= counts;
            return counts;
        }
        if flags & SYN != 0 {
            if over && flags & ACK == 0 {
                *self = Connection::default();
            } else if over || self.is_open() {
                return false;
            }
            self.syn[side] = true;
            self.ack[side] |= flags & ACK != 0;
            return true;
        }
        if !self.syn[side] || self.reset && packet.data == 0 && flags & FIN == 0 {
            return false;
        }
        self.reset = false;
        self.ack[side] |= flags & ACK != 0;
        self.fin[side] |= flags & FIN != 0;
        true
    }
}

#[derive(Debug, Clone, Copy)]
struct Session {
    last_ms: u64,
    connection: Option<Connection>,
}

#[derive(Debug)]
struct Mapping {
    outside: End,
    sessions: HashMap<End, Session>,
    /// Sessions that it ever had.
    ever: u32,
    /// It got its outside end under the pool of now.
    is_new: bool,
}

/// The naive NAT.
struct Model {
    filtering: Filtering,
    udp_ms: u64,
    pool: Vec<u32>,
    mappings: HashMap<(u8, End), Mapping>,
    /// When a port was given back, unless it may be used at once.
    rested: HashMap<(u8, End), u64>,
}

impl Model {
    fn timeout_ms(&self, proto: u8, session: &Session) -> u64 {
        match (proto, session.connection) {
            (_, Some(connection)) => connection.timeout_ms(),
            (ICMP, _) => 60_000,
            _ => self.udp_ms,
        }
    }

    /// Ends what is over; tells how near to its end the nearest session is, ms.
    fn expire(&mut self, now_ms: u64) -> u64 {
        let mut nearest = u64::MAX;
        let mut mappings = std::mem::take(&mut self.mappings);
        mappings.retain(|&(proto, _), mapping| {
            let mut ended = (0, false);
            mapping.sessions.retain(|_, session| {
                let end_ms = session.last_ms + self.timeout_ms(proto, session);
                nearest = nearest.min(now_ms.abs_diff(end_ms));
                if end_ms < now_ms {
                    let closed =
                        session.connection.is_some_and(|c| c.is_open() && c.fin == [true; 2] && !c.reset);
                    ended = ended.max((end_ms, closed));
                }
                end_ms >= now_ms
            });
            if mapping.sessions.is_empty() && !(ended.1 && mapping.ever == 1) {
                self.rested.insert((proto, mapping.outside), ended.0);
            }
            !mapping.sessions.is_empty()
        });
        self.mappings = mappings;
        nearest
    }

    fn end(&self, proto: u8, remote: End) -> End {
        match (proto, self.filtering) {
            (TCP, _) | (_, Filtering::AddressAndPort) => remote,
            (_, Filtering::Address) => (remote.0, 0),
            _ => (0, 0),
        }
    }

    /// What a frame from inside becomes: its outside end if the mapping is known, or one that is to be learnt.
    fn out(&mut self, now_ms: u64, packet: &Packet) -> Option<Option<End>> {
        let remote = if packet.proto == ICMP { (packet.dst.0, 0) } else { packet.dst };
        let end = self.end(packet.proto, remote);
        let known = self.mappings.get_mut(&(packet.proto, packet.src));
        if let Some(session) = known.and_then(|mapping| mapping.sessions.get_mut(&end)) {
            let refreshes = session.connection.as_mut().is_none_or(|connection| connection.hear(0, packet));
            if refreshes {
                session.last_ms = now_ms;
            }
        } else {
            let connection = match packet.flags & (SYN | RST | ACK) {
                _ if packet.proto != TCP => None,
                SYN => {
                    let mut connection = Connection::default();
                    connection.hear(0, packet);
                    Some(connection)
                }
                // Its beginning was missed.
                ACK => Some(Connection { syn: [true; 2], ack: [true, false], ..Connection::default() }),
                _ => return None,
            };
            let new = || Mapping { outside: (0, 0), sessions: HashMap::new(), ever: 0, is_new: true };
            let mapping = self.mappings.entry((packet.proto, packet.src)).or_insert_with(new);
            mapping.sessions.insert(end, Session { last_ms: now_ms, connection });
            mapping.ever += 1;
        }
        let outside = self.mappings[&(packet.proto, packet.src)].outside;
        Some((outside != (0, 0)).then_some(outside))
    }

    /// The inside end that a frame from outside reaches.
    fn back(&mut self, now_ms: u64, packet: &Packet) -> Option<End> {
        let remote = if packet.proto == ICMP { (packet.src.0, 0) } else { packet.src };
        let (end, filtering) = (self.end(packet.proto, remote), self.filtering);
        let at = |mapping: &Mapping| mapping.outside == packet.dst;
        let found =
            self.mappings.iter_mut().find(|((proto, _), mapping)| *proto == packet.proto && at(mapping));
        let (&(_, inside), mapping) = found?;
        match mapping.sessions.get_mut(&end) {
            Some(session) => {
                if let Some(connection) = &mut session.connection
                    && connection.hear(1, packet)
                {
                    session.last_ms = now_ms;
                }
            }
            None if packet.proto == TCP
                && filtering == Filtering::Independent
                && packet.flags & (SYN | ACK | RST) == SYN =>
            {
                let mut connection = Connection::default();
                connection.hear(1, packet);
                mapping.sessions.insert(end, Session { last_ms: now_ms, connection: Some(connection) });
                mapping.ever += 1;
            }
            None => return None,
        }
        Some(inside)
    }

    /// A new mapping got this outside end.
    fn learn(&mut self, now_ms: u64, packet: &Packet, outside: End) {
        assert!(self.pool.contains(&outside.0), "{} is not of the pool", Ipv4Addr::from(outside.0));
        assert!(outside.1 >= 1024, "port {}", outside.1);
        for (key, mapping) in &self.mappings {
            assert!((key.0, mapping.outside) != (packet.proto, outside), "{key:?} has {outside:?} already");
            let is_own = key.1.0 == packet.src.0 && mapping.outside != (0, 0) && mapping.is_new;
            assert!(!is_own || mapping.outside.0 == outside.0, "a host has two addresses");
        }
        if let Some(since_ms) = self.rested.remove(&(packet.proto, outside)) {
            assert!(now_ms - since_ms >= 120_000, "{outside:?} rested for {} ms", now_ms - since_ms);
        }
        self.mappings.get_mut(&(packet.proto, packet.src)).expect("just made").outside = outside;
    }
}

/// A generator of numbers: SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((u128::from(z ^ z >> 31) * u128::from(bound)) >> 64) as u64
    }

    fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len() as u64) as usize]
    }
}

fn text(filtering: Filtering, udp_ms: u64, pool: &[u32], block: u16) -> String {
    let filtering = match filtering {
        Filtering::Independent => "endpoint-independent",
        Filtering::Address => "address-dependent",
        Filtering::AddressAndPort => "address-and-port-dependent",
    };
    let public: Vec<_> = pool.iter().map(|&address| format!("public {}", Ipv4Addr::from(address))).collect();
    let public = public.join(", ");
    format!("node nat({public}, filtering {filtering}, udp-timeout {}s, block {block})", udp_ms / 1000)
}

struct Rig {
    plane: Plane,
    config: Config,
}

impl Rig {
    /// Takes all away that is over.
    fn take_away(&mut self, now_ms: u64) {
        (0..20).for_each(|_| _ = self.plane.tick(Time::from_ms(now_ms)));
    }

    /// What leaves, if it leaves by the other side.
    fn pass(&mut self, now_ms: u64, packet: &Packet) -> Option<(End, End)> {
        let mut buf = [&[0; HEAD_ROOM][..], &packet.bytes()].concat();
        let end = buf.len();
        let port = PortId(u8::from(packet.src.0 >> 24 != 10));
        let mut batch = Batch::default();
        batch.push(Frame::new(&mut buf, HEAD_ROOM, end, port));
        self.plane.run(Time::from_ms(now_ms), &mut batch);
        self.plane.departures().for_each(drop);
        assert!(self.plane.accounting().balance());
        let (frame, verdict) = batch.outcome().next().expect("one");
        match verdict {
            Verdict::Out(to) if to != port => Some(ends(frame.bytes())),
            Verdict::Out(_) => panic!("{packet:?} turned"),
            _ => None,
        }
    }
}

fn check(seed: u64, filtering: Filtering, steps: u64) {
    let mut random = Random(seed);
    let pool = vec![0xc000_0201, 0xc000_0202];
    let read = |text: &str| Config::read("n", text).expect("right");
    let config = read(&text(filtering, 300_000, &pool, 64));
    let plane = Plane::new(&config, &[[2; 6], [4; 6]]);
    let mut rig = Rig { plane, config };
    let mut model =
        Model { filtering, udp_ms: 300_000, pool, mappings: HashMap::new(), rested: HashMap::new() };
    let mut now_ms = 1000;
    let mut known: Vec<(u8, End)> = Vec::new();
    let protos: &[u8] = if filtering == Filtering::Address { &[UDP, ICMP] } else { &[UDP, TCP, TCP, ICMP] };
    let mut passed = 0;
    for step in 0..steps {
        let what = format!("seed {seed}, {filtering:?}, step {step}, {now_ms} ms");
        now_ms += match random.below(100) {
            0..90 => random.below(3_000),
            90..98 => random.below(150_000),
            98 => random.below(500_000),
            _ => random.below(9_000_000),
        };
        // Ages are kept in ticks of a millisecond: nobody sends at the very end of one.
        while model.expire(now_ms) <= 3 {
            now_ms += 10;
        }
        if random.below(200) == 0 {
            // What is over, but not yet taken away, would live on by a longer time.
            rig.take_away(now_ms);
            model.udp_ms = random.of(&[120_000, 300_000]);
            model.pool = vec![0xc000_0201 + random.below(3) as u32, 0xc000_0204];
            model.mappings.values_mut().for_each(|mapping| mapping.is_new = false);
            let next = read(&text(filtering, model.udp_ms, &model.pool, 64));
            rig.plane.apply(Time::from_ms(now_ms), &rig.config, &next).expect("can be changed");
            rig.config = next;
            continue;
        }
        let proto = random.of(protos);
        if proto == TCP || filtering != Filtering::Independent {
            // A mapping without a session of its own lives on until its other sessions are taken away.
            rig.take_away(now_ms);
        }
        let remote = (0xc613_0000 + random.below(3) as u32, 50 + random.below(2) as u16);
        let data = random.below(3) as usize;
        let is_out = known.is_empty() || random.below(2) == 0;
        let flags = match proto {
            TCP => random.of(&[SYN, SYN | ACK, ACK, ACK, ACK, FIN | ACK, FIN | ACK, RST]),
            _ => 0,
        };
        let data = if flags & (SYN | RST) != 0 { 0 } else { data };
        let nosum = random.below(4) == 0;
        if is_out {
            let src = (0x0a00_0001 + random.below(4) as u32, 1000 + random.below(4) as u16);
            let packet = Packet { proto, src, dst: remote, flags, data, nosum };
            let expected = model.out(now_ms, &packet);
            let seen = rig.pass(now_ms, &packet);
            let what = format!("{what}: {packet:?}: expected {expected:?}, seen {seen:?}");
            match (expected, seen) {
                (None, None) => {}
                (Some(outside), Some((src, dst))) => {
                    assert!(dst == packet.dst || proto == ICMP && dst.0 == packet.dst.0, "{what}");
                    match outside {
                        Some(outside) => assert_eq!(src, outside, "{what}"),
                        None => model.learn(now_ms, &packet, src),
                    }
                    known.push((proto, src));
                    passed += 1;
                }
                _ => panic!("{what}"),
            }
        } else {
            let (proto, dst) = random.of(&known[known.len().saturating_sub(40)..]);
            let flags = if proto == TCP { random.of(&[SYN, SYN | ACK, ACK, ACK, FIN | ACK, RST]) } else { 0 };
            let data = if flags & (SYN | RST) != 0 { 0 } else { data };
            let packet = Packet { proto, src: remote, dst, flags, data, nosum };
            let expected = model.back(now_ms, &packet);
            let seen = rig.pass(now_ms, &packet);
            let what = format!("{what}: {packet:?}: expected {expected:?}, seen {seen:?}");
            match (expected, seen) {
                (None, None) => {}
                (Some(inside), Some((src, dst))) => {
                    assert!(src == packet.src || proto == ICMP && src.0 == packet.src.0, "{what}");
                    assert_eq!(dst, inside, "{what}");
                    passed += 1;
                }
                _ => panic!("{what}"),
            }
        }
        let mut ends: Vec<_> = model.mappings.iter().map(|(key, mapping)| (key.0, mapping.outside)).collect();
        ends.sort();
        let all = ends.len();
        ends.dedup();
        assert_eq!(ends.len(), all, "{what}: an outside end has one inside end");
    }
    assert!(passed > steps / 5, "only {passed} of {steps} passed");
    // In the end all is given back.
    rig.take_away(now_ms + 8_000_000);
    assert_eq!(rig.plane.nat_usage().sessions, 0);
}

#[test]
fn the_nat_does_as_a_naive_one_does() {
    let seeds = std::env::var("MODEL_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(10);
    for seed in 0..seeds {
        for filtering in [Filtering::Independent, Filtering::Address, Filtering::AddressAndPort] {
            check(seed, filtering, 4000);
        }
    }
}
