//! Devices dial in by PPPoE through a node, in namespaces: they get addresses of both families, packets pass in both directions, a
//! program that is killed loses no session, and each side can end one.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr, UdpSocket};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use weir_bng::api::{Session, Traced, Why};
use weir_bng::dial::{Client, Profile};
use weir_bng::ppp::auth::supplicant::Login;
use weir_bng::ppp::auth::{Method, Password};
use weir_bng::ppp::protocol;
use weir_bng::pppoe::session::SessionFrame;
use weir_bng::radius::attribute::{Attributes, number};
use weir_bng::radius::packet as radius;
use weir_bng::{Mac, Random, interface_id, link_local, ra};
use weir_cpe::{Load, Options, Pppoe, SHORTEST_FRAME6};
use weir_packet::checksum::{self, write_ipv4};
use weir_port::duplex::{FRONT, Packet, Pool, Port, ReceiveMode};
use weir_testkit::PATIENCE;

use crate::restart::{Rig, TEXT, options};

/// Devices, each by another method.
const METHODS: [Method; 3] = [Method::ChapMd5, Method::MsChapV2, Method::Pap];
const UDP: u8 = 17;
/// The secret of the RADIUS server.
const SECRET: &str = "of both sides";
const FAR: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);
pub(crate) const FAR6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 0, 2);

/// An interface of this process.
pub(crate) struct Wire {
    port: Packet,
    pool: Pool,
}

impl Wire {
    pub(crate) fn open(name: &str) -> Wire {
        let port = Packet::open(name, 1530, ReceiveMode::Promiscuous).expect("the interface");
        Wire { port, pool: Pool::new(512, 1530).expect("memory") }
    }

    pub(crate) fn send(&mut self, frame: &[u8]) {
        let mut chunk = self.pool.take().expect("a chunk");
        chunk.set_range(FRONT..FRONT + frame.len());
        self.pool.bytes_mut(&chunk).copy_from_slice(frame);
        self.port.send(&mut self.pool, &mut vec![chunk]).expect("the port works");
    }

    pub(crate) fn receive(&mut self) -> Vec<Vec<u8>> {
        let mut chunks = Vec::new();
        self.port.receive(&mut self.pool, &mut chunks).expect("the port works");
        let mut frames = Vec::new();
        for chunk in chunks {
            frames.push(self.pool.bytes(&chunk).to_vec());
            self.pool.give_back(chunk);
        }
        frames
    }
}

/// What a thread with the devices has done.
pub(crate) struct Devices {
    access: Wire,
    far: Wire,
    pub(crate) clients: Vec<Client>,
    began: Instant,
    /// Packets that arrived at the far end and at the clients.
    arrived: [usize; 2],
    /// Sources of packets of IPv4 that arrived at the far end.
    pub(crate) sources: BTreeSet<Ipv4Addr>,
}

impl Devices {
    pub(crate) fn new() -> Devices {
        let client = |(number, method): (u8, &Method)| {
            let login = Login {
                name: format!("d{number}@isp").into_bytes().into(),
                password: Password::new(b"secret"),
            };
            let mac = Mac([2, 0, 2, 0, 0, number]);
            let interface_id = Some(interface_id(mac));
            let profile =
                Profile { methods: vec![*method], max_mru: 1500, interface_id, ..Profile::new(mac, login) };
            Client::new(profile, Random::new([number; 32]))
        };
        let clients = (1..).zip(&METHODS).map(client).collect();
        let (access, far) = (Wire::open("a"), Wire::open("c"));
        Devices { access, far, clients, began: Instant::now(), arrived: [0; 2], sources: BTreeSet::new() }
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Carries frames until something is so.
    pub(crate) fn until(&mut self, what: &str, is_so: impl Fn(&Devices) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !is_so(self) {
            let ends: Vec<_> = self.clients.iter().map(|client| (client.end(), client.padt())).collect();
            assert!(Instant::now() < deadline, "{what}: {:?}, {ends:?}", self.arrived);
            let now = self.now();
            for frame in self.access.receive() {
                let to = self.clients.iter().position(|client| frame.starts_with(&client.profile().mac.0));
                if let Some(to) = to {
                    self.hear(now, to, &frame);
                }
            }
            for frame in self.far.receive() {
                self.far_frame(&frame);
            }
            for at in 0..self.clients.len() {
                if self.clients[at].deadline().is_some_and(|deadline| deadline <= now) {
                    let frames = self.clients[at].timer(now);
                    frames.iter().for_each(|frame| self.access.send(frame));
                }
            }
            std::thread::yield_now();
        }
    }

    fn hear(&mut self, now: Duration, to: usize, frame: &[u8]) {
        let packet = SessionFrame::read(frame).ok();
        let has_arrived = packet.is_some_and(|packet| match packet.protocol {
            protocol::IPV4 => true,
            protocol::IPV6 => packet.payload.get(6) == Some(&UDP),
            _ => false,
        });
        self.arrived[1] += usize::from(has_arrived);
        let frames = self.clients[to].hear(now, frame);
        frames.iter().for_each(|frame| self.access.send(frame));
    }

    /// The far end sends each packet back.
    fn far_frame(&mut self, frame: &[u8]) {
        if let Some(packet) =
            frame.get(14..54).filter(|packet| packet[6] == UDP && packet[24..40] == FAR6.octets())
        {
            self.arrived[0] += 1;
            let source: [u8; 16] = packet[8..24].try_into().expect("sixteen bytes");
            let answer = packet6_of(FAR6, source.into());
            let frame = [&frame[6..12], &frame[..6], &[0x86, 0xdd], &*answer].concat();
            return self.far.send(&frame);
        }
        let Some(packet) =
            frame.get(14..34).filter(|packet| packet[9] == 17 && packet[16..20] == FAR.octets())
        else {
            return;
        };
        self.arrived[0] += 1;
        let source: [u8; 4] = packet[12..16].try_into().expect("four bytes");
        self.sources.insert(source.into());
        let bytes = u16::from_be_bytes([packet[2], packet[3]]);
        let mut answer = packet_of(FAR, source.into(), bytes.into());
        // A NAT may have given it another port.
        answer[22..24].copy_from_slice(&frame[34..36]);
        let frame = [&frame[6..12], &frame[..6], &[8, 0], &*answer].concat();
        self.far.send(&frame);
    }

    pub(crate) fn dial(&mut self) {
        let now = self.now();
        for client in &mut self.clients {
            let padi = client.dial(now);
            self.access.send(&padi);
        }
        self.until("all have an address", |all| {
            all.clients.iter().all(|client| client.addresses().is_some())
        });
    }

    /// Each client sends a packet of IPv6 from the address that it made of its prefix, and gets an answer.
    fn exchange6(&mut self) {
        self.until("all have a prefix", |all| all.clients.iter().all(|client| client.address6().is_some()));
        self.arrived = [0; 2];
        for client in &self.clients {
            let address = client.address6().expect("a prefix");
            let frame = client.frame(protocol::IPV6, &packet6_of(address, FAR6)).expect("a session");
            self.access.send(&frame);
        }
        let all = self.clients.len();
        self.until("packets of IPv6 in both directions", |devices| devices.arrived == [all, all]);
    }

    /// Each client sends a packet, and gets an answer.
    pub(crate) fn exchange(&mut self) {
        self.exchange_of(36);
    }

    /// The same with packets of so many bytes.
    fn exchange_of(&mut self, bytes: usize) {
        self.arrived = [0; 2];
        for client in &self.clients {
            let address = client.addresses().expect("an address").client;
            let frame = client.frame(protocol::IPV4, &packet_of(address, FAR, bytes)).expect("a session");
            self.access.send(&frame);
        }
        let all = self.clients.len();
        self.until("packets in both directions", |devices| devices.arrived == [all, all]);
    }
}

/// A datagram in a packet of so many bytes, at least 36, that must not be fragmented.
fn packet_of(from: Ipv4Addr, to: Ipv4Addr, bytes: usize) -> Vec<u8> {
    let [h, i] = (bytes as u16).to_be_bytes();
    let mut packet = vec![0x45, 0, h, i, 0, 0, 0x40, 0, 64, 17, 0, 0];
    packet.extend(from.octets());
    packet.extend(to.octets());
    write_ipv4(&mut packet);
    let [h, i] = (bytes as u16 - 20).to_be_bytes();
    packet.extend([0, 7, 0, 7, h, i, 0, 0]);
    packet.resize(bytes, 1);
    packet
}

/// The same of IPv6.
pub(crate) fn packet6_of(from: Ipv6Addr, to: Ipv6Addr) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0, 0, 16, UDP, 64];
    packet.extend(from.octets());
    packet.extend(to.octets());
    let pseudo = checksum::pseudo_header(&packet[8..40], UDP, 16);
    let mut datagram = [0, 7, 0, 7, 0, 16, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
    checksum::write(&mut datagram, 6, pseudo);
    packet.extend(datagram);
    packet
}

/// Does something with the devices in their namespace.
pub(crate) fn with<R: Send + 'static>(rig: &Rig, work: impl FnOnce() -> R + Send + 'static) -> R {
    let thread: JoinHandle<R> = rig.devices.spawn("devices", work).expect("a thread");
    thread.join().expect("no panic")
}

/// A RADIUS server for one password; it gives rates. Ends with its socket's last datagram `end`.
fn serve_radius(socket: &UdpSocket) -> usize {
    let mut accepted = 0;
    let mut buffer = [0; 4096];
    loop {
        let (len, from) = socket.recv_from(&mut buffer).expect("the socket works");
        if &buffer[..len] == b"end" {
            return accepted;
        }
        let request = radius::Packet::read(&buffer[..len]).expect("a packet");
        let required = radius::Require::MessageAuthenticator;
        assert_eq!(request.check_access(SECRET.as_bytes(), required), Ok(()));
        let hidden = request.attributes.get(number::USER_PASSWORD).expect("PAP");
        let password = radius::reveal_password(hidden, SECRET.as_bytes(), &request.authenticator);
        let is_right = password.as_deref() == Some(b"secret");
        let mut attributes = Attributes::default();
        if is_right {
            attributes.push(number::FILTER_ID, b"30000/7000");
        }
        let code = if is_right { radius::code::ACCESS_ACCEPT } else { radius::code::ACCESS_REJECT };
        let answer = request.answer(code, &attributes, SECRET.as_bytes()).expect("a short packet");
        socket.send_to(&answer.write(), from).expect("the socket works");
        accepted += usize::from(is_right);
    }
}

#[test]
fn a_device_that_radius_knows_dials_in() {
    let radius = "pppoe auth pap, radius one 127.0.0.1:1812 secret-file one.secret ports 2 require";
    let text = TEXT.replace("limit subscriber 1000", &format!("limit subscriber 1000, {radius}"));
    let Some(rig) = Rig::of(&text) else { return };
    let server = rig.socket("127.0.0.1:1812");
    let ends = rig.socket("127.0.0.1:0");
    let serving = std::thread::spawn(move || serve_radius(&server));
    // The secret was missing when the program began.
    rig.write_and_reload("one.secret", &format!("{SECRET}\n"));
    rig.until("the servers are read", |rig| rig.log().contains("the file was read again"));
    with(&rig, || {
        let mut devices = Devices::new();
        devices.clients.truncate(1);
        let profile = devices.clients[0].profile().clone();
        let profile = Profile { methods: vec![Method::Pap], ..profile };
        devices.clients = vec![Client::new(profile, Random::new([9; 32]))];
        devices.dial();
        devices.exchange();
    });
    let all = rig.agree("it is up");
    assert_eq!((all.len(), all[0].subscriber.as_str()), (1, "d1@isp"));
    ends.send_to(b"end", "127.0.0.1:1812").expect("the socket works");
    assert_eq!(serving.join().expect("no panic"), 1);
}

/// A node and a concentrator with both families; `pppoe` is that item.
pub(crate) fn dual_stack(pppoe: &str) -> String {
    let text = TEXT.replace("gateway 100.64.0.1/10", "gateway 100.64.0.1/10, gateway 2001:db8:100::1/40");
    let text = text.replace("via 198.18.0.2)", "via 198.18.0.2, ::/0 via 2001:db8:2::2)");
    let text = text.replace(
        "wan(198.18.0.1/24,",
        "wan(198.18.0.1/24, 2001:db8:2::1/64, neighbour 2001:db8:2::2 02:00:00:00:01:01,",
    );
    let pool = "limit subscriber 1000, pool six 2001:db8:100::/48 router 2001:db8:100::1/40";
    text.replace("limit subscriber 1000", &format!("{pool}, {pppoe}"))
}

/// A subscriber for each method of authentication.
fn add_logins(rig: &mut Rig) {
    for number in 1..=METHODS.len() {
        rig.add_subscriber(&format!(
            r#"{{"name": "d{number}", "login": "d{number}@isp", "password": "secret", "plan": "basic"}}"#
        ));
    }
}

/// IPv4 by IPCP and IPv6 by SLAAC in the same sessions, over the end of the program.
#[test]
fn devices_with_both_families_keep_both_when_the_program_is_killed() {
    let text = dual_stack("pppoe auth chap-md5 ms-chapv2 pap");
    let Some(mut rig) = Rig::of(&text) else { return };
    add_logins(&mut rig);
    let devices = with(&rig, || {
        let mut devices = Devices::new();
        devices.dial();
        devices.exchange6();
        devices.exchange();
        devices
    });
    let before = rig.agree("all are up");
    let prefixes: BTreeSet<_> = before.iter().map(|session| session.prefix.clone()).collect();
    assert_eq!((before.len(), prefixes.len(), prefixes.contains(&None)), (3, 3, false), "{before:?}");
    rig.kill_bngd();
    let after = rig.agree("after the kill");
    assert!(after.iter().all(|session| prefixes.contains(&session.prefix)), "{after:?}");
    with(&rig, move || {
        let mut devices = devices;
        devices.exchange6();
        devices.exchange();
        // The program of after the kill answers the same question.
        let before: Vec<u32> = devices.clients.iter().map(advertisements).collect();
        for client in &devices.clients {
            let own = link_local(client.interface_ids().expect("IPV6CP").own);
            let frame = client.frame(protocol::IPV6, &ra::solicitation(own)).expect("a session");
            devices.access.send(&frame);
        }
        devices.until("advertisements", move |all| {
            all.clients.iter().zip(&before).all(|(client, before)| advertisements(client) > *before)
        });
    });
}

fn advertisements(client: &Client) -> u32 {
    client.advertised().map_or(0, |(_, count)| count)
}

#[test]
fn devices_dial_in_and_a_program_that_is_killed_loses_no_session() {
    let pppoe = "limit subscriber 1000, pppoe auth chap-md5 ms-chapv2 pap mtu 1508";
    let text = TEXT.replace("limit subscriber 1000", pppoe);
    let Some(mut rig) = Rig::of(&text) else { return };
    add_logins(&mut rig);
    let devices = with(&rig, || {
        let mut devices = Devices::new();
        devices.dial();
        devices.exchange();
        devices
    });
    let before = rig.agree("all are up");
    let addresses =
        |all: &[Session]| all.iter().map(|session| (session.session, session.address)).collect::<Vec<_>>();
    assert_eq!(before.len(), METHODS.len());
    assert!(before.iter().all(|session| session.access == "pppoe"), "{before:?}");
    rig.kill_bngd();
    let after = rig.agree("after the kill");
    assert_eq!(addresses(&before), addresses(&after));
    // Another version of the program, which finds the database of the one before.
    rig.upgrade_bngd(|store| {
        let db = rusqlite::Connection::open(store.join("bng.db")).expect("a database");
        let before = "CREATE TABLE before AS SELECT id, subscriber, line, mac, relay, address, client_id, start_s, granted_s, lease_s,
                down_frames, down_bytes, up_frames, up_bytes, revision, ppp, prefix, account FROM sessions;
            DROP TABLE sessions; ALTER TABLE before RENAME TO sessions; ALTER TABLE subscribers DROP COLUMN routes;
            ALTER TABLE subscribers DROP COLUMN pool; ALTER TABLE subscribers DROP COLUMN prefix_pool; PRAGMA user_version = 7";
        db.execute_batch(before).expect("the schema of before");
    });
    assert_eq!(addresses(&before), addresses(&rig.agree("after the upgrade")));
    // No client has noticed it; one ends its session, and another one is ended by its operator.
    let devices = with(&rig, move || {
        let mut devices = devices;
        devices.exchange();
        let now = devices.now();
        let frames = devices.clients[0].close(now);
        frames.iter().for_each(|frame| devices.access.send(frame));
        devices.until("the end of the first one", |all| all.clients[0].is_idle());
        devices
    });
    rig.until("two are left", |rig| rig.sessions().is_some_and(|all| all.len() == 2));
    let second = after.iter().find(|session| session.subscriber == "d2").expect("a session");
    rig.disconnect(second.session);
    with(&rig, move || {
        let mut devices = devices;
        devices.until("the end of the second one", |all| all.clients[1].is_idle());
        assert!(devices.clients[1].padt().is_some(), "it got a PADT");
        devices.clients.remove(0);
        devices.dial();
        devices.exchange();
    });
    assert_eq!(rig.agree("they dialled again").len(), 2);
}

/// The devices of `weir cpe --pppoe 50 --dual-stack` come up with both families.
#[test]
fn emulated_devices_with_both_families_get_their_prefixes() {
    let Some(rig) = Rig::of(&dual_stack("pppoe")) else { return };
    let devices = 50;
    rig.add_logins(devices);
    let pppoe = Pppoe { dual_stack: true, ..Pppoe::default() };
    let load = Load { from_subscriber_fps: 20.0, to_subscriber_fps: 20.0, frame_bytes: SHORTEST_FRAME6 };
    let options = Options {
        devices,
        pppoe: Some(pppoe),
        far6: Some(FAR6),
        load: Some(load),
        hold: Some(Duration::from_millis(200)),
        ..options()
    };
    let summary = rig.emulate(options).end();
    assert!(summary.is_clean(), "{summary:?}");
    for traffic in [summary.from_subscriber, summary.to_subscriber] {
        let traffic = traffic.expect("it was sent");
        assert!(traffic.sent6 > 0, "{traffic:?}");
        assert_eq!((traffic.lost(), traffic.received6), (0, traffic.sent6), "{traffic:?}");
    }
    assert_eq!(summary.prefixes, u64::from(devices), "{summary:?}");
    let sessions = rig.agree("all are up");
    let prefixes: BTreeSet<_> = sessions.iter().filter_map(|session| session.prefix.as_ref()).collect();
    assert_eq!(prefixes.len(), sessions.len());
}

/// RFC 4638: packets of 1500 bytes pass in both directions where the wire carries them, and 1492 are agreed on where it does not.
#[test]
fn packets_of_1500_bytes_pass_where_the_line_carries_them() {
    for (mtu, mru) in [(1508, 1500), (1500, 1492)] {
        let text = TEXT.replace(
            "limit subscriber 1000",
            "limit subscriber 1000, pppoe auth chap-md5 ms-chapv2 pap mtu 1508",
        );
        let text = text.replace("access1(access,", &format!("access1(access, mtu {mtu},"));
        let Some(rig) = Rig::with_mtu(&text, mtu) else { return };
        for number in 1..=METHODS.len() {
            rig.add_subscriber(&format!(
                r#"{{"name": "d{number}", "login": "d{number}@isp", "password": "secret", "plan": "basic"}}"#
            ));
        }
        with(&rig, move || {
            let mut devices = Devices::new();
            devices.dial();
            devices.exchange_of(mru.into());
        });
        let entries = rig.entries_of_node().expect("the node runs");
        assert!(entries.iter().all(|entry| entry.mru == Some(mru)), "MTU {mtu}: {entries:?}");
    }
}

/// What the API says of a client that is followed, and of one whose password is wrong.
#[test]
fn a_client_is_followed_live_and_found_by_its_login() {
    let text = TEXT.replace("limit subscriber 1000", "limit subscriber 1000, pppoe auth pap");
    let Some(rig) = Rig::of(&text) else { return };
    rig.add_subscriber(r#"{"name": "d3", "login": "d3@isp", "password": "secret", "plan": "basic"}"#);
    let trace = |after: u64, wait_s: u64| {
        let target = format!("/v1/trace/login/d3%40isp?after={after}&wait_s={wait_s}");
        rig.get::<Traced>(&target).expect("it runs")
    };
    assert!(trace(0, 0).frames.is_empty());
    with(&rig, || {
        let mut devices = Devices::new();
        devices.clients.drain(..2);
        devices.dial();
    });
    let mut texts = Vec::new();
    let mut after = 0;
    while !texts.iter().any(|text: &String| text.starts_with("IPCP Configure-Ack")) {
        let traced = trace(after, 5);
        assert!(!traced.frames.is_empty(), "{texts:#?}");
        after = traced.next;
        texts.extend(traced.frames.into_iter().map(|traced| traced.frame.text));
    }
    assert!(texts[0].starts_with("PADI"), "{texts:#?}");
    assert!(texts.iter().any(|text| text.contains("password ********")), "{texts:#?}");
    let why = rig.get::<Why>("/v1/why/login/d3%40isp").expect("it runs");
    assert_eq!((why.subscriber.as_deref(), why.step.as_deref()), (Some("d3"), Some("up")));
    let hidden: String = b"secret".iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(why.frames.iter().all(|frame| !frame.bytes.contains(&hidden)));
    assert!(rig.get::<Why>("/v1/why/login/nobody").is_none(), "it is a problem document");
}
