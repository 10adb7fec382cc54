//! The process dies, the power or the room of the disk ends, at each change of a file: what was reported as stored is there
//! afterwards, in order, and what was reported as failed is not.

use std::fs;
use std::path::Path;

use weir_disk::faults::{self, Fault, Writer};

use super::*;

/// Groups of records, which are written one after the other.
const GROUPS: [&str; 5] = [
    "subscriber anna mac 02:00:00:00:00:01 plan basic
     subscriber ben line access1:7 plan basic",
    "lease 3 anna access1 02:00:00:00:00:01 100.64.0.2 start 7 granted 1789999990 for 3600 counted 0 0 0 0
     counters 3 counted 1 1 1 1",
    "end 3 anna 100.64.0.2 released counted 2 2 2 2
     lease 6 ben access1:7 02:00:00:00:00:02 100.64.0.2 start 7 granted 1789999990 for 3600 counted 0 0 0 0",
    "lease 7 anna access1 02:00:00:00:00:01 100.64.0.3 start 8 granted 1789999990 for 3600 counted 0 0 0 0
     declined 100.64.0.4 ben until 1790000100",
    "counters 6 counted 3 4 5 6
     removed anna",
];

/// A file has room for two groups.
const TIGHT: Options = Options { segment_bytes: 420, ..OPTIONS };

fn groups() -> Vec<Vec<Record>> {
    let all = records(&GROUPS.join("\n"));
    all.chunks(2).map(<[Record]>::to_vec).collect()
}

/// Writes one group after the other behind those that are there, and says what became of each record.
#[test]
fn writer() {
    let Some(folder) = faults::folder() else { return };
    // Ends the line of the test's name.
    println!();
    let (mut store, found) = match Store::open(&folder, TIGHT) {
        Ok(opened) => opened,
        Err(error) => return println!("not opened: {error}"),
    };
    let last = found.first().map_or(0, |record| record.revision);
    for group in groups().into_iter().filter(|group| group[0].revision > last) {
        let revision = group[1].revision;
        group.into_iter().for_each(|record| store.append(record));
        while !is_settled(&mut store, revision) {}
    }
    match store.close() {
        Ok(()) => println!("closed"),
        Err(error) => println!("not closed: {error}"),
    }
}

/// Waits for reports, and says them; whether it is known what became of all records up to this one.
fn is_settled(store: &mut Store, revision: u64) -> bool {
    let say = |report| match report {
        Report::Stored { revision: stored } => {
            println!("stored {stored}");
            stored == revision
        }
        Report::Failed(error) => {
            println!("failed {revision}: {error}");
            true
        }
        Report::NotFilled(error) => {
            println!("not filled: {error}");
            false
        }
    };
    wait(store).into_iter().map(say).fold(false, |is_settled, is_it| is_settled | is_it)
}

/// What the database has is the state up to the record that it names.
fn check_database(folder: &Path, all: &[Record]) {
    let Ok(db) = rusqlite::Connection::open(folder.join("bng.db")) else { return };
    // Before its schema is made there is nothing to see.
    let Ok(filled) = db.query_row("SELECT revision FROM filled", (), |row| row.get::<_, i64>(0)) else {
        return;
    };
    let up_to: Vec<&Record> = all.iter().filter(|record| record.revision <= filled.unsigned_abs()).collect();
    let mut statement =
        db.prepare("SELECT id || ' ' || subscriber FROM sessions ORDER BY id").expect("a table");
    let rows = statement.query_map((), |row| row.get::<_, String>(0)).expect("rows");
    let sessions: Vec<String> = rows.map(|row| row.expect("a row")).collect();
    let state = state(up_to);
    let mut expected: Vec<String> = state
        .iter()
        .filter_map(|line| line.strip_prefix("lease "))
        .map(|line| line.split(' ').take(2).collect::<Vec<_>>().join(" "))
        .collect();
    expected.sort();
    assert_eq!(sessions, expected, "up to record {filled}");
}

/// Records that were reported as stored, and all behind the last of them.
fn sorted(said: &[String], stored_before: u64) -> (Vec<Record>, Vec<Record>) {
    let (mut certain, mut others): (Vec<Record>, Vec<Record>) =
        groups().concat().into_iter().partition(|record| record.revision <= stored_before);
    let mut failed = 0;
    for line in said {
        let mut words = line.split([' ', ':']);
        match (words.next(), words.next().and_then(|word| word.parse().ok())) {
            (Some("stored"), Some(stored)) => {
                let known = others.extract_if(.., |record| record.revision <= stored);
                certain.extend(known.filter(|record| record.revision > failed));
            }
            (Some("failed"), Some(revision)) => failed = revision,
            _ => {}
        }
    }
    (certain, others)
}

fn check(at: u32, folder: &Path, said: &[String], stored_before: u64, context: &str) {
    let context = format!("{context} at {at}: {said:#?}");
    let (certain, mut others) = sorted(said, stored_before);
    // Of a write that failed, some may be there if the disk failed until the end.
    if said.iter().any(|line| line == "closed") {
        others.clear();
    }
    let all: Vec<Record> = certain.iter().chain(&others).cloned().collect();
    check_database(folder, &all);
    let (store, found) = open_or_panic(folder, &context);
    let found = state(&found);
    let mut may_be = (certain.len()..=all.len()).map(|count| state(&all[..count]));
    assert!(may_be.any(|state| state == found), "{context}\n{found:#?}");
    drop(store);
    let (_, again) = open_or_panic(folder, &context);
    assert_eq!(state(&again), found, "{context}");
}

fn open_or_panic(folder: &Path, context: &str) -> (Store, Vec<Record>) {
    open_with(folder, TIGHT).unwrap_or_else(|error| panic!("{context}: {error}"))
}

/// A folder in which the first groups are in the log, and not in the database.
fn unfilled(count: usize) -> Folder {
    let (folder, copy) = (Folder::new(), Folder::new());
    let (mut store, _) = open_with(&folder, Options { fill_every: PATIENCE, ..TIGHT }).expect("a store");
    for group in groups().into_iter().take(count) {
        let revision = group[1].revision;
        group.into_iter().for_each(|record| store.append(record));
        wait_for(&mut store, revision);
    }
    copy_files(&folder, &copy);
    copy
}

fn copy_files(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).expect("a folder") {
        let path = entry.expect("an entry").path();
        fs::copy(&path, to.join(path.file_name().expect("a name"))).expect("a copy");
    }
}

/// A folder without a store, and one with three groups in its log.
const STORED: [u64; 2] = [0, 6];

fn at_each_change(fault: Fault, lasts: u32, stored: &[u64]) {
    let writer = Writer { test: "store::faults::writer", lasts };
    for &stored in stored {
        let before = (stored > 0).then(|| unfilled(stored as usize / 2));
        let context = format!("{fault:?} for {lasts}, {stored} records before");
        let prepare = |folder: &Path| before.iter().for_each(|before| copy_files(before, folder));
        let changes = faults::at_each_change(writer, fault, prepare, |at, folder, said| {
            check(at, folder, said, stored, &context);
        });
        assert!(changes > 20, "{context}: {changes}");
        println!("{context}: {changes} changes");
    }
}

#[test]
fn what_was_stored_outlives_a_killed_process() {
    at_each_change(Fault::Kill, 1, &STORED);
}

#[test]
fn what_was_stored_outlives_a_power_failure() {
    at_each_change(Fault::Power, 1, &STORED);
}

#[test]
fn writes_that_are_cut_short_change_nothing() {
    at_each_change(Fault::Short, 1, &STORED[1..]);
}

#[test]
fn a_full_disk_loses_only_what_is_reported() {
    at_each_change(Fault::Full, u32::MAX, &STORED[..1]);
    at_each_change(Fault::Full, 2, &STORED[1..]);
}

#[test]
fn a_disk_that_fails_loses_only_what_is_reported() {
    at_each_change(Fault::Io, 1, &STORED[1..]);
    at_each_change(Fault::Io, 3, &STORED[1..]);
}

#[test]
fn a_file_system_that_becomes_read_only_loses_only_what_is_reported() {
    at_each_change(Fault::ReadOnly, u32::MAX, &STORED[1..]);
}
