//! Accounting of sessions in namespaces: the server counts as many Starts as Stops although the program is killed, the server loses,
//! forges and repeats answers, and the Stop has what the node counted at last.

use std::collections::{BTreeMap, BTreeSet};
use std::net::UdpSocket;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use weir_bng::radius::attribute::{Attributes, number};
use weir_bng::radius::packet as radius;
use weir_cpe::Options;
use weir_cpe::radius::Delivery;
use weir_service::http;
use weir_testkit::kills::{Kills, kill_after};

use crate::dhcp_radius::{Lab, mac};
use crate::pppoe::{Devices, with};
use crate::restart::{DEVICES, Rig, TEXT, options};

const SECRET: &str = "of accounting";
const RADIUS: &str = "radius one 127.0.0.1:1812 secret-file one.secret accounting 1813";
pub(crate) const START: u32 = 1;
pub(crate) const STOP: u32 = 2;

/// CoA and Disconnect are taken from this machine.
const COA: &str = "dynamic-authorization 127.0.0.1:3799 client 127.0.0.1 secret-file one.secret";

/// What a server was told, by status and session.
#[derive(Clone, Default)]
pub(crate) struct Book(Arc<Mutex<BTreeMap<(u32, String), Attributes>>>);

impl Book {
    fn of(&self, status: u32) -> BTreeMap<String, Attributes> {
        let all = self.0.lock().expect("no panic");
        let of_status = all.iter().filter(|((of, _), _)| *of == status);
        of_status.map(|((_, session), attributes)| (session.clone(), attributes.clone())).collect()
    }

    pub(crate) fn sessions(&self, status: u32) -> BTreeSet<String> {
        self.of(status).into_keys().collect()
    }

    /// Answers until a datagram is `end`.
    fn serve(&self, socket: &UdpSocket, faults: Faults) {
        let mut buffer = [0; 4096];
        for count in 0.. {
            let (len, from) = socket.recv_from(&mut buffer).expect("the socket works");
            if &buffer[..len] == b"end" {
                return;
            }
            let request = radius::Packet::read(&buffer[..len]).expect("a packet");
            let required = radius::Require::MessageAuthenticator;
            assert_eq!(request.check_hashed(SECRET.as_bytes(), required), Ok(()));
            let attributes = &request.attributes;
            let status = attributes.u32(number::ACCT_STATUS_TYPE).expect("a status");
            let session = attributes.text(number::ACCT_SESSION_ID).unwrap_or_default();
            self.0.lock().expect("no panic").insert((status, session), attributes.clone());
            let answer = |secret: &str| {
                let code = radius::code::ACCOUNTING_RESPONSE;
                let answer = request.answer(code, &Attributes::default(), secret.as_bytes());
                socket.send_to(&answer.expect("a short packet").write(), from).expect("the socket works");
            };
            match count % 7 {
                // It is lost.
                3 if faults == Faults::Some => {}
                4 if faults == Faults::Some => answer("another"),
                5 if faults == Faults::Some => (0..2).for_each(|_| answer(SECRET)),
                _ => answer(SECRET),
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Faults {
    None,
    Some,
}

/// A rig, what its server was told, and the thread of the server.
type Served = (Rig, Book, std::thread::JoinHandle<()>);

/// A rig with a server of accounting.
fn rig(pppoe: &str, faults: Faults) -> Option<Served> {
    let text = TEXT.replace("limit subscriber 1000", &format!("limit subscriber 1000, {RADIUS}{pppoe}"));
    Some(serve(Rig::of(&text)?, faults))
}

/// The same with a small file system for the store.
pub(crate) fn on_small_disk(mib: u32, faults: Faults) -> Option<Served> {
    let text = TEXT.replace("limit subscriber 1000", &format!("limit subscriber 1000, {RADIUS}"));
    Some(serve(Rig::with_small_disk(&text, mib)?, faults))
}

fn serve(rig: Rig, faults: Faults) -> Served {
    let (socket, book) = (rig.socket("127.0.0.1:1813"), Book::default());
    let of_thread = book.clone();
    let serving = std::thread::spawn(move || of_thread.serve(&socket, faults));
    rig.write_and_reload("one.secret", &format!("{SECRET}\n"));
    rig.until("the servers are read", |rig| rig.log().contains("the file was read again"));
    (rig, book, serving)
}

pub(crate) fn end(rig: &Rig, serving: std::thread::JoinHandle<()>) {
    rig.socket("127.0.0.1:0").send_to(b"end", "127.0.0.1:1813").expect("the socket works");
    serving.join().expect("no panic");
}

#[test]
fn each_start_has_a_stop_although_the_program_is_killed() {
    let radius = ", limit line 1000, dhcp-radius password {mac} reject 1s";
    let Some((mut rig, book, serving)) = rig(radius, Faults::Some) else { return };
    // Half of the devices are of subscribers here, the others of RADIUS.
    let devices = Options { first_mac: mac(options().first_mac, DEVICES / 2), ..options() };
    let all = (0..DEVICES).map(|number| mac(devices.first_mac, number));
    let delivery = Delivery { delay: Duration::from_millis(5), loss: 0.1, seed: 3 };
    let _lab = Lab::start(&rig, SECRET, all, delivery);
    let emulated = rig.emulate(Options { tries: 16, ..devices });
    let mut kills = Kills::new(3);
    while let Some((delay, name)) = kills.next(Duration::from_millis(300)) {
        kill_after(&mut rig.bngd, delay);
        rig.restart_bngd();
        rig.until(&name, |rig| rig.sessions().is_some());
    }
    let summary = emulated.end();
    assert!(summary.is_clean(), "{summary:?}");
    assert_eq!(rig.agree("all are up").len(), DEVICES as usize);
    // It is killed again while all sessions end.
    let mut kills = Kills::new(3);
    while let Some((delay, name)) = kills.next(Duration::from_millis(100)) {
        let sessions = rig.sessions().expect("it runs");
        for session in sessions.iter().take(sessions.len() / 2) {
            let target = format!("/v1/sessions/{}", session.session);
            let _ = http::request(&rig.folder.join("bng.sock"), "DELETE", &target, Vec::new());
        }
        kill_after(&mut rig.bngd, delay);
        rig.restart_bngd();
        rig.until(&name, |rig| rig.sessions().is_some());
    }
    rig.sessions().expect("it runs").iter().for_each(|session| rig.disconnect(session.session));
    let is_balanced = |_: &Rig| book.sessions(START) == book.sessions(STOP);
    rig.until("as many Starts as Stops", is_balanced);
    assert!(book.sessions(START).len() >= DEVICES as usize);
    let causes = book.of(STOP).into_values().map(|stop| stop.u32(number::ACCT_TERMINATE_CAUSE));
    assert!(causes.collect::<BTreeSet<_>>().contains(&Some(6)), "Admin-Reset");
    assert_eq!(book.of(7).len(), 1, "Accounting-On, for the new store alone");
    end(&rig, serving);
}

#[test]
fn a_stop_has_what_the_node_counted_at_last() {
    let Some((rig, book, serving)) = rig(", pppoe auth chap-md5 ms-chapv2 pap", Faults::None) else { return };
    for number in 1..=3 {
        rig.add_subscriber(&format!(
            r#"{{"name": "d{number}", "login": "d{number}@isp", "password": "secret", "plan": "basic"}}"#
        ));
    }
    with(&rig, || {
        let mut devices = Devices::new();
        devices.dial();
        // Far less time passes until the sessions end than between two looks at the table of the node.
        devices.exchange();
        devices.exchange();
    });
    let sessions = rig.sessions().expect("it runs");
    sessions.iter().for_each(|session| rig.disconnect(session.session));
    rig.until("three Stops", |_| book.of(STOP).len() == 3);
    for stop in book.of(STOP).into_values() {
        let packets = [number::ACCT_INPUT_PACKETS, number::ACCT_OUTPUT_PACKETS].map(|kind| stop.u32(kind));
        assert_eq!(packets, [Some(2), Some(2)], "{stop:?}");
        let name = stop.text(number::USER_NAME).expect("a name");
        assert!(name.ends_with("@isp"), "{name}");
    }
    end(&rig, serving);
}

/// Asks for CoA or Disconnect until there is an answer: its code and Error-Cause. A datagram may come before the program has read its secret.
fn ask(socket: &UdpSocket, code: u8, id: u8, list: &[(u8, &[u8])]) -> (u8, Option<u32>) {
    let mut attributes = Attributes::default();
    list.iter().for_each(|(kind, value)| attributes.push(*kind, value));
    let request = radius::Packet::hashed(code, id, &attributes, SECRET.as_bytes()).expect("a short packet");
    socket.set_read_timeout(Some(Duration::from_secs(1))).expect("a socket");
    let mut buffer = [0; 4096];
    let len = (0..60).find_map(|_| {
        socket.send_to(&request.write(), "127.0.0.1:3799").expect("the socket works");
        socket.recv(&mut buffer).ok()
    });
    let answer = radius::Packet::read(&buffer[..len.expect("an answer")]).expect("a packet");
    let required = radius::Require::MessageAuthenticator;
    assert_eq!(answer.check_answer(&request.authenticator, SECRET.as_bytes(), required), Ok(()));
    (answer.code, answer.attributes.u32(number::ERROR_CAUSE))
}

#[test]
fn coa_changes_a_session_of_the_node_without_an_end_and_disconnect_ends_it() {
    let more = format!(", pppoe auth chap-md5 ms-chapv2 pap, {COA}, plan gold down 2Gbit up 3Gbit");
    let Some((rig, book, serving)) = rig(&more, Faults::None) else { return };
    for number in 1..=3 {
        rig.add_subscriber(&format!(
            r#"{{"name": "d{number}", "login": "d{number}@isp", "password": "secret", "plan": "basic"}}"#
        ));
    }
    let devices = with(&rig, || {
        let mut devices = Devices::new();
        devices.dial();
        devices
    });
    let socket = rig.socket("127.0.0.1:0");
    let name: (u8, &[u8]) = (number::USER_NAME, b"d1@isp");
    let coa = |id, list: &[(u8, &[u8])]| ask(&socket, radius::code::COA_REQUEST, id, list);
    assert_eq!(coa(1, &[(number::USER_NAME, b"nobody"), (number::FILTER_ID, b"gold")]), (45, Some(503)));
    assert_eq!(coa(2, &[name, (number::FILTER_ID, b"gold")]), (44, None));
    let is_gold = |rig: &Rig| {
        let all = rig.entries_of_node().unwrap_or_default();
        all.iter().filter(|entry| entry.to_bits_per_s == Some(2_000_000_000)).count() == 1
    };
    rig.until("the node has the other plan", is_gold);
    assert_eq!(coa(3, &[name, (number::FILTER_ID, b"walled")]), (44, None));
    let is_walled =
        |rig: &Rig| rig.sessions().is_some_and(|all| all.iter().filter(|one| one.walled).count() == 1);
    rig.until("it is walled", is_walled);
    assert_eq!(coa(4, &[name, (number::FILTER_ID, b"active")]), (44, None));
    // The session has gone on.
    let devices = with(&rig, move || {
        let mut devices = devices;
        devices.exchange();
        devices
    });
    assert_eq!(ask(&socket, radius::code::DISCONNECT_REQUEST, 5, &[name]), (41, None));
    with(&rig, move || {
        let mut devices = devices;
        devices.until("the end of the first one", |all| all.clients[0].is_idle());
    });
    rig.until("a Stop", |_| book.of(STOP).len() == 1);
    let stop = book.of(STOP).into_values().next().expect("one");
    assert_eq!(stop.u32(number::ACCT_TERMINATE_CAUSE), Some(6));
    // All others are ended at once, and `weir bng radius` counts all of it.
    let path = rig.folder.join("bng.sock");
    assert_eq!(http::request(&path, "DELETE", "/v1/sessions", Vec::new()).expect("an answer").status, 204);
    rig.until("all Stops", |_| book.of(STOP).len() == 3);
    let causes = book.of(STOP).into_values().map(|stop| stop.u32(number::ACCT_TERMINATE_CAUSE));
    assert_eq!(causes.filter(|cause| *cause == Some(7)).count(), 2, "Admin-Reboot");
    let counted = |rig: &Rig| {
        let radius = rig.get::<weir_bng::api::Radius>("/v1/radius");
        radius.map(|of| (of.accounting.starts, of.accounting.stops, of.accounting.waiting))
    };
    rig.until("answers", |rig| counted(rig) == Some((3, 3, 0)));
    let radius = rig.get::<weir_bng::api::Radius>("/v1/radius").expect("an answer");
    let coa = radius.dynamic_authorization;
    assert_eq!((coa.acknowledged, coa.refused, radius.servers.len()), (4, 1, 2));
    end(&rig, serving);
}
