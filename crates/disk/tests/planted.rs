//! Links, second names and pipes of other users where root writes: none of them redirects a write.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use weir_disk::{append, check_plain, create, keep, replace, special};
use weir_testkit::{Folder, need_root};

/// A user who places files in the way, and the user who called sudo.
const OTHER: u32 = 12345;
const CALLER: u32 = 12346;

/// Lays something at a path.
type Plant = fn(&Folder, &Path);

/// What can lie there, by name.
const PLANTED: [(&str, Plant); 7] = [
    ("link", |folder, path| symlink(folder.join("victim"), path).unwrap()),
    ("link of another user", |folder, path| {
        symlink(folder.join("victim"), path).unwrap();
        std::os::unix::fs::lchown(path, Some(OTHER), Some(OTHER)).unwrap();
    }),
    ("link to nothing", |folder, path| symlink(folder.join("nothing"), path).unwrap()),
    ("second name", |folder, path| fs::hard_link(folder.join("victim"), path).unwrap()),
    ("pipe of another user", |_, path| {
        pipe(path);
        chown(path, Some(OTHER), Some(OTHER)).unwrap();
    }),
    ("folder", |_, path| fs::create_dir(path).unwrap()),
    ("socket", |_, path| drop(std::os::unix::net::UnixListener::bind(path).unwrap())),
];

fn pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// Opens or writes a path in one of the ways there are.
type Way = fn(&Path) -> io::Result<()>;

const WAYS: [(&str, Way); 5] = [
    ("create", |path| create(path, 0o600)?.write_all(b"x")),
    ("append", |path| append(path, 0o600)?.write_all(b"x")),
    ("keep", |path| keep(path, 0o600)?.write_all(b"x")),
    ("replace", |path| replace(path, b"x", 0o644)),
    ("check_plain", |path| {
        check_plain(path)?;
        fs::write(path, "x")
    }),
];

#[test]
fn nothing_that_was_laid_there_is_followed_or_written_to() {
    need_root!();
    for (way, open) in WAYS {
        for (what, plant) in PLANTED {
            if way == "replace" && ["link", "link to nothing"].contains(&what) {
                // They are root's own, see below.
                continue;
            }
            let folder = Folder::with_victim();
            let path = folder.join("target");
            plant(&folder, &path);
            let done = open(&path);
            let reported = format!("{way}, {what}: {done:?}");
            folder.check_victim(&reported);
            assert!(!folder.join("nothing").exists(), "{reported}");
            // A new file in the place of the second name is another file.
            assert_eq!(done.is_ok(), (way, what) == ("replace", "second name"), "{reported}");
        }
    }
}

#[test]
fn a_whole_file_goes_to_where_a_link_of_ones_own_leads() {
    let folder = Folder::with_victim();
    for (name, to) in [("one", "two"), ("two", "./new"), ("round", "round")] {
        symlink(to, folder.join(name)).unwrap();
    }
    for text in ["first", "second"] {
        replace(&folder.join("one"), text.as_bytes(), 0o644).unwrap();
        assert_eq!(fs::read_to_string(folder.join("new")).unwrap(), text);
    }
    assert!(fs::symlink_metadata(folder.join("two")).unwrap().is_symlink());
    replace(&folder.join("round"), b"x", 0o644).unwrap_err();
    symlink("/dev/null", folder.join("null")).unwrap();
    replace(&folder.join("null"), b"x", 0o644).unwrap();
    assert!(!fs::symlink_metadata("/dev/null").unwrap().is_file());
}

#[test]
fn a_link_on_the_way_is_followed_only_if_it_is_of_root_or_of_who_asks() {
    need_root!();
    for (way, open) in WAYS {
        for (owner, is_followed) in [(0, true), (OTHER, false)] {
            let folder = Folder::with_victim();
            fs::create_dir(folder.join("real")).unwrap();
            symlink("real", folder.join("way")).unwrap();
            std::os::unix::fs::lchown(folder.join("way"), Some(owner), Some(owner)).unwrap();
            let done = open(&folder.join("way/../way/target"));
            let reported = format!("{way}, link of {owner}: {done:?}");
            assert_eq!(
                (done.is_ok(), folder.join("real/target").exists()),
                (is_followed, is_followed),
                "{reported}"
            );
        }
        let folder = Folder::with_victim();
        symlink("round", folder.join("round")).unwrap();
        assert!(open(&folder.join("round/target")).is_err(), "{way}");
    }
}

#[test]
fn files_are_made_with_their_modes_and_what_is_there_is_not_emptied() {
    let folder = Folder::with_victim();
    let mode = |name: &str| fs::metadata(folder.join(name)).unwrap().mode() & 0o777;
    create(&folder.join("new"), 0o600).unwrap().write_all(b"one").unwrap();
    let again = create(&folder.join("new"), 0o600).unwrap_err();
    assert_eq!((again.kind(), mode("new")), (ErrorKind::AlreadyExists, 0o600));
    assert!(again.to_string().contains("delete it, or use another file"), "{again}");
    append(&folder.join("new"), 0o600).unwrap().write_all(b" two").unwrap();
    let mut kept = keep(&folder.join("new"), 0o600).unwrap();
    let mut text = String::new();
    kept.read_to_string(&mut text).unwrap();
    assert_eq!(text, "one two");
    replace(&folder.join("new"), b"three", 0o644).unwrap();
    assert_eq!((fs::read_to_string(folder.join("new")).unwrap().as_str(), mode("new")), ("three", 0o644));
    check_plain(&folder.join("new")).unwrap();
    check_plain(&folder.join("none")).unwrap();
    let left: Vec<_> = fs::read_dir(&*folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "no draft stays: {left:?}");
}

#[test]
fn pipes_and_devices_take_what_is_written() {
    let folder = Folder::with_victim();
    let path = folder.join("pipe");
    pipe(&path);
    for open in [create as fn(&Path, u32) -> io::Result<File>, append] {
        assert_eq!(open(&path, 0o600).unwrap_err().raw_os_error(), Some(6), "ENXIO: the pipe has no reader");
    }
    // O_NONBLOCK on x86 and ARM.
    let mut reader = File::options().read(true).custom_flags(0o4000).open(&path).unwrap();
    replace(&path, b"report", 0o644).unwrap();
    create(&path, 0o600).unwrap().write_all(b" and capture").unwrap();
    let mut events = append(&path, 0o600).unwrap();
    let full = std::iter::repeat_with(|| events.write(&[7; 4096])).find_map(Result::err).unwrap();
    assert_eq!(full.kind(), ErrorKind::WouldBlock, "a reader that is slow is not waited for");
    let mut text = [0; 18];
    reader.read_exact(&mut text).unwrap();
    assert_eq!(&text, b"report and capture");
    for device in ["/dev/null", "/dev/full"] {
        create(Path::new(device), 0o600).unwrap();
        append(Path::new(device), 0o600).unwrap();
    }
    assert_eq!(replace(Path::new("/dev/full"), b"x", 0o644).unwrap_err().kind(), ErrorKind::StorageFull);
    assert!(special(Path::new("/dev/stdout")).unwrap().is_some());
    assert!(special(&folder.join("victim")).unwrap().is_none());
}

/// The other half of the next test: root under sudo.
#[test]
fn called_by_sudo() {
    let Some(folder) = std::env::var_os("WEIR_TEST_FOLDER").map(PathBuf::from) else { return };
    for (way, open) in WAYS.iter().filter(|(way, _)| *way != "check_plain") {
        open(&folder.join(way)).unwrap();
        let denied = open(&folder.join("root").join(way)).unwrap_err();
        assert_eq!(denied.kind(), ErrorKind::PermissionDenied);
        assert!(denied.to_string().contains("user 12346, who called sudo"), "{denied}");
    }
    // What is the user's own does no harm.
    create(&folder.join("way/link"), 0o600).unwrap();
    assert!(weir_disk::is_root(), "only what is opened is opened as another user");
}

#[test]
fn under_sudo_files_are_of_who_called_it_and_go_where_they_may_write() {
    need_root!();
    let folder = Folder::with_victim();
    fs::create_dir(folder.join("root")).unwrap();
    symlink(".", folder.join("way")).unwrap();
    std::os::unix::fs::lchown(folder.join("way"), Some(CALLER), Some(CALLER)).unwrap();
    let done = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "called_by_sudo", "--nocapture"])
        .envs([("SUDO_UID", CALLER.to_string()), ("SUDO_GID", CALLER.to_string())])
        .env("WEIR_TEST_FOLDER", &folder)
        .output()
        .unwrap();
    assert!(done.status.success(), "{done:?}");
    for name in ["create", "append", "keep", "replace", "link"] {
        let found = fs::metadata(folder.join(name)).unwrap();
        assert_eq!((found.uid(), found.gid()), (CALLER, CALLER), "{name}");
    }
    assert_eq!(fs::read_dir(folder.join("root")).unwrap().count(), 0);
    folder.check_victim("sudo");
}

#[cfg(feature = "faults")]
mod crash {
    use super::*;
    use weir_disk::faults::{self, Fault, Writer};

    /// The other half of the next test, in a separate process.
    #[test]
    fn writer_that_fails() {
        let Some(folder) = faults::folder() else { return };
        for n in 1..=3 {
            if replace(&folder.join("report"), format!("report {n}").as_bytes(), 0o644).is_ok() {
                println!("\nwritten {n}");
            }
        }
    }

    #[test]
    fn a_file_is_whole_wherever_the_end_came() {
        let writer = Writer { test: "crash::writer_that_fails", lasts: 1 };
        for fault in Fault::ALL {
            let prepare = |folder: &Path| replace(&folder.join("report"), b"report 0", 0o644).unwrap();
            let changes = faults::at_each_change(writer, fault, prepare, |at, folder, said| {
                let written =
                    said.iter().filter_map(|line| line.strip_prefix("written ")?.parse::<u32>().ok());
                let text = fs::read_to_string(folder.join("report")).unwrap();
                let number = text.strip_prefix("report ").and_then(|number| number.parse::<u32>().ok());
                assert!(number >= Some(written.max().unwrap_or(0)), "{fault:?} at {at}: `{text}`");
            });
            assert!(changes >= 9, "{fault:?}: {changes}");
        }
    }
}
