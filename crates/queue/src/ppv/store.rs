//! Packets in the order of their arrival that can also be taken by their value, each in constant time.

use super::LEVELS;
use super::histogram::level;
use crate::packet::Packet;

const NONE: u32 = u32::MAX;

/// Neighbours in a list.
#[derive(Debug, Clone, Copy)]
struct Links {
    before: u32,
    after: u32,
}

/// First and last of a list.
#[derive(Debug, Clone, Copy)]
struct Ends {
    first: u32,
    last: u32,
}

const EMPTY: Ends = Ends { first: NONE, last: NONE };

#[derive(Debug)]
struct Slot<T> {
    packet: Option<Packet<T>>,
    order: Links,
    same: Links,
}

/// Which of the two lists of a slot.
#[derive(Debug, Clone, Copy)]
enum List {
    Order,
    Same(usize),
}

/// Packets in a list of all and a list of each value.
#[derive(Debug)]
pub(crate) struct Store<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    order: Ends,
    same: Box<[Ends; LEVELS]>,
    /// A bit for each value that has packets.
    present: [u64; LEVELS / 64],
}

impl<T> Store<T> {
    pub(crate) fn new() -> Store<T> {
        Store {
            slots: Vec::new(),
            free: Vec::new(),
            order: EMPTY,
            same: Box::new([EMPTY; LEVELS]),
            present: [0; LEVELS / 64],
        }
    }

    pub(crate) fn push(&mut self, packet: Packet<T>) {
        let value = level(packet.value);
        let links = Links { before: NONE, after: NONE };
        let slot = Slot { packet: Some(packet), order: links, same: links };
        let at = match self.free.pop() {
            Some(at) => {
                self.slots[at as usize] = slot;
                at
            }
            None => {
                self.slots.push(slot);
                self.slots.len() as u32 - 1
            }
        };
        self.append(List::Order, at);
        self.append(List::Same(value), at);
        self.present[value / 64] |= 1 << (value % 64);
    }

    /// The packet that came first.
    pub(crate) fn pop(&mut self) -> Option<Packet<T>> {
        self.remove(self.order.first)
    }

    /// The first packet of the lowest value.
    pub(crate) fn pop_lowest(&mut self) -> Option<Packet<T>> {
        let value = self.lowest()?;
        self.remove(self.same[value].first)
    }

    /// The lowest value that has packets.
    pub(crate) fn lowest(&self) -> Option<usize> {
        let word = self.present.iter().position(|&bits| bits != 0)?;
        Some(word * 64 + self.present[word].trailing_zeros() as usize)
    }

    fn remove(&mut self, at: u32) -> Option<Packet<T>> {
        let packet = self.slots.get_mut(at as usize)?.packet.take()?;
        let value = level(packet.value);
        self.unlink(List::Order, at);
        self.unlink(List::Same(value), at);
        if self.same[value].first == NONE {
            self.present[value / 64] &= !(1 << (value % 64));
        }
        self.free.push(at);
        Some(packet)
    }

    fn ends(&mut self, list: List) -> &mut Ends {
        match list {
            List::Order => &mut self.order,
            List::Same(value) => &mut self.same[value],
        }
    }

    fn links(&mut self, list: List, at: u32) -> &mut Links {
        let slot = &mut self.slots[at as usize];
        match list {
            List::Order => &mut slot.order,
            List::Same(_) => &mut slot.same,
        }
    }

    fn append(&mut self, list: List, at: u32) {
        let last = self.ends(list).last;
        if last == NONE {
            self.ends(list).first = at;
        } else {
            self.links(list, last).after = at;
        }
        *self.links(list, at) = Links { before: last, after: NONE };
        self.ends(list).last = at;
    }

    fn unlink(&mut self, list: List, at: u32) {
        let Links { before, after } = *self.links(list, at);
        if before == NONE {
            self.ends(list).first = after;
        } else {
            self.links(list, before).after = after;
        }
        if after == NONE {
            self.ends(list).last = before;
        } else {
            self.links(list, after).before = before;
        }
    }
}
