use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use weir_disk::faults::{self, Fault, Writer};

use super::*;
use weir_linux::namespace::Namespace;
use weir_testkit::{Folder, need_root};

fn files(dir: &Path) -> usize {
    fs::read_dir(dir).map_or(0, Iterator::count)
}

#[test]
fn a_file_gets_its_old_value_back_and_the_journal_goes() {
    let dir = Folder::new();
    let (switch, gone) = (dir.join("switch"), dir.join("gone"));
    fs::write(&switch, "0\n").unwrap();
    fs::write(&gone, "5\n").unwrap();
    let state = dir.join("journal");
    {
        let mut journal = Journal::in_dir(&state);
        journal.write_file(&switch, "1\n").unwrap();
        journal.write_file(&switch, "2\n").unwrap();
        journal.write_file(&gone, "6\n").unwrap();
        fs::remove_file(&gone).unwrap();
        assert_eq!(files(&state), 1);
    }
    assert_eq!(fs::read_to_string(&switch).unwrap(), "0\n", "undone in reverse");
    assert!(!gone.exists());
    assert_eq!(files(&state), 0);
}

#[test]
fn journals_of_living_processes_and_other_files_are_left_alone() {
    let dir = Folder::new();
    let switch = dir.join("switch");
    fs::write(&switch, "0").unwrap();
    let state = dir.join("journal");
    let mut journal = Journal::in_dir(&state);
    journal.write_file(&switch, "1").unwrap();
    fs::write(state.join("notes.json"), "{}").unwrap();
    assert_eq!(clean(&state).unwrap(), Cleaned::default());
    assert_eq!(fs::read_to_string(&switch).unwrap(), "1");
    assert_eq!(clean(&dir.join("none")).unwrap(), Cleaned::default());
}

/// A journal of a dead process that has set a switch, as weir writes it.
struct Planted {
    dir: Folder,
    journal: PathBuf,
    switch: PathBuf,
}

impl Planted {
    fn new(origin: Origin) -> Planted {
        let dir = Folder::new();
        let switch = dir.join("switch");
        fs::write(&switch, "00000003\n").unwrap();
        let change = Change::FileValue { path: switch.clone(), before: "1".into(), set: "3".into() };
        let written = Written { origin, entries: vec![Entry { id: EntryId(0), change }] };
        let journal = dir.join("1-0-1.json");
        fs::write(&journal, serde_json::to_vec(&written).unwrap()).unwrap();
        fs::set_permissions(&journal, PermissionsExt::from_mode(0o600)).unwrap();
        Planted { dir, journal, switch }
    }

    /// The notes of a cleaning, if the switch does not change.
    fn left(&self) -> String {
        let cleaned = clean(&self.dir).unwrap();
        assert_eq!(cleaned.undone, []);
        assert_eq!(fs::read_to_string(&self.switch).unwrap(), "00000003\n");
        cleaned.left.join("; ").replace(&self.dir.display().to_string(), "DIR")
    }
}

/// The note about a journal that is not undone.
fn alone(why: &str) -> String {
    format!("the journal DIR/1-0-1.json was not undone: {why}")
}

#[test]
fn a_value_goes_back_only_where_it_is_still_that_of_weir() {
    let planted = Planted::new(Origin::here());
    assert_eq!(clean(&planted.dir).unwrap().undone.len(), 1);
    assert_eq!(fs::read_to_string(&planted.switch).unwrap(), "1");
    assert!(!planted.journal.exists());
    let planted = Planted::new(Origin::here());
    fs::write(&planted.switch, "7").unwrap();
    let cleaned = clean(&planted.dir).unwrap();
    assert!(cleaned.left[0].ends_with("changed since by another program to 7: not restored"), "{cleaned:?}");
    assert_eq!((cleaned.undone, fs::read_to_string(&planted.switch).unwrap()), (vec![], "7".into()));
    assert!(!planted.journal.exists(), "there is nothing to undo any more");
}

#[test]
fn a_journal_that_others_can_have_written_is_left_alone() {
    need_root!();
    let planted = Planted::new(Origin::here());
    fs::set_permissions(&planted.journal, PermissionsExt::from_mode(0o666)).unwrap();
    assert_eq!(planted.left(), alone("others may write to it"));
    let planted = Planted::new(Origin::here());
    std::os::unix::fs::chown(&planted.journal, Some(12345), None).unwrap();
    assert_eq!(planted.left(), alone("it belongs to user 12345"));
    let planted = Planted::new(Origin::here());
    fs::hard_link(&planted.journal, planted.dir.join("second")).unwrap();
    assert_eq!(planted.left(), alone("it has a second name"));
    let planted = Planted::new(Origin::here());
    fs::rename(&planted.journal, planted.dir.join("real")).unwrap();
    std::os::unix::fs::symlink("real", &planted.journal).unwrap();
    assert_eq!(planted.left(), alone("it is a symbolic link: use its target"));
    let planted = Planted::new(Origin::here());
    fs::remove_file(&planted.journal).unwrap();
    // It is not waited for.
    assert!(Command::new("mkfifo").arg(&planted.journal).status().unwrap().success());
    assert_eq!(planted.left(), alone("it is no file"));
}

#[test]
fn a_journal_of_elsewhere_is_left_alone_and_one_of_before_the_start_of_the_machine_goes() {
    let here = Origin::here();
    assert!(!here.host.is_empty() && !here.boot.is_empty() && here.pid_namespace != 0, "{here:?}");
    let planted = Planted::new(Origin { host: "other".into(), ..here.clone() });
    assert_eq!(planted.left(), alone("it is of another machine"));
    let planted = Planted::new(Origin { pid_namespace: 1, ..here.clone() });
    assert_eq!(planted.left(), alone("it is of another container: run `weir clean` there"));
    let planted = Planted::new(Origin { boot: "other".into(), ..here });
    assert_eq!((planted.left().as_str(), planted.journal.exists()), ("", false));
}

#[test]
fn a_journal_that_cannot_be_read_is_named() {
    let planted = Planted::new(Origin::here());
    fs::write(&planted.journal, "no json").unwrap();
    assert_eq!(
        planted.left(),
        alone("it cannot be read (expected ident at line 1 column 2): check its contents, then delete it")
    );
    assert!(planted.journal.exists());
}

#[test]
fn two_runs_do_not_set_the_same_switch() {
    let dir = Folder::new();
    let (switch, state) = (dir.join("switch"), dir.join("journal"));
    fs::write(&switch, "1").unwrap();
    // A process that runs, and has set it.
    let mut other = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
    let change = Change::FileValue { path: switch.clone(), before: "0".into(), set: "1".into() };
    let mut theirs = Journal::in_dir(&state);
    let name = format!("{}-{}-1.json", other.id(), start_time(other.id()).unwrap());
    theirs.file = state.join(name);
    theirs.write_down(change).unwrap();
    let mut ours = Journal::in_dir(&state);
    let refused = ours.write_file(&switch, "2").unwrap_err().to_string();
    assert_eq!(
        refused,
        format!(
            "{} was set by another run of weir (process {}), which still uses it: wait until that run has ended",
            switch.display(),
            other.id()
        )
    );
    assert_eq!((fs::read_to_string(&switch).unwrap().as_str(), files(&state)), ("1", 1));
    other.kill().unwrap();
    other.wait().unwrap();
    ours.write_file(&switch, "2").unwrap();
    assert_eq!(fs::read_to_string(&switch).unwrap(), "2");
    theirs.entries.clear();
}

/// The other half of the next test, in a separate process: sets a switch and undoes that.
#[test]
fn writer_that_fails() {
    let Some(dir) = faults::folder() else { return };
    let switch = dir.parent().unwrap().join("switch");
    let mut journal = Journal::in_dir(&dir);
    for value in ["1", "2"] {
        let _ = journal.write_file(&switch, value);
    }
    let _ = journal.undo_all();
}

#[test]
fn whatever_is_set_can_be_undone_wherever_the_end_came() {
    let writer = Writer { test: "journal::tests::writer_that_fails", lasts: 2 };
    let switch = |dir: &Path| dir.parent().unwrap().join("switch");
    for fault in Fault::ALL {
        let prepare = |dir: &Path| fs::write(switch(dir), "0").unwrap();
        let changes = faults::at_each_change(writer, fault, prepare, |at, dir, _| {
            let cleaned = clean(dir).unwrap();
            assert_eq!((cleaned.left, files(dir)), (vec![], 0), "{fault:?} at {at}");
            // Without power all switches are as they are at the start of the machine.
            let now = fs::read_to_string(switch(dir)).unwrap();
            assert!(now == "0" || fault == Fault::Power, "{fault:?} at {at}: {now}");
        });
        assert!(changes > 8, "{fault:?}: {changes}");
    }
}

#[test]
fn a_process_with_the_same_number_but_another_start_is_not_touched() {
    let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    end_child(child.id(), start_time(child.id()).unwrap() + 1).unwrap();
    child.stdin.as_mut().unwrap().write_all(b"alive").unwrap();
    let mut echo = [0; 5];
    child.stdout.as_mut().unwrap().read_exact(&mut echo).unwrap();
    assert_eq!(&echo, b"alive");
    end_child(child.id(), start_time(child.id()).unwrap()).unwrap();
    assert!(!child.wait().unwrap().success());
    end_child(child.id(), 0).unwrap();
}

/// The other half of the next test, run in a separate process: changes things and waits to be killed.
#[test]
fn child_that_is_killed() {
    let Some(dir) = std::env::var_os("WEIR_TEST_JOURNAL") else { return };
    let mut journal = Journal::in_dir(Path::new(&dir));
    let ns = Namespace::new().unwrap();
    crate::publish::publish(&ns, "weir-killed", &mut journal).unwrap();
    let (child, _) = journal.spawn(Command::new("sleep").arg("1000")).unwrap();
    println!("\nready {} {}", child.id(), ns.inode().unwrap());
    let mut line = String::new();
    io::stdin().read_line(&mut line).unwrap();
    unreachable!("killed before its input ends");
}

#[test]
fn a_killed_process_leaves_a_journal_that_clean_undoes() {
    need_root!();
    let dir = Folder::new();
    let ns = Namespace::new().unwrap();
    // A mount namespace whose /run is its own: the host's stays as it is.
    ns.run(|| {
        rustix::mount::mount("none", "/run", "tmpfs", rustix::mount::MountFlags::empty(), c"").unwrap();
        let mut victim = dying_with_parent(&mut Command::new(std::env::current_exe().unwrap()))
            .args(["--exact", "journal::tests::child_that_is_killed", "--nocapture"])
            .env("WEIR_TEST_JOURNAL", &dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let ready = BufReader::new(victim.stdout.take().unwrap())
            .lines()
            .map(io::Result::unwrap)
            .find(|line| line.starts_with("ready "))
            .unwrap();
        let numbers: Vec<u64> = ready.split(' ').skip(1).map(|n| n.parse().unwrap()).collect();
        let grandchild = pidfd_open(Pid::from_raw(numbers[0] as i32).unwrap(), PidfdFlags::empty());
        victim.kill().unwrap();
        victim.wait().unwrap();

        assert_eq!(fs::metadata(published("weir-killed")).unwrap().ino(), numbers[1]);
        let undone = clean(&dir).unwrap().undone;
        assert_eq!(undone.len(), 2, "{undone:?}");
        assert!(matches!(&undone[0], Change::Child { pid, .. } if u64::from(*pid) == numbers[0]));
        assert!(matches!(&undone[1], Change::PublishedNamespace { name, .. } if name == "weir-killed"));
        assert!(!published("weir-killed").exists());
        assert_eq!(files(&dir), 0);
        assert_eq!(clean(&dir).unwrap(), Cleaned::default(), "a second time does nothing");
        if let Ok(process) = grandchild {
            wait_until_dead(std::os::fd::AsFd::as_fd(&process));
        }
        assert!(!holders().contains(&numbers[1]), "the namespace is gone");
    });
}

/// Network namespaces of all processes.
fn holders() -> Vec<u64> {
    let processes = fs::read_dir("/proc").unwrap();
    processes
        .filter_map(|process| Some(fs::metadata(process.ok()?.path().join("ns/net")).ok()?.ino()))
        .collect()
}

/// A process descriptor becomes readable when its process ends.
fn wait_until_dead(process: std::os::fd::BorrowedFd<'_>) {
    use std::os::fd::AsRawFd;
    let mut poll = libc::pollfd { fd: process.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one pollfd that outlives the call.
    let ended = weir_linux::sys::check(unsafe { libc::poll(&mut poll, 1, 120_000) }).unwrap();
    assert_eq!(ended, 1, "it lives");
}
