//! What every archive promises.

use super::*;
use crate::fixture;
use crate::record::RunState;
use crate::store::SqliteArchive;
use weir_testkit::Folder;

/// Runs the same against each archive, empty.
fn each(check: impl Fn(&dyn Archive)) {
    let folder = Folder::new();
    check(&SqliteArchive::open(&folder.join("records.db")).unwrap());
    check(&SqliteArchive::empty(&folder.join("none.db")).unwrap());
}

/// A run that another machine exported, with the numbers of its file.
fn exported() -> RunData {
    let mut data = fixture::quick();
    data.run.uuid = RunId::random();
    data
}

/// The same with the numbers that the archive must give when it is put behind so many others.
fn numbered(data: &RunData, others: usize) -> RunData {
    let mut data = data.clone();
    let points = others * data.points.len();
    let mut trials = others as i64 * data.points.iter().map(|point| point.trials.len() as i64).sum::<i64>();
    data.run.id = others as i64 + 1;
    for (number, PointData { point, trials: own }) in (points as i64 + 1..).zip(&mut data.points) {
        (point.id, point.run_id) = (number, data.run.id);
        for trial in own {
            trials += 1;
            (trial.id, trial.point_id) = (trials, point.id);
        }
    }
    data
}

#[test]
fn what_was_put_is_read() {
    each(|archive| {
        assert_eq!(archive.newest().unwrap(), None);
        let (first, mut second) = (exported(), exported());
        (second.run.state, second.run.finished) = (RunState::Interrupted, None);
        assert_eq!([&first, &second].map(|data| archive.put(data).unwrap()), [1, 2]);

        let (first, second) = (numbered(&first, 0), numbered(&second, 1));
        assert_eq!(archive.runs().unwrap(), [first.run.clone(), second.run.clone()]);
        assert_eq!(archive.newest().unwrap(), Some(second.run.uuid));
        for data in [first, second] {
            assert_eq!(archive.numbered(data.run.id).unwrap(), data.run.uuid);
            assert_eq!(archive.run_data(data.run.uuid).unwrap(), data);
            let PointData { point, trials } = data.points.last().unwrap();
            assert_eq!(archive.trials(point.key(data.run.uuid)).unwrap(), *trials);
        }
        assert_eq!(archive.damaged(), Vec::<String>::new());
    });
}

#[test]
fn what_is_not_there_is_named() {
    each(|archive| {
        let (data, other) = (exported(), RunId::random());
        archive.put(&data).unwrap();
        let unknown = [archive.numbered(2).map(drop), archive.run_data(other).map(drop)];
        for (unknown, name) in unknown.into_iter().zip(["2".to_string(), other.to_string()]) {
            assert!(matches!(&unknown, Err(StoreError::NoRun { run, .. }) if *run == name), "{unknown:?}");
        }
        assert_eq!(archive.points(other).unwrap(), []);
        assert_eq!(archive.trials(PointKey { run: data.run.uuid, index: 99 }).unwrap(), []);
    });
}

#[test]
fn a_run_is_put_once_and_as_a_whole() {
    each(|archive| {
        let data = exported();
        archive.put(&data).unwrap();
        let again = archive.put(&data);
        assert!(matches!(again, Err(StoreError::Misplaced { table: "runs", .. })), "{again:?}");

        let mut twice = exported();
        twice.points.push(twice.points[0].clone());
        let refused = archive.put(&twice);
        assert!(matches!(refused, Err(StoreError::Misplaced { table: "points", .. })), "{refused:?}");

        let mut infinite = exported();
        infinite.points.last_mut().unwrap().trials[0].noise.rate_error = f64::INFINITY;
        let refused = archive.put(&infinite);
        assert!(matches!(refused, Err(StoreError::Unstorable { table: "trials", .. })), "{refused:?}");

        assert_eq!(archive.runs().unwrap().len(), 1);
        assert_eq!(archive.run_data(data.run.uuid).unwrap(), numbered(&data, 0));
        assert!(archive.points(infinite.run.uuid).unwrap().is_empty(), "nothing of it stays");
    });
}

#[test]
fn trials_without_frames_have_no_counts_of_frames() {
    each(|archive| {
        let point = Point { dut: "sleep".into(), ..Point::default() };
        let trials = vec![Trial { duration_s: 1.0, ..Trial::default() }];
        let data = RunData { points: vec![PointData { point, trials }], ..exported() };
        archive.put(&data).unwrap();
        let read = archive.run_data(data.run.uuid).unwrap().points;
        assert_eq!(read, numbered(&data, 0).points);
        let json = serde_json::to_value(&read).unwrap();
        let keys = |value: &serde_json::Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        let keys = [keys(&json[0]["point"]), keys(&json[0]["trials"][0])].concat();
        for absent in
            ["frame", "frame_bytes_mean", "offered_fps", "offered", "sent", "received", "lost", "unexplained"]
        {
            assert!(!keys.iter().any(|key| key == absent), "{absent} in {keys:?}");
        }
    });
}
