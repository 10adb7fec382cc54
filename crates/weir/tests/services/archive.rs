//! Runs in PostgreSQL, as users push and read them: the commands say the same of an archive as of a file.

use std::path::Path;
use std::process::Command;

use weir_testkit::output;
use weir_testkit::postgres::Postgres;

use crate::kept::Kept;
use crate::weir::WEIR;

/// A server, if PostgreSQL and the program are there.
fn postgres() -> Option<Postgres> {
    if !Path::new(WEIR).with_file_name("weir-archive").exists() {
        println!("skipped: weir-archive is not built (cargo build -p weir-archive)");
        return None;
    }
    Postgres::start()
}

#[test]
fn commands_say_the_same_of_an_archive_and_of_a_file() {
    let Some(postgres) = postgres() else { return };
    let (url, _) = postgres.database();
    let kept = Kept::new("small");
    for (day, fps) in [(1, 400e3), (2, 401e3), (3, 360e3)] {
        kept.run(day, fps);
    }
    kept.failed_run(4);
    kept.run_of("other", 5, 400e3);
    let refused = kept.weir(&format!("list --from {url}"));
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(
        said.ends_with("there are no tables yet: `weir push` or `weir archive setup` makes them\n"),
        "{said}"
    );
    for (wrong, words) in [
        (
            "list --from records.db",
            "`records.db` is no address of an archive: use postgres://USER@HOST/DATABASE",
        ),
        ("trend small --from mysql://a@b/c", "is no address of an archive"),
        ("push --to postgres//a@b/c", "is no address of an archive"),
        (
            "serve --from postgres://a@b/c --listen 8080",
            "`8080` is no address with a port: use 127.0.0.1:8080",
        ),
    ] {
        let refused = kept.weir(wrong);
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && said.matches(words).count() == 1, "{wrong}: {said}");
        assert!(!said.contains("has ended"), "{wrong}: {said}");
    }
    for (line, said) in [
        ("push", "1 new"),
        ("push --all", "4 new, 1 there before"),
        ("push --all", "0 new, 5 there before"),
        ("push 2 4", "0 new, 2 there before"),
    ] {
        assert_eq!(kept.said(&format!("{line} --to {url}")), (format!("{said}\n"), Some(0)), "{line}");
    }
    // The last run was pushed first, so that numbers differ: of the archive, and of the file.
    for (archive, file) in [
        ("list", "list"),
        ("show 2", "show 1"),
        ("export 2 --format csv", "export 1 --format csv"),
        ("compare 2 4 --fail-on slower", "compare 1 3 --fail-on slower"),
        ("trend small", "trend small"),
        ("show 9", "show 9"),
    ] {
        let plain = |text: String| {
            let mut lines: Vec<String> =
                text.lines().map(|line| line.replace(|c: char| c.is_ascii_digit(), "N")).collect();
            lines.sort();
            lines
        };
        let [(read, code), (expected, expected_code)] =
            [kept.said(&format!("{archive} --from {url}")), kept.said(file)];
        assert_eq!((plain(read), code), (plain(expected), expected_code), "{archive}");
    }
    let (json, _) = kept.said(&format!("show 2 --json --from {url}"));
    let (expected, _) = kept.said("show 1 --json");
    let [read, expected] =
        [json, expected].map(|text| serde_json::from_str::<serde_json::Value>(&text).expect("JSON"));
    assert_eq!(read["run"]["uuid"], expected["run"]["uuid"]);
    assert_eq!(read["points"][0]["point"]["result"], expected["points"][0]["point"]["result"]);
    let (path, code) = kept.said(&format!("report 2 4 -o both.html --from {url}"));
    assert_eq!((path.as_str(), code), ("both.html\n", Some(0)));
}

#[test]
fn a_run_is_pushed_after_it_or_after_a_later_one() {
    let Some(mut postgres) = postgres() else { return };
    let (url, _) = postgres.database();
    let kept = Kept::new("small");
    let run = |seed: u32| {
        let mut command = Command::new(WEIR);
        command.args([
            "run",
            "buffers",
            "--short",
            "--shard",
            "1/400",
            "--quiet",
            "--no-report",
            "--seed",
            &seed.to_string(),
        ]);
        command.env("WEIR_STORE", kept.folder.join("records.db")).env("WEIR_PUSH_TO", &url);
        let ran = output(command.current_dir(&kept.folder)).expect("weir starts");
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert!(ran.status.success(), "{said}");
        said
    };
    postgres.kill();
    let said = run(1);
    assert!(said.contains("no connection") && said.contains("it is pushed after the next run"), "{said}");
    postgres.restart();
    assert_eq!(run(2), "");
    let (list, _) = kept.said(&format!("list --from {url}"));
    assert_eq!(list.lines().count(), 3, "{list}");
}
