use super::*;
use crate::testing::run;
use weir_record::record::Capture;
use weir_record::record::RunState;
use weir_record::run_data::PointData;
use weir_testkit::need_root;

/// A climb over some methods at low loads.
const SHORT: [&str; 16] = [
    "capture.methods=[recv,ring-fanout,xdp,count]",
    "capture.traffic=udp",
    "capture.threads=all",
    "capture.receive=with-sender",
    "capture.busy_poll=[false,true]",
    "capture.frame_bytes=mix:64,300",
    "capture.flows=100",
    "capture.overload_rounds=1",
    "capture.rounds=1",
    "capture.trial_s=0.1",
    "capture.buffer_s=0.05",
    "capture.buffer_fps=20k",
    "capture.min_fps=10k",
    "capture.max_fps=20k",
    "capture.resolution=50%",
    "limits.retries=1",
];

#[test]
fn every_method_is_measured_and_its_accounting_close() {
    need_root!();
    let (data, _) = run("capture", &SHORT);
    assert_eq!((data.run.state, data.points.len()), (RunState::Complete, 5));
    for point in &data.points {
        let method = point.setting("method").unwrap();
        for trial in point.measured() {
            assert_eq!(trial.counts().unexplained, 0, "{method}: {:?}", trial.drop_counters);
            let capture = trial.detail::<Capture>().expect("each trial captures");
            assert!(capture.time.generator_ns > 0 && trial.counts().received > 0, "{method}: {trial:?}");
        }
        let full = point.measured().find(|trial| trial.purpose == Purpose::FullSpeed).unwrap();
        // Windows are parts of the trial; a reader that gets no CPU for all of it has none.
        let in_windows: u64 = full.windows.iter().map(|window| window.frames).sum();
        assert!(in_windows <= full.counts().received, "{method}: {:?}", full.windows);
        let goals: Vec<_> = point.goals().iter().map(|goal| goal.goal.as_str()).collect();
        assert_eq!(goals, ["without loss"], "{method}");
        // A load that was accepted has lost nothing in three trials.
        let Some(fps) = point.headline_fps() else { continue };
        let at = |trial: &&Trial| trial.purpose == Purpose::Search && trial.counts().offered_fps == fps;
        let good = point.measured().filter(at).filter(|trial| trial.counts().lost == 0).count();
        assert!(good >= Ladder::TRIALS as usize, "{method} at {fps}");
    }
    let windows = |point: &PointData| point.measured().map(|trial| trial.windows.len()).sum::<usize>();
    assert!(data.points.iter().map(windows).sum::<usize>() > 0, "what is captured is noted over time");
}

#[test]
fn methods_take_turns() {
    need_root!();
    let more = ["capture.methods=[ring,count]", "capture.busy_poll=false", "capture.rounds=2"];
    let (data, _) = run("capture", &[&SHORT[..], &more].concat());
    let mut trials: Vec<_> = data.points.iter().flat_map(|point| &point.trials).collect();
    trials.sort_by_key(|trial| trial.id);
    // A round of overload comes first, of one trial beside the warm-up each.
    let searches = trials.split_off(4);
    let interleaved: Vec<_> =
        searches.chunk_by(|a, b| a.point_id == b.point_id).map(|turn| turn[0].point_id).collect();
    let [ring, count] = [0, 1].map(|n: usize| data.points[n].point.id);
    assert_eq!(interleaved, [ring, count, ring], "each is first once");
    for point in &data.points {
        let full = point.measured().filter(|trial| trial.purpose == Purpose::FullSpeed).count();
        let repetitions = point.goals().iter().map(|goal| goal.repetitions.len());
        assert_eq!((full, repetitions.collect::<Vec<_>>()), (3, vec![2]));
    }
}

#[test]
fn frames_that_rps_hands_to_another_cpu_are_captured_too() {
    let cpus = weir_testbed::cpu::CpuPlan::choose(weir_testbed::cpu::DutCpus::All).unwrap().dut;
    need_root!();
    if cpus.len() < 2 {
        return println!("skipped: {} needs two CPUs", module_path!());
    }
    let rps = format!("capture.rps=[off,{}]", cpus[1]);
    let more = [
        "capture.methods=[ring,xdp]",
        "capture.busy_poll=false",
        "capture.frame_bytes=64",
        "capture.max_fps=15k",
        rps.as_str(),
    ];
    let (data, _) = run("capture", &[&SHORT[..], &more].concat());
    let rps: Vec<_> = data.points.iter().map(|point| point.setting("rps").unwrap_or("-")).collect();
    assert_eq!(rps, ["off", "-", cpus[1].to_string().as_str()]);
    for trial in data.points.iter().flat_map(|point| point.measured()) {
        assert!(trial.counts().unexplained == 0 && trial.counts().received > 0, "{trial:?}");
    }
    let steps = data.points.last().unwrap();
    assert!(
        weir_report::report::html(std::slice::from_ref(&data), crate::sections())
            .contains(&format!("RPS to CPU {}", cpus[1])),
        "{steps:?}"
    );
}

#[test]
fn a_kernel_that_receives_apart_is_paid_by_the_capture_and_loses_what_is_too_much_in_the_ring() {
    need_root!();
    let more = ["capture.methods=[ring,xdp]", "capture.busy_poll=false", "capture.receive=apart"];
    let (data, _) = run("capture", &[&SHORT[..], &more].concat());
    for point in &data.points {
        assert_eq!(point.setting("receive"), Some("apart"));
        let shared = weir_testbed::cpu::CpuPlan::choose(weir_testbed::cpu::DutCpus::Count(1)).unwrap().shared;
        for trial in point.measured() {
            assert_eq!(trial.counts().unexplained, 0, "{:?}", trial.drop_counters);
            let time = trial.detail::<Capture>().expect("each trial captures").time;
            assert!(time.receive_ns > 0, "{time:?}");
            // What is sent with its own CPU is far more than frames that are captured one by one.
            if trial.purpose == Purpose::FullSpeed && !shared {
                assert!(
                    trial.counts().lost == 0 || trial.drop_counters.iter().any(|line| line.frames > 0),
                    "{:?}",
                    trial.drop_counters
                );
            }
        }
    }
}

#[test]
fn a_method_keeps_up_if_all_that_is_lost_is_lost_before_it() {
    let trial = weir_record::fixture::quick().points[1].trials[1].clone();
    for (ring, other, expected) in [(0, 0, true), (9, 0, true), (11, 0, false), (9, 1, false)] {
        let line = |name: &str, frames| weir_record::record::DropCounter {
            name: name.into(),
            owner: weir_record::record::Owner::Dut,
            frames,
            source: "s".into(),
        };
        let drop_counters = vec![line(RING_FULL, ring), line("ring full", other)];
        let trial = Trial { drop_counters, verdict: Verdict::Valid, ..trial.clone() }
            .counting(|counts| (counts.sent, counts.lost) = (10_000, ring + other));
        assert_eq!(keeps_up(&trial, RING_SHARE), expected, "{ring} {other}");
        assert_eq!(keeps_up(&trial, 0.0), ring + other == 0, "{ring} {other}");
        assert!(!keeps_up(&Trial { verdict: Verdict::Invalid, ..trial }, RING_SHARE), "{ring} {other}");
    }
}
