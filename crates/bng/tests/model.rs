//! Random inputs against simple rules, seen from outside: what clients were answered, and what is on disk.
//!
//! ```text
//! dice > inputs > Bng > ACK: the client has the address until its lease ends     no two clients have the same address
//!                     > Store: the record is on disk when the dice say so         no ACK before that
//!                     > crash: a prefix of the records is adopted                 what was answered is still there
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::time::Duration;

use weir_bng::dhcp4::frame;
use weir_bng::dhcp4::message::{Message, MessageType};
use weir_bng::{
    AddSession, Bng, Change, Command, Counters, EndCause, Event, Input, Line, NodeCommand, Now, Output, Punt,
    Record, SessionId, Status, scenario,
};
use weir_testkit::{Dice, number};

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
    let (config, _) = weir_bng::read("model", &text).unwrap_or_else(|mistakes| panic!("{mistakes}"));
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

/// What somebody outside knows.
struct World {
    bng: Bng,
    now: Duration,
    dice: Dice,
    /// Records on disk, in their order.
    log: Vec<Record>,
    /// Records that are being written.
    unstored: Vec<Record>,
    /// Addresses that clients believe to have: whose session, which device, until when.
    leases: BTreeMap<Ipv4Addr, (SessionId, String, Duration)>,
    node: BTreeMap<SessionId, AddSession>,
    /// When each message was sent, by its number.
    sent: Vec<Duration>,
    commands: BTreeSet<u64>,
    last_command: u64,
}

impl World {
    fn new(seed: u64) -> World {
        let mut world = World {
            bng: new_bng(),
            now: Duration::ZERO,
            dice: Dice::new(seed),
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
        let session = session.expect("who is answered has a session").id;
        assert!(self.is_on_disk(session, address), "{address} is answered before it is on disk");
        assert!(self.node.contains_key(&session), "{address} is answered before the node knows it");
        // From when it was asked for (RFC 2131, section 4.4.1).
        let until = self.sent[message.xid as usize] + Duration::from_secs(LEASE_S);
        self.leases.insert(address, (session, device, until));
    }

    /// What is written is on disk, all of it or a part.
    fn store(&mut self, all: bool) {
        let count = if all { self.unstored.len() } else { self.dice.roll(self.unstored.len() + 1) };
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
        let count = self.dice.roll(self.unstored.len() + 1);
        self.log.extend(self.unstored.drain(..count));
        self.unstored.clear();
        self.commands.clear();
        if self.dice.one_in(2) {
            self.log = self.bng_of_log().snapshot();
        }
        self.bng = self.bng_of_log();
        let table: Vec<_> = match self.dice.one_in(4) {
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
        let n = self.dice.roll(SUBSCRIBERS);
        let name = format!("s{n}").parse().expect("a name");
        let session = self.bng.sessions().map(|session| session.id).next();
        match (self.dice.roll(5), session) {
            (0, Some(session)) => self.command(Command::Disconnect(session)),
            (1, _) => self.command(Command::SetStatus(name, Status::Blocked)),
            (2, _) => self.command(Command::RemoveSubscriber(name)),
            (3, Some(session)) => {
                let frames = self.dice.roll(1000);
                let counters = Counters { down_frames: frames, ..Counters::default() };
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
        let device = mac(self.dice.roll(SUBSCRIBERS + 2));
        let address = format!("100.64.0.{}", 1 + self.dice.roll(7));
        let held =
            self.leases.iter().find(|(_, (_, of, _))| *of == device).map(|(address, _)| address.to_string());
        let address = held.filter(|_| !self.dice.one_in(4)).unwrap_or(address);
        let mut text = match self.dice.roll(10) {
            0..=2 => format!("discover {device}"),
            3..=4 => format!("request {device} want {address} server 100.64.0.1"),
            5 => format!("request {device} want {address}"),
            6..=7 => format!("request {device} ciaddr {address}"),
            8 if self.dice.one_in(2) => format!("inform {device} ciaddr {address}"),
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
        text += choices[self.dice.roll(choices.len())];
        text += &format!(" xid {}", self.sent.len());
        self.sent.push(self.now);
        let line: Line = LINES[self.dice.roll(LINES.len())].parse().expect("a line");
        // Who gives an address back has it no longer, whether the server hears of it or not.
        if text.starts_with("release") || text.starts_with("decline") {
            self.leases.retain(|held, (_, of, _)| *of != device || held.to_string() != address);
        }
        let bytes = scenario::frame(&text, 0).expect("a message");
        self.input(Input::Punt(Punt { port: line.port, tags: line.tags, bytes: &bytes }));
    }

    fn step(&mut self) {
        match self.dice.roll(24) {
            0..=13 => self.message(),
            14..=16 => self.store(false),
            17 => self.store(true),
            18 => self.fail(),
            19 => self.crash(),
            20 => self.operate(),
            21 => self.wait(700),
            _ => self.wait(40),
        }
    }

    fn wait(&mut self, most_s: u64) {
        self.now += Duration::from_millis(self.dice.roll(most_s * 1000));
        self.input(Input::Timer);
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

#[test]
fn no_address_is_assigned_twice_whatever_happens() {
    let first = number("MODEL_SEED", 0);
    for seed in first..first + number("MODEL_SEEDS", 25) {
        let mut world = World::new(seed);
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            (0..600).for_each(|_| world.step());
            world.store(true);
        }));
        assert!(result.is_ok(), "seed {seed}");
        assert!(world.commands.is_empty(), "seed {seed}: {:?}", world.commands);
    }
}

#[test]
fn every_prefix_of_the_records_is_a_state_without_a_double() {
    let mut world = World::new(1);
    (0..3000).for_each(|_| world.step());
    world.store(true);
    let log = std::mem::take(&mut world.log);
    for end in (0..=log.len()).step_by(1 + log.len() / 200) {
        world.log = log[..end].to_vec();
        let bng = world.bng_of_log();
        let addresses: Vec<_> = bng.sessions().map(|session| session.lease.address).collect();
        let distinct: BTreeSet<_> = addresses.iter().collect();
        assert_eq!(addresses.len(), distinct.len(), "after {end} records: {addresses:?}");
        let names: BTreeSet<_> = bng.sessions().map(|session| session.subscriber.to_string()).collect();
        assert_eq!(names.len(), addresses.len(), "after {end} records");
    }
}

/// A flood of made-up addresses on one line grows nothing without bound, and another line is served.
#[test]
fn a_flood_of_made_up_devices_takes_no_memory() {
    let mut world = World::new(1);
    let line: Line = "access1:7".parse().expect("a line");
    for n in 0..50_000 {
        let bytes = scenario::frame("discover 02:00:00:01:00:00+", n).expect("a message");
        let mut out = Vec::new();
        let punt = Punt { port: line.port.clone(), tags: line.tags, bytes: &bytes };
        world.bng.input(Now { at: world.now, wall_s: 0 }, Input::Punt(punt), &mut out);
        assert!(out.is_empty(), "{out:?}");
    }
    let sizes = world.bng.sizes();
    assert_eq!((sizes.offers, sizes.sessions, sizes.deadlines), (0, 0, 0));
    assert_eq!(sizes.traces, weir_bng::MOST_TRACES_OF_LINE);
    let bytes = scenario::frame(&format!("discover {}", mac(5)), 0).expect("a message");
    let line: Line = "access1".parse().expect("a line");
    world.input(Input::Punt(Punt { port: line.port, tags: line.tags, bytes: &bytes }));
    assert_eq!(world.bng.sizes().offers, 1);
}
