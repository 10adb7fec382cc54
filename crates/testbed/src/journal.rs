//! The journal of changes outside the namespaces: written before a change, undone after it.
//!
//! ```text
//! write_down --fsync--> change ... undo_all / Drop           (orderly)
//!                              ... SIGKILL ... clean(dir)    (by the next run)
//! ```
//! One file per journal, `PID-STARTTIME-NUMBER.json`: the start time tells a dead process from a new one with
//! the same number. The file exists only while there is something to undo. Undoing twice does no harm.
//!
//! A journal is used only if no other user can have written it, and if it is of this machine, of this start of
//! it and of this PID namespace. A value goes back only where the present one is still that of weir.

use std::fmt;
use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};
use weir_disk::{Directory, replace_in};

use crate::error::{Error, Result};
use weir_linux::process::{Origin, dying_with_parent, start_time};

/// A change of the machine that outlives the process, with what is needed to undo it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// A namespace made visible as /run/netns/`name`.
    PublishedNamespace {
        /// Its name.
        name: String,
        /// The namespace's number: a name that belongs to another namespace is left alone.
        inode: u64,
    },
    /// A child process.
    Child {
        /// Its process number.
        pid: u32,
        /// Its start time in clock ticks since boot, see proc(5), stat field 22.
        start_time: u64,
        /// What it is, for people.
        command: String,
    },
    /// A file that had other content, such as a sysfs switch of a named interface of the host.
    FileValue {
        /// The file.
        path: PathBuf,
        /// Its content before.
        before: String,
        /// What weir wrote.
        set: String,
    },
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::PublishedNamespace { name, .. } => write!(f, "network namespace {name}"),
            Change::Child { pid, command, .. } => write!(f, "process {pid} ({command})"),
            Change::FileValue { path, before, .. } => write!(f, "{} was {}", path.display(), before.trim()),
        }
    }
}

/// Names a journal's entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryId(u64);

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Entry {
    id: EntryId,
    change: Change,
}

/// A journal as it is on disk.
#[derive(Debug, Serialize, Deserialize)]
struct Written {
    #[serde(flatten)]
    origin: Origin,
    entries: Vec<Entry>,
}

/// What was found of runs that were killed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// Changes that were undone.
    pub undone: Vec<Change>,
    /// What was left alone, and why.
    pub left: Vec<String>,
}

/// The outcome of undoing a change.
#[derive(Debug, PartialEq, Eq)]
enum Undone {
    /// It is not there any more.
    Yes,
    /// Another program has changed it since; the current value.
    Changed(String),
}

/// The changes of this process. Undone in reverse when dropped.
#[derive(Debug)]
pub struct Journal {
    file: PathBuf,
    entries: Vec<Entry>,
    next: u64,
}

impl Journal {
    /// The journal of this process in `dir` (see [`default_dir`]); the directory is made when needed.
    pub fn in_dir(dir: &Path) -> Journal {
        let pid = std::process::id();
        let start_time = start_time(pid).expect("this process runs");
        // A second journal of the same process has a separate file.
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let file = dir.join(format!("{pid}-{start_time}-{number}.json"));
        Journal { file, entries: Vec::new(), next: 0 }
    }

    /// Another one in the same directory, for changes that are to be undone earlier.
    pub fn another(&self) -> Journal {
        Journal::in_dir(self.file.parent().expect("a file in a directory"))
    }

    /// Puts a change on disk. Call this before the change; it returns when the entry would survive a crash.
    pub fn write_down(&mut self, change: Change) -> Result<EntryId> {
        let id = EntryId(self.next);
        self.next += 1;
        self.entries.push(Entry { id, change });
        self.save()?;
        Ok(id)
    }

    /// Writes a file and remembers its old content.
    ///
    /// # Errors
    /// Another process that runs has set it: each would take the other's value for the old one.
    pub fn write_file(&mut self, path: &Path, value: &str) -> Result<EntryId> {
        let name = path.display().to_string();
        let before = fs::read_to_string(path).map_err(Error::os(&name))?;
        let change = Change::FileValue { path: path.into(), before, set: value.into() };
        let id = self.write_down(change)?;
        // Behind one's own entry, so that of two at a time at least one sees the other.
        let written = match self.other_user_of(path) {
            Some(pid) => Err(Error::Input(format!(
                "{name} was set by another run of weir (process {pid}), which still uses it: wait until that run has ended"
            ))),
            None => fs::write(path, value).map_err(Error::os(&name)),
        };
        if let Err(error) = written {
            self.forget(id)?;
            return Err(error);
        }
        Ok(id)
    }

    /// The process of another journal that has set this file and runs.
    fn other_user_of(&self, path: &Path) -> Option<u32> {
        let dir = self.file.parent().expect("a file in a directory");
        let has_set =
            |entry: &Entry| matches!(&entry.change, Change::FileValue { path: set, .. } if set == path);
        let files = fs::read_dir(dir).ok()?.filter_map(|file| Some(file.ok()?.path()));
        files.filter_map(|file| find(&file)).find_map(|found| match found {
            Found::Running(pid, entries) => {
                (pid != std::process::id() && entries.iter().any(has_set)).then_some(pid)
            }
            _ => None,
        })
    }

    /// Takes an entry out: its change was not made.
    fn forget(&mut self, id: EntryId) -> Result<()> {
        self.entries.retain(|entry| entry.id != id);
        self.save()
    }

    /// Starts a child process that dies with the thread that calls this.
    pub fn spawn(&mut self, command: &mut Command) -> Result<(Child, EntryId)> {
        let name = format!("{command:?}");
        let child = dying_with_parent(command).spawn().map_err(Error::os(&name))?;
        let pid = child.id();
        // The entry can only follow the start, since it holds the number; until then the kernel's parent
        // death signal does its work.
        let start_time = match start_time(pid) {
            // It has ended already: there will be nothing to undo.
            Err(error) if error.kind() == ErrorKind::NotFound => 0,
            found => found.map_err(Error::os(&name))?,
        };
        let id = self.write_down(Change::Child { pid, start_time, command: name })?;
        Ok((child, id))
    }

    /// Undoes one change, now, and forgets it.
    pub fn undo(&mut self, id: EntryId) -> Result<()> {
        let Some(index) = self.entries.iter().position(|entry| entry.id == id) else { return Ok(()) };
        self.entries[index].change.undo()?;
        self.forget(id)
    }

    /// Undoes everything, the latest change first. Goes on after a failure and returns the first one; what
    /// failed stays in the journal.
    pub fn undo_all(&mut self) -> Result<()> {
        self.undo_into(&mut Cleaned::default())
    }

    fn undo_into(&mut self, cleaned: &mut Cleaned) -> Result<()> {
        let before = self.entries.len();
        let mut first_error = None;
        for index in (0..before).rev() {
            let change = &self.entries[index].change;
            match change.undo() {
                Ok(Undone::Yes) => cleaned.undone.push(change.clone()),
                // An undoing that was cut short had come further back.
                Ok(Undone::Changed(now))
                    if self.entries[..index].iter().any(|entry| entry.change.was(change, &now)) => {}
                Ok(Undone::Changed(now)) => {
                    let now = now.trim();
                    cleaned
                        .left
                        .push(format!("{change}, changed since by another program to {now}: not restored"));
                }
                Err(error) => {
                    first_error.get_or_insert(error);
                    continue;
                }
            }
            self.entries.remove(index);
        }
        if before > 0 {
            self.save()?;
        }
        first_error.map_or(Ok(()), Err)
    }

    /// Makes the file say what `entries` says.
    fn save(&self) -> Result<()> {
        let name = self.file.display().to_string();
        if self.entries.is_empty() {
            return remove_if_there(&self.file).map_err(Error::os(name));
        }
        let write = || -> io::Result<()> {
            let dir = self.file.parent().expect("a file in a directory");
            DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
            let written = Written { origin: Origin::here(), entries: self.entries.clone() };
            let (dir, name) = Directory::of(&self.file)?;
            replace_in(&dir, &name, &serde_json::to_vec_pretty(&written)?, 0o600)
        };
        write().map_err(Error::os(format!("write the journal {name}")))
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        // What fails here stays on disk for `clean`.
        let _ = self.undo_all();
    }
}

impl Change {
    fn undo(&self) -> Result<Undone> {
        match self {
            Change::PublishedNamespace { name, inode } => unpublish(&published(name), *inode)
                .map(|()| Undone::Yes)
                .map_err(Error::os(format!("remove /run/netns/{name}; do it with `ip netns del {name}`"))),
            Change::Child { pid, start_time, command } => end_child(*pid, *start_time)
                .map(|()| Undone::Yes)
                .map_err(Error::os(format!("end process {pid} ({command}); do it with `kill -9 {pid}`"))),
            Change::FileValue { path, before, set } => write_back(path, before, set)
                .map_err(Error::os(format!("write {before:?} back to {}", path.display()))),
        }
    }
}

impl Change {
    /// Whether it found this value in the file that `other` has changed.
    fn was(&self, other: &Change, value: &str) -> bool {
        let file = |change: &Change| match change {
            Change::FileValue { path, before, .. } => Some((path.clone(), normal(before))),
            _ => None,
        };
        file(self)
            .zip(file(other))
            .is_some_and(|((path, before), (other, _))| path == other && before == normal(value))
    }
}

fn unpublish(path: &Path, inode: u64) -> io::Result<()> {
    let found = match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    if found.ino() == inode {
        unmount(path, UnmountFlags::DETACH)?;
    } else if found.len() != 0 || on_nsfs(path, &found)? {
        // Another namespace or file under this name.
        return Ok(());
    }
    remove_if_there(path)
}

/// Whether something is mounted on `path`: its device differs from its directory's.
fn on_nsfs(path: &Path, found: &fs::Metadata) -> io::Result<bool> {
    Ok(found.dev() != fs::metadata(path.parent().expect("has a directory"))?.dev())
}

fn end_child(pid: u32, started: u64) -> io::Result<()> {
    // The descriptor comes first: after it, the start time can only be that of the process it names.
    let Some(number) = Pid::from_raw(pid.cast_signed()) else { return Ok(()) };
    let process = match pidfd_open(number, PidfdFlags::empty()) {
        Err(Errno::SRCH) => return Ok(()),
        process => process?,
    };
    match start_time(pid) {
        Ok(time) if time == started => match pidfd_send_signal(&process, Signal::KILL) {
            Err(Errno::SRCH) | Ok(()) => Ok(()),
            Err(error) => Err(error.into()),
        },
        _ => Ok(()),
    }
}

fn write_back(path: &Path, before: &str, set: &str) -> io::Result<Undone> {
    let now = match fs::read_to_string(path) {
        // The interface is gone, and its switch with it.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Undone::Yes),
        now => now?,
    };
    match normal(&now) {
        now if now == normal(before) => Ok(Undone::Yes),
        now if now == normal(set) => fs::write(path, before).map(|()| Undone::Yes),
        _ => Ok(Undone::Changed(now)),
    }
}

/// A value without what the kernel adds to it: zeros in front, commas in a mask, an end of the line.
fn normal(value: &str) -> String {
    let value = value.trim().replace(',', "").to_ascii_lowercase();
    value.trim_start_matches('0').to_string()
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// Undoes the journals in `dir` whose process is dead.
///
/// # Errors
/// The first change that could not be undone; its journal stays. All journals are tried.
pub fn clean(dir: &Path) -> Result<Cleaned> {
    let files = match fs::read_dir(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Cleaned::default()),
        files => files.map_err(Error::os(dir.display().to_string()))?,
    };
    let (mut cleaned, mut first_error) = (Cleaned::default(), None);
    for path in files.filter_map(|file| Some(file.ok()?.path())) {
        if let Err(error) = clean_one(&path, &mut cleaned) {
            first_error.get_or_insert(error);
        }
    }
    first_error.map_or(Ok(cleaned), Err)
}

fn clean_one(path: &Path, cleaned: &mut Cleaned) -> Result<()> {
    match find(path) {
        None if is_draft_of_dead(path) => {
            remove_if_there(path).map_err(Error::os(path.display().to_string()))
        }
        None | Some(Found::Running(..)) => Ok(()),
        // Nothing that is written down outlives the machine's end.
        Some(Found::Past) => remove_if_there(path).map_err(Error::os(path.display().to_string())),
        Some(Found::Left(why)) => {
            cleaned.left.push(format!("the journal {} was not undone: {why}", path.display()));
            Ok(())
        }
        Some(Found::Dead(entries)) => {
            let next = entries.len() as u64;
            Journal { file: path.into(), next, entries }.undo_into(cleaned)
        }
    }
}

/// What a file in the directory of journals is.
enum Found {
    /// The journal of a process that runs.
    Running(u32, Vec<Entry>),
    /// The journal of a process that is dead.
    Dead(Vec<Entry>),
    /// The journal of a process from before the machine was started.
    Past,
    /// One that is not to be believed, or of somewhere else.
    Left(String),
}

/// Number and start of the process whose journal has such a name.
fn writer(stem: &str) -> Option<(u32, u64)> {
    let mut numbers = stem.split('-').map(|number| number.parse::<u64>().ok());
    Some((u32::try_from(numbers.next()??).ok()?, numbers.next()??))
}

/// Whether it is what a process that is dead was about to write when it was killed.
fn is_draft_of_dead(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let draft = name.and_then(|name| name.strip_prefix('.')?.strip_suffix(".tmp")?.split_once(".json."));
    draft
        .and_then(|(stem, _)| writer(stem))
        .is_some_and(|(pid, started)| !start_time(pid).is_ok_and(|time| time == started))
}

/// Reads a file; `None`: it is no journal, or has gone.
fn find(path: &Path) -> Option<Found> {
    let (pid, started) = writer(path.file_name()?.to_str()?.strip_suffix(".json")?)?;
    let read = || {
        let (dir, name) = Directory::of(path)?;
        dir.read_own(&name)
    };
    let written = match read() {
        Err(error) if error.kind() == ErrorKind::NotFound => return None,
        Err(error) => return Some(Found::Left(error.to_string())),
        Ok(bytes) => match serde_json::from_slice::<Written>(&bytes) {
            Err(error) => {
                let why = format!("it cannot be read ({error}): check its contents, then delete it");
                return Some(Found::Left(why));
            }
            Ok(written) => written,
        },
    };
    let here = Origin::here();
    Some(match written.origin {
        Origin { host, .. } if host != here.host => Found::Left("it is of another machine".into()),
        Origin { boot, .. } if boot != here.boot => Found::Past,
        Origin { pid_namespace, .. } if pid_namespace != here.pid_namespace => {
            Found::Left("it is of another container: run `weir clean` there".into())
        }
        _ if start_time(pid).is_ok_and(|time| time == started) => Found::Running(pid, written.entries),
        _ => Found::Dead(written.entries),
    })
}

/// Where journals are kept: $XDG_STATE_HOME/weir/journal, by default under ~/.local/state.
pub fn default_dir() -> PathBuf {
    weir_disk::state_folder().join("journal")
}

/// Where a published namespace appears.
pub(crate) fn published(name: &str) -> PathBuf {
    Path::new("/run/netns").join(name)
}

#[cfg(test)]
mod tests;
