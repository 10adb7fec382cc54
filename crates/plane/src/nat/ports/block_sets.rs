//! The sets of all addresses: how they come, are found, and go when no block of theirs is in use any more.

use super::super::block_set::{Block, BlockId, BlockSet, Generation};
use super::{MOST_SETS, Pool};
use crate::table::timers::Tick;

/// Blocks of retired sets that one call looks at.
const WALK: usize = 256;

impl Pool {
    /// Whether the address with this number, or a new address, can have one more set.
    pub(crate) fn has_room(&self, outside: Option<u16>) -> bool {
        outside.is_none_or(|outside| self.line(self.newest(outside)).count() < Generation::MOST)
    }

    /// How many more sets there can be.
    pub(crate) fn room(&self) -> usize {
        MOST_SETS - self.sets.len() + self.spare.len()
    }

    /// Ports of an outside address are allocated from this set from now on: its sessions stay.
    pub(crate) fn put(&mut self, outside: u16, mut set: BlockSet) {
        self.withdraw(outside);
        set.outside = outside;
        set.sharding(self.share.thread, self.sharding);
        set.older = self.newest(outside);
        let taken: Vec<Generation> = self.line(set.older).map(|older| self.set(older).generation).collect();
        set.generation = Generation::all().find(|one| !taken.contains(one)).expect("there is room");
        let number = match self.spare.pop() {
            Some(number) => {
                self.sets[usize::from(number)] = set;
                number
            }
            None => {
                self.sets.push(set);
                (self.sets.len() - 1) as u16
            }
        };
        if self.newest.len() <= usize::from(outside) {
            self.newest.resize(usize::from(outside) + 1, None);
        }
        self.newest[usize::from(outside)] = Some(number);
        self.rules = self.rules.wrapping_add(1);
    }

    /// No new port of an address is allocated: its sessions live on.
    pub(crate) fn withdraw(&mut self, outside: u16) {
        let Some(number) = self.newest(outside).filter(|&number| !self.set(number).is_retired) else {
            return;
        };
        let set = &mut self.sets[usize::from(number)];
        set.is_retired = true;
        match set.owned {
            0 => self.forget(number),
            _ => self.retiring.push_back(BlockId { set: number, index: 0 }),
        }
    }

    /// Removes a set of blocks of which none is in use.
    pub(super) fn forget(&mut self, number: u16) {
        let BlockSet { outside, older, .. } =
            std::mem::replace(&mut self.sets[usize::from(number)], BlockSet::nowhere());
        self.spare.push(number);
        if self.newest(outside) == Some(number) {
            self.newest[usize::from(outside)] = older;
            return;
        }
        let before = self.line(self.newest(outside)).find(|&before| self.set(before).older == Some(number));
        self.sets[usize::from(before.expect("it is in the line"))].older = older;
    }

    pub(super) fn set(&self, number: u16) -> &BlockSet {
        &self.sets[usize::from(number)]
    }

    pub(super) fn block(&self, id: BlockId) -> &Block {
        &self.set(id.set).blocks[usize::from(id.index)]
    }

    pub(super) fn block_mut(&mut self, id: BlockId) -> &mut Block {
        &mut self.sets[usize::from(id.set)].blocks[usize::from(id.index)]
    }

    pub(super) fn newest(&self, outside: u16) -> Option<u16> {
        self.newest.get(usize::from(outside)).copied().flatten()
    }

    /// The set of an address from which ports are allocated.
    pub(super) fn present(&self, outside: u16) -> Option<u16> {
        self.newest(outside).filter(|&number| !self.set(number).is_retired)
    }

    /// A set of blocks, and the older sets of its address.
    pub(super) fn line(&self, number: Option<u16>) -> impl Iterator<Item = u16> {
        std::iter::successors(number, |&number| self.set(number).older)
    }

    /// Blocks of retired sets without live ports rest, also deterministic ones. Each call does a part of them.
    pub(super) fn walk_retired(&mut self, now: Tick) {
        let Some(&BlockId { set, index }) = self.retiring.front() else { return };
        let (first, all) = (usize::from(index), self.set(set).blocks.len());
        for index in first..all.min(first + WALK) {
            let id = BlockId { set, index: index as u16 };
            if self.block(id).owner != 0 && self.block(id).is_empty() {
                self.rest(id, now);
            }
        }
        if first + WALK < all {
            self.retiring[0].index += WALK as u16;
            return;
        }
        self.retiring.pop_front();
        if self.set(set).owned == 0 {
            self.forget(set);
        }
    }
}
