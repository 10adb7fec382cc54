use super::report::*;
use weir_record::fixture;
use weir_record::record::{
    Capture, CaptureTime, DropCounter, GoalResult, GoalValue, Owner, PointResult, Purpose, Trial,
};
use weir_record::run_data::{PointData, RunData};
use weir_report::report::block::{self, terminal};
use weir_testkit::golden;

const ROUNDS: [f64; 6] = [1.0, 1.1, 0.9, 1.0, 0.5, 1.0];

/// A program that takes `fps` in the first round, and as much more or less in the others as the machine gives; a frame
/// costs `ns` with generator and kernel.
fn tool(index: usize, program: &str, fps: f64, ns: u64) -> PointData {
    let mut data = fixture::point(index, program, 64, fps);
    let settings = [("measures", "captor"), ("program", program), ("job", "headers"), ("place", "together")];
    data.point.settings = settings.map(|(name, value)| (name.to_string(), value.to_string())).to_vec();
    data.point.settings.push(("command".into(), format!("{program} -i t1")));
    let value = |share: &f64| GoalValue { fps: Some(fps * share), ..GoalValue::default() };
    let mut goal = data.point.result.take().unwrap().goals.remove(0);
    goal.repetitions = ROUNDS.iter().map(value).collect();
    (goal.fps_median, goal.goal) = (Some(fps), LOSSLESS.into());
    let goals = vec![goal.clone(), GoalResult { goal: FULL.into(), ..goal }];
    data.point.result = Some(PointResult { search: "rounds".into(), goals, ..PointResult::default() });
    let trial = data.trials[1].clone();
    let line = |name: &str, frames| DropCounter {
        name: name.into(),
        owner: Owner::Dut,
        frames,
        source: String::new(),
    };
    let time = CaptureTime { generator_ns: (ns - 20) * 900, user_ns: 20 * 900, ..Default::default() };
    let trial = trial.with_detail(&Capture { time, ..Capture::default() });
    let trial = trial.counting(|counts| (counts.sent, counts.received, counts.unexplained) = (1000, 900, 0));
    let trial = |_| Trial {
        purpose: Purpose::FullSpeed,
        duration_s: 900.0 / fps,
        drop_counters: vec![line(LEFT, 50), line("buffer full", 50)],
        cost: weir_record::record::Cost {
            ns_per_frame: Some(1.0),
            cycles_per_frame: Some(2.0),
            ..Default::default()
        },
        ..trial.clone()
    };
    data.trials = ROUNDS.iter().map(trial).collect();
    data
}

fn run() -> RunData {
    let mut absent = tool(4, "dumpcap", 1.0, 100);
    absent.trials.clear();
    absent.point.result = Some(PointResult { search: "left out".into(), ..PointResult::default() });
    absent.point.notes = vec!["dumpcap is left out: it is not installed.".into()];
    let points = vec![
        tool(0, "nothing", 20e6, 50),
        tool(1, "weir ring", 3e6, 250),
        tool(2, "weir xdp", 9e6, 100),
        tool(3, "tcpdump", 3e6, 300),
        absent,
    ];
    RunData { run: fixture::run(1), points }
}

/// 250 ns of a frame less the 50 of the bed are 400 cycles; 20 ns are the program's; what is left over is not lost.
#[test]
fn the_best_method_is_held_against_each_peer_and_costs_are_without_generator_and_wire() {
    let mut data = run();
    data.points[3].point.settings.push(("version".into(), "4.99.3".into()));
    let found = findings(&data).join("\n");
    let shown = [found, terminal(&parts(&data))].join("\n\n");
    golden!("src/peers/capture/golden.txt", &shown.replace('\u{202f}', " "));
}

/// The program that keeps up has a bound and no ratio to another one that does; the others are compared round by round.
#[test]
fn the_first_screen_says_who_captures_most_and_what_each_loses() {
    let shown = |data: &RunData| {
        let text = weir_report::export::answer(data, crate::sections(), 80);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        text
    };
    let mut data = run();
    let send = |point: &mut PointData, sent: f64| {
        for trial in &mut point.trials {
            let frames = (sent * trial.duration_s) as u64;
            *trial = trial.clone().counting(|c| (c.sent, c.received) = (frames, frames * 9 / 10));
        }
    };
    data.points[1..4].iter_mut().zip([4e6, 9.1e6, 6e6]).for_each(|(point, sent)| send(point, sent));
    let one = shown(&data);
    send(&mut data.points[3], 3e6);
    let bounds = shown(&data);
    let files = run().points.into_iter().skip(1).enumerate().map(|(i, mut point)| {
        point.point.index = 5 + i;
        point
            .point
            .settings
            .iter_mut()
            .filter(|(name, _)| name == "job")
            .for_each(|(_, job)| *job = "file".into());
        point
    });
    data.points.extend(files);
    golden!("src/peers/capture/answer.txt", &[one, bounds, shown(&data)].join("\n"));
}

#[test]
fn the_page_has_a_bar_for_each_and_how_it_was_called() {
    let page = block::page(&parts(&run()));
    let mut data = run();
    for (trial, frames) in data.points[3].trials.iter_mut().zip([3, 7, 60]) {
        trial.drop_counters[1] = DropCounter {
            name: weir_lab::frames::mirror::RING_FULL.into(),
            frames,
            ..trial.drop_counters[1].clone()
        };
    }
    let said = method(&tools(&data)).replace('\u{202f}', " ");
    assert!(said.contains("in this run at most 0.700 % of a trial"), "6 % are no excuse: {said}");
    for text in ["tcpdump -i t1", "dumpcap is left out", "left out", "share one CPU", "weir xdp: 9.00"] {
        assert!(page.replace('\u{202f}', " ").contains(text), "{text}");
    }
}
