//! What admitted frames pass: the stages, outward from left to right and inward from right to left, the exit behind them, and the
//! tags of the ports that they leave by.
//!
//! ```text
//!   left ports > stage 0 > stage 1 > ... > stage n-1 > exit         frames of left ports
//!         exit < stage 0 < stage 1 < ... < stage n-1 < right ports  frames of right ports
//! ```
//!
//! A frame of the node's own enters in the middle; one that turns leaves the outward way at a stage and goes on inward
//! from there.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

mod recipe;

use crate::access::Subscribers;
use crate::batch::{Batch, Frames, PerFrame, Set, Verdict};
use crate::dir::{Dir, EntryPoint};
use crate::drops::{DropReason, Drops};
use crate::filter::Filter;
use crate::frame::{Frame, Line, PortId};
use crate::nat::Nat;
use crate::outbox::Outbox;
use crate::port::{End, Port};
use crate::route::Router;
use crate::stage::{ByDir, Step};
use crate::stages::{OneOf, Stage};
use crate::tags::{PortTags, Tag, TagSet};
use crate::text::MOST_STAGES;
use crate::time::Time;

/// Stages, exit, ports.
#[derive(Debug)]
pub(crate) struct Pipeline {
    /// By their numbers.
    pub(crate) ports: Vec<PipelinePort>,
    /// In a bump in the wire, where frames of each direction leave.
    pub(crate) across: ByDir<PortId>,
    pub(crate) stages: Vec<Stage>,
    pub(crate) exit: Exit,
    pub(crate) subscribers: Subscribers,
    /// It has the stage `access`.
    pub(crate) has_access: bool,
    /// It changes whenever the text changes, or a stage begins anew.
    pub(crate) text_epoch: u32,
}

/// What the pipeline knows of a port: in one cache line what each frame of it asks for.
#[derive(Debug, Clone)]
pub(crate) struct PipelinePort {
    /// The tags of its frames.
    pub(crate) tags: PortTags,
    /// The direction of frames that come in by it; `None`: it is no port any more.
    pub(crate) enters: Option<Dir>,
    /// Subscribers are at it.
    pub(crate) is_access: bool,
    /// Frames that come in by it may be those of subscribers.
    pub(crate) has_subscribers: bool,
}

impl PipelinePort {
    pub(crate) fn of(port: &Port) -> PipelinePort {
        let enters = port.end.map(|end| match end {
            End::Left => Dir::Outward,
            End::Right => Dir::Inward,
        });
        PipelinePort {
            tags: port.port_tags(),
            enters,
            is_access: port.is_access,
            has_subscribers: port.has_subscribers,
        }
    }
}

/// What is behind the stages.
#[derive(Debug)]
pub(crate) enum Exit {
    /// The port at the other end: a bump in the wire.
    Across,
    /// The port and the neighbour that a route says.
    Router(Box<Router>),
}

/// Frames of a batch that passed all stages.
pub(crate) struct Passed {
    pub(crate) outward: Set,
    pub(crate) inward: Set,
}

impl Pipeline {
    /// Runs a batch through the stages, outward first, and through the exit.
    pub(crate) fn run(
        &mut self,
        now: Time,
        batch: &mut Batch<'_>,
        mut entries: Entries,
        outbox: &mut Outbox,
        drops: &mut Drops,
    ) {
        let outward = self.run_stages(Dir::Outward, now, batch, &mut entries, outbox, drops);
        let inward = self.run_stages(Dir::Inward, now, batch, &mut entries, outbox, drops);
        let mut passed = Passed { outward, inward };
        if entries.has_machine() {
            passed = self.leave_from_machine(batch, passed, entries.of_machine, drops);
        }
        self.run_exit(now, batch, passed, outbox, drops);
    }

    /// Runs the frames of a batch through the stages in a direction. Outward comes first: frames that turn there go on inward with
    /// the others. Returns the frames that passed all stages.
    #[inline]
    pub(crate) fn run_stages(
        &mut self,
        dir: Dir,
        now: Time,
        batch: &mut Batch<'_>,
        entries: &mut Entries,
        outbox: &mut Outbox,
        drops: &mut Drops,
    ) -> Set {
        let Batch { frames, verdicts, .. } = batch;
        let (frames, subscribers) = (Frames(frames), &mut self.subscribers);
        let mut step =
            Step { now, frames, outbox, drops, subscribers, verdicts, turned: Set::EMPTY, stage: 0 };
        let passed = match dir {
            Dir::Outward => outward(&mut self.stages, &mut step, entries),
            Dir::Inward => inward(&mut self.stages, &mut step, entries),
        };
        step.outbox.at_work = None;
        passed
    }

    /// Sends frames that passed all stages to their ports.
    pub(crate) fn run_exit(
        &mut self,
        now: Time,
        batch: &mut Batch<'_>,
        passed: Passed,
        outbox: &mut Outbox,
        drops: &mut Drops,
    ) {
        if let Exit::Router(router) = &mut self.exit {
            let Batch { frames, verdicts, .. } = batch;
            let stage = self.stages.len();
            let (frames, subscribers) = (Frames(frames), &mut self.subscribers);
            let mut step =
                Step { now, frames, outbox, drops, subscribers, verdicts, turned: Set::EMPTY, stage };
            router.run(&mut step, Dir::Outward, passed.outward);
            let inward = match self.has_access {
                true => router.run_to_subscribers(&mut step, passed.inward),
                false => passed.inward,
            };
            router.run(&mut step, Dir::Inward, inward);
            return;
        }
        self.leave(batch, passed.outward, self.across[Dir::Outward], drops);
        self.leave(batch, passed.inward, self.across[Dir::Inward], drops);
    }

    /// Tells each stage the time; each does a bounded part of what is due. True: there is more.
    pub(crate) fn tick_stages(&mut self, now: Time, outbox: &mut Outbox, drops: &mut Drops) -> bool {
        let mut more = false;
        let verdicts = &mut PerFrame::all(Verdict::Live);
        let (frames, subscribers) = (Frames(&mut []), &mut self.subscribers);
        let mut step =
            Step { now, frames, outbox, drops, subscribers, verdicts, turned: Set::EMPTY, stage: 0 };
        for (k, stage) in self.stages.iter_mut().enumerate() {
            (step.stage, step.outbox.at_work) = (k, Some(k));
            more |= stage.kind_mut().tick(&mut step);
        }
        step.outbox.at_work = None;
        more
    }

    /// The stages of a kind in the order of the text, each with its number from 0.
    pub(crate) fn of_kind<T: OneOf<Stage> + 'static>(&self) -> impl Iterator<Item = (usize, &T)> {
        self.stages.iter().enumerate().filter_map(|(k, stage)| Some((k, T::of(stage)?)))
    }

    /// The filters in the order of the text.
    pub(crate) fn filters(&self) -> impl Iterator<Item = &Filter> {
        self.stages.iter().filter_map(Filter::of)
    }

    /// The same, to be changed.
    pub(crate) fn filters_mut(&mut self) -> impl Iterator<Item = &mut Filter> {
        self.stages.iter_mut().filter_map(Filter::of_mut)
    }

    /// The NATs in the order of the text.
    pub(crate) fn nats(&self) -> impl Iterator<Item = &Nat> {
        self.stages.iter().filter_map(Nat::of)
    }

    /// The same, to be changed.
    pub(crate) fn nats_mut(&mut self) -> impl Iterator<Item = &mut Nat> {
        self.stages.iter_mut().filter_map(Nat::of_mut)
    }

    /// Frames of the machine leave by the port of its TAP device, with the addresses that the machine has given them. Returns the
    /// other frames.
    #[cold]
    fn leave_from_machine(
        &self,
        batch: &mut Batch<'_>,
        passed: Passed,
        of_machine: Set,
        drops: &mut Drops,
    ) -> Passed {
        for i in passed.outward.or(passed.inward).and(of_machine) {
            let frame = &mut batch[i];
            let (port, (dst, src)) = (frame.port, frame.macs());
            if self.enters(port).is_none() {
                drops.count(DropReason::PortGone);
                batch.verdicts[i] = Verdict::Dropped(DropReason::PortGone);
                continue;
            }
            batch.verdicts[i] = match self.tags(port) {
                PortTags::Fixed(own) => {
                    frame.set_ethernet(dst, src, own);
                    Verdict::Out(port)
                }
                // The machine knows no lines.
                PortTags::Lines(_) => {
                    drops.count(DropReason::NoLine);
                    Verdict::Dropped(DropReason::NoLine)
                }
            };
        }
        let Passed { outward, inward } = passed;
        Passed { outward: outward.without(of_machine), inward: inward.without(of_machine) }
    }

    /// Frames leave with the tags of their port, or of their line where the port has several.
    pub(crate) fn leave(&self, batch: &mut Batch<'_>, set: Set, port: PortId, drops: &mut Drops) {
        let own = match self.tags(port) {
            PortTags::Fixed(own) => own,
            PortTags::Lines(lines) => return self.leave_by_lines(lines, batch, set, port, drops),
        };
        let is_tagged = !own.is_empty();
        for i in set {
            let frame = &mut batch[i];
            if frame.has_tags() || is_tagged {
                retag(frame, own);
            }
            batch.verdicts[i] = Verdict::Out(port);
        }
    }

    /// Frames leave by a port with several lines, each by its own, or by that of the subscriber that it is for; all others are
    /// dropped.
    #[inline(never)]
    fn leave_by_lines(
        &self,
        lines: &TagSet,
        batch: &mut Batch<'_>,
        set: Set,
        port: PortId,
        drops: &mut Drops,
    ) {
        for i in set {
            let frame = &mut batch[i];
            let (own, places) = (frame.tags, &mut [[0; 4]; 2]);
            batch.verdicts[i] = if lines.accepts(own) {
                if !frame.keeps_tags() {
                    retag(frame, own.write(places));
                }
                Verdict::Out(port)
            } else if let Some(line) = self.line_to(frame, port) {
                retag(frame, line.tags.write(places));
                Verdict::Out(port)
            } else {
                drops.count(DropReason::NoLine);
                Verdict::Dropped(DropReason::NoLine)
            };
        }
    }

    /// The line at a port of the subscriber that a frame is for.
    fn line_to(&self, frame: &Frame<'_>, port: PortId) -> Option<Line> {
        let is_looked_up = frame.is_ip() && !self.subscribers.is_empty();
        let to = self.subscribers.lookup_to(is_looked_up.then(|| frame.destination())?);
        self.subscribers.line(to).filter(|line| line.port == port)
    }

    /// The tags of a port.
    #[inline]
    #[expect(clippy::indexing_slicing, reason = "the node itself names ports, and it has one by each number")]
    pub(crate) fn tags(&self, port: PortId) -> &PortTags {
        &self.ports[usize::from(port.0)].tags
    }

    /// Whether subscribers are at a port.
    #[inline]
    pub(crate) fn is_access(&self, port: PortId) -> bool {
        self.ports.get(usize::from(port.0)).is_some_and(|port| port.is_access)
    }

    /// Whether frames that come in by a port may be those of subscribers.
    #[inline]
    pub(crate) fn has_subscribers(&self, port: PortId) -> bool {
        self.ports.get(usize::from(port.0)).is_some_and(|port| port.has_subscribers)
    }

    /// The direction of frames that come in by a port; `None`: it is no port any more.
    #[inline]
    #[expect(
        clippy::indexing_slicing,
        reason = "the node itself names ports, and it has a place for each number"
    )]
    pub(crate) fn enters(&self, port: PortId) -> Option<Dir> {
        self.ports[usize::from(port.0)].enters
    }
}

/// A frame gets these tags in place of those of the line that it came in by; a priority tag stays behind them.
fn retag(frame: &mut Frame<'_>, own: &[Tag]) {
    let (dst, src) = frame.macs();
    let Some(priority) = frame.priority_tag() else {
        return frame.set_ethernet(dst, src, own);
    };
    let (mut tags, mut count) = ([[0; 4]; 3], 0);
    for (place, &tag) in tags.iter_mut().zip(own.iter().chain([&priority])) {
        *place = tag;
        count += 1;
    }
    frame.set_ethernet(dst, src, tags.get(..count).unwrap_or_default());
}

impl Stage {
    /// All frames of a set.
    #[inline]
    fn run_all(&mut self, step: &mut Step<'_, '_>, dir: Dir, set: Set, entries: &Entries) -> Set {
        let (no_ip, of_machine) = (set.and(entries.no_ip), set.and(entries.of_machine));
        if no_ip.or(of_machine).is_empty() {
            return self.kind_mut().run(step, dir, set);
        }
        self.run_some(step, dir, set, (no_ip, of_machine))
    }

    /// The same where some are no packets of IP, or are of the machine, which a NAT lets pass: it has the node's addresses.
    #[cold]
    fn run_some(
        &mut self,
        step: &mut Step<'_, '_>,
        dir: Dir,
        set: Set,
        (no_ip, of_machine): (Set, Set),
    ) -> Set {
        let unseen = if self.kind().lets_machine_pass() { of_machine } else { Set::EMPTY };
        let packets = set.without(no_ip).without(unseen);
        let kind = self.kind_mut();
        let mut passed = unseen;
        if !packets.is_empty() {
            passed = passed.or(kind.run(step, dir, packets));
        }
        let no_ip = no_ip.without(unseen);
        if no_ip.is_empty() { passed } else { passed.or(kind.run_no_ip(step, dir, no_ip)) }
    }
}

/// Where the frames of a batch enter: `outward[k]` before stage k, `inward[k]` behind stage k - 1, `right` behind all; which of
/// them are no packets of IP, and which the machine has sent.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Entries {
    outward: [Set; MOST_STAGES + 1],
    inward: [Set; MOST_STAGES + 1],
    right: Set,
    no_ip: Set,
    of_machine: Set,
}

impl Entries {
    /// Frame `i` is one that the machine has sent.
    #[cold]
    pub(crate) fn note_machine(&mut self, i: usize) {
        self.of_machine.insert(i);
    }

    /// Whether the machine has sent any of them.
    #[inline]
    pub(crate) fn has_machine(&self) -> bool {
        !self.of_machine.is_empty()
    }

    /// One more frame, which is no packet of IP.
    #[cold]
    pub(crate) fn insert_no_ip(&mut self, i: usize, entry: EntryPoint) {
        self.no_ip.insert(i);
        self.insert(i, entry);
    }

    /// One more frame.
    #[expect(clippy::indexing_slicing, reason = "an entry names a stage that there is")]
    pub(crate) fn insert(&mut self, i: usize, entry: EntryPoint) {
        match entry {
            EntryPoint::Begin(Dir::Outward) => self.outward[0].insert(i),
            EntryPoint::Begin(Dir::Inward) => self.right.insert(i),
            EntryPoint::Outward { above } => self.outward[above].insert(i),
            EntryPoint::Inward { below } => self.inward[below].insert(i),
            EntryPoint::Leave(_) | EntryPoint::Hand(_) => unreachable!("it passes no stage"),
        }
    }

    /// Of frames that begin their way outward, and inward.
    pub(crate) fn begin(outward: Set, inward: Set) -> Entries {
        let mut entries = Entries { right: inward, ..Entries::default() };
        entries.outward[0] = outward;
        entries
    }

    /// Those that come to all stages on their way in `dir`.
    pub(crate) fn beginning(&self, dir: Dir) -> Set {
        match dir {
            Dir::Outward => self.outward[0],
            Dir::Inward => self.right,
        }
    }

    /// Takes some out of those.
    pub(crate) fn remove_beginning(&mut self, dir: Dir, some: Set) {
        let all = match dir {
            Dir::Outward => &mut self.outward[0],
            Dir::Inward => &mut self.right,
        };
        *all = all.without(some);
    }
}

#[inline]
#[expect(clippy::indexing_slicing, reason = "there are at most MOST_STAGES stages")]
fn outward(stages: &mut [Stage], step: &mut Step<'_, '_>, entries: &mut Entries) -> Set {
    let mut outward = Set::EMPTY;
    for (k, stage) in stages.iter_mut().enumerate() {
        outward = outward.or(entries.outward[k]);
        if !outward.is_empty() {
            (step.stage, step.turned, step.outbox.at_work) = (k, Set::EMPTY, Some(k));
            #[cfg(feature = "faults")]
            crate::faults::strike(step, outward);
            outward = stage.run_all(step, Dir::Outward, outward, entries).without(step.turned);
            entries.inward[k] = entries.inward[k].or(step.turned);
        }
    }
    outward.or(entries.outward[stages.len()])
}

#[inline]
#[expect(clippy::indexing_slicing, reason = "there are at most MOST_STAGES stages")]
fn inward(stages: &mut [Stage], step: &mut Step<'_, '_>, entries: &Entries) -> Set {
    let mut inward = entries.inward[stages.len()].or(entries.right);
    for (k, stage) in stages.iter_mut().enumerate().rev() {
        if !inward.is_empty() {
            (step.stage, step.turned, step.outbox.at_work) = (k, Set::EMPTY, Some(k));
            inward = stage.run_all(step, Dir::Inward, inward, entries);
        }
        inward = inward.or(entries.inward[k]);
    }
    inward
}
