//! The store: what was reported as stored is there after it is opened again.

mod faults;
mod files;
mod full;
mod model;
mod versions;

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use weir_bng::{Bng, Change, Config, Input, Now, Record, Unaccounted};
use weir_bngd::store::{Options, Report, Store, StoreError};
use weir_testkit::{Folder, PATIENCE};

/// Small files, and no pauses.
const OPTIONS: Options = Options {
    segment_bytes: 2048,
    gather: Duration::ZERO,
    fill_every: Duration::ZERO,
    retry_after: Duration::ZERO,
};

/// Waits until there are reports.
fn wait(store: &mut Store) -> Vec<Report> {
    let mut fds = [PollFd::new(&*store, PollFlags::IN)];
    let patience = Timespec::try_from(PATIENCE).expect("it fits");
    assert_eq!(poll(&mut fds, Some(&patience)), Ok(1), "no report has come");
    store.reports()
}

/// Waits until a record is on disk.
fn wait_for(store: &mut Store, revision: u64) {
    loop {
        for report in wait(store) {
            match report {
                Report::Stored { revision: stored } if stored == revision => return,
                Report::Stored { revision: stored } => assert!(stored < revision),
                other => panic!("{other:?}"),
            }
        }
    }
}

fn open(folder: &Path) -> (Store, Vec<Record>) {
    open_with(folder, OPTIONS).unwrap_or_else(|error| panic!("{error}"))
}

/// A process that another test has just started may still hold the lock of a store that was closed.
fn open_with(folder: &Path, options: Options) -> Result<(Store, Vec<Record>), StoreError> {
    let end = Instant::now() + PATIENCE;
    loop {
        match Store::open(folder, options) {
            Err(StoreError::InUse { .. }) if Instant::now() < end => std::thread::yield_now(),
            opened => return opened,
        }
    }
}

fn record(line: &str) -> Record {
    line.parse().unwrap_or_else(|error| panic!("{line}: {error}"))
}

/// A text of records, one a line, without version and revision.
fn records(text: &str) -> Vec<Record> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.zip(1..).map(|(line, revision)| record(&format!("1 {revision} {line}"))).collect()
}

/// The state that records lead to, one line for each thing in a fixed order.
fn state<'a>(records: impl IntoIterator<Item = &'a Record>) -> Vec<String> {
    let text = "port access1 mac 02:00:00:00:00:fe, pool main 100.64.0.2-100.64.0.9 router 100.64.0.1/24";
    let (config, _) = Config::read("store", text).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    let mut bng = Bng::new(config, 7).expect("it contradicts nothing");
    let now = Now { at: Duration::ZERO, wall_s: 1_790_000_000 };
    let mut out = Vec::new();
    for record in records {
        bng.input(now, Input::Adopt(record.clone()), &mut out);
    }
    let line = |record: &Record| match record.change.clone() {
        // A session that was replaced has ended when the next one was written: that time is the reader's.
        Change::Unaccounted(of) => Change::Unaccounted(Box::new(Unaccounted { end_s: 0, ..*of })).to_string(),
        other => other.to_string(),
    };
    let mut lines: Vec<_> = bng.snapshot().iter().map(line).collect();
    lines.sort();
    lines
}

#[test]
fn what_was_stored_is_there_after_it_is_opened_again() {
    let folder = Folder::new();
    let place = folder.join("bng");
    let all = records(
        "subscriber anna mac 02:00:00:00:00:01 plan basic
         lease 2 anna access1 02:00:00:00:00:01 100.64.0.2 id 0x0102 start 7 granted 9 for 3600 counted 1 2 3 4
         counters 2 counted 5 6 7 8",
    );
    let (mut store, found) = open_with(&place, Options::default()).expect("a store");
    assert!(found.is_empty());
    all.iter().cloned().for_each(|record| store.append(record));
    wait_for(&mut store, 3);
    store.close().expect("all is written");
    let (_store, found) = open(&place);
    let found: Vec<_> = found.iter().map(Record::to_string).collect();
    let lease = "lease 2 anna access1 02:00:00:00:00:01 100.64.0.2 id 0x0102 start 7 granted 9 for 3600";
    assert_eq!(
        found,
        [
            "1 3 subscriber anna mac 02:00:00:00:00:01 plan basic".to_string(),
            format!("1 3 {lease} counted 5 6 7 8")
        ]
    );
}

#[test]
fn a_second_process_is_told_who_has_the_folder() {
    let folder = Folder::new();
    let _store = open(&folder);
    let error = Store::open(&folder, OPTIONS).expect_err("it is in use").to_string();
    let expected = format!(
        "{} is in use by process {}: stop that process, or name another folder with `store PATH`",
        folder.display(),
        std::process::id()
    );
    assert_eq!(error, expected);
}

#[test]
fn sessions_that_have_ended_are_in_the_database_with_their_cause() {
    let folder = Folder::new();
    let (mut store, _) = open(&folder);
    let all = records(
        "subscriber anna mac 02:00:00:00:00:01 plan basic
         lease 2 anna access1:7 02:00:00:00:00:01 100.64.0.2 start 7 granted 9 for 3600 counted 0 0 0 0
         counters 2 counted 9 9 9 9
         end 2 anna 100.64.0.2 released counted 8 10 9 9",
    );
    all.into_iter().for_each(|record| store.append(record));
    store.close().expect("all is written");
    let db = rusqlite::Connection::open(folder.join("bng.db")).expect("a database");
    let sql = "SELECT format('%d %s %s %s %s %d %s %d %d %d %d', session, subscriber, line, mac, address, start_s, cause,
        down_frames, down_bytes, up_frames, up_bytes) FROM ended_sessions WHERE end_s > 1700000000";
    let row: String = db.query_row(sql, (), |row| row.get(0)).expect("one row");
    assert_eq!(row, "2 anna access1:7 02:00:00:00:00:01 100.64.0.2 7 released 9 10 9 9");
    let last: String =
        db.query_row("SELECT last_address FROM subscribers", (), |row| row.get(0)).expect("one row");
    assert_eq!(last, "100.64.0.2");
}

#[test]
fn ended_sessions_are_kept_for_30_days() {
    let folder = Folder::new();
    drop(open(&folder));
    let db = rusqlite::Connection::open(folder.join("bng.db")).expect("a database");
    let insert = "INSERT INTO ended_sessions SELECT NULL, value, 's', 'a', 'm', '100.64.0.2', 0, unixepoch() - value * 86400,
        'released', 0, 0, 0, 0, NULL FROM json_each('[40, 31, 29, 1]')";
    db.execute_batch(insert).expect("rows");
    let (mut store, _) = open(&folder);
    store.append(record("1 1 removed anna"));
    store.close().expect("all is written");
    let days = "SELECT group_concat(session) FROM ended_sessions";
    let days: String = db.query_row(days, (), |row| row.get(0)).expect("one row");
    assert_eq!(days, "29,1");
}
