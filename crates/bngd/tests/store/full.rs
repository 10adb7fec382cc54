//! A file system that is really full, and has room again.

use std::fs;
use std::process::Command;

use weir_testkit::is_root;

use super::*;

/// Where the test runs itself, with a small file system of its own.
const PLACE: &str = "WEIR_TEST_SMALL_DISK";

/// A subscriber; all of them have the same name, so that the database stays small.
fn subscriber(revision: u64) -> Record {
    record(&format!("1 {revision} subscriber anna mac 02:00:00:00:00:01 plan basic"))
}

/// Appends one record at a time until this is reported of one; its revision.
fn append_until(store: &mut Store, first: u64, wanted: fn(&Report) -> bool) -> u64 {
    for revision in first..first + 1000 {
        store.append(subscriber(revision));
        let mut is_known = false;
        while !is_known {
            for report in wait(store) {
                if wanted(&report) {
                    return revision;
                }
                is_known |= matches!(report, Report::Stored { .. } | Report::Failed(_));
            }
        }
    }
    panic!("it is not reported of 1000 records")
}

/// Within the small file system.
#[test]
fn on_a_small_disk() {
    let Some(place) = std::env::var_os(PLACE) else { return };
    let place = Path::new(&place);
    let (mut store, _) = open(&place.join("bng"));
    let filler = place.join("filler");
    // As much as there is room for, down to single bytes.
    let mut room = vec![0; 1 << 20];
    while !room.is_empty() {
        let mut file = fs::File::options().append(true).create(true).open(&filler).expect("a file");
        if std::io::Write::write_all(&mut file, &room).is_err() {
            room.truncate(room.len() / 2);
        }
    }
    let is_full = |report: &Report| matches!(report, Report::Failed(StoreError::Full { .. }));
    let failed = append_until(&mut store, 1, is_full);
    fs::remove_file(&filler).expect("it is there");
    let stored = append_until(&mut store, failed + 1, |report| matches!(report, Report::Stored { .. }));
    store.close().expect("all is written");
    let (_store, found) = open(&place.join("bng"));
    assert_eq!(found.first().map(|record| record.revision), Some(stored));
}

#[test]
fn a_store_goes_on_by_itself_when_its_disk_has_room_again() {
    if !is_root() {
        return println!("skipped: mounting a file system needs root");
    }
    let folder = Folder::new();
    let mount = r#"mount -t tmpfs -o size=2m none "$0" && exec "$1" --exact store::full::on_a_small_disk --nocapture"#;
    let output = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "sh", "-c", mount])
        .args([&*folder, &std::env::current_exe().expect("this program")])
        .env(PLACE, &*folder)
        .output()
        .expect("unshare");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{output:?}");
}
