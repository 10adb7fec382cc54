//! What PPPoE behind two VLAN tags costs a node over veth: frames of 1,000 subscribers pass a node on the last CPU, in turn as plain IP and
//! as PPPoE in QinQ; frames/s and their ratio are printed.
//! `cargo test --release -p weir-node --test node -- --ignored --nocapture qinq` on a quiet machine with two CPUs or more.
//!
//! ```text
//!  sender, first CPU: l0 - n0 [ node and its receive threads, last CPU ] n1 - r0        to a subscriber: the other way
//! ```
//! The sender has [`WINDOW`] frames on their way at most, so that the node is always busy and loses none.
use std::fmt::Write;
use std::time::{Duration, Instant};

use weir_linux::ethtool::{Offload, set_offload};
use weir_linux::namespace::Namespace;
use weir_linux::{napi, sys};
use weir_node::{Config, Opened};
use weir_packet::flow::Flow;
use weir_packet::frame::{Ends, Signature};
use weir_port::duplex::{FRONT, Pool, Port, ReceiveMode, Xdp};
use weir_testkit::need_root;
use weir_testkit::wires::{Wire, join, keep_quiet, set_up};

const SUBSCRIBERS: u32 = 1000;
/// The first address of a subscriber, and of a server.
const FIRST: u32 = 0x6440_0101;
const SERVER: u32 = 0xc633_6409;
/// Of a frame without tags and PPPoE, with FCS.
const BYTES: u16 = 128;
const WINDOW: u64 = 1024;
const BATCH: u64 = 64;
/// Share of the rate of plain IP.
const GOAL: f64 = 0.85;
const ROUNDS: usize = 6;
const ROUND: Duration = Duration::from_millis(500);
/// Slice of the receive threads, as in trials of the lab.
const SLICE_NS: u64 = 100_000;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    Plain,
    Pppoe,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    From,
    To,
}

#[test]
#[ignore = "a measurement, on a quiet machine"]
fn pppoe_in_qinq_has_most_of_the_rate_of_plain_ip() {
    need_root!();
    let cpu = std::thread::available_parallelism().unwrap().get() - 1;
    weir_port::thread::pin_to(0).unwrap();
    for (way, name) in [(Way::From, "from a subscriber"), (Way::To, "to a subscriber")] {
        let mut ratios = Vec::new();
        for _ in 0..ROUNDS {
            let [plain, pppoe] = [Access::Plain, Access::Pppoe].map(|access| frames_per_s(access, way, cpu));
            println!("{name}: plain IP {plain:.0} frames/s, PPPoE in QinQ {pppoe:.0}, {:.3}", pppoe / plain);
            ratios.push(pppoe / plain);
        }
        ratios.sort_by(f64::total_cmp);
        let [least, median, most] = [ratios[0], ratios[ROUNDS / 2], ratios[ROUNDS - 1]];
        println!("{name}: PPPoE in QinQ has {median:.3} of plain IP ({least:.3} to {most:.3})");
        assert!(median >= GOAL, "{name}: {median:.3}");
    }
}

/// Frames that a new node forwards in a second.
fn frames_per_s(access: Access, way: Way, cpu: usize) -> f64 {
    let [left, node, right] = [(); 3].map(|()| Namespace::new().unwrap());
    for (number, ends) in (0..).zip([[(&left, "l0"), (&node, "n0")], [(&node, "n1"), (&right, "r0")]]) {
        join(ends, Wire { number, queues: 1 });
        for end in ends {
            end.0.run(|| set_offload(end.1, Offload::Gro, true)).unwrap();
            keep_quiet(end);
            set_up(end, true);
        }
    }
    let config = Config::read("qinq", &text(access, cpu), &|_| unreachable!("no file"))
        .unwrap_or_else(|mistakes| panic!("{mistakes}"));
    let running = node.run(|| Opened::new(&config).unwrap().start().unwrap());
    node.run(|| receive_on(cpu));
    let mut pool = Pool::new(16_384, 2048).unwrap();
    let mut open = |host: &Namespace, name: &str| {
        let pools = std::slice::from_mut(&mut pool);
        host.run(|| Xdp::open(name, pools, ReceiveMode::Promiscuous).unwrap()).pop().unwrap()
    };
    let (mut l0, mut r0) = (open(&left, "l0"), open(&right, "r0"));
    let (from, to) = match way {
        Way::From => (&mut l0, &mut r0),
        Way::To => (&mut r0, &mut l0),
    };
    let frames: Vec<Vec<u8>> = (0..SUBSCRIBERS).map(|n| frame(access, way, n)).collect();
    let mut random = 1_u64;
    let mut next = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        &frames[(random >> 33) as usize % frames.len()]
    };
    let (mut sent, mut came, mut begun) = (0, 0, None);
    let (mut leaving, mut arrived) = (Vec::new(), Vec::new());
    let mut last = Instant::now();
    loop {
        if sent - came <= WINDOW - BATCH {
            for _ in 0..BATCH {
                let (mut chunk, bytes) = (pool.take().unwrap(), next());
                chunk.set_range(FRONT..FRONT + bytes.len());
                pool.bytes_mut(&chunk).copy_from_slice(bytes);
                leaving.push(chunk);
            }
            sent += BATCH;
            from.send(&mut pool, &mut leaving).unwrap();
        }
        to.receive(&mut pool, &mut arrived).unwrap();
        came += arrived.len() as u64;
        let now = Instant::now();
        if !arrived.is_empty() {
            last = now;
        }
        arrived.drain(..).for_each(|chunk| pool.give_back(chunk));
        assert!(now - last < Duration::from_secs(2), "frames are lost: {:?}", running.snapshots());
        // The first frames find cold caches.
        match begun {
            None if came >= 8 * WINDOW => begun = Some((now, came)),
            Some((at, before)) if now - at >= ROUND => {
                return (came - before) as f64 / (now - at).as_secs_f64();
            }
            _ => {}
        }
    }
}

/// The receive threads of the node's interfaces are on its CPU, and run as soon as frames come.
pub(crate) fn receive_on(cpu: usize) {
    for name in ["n0", "n1"] {
        std::fs::write(format!("/sys/class/net/{name}/threaded"), "1").unwrap();
    }
    for thread in napi::list().unwrap().iter().filter_map(|napi| napi.pid) {
        sys::set_affinity(thread, &[cpu]).unwrap();
        sys::run_in_slices(thread, SLICE_NS).unwrap();
    }
}

fn text(access: Access, cpu: usize) -> String {
    let route = "default via 198.19.0.2";
    let wan = "wan(198.19.0.1/24, neighbour 198.19.0.2 02:00:00:00:01:02, on n1)";
    let run = format!("run(cpu {cpu}, host none)");
    if access == Access::Plain {
        let lan = "lan(198.18.0.1/24, neighbour 198.18.0.2 02:00:00:00:00:01, on n0)";
        return format!("{lan} > route({route}, 100.64.0.0/16 via 198.18.0.2) > {wan} {run}");
    }
    let mut all = String::new();
    for n in 0..SUBSCRIBERS {
        let ([outer, inner], session) = line(n);
        let address = std::net::Ipv4Addr::from(FIRST + n);
        write!(all, "s{n} lan {outer}.{inner} 02:00:00:00:00:01 {address} pppoe {session}, ").unwrap();
    }
    let all = all.trim_end_matches(", ");
    format!(
        "lan(access, vlan 100-199.1-4094, on n0) > access(gateway 100.64.0.1/16) > route({route}) > {wan} subscribers({all}) {run}"
    )
}

/// The tags and the PPPoE session of a subscriber.
fn line(n: u32) -> ([u16; 2], u16) {
    ([100 + (n % 100) as u16, 1 + n as u16], 1 + n as u16)
}

fn frame(access: Access, way: Way, n: u32) -> Vec<u8> {
    let (own, node) = match way {
        Way::From => ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]),
        Way::To => ([2, 0, 0, 0, 1, 2], [2, 0, 0, 0, 1, 1]),
    };
    let (src, dst) = if way == Way::From { (FIRST + n, SERVER) } else { (SERVER, FIRST + n) };
    let flow = Flow { src, dst, sport: 4000, dport: 5000, group: 0 };
    let mut frame = Ends::v4(own, node).frame(&flow, BYTES, Signature::default());
    if (access, way) == (Access::Pppoe, Way::From) {
        let ([outer, inner], session) = line(n);
        let ([a, b], [c, d], [e, f]) = (outer.to_be_bytes(), inner.to_be_bytes(), session.to_be_bytes());
        let [g, h] = ((frame.len() - 14 + 2) as u16).to_be_bytes();
        let front = [0x88, 0xa8, a, b, 0x81, 0, c, d, 0x88, 0x64, 0x11, 0, e, f, g, h, 0, 0x21];
        frame.splice(12..14, front);
    }
    frame
}
