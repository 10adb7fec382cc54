//! `weir bottleneck` and the kernel's own queueing disciplines, side by side on the same wires with the same frames: how much
//! is held, to the byte, and for how long at least; which frames FQ-CoDel and PIE drop or mark, and in which order flows leave.
//! Frames take a second on the link where it matters when each leaves, so that neither side is too slow for it. A minute, and
//! many kernels lack the disciplines: it is for a guest, where `tests/vm/check` sets WEIR_TC=1.
//!
//! ```text
//!  host 198.18.0.1 - m0 [ weir bottleneck, or a bridge with tc at m1 ] m1 - host 198.18.0.2
//! ```

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::process::Command;
use std::time::{Duration, Instant};

use weir_linux::namespace::Namespace;
use weir_testkit::{Started, need_root};

use crate::link::Street;

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

/// Skips a test, with a note, unless WEIR_TC is set.
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

/// A rate at which a frame takes a second.
const SECOND: &str = "8kbit";

/// Frames that are offered at once, or one by one with a pause.
struct Offer<'a> {
    /// The flow of each.
    flows: &'a [u16],
    ecn: u8,
    pause: Duration,
}

/// The packets that passed.
#[derive(Debug, PartialEq)]
struct Passed {
    /// Numbers of the frames that arrived, in their order.
    arrived: Vec<usize>,
    dropped: u64,
    marked: u64,
}

impl Passed {
    /// The same behind a frame more.
    fn behind_one(mut self) -> Passed {
        self.arrived = [0].into_iter().chain(self.arrived.iter().map(|number| number + 1)).collect();
        self
    }
}

fn arrived(street: &Street, offer: &Offer<'_>) -> Vec<usize> {
    acquaint(street);
    let sink = street.right.run(|| UdpSocket::bind(("198.18.0.2", 9)).unwrap());
    sink.set_read_timeout(Some(SILENCE)).unwrap();
    let receiver = std::thread::spawn(move || {
        let (mut all, mut bytes) = (Vec::new(), [0; 2000]);
        while sink.recv(&mut bytes).is_ok() {
            all.push(u64::from_be_bytes(*bytes.first_chunk().unwrap()) as usize);
        }
        all
    });
    let mut sockets = BTreeMap::new();
    for flow in offer.flows {
        sockets.entry(flow).or_insert_with(|| {
            let socket = street.left.run(|| UdpSocket::bind(("198.18.0.1", 5000 + flow)).unwrap());
            let tos = libc::c_int::from(offer.ecn);
            // SAFETY: pointer and length describe `tos`.
            let set = unsafe {
                let (level, name) = (libc::IPPROTO_IP, libc::IP_TOS);
                libc::setsockopt(
                    socket.as_raw_fd(),
                    level,
                    name,
                    (&raw const tos).cast(),
                    size_of_val(&tos) as u32,
                )
            };
            assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
            socket
        });
    }
    let send = || {
        // Frames of one CPU are not overtaken by those of another on a veth.
        // SAFETY: no arguments.
        weir_port::thread::pin_to(unsafe { libc::sched_getcpu() } as usize).unwrap();
        let mut due = Instant::now();
        for (number, flow) in offer.flows.iter().enumerate() {
            while Instant::now() < due {
                std::thread::yield_now();
            }
            due += offer.pause;
            let mut payload = [0; PAYLOAD];
            payload[..8].copy_from_slice(&(number as u64).to_be_bytes());
            sockets[flow].send_to(&payload, ("198.18.0.2", 9)).unwrap();
        }
    };
    std::thread::scope(|scope| scope.spawn(send).join()).unwrap();
    receiver.join().unwrap()
}

fn through_weir(options: &str, offer: &Offer<'_>) -> Passed {
    let (street, middle) = by_weir(&format!("--delay 0 {options}"));
    let arrived = arrived(&street, offer);
    let result = middle.unwrap().interrupt().result;
    let there = &result["directions"][0];
    let drops = there["dropped"].as_object().unwrap();
    let dropped = drops.values().filter_map(serde_json::Value::as_u64).sum();
    Passed { arrived, dropped, marked: there["marked"].as_u64().unwrap() }
}

/// `discipline` behind a token bucket of one frame.
fn through_tc(rate: &str, discipline: &str, offer: &Offer<'_>) -> Passed {
    let bucket = format!("root handle 1: tbf rate {rate} burst 1514 limit 1000000");
    let (street, _) = by_tc(&[&bucket, &format!("parent 1:1 handle 10: {discipline}")]);
    let arrived = arrived(&street, offer);
    let said = command(&street.middle, "tc -s qdisc show dev m1");
    let own = said.split("qdisc ").find(|text| text.contains(" 10: ")).unwrap_or_else(|| panic!("{said}"));
    let number = |name: &str| {
        let words: Vec<&str> =
            own.split([' ', ',', '(', ')', '\n']).filter(|word| !word.is_empty()).collect();
        words.windows(2).find(|pair| pair[0] == name).and_then(|pair| pair[1].parse().ok())
    };
    Passed {
        arrived,
        dropped: number("dropped").unwrap_or_else(|| panic!("{own}")),
        marked: number("ecn_mark").or(number("ecn_mark:")).unwrap_or(0),
    }
}

/// What weir makes of `ours`, and tc of `theirs`.
fn beside(
    name: &str,
    (options, ours): (&str, Offer<'_>),
    (rate, discipline, theirs): (&str, &str, Offer<'_>),
) -> [Passed; 2] {
    let both = std::thread::scope(|scope| {
        let weir = scope.spawn(|| through_weir(options, &ours));
        let tc = through_tc(rate, discipline, &theirs);
        [weir.join().unwrap(), tc]
    });
    for (who, passed) in ["weir", "tc"].iter().zip(&both) {
        let Passed { arrived, dropped, marked } = passed;
        println!("{name}, {who}: dropped {dropped}, marked {marked}, passed {}: {arrived:?}", arrived.len());
    }
    both
}

fn at_once(flows: &[u16]) -> Offer<'_> {
    Offer { flows, ecn: 0, pause: Duration::ZERO }
}

#[test]
fn both_isolate_flows_and_serve_them_in_the_same_order() {
    need_tc!();
    // A flow with many frames, and two that come after it with few: weir and tc give each its turn. The token bucket of tc
    // has sent the first frame and taken the second one before the third one comes; so weir gets a frame less.
    let flows = [vec![1; 14], vec![2; 3], vec![3; 2], vec![2; 2]].concat();
    let [weir, tc] = beside(
        "order",
        (
            &format!("--rate {SECOND} --buffer 1MB --aqm fq-codel:codel={{\"target_s\":500}}"),
            at_once(&flows[1..]),
        ),
        (SECOND, "fq_codel target 500s interval 1000s", at_once(&flows)),
    );
    let weir = weir.behind_one();
    assert_eq!(weir, tc);
    assert!(weir.arrived.len() == flows.len() && !weir.arrived.is_sorted(), "{weir:?}");
    let last = |flow: u16| weir.arrived.iter().rposition(|number| flows[*number] == flow).unwrap();
    assert!(last(2) < last(1) && last(3) < last(1), "no flow waits behind the first one: {weir:?}");
    for flow in 1..=3 {
        assert!(weir.arrived.iter().filter(|number| flows[**number] == flow).is_sorted(), "{weir:?}");
    }
}

#[test]
fn both_drop_from_the_head_of_the_largest_flow() {
    need_tc!();
    // The token bucket of tc has taken the second frame before the third one comes, and the limit counts it: so weir gets a frame
    // less, and a limit less by one.
    let flows = [vec![1; 12], vec![2; 2], vec![1; 20]].concat();
    let [weir, tc] = beside(
        "limit",
        (
            &format!(
                "--rate {SECOND} --buffer 1MB --aqm fq-codel:fair={{\"limit_packets\":9}},codel={{\"target_s\":500}}"
            ),
            at_once(&flows[1..]),
        ),
        (SECOND, "fq_codel limit 10 target 500s interval 1000s", at_once(&flows)),
    );
    assert!(weir.dropped > 10 && weir.arrived.contains(&32), "{weir:?}");
    assert_eq!(weir.behind_one(), tc);
}

#[test]
fn both_follow_codels_law() {
    need_tc!();
    // The sojourn is above 5 ms from the first frame that waits on. Drops are due 2.5 s and 5 s after it, and made when a
    // frame is taken, each second. The third one would be due 1.77 s later, as RFC 8289 has it; in Linux, where the square
    // root is one step of Newton's method, after 1.25 s.
    for (ecn, frames) in [(0, 12), (2, 11)] {
        let flows = vec![1; frames];
        let [weir, tc] = beside(
            if ecn == 0 { "codel" } else { "codel, ECT(0)" },
            (
                &format!("--rate {SECOND} --buffer 1MB --aqm fq-codel:codel={{\"interval_s\":2.5}}"),
                Offer { ecn, ..at_once(&flows[1..]) },
            ),
            (SECOND, "fq_codel interval 2.5s target 5ms ecn", Offer { ecn, ..at_once(&flows) }),
        );
        assert_eq!(weir.behind_one(), tc);
        let (signals, none) = if ecn == 0 { (tc.dropped, tc.marked) } else { (tc.marked, tc.dropped) };
        assert!(signals == 2 && none == 0, "{tc:?}");
    }
}

#[test]
fn both_limit_pie_to_the_frame() {
    need_tc!();
    // Nothing is above a target of 1000 s: what is left is the limit.
    let flows = [1; 40];
    let [weir, tc] = beside(
        "pie's limit",
        (&format!("--rate {SECOND} --buffer 10000 --aqm pie:target_s=1000"), at_once(&flows)),
        (SECOND, "pie limit 10 target 1000s", at_once(&flows)),
    );
    assert_eq!(weir, tc);
    assert_eq!(weir.arrived, (0..11).collect::<Vec<_>>());
}

#[test]
fn both_pies_signal_before_the_limit() {
    need_tc!();
    let flows = [1; 1000];
    // 800 kbit/s for ten seconds: twice the rate; and 3 % above it, where the chance is below a tenth, up to which PIE
    // marks, for long enough to mark one or two.
    for (ecn, rate) in [(0, "400kbit"), (2, "775kbit")] {
        let offer = || Offer { flows: &flows, ecn, pause: Duration::from_millis(10) };
        let both = beside(
            if ecn == 0 { "pie" } else { "pie, ECT(0)" },
            // Unlike Linux's, it sleeps while less than a third of the buffer is used.
            (&format!("--rate {rate} --buffer 10MB --aqm pie:wake_share=0"), offer()),
            (rate, "pie limit 10000 target 15ms tupdate 15ms ecn", offer()),
        );
        // How many, chance and the speed of the machine decide.
        for passed in both {
            assert!(passed.arrived.is_sorted() && passed.dropped + passed.marked > 0, "{passed:?}");
            assert_eq!(passed.arrived.len() as u64 + passed.dropped, 1000, "{passed:?}");
            assert!(ecn > 0 || passed.marked == 0, "{passed:?}");
        }
    }
}
