use weir_disk::faults::{self, Fault, Writer};

use super::*;
use crate::fixture;
use crate::record::RunState;
use weir_testkit::Folder;

/// Where records are in a folder.
const FILE: &str = "a/b/records.db";

#[test]
fn it_keeps_what_each_archive_promises() {
    for (name, check) in crate::store::contract::ALL {
        println!("{name}");
        let folder = Folder::new();
        for archive in [
            SqliteArchive::open(&folder.join(FILE)).unwrap(),
            SqliteArchive::empty(Path::new("none")).unwrap(),
        ] {
            check(&archive, &archive);
        }
    }
}

/// A run that is under way.
pub(super) fn running() -> RunData {
    let mut data = fixture::quick();
    (data.run.uuid, data.run.state, data.run.finished) = (RunId::random(), RunState::Running, None);
    data
}

/// Stores a whole run without ending it; numbers in `data` are set to those of the file.
pub(super) fn write(log: &RunLog, data: &mut RunData) {
    let run = data.run.uuid;
    data.run.id = log.begin(&data.run).unwrap();
    for PointData { point, trials } in &mut data.points {
        point.run_id = data.run.id;
        let (key, result) = (point.key(run), point.result.take().unwrap());
        point.id = log.add_point(run, point).unwrap();
        for trial in trials {
            trial.point_id = point.id;
            trial.id = log.append_trial(key, trial).unwrap();
        }
        log.finish_point(key, &result).unwrap();
        point.result = Some(result);
    }
}

/// The run with a number.
pub(super) fn read(archive: &dyn Archive, number: i64) -> RunData {
    archive.run_data(archive.numbered(number).unwrap()).unwrap()
}

#[test]
fn another_process_reads_what_was_written() {
    let dir = Folder::new();
    let mut data = running();
    write(&RunLog::open(&dir.join(FILE)).unwrap(), &mut data);
    assert_eq!(read(&SqliteArchive::open(&dir.join(FILE)).unwrap(), 1), data);
}

#[test]
fn people_can_query_it() {
    let dir = Folder::new();
    write(&RunLog::open(&dir.join(FILE)).unwrap(), &mut running());
    let db = Connection::open(dir.join(FILE)).unwrap();
    let sql = "SELECT count(*), sum(lost), max(offered_fps)
               FROM trials JOIN points ON points.run_uuid = trials.run_uuid AND points.idx = point_idx
               WHERE dut = 'kernel-forward' AND frame = '64' AND verdict = 'valid' AND purpose = 'curve'";
    let (n, lost, most): (i64, i64, f64) =
        db.query_row(sql, (), |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?))).unwrap();
    let data = fixture::quick();
    let point = data.points.iter().find(|p| p.point.dut == "kernel-forward").unwrap();
    let curve = || point.valid().filter(|t| t.purpose == crate::record::Purpose::Curve);
    assert_eq!(n, curve().count() as i64);
    assert_eq!(lost as u64, curve().map(|t| t.counts().lost).sum::<u64>());
    assert_eq!(most, curve().map(|t| t.counts().offered_fps).fold(0.0, f64::max));
    // Half a row of counts would read as none.
    let half = db.execute("UPDATE trials SET sent = NULL WHERE id = 1", ());
    assert!(half.is_err(), "{half:?}");
}

#[test]
fn a_crash_keeps_finished_trials_and_the_next_process_appends() {
    let dir = Folder::new();
    let mut data = running();
    let killed = RunLog::open(&dir.join(FILE)).unwrap();
    write(&killed, &mut data);
    // Never closed: the write-ahead log stays as a killed process leaves it.
    std::mem::forget(killed);

    let log = RunLog::open(&dir.join(FILE)).unwrap();
    assert_eq!(log.archive().run(data.run.uuid).unwrap().state, RunState::Running);
    log.mark_interrupted(data.run.uuid).unwrap();
    data.run.state = RunState::Interrupted;
    assert_eq!(read(log.archive(), 1), data);
    assert_eq!(log.begin(&running().run).unwrap(), 2);
}

#[test]
fn newer_and_foreign_files_are_refused_and_left_alone() {
    let dir = Folder::new();
    drop(SqliteArchive::open(&dir.join(FILE)).unwrap());
    let db = Connection::open(dir.join(FILE)).unwrap();
    db.pragma_update(None, "user_version", 99).unwrap();
    let newer = SqliteArchive::open(&dir.join(FILE)).unwrap_err();
    assert!(matches!(newer, StoreError::Newer { found: 99, .. }));
    assert!(newer.to_string().contains("use a newer weir"), "{newer}");

    let other = dir.join("other.db");
    Connection::open(&other).unwrap().execute_batch("CREATE TABLE mail (id INTEGER)").unwrap();
    assert!(matches!(SqliteArchive::open(&other), Err(StoreError::Foreign { .. })));
    let text = dir.join("notes.txt");
    std::fs::write(&text, "this is no database, and long enough to be looked at by SQLite".repeat(99))
        .unwrap();
    assert!(matches!(SqliteArchive::open(&text), Err(StoreError::Foreign { .. })));
    let under_a_file = SqliteArchive::open(&text.join("records.db"));
    assert!(matches!(under_a_file, Err(StoreError::Directory { .. })));
}

#[test]
fn a_locked_file_is_waited_for_and_then_named() {
    let dir = Folder::new();
    let archive = SqliteArchive::open_waiting(&dir.join(FILE), Duration::from_millis(50)).unwrap();
    let other = Connection::open(dir.join(FILE)).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = archive.put(&running()).unwrap_err();
    assert!(matches!(error, StoreError::Locked { .. }), "{error}");
    assert!(error.to_string().contains("records.db is locked by another process for more than 0.05 s"));
    assert!(archive.runs().unwrap().is_empty(), "reading goes on");
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(archive.put(&running()).unwrap(), 1);
}

#[test]
fn several_processes_may_open_a_new_file_at_once() {
    let dir = Folder::new();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| RunLog::open(&dir.join(FILE)).unwrap().begin(&running().run).unwrap());
        }
    });
    assert_eq!(SqliteArchive::open(&dir.join(FILE)).unwrap().runs().unwrap().len(), 8);
}

#[test]
fn a_full_disk_is_named_and_keeps_what_is_there() {
    let dir = Folder::new();
    let mut data = running();
    write(&RunLog::open(&dir.join(FILE)).unwrap(), &mut data);
    let archive = SqliteArchive::open(&dir.join(FILE)).unwrap();
    archive.db.pragma_update(None, "max_page_count", 1).unwrap();
    let fill = (0..10_000).find_map(|_| archive.put(&running()).err()).unwrap();
    assert!(matches!(fill, StoreError::Full { .. }), "{fill}");
    assert_eq!(read(&archive, 1), data);
}

#[test]
fn a_row_that_cannot_be_read_hides_nothing_but_itself() {
    let dir = Folder::new();
    let log = RunLog::open(&dir.join(FILE)).unwrap();
    let mut all = [running(), running(), running()];
    all.iter_mut().for_each(|data| write(&log, data));
    let archive = log.archive();
    let db = Connection::open(dir.join(FILE)).unwrap();
    let trial = all[2].points[0].trials[1].id;
    db.execute("UPDATE runs SET rest = 'no json' WHERE id = 2", ()).unwrap();
    db.execute("UPDATE trials SET rest = '{}' WHERE id = ?1", [trial]).unwrap();
    let ids: Vec<i64> = archive.runs().unwrap().iter().map(|run| run.id).collect();
    assert_eq!(ids, [1, 3]);
    assert!(archive.damaged()[0].contains("record 2 of table runs"));
    assert_eq!((read(archive, 1), archive.damaged()), (all[0].clone(), vec![]));
    let trials = read(archive, 3).points[0].trials.len();
    assert_eq!(trials, all[2].points[0].trials.len() - 1);
    assert!(archive.damaged()[0].contains(&format!("record {trial} of table trials")));
    let damaged = archive.run_data(all[1].run.uuid);
    assert!(matches!(damaged, Err(StoreError::Damaged { id: 2, .. })), "{damaged:?}");
    assert_eq!(log.begin(&running().run).unwrap(), 4, "it can still be written to");
    db.execute("UPDATE runs SET uuid = 'nobody' WHERE id = 4", ()).unwrap();
    assert!(matches!(archive.numbered(4), Err(StoreError::Damaged { id: 4, .. })));
}

/// No name is a URI or a place in memory, and nothing is written where records are only read.
#[test]
fn names_are_names_of_files() {
    let dir = Folder::new();
    for name in ["file:e.db", "file:e.db?mode=memory", "e.db?immutable=1", "a%20b"] {
        let path = dir.join(name);
        write(&RunLog::open(&path).unwrap(), &mut running());
        assert!(path.is_file(), "{name}");
        assert_eq!(SqliteArchive::open_to_read(&path).unwrap().runs().unwrap().len(), 1, "{name}");
        let db = file::open_unchanging(&path).unwrap();
        assert_eq!(
            db.query_row("SELECT count(*) FROM runs", (), |row| row.get::<_, i64>(0)).unwrap(),
            1,
            "{name}"
        );
    }
    assert_eq!(
        file::absolute(Path::new("file:e.db")).unwrap(),
        std::env::current_dir().unwrap().join("file:e.db")
    );
    let open_to_write = |path: &Path| RunLog::open(path).map(drop);
    let open_existing = |path: &Path| RunLog::open_existing(path).map(drop);
    let open_to_read = |path: &Path| SqliteArchive::open_to_read(path).map(drop);
    for open in [open_to_write, open_existing, open_to_read] {
        let refused = open(Path::new(":memory:")).unwrap_err();
        assert!(matches!(refused, StoreError::Nowhere), "{refused}");
        assert!(matches!(open(Path::new("")), Err(StoreError::Unsafe { .. })));
    }
}

#[test]
fn a_reader_leaves_the_file_as_it_is() {
    let dir = Folder::new();
    let path = dir.join("records.db");
    let mut data = running();
    write(&RunLog::open(&path).unwrap(), &mut data);
    let before = std::fs::read(&path).unwrap();
    let archive = SqliteArchive::open_to_read(&path).unwrap();
    assert_eq!(read(&archive, 1), data);
    let refused = archive.put(&running()).unwrap_err();
    assert!(matches!(refused, StoreError::Access { .. }), "{refused}");
    drop(archive);
    assert_eq!(std::fs::read(&path).unwrap(), before);
    let names = || std::fs::read_dir(&*dir).unwrap().count();
    assert_eq!(names(), 1, "no file stays beside it");

    let missing = dir.join("missing.db");
    assert!(matches!(SqliteArchive::open_to_read(&missing), Err(StoreError::NoFile(_))));
    assert!(SqliteArchive::empty(&missing).unwrap().runs().unwrap().is_empty() && !missing.exists());
}

#[test]
fn a_reader_sees_what_another_process_writes() {
    let dir = Folder::new();
    let writer = RunLog::open(&dir.join(FILE)).unwrap();
    let reader = SqliteArchive::open_to_read(&dir.join(FILE)).unwrap();
    write(&writer, &mut running());
    assert_eq!(reader.runs().unwrap().len(), 1);
    assert!(file::has_log(&dir.join(FILE)));
}

#[test]
fn a_link_in_the_place_of_the_file_is_not_followed() {
    let dir = Folder::new();
    std::fs::create_dir_all(dir.join(FILE).parent().unwrap()).unwrap();
    let elsewhere = dir.join("elsewhere");
    std::os::unix::fs::symlink(&elsewhere, dir.join(FILE)).unwrap();
    let refused = SqliteArchive::open(&dir.join(FILE)).unwrap_err();
    assert!(matches!(refused, StoreError::Unsafe { .. }) && !elsewhere.exists(), "{refused}");
    std::fs::remove_file(dir.join(FILE)).unwrap();
    std::fs::write(&elsewhere, "").unwrap();
    std::fs::hard_link(&elsewhere, dir.join(FILE)).unwrap();
    assert!(matches!(SqliteArchive::open(&dir.join(FILE)), Err(StoreError::Unsafe { .. })));
}

/// The other half of the next test, in a separate process: says what was stored.
#[test]
fn writer_that_fails() {
    let Some(folder) = faults::folder() else { return };
    let Ok(log) = RunLog::open(&folder.join("records.db")) else { return };
    let RunData { run, points } = running();
    let Ok(_) = log.begin(&run) else { return };
    println!("\nruns 1");
    let PointData { point, trials } = &points[0];
    let key = point.key(run.uuid);
    let Ok(_) = log.add_point(run.uuid, &Point { result: None, ..point.clone() }) else { return };
    for (n, trial) in trials.iter().take(3).enumerate() {
        if log.append_trial(key, trial).is_ok() {
            println!("\ntrials {}", n + 1);
        }
    }
    if log.finish_run(run.uuid, RunState::Complete, "2026-03-01T11:00:00Z").is_ok() {
        println!("\nended 1");
    }
}

#[test]
fn nothing_that_was_reported_is_missing_wherever_the_end_came() {
    let writer = Writer { test: "store::sqlite::tests::writer_that_fails", lasts: 1 };
    // A file with its tables is there: making one is SQLite's business, and takes the most changes.
    let prepare = |folder: &Path| drop(SqliteArchive::open(&folder.join("records.db")).unwrap());
    for fault in Fault::ALL {
        let changes = faults::at_each_change(writer, fault, prepare, |at, folder, said| {
            let most = |what: &str| {
                let numbers =
                    said.iter().filter_map(|line| line.strip_prefix(what)?.trim().parse::<usize>().ok());
                numbers.max().unwrap_or(0)
            };
            let archive = SqliteArchive::open(&folder.join("records.db")).unwrap();
            let runs = archive.runs().unwrap();
            let trials = match runs.first() {
                Some(run) => read(&archive, run.id).points.iter().map(|point| point.trials.len()).sum(),
                None => 0,
            };
            let ended = runs.iter().filter(|run| run.state == RunState::Complete).count();
            let stored = [runs.len(), trials, ended];
            let reported = ["runs ", "trials ", "ended "].map(most);
            // An error of a trial leaves that one out.
            let reported =
                if fault.kills() { reported } else { [reported[0], reported[1].min(1), reported[2]] };
            assert!(
                stored.iter().zip(reported).all(|(stored, reported)| *stored >= reported),
                "{fault:?} at {at}: reported {reported:?}, stored {stored:?}"
            );
            assert_eq!(archive.damaged(), Vec::<String>::new(), "{fault:?} at {at}");
        });
        assert!(changes > 8, "{fault:?}: {changes}");
    }
}
