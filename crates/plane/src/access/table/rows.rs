//! The rows of the table, and how they are found: by line, by the first address of IPv4, by the longest prefix.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

use super::super::bucket::Bucket;
use super::super::counts::{FrameKind, Traffic};
use super::super::echo::Echoes;
use super::super::labels::{LabelTable, Labels};
use super::super::removed::Removed;
use super::super::state::Standing;
use super::super::walled::Walled;
use super::super::{AccessPolicy, AccessSession, AccessState, NatProfile, UnknownSessions};
use super::{
    Denied, Details, HOST_BITS, Owned, RELEASED, REST_EPOCHS, SENDERS, Side, TERMINATIONS, Tables, Taken,
};
use crate::address::{bits, mapped4, words_of, words6};
use crate::frame::{Frame, Line, Subscriber};
use crate::prefix::{Prefix, mask6};
use crate::table::arena::Arena;
use crate::table::index::{self, Index};
use crate::table::quota::Quota;
use crate::table::secret::Secret;
use crate::time::Time;

impl Tables {
    pub(super) fn new(seed: u64) -> Tables {
        let mut tables = Tables {
            secret: Secret::new(seed),
            seed,
            from: Arena::new(),
            to: Arena::new(),
            details: Arena::new(),
            labels: LabelTable::new(),
            policy: AccessPolicy::default(),
            walled: Walled::default(),
            untranslated: 0,
            shapers: None,
            departing: Vec::new(),
            by_line: Index::new(),
            by_address4: Index::new(),
            by_prefix: Index::new(),
            prefixes: Arena::new(),
            free_prefixes: Vec::new(),
            lengths: [0; 129],
            used_lengths: Vec::new(),
            live: 0,
            unknown_sessions: UnknownSessions::default(),
            echoes: Echoes::default(),
            routers: HashMap::new(),
            terminations: Quota::new(seed, SENDERS, TERMINATIONS),
            resting: VecDeque::new(),
            removed: Removed::default(),
        };
        // Index 0 is no subscriber, prefix 0 is none.
        tables.push();
        tables.prefixes.push(Owned { address: [0; 4], len: 0, index: 0 });
        tables
    }

    pub(super) fn hash_of_line(
        &self,
        Line { port, tags, mac: [a, b, c, d, e, f], pppoe_session }: Line,
    ) -> u32 {
        let words = [
            u32::from(pppoe_session) << 16 | u32::from(port.0),
            u32::from(tags.outer) << 16 | u32::from(tags.inner),
            u32::from_be_bytes([a, b, c, d]),
            u32::from_be_bytes([0, 0, e, f]),
        ];
        self.secret.hash(words, 1)
    }

    pub(super) fn hash_of_prefix(&self, address: [u32; 4], len: u8) -> u32 {
        self.secret.hash(address, 2 + u64::from(len))
    }

    /// The side of a subscriber, unless it was removed.
    #[inline]
    pub(super) fn side<'a>(&self, sides: &'a Arena<Side>, subscriber: Subscriber) -> Option<&'a Side> {
        let side = sides.record(subscriber.index)?;
        (side.standing.is_live() && side.generation == subscriber.generation).then_some(side)
    }

    /// The number of the subscriber with this line; 0: none.
    pub(super) fn index_of_line(&self, line: Line) -> u32 {
        self.by_line.find(self.hash_of_line(line), |index| self.from[index].line == line)
    }

    /// The number of a session that is in the table; 0: it is not.
    pub(super) fn index_of_session(&self, session: &AccessSession) -> u32 {
        match session.prefixes.first() {
            Some(&prefix) if session.is_routed => self.owner(prefix),
            _ => self.index_of_line(session.line),
        }
    }

    /// The number of the subscriber with this prefix; 0: none has it.
    pub(super) fn owner(&self, prefix: Prefix) -> u32 {
        let (address, len) = masked(prefix);
        let first = if len == HOST_BITS {
            self.index_of_address4(self.hash_of_prefix(address, len), address)
        } else {
            0
        };
        if first != 0 { first } else { self.prefixes[self.number_of_prefix(address, len)].index }
    }

    /// The number of the subscriber behind the router of this line that has an address; 0: none.
    #[cold]
    pub(super) fn index_of_source(&self, line: Line, address: [u32; 4]) -> u32 {
        let index = self.to_address(address).index;
        let is_there =
            self.from.record(index).is_some_and(|side| side.line == line) && self.details[index].is_routed;
        if is_there { index } else { 0 }
    }

    /// The number of a prefix; 0: no subscriber has it.
    pub(super) fn number_of_prefix(&self, address: [u32; 4], len: u8) -> u32 {
        let is = |number: u32| {
            let owned = &self.prefixes[number];
            owned.address == address && owned.len == len
        };
        self.by_prefix.find(self.hash_of_prefix(address, len), is)
    }

    #[inline]
    pub(super) fn named(&self, index: u32) -> Subscriber {
        Subscriber { index, generation: self.from[index].generation }
    }

    /// The same where frames to it have brought its other side into the cache: a frame needs the line of one direction only.
    #[inline]
    fn named_to(&self, index: u32) -> Subscriber {
        Subscriber { index, generation: self.to[index].generation }
    }

    pub(super) fn to_address(&self, address: [u32; 4]) -> Subscriber {
        self.to_hashed(self.hash_of_prefix(address, HOST_BITS), address)
    }

    /// The subscriber of an address with this hash.
    #[inline]
    pub(super) fn to_hashed(&self, hash: u32, address: [u32; 4]) -> Subscriber {
        match self.index_of_address4(hash, address) {
            0 => self.to_prefix(address),
            index => self.named_to(index),
        }
    }

    /// The number of the subscriber whose first address of IPv4 this is, with its hash; 0: none.
    #[inline]
    pub(super) fn index_of_address4(&self, hash: u32, address: [u32; 4]) -> u32 {
        let is_first = |address4| self.by_address4.find(hash, |index| self.to[index].address4 == address4);
        address4_of(address).map_or(0, is_first)
    }

    /// The subscriber with the longest prefix of an address, but for first addresses of IPv4.
    pub(super) fn to_prefix(&self, address: [u32; 4]) -> Subscriber {
        for &len in &self.used_lengths {
            let number = self.number_of_prefix(words6(bits(address) & mask6(len)), len);
            if number != 0 {
                return self.named_to(self.prefixes[number].index);
            }
        }
        Subscriber::NONE
    }

    /// Whether a subscriber has this prefix.
    pub(super) fn is_owned(&self, prefix: Prefix) -> bool {
        let (address, len) = masked(prefix);
        let is_first =
            len == HOST_BITS && self.index_of_address4(self.hash_of_prefix(address, HOST_BITS), address) != 0;
        is_first || self.number_of_prefix(address, len) != 0
    }

    pub(super) fn insert(
        &mut self,
        line: Line,
        details: Details,
        traffic: [Traffic; 2],
    ) -> Result<Subscriber, Taken> {
        if self.index_of_line(line) != 0 {
            return Err(Taken::Line);
        }
        for (n, &prefix) in details.prefixes.iter().enumerate() {
            let is_twice = details.prefixes.iter().take(n).any(|&other| masked(other) == masked(prefix));
            if is_twice || self.is_owned(prefix) {
                return Err(Taken::Prefix(prefix));
            }
        }
        let index = match self.resting.front() {
            Some(&(index, RELEASED)) => {
                self.resting.pop_front();
                index
            }
            _ if self.from.len() > index::MOST => return Err(Taken::Full),
            _ => self.push(),
        };
        let first = first_address4(&details.prefixes);
        for prefix in behind_first(&details.prefixes) {
            self.own(prefix, index);
        }
        match details.is_routed {
            false => self.by_line.insert(self.hash_of_line(line), index),
            true => *self.routers.entry(line).or_default() += 1,
        }
        if let Some(first) = first {
            self.by_address4.insert(self.hash_of_prefix(masked(first).0, HOST_BITS), index);
        }
        let generation = self.from[index].generation;
        let address4 = first.and_then(|first| address4_of(masked(first).0)).unwrap_or(0);
        let [from, to] = traffic;
        let labels = self.labels.take(&Labels::default());
        let standing = Standing::active();
        let side = |traffic| Side {
            line,
            generation,
            standing,
            mru: 0,
            labels,
            address4,
            bucket: Bucket::default(),
            traffic,
        };
        (self.from[index], self.to[index]) = (side(from), side(to));
        self.details[index] = details;
        self.live += 1;
        Ok(self.named(index))
    }

    /// What a session says beside its line and its prefixes.
    pub(super) fn set_details(&mut self, index: u32, session: &AccessSession) {
        let AccessSession {
            session,
            revision,
            from_bits_per_s,
            to_bits_per_s,
            line_bits_per_s,
            mru,
            magic,
            echo,
            echo_said,
            state,
            nat,
            ref labels,
            ..
        } = *session;
        self.set_state(index, state);
        self.set_nat(index, nat);
        self.set_labels(index, labels);
        let details = &mut self.details[index];
        (details.session, details.revision) = (session, revision);
        (details.magic, details.echo_said) = (magic, echo_said);
        self.echoes.set(index, echo);
        details.bits_per_s = [from_bits_per_s, to_bits_per_s];
        details.line_bits_per_s = line_bits_per_s;
        let [line_from, line_to] = line_bits_per_s;
        self.from[index].bucket.set_rate(smaller_rate(from_bits_per_s, line_from));
        self.to[index].bucket.set_rate(smaller_rate(to_bits_per_s, line_to));
        self.set_plan(index);
        (self.from[index].mru, self.to[index].mru) = (mru, mru);
    }

    pub(super) fn set_state(&mut self, index: u32, state: AccessState) {
        let standing = self.from[index].standing.with_state(state);
        (self.from[index].standing, self.to[index].standing) = (standing, standing);
        if state != AccessState::Walled {
            self.walled.forget(index);
        }
    }

    pub(super) fn set_nat(&mut self, index: u32, nat: NatProfile) {
        let before = self.from[index].standing;
        self.untranslated -= u32::from(before.is_untranslated());
        self.untranslated += u32::from(nat == NatProfile::None);
        self.details[index].nat = nat;
        let standing = before.with_nat(nat);
        (self.from[index].standing, self.to[index].standing) = (standing, standing);
    }

    pub(super) fn set_labels(&mut self, index: u32, labels: &Labels) {
        let before = self.from[index].labels;
        if self.labels.get(before).is_some_and(|row| row.labels == *labels) {
            return;
        }
        self.labels.give_back(before);
        let number = self.labels.take(labels);
        (self.from[index].labels, self.to[index].labels) = (number, number);
    }

    /// Counts a frame of a direction: for its plan and group, and for its subscriber if it is no best effort of IPv4, which is most.
    #[inline]
    pub(super) fn count(&mut self, index: u32, labels: u16, direction: usize, kind: FrameKind, bytes: usize) {
        if let Some(counts) = self.labels.get_mut(labels).and_then(|row| row.counts.get_mut(direction)) {
            counts.count(kind, bytes);
        }
        if kind != FrameKind::USUAL
            && let Some(counts) = self.details[index].counts.get_or_insert_default().get_mut(direction)
        {
            counts.count(kind, bytes);
        }
    }

    /// Whether a packet may go to a subscriber that is not active.
    ///
    /// # Errors
    /// Why it is dropped.
    #[cold]
    pub(super) fn admit_to(
        &mut self,
        now: Time,
        frame: &mut Frame<'_>,
        state: AccessState,
    ) -> Result<(), Denied> {
        let index = frame.subscriber.index;
        match state {
            AccessState::Active => Ok(()),
            AccessState::Blocked => {
                self.details[index].dropped.blocked += 1;
                Err(Denied::Blocked)
            }
            AccessState::Walled if frame.is_answer => Ok(()),
            AccessState::Walled => self.walled.send_to(now, index, frame).map_err(|refused| {
                self.details[index].dropped.walled += 1;
                refused.into()
            }),
        }
    }

    pub(super) fn push(&mut self) -> u32 {
        self.from.push(Side::default());
        self.details.push(Details::default());
        self.to.push(Side::default())
    }

    /// A prefix is a subscriber's from now on.
    pub(super) fn own(&mut self, prefix: Prefix, index: u32) {
        let (address, len) = masked(prefix);
        let owned = Owned { address, len, index };
        let number = match self.free_prefixes.pop() {
            Some(number) => {
                self.prefixes[number] = owned;
                number
            }
            None => self.prefixes.push(owned),
        };
        self.by_prefix.insert(self.hash_of_prefix(address, len), number);
        self.count_length(len, |count| count + 1);
    }

    pub(super) fn disown(&mut self, prefix: Prefix) {
        let (address, len) = masked(prefix);
        let number = self.number_of_prefix(address, len);
        self.by_prefix.remove(self.hash_of_prefix(address, len), number);
        self.free_prefixes.push(number);
        self.count_length(len, |count| count - 1);
    }

    pub(super) fn count_length(&mut self, len: u8, change: impl Fn(u32) -> u32) {
        let Some(count) = self.lengths.get_mut(usize::from(len)) else { return };
        let before = std::mem::replace(count, change(*count));
        match (before, *count) {
            (0, 1) => {
                let at = self.used_lengths.partition_point(|&other| other > len);
                self.used_lengths.insert(at, len);
            }
            (1, 0) => self.used_lengths.retain(|&other| other != len),
            _ => {}
        }
    }

    pub(super) fn remove(&mut self, index: u32, epoch: u64) -> bool {
        let Side { line, generation, standing, labels, .. } = self.from[index];
        if standing.state().is_none() {
            return false;
        }
        self.labels.give_back(labels);
        self.untranslated -= u32::from(standing.is_untranslated());
        self.walled.forget(index);
        let gone = Side { line, generation: generation.wrapping_add(1), ..Side::default() };
        (self.from[index], self.to[index]) = (gone, gone);
        let Details { prefixes, is_routed, .. } = std::mem::take(&mut self.details[index]);
        self.forget_line(line, is_routed, index);
        self.echoes.remove(index);
        let first = first_address4(&prefixes);
        if let Some(first) = first {
            self.by_address4.remove(self.hash_of_prefix(masked(first).0, HOST_BITS), index);
        }
        for prefix in behind_first(&prefixes) {
            self.disown(prefix);
        }
        self.shapers.iter_mut().for_each(|shapers| shapers.remove(index));
        self.live -= 1;
        self.resting.push_back((index, epoch.saturating_add(REST_EPOCHS)));
        true
    }

    /// Frames of a line are no more those of this subscriber.
    pub(super) fn forget_line(&mut self, line: Line, is_routed: bool, index: u32) {
        if !is_routed {
            return self.by_line.remove(self.hash_of_line(line), index);
        }
        if let Some(count) = self.routers.get_mut(&line) {
            *count -= 1;
            if *count == 0 {
                self.routers.remove(&line);
            }
        }
    }

    /// Indexes that have rested long enough by this epoch may be used again.
    pub(super) fn release(&mut self, epoch: u64) {
        let rested = self.resting.iter_mut().take_while(|(_, until)| *until <= epoch);
        rested.for_each(|(_, until)| *until = RELEASED);
    }
}

/// The first address of IPv4 among prefixes.
fn first_address4(prefixes: &[Prefix]) -> Option<Prefix> {
    prefixes.iter().copied().find(|prefix| prefix.address.is_ipv4() && prefix.len == 32)
}

/// All prefixes but the first address of IPv4.
fn behind_first(prefixes: &[Prefix]) -> impl Iterator<Item = Prefix> {
    let first = first_address4(prefixes);
    prefixes.iter().copied().filter(move |&prefix| first != Some(prefix))
}

/// The address of IPv4 that these words stand for.
fn address4_of(address: [u32; 4]) -> Option<u32> {
    let [_, _, _, last] = address;
    (address == mapped4(last)).then_some(last)
}

/// The first address of a prefix, and its length, as one of IPv6.
fn masked(prefix: Prefix) -> ([u32; 4], u8) {
    let Prefix { address, len } = prefix.network();
    (words_of(address), if matches!(address, IpAddr::V4(_)) { len + 96 } else { len })
}

/// The smaller one of the rates of a plan and a line; 0: no limit.
fn smaller_rate(plan_bits_per_s: u64, line_bits_per_s: u64) -> u64 {
    match (plan_bits_per_s, line_bits_per_s) {
        (plan, 0) => plan,
        (0, line) => line,
        (plan, line) => plan.min(line),
    }
}
