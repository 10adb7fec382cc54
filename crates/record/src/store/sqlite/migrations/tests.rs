use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use weir_disk::faults::{self, Fault, Writer};
use weir_testkit::Folder;

use super::MIGRATIONS;
use crate::record::{Capture, Detection, Point, Purpose, Trial};
use crate::run_data::{PointData, RunData};
use crate::store::sqlite::tests::read;
use crate::store::{Archive, RunLog, SqliteArchive};

/// Files of former versions, from their dumps: each with its format, and the plans of its runs.
const FORMER: [(i64, &str, &[&str]); 2] = [
    (1, include_str!("../../../../tests/data/records-0.1.0.sql"), &["a", "capture", "peers-detect"]),
    (4, include_str!("../../../../tests/data/records-4.sql"), &["sleep", "quick", "quick"]),
];
const OF_0_1_0: &str = FORMER[0].1;

/// A file from its dump, changed by this.
fn file(folder: &Path, dump: &str, change: &str) -> PathBuf {
    let path = folder.join("records.db");
    let db = Connection::open(&path).unwrap();
    db.pragma_update(None, "foreign_keys", false).unwrap();
    db.execute_batch(dump).unwrap();
    db.execute_batch(change).unwrap();
    path
}

fn format(path: &Path) -> i64 {
    let db = Connection::open(path).unwrap();
    db.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
}

/// All that is in an archive.
fn all(archive: &dyn Archive) -> Vec<RunData> {
    let all = archive.runs().unwrap().iter().map(|run| archive.run_data(run.uuid).unwrap()).collect();
    assert_eq!(archive.damaged(), Vec::<String>::new());
    all
}

/// The same with the UUIDs of others: runs of format 1 get random ones.
fn with_uuids_of(data: &[RunData], others: &[RunData]) -> Vec<RunData> {
    let mut data = data.to_vec();
    data.iter_mut().zip(others).for_each(|(own, other)| own.run.uuid = other.run.uuid);
    data
}

#[test]
fn files_of_former_versions_are_read_whole_and_brought_up_to_date_once() {
    for (known, dump, plans) in FORMER {
        let folder = Folder::new();
        let path = file(&folder, dump, "");
        let count = |path: &Path| {
            let db = Connection::open(path).unwrap();
            ["runs", "points", "trials"].map(|table| {
                let rows = format!("SELECT count(*), sum(id), max(id) FROM {table}");
                db.query_row(&rows, (), |row| Ok([0, 1, 2].map(|i| row.get::<_, i64>(i).unwrap()))).unwrap()
            })
        };
        let (before, rows) = (std::fs::read(&path).unwrap(), count(&path));
        let in_memory = all(&SqliteArchive::open_to_read(&path).unwrap());
        assert_eq!((std::fs::read(&path).unwrap() == before, format(&path)), (true, known), "a reader");

        let data = all(RunLog::open(&path).unwrap().archive());
        assert_eq!(format(&path), MIGRATIONS.len() as i64);
        assert_eq!(data.iter().map(|data| data.run.plan.as_str()).collect::<Vec<_>>(), plans);
        assert_eq!(with_uuids_of(&in_memory, &data), data);
        assert_eq!(count(&path), rows, "records and their numbers");
        assert_eq!(all(&SqliteArchive::open(&path).unwrap()), data, "once");
        let orphans = "SELECT count(*) FROM pragma_foreign_key_check";
        let db = Connection::open(&path).unwrap();
        assert_eq!(db.query_row(orphans, (), |row| row.get::<_, i64>(0)).unwrap(), 0);
        let uuids: BTreeSet<_> = data.iter().map(|data| data.run.uuid).collect();
        assert_eq!(uuids.len(), data.len(), "each has one of its own");

        // Numbers go on.
        let log = RunLog::open(&path).unwrap();
        let (run, last) = (data[0].run.uuid, data[0].points.last().unwrap());
        let added = log.add_point(run, &Point { index: 99, result: None, ..last.point.clone() }).unwrap();
        assert_eq!(added, rows[1][2] + 1);
    }
}

#[test]
fn details_of_0_1_0_are_read() {
    let folder = Folder::new();
    let data = all(&SqliteArchive::open(&file(&folder, OF_0_1_0, "")).unwrap());
    for uuid in data.iter().map(|data| data.run.uuid.to_string()) {
        let uuid = uuid::Uuid::parse_str(&uuid).unwrap();
        assert_eq!((uuid.get_version_num(), uuid.get_variant()), (4, uuid::Variant::RFC4122));
    }
    let trials =
        |data: &RunData| data.points.iter().flat_map(|point| point.trials.clone()).collect::<Vec<Trial>>();
    assert!(
        trials(&data[0]).iter().any(|trial| trial.counts().sent > 0 && trial.purpose == Purpose::Procedure)
    );
    assert!(trials(&data[1]).iter().all(|trial| trial.detail::<Capture>().is_some()));
    assert!(trials(&data[2]).iter().all(|trial| trial.detail::<Detection>().is_some()));
}

#[test]
fn what_0_1_0_kept_as_0_frames_is_nothing_known_of_frames() {
    let folder = Folder::new();
    // A rig without frames, and a trial with frames of which none left.
    let sleep = "
        INSERT INTO points (run_id, idx, dut, frame, frame_bytes_mean, line_fps, rest)
            SELECT 3, 7, 'sleep', '', 0.0, NULL, rest FROM points WHERE id = 1;
        INSERT INTO trials (point_id, idx, purpose, started, duration_s, offered_fps, offered, sent, received, lost, unexplained,
                verdict, rest)
            SELECT p.id, n, 'procedure', 'now', 1.0, 1000.0 * n, 0, 0, 0, 0, 0, 'valid', t.rest
            FROM points p, trials t, (SELECT 0 AS n UNION SELECT 1) WHERE p.dut = 'sleep' AND t.id = 28;";
    let path = file(&folder, OF_0_1_0, sleep);
    let counts = "SELECT id, offered_fps, offered, sent, received, lost, unexplained FROM trials WHERE offered_fps > 0";
    let counted = || {
        let db = Connection::open(&path).unwrap();
        let mut rows = db.prepare(counts).unwrap();
        let row = |row: &rusqlite::Row<'_>| {
            (0..7).map(|i| row.get::<_, rusqlite::types::Value>(i)).collect::<Result<Vec<_>, _>>()
        };
        rows.query_map((), row).unwrap().collect::<Result<Vec<_>, _>>().unwrap()
    };
    let before = counted();
    let archive = SqliteArchive::open(&path).unwrap();
    assert_eq!(counted(), before);
    let data = read(&archive, 3);
    let sleep = data.points.last().unwrap();
    let size = |point: &PointData| (point.point.frame.clone(), point.point.frame_bytes_mean);
    assert_eq!((size(sleep), size(&data.points[0])), ((String::new(), 0.0), ("64".into(), 64.0)));
    let frames: Vec<_> =
        sleep.trials.iter().map(|trial| trial.frames.map(|counts| counts.offered_fps)).collect();
    assert_eq!(frames, [None, Some(1000.0)]);
}

#[test]
fn words_of_0_1_0_become_those_of_today() {
    let folder = Folder::new();
    // A receiver that was measured at the wire, and rows that cannot be read.
    let path = file(
        &folder,
        OF_0_1_0,
        "INSERT INTO points (run_id, idx, dut, frame, frame_bytes_mean, rest)
             SELECT 2, 7, dut, frame, frame_bytes_mean, json_set(rest, '$.settings', json('[[\"measures\", \"receiver\"]]'))
             FROM points WHERE id = 1;
         UPDATE trials SET point_id = (SELECT max(id) FROM points) WHERE id = 3;
         UPDATE points SET rest = 'no json', dut = 'wire' WHERE id = 5;
         UPDATE trials SET rest = 'no json' WHERE id = 4;",
    );
    let archive = SqliteArchive::open(&path).unwrap();
    let full = |run, dut: &str| {
        let data = read(&archive, run);
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
    let wire = &read(&archive, 1).points[0].trials;
    assert_eq!(
        (wire[0].drop_counters[0].name.as_str(), wire[0].drop_counters[0].frames),
        ("tester ring full", 1472)
    );
    let old = "SELECT count(*) FROM trials WHERE json_valid(rest) AND rest -> '$.ledger' IS NOT NULL";
    let db = Connection::open(&path).unwrap();
    assert_eq!(db.query_row(old, (), |row| row.get::<_, i64>(0)).unwrap(), 0);
}

/// Shards that were merged into the file of the first had its UUID; runs of other machines may have had none.
#[test]
fn each_run_of_format_4_has_a_uuid_of_its_own_afterwards() {
    const KEPT: &str = "0b8a4c5e-6f1d-4c3a-9a57-2f0e8d1c7b66";
    let (_, dump, _) = FORMER[1];
    for (second, third) in [(KEPT, ""), (KEPT, KEPT), ("nobody", "0B8A4C5E-6F1D-4C3A-9A57-2F0E8D1C7B66")] {
        let folder = Folder::new();
        let change: String = [(1, KEPT), (2, second), (3, third)]
            .map(|(id, uuid)| {
                format!("UPDATE runs SET rest = json_set(rest, '$.uuid', '{uuid}') WHERE id = {id};")
            })
            .concat();
        let data = all(&SqliteArchive::open(&file(&folder, dump, &change)).unwrap());
        let uuids: BTreeSet<_> = data.iter().map(|data| data.run.uuid).collect();
        assert_eq!((uuids.len(), data[0].run.uuid.to_string().as_str()), (3, KEPT), "{second} {third}");
        assert!(data.iter().all(|data| !data.points[0].trials.is_empty()));
    }
    let folder = Folder::new();
    let unreadable = "UPDATE runs SET rest = 'no json' WHERE id = 2";
    let archive = SqliteArchive::open(&file(&folder, dump, unreadable)).unwrap();
    assert_eq!(archive.runs().unwrap().len(), 2);
    assert!(archive.damaged()[0].contains("record 2 of table runs"));
}

/// The other half of the next test, in a separate process.
#[test]
fn migration_that_fails() {
    let Some(folder) = faults::folder() else { return };
    if RunLog::open(&folder.join("records.db")).is_ok() {
        println!("\nmigrated");
    }
}

#[test]
fn wherever_the_end_comes_a_file_is_the_former_or_the_new_one() {
    let writer = Writer { test: "store::sqlite::migrations::tests::migration_that_fails", lasts: 1 };
    let (former, dump, _) = FORMER[1];
    let source = Folder::new();
    let prepared = file(&source, dump, "PRAGMA journal_mode = WAL");
    let whole = all(&SqliteArchive::open_to_read(&prepared).unwrap());
    let prepare = |folder: &Path| {
        std::fs::copy(&prepared, folder.join("records.db")).unwrap();
    };
    for fault in Fault::ALL {
        let changes = faults::at_each_change(writer, fault, prepare, |at, folder, said| {
            let path = folder.join("records.db");
            let found = format(&path);
            let is_new = found == MIGRATIONS.len() as i64;
            assert!(is_new || found == former, "{fault:?} at {at}: {found}");
            assert!(is_new || !said.iter().any(|line| line == "migrated"), "{fault:?} at {at}");
            assert_eq!(all(&SqliteArchive::open_to_read(&path).unwrap()), whole, "{fault:?} at {at}");
            assert_eq!(all(&SqliteArchive::open(&path).unwrap()), whole, "{fault:?} at {at}");
        });
        assert!(changes > 8, "{fault:?}: {changes}");
    }
}
