use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use super::*;
use crate::namespace::Namespace;
use crate::testing::{TempDir, need_root};

fn files(dir: &Path) -> usize {
    fs::read_dir(dir).map_or(0, Iterator::count)
}

#[test]
fn a_file_gets_its_old_value_back_and_the_journal_goes() {
    let dir = TempDir::new();
    let (switch, gone) = (dir.path().join("switch"), dir.path().join("gone"));
    fs::write(&switch, "0\n").unwrap();
    fs::write(&gone, "5\n").unwrap();
    let state = dir.path().join("journal");
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
    let dir = TempDir::new();
    let switch = dir.path().join("switch");
    fs::write(&switch, "0").unwrap();
    let state = dir.path().join("journal");
    let mut journal = Journal::in_dir(&state);
    journal.write_file(&switch, "1").unwrap();
    fs::write(state.join("notes.json"), "{}").unwrap();
    fs::write(state.join("1-0.json"), "no json").unwrap();
    assert_eq!(clean(&state).unwrap(), []);
    assert_eq!(fs::read_to_string(&switch).unwrap(), "1");
    assert_eq!(clean(&dir.path().join("none")).unwrap(), []);
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

/// The other half of the next test, run in a process of its own: changes things and waits to be killed.
#[test]
fn child_that_is_killed() {
    let Some(dir) = std::env::var_os("WEIR_TEST_JOURNAL") else { return };
    let mut journal = Journal::in_dir(Path::new(&dir));
    let ns = Namespace::new().unwrap();
    ns.publish("weir-killed", &mut journal).unwrap();
    let (child, _) = journal.spawn(Command::new("sleep").arg("1000")).unwrap();
    println!("\nready {} {}", child.id(), ns.inode().unwrap());
    let mut line = String::new();
    io::stdin().read_line(&mut line).unwrap();
    unreachable!("killed before its input ends");
}

#[test]
fn a_killed_process_leaves_a_journal_that_clean_undoes() {
    need_root!();
    let dir = TempDir::new();
    let ns = Namespace::new().unwrap();
    // A mount namespace whose /run is its own: the host's stays as it is.
    ns.run(|| {
        sys::mount(Path::new("none"), Path::new("/run"), "tmpfs", 0).unwrap();
        let mut victim = dying_with_parent(&mut Command::new(std::env::current_exe().unwrap()))
            .args(["--exact", "journal::tests::child_that_is_killed", "--nocapture"])
            .env("WEIR_TEST_JOURNAL", dir.path())
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
        let grandchild = sys::pidfd(numbers[0] as u32);
        victim.kill().unwrap();
        victim.wait().unwrap();

        assert_eq!(fs::metadata(published("weir-killed")).unwrap().ino(), numbers[1]);
        let undone = clean(dir.path()).unwrap();
        assert_eq!(undone.len(), 2, "{undone:?}");
        assert!(matches!(&undone[0], Change::Child { pid, .. } if u64::from(*pid) == numbers[0]));
        assert!(matches!(&undone[1], Change::PublishedNamespace { name, .. } if name == "weir-killed"));
        assert!(!published("weir-killed").exists());
        assert_eq!(files(dir.path()), 0);
        assert_eq!(clean(dir.path()).unwrap(), [], "a second time does nothing");
        if let Ok(process) = grandchild {
            wait_until_dead(process.as_fd());
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
    let ended = sys::check(unsafe { libc::poll(&mut poll, 1, 120_000) }).unwrap();
    assert_eq!(ended, 1, "it lives");
}

#[test]
fn two_measurements_take_turns() {
    let dir = TempDir::new();
    let path = dir.path().join("lock");
    let first = lock_file(&path, || false).unwrap();
    assert!(first.is_some() && lock_file(&path, || true).unwrap().is_none(), "held by the first");
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let path = &path;
        scope.spawn(move || {
            let second = lock_file(path, || false).unwrap();
            sender.send(second.map(|_| "second")).unwrap();
        });
        assert!(receiver.try_recv().is_err(), "held by the first");
        drop(first);
        assert_eq!(receiver.recv().unwrap(), Some("second"));
    });
}
