//! Devices that dial in at `access1`, one after the other or at the same time, and what comes of it.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Instant;

use weir_bng::dial::{Client, Profile};
use weir_bng::ppp::auth::supplicant::Login;
use weir_bng::ppp::auth::{Method, Password};
use weir_bng::ppp::protocol;
use weir_bng::pppoe::session::SessionFrame;
use weir_bng::{Mac, Random};
use weir_testkit::PATIENCE;

use crate::pppoe::{Wire, with};
use crate::restart::Rig;

/// A device that dials.
pub(crate) struct Device {
    wire: Wire,
    client: Client,
    began: Instant,
    /// Text of the last refusal of its login (PAP's Nak, CHAP's Failure).
    refusal: Option<String>,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    Up(Ipv4Addr),
    Refused(String),
    Ended,
}

impl Device {
    pub(crate) fn new(name: &str, password: &str, method: Method) -> Device {
        static NEXT: AtomicU8 = AtomicU8::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = name.as_bytes().into();
        let login = Login { name, password: Password::new(password.as_bytes()) };
        let profile = Profile { methods: vec![method], ..Profile::new(Mac([2, 0, 3, 0, 0, number]), login) };
        let client = Client::new(profile, Random::new([number; 32]));
        Device { wire: Wire::open("a"), client, began: Instant::now(), refusal: None }
    }

    fn turn(&mut self) {
        let now = self.began.elapsed();
        let own = self.client.profile().mac.0;
        for frame in self.wire.receive() {
            if !frame.starts_with(&own) {
                continue;
            }
            self.refusal = refusal(&frame).or(self.refusal.take());
            for answer in self.client.hear(now, &frame) {
                self.wire.send(&answer);
            }
        }
        if self.client.deadline().is_some_and(|deadline| deadline <= now) {
            for frame in self.client.timer(now) {
                self.wire.send(&frame);
            }
        }
        std::thread::yield_now();
    }

    pub(crate) fn dial(&mut self) -> Outcome {
        self.begin();
        let deadline = Instant::now() + PATIENCE;
        loop {
            self.turn();
            assert!(Instant::now() < deadline, "{:?}", self.client);
            if let Some(result) = self.result() {
                return result;
            }
        }
    }

    fn begin(&mut self) {
        let padi = self.client.dial(self.began.elapsed());
        self.wire.send(&padi);
    }

    fn result(&self) -> Option<Outcome> {
        let up = self.client.addresses().map(|addresses| Outcome::Up(addresses.client));
        let end = || self.refusal.clone().map_or(Outcome::Ended, Outcome::Refused);
        up.or_else(|| self.client.is_idle().then(end))
    }

    pub(crate) fn hang_up(&mut self) {
        for frame in self.client.close(self.began.elapsed()) {
            self.wire.send(&frame);
        }
        let deadline = Instant::now() + PATIENCE;
        while !self.client.is_idle() {
            self.turn();
            assert!(Instant::now() < deadline, "{:?}", self.client);
        }
    }
}

/// The text of a frame that refuses a login.
fn refusal(frame: &[u8]) -> Option<String> {
    let frame = SessionFrame::read(frame).ok()?;
    let text = match (frame.protocol, frame.payload) {
        // Behind code, identifier, lengths.
        (protocol::PAP, [3, _, _, _, _, text @ ..]) | (protocol::CHAP, [4, _, _, _, text @ ..]) => text,
        _ => return None,
    };
    Some(String::from_utf8_lossy(text).into_owned())
}

/// One device after the other dials, and hangs up.
pub(crate) fn dial(rig: &Rig, name: &str, password: &str, method: Method) -> Outcome {
    let [name, password] = [name, password].map(String::from);
    with(rig, move || {
        let mut device = Device::new(&name, &password, method);
        let result = device.dial();
        if matches!(result, Outcome::Up(_)) {
            device.hang_up();
        }
        result
    })
}

/// A device dials, and hangs up when a file has a text.
pub(crate) fn dial_until(rig: &Rig, name: &str, (file, text): (&str, &str)) {
    let (name, path, text) = (name.to_string(), rig.folder.join(file), text.to_string());
    with(rig, move || {
        let mut device = Device::new(&name, "pw", Method::Pap);
        device.begin();
        let deadline = Instant::now() + PATIENCE;
        while !std::fs::read_to_string(&path).is_ok_and(|log| log.contains(&text)) {
            device.turn();
            assert!(Instant::now() < deadline, "no `{text}` in {}", path.display());
        }
        device.hang_up();
    });
}

/// Devices dial at the same time; what came of each.
pub(crate) fn dial_all(rig: &Rig, names: &str, method: Method, most: usize) -> Vec<Outcome> {
    let names: Vec<String> = (0..most).map(|number| format!("{names}{number}")).collect();
    with(rig, move || {
        let mut all: Vec<_> = names.iter().map(|name| Device::new(name, "pw", method)).collect();
        all.iter_mut().for_each(Device::begin);
        let deadline = Instant::now() + PATIENCE;
        while all.iter().any(|device| device.result().is_none()) {
            assert!(Instant::now() < deadline);
            all.iter_mut().for_each(Device::turn);
        }
        all.iter().filter_map(Device::result).collect()
    })
}
