//! The stage: what becomes of each frame that comes to a NAT, from one side or the other.
//!
//! A batch goes through each table in two passes: the first only reads where each frame leads, so that the cache misses
//! of up to 64 frames overlap, the second acts.

use weir_packet::headers::{AH, UDP};

use super::command::NatChange;
use super::config::Config;
use super::flow::{Arrival, Flow, clamp, ends, flow, has_ports, is_plain, is_v4, remote};
use super::fragments::{First, Fragments};
use super::handover::ask_other;
use super::next::{Next, refuse};
use super::node::Node;
use super::outside::Space;
use super::quoted::quote;
use super::rewrite::translate_source;
use super::slot::Kind;
use super::table::{Table, Update};
use super::unsolicited::Unsolicited;
use super::words::Manner;
use super::{icmp, nat64, pcp, portless, redirected};
use crate::batch::{PerFrame, Set};
use crate::dir::{Dir, EntryPoint};
use crate::drops::DropReason;
use crate::frame::{Fragment, Frame, Kind as Packet, Passage};
use crate::limits::Limits;
use crate::outbox::Outbox;
use crate::prefix::is_unicast4;
use crate::recipe::{Ends, Key, Never, Note, Part, Rewrite, SessionState, Uses};
use crate::stage::{StageKind, Step, Surroundings, Together, Waiting};
use crate::table::tcp::{self, Progress, Segment};
use crate::threads::{Ingress, Share};
use crate::time::Time;

/// The stage.
pub(crate) struct Nat {
    pub(crate) table: Table,
    fragments: Fragments,
    unsolicited: Unsolicited,
    /// The addresses of frames must be looked at before all else.
    is_special: bool,
}

impl std::fmt::Debug for Nat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Nat").field("sessions", &self.table.sessions.live()).finish_non_exhaustive()
    }
}

/// Whether there is a mapping for a frame.
enum Awaited {
    Yes,
    No,
    /// Another thread was asked.
    Asked,
}

impl StageKind for Nat {
    fn name(&self) -> &'static str {
        "nat"
    }

    fn run(&mut self, step: &mut Step<'_, '_>, dir: Dir, set: Set) -> Set {
        self.table.expire(step.now);
        let untranslated = step.subscribers.untranslated(&step.frames, dir, set);
        let set = set.without(untranslated);
        let passed = match dir {
            Dir::Outward => self.outward(step, set),
            Dir::Inward => self.inward(step, set),
        };
        passed.or(untranslated)
    }

    /// It has the node's addresses.
    fn lets_machine_pass(&self) -> bool {
        true
    }

    /// Sessions end, fragments that have waited too long are dropped, late answers are sent.
    fn tick(&mut self, step: &mut Step<'_, '_>) -> bool {
        let more = self.table.expire(step.now);
        let lapsed = self.fragments.expire(step.now, step.outbox);
        (0..lapsed).for_each(|_| step.drops.count(DropReason::NatFragment));
        self.unsolicited.answer(&mut self.table, step);
        more
    }

    fn due(&self, now: Time) -> Option<Time> {
        [self.table.due(now), self.fragments.due(), self.unsolicited.due()].into_iter().flatten().min()
    }

    fn limit(&mut self, limits: &Limits) {
        self.fragments.limit(limits.fragments(self.table.share));
    }

    fn take_node(&mut self, surroundings: &Surroundings) {
        self.table.node = Node::new(surroundings);
    }

    fn begin_anew(&mut self, _: Time) {
        self.table.begin_anew();
        self.fragments = self.fragments.anew();
        self.unsolicited = Unsolicited::default();
    }

    fn waiting(&self) -> Waiting {
        let (kept, copies) = self.fragments.waiting();
        Waiting { kept, copies }
    }

    fn emit_waiting(&mut self, _: Time, outbox: &mut Outbox, entry: &dyn Fn(Dir) -> EntryPoint) {
        self.fragments.emit_waiting(outbox, entry);
    }

    fn together(&self) -> Together {
        Together::Inside
    }

    fn recipe(&self, now: Time, at: &Key, dir: Dir, _: u8) -> Result<Option<Part>, Never> {
        self.table.recipe(now, at, dir)
    }

    fn used(&mut self, note: &Note, uses: &Uses, session: SessionState) {
        let Note::Nat(note) = note else { unreachable!("it is its own") };
        if session == SessionState::Same {
            self.table.used(note, uses);
        }
    }

    fn segment(&mut self, note: &Note, segment: &Segment) {
        let Note::Nat(note) = note else { unreachable!("it is its own") };
        self.table.segment(note, segment);
    }

    fn epoch(&self, session: u32) -> u32 {
        self.table.epoch(session)
    }

    fn session_of(&self, at: &Key, dir: Dir) -> Option<(Option<u32>, Rewrite)> {
        match self.table.session_for(at, dir) {
            Some((number, rewrite)) => Some((Some(number), rewrite)),
            // It passes as it is.
            None if matches!(at.ends, Ends::V6 { .. }) => Some((None, Rewrite::Nothing)),
            None => None,
        }
    }

    fn progress(&self, session: u32) -> Option<Progress> {
        self.table.progress(session)
    }

    fn catch_up(&mut self, session: u32, progress: &Progress) {
        self.table.catch_up(session, progress);
    }

    fn watch(&mut self, is_on: bool) {
        self.table.watch(is_on);
    }

    fn renewed(&mut self) -> Vec<u32> {
        self.table.renewed()
    }
}

#[deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]
impl Nat {
    /// A NAT as `config` says, or a thread's share of it. What must not be predictable from outside follows from `seed`.
    pub(crate) fn new(config: Config, seed: u64, share: Share) -> Nat {
        let table = Table::new(config, seed, share);
        Nat {
            is_special: table.is_special(),
            table,
            fragments: Fragments::new(Limits::default().fragments(share)),
            unsolicited: Unsolicited::default(),
        }
    }

    /// Takes another configuration; sessions live on.
    pub(super) fn take_text(&mut self, now: Time, update: &mut Update) {
        self.table.apply(now, update);
        self.is_special = self.table.is_special();
    }

    /// Takes a change of one forward or one-to-one address.
    pub(super) fn take_end(&mut self, now: Time, change: &NatChange) {
        self.table.change(now, change);
        self.is_special = self.table.is_special();
    }

    fn outward(&mut self, step: &mut Step<'_, '_>, set: Set) -> Set {
        let (mut hashes, mut guesses) = (PerFrame::all(0_u32), PerFrame::all(0_u32));
        for i in set {
            let flow = self.ends_out(&step.frames[i]);
            hashes[i] = self.table.hash(&flow.inside, flow.remote);
        }
        let sessions = &self.table.sessions;
        let is_large = sessions.is_large();
        if is_large {
            set.for_each(|i| sessions.touch(hashes[i]));
        }
        for i in set {
            guesses[i] = sessions.first(hashes[i]);
        }
        if is_large {
            set.for_each(|i| sessions.touch_slot(guesses[i]));
        }
        self.act(step, set, |nat, step, i| nat.out(step, i, hashes[i], guesses[i]))
    }

    /// The two ends of a frame on its way out, of either version of IP.
    #[inline]
    fn ends_out(&self, frame: &Frame<'_>) -> Flow {
        if let (Packet::V6, Some(prefix)) = (frame.kind(), self.table.config.prefix64)
            && let Some((inside, remote)) = nat64::ends(frame, prefix)
        {
            return Flow { inside, remote, segment: Segment::default() };
        }
        ends(frame, Dir::Outward)
    }

    fn inward(&mut self, step: &mut Step<'_, '_>, set: Set) -> Set {
        let (sessions, outside) = (&self.table.sessions, &self.table.outside);
        let is_large = sessions.is_large();
        if is_large {
            set.filter_map(|i| self.table.endpoint(&step.frames[i]))
                .for_each(|endpoint| outside.touch(endpoint));
        }
        let mut guesses = PerFrame::all(0_u32);
        for i in set {
            guesses[i] = self.table.endpoint(&step.frames[i]).map_or(0, |endpoint| outside.slot(endpoint));
        }
        if is_large {
            set.for_each(|i| sessions.touch_slot(guesses[i]));
        }
        self.act(step, set, |nat, step, i| nat.back(step, i, guesses[i]))
    }

    /// Calls `one` for each frame, and acts on its result.
    #[inline]
    fn act(
        &mut self,
        step: &mut Step<'_, '_>,
        set: Set,
        one: impl Fn(&mut Nat, &mut Step<'_, '_>, usize) -> Next,
    ) -> Set {
        let mut on = set;
        for i in set {
            match one(self, step, i) {
                Next::On => continue,
                Next::Turn => step.turn(i),
                Next::Drop(reason) => step.drop(i, reason),
                Next::Gone => {}
                Next::Hairpin => unreachable!("it was led back"),
            }
            on.remove(i);
        }
        on
    }

    /// A frame on its way out.
    #[inline]
    fn out(&mut self, step: &mut Step<'_, '_>, i: usize, hash: u32, guess: u32) -> Next {
        let frame = &step.frames[i];
        if let Some(next) = self.beyond(frame) {
            return next;
        }
        let next = if !is_plain(frame) || self.is_special {
            self.out_special(step, i, (hash, guess))
        } else {
            self.out_plain(step, i, (hash, guess))
        };
        if let Next::Hairpin = next { self.hairpin(step, i) } else { next }
    }

    /// What becomes of an outward frame that the NAT does not translate. A frame between two links of the inside passes, and so
    /// does a broadcast or multicast that is also for the node. A frame with an invalid source does not pass: translated it would
    /// look valid.
    #[inline]
    fn beyond(&self, frame: &Frame<'_>) -> Option<Next> {
        if frame.kind() != Packet::V4 {
            return None;
        }
        let (src, dst) = frame.addresses4();
        let is_for_all = dst >> 28 == 14 || dst == u32::MAX;
        if frame.passage == Passage::Inside || self.table.node.routes && is_for_all {
            return Some(Next::On);
        }
        (!is_unicast4(src)).then_some(Next::Drop(DropReason::MartianSource))
    }

    /// A frame with ports; its hash was looked up already.
    #[inline]
    fn out_plain(&mut self, step: &mut Step<'_, '_>, i: usize, (hash, guess): (u32, u32)) -> Next {
        let frame = &mut step.frames[i];
        let flow = flow(frame);
        let is_public = self.table.is_public(flow.remote.address);
        if self.table.node.local.contains(&flow.remote.address) {
            match is_public.then(|| self.is_awaited(step, i)) {
                Some(Awaited::Yes) => {}
                Some(Awaited::Asked) => return Next::Gone,
                Some(Awaited::No) | None => return self.out_local(step, i),
            }
        }
        let frame = &mut step.frames[i];
        let number = match self.table.outbound(step.now, flow, hash, guess) {
            Ok(number) => number,
            Err(reason) => return refuse(&self.table, step, i, reason),
        };
        translate_source(&mut self.table, frame, number);
        if is_public { Next::Hairpin } else { Next::On }
    }

    /// A packet from inside for the node itself.
    #[cold]
    fn out_local(&mut self, step: &mut Step<'_, '_>, i: usize) -> Next {
        let frame = &step.frames[i];
        let is_question = frame.proto() == UDP && frame.ports().1 == pcp::PORT;
        if is_question && self.table.config.pcp && frame.fragment() == Fragment::Whole {
            pcp::answer(&mut self.table, step, i)
        } else {
            Next::On
        }
    }

    /// Whether there is a mapping for a frame to an address that is also the node's own.
    #[cold]
    fn is_awaited(&mut self, step: &mut Step<'_, '_>, i: usize) -> Awaited {
        if step.frames[i].is_awaited {
            return Awaited::Yes;
        }
        // A PCP request belongs to the thread of its host.
        let is_asked_here = self.table.config.pcp && step.frames[i].ports().1 == pcp::PORT;
        if !is_asked_here && ask_other(&self.table, step, i) {
            return Awaited::Asked;
        }
        if self.table.awaits(step.now, &step.frames[i]) { Awaited::Yes } else { Awaited::No }
    }

    /// Hairpinning: the source of the frame is translated, and its destination is a public address of this NAT (RFC 4787 REQ-9).
    fn hairpin(&mut self, step: &mut Step<'_, '_>, i: usize) -> Next {
        if self.fragments.goes_to_another_box(&self.table, step, i) {
            return Next::On;
        }
        if self.hand_hairpin(step, i) {
            return Next::Gone;
        }
        let guess =
            self.table.endpoint(&step.frames[i]).map_or(0, |endpoint| self.table.outside.slot(endpoint));
        match self.back(step, i, guess) {
            Next::On => Next::Turn,
            other => other,
        }
    }

    /// Hands a frame with a translated source to the thread of its destination, if that is another one.
    fn hand_hairpin(&mut self, step: &mut Step<'_, '_>, i: usize) -> bool {
        if self.table.share.of == 1 {
            return false;
        }
        let owner = match step.frames[i].fragment() {
            Fragment::Later => self.fragments.thread_of_first(&self.table, step, i),
            _ => self.table.owner_of_destination(&step.frames[i]),
        };
        if owner == self.table.share.thread {
            return false;
        }
        if step.frames[i].fragment() == Fragment::First {
            self.fragments.note_thread(step, i, owner);
        }
        step.hand(i, owner, Ingress::Turned(self.table.number()));
        true
    }

    /// A frame on its way in.
    #[inline]
    fn back(&mut self, step: &mut Step<'_, '_>, i: usize, guess: u32) -> Next {
        let frame = &step.frames[i];
        if !is_plain(frame) || self.is_special {
            return self.back_special(step, i, guess);
        }
        self.back_plain(step, i, guess)
    }

    #[inline]
    fn back_plain(&mut self, step: &mut Step<'_, '_>, i: usize, guess: u32) -> Next {
        let Some(endpoint) = self.table.endpoint(&step.frames[i]) else { return self.stranger(step, i) };
        let frame = &mut step.frames[i];
        let (remote, segment) = (remote(frame), Segment::of(frame));
        let arrival = Arrival { endpoint, proto: frame.proto(), remote, segment };
        match self.table.inbound(step.now, &arrival, guess) {
            Ok(number) => {
                let inside = self.table.sessions[number].inside();
                if !is_v4(&inside) {
                    return nat64::back(&self.table, &mut self.fragments, step, i, inside);
                }
                frame.set_destination4(inside.address[3], inside.port);
                if let Some(mss) = self.table.config.mss {
                    clamp(frame, mss);
                }
                Next::On
            }
            Err(DropReason::NatNoMapping) if self.table.node.local.contains(&frame.addresses4().1) => {
                Next::On
            }
            Err(reason) => {
                let silent = self.table.config.unsolicited == Manner::Silent;
                if segment.flags & (tcp::SYN | tcp::ACK) == tcp::SYN && !silent {
                    self.unsolicited.note(&step.frames[i], step.now, arrival);
                }
                Next::Drop(reason)
            }
        }
    }

    /// A frame from outside that is not for a public address: it may be from an excluded host, or an ICMP error about a packet to
    /// one.
    fn stranger(&self, step: &Step<'_, '_>, i: usize) -> Next {
        let frame = &step.frames[i];
        let (src, dst) = frame.addresses4();
        let exclude = &self.table.config.exclude;
        let is_excluded = exclude.contains(src)
            || frame.icmp_error() && quote(frame).is_ok_and(|quote| exclude.contains(quote.dst.0));
        if self.table.node.local.contains(&dst) || is_excluded {
            Next::On
        } else {
            Next::Drop(DropReason::NatNoMapping)
        }
    }
}

/// A frame that is a fragment or has an unusual header, or for which something was configured.
#[deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]
impl Nat {
    #[cold]
    fn out_special(&mut self, step: &mut Step<'_, '_>, i: usize, lookup: (u32, u32)) -> Next {
        let frame = &step.frames[i];
        if frame.kind() == Packet::V6 {
            return self.out_of_v6(step, i, lookup);
        }
        if frame.kind() != Packet::V4 || self.table.config.exclude.contains(frame.addresses4().1) {
            return Next::On;
        }
        match frame.fragment() {
            Fragment::Whole => self.out_packet(step, i, lookup),
            Fragment::First => self.first(step, i, Dir::Outward, |nat, step| nat.out_packet(step, i, lookup)),
            Fragment::Later => self.fragments.later(&self.table, step, i, Dir::Outward),
        }
    }

    /// A first fragment; `translate` handles it as a packet.
    fn first(
        &mut self,
        step: &mut Step<'_, '_>,
        i: usize,
        dir: Dir,
        translate: impl FnOnce(&mut Nat, &mut Step<'_, '_>) -> Next,
    ) -> Next {
        let first = First::of(&step.frames[i], dir);
        let next = translate(self, step);
        self.fragments.first(step, i, first, &next);
        next
    }

    /// A frame of IPv6 on its way out, which may be a first fragment.
    fn out_of_v6(&mut self, step: &mut Step<'_, '_>, i: usize, lookup: (u32, u32)) -> Next {
        let frame = &step.frames[i];
        let first = (frame.fragment() == Fragment::First).then(|| First::of(frame, Dir::Outward));
        let next = nat64::out(&mut self.table, &mut self.fragments, step, i, lookup);
        if let (Next::Drop(_), Some(first)) = (&next, first) {
            self.fragments.forget(&first);
        }
        next
    }

    fn out_packet(&mut self, step: &mut Step<'_, '_>, i: usize, lookup: (u32, u32)) -> Next {
        let frame = &mut step.frames[i];
        let (src, dst) = frame.addresses4();
        if frame.icmp_error() {
            return icmp::error_out(&mut self.table, step, i);
        }
        if let Some(pair) = self.table.config.pairs.of(src) {
            if frame.proto() == AH {
                return Next::Drop(DropReason::NatAuthenticated);
            }
            frame.set_src4(pair.outside);
            return if self.table.is_public(dst) { Next::Hairpin } else { Next::On };
        }
        match Space::of(frame.proto()) {
            Some(_) if has_ports(frame) => {
                redirected::out(&mut self.table, step, i).unwrap_or_else(|| self.out_plain(step, i, lookup))
            }
            // ICMP messages that are neither query nor error concern the link.
            Some(_) => Next::Drop(DropReason::NatProtocol),
            None => portless::out(&mut self.table, step, i),
        }
    }

    #[cold]
    fn back_special(&mut self, step: &mut Step<'_, '_>, i: usize, guess: u32) -> Next {
        let frame = &step.frames[i];
        if frame.kind() != Packet::V4 {
            return Next::On;
        }
        match frame.fragment() {
            Fragment::Whole => self.back_packet(step, i, guess),
            Fragment::First => self.first(step, i, Dir::Inward, |nat, step| nat.back_packet(step, i, guess)),
            Fragment::Later => self.fragments.later(&self.table, step, i, Dir::Inward),
        }
    }

    fn back_packet(&mut self, step: &mut Step<'_, '_>, i: usize, guess: u32) -> Next {
        let frame = &mut step.frames[i];
        let (_, dst) = frame.addresses4();
        if frame.icmp_error() && self.table.is_public(dst) {
            return icmp::error_back(&mut self.table, &mut self.fragments, step, i);
        }
        if let Some(pair) = self.table.config.pairs.at(dst) {
            if frame.proto() == AH {
                return Next::Drop(DropReason::NatAuthenticated);
            }
            frame.set_dst4(pair.inside);
            return Next::On;
        }
        if self.table.sessions[guess].kind() == Kind::Redirected && has_ports(frame) {
            return redirected::back(&mut self.table, step, i, guess);
        }
        if has_ports(frame) || !self.table.is_public(dst) {
            return self.back_plain(step, i, guess);
        }
        match Space::of(frame.proto()) {
            Some(_) => Next::Drop(DropReason::NatProtocol),
            None => portless::back(&mut self.table, step, i),
        }
    }
}
