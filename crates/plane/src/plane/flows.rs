//! Frames that do not pass the stages, for the caller of a plane: the fast path, and the flow cache of tests.

use super::Plane;
use crate::batch::Batch;
use crate::fast::{FastPath, FastState, FastTable};
use crate::pipeline::Entries;
use crate::time::Time;

impl Plane {
    /// Turns a flow cache on or off, for tests: its results are those of the stages.
    pub fn cache_flows(&mut self, is_on: bool) {
        self.cache = is_on.then(Box::default);
    }

    /// Frames that did not pass the stages since there is a flow cache.
    pub fn cached_frames(&self) -> u64 {
        self.cache.as_ref().map_or(0, |cache| cache.hits())
    }

    /// A fast path forwards frames in place of the plane from now on.
    pub fn set_fast(&mut self, table: Box<dyn FastTable>) {
        self.fast = Some(Box::new(FastPath::begin(table, &mut self.pipeline)));
    }

    /// The fast path ends. Its frames stay counted.
    pub fn take_fast(&mut self) -> Option<Box<dyn FastTable>> {
        let (table, frames) = self.fast.take()?.end(&mut self.pipeline);
        self.accounting.entered += frames;
        self.accounting.left += frames;
        Some(table)
    }

    /// Turns the fast path on or off. The caller calls it again whenever the ports may have changed.
    pub fn use_fast(&mut self, on: bool) {
        if let Some(path) = &mut self.fast {
            path.set_on(on);
        }
    }

    /// The state of the fast path; `None`: there is none.
    pub fn fast_state(&self) -> Option<FastState> {
        self.fast.as_ref().map(|path| path.state())
    }

    /// Reads the uses of all entries, so that counters and times here are up to date.
    pub fn settle_fast(&mut self) {
        if let Some(path) = &mut self.fast {
            path.read_all(&mut self.pipeline);
        }
    }

    /// The same for some entries, from this number on, so that no frame waits for all of them; returns the next number, if there
    /// is one.
    pub fn settle_some(&mut self, from: u32) -> Option<u32> {
        self.fast.as_mut()?.read_some(&mut self.pipeline, from)
    }

    /// Runs a batch through the stages, and tells the fast path what came of its flows.
    #[inline(never)]
    pub(super) fn pass_beside(&mut self, now: Time, batch: &mut Batch<'_>, entries: Entries) {
        let before =
            self.fast.as_mut().map(|path| path.before_stages(&mut self.pipeline, now, batch, &entries));
        self.pass(now, batch, entries);
        if let (Some(path), Some(before)) = (&mut self.fast, before) {
            path.behind_stages(&mut self.pipeline, now, batch, &before);
        }
    }

    /// Tells the fast path what has changed; called before anything that was done leaves the plane.
    pub(crate) fn publish(&mut self) {
        if let Some(path) = &mut self.fast {
            path.publish(&mut self.pipeline);
        }
    }

    /// The stages are about to change: reads some of the entries from this number on, all of them while they are used, and then
    /// what little is new while they are not. `true`: there is more.
    pub(crate) fn pause_fast(&mut self, from: &mut u32) -> bool {
        let rest = self.settle_some(*from);
        let Some(path) = &mut self.fast else { return false };
        *from = rest.unwrap_or(0);
        rest.is_some() || path.pause()
    }

    /// The stages have changed.
    pub(crate) fn resume_fast(&mut self) {
        if let Some(path) = &mut self.fast {
            path.resume(&mut self.pipeline);
        }
    }
}
