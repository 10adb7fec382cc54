//! What is made from kept runs: comparisons, trends, exports. The store is filled here, so that nothing is measured.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use weir_testkit::{golden, need_root};

use crate::kept::Kept;
use crate::weir::WEIR;

#[test]
fn runs_are_compared_and_a_slower_one_can_fail() {
    let kept = Kept::new("small");
    for (day, fps) in [(1, 400e3), (2, 401e3), (3, 360e3)] {
        kept.run(day, fps);
    }
    kept.check(
        "\
$ compare 1 2 3
run 2 against run 1
the same plan, version, machine and settings

frame  device          quantity  run 1  run 2  ratio  95 % interval  p (Holm)  verdict
   64  kernel-forward  NDR        400k   401k  1.002    0.985–1.020     0.758  no difference shown

1 comparison: 1 no difference shown

run 3 against run 1
the same plan, version, machine and settings

frame  device          quantity  run 1  run 3  ratio  95 % interval  p (Holm)  verdict
   64  kernel-forward  NDR        400k   360k  0.900    0.884–0.916   ≤ 0.001  slower

1 comparison: 1 slower
",
    );
    for (line, expected) in [
        ("compare 1 last --fail-on slower", 4),
        ("compare 1 2 --fail-on slower,cannot-tell,unmatched", 0),
        ("compare 3 2 --fail-on slower", 0),
        ("compare 3 2 --fail-on faster", 4),
        ("compare 1 9", 1),
    ] {
        assert_eq!(kept.said(line).1, Some(expected), "{line}");
    }
    let (json, _) = kept.said("compare 1 3 --json");
    let value: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(value[0]["rows"][0]["verdict"], "slower");
    assert!(value[0]["rows"][0]["interval"]["high"].as_f64().unwrap() < 1.0, "{json}");
}

#[test]
fn a_comparison_without_a_common_point_fails() {
    let kept = Kept::new("small");
    kept.run(1, 400e3);
    kept.run_at(2, "node", 400e3);
    let compared = "\
run 2 against run 1

differs      run 1           run 2
setting dut  kernel-forward  node

no point has a result in both runs
only run 1 has this point: 64, kernel-forward
only run 2 has this point: 64, node
";
    let fails = "weir: --fail-on fails: no point has a result in both run 1 and run 2\n[4]\n";
    for verdicts in ["slower", "faster", "cannot-tell", "slower,cannot-tell", "unmatched"] {
        kept.check(&format!("$ compare 1 2 --fail-on {verdicts}\n{compared}{fails}"));
    }
    kept.check(&format!("$ compare 1 2\n{compared}"));
}

#[test]
fn the_last_run_of_a_comparison_is_a_complete_one_of_its_plan() {
    let kept = Kept::new("small");
    for (day, fps) in [(1, 400e3), (2, 360e3)] {
        kept.run(day, fps);
    }
    kept.failed_run(3);
    kept.run_of("other", 4, 400e3);
    // Run 3 has failed, run 4 is of another plan: neither hides that run 2 is slower.
    let (text, code) = kept.said("compare 1 last --fail-on slower");
    assert_eq!(code, Some(4), "{text}");
    kept.check(
        "\
$ compare 1 3 --fail-on slower
weir: run 3 is failed: --fail-on needs complete runs; complete it with `weir run --resume 3`
[1]
",
    );
    assert_eq!(kept.said("compare 1 3").1, Some(0), "one may look at it");
    let (json, _) = kept.said("show 1 --json");
    fs::write(kept.folder.join("baseline.json"), json).expect("room");
    assert_eq!(kept.said("compare baseline.json last --fail-on slower").1, Some(4));
    fs::write(kept.folder.join("broken.json"), "{}").expect("room");
    kept.check(
        "\
$ compare broken.json last
weir: broken.json contains no run: write it with `weir show ID --json > broken.json`: missing field `run` at line 1 column 2
[1]
",
    );
}

#[test]
fn a_mistyped_store_makes_no_file() {
    let kept = Kept::new("small");
    for line in ["list", "show last", "report last", "compare 1 2", "trend small", "export last --format csv"]
    {
        kept.check(&format!(
            "$ {line} --store typo.db\nweir: there is no file typo.db: check the name in --store or WEIR_STORE; `weir run` creates \
             it\n[1]\n"
        ));
    }
    assert!(!kept.folder.join("typo.db").exists());
}

#[test]
fn a_report_goes_beside_the_records_or_where_the_user_says_and_replaces_only_reports() {
    let kept = Kept::new("small");
    kept.run(1, 400e3);
    fs::write(kept.folder.join("diary.html"), "my diary").expect("room");
    kept.check(
        "\
$ report 1
DIR/reports/weir-small-1.html
$ report 1 -o .
./weir-small-1.html
$ report 1 -o .
./weir-small-1.html
note: replaced ./weir-small-1.html
$ report 1 -o diary.html
weir: diary.html exists and is not a weir report: not overwritten; move it away, or use another file
[1]
",
    );
    assert_eq!(fs::read_to_string(kept.folder.join("diary.html")).expect("readable"), "my diary");
}

#[test]
fn a_trend_tells_where_the_level_changed() {
    let kept = Kept::new("small");
    (1..=16).for_each(|day| {
        kept.run(day, if day <= 8 { 400e3 } else { 360e3 } + f64::from(day * 37 % 10) * 200.0)
    });
    kept.check(
        "\
$ trend small --goal NDR --point frame_bytes=64
small on Example 9000, 2 CPUs: 16 runs, 2026-03-01 to 2026-03-16

frame  device          quantity  runs  level now  95 % interval  since  changes
   64  kernel-forward  NDR         16       361k  360k–362k      run 9        1

64, kernel-forward, NDR
  2026-03-09T10:00:00Z run 9 (weir 0.1.0): 0.899 times, 0.897 – 0.902; from 401 k to 361 k; no recorded property changed at the same time

A change is reported if a permutation test has p < 5 %: of 1 series without a change, at most 0.1 would show one by chance. The position of a change is exact to one or two runs.
$ trend smal
weir: there is no complete run of `smal`: see `weir list`
[1]
$ trend small -o trend.html
trend.html
",
    );
    let (json, _) = kept.said("trend small --json");
    let value: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(value["tracks"][0]["changes"][0]["run"], 9, "{json}");
    assert!(fs::read_to_string(kept.folder.join("trend.html")).expect("written").contains("<svg"));
}

#[test]
fn a_run_is_exported_in_each_format() {
    let kept = Kept::new("small");
    kept.run(1, 400e3);
    for format in ["csv", "jsonl", "prometheus", "markdown", "latex", "tabular"] {
        let (text, code) = kept.said(&format!("export last --format {format}"));
        assert_eq!(code, Some(0), "{format}");
        golden!(format!("tests/golden/export.{format}"), &text);
        assert_eq!(kept.said(&format!("export 1 --format {format} -o out")), (String::new(), Some(0)));
        let written = fs::read_to_string(kept.folder.join("out")).expect("written").replace('\u{202f}', " ");
        assert_eq!(written, text, "{format}");
    }
    fs::remove_file(kept.folder.join("out")).expect("it is there");
    let (drawings, code) = kept.said("export 1 --format svg -o drawings");
    assert!(code == Some(0) && drawings.lines().any(|name| name == "drawings/answer-1.svg"), "{drawings}");
    assert!(kept.folder.join("drawings/answer-1.svg").exists());
    fs::remove_dir_all(kept.folder.join("drawings")).expect("it is there");
    let left = || {
        fs::read_dir(&kept.folder)
            .expect("it is there")
            .filter(|f| !f.as_ref().is_ok_and(|f| f.file_name().to_string_lossy().starts_with("records.db")))
            .count()
    };
    assert_eq!(left(), 0, "no draft stays");
    assert_eq!(kept.said("export 1 --format csv -o link").1, Some(0));
    fs::rename(kept.folder.join("link"), kept.folder.join("out")).expect("it is ours");
    std::os::unix::fs::symlink("out", kept.folder.join("link")).expect("it is ours");
    assert_eq!(kept.said("export 1 --format jsonl -o link").1, Some(0));
    assert!(
        fs::read_to_string(kept.folder.join("out")).expect("written").starts_with("{"),
        "through the link"
    );
    fs::remove_file(kept.folder.join("out")).expect("it is there");
    fs::remove_file(kept.folder.join("link")).expect("it is there");
    kept.check(
        "\
$ export 1 --format csv -o no/such/folder
weir: cannot write to no/such/folder: No such file or directory (os error 2)
[1]
",
    );
    assert_eq!(left(), 0);
}

#[test]
fn nothing_is_written_through_a_link_of_somebody_else() {
    need_root!();
    let kept = Kept::new("small");
    kept.run(1, 1e6);
    let (victim, link) = (kept.folder.join("victim"), kept.folder.join("link"));
    // A report may give way to a newer one.
    let precious = "<title>weir: precious";
    fs::write(&victim, precious).expect("room");
    // The last is the default place of a report.
    fs::create_dir(kept.folder.join("reports")).expect("room");
    for link in [link, kept.folder.join("reports/weir-small-1.html")] {
        std::os::unix::fs::symlink(&victim, &link).expect("a link");
        std::os::unix::fs::lchown(&link, Some(12345), Some(12345)).expect("given away");
    }
    for (line, what) in [
        ("report 1 -o link", "the report to link: link"),
        ("report 1", "the report to DIR/reports/weir-small-1.html: weir-small-1.html"),
        ("export 1 --format csv -o link", "to link: link"),
        ("trend small -o link", "the trend to link: link"),
    ] {
        kept.check(&format!(
            "$ {line}\nweir: cannot write {what} is a symbolic link of user 12345: use its target\n[1]\n"
        ));
        assert_eq!(fs::read_to_string(&victim).expect("readable"), precious, "{line}");
    }
    fs::hard_link(&victim, kept.folder.join("second")).expect("a second name");
    assert!(kept.weir("report 1 -o second").status.success(), "a new file takes its name");
    assert_eq!(fs::read_to_string(&victim).expect("readable"), precious);
}

#[test]
fn a_row_that_cannot_be_read_is_named_and_hides_no_other() {
    let kept = Kept::new("small");
    (1..=3).for_each(|day| kept.run(day, 1e6));
    let db = rusqlite::Connection::open(kept.folder.join("records.db")).expect("a database");
    db.execute("UPDATE runs SET rest = 'no json' WHERE id = 2", ()).expect("changed");
    let output = kept.weir("list --json");
    let runs: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let ids: Vec<_> = runs.as_array().expect("a list").iter().map(|run| run["id"].clone()).collect();
    assert_eq!(ids, [json!(1), json!(3)]);
    let file = kept.folder.join("records.db").display().to_string();
    let said = String::from_utf8_lossy(&output.stderr);
    let changed = said
        .strip_prefix(&format!("note: record 2 of table runs in {file} "))
        .unwrap_or_else(|| panic!("{said}"));
    let changed = changed.trim_end();
    let is_whole = changed.starts_with("cannot be read: ")
        && changed.ends_with("; it was edited, or is of another version");
    assert!(is_whole, "{said}");
    kept.check(&format!(
        "\
$ clean
nothing to do: no killed run left changes
$ show 2
weir: record 2 of table runs in DIR/records.db {changed}
[1]
"
    ));
    assert_eq!(kept.said("show 3").1, Some(0));
}

/// A file system that is read-only has no room for the log of SQLite either.
#[test]
fn records_are_read_where_nothing_can_be_written() {
    need_root!();
    let kept = Kept::new("small");
    (1..=2).for_each(|day| kept.run(day, 1e6));
    let check = |folder: &Path, expected: i32| {
        for line in [
            "list",
            "show last",
            "export last --format csv",
            "compare 1 2",
            "report last -o /dev/null",
            "trend small",
        ] {
            let script = "mount --bind . . && mount -o remount,bind,ro . && cd \"$PWD\" && exec \"$@\"";
            let mut shell = Command::new("unshare");
            shell.args(["--mount", "sh", "-c", script, "sh", WEIR]).args(line.split(' '));
            let output = shell.args(["--store", "records.db"]).current_dir(folder).output().expect("unshare");
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(expected), "{line}: {said}");
            assert!(expected == 0 || said.contains("copy both files to a writable folder"), "{line}: {said}");
        }
    };
    // Another process, this one, has it open.
    check(&kept.folder, 0);
    let folder = kept.close();
    check(&folder, 0);
    fs::write(folder.join("records.db-wal"), "records of a run that was killed").expect("room");
    check(&folder, 1);
}
