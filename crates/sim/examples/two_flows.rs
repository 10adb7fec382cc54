//! Two flows through each queue: what they get, and how long packets wait.
//!
//! `cargo run --release -p weir-sim --example two_flows -- cubic bbr3`: other congestion controls.

use std::process::ExitCode;

use weir_queue::{Config, Time};
use weir_sim::cc::Name;
use weir_sim::{Buffer, Group, Scenario};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let named = |text: &str| Name::ALL.into_iter().find(|name| name.text() == text);
    let names =
        [args.first().map_or("cubic", String::as_str), args.get(1).map_or("bbr3", String::as_str)].map(named);
    let [Some(first), Some(second)] = names else {
        let known: Vec<&str> = Name::ALL.iter().map(|name| name.text()).collect();
        eprintln!("unknown congestion control: choose two of {}", known.join(", "));
        return ExitCode::FAILURE;
    };
    println!("20 Mbit/s, 20 ms, buffer 1 BDP, 20 s: {} and {}", first.text(), second.text());
    println!(
        "{:14} {:>11} {:>8} {:>8} {:>6} {:>14}",
        "queue", "utilisation", "first", "second", "Jain", "p50 sojourn"
    );
    for (name, queue) in Config::catalogue() {
        let rtt = Time::from_ms(20);
        let groups = vec![Group::new(1, first, rtt), Group::new(1, second, rtt)];
        let scenario = Scenario::new(queue, 20_000_000, Buffer::Bdp(1.0), groups, Time::from_s(20));
        match scenario.run() {
            Ok(outcome) => println!(
                "{name:14} {:>9.1} % {:>6.1} % {:>6.1} % {:>6.3} {:>11.2} ms",
                outcome.utilisation * 100.0,
                outcome.groups[0].share * 100.0,
                outcome.groups[1].share * 100.0,
                outcome.jain,
                outcome.sojourn.p50_s * 1e3,
            ),
            Err(error) => {
                eprintln!("{name}: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
