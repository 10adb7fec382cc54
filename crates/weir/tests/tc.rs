//! `weir bottleneck` and the kernel's own queueing disciplines, side by side on the same wires with the same frames: how much is held,
//! to the byte, and for how long at least. Nothing else that is timed is asserted. A minute, and many kernels lack the disciplines: it
//! is for a guest, where `tests/vm/check` sets WEIR_TC=1.
//!
//! ```text
//!  host 198.18.0.1 - m0 [ weir bottleneck, or a bridge with tc at m1 ] m1 - host 198.18.0.2
//! ```

use std::net::UdpSocket;
use std::process::Command;
use std::time::{Duration, Instant};

use weir_testbed::namespace::Namespace;

mod link;
#[allow(dead_code, reason = "other tests use more of it")]
mod weir;

use link::Street;
use weir_testkit::{Started, need_root};

/// Payload whose frame has 1000 bytes.
const PAYLOAD: usize = 1000 - 14 - 20 - 8;
/// After this silence nothing comes any more.
const SILENCE: Duration = Duration::from_secs(10);

/// Runs `ip` or `tc`: what it says.
fn command(space: &Namespace, line: &str) -> String {
    let mut words = line.split_whitespace();
    let mut command = Command::new(words.next().unwrap());
    let output = space.run(|| command.args(words).output()).unwrap_or_else(|error| panic!("{line}: {error}"));
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr).trim());
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A street with weir in its middle.
fn by_weir(options: &str) -> (Street, Option<Started>) {
    let street = Street::new();
    let started = street.start(&format!("--back-rate none --json {options}"));
    (street, Some(started))
}

/// A street with a bridge, and these disciplines at its way out.
fn by_tc(disciplines: &[&str]) -> (Street, Option<Started>) {
    let street = Street::new();
    let lines = [
        "ip link add name br0 type bridge forward_delay 0 mcast_snooping 0",
        "ip link set m0 master br0",
        "ip link set m1 master br0",
        "ip link set br0 up",
    ];
    let disciplines = disciplines.iter().map(|line| format!("tc qdisc add dev m1 {line}"));
    let lines = lines.map(str::to_string).into_iter().chain(disciplines);
    lines.for_each(|line| drop(command(&street.middle, &line)));
    (street, None)
}

/// Neighbours know each other: no frame of a test waits for one, or takes its place.
fn acquaint(street: &Street) {
    let station = |space: &Namespace, name: &str, other: &str, mac: &str| {
        command(space, &format!("ip neigh replace {other} lladdr {mac} dev {name}"));
    };
    station(&street.left, "l0", "198.18.0.2", "02:00:00:00:02:01");
    station(&street.right, "r0", "198.18.0.1", "02:00:00:00:01:01");
}

/// Sends groups of so many frames with a pause after each; how many arrived, and the shortest time on the way.
fn sent(street: &Street, groups: usize, (at_once, pause): (usize, Duration)) -> (usize, Duration) {
    acquaint(street);
    let sink = street.right.run(|| UdpSocket::bind(("198.18.0.2", 9)).unwrap());
    sink.set_read_timeout(Some(SILENCE)).unwrap();
    let begin = Instant::now();
    let receiver = std::thread::spawn(move || {
        let (mut count, mut least, mut bytes) = (0, Duration::MAX, [0; 2000]);
        while sink.recv(&mut bytes).is_ok() {
            count += 1;
            let at = u64::from_be_bytes(*bytes.first_chunk().unwrap());
            least = least.min(begin.elapsed() - Duration::from_nanos(at));
        }
        (count, least)
    });
    let socket = street.left.run(|| UdpSocket::bind("198.18.0.1:0").unwrap());
    let mut due = Instant::now();
    for _ in 0..groups {
        while Instant::now() < due {
            std::thread::yield_now();
        }
        due = Instant::now() + pause;
        for _ in 0..at_once {
            let mut payload = [0; PAYLOAD];
            payload[..8].copy_from_slice(&(begin.elapsed().as_nanos() as u64).to_be_bytes());
            socket.send_to(&payload, ("198.18.0.2", 9)).unwrap();
        }
    }
    receiver.join().unwrap()
}

/// Leaves a test, aloud, where nobody has asked for it.
macro_rules! need_tc {
    () => {
        if std::env::var_os("WEIR_TC").is_none() {
            return println!("skipped: tc beside weir takes a minute: tests/vm/check runs it in a guest");
        }
        need_root!();
    };
}

#[test]
fn both_hold_what_fits_to_the_byte() {
    need_tc!();
    // 60 frames at once where one takes 400 ms: one is on the link, and ten fit, or nine if a byte is missing.
    for (bytes, accepted) in [(10_000, 11), (9_999, 10)] {
        let tbf = format!("root tbf rate 20kbit burst 1514 limit {bytes}");
        let tc = by_tc(&[&tbf]);
        let weir = by_weir(&format!("--rate 20kbit --delay 0 --buffer {bytes}"));
        for (name, (street, _middle)) in [("tc", &tc), ("weir", &weir)] {
            let (got, _) = sent(street, 1, (60, Duration::ZERO));
            println!("{name}, limit {bytes}: {} of 60 frames of 1000 bytes pass", got);
            assert_eq!(got, accepted, "{name}, {bytes} bytes");
        }
    }
}

#[test]
fn neither_is_early() {
    need_tc!();
    let tc = by_tc(&["root netem delay 30ms limit 1000"]);
    let weir = by_weir("--rate 1gbit --delay 30ms --buffer 1MB");
    for (name, (street, _middle)) in [("tc", &tc), ("weir", &weir)] {
        let (got, least) = sent(street, 50, (1, Duration::from_millis(1)));
        println!("{name}: the shortest of {} delays of 30 ms is {least:?}", got);
        assert!(got == 50 && least >= Duration::from_millis(30), "{name}: {got} {least:?}");
    }
}
