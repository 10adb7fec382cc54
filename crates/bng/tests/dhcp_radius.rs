//! DHCP clients that RADIUS knows: asked before an offer, with late, lost and refusing servers, restarts, CoA and accounting.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use weir_bng::radius::attribute::{Attributes, number, vendor};
use weir_bng::radius::packet::{self as radius, Require, code, reveal_password};
use weir_bng::scenario::{described, frame};
use weir_bng::{Counters, DropReason, EndCause, Event, Input, Line, Mac, Punt, Step};

use crate::accounting::{Book, Given, START, STOP, ask};
use crate::pppoe::{SECRET, World};

const TEXT: &str =
    "port access1 mac 02:00:00:00:00:fe trusted, pool main 100.64.0.2-100.64.0.9 router 100.64.0.1/24,
    plan basic down 20Mbit up 5Mbit, limit line 1000,
    radius one 192.0.2.9:1812 secret-file x plan basic accounting 1813, aaa radius 5s";
const MAC: &str = "02:00:00:00:00:01";
const OTHER: &str = "02:00:00:00:00:02";

/// What the server answers, and what it was asked.
#[derive(Clone, Default)]
struct Server(Rc<RefCell<State>>);

#[derive(Default)]
struct State {
    /// Attributes of an Accept; `None`: a Reject.
    given: Option<Vec<(u8, Vec<u8>)>>,
    is_silent: bool,
    requests: Vec<Attributes>,
    password: Option<Vec<u8>>,
}

impl Server {
    fn accepts(&self, list: &[(u8, &[u8])]) {
        let given = list.iter().map(|(kind, value)| (*kind, value.to_vec())).collect();
        self.0.borrow_mut().given = Some(given);
        self.0.borrow_mut().is_silent = false;
    }

    fn rejects(&self) {
        self.0.borrow_mut().given = None;
    }

    fn is_silent(&self, is_silent: bool) {
        self.0.borrow_mut().is_silent = is_silent;
    }

    fn asked(&self) -> usize {
        self.0.borrow().requests.len()
    }

    fn answer(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let request = radius::Packet::read(bytes).expect("a packet");
        assert_eq!(request.check_access(SECRET, Require::MessageAuthenticator), Ok(()));
        let mut state = self.0.borrow_mut();
        if state.is_silent {
            return None;
        }
        let hidden = request.attributes.get(number::USER_PASSWORD);
        state.password = hidden.and_then(|hidden| reveal_password(hidden, SECRET, &request.authenticator));
        state.requests.push(request.attributes.clone());
        let mut attributes = Attributes::default();
        let code = match &state.given {
            Some(given) => {
                given.iter().for_each(|(kind, value)| attributes.push(*kind, value));
                code::ACCESS_ACCEPT
            }
            None => {
                attributes.push(number::REPLY_MESSAGE, b"call 555");
                code::ACCESS_REJECT
            }
        };
        Some(request.answer(code, &attributes, SECRET).expect("a short packet").write())
    }
}

/// A world with a server that accepts every client.
fn world(more: &str) -> (World, Server, Book) {
    let mut world = World::of(&format!("{TEXT}, {more}"), Vec::new());
    let (server, book) = (Server::default(), Book::default());
    server.accepts(&[]);
    let of_world = server.clone();
    world.radius = Box::new(move |bytes| of_world.answer(bytes));
    world.accounting = book.server();
    (world, server, book)
}

/// A message of a client comes in.
fn hear(world: &mut World, line: &str, text: &str) {
    let bytes = frame(text, 0).expect("a frame");
    let Line { port, tags } = line.parse().expect("a line");
    world.input(Input::Punt(Punt { port, tags, bytes: &bytes }));
}

/// What was sent since the last call.
fn answers(world: &mut World) -> Vec<String> {
    let all = std::mem::take(&mut world.sent);
    let one = |bytes: &Vec<u8>| {
        let fields = described(bytes).ok()?;
        let field = |name: &str| fields.iter().find(|(of, _)| *of == name).map(|(_, value)| value.clone());
        let words = [field("message")?, field("address")?, field("lease")?];
        Some(words.join(" "))
    };
    all.iter().filter_map(one).collect()
}

/// A message, and what is answered within a second.
fn say(world: &mut World, text: &str) -> Vec<String> {
    say_at(world, "access1", text)
}

fn say_at(world: &mut World, line: &str, text: &str) -> Vec<String> {
    hear(world, line, text);
    world.run(Duration::from_secs(1));
    world.assert_counted();
    answers(world)
}

fn discover(mac: &str) -> String {
    format!("discover {mac}")
}

fn request(mac: &str, address: &str) -> String {
    format!("request {mac} want {address} server 100.64.0.1")
}

fn renew(mac: &str, address: &str) -> String {
    format!("request {mac} ciaddr {address}")
}

/// A client gets an address.
fn bind(world: &mut World, mac: &str) -> String {
    let offers = say(world, &discover(mac));
    let address = offers.first().and_then(|offer| offer.split(' ').nth(1)).unwrap_or("none").to_string();
    let answers = say(world, &request(mac, &address));
    assert!(answers.first().is_some_and(|ack| ack.starts_with("ack ")), "{offers:?} {answers:?}");
    address
}

fn why(world: &World, mac: &str) -> (Option<Step>, String) {
    let why = world.bng.why_mac(mac.parse::<Mac>().expect("a MAC address"));
    (why.step, why.reason)
}

#[test]
fn a_client_of_no_subscriber_is_asked_of_radius_before_its_offer() {
    let (mut world, server, book) = world("dhcp-radius");
    server.accepts(&[
        (number::FRAMED_IP_ADDRESS, &[100, 64, 0, 7]),
        (number::FILTER_ID, b"30000/7000"),
        (number::CLASS, b"gold"),
    ]);
    assert_eq!(say(&mut world, &discover(MAC)), ["offer 100.64.0.7 3600"]);
    assert_eq!(say(&mut world, &discover(MAC)), ["offer 100.64.0.7 3600"], "the offer stands");
    assert_eq!(say(&mut world, &request(MAC, "100.64.0.8")), ["nak none none"], "it is given another one");
    assert_eq!(say(&mut world, &request(MAC, "100.64.0.7")), ["ack 100.64.0.7 3600"]);
    assert_eq!(server.asked(), 1);
    let rates = world.node[0].service.rates;
    assert_eq!((rates.down_bits_per_s, rates.up_bits_per_s), (30_000_000, 7_000_000));
    assert_eq!(world.online(), [(MAC.to_string(), [100, 64, 0, 7].into())]);
    // Neither a renewal nor a restart asks again, and a client that begins anew gets its address.
    for _ in 0..2 {
        assert_eq!(say(&mut world, &renew(MAC, "100.64.0.7")), ["ack 100.64.0.7 3600"]);
        assert_eq!(say(&mut world, &discover(MAC)), ["offer 100.64.0.7 3600"]);
        world.restart();
    }
    let start = book.told(START).into_values().next().expect("a Start");
    assert_eq!(start.get(number::CLASS), Some(&b"gold"[..]));
    assert_eq!(start.get(number::USER_NAME), Some(MAC.as_bytes()));
    assert_eq!((start.u32(number::NAS_PORT_TYPE), start.get(number::FRAMED_PROTOCOL)), (Some(15), None));
    assert_eq!((start.u32(number::ACCT_AUTHENTIC), server.asked()), (Some(1), 1));
    say(&mut world, &format!("release {MAC} ciaddr 100.64.0.7 server 100.64.0.1"));
    book.assert_balanced("after a release");
}

#[test]
fn the_request_says_who_asks_by_templates_and_what_the_access_node_says() {
    let (mut world, server, _) = world("dhcp-radius user-name {circuit} password {mac}");
    let seen = format!("discover {MAC} circuit eth0/1:100 remote 0x0102");
    assert_eq!(say_at(&mut world, "access1:100.7", &seen), ["offer 100.64.0.2 3600"]);
    let state = server.0.borrow();
    let [asked] = &*state.requests else { panic!("{} requests", state.requests.len()) };
    for (kind, value) in [
        (number::USER_NAME, &b"eth0/1:100"[..]),
        (number::NAS_PORT_ID, b"access1:100.7"),
        (number::CALLING_STATION_ID, MAC.as_bytes()),
        (number::SERVICE_TYPE, &[0, 0, 0, 2]),
        (number::NAS_PORT_TYPE, &[0, 0, 0, 15]),
    ] {
        assert_eq!(asked.get(kind), Some(value), "attribute {kind}");
    }
    assert_eq!(asked.get(number::FRAMED_PROTOCOL), None);
    for (kind, value) in [(1, &b"eth0/1:100"[..]), (2, &[1, 2])] {
        assert_eq!(asked.of_vendor(vendor::ADSL_FORUM, kind).next(), Some(value));
    }
    assert_eq!(state.password.as_deref(), Some(MAC.as_bytes()));
    drop(state);
    // Without a circuit-id there is no name.
    assert_eq!(say(&mut world, &discover(OTHER)), [""; 0]);
    assert_eq!((world.drops(DropReason::RadiusUserName), server.asked()), (1, 1));
}

#[test]
fn a_client_that_waits_for_radius_holds_up_no_other_one_and_its_last_message_is_answered() {
    let (mut world, server, _) =
        world("dhcp-radius, aaa radius 30s, subscriber dora mac 02:00:00:00:00:02 plan basic");
    server.is_silent(true);
    for xid in 1..=3 {
        assert_eq!(say(&mut world, &format!("discover {MAC} xid {xid}")), [""; 0]);
    }
    assert_eq!(why(&world, MAC).0, Some(Step::Authentication));
    assert_eq!(world.drops(DropReason::Superseded), 2);
    assert_eq!(say(&mut world, &discover(OTHER)), ["offer 100.64.0.2 3600"]);
    server.is_silent(false);
    world.run(Duration::from_secs(5));
    let frames = std::mem::take(&mut world.sent);
    let fields: Vec<_> = frames.iter().filter_map(|bytes| described(bytes).ok()).collect();
    let [fields] = &*fields else { panic!("{fields:?}") };
    assert!(fields.contains(&("xid", "3".into())) && fields.contains(&("message", "offer".into())));
    world.assert_counted();
}

#[test]
fn r11_lost_answers_leave_a_client_without_an_offer_and_name_the_reason() {
    let (mut world, server, _) = world("dhcp-radius");
    server.is_silent(true);
    say(&mut world, &discover(MAC));
    world.run(Duration::from_secs(10));
    assert_eq!(
        why(&world, MAC),
        (Some(Step::Authentication), DropReason::RadiusNoAnswer.meaning().to_string())
    );
    world.assert_counted();
    server.is_silent(false);
    world.run(Duration::from_secs(61));
    bind(&mut world, MAC);
}

#[test]
fn r12_a_reject_is_remembered_for_a_time_and_names_its_message() {
    let (mut world, server, _) = world("dhcp-radius reject 20s");
    server.rejects();
    for _ in 0..5 {
        assert_eq!(say(&mut world, &discover(MAC)), [""; 0]);
    }
    assert_eq!((server.asked(), world.drops(DropReason::RadiusReject)), (1, 5));
    let reason = "a RADIUS server has rejected the login: call 555";
    assert_eq!(why(&world, MAC), (Some(Step::Authentication), reason.to_string()));
    server.accepts(&[]);
    assert_eq!(say(&mut world, &discover(MAC)), [""; 0]);
    world.run(Duration::from_secs(20));
    bind(&mut world, MAC);
    assert_eq!(server.asked(), 2);
}

/// The limit of messages from devices of a line without a subscriber is one of requests, too.
#[test]
fn a_line_with_many_devices_asks_no_more_often_than_its_limit() {
    let (mut world, server, _) = world("dhcp-radius, limit line 2");
    server.rejects();
    for number in 0..50 {
        hear(&mut world, "access1", &format!("discover 02:00:00:00:01:{number:02x}"));
    }
    world.run(Duration::from_secs(1));
    assert_eq!((server.asked(), world.drops(DropReason::LineRate)), (2, 48));
}

#[test]
fn a_session_timeout_shortens_the_lease_and_ends_the_session() {
    let (mut world, server, book) = world("dhcp-radius");
    server.accepts(&[(number::SESSION_TIMEOUT, &[0, 0, 0, 200])]);
    assert_eq!(say(&mut world, &discover(MAC)), ["offer 100.64.0.2 200"]);
    assert_eq!(say(&mut world, &request(MAC, "100.64.0.2")), ["ack 100.64.0.2 200"]);
    world.run(Duration::from_secs(99));
    assert_eq!(say(&mut world, &renew(MAC, "100.64.0.2")), ["ack 100.64.0.2 100"]);
    world.restart();
    world.run(Duration::from_secs(101));
    assert_eq!(world.online(), []);
    let stop = book.told(STOP).into_values().next().expect("a Stop");
    assert_eq!(stop.u32(number::ACCT_TERMINATE_CAUSE), Some(5));
}

#[test]
fn renewals_are_asked_by_option_and_a_reject_ends_the_session() {
    let (mut world, server, book) = world("dhcp-radius renewals");
    let address = bind(&mut world, MAC);
    server.accepts(&[(number::FILTER_ID, b"30000/7000")]);
    assert_eq!(say(&mut world, &renew(MAC, &address)), [format!("ack {address} 3600")]);
    assert_eq!((server.asked(), world.node[0].service.rates.down_bits_per_s), (2, 30_000_000));
    assert_eq!(book.told(START).len(), 1, "it is the same session");
    // Without an answer it goes on.
    server.is_silent(true);
    say(&mut world, &renew(MAC, &address));
    world.run(Duration::from_secs(5));
    assert_eq!((answers(&mut world), world.node.len()), (vec![format!("ack {address} 3600")], 1));
    world.run(Duration::from_secs(61));
    server.is_silent(false);
    server.rejects();
    assert_eq!(say(&mut world, &renew(MAC, &address)), ["nak none none"]);
    assert_eq!(world.node.len(), 0);
    world.run(Duration::from_secs(10));
    let stop = book.told(STOP).into_values().next().expect("a Stop");
    assert_eq!(stop.u32(number::ACCT_TERMINATE_CAUSE), Some(6));
    assert_eq!(why(&world, MAC).0, Some(Step::Authentication));
}

#[test]
fn a_renewal_without_a_circuit_id_is_asked_with_that_of_the_session() {
    let (mut world, server, book) = world("dhcp-radius user-name {circuit} renewals");
    say(&mut world, &format!("discover {MAC} circuit eth0/1"));
    say(&mut world, &format!("request {MAC} want 100.64.0.2 server 100.64.0.1 circuit eth0/1"));
    assert_eq!(say(&mut world, &renew(MAC, "100.64.0.2")), ["ack 100.64.0.2 3600"]);
    let state = server.0.borrow();
    let names: Vec<_> = state.requests.iter().map(|asked| asked.get(number::USER_NAME)).collect();
    assert_eq!(names, [Some(&b"eth0/1"[..]); 2]);
    let circuits = state.requests.iter().map(|asked| asked.of_vendor(vendor::ADSL_FORUM, 1).count());
    assert_eq!(circuits.sum::<usize>(), 2);
    assert_eq!(book.told(START).len(), 1);
}

#[test]
fn r13_coa_and_disconnect_change_and_end_sessions_of_dhcp() {
    let coa = "dynamic-authorization 192.0.2.1:3799 client 192.0.2.9 secret-file coa";
    let (mut world, _, book) = world(&format!("dhcp-radius, {coa}"));
    let address = bind(&mut world, MAC);
    let name: (u8, &[u8]) = (number::USER_NAME, MAC.as_bytes());
    let walled = [name, (number::FILTER_ID, b"walled")];
    assert_eq!(ask(&mut world, code::COA_REQUEST, 1, &walled), Some((code::COA_ACK, None)));
    assert_eq!(world.node[0].service.status.to_string(), "walled");
    assert_eq!(ask(&mut world, code::DISCONNECT_REQUEST, 2, &[name]), Some((code::DISCONNECT_ACK, None)));
    world.run(Duration::from_secs(1));
    book.assert_balanced("after a Disconnect");
    // The client finds out when it renews, and RADIUS is asked again.
    assert_eq!(say(&mut world, &renew(MAC, &address)), [format!("ack {address} 3600")]);
    assert_eq!(book.told(START).len(), 2);
}

#[test]
fn brown_out_by_line_or_mac_gives_the_last_answer_and_marks_the_session() {
    for (option, template, line, mac, reason) in [
        (" dhcp", "{mac}", "access1:7", MAC, None),
        (" dhcp", "{line}", "access1:7", OTHER, None),
        (" dhcp", "{line}", "access1:8", MAC, Some(DropReason::RadiusNoAnswer)),
        ("", "{mac}", "access1:7", MAC, Some(DropReason::RadiusNoAnswer)),
    ] {
        let name = format!("{option} {template} {line} {mac}");
        let (mut world, server, _) =
            world(&format!("dhcp-radius user-name {template}, brown-out age 1h{option}"));
        server.accepts(&[(number::FILTER_ID, b"30000/7000")]);
        say_at(&mut world, "access1:7", &discover(MAC));
        say_at(&mut world, "access1:7", &request(MAC, "100.64.0.2"));
        assert_eq!(world.node.len(), 1, "{name}");
        let release = format!("release {MAC} ciaddr 100.64.0.2 server 100.64.0.1");
        say_at(&mut world, "access1:7", &release);
        server.is_silent(true);
        world.restart();
        hear(&mut world, line, &discover(mac));
        world.run(Duration::from_secs(10));
        let offers = answers(&mut world);
        match reason {
            Some(reason) => assert_eq!((offers, world.drops(reason)), (vec![], 1), "{name}"),
            None => {
                assert_eq!(offers, ["offer 100.64.0.2 3600"], "{name}");
                say_at(&mut world, line, &request(mac, "100.64.0.2"));
                assert_eq!(world.node[0].service.rates.down_bits_per_s, 30_000_000);
                let marks = world.bng.sessions().map(|session| world.bng.is_brown_out(session));
                assert_eq!(marks.collect::<Vec<_>>(), [true], "{name}");
            }
        }
        world.assert_counted();
    }
}

#[test]
fn brown_out_of_dhcp_has_an_age_and_ends_with_a_reject() {
    let (mut world, server, _) = world("dhcp-radius reject 0s, brown-out age 1h dhcp");
    let address = bind(&mut world, MAC);
    let release = format!("release {MAC} ciaddr {address} server 100.64.0.1");
    say(&mut world, &release);
    server.is_silent(true);
    world.run(Duration::from_secs(3700));
    hear(&mut world, "access1", &discover(MAC));
    world.run(Duration::from_secs(61));
    assert_eq!(world.drops(DropReason::BrownOutAge), 1);
    server.is_silent(false);
    server.rejects();
    say(&mut world, &discover(MAC));
    server.is_silent(true);
    hear(&mut world, "access1", &discover(MAC));
    world.run(Duration::from_secs(10));
    assert_eq!((world.drops(DropReason::BrownOutAge), answers(&mut world)), (2, vec![]));
}

#[test]
fn an_answer_that_cannot_be_used_is_named() {
    let rows: [(Given, DropReason); 3] = [
        (&[(number::FILTER_ID, b"platinum")], DropReason::RadiusAnswer),
        (&[(number::FRAMED_IP_ADDRESS, &[100, 64, 0, 1])], DropReason::FixedAddressInUse),
        (&[(number::FRAMED_IPV6_PREFIX, &[0, 48, 0x20, 1, 0xd, 0xb8, 0, 1])], DropReason::RadiusPrefix),
    ];
    for (given, reason) in rows {
        let (mut world, server, _) = world("dhcp-radius");
        server.accepts(given);
        assert_eq!(say(&mut world, &discover(MAC)), [""; 0]);
        assert_eq!((world.drops(reason), why(&world, MAC).1), (1, reason.meaning().to_string()));
    }
}

/// Churn with lost datagrams of RADIUS, rejects and restarts at any record: Starts and Stops stay equal.
#[test]
fn each_start_of_a_dhcp_session_has_a_stop_whatever_fails() {
    let first = weir_testkit::number("ACCOUNTING_SEED", 0);
    for seed in first..first + weir_testkit::number("ACCOUNTING_SEEDS", 12) {
        let mut dice = weir_testkit::Dice::new(seed);
        let (mut world, server, book) = world("dhcp-radius reject 1s, brown-out age 1h dhcp");
        let mut loss = weir_testkit::Dice::new(seed + 1_000_000);
        world.loses = Box::new(move || loss.one_in(10));
        for _ in 0..60 {
            let mac = [MAC, OTHER][dice.roll(2)];
            let address = world.online().into_iter().find(|(name, _)| name == mac);
            match (dice.roll(10), address) {
                (0..=4, None) => {
                    hear(&mut world, "access1", &discover(mac));
                    world.run(Duration::from_secs(5));
                    let offers = answers(&mut world);
                    if let Some(address) =
                        offers.iter().find_map(|offer| offer.strip_prefix("offer ")?.split(' ').next())
                    {
                        hear(&mut world, "access1", &request(mac, address));
                    }
                }
                (0..=4, Some((_, address))) => hear(&mut world, "access1", &renew(mac, &address.to_string())),
                (5, Some((_, address))) => {
                    let release = format!("release {mac} ciaddr {address} server 100.64.0.1");
                    hear(&mut world, "access1", &release);
                }
                (6, _) => {
                    let most = dice.roll(world.pending.len() + 1);
                    let kept: Vec<_> = world.pending.drain(..most).collect();
                    world.disk.extend(kept);
                    world.restart();
                }
                (7, _) => {
                    world.is_disk_slow = !world.is_disk_slow;
                    if !world.is_disk_slow {
                        world.store();
                    }
                }
                (8, _) => {
                    if dice.one_in(2) {
                        server.rejects();
                    } else {
                        server.accepts(&[(number::FILTER_ID, b"30000/7000")]);
                    }
                }
                _ => book.set_away(dice.one_in(2)),
            }
            world.run(Duration::from_millis(dice.roll(40_000) as u64));
            world.assert_counted();
        }
        book.set_away(false);
        world.is_disk_slow = false;
        world.loses = Box::new(|| false);
        world.store();
        world.run(Duration::from_secs(4000));
        assert_eq!(world.online(), [], "seed {seed}: no lease is renewed");
        world.run(Duration::from_secs(1200));
        book.assert_balanced(&format!("seed {seed}"));
        assert!(!book.told(START).is_empty(), "seed {seed}");
        assert_eq!((world.bng.accounting_waits(), world.bng.unaccounted().count()), (0, 0), "seed {seed}");
    }
}

/// The node is killed with the program: counters of before are kept.
#[test]
fn a_dhcp_session_of_radius_keeps_its_counters_over_a_restart() {
    let (mut world, _, book) = world("dhcp-radius");
    bind(&mut world, MAC);
    let session = world.bng.sessions().next().expect("a session").id;
    let counters = Counters { down_frames: 1, down_bytes: 2, up_frames: 3, up_bytes: 4 };
    world.run(Duration::from_secs(61));
    world.input(Input::Counted { session, counters });
    world.restart();
    world.command(weir_bng::Command::Disconnect(session));
    let ended = |event: &Event| matches!(event, Event::SessionEnded { cause: EndCause::Disconnected, .. });
    assert!(world.events.iter().any(ended));
    world.run(Duration::from_secs(1));
    let stop = book.told(STOP).into_values().next().expect("a Stop");
    assert_eq!(stop.u32(number::ACCT_INPUT_PACKETS), Some(3));
}
