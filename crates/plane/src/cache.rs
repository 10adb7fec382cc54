//! A flow cache in software: frames whose flow has a recipe do not pass the stages. It is there to prove that recipes say
//! what the stages do, and is off unless a test asks for it: the stages are faster than its table.
//!
//! ```text
//! admitted frames of a direction > key > recipe that holds, or can be made > rewritten, out; used + 1
//!                                      > none                              > stages
//! ```
//! Frames of a flow stay in order: where one of a batch has no recipe, all of that flow pass the stages.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::batch::{Batch, PerFrame, Set, Verdict};
use crate::dir::Dir;
use crate::drops::Drops;
use crate::frame::Frame;
use crate::outbox::Outbox;
use crate::pipeline::{Entries, Passed, Pipeline};
use crate::recipe::{Key, Out, Recipe, SessionState, Uses};
use crate::table::tcp::Segment;
use crate::table::timers::Tick;
use crate::time::Time;

/// Recipes that are kept at a time.
const MOST: usize = 1 << 16;

/// The recipes of flows.
#[derive(Debug, Default)]
pub(crate) struct FlowCache {
    recipes: HashMap<Key, Entry>,
    /// Keys of the recipes that were used since the last report.
    used: Vec<Key>,
    hits: u64,
}

#[derive(Debug)]
struct Entry {
    recipe: Recipe,
    uses: Uses,
}

/// The keys of frames of a batch, of those that may be cached.
type Keys = PerFrame<Option<Key>>;

impl FlowCache {
    /// Frames that did not pass the stages.
    pub(crate) fn hits(&self) -> u64 {
        self.hits
    }

    /// Runs frames through flow cache, stages and exit, outward first: what is about to come inward may depend on it.
    pub(crate) fn run(
        &mut self,
        pipeline: &mut Pipeline,
        now: Time,
        batch: &mut Batch<'_>,
        mut entries: Entries,
        outbox: &mut Outbox,
        drops: &mut Drops,
    ) {
        let [outward, inward] = [Dir::Outward, Dir::Inward].map(|dir| {
            let (hits, keys) = self.look_up(pipeline, now, batch, entries.beginning(dir));
            for i in hits {
                self.serve(pipeline, now, batch, (i, keys[i]));
            }
            self.report(pipeline);
            entries.remove_beginning(dir, hits);
            pipeline.run_stages(dir, now, batch, &mut entries, outbox, drops)
        });
        pipeline.run_exit(now, batch, Passed { outward, inward }, outbox, drops);
    }

    /// The frames of a set whose flows have valid recipes, with the keys of all frames. A missing recipe is made if the stages
    /// know the flow: by frames of the other direction, or by rules alone.
    fn look_up(&mut self, pipeline: &Pipeline, now: Time, batch: &Batch<'_>, set: Set) -> (Set, Keys) {
        let (mut found, mut keys, mut passing) = (Set::EMPTY, PerFrame::all(None), 0_u64);
        for i in set {
            let frame = &batch[i];
            keys[i] = Key::of(frame).ok();
            if keys[i].is_some_and(|key| self.has_recipe(pipeline, now, key, frame)) {
                found.insert(i)
            } else {
                passing |= flow_bit(frame)
            }
        }
        let mut hits = Set::EMPTY;
        found.filter(|&i| flow_bit(&batch[i]) & passing == 0).for_each(|i| hits.insert(i));
        (hits, keys)
    }

    /// Whether there is a recipe for a frame with this key.
    fn has_recipe(&mut self, pipeline: &Pipeline, now: Time, key: Key, frame: &Frame<'_>) -> bool {
        if let Some(entry) = self.recipes.get(&key)
            && holds(pipeline, now, &entry.recipe)
        {
            return entry.recipe.fits(frame);
        }
        self.recipes.remove(&key);
        match pipeline.recipe(now, key) {
            Ok(recipe) => {
                let fits = recipe.fits(frame);
                if self.recipes.len() >= MOST {
                    self.recipes.clear();
                }
                self.recipes.insert(key, Entry { recipe, uses: Uses::default() });
                fits
            }
            Err(_) => false,
        }
    }

    /// Applies the recipe of a frame.
    fn serve(
        &mut self,
        pipeline: &mut Pipeline,
        now: Time,
        batch: &mut Batch<'_>,
        (i, key): (usize, Option<Key>),
    ) {
        let Some((key, entry)) = key.and_then(|key| Some((key, self.recipes.get_mut(&key)?))) else {
            unreachable!("it was found")
        };
        let (bytes, segment) = (batch[i].ip().len(), Segment::of(&batch[i]));
        for (stage, part) in &entry.recipe.parts {
            part.rewrite.apply(&mut batch[i]);
            if let Some(stage) = pipeline.stages.get_mut(*stage) {
                stage.kind_mut().segment(&part.note, &segment);
            }
        }
        leave_as(pipeline, batch, i, entry.recipe.out);
        if entry.uses.frames == 0 {
            self.used.push(key);
        }
        entry.uses.add(bytes, Tick::of(now));
        self.hits += 1;
    }

    /// Tells the stages how often their recipes were used since the last call.
    fn report(&mut self, pipeline: &mut Pipeline) {
        for key in self.used.drain(..) {
            let Some(Entry { recipe, uses }) = self.recipes.get_mut(&key) else { continue };
            let uses = std::mem::take(uses);
            for (stage, part) in &recipe.parts {
                if let Some(stage) = pipeline.stages.get_mut(*stage) {
                    stage.kind_mut().used(&part.note, &uses, SessionState::Same);
                }
            }
        }
    }
}

/// Whether a recipe says what the stages would do now.
fn holds(pipeline: &Pipeline, now: Time, recipe: &Recipe) -> bool {
    // A tick is half of all ticks ahead at most.
    let is_in_time = recipe.until.is_none_or(|until| until.since(Tick::of(now)) <= u32::MAX / 2);
    is_in_time && recipe.depends.iter().all(|depends| pipeline.epoch(depends.on) == depends.epoch)
}

/// The frame leaves as a recipe says.
fn leave_as(pipeline: &Pipeline, batch: &mut Batch<'_>, i: usize, out: Out) {
    match out.routed {
        Some((dst, src, _)) => {
            let frame = &mut batch[i];
            frame.decrement_ttl();
            frame.set_ethernet(dst, src, pipeline.tags(out.port).fixed());
            batch.verdicts[i] = Verdict::Out(out.port);
        }
        // No recipe leads to a port whose lines have tags of their own.
        None => pipeline.leave(batch, Set::one(i), out.port, &mut Drops::default()),
    }
}

/// A bit that the frames of a flow have in common, whatever their flags.
fn flow_bit(frame: &Frame<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    (frame.port, frame.proto(), frame.ports()).hash(&mut hasher);
    1 << (hasher.finish() % 64)
}
