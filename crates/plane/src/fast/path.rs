//! The entries of a fast path: what they were made of, and which numbers are free.
//!
//! ```text
//!   free number > entry of a key > key gone, still read > free number
//!                   | its session ends: holds no more
//! ```
//! A number is used again only [`FastPath::margin`] after its key has gone: by then no program holds the entry any more.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::entry::{Slots, Track};
use super::numbers::Numbers;
use super::round::{PIECE, Round};
use super::{FastTable, FlowKey, FlowRule, FlowUses};
use crate::recipe::{Key, On, Recipe, Uses};
use crate::table::tcp::Progress;
use crate::table::timers::Tick;
use crate::time::Time;

/// Places for keys that were seen lately, for each entry that there is room for, and at least: a key is known again if no other
/// one has come to its place meanwhile.
const LATELY: usize = 2;
const LEAST_LATELY: usize = 1 << 13;
/// Rounds without a frame until an entry gives its room back.
const IDLE_ROUNDS: u32 = 30;
/// So many entries are read between two batches when all of them are to be read: some 0.5 ms.
const AT_ONCE: u32 = 2048;
/// What is to expire so long after two margins is looked at again, if it was used.
const EARLY: Duration = Duration::from_secs(16);

/// The entries of a table.
pub(crate) struct FastPath {
    pub(super) table: Box<dyn FastTable>,
    /// The fast path is on: all ports take its frames.
    pub(super) is_on: bool,
    /// Entries are not used until the stages have changed.
    pub(super) is_paused: bool,
    round: Round,
    /// When a use of any entry was last read.
    pub(super) used: Time,
    /// Entries of the present text; those of older texts are removed one after the other.
    live: u64,
    epochs: [u32; 3],
    by_session: HashMap<Track, Vec<u32>>,
    entries: Vec<Option<Entry>>,
    numbers: Numbers,
    /// Entries whose key has gone, and when; the oldest first.
    leaving: VecDeque<(u32, Time)>,
    slots: TrackSlots,
    /// Parts of hashes; 0: none.
    lately: Box<[u32]>,
    /// Frames that a table had counted before.
    before: u64,
}

struct Entry {
    key: Key,
    recipe: Arc<Recipe>,
    epochs: [u32; 3],
    until: Option<Time>,
    /// Rounds without a frame.
    idle: u32,
    is_over: bool,
    /// Its key has gone.
    is_leaving: bool,
    slots: Vec<u32>,
}

/// Which connection is at which slot of the table.
#[derive(Default)]
struct TrackSlots {
    by_track: HashMap<Track, u32>,
    /// By slot, how many entries have it, and its connection.
    taken: Vec<(u32, Track)>,
    free: Vec<u32>,
}

impl fmt::Debug for FastPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FastPath").field("entries", &self.live).field("is_on", &self.is_on).finish()
    }
}

impl FastPath {
    pub(super) fn new(mut table: Box<dyn FastTable>) -> FastPath {
        table.set_epochs([0; 3]);
        let room = table.room();
        let before = table.counts().received.iter().sum();
        FastPath {
            table,
            is_on: false,
            is_paused: false,
            round: Round::default(),
            used: Time::default(),
            live: 0,
            epochs: [0; 3],
            // It need not grow while frames wait.
            by_session: HashMap::with_capacity(room as usize),
            entries: (0..room).map(|_| None).collect(),
            numbers: Numbers::new(room),
            leaving: VecDeque::new(),
            slots: TrackSlots { free: (0..room).rev().collect(), ..TrackSlots::default() },
            lately: vec![0; (room as usize * LATELY).next_power_of_two().max(LEAST_LATELY)].into(),
            before,
        }
    }

    /// Entries that there are.
    pub(super) fn entries(&self) -> u64 {
        self.live
    }

    /// Frames that did not come to the plane.
    pub(crate) fn served(&self) -> u64 {
        self.table.counts().received.iter().sum::<u64>() - self.before
    }

    /// Sets the epochs: entries with other epochs are not valid any more.
    pub(super) fn set_epochs(&mut self, epochs: [u32; 3]) {
        if self.epochs != epochs {
            self.epochs = epochs;
            self.table.set_epochs(epochs);
        }
    }

    /// Whether a frame with this key, which came to the plane, is a reason to make an entry: the second one is, or the first
    /// one if the table is eager.
    pub(super) fn wants(&mut self, flow: &FlowKey, now: Time) -> bool {
        if let Some(entry) = self.number_of(flow).and_then(|number| self.entry(number)) {
            let in_time = entry.until.is_none_or(|until| now < until);
            // Where it holds, the frame came before it, or is one of those that are always left to the plane.
            return !self.is_valid(entry) || !in_time;
        }
        if self.numbers.are_all_taken() {
            return false;
        }
        if self.table.is_eager() {
            return true;
        }
        let mut hasher = DefaultHasher::new();
        flow.hash(&mut hasher);
        let (hash, parts) = (hasher.finish(), self.lately.len());
        let Some(place) = self.lately.get_mut((hash >> 32) as usize % parts) else { return false };
        let part = hash as u32 | 1;
        std::mem::replace(place, part) == part
    }

    /// The entry of a flow: if the table cannot distinguish two flows of IPv6, it is that of one of them.
    fn number_of(&self, flow: &FlowKey) -> Option<u32> {
        let number = self.table.find(flow)?;
        let entry = self.entry(number)?;
        (!entry.is_leaving && FlowKey::of(&entry.key) == *flow).then_some(number)
    }

    /// Whether an entry is valid for the present epochs.
    fn is_valid(&self, entry: &Entry) -> bool {
        !entry.is_over && entry.epochs == self.epochs
    }

    /// Whether an entry was made of the present stages.
    fn is_of_text(&self, entry: &Entry) -> bool {
        entry.epochs.first() == self.epochs.first()
    }

    fn entry(&self, number: u32) -> Option<&Entry> {
        self.entries.get(number as usize)?.as_ref()
    }

    fn entry_mut(&mut self, number: u32) -> Option<&mut Entry> {
        self.entries.get_mut(number as usize)?.as_mut()
    }

    /// A flow gets this entry, which replaces its old one.
    pub(super) fn insert(&mut self, now: Time, (flow, key): (FlowKey, Key), recipe: Recipe, rule: FlowRule) {
        let slots: Vec<u32> = rule.tracks.iter().flatten().map(|(slot, _)| *slot).collect();
        let is_late = rule.until.is_some_and(|until| until <= now);
        let number = if is_late { None } else { self.numbers.take_near(self.table.place(&flow)) };
        let Some(number) = number else {
            slots.into_iter().for_each(|slot| self.slots.leave(slot));
            return self.forget(&flow, now);
        };
        let old = self.number_of(&flow);
        if !self.table.insert(&flow, number, &rule) {
            self.numbers.give_back(number);
            slots.into_iter().for_each(|slot| self.slots.leave(slot));
            return self.forget(&flow, now);
        }
        old.into_iter().for_each(|old| self.leave(old, now));
        for depends in &recipe.depends {
            if let On::Session { stage, number: session } = depends.on {
                self.by_session.entry((stage, session)).or_default().push(number);
            }
        }
        let entry = Entry {
            key,
            recipe: Arc::new(recipe),
            epochs: rule.epochs,
            until: rule.until,
            idle: 0,
            is_over: false,
            is_leaving: false,
            slots,
        };
        self.live += 1;
        if let Some(slot) = self.entries.get_mut(number as usize) {
            *slot = Some(entry);
        }
    }

    /// A flow has no entry any more.
    pub(super) fn forget(&mut self, flow: &FlowKey, now: Time) {
        self.number_of(flow).into_iter().for_each(|number| self.give_up(number, now));
    }

    /// Removes the key of an entry, and the entry.
    fn give_up(&mut self, number: u32, now: Time) {
        self.remove_key(number);
        self.leave(number, now);
    }

    fn remove_key(&mut self, number: u32) {
        let Some(flow) = self.entry(number).map(|entry| FlowKey::of(&entry.key)) else { return };
        if self.number_of(&flow) == Some(number) {
            self.table.remove(&flow);
        }
    }

    /// An entry has no key any more.
    fn leave(&mut self, number: u32, now: Time) {
        self.table.end(number);
        self.leaving.push_back((number, now));
        self.live -= u64::from(self.entry(number).is_some_and(|entry| self.is_of_text(entry)));
        let Some(entry) = self.entry_mut(number) else { return };
        (entry.is_over, entry.is_leaving) = (true, true);
        let recipe = entry.recipe.clone();
        for depends in &recipe.depends {
            if let On::Session { stage, number: session } = depends.on
                && let Some(all) = self.by_session.get_mut(&(stage, session))
            {
                all.retain(|other| *other != number);
                if all.is_empty() {
                    self.by_session.remove(&(stage, session));
                }
            }
        }
    }

    /// A session has ended or changed: entries that were made of it are not valid any more.
    pub(super) fn end_entries(&mut self, session: Track) {
        for number in self.by_session.remove(&session).unwrap_or_default() {
            self.table.end(number);
            if let Some(entry) = self.entry_mut(number) {
                entry.is_over = true;
            }
        }
    }

    /// The numbers of all entries.
    pub(super) fn numbers(&self) -> Range<u32> {
        0..self.table.room()
    }

    /// The next range of numbers from this one on, few of which are taken, and the first number behind it, if any.
    pub(super) fn some_from(&self, from: u32) -> (Range<u32>, Option<u32>) {
        let (end, room) = (self.numbers.end_of(from, AT_ONCE), self.table.room());
        (from..end.min(room), (end < room).then_some(end))
    }

    /// The entries that are due to be read.
    pub(super) fn due(&mut self, now: Time) -> Range<u32> {
        self.round.due(now, self.table.room())
    }

    /// Entries expire so long before their session: longer than between two readings.
    pub(super) fn margin(&self) -> Duration {
        Round::period(self.table.room()) * 2
    }

    /// The uses of an entry that its stages do not know yet. The connections that it belongs to are added to `tracks`.
    pub(super) fn fresh_uses(&mut self, number: u32, tracks: &mut Vec<Track>) -> Option<(Arc<Recipe>, Uses)> {
        if !self.numbers.is_taken(number) {
            return None;
        }
        let FlowUses { frames, bytes, last } = self.table.fresh_uses(number)?;
        if !self.is_of_text(self.entry(number)?) {
            return None;
        }
        let entry = self.entries.get_mut(number as usize)?.as_mut()?;
        entry.idle = 0;
        let taken = entry.slots.iter().filter_map(|slot| self.slots.taken.get(*slot as usize));
        tracks.extend(taken.map(|(_, track)| *track));
        Some((entry.recipe.clone(), Uses { frames, bytes, last: Tick::of(last) }))
    }

    /// The entries among these that are valid and used, and will expire soon.
    pub(super) fn about_to_expire(&self, numbers: Range<u32>, now: Time) -> Vec<(u32, Key)> {
        let soon = now + self.margin() * 2 + EARLY;
        let is_one = |entry: &&Entry| {
            entry.idle == 0 && self.is_valid(entry) && entry.until.is_some_and(|until| until < soon)
        };
        let taken = numbers.filter(|number| self.numbers.is_taken(*number));
        let all = taken.filter_map(|number| Some((number, self.entry(number)?)));
        all.filter(|(_, entry)| is_one(entry)).map(|(number, entry)| (number, entry.key)).collect()
    }

    /// An entry holds until then; `None`: there is no recipe for it any more.
    pub(super) fn hold_on(&mut self, number: u32, until: Option<Option<Time>>) {
        let Some(until) = until else { return };
        if let Some(entry) = self.entry_mut(number) {
            entry.until = until;
            self.table.prolong(number, until);
        }
    }

    /// Removes entries that are over or idle, and frees numbers that no program holds any more.
    pub(super) fn tidy(&mut self, numbers: Range<u32>, now: Time) {
        let (mut old, text) = (Vec::new(), self.epochs.first().copied());
        for number in numbers {
            if !self.numbers.is_taken(number) {
                continue;
            }
            let Some(entry) = self.entry_mut(number).filter(|entry| !entry.is_leaving) else { continue };
            entry.idle += 1;
            if entry.is_over || entry.epochs.first().copied() != text || entry.idle > IDLE_ROUNDS {
                old.push(number);
            }
        }
        old.into_iter().for_each(|number| self.give_up(number, now));
        let margin = self.margin();
        for _ in 0..PIECE {
            let gone = self.leaving.pop_front_if(|(_, since)| now - *since >= margin);
            let Some((number, _)) = gone else { break };
            if let Some(entry) = self.entries.get_mut(number as usize).and_then(Option::take) {
                entry.slots.into_iter().for_each(|slot| self.slots.leave(slot));
            }
            self.numbers.give_back(number);
        }
    }

    /// The text has changed, so that no entry is valid any more; each is removed in its turn.
    pub(super) fn clear(&mut self) {
        self.live = 0;
        self.slots.by_track.clear();
    }

    /// The table, without entries.
    pub(super) fn emptied(mut self) -> Box<dyn FastTable> {
        for number in self.numbers() {
            if self.numbers.is_taken(number) {
                self.remove_key(number);
                self.table.end(number);
            }
        }
        self.table
    }
}

/// Connections that both the table and the stages follow.
impl FastPath {
    pub(super) fn follows_any(&self) -> bool {
        !self.slots.by_track.is_empty()
    }

    pub(super) fn follows(&self, track: &Track) -> bool {
        self.slots.by_track.contains_key(track)
    }

    /// The connection has ended or changed: it leaves its slot.
    pub(super) fn unfollow(&mut self, track: &Track) {
        self.slots.by_track.remove(track);
    }

    pub(super) fn progress(&self, track: Track) -> Option<Progress> {
        self.slots.by_track.get(&track).map(|&slot| self.table.progress(slot))
    }

    pub(super) fn set_progress(&mut self, track: Track, progress: &Progress) {
        if let Some(&slot) = self.slots.by_track.get(&track) {
            self.table.set_progress(slot, progress);
        }
    }

    /// Makes the table follow these connections, from their present state; `None`: it cannot.
    pub(super) fn follow(
        &mut self,
        tracks: &[(Track, u8)],
        progress: impl Fn(Track) -> Option<Progress>,
    ) -> Option<Slots> {
        let mut slots = Slots::default();
        if tracks.len() > slots.len() {
            return None;
        }
        for (followed, &(track, side)) in slots.iter_mut().zip(tracks) {
            let found = self.slots.enter(track);
            let Some((slot, is_new)) = found else { break };
            if is_new {
                self.table.set_progress(slot, &progress(track).unwrap_or_default());
            }
            *followed = Some((slot, side));
        }
        if slots.iter().flatten().count() < tracks.len() {
            slots.iter().flatten().for_each(|(slot, _)| self.slots.leave(*slot));
            return None;
        }
        Some(slots)
    }
}

impl TrackSlots {
    /// One more entry has this connection; its slot, and whether it is new there.
    fn enter(&mut self, track: Track) -> Option<(u32, bool)> {
        let known = self.by_track.get(&track).copied();
        let slot = known.or_else(|| self.free.pop())?;
        self.by_track.insert(track, slot);
        if self.taken.len() <= slot as usize {
            self.taken.resize(slot as usize + 1, (0, track));
        }
        let (entries, of) = self.taken.get_mut(slot as usize)?;
        (*entries, *of) = (*entries + 1, track);
        Some((slot, known.is_none()))
    }

    /// One entry less has it.
    fn leave(&mut self, slot: u32) {
        let Some((entries, track)) = self.taken.get_mut(slot as usize) else { return };
        *entries -= 1;
        if *entries == 0 {
            // The number of its session may be another one's by now, in another slot.
            if self.by_track.get(track) == Some(&slot) {
                self.by_track.remove(track);
            }
            self.free.push(slot);
        }
    }
}
