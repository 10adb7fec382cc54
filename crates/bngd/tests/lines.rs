//! What an access node says of a line (TR-101, tag 0x0105), from emulated devices to the RADIUS server and to the rate of the shaper.

use std::net::UdpSocket;
use std::sync::Mutex;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use weir_bng::LineRates;
use weir_bng::radius::attribute::{Attributes, number, vendor};
use weir_bng::radius::packet::{Packet, code};
use weir_cpe::radius::{Answers, Ledger, User};
use weir_cpe::{Load, Options, Pppoe, Summary, Template};

use crate::restart::{Rig, TEXT, options};

const SECRET: &str = "of the lines";
const RADIUS: &str = "pppoe auth chap-md5, \
                      radius one 127.0.0.1:1812 secret-file one.secret ports 1 plan basic accounting 1813";
const DEVICES: u32 = 3;
const RATES: LineRates = LineRates { up_kbit_per_s: 128, down_kbit_per_s: 256 };
const FRAME_BYTES: usize = 200;
/// Bits of a line that may pass at once: the burst of the shaper.
const BURST_BITS: f64 = 8.0 * 20_000.0;

/// Answers as the lab's server until a datagram is none of RADIUS; the requests by code, in their order.
fn serve(socket: UdpSocket) -> JoinHandle<Vec<(u8, Attributes)>> {
    let user = User { password: "secret".into(), plan: "1000000/1000000".into() };
    let answers = Answers { secret: SECRET.into(), others: Some(user), ..Answers::default() };
    std::thread::spawn(move || {
        let (ledger, mut buffer, mut requests) = (Mutex::new(Ledger::default()), [0; 4096], Vec::new());
        loop {
            let (len, from) = socket.recv_from(&mut buffer).expect("the socket works");
            let Ok(request) = Packet::read(&buffer[..len]) else { return requests };
            let answer = answers.answer(&buffer[..len], &ledger).expect("a request with the secret");
            socket.send_to(&answer, from).expect("the socket works");
            requests.push((request.code, request.attributes));
        }
    })
}

/// The identifiers and rates of a request (RFC 4679): circuit-id, remote-id, bit/s upstream and downstream.
fn line_of(attributes: &Attributes) -> [Option<String>; 4] {
    [1, 2, 0x81, 0x82].map(|kind| {
        let value = attributes.of_vendor(vendor::ADSL_FORUM, kind).next()?;
        Some(match (kind, <[u8; 4]>::try_from(value)) {
            (0x81 | 0x82, Ok(rate)) => u32::from_be_bytes(rate).to_string(),
            _ => String::from_utf8_lossy(value).into_owned(),
        })
    })
}

/// Devices dial in, and are sent more than their lines carry. What came of it, and how long it took.
fn dial(rig: &Rig, line_rates: LineRates) -> (Summary, Duration) {
    let load = Load { from_subscriber_fps: 500.0, to_subscriber_fps: 1000.0, frame_bytes: FRAME_BYTES };
    let options = Options {
        devices: DEVICES,
        pppoe: Some(Pppoe::default()),
        circuit: Some(Template("olt1 eth 0/{n}".into())),
        remote: Some(Template("customer {n}".into())),
        line_rates,
        load: Some(load),
        hold: Some(Duration::from_secs(2)),
        release: true,
        ..options()
    };
    let began = Instant::now();
    let summary = rig.emulate(options).end();
    let took = began.elapsed();
    assert!(summary.is_clean(), "{summary:?}");
    rig.until("all have ended", |rig| rig.sessions().is_some_and(|all| all.is_empty()));
    (summary, took)
}

#[test]
fn radius_and_the_shaper_get_what_the_access_node_says_of_a_line() {
    let text = TEXT.replace("limit subscriber 1000", &format!("limit subscriber 1000, {RADIUS}"));
    let Some(rig) = Rig::of(&text) else { return };
    let ports = ["127.0.0.1:1812", "127.0.0.1:1813"];
    let serving = ports.map(|port| serve(rig.socket(port)));
    rig.write_and_reload("one.secret", &format!("{SECRET}\n"));
    rig.until("the server is read", |rig| rig.log().contains("the file was read again"));

    let (summary, took) = dial(&rig, RATES);
    let rates = [RATES.up_kbit_per_s, RATES.down_kbit_per_s].map(|kbit| f64::from(kbit) * 1000.0);
    for (traffic, rate) in [summary.from_subscriber, summary.to_subscriber].into_iter().zip(rates) {
        let traffic = traffic.expect("it was sent");
        let passed = (traffic.received * FRAME_BYTES as u64 * 8) as f64;
        let most = f64::from(DEVICES) * (rate * took.as_secs_f64() + BURST_BITS);
        assert!(
            traffic.received > 0 && traffic.lost() > 0 && passed <= most,
            "{passed} of {most}: {traffic:?}"
        );
    }
    let (summary, _) = dial(&rig, LineRates::default());
    for traffic in [summary.from_subscriber, summary.to_subscriber] {
        assert_eq!(
            traffic.map(|traffic| traffic.lost()),
            Some(0),
            "without rates the plan decides: {summary:?}"
        );
    }

    for port in ports {
        rig.socket("127.0.0.1:0").send_to(b"end", port).expect("the socket works");
    }
    let [access, accounting] = serving.map(|thread| thread.join().expect("no panic"));
    let of_device = |requests: &[(u8, Attributes)], wanted: u8, name: &str| -> Vec<[Option<String>; 4]> {
        let own = requests.iter().filter(|(code, attributes)| {
            *code == wanted && attributes.text(number::USER_NAME).as_deref() == Some(name)
        });
        own.map(|(_, attributes)| line_of(attributes)).collect()
    };
    for device in 0..DEVICES {
        let name = format!("user{device}@isp");
        let ids = [format!("olt1 eth 0/{device}"), format!("customer {device}")].map(Some);
        let [circuit, remote] = ids.clone();
        let said = of_device(&access, code::ACCESS_REQUEST, &name);
        let with_rates = [circuit.clone(), remote.clone(), Some("128000".into()), Some("256000".into())];
        assert_eq!(said.first(), Some(&with_rates), "{name}: {said:?}");
        assert_eq!(said.last(), Some(&[circuit, remote, None, None]), "{name}: {said:?}");
        let told = of_device(&accounting, code::ACCOUNTING_REQUEST, &name);
        let of_line = |said: &[Option<String>; 4]| said[..2] == ids[..];
        assert!(
            told.len() >= 4 && told.iter().all(of_line),
            "Start and Stop of two sessions, {name}: {told:?}"
        );
    }
}
