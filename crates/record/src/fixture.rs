//! A made-up run with the shape of a real one: six devices, three frame sizes, searches and curves.
//! Deterministic: the same numbers each time, taken from a simple model of an overloaded device.

use crate::figure::name;
use crate::record::*;
use crate::run_data::{PointData, RunData};

/// Device, capacity at 64 bytes in frames/s on one CPU.
const DUTS: [(&str, f64); 6] = [
    ("wire", 4_120_000.0),
    ("kernel-forward", 412_300.0),
    ("kernel-stateless", 331_700.0),
    ("kernel-stateful", 284_900.0),
    ("kernel-nat", 243_100.0),
    ("xdp-forward", 1_630_000.0),
];
const FRAMES: [u16; 3] = [64, 512, 1518];
const LINE_BITS_PER_S: f64 = 10e9;
/// Length of the tester's and the device's queue in frames.
const QUEUE: f64 = 512.0;

/// A complete run with searches (three repetitions), loss curves and latency.
pub fn quick() -> RunData {
    let mut points = Vec::new();
    for (dut, capacity) in DUTS {
        for frame in FRAMES {
            let slower = 1.0 + f64::from(frame - 64) / 9000.0;
            points.push(point(points.len(), dut, frame, capacity / slower));
        }
    }
    RunData { run: run(1), points }
}

/// The same run again with other results: the second device is 12 % faster.
pub fn quick_again() -> RunData {
    let mut data = quick();
    data.run.id = 2;
    data.run.started = "2026-03-02T10:00:00Z".into();
    for p in &mut data.points {
        let index = p.point.index;
        let capacity = p.headline_fps().unwrap() * if p.point.dut == "kernel-forward" { 1.12 } else { 1.003 };
        let frame = p.point.frame.parse().unwrap();
        *p = point(index, &p.point.dut.clone(), frame, capacity);
        p.point.run_id = 2;
    }
    data
}

/// The procedures of [`procedures`].
pub const PROCEDURES: [&str; 8] =
    ["latency", "pdv", "frame-loss", "back-to-back", "recovery", "reset", "bursts", "soak"];

/// The run of [`quick`] with all procedures at the points of two devices.
pub fn procedures() -> RunData {
    let mut data = quick();
    for p in
        data.points.iter_mut().filter(|p| ["kernel-forward", "kernel-nat"].contains(&p.point.dut.as_str()))
    {
        let throughput = p.headline_fps().unwrap();
        p.point.result.as_mut().unwrap().procedures =
            PROCEDURES.iter().map(|name| procedure(name, throughput, p.point.line_fps.unwrap())).collect();
        let soak = (0..4).map(|i| soak_trial(p.point.id, (p.trials.len() + i, 11 + i), throughput));
        let soak: Vec<_> = soak.collect();
        p.trials.extend(soak);
    }
    data
}

fn procedure(of: &str, throughput: f64, line: f64) -> ProcedureResult {
    let times = |base: f64| [0.98, 1.0, 1.03].map(|f| base * f).to_vec();
    let figure = |name: &str, unit: &str, statistic, values: Vec<f64>| {
        let value = weir_measure::stats::median(&values);
        let interval = weir_measure::stats::median_interval(&values);
        Figure {
            name: name.into(),
            unit: unit.into(),
            better: None,
            statistic,
            value,
            values,
            interval,
            ..Figure::default()
        }
    };
    let median = |name: &str, base: f64| figure(name, "s", Statistic::Median, times(base));
    let average = |name: &str, unit: &str, base: f64| figure(name, unit, Statistic::Average, times(base));
    let load = ("load", format!("100 % of the throughput, {throughput:.0} frames/s"));
    let streams = |n: u32| ("streams", n.to_string());
    let (cites, parameters, figures, irregular) = match of {
        "latency" => (
            "RFC 2544, section 26.2; RFC 8219, section 7.2",
            vec![load, ("stream", "120 s".into()), streams(3)],
            vec![
                median(name::TYPICAL_LATENCY, 8.0 / throughput),
                median(name::WORST_CASE_LATENCY, 90.0 / throughput),
            ],
            None,
        ),
        "pdv" => (
            "RFC 8219, section 7.3",
            vec![load, ("stream", "60 s".into()), streams(3)],
            vec![
                median(name::PDV, 80.0 / throughput),
                figure(name::IPDV_MIN, "s", Statistic::Median, times(-70.0 / throughput)),
                median(name::IPDV_MEDIAN, 0.0),
                median(name::IPDV_MAX, 75.0 / throughput),
            ],
            Some("Frames were lost in 1 of 3 trials; those that arrived were timed."),
        ),
        "frame-loss" => {
            // A device that forwards 45 % of the maximum rate.
            let loads = (3..=10).rev().map(|i| f64::from(i) * 10.0);
            let losses = loads.map(|load| {
                let loss = (1.0 - 45.0 / load).max(0.0);
                figure(&name::loss_at(load), "ratio", Statistic::Average, vec![loss])
            });
            let maximum = throughput / 0.45;
            let clean = figure(name::LOAD_WITHOUT_LOSS, "frames/s", Statistic::Average, vec![maximum * 0.4]);
            (
                "RFC 2544, section 26.3",
                vec![("maximum rate", format!("{maximum:.0} frames/s")), ("trial", "60 s".into())],
                std::iter::once(clean).chain(losses).collect(),
                None,
            )
        }
        "back-to-back" => (
            "RFC 2544, section 26.4, as updated by RFC 9004",
            vec![("maximum rate", format!("{line:.0} frames/s")), ("step", "1 frames".into())],
            vec![
                average(name::BURST, "frames", 512.0),
                average(name::IMPLIED_BUFFER, "s", 512.0 / line),
                average(name::CORRECTED_BUFFER, "s", 512.0 / line * (1.0 - throughput / line)),
            ],
            None,
        ),
        "recovery" => (
            "RFC 2544, section 26.5",
            vec![("throughput", format!("{throughput:.0} frames/s")), ("overload", "110 %".into())],
            vec![average(name::RECOVERY_TIME, "s", 0.0012)],
            None,
        ),
        "reset" => (
            "RFC 2544, section 26.6; RFC 6201",
            vec![("reset", "software".into()), ("throughput", format!("{throughput:.0} frames/s"))],
            vec![
                average(name::RESET_BY_LOSS, "s", 1.43),
                average(name::RESET_BY_TIME_STAMPS, "s", 1.42),
                average("frames lost", "frames", 1.43 * throughput),
            ],
            None,
        ),
        "bursts" => (
            "RFC 2544, section 21",
            vec![("throughput", format!("{throughput:.0} frames/s")), ("trial", "60 s".into())],
            [16, 64, 256, 1024]
                .into_iter()
                .flat_map(|n| {
                    let (gap, load) = (name::gap_between_bursts(n), name::load_in_bursts(n));
                    [
                        average(&gap, "s", f64::from(n) / throughput),
                        average(&load, "frames/s", throughput / f64::from(n).log2()),
                    ]
                })
                .collect(),
            None,
        ),
        "soak" => (
            "",
            vec![
                ("load", format!("90 % of the throughput, {:.0} frames/s", throughput * 0.9)),
                ("duration", "14400 s".into()),
                ("trials", "4".into()),
            ],
            vec![average(name::LOSS_EVENTS, "1/h", 0.75), average(name::LOSS_RATIO, "ratio", 2e-7)],
            None,
        ),
        other => panic!("{other}"),
    };
    ProcedureResult {
        procedure: of.into(),
        cites: cites.into(),
        parameters: parameters.into_iter().map(|(name, value)| (name.into(), value)).collect(),
        figures,
        comparisons: Vec::new(),
        irregular: irregular.into_iter().map(String::from).collect(),
        events: if of == "soak" { soak_events() } else { Vec::new() },
    }
}

/// An hour of a soak test: index of the trial and hour of the day.
fn soak_trial(point_id: i64, (index, hour): (usize, usize), throughput: f64) -> Trial {
    Trial {
        started: format!("2026-03-01T{hour}:00:00.000Z"),
        duration_s: 3600.0,
        ..trial(point_id, index, Purpose::Procedure, throughput, 0.9, false)
    }
}

/// What was lost in it.
fn soak_events() -> Vec<DatedLoss> {
    let event = |at: &str, lost: u64, valid| DatedLoss {
        at: format!("2026-03-01T{at}.000Z"),
        direction: "a>b".into(),
        lost,
        by_stops: None,
        outage_s: lost as f64 * 2.5e-6 + 1e-5,
        valid,
    };
    vec![event("12:10:00", 40, true), event("12:40:00", 9_000, false), event("14:50:00", 300, true)]
}

/// A run of a plan of this rig with nothing measured.
pub fn run_of(rig: &str) -> Run {
    Run { plan_toml: format!("experiment = \"{rig}\"\n"), ..run(1) }
}

/// Run `id` with nothing measured.
pub fn run(id: i64) -> Run {
    Run {
        id,
        plan: "quick".into(),
        question: "How fast does this kernel forward, and what do filter rules and NAT cost?".into(),
        plan_toml: "question = \"How fast does <this> kernel forward & filter?\"\n[axes]\nframe_bytes = [64, 512, 1518]\n".into(),
        started: "2026-03-01T10:00:00Z".into(),
        finished: Some("2026-03-01T10:14:31Z".into()),
        state: RunState::Complete,
        seed: u64::MAX - 41,
        process: String::new(),
        version: "0.1.0".into(),
        machine: Machine {
            host: String::new(),
            cpu: "Example 9000 @ 2.6 GHz".into(),
            cpus: 2,
            kernel: "6.18.0-test #1 SMP".into(),
            os: "Debian GNU/Linux 12".into(),
            memory_bytes: 24 << 30,
            facts: vec![
                ("virtualisation".into(), "kvm".into()),
                ("net.core.netdev_budget".into(), "300".into()),
                ("mitigations".into(), "Vulnerable; spectre_v2: Retpolines, IBPB: conditional".into()),
            ],
        },
        tester: Tester {
            generator: "xdp-live-frames".into(),
            receiver: "xdp".into(),
            cpus: vec![0],
            limits: vec!["No hardware time stamps: latency includes the tester's own receive path.".into()],
        },
        deviations: vec!["Trials last 1 s, RFC 2544 asks for 60 s.".into()],
        resumed: Vec::new(),
        failure: None,
        uuid: format!("00000000-0000-4000-8000-{id:012}").try_into().expect("a UUID"),
    }
}

/// A point with a search (three repetitions) around `capacity` frames/s and a curve up to 1.5 times it.
pub fn point(index: usize, dut: &str, frame: u16, capacity: f64) -> PointData {
    let id = index as i64 + 1;
    let wire = dut == "wire";
    let repetitions: Vec<_> = [0.994, 1.0, 1.007].iter().map(|f| repetition(capacity * f, wire)).collect();
    let goal = |name: &str, loss: &str, factor: f64| GoalResult {
        goal: name.into(),
        parameters: [
            ("final trial", "1 s"),
            ("duration sum", "21 s"),
            ("loss ratio", loss),
            ("exceed ratio", "50 %"),
            ("width", "0.5 %"),
        ]
        .map(|(n, v)| (n.into(), v.into()))
        .to_vec(),
        repetitions: repetitions.clone(),
        fps_median: Some(capacity * factor),
        fps_interval: Some((capacity * factor * 0.994, capacity * factor * 1.007)),
    };
    let mean = f64::from(frame);
    let point = Point {
        id,
        run_id: 1,
        index,
        settings: vec![
            ("dut".into(), dut.into()),
            ("frame_bytes".into(), frame.to_string()),
            ("cpus".into(), "1".into()),
            ("ip".into(), "4".into()),
        ],
        dut: dut.into(),
        frame: frame.to_string(),
        frame_bytes_mean: mean,
        cpus: vec![1],
        cpus_shared: Vec::new(),
        line_fps: Some(2.0 * LINE_BITS_PER_S / ((mean + 20.0) * 8.0)),
        notes: Vec::new(),
        shards: Vec::new(),
        result: Some(PointResult {
            search: "mlrsearch".into(),
            goals: vec![goal("NDR", "0 %", 1.0), goal("PDR 0.5%", "0.5 %", 1.021)],
            ..PointResult::default()
        }),
    };
    PointData { trials: trials(id, capacity, wire), point }
}

fn repetition(fps: f64, wire: bool) -> GoalValue {
    GoalValue {
        fps: Some(fps),
        lower_fps: Some(fps),
        upper_fps: (!wire).then_some(fps * 1.005),
        irregular: wire.then(|| "tester-limited".into()),
        trials: 34,
        trial_s: 35.2,
        interval: None,
    }
}

/// Loads as shares of the capacity, with what the trial is for.
fn loads() -> Vec<(f64, Purpose)> {
    let search = [1.5, 0.75, 1.06, 0.9, 0.98, 1.01, 0.995, 1.004];
    let curve = [0.1, 0.3, 0.5, 0.7, 0.9, 1.0, 1.1, 1.3, 1.5];
    std::iter::once((0.8, Purpose::WarmUp))
        .chain(search.iter().map(|f| (*f, Purpose::Search)))
        .chain(curve.iter().map(|f| (*f, Purpose::Curve)))
        .collect()
}

fn trials(point_id: i64, capacity: f64, wire: bool) -> Vec<Trial> {
    let all = loads().into_iter().enumerate();
    all.map(|(index, (share, purpose))| trial(point_id, index, purpose, capacity, share, wire)).collect()
}

fn trial(point_id: i64, index: usize, purpose: Purpose, capacity: f64, share: f64, wire: bool) -> Trial {
    let offered = (capacity * share) as u64;
    // Between 0.97 and 1 the device loses a little already.
    let soft = ((share - 0.97) * 0.02).clamp(0.0, 0.002);
    let lost = if wire { 0 } else { (offered as f64 * (1.0 - 1.0 / share).max(soft)) as u64 };
    let verdict = match (wire && share > 1.0, index % 17) {
        (true, _) => Verdict::TesterLimited,
        (false, 13) => Verdict::Noisy,
        _ => Verdict::Valid,
    };
    let sent = if verdict == Verdict::TesterLimited { capacity as u64 } else { offered };
    let received = sent - lost;
    Trial {
        id: point_id * 100 + index as i64,
        point_id,
        index,
        purpose,
        started: format!("2026-03-01T10:00:{index:02}.000Z"),
        duration_s: 1.0,
        overhead_s: 0.12,
        frames: Some(FrameCounts {
            offered_fps: capacity * share,
            offered,
            sent,
            received,
            lost,
            unexplained: (lost / 1000) as i64,
        }),
        streams: ["a>b", "b>a"].map(|d| stream(d, sent / 2, received / 2, capacity, share)).to_vec(),
        drop_counters: drop_counters(lost),
        verdict,
        reasons: match verdict {
            Verdict::Valid => Vec::new(),
            Verdict::Noisy => vec!["Steal was 3.1 % on CPU 1.".into()],
            _ => vec!["The tester sent less than was offered.".into()],
        },
        cost: cost(received, capacity, share.min(1.0), wire),
        noise: Noise { steal: 0.001, rate_error: -0.0001, late_p999_ns: 21_000, ..Noise::default() },
        ..Trial::default()
    }
}

fn stream(direction: &str, sent: u64, received: u64, capacity: f64, share: f64) -> Stream {
    let service_ns = 1e9 / capacity;
    let queue = if share < 1.0 { (share / (1.0 - share)).min(QUEUE) } else { QUEUE };
    let p50 = 9_000.0 + service_ns * queue;
    let at = |factor: f64| (p50 * factor) as u64;
    let buckets = vec![
        (at(1.0), received / 2),
        (at(1.6), received * 2 / 5),
        (at(2.4), received * 95 / 1000),
        (at(5.0), received * 4 / 1000),
        (at(9.0), received / 1000),
    ];
    Stream {
        direction: direction.into(),
        group: 0,
        sent,
        received,
        lost: sent - received,
        latency: Latency {
            count: received,
            min_ns: at(0.6),
            mean_ns: p50 * 1.2,
            p50_ns: at(1.0),
            p90_ns: at(1.6),
            p99_ns: at(2.4),
            p999_ns: at(5.0),
            max_ns: at(9.0),
            buckets,
        },
        ..Stream::default()
    }
}

fn drop_counters(lost: u64) -> Vec<DropCounter> {
    let line = |name: &str, owner, frames, source: &str| DropCounter {
        name: name.into(),
        owner,
        frames,
        source: source.into(),
    };
    let ring = lost * 9 / 10;
    vec![
        line("dut ring full", Owner::Dut, ring, "t0 tx_queue_0_xdp_xmit_errors"),
        line("ip discards", Owner::Dut, lost - ring - lost / 1000, "/proc/net/snmp IpInDiscards"),
        line("tester ring full", Owner::Tester, 0, "t1 rx_queue_0_xdp_drops"),
    ]
}

fn cost(received: u64, capacity: f64, share: f64, wire: bool) -> Cost {
    let per_frame = 1e9 / capacity * 0.98;
    let dut = if wire { 0.0 } else { share * 0.98 };
    Cost {
        dut_cpu_ns: (!wire).then_some((received as f64 * per_frame) as u64),
        ns_per_frame: (!wire).then_some(per_frame),
        cycles_per_frame: (!wire).then_some(per_frame * 2.6),
        cpus: vec![
            CpuUse { cpu: 0, busy: 0.71, dut: 0.0, tester: 0.69 },
            CpuUse { cpu: 1, busy: (dut + 0.01).min(1.0), dut, tester: 0.0 },
        ],
        conntrack_entries: Some(10_000),
        route_changes: None,
        memory_bytes: vec![("conntrack".into(), 3_200_000), ("slab growth".into(), -4096)],
        box_counters: Vec::new(),
    }
}

/// A valid trial that lost nothing.
pub fn clean_trial() -> Trial {
    let trial = quick().points[0].trials[1].clone();
    Trial { drop_counters: Vec::new(), verdict: Verdict::Valid, ..trial }.counting(|counts| counts.lost = 0)
}
