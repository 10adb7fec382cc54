//! Standard output that cannot be written: each program ends, says so, and fails.

use weir_testkit::{Started, need_root};

use crate::home::Home;
use crate::weir::WEIR;
use weir_testkit::full_disk::refuses_output;

const GRID: &str = r#"
question = "Which queue is fair?"
experiment = "buffers"
[buffers]
queue = ["fifo", "pie"]
buffer_bdp = [1]
mix = "cubic+bbr1"
rate = "5M"
duration_s = 1
seeds = 1
"#;

#[test]
fn records_and_shards() {
    let home = Home::new(&[("grid.toml", GRID)]);
    let shards: Vec<String> = (1..=2).map(|n| format!("{n}.json")).collect();
    for (n, file) in (1..).zip(&shards) {
        let shard = format!("{n}/2");
        let store = format!("{n}.db");
        let arguments = [
            "run",
            "grid.toml",
            "--shard",
            &shard,
            "--seed",
            "7",
            "--store",
            &store,
            "--no-report",
            "--json",
        ];
        let output = home.weir(&arguments);
        assert!(output.status.success(), "{output:?}");
        std::fs::write(home.path(file), output.stdout).expect("room");
    }
    let runs = home.weir(&["run", "grid.toml", "--seed", "7", "--no-report", "--quiet"]);
    assert!(runs.status.success(), "{runs:?}");
    let table = [
        "run grid.toml --no-report --json",
        "run grid.toml --no-report",
        "merge 1.json 2.json --json --store merged.db",
        "merge 1.json 2.json --store again.db",
        "list",
        "list --json",
        "show last",
        "show last --json",
        "export last --format csv",
        "plan list",
        "completions bash",
        "man",
    ];
    for line in table {
        refuses_output(home.command(&[WEIR], &line.split(' ').collect::<Vec<_>>()), line);
    }
}

/// The size of files can be limited; of the signal (SIGXFSZ) every program dies that does not expect it.
#[test]
fn files_that_may_not_become_larger() {
    let home = Home::new(&[("grid.toml", GRID)]);
    for (blocks, words, expected) in [
        (
            1,
            "man > man.1",
            "cannot write to standard output: File too large (os error 27); raise the file size limit",
        ),
        (90, "run grid.toml --no-report --quiet --store small.db", "the file size limit (ulimit -f)"),
    ] {
        let script = format!("ulimit -f {blocks}; exec {WEIR} {words}");
        let output = home.command(&["sh", "-c"], &[&script]).output().expect("a shell");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.code() == Some(1) && said.contains(expected),
            "{words}: {:?} {said}",
            output.status
        );
    }
}

#[test]
fn servers_that_are_inspected() {
    let home = Home::new(&[]);
    // A separate process: this one starts threads for other tests, and inspect waits until a server does not change.
    let mut server = Started::new(home.command(&[WEIR], &["flows", "--serve", "--bind", "127.0.0.1:0"]));
    server.await_words("serving at");
    let target = server.pid().to_string();
    for more in [&[][..], &["--json"]] {
        let words = [&["inspect", &target, "--connections", "4"], more].concat();
        refuses_output(home.command(&[WEIR], &words), &format!("inspect {more:?}"));
    }
    server.interrupt();
}

/// Runs of rigs that have namespaces, servers and files.
#[test]
fn runs_of_every_rig() {
    need_root!();
    let home = Home::new(&[]);
    std::fs::create_dir(home.path("files")).expect("a folder");
    let files = "files --set=files.rounds=1 --set=files.files=20 --set=files.size=4k --set=files.file_system=given \
                 --set=files.method=calls --set=files.durability=none --set=files.directory=FOLDER";
    let files = files.replace("FOLDER", &home.path("files").display().to_string());
    let table = [
        files.as_str(),
        "mail --set=mail.rounds=1 --set=mail.domains=20 --set=mail.connections=5 --set=mail.trial_s=0.2 \
         --set=mail.warm_up_s=0.1 --set=mail.recipients=200",
        "servers --set=servers.rounds=1 --set=servers.trial_s=0.1 --set=servers.concurrency=5 --set=servers.rate=100 \
         --set=servers.hold=5 --set=servers.architecture=epoll --set=servers.reply=busy",
    ];
    for line in table {
        for json in ["--no-report", "--no-report --json"] {
            let line = format!("run {line} {json}");
            refuses_output(home.command(&[WEIR], &line.split_whitespace().collect::<Vec<_>>()), &line);
        }
    }
    assert_eq!(std::fs::read_dir(home.path("files")).expect("a folder").count(), 0, "files are gone");
}
