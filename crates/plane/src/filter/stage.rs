//! A filter as a stage of a node.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use super::Filter;
use super::state::Connections;
use crate::batch::Set;
use crate::dir::{Dir, EntryPoint};
use crate::limits::Limits;
use crate::outbox::Outbox;
use crate::recipe::{Key, Never, Note, Part, Rewrite, SessionState, Uses};
use crate::stage::{StageKind, Step, Together, Waiting};
use crate::table::tcp::{Progress, Segment};
use crate::table::timers::WALK_INTERVAL;
use crate::time::Time;

impl StageKind for Filter {
    fn name(&self) -> &'static str {
        "filter"
    }

    fn run(&mut self, step: &mut Step<'_, '_>, dir: Dir, set: Set) -> Set {
        self.judge(step, dir, set)
    }

    fn run_no_ip(&mut self, step: &mut Step<'_, '_>, dir: Dir, set: Set) -> Set {
        self.judge_all_no_ip(step, dir, set)
    }

    fn tick(&mut self, step: &mut Step<'_, '_>) -> bool {
        self.fragments.expire(step);
        self.connections.as_mut().is_some_and(|connections| connections.tick(step.now))
    }

    fn due(&self, now: Time) -> Option<Time> {
        let connections = self.connections().gt(&0).then(|| now + WALK_INTERVAL);
        [connections, self.fragments.due()].into_iter().flatten().min()
    }

    fn limit(&mut self, limits: &Limits) {
        self.fragments.limit(limits.fragments(self.share));
    }

    fn begin_anew(&mut self, _: Time) {
        let most = self.rules.connections.map(|most| self.share.part(most));
        self.connections = most.map(|most| Box::new(Connections::new(self.seed, most)));
        self.fragments = self.fragments.anew();
        self.asked = None;
    }

    fn waiting(&self) -> Waiting {
        Waiting { kept: self.fragments.waiting().collect(), copies: 0 }
    }

    fn emit_waiting(&mut self, _: Time, outbox: &mut Outbox, entry: &dyn Fn(Dir) -> EntryPoint) {
        self.fragments.emit_waiting(outbox, entry);
    }

    fn together(&self) -> Together {
        if self.is_stateful() { Together::Ends } else { Together::Fragments }
    }

    fn recipe(&self, now: Time, at: &Key, dir: Dir, _: u8) -> Result<Option<Part>, Never> {
        self.part(now, at, dir).map(Some)
    }

    fn used(&mut self, note: &Note, uses: &Uses, session: SessionState) {
        let Note::Filter(note) = note else { unreachable!("it is its own") };
        self.count(note, uses, session);
    }

    fn segment(&mut self, note: &Note, segment: &Segment) {
        let Note::Filter(note) = note else { unreachable!("it is its own") };
        self.follow(note, segment);
    }

    fn epoch(&self, session: u32) -> u32 {
        self.connections.as_ref().map_or(0, |connections| connections.epoch(session))
    }

    fn session_of(&self, at: &Key, _: Dir) -> Option<(Option<u32>, Rewrite)> {
        Some((self.connection_of(at), Rewrite::Nothing))
    }

    fn progress(&self, session: u32) -> Option<Progress> {
        self.connections.as_ref()?.progress(session)
    }

    fn catch_up(&mut self, session: u32, progress: &Progress) {
        if let Some(connections) = &mut self.connections {
            connections.catch_up(session, progress);
        }
    }

    fn watch(&mut self, is_on: bool) {
        if let Some(connections) = &mut self.connections {
            connections.watch(is_on);
        }
    }

    fn renewed(&mut self) -> Vec<u32> {
        self.connections.as_mut().map_or_else(Vec::new, |connections| connections.renewed())
    }
}
