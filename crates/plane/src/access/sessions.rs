//! The sessions that the control program has added, as the configuration of the node has them: each thread's table follows from
//! these.
//!
//! Invariant: no two sessions have the same line, Ethernet address and PPPoE session, or the same prefix.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

use super::labels::{Labels, MOST_LABELS};
use super::{AccessState, EchoTimes, NatProfile, UnknownSessions};
use crate::frame::Line;
use crate::prefix::Prefix;

/// Most sessions of a node.
const MOST: usize = 1 << 20;

/// A session of a subscriber.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct AccessSession {
    /// Its number, which the control program has given it.
    pub(crate) session: u64,
    /// What the control program knows it by; the node only keeps it.
    pub(crate) revision: u64,
    pub(crate) line: Line,
    /// Its addresses and networks.
    pub(crate) prefixes: Vec<Prefix>,
    /// Rates from and to the subscriber, bits/s; 0: no limit.
    pub(crate) from_bits_per_s: u64,
    pub(crate) to_bits_per_s: u64,
    /// Rates of its line from and to the subscriber, bits/s; 0: unknown.
    pub(crate) line_bits_per_s: [u64; 2],
    /// The longest packet that the subscriber takes; 0: 1492 in a PPPoE session, else as long as its port carries.
    pub(crate) mru: u16,
    /// The magic number of the node in LCP; none or 0: none was agreed on.
    pub(crate) magic: Option<u32>,
    /// Echo requests to its subscriber.
    pub(crate) echo: EchoTimes,
    /// What the control program has said of that: interval, requests lost.
    pub(crate) echo_said: (Option<u16>, Option<u8>),
    /// It is behind a router at its line, and known by its source addresses.
    pub(crate) is_routed: bool,
    pub(crate) state: AccessState,
    pub(crate) nat: NatProfile,
    pub(crate) labels: Labels,
}

/// How long sessions stay whose access port has no link, s.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Grace(pub(crate) u32);

impl Default for Grace {
    fn default() -> Grace {
        Grace(60)
    }
}

/// All sessions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct AccessSessions {
    by_number: BTreeMap<u64, AccessSession>,
    by_line: HashMap<Line, u64>,
    /// Lines of routers, and how many sessions are behind each.
    routers: HashMap<Line, u32>,
    by_prefix: HashMap<Prefix, u64>,
    /// Pairs of plan and group, and how many sessions have each.
    labels: HashMap<Labels, u32>,
    pub(crate) unknown: UnknownSessions,
    pub(crate) grace: Grace,
}

impl AccessSessions {
    pub(crate) fn get(&self, session: u64) -> Option<&AccessSession> {
        self.by_number.get(&session)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &AccessSession> {
        self.by_number.values()
    }

    /// Whether a session can be beside the others, but for one of its own number.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn check(&self, new: &AccessSession) -> Result<(), String> {
        let other = |owner: Option<&u64>| owner.copied().filter(|owner| *owner != new.session);
        if new.is_routed {
            if let Some(owner) = other(self.by_line.get(&new.line)) {
                return Err(format!(
                    "session {owner} has this port, tags and Ethernet address, and is behind no router: remove it first"
                ));
            }
        } else if self.routers.get(&new.line).copied().unwrap_or_default() > self.routed_of(new) {
            return Err("sessions behind a router have this port, tags and Ethernet address: add this one with `behind_router`, too"
                .to_string());
        } else if let Some(owner) = other(self.by_line.get(&new.line)) {
            return Err(format!(
                "session {owner} has this port, tags, Ethernet address and PPPoE session: remove it first"
            ));
        }
        for prefix in &new.prefixes {
            if let Some(owner) = other(self.by_prefix.get(&prefix.network())) {
                return Err(format!("session {owner} has {prefix}: remove it first"));
            }
        }
        if self.labels.len() >= MOST_LABELS - 1 && !self.labels.contains_key(&new.labels) {
            return Err(format!(
                "sessions have {} different pairs of plan and group, which is the most: use fewer names",
                self.labels.len()
            ));
        }
        if self.by_number.len() >= MOST && !self.by_number.contains_key(&new.session) {
            return Err(format!("a node has at most {MOST} sessions: remove some first"));
        }
        Ok(())
    }

    /// How many sessions behind the router of this line are the one that this one replaces: one or none.
    fn routed_of(&self, new: &AccessSession) -> u32 {
        let is_there = |old: &&AccessSession| old.is_routed && old.line == new.line;
        u32::from(self.get(new.session).as_ref().is_some_and(is_there))
    }

    /// A line is no more that of a session.
    fn forget_line(&mut self, old: &AccessSession) {
        if !old.is_routed {
            self.by_line.remove(&old.line);
        } else {
            count_down(&mut self.routers, old.line);
        }
    }

    /// Removes a session and adds another one in its place, which can be there.
    pub(crate) fn replace(&mut self, old: Option<&AccessSession>, new: Option<&AccessSession>) {
        if let Some(old) = old.and_then(|old| self.by_number.remove(&old.session)) {
            self.forget_line(&old);
            count_down(&mut self.labels, old.labels);
            old.prefixes.iter().for_each(|prefix| _ = self.by_prefix.remove(&prefix.network()));
        }
        if let Some(new) = new {
            match new.is_routed {
                false => _ = self.by_line.insert(new.line, new.session),
                true => *self.routers.entry(new.line).or_default() += 1,
            }
            *self.labels.entry(new.labels.clone()).or_default() += 1;
            new.prefixes.iter().for_each(|prefix| _ = self.by_prefix.insert(prefix.network(), new.session));
            self.by_number.insert(new.session, new.clone());
        }
    }

    /// Those that another text still has room for; `may_be` says which.
    pub(crate) fn kept(&self, may_be: impl Fn(&AccessSession) -> bool) -> AccessSessions {
        let mut kept =
            AccessSessions { unknown: self.unknown, grace: self.grace, ..AccessSessions::default() };
        self.iter().filter(|session| may_be(session)).for_each(|session| kept.replace(None, Some(session)));
        kept
    }
}

/// One session fewer has this.
fn count_down<K: Eq + Hash>(counts: &mut HashMap<K, u32>, key: K) {
    if let Entry::Occupied(mut count) = counts.entry(key) {
        *count.get_mut() -= 1;
        if *count.get() == 0 {
            count.remove();
        }
    }
}
