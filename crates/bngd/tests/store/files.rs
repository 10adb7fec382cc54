//! Files of the log and the database that are torn, damaged, missing, or of another program.

use std::fs;
use std::path::{Path, PathBuf};

use super::*;

const LINES: &str = "subscriber anna mac 02:00:00:00:00:01 plan basic
    lease 2 anna access1 02:00:00:00:00:01 100.64.0.2 start 7 granted 9 for 3600 counted 0 0 0 0
    counters 2 counted 1 1 1 1
    subscriber ben line access1:7 plan basic
    lease 5 ben access1:7 02:00:00:00:00:02 100.64.0.3 start 7 granted 9 for 3600 counted 0 0 0 0
    end 2 anna 100.64.0.2 released counted 2 2 2 2";

/// Files of a log with a group for each record, and an empty database.
struct Log {
    folder: Folder,
    records: Vec<Record>,
}

fn segments(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let mut found: Vec<_> =
        entries.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("log-")).collect();
    found.sort();
    found
}

impl Log {
    /// The store is never filled into its database while this writes, and is not closed.
    fn new(options: Options) -> Log {
        let folder = Folder::new();
        let records = records(LINES);
        let copy = Folder::new();
        let options = Options { fill_every: PATIENCE, ..options };
        let (mut store, _) = open_with(&folder, options).expect("a store");
        for record in &records {
            store.append(record.clone());
            wait_for(&mut store, record.revision);
        }
        for entry in fs::read_dir(&*folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            fs::copy(&path, copy.join(path.file_name().unwrap())).expect("a copy");
        }
        Log { folder: copy, records }
    }

    /// A copy in which one file has other bytes.
    fn with(&self, path: &Path, bytes: &[u8]) -> Folder {
        let copy = Folder::new();
        for entry in fs::read_dir(&*self.folder).expect("a folder") {
            let from = entry.expect("an entry").path();
            fs::copy(&from, copy.join(from.file_name().unwrap())).expect("a copy");
        }
        fs::write(copy.join(path.file_name().unwrap()), bytes).expect("a file");
        copy
    }
}

/// The message, with the folder left out.
fn refused(folder: &Path) -> String {
    let error = open_with(folder, OPTIONS).expect_err("it is refused").to_string();
    error.replace(&format!("{}/", folder.display()), "")
}

#[test]
fn a_log_that_is_torn_has_the_records_before() {
    let log = Log::new(OPTIONS);
    let [path] = &segments(&log.folder)[..] else { panic!("one file") };
    let whole = fs::read(path).unwrap();
    let used = whole.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    let mut counts = Vec::new();
    // Cut short, zeros in place of the rest, and other bytes there; each byte is tried in `frame.rs`.
    for rest in [None, Some(0u8), Some(0xf5)] {
        for length in (0..used).step_by(97).chain([used]) {
            let mut bytes = whole[..length].to_vec();
            bytes.resize(rest.map_or(length, |_| whole.len()), rest.unwrap_or(0));
            let copy = log.with(path, &bytes);
            let (_store, found) = open(&copy);
            let count = found.first().map_or(0, |record| record.revision as usize);
            assert_eq!(state(&found), state(&log.records[..count]), "{length} bytes, then {rest:?}");
            counts.push(count);
        }
    }
    assert_eq!((counts.iter().min(), counts.iter().filter(|count| **count == 6).count()), (Some(&0), 3));
}

#[test]
fn a_damaged_record_before_others_is_refused() {
    let log = Log::new(OPTIONS);
    let [path] = &segments(&log.folder)[..] else { panic!("one file") };
    let whole = fs::read(path).unwrap();
    let last = whole.windows(4).rposition(|bytes| bytes == b"\xf5wr\n").unwrap();
    for at in (0..last).step_by(97) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        let text = refused(&log.with(path, &bytes));
        assert!(text.starts_with("the log log-0000000001 is damaged at byte "), "{at}: {text}");
        let offset: usize = text.split_whitespace().nth(7).unwrap().trim_end_matches(':').parse().unwrap();
        assert!(offset <= at, "{at}: {text}");
    }
    let mut bytes = whole.clone();
    bytes[last - 1] ^= 1;
    weir_testkit::golden!("tests/store/damaged.txt", &refused(&log.with(path, &bytes)));
}

#[test]
fn a_missing_file_of_the_log_is_refused() {
    let log = Log::new(Options { segment_bytes: 1, ..OPTIONS });
    let found = segments(&log.folder);
    assert_eq!(found.len(), 6);
    for path in &found[..5] {
        let copy = log.with(path, b"");
        fs::remove_file(copy.join(path.file_name().unwrap())).unwrap();
        let text = refused(&copy);
        assert!(text.contains("are missing before the log log-"), "{text}");
    }
    let copy = log.with(&found[2], &fs::read(&found[1]).unwrap());
    let text = refused(&copy);
    assert!(text.contains("it is segment 3, renamed"), "{text}");
    let (_store, records) = open(&log.folder);
    assert_eq!(state(&records), state(&log.records));
}

#[test]
fn files_of_the_log_are_deleted_after_the_database_has_them() {
    let folder = Folder::new();
    let (mut store, _) = open_with(&folder, Options { fill_every: PATIENCE, ..OPTIONS }).expect("a store");
    for record in records(&"subscriber anna mac 02:00:00:00:00:01 plan basic\n".repeat(60)) {
        let revision = record.revision;
        store.append(record);
        wait_for(&mut store, revision);
    }
    assert_eq!(segments(&folder).len(), 3);
    store.close().expect("all is written");
    let db = rusqlite::Connection::open(folder.join("bng.db")).expect("a database");
    let filled: i64 = db.query_row("SELECT revision FROM filled", (), |row| row.get(0)).expect("one row");
    assert_eq!((segments(&folder).len(), filled), (1, 60));
}

#[test]
fn a_group_that_is_larger_than_a_file_has_a_file_of_its_own() {
    let folder = Folder::new();
    let options = Options { segment_bytes: 100, gather: Duration::from_millis(1), ..OPTIONS };
    let (mut store, _) = open_with(&folder, options).expect("a store");
    let all = records(&"subscriber anna mac 02:00:00:00:00:01 plan basic\n".repeat(10_000));
    all.iter().cloned().for_each(|record| store.append(record));
    wait_for(&mut store, 10_000);
    store.close().expect("all is written");
    assert_eq!(segments(&folder).len(), 1);
    let (_store, found) = open(&folder);
    assert_eq!(found.first().map(|record| record.revision), Some(10_000));
}

#[test]
fn a_database_of_another_program_or_version_is_refused() {
    let folder = Folder::new();
    drop(open(&folder));
    let db = rusqlite::Connection::open(folder.join("bng.db")).expect("a database");
    let known: i64 = db.query_row("PRAGMA user_version", (), |row| row.get(0)).expect("a version");
    let mut messages = Vec::new();
    for statement in
        ["PRAGMA user_version = 99", "PRAGMA user_version = 1; PRAGMA application_id = 7", "VACUUM"]
    {
        db.execute_batch(statement).expect("it is changed");
        messages.push(refused(&folder));
    }
    drop(db);
    fs::write(folder.join("bng.db"), vec![7; 8192]).expect("a file");
    messages.push(refused(&folder));
    let expected = "bng.db is no database of a BNG, or is damaged: restore it from a copy";
    let newer = format!("bng.db has version 99, this program reads versions up to {known}: use a newer weir");
    assert_eq!(messages, [&*newer, expected, expected, expected]);
}
