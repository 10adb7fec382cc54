//! A thread and its control program: frames that are punted to it, and frames that it injects, by rings in shared memory. The
//! program is another process, which may be stopped or killed at any instant and may write anything into the rings.
//!
//! ```text
//!   turn: verdicts > queue by reason > ring of punts, the most important reason first, one commit at the end
//!         ring of injections > at most 64 a turn > Leave: out[port];   Enter: a separate batch
//! ```
//! Invariant: this thread never waits for the program. What finds no room is dropped and counted; the contents of a ring are
//! judged as frames off the wire are. A program whose ring is damaged is detached, as is one that has ended.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};

use weir_plane::{DropReason, PortId, PuntReason};
use weir_port::duplex::Chunk;
use weir_punt::{Consumer, Damage, How, Injection, Injections, Producer, Punt, Punts, Refused, Tag, Tags};

use super::Worker;
use crate::handover::Origin;
use crate::kept::in_chunk;

/// Frames that are taken from the ring of injections in one turn; they fit into one batch.
const IN_TURN: usize = 64;
/// Bytes of an Ethernet header without tags, and of its addresses.
const ETHERNET: usize = 14;
const MACS: usize = 12;
/// EtherTypes of tags: IEEE 802.1Q, 802.1ad, and an older one for outer tags.
const TPIDS: [u16; 3] = [0x8100, 0x88a8, 0x9100];

/// Names one attachment of a control program among all of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AttachmentId(pub u64);

/// The node's ends of the rings of a thread.
pub(crate) struct ControlEnd {
    pub(crate) id: AttachmentId,
    pub(crate) punts: PuntRing,
    pub(crate) injections: Consumer<Injections>,
    /// By port, the length of its longest frame without tags.
    pub(crate) longest: Vec<usize>,
    /// An injected frame with its tags.
    pub(crate) frame: Vec<u8>,
    /// The program has ended, or has closed its end.
    pub(crate) is_closed: bool,
    /// The node is about to end: nothing new comes in.
    pub(crate) is_draining: bool,
}

/// The ring of punts. A reason has at most as many slots as are free (the dynamic thresholds of Choudhury and Hahne, 1998): while
/// the program is slow a flood of one reason gets half of the ring, of two a third each, and there is room for the next reason.
pub(crate) struct PuntRing {
    ring: Producer<Punts>,
    /// Reasons of the records that the program has not taken, in their order, and how many there are of each.
    waiting: VecDeque<PuntReason>,
    held: [u64; PuntReason::ALL.len()],
}

impl PuntRing {
    /// An empty one.
    pub(crate) fn new(ring: Producer<Punts>) -> PuntRing {
        let slots = ring.geometry().slots() as usize;
        PuntRing { ring, waiting: VecDeque::with_capacity(slots), held: Default::default() }
    }

    /// Forgets the records that the program has taken.
    #[expect(clippy::indexing_slicing, reason = "there is a count for each reason")]
    fn look(&mut self) {
        let waiting = self.ring.waiting() as usize;
        while self.waiting.len() > waiting
            && let Some(reason) = self.waiting.pop_front()
        {
            self.held[reason as usize] -= 1;
        }
    }

    /// Puts a record in.
    ///
    /// # Errors
    /// The reason to drop its frame.
    #[expect(clippy::indexing_slicing, reason = "there is a count for each reason")]
    fn push(&mut self, reason: PuntReason, punt: &Punt<'_>) -> Result<(), DropReason> {
        let held = &mut self.held[reason as usize];
        let free = self.ring.geometry().slots().saturating_sub(self.waiting.len() as u64);
        if *held >= free {
            return Err(DropReason::PuntFull);
        }
        self.ring.push(punt).map_err(|refused| match refused {
            Refused::Full => DropReason::PuntFull,
            // Longer than the longest frame of any port.
            Refused::TooLong => DropReason::TooBig,
        })?;
        *held += 1;
        self.waiting.push_back(reason);
        Ok(())
    }
}

/// Frames of this turn for the control program, by reason.
#[derive(Default)]
pub(super) struct PuntQueues([Vec<Queued>; PuntReason::ALL.len()]);

/// A frame that waits for the end of a turn.
pub(super) struct Queued {
    pub(super) chunk: Chunk,
    pub(super) port: PortId,
    pub(super) arrival_ns: u64,
}

impl PuntQueues {
    /// One more.
    #[cold]
    #[expect(clippy::indexing_slicing, reason = "there is a queue for each reason")]
    pub(super) fn push(&mut self, reason: PuntReason, frame: Queued) {
        self.0[reason as usize].push(frame);
    }

    fn is_empty(&self) -> bool {
        self.0.iter().all(Vec::is_empty)
    }

    /// All of them, those of the first reason first.
    fn drain(&mut self) -> impl Iterator<Item = (PuntReason, Queued)> {
        let queues = PuntReason::ALL.into_iter().zip(&mut self.0);
        queues.flat_map(|(reason, queue)| queue.drain(..).map(move |frame| (reason, frame)))
    }
}

/// How a thread and its control program are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ControlState {
    /// The program that is attached, if one is.
    pub attached: Option<AttachmentId>,
    /// What was found in the rings of the last program that was detached because of it.
    pub damage: Vec<Damage>,
}

impl ControlEnd {
    fn damage(&self) -> Vec<Damage> {
        let both = [self.punts.ring.damage(), self.injections.damage()];
        Damage::ALL.into_iter().filter(|&kind| both.iter().any(|counts| counts.of(kind) > 0)).collect()
    }
}

impl Worker {
    /// From now on frames go to another control program, and come from it; returns the ends of the one before.
    pub(crate) fn attach_control(&mut self, control: Box<ControlEnd>) -> Option<Box<ControlEnd>> {
        let before = self.take_control();
        self.control = Some(control);
        self.plane.set_control(true);
        before
    }

    /// There is no control program any more, if it is this one; returns its ends.
    pub(crate) fn detach_control(&mut self, id: AttachmentId) -> Option<Box<ControlEnd>> {
        if self.control.as_ref()?.id == id { self.take_control() } else { None }
    }

    /// How it is with the control program.
    pub(crate) fn control_state(&self) -> ControlState {
        let attached = self.control.as_ref().map(|control| control.id);
        ControlState { attached, damage: self.control_damage.clone() }
    }

    /// There is no control program any more; what was to go to it is dropped.
    fn take_control(&mut self) -> Option<Box<ControlEnd>> {
        let control = self.control.take()?;
        self.plane.set_control(false);
        self.drop_punts();
        Some(control)
    }

    /// There is no control program for the frames of this turn.
    #[cold]
    fn drop_punts(&mut self) {
        for (reason, Queued { chunk, .. }) in self.to_control.drain() {
            self.plane.punt_failed(reason, DropReason::NoControl);
            self.pool.give_back(chunk);
        }
    }

    /// Gives the control program what is its own, the queue of the first reason first.
    pub(super) fn leave_to_control(&mut self) {
        if !self.to_control.is_empty() {
            self.punt();
        }
    }

    #[cold]
    fn punt(&mut self) {
        let Some(control) = &mut self.control else { return self.drop_punts() };
        control.punts.look();
        for (reason, Queued { chunk, port, arrival_ns }) in self.to_control.drain() {
            let (tags, bytes) = untag(self.pool.bytes_mut(&chunk));
            let punt = Punt { reason: reason.number(), port: port.0, tags, arrival_ns, bytes };
            if let Err(why) = control.punts.push(reason, &punt) {
                self.plane.punt_failed(reason, why);
            }
            self.pool.give_back(chunk);
        }
        control.punts.ring.commit();
    }

    /// Some of what the control program has injected leaves, or passes the plane; false if there was nothing.
    pub(super) fn hear_control(&mut self) -> bool {
        let Some(mut control) = self.control.take() else { return false };
        if control.is_draining {
            self.control = Some(control);
            return false;
        }
        let ControlEnd { injections, longest, frame, .. } = &mut *control;
        let taken = injections.take(IN_TURN, |injection| match with_tags(&injection, longest, frame) {
            Some(port) => self.inject(injection.how, port, frame),
            None => self.plane.injection_dropped(DropReason::InjectedInvalid),
        });
        let is_over = control.is_closed && taken == 0;
        self.control = Some(control);
        if !self.arrived.is_empty() {
            self.are_injected = true;
            self.pass();
        }
        self.judge_control(is_over);
        taken > 0
    }

    fn inject(&mut self, how: How, port: PortId, frame: &[u8]) {
        let Some(chunk) = in_chunk(&mut self.pool, frame) else {
            return self.plane.injection_dropped(DropReason::NoMemory);
        };
        match (how, self.out.get_mut(usize::from(port.0))) {
            (How::Leave, Some(out)) => {
                out.push(chunk);
                self.plane.injected_leaves();
            }
            _ => {
                self.arrived.push(chunk);
                self.arrived_by.push(Origin::wire(port));
            }
        }
    }

    /// A program that has ended or whose rings are damaged is detached.
    fn judge_control(&mut self, is_over: bool) {
        let damage = self.control.as_ref().map(|control| control.damage()).unwrap_or_default();
        if !damage.is_empty() {
            self.damaged += 1;
            self.control_damage = damage;
            self.take_control();
        } else if is_over {
            self.take_control();
        }
    }

    /// Whether the thread may sleep: the control program has injected nothing, and will wake it when it does.
    pub(super) fn control_may_sleep(&self) -> bool {
        self.control.as_ref().is_none_or(|control| control.injections.may_sleep())
    }

    /// What the control program wakes the thread by.
    pub(super) fn control_descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.control.as_ref().map(|control| control.injections.as_fd())
    }

    /// The thread is awake; notices when the control program has ended, for which there is something to read.
    pub(super) fn control_woke(&mut self, is_readable: bool) {
        match &mut self.control {
            Some(control) if is_readable => control.is_closed |= !control.injections.woke(),
            Some(control) => control.injections.woke_otherwise(),
            None => {}
        }
    }

    /// Nothing new comes in from the control program.
    pub(super) fn drain_control(&mut self) {
        if let Some(control) = &mut self.control {
            control.is_draining = true;
        }
    }
}

/// Takes the tags out of a frame: they, and the frame without them.
fn untag(frame: &mut [u8]) -> (Tags, &[u8]) {
    let tag = |at: usize| {
        let [a, b, c, d] = *frame.get(at..)?.first_chunk()?;
        let [tpid, tci] = [[a, b], [c, d]].map(u16::from_be_bytes);
        TPIDS.contains(&tpid).then_some(Tag { tpid, tci })
    };
    let (tags, bytes) = match (tag(MACS), tag(MACS + 4)) {
        (None, _) => return (Tags::Untagged, frame),
        (Some(outer), None) => (Tags::One(outer), 4),
        (Some(outer), Some(inner)) => (Tags::Two { outer, inner }, 8),
    };
    // A tag stands behind them.
    frame.copy_within(..MACS, bytes);
    (tags, frame.get(bytes..).unwrap_or_default())
}

/// Writes an injected frame with its tags; returns its port, or `None` if there is no such port, the port takes no frame of this
/// length, or a tag is none.
fn with_tags(injection: &Injection<'_>, longest: &[usize], frame: &mut Vec<u8>) -> Option<PortId> {
    let Injection { port, tags, bytes, .. } = injection;
    let longest = *longest.get(usize::from(*port))?;
    let (macs, rest) = bytes.split_at_checked(MACS)?;
    if !(ETHERNET..=longest).contains(&bytes.len()) {
        return None;
    }
    let tags = match *tags {
        Tags::Untagged => [None, None],
        Tags::One(outer) => [Some(outer), None],
        Tags::Two { outer, inner } => [Some(outer), Some(inner)],
    };
    frame.clear();
    frame.extend_from_slice(macs);
    for Tag { tpid, tci } in tags.into_iter().flatten() {
        if !TPIDS.contains(&tpid) {
            return None;
        }
        frame.extend([tpid, tci].iter().flat_map(|field| field.to_be_bytes()));
    }
    frame.extend_from_slice(rest);
    Some(PortId(*port))
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Tag = Tag { tpid: 0x88a8, tci: 0xe007 };
    const C: Tag = Tag { tpid: 0x8100, tci: 9 };
    const LONGEST: [usize; 2] = [1514, 100];

    #[test]
    fn tags_are_taken_out_and_written_as_they_were() {
        let two = Tags::Two { outer: S, inner: C };
        for (tags, middle) in [
            (Tags::Untagged, &[][..]),
            (Tags::One(C), &[0x81, 0, 0, 9]),
            (two, &[0x88, 0xa8, 0xe0, 7, 0x81, 0, 0, 9]),
        ] {
            let plain = [&[2, 2, 2, 2, 2, 2, 4, 4, 4, 4, 4, 4, 8, 6][..], &[7; 46]].concat();
            let mut tagged = [&plain[..12], middle, &plain[12..]].concat();
            let before = tagged.clone();
            assert_eq!(untag(&mut tagged), (tags, &plain[..]));
            let injection = Injection { how: How::Leave, port: 1, tags, bytes: &plain };
            let mut frame = vec![9; 3];
            assert_eq!(with_tags(&injection, &LONGEST, &mut frame), Some(PortId(1)));
            assert_eq!(frame, before);
        }
        // A third tag stays in the frame.
        let three = [&[2; 12][..], &[0x88, 0xa8, 0xe0, 7, 0x81, 0, 0, 9, 0x81, 0, 0xe0, 0, 8, 6]].concat();
        assert_eq!(untag(&mut three.clone()), (two, &[&[2; 12][..], &three[20..]].concat()[..]));
    }

    #[test]
    fn what_does_not_fit_a_port_is_invalid() {
        let fits = |port, length, tags| {
            let bytes = vec![2; length];
            let injection = Injection { how: How::Enter, port, tags, bytes: &bytes };
            with_tags(&injection, &LONGEST, &mut Vec::new()).is_some()
        };
        let odd = Tag { tpid: 0x0800, tci: 7 };
        for (port, length, tags, expected) in [
            (0, 14, Tags::Untagged, true),
            (0, 13, Tags::Untagged, false),
            (0, 0, Tags::Untagged, false),
            (0, 1514, Tags::Two { outer: S, inner: C }, true),
            (0, 1515, Tags::Untagged, false),
            (1, 100, Tags::One(C), true),
            (1, 101, Tags::Untagged, false),
            (2, 60, Tags::Untagged, false),
            (u16::MAX, 60, Tags::Untagged, false),
            (0, 60, Tags::One(odd), false),
            (0, 60, Tags::Two { outer: S, inner: odd }, false),
        ] {
            assert_eq!(fits(port, length, tags), expected, "{port} {length} {tags:?}");
        }
    }
}
