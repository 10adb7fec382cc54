//! Frames that never come to the plane: the fast path (XDP programs at the ports) forwards frames of flows that have an entry in
//! its table, and the plane learns what became of them.
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
//!   expire before it does, by more than the time between two readings of what they were used for.
//! - A connection of TCP that both follow is brought up to date here before the plane looks at a segment of it, and there
//!   afterwards.
//!
//! Files:
//! - `fast/path.rs`: all entries, and the sessions that each depends on
//! - `fast/numbers.rs`: numbers of entries that are free, so that most flows have the entry that their hash names
//! - `fast/entry.rs`: one entry; `fast/round.rs`: reads the counters of entries in turn
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

mod entry;
mod numbers;
mod path;
mod round;

use std::fmt::Debug;
use std::ops::Range;

use weir_packet::frame::Mac;
use weir_packet::headers::TCP;

use crate::batch::{Batch, PerFrame, Verdict};
use crate::dir::Dir;
use crate::frame::{Fragment, PortId};
use crate::pipeline::{Entries, Pipeline};
use crate::recipe::{Ends, Key, On, SessionState};
use crate::table::tcp::Progress;
use crate::threads::Ingress;
use crate::time::Time;

use entry::{Track, rule_of, until_of};
pub(crate) use path::FastPath;
use round::PAUSE;

/// What a flow is known by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FlowKey {
    /// The port that its frames come in by.
    pub port: PortId,
    /// Source and destination.
    pub ends: Ends,
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
    /// Source and destination that they leave with, and their ports, if a stage rewrites these.
    pub rewritten: Option<((u32, u32), (u16, u16))>,
    /// The port that they leave by.
    pub out: PortId,
    /// By a router: destination and source of Ethernet, and the longest packet. It takes a hop to live.
    pub routed: Option<(Mac, Mac, u16)>,
    /// Connections that they belong to: the number that the table has for it, and 1 if they come from its second side.
    pub tracks: [Option<(u32, u8)>; 2],
    /// The epochs of the text, of routes and of neighbours; the rule is valid as long as the table has the same.
    pub epochs: [u32; 3],
    /// It holds until then; `None`: for good.
    pub until: Option<Time>,
}

/// What an entry was used for since it was last read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FlowUses {
    /// Frames.
    pub frames: u64,
    /// Bytes of their packets.
    pub bytes: u64,
    /// When the last one came; sessions keep no more of it than its tick, of 2^20 ns, modulo 2^32.
    pub last: Time,
}

/// What the fast path has counted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FastCounts {
    /// Frames that came by each port and did not come to the plane.
    pub received: Vec<u64>,
    /// Those that left by it.
    pub sent: Vec<u64>,
    /// Frames that were left to the plane, by reason.
    pub punts: Vec<(&'static str, u64)>,
}

/// The state of the fast path.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FastState {
    /// It is used.
    pub on: bool,
    /// Entries that there are.
    pub entries: u64,
    /// Frames.
    pub counts: FastCounts,
}

/// The table of a fast path, which forwards frames in place of the plane. Numbers are below [`FastTable::room`].
pub trait FastTable: Debug + Send {
    /// How many entries, and connections, there is room for.
    fn room(&self) -> u32;
    /// Whether the first frame of a flow makes an entry already. Else the second one does: for a flow of one frame an entry would
    /// be useless work.
    fn is_eager(&self) -> bool {
        false
    }
    /// The number that is best for an entry with this key.
    fn place(&self, key: &FlowKey) -> u32;
    /// The entry that a key leads to; of two flows of IPv6 it may be the other one's.
    fn find(&self, key: &FlowKey) -> Option<u32>;
    /// Makes a key lead to this entry, which is unused; false if there is no room.
    fn insert(&mut self, key: &FlowKey, number: u32, rule: &FlowRule) -> bool;
    /// Removes a key.
    fn remove(&mut self, key: &FlowKey);
    /// Sets until when an entry is valid; `None`: for good.
    fn prolong(&mut self, number: u32, until: Option<Time>);
    /// An entry is not valid any more.
    fn end(&mut self, number: u32);
    /// The uses of an entry since the last call; also after its key was removed. `None`: none.
    fn fresh_uses(&mut self, number: u32) -> Option<FlowUses>;
    /// Sets the epochs: entries with other epochs are not valid any more.
    fn set_epochs(&mut self, epochs: [u32; 3]);
    /// Whether entries are used at all, from now on.
    fn set_on(&mut self, on: bool);
    /// The state of a connection.
    fn progress(&self, track: u32) -> Progress;
    /// Sets the state of a connection.
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

impl FastPath {
    /// The fast path forwards frames by this table from now on.
    pub(crate) fn begin(table: Box<dyn FastTable>, pipeline: &mut Pipeline) -> FastPath {
        let mut path = FastPath::new(table);
        path.set_epochs(epochs(pipeline));
        watch(pipeline, true);
        path
    }

    /// The fast path ends. Returns the table, and how many frames passed by it.
    pub(crate) fn end(mut self, pipeline: &mut Pipeline) -> (Box<dyn FastTable>, u64) {
        self.table.set_on(false);
        self.read_all(pipeline);
        watch(pipeline, false);
        let frames = self.served();
        (self.emptied(), frames)
    }

    /// Turns the fast path on or off.
    pub(crate) fn set_on(&mut self, on: bool) {
        if self.is_on != on {
            self.is_on = on;
            self.table.set_on(on && !self.is_paused);
        }
    }

    /// How the fast path is.
    pub(crate) fn state(&self) -> FastState {
        FastState { on: self.is_on, entries: self.entries(), counts: self.table.counts() }
    }

    /// Reads the uses of some entries if that is due; `true`: there may be more. Called when time passes, and before frames pass
    /// the stages.
    pub(crate) fn read_if_due(&mut self, pipeline: &mut Pipeline, now: Time) -> bool {
        let piece = self.due(now);
        let any = !piece.is_empty();
        if any {
            if self.read(pipeline, piece.clone()) {
                self.used = now;
            }
            self.keep_up(pipeline, piece, now);
        }
        any
    }

    /// When more entries are to be read: while they are used often, so that no frame waits long for the thread that reads them.
    pub(crate) fn next_read(&self, now: Time) -> Option<Time> {
        (now - self.used < self.margin()).then_some(now + PAUSE)
    }

    /// Reads what all entries were used for.
    pub(crate) fn read_all(&mut self, pipeline: &mut Pipeline) {
        self.read(pipeline, self.numbers());
    }

    /// Reads what some entries were used for, from this number on; the first one of those that are left.
    pub(crate) fn read_some(&mut self, pipeline: &mut Pipeline, from: u32) -> Option<u32> {
        let (numbers, rest) = self.some_from(from);
        self.read(pipeline, numbers);
        rest
    }

    /// No entry is used until the stages have changed; false: so it was already.
    pub(crate) fn pause(&mut self) -> bool {
        self.table.set_on(false);
        !std::mem::replace(&mut self.is_paused, true)
    }

    /// The stages have changed, and the epoch of the text, after a pause in which all entries were read.
    pub(crate) fn resume(&mut self, pipeline: &mut Pipeline) {
        self.set_epochs(epochs(pipeline));
        self.clear();
        self.is_paused = false;
        self.table.set_on(self.is_on);
        watch(pipeline, true);
    }

    /// Prepares for a batch that is about to pass the stages.
    pub(crate) fn before_stages(
        &mut self,
        pipeline: &mut Pipeline,
        now: Time,
        batch: &Batch<'_>,
        entries: &Entries,
    ) -> Before {
        self.read_if_due(pipeline, now);
        let mut before = Before { keys: PerFrame::all(None), tracks: Vec::new() };
        for dir in [Dir::Outward, Dir::Inward] {
            for i in entries.beginning(dir) {
                let frame = &batch[i];
                if batch.ingress[i] != Ingress::Wire || !frame.is_ip() {
                    continue;
                }
                before.keys[i] = Key::of(frame).ok();
                if frame.proto() == TCP && frame.fragment() != Fragment::Later && self.follows_any() {
                    let tracks = tracks_of(pipeline, &Key::of_any(frame), dir).into_iter();
                    before.tracks.extend(tracks.filter(|track| self.follows(track)));
                }
            }
        }
        before.tracks.iter().for_each(|&track| self.pull(pipeline, track));
        before
    }

    /// Updates entries by what the stages have done to a batch.
    pub(crate) fn behind_stages(
        &mut self,
        pipeline: &mut Pipeline,
        now: Time,
        batch: &Batch<'_>,
        before: &Before,
    ) {
        self.publish(pipeline);
        before.tracks.iter().for_each(|&track| self.push(pipeline, track));
        if self.is_on {
            for i in 0..batch.len() {
                if let (Some(key), Verdict::Out(_)) = (before.keys[i], batch.verdicts[i]) {
                    self.consider(pipeline, now, &key);
                }
            }
        }
    }

    /// Tells the fast path what has changed; called before anything that was done leaves the plane.
    pub(crate) fn publish(&mut self, pipeline: &mut Pipeline) {
        self.set_epochs(epochs(pipeline));
        let mut renewed: Vec<Track> = Vec::new();
        for (stage, kind) in pipeline.stages.iter_mut().enumerate() {
            let numbers = kind.kind_mut().renewed();
            renewed.extend(numbers.into_iter().map(|number| (stage, number)));
        }
        for session in renewed {
            self.end_entries(session);
            // It may be the same connection still.
            self.pull(pipeline, session);
            self.unfollow(&session);
        }
    }

    /// Tells the stage how far a connection has come.
    fn pull(&self, pipeline: &mut Pipeline, track: Track) {
        let Some(progress) = self.progress(track) else { return };
        if let Some(stage) = pipeline.stages.get_mut(track.0) {
            stage.kind_mut().catch_up(track.1, &progress);
        }
    }

    /// Tells the fast path how far a connection has come.
    fn push(&mut self, pipeline: &Pipeline, track: Track) {
        if let Some(progress) = progress(pipeline, track) {
            self.set_progress(track, &progress);
        }
    }

    /// A frame with this key came to the plane and was passed on: makes an entry, so that the next one does not come.
    fn consider(&mut self, pipeline: &Pipeline, now: Time, key: &Key) {
        let flow = FlowKey::of(key);
        if !self.wants(&flow, now) {
            return;
        }
        let Ok(recipe) = pipeline.recipe(now, *key) else { return self.forget(&flow, now) };
        let has_tags = |port: PortId| !pipeline.tags(port).is_plain();
        if recipe.out.port == key.port || has_tags(key.port) || has_tags(recipe.out.port) {
            return;
        }
        let tracks = recipe.tracks(key.proto);
        let Some(slots) = self.follow(&tracks, |track| progress(pipeline, track)) else { return };
        let rule = rule_of((now, self.margin()), key, &recipe, (epochs(pipeline), slots));
        self.insert(now, (flow, *key), recipe, rule);
    }

    /// Reads the uses of these entries, and how far their connections have come; `false`: there were none.
    fn read(&mut self, pipeline: &mut Pipeline, numbers: Range<u32>) -> bool {
        let (mut advanced, mut any) = (Vec::new(), false);
        for number in numbers {
            let Some((recipe, uses)) = self.fresh_uses(number, &mut advanced) else { continue };
            any = true;
            for (stage, part) in &recipe.parts {
                let holds = recipe.depends.iter().all(|depends| match depends.on {
                    On::Session { stage: of, .. } if of != *stage => true,
                    On::Routes | On::Neighbours => true,
                    on => pipeline.epoch(on) == depends.epoch,
                });
                if let Some(stage) = pipeline.stages.get_mut(*stage) {
                    stage.kind_mut().used(
                        &part.note,
                        &uses,
                        if holds { SessionState::Same } else { SessionState::Changed },
                    );
                }
            }
        }
        advanced.into_iter().for_each(|track| self.pull(pipeline, track));
        any
    }

    /// Prolongs those of these entries that are used as long as their sessions live, and removes those that are not used.
    fn keep_up(&mut self, pipeline: &Pipeline, numbers: Range<u32>, now: Time) {
        for (number, key) in self.about_to_expire(numbers.clone(), now) {
            let until = pipeline.recipe(now, key).ok().map(|recipe| until_of(now, &recipe, self.margin()));
            self.hold_on(number, until);
        }
        self.tidy(numbers, now);
    }
}

/// The present epochs.
fn epochs(pipeline: &Pipeline) -> [u32; 3] {
    [On::Text, On::Routes, On::Neighbours].map(|on| pipeline.epoch(on))
}

/// Whether stages record which sessions change.
fn watch(pipeline: &mut Pipeline, is_on: bool) {
    for stage in &mut pipeline.stages {
        stage.kind_mut().watch(is_on);
    }
}

/// The connections that a segment belongs to, by stage, and which of their sides has sent it.
fn tracks_of(pipeline: &Pipeline, key: &Key, dir: Dir) -> Vec<Track> {
    let (mut at, mut all) = (*key, Vec::new());
    let count = pipeline.stages.len();
    let order = (0..count).map(|n| if dir == Dir::Outward { n } else { count - 1 - n });
    for (stage, kind) in order.filter_map(|k| Some((k, pipeline.stages.get(k)?.kind()))) {
        let Some((session, rewrite)) = kind.session_of(&at, dir) else { return all };
        all.extend(session.map(|number| (stage, number)));
        at = at.behind(rewrite);
    }
    all
}

/// How far a connection has come, as its stage knows.
fn progress(pipeline: &Pipeline, (stage, number): Track) -> Option<Progress> {
    pipeline.stages.get(stage)?.kind().progress(number)
}
