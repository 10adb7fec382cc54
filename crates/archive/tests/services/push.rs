//! Runs that are pushed: once, whole, and again when they have gone on.

use std::net::TcpListener;
use std::process::Command;

use weir_record::record::RunState;
use weir_record::store::{Archive, RunLog};

use weir_testkit::full_disk::shell_with_disk;
use weir_testkit::{Folder, need_root, output};

use super::bed::{Bed, END, add_points, small_run, write, write_all};

#[test]
fn each_run_is_pushed_once() {
    let Some(bed) = Bed::new() else { return };
    bed.pushes("0 new");
    for _ in 0..3 {
        write_all(&bed.log, &small_run());
    }
    bed.pushes("3 new");
    bed.check_same("after a push");
    bed.pushes("0 new, 3 there before");
    write(&bed.log, &small_run(), 1);
    bed.pushes("0 new, 3 there before, 1 still running");
    // Another host pushes a copy of the same run log.
    let (path, copy) = (bed.folder.join("records.db"), bed.folder.join("copy.db"));
    std::fs::copy(path, copy).expect("room");
    write_all(&bed.log, &small_run());
    bed.pushes("1 new, 3 there before, 1 still running");
}

#[test]
fn the_host_of_a_run_is_the_one_that_measured_it() {
    let Some(bed) = Bed::new() else { return };
    let mut data = small_run();
    data.run.machine.host = "lab3".into();
    write_all(&bed.log, &data);
    // A record of a version that did not keep it: the host that pushes stands in.
    write_all(&bed.log, &small_run());
    bed.pushes("2 new");
    let own = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("Linux");
    let hosts = bed.postgres.sql(&bed.database, "SELECT host FROM weir.runs ORDER BY id");
    assert_eq!(hosts, format!("lab3\n{}", own.trim()));
}

#[test]
fn a_run_that_has_gone_on_is_completed() {
    let Some(bed) = Bed::new() else { return };
    let data = small_run();
    write(&bed.log, &data, 1);
    bed.log.mark_interrupted(data.run.uuid).expect("written");
    bed.pushes("1 new");
    bed.check_same("interrupted");
    bed.pushes("0 new, 1 there before");
    bed.log.reopen_run(&data.run).expect("written");
    add_points(&bed.log, &data, 1..data.points.len());
    bed.log.finish_run(data.run.uuid, RunState::Complete, END).expect("written");
    bed.pushes("0 new, 1 continued");
    bed.check_same("complete");
    bed.pushes("0 new, 1 there before");
    let archive = bed.archive();
    assert_eq!(archive.list().expect("runs").len(), 1);
    assert_eq!(archive.run_data(data.run.uuid).expect("a run").points.len(), data.points.len());
}

#[test]
fn hosts_that_push_at_once_wait_for_no_one_and_store_each_run_once() {
    let Some(bed) = Bed::new() else { return };
    for _ in 0..5 {
        write_all(&bed.log, &small_run());
    }
    // The same runs from all of them.
    let ended: Vec<_> = std::thread::scope(|scope| {
        let pushes = (0..6).map(|_| bed.push_command(&bed.url));
        let pushes: Vec<_> =
            pushes.map(|mut push| scope.spawn(move || output(&mut push).expect("it starts"))).collect();
        pushes.into_iter().map(|push| push.join().expect("no panic")).collect()
    });
    for push in ended {
        assert!(push.status.success(), "{}", String::from_utf8_lossy(&push.stderr));
    }
    bed.check_same("after six pushes");
}

#[test]
fn a_run_with_damaged_records_is_named_and_the_others_are_pushed() {
    let Some(bed) = Bed::new() else { return };
    let (first, second) = (small_run(), small_run());
    write_all(&bed.log, &first);
    write_all(&bed.log, &second);
    let path = bed.folder.join("records.db");
    let db = rusqlite::Connection::open(path).expect("a file");
    db.execute("UPDATE trials SET rest = '{}' WHERE id = 1", ()).expect("changed");
    let pushed = bed.push(&bed.url);
    let said = String::from_utf8_lossy(&pushed.stderr);
    assert_eq!(pushed.status.code(), Some(1));
    assert!(said.starts_with("weir: run 1 is not pushed: record 1 of table trials in "), "{said}");
    assert_eq!(String::from_utf8_lossy(&pushed.stdout), "1 new, 1 not pushed\n");
    assert_eq!(bed.archive().newest().expect("runs"), Some(second.run.uuid));
}

#[test]
fn runs_on_a_full_disk_are_pushed() {
    need_root!();
    let Some(bed) = Bed::new() else { return };
    let folder = Folder::new();
    write_all(&RunLog::open(&folder.join("records.db")).expect("a log"), &small_run());
    let fill =
        "cp records.db disk/; cat /dev/zero > disk/rest 2> /dev/null; exec \"$@\" --store disk/records.db";
    let mut push = shell_with_disk("4m", fill);
    push.arg(env!("CARGO_BIN_EXE_weir-archive")).args(["push", "--all", "--to", &bed.url]);
    let pushed = output(push.current_dir(&folder)).expect("it starts");
    assert_eq!(String::from_utf8_lossy(&pushed.stdout), "1 new\n", "{pushed:?}");
}

#[test]
fn a_server_that_never_answers_is_given_up() {
    let log = Folder::new();
    RunLog::open(&log.join("records.db")).expect("a log");
    let silent = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let port = silent.local_addr().expect("an address").port();
    let mut push = Command::new(env!("CARGO_BIN_EXE_weir-archive"));
    push.args(["push", "--all", "--to", &format!("postgres://a@127.0.0.1:{port}/b"), "--store"]);
    let pushed = output(push.arg(log.join("records.db"))).expect("it starts");
    let said = String::from_utf8_lossy(&pushed.stderr);
    assert!(said.contains("no answer in 20 s: check that the address is that of PostgreSQL"), "{said}");
    assert_eq!(pushed.status.code(), Some(1));
}

#[test]
fn a_server_that_is_down_is_named() {
    let Some(mut bed) = Bed::new() else { return };
    write_all(&bed.log, &small_run());
    bed.postgres.kill();
    let pushed = bed.push(&bed.url);
    let said = String::from_utf8_lossy(&pushed.stderr);
    assert!(said.contains("no connection: ") && said.contains("try again"), "{said}");
    assert_eq!(pushed.status.code(), Some(1));
    bed.postgres.restart();
    bed.pushes("1 new");
    // The file of the run log is only read.
    assert_eq!(
        RunLog::open(&bed.folder.join("records.db")).expect("a log").archive().runs().expect("runs").len(),
        1
    );
}
