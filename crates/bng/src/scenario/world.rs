//! Chosen inputs against simple rules, seen from outside: what clients were answered, and what is on disk. For tests, by numbers from
//! a seed or by the bytes of a fuzzer.
//!
//! ```text
//! choices > inputs > Bng > ACK: the client has the address until its lease ends     no two clients have the same address
//!                     > Store: the record is on disk when the choice is so        no ACK before that
//!                     > crash: a prefix of the records is adopted                 what was answered is still there
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::time::Duration;

use super::client;
use crate::bng::Bng;
use crate::config::Config;
use crate::dhcp4::frame;
use crate::dhcp4::message::{Message, MessageType};
use crate::io::{AddSession, Command, Event, Input, NodeCommand, Now, Output, Punt};
use crate::line::Line;
use crate::record::{Change, Record};
use crate::session::{Counters, EndCause, SessionId};
use crate::subscriber::Status;

const LINES: [&str; 3] = ["access1", "access1:7", "access2:100.7"];
const SUBSCRIBERS: usize = 7;
/// Fewer addresses than subscribers.
const POOL: &str = "pool main 100.64.0.2-100.64.0.6 router 100.64.0.1/24";
const LEASE_S: u64 = 600;

fn mac(n: usize) -> String {
    format!("02:00:00:00:00:{n:02x}")
}

fn new_bng() -> Bng {
    let port = |name| format!("port {name} mac 02:00:00:00:00:fe trusted relay 192.0.2.1");
    let (ports, lease) = ([port("access1"), port("access2")].join(", "), LEASE_S);
    let text = format!("{ports}, {POOL}, lease {lease}s, limit subscriber 1000, limit line 1000");
    let (config, _) = Config::read("model", &text).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    Bng::new(config, 7).expect("it contradicts nothing")
}

/// Subscriber `n`: one by its line, one by its circuit-id, one with a fixed address, the others by a MAC address.
fn subscriber(n: usize) -> String {
    match n {
        0 => "s0 line access2:100.7 plan down 1M up 1M".replace("1M", "1Mbit"),
        1 => "s1 circuit c1 plan down 1Mbit up 1Mbit".into(),
        2 => format!("s2 mac {} plan down 1Mbit up 1Mbit address 100.64.0.4", mac(2)),
        n => format!("s{n} mac {} plan down 1Mbit up 1Mbit", mac(n)),
    }
}

/// A BNG, and what is known outside of it.
pub struct World<'a> {
    bng: Bng,
    now: Duration,
    /// One of so many.
    choose: Box<dyn FnMut(usize) -> usize + 'a>,
    /// Records on disk, in their order.
    log: Vec<Record>,
    /// Records that are being written.
    unstored: Vec<Record>,
    /// Addresses that clients believe to have: session, device, end of the lease.
    leases: BTreeMap<Ipv4Addr, (SessionId, String, Duration)>,
    node: BTreeMap<SessionId, AddSession>,
    /// When each message was sent, by its number.
    sent: Vec<Duration>,
    commands: BTreeSet<u64>,
    last_command: u64,
}

impl<'a> World<'a> {
    /// One with its subscribers; `choose` returns one of 0 up to, but not including, its argument.
    pub fn new(choose: impl FnMut(usize) -> usize + 'a) -> World<'a> {
        let mut world = World {
            bng: new_bng(),
            now: Duration::ZERO,
            choose: Box::new(choose),
            log: Vec::new(),
            unstored: Vec::new(),
            leases: BTreeMap::new(),
            node: BTreeMap::new(),
            sent: Vec::new(),
            commands: BTreeSet::new(),
            last_command: 0,
        };
        for n in 0..SUBSCRIBERS {
            let subscriber = subscriber(n).parse().expect("a subscriber");
            world.command(Command::AddSubscriber(subscriber));
        }
        world.store(true);
        world
    }

    fn input(&mut self, input: Input<'_>) {
        let now = Now { at: self.now, wall_s: 1_790_000_000 + self.now.as_secs() };
        let mut out = Vec::new();
        self.bng.input(now, input, &mut out);
        out.into_iter().for_each(|output| self.output(output));
        self.check();
    }

    fn output(&mut self, output: Output) {
        match output {
            Output::Store(record) => self.unstored.push(record),
            Output::Send { frame, .. } => self.answered(&frame),
            Output::Dynauth { to, .. } => panic!("an answer for {to}"),
            Output::HashPassword { login, .. } => panic!("the hash of a password of {login}"),
            Output::CheckPassword { id, .. } => panic!("the check {id} of a password"),
            Output::Radius { server, .. } | Output::RadiusReconnect { server, .. } => {
                panic!("a datagram for the server {server}")
            }
            Output::Node(NodeCommand::AddSession(add)) => {
                assert!(self.is_on_disk(add.session, add.address), "the node has {add:?} before the disk");
                self.node.insert(add.session, add);
            }
            Output::Node(NodeCommand::RemoveSession { session }) => {
                self.node.remove(&session).expect("the node has it");
                // The operator, or the same customer's other device, ended it: it carries no traffic from now on.
                self.leases.retain(|_, (of, _, _)| *of != session);
            }
            Output::Done { id, .. } => assert!(self.commands.remove(&id), "command {id} is done twice"),
            Output::Event(Event::RecordSkipped { revision, why }) => panic!("record {revision}: {why}"),
            Output::Event(Event::SessionEnded { cause, .. }) => assert_ne!(cause, EndCause::NotStored),
            Output::Event(_) | Output::Wake(_) => {}
        }
    }

    /// Whether the last record about a session on disk gives it this address.
    fn is_on_disk(&self, session: SessionId, address: Ipv4Addr) -> bool {
        let of = |record: &Record| match &record.change {
            Change::Lease { session: of, lease, .. } if *of == session => Some(lease.address == address),
            Change::End { session: of, .. } if *of == session => Some(false),
            _ => None,
        };
        self.log.iter().rev().find_map(of) == Some(true)
    }

    fn answered(&mut self, bytes: &[u8]) {
        let datagram = frame::read(bytes).expect("it is whole");
        let message = Message::read(datagram.payload).expect("it is DHCP");
        let (kind, address) = (message.message_type().expect("a type"), message.yiaddr);
        if kind == MessageType::Nak {
            assert!(address.is_unspecified());
            return;
        }
        // An offer may be of the address that another device of the subscriber has: it is replaced when this one asks.
        if kind == MessageType::Offer || address.is_unspecified() {
            return;
        }
        let device = message.chaddr.to_string();
        if let Some((_, holder, until)) = self.leases.get(&address) {
            assert!(
                *until <= self.now || *holder == device,
                "{kind:?} {address} to {device}, which {holder} has"
            );
        }
        let session = self.bng.sessions().find(|session| session.lease.address == address);
        let session = session.expect("a client that is answered has a session").id;
        assert!(self.is_on_disk(session, address), "{address} is answered before it is on disk");
        assert!(self.node.contains_key(&session), "{address} is answered before the node knows it");
        // From when it was asked for (RFC 2131, section 4.4.1).
        let sent = self.sent.get(message.xid as usize).copied().unwrap_or_default();
        let until = sent + Duration::from_secs(LEASE_S);
        self.leases.insert(address, (session, device, until));
    }

    fn one_in(&mut self, n: usize) -> bool {
        (self.choose)(n) == 0
    }

    /// What is written is on disk, all of it or a part.
    fn store(&mut self, all: bool) {
        let count = if all { self.unstored.len() } else { (self.choose)(self.unstored.len() + 1) };
        self.log.extend(self.unstored.drain(..count));
        if let Some(revision) = self.log.last().map(|record| record.revision) {
            self.input(Input::Stored { revision });
        }
    }

    fn fail(&mut self) {
        self.unstored.clear();
        self.input(Input::StoreFailed);
    }

    /// Of what was being written a part is on disk, or nothing.
    fn crash(&mut self) {
        let count = (self.choose)(self.unstored.len() + 1);
        self.log.extend(self.unstored.drain(..count));
        self.unstored.clear();
        self.commands.clear();
        if self.one_in(2) {
            // The log behind it begins a little earlier.
            let tail = self.log.len() - (self.choose)(self.log.len().min(4));
            let snapshot = self.bng_of_log().snapshot();
            self.log.splice(..tail, snapshot);
        }
        self.bng = self.bng_of_log();
        let table: Vec<_> = match self.one_in(4) {
            // The node began anew as well.
            true => std::mem::take(&mut self.node).into_values().take(0).collect(),
            false => self.node.values().cloned().collect(),
        };
        self.input(Input::NodeTable(&table));
        let answered: Vec<_> = self.leases.iter().filter(|(_, (_, _, until))| *until > self.now).collect();
        for (address, (session, device, _)) in answered {
            let found = self.bng.session(*session).map(|session| &session.lease);
            let found = found.map(|lease| (lease.address, lease.device.mac.to_string()));
            // A record of its end may have been on disk already.
            let ended =
                |record: &Record| matches!(record.change, Change::End { session: of, .. } if of == *session);
            let is_known = found == Some((*address, device.clone()));
            assert!(is_known || self.log.iter().any(ended), "{device} has lost {address}: {found:?}");
        }
    }

    /// A BNG that has adopted what is on disk, by way of lines.
    fn bng_of_log(&self) -> Bng {
        let mut bng = new_bng();
        let now = Now { at: self.now, wall_s: 1_790_000_000 + self.now.as_secs() };
        let mut out = Vec::new();
        for record in &self.log {
            let again: Record = record.to_string().parse().expect("it was written by weir");
            assert_eq!(again, *record);
            bng.input(now, Input::Adopt(again), &mut out);
        }
        assert!(out.iter().all(|output| matches!(output, Output::Wake(_))), "{out:?}");
        bng
    }

    fn command(&mut self, command: Command) {
        self.last_command += 1;
        self.commands.insert(self.last_command);
        self.input(Input::Command { id: self.last_command, command });
    }

    fn operate(&mut self) {
        let n = (self.choose)(SUBSCRIBERS);
        let name = format!("s{n}").parse().expect("a name");
        let session = self.bng.sessions().map(|session| session.id).next();
        match ((self.choose)(5), session) {
            (0, Some(session)) => self.command(Command::Disconnect(session)),
            (1, _) => {
                let status = if self.one_in(2) { Status::Blocked } else { Status::Walled };
                self.command(Command::SetStatus(name, status));
            }
            (2, _) => self.command(Command::RemoveSubscriber(name)),
            (3, Some(session)) => {
                let down_frames = (self.choose)(1000) as u64;
                let counters = Counters { down_frames, ..Counters::default() };
                self.input(Input::Counted { session, counters });
            }
            _ => {
                self.command(Command::AddSubscriber(subscriber(n).parse().expect("a subscriber")));
                self.command(Command::SetStatus(name, Status::Active));
            }
        }
    }

    /// A message of one of the devices, mostly of what it should say next.
    fn message(&mut self) {
        let device = mac((self.choose)(SUBSCRIBERS + 2));
        let address = format!("100.64.0.{}", 1 + (self.choose)(7));
        let held =
            self.leases.iter().find(|(_, (_, of, _))| *of == device).map(|(address, _)| address.to_string());
        let address = held.filter(|_| !self.one_in(4)).unwrap_or(address);
        let mut text = match (self.choose)(10) {
            0..=2 => format!("discover {device}"),
            3..=4 => format!("request {device} want {address} server 100.64.0.1"),
            5 => format!("request {device} want {address}"),
            6..=7 => format!("request {device} ciaddr {address}"),
            8 if self.one_in(2) => format!("inform {device} ciaddr {address}"),
            8 => format!("decline {device} want {address}"),
            _ => format!("release {device} ciaddr {address}"),
        };
        let choices = [
            "",
            "",
            "",
            "",
            " circuit c1",
            " circuit c2",
            " id one",
            " id two",
            " broadcast",
            " giaddr 192.0.2.1",
        ];
        text += choices[(self.choose)(choices.len())];
        text += &format!(" xid {}", self.sent.len());
        self.sent.push(self.now);
        // A client that gives an address back does not use it, whether the server hears of it or not.
        if text.starts_with("release") || text.starts_with("decline") {
            self.leases.retain(|held, (_, of, _)| *of != device || held.to_string() != address);
        }
        let bytes = client::frame(&text, 0).expect("a message");
        self.punt(&bytes);
    }

    /// A frame comes in by one of the lines.
    fn punt(&mut self, bytes: &[u8]) {
        let Line { port, tags } = LINES[(self.choose)(LINES.len())].parse().expect("a line");
        self.input(Input::Punt(Punt { port, tags, bytes }));
    }

    /// A message of which some bytes are others, or are missing; its checksums are right, or not.
    fn damaged_message(&mut self) {
        let device = mac((self.choose)(SUBSCRIBERS));
        let text =
            format!("request {device} want 100.64.0.3 circuit c1 id one ask 1,3,121 option 224 0x0102 xid 0");
        let whole = client::frame(&text, 0).expect("a message");
        let datagram = frame::read(&whole).expect("it is whole");
        let mut bytes = if self.one_in(2) { datagram.payload.to_vec() } else { whole.clone() };
        let is_payload = bytes.len() < whole.len();
        for _ in 0..1 + (self.choose)(4) {
            // Most of what decides is behind the fixed part.
            let first = if self.one_in(3) { 0 } else { bytes.len().saturating_sub(60) };
            let at = first + (self.choose)((bytes.len() - first).max(1));
            match bytes.get_mut(at) {
                Some(_) if self.one_in(8) => bytes.truncate(at),
                Some(byte) => *byte = (self.choose)(256) as u8,
                None => {}
            }
        }
        if is_payload {
            bytes = frame::write(&frame::Datagram { payload: &bytes, ..datagram })
                .expect("it is no longer than before");
        }
        self.punt(&bytes);
    }

    /// Something happens.
    ///
    /// # Panics
    /// Something is not as it must be.
    pub fn step(&mut self) {
        match (self.choose)(24) {
            0..=12 => self.message(),
            13 => self.damaged_message(),
            14..=16 => self.store(false),
            17 => self.store(true),
            18 => self.fail(),
            19 => self.crash(),
            20 => self.operate(),
            21 => self.wait(700),
            _ => self.wait(40),
        }
    }

    fn wait(&mut self, most_s: usize) {
        self.now += Duration::from_millis((self.choose)(most_s * 1000) as u64);
        self.input(Input::Timer);
    }

    /// All that was written is on disk, and all commands are done.
    ///
    /// # Panics
    /// Something is not as it must be.
    pub fn finish(&mut self) {
        self.store(true);
        assert!(self.commands.is_empty(), "{:?}", self.commands);
    }

    /// What the disk holds after each of some prefixes of its records.
    ///
    /// # Panics
    /// An address, or a subscriber, has two sessions.
    pub fn check_prefixes(&mut self) {
        let log = std::mem::take(&mut self.log);
        for end in (0..=log.len()).step_by(1 + log.len() / 200) {
            self.log = log[..end].to_vec();
            let bng = self.bng_of_log();
            let addresses: BTreeSet<_> = bng.sessions().map(|session| session.lease.address).collect();
            let names: BTreeSet<_> = bng.sessions().map(|session| &session.subscriber).collect();
            let sessions = bng.sessions().count();
            assert_eq!((addresses.len(), names.len()), (sessions, sessions), "after {end} records");
        }
        self.log = log;
    }

    /// What is true after every input.
    fn check(&self) {
        let mut addresses: Vec<_> = self.bng.sessions().map(|session| session.lease.address).collect();
        addresses.sort();
        assert!(addresses.windows(2).all(|pair| pair[0] != pair[1]), "twice: {addresses:?}");
        let (counts, sizes) = (self.bng.counts(), self.bng.sizes());
        let known = counts.answered + counts.accepted + counts.drops.sum() + sizes.waiting_answers as u64;
        assert_eq!(counts.received, known);
        assert!(
            sizes.sessions <= SUBSCRIBERS && sizes.offers <= SUBSCRIBERS && sizes.addresses <= 6,
            "{sizes:?}"
        );
        assert!(sizes.deadlines <= 2 * SUBSCRIBERS + 6, "{sizes:?}");
    }
}
