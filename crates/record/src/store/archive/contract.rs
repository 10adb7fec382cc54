//! What every archive promises, as checks of an empty one: each implementation runs all of them.

use super::*;
use crate::fixture;
use crate::record::{RunState, RunSummary};

/// A check, which panics where a promise is broken. It reads the first archive and puts runs into the second one, which are the same
/// unless one only reads.
pub type Check = fn(&dyn Archive, &dyn Archive);

/// All checks by name; each needs an empty archive of its own.
pub const ALL: [(&str, Check); 5] = [
    ("what was put is read", what_was_put_is_read),
    ("what is not there is named", what_is_not_there_is_named),
    ("a run is put once and as a whole", a_run_is_put_once_and_as_a_whole),
    ("trials without frames have no counts of frames", trials_without_frames_have_no_counts_of_frames),
    ("runs are listed, and found by plan", runs_are_listed_and_found_by_plan),
];

/// A run that another machine exported, with the numbers of its file.
fn exported() -> RunData {
    let mut data = fixture::quick();
    data.run.uuid = RunId::random();
    data
}

/// The run with the numbers of its points and trials replaced by 0, after a check that points and trials refer to their parents.
pub fn without_numbers(mut data: RunData) -> RunData {
    for PointData { point, trials } in &mut data.points {
        assert_eq!(point.run_id, data.run.id, "of its run");
        for trial in trials.iter_mut() {
            assert_eq!(trial.point_id, point.id, "of its point");
            (trial.id, trial.point_id) = (0, 0);
        }
        (point.id, point.run_id) = (0, 0);
    }
    data.run.id = 0;
    data
}

/// The same of a run that is in no archive.
pub fn before(data: &RunData) -> RunData {
    let mut data = data.clone();
    data.run.id = 0;
    for (number, PointData { point, trials }) in (1..).zip(&mut data.points) {
        (point.id, point.run_id) = (number, 0);
        trials.iter_mut().for_each(|trial| trial.point_id = number);
    }
    without_numbers(data)
}

fn what_was_put_is_read(archive: &dyn Archive, writer: &dyn Archive) {
    assert_eq!(archive.newest().unwrap(), None);
    let (first, mut second) = (exported(), exported());
    (second.run.state, second.run.finished) = (RunState::Interrupted, None);
    let numbers = [&first, &second].map(|data| writer.put(data).unwrap());
    assert!(0 < numbers[0] && numbers[0] < numbers[1], "{numbers:?}");

    let runs = archive.runs().unwrap();
    assert_eq!(runs.iter().map(|run| run.id).collect::<Vec<_>>(), numbers);
    assert_eq!(archive.newest().unwrap(), Some(second.run.uuid));
    for (data, run) in [first, second].iter().zip(runs) {
        assert_eq!(archive.numbered(run.id).unwrap(), data.run.uuid);
        let read = archive.run_data(data.run.uuid).unwrap();
        assert_eq!(read.run, run);
        assert_eq!(archive.run(data.run.uuid).unwrap(), run);
        assert_eq!(without_numbers(read.clone()), before(data));
        let PointData { point, trials } = read.points.last().unwrap();
        assert_eq!(archive.trials(point.key(data.run.uuid)).unwrap(), *trials);
    }
    assert_eq!(archive.damaged(), Vec::<String>::new());
}

fn what_is_not_there_is_named(archive: &dyn Archive, writer: &dyn Archive) {
    let (data, other) = (exported(), RunId::random());
    let number = writer.put(&data).unwrap() + 1;
    let unknown = [archive.numbered(number).map(drop), archive.run_data(other).map(drop)];
    for (unknown, name) in unknown.into_iter().zip([number.to_string(), other.to_string()]) {
        let text = unknown.unwrap_err().to_string();
        assert!(text.starts_with(&format!("there is no run {name} in ")), "{text}");
    }
    assert_eq!(archive.points(other).unwrap(), []);
    assert_eq!(archive.trials(PointKey { run: data.run.uuid, index: 99 }).unwrap(), []);
}

fn a_run_is_put_once_and_as_a_whole(archive: &dyn Archive, writer: &dyn Archive) {
    let refused = |data: &RunData, text: &str| {
        let refused = writer.put(data).unwrap_err().to_string();
        assert!(refused.starts_with(text), "{refused}");
    };
    let data = exported();
    writer.put(&data).unwrap();
    refused(&data, "a record of table runs does not fit into ");
    let mut twice = exported();
    twice.points.push(twice.points[0].clone());
    refused(&twice, "a record of table points does not fit into ");
    let mut infinite = exported();
    infinite.points.last_mut().unwrap().trials[0].noise.rate_error = f64::INFINITY;
    refused(&infinite, "a record of table trials cannot be stored");

    assert_eq!(archive.runs().unwrap().len(), 1);
    assert_eq!(without_numbers(archive.run_data(data.run.uuid).unwrap()), before(&data));
    assert!(archive.points(infinite.run.uuid).unwrap().is_empty(), "nothing of it stays");
}

fn trials_without_frames_have_no_counts_of_frames(archive: &dyn Archive, writer: &dyn Archive) {
    let point = Point { dut: "sleep".into(), ..Point::default() };
    let trials = vec![Trial { duration_s: 1.0, ..Trial::default() }];
    let data = RunData { points: vec![PointData { point, trials }], ..exported() };
    writer.put(&data).unwrap();
    let read = archive.run_data(data.run.uuid).unwrap();
    assert_eq!(without_numbers(read.clone()).points, before(&data).points);
    let json = serde_json::to_value(&read.points).unwrap();
    let keys = |value: &serde_json::Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let keys = [keys(&json[0]["point"]), keys(&json[0]["trials"][0])].concat();
    for absent in
        ["frame", "frame_bytes_mean", "offered_fps", "offered", "sent", "received", "lost", "unexplained"]
    {
        assert!(!keys.iter().any(|key| key == absent), "{absent} in {keys:?}");
    }
}

fn runs_are_listed_and_found_by_plan(archive: &dyn Archive, writer: &dyn Archive) {
    assert_eq!(archive.list().unwrap(), []);
    let mut all = [exported(), exported(), exported()];
    all[1].run.plan = "other".into();
    all.iter().for_each(|data| assert!(writer.put(data).unwrap() > 0));
    let runs = archive.runs().unwrap();
    let summaries: Vec<RunSummary> = runs.iter().cloned().map(RunSummary::from).collect();
    assert_eq!(archive.list().unwrap(), summaries);
    let [first, _, third] = &*runs else { panic!("{} runs", runs.len()) };
    let found = archive.of_plan(&first.plan).unwrap();
    assert_eq!(found.iter().map(|(run, _)| run).collect::<Vec<_>>(), [first, third]);
    for (run, points) in &found {
        assert_eq!(*points, archive.points(run.uuid).unwrap());
    }
    assert!(archive.of_plan("no such plan").unwrap().is_empty());
}
