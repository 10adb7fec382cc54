use super::*;
use crate::capture::overload::{Overload, Reference};
use weir_record::fixture;
use weir_record::record::{DropCounter, GoalValue, Owner};
use weir_report::report::block::{self, terminal};
use weir_testkit::golden;

/// A method that takes `fps` without loss and twice as much in overload; a frame costs so many ns in receiving, in system calls
/// and outside.
fn method(index: usize, name: &str, threads: &str, fps: f64, parts: [u64; 3]) -> PointData {
    let mut data = fixture::point(index, name, 64, fps);
    let settings = [
        ("measures", "capture"),
        ("method", name),
        ("threads", threads),
        ("frame_bytes", "64"),
        ("flows", "10000"),
        (RECEIVE, "apart"),
    ];
    data.point.settings = settings.map(|(name, value)| (name.to_string(), value.to_string())).to_vec();
    data.point.result.as_mut().unwrap().goals.truncate(1);
    if threads == "all" {
        data.point.cpus_shared = vec![0];
    }
    let [receive_ns, system_ns, user_ns] = parts.map(|ns| ns * 1000);
    let (consumer_ns, user_ns) = (user_ns / 4, user_ns - user_ns / 4);
    let time =
        CaptureTime { generator_ns: 70_000, receive_ns, system_ns, user_ns, consumer_ns: Some(consumer_ns) };
    let calls = match name {
        "recv" => 1000,
        "recvmmsg" => 20,
        _ => 15,
    };
    let capture = Capture {
        method: format!("the way of {name}"),
        buffer_bytes: 1 << 20,
        buffer_frames: 5000,
        calls,
        wakeups: 4,
        freezes: 0,
        drain_s: 0.0,
        time,
        profile: Some(Profile {
            hz: 1000,
            lost: 0,
            stacks: [
                ("receive softirq;net_rx_action;memcpy", receive_ns / 1000),
                ("capture thread;do_syscall_64", system_ns / 1000),
                ("capture thread;user code", user_ns / 1000),
                ("capture thread;consumer", consumer_ns / 1000),
                ("generator;bpf_test_run", 9),
            ]
            .map(|(stack, n)| (stack.to_string(), n))
            .to_vec(),
        }),
    };
    let cost = weir_record::record::Cost {
        ns_per_frame: Some(time.capture_ns() as f64 / 1000.0),
        cycles_per_frame: Some(time.capture_ns() as f64 / 1000.0 * 2.0),
        ..Default::default()
    };
    let trial = data.trials[1].clone();
    let trial = trial.with_detail(&capture);
    let trial = |purpose, sent, received| {
        Trial { purpose, duration_s: 0.001, drop_counters: Vec::new(), cost: cost.clone(), ..trial.clone() }
            .counting(|c| {
                (c.sent, c.received, c.lost, c.unexplained) = (sent, received, sent - received, 0);
            })
    };
    let line =
        |name: &str, frames| DropCounter { name: name.into(), owner: Owner::Dut, frames, source: "s".into() };
    let full = Trial {
        drop_counters: vec![line("socket queue full", 100), line("interface ring full", 500)],
        ..trial(Purpose::FullSpeed, 6000, (fps / 500.0) as u64).counting(|c| c.offered_fps = 6e6)
    };
    data.trials = vec![full, trial(Purpose::Curve, 1000, 1000)];
    data
}

/// The same without rounds of searches: what a method captures in overload in each round, while 9 M frames/s are sent.
fn in_rounds(data: &mut RunData, rates: &[(usize, [f64; 6])]) {
    let mut all: Vec<(usize, Overload)> = Vec::new();
    for (index, rates) in rates {
        let mut overload = Overload::default();
        for fps in rates {
            let trial = Trial { windows: Vec::new(), duration_s: 1.0, ..fixture::clean_trial() };
            overload
                .note(&trial.counting(|counts| (counts.received, counts.offered_fps) = (*fps as u64, 9e6)));
        }
        let before: Vec<_> =
            all.iter().map(|(index, overload)| Reference { index: *index, overload }).collect();
        let found = overload.result(&[None], &before);
        data.points[*index].point.result.as_mut().unwrap().procedures = vec![found];
        all.push((*index, overload));
    }
}

fn run() -> RunData {
    let points = vec![
        method(0, "recv", "1", 300_000.0, [500, 900, 100]),
        method(1, "recvmmsg", "1", 306_000.0, [500, 700, 100]),
        method(2, "ring-fanout", "all", 900_000.0, [400, 20, 350]),
    ];
    RunData { run: fixture::run(1), points }
}

/// What a terminal shows of it.
fn shown(data: &RunData) -> String {
    let found = findings(data).join("\n");
    [found, terminal(&parts(data))].join("\n\n").replace('\u{202f}', " ")
}

#[test]
fn the_story_says_what_changed_and_which_cost_went_away_and_tables_hold_it() {
    let data = run();
    let story = html(story::blocks(&methods(&data))).replace('\u{202f}', " ");
    golden!("src/capture/report/golden/run.txt", &[shown(&data), story].join("\n"));
}

#[test]
fn methods_that_took_turns_are_compared_round_by_round() {
    let mut data = run();
    // The machine was fast at some times and slow at others, for both of them.
    let speeds = [1.0, 3.0, 1.0, 2.0, 3.0, 1.0];
    let mut in_overload = Vec::new();
    for (index, factors) in
        [(0, [1.0; 6]), (1, [1.2, 0.5, 1.3, 0.9, 1.1, 0.8]), (2, [2.0, 2.1, 2.2, 1.9, 1.8, 2.0])]
    {
        let PointData { point, trials, .. } = &mut data.points[index];
        let goal = &mut point.result.as_mut().unwrap().goals[0];
        let value = goal.repetitions[0].clone();
        let fps = factors.iter().zip(speeds).map(|(factor, speed)| Some(100_000.0 * factor * speed));
        goal.repetitions = fps.map(|fps| GoalValue { fps, ..value.clone() }).collect();
        goal.fps_interval = Some((80_000.0, 360_000.0));
        in_overload.push((index, std::array::from_fn(|i| 300_000.0 * factors[i] * speeds[i])));
        let curve = trials.pop().unwrap();
        trials.extend(factors.iter().zip(speeds).map(|(factor, speed)| {
            let mut trial = curve.clone();
            trial.cost.ns_per_frame = Some(6000.0 / factor / speed);
            trial
        }));
    }
    in_rounds(&mut data, &in_overload);
    let story = html(story::blocks(&methods(&data))).replace('\u{202f}', " ");
    golden!("src/capture/report/golden/rounds.txt", &[shown(&data), story].join("\n"));
}

/// The first screen: rates of one traffic with their ratios, of several beside each other, and bounds without a ratio.
#[test]
fn the_answer_is_the_ladder_by_what_is_captured_in_overload() {
    let mut data = run();
    data.points.push(method(3, "count", "1", 2.9e6, [300, 0, 0]));
    let flat = |index, fps: f64| (index, std::array::from_fn(|i| fps * (1.0 + i as f64 / 100.0)));
    let rates = [flat(0, 4e5), flat(1, 5e5), flat(2, 1.6e6), flat(3, 8.9e6)];
    in_rounds(&mut data, &rates);
    let shown = |data: &RunData| {
        let text = weir_report::export::answer(data, crate::sections(), 80);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        text
    };
    let one = shown(&data);
    // The same methods with mixed frames, received on the generator's CPU.
    let mut mixed = run().points;
    for (i, point) in mixed.iter_mut().enumerate() {
        point.point.index = 4 + i;
        point.point.frame = "imix".into();
        point.point.settings.retain(|(name, _)| name != RECEIVE);
    }
    data.points.iter_mut().for_each(|point| point.point.settings.push((TRAFFIC.into(), "syn-flood".into())));
    data.points.extend(mixed);
    golden!("src/capture/report/golden/answer.txt", &[one, shown(&data)].join("\n"));
}

#[test]
fn a_run_of_which_little_counts_says_so_in_its_second_sentence() {
    let mut data = run();
    let window = |ran| weir_measure::capacity::Window { at_ns: 0, ns: 16_000_000, frames: 9600, ran };
    data.points[0].trials[0].windows = [true, true, true, false, false].map(window).to_vec();
    assert!(story::disturbed(&methods(&data)).is_none());
    data.points[1].trials[0].windows = [true, false, false, false, false].map(window).to_vec();
    let second = answer(&data).unwrap().sentences.swap_remove(1).replace('\u{202f}', " ");
    assert!(second.starts_with("Only 40 % of the time counts"), "{second}");
}

#[test]
fn a_method_that_keeps_up_is_bounded_from_above() {
    let mut data = run();
    // Of 1000 frames each, in ns: what the generator's CPU had to do, and what the capture thread had.
    let trials =
        [("ring", 300_000, 20_000, 1000), ("recv", 300_000, 900_000, 1000), ("xdp", 90_000, 60_000, 900)];
    let floor = ("count", 50_000, 0, 1000);
    data.points = [floor]
        .iter()
        .chain(&trials)
        .enumerate()
        .map(|(i, (name, generator_ns, system_ns, received))| {
            let mut point = method(i, name, "1", 1e6, [0, 0, 0]);
            point.point.settings.retain(|(setting, _)| setting != RECEIVE);
            let full = &mut point.trials[0];
            let time =
                CaptureTime { generator_ns: *generator_ns, system_ns: *system_ns, ..Default::default() };
            let capture = full.detail::<Capture>().unwrap();
            let counted = full.clone().counting(|counts| {
                (counts.sent, counts.received, counts.lost) = (1000, *received, 1000 - received);
            });
            *full = counted.with_detail(&Capture { time, ..capture });
            point
        })
        .collect();
    let methods = methods(&data);
    let bounds: Vec<_> = methods.iter().map(|method| method.at_most(&methods).map(f64::round)).collect();
    // The floor has none, nor has a method that loses; the others are as fast as their slower part.
    assert_eq!(bounds, [None, Some(4e6), Some(1_111_111.0), None]);
    // A polling method is busy at any rate.
    data.points[1].point.settings.push((BUSY_POLL.into(), "true".into()));
    let methods = super::methods(&data);
    assert_eq!(methods[1].at_most(&methods), None);
    let story = html(story::blocks(&methods)).replace('\u{202f}', " ");
    golden!("src/capture/report/golden/busy-polling.txt", &story);
}

#[test]
fn the_page_has_the_ladder_and_nothing_about_devices() {
    let page = weir_report::report::html(&[run()], crate::sections());
    for part in [
        "The capture ladder",
        "What a frame costs",
        "From method to method",
        "Where the time goes",
        "Flame graph of recv",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert!(!page.contains("Throughput by frame size"), "no device was measured");
    assert_eq!(block::page(&parts(&fixture::quick())), "", "nothing about methods where none was climbed");
}

/// Blocks as a page has them.
fn html(blocks: Vec<Block>) -> String {
    block::page(&[Part { id: "story", heading: String::new(), blocks }])
}
