//! The announcements of a BGP daemon, each from the start of its attack until its withdrawal.
//!
//! ```text
//!              start          reported               end              held for long enough              reported
//!   (nothing) -----> wanted -------> in place ---------> in place ----------------------> to be withdrawn -----> (nothing)
//!                       ^  failed:      |  ^----- start -----/                                   ^  failed:
//!                       reported again      \------ its lifetime is over -------------------------->/   reported again, without end
//! ```
//! An announcement that works may hide its attack: the frames no longer come, and the attack seems to have ended. So it is
//! held, and the attack that comes back when it is withdrawn is held for twice as long.
//!
//! Pure: no clock, no I/O. The caller gets the next command from [`Standing::next`], and reports its result. What may
//! be announced is written to a file ([`Standing::kept`]), and withdrawn by the next program that reads it.
//!
//! Invariant: what the daemon may know is among the announced until its withdrawal has succeeded, and there are no more of
//! these than the configuration allows.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use crate::announce::{Announce, Commands, Daemon};
use crate::event::{Event, Kind};
use crate::kept::Kept;

/// A command that has failed is repeated after this time, ...
const FIRST_RETRY: Duration = Duration::from_secs(1);
/// ... the next time after twice that, and so on up to this.
const LAST_RETRY: Duration = Duration::from_secs(60);

/// Announcements that are wanted, in place, or to be withdrawn.
pub struct Standing {
    announce: Announce,
    /// By the command that takes it back.
    entries: BTreeMap<String, Entry>,
    /// Recently withdrawn announcements, by the same key: for how long each had been held, and until when it has come back at
    /// once if it does.
    held: BTreeMap<String, (Duration, Duration)>,
}

struct Entry {
    daemon: Daemon,
    announce: String,
    /// `None`: one of a program that has ended.
    attack: Option<u64>,
    wanted: bool,
    /// It may have been sent to the daemon.
    said: bool,
    /// Time at which it is withdrawn even if its attack goes on.
    until: Duration,
    /// How long it is held after the end of its attack.
    hold: Duration,
    /// When that is over, once its attack has ended.
    held_until: Option<Duration>,
    /// When the next command is due; `None`: the daemon is up to date.
    due: Option<Duration>,
    failures: u32,
}

/// The decision on an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The command.
    pub command: String,
    /// Why it is not sent to the daemon.
    pub withheld: Option<String>,
}

/// A command for a daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// Which one.
    pub daemon: Daemon,
    /// The command.
    pub command: String,
    withdraw: String,
    wanted: bool,
}

/// Numbers of announcements by state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Announcements {
    /// Of attacks that go on.
    pub wanted: usize,
    /// Of attacks that have ended.
    pub held: usize,
    /// That are still to be taken back.
    pub to_be_withdrawn: usize,
    /// Of all these, those with a last command that failed.
    pub failing: usize,
    /// The largest number of failures in a row.
    pub tries: u32,
}

impl Standing {
    /// Nothing is announced.
    pub fn new(announce: Announce) -> Standing {
        Standing { announce, entries: BTreeMap::new(), held: BTreeMap::new() }
    }

    /// Withdraws announcements that a previous program may have left in place.
    pub fn withdraw_kept(&mut self, kept: Vec<Kept>) {
        for Kept { daemon, withdraw } in kept {
            let entry = Entry {
                daemon,
                announce: String::new(),
                attack: None,
                wanted: false,
                said: true,
                until: Duration::ZERO,
                hold: Duration::ZERO,
                held_until: None,
                due: Some(Duration::ZERO),
                failures: 0,
            };
            self.entries.insert(withdraw, entry);
        }
    }

    /// Handles an event and returns the decision on it. Times count from any moment.
    pub fn take(&mut self, event: &Event, now: Duration) -> Option<Decision> {
        match event.event {
            Kind::Start => self.start(event, now),
            // An attack is tried again if its announcement has expired or had no room.
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
            let hold = self.hold(&withdraw, now);
            let old = self.entries.remove(&withdraw);
            // An announcement in place is not sent again.
            let same = old.as_ref().filter(|old| old.wanted && old.announce == command);
            let entry = Entry {
                daemon: self.announce.daemon.clone(),
                announce: command.clone(),
                attack: Some(event.attack),
                wanted: true,
                said: old.as_ref().is_some_and(|old| old.said),
                until: now + self.announce.lifetime,
                hold,
                held_until: None,
                due: same.map_or(Some(now), |old| old.due),
                failures: same.map_or(0, |old| old.failures),
            };
            self.entries.insert(withdraw, entry);
        }
        Some(Decision { command, withheld })
    }

    /// How long an announcement that starts now is held: twice as long as the last time if it comes back at once.
    fn hold(&mut self, withdraw: &str, now: Duration) -> Duration {
        if let Some(entry) = self.entries.get(withdraw).filter(|entry| entry.wanted) {
            return entry.hold;
        }
        self.held.retain(|_, (_, until)| now <= *until);
        match self.held.remove(withdraw) {
            Some((hold, _)) => (hold * 2).min(self.announce.lifetime),
            None => self.announce.hold,
        }
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
        let entry = |(_, entry): &(&String, &mut Entry)| {
            entry.wanted && entry.attack == Some(attack) && entry.held_until.is_none()
        };
        let (withdraw, entry) = self.entries.iter_mut().find(entry)?;
        let command = withdraw.clone();
        if entry.said && !entry.hold.is_zero() {
            entry.held_until = Some(now + entry.hold);
            let withheld = Some(format!("held for {} s: announce.hold_s", entry.hold.as_secs_f64()));
            return Some(Decision { command, withheld });
        }
        if entry.withdraw(now) {
            self.entries.remove(&command);
        }
        Some(Decision { command, withheld: None })
    }

    /// Withdraws announcements after their lifetime or their hold time; returns the commands with the reasons. An attack that
    /// goes on is announced again with the next event about it.
    pub fn expire(&mut self, now: Duration) -> Vec<(String, &'static str)> {
        let is_held = |entry: &Entry| entry.held_until.is_some_and(|until| until <= now);
        let is_over = |entry: &Entry| is_held(entry) || entry.held_until.is_some() && entry.until <= now;
        let over = self.entries.iter().filter(|(_, entry)| entry.wanted && is_over(entry));
        let back = over.map(|(withdraw, entry)| (withdraw.clone(), (entry.hold, now + entry.hold)));
        self.held.extend(back.collect::<Vec<_>>());
        let held = self.withdraw_where(now, is_held).into_iter().map(|command| (command, "announce.hold_s"));
        let held: Vec<_> = held.collect();
        let expired = self.withdraw_where(now, |entry| entry.until <= now).into_iter();
        held.into_iter().chain(expired.map(|command| (command, "announce.lifetime_s"))).collect()
    }

    /// Withdraws all, because the end of the attacks would not be seen.
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

    /// The command that is due now: the oldest first, failed ones last. From here on it counts as sent
    /// to the daemon.
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

    /// Records the result of a command; returns how often it has failed in a row.
    pub fn carried_out(&mut self, order: &Order, success: bool, now: Duration) -> u32 {
        let Some(entry) = self.entries.get_mut(&order.withdraw) else { return 0 };
        // An entry that has changed meanwhile is due already.
        if entry.wanted != order.wanted {
            return u32::from(!success);
        }
        if !success {
            let wait = FIRST_RETRY * 2_u32.saturating_pow(entry.failures.min(10));
            entry.failures = entry.failures.saturating_add(1);
            entry.due = Some(now + wait.min(LAST_RETRY));
            return entry.failures;
        }
        if entry.wanted {
            (entry.due, entry.failures) = (None, 0);
        } else {
            self.entries.remove(&order.withdraw);
        }
        0
    }

    /// When the next command or withdrawal is due.
    pub fn wakes(&self) -> Option<Duration> {
        let of = |entry: &Entry| {
            let over = entry.wanted.then_some(entry.until).into_iter().chain(entry.held_until);
            entry.due.into_iter().chain(over).min()
        };
        self.entries.values().filter_map(of).min()
    }

    /// Announcements that are, or may soon be, in place.
    pub fn kept(&self) -> Vec<Kept> {
        let kept = |(withdraw, entry): (&String, &Entry)| Kept {
            daemon: entry.daemon.clone(),
            withdraw: withdraw.clone(),
        };
        self.entries.iter().map(kept).collect()
    }

    /// Numbers of announcements by state.
    pub fn counts(&self) -> Announcements {
        let count = |is: &dyn Fn(&Entry) -> bool| self.entries.values().filter(|entry| is(entry)).count();
        Announcements {
            wanted: count(&|entry| entry.wanted && entry.held_until.is_none()),
            held: count(&|entry| entry.wanted && entry.held_until.is_some()),
            to_be_withdrawn: count(&|entry| !entry.wanted),
            failing: count(&|entry| entry.failures > 0),
            tries: self.entries.values().map(|entry| entry.failures).max().unwrap_or(0),
        }
    }

    /// Whether nothing is in place.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl Entry {
    /// Marks it for withdrawal; true if it was never sent to a daemon.
    fn withdraw(&mut self, now: Duration) -> bool {
        (self.wanted, self.held_until, self.due, self.failures) = (false, None, Some(now), 0);
        !self.said
    }
}

#[cfg(test)]
#[path = "standing_tests.rs"]
mod tests;
