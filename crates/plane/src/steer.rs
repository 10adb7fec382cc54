//! Several planes as one node: which of them a frame belongs to, so that a stage that remembers something of a packet sees the
//! other packets that it concerns.
//!
//! | what the node remembers | a frame belongs to the thread of |
//! |---|---|
//! | nothing: routes, rules without state | the port that received it; fragments of a packet to that of both addresses |
//! | connections | both addresses, the same for either direction |
//! | mappings of a NAT | the inside address; see `nat/table/steer.rs` |
//!
//! An ICMP error goes to the thread of the packet that it quotes. Each plane asks for its own neighbours, and gets the news of
//! the others.
//!
//! Of several NATs behind each other each has the same thread for a flow, see `steer/nats.rs`.
//!
//! Invariant: the answer depends on the frame and the node's text alone, so that all planes give the same.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

mod machine;
mod meeting;
mod nats;

use weir_packet::steer::{mix4, mix6, pick};

use crate::batch::Verdict;
use crate::dir::{Dir, EntryPoint};
use crate::drops::{DropReason, Drops};
use crate::frame::{Fragment, Frame, Kind};
use crate::icmp::{quoted4, quoted6};
use crate::kept::{Then, Ticket};
use crate::limits::Limits;
use crate::nat::Nat;
use crate::outbox::Outbox;
use crate::pipeline::PipelinePort;
use crate::stage::Together;
use crate::stages::{OneOf, Stage};
use crate::threads::{Handover, Ingress, Share};
use crate::time::Time;
use meeting::{Meeting, Waiting};
use nats::{Nats, Owner};

/// A frame and its direction.
#[derive(Clone, Copy)]
pub(crate) struct Directed<'f, 'a> {
    pub(crate) frame: &'f Frame<'a>,
    pub(crate) dir: Dir,
}

/// Which of several planes a frame belongs to.
#[derive(Debug)]
pub(crate) struct Steering {
    pub(crate) share: Share,
    together: Together,
    nats: Nats,
    meeting: Meeting,
}

impl Steering {
    /// That of a node with these stages.
    pub(crate) fn new(share: Share, stages: &[Stage], limits: &Limits) -> Steering {
        let meeting = Meeting::new(limits.fragments(share));
        let mut steering = Steering { share, together: Together::Nothing, nats: Nats::default(), meeting };
        steering.look(stages);
        steering
    }

    /// Sets other limits for what hosts share.
    pub(crate) fn limit(&mut self, limits: &Limits) {
        self.meeting.limit(limits.fragments(self.share));
    }

    /// The stages have changed. [`Steering::emit_waiting`] is to follow.
    pub(crate) fn look(&mut self, stages: &[Stage]) {
        let together = stages.iter().map(|stage| stage.kind().together());
        self.together = together.max().unwrap_or(Together::Nothing);
        self.nats = Nats::of(stages);
    }

    /// If fragments no longer meet since the stages have changed, those that wait for a first one go on, by their ports.
    pub(crate) fn emit_waiting(&mut self, ports: &[PipelinePort], outbox: &mut Outbox) {
        if matches!(self.together, Together::Inside | Together::Ends) {
            return;
        }
        for Waiting { frame, addresses, .. } in self.meeting.take_waiting() {
            let port = ports.get(usize::from(outbox.kept.known(frame).port.0));
            // Of a port that has gone no way is better than another.
            let enters = port.and_then(|port| port.enters).unwrap_or(Dir::Inward);
            let hand = match self.together {
                Together::Nothing => None,
                _ => self.hand(pick(addresses, self.share.of)),
            };
            let entry = match hand {
                Some(Verdict::Handed(to)) => EntryPoint::Hand(to),
                _ => EntryPoint::Begin(enters),
            };
            outbox.emit(frame, Then::On(entry));
        }
    }

    /// The stage of the NAT that a frame comes to by another thread, if there is one in this thread's text.
    pub(crate) fn nat(&self, number: u8) -> Option<usize> {
        self.nats.stage(number)
    }

    /// Whether all frames that come in by ports are this thread's.
    pub(crate) fn is_alone(&self) -> bool {
        self.share.of == 1
    }

    /// What becomes of a frame that came in on its way in `dir`, if this is not its thread.
    #[inline]
    pub(crate) fn elsewhere(
        &mut self,
        now: Time,
        directed: Directed<'_, '_>,
        stages: &[Stage],
        outbox: &mut Outbox,
    ) -> Option<Verdict> {
        let frame = directed.frame;
        if self.is_alone() {
            return None;
        }
        let owner = match self.together {
            Together::Nothing => return None,
            Together::Fragments if frame.fragment() == Fragment::Whole => return None,
            _ if self.meets_others(directed, stages) => {
                return self.send_to_meeting(now, directed, stages, outbox);
            }
            _ => self.owner(directed, stages),
        };
        self.hand(owner)
    }

    /// Whether it is a fragment, and only the first one says which thread its packet belongs to.
    fn meets_others(&self, directed: Directed<'_, '_>, stages: &[Stage]) -> bool {
        let frame = directed.frame;
        match self.together {
            Together::Inside => self.nats.is_piece(directed, stages),
            Together::Ends => frame.is_piece_of_icmp(),
            Together::Fragments | Together::Nothing => false,
        }
    }

    /// The thread of a frame that is no such fragment.
    fn owner(&self, directed: Directed<'_, '_>, stages: &[Stage]) -> u8 {
        let frame = directed.frame;
        match self.together {
            Together::Inside => match self.nats.owner(directed, stages) {
                Owner::Thread(thread) => thread,
                Owner::Hash(hash) => pick(hash, self.share.of),
            },
            Together::Ends => pick(ends(frame), self.share.of),
            Together::Fragments | Together::Nothing => pick(addresses(frame), self.share.of),
        }
    }

    /// The reason to drop a fragment without a first one.
    fn no_first(&self) -> DropReason {
        if self.together == Together::Inside { DropReason::NatFragment } else { DropReason::FilterFragment }
    }

    fn hand(&self, owner: u8) -> Option<Verdict> {
        (owner != self.share.thread)
            .then_some(Verdict::Handed(Handover { to: owner, ingress: Ingress::Found }))
    }

    /// Frames that wait for the first fragment of theirs.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = Ticket> {
        self.meeting.waiting()
    }

    /// A fragment of a packet goes where it meets the others.
    #[cold]
    fn send_to_meeting(
        &mut self,
        now: Time,
        directed: Directed<'_, '_>,
        stages: &[Stage],
        outbox: &mut Outbox,
    ) -> Option<Verdict> {
        let frame = directed.frame;
        let place = pick(addresses(frame).wrapping_add(mix4(frame.fragment_id())), self.share.of);
        if place == self.share.thread {
            self.meet(now, directed, stages, outbox)
        } else {
            Some(Verdict::Handed(Handover { to: place, ingress: Ingress::Meets }))
        }
    }

    /// What becomes of a fragment of a packet that meets the others here, if this is not its thread as well.
    pub(crate) fn meet(
        &mut self,
        now: Time,
        directed: Directed<'_, '_>,
        stages: &[Stage],
        outbox: &mut Outbox,
    ) -> Option<Verdict> {
        let Directed { frame, dir } = directed;
        if !self.meets_others(directed, stages) {
            // By another text of the thread that sent it here.
            return self.elsewhere(now, directed, stages, outbox);
        }
        if frame.fragment() == Fragment::Later {
            return match self.meeting.find(now, directed) {
                Some(owner) => self.hand(owner),
                None => {
                    let ticket = outbox.keep(frame);
                    let gone = self.meeting.wait(now, directed, ticket, addresses(frame));
                    gone.into_iter().for_each(|waiting| outbox.give_way(waiting.frame));
                    Some(Verdict::Kept(ticket))
                }
            };
        }
        let owner = self.owner(directed, stages);
        let entry = match (self.hand(owner), dir) {
            (Some(Verdict::Handed(to)), _) => EntryPoint::Hand(to),
            (_, dir) => EntryPoint::Begin(dir),
        };
        for waited in self.meeting.learn(now, directed, owner) {
            outbox.emit(waited, Then::On(entry));
        }
        self.hand(owner)
    }

    /// When something is due.
    pub(crate) fn due(&self) -> Option<Time> {
        self.meeting.due()
    }

    /// Advances the time: drops fragments that have waited too long.
    pub(crate) fn tick(&mut self, now: Time, outbox: &mut Outbox, drops: &mut Drops) {
        let reason = self.no_first();
        for frame in self.meeting.expire(now) {
            outbox.discard(frame);
            drops.count(reason);
        }
    }
}

/// The NAT of this stage.
fn nat(stages: &[Stage], k: usize) -> &Nat {
    match stages.get(k).and_then(Nat::of) {
        Some(nat) => nat,
        None => unreachable!("they are looked at whenever they are others"),
    }
}

/// The addresses between which a packet went, mixed: the same in either direction.
fn addresses(frame: &Frame<'_>) -> u32 {
    match frame.kind() {
        Kind::V4 => {
            let (src, dst) = frame.addresses4();
            mix4(src).wrapping_add(mix4(dst))
        }
        _ => {
            let (src, dst) = frame.addresses6();
            mix6(src).wrapping_add(mix6(dst))
        }
    }
}

/// The addresses of the packet that an error quotes, or of this packet, mixed.
fn ends(frame: &Frame<'_>) -> u32 {
    let quoted = match frame.kind() {
        Kind::V4 => quoted4(frame).map(|(src, dst)| mix4(src).wrapping_add(mix4(dst))),
        _ => quoted6(frame).map(|(src, dst)| mix6(src).wrapping_add(mix6(dst))),
    };
    quoted.unwrap_or_else(|| addresses(frame))
}
