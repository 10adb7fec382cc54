//! A subscriber becomes walled and active again while its session goes on: the node follows by one command, also over `kill -9`, and the
//! captive-portal API says so.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};
use weir_bng::api::{Session, State, SubscriberState};
use weir_plane::AccessState;
use weir_service::http;
use weir_testkit::PATIENCE;
use weir_testkit::kills::kill_after;
use weir_testkit::wires::set_up;

use crate::restart::{Rig, TEXT, options};

const API: &str = "127.0.0.1:8080";
pub(crate) const NAME: &str = "s7";

impl Rig {
    pub(crate) fn set_state(&self, state: &str) -> Session {
        let body = serde_json::to_vec(&json!({ "state": state })).unwrap();
        let target = format!("/v1/subscribers/{NAME}");
        let answer = http::request(&self.folder.join("bng.sock"), "PATCH", &target, body).unwrap();
        let found: SubscriberState = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!((answer.status, &found.subscriber.state[..]), (200, state));
        found.session.expect("its session goes on")
    }

    pub(crate) fn state_in_node(&self, session: u64) -> Option<AccessState> {
        self.entries_of_node()?.into_iter().find(|entry| entry.session == session).map(|entry| entry.state)
    }

    /// What the API says to the device with this address, which asks by a proxy.
    fn captive(&self, address: Ipv4Addr) -> Option<(String, Value)> {
        let ask = || {
            let mut stream = TcpStream::connect(API)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            write!(stream, "GET / HTTP/1.0\r\nHost: captive.example\r\nX-Forwarded-For: {address}\r\n\r\n")?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            std::io::Result::Ok(answer)
        };
        let answer = self.bng.run(ask).ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        Some((head.to_lowercase(), serde_json::from_str(body).ok()?))
    }
}

#[test]
fn a_session_is_walled_and_active_again_without_an_end() {
    let text =
        "portal https://portal.example/, captive https://captive.example/ at 127.0.0.1:8080, plan basic down";
    let Some(mut rig) = Rig::of(&TEXT.replace("plan basic down", text)) else { return };
    set_up((&rig.bng, "lo"), true);
    let summary = rig.emulate(options()).end();
    assert!(summary.is_clean(), "{summary:?}");
    let before = rig.agree("all are up");
    let own = before.iter().find(|session| session.subscriber == NAME).expect("it is up").clone();
    let walled = json!({"captive": true, "user-portal-url": "https://portal.example/"});
    assert_eq!(rig.set_state("walled").session, own.session);
    rig.until("walled", |rig| rig.state_in_node(own.session) == Some(AccessState::Walled));
    let (head, said) = rig.captive(own.address).expect("the API answers");
    assert!(
        head.starts_with("http/1.0 200") && head.contains("content-type: application/captive+json"),
        "{head}"
    );
    assert_eq!(said, walled);
    kill_after(&mut rig.bngd, Duration::ZERO);
    rig.restart_bngd();
    rig.until("ready", |rig| rig.get::<State>("/v1/status").is_some_and(|state| state.ready));
    rig.agree("after the kill");
    assert_eq!(rig.state_in_node(own.session), Some(AccessState::Walled));
    assert_eq!(rig.captive(own.address).map(|(_, said)| said), Some(walled));
    let others = rig
        .entries_of_node()
        .expect("the node runs")
        .into_iter()
        .filter(|entry| entry.session != own.session);
    assert!(
        others
            .into_iter()
            .all(|entry| entry.state == AccessState::Active && entry.plan.as_deref() == Some("basic"))
    );
    assert_eq!(rig.set_state("active").session, own.session);
    rig.until("active", |rig| rig.state_in_node(own.session) == Some(AccessState::Active));
    assert_eq!(rig.captive(own.address).map(|(_, said)| said), Some(json!({"captive": false})));
    let (head, _) = rig.captive([198, 51, 100, 1].into()).expect("the API answers");
    assert!(head.starts_with("http/1.0 404"), "{head}");
    let after = rig.agree("at the end");
    assert_eq!(
        after.iter().find(|session| session.subscriber == NAME).map(|session| session.start_s),
        Some(own.start_s)
    );
}

#[test]
fn sessions_of_a_port_without_a_link_have_a_grace() {
    let text = |grace: &str| TEXT.replace("plan basic down", &format!("grace {grace}, plan basic down"));
    let Some(rig) = Rig::of(&text("1h")) else { return };
    let summary = rig.emulate(options()).end();
    assert!(summary.is_clean(), "{summary:?}");
    let before = rig.agree("all are up");
    let in_grace = |rig: &Rig| rig.sessions().map(|all| all.iter().filter(|session| session.grace).count());
    assert_eq!(in_grace(&rig), Some(0));
    // The port of the node loses its carrier with the other end of the wire.
    set_up((&rig.devices, "a"), false);
    rig.until("all are in grace", |rig| in_grace(rig) == Some(before.len()));
    set_up((&rig.devices, "a"), true);
    rig.until("none is in grace", |rig| in_grace(rig) == Some(0));
    assert_eq!(rig.agree("up in time").len(), before.len());
    rig.folder.file("isp.node", text("1s"));
    rig.hang_up();
    rig.until("read again", |rig| rig.log().contains("the file was read again"));
    set_up((&rig.devices, "a"), false);
    rig.until("all have ended", |rig| rig.sessions().is_some_and(|all| all.is_empty()));
    assert!(rig.agree("the node has none").is_empty());
    assert!(rig.log().contains("has lost its link"), "{}", rig.log());
}
