//! What a BGP daemon was told and must not keep for ever: each announcement from its attack until it has been taken back.
//!
//! ```text
//!              start          told                 end, or its lifetime is over        told
//!   (nothing) -----> wanted -------> in place ------------------------> to be withdrawn -----> (nothing)
//!                       ^  failed: told again later                         ^  failed: told again later, without end
//! ```
//! Pure: no clock, no I/O. Whoever talks to the daemon asks [`Ledger::next`] what to say, and reports how that went. What may
//! be in place is written down ([`Ledger::kept`]), and withdrawn by the next program that reads it.
//!
//! Invariant: what the daemon may know is in the ledger until its withdrawal has succeeded, and there are no more of these than
//! the configuration allows.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::announce::{Announce, Commands, Daemon};
use crate::event::{Event, Kind};
use crate::kept::Kept;

/// A command that has failed is repeated after this time, ...
const FIRST_RETRY: Duration = Duration::from_secs(1);
/// ... the next time after twice that, and so on up to this.
const LAST_RETRY: Duration = Duration::from_secs(60);

/// Announcements that are wanted, in place, or to be withdrawn.
pub struct Ledger {
    announce: Announce,
    /// By the command that takes it back.
    entries: BTreeMap<String, Entry>,
}

struct Entry {
    daemon: Daemon,
    announce: String,
    /// `None`: one of a program that has ended.
    attack: Option<u64>,
    wanted: bool,
    /// The daemon may know it.
    said: bool,
    /// When it is withdrawn though its attack goes on.
    until: Duration,
    /// When the daemon is to be told; `None`: it is as it should be.
    due: Option<Duration>,
    failures: u32,
}

/// What an event leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The command.
    pub command: String,
    /// Why the daemon does not get it.
    pub withheld: Option<String>,
}

/// What a daemon is to be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// Which one.
    pub daemon: Daemon,
    /// The command.
    pub command: String,
    withdraw: String,
    wanted: bool,
}

impl Ledger {
    /// Nothing is announced.
    pub fn new(announce: Announce) -> Ledger {
        Ledger { announce, entries: BTreeMap::new() }
    }

    /// What an ended program may have left in place is withdrawn.
    pub fn withdraw_kept(&mut self, kept: Vec<Kept>) {
        for Kept { daemon, withdraw } in kept {
            let entry = Entry {
                daemon,
                announce: String::new(),
                attack: None,
                wanted: false,
                said: true,
                until: Duration::ZERO,
                due: Some(Duration::ZERO),
                failures: 0,
            };
            self.entries.insert(withdraw, entry);
        }
    }

    /// Takes note of an event; what follows from it. Times count from any moment.
    pub fn take(&mut self, event: &Event, now: Duration) -> Option<Decision> {
        match event.event {
            Kind::Start => self.start(event, now),
            // One whose lifetime is over, or that there was no room for, is tried again.
            Kind::Update if self.has(event.attack) => None,
            Kind::Update => self.start(event, now).filter(|decision| decision.withheld.is_none()),
            Kind::End => self.end(event.attack, now),
        }
    }

    fn has(&self, attack: u64) -> bool {
        self.entries.values().any(|entry| entry.wanted && entry.attack == Some(attack))
    }

    fn start(&mut self, event: &Event, now: Duration) -> Option<Decision> {
        let Commands { announce: command, withdraw } = self.announce.commands(event)?;
        let withheld = self.withheld(event, &withdraw);
        if withheld.is_none() {
            let old = self.entries.get(&withdraw);
            let entry = Entry {
                daemon: self.announce.daemon.clone(),
                announce: command.clone(),
                attack: Some(event.attack),
                wanted: true,
                said: old.is_some_and(|old| old.said),
                until: now + self.announce.lifetime,
                due: Some(now),
                failures: 0,
            };
            self.entries.insert(withdraw, entry);
        }
        Some(Decision { command, withheld })
    }

    /// Why an attack is not announced.
    fn withheld(&self, start: &Event, withdraw: &str) -> Option<String> {
        if let Some(never) = start.host.and_then(|host| self.announce.never(host)) {
            return Some(format!("{never} is never announced: announce.never"));
        }
        let is_full = self.entries.len() >= self.announce.max && !self.entries.contains_key(withdraw);
        is_full.then(|| format!("{} are announced already: announce.max", self.entries.len()))
    }

    fn end(&mut self, attack: u64, now: Duration) -> Option<Decision> {
        let entry = |(_, entry): &(&String, &mut Entry)| entry.wanted && entry.attack == Some(attack);
        let (withdraw, entry) = self.entries.iter_mut().find(entry)?;
        let command = withdraw.clone();
        if entry.withdraw(now) {
            self.entries.remove(&command);
        }
        Some(Decision { command, withheld: None })
    }

    /// Withdraws what has been announced for its lifetime: the commands. An attack that goes on is announced again with the next
    /// event about it.
    pub fn expire(&mut self, now: Duration) -> Vec<String> {
        self.withdraw_where(now, |entry| entry.until <= now)
    }

    /// Withdraws all, because nobody will see the end of the attacks.
    pub fn withdraw_all(&mut self, now: Duration) {
        self.withdraw_where(now, |_| true);
    }

    fn withdraw_where(&mut self, now: Duration, is_over: impl Fn(&Entry) -> bool) -> Vec<String> {
        let mut withdrawn = Vec::new();
        self.entries.retain(|withdraw, entry| {
            let is_over = entry.wanted && is_over(entry);
            if is_over {
                withdrawn.push(withdraw.clone());
            }
            !is_over || !entry.withdraw(now)
        });
        withdrawn
    }

    /// What a daemon is to be told now, that which is due for the longest first, and what has failed last. It may know it from
    /// here on.
    pub fn next(&mut self, now: Duration) -> Option<Order> {
        let is_due = |entry: &Entry| entry.due.is_some_and(|due| due <= now);
        let due = self.entries.iter_mut().filter(|(_, entry)| is_due(entry));
        let (withdraw, entry) = due.min_by_key(|(_, entry)| (entry.failures > 0, entry.due))?;
        entry.said = true;
        let command = if entry.wanted { &entry.announce } else { withdraw }.clone();
        Some(Order {
            daemon: entry.daemon.clone(),
            command,
            withdraw: withdraw.clone(),
            wanted: entry.wanted,
        })
    }

    /// The daemon took the order, or did not.
    pub fn carried_out(&mut self, order: &Order, success: bool, now: Duration) {
        let Some(entry) = self.entries.get_mut(&order.withdraw) else { return };
        // What has changed meanwhile is due already.
        if entry.wanted != order.wanted {
            return;
        }
        if !success {
            let wait = FIRST_RETRY * 2_u32.saturating_pow(entry.failures.min(10));
            entry.failures += 1;
            entry.due = Some(now + wait.min(LAST_RETRY));
        } else if entry.wanted {
            (entry.due, entry.failures) = (None, 0);
        } else {
            self.entries.remove(&order.withdraw);
        }
    }

    /// When there is something to do next.
    pub fn wakes(&self) -> Option<Duration> {
        let of = |entry: &Entry| entry.due.into_iter().chain(entry.wanted.then_some(entry.until)).min();
        self.entries.values().filter_map(of).min()
    }

    /// What is, or may soon be, in place.
    pub fn kept(&self) -> Vec<Kept> {
        let kept = |(withdraw, entry): (&String, &Entry)| Kept {
            daemon: entry.daemon.clone(),
            withdraw: withdraw.clone(),
        };
        self.entries.iter().map(kept).collect()
    }

    /// Whether nothing is in place.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl Entry {
    /// It is wanted no more; true if no daemon has ever heard of it.
    fn withdraw(&mut self, now: Duration) -> bool {
        (self.wanted, self.due, self.failures) = (false, Some(now), 0);
        !self.said
    }
}

#[cfg(test)]
#[path = "ledger_tests.rs"]
mod tests;
