//! How fast a simulation is: 100 flows, by default over 1 Gbit/s for 180 s of virtual time.
//!
//! `cargo bench -p weir-sim -- SECONDS CC QUEUE MBIT_PER_S`; goals: 180 s in 60 s on one core, and 10 Gbit/s faster than real time.
//! CPU time is what counts: others may use the machine.

use std::time::Instant;

use weir_queue::{Config, Time};
use weir_sim::cc::Name;
use weir_sim::{Buffer, Group, Scenario};

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
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let seconds = args.first().and_then(|text| text.parse().ok()).unwrap_or(180);
    let wanted = args.get(1).map_or("cubic", String::as_str);
    let cc = Name::ALL.into_iter().find(|name| name.text() == wanted).unwrap_or(Name::Cubic);
    let queue_name = args.get(2).map_or("fifo", String::as_str);
    let queue = Config::named(queue_name).unwrap_or(Config::Fifo(Default::default()));
    let mbit_per_s = args.get(3).and_then(|text| text.parse().ok()).unwrap_or(1000);
    let groups = vec![Group::new(100, cc, Time::from_ms(20))];
    let scenario =
        Scenario::new(queue, mbit_per_s * 1_000_000, Buffer::Bdp(1.0), groups, Time::from_s(seconds));
    let (start, cpu) = (Instant::now(), cpu_s());
    match scenario.run() {
        Ok(outcome) => {
            let cpu_s = cpu_s() - cpu;
            let packets = outcome.queue.offered.packets;
            println!(
                "100 {} flows, {mbit_per_s} Mbit/s, {queue_name}, {seconds} s: {cpu_s:.1} s of CPU, {:.1} s elapsed, {packets} packets, \
                 {:.0} ns each; utilisation {:.3}, Jain {:.3}; load {}",
                cc.text(),
                start.elapsed().as_secs_f64(),
                cpu_s / packets as f64 * 1e9,
                outcome.utilisation,
                outcome.jain,
                std::fs::read_to_string("/proc/loadavg").unwrap_or_default().trim(),
            );
        }
        Err(error) => eprintln!("{error}"),
    }
}
