use weir_disk::faults::{self, Fault, Writer};

use super::*;
use crate::fixture;
use crate::record::{Capture, Detection, Purpose};
use crate::run_data::{PointData, RunData};
use crate::store::tests::{running, write};
use weir_testkit::Folder;

/// Where records are in a folder.
const FILE: &str = "a/b/records.db";

#[test]
fn another_process_reads_what_was_written() {
    let dir = Folder::new();
    let mut data = running();
    write(&SqliteStore::open(&dir.join(FILE)).unwrap(), &mut data);
    assert_eq!(SqliteStore::open(&dir.join(FILE)).unwrap().run_data(1).unwrap(), data);
}

#[test]
fn numbers_beyond_sqlites_integers_are_refused() {
    let dir = Folder::new();
    let store = SqliteStore::open(&dir.join(FILE)).unwrap();
    let mut data = running();
    write(&store, &mut data);
    let trial = Trial { index: 500, ..data.points[0].trials[0].clone() }.counting(|c| c.lost = u64::MAX);
    assert!(store.append_trial(&trial).is_err());
}

#[test]
fn people_can_query_it() {
    let dir = Folder::new();
    let store = SqliteStore::open(&dir.join(FILE)).unwrap();
    write(&store, &mut running());
    let sql = "SELECT count(*), sum(lost), max(offered_fps) FROM trials JOIN points ON points.id = point_id
               WHERE dut = 'kernel-forward' AND frame = '64' AND verdict = 'valid' AND purpose = 'curve'";
    let (n, lost, most): (i64, i64, f64) =
        store.db.query_row(sql, (), |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?))).unwrap();
    let data = fixture::quick();
    let point = data.points.iter().find(|p| p.point.dut == "kernel-forward").unwrap();
    let curve = || point.valid().filter(|t| t.purpose == crate::record::Purpose::Curve);
    assert_eq!(n, curve().count() as i64);
    assert_eq!(lost as u64, curve().map(|t| t.counts().lost).sum::<u64>());
    assert_eq!(most, curve().map(|t| t.counts().offered_fps).fold(0.0, f64::max));
    // Half a row of counts would read as none.
    let half = store.db.execute("UPDATE trials SET sent = NULL WHERE id = 1", ());
    assert!(half.is_err(), "{half:?}");
}

#[test]
fn a_crash_keeps_finished_trials_and_the_next_process_appends() {
    let dir = Folder::new();
    let mut data = running();
    let killed = SqliteStore::open(&dir.join(FILE)).unwrap();
    write(&killed, &mut data);
    // Never closed: the write-ahead log stays as a killed process leaves it.
    std::mem::forget(killed);

    let store = SqliteStore::open(&dir.join(FILE)).unwrap();
    assert_eq!(store.run(1).unwrap().state, RunState::Running);
    store.mark_interrupted(1).unwrap();
    data.run.state = RunState::Interrupted;
    assert_eq!(store.run_data(1).unwrap(), data);
    assert!(matches!(
        store.finish_run(1, RunState::Complete, "2026-03-01T11:00:00Z"),
        Err(StoreError::Ended { id: 1, state: RunState::Interrupted, .. })
    ));
    assert_eq!(store.begin_run(&data.run).unwrap(), 2);
}

#[test]
fn newer_and_foreign_files_are_refused_and_left_alone() {
    let dir = Folder::new();
    drop(SqliteStore::open(&dir.join(FILE)).unwrap());
    let db = Connection::open(dir.join(FILE)).unwrap();
    db.pragma_update(None, "user_version", 99).unwrap();
    let newer = SqliteStore::open(&dir.join(FILE)).unwrap_err();
    assert!(matches!(newer, StoreError::Newer { found: 99, .. }));
    assert!(newer.to_string().contains("use a newer weir"), "{newer}");

    let other = dir.join("other.db");
    Connection::open(&other).unwrap().execute_batch("CREATE TABLE mail (id INTEGER)").unwrap();
    assert!(matches!(SqliteStore::open(&other), Err(StoreError::Foreign { .. })));
    let text = dir.join("notes.txt");
    std::fs::write(&text, "this is no database, and long enough to be looked at by SQLite".repeat(99))
        .unwrap();
    assert!(matches!(SqliteStore::open(&text), Err(StoreError::Foreign { .. })));
    let under_a_file = SqliteStore::open(&text.join("records.db"));
    assert!(matches!(under_a_file, Err(StoreError::Directory { .. })));
}

#[test]
fn a_locked_file_is_waited_for_and_then_named() {
    let dir = Folder::new();
    let store = SqliteStore::open_waiting(&dir.join(FILE), Duration::from_millis(50)).unwrap();
    let other = Connection::open(dir.join(FILE)).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = store.begin_run(&fixture::run(1)).unwrap_err();
    assert!(matches!(error, StoreError::Locked { .. }), "{error}");
    assert!(error.to_string().contains("records.db is locked by another process for more than 0.05 s"));
    assert!(store.runs().unwrap().is_empty(), "reading goes on");
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(store.begin_run(&fixture::run(1)).unwrap(), 1);
}

#[test]
fn several_processes_may_open_a_new_file_at_once() {
    let dir = Folder::new();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| SqliteStore::open(&dir.join(FILE)).unwrap().begin_run(&fixture::run(1)).unwrap());
        }
    });
    assert_eq!(SqliteStore::open(&dir.join(FILE)).unwrap().runs().unwrap().len(), 8);
}

#[test]
fn a_full_disk_is_named_and_keeps_what_is_there() {
    let dir = Folder::new();
    let store = SqliteStore::open(&dir.join(FILE)).unwrap();
    let mut data = running();
    write(&store, &mut data);
    store.db.pragma_update(None, "max_page_count", 1).unwrap();
    let fill = (0..10_000).find_map(|_| store.begin_run(&data.run).err()).unwrap();
    assert!(matches!(fill, StoreError::Full { .. }), "{fill}");
    assert_eq!(store.run_data(1).unwrap(), data);
}

#[test]
fn a_row_that_cannot_be_read_hides_nothing_but_itself() {
    let dir = Folder::new();
    let store = SqliteStore::open(&dir.join(FILE)).unwrap();
    let mut all = [running(), running(), running()];
    all.iter_mut().for_each(|data| write(&store, data));
    let db = Connection::open(dir.join(FILE)).unwrap();
    let trial = all[2].points[0].trials[1].id;
    db.execute("UPDATE runs SET rest = 'no json' WHERE id = 2", ()).unwrap();
    db.execute("UPDATE trials SET rest = '{}' WHERE id = ?1", [trial]).unwrap();
    let ids: Vec<i64> = store.runs().unwrap().iter().map(|run| run.id).collect();
    assert_eq!(ids, [1, 3]);
    assert!(store.damaged()[0].contains("record 2 of table runs"));
    assert_eq!((store.run_data(1).unwrap(), store.damaged()), (all[0].clone(), vec![]));
    let trials = store.run_data(3).unwrap().points[0].trials.len();
    assert_eq!(trials, all[2].points[0].trials.len() - 1);
    assert!(store.damaged()[0].contains(&format!("record {trial} of table trials")));
    assert!(matches!(store.run_data(2), Err(StoreError::Damaged { id: 2, .. })));
    assert_eq!(store.begin_run(&all[0].run).unwrap(), 4, "it can still be written to");
}

/// No name is a URI or a place in memory, and nothing is written where records are only read.
#[test]
fn names_are_names_of_files() {
    let dir = Folder::new();
    for name in ["file:e.db", "file:e.db?mode=memory", "e.db?immutable=1", "a%20b"] {
        let path = dir.join(name);
        write(&SqliteStore::open(&path).unwrap(), &mut running());
        assert!(path.is_file(), "{name}");
        assert_eq!(SqliteStore::open_to_read(&path).unwrap().runs().unwrap().len(), 1, "{name}");
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
    for open in [SqliteStore::open, SqliteStore::open_existing, SqliteStore::open_to_read] {
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
    write(&SqliteStore::open(&path).unwrap(), &mut data);
    let before = std::fs::read(&path).unwrap();
    let store = SqliteStore::open_to_read(&path).unwrap();
    assert_eq!(store.run_data(1).unwrap(), data);
    let refused = store.begin_run(&data.run).unwrap_err();
    assert!(matches!(refused, StoreError::Access { .. }), "{refused}");
    drop(store);
    assert_eq!(std::fs::read(&path).unwrap(), before);
    let names = || std::fs::read_dir(&*dir).unwrap().count();
    assert_eq!(names(), 1, "no file stays beside it");

    // Records of an older version are brought up to date in memory.
    let old = dir.join("old.db");
    let dump = include_str!("../../../tests/data/records-0.1.0.sql");
    let db = Connection::open(&old).unwrap();
    db.execute_batch(dump).unwrap();
    drop(db);
    let before = std::fs::read(&old).unwrap();
    let runs = SqliteStore::open_to_read(&old).unwrap().runs().unwrap();
    assert_eq!((runs.len(), std::fs::read(&old).unwrap() == before), (3, true));
    assert_eq!(SqliteStore::open(&old).unwrap().runs().unwrap().len(), 3);

    let missing = dir.join("missing.db");
    assert!(matches!(SqliteStore::open_to_read(&missing), Err(StoreError::NoFile(_))));
    assert!(SqliteStore::empty(&missing).unwrap().runs().unwrap().is_empty() && !missing.exists());
}

#[test]
fn a_reader_sees_what_another_process_writes() {
    let dir = Folder::new();
    let writer = SqliteStore::open(&dir.join(FILE)).unwrap();
    let reader = SqliteStore::open_to_read(&dir.join(FILE)).unwrap();
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
    let refused = SqliteStore::open(&dir.join(FILE)).unwrap_err();
    assert!(matches!(refused, StoreError::Unsafe { .. }) && !elsewhere.exists(), "{refused}");
    std::fs::remove_file(dir.join(FILE)).unwrap();
    std::fs::write(&elsewhere, "").unwrap();
    std::fs::hard_link(&elsewhere, dir.join(FILE)).unwrap();
    assert!(matches!(SqliteStore::open(&dir.join(FILE)), Err(StoreError::Unsafe { .. })));
}

/// The other half of the next test, in a process of its own: says what was stored.
#[test]
fn writer_that_fails() {
    let Some(folder) = faults::folder() else { return };
    let Ok(store) = SqliteStore::open(&folder.join("records.db")) else { return };
    let data = fixture::quick();
    let Ok(run) = store.begin_run(&Run { state: RunState::Running, finished: None, ..data.run }) else {
        return;
    };
    println!("\nruns 1");
    let PointData { mut point, trials } = data.points[0].clone();
    (point.run_id, point.result) = (run, None);
    let Ok(point) = store.add_point(&point) else { return };
    for (n, mut trial) in trials.into_iter().take(3).enumerate() {
        trial.point_id = point;
        if store.append_trial(&trial).is_ok() {
            println!("\ntrials {}", n + 1);
        }
    }
    if store.finish_run(run, RunState::Complete, "2026-03-01T11:00:00Z").is_ok() {
        println!("\nended 1");
    }
}

#[test]
fn nothing_that_was_reported_is_missing_wherever_the_end_came() {
    let writer = Writer { test: "store::sqlite::tests::writer_that_fails", lasts: 1 };
    // A file with its tables is there: making one is SQLite's business, and takes the most changes.
    let prepare = |folder: &Path| drop(SqliteStore::open(&folder.join("records.db")).unwrap());
    for fault in Fault::ALL {
        let changes = faults::at_each_change(writer, fault, prepare, |at, folder, said| {
            let most = |what: &str| {
                let numbers =
                    said.iter().filter_map(|line| line.strip_prefix(what)?.trim().parse::<usize>().ok());
                numbers.max().unwrap_or(0)
            };
            let store = SqliteStore::open(&folder.join("records.db")).unwrap();
            let runs = store.runs().unwrap();
            let trials = match runs.first() {
                Some(run) => {
                    store.run_data(run.id).unwrap().points.iter().map(|point| point.trials.len()).sum()
                }
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
            assert_eq!(store.damaged(), Vec::<String>::new(), "{fault:?} at {at}");
        });
        assert!(changes > 8, "{fault:?}: {changes}");
    }
}

/// A file as version 0.1.0 wrote it, from its dump.
#[test]
fn records_of_0_1_0_are_read_whole() {
    let dir = Folder::new();
    std::fs::create_dir_all(dir.join(FILE).parent().unwrap()).unwrap();
    let dump = include_str!("../../../tests/data/records-0.1.0.sql");
    rusqlite::Connection::open(dir.join(FILE)).unwrap().execute_batch(dump).unwrap();
    let store = SqliteStore::open(&dir.join(FILE)).unwrap();
    let runs = store.runs().unwrap();
    let plans: Vec<_> = runs.iter().map(|run| run.plan.as_str()).collect();
    assert_eq!(plans, ["a", "capture", "peers-detect"]);
    let uuids: BTreeSet<_> = runs.iter().map(|run| uuid::Uuid::parse_str(&run.uuid).unwrap()).collect();
    assert_eq!(uuids.len(), 3, "each has one of its own");
    assert!(
        uuids.iter().all(|uuid| uuid.get_version_num() == 4 && uuid.get_variant() == uuid::Variant::RFC4122)
    );
    let data = [1, 2, 3].map(|id| store.run_data(id).unwrap());
    let trials =
        |data: &RunData| data.points.iter().flat_map(|point| point.trials.clone()).collect::<Vec<_>>();
    assert!(
        trials(&data[0]).iter().any(|trial| trial.counts().sent > 0 && trial.purpose == Purpose::Procedure)
    );
    assert!(trials(&data[1]).iter().all(|trial| trial.detail::<Capture>().is_some()));
    assert!(trials(&data[2]).iter().all(|trial| trial.detail::<Detection>().is_some()));
    assert!(store.damaged().is_empty(), "{:?}", store.damaged());
    drop(store);
    let again = SqliteStore::open(&dir.join(FILE)).unwrap();
    assert_eq!(again.runs().unwrap(), runs, "a file is brought up to date once");
}

#[test]
fn what_0_1_0_kept_as_0_frames_is_nothing_known_of_frames() {
    let dir = Folder::new();
    let path = dir.join("records.db");
    let db = Connection::open(&path).unwrap();
    db.execute_batch(include_str!("../../../tests/data/records-0.1.0.sql")).unwrap();
    let (points, trials) = (
        "run_id, idx, dut, frame, frame_bytes_mean, line_fps, rest",
        "point_id, idx, purpose, started, \
        duration_s, offered_fps, offered, sent, received, lost, unexplained, verdict, rest",
    );
    // A rig without frames, and a trial with frames of which none left.
    db.execute_batch(&format!(
        "INSERT INTO points ({points}) SELECT 3, 7, 'sleep', '', 0.0, NULL, rest FROM points WHERE id = 1;
         INSERT INTO trials ({trials}) SELECT p.id, n, 'procedure', 'now', 1.0, 1000.0 * n, 0, 0, 0, 0, 0, 'valid', t.rest
             FROM points p, trials t, (SELECT 0 AS n UNION SELECT 1) WHERE p.dut = 'sleep' AND t.id = 28;"
    ))
    .unwrap();
    let counts = "SELECT id, offered_fps, offered, sent, received, lost, unexplained FROM trials WHERE offered_fps > 0";
    let read = |db: &Connection| {
        let mut rows = db.prepare(counts).unwrap();
        let row = |row: &rusqlite::Row<'_>| {
            (0..7).map(|i| row.get::<_, rusqlite::types::Value>(i)).collect::<Result<Vec<_>, _>>()
        };
        rows.query_map((), row).unwrap().collect::<Result<Vec<_>, _>>().unwrap()
    };
    let before = read(&db);
    drop(db);
    let store = SqliteStore::open(&path).unwrap();
    assert_eq!(read(&store.db), before);
    let orphans: i64 =
        store.db.query_row("SELECT count(*) FROM pragma_foreign_key_check", (), |row| row.get(0)).unwrap();
    assert_eq!(
        (orphans, store.db.pragma_query_value(None, "foreign_keys", |row| row.get(0)).unwrap()),
        (0, 1)
    );
    let data = store.run_data(3).unwrap();
    let sleep = data.points.last().unwrap();
    let size = |point: &PointData| (point.point.frame.clone(), point.point.frame_bytes_mean);
    assert_eq!((size(sleep), size(&data.points[0])), ((String::new(), 0.0), ("64".into(), 64.0)));
    let frames: Vec<_> =
        sleep.trials.iter().map(|trial| trial.frames.map(|counts| counts.offered_fps)).collect();
    assert_eq!(frames, [None, Some(1000.0)]);
    let next = store.add_point(&Point { index: 8, ..sleep.point.clone() }).unwrap();
    assert_eq!(next, sleep.point.id + 1, "numbers go on");
}

#[test]
fn words_of_0_1_0_become_those_of_today() {
    let dir = Folder::new();
    let path = dir.join("records.db");
    let db = Connection::open(&path).unwrap();
    db.execute_batch(include_str!("../../../tests/data/records-0.1.0.sql")).unwrap();
    // A receiver that was measured at the wire.
    db.execute_batch(
        "INSERT INTO points (run_id, idx, dut, frame, frame_bytes_mean, rest)
             SELECT 2, 7, dut, frame, frame_bytes_mean, json_set(rest, '$.settings', json('[[\"measures\", \"receiver\"]]'))
             FROM points WHERE id = 1;
         UPDATE trials SET point_id = (SELECT max(id) FROM points) WHERE id = 3;
         UPDATE points SET rest = 'no json', dut = 'wire' WHERE id = 5;
         UPDATE trials SET rest = 'no json' WHERE id = 4;",
    )
    .unwrap();
    drop(db);
    let store = SqliteStore::open(&path).unwrap();
    let full = |run, dut: &str| {
        let data = store.run_data(run).unwrap();
        let point = data.points.iter().find(|point| point.point.dut == dut).unwrap().clone();
        point
            .trials
            .iter()
            .map(|trial| trial.purpose)
            .filter(|purpose| purpose.is_full_speed())
            .collect::<Vec<_>>()
    };
    assert_eq!(full(1, "wire"), [Purpose::Ceiling; 2]);
    assert_eq!(full(2, "recv"), [Purpose::FullSpeed]);
    assert_eq!(full(2, "wire"), [Purpose::FullSpeed]);
    let wire = &store.run_data(1).unwrap().points[0].trials;
    assert_eq!(
        (wire[0].drop_counters[0].name.as_str(), wire[0].drop_counters[0].frames),
        ("tester ring full", 1472)
    );
    let old = "SELECT count(*) FROM trials WHERE json_valid(rest) AND rest -> '$.ledger' IS NOT NULL";
    assert_eq!(store.db.query_row(old, (), |row| row.get::<_, i64>(0)).unwrap(), 0);
}
