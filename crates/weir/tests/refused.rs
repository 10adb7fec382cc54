//! What cannot work is refused in plain words, with the remedy, and nothing is lost by it.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rusqlite::Connection;
use serde_json::Value;
use weir_testkit::{need_root, output};

use crate::home::{Home, trials};
use crate::weir::{self, WEIR};

const PLAN: &str = r#"question = "Is it refused?"
[dut]
kind = "kernel-forward"
cpus = 1
[traffic]
frame_bytes = 128
[search]
kind = "fixed"
loads_fps = "10k"
trial_s = 0.05
"#;

fn home() -> Home {
    Home::new(&[("tiny.toml", PLAN)])
}

/// The words on standard error of a command that must fail with this exit code.
fn refusal(output: &Output, code: i32) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert!(!said.contains("panicked"), "{said}");
    said
}

/// The release of the kernel here.
fn kernel() -> String {
    fs::read_to_string("/proc/sys/kernel/osrelease").expect("a kernel").trim().to_string()
}

/// The note of a run that gets by with packet sockets, for this reason.
fn packets_instead(why: &str) -> String {
    format!(
        "note: Using AF_PACKET sockets instead of XDP: {why}. They send several times fewer frames, with less exact departure \
         times. XDP needs root and Linux 5.18 or newer."
    )
}

/// Lets a system call fail with ENOSYS in `command` and its children, as in a kernel that does not have it.
fn without(command: &mut Command, system_call: libc::c_long) -> &mut Command {
    let filter = [
        // The number of the system call is the first word of what a filter sees: seccomp(2), struct seccomp_data.
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0),
        libc::sock_filter {
            code: (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16,
            jt: 0,
            jf: 1,
            k: system_call as u32,
        },
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW),
    ];
    let install = move || {
        let mut filter = filter;
        let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
        // SAFETY: no pointers. Without it, only root may install a filter.
        unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
        // SAFETY: the kernel copies the program, which lives through the call.
        let refused =
            unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) };
        if refused == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    };
    // SAFETY: two system calls between fork and exec, nothing is allocated.
    unsafe { command.pre_exec(install) }
}

fn statement(code: u32, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

#[test]
fn plans_and_records_of_a_newer_version() {
    let home = home();
    let newer = format!("requires = \"99.1\"\n{PLAN}unheard_of = 1\n");
    fs::write(home.path("newer.toml"), newer).expect("room");
    // What a newer version knows is no mistake.
    home.check(
        "\
$ run newer.toml
weir: the plan has mistakes:
newer.toml:1: requires: this plan needs weir 99.1 or newer, and this is 0.1.0: update weir
[1]
$ list
no runs are recorded
",
    );
    let path = home.path("data/weir/records.db");
    fs::create_dir_all(path.parent().expect("a folder")).expect("room");
    Connection::open(&path).expect("a file").pragma_update(None, "user_version", 99).expect("it is SQLite");
    for line in ["list", "run tiny.toml", "show last", "clean"] {
        home.check(&format!(
            "$ {line}\nweir: DIR/data/weir/records.db has record format 99, this weir supports formats up to 5: use a newer weir, \
             or another file with --store\n[1]\n"
        ));
    }
}

#[test]
fn what_is_not_there_is_reported() {
    let home = home();
    fs::write(home.path("holiday.jpg"), [0xff; 5000]).expect("room");
    home.check(
        "\
$ list --store holiday.jpg
weir: holiday.jpg is no file of weir records, or is damaged: use another file with --store, or restore a copy
[1]
$ run quik
weir: `quik` is neither a shipped plan nor a file: did you mean `quick`?
[1]
$ run tiny.toml --report nowhere/x.html
weir: there is no folder nowhere for the report: create it, or change --report
[1]
",
    );
    let said = refusal(&home.weir(&["bench", "plane", "forwrd"]), 1);
    assert!(
        said.starts_with("weir: no row has `forwrd` in its name; the rows are\n  forward 1 prefix IPv4\n"),
        "{said}"
    );
}

#[test]
fn a_kernel_that_lacks_something() {
    need_root!();
    let home = home();
    let run = |tester: &str, call| {
        let mut command = home.command(&[WEIR], &["run", "tiny.toml", "--no-report", "--tester", tester]);
        output(without(&mut command, call)).expect("weir starts")
    };
    let said = refusal(&run("xdp", libc::SYS_bpf), 1);
    let kernel = kernel();
    let lacks =
        format!("the kernel ({kernel}) refused the eBPF generator: Function not implemented (os error 38)");
    assert_eq!(said, format!("weir: {lacks}\n"));
    assert_eq!(home.weir(&["show", "last"]).status.code(), Some(1), "nothing was begun");
    // Left to choose, it gets by with less and says so.
    let output = run("auto", libc::SYS_bpf);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 3)), "{said}");
    assert_eq!(said.lines().next(), Some(packets_instead(&lacks).as_str()));
    assert_eq!(home.record()["run"]["tester"]["generator"], "af-packet");

    let said = refusal(&run("auto", libc::SYS_unshare), 1);
    assert_eq!(
        said.lines().last(),
        Some(
            "weir: kernel-forward cannot be measured here: no network namespace: Function not implemented (os error 38). Run \
             as root, or in a user namespace of its own (unshare -Urnm), where kernel.unprivileged_userns_clone and AppArmor \
             allow it; remove it from dut.kind, or see `weir doctor`"
        )
    );
}

/// A kernel that is older than this one in what bpf(2) takes.
struct Older(PathBuf);

impl Older {
    /// As `tests/vm/older.c` writes versions.
    fn new(home: &Home, version: u32) -> Older {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/vm/older.c");
        let library = home.path(&format!("{version}.so"));
        let mut cc = Command::new("cc");
        cc.args(["-shared", "-fPIC", "-Wall", "-Werror", &format!("-DKERNEL={version}"), "-o"]);
        assert!(cc.arg(&library).arg(source).status().expect("the C compiler that builds weir").success());
        Older(library)
    }

    fn weir(&self, home: &Home, words: &[&str]) -> Output {
        let mut command = home.command(&[WEIR], words);
        output(command.env("LD_PRELOAD", &self.0)).expect("weir starts")
    }

    /// What the doctor says of it.
    fn check(&self, home: &Home, expected: &[(&str, &str)]) {
        let doctor: Value =
            serde_json::from_slice(&self.weir(home, &["doctor", "--json"]).stdout).expect("JSON");
        for (name, state) in expected {
            let mut findings = doctor["findings"].as_array().expect("a list").iter();
            let found =
                findings.find(|one| one["name"] == *name).unwrap_or_else(|| panic!("{name}: {doctor}"));
            assert_eq!(found["state"], *state, "{name}: {doctor}");
        }
        assert_eq!(doctor["can_run"], true);
    }
}

#[test]
fn a_kernel_without_all_congestion_controls() {
    need_root!();
    let home = home();
    Older::new(&home, 608).check(
        &home,
        &[
            ("live frames", "ok"),
            ("xdp tester", "ok"),
            ("node", "ok"),
            ("capture", "ok"),
            ("congestion controls", "weaker"),
            ("plan quick", "ok"),
        ],
    );
}

#[test]
fn a_kernel_without_live_frames() {
    need_root!();
    let home = home();
    let older = Older::new(&home, 515);
    let weir = |words: &[&str]| older.weir(&home, words);
    older.check(
        &home,
        &[
            ("live frames", "weaker"),
            ("xdp tester", "weaker"),
            ("packet tester", "ok"),
            ("receive threads", "ok"),
            ("node", "ok"),
            ("capture", "weaker"),
            ("congestion controls", "weaker"),
            ("plan quick", "ok"),
        ],
    );
    // As the doctor says: by sockets, with one note.
    let run = weir(&["run", "tiny.toml", "--no-report"]);
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(matches!(run.status.code(), Some(0 | 3)), "{said}");
    assert_eq!(said.matches("AF_PACKET sockets instead of XDP").count(), 1, "{said}");
    let lacks = |what: &str| {
        let (kernel, why) =
            (kernel(), "Invalid argument (os error 22) (Linux 5.18 or newer has what it needs)");
        format!("the kernel ({kernel}) refused the eBPF {what}: {why}")
    };
    assert_eq!(said.lines().next(), Some(packets_instead(&lacks("receiver")).as_str()));
    assert_eq!(home.record()["run"]["tester"]["generator"], "af-packet");
    // What cannot be done is refused before anything is kept.
    let runs = || String::from_utf8_lossy(&home.weir(&["list"]).stdout).into_owned();
    let before = runs();
    let said = refusal(&weir(&["run", "tiny.toml", "--tester", "xdp", "--no-report"]), 1);
    assert_eq!(said, format!("weir: {}\n", lacks("receiver")));
    let said = refusal(&weir(&["run", "capture", "--short", "--no-report"]), 1);
    let why = format!(
        "weir: count cannot capture here: {}; remove it from capture.methods, or see `weir doctor`",
        lacks("counter")
    );
    assert_eq!(said.lines().last(), Some(why.as_str()));
    assert_eq!(before, runs(), "nothing was begun");
}

#[test]
fn without_privileges_xdp_is_refused() {
    need_root!();
    let home = home();
    let weir = weir::copy_to(home.path("weir"));
    let mut command = home.command(&[&weir], &["run", "tiny.toml", "--tester", "xdp"]);
    let said = refusal(&output(command.uid(65534).gid(65534)).expect("weir starts"), 1);
    assert_eq!(
        said,
        "weir: the XDP tester needs CAP_SYS_ADMIN and CAP_NET_ADMIN: run weir as root, or choose --tester packet\n"
    );
    // Nor can it go into a user namespace of its own where there are none.
    let mut command = home.command(&[&weir], &["run", "tiny.toml"]);
    let output = output(without(command.uid(65534).gid(65534), libc::SYS_unshare)).expect("weir starts");
    assert_eq!(
        refusal(&output, 1),
        "weir: without root, weir needs an unprivileged user namespace: run it as root, or allow them \
         (kernel.unprivileged_userns_clone, user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns): \
         Function not implemented (os error 38)\n"
    );
}

#[test]
fn a_disk_that_is_full() {
    need_root!();
    let home = home();
    fs::create_dir(home.path("small")).expect("a folder");
    // A separate disk that only this process and its children see, almost full.
    let script = "mount -t tmpfs -o size=640k none small && head -c 360k /dev/zero > small/ballast &&
        \"$0\" run tiny.toml --set search.trial_s=0.01 --set repeat.times=1 --set search.loads_fps=[$1] \
        --no-report --store small/records.db; code=$?
        cp small/records.db* . && exit $code";
    let loads: Vec<_> = (10_000..10_400).map(|fps| fps.to_string()).collect();
    let loads = loads.join(",");
    let mut command = home.command(&["unshare", "--mount", "sh", "-c", script], &[WEIR, &loads]);
    let output = output(&mut command).expect("util-linux is everywhere");
    let said = refusal(&output, 1);
    assert!(said.contains("disk that holds small/records.db is full"), "{said}");
    let kept = home.weir(&["show", "1", "--json", "--store", "records.db"]);
    let record: Value = serde_json::from_slice(&kept.stdout).expect("JSON");
    assert!(trials(&record).len() > 3, "{kept:?}");
}

#[test]
fn a_plan_may_have_any_name_and_a_mark_before_its_text() {
    use std::os::unix::ffi::OsStrExt;
    let home = home();
    let name = std::ffi::OsStr::from_bytes(b"m\xfcller.toml");
    let text = fs::read_to_string(home.path("tiny.toml")).expect("it is there");
    fs::write(home.path("").join(name), format!("\u{feff}{text}")).expect("room");
    let mut command = home.command(&[WEIR], &["plan", "check"]);
    let output = output(command.arg(name).arg("--short")).expect("weir starts");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.starts_with("m\u{fffd}ller.toml is valid"), "{output:?}");
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "note: the plan m\u{fffd}ller has no short form: --short changes nothing\n"
    );
}
