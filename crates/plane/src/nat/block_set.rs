//! The ports of a public address, cut into blocks: which subscriber has which block, and which blocks are free.
//!
//! ```text
//!  address > newest set: its free blocks are allocated
//!             older sets: cut otherwise, or of the time before the address left the pool; they stay until no host
//!                          has a block there any more
//! ```
//! A block that overlaps a block in use of an older set is not allocated until that one is free, so that at each time a port is
//! in the blocks of one subscriber.

use std::ops::RangeInclusive;
use std::sync::Arc;

use super::outside::{ALL_SPACES, LOW};
use super::sharding::Sharding;
use crate::table::timers::Tick;

/// A block of a range of ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cut {
    pub(super) first: u16,
    pub(super) last: u16,
}

impl Cut {
    pub(super) fn ports(self) -> u32 {
        u32::from(self.last - self.first) + 1
    }

    /// Well-known ports keep apart (RFC 4787 REQ-3a).
    pub(super) fn is_low(self) -> bool {
        self.last < LOW
    }
}

/// How the ports of an address are cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(super) cuts: Vec<Cut>,
    /// So many of the first blocks are deterministic.
    fixed: u32,
}

impl Layout {
    /// These ports, in order and disjoint, in blocks of so many. If they are shared by threads, a block belongs to one of them.
    pub(crate) fn new(
        ports: &[RangeInclusive<u16>],
        block: u16,
        fixed: u32,
        sharding: Option<Sharding>,
    ) -> Layout {
        let mut cuts = Vec::new();
        for range in ports {
            // Well-known ports are in blocks of their own.
            let (low, high) =
                (*range.start()..=(*range.end()).min(LOW - 1), (*range.start()).max(LOW)..=*range.end());
            for part in [low, high] {
                let mut first = u32::from(*part.start());
                while first <= u32::from(*part.end()) && !part.is_empty() {
                    let end =
                        sharding.map_or(*part.end(), |sharding| sharding.last(first as u16).min(*part.end()));
                    let last = (first + u32::from(block) - 1).min(end.into());
                    cuts.push(Cut { first: first as u16, last: last as u16 });
                    first = last + 1;
                }
            }
        }
        Layout { cuts, fixed }
    }

    /// The first ports of the blocks that are allocated on demand, well-known ports aside.
    pub(super) fn dynamic(&self) -> impl Iterator<Item = u16> {
        let dynamic = self.cuts.iter().skip(self.fixed as usize);
        dynamic.filter(|cut| !cut.is_low()).map(|cut| cut.first)
    }

    /// Whether a block is deterministic.
    pub(super) fn is_fixed(&self, index: usize) -> bool {
        index < self.fixed as usize
    }

    /// The block that a port lies in, by its place.
    pub(super) fn at(&self, port: u16) -> Option<usize> {
        let at = self.cuts.partition_point(|cut| cut.last < port);
        self.cuts.get(at).filter(|cut| cut.first <= port).map(|_| at)
    }

    /// The places of the blocks that a range of ports touches.
    pub(super) fn touched(&self, range: Cut) -> impl Iterator<Item = usize> {
        let from = self.cuts.partition_point(|cut| cut.last < range.first);
        let to = self.cuts.partition_point(|cut| cut.first <= range.last);
        from..to
    }
}

/// A block of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockId {
    pub(super) set: u16,
    pub(super) index: u16,
}

/// The state of a block.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Block {
    /// The number of the subscriber; 0: none.
    pub(super) owner: u32,
    /// The next block of the same owner.
    pub(super) next: Option<BlockId>,
    /// Ports with a slot, by space.
    pub(super) live: [u16; ALL_SPACES],
    /// When the last live port was given back.
    pub(super) emptied: Tick,
    /// It is in the list of blocks that rest.
    pub(super) resting: bool,
    /// It is deterministic: its owner has it for good.
    pub(super) fixed: bool,
    /// No port of the space was found before this tick, and none was given back since.
    pub(super) full_until: [Option<Tick>; ALL_SPACES],
}

const _: () = assert!(size_of::<Block>() <= 60);

impl Block {
    pub(super) fn is_empty(&self) -> bool {
        self.live == [0; ALL_SPACES]
    }
}

/// The blocks of an address.
#[derive(Debug)]
pub(crate) struct BlockSet {
    pub(super) address: u32,
    /// The address, by number.
    pub(super) outside: u16,
    pub(super) layout: Arc<Layout>,
    pub(super) blocks: Vec<Block>,
    /// Free blocks, by place: those below [`LOW`], the others. Some may have got an owner since.
    pub(super) free: [Vec<u16>; 2],
    /// Free blocks that overlap a block in use of an older set.
    covered: [Vec<u16>; 2],
    /// Well-known ports are allocated to inside ports that are well-known.
    pub(super) has_low: bool,
    /// Blocks in use.
    pub(super) owned: u32,
    /// No new port is allocated here.
    pub(super) is_retired: bool,
    /// Distinguishes the sets of an address.
    pub(super) generation: Generation,
    /// The set of the same address before this one.
    pub(super) older: Option<u16>,
}

/// The set of an address that a port was allocated from: four bits are kept with each mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Generation(pub(super) u8);

impl Generation {
    /// Sets of an address at a time, at most.
    pub(super) const MOST: usize = 16;

    pub(super) fn all() -> impl Iterator<Item = Generation> {
        (0..Generation::MOST as u8).map(Generation)
    }
}

impl BlockSet {
    /// All blocks of an address, free but for the deterministic ones.
    pub(crate) fn new(address: u32, layout: &Arc<Layout>) -> BlockSet {
        let mut free = [Vec::new(), Vec::new()];
        for (index, cut) in layout.cuts.iter().enumerate().skip(layout.fixed as usize) {
            free[usize::from(!cut.is_low())].push(index as u16);
        }
        BlockSet {
            address,
            outside: 0,
            layout: layout.clone(),
            blocks: vec![Block::default(); layout.cuts.len()],
            free,
            covered: [Vec::new(), Vec::new()],
            has_low: false,
            owned: 0,
            is_retired: false,
            generation: Generation(0),
            older: None,
        }
    }

    /// The set of no address.
    pub(super) fn nowhere() -> BlockSet {
        BlockSet { is_retired: true, ..BlockSet::new(0, &Arc::new(Layout { cuts: Vec::new(), fixed: 0 })) }
    }

    /// Only the blocks of this thread are free. Deterministic blocks are not concerned.
    pub(super) fn sharding(&mut self, thread: u8, sharding: Option<Sharding>) {
        let low = self.layout.cuts.iter().filter(|cut| cut.is_low());
        let Some(sharding) = sharding else {
            self.has_low = low.count() > 0;
            return;
        };
        let (address, cuts) = (self.address, &self.layout.cuts);
        let thread_of = |cut: &Cut| sharding.thread(address, cut.first);
        let mut with_low: Vec<u8> = low.map(thread_of).collect();
        with_low.sort_unstable();
        with_low.dedup();
        // Each thread has some, or none has.
        self.has_low = with_low.len() == sharding.threads();
        let is_own = |index: &u16| thread_of(&cuts[usize::from(*index)]) == thread;
        self.free.iter_mut().for_each(|free| free.retain(is_own));
    }

    /// A free block overlaps a block in use of an older set: it is not allocated for now.
    pub(super) fn cover(&mut self, class: usize, index: u16) {
        self.covered[class].push(index);
    }

    /// A block of an older set was freed: blocks that overlapped it may be free as well.
    pub(super) fn uncover(&mut self) {
        for (free, covered) in self.free.iter_mut().zip(&mut self.covered) {
            free.append(covered);
        }
    }
}
