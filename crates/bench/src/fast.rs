//! The XDP program that forwards the frames of established sessions instead of the plane: ns of a frame of UDP behind a NAT and
//! a router, in memory, with random flows; and what it costs to write such a frame, which is not part of it.

use std::io;

use weir_port::fast::bench::{Cost, nat};

use super::probe::Bench;

const FRAMES: u32 = 1_000_000;
const ROUNDS: usize = 7;

pub(super) fn rows(bench: &mut Bench<'_>) -> io::Result<()> {
    for (name, flows) in
        [("fast path nat 10k udp random", 10_000), ("fast path nat 100k udp random", 100_000)]
    {
        if !bench.wants(name) {
            continue;
        }
        match nat(flows, FRAMES, ROUNDS) {
            Ok(costs) => bench.figures(name, &figures(costs))?,
            // Without root there is none.
            Err(why) => bench.missing(name, &why.to_string())?,
        }
    }
    Ok(())
}

fn figures(costs: Vec<Cost>) -> [(&'static str, f64); 4] {
    let mut of_path: Vec<f64> =
        costs.iter().map(|cost| f64::from(cost.passed_ns) - f64::from(cost.written_ns)).collect();
    of_path.sort_by(f64::total_cmp);
    let mut written: Vec<u32> = costs.iter().map(|cost| cost.written_ns).collect();
    written.sort_unstable();
    let middle = of_path.len() / 2;
    [
        ("ns", of_path[middle]),
        ("least ns", of_path[0]),
        ("most ns", of_path[of_path.len() - 1]),
        ("to write it ns", written[middle].into()),
    ]
}
