//! What admitted frames pass: the stages, the exit behind them, and the ports that they leave by. What is done to a flow there,
//! said once, is its recipe.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use crate::batch::{Batch, Frames, Set, Verdict};
use crate::chain::{self, Entries, Stage};
use crate::drops::Drops;
use crate::frame::{Frame, PortId};
use crate::outbox::Outbox;
use crate::recipe::{Depends, Key, Never, On, Out, Recipe};
use crate::route::Router;
use crate::stage::Step;
use crate::table::timers::Tick;
use crate::time::Time;
use crate::way::Dir;

/// Stages, exit, ports.
#[derive(Debug)]
pub(crate) struct Pipeline {
    /// By port, the tags of its frames.
    pub(crate) tags: Vec<Vec<[u8; 4]>>,
    /// So many ports are at the left end.
    pub(crate) left: usize,
    pub(crate) stages: Vec<Stage>,
    pub(crate) exit: Exit,
    /// Another one whenever the text changes, or a stage begins anew.
    pub(crate) text_epoch: u32,
}

/// What is behind the chain.
#[derive(Debug)]
pub(crate) enum Exit {
    /// The port at the other end: a bump in the wire.
    Across,
    /// The port and the neighbour that a route says.
    Router(Box<Router>),
}

impl Pipeline {
    /// Leads a batch through the stages and has it leave.
    pub(crate) fn lead(
        &mut self,
        now: Time,
        batch: &mut Batch<'_>,
        mut entries: Entries,
        outbox: &mut Outbox,
        drops: &mut Drops,
    ) {
        let stages = &mut self.stages;
        let outward = chain::lead(stages, Dir::Outward, now, batch, &mut entries, outbox, drops);
        let inward = chain::lead(stages, Dir::Inward, now, batch, &mut entries, outbox, drops);
        self.let_out(now, batch, (outward, inward), outbox, drops);
    }

    /// Frames leave that came through all stages, outward and inward.
    pub(crate) fn let_out(
        &mut self,
        now: Time,
        batch: &mut Batch<'_>,
        (outward, inward): (Set, Set),
        outbox: &mut Outbox,
        drops: &mut Drops,
    ) {
        if let Exit::Router(router) = &mut self.exit {
            let Batch { frames, verdicts, .. } = batch;
            let stage = self.stages.len();
            let mut step =
                Step { now, frames: Frames(frames), outbox, drops, verdicts, turned: Set::EMPTY, stage };
            router.run(&mut step, Dir::Outward, outward);
            router.run(&mut step, Dir::Inward, inward);
            return;
        }
        self.leave(batch, outward, PortId(self.left as u8));
        self.leave(batch, inward, PortId(0));
    }

    /// Frames leave with the tags of their port.
    pub(crate) fn leave(&self, batch: &mut Batch<'_>, set: Set, port: PortId) {
        let is_tagged = !self.tags(port).is_empty();
        for i in set {
            let frame = &mut batch[i];
            if frame.has_tags() || is_tagged {
                self.retag(frame, port);
            }
            batch.verdicts[i] = Verdict::Out(port);
        }
    }

    /// A frame gets the tags of the port that it leaves by in place of those of the one that it came in by; a priority tag stays
    /// behind them.
    fn retag(&self, frame: &mut Frame<'_>, port: PortId) {
        let (dst, src) = frame.macs();
        let own = self.tags(port);
        let Some(priority) = frame.priority_tag(self.tags(frame.port).len()) else {
            return frame.set_ethernet(dst, src, own);
        };
        let (mut tags, mut count) = ([[0; 4]; 3], 0);
        for (place, &tag) in tags.iter_mut().zip(own.iter().chain([&priority])) {
            *place = tag;
            count += 1;
        }
        frame.set_ethernet(dst, src, tags.get(..count).unwrap_or_default());
    }

    /// The tags of a port.
    #[inline]
    #[expect(
        clippy::indexing_slicing,
        reason = "who names a port is the node itself, and it has one by each number"
    )]
    pub(crate) fn tags(&self, port: PortId) -> &[[u8; 4]] {
        &self.tags[usize::from(port.0)]
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
                Some(Stage::Nat(nat)) => nat.table.epoch(number),
                Some(Stage::Queue(_) | Stage::Police(_)) | None => 0,
            },
        }
    }

    /// What is done to frames with this key.
    ///
    /// # Errors
    /// They must pass the stages.
    pub(crate) fn recipe(&self, now: Time, key: Key) -> Result<Recipe, Never> {
        let dir = if usize::from(key.port.0) < self.left { Dir::Outward } else { Dir::Inward };
        let (mut at, mut class, mut parts, mut until) = (key, 0, Vec::new(), None);
        let mut depends = vec![On::Text];
        let count = self.stages.len();
        let order = (0..count).map(|n| if dir == Dir::Outward { n } else { count - 1 - n });
        for (stage, kind) in order.filter_map(|k| Some((k, self.stages.get(k)?))) {
            let part = match kind {
                Stage::Filter(filter) => filter.recipe(now, &at, dir)?,
                Stage::Nat(nat) => match nat.table.recipe(now, &at, dir)? {
                    Some(part) => part,
                    None => continue,
                },
                Stage::Queue(queue) => {
                    queue.recipe(dir)?;
                    continue;
                }
                Stage::Police(police) => {
                    police.recipe(dir, &at, class)?;
                    continue;
                }
            };
            at = at.behind(part.rewrite);
            class = part.class.unwrap_or(class);
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
