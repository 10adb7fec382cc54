//! All slots, and how they are found from the inside.

use weir_memory::prefetch;

use super::slot::{Inside, Kind, Remote, Slot};
use crate::table::arena::Arena;
use crate::table::index::Index;
use crate::table::secret::Secret;

/// Slots by number. Number 0 stands for none.
pub(crate) struct Sessions {
    slots: Arena<Slot>,
    /// By slot, a number that changes whenever the slot is used by another session, or its state changes.
    epochs: Arena<u32>,
    /// Numbers of slots with another epoch, if a fast path asks for them.
    pub(super) renewed: Option<Vec<u32>>,
    /// The slot that was freed last, or 0; in place of the time it has the one that was freed before.
    free: u32,
    index: Index,
    live: u32,
}

impl Sessions {
    pub(crate) fn new() -> Sessions {
        let mut slots = Arena::new();
        slots.push(Slot::FREE);
        let mut epochs = Arena::new();
        epochs.push(0);
        Sessions { slots, epochs, renewed: None, free: 0, index: Index::new(), live: 0 }
    }

    /// Slots in use.
    pub(crate) fn live(&self) -> u32 {
        self.live
    }

    /// One more than the highest number so far.
    pub(crate) fn numbers(&self) -> u32 {
        self.slots.len()
    }

    /// Bytes in use.
    pub(crate) fn bytes(&self) -> usize {
        self.slots.len() as usize * size_of::<Slot>() + self.index.bytes()
    }

    /// The hash of the mapping of an inside end.
    #[inline]
    pub(crate) fn hash(secret: &Secret, inside: &Inside) -> u32 {
        secret.hash(inside.address, u64::from(inside.port) << 8 | u64::from(inside.proto))
    }

    /// The hash of a session with its remote end.
    #[inline]
    pub(crate) fn hash_with(secret: &Secret, inside: &Inside, remote: Remote) -> u32 {
        let [a, b, c, d] = inside.address;
        let rest = u64::from(remote.port) << 32 | u64::from(inside.port) << 8 | u64::from(inside.proto);
        secret.hash([a, b ^ remote.address, c, d], rest | 1 << 63)
    }

    /// The hash of a slot.
    fn hash_of(&self, secret: &Secret, number: u32) -> u32 {
        let slot = &self.slots[number];
        match slot.kind() {
            Kind::Mapping => Sessions::hash(secret, &slot.inside()),
            _ => Sessions::hash_with(secret, &slot.inside(), slot.remote()),
        }
    }

    /// Whether the table is larger than a second-level cache, so that prefetching pays.
    #[inline]
    pub(crate) fn is_large(&self) -> bool {
        self.slots.len() > 1 << 13
    }

    /// Prefetches the index line of a hash.
    #[inline]
    pub(crate) fn touch(&self, hash: u32) {
        self.index.touch(hash);
    }

    /// Prefetches a slot.
    #[inline]
    pub(crate) fn touch_slot(&self, number: u32) {
        prefetch(&self.slots[number]);
    }

    /// The likely slot of a hash; it may be another flow's.
    #[inline]
    pub(crate) fn first(&self, hash: u32) -> u32 {
        self.index.first(hash)
    }

    /// The mapping of an inside end, or 0.
    #[inline]
    pub(crate) fn mapping(&self, hash: u32, inside: &Inside) -> u32 {
        self.index.find(hash, |number| self.slots[number].is(inside, Kind::Mapping))
    }

    /// The slot of this kind for these two ends, or 0.
    #[inline]
    pub(crate) fn session(&self, secret: &Secret, inside: &Inside, remote: Remote, kind: Kind) -> u32 {
        let is = |number| {
            let slot: &Slot = &self.slots[number];
            slot.is(inside, kind) && slot.remote() == remote
        };
        self.index.find(Sessions::hash_with(secret, inside, remote), is)
    }

    /// Inserts a slot, and returns its number.
    pub(crate) fn insert(&mut self, secret: &Secret, slot: Slot) -> u32 {
        let number = match self.free {
            0 => {
                self.epochs.push(0);
                self.slots.push(slot)
            }
            number => {
                self.free = self.slots[number].seen.0;
                self.slots[number] = slot;
                number
            }
        };
        self.index.insert(self.hash_of(secret, number), number);
        self.live += 1;
        number
    }

    /// Makes a slot known by another hash, too.
    pub(crate) fn add_hash(&mut self, hash: u32, number: u32) {
        self.index.insert(hash, number);
    }

    /// Removes that hash.
    pub(crate) fn remove_hash(&mut self, hash: u32, number: u32) {
        self.index.remove(hash, number);
    }

    /// The slot under a hash for which `is` is true, or 0.
    pub(crate) fn find(&self, hash: u32, is: impl Fn(&Slot) -> bool) -> u32 {
        self.index.find(hash, |number| is(&self.slots[number]))
    }

    /// The epoch of a slot.
    pub(crate) fn epoch(&self, number: u32) -> u32 {
        self.epochs[number]
    }

    /// The epoch of a slot changes: what was derived from it is not valid any more.
    #[cold]
    pub(crate) fn renew(&mut self, number: u32) {
        self.epochs[number] = self.epochs[number].wrapping_add(1);
        if let Some(renewed) = &mut self.renewed {
            renewed.push(number);
        }
    }

    /// Removes a slot.
    pub(crate) fn remove(&mut self, secret: &Secret, number: u32) {
        self.renew(number);
        self.index.remove(self.hash_of(secret, number), number);
        self.slots[number] = Slot::free(self.free);
        self.free = number;
        self.live -= 1;
    }
}

impl std::ops::Index<u32> for Sessions {
    type Output = Slot;

    #[inline]
    fn index(&self, number: u32) -> &Slot {
        &self.slots[number]
    }
}

impl std::ops::IndexMut<u32> for Sessions {
    #[inline]
    fn index_mut(&mut self, number: u32) -> &mut Slot {
        &mut self.slots[number]
    }
}
