//! Hashes of passwords (argon2id), made and checked by a thread of their own: each takes some milliseconds.
//!
//! ```text
//! main loop --- CheckPassword, then HashPassword ---> thread --- Hashed, Checked ---> main loop
//! ```
//! Checks come first: a client waits for them. A hash that there is no room for is made at a later login.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use anyhow::{Context, Result};
use argon2::password_hash::PasswordVerifier;
use argon2::password_hash::phc::PasswordHash;
use argon2::{Algorithm, Argon2, Params, PasswordHasher, Version};
use weir_bng::ppp::auth::Password;
use weir_bng::{Checked, Name};

use crate::wake::Waker;

/// Most hashes, and most checks, that wait.
const MOST: usize = 4096;
/// Memory in KiB, passes, lanes.
const COST: (u32, u32, u32) = (4096, 3, 1);

/// What is to be done.
enum Work {
    Hash { login: Name, mark: [u8; 16], password: Password },
    Check { id: u64, password: Password, hash: Box<str> },
}

/// What was done.
#[derive(Debug)]
pub(crate) enum Done {
    Hashed { login: Name, mark: [u8; 16], hash: String },
    Checked { id: u64, checked: Checked },
}

#[derive(Default)]
struct Queues {
    hashes: VecDeque<Work>,
    checks: VecDeque<Work>,
}

#[derive(Default)]
struct Shared {
    queues: Mutex<Queues>,
    has_work: Condvar,
}

/// The thread.
pub(crate) struct Passwords {
    shared: Arc<Shared>,
    sender: Sender<Done>,
    done: Receiver<Done>,
    waker: Waker,
}

impl Passwords {
    /// Starts the thread, which ends with the process.
    ///
    /// # Errors
    /// There is no thread left.
    pub(crate) fn start(waker: Waker) -> Result<Passwords> {
        let (sender, done) = channel();
        let shared = Arc::new(Shared::default());
        let (work, say, wake) = (shared.clone(), sender.clone(), waker.clone());
        let run = move || {
            // Logins of other methods, and the node, come first. Where it may not be changed it stays.
            let _ = rustix::process::nice(10);
            loop {
                let _ = say.send(work.next().done());
                wake.wake();
            }
        };
        let thread = std::thread::Builder::new().name("passwords".into());
        thread.spawn(run).context("cannot start the thread of passwords")?;
        Ok(Passwords { shared, sender, done, waker })
    }

    /// Has a hash made.
    pub(crate) fn hash(&self, login: Name, mark: [u8; 16], password: Password) {
        self.shared.add(Work::Hash { login, mark, password }, |queues| &mut queues.hashes);
    }

    /// Has a password checked.
    pub(crate) fn check(&self, id: u64, password: Password, hash: Box<str>) {
        if !self.shared.add(Work::Check { id, password, hash }, |queues| &mut queues.checks) {
            let _ = self.sender.send(Done::Checked { id, checked: Checked::Busy });
            self.waker.wake();
        }
    }

    /// What was done.
    pub(crate) fn done(&self) -> Vec<Done> {
        self.done.try_iter().collect()
    }
}

impl Shared {
    /// False: there is no room.
    fn add(&self, work: Work, queue: impl FnOnce(&mut Queues) -> &mut VecDeque<Work>) -> bool {
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        let queue = queue(&mut queues);
        let has_room = queue.len() < MOST;
        if has_room {
            queue.push_back(work);
            self.has_work.notify_one();
        }
        has_room
    }

    fn next(&self) -> Work {
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(work) = queues.checks.pop_front().or_else(|| queues.hashes.pop_front()) {
                return work;
            }
            queues = self.has_work.wait(queues).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Work {
    fn done(self) -> Done {
        match self {
            Work::Hash { login, mark, password } => {
                // An empty text is no hash: it fits no password.
                Done::Hashed { login, mark, hash: hash(&password).unwrap_or_default() }
            }
            Work::Check { id, password, hash } => {
                let is_right = fits(&password, &hash);
                Done::Checked { id, checked: if is_right { Checked::Right } else { Checked::Wrong } }
            }
        }
    }
}

fn hash(password: &Password) -> Option<String> {
    let (memory_kib, passes, lanes) = COST;
    let params = Params::new(memory_kib, passes, lanes, None).ok()?;
    let hasher = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    Some(hasher.hash_password(password.bytes()).ok()?.to_string())
}

/// Whether a password has this hash, made with the cost that the hash says.
fn fits(password: &Password, hash: &str) -> bool {
    let hash = PasswordHash::new(hash);
    hash.is_ok_and(|hash| Argon2::default().verify_password(password.bytes(), &hash).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_fits_its_password_alone_and_says_nothing_of_it() {
        let [right, wrong] = [&b"correct horse"[..], b"correct house"].map(Password::new);
        let made = hash(&right).expect("memory");
        assert!(made.starts_with("$argon2id$v=19$m=4096,t=3,p=1$") && !made.contains(' '), "{made}");
        assert!(fits(&right, &made) && !fits(&wrong, &made) && !fits(&right, ""));
        assert_ne!(made, hash(&right).expect("memory"), "each has its own salt");
    }
}
