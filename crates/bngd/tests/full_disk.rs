//! Accounting while the disk of the store is full: no session ends, each Stop is told, and all of it is on disk when there is room again.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::Path;

use weir_bng::api::State;
use weir_cpe::Options;
use weir_service::http;

use crate::accounting::{Faults, START, STOP, end, on_small_disk};
use crate::restart::{Rig, options};

const DEVICES: u32 = 20;
/// A preallocated file of the log, and more than it.
const LOG_BYTES: u32 = 9 << 20;
/// Room for three files of the log, and for the database with its own log.
const DISK_MIB: u32 = 64;

/// Fills a file system down to single bytes.
fn fill(path: &Path) {
    let mut room = vec![0; 1 << 20];
    let mut file = std::fs::File::create(path).expect("a file");
    while !room.is_empty() {
        if file.write_all(&room).is_err() {
            room.truncate(room.len() / 2);
        }
    }
}

fn status_of(rig: &Rig, method: &str, target: &str, body: &str) -> u16 {
    let answer = http::request(&rig.folder.join("bng.sock"), method, target, body.as_bytes().to_vec());
    answer.expect("the program runs").status
}

#[test]
fn a_full_disk_ends_no_session_and_loses_no_message_of_accounting() {
    let Some((mut rig, book, serving)) = on_small_disk(DISK_MIB, Faults::None) else { return };
    let summary = rig.emulate(Options { devices: DEVICES, ..options() }).end();
    assert!(summary.is_clean(), "{summary:?}");
    let before = rig.agree("all are up");
    assert_eq!(before.len(), DEVICES as usize);
    let filler = rig.on_small_disk("filler");
    fill(&filler);
    // What is preallocated for the log is used up by records of subscribers with the longest of circuit-ids.
    let body = |n: u32| {
        let circuit = format!("0x{n:08x}{}", "ff".repeat(251));
        format!(r#"{{"name": "c{n}", "circuit": "{circuit}", "plan": "basic"}}"#)
    };
    let many: Vec<String> = (0..LOG_BYTES / 500).map(body).collect();
    status_of(&rig, "POST", "/v1/subscribers", &format!("[{}]", many.join(",")));
    let is_full = |rig: &Rig| rig.get::<State>("/v1/status").is_some_and(|state| !state.ready);
    rig.until("the disk is full", is_full);
    assert_eq!(rig.of_node().map(|sessions| sessions.len()), Some(before.len()), "no session has ended");
    // Sessions that an operator ends now have their Stop.
    let (ended, kept) = before.split_at(5);
    for session in ended {
        status_of(&rig, "DELETE", &format!("/v1/sessions/{}", session.session), "");
    }
    rig.until("five Stops", |_| book.sessions(STOP).len() == ended.len());
    std::fs::remove_file(&filler).expect("it is there");
    rig.until("it goes on", |rig| !is_full(rig));
    rig.add_subscriber(r#"{"name": "late", "line": "access1:4001", "plan": "basic"}"#);
    rig.kill_bngd();
    let after = rig.agree("after the kill");
    let ids = |all: &[weir_bng::api::Session]| all.iter().map(|one| one.session).collect::<BTreeSet<_>>();
    assert_eq!(ids(&after), ids(kept), "the ends are on disk, and no other session has ended");
    after.iter().for_each(|session| rig.disconnect(session.session));
    rig.until("as many Starts as Stops", |_| book.sessions(START) == book.sessions(STOP));
    assert_eq!(book.sessions(STOP).len(), before.len());
    end(&rig, serving);
}
