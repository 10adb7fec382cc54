use super::*;
use crate::fixture;
use crate::record::{GoalValue, LedgerLine, Owner};
use crate::report::block::{self, terminal};

/// A method that takes `fps` at most; a frame costs so many ns in receiving, in system calls and outside.
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
    let cost = crate::record::Cost {
        ns_per_frame: Some(time.capture_ns() as f64 / 1000.0),
        cycles_per_frame: Some(time.capture_ns() as f64 / 1000.0 * 2.0),
        ..Default::default()
    };
    let trial = data.trials[1].clone();
    let trial = trial.with_detail(&capture);
    let trial = |purpose, sent, received| {
        Trial { purpose, duration_s: 0.001, ledger: Vec::new(), cost: cost.clone(), ..trial.clone() }
            .counting(|c| {
                (c.sent, c.received, c.lost, c.unexplained) = (sent, received, sent - received, 0);
            })
    };
    let line =
        |name: &str, frames| LedgerLine { name: name.into(), owner: Owner::Dut, frames, source: "s".into() };
    let full = Trial {
        ledger: vec![line("socket queue full", 100), line("interface ring full", 500)],
        ..trial(Purpose::Ceiling, 1600, 1000)
    };
    data.trials = vec![full, trial(Purpose::Curve, 1000, 1000)];
    data
}

fn run() -> RunData {
    let points = vec![
        method(0, "recv", "1", 300_000.0, [500, 900, 100]),
        method(1, "recvmmsg", "1", 306_000.0, [500, 700, 100]),
        method(2, "ring-fanout", "all", 900_000.0, [400, 20, 350]),
    ];
    RunData { run: fixture::run(1), points }
}

#[test]
fn the_story_says_what_changed_and_which_cost_went_away() {
    let data = run();
    let reported = html(story::blocks(&methods(&data)));
    let found = [reported, findings(&data).concat()].concat().replace('\u{202f}', " ");
    for sentence in [
        "<p>64 bytes, 10 000 flows:</p>",
        "recv, a system call for each frame, captures 300 k frames/s without loss: a frame costs 3 000 cycles, 1 000 in receiving, 1 800 in system calls, 150 in code of its own and 50 in the consumer.",
        "recvmmsg, a system call for many frames, captures 306 k frames/s without loss, as recv does. A frame costs 2 600 cycles in \
         place of 3 000; what changes most is system calls: 1 400 in place of 1 800. What goes away: system call entry (400 of \
         1 800). System calls per 1000 frames: 1000, now 20.0.",
        "ring-fanout on all CPUs, rings that share the frames, a thread for each, captures 900 k frames/s without loss, 2.94 \
         times recvmmsg.",
        "what changes most is system calls: 40 in place of 1 400. What goes away: system call entry (1 360 of 1 400) and \
         copies (199 of 1 000). What comes: user code (375 of 525). System calls per 1000 frames: 20.0, now 15.0.",
        "64 bytes, 10 000 flows: ring-fanout on all CPUs captures most without loss, 900 k frames/s, 3.00 times recv. A \
         frame costs 1 540 cycles in place of 3 000. In overload",
        "this machine has too few to show what a fan-out gains",
    ] {
        assert!(found.contains(sentence), "{sentence}\n--\n{found}");
    }
}

#[test]
fn methods_that_took_turns_are_compared_round_by_round() {
    let mut data = run();
    // The machine was fast at some times and slow at others, for both of them.
    let speeds = [1.0, 3.0, 1.0, 2.0, 3.0, 1.0];
    for (index, factors) in
        [(0, [1.0; 6]), (1, [1.2, 0.5, 1.3, 0.9, 1.1, 0.8]), (2, [2.0, 2.1, 2.2, 1.9, 1.8, 2.0])]
    {
        let PointData { point, trials, .. } = &mut data.points[index];
        let goal = &mut point.result.as_mut().unwrap().goals[0];
        let value = goal.repetitions[0].clone();
        let fps = factors.iter().zip(speeds).map(|(factor, speed)| Some(100_000.0 * factor * speed));
        goal.repetitions = fps.map(|fps| GoalValue { fps, ..value.clone() }).collect();
        goal.fps_interval = Some((80_000.0, 360_000.0));
        let curve = trials.pop().unwrap();
        trials.extend(factors.iter().zip(speeds).map(|(factor, speed)| {
            let mut trial = curve.clone();
            trial.cost.ns_per_frame = Some(6000.0 / factor / speed);
            trial
        }));
    }
    let methods = methods(&data);
    let reported = [html(story::blocks(&methods)), findings(&data).concat(), terminal(&parts(&data))]
        .concat()
        .replace('\u{202f}', " ");
    for words in [
        "recvmmsg, a system call for many frames, captures 306 k frames/s without loss, not distinguished from recv, 1.00 times \
         as much (0.500 to 1.30). What a frame costs is not distinguished: 732 cycles and 750, 1.01 times (0.769 to 2.00). \
         System calls per 1000 frames: 1000, now 20.0.",
        "without loss, 1.90 times recvmmsg (1.64 to 4.20). A frame costs 435 cycles in place of 732, 0.532 times \
         (0.238 to 0.611); what changes most",
        "900 k frames/s, 2.00 times recv (1.80 to 2.20)",
        "80000–360000",
    ] {
        assert!(reported.contains(words), "{words}\n--\n{reported}");
    }
}

#[test]
fn tables_hold_rates_losses_by_place_and_costs() {
    let all = terminal(&parts(&run())).replace('\u{202f}', " ");
    for row in [
        "300000",
        "interface ring full 500, socket queue full 100",
        "37.5%",
        "1.00MiB",
        "the way of ring-fanout",
        "copies",
        "memcpy         copies",
        "together",
    ] {
        assert!(all.contains(row), "{row}\n--\n{all}");
    }
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
    // Who polls is busy whatever comes.
    data.points[1].point.settings.push((BUSY_POLL.into(), "true".into()));
    let methods = super::methods(&data);
    assert_eq!(methods[1].at_most(&methods), None);
    let reported = html(story::blocks(&methods));
    assert!(
        reported.contains("ring, busy polling, whose reader itself has the driver receive, captures"),
        "{reported}"
    );
}

#[test]
fn the_page_has_the_ladder_and_nothing_about_devices() {
    let page = crate::report::html(&[run()], crate::rigs::sections());
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
