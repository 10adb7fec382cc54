//! How long conversations of seven segments take through a node on one CPU, as a bump in the wire and with a NAT, beside the kernel's bridge in
//! its place: p50 and p99, in turn, how often the node slept, and its page faults.
//! `LATENCY_CPS=5000,20000 cargo test --release -p weir-node --test node -- --ignored --nocapture latency`
//!
//! ```text
//!  tester, first CPU: l0 - n0 [ node or bridge and receive threads, last CPU ] n1 - r0
//!  conversation: l0 > r0 > l0 > ... each segment leaves as soon as the one before has come; each has a source of its own
//! ```

use std::time::{Duration, Instant};

use weir_linux::ethtool::{Offload, set_offload};
use weir_linux::namespace::Namespace;
use weir_linux::rtnl::Rtnl;
use weir_node::{Node, Opened, Snapshot};
use weir_packet::flow::Flow;
use weir_packet::frame::{Ends, Signature};
use weir_port::duplex::{Chunk, FRONT, Pool, Port, ReceiveMode, Xdp};
use weir_testkit::need_root;
use weir_testkit::wires::{Wire, join, keep_quiet, set_up};

use crate::changes::config;
use crate::qinq::receive_on;

const SEGMENTS: u32 = 7;
const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_millis(500);
/// Where a frame has its conversation and its segment.
const NUMBER: std::ops::Range<usize> = 44..48;
const SEGMENT: std::ops::Range<usize> = 48..52;
/// What is not over by then was lost.
const LOST: Duration = Duration::from_millis(200);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Device {
    Bridge,
    Node,
    Nat,
}

/// The ends of the tester, whose chunks one pool has.
struct Tester {
    ports: [Xdp; 2],
    pool: Pool,
    frame: Vec<u8>,
    out: [Vec<Chunk>; 2],
    /// Conversations so far.
    next: u32,
}

struct Took {
    p50: Duration,
    p99: Duration,
    lost: usize,
}

impl Tester {
    /// The first segment of a conversation.
    fn begin(&mut self, number: u32) {
        let mut chunk = self.pool.take().unwrap();
        chunk.set_range(FRONT..FRONT + self.frame.len());
        let bytes = self.pool.bytes_mut(&chunk);
        bytes.copy_from_slice(&self.frame);
        // 254 hosts, with as many ports as it takes.
        bytes[29] = 1 + (number % 254) as u8;
        bytes[34..36].copy_from_slice(&(1024 + (number / 254) as u16).to_be_bytes());
        weir_packet::checksum::write_ipv4(&mut bytes[14..34]);
        // Where no checksum is looked at: behind the headers.
        bytes[NUMBER].copy_from_slice(&number.to_be_bytes());
        bytes[SEGMENT].copy_from_slice(&0_u32.to_be_bytes());
        self.out[0].push(chunk);
    }

    fn flush(&mut self) {
        for (port, out) in self.ports.iter_mut().zip(&mut self.out) {
            if !out.is_empty() {
                port.send(&mut self.pool, out).unwrap();
            }
        }
    }

    /// Answers the segments that have come at a side; returns the conversations that are over.
    fn answer(&mut self, side: usize, arrived: &mut Vec<Chunk>) -> Vec<u32> {
        let mut over = Vec::new();
        self.ports[side].receive(&mut self.pool, arrived).unwrap();
        for chunk in arrived.drain(..) {
            let bytes = self.pool.bytes_mut(&chunk);
            let number = |at: &[u8]| u32::from_be_bytes(at.try_into().unwrap());
            let (conversation, segment) = (number(&bytes[NUMBER]), number(&bytes[SEGMENT]) + 1);
            if segment == SEGMENTS {
                over.push(conversation);
                self.pool.give_back(chunk);
                continue;
            }
            bytes[SEGMENT].copy_from_slice(&segment.to_be_bytes());
            // The ends change places: Ethernet, IP, UDP.
            for (at, length) in [(0, 6), (26, 4), (34, 2)] {
                let (one, other) = bytes[at..at + 2 * length].split_at_mut(length);
                one.swap_with_slice(other);
            }
            self.out[side].push(chunk);
        }
        over
    }

    /// Conversations at this rate, and how long they took.
    fn converse(&mut self, per_s: u32) -> Took {
        let (begin, mut begun, mut over) = (Instant::now(), Vec::new(), Vec::new());
        let (first, mut arrived) = (self.next, Vec::new());
        loop {
            let elapsed = begin.elapsed();
            if elapsed < ROUND {
                let due = (elapsed.as_secs_f64() * f64::from(per_s)) as usize;
                while begun.len() < due {
                    begun.push(begin.elapsed());
                    self.begin(self.next);
                    self.next += 1;
                }
            } else if over.len() == begun.len() || elapsed > ROUND + LOST {
                break;
            }
            for side in [1, 0] {
                for number in self.answer(side, &mut arrived) {
                    let at = number.checked_sub(first).and_then(|n| begun.get(n as usize));
                    over.extend(at.map(|at| begin.elapsed() - *at));
                }
            }
            self.flush();
        }
        over.sort();
        let at = |share: f64| over.get((over.len() as f64 * share) as usize).copied().unwrap_or(LOST);
        Took { p50: at(0.5), p99: at(0.99), lost: begun.len() - over.len() }
    }
}

fn bridge() {
    let mut rtnl = Rtnl::open().unwrap();
    rtnl.add_bridge("b0", [2, 0, 0, 0, 9, 9]).unwrap();
    let index = rtnl.link("b0").unwrap().ifindex;
    for name in ["n0", "n1"] {
        let port = rtnl.link(name).unwrap().ifindex;
        rtnl.enslave(port, index).unwrap();
    }
    rtnl.set_up(index, true).unwrap();
}

/// Page faults of the node's thread so far (minflt of proc_pid_stat(5)).
fn faults(node: &Node) -> u64 {
    let [thread] = node.threads()[..] else { panic!("one thread") };
    let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap();
    stat.rsplit(')').next().unwrap().split_whitespace().nth(7).unwrap().parse().unwrap()
}

/// Conversations through a new device; the counters of the node's thread, and its page faults meanwhile.
fn measure(device: Device, per_s: u32, cpu: usize) -> (Took, Option<(Snapshot, u64)>) {
    let [left, middle, right] = [(); 3].map(|()| Namespace::new().unwrap());
    for (number, ends) in (0..).zip([[(&left, "l0"), (&middle, "n0")], [(&middle, "n1"), (&right, "r0")]]) {
        join(ends, Wire { number, queues: 1 });
        for end in ends {
            end.0.run(|| set_offload(end.1, Offload::Gro, true)).unwrap();
            keep_quiet(end);
            set_up(end, true);
        }
    }
    let stage = if device == Device::Nat { "nat(public 192.0.2.0/27) >" } else { "" };
    let config = config(&format!("lan(on n0) > {stage} wan(on n1) run(cpu {cpu}, host none)"));
    let node: Option<Node> = match device {
        Device::Node | Device::Nat => Some(middle.run(|| Opened::new(&config).unwrap().start().unwrap())),
        Device::Bridge => {
            middle.run(bridge);
            None
        }
    };
    middle.run(|| receive_on(cpu));
    let mut pool = Pool::new(16_384, 2048).unwrap();
    let mut open = |host: &Namespace, name: &str| {
        let pools = std::slice::from_mut(&mut pool);
        host.run(|| Xdp::open(name, pools, ReceiveMode::Promiscuous).unwrap()).pop().unwrap()
    };
    let ports = [open(&left, "l0"), open(&right, "r0")];
    let flow = Flow { src: 0xc612_0001, dst: 0xc613_0001, sport: 10_000, dport: 9, group: 0 };
    let frame = Ends::v4([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 1, 2]).frame(&flow, 64, Signature::default());
    let mut tester = Tester { ports, pool, frame, out: Default::default(), next: 0 };
    // The first ones find everything cold.
    tester.converse(per_s.min(2000));
    let before = node.as_ref().map(faults);
    let took = tester.converse(per_s);
    let after = node.as_ref().map(faults);
    let counts = node.map(|node| Snapshot::sum(&node.stop().threads.unwrap()));
    (took, counts.map(|counts| (counts, after.unwrap() - before.unwrap())))
}

#[test]
#[ignore = "a measurement, on a quiet machine"]
fn conversations_take_no_longer_than_through_the_kernel() {
    need_root!();
    let cpu = std::thread::available_parallelism().unwrap().get() - 1;
    weir_port::thread::pin_to(0).unwrap();
    let rates = std::env::var("LATENCY_CPS").unwrap_or_else(|_| "2000,8000".into());
    for per_s in rates.split(',').map(|rate| rate.parse::<u32>().unwrap()) {
        for device in [Device::Node, Device::Nat] {
            let mut ratios = [Vec::new(), Vec::new()];
            for _ in 0..ROUNDS {
                let (bridge, _) = measure(Device::Bridge, per_s, cpu);
                let (node, counts) = measure(device, per_s, cpu);
                let (counts, faults) = counts.unwrap();
                for (ratios, [node, bridge]) in
                    ratios.iter_mut().zip([[node.p50, bridge.p50], [node.p99, bridge.p99]])
                {
                    ratios.push(node.as_secs_f64() / bridge.as_secs_f64());
                }
                println!(
                    "{per_s}/s: bridge p50 {:?} p99 {:?} lost {}; {device:?} p50 {:?} p99 {:?} lost {}, {} frames in {} batches, {} sleeps, {faults} page faults",
                    bridge.p50,
                    bridge.p99,
                    bridge.lost,
                    node.p50,
                    node.p99,
                    node.lost,
                    counts.accounting.entered,
                    counts.batches,
                    counts.sleeps
                );
            }
            ratios.iter_mut().for_each(|ratios| ratios.sort_by(f64::total_cmp));
            let [p50, p99] = ratios.map(|ratios| ratios[ROUNDS / 2]);
            println!("{per_s}/s: {device:?} / bridge p50 {p50:.2} p99 {p99:.2}");
        }
    }
}
