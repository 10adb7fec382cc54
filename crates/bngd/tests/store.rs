//! The store: what was reported as stored is there after it is opened again.

use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use weir_bng::Record;
use weir_bngd::store::{Options, Report, Store};
use weir_testkit::{Folder, PATIENCE};

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
    Store::open(folder, Options::default()).unwrap_or_else(|error| panic!("{error}"))
}

fn record(line: &str) -> Record {
    line.parse().unwrap_or_else(|error| panic!("{line}: {error}"))
}

#[test]
fn what_was_stored_is_there_after_it_is_opened_again() {
    let folder = Folder::new();
    let place = folder.join("bng");
    let lines = [
        "1 1 subscriber anna mac 02:00:00:00:00:01 plan basic",
        "1 2 lease 2 anna access1 02:00:00:00:00:01 100.64.0.2 id 0x0102 start 7 granted 9 for 3600 counted 1 2 3 4",
        "1 3 counters 2 counted 5 6 7 8",
    ];
    let (mut store, records) = open(&place);
    assert!(records.is_empty());
    lines.iter().for_each(|line| store.append(record(line)));
    wait_for(&mut store, 3);
    store.close().expect("all is written");
    let (_store, records) = open(&place);
    let found: Vec<_> = records.iter().map(Record::to_string).collect();
    let lease = "lease 2 anna access1 02:00:00:00:00:01 100.64.0.2 id 0x0102 start 7 granted 9 for 3600";
    assert_eq!(
        found,
        [
            "1 3 subscriber anna mac 02:00:00:00:00:01 plan basic".to_string(),
            format!("1 3 {lease} counted 5 6 7 8")
        ]
    );
}
