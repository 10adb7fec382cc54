//! What a frame costs to judge: ns per frame, the median of rounds and their spread, by number of hosts. Each frame is
//! for a pseudo-random host, so the table's cache lines come from wherever they are. A walk through memory of the
//! table's size, one dependent load after another, is printed beside: the rows say something together with it only.

use std::hint::black_box;
use std::net::Ipv4Addr;
use std::time::Instant;

use weir_detect::{Config, Engine};
use weir_packet::headers::{Headers, UDP};

const FRAMES: u32 = 1_000_000;
const ROUNDS: usize = 9;

fn main() {
    // `cargo test --benches` runs this too, and wants no numbers.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    println!("{:>9}  {:>5}  {:>14}  {:>20}", "hosts", "flows", "ns per frame", "ns per random load");
    for hosts in [1, 1000, 65_536, 1_000_000] {
        for flows in [false, true] {
            let mut ns = rounds(hosts, flows);
            ns.sort_by(f64::total_cmp);
            let (least, median, most) = (ns[0], ns[ROUNDS / 2], ns[ROUNDS - 1]);
            println!(
                "{hosts:>9}  {:>5}  {median:>5.1} ({least:.1}–{most:.1})  {:>20.1}",
                if flows { "yes" } else { "no" },
                chase(hosts as usize * 64)
            );
        }
    }
}

fn rounds(hosts: u32, flows: bool) -> Vec<f64> {
    let limit = if flows { "flows_per_s = \"50M\"" } else { "pps = \"50M\"" };
    let text = format!("networks = [\"10.0.0.0/8\"]\n[in]\n{limit}\n[memory]\nhosts_mib = 256\n");
    let config = Config::read("bench", &text).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    let mut engine = Engine::new(config, [0x9e37_79b9, 0x7f4a_7c15]);
    let frames: Vec<Headers> = (0..FRAMES).map(|n| frame(n, hosts)).collect();
    let mut events = Vec::new();
    let mut at_ns = 0;
    let mut round = || {
        let start = Instant::now();
        for &headers in &frames {
            // 2 million frames/s: 200,000 in each slot.
            at_ns += 500;
            engine.frame(headers, 60, at_ns, &mut events);
        }
        start.elapsed().as_secs_f64() * 1e9 / f64::from(FRAMES)
    };
    round();
    let ns = (0..ROUNDS).map(|_| round()).collect();
    assert!(events.is_empty() && engine.status().frames > 0);
    ns
}

fn frame(n: u32, hosts: u32) -> Headers {
    let random = (n.wrapping_mul(0x9e37_79b1) >> 4).wrapping_mul(0x85eb_ca6b);
    Headers {
        src: Ipv4Addr::from(0xcb00_7100 + random % 4096).into(),
        dst: Ipv4Addr::from(0x0a00_0000 + random % hosts).into(),
        protocol: UDP,
        ports: (random as u16, 53),
        tcp_flags: 0,
        later_fragment: false,
        is_cut: false,
        header_bytes: 42,
    }
}

/// One load after another, each of an address that the last one reported.
fn chase(bytes: usize) -> f64 {
    let lines = (bytes / 64).next_power_of_two();
    let step = (lines as f64 * 0.618) as usize | 1;
    let mut next = vec![[0_usize; 8]; lines];
    (0..lines).for_each(|i| next[i][0] = (i * 5 + step) & (lines - 1));
    let loads = 2_000_000;
    let start = Instant::now();
    let mut at = 0;
    for _ in 0..loads {
        at = next[at][0];
    }
    black_box(at);
    start.elapsed().as_secs_f64() * 1e9 / f64::from(loads)
}
