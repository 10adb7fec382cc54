//! All slots, and how they are found from the inside.

use weir_memory::prefetch;

use super::slot::{Inside, Kind, Remote, Slot};
use crate::table::arena::Arena;
use crate::table::index::Index;
use crate::table::secret::Secret;

/// Slots by number. Number 0 stands for none.
pub(crate) struct Sessions {
    slots: Arena<Slot>,
    /// By slot, another number each time it becomes another one, or its state changes.
    epochs: Arena<u32>,
    /// Numbers of slots with another epoch, if a fast path asks for them.
    pub(super) renewed: Option<Vec<u32>>,
    /// The slot given back last, or 0; in its place of the time it says which was given back before.
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

    /// The hash under which the mapping of an inside end lies.
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

    /// The hash under which a slot lies.
    fn hash_of(&self, secret: &Secret, number: u32) -> u32 {
        let slot = &self.slots[number];
        match slot.kind() {
            Kind::Mapping => Sessions::hash(secret, &slot.inside()),
            _ => Sessions::hash_with(secret, &slot.inside(), slot.remote()),
        }
    }

    /// Whether they are more than a second-level cache holds, so that it pays to ask for what is needed next.
    #[inline]
    pub(crate) fn is_large(&self) -> bool {
        self.slots.len() > 1 << 13
    }

    /// Asks for the line where a hash leads, so that it is on its way.
    #[inline]
    pub(crate) fn touch(&self, hash: u32) {
        self.index.touch(hash);
    }

    /// Asks for a slot, so that it is on its way.
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

    /// Takes a slot in.
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

    /// Lets a slot be found under another hash, too.
    pub(crate) fn add_hash(&mut self, hash: u32, number: u32) {
        self.index.insert(hash, number);
    }

    /// And no longer.
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

    /// What is known of a slot from outside holds no more.
    #[cold]
    pub(crate) fn renew(&mut self, number: u32) {
        self.epochs[number] = self.epochs[number].wrapping_add(1);
        if let Some(renewed) = &mut self.renewed {
            renewed.push(number);
        }
    }

    /// Takes a slot away.
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
