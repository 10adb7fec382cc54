//! DHCP clients that the lab's RADIUS server knows, with delay and loss, while the program is killed; and a session that the node refuses.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use weir_bng::api::{Session, Why};
use weir_cpe::radius::{Answers, Delivery, User, serve};
use weir_cpe::{Mac, Options};
use weir_testkit::kills::{Kills, kill_after};

use crate::restart::{Rig, TEXT, options};

/// The first of the devices that RADIUS alone knows.
const FIRST: Mac = Mac([2, 0, 6, 0, 0, 0]);
const DEVICES: u32 = 150;

/// The lab's server beside the program.
pub(crate) struct Lab {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Lab {
    /// It accepts these devices, with the MAC address as password.
    pub(crate) fn start(
        rig: &Rig,
        secret: &str,
        devices: impl Iterator<Item = Mac>,
        delivery: Delivery,
    ) -> Lab {
        let user = |mac: Mac| (mac.to_string(), User { password: mac.to_string(), plan: "basic".into() });
        let users = devices.map(user).collect();
        let answers = Answers { secret: secret.into(), users, others: None };
        let (socket, stop) = (rig.socket("127.0.0.1:1812"), Arc::new(AtomicBool::new(false)));
        let is_stopped = stop.clone();
        let work = move || {
            serve(&[socket], &answers, delivery, &Mutex::default(), &is_stopped).expect("the socket works");
        };
        Lab { stop, thread: Some(std::thread::spawn(work)) }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "the server has panicked");
        }
    }
}

/// The device with this number from the first one on.
pub(crate) fn mac(first: Mac, number: u32) -> Mac {
    let Mac([a, b, c, d, e, f]) = first;
    let [c, d, e, f] = (u32::from_be_bytes([c, d, e, f]) + number).to_be_bytes();
    Mac([a, b, c, d, e, f])
}

fn numbers(all: &[Session]) -> BTreeSet<u64> {
    all.iter().map(|session| session.session).collect()
}

#[test]
fn dhcp_clients_of_radius_stay_online_over_kills_of_the_program() {
    let radius = "limit subscriber 1000, limit line 1000, dhcp-radius password {mac} reject 1s, \
                  radius one 127.0.0.1:1812 secret-file one.secret";
    let Some(mut rig) = Rig::of(&TEXT.replace("limit subscriber 1000", radius)) else { return };
    rig.write_and_reload("one.secret", "of the lab");
    rig.until("the secret is read", |rig| rig.log().contains("the file was read again"));
    let delivery = Delivery { delay: Duration::from_millis(20), loss: 0.05, seed: 7 };
    let lab = Lab::start(&rig, "of the lab", (0..DEVICES).map(|number| mac(FIRST, number)), delivery);
    let devices = Options { first_mac: FIRST, devices: DEVICES, tries: 16, ..options() };
    let emulated = rig.emulate(devices);
    let mut kills = Kills::new(3);
    while let Some((delay, name)) = kills.next(Duration::from_millis(300)) {
        kill_after(&mut rig.bngd, delay);
        rig.restart_bngd();
        rig.until(&name, |rig| rig.sessions().is_some());
    }
    let summary = emulated.end();
    assert!(summary.is_clean(), "{summary:?}");
    let before = rig.agree("all are up");
    assert_eq!(before.len(), DEVICES as usize);
    drop(lab);
    // No server is needed for what there is.
    rig.kill_bngd();
    let after = rig.agree("the last kill");
    assert_eq!(numbers(&before), numbers(&after));

    // A device that the server does not know has no session, and the operator reads why.
    let _lab = Lab::start(&rig, "of the lab", std::iter::empty(), Delivery::default());
    let unknown = Options { first_mac: mac(FIRST, 1000), devices: 1, tries: 2, ..options() };
    let summary = rig.emulate(unknown).end();
    assert!(!summary.is_clean(), "{summary:?}");
    let why: Why = rig.get("/v1/why/mac/02:00:06:00:03:e8").expect("an answer");
    assert!(why.reason.contains("a RADIUS server has rejected the login"), "{why:?}");
    assert_eq!(
        (why.step.as_deref(), why.login.as_deref()),
        (Some("authentication"), Some("02:00:06:00:03:e8"))
    );
    assert_eq!(numbers(&rig.agree("the others stay")), numbers(&after));
}

/// The network of the node's gateway has fewer addresses than the pool.
#[test]
fn a_session_that_the_node_refuses_ends_with_its_reason() {
    let Some(rig) = Rig::of(&TEXT.replace("gateway 100.64.0.1/10", "gateway 100.64.0.1/30")) else { return };
    let summary = rig.emulate(Options { devices: 3, tries: 4, ..options() }).end();
    assert!(!summary.is_clean(), "{summary:?}");
    let sessions = rig.agree("two are up");
    assert_eq!(sessions.len(), 2, "{sessions:?}");
    let all = (0..3).map(|number| mac(options().first_mac, number).to_string());
    let refused = all.filter(|mac| !sessions.iter().any(|session| session.mac == *mac));
    let why: Vec<Why> = refused.filter_map(|mac| rig.get(&format!("/v1/why/mac/{mac}"))).collect();
    let [why] = &*why else { panic!("{why:?}") };
    assert!(why.reason.contains("is in no network of a gateway"), "{why:?}");
    assert!(why.drops.contains_key("node_refused"), "{why:?}");
    assert!(rig.log().contains("the node refuses session"));
}
