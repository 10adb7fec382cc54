//! Frames that stages keep and emit later. Nothing of a frame is copied: its bytes stay in the memory that it came in, and
//! the stage has a number for it.
//!
//! ```text
//! Step::keep           > Ticket and verdict   > the caller of the plane sets the frame's memory aside, see `Shelf`
//! Outbox::emit(then)   > Plane::next_emitted  > the memory comes back by Plane::resume, and the frame goes on as `then` says
//! Outbox::discard      > Plane::next_emitted  > the memory is free
//! ```
//! Frames of the node's own are kept alike; their memory is here.
//!
//! Invariant: a ticket stands for one frame, from `keep` until that comes back, or until the caller of the plane has been told
//! that its memory is free. `then` names a stage by its number in the present text: where the text changes, all are
//! renumbered in the same call, see [`KeptFrames::renumber`].
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::collections::{HashMap, HashSet, VecDeque};

use weir_memory::{LargeVec, prefetch};
use weir_packet::frame::Mac;

use crate::dir::EntryPoint;
use crate::drops::DropReason;
use crate::frame::{Frame, HEAD_ROOM, Known, PortId};
use crate::icmp::Error;

/// A frame that a stage keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u32);

impl Ticket {
    pub(crate) fn of(number: usize) -> Ticket {
        Ticket(number as u32)
    }

    /// Small: the number of a ticket that is free is used again.
    pub(crate) fn number(self) -> usize {
        self.0 as usize
    }
}

/// What is to be done with the memory of a frame that was kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Emitted {
    /// It comes back, by [`crate::Plane::resume`].
    Back(Ticket),
    /// The frame was dropped: the memory is free.
    Free(Ticket),
}

/// The memory of frames that are kept, by their tickets, as the caller of a plane holds it.
#[derive(Debug)]
pub struct Shelf<B>(Vec<Option<B>>);

impl<B> Default for Shelf<B> {
    fn default() -> Shelf<B> {
        Shelf(Vec::new())
    }
}

impl<B> Shelf<B> {
    /// Sets the memory of a frame aside.
    ///
    /// # Panics
    /// If there is some under this ticket.
    pub fn put(&mut self, ticket: Ticket, memory: B) {
        let at = ticket.number();
        if self.0.len() <= at {
            self.0.resize_with(at + 1, || None);
        }
        let before = self.0.get_mut(at).and_then(|place| place.replace(memory));
        assert!(before.is_none(), "one frame under a ticket");
    }

    /// Takes the memory of a frame back.
    ///
    /// # Panics
    /// If there is none under this ticket.
    #[expect(clippy::expect_used, reason = "a plane names only what it has said to keep")]
    pub fn take(&mut self, ticket: Ticket) -> B {
        self.0.get_mut(ticket.number()).and_then(Option::take).expect("it was set aside")
    }

    /// Takes all out.
    pub fn drain(&mut self) -> impl Iterator<Item = B> {
        self.0.drain(..).flatten()
    }
}

/// What follows for a frame that was kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    /// It goes on there.
    On(EntryPoint),
    /// The same with the mark that a queue is too long (RFC 3168).
    Marked(EntryPoint),
    /// It is whole but for the Ethernet address of its receiver, and leaves by this port.
    Leave(PortId, Mac),
    /// It is whole and leaves by this port, perhaps with the mark of congestion.
    Whole { port: PortId, is_marked: bool },
    /// It goes no further, and its sender is informed; the error enters the pipeline there.
    Refuse(DropReason, Error, EntryPoint),
}

/// A frame of the node's own on its way.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Originated {
    pub(crate) then: Then,
    /// It counts as received by the port that is in here.
    pub(crate) known: Known,
    /// With [`crate::frame::HEAD_ROOM`] bytes free in front.
    pub(crate) buf: Vec<u8>,
}

/// The owner of the memory of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Memory {
    /// The ticket is not in use.
    Unused,
    /// The caller of the plane.
    Away,
    /// The plane, in `here`.
    Here,
    /// The batch of the plane's own frames, which runs.
    InBatch,
    /// The plane. It is freed when the batch of the plane's own frames is through.
    Discarded,
    /// Lost by a panic.
    Lost,
}

/// What is known of a kept frame, in one cache line: frames leave in another order than they came.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Slot {
    memory: Memory,
    known: Known,
    /// What becomes of it, once that is decided.
    then: Option<Then>,
    /// The epoch in which it was kept, modulo 2.
    parity: u8,
}

const _: () = assert!(size_of::<Slot>() == 64);

/// The frames that stages keep.
#[derive(Debug, Default)]
pub(crate) struct KeptFrames {
    slots: LargeVec<Slot>,
    unused: Vec<Ticket>,
    /// Bytes of frames that the node has made, with head room in front.
    here: HashMap<Ticket, Vec<u8>>,
    emitted: VecDeque<Emitted>,
    /// Those of the present batch: the caller has not set their memory aside yet.
    fresh: Vec<Ticket>,
    /// The frames at work are the node's own.
    pub(crate) is_originated: bool,
    /// See [`KeptFrames::epoch`].
    epoch: u64,
    /// In the present epoch there was a moment at which no copy was kept.
    had_no_copies: bool,
    /// How many frames are kept of the present epoch and of the one before, by parity.
    of_epochs: [u64; 2],
}

/// The result of a decision about a frame.
pub(crate) enum Decided {
    /// The caller of the plane brings the frame, or was told that its memory is free.
    Later,
    /// It is here.
    Now(Originated),
    /// It was lost before.
    Lost,
}

#[expect(clippy::indexing_slicing, reason = "a ticket is the number of a slot")]
impl KeptFrames {
    /// A call begins: the caller has set the memory of all frames before it aside. Stages keep so many frames, copies that have
    /// no tickets among them.
    pub(crate) fn begin(&mut self, all: u64) {
        self.fresh.clear();
        self.had_no_copies |= all <= self.of_epochs.iter().sum();
        let before = (self.epoch as usize + 1) % 2;
        if self.of_epochs[before] == 0 && self.had_no_copies {
            self.epoch += 1;
            self.had_no_copies = false;
        }
    }

    /// It grows from batch to batch as long as the frames do that were kept before. When it has grown by two, none is kept any more
    /// that was kept, or came, before that.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// A ticket for a frame of the batch at work.
    pub(crate) fn keep(&mut self, frame: &Frame<'_>) -> Ticket {
        let memory = if self.is_originated { Memory::InBatch } else { Memory::Away };
        let ticket = self.ticket(memory, frame.known());
        if !self.is_originated {
            self.fresh.push(ticket);
        }
        ticket
    }

    /// A ticket for a frame that the node has made, with head room in front.
    pub(crate) fn keep_made(&mut self, known: Known, buf: Vec<u8>) -> Ticket {
        let ticket = self.ticket(Memory::Here, known);
        self.here.insert(ticket, buf);
        ticket
    }

    fn ticket(&mut self, memory: Memory, known: Known) -> Ticket {
        let parity = (self.epoch % 2) as u8;
        self.of_epochs[usize::from(parity)] += 1;
        let slot = Slot { memory, known, then: None, parity };
        match self.unused.pop() {
            Some(ticket) => {
                self.slots[ticket.number()] = slot;
                ticket
            }
            None => Ticket(self.slots.push(slot)),
        }
    }

    /// Takes a frame of the node's own that a stage has kept, as it left the batch; it may be to go on already.
    pub(crate) fn set_aside(&mut self, ticket: Ticket, frame: &[u8]) -> Option<Originated> {
        let slot = &mut self.slots[ticket.number()];
        let buf = [&[0; HEAD_ROOM], frame].concat();
        match (slot.then, slot.memory) {
            (_, Memory::Discarded) => {
                self.forget(ticket);
                None
            }
            (Some(then), _) => {
                let known = slot.known;
                self.forget(ticket);
                Some(Originated { then, known, buf })
            }
            (None, _) => {
                slot.memory = Memory::Here;
                self.here.insert(ticket, buf);
                None
            }
        }
    }

    fn forget(&mut self, ticket: Ticket) -> Slot {
        let slot = &mut self.slots[ticket.number()];
        let known = *slot;
        (slot.memory, slot.then) = (Memory::Unused, None);
        self.of_epochs[usize::from(known.parity)] -= 1;
        self.unused.push(ticket);
        if known.memory == Memory::Here {
            self.here.remove(&ticket);
        }
        known
    }

    /// A frame goes on.
    pub(crate) fn emit(&mut self, ticket: Ticket, then: Then) -> Decided {
        let slot = &mut self.slots[ticket.number()];
        debug_assert!(slot.then.is_none(), "it is decided once");
        match slot.memory {
            Memory::Away => {
                slot.then = Some(then);
                self.emitted.push_back(Emitted::Back(ticket));
                Decided::Later
            }
            Memory::Here => {
                let buf = self.here.remove(&ticket).unwrap_or_default();
                let Slot { known, .. } = self.forget(ticket);
                Decided::Now(Originated { then, known, buf })
            }
            Memory::InBatch => {
                slot.then = Some(then);
                Decided::Later
            }
            Memory::Lost => {
                self.forget(ticket);
                Decided::Lost
            }
            Memory::Unused | Memory::Discarded => unreachable!("no stage has this ticket"),
        }
    }

    /// A frame goes no further.
    pub(crate) fn discard(&mut self, ticket: Ticket) {
        match self.slots[ticket.number()].memory {
            Memory::Away => self.emitted.push_back(Emitted::Free(ticket)),
            Memory::InBatch => self.slots[ticket.number()].memory = Memory::Discarded,
            Memory::Here | Memory::Lost => _ = self.forget(ticket),
            Memory::Unused | Memory::Discarded => unreachable!("no stage has this ticket"),
        }
    }

    /// The numbers of stages change: frames that are on their way back enter where `entry` maps their entry point to.
    pub(crate) fn renumber(&mut self, entry: impl Fn(EntryPoint) -> EntryPoint) {
        for then in self.slots.iter_mut().filter_map(|slot| slot.then.as_mut()) {
            match then {
                Then::On(at) | Then::Marked(at) | Then::Refuse(_, _, at) => *at = entry(*at),
                Then::Leave(..) | Then::Whole { .. } => {}
            }
        }
    }

    /// What is to be done with the memory of the next frame for which something is.
    pub(crate) fn next_emitted(&mut self) -> Option<Emitted> {
        let emitted = self.emitted.pop_front()?;
        if let Emitted::Free(ticket) = emitted {
            self.forget(ticket);
        }
        Some(emitted)
    }

    /// A frame has come back: what is known of it, and what becomes of it.
    #[expect(clippy::expect_used, reason = "the caller brings what the plane has asked for")]
    pub(crate) fn redeem(&mut self, ticket: Ticket) -> (Known, Then) {
        let Slot { known, then, .. } = self.forget(ticket);
        (known, then.expect("it was decided"))
    }

    /// Prefetches what is known of a frame that is kept.
    #[inline]
    pub(crate) fn touch(&self, ticket: Ticket) {
        self.slots.get(ticket.number()).into_iter().for_each(prefetch);
    }

    /// A frame that is kept is of this class.
    pub(crate) fn classify(&mut self, ticket: Ticket, class: u8) {
        self.slots[ticket.number()].known.class = class;
    }

    /// What is known of a frame that is kept.
    pub(crate) fn known(&self, ticket: Ticket) -> Known {
        self.slots[ticket.number()].known
    }

    /// Goes on after a panic, where stages have these tickets; returns how many frames are on their way back.
    pub(crate) fn recover(&mut self, alive: &HashSet<Ticket>) -> u64 {
        self.is_originated = false;
        let fresh: HashSet<Ticket> = self.fresh.drain(..).collect();
        // The caller of the plane has thrown the batch away, and knows no ticket of it.
        self.emitted.retain(|emitted| match emitted {
            Emitted::Back(ticket) | Emitted::Free(ticket) => !fresh.contains(ticket),
        });
        let of = |&(Emitted::Back(ticket) | Emitted::Free(ticket)): &Emitted| ticket;
        let on_the_way: HashSet<Ticket> = self.emitted.iter().map(of).collect();
        for n in 0..self.slots.len() {
            let ticket = Ticket::of(n);
            let is_there = match self.slots[n].memory {
                Memory::Unused => continue,
                Memory::Away => !fresh.contains(&ticket),
                Memory::Here => true,
                Memory::InBatch | Memory::Discarded | Memory::Lost => false,
            };
            match (alive.contains(&ticket), is_there) {
                (true, false) => self.slots[n].memory = Memory::Lost,
                (true, true) => {}
                (false, true) if self.slots[n].memory == Memory::Away => {
                    if !on_the_way.contains(&ticket) {
                        self.emitted.push_back(Emitted::Free(ticket));
                    }
                }
                (false, _) => _ = self.forget(ticket),
            }
        }
        self.emitted.iter().filter(|emitted| matches!(emitted, Emitted::Back(_))).count() as u64
    }
}
