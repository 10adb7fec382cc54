//! What an ISP forum published in 2016 of NATs under the same load: 10,000 UDP flows, frames of 128 bytes.

use super::figure::rate_fps;
use weir_record::record::Run;
use weir_record::run_data::PointData;
use weir_report::view::Table;
use weir_report::view::format::{or_dash, significant};

/// A machine and its NAT.
struct Published {
    machine: &'static str,
    nat: &'static str,
    /// Translated frames, millions per second.
    mpps: f64,
    /// Cores of the machine and their nominal clock, GHz, by the manufacturer; `None` where the source names no exact model.
    cpu: Option<(u32, f64)>,
}

const fn of(machine: &'static str, nat: &'static str, mpps: f64, cpu: Option<(u32, f64)>) -> Published {
    Published { machine, nat, mpps, cpu }
}

/// The source gives two figures for some machines; where it names no second kernel, both are of Linux.
const ALL: [Published; 13] = [
    of("Intel i7-6700", "Linux 3.16", 5.1, Some((4, 3.4))),
    of("Intel i7-6700", "Linux 4.3", 5.5, Some((4, 3.4))),
    of("Intel i7-6700", "FreeBSD 10.2, pf", 1.1, Some((4, 3.4))),
    of("Xeon E5-2620", "Linux", 2.4, Some((6, 2.0))),
    of("Xeon E5-2620", "Linux, second figure", 3.7, Some((6, 2.0))),
    of("Intel i3-6300", "Linux", 2.8, Some((2, 3.8))),
    of("Intel i3-6300", "Linux, second figure", 2.9, Some((2, 3.8))),
    of("Opteron 6376, 4 x 16 cores", "Linux", 1.8, Some((64, 2.3))),
    of("Xeon E5420", "Linux", 1.4, Some((4, 2.5))),
    of("Xeon E5420", "RouterOS", 0.6, Some((4, 2.5))),
    of("Cortex-A5", "Linux", 0.154, None),
    of("Cortex-A7", "Linux", 0.033, None),
    of(
        "Ryzen 7 8845HS, 8 cores",
        "FreeBSD 15, pf, stateful filter without NAT (2025)",
        11.46,
        Some((8, 3.8)),
    ),
];

pub(super) const CAVEATS: &str = "The published figures are of whole machines with network cards, sent one way; they are no benchmark of \
    the same procedure. Those of this run are round trips over virtual wires, in overload or at the loss ratio of the plan: each frame is \
    translated twice, once on its way out and once on its way back, and translations are counted, so that a figure here has \
    twice as many as frames. Per core and GHz they are divided by the CPUs of the device alone, while published ones are by \
    all cores of the machine and its nominal clock, which a turbo exceeds; revisions of a Xeon E5-2620 differ, and the first \
    is assumed. On a virtual machine the clock is that of the time stamp counter.";

/// The published figures, then those of a run, per core and per GHz.
pub(super) fn table(run: &Run, points: &[&PointData]) -> Table {
    let head =
        ["Machine", "NAT", "Translations, M/s", "Cores", "GHz", "M/s per core", "M/s per core and GHz"];
    let mut table = Table::new(&head);
    let mut push = |machine: &str, nat: &str, mpps: Option<f64>, cores: Option<f64>, ghz: Option<f64>| {
        let per_core = mpps.zip(cores).map(|(mpps, cores)| mpps / cores);
        let per_ghz = per_core.zip(ghz).map(|(rate, ghz)| rate / ghz);
        let number = |value: Option<f64>| or_dash(value, significant);
        let names = [machine, nat].map(str::to_string);
        table.push(names.into_iter().chain([mpps, cores, ghz, per_core, per_ghz].map(number)).collect());
    };
    for Published { machine, nat, mpps, cpu } in ALL {
        push(machine, nat, Some(mpps), cpu.map(|(cores, _)| f64::from(cores)), cpu.map(|(_, ghz)| ghz));
    }
    let ghz = run.machine.facts.iter().find(|(name, _)| name == "tsc_hz");
    let ghz = ghz.and_then(|(_, hz)| hz.parse::<f64>().ok()).map(|hz| hz / 1e9);
    for data in points {
        let cpus = (!data.point.cpus.is_empty()).then_some(data.point.cpus.len() as f64);
        let mpps = rate_fps(data).map(|fps| 2.0 * fps / 1e6);
        push(
            &format!("this run: {}", run.machine.cpu),
            &data.point.dut,
            mpps,
            cpus,
            ghz.filter(|_| cpus.is_some()),
        );
    }
    table
}
