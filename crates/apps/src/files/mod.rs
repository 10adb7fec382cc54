//! Many small files in one directory: made, written and read back, with the time of each call.
//!
//! ```text
//! make:   open > write > (fsync) > close > (fsync of the directory)     each file, by N workers > (syncfs)
//! read:   open > read > close                                           in random order, warm, then cold
//! ```
//! What a number means depends on what is durable when it ends: see [`Durability`].

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::client::Percentiles;
use crate::sys;

mod calls;
mod content;
mod uring;

pub use uring::obstacle;

/// The state that is surely on the disk when files have been written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Durability {
    /// Nothing: the kernel writes later.
    None,
    /// The content of each file (fsync(2)), perhaps not its name.
    Fsync,
    /// Each file with its name: the directory, too.
    FsyncDir,
    /// All files, by one call in the end (syncfs(2)).
    Syncfs,
    /// The content has left the kernel's memory (O_DIRECT); the disk may have it in its own.
    Direct,
}

impl Durability {
    /// All of them with the names that plans and records use.
    pub const ALL: [(Durability, &'static str); 5] = [
        (Durability::None, "none"),
        (Durability::Fsync, "fsync"),
        (Durability::FsyncDir, "fsync-dir"),
        (Durability::Syncfs, "syncfs"),
        (Durability::Direct, "direct"),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        Durability::ALL.iter().find(|(of, _)| *of == self).map_or("", |(_, name)| name)
    }

    fn syncs_each(self) -> bool {
        matches!(self, Durability::Fsync | Durability::FsyncDir)
    }
}

/// How calls are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// One after another, by each worker.
    Calls,
    /// Handed to the kernel in chains (io_uring(7)) by one thread, as many files at a time as there are workers.
    IoUring,
}

impl Method {
    /// Both with the names that plans and records use.
    pub const ALL: [(Method, &'static str); 2] = [(Method::Calls, "calls"), (Method::IoUring, "io-uring")];

    /// Its name.
    pub fn name(self) -> &'static str {
        Method::ALL.iter().find(|(of, _)| *of == self).map_or("", |(_, name)| name)
    }
}

/// The task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// A directory that does not exist yet.
    pub directory: PathBuf,
    /// How many.
    pub files: u32,
    /// Size of each, bytes; a multiple of 4096 with [`Durability::Direct`].
    pub bytes: u32,
    /// Threads, or files at a time.
    pub workers: u32,
    /// What is durable in the end.
    pub durability: Durability,
    /// How calls are made.
    pub method: Method,
    /// Seed of the order of reading, and of the content of the files.
    pub seed: u64,
}

/// One part of the task.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// From its begin to its end, with all that makes it durable, s.
    pub seconds: f64,
    /// The time of each call by its name: `open`, `write`, `fsync`, `fsync of the directory`, `close`, `read`, and `file` for
    /// all of a file together.
    pub calls: BTreeMap<String, Percentiles>,
}

/// Times of the task.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Filed {
    /// Making the files.
    pub make: Phase,
    /// Reading files that are in the page cache.
    pub warm: Phase,
    /// Reading files that are not in the page cache.
    pub cold: Phase,
    /// Share of the files of which the kernel still had the first page when cold reading began, 0..=1: 1 on a file system that is
    /// memory.
    pub still_cached: f64,
    /// Writing out dirty pages before the cold reading, s: no part of any other figure.
    pub drain_s: f64,
    /// Removing all, s.
    pub remove_s: f64,
}

/// Why it ended early.
#[derive(Debug)]
pub enum Failed {
    /// It was asked to.
    Stopped,
    /// A call failed: which, and how.
    Call(String, io::Error),
}

impl Failed {
    pub(crate) fn call(what: impl Into<String>) -> impl FnOnce(io::Error) -> Failed {
        move |error| Failed::Call(what.into(), error)
    }
}

/// Times of calls, ns, of one worker.
pub(crate) type Times = BTreeMap<&'static str, Vec<u64>>;

/// A part of a task by one worker.
#[derive(Clone, Copy)]
pub(crate) enum Part {
    Make,
    Read,
}

/// Data shared by workers.
pub(crate) struct Shared<'a> {
    pub(crate) task: &'a Task,
    pub(crate) directory: &'a File,
    pub(crate) stop: &'a AtomicBool,
}

impl Shared<'_> {
    /// The time of a file's call.
    pub(crate) fn check(&self) -> Result<(), Failed> {
        if self.stop.load(Ordering::Relaxed) { Err(Failed::Stopped) } else { Ok(()) }
    }

    pub(crate) fn path(&self, file: u32) -> PathBuf {
        self.task.directory.join(name(file))
    }
}

/// The name of a file.
pub(crate) fn name(file: u32) -> String {
    format!("f{file:06}")
}

/// Does the task and removes its files, also if it fails.
///
/// # Errors
/// The first call that failed.
pub fn file(task: &Task, stop: &AtomicBool) -> Result<Filed, Failed> {
    let place = task.directory.display().to_string();
    fs::create_dir(&task.directory).map_err(Failed::call(format!("make the directory {place}")))?;
    let result = File::open(&task.directory)
        .map_err(Failed::call(format!("open the directory {place}")))
        .and_then(|directory| phases(&Shared { task, directory: &directory, stop }));
    let begin = Instant::now();
    let removed = remove(&task.directory).map_err(Failed::call(format!("remove the directory {place}")));
    let filed = result?;
    removed?;
    Ok(Filed { remove_s: begin.elapsed().as_secs_f64(), ..filed })
}

/// Removes a directory of files, and waits until that is on the disk: it is no load of what follows.
///
/// # Errors
/// Something in it cannot be removed, or written.
pub fn remove(directory: &Path) -> io::Result<()> {
    fs::remove_dir_all(directory)?;
    let parent = directory.parent().filter(|parent| !parent.as_os_str().is_empty());
    sys::sync_file_system(&File::open(parent.unwrap_or(Path::new(".")))?)
}

fn phases(shared: &Shared<'_>) -> Result<Filed, Failed> {
    let sync = || sys::sync_file_system(shared.directory).map_err(Failed::call("syncfs"));
    // Dirty pages of other programs are no part of it.
    sync()?;
    let begin = Instant::now();
    let mut make = phase(shared, Part::Make, &in_order(shared.task))?;
    if shared.task.durability == Durability::Syncfs {
        sync()?;
        make.seconds = begin.elapsed().as_secs_f64();
    }
    let order = content::shuffled(shared.task);
    let warm = phase(shared, Part::Read, &order)?;
    let begin = Instant::now();
    sync()?;
    let drain_s = begin.elapsed().as_secs_f64();
    let mut cached = 0;
    for &file in &order {
        cached += u32::from(forget(shared, file).map_err(Failed::call("posix_fadvise"))?);
    }
    let cold = phase(shared, Part::Read, &order)?;
    let still_cached = f64::from(cached) / f64::from(shared.task.files.max(1));
    Ok(Filed { make, warm, cold, still_cached, drain_s, remove_s: 0.0 })
}

fn in_order(task: &Task) -> Vec<u32> {
    (0..task.files).collect()
}

/// Drops the pages of a file; true if the kernel has its first one nevertheless.
fn forget(shared: &Shared<'_>, file: u32) -> io::Result<bool> {
    let file = File::open(shared.path(file))?;
    sys::drop_pages(&file)?;
    sys::is_cached(&file)
}

/// All workers from the first to the last file.
fn phase(shared: &Shared<'_>, part: Part, order: &[u32]) -> Result<Phase, Failed> {
    let begin = Instant::now();
    let times = match shared.task.method {
        Method::IoUring => uring::work(shared, part, order)?,
        Method::Calls => {
            let workers = shared.task.workers.max(1) as usize;
            thread::scope(|scope| {
                let start = |worker: usize| {
                    let own = order.iter().copied().skip(worker).step_by(workers);
                    thread::Builder::new().spawn_scoped(scope, move || calls::work(shared, part, own))
                };
                let started: Result<Vec<_>, _> = (0..workers).map(start).collect();
                let all = started.map_err(Failed::call("start a worker"))?;
                let mut times = Times::new();
                for worker in all {
                    for (call, own) in worker.join().expect("it does not panic")? {
                        times.entry(call).or_default().extend(own);
                    }
                }
                Ok(times)
            })?
        }
    };
    let calls = times.into_iter().map(|(call, times)| (call.to_string(), Percentiles::of(times)));
    Ok(Phase { seconds: begin.elapsed().as_secs_f64(), calls: calls.collect() })
}

#[cfg(test)]
mod tests;
