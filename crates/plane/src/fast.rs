//! Frames that never come to the plane: whoever receives them passes on those of flows that have an entry in its table, and
//! the plane sees what became of them.
//!
//! ```text
//!   second frame of a flow > stages > recipe > entry of the table
//!   frame > table > entry that holds > rewritten, out          frames, bytes, time, TCP's numbers: read back
//!                 > none, or doubt   > plane
//! ```
//! Policy stays here: entries are made of recipes, and only for what all stages pass on alike.
//!
//! Invariants:
//! - An entry holds no longer than what it was made of: a session that ends or changes ends its entries before anything that
//!   the same call did leaves the plane; another text, route or neighbour is another epoch, which entries are compared with.
//! - Counters are exact, and idle times never too short, and longer by a tick of the kernel's clock at most: a session's entries
//!   expire [`MARGIN`] before it does, and what they were used for is read at least every [`SWEEP`] before a stage can look at
//!   it; both are longer where there is room for many entries.
//! - A connection of TCP that both follow is brought up to date here before the plane looks at a segment of it, and there
//!   afterwards.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

mod book;
mod entry;

use std::fmt::Debug;
use std::time::Duration;

use weir_packet::frame::Mac;
use weir_packet::headers::TCP;

use crate::batch::{Batch, PerFrame, Verdict};
use crate::chain::{Entries, Stage};
use crate::frame::{Fragment, Kind, PortId};
use crate::plane::Plane;
use crate::recipe::{Key, On};
use crate::table::tcp::Progress;
use crate::time::Time;
use crate::way::{Dir, Way};

pub(crate) use book::Book;
use entry::{Track, rule_of};

/// How often at least the uses of all entries are read.
const SWEEP: Duration = Duration::from_secs(1);
/// Entries expire so long before their session: longer than between two sweeps.
const MARGIN: Duration = Duration::from_secs(2);

/// What a flow is known by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FlowKey {
    /// The port that its frames come in by.
    pub port: PortId,
    /// Source and destination.
    pub ends: (u32, u32),
    /// Their ports.
    pub ports: (u16, u16),
    /// TCP or UDP.
    pub proto: u8,
    /// Flags of TCP.
    pub flags: u8,
    /// It may not be cut into fragments.
    pub keeps_whole: bool,
}

/// What is done to the frames of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowRule {
    /// Source and destination that they leave with.
    pub ends: (u32, u32),
    /// Their ports.
    pub ports: (u16, u16),
    /// A stage rewrites these.
    pub is_rewritten: bool,
    /// The port that they leave by.
    pub out: PortId,
    /// By a router: destination and source of Ethernet, and the longest packet. It takes a hop to live.
    pub routed: Option<(Mac, Mac, u16)>,
    /// Connections that they belong to: the number that the table has for it, and 1 if they come from its second side.
    pub tracks: [Option<(u32, u8)>; 2],
    /// Those of the text, of routes and of neighbours; it holds as long as the table has the same.
    pub epochs: [u32; 3],
    /// It holds until then; `None`: for good.
    pub until: Option<Time>,
}

/// How often an entry was used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FlowUses {
    /// Frames so far.
    pub frames: u64,
    /// Bytes of their packets.
    pub bytes: u64,
    /// When the last one came; sessions keep no more of it than its tick, of 2^20 ns, modulo 2^32.
    pub last: Time,
}

/// What whoever uses the entries has counted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FastCounts {
    /// Frames that came by each port and did not come to the plane.
    pub received: Vec<u64>,
    /// Those that left by it.
    pub sent: Vec<u64>,
    /// Frames that were left to the plane, by reason.
    pub punts: Vec<(&'static str, u64)>,
}

/// How the fast path is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FastState {
    /// It is used.
    pub on: bool,
    /// Entries that there are.
    pub entries: u64,
    /// Frames.
    pub counts: FastCounts,
}

/// The table of whoever passes frames on in the plane's place. Numbers are below [`FastTable::room`].
pub trait FastTable: Debug + Send {
    /// How many entries, and connections, there is room for.
    fn room(&self) -> u32;
    /// A key leads to this entry from now on, which is unused; false if there is no room.
    fn insert(&mut self, key: &FlowKey, number: u32, rule: &FlowRule) -> bool;
    /// A key leads nowhere any more.
    fn remove(&mut self, key: &FlowKey);
    /// An entry holds until another time; `None`: for good.
    fn prolong(&mut self, number: u32, until: Option<Time>);
    /// An entry holds no more, from now on.
    fn end(&mut self, number: u32);
    /// How often an entry was used; also after its key has gone.
    fn uses(&mut self, number: u32) -> FlowUses;
    /// Entries with other epochs hold no more, from now on.
    fn set_epochs(&mut self, epochs: [u32; 3]);
    /// Whether entries are used at all, from now on.
    fn set_on(&mut self, on: bool);
    /// How far a connection has come.
    fn progress(&self, track: u32) -> Progress;
    /// A connection goes on from here.
    fn set_progress(&mut self, track: u32, progress: &Progress);
    /// What was counted.
    fn counts(&self) -> FastCounts;
}

/// What is remembered of a batch while it passes the stages.
pub(crate) struct Before {
    /// Keys of frames that may have an entry.
    keys: PerFrame<Option<Key>>,
    /// Connections that the batch has segments of.
    tracks: Vec<Track>,
}

impl Plane {
    /// Somebody passes on frames in the plane's place from now on.
    pub fn set_fast(&mut self, table: Box<dyn FastTable>) {
        let mut book = Book::new(table);
        book.set_epochs(self.fast_epochs());
        self.fast = Some(Box::new(book));
        self.watch(true);
    }

    /// Nobody does any longer. What frames were counted as stays.
    pub fn take_fast(&mut self, now: Time) -> Option<Box<dyn FastTable>> {
        self.stop_fast(now);
        let book = self.fast.take()?;
        self.watch(false);
        let frames = book.served();
        self.accounting.entered += frames;
        self.accounting.left += frames;
        Some(book.table)
    }

    /// Whether frames can leave otherwise than by the plane: it is asked for again whenever that may have changed.
    pub fn use_fast(&mut self, now: Time, on: bool) {
        let is_on = self.fast.as_ref().is_some_and(|book| book.is_on);
        if is_on && !on {
            self.stop_fast(now);
        }
        if let Some(book) = self.fast.as_mut().filter(|_| is_on != on) {
            book.is_on = on;
            book.table.set_on(on);
        }
    }

    /// How the fast path is; `None`: there is none.
    pub fn fast_state(&self) -> Option<FastState> {
        let book = self.fast.as_ref()?;
        Some(FastState { on: book.is_on, entries: book.entries(), counts: book.table.counts() })
    }

    /// Reads what entries were used for, so that counters and times here are those of now.
    pub fn settle_fast(&mut self, now: Time) {
        if let Some(mut book) = self.fast.take() {
            self.sweep(now, &mut book);
            self.fast = Some(book);
        }
    }

    /// Time passes, or frames are about to pass the stages.
    pub(crate) fn sweep_if_due(&mut self, now: Time) {
        if self.fast.as_ref().is_none_or(|book| !book.is_due(now)) {
            return;
        }
        if let Some(mut book) = self.fast.take() {
            self.sweep(now, &mut book);
            self.keep_up(now, &mut book);
            self.fast = Some(book);
        }
    }

    /// The epochs of today.
    pub(crate) fn fast_epochs(&self) -> [u32; 3] {
        [On::Text, On::Routes, On::Neighbours].map(|on| self.epoch(on))
    }

    /// Whether stages say which sessions change.
    fn watch(&mut self, is_on: bool) {
        for stage in &mut self.stages {
            match stage {
                Stage::Filter(filter) => filter.watch(is_on),
                Stage::Nat(nat) => nat.watch(is_on),
                Stage::Queue(_) => {}
            }
        }
    }

    /// The stages are about to change: no entry is used any more, and what they were used for is known here.
    pub(crate) fn stop_fast(&mut self, now: Time) {
        if let Some(mut book) = self.fast.take() {
            book.table.set_on(false);
            self.sweep(now, &mut book);
            book.clear(now);
            self.fast = Some(book);
        }
    }

    /// The stages have changed.
    pub(crate) fn start_fast(&mut self) {
        let epochs = self.fast_epochs();
        if let Some(book) = &mut self.fast {
            book.set_epochs(epochs);
            book.table.set_on(book.is_on);
            self.watch(true);
        }
    }

    /// After a panic nobody knows what there is.
    pub(crate) fn recover_fast(&mut self, now: Time) {
        if let Some(book) = &mut self.fast {
            book.table.set_on(false);
            book.clear(now);
        }
        self.start_fast();
    }

    /// What is to be known before a batch passes the stages.
    pub(crate) fn before_stages(
        &mut self,
        now: Time,
        batch: &Batch<'_>,
        entries: &Entries,
    ) -> Option<Before> {
        self.sweep_if_due(now);
        let mut book = self.fast.take()?;
        let mut before = Before { keys: PerFrame::all(None), tracks: Vec::new() };
        for dir in [Dir::Outward, Dir::Inward] {
            for i in entries.beginning(dir) {
                let frame = &batch[i];
                if batch.ways[i] != Way::Wire || frame.kind() != Kind::V4 {
                    continue;
                }
                before.keys[i] = Key::of(frame).ok();
                if frame.proto() == TCP && frame.fragment() != Fragment::Later && book.follows_any() {
                    let tracks = self.tracks_of(&Key::of_any(frame), dir).into_iter();
                    before.tracks.extend(tracks.filter(|track| book.follows(track)));
                }
            }
        }
        before.tracks.iter().for_each(|&track| self.pull(track, &mut book));
        self.fast = Some(book);
        Some(before)
    }

    /// Entries follow what the stages have done to a batch.
    pub(crate) fn behind_stages(&mut self, now: Time, batch: &Batch<'_>, before: &Before) {
        self.publish();
        let Some(mut book) = self.fast.take() else { return };
        before.tracks.iter().for_each(|&track| self.push(track, &mut book));
        if book.is_on {
            for i in 0..batch.len() {
                if let (Some(key), Verdict::Out(_)) = (before.keys[i], batch.verdicts[i]) {
                    self.consider(now, &key, &mut book);
                }
            }
        }
        self.fast = Some(book);
    }

    /// Whoever uses entries knows what has changed; called before anything that was done leaves the plane.
    pub(crate) fn publish(&mut self) {
        let Some(mut book) = self.fast.take() else { return };
        book.set_epochs(self.fast_epochs());
        let mut renewed: Vec<Track> = Vec::new();
        for (stage, kind) in self.stages.iter_mut().enumerate() {
            let numbers = match kind {
                Stage::Filter(filter) => filter.renewed(),
                Stage::Nat(nat) => nat.renewed(),
                Stage::Queue(_) => continue,
            };
            renewed.extend(numbers.into_iter().map(|number| (stage, number)));
        }
        for session in renewed {
            book.end_entries(session);
            // It may be the same connection still.
            self.pull(session, &mut book);
            book.unfollow(&session);
        }
        self.fast = Some(book);
    }

    /// The connections that a segment belongs to, by stage, and which of their sides has sent it.
    fn tracks_of(&self, key: &Key, dir: Dir) -> Vec<Track> {
        let (mut at, mut all) = (*key, Vec::new());
        let count = self.stages.len();
        let order = (0..count).map(|n| if dir == Dir::Outward { n } else { count - 1 - n });
        for (stage, kind) in order.filter_map(|k| Some((k, self.stages.get(k)?))) {
            match kind {
                Stage::Filter(filter) => {
                    all.extend(filter.connection_of(&at).map(|number| (stage, number)));
                }
                Stage::Nat(nat) => {
                    let Some((number, rewrite)) = nat.session_of(&at, dir) else { return all };
                    all.push((stage, number));
                    at = at.behind(rewrite);
                }
                Stage::Queue(_) => {}
            }
        }
        all
    }

    /// The plane knows how far a connection has come.
    fn pull(&mut self, track: Track, book: &mut Book) {
        let Some(progress) = book.progress(track) else { return };
        match self.stages.get_mut(track.0) {
            Some(Stage::Filter(filter)) => filter.catch_up(track.1, &progress),
            Some(Stage::Nat(nat)) => nat.catch_up(track.1, &progress),
            Some(Stage::Queue(_)) | None => {}
        }
    }

    /// Whoever uses entries knows how far a connection has come.
    fn push(&self, track: Track, book: &mut Book) {
        if let Some(progress) = self.progress(track) {
            book.set_progress(track, &progress);
        }
    }

    fn progress(&self, (stage, number): Track) -> Option<Progress> {
        match self.stages.get(stage)? {
            Stage::Filter(filter) => filter.progress(number),
            Stage::Nat(nat) => nat.progress(number),
            Stage::Queue(_) => None,
        }
    }

    /// A frame with this key came to the plane and was passed on: the next one need not.
    fn consider(&mut self, now: Time, key: &Key, book: &mut Book) {
        let Some(flow) = FlowKey::of(key) else { return };
        if !book.wants(&flow, now) {
            return;
        }
        let Ok(recipe) = self.recipe(now, *key) else { return book.forget(&flow, now) };
        let has_tags = |port: PortId| !self.tags(port).is_empty();
        if recipe.out.port == key.port || has_tags(key.port) || has_tags(recipe.out.port) {
            return;
        }
        let tracks = recipe.tracks(key.proto);
        let Some(slots) = book.follow(&tracks, |track| self.progress(track)) else { return };
        let rule = rule_of((now, book.margin()), key, &recipe, (self.fast_epochs(), slots));
        book.insert(now, (flow, *key), recipe, rule);
    }

    /// Reads what all entries were used for, and how far connections have come.
    fn sweep(&mut self, now: Time, book: &mut Book) {
        book.swept = now;
        for number in book.used() {
            let Some((recipe, uses)) = book.fresh_uses(number) else { continue };
            let holds = |stage: usize| {
                let of_stage = recipe.depends.iter().filter(|depends| match depends.on {
                    On::Session { stage: of, .. } => of == stage,
                    _ => depends.on == On::Text,
                });
                of_stage.into_iter().all(|depends| self.epoch(depends.on) == depends.epoch)
            };
            let holding: Vec<bool> = recipe.parts.iter().map(|(stage, _)| holds(*stage)).collect();
            for ((stage, part), holds) in recipe.parts.iter().zip(holding) {
                if let Some(stage) = self.stages.get_mut(*stage) {
                    stage.used(&part.note, &uses, holds);
                }
            }
        }
        for track in book.followed() {
            self.pull(track, book);
        }
    }

    /// Entries that are used hold on as long as their sessions, and those that are not give their room back.
    fn keep_up(&mut self, now: Time, book: &mut Book) {
        for (number, key) in book.about_to_expire(now) {
            let until = self.recipe(now, key).ok().map(|recipe| entry::until_of(now, &recipe, book.margin()));
            book.hold_on(number, until);
        }
        book.tidy(now);
    }
}
