//! The naive NAT: mappings in maps, all of which it looks at each time.

use std::collections::HashMap;
use std::net::Ipv4Addr;

use super::packet::{ACK, End, FIN, ICMP, Packet, RST, SYN, TCP};

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Filtering {
    Independent,
    Address,
    AddressAndPort,
}

/// A connection, naively: flags by side, the inside first.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Connection {
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
pub(crate) struct Session {
    last_ms: u64,
    connection: Option<Connection>,
}

#[derive(Debug)]
pub(crate) struct Mapping {
    pub(crate) outside: End,
    sessions: HashMap<End, Session>,
    /// Sessions that it ever had.
    ever: u32,
    /// It got its outside end under the pool of now.
    is_new: bool,
}

/// The naive NAT.
pub(crate) struct Model {
    filtering: Filtering,
    udp_ms: u64,
    pool: Vec<u32>,
    pub(crate) mappings: HashMap<(u8, End), Mapping>,
    /// When a port was given back, unless it may be used at once.
    rested: HashMap<(u8, End), u64>,
}

impl Model {
    pub(crate) fn new(filtering: Filtering, udp_ms: u64, pool: Vec<u32>) -> Model {
        Model { filtering, udp_ms, pool, mappings: HashMap::new(), rested: HashMap::new() }
    }

    /// Another time and pool; a host with a mapping keeps it.
    pub(crate) fn apply(&mut self, udp_ms: u64, pool: Vec<u32>) {
        (self.udp_ms, self.pool) = (udp_ms, pool);
        self.mappings.values_mut().for_each(|mapping| mapping.is_new = false);
    }

    /// What is known of an outside end: each session of its mapping with its last packet and its end, else when it ended.
    pub(crate) fn view(&self, proto: u8, outside: End) -> String {
        let of_it = self.mappings.iter().find(|(key, mapping)| (key.0, mapping.outside) == (proto, outside));
        let Some((key, mapping)) = of_it else {
            let since = self.rested.get(&(proto, outside));
            return since.map_or("no mapping".into(), |ms| format!("no mapping since {ms} ms"));
        };
        let session = |(remote, session): (&End, &Session)| {
            let Session { last_ms, connection } = session;
            let end_ms = last_ms + self.timeout_ms(proto, session);
            format!("{:?} with {remote:?}: {last_ms} ms, until {end_ms} ms {connection:?}", key.1)
        };
        mapping.sessions.iter().map(session).collect::<Vec<_>>().join("\n")
    }

    fn timeout_ms(&self, proto: u8, session: &Session) -> u64 {
        match (proto, session.connection) {
            (_, Some(connection)) => connection.timeout_ms(),
            (ICMP, _) => 60_000,
            _ => self.udp_ms,
        }
    }

    /// Ends what is over; tells how near to its end the nearest session is, ms.
    pub(crate) fn expire(&mut self, now_ms: u64) -> u64 {
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
    pub(crate) fn out(&mut self, now_ms: u64, packet: &Packet) -> Option<Option<End>> {
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
    pub(crate) fn back(&mut self, now_ms: u64, packet: &Packet) -> Option<End> {
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
    pub(crate) fn learn(&mut self, now_ms: u64, packet: &Packet, outside: End) {
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
