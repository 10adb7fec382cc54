//! What others have laid where root writes or reads: links, second names, pipes. Whatever lies there, `weir` comes to an
//! end, and writes to nothing but what it was asked to write to.

use std::fs;
use std::os::unix::fs::{chown, lchown, symlink};
use std::path::Path;
use std::process::Command;

use serde_json::json;
use weir_record::store::RunLog;
use weir_testkit::{Folder, need_root, output};

use crate::weir::WEIR;

/// The user that placed the file.
const OTHER: u32 = 12345;

/// Lays something at a path.
type Plant = fn(&Folder, &Path);

const PLANTED: [(&str, Plant); 4] = [
    ("link", |folder, path| {
        symlink(folder.join("victim"), path).unwrap();
        lchown(path, Some(OTHER), Some(OTHER)).unwrap();
    }),
    ("link to nothing", |folder, path| {
        symlink(folder.join("nothing"), path).unwrap();
        lchown(path, Some(OTHER), Some(OTHER)).unwrap();
    }),
    ("second name", |folder, path| fs::hard_link(folder.join("victim"), path).unwrap()),
    ("pipe", |_, path| {
        assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
        chown(path, Some(OTHER), Some(OTHER)).unwrap();
    }),
];

/// What root runs, and the path that it writes to or reads, below the folder.
const COMMANDS: [(&str, &str); 15] = [
    ("list --store DIR/laid", "laid"),
    ("report 1 --store DIR/records.db -o DIR/laid", "laid"),
    ("report 1 --store DIR/records.db", "reports/weir-small-1.html"),
    ("export 1 --store DIR/records.db --format csv -o DIR/laid", "laid"),
    ("trend small --store DIR/records.db -o DIR/laid", "laid"),
    ("man -o DIR", "weir-run.1"),
    ("capture -i lo -w DIR/laid --duration 0.1", "laid"),
    ("node run DIR/lo.node --socket DIR/sock --events DIR/laid", "laid"),
    ("node run DIR/lo.node --socket DIR/sock --blocks DIR/laid", "laid"),
    ("node run DIR/lo.node --socket DIR/sock --blocks DIR/blocks", "blocks.spare"),
    ("node run DIR/lo.node --socket DIR/laid", "laid"),
    ("node run DIR/file.node --socket DIR/sock", "laid"),
    ("clean", "state/weir/journal/4194303-7-1.json"),
    ("detect --read DIR/none.pcapng --announce --config DIR/detect.toml", "announced"),
    (
        "mail --to 127.0.0.1:9 --owner-agrees --from a@example.org --rcpt b@example.net --recipients 1 --log DIR/laid",
        "laid",
    ),
];

/// A file of records with one run.
fn record(path: &Path) {
    let log = RunLog::open(path).unwrap();
    let run = json!({
        "id": 0, "plan": "small", "question": "How fast?", "plan_toml": "question = \"How fast?\"\n",
        "started": "2026-03-01T10:00:00Z", "finished": null, "state": "running", "seed": 1, "version": "0.1.0",
        "deviations": [],
        "machine": {
            "cpu": "Example 9000", "cpus": 2, "kernel": "6.18", "os": "Debian", "memory_bytes": 1 << 30, "facts": [],
        },
        "tester": { "generator": "xdp-live-frames", "receiver": "xdp", "cpus": [0], "limits": [] },
    });
    log.begin(&serde_json::from_value(run).unwrap()).unwrap();
}

fn check(line: &str, laid: &str, what: &str, plant: Plant) {
    let folder = Folder::with_victim();
    let dir = folder.to_str().unwrap();
    record(&folder.join("records.db"));
    // Nothing that is not there is opened: what is laid there is refused before.
    fs::write(
        folder.join("lo.node"),
        "node lan(on no-such-if) > nat(public 192.0.2.1) > wan(on no-such-if2)\n",
    )
    .unwrap();
    fs::write(
        folder.join("file.node"),
        format!("node lan(on pcapng::{dir}/laid) > wan(on pcapng::{dir}/other)\n"),
    )
    .unwrap();
    let announce = format!(
        "networks = [\"198.18.0.0/15\"]\n[in]\npps = 5\n[announce]\ndaemon = \"gobgp\"\nnext_hop = \"192.0.2.1\"\nsend = true\n\
         state = \"{dir}/announced\"\n"
    );
    fs::write(folder.join("detect.toml"), announce).unwrap();
    let path = folder.join(laid);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    plant(&folder, &path);
    let mut command = Command::new(WEIR);
    command.args(line.replace("DIR", dir).split_whitespace()).current_dir(&folder);
    command.env("XDG_STATE_HOME", folder.join("state")).env_remove("SUDO_UID");
    // A node that runs all the same ends at once: its files have no frames.
    let ended = output(&mut command).unwrap();
    folder.check_victim(&format!("{line}, {what}: {ended:?}"));
    assert!(!folder.join("nothing").exists(), "{line}, {what}: {ended:?}");
    assert_ne!(ended.status.code(), Some(101), "{line}, {what}: {ended:?}");
}

#[test]
fn whatever_lies_there_nothing_else_is_written_to() {
    need_root!();
    std::thread::scope(|scope| {
        for (what, plant) in PLANTED {
            // A capture waits for a reader of its pipe, whatever user owns the pipe.
            let ends = move |line: &&(&str, &str)| !(what == "pipe" && line.0.starts_with("capture"));
            scope.spawn(move || {
                COMMANDS.iter().filter(ends).for_each(|(line, laid)| check(line, laid, what, plant));
            });
        }
    });
}
