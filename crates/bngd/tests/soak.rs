//! Many set-ups by PPPoE with a RADIUS server whose replies are lost now and then: sockets, threads, memory and files of the program stay
//! bounded, and each session that the server was told of has one Stop.
//!
//! ```text
//! WEIR_SOAK=1000000 cargo test --release -p weir-bngd --test bngd -- --ignored --nocapture soak
//! ```

use std::collections::HashSet;
use std::net::UdpSocket;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use weir_bng::api::{Radius, State};
use weir_bng::ppp::auth::Method;
use weir_bng::radius::attribute::{Attributes, number};
use weir_bng::radius::packet as radius;
use weir_cpe::{Options, Pppoe};

use crate::restart::{Rig, TEXT, options};

const SECRET: &[u8] = b"of the soak";
const RADIUS: &str = "pppoe auth pap padi mac 100, \
                      radius one 127.0.0.1:1812 secret-file one.secret ports 4 plan basic accounting 1813";
/// Devices of a round, each of which dials in once, and ends its session.
const DEVICES: u32 = 500;
/// Rounds after which the program has what it needs.
const WARM: u64 = 2;
/// One reply of so many is lost.
const LOST: u64 = 50;

/// Acct-Session-Ids by Acct-Status-Type: Start and Stop.
#[derive(Default)]
struct Told([HashSet<String>; 2]);

/// Answers until a datagram is `end`.
fn serve(socket: UdpSocket, told: Arc<Mutex<Told>>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        for count in 1_u64.. {
            let (len, from) = socket.recv_from(&mut buffer).expect("the socket works");
            let Ok(request) = radius::Packet::read(&buffer[..len]) else { return };
            let mut attributes = Attributes::default();
            let code = if request.code == radius::code::ACCOUNTING_REQUEST {
                let id = request.attributes.text(number::ACCT_SESSION_ID).unwrap_or_default();
                let status = request.attributes.u32(number::ACCT_STATUS_TYPE);
                let mut told = told.lock().expect("no panic");
                if let Some(ids) = status.and_then(|status| told.0.get_mut(status as usize - 1)) {
                    ids.insert(id);
                }
                radius::code::ACCOUNTING_RESPONSE
            } else {
                attributes.push(number::FILTER_ID, b"30000/7000");
                radius::code::ACCESS_ACCEPT
            };
            if count % LOST != 0 {
                let answer = request.answer(code, &attributes, SECRET).expect("a short packet");
                socket.send_to(&answer.write(), from).expect("the socket works");
            }
        }
    })
}

/// What the program uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Use {
    sockets: usize,
    threads: u64,
    memory_kb: u64,
    log_files: usize,
    database_kb: u64,
}

impl Use {
    fn of(rig: &Rig) -> Use {
        let proc = format!("/proc/{}", rig.bngd.id());
        let status = std::fs::read_to_string(format!("{proc}/status")).expect("it runs");
        let value = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|line| line.split_whitespace().next()?.parse().ok()).expect("a number")
        };
        let names = std::fs::read_dir(rig.folder.join("store")).expect("a folder");
        let names: Vec<_> = names.map(|entry| entry.expect("an entry")).collect();
        let is_log = |name: &str| name.starts_with("log-");
        Use {
            sockets: std::fs::read_dir(format!("{proc}/fd")).expect("it runs").count(),
            threads: value("Threads:"),
            memory_kb: value("VmRSS:"),
            log_files: names.iter().filter(|one| one.file_name().to_str().is_some_and(is_log)).count(),
            database_kb: rig.folder.join("store/bng.db").metadata().map_or(0, |data| data.len() / 1024),
        }
    }
}

#[test]
#[ignore = "minutes: see the head of the file"]
fn soak_with_lost_replies_leaves_no_socket_no_memory_and_no_file() {
    let wanted: u64 = weir_testkit::number("WEIR_SOAK", 10_000);
    let text = TEXT.replace("limit subscriber 1000", &format!("limit subscriber 1000, {RADIUS}"));
    let Some(rig) = Rig::of(&text) else { return };
    let told = Arc::new(Mutex::new(Told::default()));
    let ports = ["127.0.0.1:1812", "127.0.0.1:1813"];
    let serving = ports.map(|port| serve(rig.socket(port), told.clone()));
    rig.write_and_reload("one.secret", "of the soak\n");
    rig.until("the servers are read", |rig| rig.log().contains("the file was read again"));
    let (began, mut warm, mut last) = (Instant::now(), None, None);
    let rounds = wanted.div_ceil(DEVICES.into()).max(WARM + 1);
    for round in 1..=rounds {
        let pppoe = Pppoe { methods: vec![Method::Pap], ..Pppoe::default() };
        let options = Options {
            devices: DEVICES,
            rate_per_s: 500.0,
            pppoe: Some(pppoe),
            release: true,
            // A reply of RADIUS that is lost costs two seconds.
            timeout: Duration::from_secs(2),
            ..options()
        };
        let summary = rig.emulate(options).end();
        let counts =
            || (rig.get::<State>("/v1/status").map(|state| state.frames), rig.get::<Radius>("/v1/radius"));
        assert!(summary.is_clean(), "round {round}: {summary:?} {:?}", counts());
        rig.until("no session is left", |rig| rig.sessions().is_some_and(|all| all.is_empty()));
        let waits = |rig: &Rig| rig.get::<Radius>("/v1/radius").map(|radius| radius.accounting.waiting);
        if round == WARM || round == rounds {
            rig.until("nothing waits", |rig| waits(rig) == Some(0));
        }
        let used = Use::of(&rig);
        if round % (rounds / 10).max(1) == 0 {
            println!(
                "{:>8} set-ups in {:>5} s: {used:?}",
                round * u64::from(DEVICES),
                began.elapsed().as_secs()
            );
        }
        warm = warm.or((round == WARM).then_some(used));
        last = Some(used);
    }
    let (Some(warm), Some(last)) = (warm, last) else { panic!("no round") };
    assert_eq!((last.sockets, last.threads), (warm.sockets, warm.threads), "{warm:?} {last:?}");
    assert!(last.memory_kb < warm.memory_kb * 3 / 2 + 20_000, "{warm:?} {last:?}");
    assert!(last.log_files <= warm.log_files + 2, "{warm:?} {last:?}");
    // A row of `ended_sessions` for each set-up, with its two indexes.
    assert!(last.database_kb <= warm.database_kb + rounds * u64::from(DEVICES) / 2, "{warm:?} {last:?}");
    let told = told.lock().expect("no panic");
    let [starts, stops] = &told.0;
    assert_eq!(starts.len() as u64, rounds * u64::from(DEVICES));
    assert_eq!(starts, stops);
    for port in ports {
        rig.socket("127.0.0.1:0").send_to(b"end", port).expect("the socket works");
    }
    serving.into_iter().for_each(|thread| thread.join().expect("no panic"));
}
