//! `weir cpe` in front of the smallest responder: devices a, responder b and d, far end c.

use std::net::UdpSocket;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;

use serde_json::Value;
use weir_cpe::Mac;
use weir_cpe::responder::serve;
use weir_linux::namespace::Namespace;
use weir_linux::rtnl::Rtnl;
use weir_testkit::wires::{End, Wire, address, default_route, join, keep_quiet, set_up};
use weir_testkit::{PATIENCE, Started, need_root};

use crate::weir::{WEIR, run};

/// MAC address of c, the first end of wire 1.
const FAR_MAC: Mac = Mac([2, 0, 0, 0, 1, 1]);

/// The responder until it is dropped.
struct Responder {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Responder {
    fn start(namespace: &Namespace) -> Responder {
        let stop = Arc::new(AtomicBool::new(false));
        let (ready, is_ready) = mpsc::channel();
        let work = {
            let stop = stop.clone();
            move || serve("b", Some(("d", FAR_MAC)), &stop, || ready.send(()).unwrap()).unwrap()
        };
        let thread = Some(namespace.spawn("responder", work).unwrap());
        is_ready.recv().unwrap();
        Responder { stop, thread }
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        drop(self.thread.take().map(JoinHandle::join));
    }
}

fn wire(number: u8, ends: [End<'_>; 2]) {
    join(ends, Wire { number, queues: 1 });
    ends.iter().for_each(|end| keep_quiet(*end));
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_first_line_answers_and_the_exit_code_says_whether_devices_failed() {
    need_root!();
    let (devices, bng) = (Namespace::new().unwrap(), Namespace::new().unwrap());
    for (number, here, there) in [(0, "a", "b"), (1, "c", "d")] {
        let ends = [(&devices, here), (&bng, there)];
        wire(number, ends);
        ends.iter().for_each(|end| set_up(*end, true));
    }
    let missing = run(&devices, "cpe --dhcp 3 --on a --timeout 20ms --tries 2 --seed 1");
    let said = text(&missing.stdout);
    assert_eq!(missing.status.code(), Some(1), "{said}");
    assert!(said.starts_with("0 of 3 up, failures 3\n"), "{said}");
    assert!(said.contains("3 at discover: 02:00:00:00:00:0"), "{said}");

    let _responder = Responder::start(&bng);
    let line =
        "cpe --dhcp 20 --rate 500 --on a --lines 100.1-4094 --far c --first-packet-to 198.18.0.2 --release";
    let up = run(&devices, line);
    let said = text(&up.stdout);
    assert_eq!(up.status.code(), Some(0), "{said}");
    let first = said.lines().next().unwrap();
    assert!(first.starts_with("20 of 20 up, first packet p50 ") && first.ends_with("failures 0"), "{said}");
    let document: Value = serde_json::from_slice(&run(&devices, &format!("{line} --json")).stdout).unwrap();
    assert_eq!(
        (&document["up"], &document["released"], &document["foreign"]),
        (&20.into(), &20.into(), &0.into())
    );
    assert!(
        document["first_packet_ns"]["p99"].as_u64() >= document["setup_ns"]["p50"].as_u64(),
        "{document:#}"
    );
}

#[test]
fn devices_dial_in_and_a_wrong_password_is_named() {
    need_root!();
    let (devices, bng) = (Namespace::new().unwrap(), Namespace::new().unwrap());
    for (number, here, there) in [(0, "a", "b"), (1, "c", "d")] {
        let ends = [(&devices, here), (&bng, there)];
        wire(number, ends);
        ends.iter().for_each(|end| set_up(*end, true));
    }
    let _responder = Responder::start(&bng);
    let line = "cpe --pppoe 20 --rate 500 --on a --lines 100.1-4094 --far c --first-packet-to 198.18.0.2 --dual-stack --release";
    let up = run(&devices, line);
    let said = text(&up.stdout);
    assert_eq!(up.status.code(), Some(0), "{said}{}", text(&up.stderr));
    let first = said.lines().next().unwrap();
    assert!(first.starts_with("20 of 20 up, first packet p50 ") && first.ends_with("failures 0"), "{said}");
    assert!(said.contains("PADI to the address of IPCP p50 "), "{said}");
    let document: Value = serde_json::from_slice(&run(&devices, &format!("{line} --json")).stdout).unwrap();
    assert_eq!(
        (&document["up"], &document["messages"]["padt_sent"]),
        (&20.into(), &20.into()),
        "{document:#}"
    );
    let wrong = run(&devices, "cpe --pppoe 2 --on a --password wrong --auth pap");
    let said = text(&wrong.stdout);
    assert_eq!(wrong.status.code(), Some(1), "{said}");
    assert!(said.starts_with("0 of 2 up, failures 2\n") && said.contains("2 at auth: 02:00:00"), "{said}");
}

#[test]
fn a_session_of_dhcp_is_an_interface_behind_its_tags() {
    a_session_is_an_interface("--dhcp");
}

#[test]
fn a_session_of_pppoe_is_an_interface_behind_its_tags() {
    a_session_is_an_interface("--pppoe");
}

/// Packets in both directions, through the interface of the first device.
fn a_session_is_an_interface(kind: &str) {
    need_root!();
    let [devices, bng, far] = [(); 3].map(|()| Namespace::new().unwrap());
    wire(0, [(&devices, "a"), (&bng, "b")]);
    wire(1, [(&far, "c"), (&bng, "d")]);
    let ends = [(&devices, "a"), (&bng, "b"), (&far, "c"), (&bng, "d")];
    ends.iter().for_each(|end| set_up(*end, true));
    address((&far, "c"), "198.18.0.2");
    default_route((&far, "c"), "198.18.0.1");
    far.run(|| {
        let mut rtnl = Rtnl::open().unwrap();
        let index = rtnl.link("c").unwrap().ifindex;
        rtnl.add_neighbour(index, "198.18.0.1".parse().unwrap(), [2, 0, 0, 0, 1, 2]).unwrap();
    });
    let _responder = Responder::start(&bng);
    let mut command = Command::new(WEIR);
    command.args(["cpe", kind, "1", "--on", "a", "--lines", "100.7", "--tap", "cpe0", "--release", "--json"]);
    let mut session = devices.run(|| Started::new(command));
    session.await_words("cpe0 has the address 100.64.0.2; a route: ip route add ");
    default_route((&devices, "cpe0"), "100.64.0.1");
    let bound = |namespace: &Namespace, address: &'static str| {
        let socket = namespace.run(move || UdpSocket::bind(address).unwrap());
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    };
    let (here, there) = (bound(&devices, "100.64.0.2:9"), bound(&far, "198.18.0.2:7"));
    let mut room = [0; 100];
    let mtu = if kind == "--pppoe" { 1492 } else { 1500 };
    assert_eq!(devices.run(|| Rtnl::open().unwrap().link("cpe0").unwrap().mtu), mtu);
    here.send_to(b"out", "198.18.0.2:7").unwrap();
    let (bytes, from) = there.recv_from(&mut room).unwrap();
    assert_eq!((&room[..bytes], from.to_string().as_str()), (&b"out"[..], "100.64.0.2:9"));
    there.send_to(b"back", from).unwrap();
    assert_eq!(here.recv(&mut room).map(|bytes| &room[..bytes]).unwrap(), b"back");
    let ended = session.interrupt();
    let counts = (&ended.result["up"], &ended.result["released"]);
    assert_eq!((ended.code, counts), (Some(0), (&1.into(), &1.into())), "{ended:?}");
}
