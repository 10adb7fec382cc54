//! Runs that are killed at random instants: they leave their finished trials, and nothing else.
//!
//! Five kills, or as many as `WEIR_KILLS` says.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::time::{Duration, Instant};

use weir_testkit::need_root;

use crate::home::{Home, trials};
use crate::programs::{all_programs, programs_of_nobody};
use crate::weir::WEIR;
use weir_testkit::kills::{Kills, kill_after};

/// All kinds of devices that hold something: rules, programs, threads.
const PLAN: &str = r#"question = "What is left of it?"
[dut]
kind = ["kernel-nat", "xdp-forward", "faulty", "kernel-stateful"]
faults = "delay=1ms"
cpus = 1
[traffic]
frame_bytes = 128
flows = 10
direction = "forward"
[search]
kind = "fixed"
loads_fps = ["10k", "20k"]
trial_s = 0.03
"#;

/// What a run could leave behind outside of its namespaces.
#[derive(Debug, PartialEq)]
struct Traces {
    interfaces: BTreeSet<String>,
    /// Of those with a name, weir's: others make and remove theirs meanwhile.
    namespaces: BTreeSet<String>,
    pins: BTreeSet<String>,
    settings: BTreeMap<String, String>,
}

impl Traces {
    fn now() -> Traces {
        let mut settings = BTreeMap::new();
        for folder in
            ["/proc/sys/net/core", "/proc/sys/net/ipv4", "/proc/sys/net/ipv6/conf", "/proc/sys/net/netfilter"]
        {
            read_settings(Path::new(folder), &mut settings);
        }
        Traces {
            interfaces: names("/sys/class/net"),
            namespaces: names("/run/netns").into_iter().filter(|name| name.starts_with("weir")).collect(),
            pins: names("/sys/fs/bpf"),
            settings,
        }
    }
}

fn names(folder: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Values that change without being set: a counter, and the congestion controls that other tests load.
const CHANGING: [&str; 2] = ["nf_conntrack_count", "tcp_available_congestion_control"];

/// Every setting below `folder`.
fn read_settings(folder: &Path, into: &mut BTreeMap<String, String>) {
    for path in fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            read_settings(&path, into);
        } else if !CHANGING.iter().any(|name| path.ends_with(name)) {
            // What cannot be read cannot be compared.
            into.extend(fs::read_to_string(&path).map(|text| (path.display().to_string(), text)));
        }
    }
}

/// Starts a run, kills it after `delay`, and returns the numbers of the trials that it reported as kept.
fn killed_after(home: &Home, delay: Duration) -> Vec<i64> {
    let mut run =
        home.command(&[WEIR], &["run", "four.toml", "-v", "--no-report"]).spawn().expect("weir starts");
    let lines = BufReader::new(run.stderr.take().expect("piped")).lines();
    let reader = std::thread::spawn(move || lines.map_while(Result::ok).collect::<Vec<_>>());
    kill_after(&mut run, delay);
    let said = reader.join().expect("reading does not panic");
    let reported =
        said.iter().filter_map(|line| line.strip_prefix("  trial ")?.split(':').next()?.parse().ok());
    reported.collect()
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < deadline, "after 60 s {what}");
        // The end of a program has to be polled; polling without a pause takes CPU time from the programs that end it.
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn nothing_is_left_but_what_was_measured() {
    need_root!();
    let home = Home::new(&[("four.toml", PLAN)]);
    let begun = Instant::now();
    let whole = home.weir(&["run", "four.toml", "--no-report"]);
    assert!(matches!(whole.status.code(), Some(0 | 3)), "{whole:?}");
    let length = begun.elapsed();
    let (before, programs) = (Traces::now(), all_programs());
    let (mut kills, mut reported, mut in_mid_trial) = (Kills::new(5), 0, 0);
    while let Some((delay, trace)) = kills.next(length) {
        let kept = killed_after(&home, delay);
        let cleaned = home.weir(&["clean"]);
        assert!(cleaned.status.success(), "{trace}: {cleaned:?}");
        let cleaned = String::from_utf8_lossy(&cleaned.stdout).into_owned();
        in_mid_trial += usize::from(cleaned.contains("was killed"));
        // Other tests have their own programs. Programs without a holder must go.
        let left: BTreeSet<_> = programs_of_nobody().difference(&programs).copied().collect();
        wait_until(&format!("{trace}: programs are loaded"), || all_programs().is_disjoint(&left));
        assert_eq!(Traces::now(), before, "{trace}");
        assert_eq!(fs::read_dir(home.path("state/weir/journal")).into_iter().flatten().count(), 0, "{trace}");
        let record = home.record();
        assert_ne!(record["run"]["state"], "running", "{trace}");
        let numbers: BTreeSet<_> =
            trials(&record).iter().map(|t| t["id"].as_i64().expect("a number")).collect();
        assert!(
            kept.iter().all(|id| numbers.contains(id)),
            "{trace}: {kept:?} were reported, {numbers:?} kept"
        );
        reported += kept.len();
    }
    assert_eq!(integrity(&home), "ok");
    let end = home.weir(&["run", "four.toml", "--no-report"]);
    assert!(matches!(end.status.code(), Some(0 | 3)), "{end:?}");
    println!("{in_mid_trial} kills in mid-run: {reported} trials were reported and kept");
    assert!(in_mid_trial > 0 && reported > 0, "no run was hit");
}

/// What SQLite says of the records.
fn integrity(home: &Home) -> String {
    let db = rusqlite::Connection::open(home.path("data/weir/records.db")).expect("a file of records");
    db.query_row("PRAGMA integrity_check", (), |row| row.get(0)).expect("an answer")
}
