use super::*;
use crate::fixture;
use crate::run_data::{PointData, RunData};
use crate::store::sqlite::tests::{running, write};

const END: &str = "2026-03-01T11:00:00Z";

#[test]
fn what_was_written_is_read() {
    let log = RunLog::in_memory();
    let (mut first, mut second) = (running(), running());
    write(&log, &mut first);
    write(&log, &mut second);
    log.finish_run(second.run.uuid, RunState::Complete, END).unwrap();
    (second.run.state, second.run.finished) = (RunState::Complete, Some(END.into()));
    let read = |data: &RunData| log.archive().run_data(data.run.uuid).unwrap();
    assert_eq!([read(&first), read(&second)], [first, second]);
}

#[test]
fn a_run_ends_once_and_goes_on_only_if_it_did_not_come_to_its_end() {
    let log = RunLog::in_memory();
    let mut run = running().run;
    run.id = log.begin(&run).unwrap();
    let is_now = |expected: &Run| assert_eq!(log.archive().run(run.uuid).unwrap(), *expected);
    let ended = |result, as_what| match result {
        Err(StoreError::Ended { id, state, .. }) => assert_eq!((id, state), (run.id, as_what)),
        other => panic!("{as_what:?}: {other:?}"),
    };
    ended(log.reopen_run(&run), RunState::Running);
    log.mark_interrupted(run.uuid).unwrap();
    is_now(&Run { state: RunState::Interrupted, ..run.clone() });
    ended(log.finish_run(run.uuid, RunState::Complete, END), RunState::Interrupted);
    let resumed = Run { resumed: vec![END.into()], process: "7-1".into(), ..run.clone() };
    log.reopen_run(&resumed).unwrap();
    is_now(&resumed);
    let failed = Run { failure: Some("a link is down".into()), ..resumed };
    log.fail_run(&failed, END).unwrap();
    is_now(&Run { state: RunState::Failed, finished: Some(END.into()), ..failed });
    ended(log.mark_interrupted(run.uuid), RunState::Failed);
    log.reopen_run(&run).unwrap();
    log.finish_run(run.uuid, RunState::Complete, END).unwrap();
    ended(log.reopen_run(&run), RunState::Complete);
    ended(log.fail_run(&run, END), RunState::Complete);
    let unknown = log.reopen_run(&running().run);
    assert!(matches!(unknown, Err(StoreError::NoRun { .. })), "{unknown:?}");
}

#[test]
fn records_are_written_once() {
    let log = RunLog::in_memory();
    let mut data = running();
    write(&log, &mut data);
    let (run, PointData { point, trials }) = (data.run.uuid, &data.points[0]);
    let key = point.key(run);
    let again = log.finish_point(key, &PointResult::default());
    assert!(matches!(again, Err(StoreError::PointDone { point, .. }) if point == key), "{again:?}");
    for (what, refused) in [
        ("the same run twice", log.begin(&data.run)),
        ("the same trial twice", log.append_trial(key, &trials[0])),
        ("a trial without its point", log.append_trial(PointKey { run, index: 999 }, &trials[0])),
        ("the same point twice", log.add_point(run, point)),
        ("a point without its run", log.add_point(RunId::random(), point)),
    ] {
        assert!(matches!(refused, Err(StoreError::Misplaced { .. })), "{what}: {refused:?}");
    }
    assert_eq!(log.archive().run_data(run).unwrap(), data);
}

#[test]
fn numbers_that_cannot_be_read_back_are_refused() {
    let log = RunLog::in_memory();
    let mut data = running();
    write(&log, &mut data);
    let key = data.points[0].point.key(data.run.uuid);
    let trial = Trial { index: 500, ..fixture::clean_trial() };
    let beyond_sqlite = trial.clone().counting(|counts| counts.lost = u64::MAX);
    assert!(log.append_trial(key, &beyond_sqlite).is_err());
    let mut not_finite = trial;
    not_finite.noise.rate_error = f64::NAN;
    let refused = log.append_trial(key, &not_finite);
    assert!(matches!(refused, Err(StoreError::Unstorable { table: "trials", .. })), "{refused:?}");
}
