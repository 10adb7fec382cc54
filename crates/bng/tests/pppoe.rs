//! Clients that dial in by PPPoE, from a PADI to an address, with disks and programs that fail meanwhile.

mod brownout;
mod half_open;
mod rows;

use std::collections::{BTreeSet, VecDeque};
use std::net::Ipv4Addr;
use std::time::Duration;

use weir_bng::dial::{Client, Profile};
use weir_bng::ppp::auth::supplicant::Login;
use weir_bng::ppp::auth::{Method, Password};
use weir_bng::ppp::packet::Packet;
use weir_bng::ppp::protocol;
use weir_bng::pppoe::concentrator::padt;
use weir_bng::pppoe::session::SessionFrame;
use weir_bng::radius::Service;
use weir_bng::radius::attribute::{Attributes, number};
use weir_bng::radius::client::Secret;
use weir_bng::radius::packet::{self as radius, Require, code, reveal_password};
use weir_bng::{
    AddSession, Bng, Checked, Command, CommandError, Config, Counters, DropReason, EndCause, Event, Input,
    Line, Mac, NodeCommand, Now, Output, Punt, RadiusServer, Random, Record, SessionId, Step,
};

use crate::ipv6::{POOL, with_ipv6};

pub(crate) const PORT: Mac = Mac([2, 0, 0, 0, 0, 0xfe]);
pub(crate) const TEXT: &str = "port access1 mac 02:00:00:00:00:fe, pool main 100.64.0.2-100.64.0.9 router 100.64.0.1/24,
    plan basic down 20Mbit up 5Mbit, dns 192.0.2.53, pppoe auth chap-md5 pap ms-chapv2 padi mac 1000 sessions mac 3,
    subscriber anna login anna@isp plan basic password secret,
    subscriber ben login ben@isp plan basic address 100.64.0.9 password other";

pub(crate) const SECRET: &[u8] = b"of both sides";

/// A client on a line.
pub(crate) struct Device {
    pub(crate) line: Line,
    pub(crate) client: Client,
}

pub(crate) fn device(number: u8, name: &str, password: &str) -> Device {
    device_with(number, name, password, Method::ChapMd5)
}

pub(crate) fn device_with(number: u8, name: &str, password: &str, method: Method) -> Device {
    let login = Login { name: name.as_bytes().into(), password: Password::new(password.as_bytes()) };
    let mac = Mac([2, 0, 0, 0, 0, number]);
    let profile = Profile { methods: vec![method], ..Profile::new(mac, login) };
    let line = format!("access1:100.{number}").parse().expect("a line");
    Device { line, client: Client::new(profile, Random::new([number; 32])) }
}

impl Device {
    pub(crate) fn mac(&self) -> Mac {
        self.client.profile().mac
    }

    pub(crate) fn address(&self) -> Option<Ipv4Addr> {
        self.client.addresses().map(|addresses| addresses.client)
    }

    fn id(&self) -> u16 {
        self.client.session().expect("a session").0
    }

    /// A frame of its session.
    pub(crate) fn frame(&self, protocol: u16, packet: Packet<'_>) -> Vec<u8> {
        self.client.frame(protocol, &packet.write()).expect("a session")
    }
}

/// Of no use but in tests.
fn hash_of(password: &Password) -> String {
    format!("$reversed${}", password.bytes().iter().rev().map(|byte| char::from(*byte)).collect::<String>())
}

/// A RADIUS server: what it answers to a datagram.
pub(crate) type Server = Box<dyn FnMut(&[u8]) -> Option<Vec<u8>>>;

/// A frame on its way.
pub(crate) enum Frame {
    FromClient(usize, Vec<u8>),
    ToClient(Line, Vec<u8>),
    ToRadius(Service, u16, Vec<u8>),
}

/// A BNG with its disk, its node and its clients.
pub(crate) struct World {
    pub(crate) bng: Bng,
    pub(crate) config: Config,
    pub(crate) now: Duration,
    pub(crate) devices: Vec<Device>,
    pub(crate) frames: VecDeque<Frame>,
    /// Frames for none of the clients.
    pub(crate) sent: Vec<Vec<u8>>,
    pub(crate) disk: Vec<Record>,
    /// Records that are not on disk yet.
    pub(crate) pending: Vec<Record>,
    pub(crate) is_disk_slow: bool,
    pub(crate) node: Vec<AddSession>,
    /// How often the node was told of a session.
    pub(crate) told_node: usize,
    /// What the node says that it counted of a session that it removes; `None`: it says nothing.
    pub(crate) last_counts: Option<Counters>,
    /// Sessions that the node has removed, and has not said so.
    pub(crate) removed: Vec<SessionId>,
    /// Answers to CoA and Disconnect.
    pub(crate) answers: Vec<Vec<u8>>,
    /// What the server of accounting answers.
    pub(crate) accounting: Server,
    pub(crate) events: Vec<Event>,
    pub(crate) results: Vec<Result<(), CommandError>>,
    pub(crate) timer: Option<Duration>,
    /// The longest frame that a line carries.
    pub(crate) carries: usize,
    pub(crate) loses: Box<dyn FnMut() -> bool>,
    /// What the RADIUS server answers.
    pub(crate) radius: Server,
}

impl World {
    pub(crate) fn new(devices: Vec<Device>) -> World {
        World::of(TEXT, devices)
    }

    pub(crate) fn of(text: &str, devices: Vec<Device>) -> World {
        let (config, subscribers) = Config::read("test", text).unwrap_or_else(|wrong| panic!("{wrong}"));
        let mut world = World {
            bng: Bng::new(config.clone(), 7).expect("it contradicts nothing"),
            config,
            now: Duration::ZERO,
            devices,
            frames: VecDeque::new(),
            sent: Vec::new(),
            disk: Vec::new(),
            pending: Vec::new(),
            is_disk_slow: false,
            node: Vec::new(),
            removed: Vec::new(),
            events: Vec::new(),
            results: Vec::new(),
            timer: None,
            answers: Vec::new(),
            loses: Box::new(|| false),
            carries: usize::MAX,
            told_node: 0,
            last_counts: Some(Counters::default()),
            radius: Box::new(|_| None),
            accounting: Box::new(|_| None),
        };
        world.say_servers();
        for subscriber in subscribers {
            world.command(Command::AddSubscriber(subscriber));
        }
        world
    }

    /// The program learns the secrets of the servers.
    pub(crate) fn say_servers(&mut self) {
        let servers: Vec<_> = self.config.radius.clone();
        let with_secret = |server: &RadiusServer| server.with_secret(Secret::new(SECRET));
        self.input(Input::RadiusServers(servers.iter().map(with_secret).collect()));
        let of_accounting = servers.iter().filter(|server| server.accounting.is_some());
        self.input(Input::AccountingServers(of_accounting.map(with_secret).collect()));
        if let Some(dynauth) = self.config.dynauth.clone() {
            let sources = dynauth.clients.iter().map(|(address, _)| (*address, Secret::new(SECRET)));
            self.input(Input::DynauthOptions(dynauth.options(sources.collect())));
        }
    }

    pub(crate) fn time(&self) -> Now {
        Now { at: self.now, wall_s: 1_790_000_000 + self.now.as_secs() }
    }

    pub(crate) fn input(&mut self, input: Input<'_>) {
        let mut out = Vec::new();
        self.bng.input(self.time(), input, &mut out);
        self.carry_out(out);
        if !self.is_disk_slow {
            self.store();
        }
    }

    /// All records are on disk.
    pub(crate) fn store(&mut self) {
        while let Some(revision) = self.pending.last().map(|record| record.revision) {
            self.disk.append(&mut self.pending);
            let mut out = Vec::new();
            self.bng.input(self.time(), Input::Stored { revision }, &mut out);
            self.carry_out(out);
        }
    }

    pub(crate) fn carry_out(&mut self, out: Vec<Output>) {
        for output in out {
            match output {
                Output::Store(record) => self.pending.push(record),
                Output::Send { port, tags, frame } => {
                    self.frames.push_back(Frame::ToClient(Line { port, tags }, frame));
                }
                Output::Node(NodeCommand::AddSession(add)) => {
                    self.node.retain(|other| other.session != add.session);
                    self.node.push(add);
                    self.told_node += 1;
                }
                Output::Node(NodeCommand::RemoveSession { session }) => {
                    self.node.retain(|other| other.session != session);
                    if self.last_counts.is_some() {
                        self.removed.push(session);
                    }
                }
                Output::Event(event) => self.events.push(event),
                Output::Done { result, .. } => self.results.push(result),
                Output::Dynauth { bytes, .. } => self.answers.push(bytes),
                Output::Radius { service, port, bytes, .. } => {
                    self.frames.push_back(Frame::ToRadius(service, port, bytes));
                }
                Output::RadiusReconnect { server, .. } => panic!("no server has TLS: {server}"),
                Output::HashPassword { login, mark, password } => {
                    self.input(Input::PasswordHashed { login: &login, mark, hash: &hash_of(&password) });
                }
                Output::CheckPassword { id, password, hash } => {
                    let is_right = *hash == *hash_of(&password);
                    let checked = if is_right { Checked::Right } else { Checked::Wrong };
                    self.input(Input::PasswordChecked { id, checked });
                }
                Output::Wake(at) => self.timer = Some(at),
            }
        }
    }

    pub(crate) fn command(&mut self, command: Command) {
        self.input(Input::Command { id: 1, command });
    }

    pub(crate) fn punt(&mut self, client: usize, bytes: &[u8]) {
        let Line { port, tags } = self.devices[client].line.clone();
        self.input(Input::Punt(Punt { port, tags, bytes }));
    }

    fn deliver(&mut self, frame: Frame) {
        match frame {
            Frame::FromClient(client, bytes) => {
                self.assert_known(&bytes);
                self.punt(client, &bytes);
            }
            Frame::ToRadius(service, port, bytes) => {
                let server = if service == Service::Access { &mut self.radius } else { &mut self.accounting };
                if let Some(bytes) = server(&bytes) {
                    self.input(Input::Radius { service, server: "one", port, bytes: &bytes });
                }
            }
            Frame::ToClient(line, bytes) => {
                let of = |device: &Device| device.line == line && bytes[..6] == device.mac().0;
                let Some(to) = self.devices.iter().position(of) else { return self.sent.push(bytes) };
                let answers = self.devices[to].client.hear(self.now, &bytes);
                self.frames.extend(answers.into_iter().map(|bytes| Frame::FromClient(to, bytes)));
            }
        }
    }

    /// The node ends sessions that it does not know when a packet of them comes.
    fn assert_known(&self, bytes: &[u8]) {
        let frame = SessionFrame::read(bytes).ok();
        let packet = frame.filter(|frame| frame.protocol == protocol::IPV6);
        let id = packet.map(|packet| packet.session_id);
        let is_known = |id: u16| self.node.iter().any(|add| add.ppp.is_some_and(|ppp| ppp.id == id));
        assert!(id.is_none_or(is_known), "a packet before the node knows session {id:?}");
    }

    /// Until nothing happens any more, or for so long.
    pub(crate) fn run(&mut self, most: Duration) {
        let end = self.now + most;
        loop {
            while let Some(frame) = self.frames.pop_front() {
                let is_carried = match &frame {
                    Frame::FromClient(_, bytes) | Frame::ToClient(_, bytes) => bytes.len() <= self.carries,
                    Frame::ToRadius(..) => true,
                };
                if is_carried && !(self.loses)() {
                    self.deliver(frame);
                }
                self.say_removed();
            }
            self.say_removed();
            if !self.frames.is_empty() {
                continue;
            }
            let of_clients = self.devices.iter().filter_map(|device| device.client.deadline());
            let next = of_clients.chain(self.timer).min().filter(|next| *next <= end);
            let Some(next) = next else { break };
            self.now = self.now.max(next);
            if self.timer.is_some_and(|at| at <= self.now) {
                self.timer = None;
                self.input(Input::Timer);
            }
            for client in 0..self.devices.len() {
                let frames = self.devices[client].client.timer(self.now);
                self.frames.extend(frames.into_iter().map(|bytes| Frame::FromClient(client, bytes)));
            }
        }
        self.now = end;
    }

    /// The node says what it counted of sessions that it has removed.
    pub(crate) fn say_removed(&mut self) {
        for session in std::mem::take(&mut self.removed) {
            self.input(Input::Removed { session, counters: self.last_counts });
        }
    }

    pub(crate) fn dial(&mut self, client: usize) {
        let padi = self.devices[client].client.dial(self.now);
        self.frames.push_back(Frame::FromClient(client, padi));
        self.run(Duration::from_secs(1));
    }

    /// Another program with what is on disk, and the node's table.
    pub(crate) fn restart(&mut self) {
        self.pending.clear();
        self.frames.clear();
        self.timer = None;
        self.bng = Bng::new(self.config.clone(), 8).expect("it contradicts nothing");
        for record in self.disk.clone() {
            let text = record.to_string();
            let record = text.parse().unwrap_or_else(|wrong| panic!("{text}: {wrong}"));
            self.input(Input::Adopt(record));
        }
        self.removed.clear();
        self.say_servers();
        let node = self.node.clone();
        self.input(Input::NodeTable(&node));
    }

    pub(crate) fn online(&self) -> Vec<(String, Ipv4Addr)> {
        self.bng.sessions().map(|session| (session.subscriber.to_string(), session.lease.address)).collect()
    }

    pub(crate) fn drops(&self, reason: DropReason) -> u64 {
        self.bng.counts().drops[reason]
    }

    /// Nothing is left of any session.
    fn assert_empty(&self) {
        let sizes = self.bng.sizes();
        assert_eq!((sizes.sessions, sizes.offers, self.bng.calls(), self.node.len()), (0, 0, 0, 0));
        self.assert_counted();
    }

    pub(crate) fn assert_counted(&self) {
        let counts = self.bng.counts();
        let waiting = self.bng.sizes().waiting_answers as u64;
        let sum = counts.answered + counts.accepted + counts.drops.sum() + waiting;
        assert_eq!(counts.received, sum, "{counts:?}");
    }
}

pub(crate) fn anna() -> Device {
    device(1, "anna@isp", "secret")
}

#[test]
fn a_client_dials_in_by_each_method() {
    for method in [Method::ChapMd5, Method::MsChapV2, Method::Pap] {
        let mut world = World::new(vec![device_with(1, "anna@isp", "secret", method)]);
        world.dial(0);
        let address = world.devices[0].address();
        assert_eq!(world.online(), [("anna".to_string(), address.expect("an address"))], "{method:?}");
        let [add] = &*world.node else { panic!("{:?}", world.node) };
        let ppp = add.ppp.expect("a link");
        let (id, endpoint) = world.devices[0].client.session().expect("a session");
        assert_eq!((ppp.id, ppp.agreed.peer_mru, add.mac), (id, 1492, world.devices[0].mac()));
        assert_eq!(ppp.agreed.magic, endpoint.agreed().peer_magic, "the node answers echoes with it");
        assert_eq!(add.service.rates.down_bits_per_s, 20_000_000);
        world.assert_counted();
    }
}

/// P10 (RFC 4638, section 5.2): packets of 1500 bytes are sent to a client where its line carries them.
#[test]
fn p10_an_echo_of_the_larger_size_decides_about_the_mru() {
    for (carries, mru) in [(usize::MAX, 1500), (14 + 8 + 1492, 1492)] {
        let mut anna = anna();
        let profile = Profile { max_mru: 1500, ..anna.client.profile().clone() };
        anna.client = Client::new(profile, Random::new([1; 32]));
        let mut world = World::of(&TEXT.replace("pppoe auth", "pppoe mtu 1508 auth"), vec![anna]);
        world.carries = carries;
        world.dial(0);
        let ppp = world.node[0].ppp.expect("a link");
        assert_eq!((ppp.agreed.max_mru, ppp.agreed.peer_mru), (1500, mru), "{carries}");
        world.restart();
        world.run(Duration::from_secs(60));
        assert_eq!((world.online().len(), world.node[0].ppp), (1, Some(ppp)));
    }
}

#[test]
fn a_client_is_answered_after_its_record_is_on_disk_and_the_node_knows_it() {
    let mut world = World::new(vec![anna()]);
    world.is_disk_slow = true;
    world.dial(0);
    assert_eq!((world.devices[0].address(), world.node.len()), (None, 0));
    // It asks again, and gets one answer.
    world.run(Duration::from_secs(7));
    assert!(world.drops(DropReason::Superseded) > 0, "{:?}", world.bng.counts());
    world.store();
    assert_eq!(world.node.len(), 1);
    world.run(Duration::from_secs(1));
    assert!(world.devices[0].address().is_some());
    world.assert_counted();
}

#[test]
fn a_disk_that_fails_lets_no_one_in() {
    let mut world = World::new(vec![anna()]);
    world.is_disk_slow = true;
    world.dial(0);
    world.pending.clear();
    world.input(Input::StoreFailed);
    world.is_disk_slow = false;
    world.run(Duration::from_secs(60));
    world.assert_empty();
    assert!(world.devices[0].address().is_none());
    world.dial(0);
    assert_eq!(world.online().len(), 1);
}

#[test]
fn why_names_the_step_that_failed() {
    let blocked = device(2, "ben@isp", "other");
    let rows = [
        (device(1, "anna@isp", "wrong"), DropReason::WrongPassword),
        (device(1, "nobody", "secret"), DropReason::LoginUnknown),
        (blocked, DropReason::SubscriberBlocked),
    ];
    for (client, reason) in rows {
        let mut world = World::new(vec![client]);
        let ben = "ben".parse().expect("a name");
        world.command(Command::SetStatus(ben, weir_bng::Status::Blocked));
        world.dial(0);
        world.run(Duration::from_secs(60));
        let why = world.bng.why_mac(world.devices[0].mac());
        assert_eq!((why.step, &*why.reason), (Some(reason.step()), reason.meaning()));
        assert_eq!(world.drops(reason), 1);
        assert!(why.frames.len() > 1);
        world.assert_empty();
        assert!(world.devices[0].client.end().is_some(), "the client was told");
    }
}

#[test]
fn why_says_that_a_client_fell_silent() {
    let mut world = World::new(vec![anna()]);
    let padi = world.devices[0].client.dial(world.now);
    world.frames.push_back(Frame::FromClient(0, padi));
    // Nothing after its PADR arrives.
    let mut left = 4;
    world.loses = Box::new(move || {
        left -= 1;
        left < 0
    });
    world.run(Duration::from_secs(120));
    let why = world.bng.why_mac(world.devices[0].mac());
    assert_eq!((why.step, &*why.reason), (Some(Step::Link), "the peer does not answer LCP"));
    world.assert_empty();
}

#[test]
fn both_sides_end_a_session() {
    // The client by LCP, the client by PADT, the operator, the node.
    for way in 0..4 {
        let mut world = World::new(vec![anna()]);
        world.dial(0);
        let session = world.bng.sessions().next().expect("a session").id;
        let cause = match way {
            0 => {
                let packet = Packet { code: 5, id: 9, data: &[] };
                let frame = world.devices[0].frame(protocol::LCP, packet);
                world.punt(0, &frame);
                EndCause::Released
            }
            1 => {
                let (mac, id) = (world.devices[0].mac(), world.devices[0].id());
                world.punt(0, &padt(mac, PORT, id, ""));
                assert!(world.frames.is_empty(), "P5: nothing is sent after a PADT");
                EndCause::Released
            }
            2 => {
                world.command(Command::Disconnect(session));
                EndCause::Disconnected
            }
            _ => {
                world.input(Input::SessionLost { session });
                EndCause::Lost
            }
        };
        world.run(Duration::from_secs(60));
        let ended =
            |event: &Event| matches!(event, Event::SessionEnded { cause: found, .. } if *found == cause);
        assert_eq!(
            world.events.iter().filter(|event| ended(event)).count(),
            1,
            "way {way}: {:?}",
            world.events
        );
        world.assert_empty();
        if way != 1 {
            assert!(world.devices[0].client.padt().is_some(), "way {way}");
            world.dial(0);
            assert_eq!(world.online().len(), 1, "way {way}");
        }
    }
}

#[test]
fn a_restart_ends_no_session_and_no_client_notices_it() {
    let mut world = World::new(vec![anna(), device(2, "ben@isp", "other")]);
    world.dial(0);
    world.dial(1);
    let (online, node) = (world.online(), world.node.clone());
    assert_eq!(online.len(), 2);
    world.restart();
    assert_eq!((world.online(), &world.node), (online, &node));
    assert!(world.frames.is_empty());
    world.run(Duration::from_secs(3600));
    assert_eq!(world.node, node);
    // Sessions of before and of after the restart end as others do, and ids are unique.
    world.devices.push(device(3, "anna@isp", "secret"));
    world.dial(2);
    assert_eq!(world.online().len(), 2);
    let session = world.bng.sessions().next().expect("a session").id;
    world.command(Command::Disconnect(session));
    world.run(Duration::from_secs(60));
    assert_eq!(world.node.len(), 1);
}

/// Table 1.3, row 3 of the sessions: a half-open session is forgotten, and its client is told.
#[test]
fn a_session_that_was_being_set_up_at_a_restart_gets_a_padt() {
    let mut world = World::new(vec![anna()]);
    let padi = world.devices[0].client.dial(world.now);
    world.punt(0, &padi);
    for _ in 0..6 {
        let frame = world.frames.pop_front().expect("a frame");
        world.deliver(frame);
    }
    assert!(world.devices[0].client.session().is_some());
    world.restart();
    world.assert_empty();
    world.run(Duration::from_secs(10));
    assert!(world.devices[0].client.padt().is_some() && world.devices[0].client.is_idle());
    assert!(world.drops(DropReason::PppoeSession) > 0);
    world.dial(0);
    assert_eq!(world.online().len(), 1);
}

#[test]
fn a_redial_after_a_power_cut_replaces_the_session_and_gets_its_address_back() {
    let mut world = World::new(vec![anna()]);
    world.dial(0);
    let (before, address) = (world.node[0].session, world.devices[0].address());
    world.devices[0].client.reset();
    world.dial(0);
    assert_eq!(world.devices[0].address(), address);
    assert_eq!((world.node.len(), world.bng.calls()), (1, 1));
    assert!(world.node[0].session > before);
    let replaced = |event: &Event| matches!(event, Event::SessionEnded { cause: EndCause::Replaced, .. });
    assert_eq!(world.events.iter().filter(|event| replaced(event)).count(), 1);
}

#[test]
fn a_login_that_is_online_elsewhere_is_replaced_or_refused() {
    for (moves, online) in [("replace", 2), ("refuse", 1)] {
        let other = device(2, "anna@isp", "secret");
        let mut world = World::of(&format!("moves {moves}, {TEXT}"), vec![anna(), other]);
        world.dial(0);
        world.dial(1);
        world.run(Duration::from_secs(10));
        assert_eq!(world.online().len(), 1);
        assert_eq!(world.node[0].mac, world.devices[online - 1].mac(), "{moves}");
        let has = [0, 1].map(|client: usize| world.devices[client].address().is_some());
        assert_eq!(has, [online == 1, online == 2], "{moves}");
    }
}

#[test]
fn a_fixed_address_is_given_and_a_full_pool_is_named() {
    let ben = device(2, "ben@isp", "other");
    let text = TEXT.replace("100.64.0.2-100.64.0.9", "100.64.0.9");
    let mut world = World::of(&text, vec![anna(), ben]);
    world.dial(1);
    assert_eq!(world.devices[1].address(), Some(Ipv4Addr::new(100, 64, 0, 9)));
    world.dial(0);
    assert_eq!((world.online().len(), world.drops(DropReason::PoolExhausted)), (1, 1));
    let why = world.bng.why_mac(world.devices[0].mac());
    assert_eq!(why.step, Some(Step::Address));
}

#[test]
fn a_client_that_negotiates_its_link_anew_has_one_session_at_each_time() {
    let mut world = World::new(vec![anna()]);
    world.dial(0);
    let before = world.node[0].session;
    let packet = Packet { code: 1, id: 99, data: &[1, 4, 5, 0xd4] };
    let frame = world.devices[0].frame(protocol::LCP, packet);
    world.punt(0, &frame);
    assert_eq!(world.node.len(), 0, "nothing is forwarded before it has logged in again");
    world.run(Duration::from_secs(30));
    assert_eq!((world.node.len(), world.bng.calls()), (1, 1));
    assert!(world.node[0].session > before && world.devices[0].address().is_some());
}

/// Churn with a fifth of all frames lost, and restarts: nothing is left behind.
#[test]
fn sessions_come_and_go_over_bad_lines_and_restarts() {
    for seed in 0..6_u8 {
        let mut random = Random::new([seed; 32]);
        let text = format!("{POOL}, {}", TEXT.replace("100.64.0.9 router", "100.64.0.40 router"));
        let mut world = World::of(&text, Vec::new());
        for n in 0..20_u8 {
            let line = format!("c{n} login c{n} plan basic password p{n}");
            world.command(Command::AddSubscriber(line.parse().expect("a subscriber")));
            let device = device(n + 1, &format!("c{n}"), &format!("p{n}"));
            world.devices.push(if n % 2 == 0 { with_ipv6(device, n + 1) } else { device });
        }
        let mut lost = Random::new([seed + 100; 32]);
        world.loses = Box::new(move || lost.below(5) == 0);
        for _ in 0..300 {
            let client = random.below(20) as usize;
            match random.below(12) {
                0 => world.restart(),
                1 => world.devices[client].client.reset(),
                2 => {
                    let session = world.bng.sessions().nth(client).map(|session| session.id);
                    session.into_iter().for_each(|session| world.command(Command::Disconnect(session)));
                }
                3 => world.run(Duration::from_secs(20)),
                _ if world.devices[client].client.is_idle() => world.dial(client),
                _ => {}
            }
            check(&world, seed);
        }
        // All lines are cut.
        world.loses = Box::new(|| true);
        let all: Vec<SessionId> = world.bng.sessions().map(|session| session.id).collect();
        all.into_iter().for_each(|session| world.command(Command::Disconnect(session)));
        world.run(Duration::from_secs(200));
        world.assert_empty();
    }
}

/// An address has one holder, and the node has the sessions that are on disk.
fn check(world: &World, seed: u8) {
    let mut addresses: Vec<Ipv4Addr> = world.online().into_iter().map(|(_, address)| address).collect();
    addresses.sort();
    let count = addresses.len();
    addresses.dedup();
    assert_eq!(addresses.len(), count, "seed {seed}: an address twice");
    let prefixes: Vec<_> = world.bng.sessions().filter_map(|session| session.lease.prefix).collect();
    let unique: BTreeSet<_> = prefixes.iter().collect();
    assert_eq!(unique.len(), prefixes.len(), "seed {seed}: a prefix twice");
    let mut node: Vec<SessionId> = world.node.iter().map(|add| add.session).collect();
    node.sort();
    let online: Vec<SessionId> = world.bng.sessions().map(|session| session.id).collect();
    assert_eq!(node, online, "seed {seed}");
    assert!(world.bng.calls() >= count, "seed {seed}: a session without a call");
    world.assert_counted();
}

pub(crate) const RADIUS: &str = "radius one 192.0.2.9:1812 secret-file x plan basic";

/// A server that knows a password, and gives these attributes.
pub(crate) fn server(password: &'static [u8], list: &'static [(u8, &'static [u8])]) -> Server {
    Box::new(move |bytes| {
        let request = radius::Packet::read(bytes).expect("a packet");
        assert_eq!(request.check_access(SECRET, Require::MessageAuthenticator), Ok(()));
        let hidden = request.attributes.get(number::USER_PASSWORD).expect("PAP");
        let is_right = reveal_password(hidden, SECRET, &request.authenticator).as_deref() == Some(password);
        let mut attributes = Attributes::default();
        list.iter().filter(|_| is_right).for_each(|(kind, value)| attributes.push(*kind, value));
        let code = if is_right { code::ACCESS_ACCEPT } else { code::ACCESS_REJECT };
        Some(request.answer(code, &attributes, SECRET).expect("a short packet").write())
    })
}

pub(crate) fn remote(password: &'static [u8], list: &'static [(u8, &'static [u8])]) -> World {
    let carl = device_with(3, "carl@isp", "secret", Method::Pap);
    let text = format!("{RADIUS}, {}", TEXT.replace("auth chap-md5 pap", "auth pap chap-md5"));
    let mut world = World::of(&text, vec![carl]);
    world.radius = server(password, list);
    world
}

#[test]
fn a_login_that_radius_knows_comes_online_with_address_and_rates_of_the_answer() {
    const GIVEN: &[(u8, &[u8])] =
        &[(number::FRAMED_IP_ADDRESS, &[100, 64, 0, 7]), (number::FILTER_ID, b"30000/7000")];
    let mut world = remote(b"secret", GIVEN);
    world.dial(0);
    assert_eq!(world.online(), [("carl@isp".to_string(), Ipv4Addr::new(100, 64, 0, 7))]);
    let rates = world.node[0].service.rates;
    assert_eq!((rates.down_bits_per_s, rates.up_bits_per_s), (30_000_000, 7_000_000));
    // The subscriber and its session are there after a restart, without a question.
    world.radius = Box::new(|_| panic!("a question"));
    world.restart();
    assert_eq!((world.online().len(), world.node.len()), (1, 1));
}

#[test]
fn an_answer_without_a_plan_gives_that_of_the_server() {
    let mut world = remote(b"secret", &[]);
    world.dial(0);
    assert_eq!(world.node[0].service.rates.down_bits_per_s, 20_000_000);
    // Its password is right or wrong at the server alone.
    world.devices[0].client.reset();
    world.radius = server(b"other", &[]);
    world.dial(0);
    world.run(Duration::from_secs(20));
    assert_eq!((world.drops(DropReason::RadiusReject), world.devices[0].address()), (1, None));
    assert_eq!(world.online().len(), 1, "a wrong password ends no session");
}

#[test]
fn r11_a_server_that_is_silent_refuses_a_login_and_holds_up_no_other_one() {
    let mut world = remote(b"secret", &[]);
    world.devices.push(anna());
    world.radius = Box::new(|_| None);
    world.dial(0);
    world.dial(1);
    assert_eq!(world.online(), [("anna".to_string(), world.devices[1].address().expect("an address"))]);
    world.run(Duration::from_secs(60));
    assert_eq!(world.drops(DropReason::RadiusNoAnswer), 1);
    let why = world.bng.why_mac(world.devices[0].mac());
    assert_eq!((why.step, &*why.reason), (Some(Step::Authentication), DropReason::RadiusNoAnswer.meaning()));
    assert_eq!((world.bng.calls(), world.devices[0].address()), (1, None));
    world.assert_counted();
}

#[test]
fn a_subscriber_with_a_password_here_is_not_asked_of_radius() {
    let mut world = remote(b"secret", &[]);
    world.radius = Box::new(|_| panic!("a question"));
    world.devices.push(anna());
    world.dial(1);
    assert_eq!(world.online().len(), 1);
}

#[test]
fn an_answer_with_a_plan_that_there_is_not_is_refused_by_name() {
    let mut world = remote(b"secret", &[(number::FILTER_ID, b"platinum")]);
    world.dial(0);
    world.run(Duration::from_secs(20));
    assert_eq!((world.drops(DropReason::RadiusAnswer), world.online().len()), (1, 0));
}

/// Limits of sessions with both policies, each with its own reason.
#[test]
fn limits_of_sessions_refuse_the_new_one_or_replace_the_old_one() {
    let rows = [
        ("mac 1", DropReason::SessionsMac, "access1:100.2", 1),
        ("line 1", DropReason::SessionsLine, "access1:100.1", 2),
        ("vlan 1", DropReason::SessionsVlan, "access1:100.2", 2),
        ("node 1", DropReason::SessionsNode, "access1", 2),
    ];
    for (limit, reason, line, mac) in rows {
        for replaces in [false, true] {
            let policy = if replaces { " replace" } else { "" };
            let mut ben = device(mac, "ben@isp", "other");
            ben.line = line.parse().expect("a line");
            let text = format!("limit sessions {limit}{policy}, {TEXT}");
            let mut world = World::of(&text, vec![anna(), ben]);
            (0..2).for_each(|client| world.dial(client));
            let online = if replaces { "ben" } else { "anna" };
            let names: Vec<String> = world.online().into_iter().map(|(name, _)| name).collect();
            assert_eq!((names, world.node.len()), (vec![online.to_string()], 1), "{limit}{policy}");
            assert_eq!(world.drops(reason), u64::from(!replaces), "{limit}{policy}");
            if !replaces {
                let why = world.bng.why_login("ben@isp").expect("it was heard");
                assert_eq!(why.reason, reason.meaning());
            }
            // It counts on after a restart, and a client may replace its own session.
            world.restart();
            let client = usize::from(replaces);
            world.devices[client].client.reset();
            world.dial(client);
            assert!(world.devices[client].address().is_some(), "{limit}{policy}");
            world.assert_counted();
        }
    }
}
