//! The program as a user runs it: killed, interrupted, twice at once, without rights; and its report.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use weir_testkit::{Started, Watch, need_root, output};

use crate::home::{Home, trials};
use crate::programs::{all_programs, programs_of};
use crate::terminal::InTerminal;
use crate::weir::{self, WEIR};

const PLAN: &str = r#"question = "Does it forward?"
[dut]
kind = "kernel-forward"
cpus = 1
[traffic]
frame_bytes = 128
flows = 10
[search]
kind = "fixed"
loads_fps = ["10k", "20k"]
trial_s = 0.1
"#;

/// A home with a tiny plan, and one of ten minutes: a test that starts the second one ends it.
fn home() -> Home {
    Home::new(&[("tiny.toml", PLAN), ("long.toml", &PLAN.replace("trial_s = 0.1", "trial_s = 300"))])
}

/// A run that has said something. It ends with its test, so that one which fails does not keep others from measuring.
fn start(home: &Home, arguments: &[&str], word: &str) -> Started {
    let mut run = Started::new(home.command(&[WEIR], arguments));
    run.await_words(word);
    run
}

/// One of the long plan, whose first trials are kept.
fn in_mid_run(home: &Home) -> Started {
    start(home, &["run", "long.toml"], ": ceiling ")
}

/// Network namespaces that the threads of a process are in, other than our own. A namespace cannot go while its
/// file is open, so that its number is not given to another one.
fn namespaces(process: &Path) -> BTreeMap<u64, File> {
    let own = fs::metadata("/proc/self/ns/net").expect("proc").ino();
    let tasks = fs::read_dir(process.join("task")).into_iter().flatten().flatten();
    tasks
        .filter_map(|task| {
            let file = File::open(task.path().join("ns/net")).ok()?;
            Some((file.metadata().ok()?.ino(), file))
        })
        .filter(|(number, _)| *number != own)
        .collect()
}

/// Is a process in one of these namespaces? Its name, and what it runs.
fn inhabitant(held: &BTreeMap<u64, File>) -> Option<String> {
    let processes = fs::read_dir("/proc").expect("proc").flatten().map(|entry| entry.path());
    let mut inside = processes.filter(|path| namespaces(path).keys().any(|number| held.contains_key(number)));
    inside.next().map(|path| {
        format!(
            "{path:?} {}",
            fs::read_to_string(path.join("cmdline")).unwrap_or_default().replace('\0', " ")
        )
    })
}

/// Namespaces and programs of a run, once it has its second test bed: the first one, of the ceiling, is being taken
/// down when its result is reported.
fn held_by(pid: u32) -> (BTreeMap<u64, File>, BTreeSet<u64>) {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let held = namespaces(Path::new(&format!("/proc/{pid}")));
        let loaded = programs_of(Path::new(&format!("/proc/{pid}")));
        // Generator, two receivers; tester and device.
        if held.len() >= 2 && loaded.len() >= 3 && loaded.is_subset(&all_programs()) {
            return (held, loaded);
        }
        assert!(Instant::now() < deadline, "a run has namespaces {held:?}, programs {loaded:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_run_that_is_killed_leaves_its_trials_and_nothing_else() {
    need_root!();
    let home = home();
    let mut run = in_mid_run(&home);
    let (held, loaded) = held_by(run.pid());
    run.child.kill().expect("it runs");
    assert_eq!(run.child.wait().expect("it ran").signal(), Some(libc::SIGKILL));
    // What it started dies with it, but is not waited for.
    let deadline = Instant::now() + Duration::from_secs(60);
    while let Some(process) = inhabitant(&held) {
        assert!(Instant::now() < deadline, "{process} lives in a dead bed");
        std::thread::yield_now();
    }
    drop(held);

    let next = home.weir(&["run", "tiny.toml", "--no-report"]);
    assert!(matches!(next.status.code(), Some(0 | 3)), "{next:?}");
    let said = String::from_utf8_lossy(&next.stderr);
    assert!(said.contains("run 1 was killed; its finished trials are kept"), "{said}");
    let first = home.weir(&["show", "1", "--json"]);
    let first: Value = serde_json::from_slice(&first.stdout).expect("JSON");
    assert_eq!(first["run"]["state"], "interrupted");
    assert!(trials(&first).len() >= 3, "{first}");
    assert_eq!(home.record()["run"]["state"], "complete");

    // The kernel takes programs and namespaces down in its own time.
    let deadline = Instant::now() + Duration::from_secs(60);
    while !loaded.is_disjoint(&all_programs()) {
        assert!(Instant::now() < deadline, "programs {loaded:?} are still loaded");
        std::thread::yield_now();
    }
    let journal = fs::read_dir(home.path("state/weir/journal")).into_iter().flatten().count();
    assert_eq!(journal, 0, "entries in the journal");
}

#[test]
fn a_killed_run_goes_on() {
    need_root!();
    let home = home();
    let plan = PLAN.replace("frame_bytes = 128", "frame_bytes = [128, 256]");
    fs::write(home.path("two.toml"), plan).expect("room");
    let mut run = start(&home, &["run", "two.toml", "--seed", "7"], "kernel-forward 128 bytes");
    run.child.kill().expect("it runs");
    run.child.wait().expect("it ran");
    let before = home.record();
    let id = before["run"]["id"].to_string();
    let rest = home.weir(&["run", "--resume", &id, "--no-report"]);
    assert!(matches!(rest.status.code(), Some(0 | 3)), "{rest:?}");
    let after = home.record();
    assert_eq!(after["run"]["state"], "complete");
    assert_eq!((&after["run"]["seed"], &after["run"]["id"]), (&before["run"]["seed"], &before["run"]["id"]));
    let (early, all) = (trials(&before), trials(&after));
    assert!(early.len() >= 9 && all.len() > early.len(), "{} then {}", early.len(), all.len());
    assert!(early.iter().all(|trial| all.contains(trial)), "a trial is gone");
    for (number, why) in [(id.as_str(), "it is complete"), ("99", "there is no run 99")] {
        let again = home.weir(&["run", "--resume", number]);
        assert!(String::from_utf8_lossy(&again.stderr).contains(why), "{again:?}");
    }
}

#[test]
fn devices_of_the_same_job_take_turns_in_a_killed_run_too() {
    need_root!();
    let home = home();
    let kinds = r#"["kernel-forward", "kernel-nat", "xdp-forward"]"#;
    let plan =
        PLAN.replace(r#""kernel-forward""#, kinds).split("[search]").next().expect("a head").to_string()
            + "direction = \"forward\"\n[search]\nkind = \"rfc2544\"\nmin_fps = \"10k\"\nmax_fps = \"20k\"\n\
           trial_s = 0.1\nresolution = \"50%\"\n[repeat]\ntimes = 3\nin_turn = true\n";
    fs::write(home.path("turns.toml"), plan).expect("room");
    let mut run = start(&home, &["run", "turns.toml", "--verbose"], "20.0 kpps");
    run.child.kill().expect("it runs");
    run.child.wait().expect("it ran");
    let id = home.record()["run"]["id"].to_string();
    let rest = home.weir(&["run", "--resume", &id, "--no-report"]);
    assert!(matches!(rest.status.code(), Some(0 | 3)), "{rest:?}");
    let record = home.record();
    let point = |dut: &str| {
        let points = record["points"].as_array().expect("points").iter();
        points.clone().find(|point| point["point"]["dut"] == dut).expect("the point of the device")
    };
    let ids = |dut: &str| -> Vec<i64> {
        let trials = point(dut)["trials"].as_array().expect("trials").iter();
        trials.map(|trial| trial["id"].as_i64().expect("a number")).collect()
    };
    let mut order: Vec<(i64, &str)> = Vec::new();
    for dut in ["kernel-forward", "xdp-forward"] {
        order.extend(ids(dut).into_iter().map(|id| (id, dut)));
    }
    order.sort_unstable();
    order.dedup_by_key(|(_, dut)| *dut);
    let order: Vec<&str> = order.into_iter().map(|(_, dut)| dut).collect();
    assert_eq!(order, ["kernel-forward", "xdp-forward", "kernel-forward", "xdp-forward"]);
    assert!(
        ids("kernel-nat")[0] > *ids("xdp-forward").last().expect("trials"),
        "another job has its own turns"
    );
    let rates = |dut: &str| {
        let repetitions = &point(dut)["point"]["result"]["goals"][0]["repetitions"];
        repetitions.as_array().expect("repetitions").iter().map(|one| one["fps"].is_f64()).collect::<Vec<_>>()
    };
    if !rates("kernel-forward").into_iter().zip(rates("xdp-forward")).all(|(one, other)| one && other) {
        return println!("skipped: {} found this machine too busy to compare rates", module_path!());
    }
    let comparisons = &point("xdp-forward")["point"]["result"]["comparisons"];
    assert_eq!(comparisons.as_array().map(Vec::len), Some(1), "{comparisons}");
    assert_eq!(comparisons[0]["point_index"], point("kernel-forward")["point"]["index"]);
}

#[test]
fn an_interrupted_run_keeps_its_trials_and_writes_its_report() {
    need_root!();
    let home = home();
    let mut run = in_mid_run(&home);
    run.signal(libc::SIGINT);
    assert_eq!(run.child.wait().expect("it ran").code(), Some(130));
    let record = home.record();
    assert_eq!(record["run"]["state"], "interrupted");
    assert!(trials(&record).len() >= 3, "{record}");
    assert!(
        fs::read_to_string(home.path("data/weir/reports/weir-long-1.html"))
            .expect("a report")
            .contains("interrupted")
    );
}

#[test]
fn a_run_whose_terminal_closes_keeps_its_trials_and_writes_its_report() {
    need_root!();
    let home = home();
    let mut run = InTerminal::start(home.command(&[WEIR], &["run", "long.toml", "--verbose"]));
    // Of the second trial the bar tells when the first is kept.
    run.await_words("  trial 1: ");
    let view = run.live_lines();
    assert!(view.iter().any(|line| line.starts_with("point 1 of ")), "{view:?}");
    let is_whole = |line: &String| line.starts_with(['█', '░', 'p']);
    assert!(view.iter().all(is_whole), "what stands above a bar goes on in its line: {view:?}");
    run.close();
    let record = home.record();
    assert_eq!(record["run"]["state"], "interrupted");
    assert!(!trials(&record).is_empty(), "{record}");
    assert!(
        fs::read_to_string(home.path("data/weir/reports/weir-long-1.html"))
            .expect("a report")
            .contains("interrupted")
    );
}

/// Something else used the CPU of the device, so that frames were still under way when their trial ended, or the next one began.
fn was_starved(trial: &Value) -> bool {
    let reasons = trial["reasons"].to_string();
    ["for a CPU that something else used", "of another trial", "the tester sent only"]
        .iter()
        .any(|words| reasons.contains(words))
}

#[test]
fn two_runs_at_once_take_turns() {
    need_root!();
    let home = home();
    let start =
        || home.command(&[WEIR], &["run", "tiny.toml", "--no-report", "--json"]).spawn().expect("weir");
    let runs = [start(), start()];
    let _watches = runs.each_ref().map(Watch::new);
    for child in runs {
        let output = child.wait_with_output().expect("it ran");
        assert!(matches!(output.status.code(), Some(0 | 3)), "{output:?}");
        let record: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(record["run"]["state"], "complete");
        for trial in trials(&record).iter().filter(|trial| !was_starved(trial)) {
            assert_ne!(trial["verdict"], "invalid", "{}", trial["reasons"]);
            assert_eq!(trial["unexplained"], 0, "{}", trial["drop_counters"]);
        }
    }
}

#[test]
fn without_rights_it_measures_and_says_what_is_weaker() {
    need_root!();
    let nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    let mut attempt = Command::new(nobody[0]);
    attempt.args(&nobody[1..]).args(["unshare", "--user", "--net", "true"]);
    if !output(&mut attempt).is_ok_and(|output| output.status.success()) {
        return println!("skipped: a run as nobody needs setpriv, unshare and unprivileged user namespaces");
    }
    let home = home();
    let weir = weir::copy_to(home.path("weir"));
    let mut words = nobody.to_vec();
    words.push(&weir);
    let mut command = home.command(&words, &["run", "tiny.toml"]);
    let output = output(&mut command).expect("weir starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 3)), "{said}");
    assert!(said.contains("note: Not root: frames go through AF_PACKET sockets"), "{said}");
    let record = home.record();
    assert_eq!(record["run"]["state"], "complete");
    assert_eq!(record["run"]["tester"]["generator"], "af-packet");
    assert!(record["run"]["tester"]["limits"][0].as_str().expect("a limit").starts_with("Not root"));
    let measured = |t: &Value| t["verdict"] != "invalid" || was_starved(t);
    assert!(trials(&record).iter().all(|t| t["sent"].as_u64() > Some(0) && measured(t)), "{record}");
    assert!(home.path("data/weir/reports/weir-tiny-1.html").exists(), "{said}");
}

/// The page of the book with the recipe for CI.
const AUTOMATION: &str = include_str!("../../../docs/automation.md");

#[test]
fn the_recipe_for_ci_runs_as_it_is_written() {
    need_root!();
    let (_, recipe) = AUTOMATION.split_once("## In CI").expect("the recipe");
    let (recipe, _) = recipe.split_once("\n## ").expect("its end");
    let blocks = |language: &str| {
        let begin = format!("```{language}\n");
        let blocks = recipe.split(begin.as_str()).skip(1).filter_map(|rest| rest.split("```").next());
        blocks.map(str::to_string).collect::<Vec<_>>()
    };
    let home = Home::new(&[("ci.toml", blocks("toml")[0].as_str())]);
    fs::create_dir(home.path("bin")).expect("room");
    std::os::unix::fs::symlink(WEIR, home.path("bin/weir")).expect("a link");
    let path = format!("{}:{}", home.path("bin").display(), std::env::var("PATH").unwrap_or_default());
    let script = blocks("sh").concat();
    let mut shell = home.command(&["sh", "-ec", &script], &[]);
    let output = output(shell.env("PATH", path)).expect("sh starts");
    let said = String::from_utf8_lossy(&output.stderr);
    // The last command's: a machine may be slower while it does something else, too.
    assert!(matches!(output.status.code(), Some(0 | 3 | 4)), "{output:?}");
    if output.status.code() == Some(3) && !home.path("baseline.json").exists() {
        return println!("not tested: the machine was too busy for a baseline: {said}");
    }
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(shown.contains("verdict") || said.contains("kernel-forward"), "{shown}\n{said}");
    assert!(home.path("baseline.json").exists());
}

/// Writes a run with a search, and returns its report.
fn report(home: &Home) -> String {
    let plan = PLAN.split("[search]").next().expect("a head").to_string()
        + "[search]\nkind = \"rfc2544\"\nmin_fps = \"10k\"\nmax_fps = \"40k\"\ntrial_s = 0.1\nresolution = \"20%\"\n\
           [curve]\npercent = [50, 100]\ntrial_s = 0.1\n";
    fs::write(home.path("search.toml"), plan).expect("room for a plan");
    let output = home.weir(&["run", "search.toml", "--report", "report.html"]);
    assert!(matches!(output.status.code(), Some(0 | 3)), "{output:?}");
    fs::read_to_string(home.path("report.html")).expect("a report")
}

/// 12345.6 as the report writes it in tables: rounded, with thin separators left out.
fn digits(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace() && *c != ',' && *c != '\u{202f}' && *c != '\u{a0}').collect()
}

#[test]
fn the_numbers_of_the_report_are_those_of_the_record_and_its_charts_show() {
    need_root!();
    let home = home();
    let html = report(&home);
    let record = home.record();
    let table = digits(&html);
    for point in record["points"].as_array().expect("points") {
        for goal in point["point"]["result"]["goals"].as_array().expect("goals") {
            let Some(fps) = goal["fps_median"].as_f64() else { continue };
            let rounded = format!("{fps:.0}");
            assert!(table.contains(&rounded), "{rounded} of {} is not in the report", goal["goal"]);
        }
    }
    for chromium in ["/usr/bin/chromium", "/usr/bin/chromium-browser"] {
        if Path::new(chromium).exists() {
            return shows_its_charts(&home, chromium);
        }
    }
    println!("skipped: the report is not opened, because chromium is not installed");
}

/// Opens the report with a script behind it that writes the sizes of all charts into the document.
fn shows_its_charts(home: &Home, chromium: &str) {
    let html = fs::read_to_string(home.path("report.html")).expect("a report");
    let probe = "<script>document.querySelectorAll('details').forEach(d => d.open = true);\
                 const sizes = [...document.querySelectorAll('svg')].map(s => s.getBoundingClientRect());\
                 document.body.setAttribute('data-charts', sizes.filter(s => s.width > 0 && s.height > 0).length \
                 + ' of ' + sizes.length);</script></body>";
    fs::write(home.path("probe.html"), html.replace("</body>", probe)).expect("room");
    let profile = format!("--user-data-dir={}", home.path("chromium").display());
    let mut command = Command::new(chromium);
    command
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", &profile])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .args(["--enable-logging=stderr", "--dump-dom"])
        .arg(format!("file://{}", home.path("probe.html").display()));
    let output = output(&mut command).expect("chromium starts");
    let (page, log) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let said = page.split("data-charts=\"").nth(1).and_then(|rest| rest.split('"').next());
    let said = said.unwrap_or_else(|| panic!("no answer from the page: {log}"));
    let (shown, all) = said.split_once(" of ").expect("two numbers");
    assert!(shown == all && all != "0", "{said} charts have a size");
    assert!(!log.contains("CONSOLE"), "{log}");
}
