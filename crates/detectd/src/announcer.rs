//! The announcements by a BGP daemon, which survive a crash of weir: two threads carry out the list of announcements.
//!
//! ```text
//!   event > standing --> carrier: pipe of ExaBGP, program of GoBGP     (at once, repeated until it succeeds)
//!                  \-> keeper: the file of the announcements         (a slow disk delays nothing)
//! ```
//! Announcements in the file at the start are those of a killed weir, and are withdrawn.

use std::collections::HashMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use serde::Serialize;
use tracing::{error, info, warn};
use weir_detect::kept::{self, Kept};
use weir_detect::{Announce, Announcements, Daemon, Decision, Event, Standing};

use super::program;

/// Time limit of `gobgp`.
const PATIENCE: Duration = Duration::from_secs(10);
/// Most bytes of the file; the largest number of announcements needs less.
const LONGEST: u64 = 64 << 20;
/// From this number of tries on, the operator is asked to act.
const LOUD: u32 = 8;
/// A file that could not be written is tried again after this time.
const RETRY: Duration = Duration::from_secs(5);

/// A command for a BGP daemon.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Announced {
    /// The command.
    pub(crate) command: String,
    /// Whether it is sent, or only shown.
    pub(crate) sent: bool,
    /// Why it is not sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
}

/// Sends the commands to a BGP daemon, or only returns them.
pub(crate) struct Announcer {
    shared: Arc<Shared>,
    /// Why no command is sent to the daemon; `None`: they are sent.
    withheld: Option<&'static str>,
    /// The file of the announcements.
    state: PathBuf,
    _lock: Option<File>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    began: Instant,
}

struct State {
    standing: Standing,
    /// The announcements in the file.
    written: Vec<Kept>,
    is_ending: bool,
}

impl Announcer {
    /// Starts the threads; announcements of a killed weir are withdrawn.
    ///
    /// # Errors
    /// The daemon cannot be reached, or the file cannot be written.
    pub(crate) fn start(announce: Announce) -> Result<Announcer> {
        let (withheld, path, daemon) = (announce.withheld, announce.state.clone(), announce.daemon.clone());
        let mut standing = Standing::new(announce);
        if withheld.is_some() {
            return Ok(Announcer { shared: Shared::new(standing), withheld, state: path, _lock: None });
        }
        let mut lines = Lines::default();
        if let Daemon::ExaBgp(pipe) = &daemon {
            lines.open(pipe)?;
        }
        let lock = lock(&path)?;
        let left = read(&path)?;
        // Written now, so that a folder without write permission is reported before the first attack.
        write(&path, &left).with_context(|| cannot_keep(&path))?;
        if !left.is_empty() {
            let (count, path) = (left.len(), path.display());
            warn!(%path, count, "note: {count} announcements in {path} are left from an earlier run: withdrawing them");
        }
        standing.withdraw_kept(left.clone());
        let shared = Shared::new(standing);
        shared.lock().written = left;
        let (carrier, keeper, file) = (shared.clone(), shared.clone(), path.clone());
        std::thread::Builder::new().name("announcer".into()).spawn(move || carry(&carrier, lines))?;
        std::thread::Builder::new().name("announced".into()).spawn(move || keep(&keeper, &file))?;
        Ok(Announcer { shared, withheld: None, state: path, _lock: Some(lock) })
    }

    /// The command that follows from an event; it is being sent.
    pub(crate) fn of(&self, event: &Event) -> Option<Announced> {
        let now = self.shared.now();
        let decision = self.shared.lock().standing.take(event, now);
        self.shared.changed.notify_all();
        let Decision { command, withheld } = decision?;
        let reason = withheld.or_else(|| self.withheld.map(str::to_string));
        Some(Announced { command, sent: reason.is_none(), reason })
    }

    /// Counts of the current announcements.
    pub(crate) fn counts(&self) -> Announcements {
        self.shared.lock().standing.counts()
    }

    /// Withdraws all, because the end of the attacks would not be seen, and waits for that, until `end` at most.
    pub(crate) fn finish(self, end: Instant) {
        if self.withheld.is_some() {
            return;
        }
        let mut state = self.shared.lock();
        state.is_ending = true;
        state.standing.withdraw_all(self.shared.now());
        self.shared.changed.notify_all();
        while !(state.standing.is_empty() && state.written.is_empty()) && Instant::now() < end {
            state = self.shared.wait(state, Some(end.saturating_duration_since(Instant::now())));
        }
        let left = state.standing.kept();
        if !left.is_empty() {
            let (count, path) = (left.len(), self.state.display());
            warn!(
                %path,
                count,
                "note: {count} announcements could not be withdrawn: the next `weir detect` with {path} withdraws them"
            );
        }
    }
}

impl Shared {
    fn new(standing: Standing) -> Arc<Shared> {
        let state = State { standing, written: Vec::new(), is_ending: false };
        Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new(), began: Instant::now() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics while it holds the lock")
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Waits for a change, `most` at most.
    fn wait<'a>(&'a self, state: MutexGuard<'a, State>, most: Option<Duration>) -> MutexGuard<'a, State> {
        match most {
            Some(most) => {
                self.changed.wait_timeout(state, most).expect("no thread panics while it holds the lock").0
            }
            None => self.changed.wait(state).expect("no thread panics while it holds the lock"),
        }
    }
}

/// Sends commands to daemons, until the process ends.
fn carry(shared: &Shared, mut lines: Lines) {
    let mut state = shared.lock();
    loop {
        for (withdrawn, option) in state.standing.expire(shared.now()) {
            info!(command = withdrawn, "note: withdrawn after {option}: {withdrawn}");
        }
        let Some(order) = state.standing.next(shared.now()) else {
            let most = state.standing.wakes().map(|at| at.saturating_sub(shared.now()));
            state = shared.wait(state, most);
            continue;
        };
        drop(state);
        let done = match &order.daemon {
            Daemon::ExaBgp(pipe) => lines.say(pipe, &order.command),
            Daemon::GoBgp => run(&order.command),
        };
        state = shared.lock();
        let tries = state.standing.carried_out(&order, done.is_ok(), shared.now());
        if let Err(error) = &done {
            drop(state);
            complain(&order.command, tries, error);
            state = shared.lock();
        }
        shared.changed.notify_all();
    }
}

/// Reports a failed command: at the first try, at the second, at the fourth, and so on.
fn complain(command: &str, tries: u32, error: &anyhow::Error) {
    match tries {
        0 => {}
        LOUD.. if tries.is_power_of_two() => error!(
            tries,
            command,
            "ATTENTION: a BGP command failed {tries} times, and the daemon may announce a wrong route: {command}: {error:#}; repair \
             the daemon, or run the command yourself. weir retries every minute"
        ),
        _ if tries.is_power_of_two() => {
            warn!(tries, command, "note: BGP command failed, retrying: {command}: {error:#}");
        }
        _ => {}
    }
}

/// Runs a command of GoBGP.
fn run(command: &str) -> Result<()> {
    let mut words = command.split_whitespace();
    let name = words.next().context("a command has words")?;
    program::run(Command::new(name).args(words), "", PATIENCE)
}

/// The pipes of ExaBGP, open as long as ExaBGP reads them.
#[derive(Default)]
struct Lines(HashMap<String, File>);

impl Lines {
    fn open(&mut self, pipe: &str) -> Result<()> {
        if !self.0.contains_key(pipe) {
            // Non-blocking: an open without a reader fails, and a slow reader does not block writes.
            let file = OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(pipe);
            let file =
                file.with_context(|| format!("cannot open the pipe {pipe} to ExaBGP (is it running?)"))?;
            // Do not write to a file that another user may have put there.
            if !file.metadata().is_ok_and(|found| found.file_type().is_fifo()) {
                bail!("{pipe} is no named pipe: set announce.pipe to the pipe of ExaBGP");
            }
            self.0.insert(pipe.to_string(), file);
        }
        Ok(())
    }

    fn say(&mut self, pipe: &str, command: &str) -> Result<()> {
        self.open(pipe)?;
        let file = self.0.get_mut(pipe).expect("it is open");
        // One write, which the pipe takes completely or not at all: half a command would corrupt the next.
        let said = file.write_all(format!("{command}\n").as_bytes());
        if said.as_ref().is_err_and(|error| error.kind() != ErrorKind::WouldBlock) {
            // A restarted ExaBGP may have a new pipe.
            self.0.remove(pipe);
        }
        said.with_context(|| format!("ExaBGP does not read {pipe}"))
    }
}

/// Writes the file after each change, until the process ends.
fn keep(shared: &Shared, path: &Path) {
    let mut state = shared.lock();
    let mut has_failed = false;
    loop {
        let kept = state.standing.kept();
        if kept == state.written {
            state = shared.wait(state, None);
            continue;
        }
        drop(state);
        let done = write(path, &kept);
        state = shared.lock();
        match done {
            Ok(()) => {
                state.written = kept;
                has_failed = false;
                shared.changed.notify_all();
            }
            Err(error) => {
                if !std::mem::replace(&mut has_failed, true) {
                    warn!(path = %path.display(), %error, "note: {}: {error}", cannot_keep(path));
                }
                let waited = Instant::now() + RETRY;
                while Instant::now() < waited {
                    state = shared.wait(state, Some(waited.saturating_duration_since(Instant::now())));
                }
            }
        }
    }
}

fn cannot_keep(path: &Path) -> String {
    format!("cannot write the announcements to {}: set announce.state to another file", path.display())
}

/// An exclusive lock of the file.
fn lock(path: &Path) -> Result<File> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).with_context(|| cannot_keep(path))?;
    }
    let mut name = path.as_os_str().to_os_string();
    name.push(".lock");
    let file = weir_disk::keep(Path::new(&name), 0o600).with_context(|| cannot_keep(path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            bail!("another `weir detect` uses {}: set announce.state to a file of its own", path.display())
        }
        Err(TryLockError::Error(error)) => Err(error).with_context(|| cannot_keep(path)),
    }
}

fn read(path: &Path) -> Result<Vec<Kept>> {
    let shown = path.display();
    let mut text = String::new();
    // A file of another user is refused, and a pipe does not block.
    let file = weir_disk::keep(path, 0o600).with_context(|| cannot_keep(path))?;
    file.take(LONGEST)
        .read_to_string(&mut text)
        .with_context(|| format!("cannot read the announcements in {shown}"))?;
    kept::read(&text).map_err(|line| {
        anyhow!(
            "line {line} of {shown} is no announcement of weir: withdraw the routes in the file by hand and remove it, or \
             set announce.state to another file"
        )
    })
}

/// Replaces the file atomically.
fn write(path: &Path, kept: &[Kept]) -> std::io::Result<()> {
    weir_disk::replace(path, kept::write(kept).as_bytes(), 0o600)
}
