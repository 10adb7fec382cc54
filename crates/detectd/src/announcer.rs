//! What a BGP daemon is asked to announce, and never forgets: two threads carry out what the list of announcements asks for.
//!
//! ```text
//!   event > standing --> carrier: pipe of ExaBGP, program of GoBGP     (at once, repeated until it succeeds)
//!                  \-> keeper: the file of what is announced         (a slow disk delays nothing)
//! ```
//! What is in the file when weir begins was left by one that was killed, and is withdrawn.

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
use weir_detect::kept::{self, Kept};
use weir_detect::{Announce, Announcements, Daemon, Decision, Event, Standing};

use super::program;
use weir_service::say;

/// `gobgp` may take so long.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of the file: as many announcements as there can be are less.
const LONGEST: u64 = 64 << 20;
/// From so many tries on, somebody has to see to it.
const LOUD: u32 = 8;
/// A file that could not be written is tried again after this time.
const RETRY: Duration = Duration::from_secs(5);

/// What a BGP daemon is asked to announce.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Announced {
    /// The command.
    pub(crate) command: String,
    /// Or only shown.
    pub(crate) sent: bool,
    /// Then why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
}

/// Tells a BGP daemon of attacks, or says what it would be asked.
pub(crate) struct Announcer {
    shared: Arc<Shared>,
    /// Why no command is sent to the daemon; `None`: they are.
    withheld: Option<&'static str>,
    /// Where it is written down what is announced.
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
    /// What the file says.
    written: Vec<Kept>,
    is_ending: bool,
}

impl Announcer {
    /// Ready to tell; what was left in place before is being withdrawn.
    ///
    /// # Errors
    /// The daemon is not there, or what is announced cannot be written down.
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
        // Here and now, so that a folder that cannot be written to is known before the first attack.
        write(&path, &left).with_context(|| cannot_keep(&path))?;
        if !left.is_empty() {
            let (count, path) = (left.len(), path.display());
            say::say(&format!(
                "note: {count} announcements of {path} were left in place: they are being withdrawn"
            ));
        }
        standing.withdraw_kept(left.clone());
        let shared = Shared::new(standing);
        shared.lock().written = left;
        let (carrier, keeper, file) = (shared.clone(), shared.clone(), path.clone());
        std::thread::Builder::new().name("announcer".into()).spawn(move || carry(&carrier, lines))?;
        std::thread::Builder::new().name("announced".into()).spawn(move || keep(&keeper, &file))?;
        Ok(Announcer { shared, withheld: None, state: path, _lock: Some(lock) })
    }

    /// What follows from an event, which is under way.
    pub(crate) fn of(&self, event: &Event) -> Option<Announced> {
        let now = self.shared.now();
        let decision = self.shared.lock().standing.take(event, now);
        self.shared.changed.notify_all();
        let Decision { command, withheld } = decision?;
        let reason = withheld.or_else(|| self.withheld.map(str::to_string));
        Some(Announced { command, sent: reason.is_none(), reason })
    }

    /// What is announced now.
    pub(crate) fn counts(&self) -> Announcements {
        self.shared.lock().standing.counts()
    }

    /// Withdraws all, because nobody will see the end of the attacks, and waits for that, until `end` at most.
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
            say::say(&format!(
                "note: {count} announcements could not be withdrawn: the next `weir detect` with {path} does it"
            ));
        }
    }
}

impl Shared {
    fn new(standing: Standing) -> Arc<Shared> {
        let state = State { standing, written: Vec::new(), is_ending: false };
        Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new(), began: Instant::now() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics with it")
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Until something has changed, so long at most.
    fn wait<'a>(&'a self, state: MutexGuard<'a, State>, most: Option<Duration>) -> MutexGuard<'a, State> {
        match most {
            Some(most) => self.changed.wait_timeout(state, most).expect("nobody panics with it").0,
            None => self.changed.wait(state).expect("nobody panics with it"),
        }
    }
}

/// Carries orders to daemons, until the process ends.
fn carry(shared: &Shared, mut lines: Lines) {
    let mut state = shared.lock();
    loop {
        for (withdrawn, option) in state.standing.expire(shared.now()) {
            say::say(&format!("note: announced for {option}, and withdrawn: {withdrawn}"));
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

/// Says that a daemon could not be asked: at the first try, at the second, at the fourth, and so on.
fn complain(command: &str, tries: u32, error: &anyhow::Error) {
    match tries {
        0 => {}
        LOUD.. if tries.is_power_of_two() => say::say(&format!(
            "ATTENTION: the BGP daemon could not be reached {tries} times, and may have what it should not: {command}: {error:#}; see to \
             it, or say it yourself. It is tried again every minute"
        )),
        _ if tries.is_power_of_two() => {
            say::say(&format!("note: not said to the BGP daemon, and tried again: {command}: {error:#}"));
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

/// The pipes of ExaBGP, open as long as somebody reads them.
#[derive(Default)]
struct Lines(HashMap<String, File>);

impl Lines {
    fn open(&mut self, pipe: &str) -> Result<()> {
        if !self.0.contains_key(pipe) {
            // Without a reader it does not open, and would block with one that is slow.
            let file = OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(pipe);
            let file =
                file.with_context(|| format!("cannot open the pipe {pipe} to ExaBGP (is it running?)"))?;
            // What somebody has laid there is not written into.
            if !file.metadata().is_ok_and(|found| found.file_type().is_fifo()) {
                bail!("{pipe} is no named pipe: name that of ExaBGP with announce.pipe");
            }
            self.0.insert(pipe.to_string(), file);
        }
        Ok(())
    }

    fn say(&mut self, pipe: &str, command: &str) -> Result<()> {
        self.open(pipe)?;
        let file = self.0.get_mut(pipe).expect("it is open");
        // In one piece, which the pipe takes whole or not at all: half a command would spoil the next.
        let said = file.write_all(format!("{command}\n").as_bytes());
        if said.as_ref().is_err_and(|error| error.kind() != ErrorKind::WouldBlock) {
            // Who comes after the present reader has a pipe of its own, perhaps.
            self.0.remove(pipe);
        }
        said.with_context(|| format!("ExaBGP does not read {pipe}"))
    }
}

/// Keeps the file as it should be, until the process ends.
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
                    say::say(&format!("note: {}: {error}", cannot_keep(path)));
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
    format!(
        "cannot write down what is announced, in {}: name another file with announce.state",
        path.display()
    )
}

/// The right to use a file, which nobody else has at the same time.
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
            bail!(
                "another `weir detect` announces with {}: give this one its own with announce.state",
                path.display()
            )
        }
        Err(TryLockError::Error(error)) => Err(error).with_context(|| cannot_keep(path)),
    }
}

fn read(path: &Path) -> Result<Vec<Kept>> {
    let shown = path.display();
    let mut text = String::new();
    // What somebody else has laid there is not believed, and a pipe is not waited for.
    let file = weir_disk::keep(path, 0o600).with_context(|| cannot_keep(path))?;
    file.take(LONGEST)
        .read_to_string(&mut text)
        .with_context(|| format!("cannot read {shown}, which says what is announced"))?;
    kept::read(&text).map_err(|line| {
        anyhow!(
            "line {line} of {shown} is no announcement of weir: withdraw by hand what the file names, and remove it, or name \
             another with announce.state"
        )
    })
}

/// The whole file, or the one before: never half of it.
fn write(path: &Path, kept: &[Kept]) -> std::io::Result<()> {
    weir_disk::replace(path, kept::write(kept).as_bytes(), 0o600)
}
