//! Accounting beside clients that dial in: each Start has a Stop, whatever fails meanwhile.

mod durable;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use weir_bng::ppp::auth::Method;
use weir_bng::ppp::packet::Packet;
use weir_bng::ppp::protocol;
use weir_bng::radius::attribute::{Attributes, number};
use weir_bng::radius::packet::{self as radius, Require, code};
use weir_bng::{Command, Config, Counters, Input, Record, SubscriberPatch};
use weir_testkit::Dice;

use crate::pppoe::{Device, SECRET, Server, TEXT, World, anna, device, device_with, server};

const RADIUS: &str = "radius one 192.0.2.9:1812 secret-file one accounting 1813";
pub(crate) const START: u32 = 1;
pub(crate) const STOP: u32 = 2;
const INTERIM: u32 = 3;

/// How a session is ended.
type End = Box<dyn Fn(&mut World)>;

/// A server of accounting, and what it was told.
#[derive(Clone, Default)]
pub(crate) struct Book(Rc<RefCell<Page>>);

#[derive(Default)]
pub(crate) struct Page {
    requests: Vec<Attributes>,
    is_away: bool,
    /// Identifiers of requests, each with what it said.
    ids: BTreeMap<(u8, [u8; 16]), Attributes>,
}

impl Book {
    pub(crate) fn server(&self) -> Server {
        let page = self.0.clone();
        Box::new(move |bytes| {
            let request = radius::Packet::read(bytes).expect("a packet");
            assert_eq!(request.check_hashed(SECRET, Require::MessageAuthenticator), Ok(()));
            let mut page = page.borrow_mut();
            let before = page.ids.insert((request.id, request.authenticator), request.attributes.clone());
            assert!(before.is_none_or(|before| before == request.attributes), "R7: a new identifier");
            if page.is_away {
                return None;
            }
            page.requests.push(request.attributes.clone());
            let answer = request.answer(code::ACCOUNTING_RESPONSE, &Attributes::default(), SECRET);
            Some(answer.expect("a short packet").write())
        })
    }

    pub(crate) fn set_away(&self, is_away: bool) {
        self.0.borrow_mut().is_away = is_away;
    }

    /// Messages with this status, by session; those that came several times count once.
    pub(crate) fn told(&self, status: u32) -> BTreeMap<String, Attributes> {
        let page = self.0.borrow();
        let of_status = page.requests.iter().filter(|one| one.u32(number::ACCT_STATUS_TYPE) == Some(status));
        let by_id = |one: &Attributes| (one.text(number::ACCT_SESSION_ID).unwrap_or_default(), one.clone());
        of_status.map(by_id).collect()
    }

    fn statuses(&self) -> Vec<u32> {
        let page = self.0.borrow();
        page.requests.iter().filter_map(|one| one.u32(number::ACCT_STATUS_TYPE)).collect()
    }

    /// Each session has begun, and has ended once.
    pub(crate) fn assert_balanced(&self, name: &str) {
        let ids = |status| self.told(status).into_keys().collect::<Vec<_>>();
        assert_eq!(ids(START), ids(STOP), "{name}");
    }
}

fn world(devices: Vec<Device>) -> (World, Book) {
    let mut world = World::of(&format!("{TEXT}, {RADIUS}"), devices);
    let book = Book::default();
    world.accounting = book.server();
    (world, book)
}

fn counters(up: u64) -> Counters {
    Counters { down_frames: 2 * up, down_bytes: 2000 * up, up_frames: up, up_bytes: 100 * up }
}

#[test]
fn r10_a_session_has_a_start_and_a_stop_with_the_counters_of_the_node() {
    let (mut world, book) = world(vec![anna()]);
    world.dial(0);
    let session = world.bng.sessions().next().expect("a session").clone();
    let id = session.lease.account.expect("an account").id.to_string();
    assert_eq!(*book.told(START).into_keys().collect::<Vec<_>>(), *std::slice::from_ref(&id));
    world.run(Duration::from_secs(100));
    world.input(Input::Counted { session: session.id, counters: counters(5) });
    world.last_counts = Some(counters(1 << 30));
    world.command(Command::Disconnect(session.id));
    world.run(Duration::from_secs(1));
    let stop = &book.told(STOP)[&id];
    let found = [46, 49, 42, 52, 43, 53, 47, 48].map(|kind| stop.u32(kind).unwrap_or(u32::MAX));
    let (up, down) = (100_u64 << 30, 2000_u64 << 30);
    let expected = [101, 6, up as u32, (up >> 32) as u32, down as u32, (down >> 32) as u32, 1 << 30, 1 << 31];
    assert_eq!(found, expected);
    assert_eq!(stop.get(number::USER_NAME), Some(&b"anna@isp"[..]));
    assert_eq!(stop.get(number::FRAMED_IP_ADDRESS), Some(&session.lease.address.octets()[..]));
    assert_eq!((world.bng.accounting_waits(), world.bng.unaccounted().count()), (0, 0));
}

/// Row 3 of table 1.3.
#[test]
fn a_stop_has_the_last_counters_although_the_node_says_nothing_more() {
    let (mut world, book) = world(vec![anna()]);
    world.dial(0);
    let session = world.bng.sessions().next().expect("a session").id;
    world.input(Input::Counted { session, counters: counters(7) });
    world.last_counts = None;
    world.input(Input::SessionLost { session });
    world.run(Duration::from_secs(1));
    assert_eq!(book.told(STOP).len(), 0, "the node may say more");
    world.run(Duration::from_secs(10));
    let stops = book.told(STOP);
    let stop = stops.values().next().expect("a Stop");
    assert_eq!(
        (stop.u32(number::ACCT_INPUT_PACKETS), stop.u32(number::ACCT_TERMINATE_CAUSE)),
        (Some(7), Some(2))
    );
}

#[test]
fn r10_each_end_has_its_terminate_cause() {
    let change = |patch| Command::PatchSubscriber("anna".parse().expect("a name"), patch);
    let blocked = SubscriberPatch { status: Some(weir_bng::Status::Blocked), ..SubscriberPatch::default() };
    let rows: [(&str, End, u32); 6] = [
        ("blocked", Box::new(move |world| world.command(change(blocked.clone()))), 6),
        (
            "removed",
            Box::new(|world| world.command(Command::RemoveSubscriber("anna".parse().expect("a name")))),
            6,
        ),
        (
            "the client hangs up",
            Box::new(|world| {
                let frames = world.devices[0].client.close(world.now);
                frames.iter().for_each(|frame| world.punt(0, frame));
            }),
            1,
        ),
        (
            "the client closes IPCP, and has no IPv6",
            Box::new(|world| {
                let frame = world.devices[0].frame(protocol::IPCP, Packet { code: 5, id: 9, data: &[] });
                world.punt(0, &frame);
                world.run(Duration::from_secs(10));
            }),
            3,
        ),
        (
            "the port has no link",
            Box::new(|world| {
                let port = world.devices[0].line.port.clone();
                world.input(Input::PortLink { port, link: weir_bng::LinkState::Down });
                world.run(Duration::from_secs(60));
            }),
            8,
        ),
        (
            "another device of the subscriber",
            Box::new(|world| {
                world.devices.push(device(4, "anna@isp", "secret"));
                world.dial(1);
            }),
            10,
        ),
    ];
    for (name, end, cause) in rows {
        let (mut world, book) = world(vec![anna()]);
        world.dial(0);
        let first = book.told(START).into_keys().next().expect("a Start");
        end(&mut world);
        world.run(Duration::from_secs(1));
        let stop = book.told(STOP).remove(&first).unwrap_or_else(|| panic!("{name}: no Stop"));
        assert_eq!(stop.u32(number::ACCT_TERMINATE_CAUSE), Some(cause), "{name}");
    }
}

#[test]
fn r8_accounting_on_is_sent_for_a_new_store_and_not_at_a_restart() {
    let (mut world, book) = world(vec![anna()]);
    world.dial(0);
    assert_eq!(book.statuses(), [7, START]);
    world.restart();
    world.run(Duration::from_secs(1000));
    assert_eq!(book.statuses(), [7, START], "a restart tells nothing");
}

#[test]
fn r7_what_waits_is_kept_over_a_restart_and_told_with_its_delay() {
    let (mut world, book) = world(vec![anna()]);
    book.set_away(true);
    world.dial(0);
    let session = world.bng.sessions().next().expect("a session").id;
    world.run(Duration::from_secs(100));
    world.restart();
    world.input(Input::Counted { session, counters: counters(9) });
    world.command(Command::Disconnect(session));
    world.run(Duration::from_secs(7200));
    world.restart();
    world.restart();
    assert_eq!((book.statuses().len(), world.bng.unaccounted().count()), (0, 1));
    book.set_away(false);
    world.run(Duration::from_secs(600));
    let statuses = book.statuses();
    assert!(statuses.ends_with(&[START, STOP]), "{statuses:?}");
    let told = |status| book.told(status).into_values().next().expect("one");
    let (start, stop) = (told(START), told(STOP));
    let delay = |message: &Attributes| message.u32(number::ACCT_DELAY_TIME).expect("a delay");
    let ended_s = stop.u32(number::EVENT_TIMESTAMP).expect("a time");
    assert_eq!(ended_s - start.u32(number::EVENT_TIMESTAMP).expect("a time"), 101);
    assert_eq!(stop.u32(number::ACCT_SESSION_TIME), Some(101));
    assert!(delay(&start) >= 7300 && delay(&stop) >= 7200, "{start:?} {stop:?}");
    assert_eq!(stop.u32(number::ACCT_INPUT_PACKETS), Some(9));
    world.restart();
    world.run(Duration::from_secs(600));
    assert_eq!(book.statuses().len(), statuses.len(), "nothing waits any more");
}

#[test]
fn sessions_that_began_without_accounting_are_accounted_for_when_it_is_configured() {
    let mut world = World::new(vec![anna()]);
    world.dial(0);
    world.run(Duration::from_secs(50));
    let (config, _) = Config::read("x", &format!("{TEXT}, {RADIUS}")).expect("a configuration");
    let before = std::mem::replace(&mut world.config, config.clone());
    let book = Book::default();
    world.accounting = book.server();
    world.command(Command::Configure(Box::new(config.clone())));
    world.say_servers();
    world.run(Duration::from_secs(1));
    assert_eq!(book.statuses(), [START]);
    let start = book.told(START).into_values().next().expect("a Start");
    assert_eq!(start.u32(number::EVENT_TIMESTAMP), Some(1_790_000_000));
    // What waits is told when there is a server again.
    world.config = before;
    world.command(Command::Configure(Box::new(world.config.clone())));
    world.say_servers();
    let session = world.bng.sessions().next().expect("a session").id;
    world.command(Command::Disconnect(session));
    world.run(Duration::from_secs(1000));
    assert_eq!(book.statuses(), [START]);
    world.restart();
    world.config = config;
    world.command(Command::Configure(Box::new(world.config.clone())));
    world.say_servers();
    world.run(Duration::from_secs(400));
    assert_eq!(book.statuses(), [START, STOP]);
}

#[test]
fn a_disk_that_fails_keeps_no_stop_back_and_the_end_is_written_later() {
    let (mut world, book) = world(vec![anna()]);
    world.dial(0);
    world.is_disk_slow = true;
    let session = world.bng.sessions().next().expect("a session").id;
    world.command(Command::Disconnect(session));
    world.run(Duration::from_secs(1));
    assert_eq!(book.told(STOP).len(), 0, "its record is on its way");
    world.pending.clear();
    world.input(Input::StoreFailed);
    world.run(Duration::from_secs(1));
    assert_eq!(book.told(STOP).len(), 1);
    world.is_disk_slow = false;
    world.run(Duration::from_secs(30));
    world.restart();
    assert_eq!((world.online().len(), world.bng.unaccounted().count()), (0, 0));
    book.assert_balanced("the end is on disk");
}

/// Kills, failures of the disk, lost datagrams and a server that is away, at random.
#[test]
fn each_start_has_a_stop_whatever_fails() {
    let first = weir_testkit::number("ACCOUNTING_SEED", 0);
    for seed in first..first + weir_testkit::number("ACCOUNTING_SEEDS", 20) {
        let mut dice = Dice::new(seed);
        let (mut world, book) = world(vec![anna(), device(2, "ben@isp", "other")]);
        let mut loss = Dice::new(seed + 1_000_000);
        world.loses = Box::new(move || loss.one_in(20));
        for _ in 0..60 {
            step(&mut world, &book, &mut dice);
        }
        // Everything works again.
        book.set_away(false);
        world.is_disk_slow = false;
        world.loses = Box::new(|| false);
        world.store();
        world.run(Duration::from_secs(1200));
        let sessions: Vec<_> = world.bng.sessions().map(|session| session.id).collect();
        for session in sessions {
            world.command(Command::Disconnect(session));
        }
        world.run(Duration::from_secs(1200));
        book.assert_balanced(&format!("seed {seed}"));
        assert!(!book.told(START).is_empty(), "seed {seed}: {:?}", book.statuses());
        let left = (world.bng.accounting_waits(), world.bng.unaccounted().count());
        assert_eq!(left, (0, 0), "seed {seed}");
        // A record that says that a message was answered may have been lost: the message is sent once more.
        world.restart();
        world.run(Duration::from_secs(60));
        book.assert_balanced(&format!("seed {seed}, after a restart"));
        assert_eq!(world.bng.unaccounted().count(), 0, "seed {seed}");
    }
}

fn step(world: &mut World, book: &Book, dice: &mut Dice) {
    let session = world.bng.sessions().next().map(|session| session.id);
    match dice.roll(12) {
        0..=3 => world.dial(dice.roll(2)),
        4 => session.into_iter().for_each(|session| world.command(Command::Disconnect(session))),
        5 => session.into_iter().for_each(|session| world.input(Input::SessionLost { session })),
        6 => {
            // The disk takes the first of the records that wait, and then the program is killed.
            let most = dice.roll(world.pending.len() + 1);
            let kept: Vec<Record> = world.pending.drain(..most).collect();
            world.disk.extend(kept);
            world.restart();
        }
        7 => {
            world.is_disk_slow = !world.is_disk_slow;
            if !world.is_disk_slow {
                world.store();
            }
        }
        8 if world.is_disk_slow => {
            world.pending.clear();
            world.input(Input::StoreFailed);
        }
        9 => book.set_away(dice.one_in(2)),
        10 => world.last_counts = dice.one_in(2).then(|| counters(dice.roll(100) as u64)),
        _ => {}
    }
    world.run(Duration::from_millis(dice.roll(40_000) as u64));
}

/// What an Access-Accept gives to the subscriber of [`remote_world`].
pub(crate) type Given = &'static [(u8, &'static [u8])];

fn remote_world(more: &str, given: Given) -> (World, Book) {
    let text = TEXT.replace("auth chap-md5 pap", "auth pap chap-md5");
    let carl = device_with(3, "carl@isp", "secret", Method::Pap);
    let mut world = World::of(&format!("{RADIUS} plan basic, {text}, {more}"), vec![carl]);
    let book = Book::default();
    (world.accounting, world.radius) = (book.server(), server(b"secret", given));
    (world, book)
}

fn cause(book: &Book) -> Option<u32> {
    let [stop] = &*book.told(STOP).into_values().collect::<Vec<_>>() else { return None };
    stop.u32(number::ACCT_TERMINATE_CAUSE)
}

#[test]
fn what_an_accept_gives_is_sent_back_in_accounting_also_after_a_restart() {
    const GIVEN: Given = &[
        (number::CLASS, b"gold"),
        (number::CLASS, &[0, 1]),
        (number::CHARGEABLE_USER_IDENTITY, b"c7"),
        (number::USER_NAME, b"customer-7"),
    ];
    let (mut world, book) = remote_world("", GIVEN);
    world.dial(0);
    world.restart();
    let session = world.bng.sessions().next().expect("a session").id;
    world.command(Command::Disconnect(session));
    world.run(Duration::from_secs(1));
    for status in [START, STOP] {
        let told = book.told(status).into_values().next().expect("one");
        assert_eq!(told.all(number::CLASS).collect::<Vec<_>>(), [&b"gold"[..], &[0, 1]]);
        assert_eq!(told.get(number::CHARGEABLE_USER_IDENTITY), Some(&b"c7"[..]));
        assert_eq!(told.get(number::USER_NAME), Some(&b"customer-7"[..]));
        assert_eq!(told.u32(number::ACCT_AUTHENTIC), Some(1));
    }
}

#[test]
fn r6_interim_updates_come_at_the_interval_and_not_below_the_local_minimum() {
    // 900 s; 60 s, below the minimum of 600 s; none, and the local one of 15 minutes.
    const LONG: Given = &[(number::ACCT_INTERIM_INTERVAL, &[0, 0, 3, 132])];
    const SHORT: Given = &[(number::ACCT_INTERIM_INTERVAL, &[0, 0, 0, 60])];
    for (given, more, most) in
        [(LONG, "dns 192.0.2.1", 900), (SHORT, "dns 192.0.2.1", 600), (&[], "accounting interim 15m", 900)]
    {
        let (mut world, book) = remote_world(more, given);
        world.dial(0);
        let session = world.bng.sessions().next().expect("a session").id;
        for hour in 1..=10 {
            world.run(Duration::from_secs(3600));
            world.input(Input::Counted { session, counters: counters(hour) });
        }
        let count = book.statuses().iter().filter(|status| **status == INTERIM).count();
        assert!((36_000 / most..=36_000 / most + 1).contains(&count), "{most}: {count}");
        let last = book.told(INTERIM).into_values().next().expect("one");
        assert_eq!(last.u32(number::ACCT_INPUT_PACKETS), Some(9));
    }
}

#[test]
fn r10_a_session_timeout_and_an_idle_timeout_end_the_session_also_after_a_restart() {
    const TIMEOUT: Given = &[(number::SESSION_TIMEOUT, &[0, 0, 0, 200])];
    const IDLE: Given = &[(number::IDLE_TIMEOUT, &[0, 0, 0, 200])];
    for (given, expected) in [(TIMEOUT, 5), (IDLE, 4)] {
        let (mut world, book) = remote_world("", given);
        world.dial(0);
        world.run(Duration::from_secs(150));
        world.restart();
        let session = world.bng.sessions().next().expect("a session").id;
        world.input(Input::Counted { session, counters: counters(3) });
        world.run(Duration::from_secs(40));
        assert_eq!(cause(&book), None, "{expected}");
        world.run(Duration::from_secs(20));
        // The idle timeout begins anew with each packet.
        assert_eq!(cause(&book), (expected == 5).then_some(5));
        world.run(Duration::from_secs(200));
        assert_eq!(cause(&book), Some(expected));
        assert!(world.devices[0].client.padt().is_some(), "the client was told");
    }
}

#[test]
fn a_quota_ends_the_session_or_walls_it() {
    for (rule, is_walled) in [("at-limit end", false), ("at-limit walled", true)] {
        let (mut world, book) = world_with(&format!("{rule}, plan small down 1Mbit up 1Mbit quota 5000"));
        let change = SubscriberPatch {
            plan: Some(weir_bng::Plan::Named("small".parse().expect("a name"))),
            ..SubscriberPatch::default()
        };
        world.command(Command::PatchSubscriber("anna".parse().expect("a name"), change));
        world.dial(0);
        let session = world.bng.sessions().next().expect("a session").id;
        world.input(Input::Counted { session, counters: counters(2) });
        assert_eq!(world.node.len(), 1);
        world.input(Input::Counted { session, counters: counters(3) });
        world.run(Duration::from_secs(1));
        if is_walled {
            assert_eq!(world.node[0].service.status, weir_bng::Status::Walled);
            world.restart();
            world.run(Duration::from_secs(10));
            assert_eq!(world.node[0].service.status, weir_bng::Status::Walled);
            assert_eq!(cause(&book), None);
        } else {
            assert_eq!((world.node.len(), cause(&book)), (0, Some(5)));
        }
    }
}

fn world_with(more: &str) -> (World, Book) {
    let mut world = World::of(&format!("{TEXT}, {RADIUS}, {more}"), vec![anna()]);
    let book = Book::default();
    world.accounting = book.server();
    (world, book)
}

/// A request of a server, and the code and Error-Cause of the answer.
pub(crate) fn ask(world: &mut World, code: u8, id: u8, list: &[(u8, &[u8])]) -> Option<(u8, Option<u32>)> {
    let mut attributes = Attributes::default();
    list.iter().for_each(|(kind, value)| attributes.push(*kind, value));
    let request = radius::Packet::hashed(code, id, &attributes, SECRET).expect("a short packet");
    let from = "192.0.2.9:4000".parse().expect("an address");
    world.input(Input::Dynauth { from, bytes: &request.write() });
    let answer = radius::Packet::read(&world.answers.pop()?).expect("a packet");
    let required = Require::MessageAuthenticator;
    assert_eq!(answer.check_answer(&request.authenticator, SECRET, required), Ok(()));
    Some((answer.code, answer.attributes.u32(number::ERROR_CAUSE)))
}

const COA: &str = "dynamic-authorization 192.0.2.1:3799 client 192.0.2.9 secret-file coa";

#[test]
fn r13_disconnect_ends_the_session_that_is_identified_and_says_so_when_it_is_on_disk() {
    let (mut world, book) = world_with(COA);
    world.dial(0);
    let session = world.bng.sessions().next().expect("a session").clone();
    let id = session.lease.account.expect("an account").id.to_string();
    let address = session.lease.address.octets();
    let other: (u8, &[u8]) = (number::FRAMED_IP_ADDRESS, &[100, 64, 0, 200]);
    for wrong in [
        vec![other],
        vec![(number::USER_NAME, &b"anna@isp"[..]), other],
        vec![(number::ACCT_SESSION_ID, b"0000000000000001")],
        vec![(number::CALLING_STATION_ID, b"02:00:00:00:00:99")],
    ] {
        assert_eq!(
            ask(&mut world, code::DISCONNECT_REQUEST, 1, &wrong),
            Some((code::DISCONNECT_NAK, Some(503)))
        );
    }
    world.is_disk_slow = true;
    let right: &[(u8, &[u8])] = &[
        (number::ACCT_SESSION_ID, id.as_bytes()),
        (number::USER_NAME, b"anna@isp"),
        (number::FRAMED_IP_ADDRESS, &address),
        (number::CALLING_STATION_ID, b"02:00:00:00:00:01"),
        (number::NAS_PORT_ID, b"access1:100.1"),
    ];
    assert_eq!(ask(&mut world, code::DISCONNECT_REQUEST, 2, right), None, "it is not on disk");
    world.is_disk_slow = false;
    world.store();
    assert_eq!(world.answers.len(), 1);
    let again = ask(&mut world, code::DISCONNECT_REQUEST, 2, right);
    assert_eq!(again, Some((code::DISCONNECT_ACK, None)), "the same answer, from memory");
    assert_eq!(world.bng.dynauth_counts().repeated, 1);
    world.run(Duration::from_secs(1));
    assert_eq!(cause(&book), Some(6));
}

#[test]
fn r13_a_change_is_made_whole_or_not_at_all_and_by_one_command_of_the_node() {
    let (mut world, _) = world_with(&format!("{COA}, plan gold down 100Mbit up 50Mbit"));
    world.dial(0);
    let name: (u8, &[u8]) = (number::USER_NAME, b"anna@isp");
    let before = (world.node.clone(), world.disk.len());
    // A plan that there is not; an attribute that cannot be changed.
    for list in [
        vec![name, (number::SESSION_TIMEOUT, &[0, 0, 1, 0][..]), (number::FILTER_ID, b"platinum")],
        vec![name, (number::FILTER_ID, b"gold"), (number::FRAMED_MTU, &[0, 0, 5, 0])],
    ] {
        let (answer, error) = ask(&mut world, code::COA_REQUEST, 3, &list).expect("an answer");
        assert!(answer == code::COA_NAK && error.is_some(), "{error:?}");
        assert_eq!((world.node.clone(), world.disk.len()), before);
    }
    let list = [name, (number::FILTER_ID, b"gold"), (number::SESSION_TIMEOUT, &[0, 0, 1, 0])];
    let told = world.told_node;
    assert_eq!(ask(&mut world, code::COA_REQUEST, 4, &list), Some((code::COA_ACK, None)));
    assert_eq!(world.told_node, told + 1);
    assert_eq!(world.node[0].service.rates.down_bits_per_s, 100_000_000);
    for (id, state) in [(5, "walled"), (6, "active")] {
        let list = [name, (number::FILTER_ID, state.as_bytes())];
        assert_eq!(ask(&mut world, code::COA_REQUEST, id, &list), Some((code::COA_ACK, None)));
        assert_eq!(world.node[0].service.status.to_string(), state);
    }
    // All of it is there after a restart.
    world.restart();
    assert_eq!(world.node[0].service.rates.down_bits_per_s, 100_000_000);
    world.run(Duration::from_secs(250));
    assert_eq!(world.online().len(), 1);
    world.run(Duration::from_secs(10));
    assert_eq!(world.online().len(), 0, "the session timeout");
}

#[test]
fn r10_an_operator_ends_all_sessions_for_a_reboot() {
    let (mut world, book) = world(vec![anna()]);
    world.dial(0);
    world.command(Command::DisconnectAll);
    world.run(Duration::from_secs(1));
    assert_eq!((world.online().len(), cause(&book)), (0, Some(7)));
}

/// A session by DHCP: NAS-Error when the client finds its address in use, User-Request when it gives it up.
#[test]
fn r10_sessions_by_dhcp_are_accounted_for() {
    for (end, expected) in [("decline", 9), ("release", 1)] {
        let text = "port access1 mac 02:00:00:00:00:fe, pool main 100.64.0.2-100.64.0.9 router 100.64.0.1/24,
            plan basic down 20Mbit up 5Mbit, subscriber dora mac 02:00:00:00:00:01 plan basic";
        let mut world = World::of(&format!("{text}, {RADIUS}"), Vec::new());
        let book = Book::default();
        world.accounting = book.server();
        let client = "02:00:00:00:00:01";
        let end = match end {
            "decline" => format!("decline {client} want 100.64.0.2 server 100.64.0.1"),
            _ => format!("release {client} ciaddr 100.64.0.2 server 100.64.0.1"),
        };
        let request = format!("request {client} want 100.64.0.2 server 100.64.0.1");
        for line in [format!("discover {client}"), request.clone(), request, end] {
            let bytes = weir_bng::scenario::frame(&line, 0).expect("a frame");
            let (port, tags) = ("access1".parse().expect("a port"), weir_bng::Tags::None);
            world.input(Input::Punt(weir_bng::Punt { port, tags, bytes: &bytes }));
            world.run(Duration::from_secs(10));
        }
        assert_eq!(cause(&book), Some(expected));
        let start = book.told(START).into_values().next().expect("a Start");
        assert_eq!(start.get(number::USER_NAME), Some(&b"dora"[..]));
        assert_eq!(start.get(number::FRAMED_PROTOCOL), None, "it is no PPP");
        assert_eq!(book.told(START).len(), 1, "a renewal is no other session");
    }
}

/// After a server was away for long, a login is answered before what waits for it has been sent.
#[test]
fn a_login_does_not_wait_for_messages_that_waited_for_long() {
    let (mut world, book) = world(vec![anna()]);
    book.set_away(true);
    for session in 1..=3000_u64 {
        let (a, b) = (session >> 8, session & 0xff);
        let record = format!(
            "1 {} unaccounted {session} s{session} access1 02:00:00:00:{a:02x}:{b:02x} 198.18.{a}.{b} ipoe acct {session:016x} \
             waits start 7 end 9 lost counted 1 2 3 4",
            // Behind the subscribers.
            session + 100
        );
        world.disk.push(record.parse().expect("a record"));
    }
    world.restart();
    let sent = |world: &World| {
        let is_for_server = |frame: &&crate::pppoe::Frame| matches!(frame, crate::pppoe::Frame::ToRadius(..));
        world.frames.iter().filter(is_for_server).count()
    };
    assert!((1..=512).contains(&sent(&world)), "{}", sent(&world));
    world.dial(0);
    assert_eq!(world.online().len(), 1);
    book.set_away(false);
    world.run(Duration::from_secs(1200));
    assert_eq!((book.told(STOP).len(), world.bng.accounting_waits()), (3000, 0));
}
