//! A flow cache in software: frames whose flow has a recipe do not pass the stages. It is there to prove that recipes say
//! what the stages do, and is off unless a test asks for it: the stages are faster than its table.
//!
//! ```text
//! admitted frames of a direction > key > recipe that holds, or can be made > rewritten, out; used + 1
//!                                      > none                              > stages
//! ```
//! Frames of a flow stay in order: where one of a batch has no recipe, all of that flow pass the stages.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::batch::{Batch, PerFrame, Set, Verdict};
use crate::chain::{Entries, Stage};
use crate::frame::{Frame, PortId};
use crate::plane::{Exit, Plane};
use crate::recipe::{Depends, Key, Never, Note, On, Out, Recipe, Uses};
use crate::table::tcp::Segment;
use crate::table::timers::Tick;
use crate::time::Time;
use crate::way::Dir;

/// Recipes that are kept at a time.
const MOST: usize = 1 << 16;

/// The recipes of flows.
#[derive(Debug, Default)]
pub(crate) struct FlowCache {
    recipes: HashMap<Key, Entry>,
    /// Keys of those that were used since they were last reported.
    used: Vec<Key>,
    hits: u64,
    /// How often no recipe could be made, by reason.
    never: BTreeMap<Never, u64>,
}

#[derive(Debug)]
struct Entry {
    recipe: Recipe,
    uses: Uses,
}

/// The keys of frames of a batch, of those that may be cached.
type Keys = PerFrame<Option<Key>>;

impl Plane {
    /// From now on frames pass by a flow cache, or no longer: all else stays the same. For tests.
    pub fn cache_flows(&mut self, is_on: bool) {
        self.cache = is_on.then(Box::default);
    }

    /// Frames that did not pass the stages since there is a flow cache.
    pub fn cached_frames(&self) -> u64 {
        self.cache.as_ref().map_or(0, |cache| cache.hits)
    }

    /// How often frames had to pass the stages for want of a recipe, by reason.
    pub fn uncached_frames(&self) -> Vec<(String, u64)> {
        let never = self.cache.iter().flat_map(|cache| &cache.never);
        never.map(|(reason, frames)| (format!("{reason:?}"), *frames)).collect()
    }

    /// Leads frames through flow cache and stages, outward first: what is about to come inward may depend on it.
    pub(crate) fn lead_cached(
        &mut self,
        now: Time,
        batch: &mut Batch<'_>,
        mut entries: Entries,
        mut cache: Box<FlowCache>,
    ) {
        let [outward, inward] = [Dir::Outward, Dir::Inward].map(|dir| {
            let (hits, keys) = self.look_up(now, batch, entries.beginning(dir), &mut cache);
            for i in hits {
                self.serve(now, batch, (i, keys[i]), &mut cache);
            }
            self.report(&mut cache);
            entries.remove_beginning(dir, hits);
            self.lead_in(dir, now, batch, &mut entries)
        });
        self.exit(now, batch, outward, inward);
        self.cache = Some(cache);
    }

    /// Those of a set whose flows have recipes that hold, with the keys of all. Where there is none it is made, if the stages
    /// know the flow: by frames of the other direction, or by rules alone.
    fn look_up(&self, now: Time, batch: &Batch<'_>, set: Set, cache: &mut FlowCache) -> (Set, Keys) {
        let (mut found, mut keys, mut passing) = (Set::EMPTY, PerFrame::all(None), 0_u64);
        for i in set {
            let frame = &batch[i];
            keys[i] = Key::of(frame).ok();
            match keys[i].is_some_and(|key| self.has_recipe(now, key, frame, cache)) {
                true => found.insert(i),
                false => passing |= flow_bit(frame),
            }
        }
        let mut hits = Set::EMPTY;
        found.filter(|&i| flow_bit(&batch[i]) & passing == 0).for_each(|i| hits.insert(i));
        (hits, keys)
    }

    /// Whether there is a recipe for a frame with this key.
    fn has_recipe(&self, now: Time, key: Key, frame: &Frame<'_>, cache: &mut FlowCache) -> bool {
        if let Some(entry) = cache.recipes.get(&key)
            && self.holds(now, &entry.recipe)
        {
            return entry.recipe.fits(frame);
        }
        cache.recipes.remove(&key);
        match self.recipe(now, key) {
            Ok(recipe) => {
                let fits = recipe.fits(frame);
                if cache.recipes.len() >= MOST {
                    cache.recipes.clear();
                }
                cache.recipes.insert(key, Entry { recipe, uses: Uses::default() });
                fits
            }
            Err(reason) => {
                *cache.never.entry(reason).or_default() += 1;
                false
            }
        }
    }

    /// Whether a recipe says what the stages would do now.
    fn holds(&self, now: Time, recipe: &Recipe) -> bool {
        // A tick is half of all ticks ahead at most.
        let is_in_time = recipe.until.is_none_or(|until| until.since(Tick::of(now)) <= u32::MAX / 2);
        is_in_time && recipe.depends.iter().all(|depends| self.epoch(depends.on) == depends.epoch)
    }

    /// The epoch of something that recipes depend on.
    pub(crate) fn epoch(&self, on: On) -> u32 {
        match (on, &self.exit) {
            (On::Text, _) => self.text_epoch,
            (On::Routes, Exit::Router(router)) => router.epochs().0,
            (On::Neighbours, Exit::Router(router)) => router.epochs().1,
            (On::Routes | On::Neighbours, Exit::Across) => 0,
            (On::Session { stage, number }, _) => match self.stages.get(stage) {
                Some(Stage::Filter(filter)) => filter.epoch(number),
                Some(Stage::Nat(nat)) => nat.epoch(number),
                Some(Stage::Queue(_)) | None => 0,
            },
        }
    }

    /// Does to a frame what its recipe says.
    fn serve(
        &mut self,
        now: Time,
        batch: &mut Batch<'_>,
        (i, key): (usize, Option<Key>),
        cache: &mut FlowCache,
    ) {
        let Some((key, entry)) = key.and_then(|key| Some((key, cache.recipes.get_mut(&key)?))) else {
            unreachable!("it was found")
        };
        let (bytes, segment) = (batch[i].ip().len(), Segment::of(&batch[i]));
        for (stage, part) in &entry.recipe.parts {
            part.rewrite.apply(&mut batch[i]);
            match (self.stages.get_mut(*stage), &part.note) {
                (Some(Stage::Filter(filter)), Note::Filter(passage)) => filter.segment(passage, &segment),
                (Some(Stage::Nat(nat)), Note::Nat(passage)) => nat.segment(passage, &segment),
                _ => unreachable!("the stage that has made it"),
            }
        }
        self.leave_as(batch, i, entry.recipe.out);
        if entry.uses.frames == 0 {
            cache.used.push(key);
        }
        entry.uses.add(bytes, Tick::of(now));
        cache.hits += 1;
    }

    fn leave_as(&self, batch: &mut Batch<'_>, i: usize, out: Out) {
        match out.routed {
            Some((dst, src, _)) => {
                let frame = &mut batch[i];
                frame.decrement_ttl();
                frame.set_ethernet(dst, src, self.tags(out.port));
                batch.verdicts[i] = Verdict::Out(out.port);
            }
            None => self.leave(batch, Set::one(i), out.port),
        }
    }

    /// Tells the stages how often their recipes were used since the last call.
    fn report(&mut self, cache: &mut FlowCache) {
        for key in cache.used.drain(..) {
            let Some(Entry { recipe, uses }) = cache.recipes.get_mut(&key) else { continue };
            let uses = std::mem::take(uses);
            for (stage, part) in &recipe.parts {
                if let Some(stage) = self.stages.get_mut(*stage) {
                    stage.used(&part.note, &uses, true);
                }
            }
        }
    }

    /// What is done to frames with this key.
    ///
    /// # Errors
    /// They must pass the stages.
    pub(crate) fn recipe(&self, now: Time, key: Key) -> Result<Recipe, Never> {
        let dir = if usize::from(key.port.0) < self.left { Dir::Outward } else { Dir::Inward };
        let (mut at, mut parts, mut until) = (key, Vec::new(), None);
        let mut depends = vec![On::Text];
        let count = self.stages.len();
        let order = (0..count).map(|n| if dir == Dir::Outward { n } else { count - 1 - n });
        for (stage, kind) in order.filter_map(|k| Some((k, self.stages.get(k)?))) {
            let part = match kind {
                Stage::Filter(filter) => filter.recipe(now, &at, dir)?,
                Stage::Nat(nat) => nat.recipe(now, &at, dir)?,
                Stage::Queue(queue) => {
                    queue.recipe(dir)?;
                    continue;
                }
            };
            at = at.behind(part.rewrite);
            depends.extend(part.sessions.iter().map(|&number| On::Session { stage, number }));
            until = match (until, part.until) {
                (Some(a), Some(b)) => Some(Tick::earlier(a, b)),
                (a, b) => a.or(b),
            };
            parts.push((stage, part));
        }
        let out = match &self.exit {
            Exit::Router(router) => {
                depends.extend([On::Routes, On::Neighbours]);
                router.recipe(&at)?
            }
            Exit::Across if dir == Dir::Outward => Out { port: PortId(self.left as u8), routed: None },
            Exit::Across => Out { port: PortId(0), routed: None },
        };
        let depends = depends.into_iter().map(|on| Depends { on, epoch: self.epoch(on) }).collect();
        Ok(Recipe { parts, out, depends, until })
    }
}

/// A bit that the frames of a flow have in common, whatever their flags.
fn flow_bit(frame: &Frame<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    (frame.port, frame.proto(), frame.ports()).hash(&mut hasher);
    1 << (hasher.finish() % 64)
}
