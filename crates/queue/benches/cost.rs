//! What a packet costs in each queue: ns of CPU time for `offer` and `take`, at a load of 1.1 from 100 flows.
//!
//! `cargo bench -p weir-queue`. CPU time is what counts: others may use the machine.

use std::hint::black_box;

use weir_queue::{Bottleneck, Config, Ecn, Packet, Time};
use weir_rng::Rng;

const PACKETS: u64 = 1_000_000;
/// 1 Gbit/s.
const SLOT: Time = Time::from_ns(12_112);

/// CPU time of this process, in s (proc(5): utime and stime, in ticks of 10 ms).
fn cpu_s() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

fn main() {
    // `cargo test --benches` runs this too, and wants no numbers.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let at = Bottleneck { limit_bytes: 2_500_000, bits_per_s: 1_000_000_000, seed: 1 };
    println!("{:15} {:>14} {:>9}", "queue", "ns per packet", "dropped");
    for (name, config) in Config::catalogue() {
        let Ok(mut queue) = config.build::<u64>(&at) else { continue };
        let mut rng = Rng::new(2);
        let (mut now, mut free) = (Time::ZERO, Time::ZERO);
        let before = cpu_s();
        for index in 0..PACKETS {
            now += SLOT * 10 / 11;
            let mut packet = Packet::new(1514, rng.below(100) as u32, index);
            packet.value = rng.below(1024) as u16;
            packet.ecn = Ecn::from_bits((packet.flow % 3) as u8);
            if queue.backlog().packets == 0 {
                free = free.max(now);
            }
            queue.offer(packet, now);
            while let Some(due) = queue.due(free).filter(|&due| due <= now) {
                free = due + if black_box(queue.take(due)).is_some() { SLOT } else { Time::ZERO };
            }
            queue.dropped().clear();
        }
        let ns = (cpu_s() - before) / PACKETS as f64 * 1e9;
        let dropped = queue.counters().dropped_packets() as f64 / PACKETS as f64;
        println!("{name:15} {ns:>14.0} {:>7.1} %", dropped * 100.0);
    }
}
