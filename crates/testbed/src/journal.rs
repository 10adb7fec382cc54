//! What was changed outside the namespaces, written down before the change and undone after it.
//!
//! ```text
//! write_down --fsync--> change ... undo_all / Drop           (orderly)
//!                              ... SIGKILL ... clean(dir)    (by the next run)
//! ```
//! One file per journal, `PID-STARTTIME-NUMBER.json`: the start time tells a dead process from a new one with
//! the same number. The file exists only while there is something to undo. Undoing twice does no harm.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::namespace::published;
use crate::sys;

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
    },
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::PublishedNamespace { name, .. } => write!(f, "network namespace {name}"),
            Change::Child { pid, command, .. } => write!(f, "process {pid} ({command})"),
            Change::FileValue { path, before } => write!(f, "{} was {}", path.display(), before.trim()),
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
        // A second journal of the same process has a file of its own.
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
    pub fn write_file(&mut self, path: &Path, value: &str) -> Result<EntryId> {
        let name = path.display().to_string();
        let before = fs::read_to_string(path).map_err(Error::os(&name))?;
        let id = self.write_down(Change::FileValue { path: path.into(), before })?;
        fs::write(path, value).map_err(Error::os(&name))?;
        Ok(id)
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
        self.entries.remove(index);
        self.save()
    }

    /// Undoes everything, the latest change first. Goes on after a failure and returns the first one; what
    /// failed stays in the journal.
    pub fn undo_all(&mut self) -> Result<()> {
        let before = self.entries.len();
        let mut first_error = None;
        for index in (0..before).rev() {
            match self.entries[index].change.undo() {
                Ok(()) => drop(self.entries.remove(index)),
                Err(error) => drop(first_error.get_or_insert(error)),
            }
        }
        if before > 0 {
            self.save()?;
        }
        first_error.map_or(Ok(()), Err)
    }

    /// Makes the file say what `entries` says: written aside, synced, renamed.
    fn save(&self) -> Result<()> {
        let name = self.file.display().to_string();
        let dir = self.file.parent().expect("a file in a directory");
        if self.entries.is_empty() {
            return remove_if_there(&self.file).map_err(Error::os(name));
        }
        let write = || -> io::Result<()> {
            fs::create_dir_all(dir)?;
            let aside = self.file.with_extension("new");
            let mut out = File::create(&aside)?;
            out.write_all(&serde_json::to_vec_pretty(&self.entries)?)?;
            out.sync_all()?;
            fs::rename(&aside, &self.file)?;
            File::open(dir)?.sync_all()
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
    fn undo(&self) -> Result<()> {
        match self {
            Change::PublishedNamespace { name, inode } => unpublish(&published(name), *inode)
                .map_err(Error::os(format!("remove /run/netns/{name}; do it with `ip netns del {name}`"))),
            Change::Child { pid, start_time, command } => end_child(*pid, *start_time)
                .map_err(Error::os(format!("end process {pid} ({command}); do it with `kill -9 {pid}`"))),
            Change::FileValue { path, before } => write_back(path, before)
                .map_err(Error::os(format!("write {before:?} back to {}", path.display()))),
        }
    }
}

fn unpublish(path: &Path, inode: u64) -> io::Result<()> {
    let found = match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    if found.ino() == inode {
        sys::unmount(path, libc::MNT_DETACH)?;
    } else if found.len() != 0 || on_nsfs(path, &found)? {
        // Somebody else's namespace or file under this name.
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
    let process = match sys::pidfd(pid) {
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(()),
        process => process?,
    };
    match start_time(pid) {
        Ok(time) if time == started => match sys::kill(process.as_fd()) {
            Err(error) if error.raw_os_error() != Some(libc::ESRCH) => Err(error),
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

fn write_back(path: &Path, before: &str) -> io::Result<()> {
    match fs::read_to_string(path) {
        Ok(now) if now == before => Ok(()),
        // The interface is gone, and its switch with it.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        _ => fs::write(path, before),
    }
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// Undoes the journals in `dir` whose process is dead. Returns the changes that were undone.
///
/// # Errors
/// The first change that could not be undone; its journal stays. All journals are tried.
pub fn clean(dir: &Path) -> Result<Vec<Change>> {
    let files = match fs::read_dir(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        files => files.map_err(Error::os(dir.display().to_string()))?,
    };
    let (mut undone, mut first_error) = (Vec::new(), None);
    for path in files.filter_map(|file| Some(file.ok()?.path())) {
        if let Some(error) = orphan(&path).and_then(|orphan| clean_one(orphan, &mut undone).err()) {
            first_error.get_or_insert(error);
        }
    }
    first_error.map_or(Ok(undone), Err)
}

fn clean_one(mut orphan: Journal, undone: &mut Vec<Change>) -> Result<()> {
    let changes: Vec<_> = orphan.entries.iter().rev().map(|entry| entry.change.clone()).collect();
    orphan.undo_all()?;
    undone.extend(changes);
    Ok(())
}

/// Reads a journal whose process is dead.
fn orphan(path: &Path) -> Option<Journal> {
    let stem = path.file_name()?.to_str()?.strip_suffix(".json")?;
    let mut numbers = stem.split('-').map(|number| number.parse::<u64>().ok());
    let (pid, started) = (numbers.next()??, numbers.next()??);
    if start_time(u32::try_from(pid).ok()?).is_ok_and(|time| time == started) {
        return None;
    }
    let entries: Vec<Entry> = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    Some(Journal { file: path.into(), next: entries.len() as u64, entries })
}

/// Where journals are kept: $XDG_STATE_HOME/weir/journal, by default under ~/.local/state.
pub fn default_dir() -> PathBuf {
    weir_port::refusal::state_folder().join("journal")
}

/// Lets the kernel kill the command when the thread that starts it ends.
pub(crate) fn dying_with_parent(command: &mut Command) -> &mut Command {
    // SAFETY: one prctl(2) between fork and exec: async-signal-safe, no allocation.
    unsafe { command.pre_exec(sys::die_with_parent) }
}

/// Names this process so that it cannot be taken for a later one with the same number.
pub fn this_process() -> String {
    let pid = std::process::id();
    let start_time = start_time(pid).expect("this process runs");
    format!("{pid}-{start_time}")
}

/// Does the process that [`this_process`] named still run?
pub fn is_alive(process: &str) -> bool {
    let numbers = process.split_once('-').and_then(|(pid, at)| Some((pid.parse().ok()?, at.parse().ok()?)));
    numbers.is_some_and(|(pid, at): (u32, u64)| start_time(pid).is_ok_and(|time| time == at))
}

/// Start time of a process in clock ticks since boot: proc(5), /proc/PID/stat, field 22. A zombie counts
/// as dead.
fn start_time(pid: u32) -> io::Result<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The second field is a name in parentheses that may hold spaces and parentheses.
    let mut fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_ascii_whitespace();
    if matches!(fields.next(), Some("Z" | "X")) {
        return Err(ErrorKind::NotFound.into());
    }
    fields.nth(18).and_then(|field| field.parse().ok()).ok_or_else(|| ErrorKind::InvalidData.into())
}

/// Held while a trial is measured.
#[derive(Debug)]
pub struct MeasuringLock(#[allow(dead_code, reason = "closing the file is the unlock")] File);

/// Waits until no other run on this machine measures, so that two runs take turns trial by trial; `None` if
/// `give_up` becomes true before that. The kernel gives the lock back when the process dies.
pub fn measuring_lock(give_up: impl Fn() -> bool) -> Result<Option<MeasuringLock>> {
    lock_file(Path::new("/tmp/weir-measuring.lock"), give_up)
}

fn lock_file(path: &Path, give_up: impl Fn() -> bool) -> Result<Option<MeasuringLock>> {
    let name = path.display().to_string();
    let file = open_lock(path).map_err(Error::os(&name))?;
    if sys::try_lock(file.as_fd()).map_err(Error::os(&name))? {
        return Ok(Some(MeasuringLock(file)));
    }
    // flock(2) queues those who wait and polling would starve, but it cannot be told to give up: a thread waits.
    let (locked, is_locked) = mpsc::channel();
    std::thread::spawn(move || {
        // If nobody waits any more, the file is closed and with it the lock is free.
        let _ = locked.send(sys::lock(file.as_fd()).map(|()| MeasuringLock(file)));
    });
    loop {
        match is_locked.recv_timeout(Duration::from_millis(50)) {
            Ok(lock) => return lock.map(Some).map_err(Error::os(&name)),
            Err(_) if give_up() => return Ok(None),
            Err(_) => {}
        }
    }
}

/// Another user's file in a sticky directory may be read but not opened for creation
/// (fs.protected_regular), so reading is tried first.
fn open_lock(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).custom_flags(libc::O_NOFOLLOW);
    match options.open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        opened => return opened,
    }
    match options.clone().write(true).create_new(true).mode(0o644).open(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => options.open(path),
        created => created,
    }
}

#[cfg(test)]
mod tests;
