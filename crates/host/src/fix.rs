//! Changing the machine with consent, and back.
//!
//! ```text
//! apply:    note (path, value before, value to come) on disk > write > ... > next
//! undo:     newest note first: as it was set -> the value before; otherwise another program changed it: reported, not restored
//! ```
//! Invariant: nothing is changed before its note is on disk, so that whatever ends the program, [`undo`] finds all. The
//! first value before a change counts, however often it is applied. Notes are used only if no user but that of this
//! process can have written them, if they are of this start of the machine, and if they are about /proc/sys and /sys.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};
use weir_disk::{Directory, replace_in};
use weir_linux::ethtool;

use crate::{Fix, Host};

/// What keeps a fix from being made or unmade.
#[derive(Debug, thiserror::Error)]
pub enum FixError {
    /// A setting cannot be written.
    #[error(
        "{command}: {source}; changing settings of the machine needs root, and is not possible in most containers"
    )]
    Write {
        /// The command of a shell that would do it.
        command: String,
        /// What the system said.
        source: io::Error,
    },
    /// The undo file cannot be read or written.
    #[error("{}: {source}", path.display())]
    Note {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is no undo file of this version.
    #[error("{}: {source}; another version wrote it: check the values in it, then remove it", path.display())]
    Form {
        /// Which file.
        path: PathBuf,
        /// What is wrong in it.
        source: serde_json::Error,
    },
    /// It names something else than settings.
    #[error("{}: {setting} is no setting of /proc/sys or /sys: weir did not write this; check the file, then remove it", path.display())]
    NoSetting {
        /// Which file.
        path: PathBuf,
        /// The name that is no setting.
        setting: String,
    },
}

/// A change that was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Note {
    /// What was set.
    fix: Fix,
    /// The same with the value before.
    before: Fix,
}

/// The notes in a file.
#[derive(Debug, Serialize, Deserialize)]
struct Notes {
    /// The start of the machine: none of the changes outlives it.
    boot: String,
    notes: Vec<Note>,
}

/// Where notes of changes are kept.
#[derive(Debug, Clone)]
pub struct Undo {
    path: PathBuf,
}

/// The outcome of undoing a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Undone {
    /// It has the value before; the command that did it.
    Restored(String),
    /// It had the value before already.
    Already(String),
    /// It has another value than was set: it was left alone.
    Changed {
        /// The command that would have restored it.
        command: String,
        /// The command that sets what is there now.
        now: String,
    },
}

impl Undo {
    /// In this file.
    pub fn in_file(path: impl Into<PathBuf>) -> Undo {
        Undo { path: path.into() }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn read(&self, host: &Host) -> Result<Vec<Note>, FixError> {
        let own = Directory::of(&self.path).and_then(|(directory, name)| directory.read_own(&name));
        let bytes = match own {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.map_err(|source| self.failed(source))?,
        };
        let form = |source| FixError::Form { path: self.path.clone(), source };
        let Notes { boot, notes } = serde_json::from_slice(&bytes).map_err(form)?;
        if boot != boot_of(host) {
            return Ok(Vec::new());
        }
        let other = notes.iter().flat_map(|note| [&note.fix, &note.before]).find(|fix| !is_setting(fix));
        if let Some(other) = other {
            return Err(FixError::NoSetting { path: self.path.clone(), setting: other.place().to_string() });
        }
        Ok(notes)
    }

    fn write(&self, host: &Host, notes: &[Note]) -> Result<(), FixError> {
        if notes.is_empty() {
            return match fs::remove_file(&self.path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(self.failed(error)),
                _ => Ok(()),
            };
        }
        let notes = Notes { boot: boot_of(host), notes: notes.to_vec() };
        let text = serde_json::to_string_pretty(&notes).expect("texts and numbers");
        // Owned by the user of this process, also under sudo: the caller of sudo must not write what root undoes.
        let written = Directory::of(&self.path)
            .and_then(|(directory, name)| replace_in(&directory, &name, text.as_bytes(), 0o600));
        written.map_err(|source| self.failed(source))
    }

    fn failed(&self, source: io::Error) -> FixError {
        note_failed(&self.path, source)
    }
}

/// Makes changes one by one, each noted before.
///
/// # Errors
/// The first that fails ends it; what was made before stays and is noted.
pub fn apply(host: &Host, fixes: &[Fix], undo: &Undo) -> Result<(), FixError> {
    let mut notes = undo.read(host)?;
    for fix in fixes {
        let before = now(host, fix).map_err(|source| write_failed(fix, source))?;
        if before == *fix {
            continue;
        }
        match notes.iter_mut().find(|note| note.fix.place() == fix.place()) {
            Some(note) => note.fix = fix.clone(),
            None => notes.push(Note { fix: fix.clone(), before }),
        }
        undo.write(host, &notes)?;
        set(host, fix).map_err(|source| write_failed(fix, source))?;
    }
    Ok(())
}

/// Undoes what was applied, the newest first, and forgets it. Values that another program changed since are not restored, but
/// forgotten, too.
///
/// # Errors
/// The first that fails ends it; it and those before it stay noted.
pub fn undo(host: &Host, undo: &Undo) -> Result<Vec<Undone>, FixError> {
    let mut notes = undo.read(host)?;
    let mut done = Vec::new();
    while let Some(note) = notes.last() {
        let now = now(host, &note.fix).map_err(|source| write_failed(&note.before, source))?;
        let command = note.before.command();
        done.push(match &now {
            now if *now == note.before => Undone::Already(command),
            now if *now == note.fix => {
                set(host, &note.before).map_err(|source| write_failed(&note.before, source))?;
                Undone::Restored(command)
            }
            now => Undone::Changed { command, now: now.command() },
        });
        notes.pop();
        undo.write(host, &notes)?;
    }
    Ok(done)
}

/// Names this start of the machine.
fn boot_of(host: &Host) -> String {
    host.text("/proc/sys/kernel/random/boot_id").unwrap_or_default()
}

/// Whether it changes nothing but a setting of the kernel, or of a NIC.
fn is_setting(fix: &Fix) -> bool {
    match fix {
        Fix::File { path, .. } => {
            let is_below = ["/proc/sys/", "/sys/"].iter().any(|root| path.starts_with(root));
            is_below && !Path::new(path).components().any(|part| part == Component::ParentDir)
        }
        Fix::Rings { .. } => true,
    }
}

/// The fix that would set what is there.
fn now(host: &Host, fix: &Fix) -> io::Result<Fix> {
    Ok(match fix {
        Fix::File { path, .. } => {
            let text = fs::read_to_string(host.place(path))?;
            // Several values are separated by tabs when they are read.
            Fix::File {
                path: path.clone(),
                value: text.split_ascii_whitespace().collect::<Vec<_>>().join(" "),
            }
        }
        Fix::Rings { interface, .. } => {
            let rings = ethtool::rings(interface)?;
            Fix::Rings { interface: interface.clone(), receive: rings.receive, transmit: rings.transmit }
        }
    })
}

fn set(host: &Host, fix: &Fix) -> io::Result<()> {
    match fix {
        // One call of write(2): the kernel takes what it gets as the whole value.
        Fix::File { path, value } => {
            let mut file = fs::OpenOptions::new().write(true).truncate(true).open(host.place(path))?;
            io::Write::write_all(&mut file, value.as_bytes())
        }
        Fix::Rings { interface, receive, transmit } => ethtool::set_rings(interface, *receive, *transmit),
    }
}

/// A file of ours cannot be read or written.
pub(crate) fn note_failed(path: &Path, source: io::Error) -> FixError {
    FixError::Note { path: path.to_path_buf(), source }
}

fn write_failed(fix: &Fix, source: io::Error) -> FixError {
    FixError::Write { command: fix.command(), source }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use weir_testkit::Folder;

    use super::*;

    /// A machine with these settings, and where its notes are.
    fn machine(settings: &[(&str, &str)]) -> (Folder, Host, Undo) {
        let root = Folder::new();
        let host = Host::at(&root, []);
        for (path, value) in settings {
            fs::create_dir_all(host.place(path).parent().unwrap()).unwrap();
            fs::write(host.place(path), value).unwrap();
        }
        let undo = Undo::in_file(root.join("undo.json"));
        (root, host, undo)
    }

    const BACKLOG: &str = "/proc/sys/net/core/somaxconn";
    const MEMORY: &str = "/proc/sys/net/ipv4/tcp_rmem";

    fn file(path: &str, value: &str) -> Fix {
        Fix::File { path: path.into(), value: value.into() }
    }

    #[test]
    fn what_was_changed_is_changed_back() {
        let (_root, host, notes) = machine(&[(BACKLOG, "128\n"), (MEMORY, "4096\t131072\t6291456\n")]);
        let fixes = [file(BACKLOG, "4096"), file(MEMORY, "4096 131072 25000000")];
        apply(&host, &fixes, &notes).unwrap();
        assert_eq!(host.text(BACKLOG).as_deref(), Some("4096"));
        // Again, and further: the first value before counts.
        apply(&host, &fixes, &notes).unwrap();
        apply(&host, &[file(BACKLOG, "8192")], &notes).unwrap();
        let done = undo(&host, &notes).unwrap();
        let commands =
            ["sysctl -w net.ipv4.tcp_rmem='4096 131072 6291456'", "sysctl -w net.core.somaxconn='128'"];
        assert_eq!(done, commands.map(|command| Undone::Restored(command.into())));
        assert_eq!([BACKLOG, MEMORY].map(|path| host.text(path).unwrap()), ["128", "4096 131072 6291456"]);
        assert!(!notes.path().exists() && undo(&host, &notes).unwrap().is_empty());
    }

    #[test]
    fn what_others_changed_since_is_left_alone() {
        let (_root, host, notes) = machine(&[(BACKLOG, "128"), (MEMORY, "1 2 3")]);
        apply(&host, &[file(BACKLOG, "4096"), file(MEMORY, "1 2 4")], &notes).unwrap();
        fs::write(host.place(BACKLOG), "9999").unwrap();
        fs::write(host.place(MEMORY), "1 2 3").unwrap();
        let expected = [
            Undone::Already("sysctl -w net.ipv4.tcp_rmem='1 2 3'".into()),
            Undone::Changed {
                command: "sysctl -w net.core.somaxconn='128'".into(),
                now: "sysctl -w net.core.somaxconn='9999'".into(),
            },
        ];
        assert_eq!(undo(&host, &notes).unwrap(), expected);
        assert_eq!(host.text(BACKLOG).as_deref(), Some("9999"));
    }

    /// The note is there before the change: a change that fails, or a program that ends between both, leaves one.
    #[test]
    fn the_note_comes_first() {
        let (_root, host, notes) = machine(&[(BACKLOG, "128")]);
        let gone = file("/proc/sys/net/core/nothing", "1");
        let error = apply(&host, &[file(BACKLOG, "4096"), gone], &notes).unwrap_err().to_string();
        assert!(error.starts_with("sysctl -w net.core.nothing='1': No such file"), "{error}");
        assert_eq!(
            notes.read(&host).unwrap().len(),
            1,
            "what was made before is noted, what cannot be read is not"
        );

        // As if it had ended after the note: the setting still has the value before.
        fs::write(host.place(BACKLOG), "128").unwrap();
        assert_eq!(
            undo(&host, &notes).unwrap(),
            [Undone::Already("sysctl -w net.core.somaxconn='128'".into())]
        );

        fs::write(notes.path(), "{\"some\": \"other\"}").unwrap();
        let error = undo(&host, &notes).unwrap_err().to_string();
        assert!(error.contains("undo.json") && error.contains("check the values"), "{error}");
    }
    /// What others could have written as root undoes it, wherever it lies.
    #[test]
    fn notes_that_others_can_have_written_are_not_believed() {
        let (root, host, notes) = machine(&[(BACKLOG, "128"), ("/etc/secret", "kept")]);
        apply(&host, &[file(BACKLOG, "4096")], &notes).unwrap();
        let good = fs::read_to_string(notes.path()).unwrap();
        let refused = |message: &str| {
            let error = undo(&host, &notes).unwrap_err().to_string();
            assert!(error.contains(message) && error.contains("undo.json"), "{error}");
            let error = apply(&host, &[file(BACKLOG, "8192")], &notes).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        };

        for (name, message) in
            [("/etc/secret", "/etc/secret is no setting"), ("/proc/sys/../../etc/secret", "is no setting")]
        {
            fs::write(notes.path(), good.replace(BACKLOG, name).replace("4096", "kept")).unwrap();
            refused(message);
        }
        fs::write(notes.path(), &good).unwrap();
        fs::set_permissions(notes.path(), fs::Permissions::from_mode(0o666)).unwrap();
        refused("others may write to it");
        fs::set_permissions(notes.path(), fs::Permissions::from_mode(0o600)).unwrap();
        if std::os::unix::fs::chown(notes.path(), Some(12_345), None).is_ok() {
            refused("it belongs to user 12345");
        } else {
            println!("skipped: a file of another user needs root");
        }
        fs::remove_file(notes.path()).unwrap();
        std::os::unix::fs::symlink(root.join("etc/secret"), notes.path()).unwrap();
        refused("symbolic link");
        fs::remove_file(notes.path()).unwrap();
        let pipe = std::ffi::CString::new(notes.path().as_os_str().as_encoded_bytes()).unwrap();
        // SAFETY: a path that ends with a zero and lives through the call.
        assert_eq!(unsafe { libc::mkfifo(pipe.as_ptr(), 0o600) }, 0);
        refused("it is no file");
        assert_eq!([BACKLOG, "/etc/secret"].map(|path| host.text(path).unwrap()), ["4096", "kept"]);
    }

    #[test]
    fn notes_of_an_earlier_start_of_the_machine_are_past() {
        let boot = "/proc/sys/kernel/random/boot_id";
        let (_root, host, notes) = machine(&[(BACKLOG, "128"), (boot, "one")]);
        apply(&host, &[file(BACKLOG, "4096")], &notes).unwrap();
        // The machine was rebooted, and a user has set the same value.
        fs::write(host.place(boot), "two").unwrap();
        assert_eq!(undo(&host, &notes).unwrap(), []);
        assert_eq!(host.text(BACKLOG).as_deref(), Some("4096"));
        apply(&host, &[file(BACKLOG, "8192")], &notes).unwrap();
        assert_eq!(
            undo(&host, &notes).unwrap(),
            [Undone::Restored("sysctl -w net.core.somaxconn='4096'".into())]
        );
    }
}
