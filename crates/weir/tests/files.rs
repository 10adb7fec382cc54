//! `weir run files` as a user runs it: files are made, read and gone, whatever ends the run.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use weir_testkit::is_root;

use crate::home::{Home, trials};
use crate::weir::WEIR;

/// The run of a few files in the folder `files` of a home.
fn arguments(home: &Home, sets: &[&str]) -> Vec<String> {
    let directory = format!("directory={}", home.path("files").display());
    let sets = ["rounds=1", "files=20", "size=4k", &directory].into_iter().chain(sets.iter().copied());
    let sets = sets.map(|set| format!("--set=files.{set}"));
    ["run", "files", "--no-report"].map(String::from).into_iter().chain(sets).collect()
}

fn run(home: &Home, sets: &[&str]) -> (Option<i32>, String) {
    let arguments = arguments(home, sets);
    let run = home.weir(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    (run.status.code(), String::from_utf8_lossy(&run.stderr).into_owned())
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).unwrap().next().is_none()
}

#[test]
fn files_are_made_on_each_file_system_and_gone() {
    let home = Home::new(&[]);
    fs::create_dir(home.path("files")).unwrap();
    let systems =
        if is_root() { "file_system=[given,tmpfs,ext4,xfs,btrfs,f2fs]" } else { "file_system=[given,tmpfs]" };
    let (code, said) = run(&home, &[systems, "durability=[none,fsync]", "workers=2"]);
    // What a file system cannot do is a trial that is none.
    assert!(matches!(code, Some(0 | 3)), "{said}");
    said.lines().filter(|line| line.contains("left out: ")).for_each(|line| println!("skipped: {line}"));
    let data = home.record();
    let all = trials(&data);
    assert!(all.len() >= 4, "two methods, none and fsync, at least on the given file system: {said}");
    for trial in all.iter().filter(|trial| trial["verdict"] == "valid") {
        let made = trial["files"]["made_per_s"].as_f64().unwrap_or_else(|| panic!("{trial}"));
        assert!(made > 0.0, "{trial}");
        if let Some(filed) = trial["files"]["filed"].as_object() {
            for phase in ["make", "warm", "cold"] {
                assert_eq!(filed[phase]["calls"]["file"]["count"], 20, "{phase}: {trial}");
            }
        }
    }
    assert!(is_empty(&home.path("files")), "files are gone");
    let shown = home.weir(&["show", "last"]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(
        shown.contains("Files per second:") && shown.contains("Times of calls while files are made"),
        "{shown}"
    );
}

#[test]
fn a_directory_that_will_not_do_is_refused_before_anything_is_recorded() {
    let home = Home::new(&[]);
    fs::create_dir(home.path("real")).unwrap();
    std::os::unix::fs::symlink(home.path("real"), home.path("files")).unwrap();
    let (code, said) = run(&home, &[]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("it is a link: use its target"), "{said}");
    let (code, said) = run(&home, &["directory=/proc"]);
    assert_eq!(code, Some(1), "{said}");
    let listed = home.weir(&["list"]);
    assert!(!String::from_utf8_lossy(&listed.stdout).contains("files"), "{listed:?}");
}

#[test]
fn what_a_killed_run_has_left_goes_with_the_next_one() {
    let home = Home::new(&[]);
    fs::create_dir(home.path("files")).unwrap();
    let arguments = arguments(&home, &["files=1000000", "file_system=given", "method=calls", "peers=fio"]);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut child =
        home.command(&[WEIR], &arguments).stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    while is_empty(&home.path("files")) {
        assert!(child.try_wait().unwrap().is_none(), "it makes files");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!is_empty(&home.path("files")), "it was killed in the middle");
    let (code, said) = run(&home, &["file_system=given", "durability=none", "method=calls"]);
    assert!(matches!(code, Some(0 | 3)), "{said}");
    assert!(is_empty(&home.path("files")), "{said}");
}
