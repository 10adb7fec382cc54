use std::fs;

use weir_disk::faults::{self, Fault, Writer};

use super::*;

const JOB: Job = Job { recipients: 100, domains: 10, skew: 1.0 };

fn record(recipient: u64) -> Record {
    Record { recipient, verdict: Verdict::Delivered, code: 250, attempts: 1 }
}

fn open(path: &Path) -> Result<(OutcomeLog, Done), LogError> {
    OutcomeLog::open(path, &JOB, "", Durability::Process)
}

#[test]
fn what_was_recorded_is_known_after_any_half_line() {
    let folder = weir_testkit::Folder::new();
    let place = folder.join("log");
    let (mut log, done) = open(&place).unwrap();
    assert_eq!(done.count(), 0);
    log.append(&[record(3), record(99)]).unwrap();
    log.append(&[Record { verdict: Verdict::Expired, code: 0, attempts: 5, ..record(7) }]).unwrap();
    drop(log);
    let whole = fs::read(&place).unwrap();
    let ends: Vec<usize> = (0..whole.len()).filter(|i| whole[*i] == b'\n').map(|i| i + 1).collect();
    for length in 0..=whole.len() {
        fs::write(&place, &whole[..length]).unwrap();
        let (mut log, done) = open(&place).unwrap();
        let lines = ends.iter().filter(|end| **end <= length).count().saturating_sub(1);
        assert_eq!(done.count(), lines as u64, "after {length} bytes");
        log.append(&[record(50)]).unwrap();
        drop(log);
        assert!(open(&place).unwrap().1.has(50), "after {length} bytes");
    }
}

#[test]
fn a_log_that_cannot_be_is_not_used() {
    let folder = weir_testkit::Folder::new();
    let place = folder.join("log");
    drop(open(&place).unwrap());
    let header = fs::read_to_string(&place).unwrap();
    let mut lines = Vec::new();
    [1, 2, 3].iter().for_each(|id| record(*id).line(&mut lines));
    let lines = String::from_utf8(lines).unwrap();
    let twice = lines.clone() + lines.split_inclusive('\n').next().unwrap();
    for (text, expected) in [
        (header.clone() + &lines.replace("2 delivered", "4 delivered"), "damaged in line 3"),
        (header.clone() + &twice, "damaged in line 5"),
        ("something else\n".into(), "another job"),
    ] {
        fs::write(&place, text).unwrap();
        let error = open(&place).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    fs::write(&place, header).unwrap();
    let other = Job { skew: 0.5, ..JOB };
    for (job, to) in [(&other, ""), (&JOB, "192.0.2.1:25 a@b")] {
        assert!(matches!(OutcomeLog::open(&place, job, to, Durability::Process), Err(LogError::OtherJob(_))));
    }
    let _open = open(&place).unwrap();
    assert!(matches!(open(&place), Err(LogError::Busy(_))));
}

/// Records in groups of 5, and tries once more what cannot be written; says how many are safe.
#[test]
fn writer() {
    let Some(folder) = faults::folder() else { return };
    let (mut log, done) = match OutcomeLog::open(&folder.join("log"), &JOB, "", Durability::Power) {
        Ok(opened) => opened,
        Err(error) => return println!("error: {error}"),
    };
    for group in (done.count()..20).collect::<Vec<_>>().chunks(5) {
        let records: Vec<Record> = group.iter().map(|id| record(*id)).collect();
        let mut appended = log.append(&records);
        if let Err(error) = &appended {
            println!("error: {error}");
            appended = log.append(&records);
        }
        match appended {
            Ok(()) => println!("safe: {}", group[group.len() - 1] + 1),
            Err(error) => return println!("error: {error}"),
        }
    }
}

#[test]
fn what_is_said_to_be_safe_outlives_every_crash_and_a_full_disk_says_what_to_do() {
    let twice = [Fault::Short, Fault::Full, Fault::Io].map(|fault| (fault, 2));
    for (fault, lasts) in Fault::ALL.map(|fault| (fault, 1)).into_iter().chain(twice) {
        let writer = Writer { test: "log::tests::writer", lasts };
        let changes = faults::at_each_change(
            writer,
            fault,
            |_| {},
            |at, folder, said| {
                let safe = said.iter().rev().find_map(|line| line.strip_prefix("safe: ")?.parse().ok());
                let failed = said.iter().any(|line| line.contains("error: "));
                if failed && fault == Fault::Full && safe.is_some() {
                    let text = said.join("\n");
                    assert!(text.contains("make room and start the same delivery again"), "{text}");
                }
                let (_, done) = open(&folder.join("log")).unwrap();
                assert!(done.count() >= safe.unwrap_or(0), "{fault:?} at {at}: {} of {safe:?}", done.count());
                assert!((0..done.count()).all(|id| done.has(id)), "{fault:?} at {at}: in order");
            },
        );
        assert!(changes > 4, "{fault:?}: {changes}");
    }
}
