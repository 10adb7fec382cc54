//! How long a test bed takes to build and to go: `cargo run --release -p weir-testbed --example build_time`.

use std::time::{Duration, Instant};

use weir_testbed::bed::{Bed, BedSpec};
use weir_testbed::cpu::{CpuPlan, DutCpus};
use weir_testbed::dut::DutKind;
use weir_testbed::error::Result;
use weir_testbed::journal::{self, Journal};

const BEDS: usize = 10;

fn main() -> Result<()> {
    if !weir_testkit::is_root() {
        println!("skipped: the time of a test bed needs root");
        return Ok(());
    }
    let cpus = CpuPlan::choose(DutCpus::Count(1))?.dut;
    for kind in [DutKind::WIRE, DutKind::KERNEL_FORWARD, DutKind::KERNEL_STATEFUL] {
        let times = (0..BEDS).map(|_| time(&BedSpec::plain(kind, cpus.clone())));
        let mut times = times.collect::<Result<Vec<_>>>()?;
        times.sort();
        let (first, median, last) = (times[0], times[BEDS / 2], times[BEDS - 1]);
        println!("{kind}: (build, drop) min {first:?}, median {median:?}, max {last:?}");
    }
    Ok(())
}

/// The time to build one, and to drop it.
fn time(spec: &BedSpec) -> Result<(Duration, Duration)> {
    let start = Instant::now();
    let bed = Bed::build(spec, &mut Journal::in_dir(&journal::default_dir()))?;
    let built = start.elapsed();
    let start = Instant::now();
    drop(bed);
    Ok((built, start.elapsed()))
}
