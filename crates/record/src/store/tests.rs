//! The contract of every store.

use super::*;
use crate::fixture;
use weir_testkit::Folder;

/// Runs the same against each store, empty.
fn each(check: impl Fn(&dyn Store)) {
    let folder = Folder::new();
    check(&SqliteStore::open(&folder.join("records.db")).unwrap());
    check(&MemoryStore::default());
}

/// A run that is under way.
pub(super) fn running() -> RunData {
    let mut data = fixture::quick();
    (data.run.state, data.run.finished) = (RunState::Running, None);
    data
}

/// Stores a whole run without ending it; numbers in `data` are set to those of the store.
pub(super) fn write(store: &dyn Store, data: &mut RunData) {
    data.run.id = store.begin_run(&data.run).unwrap();
    for PointData { point, trials } in &mut data.points {
        point.run_id = data.run.id;
        let result = point.result.take().unwrap();
        point.id = store.add_point(point).unwrap();
        for trial in trials {
            trial.point_id = point.id;
            trial.id = store.append_trial(trial).unwrap();
        }
        store.finish_point(point.id, &result).unwrap();
        point.result = Some(result);
    }
}

#[test]
fn what_was_written_is_read() {
    each(|store| {
        assert_eq!(store.last_run_id().unwrap(), None);
        let (mut first, mut second) = (running(), running());
        write(store, &mut first);
        write(store, &mut second);
        let finished = second.run.finished.insert("2026-03-01T11:00:00Z".into());
        store.finish_run(second.run.id, RunState::Complete, finished).unwrap();
        second.run.state = RunState::Complete;

        assert_eq!(store.last_run_id().unwrap(), Some(2));
        assert_eq!(store.runs().unwrap(), [first.run.clone(), second.run.clone()]);
        assert_eq!(store.run_data(1).unwrap(), first);
        assert_eq!(store.run_data(2).unwrap(), second);
        assert!(matches!(store.run(3), Err(StoreError::NoRun { id: 3, .. })));
        assert_eq!(store.damaged(), Vec::<String>::new());
    });
}

#[test]
fn trials_without_frames_have_no_counts_of_frames() {
    each(|store| {
        let run_id = store.begin_run(&running().run).unwrap();
        let point = Point { run_id, dut: "sleep".into(), ..Point::default() };
        let point = Point { id: store.add_point(&point).unwrap(), ..point };
        let trial = Trial { point_id: point.id, duration_s: 1.0, ..Trial::default() };
        let trial = Trial { id: store.append_trial(&trial).unwrap(), ..trial };
        let data = store.run_data(run_id).unwrap();
        assert_eq!(data.points, [PointData { point, trials: vec![trial] }]);
        let json = serde_json::to_value(&data.points).unwrap();
        let keys = |value: &serde_json::Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        let keys = [keys(&json[0]["point"]), keys(&json[0]["trials"][0])].concat();
        for absent in
            ["frame", "frame_bytes_mean", "offered_fps", "offered", "sent", "received", "lost", "unexplained"]
        {
            assert!(!keys.iter().any(|key| key == absent), "{absent} in {keys:?}");
        }
    });
}

#[test]
fn a_run_ends_once_and_goes_on_only_if_it_did_not_come_to_its_end() {
    const END: &str = "2026-03-01T11:00:00Z";
    each(|store| {
        let mut run = running().run;
        run.id = store.begin_run(&run).unwrap();
        let ended = |result, as_what| match result {
            Err(StoreError::Ended { id, state, .. }) => assert_eq!((id, state), (run.id, as_what)),
            other => panic!("{as_what:?}: {other:?}"),
        };
        ended(store.reopen_run(&run), RunState::Running);
        store.mark_interrupted(run.id).unwrap();
        assert_eq!(store.run(run.id).unwrap(), Run { state: RunState::Interrupted, ..run.clone() });
        ended(store.finish_run(run.id, RunState::Complete, END), RunState::Interrupted);
        let resumed = Run { resumed: vec![END.into()], process: "7-1".into(), ..run.clone() };
        store.reopen_run(&resumed).unwrap();
        assert_eq!(store.run(run.id).unwrap(), resumed);
        let failed = Run { failure: Some("a link is down".into()), ..resumed };
        store.fail_run(&failed, END).unwrap();
        let failed = Run { state: RunState::Failed, finished: Some(END.into()), ..failed };
        assert_eq!(store.run(run.id).unwrap(), failed);
        ended(store.mark_interrupted(run.id), RunState::Failed);
        store.reopen_run(&run).unwrap();
        store.finish_run(run.id, RunState::Complete, END).unwrap();
        ended(store.reopen_run(&run), RunState::Complete);
        ended(store.fail_run(&run, END), RunState::Complete);
        assert!(matches!(
            store.reopen_run(&Run { id: 9, ..run.clone() }),
            Err(StoreError::NoRun { id: 9, .. })
        ));
    });
}

#[test]
fn records_are_written_once() {
    each(|store| {
        let mut data = running();
        write(store, &mut data);
        let PointData { point, trials } = &data.points[0];
        let again = store.finish_point(point.id, &PointResult::default());
        assert!(matches!(again, Err(StoreError::PointDone { .. })), "{again:?}");
        let orphan = Trial { point_id: 999, ..trials[0].clone() };
        for (what, refused) in [
            ("the same trial twice", store.append_trial(&trials[0])),
            ("a trial without its point", store.append_trial(&orphan)),
            ("the same point twice", store.add_point(&Point { result: None, ..point.clone() })),
            (
                "a point without its run",
                store.add_point(&Point { run_id: 999, result: None, ..point.clone() }),
            ),
        ] {
            assert!(matches!(refused, Err(StoreError::Misplaced { .. })), "{what}: {refused:?}");
        }
        assert_eq!(store.run_data(data.run.id).unwrap(), data);
    });
}

#[test]
fn numbers_that_cannot_be_read_back_are_refused() {
    each(|store| {
        let mut data = running();
        write(store, &mut data);
        let mut trial = data.points[0].trials[0].clone();
        trial.index = 500;
        trial.noise.rate_error = f64::NAN;
        let refused = store.append_trial(&trial);
        assert!(matches!(refused, Err(StoreError::Unstorable { table: "trials", .. })), "{refused:?}");
    });
}

#[test]
fn the_default_place() {
    let place = |xdg: &str, home: &str| default_path(Some(xdg.as_ref()), Some(home.as_ref()));
    assert_eq!(place("/x", "/h").unwrap(), Path::new("/x/weir/records.db"));
    assert_eq!(place("", "/h").unwrap(), Path::new("/h/.local/share/weir/records.db"));
    assert_eq!(place("relative", "/h").unwrap(), Path::new("/h/.local/share/weir/records.db"));
    assert!(matches!(place("", ""), Err(StoreError::NoHome)));
    assert!(matches!(default_path(None, None), Err(StoreError::NoHome)));
}
