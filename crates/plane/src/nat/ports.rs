//! Allocation of outside ports: blocks of ports for subscribers, and an unpredictable port inside the block.
//!
//! ```text
//! subscriber > its outside address (one: paired pooling) > its blocks > a port that rests no more
//! ```
//! Nothing in use is ever taken away (RFC 6888 REQ-11D): a subscriber without a free port, and without a further block, gets
//! none.
//!
//! Invariant: a block is free, or it is its owner's; `live` counts the ports of a block that have a slot.

mod block_sets;

use std::collections::VecDeque;
use std::time::Duration;

use super::block_events::NewBlocks;
use super::block_set::{Block, BlockId, BlockSet, Cut, Generation};
use super::outside::{Endpoint, Holder, LOW, Outside, Space};
use super::resting::RestingPorts;
use super::sharding::Sharding;
use crate::table::secret::Secret;
use crate::table::timers::Tick;
use crate::threads::Share;

/// How ports are allocated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Config {
    /// Ports of a block.
    pub(crate) block: u16,
    /// Blocks of a subscriber, at most.
    pub(crate) blocks: u16,
    /// An even port stays even, an odd one odd (RFC 4787 REQ-4).
    pub(crate) parity: bool,
    /// How long a port rests before another host gets it (RFC 6888 REQ-8).
    pub(crate) hold: Duration,
    /// Ports that may rest at a time; beyond it, a port is allocated again at once.
    pub(crate) resting: u32,
}

/// Why there is no port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The subscriber has all the blocks that it may have.
    Quota,
    /// No block is free on its address, or on any.
    NoPort,
    /// Further blocks are withheld.
    Withheld,
}

/// The blocks of a subscriber.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Holding {
    /// Outside address by number, as soon as there is a block.
    pub(crate) outside: u16,
    newest: Option<BlockId>,
    /// The rules by which its deterministic block was allocated.
    rules: u32,
}

impl Holding {
    /// Whether there is a block.
    pub(crate) fn is_some(&self) -> bool {
        self.newest.is_some()
    }
}

/// A range of ports, as a log shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Granted {
    pub(crate) outside: u16,
    pub(crate) first: u16,
    pub(crate) last: u16,
}

/// A port that was allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) endpoint: Endpoint,
    /// The set of the address that it is of.
    pub(crate) generation: Generation,
}

/// What a new mapping needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Want {
    pub(crate) space: Space,
    /// The inside port, which the outside one resembles.
    pub(crate) like: u16,
    pub(crate) subscriber: u32,
    /// The address on which the subscriber is to have its first block if there is room; else the address is drawn by lot. All
    /// threads of a node agree on it, so that a host has the same address in all.
    pub(crate) home: Option<u32>,
}

/// All blocks of all addresses.
pub(crate) struct Pool {
    config: Config,
    /// The thread, and the blocks that are allocated in it.
    share: Share,
    sharding: Option<Sharding>,
    sets: Vec<BlockSet>,
    /// Numbers of sets that are not in use.
    spare: Vec<u16>,
    /// The newest set of each outside address, by its number.
    newest: Vec<Option<u16>>,
    /// Retired sets whose blocks are walked through, and how far that is.
    retiring: VecDeque<BlockId>,
    /// Counts how often sets changed.
    rules: u32,
    /// Blocks that had no live ports at that time, in its order.
    resting: VecDeque<(Tick, BlockId)>,
    resting_ports: RestingPorts,
    /// Whether further blocks are allocated.
    new_blocks: NewBlocks,
}

/// Most sets.
const MOST_SETS: usize = 1 << 16;

impl Pool {
    pub(crate) fn new(config: Config, share: Share, sharding: Option<Sharding>) -> Pool {
        Pool {
            resting_ports: RestingPorts::new(config.hold, share.part(config.resting)),
            config,
            share,
            sharding,
            // It never moves: memory is touched only where there is a set.
            sets: Vec::with_capacity(MOST_SETS),
            spare: Vec::new(),
            newest: Vec::new(),
            retiring: VecDeque::new(),
            rules: 1,
            resting: VecDeque::new(),
            new_blocks: NewBlocks::Allowed,
        }
    }

    /// Whether hosts are given further blocks from now on.
    pub(crate) fn set_new_blocks(&mut self, new_blocks: NewBlocks) {
        self.new_blocks = new_blocks;
    }

    /// Other rules for what follows.
    pub(crate) fn apply(&mut self, config: &Config) {
        if (config.hold, config.resting) != (self.config.hold, self.config.resting) {
            self.resting_ports = RestingPorts::new(config.hold, self.share.part(config.resting));
        }
        self.config = config.clone();
    }

    /// Whether a subscriber has been given what is its own by the present rules, if anything is.
    pub(crate) fn has_fixed(&self, holding: &Holding) -> bool {
        holding.rules == self.rules
    }

    /// Gives a subscriber the block that is its own for good (RFC 7422), by its address and first port; `None`: it has
    /// none.
    pub(crate) fn fix(&mut self, holding: &mut Holding, own: Option<(u16, u16)>, subscriber: u32) {
        holding.rules = self.rules;
        let Some((outside, first)) = own else { return };
        let set = self.present(outside).expect("the addresses of deterministic ports are the pool's");
        let index = self.set(set).layout.at(first).expect("deterministic ports are the pool's") as u16;
        let id = BlockId { set, index };
        if self.block(id).owner == subscriber {
            return;
        }
        self.hand_over(id, holding, subscriber);
        self.block_mut(id).fixed = true;
    }

    /// Allocates to a subscriber a block that it had before the node ended; false if there is none, or another subscriber has it.
    pub(crate) fn restore(
        &mut self,
        holding: &mut Holding,
        block: Granted,
        subscriber: u32,
        now: Tick,
    ) -> bool {
        let Some(set) = self.present(block.outside) else { return false };
        let BlockSet { address, ref layout, .. } = *self.set(set);
        let is_it = |index: &usize| {
            layout.cuts[*index] == Cut { first: block.first, last: block.last }
                && !layout.is_fixed(*index)
                && self
                    .sharding
                    .is_none_or(|sharding| sharding.thread(address, block.first) == self.share.thread)
        };
        let Some(index) = layout.at(block.first).filter(is_it) else { return false };
        let id = BlockId { set, index: index as u16 };
        if self.block(id).owner != 0 {
            return false;
        }
        self.hand_over(id, holding, subscriber);
        self.block_mut(id).emptied = now;
        self.rest(id, now);
        true
    }

    /// A free block becomes a subscriber's.
    fn hand_over(&mut self, id: BlockId, holding: &mut Holding, subscriber: u32) {
        *self.block_mut(id) = Block { owner: subscriber, next: holding.newest, ..Block::default() };
        let set = &mut self.sets[usize::from(id.set)];
        set.owned += 1;
        (holding.outside, holding.newest) = (set.outside, Some(id));
    }

    /// A port for the subscriber: of a block it has, else of a new one, which is reported.
    pub(crate) fn take(
        &mut self,
        holding: &mut Holding,
        want: Want,
        now: Tick,
        outside: &Outside,
        secret: &mut Secret,
    ) -> Result<(Taken, Option<Granted>), Refusal> {
        let (mut next, mut blocks) = (holding.newest, 0);
        while let Some(id) = next {
            if let Some(taken) = self.port_of(id, want, now, outside, secret) {
                return Ok((taken, None));
            }
            let block = self.block(id);
            blocks += u32::from(!block.fixed && !self.set(id.set).is_retired);
            next = block.next;
        }
        if blocks >= u32::from(self.config.blocks) {
            return Err(Refusal::Quota);
        }
        if self.new_blocks == NewBlocks::Withheld {
            return Err(Refusal::Withheld);
        }
        let id = self.grant(holding, want, secret).ok_or(Refusal::NoPort)?;
        let block = Some(self.granted(id));
        match self.port_of(id, want, now, outside, secret) {
            Some(taken) => Ok((taken, block)),
            None => Err(Refusal::NoPort),
        }
    }

    /// A port of a block: four guesses, then all behind a last one.
    fn port_of(
        &mut self,
        id: BlockId,
        want: Want,
        now: Tick,
        outside: &Outside,
        secret: &mut Secret,
    ) -> Option<Taken> {
        let set = &mut self.sets[usize::from(id.set)];
        let cut = set.layout.cuts[usize::from(id.index)];
        let space = want.space as usize;
        let is_other = set.is_retired || want.wants_low(set) != cut.is_low();
        let (number, generation) = (set.outside, set.generation);
        let block = &mut set.blocks[usize::from(id.index)];
        let is_full = u32::from(block.live[space]) >= cut.ports()
            || block.full_until[space].is_some_and(|until| (now.since(until) as i32) < 0);
        if is_full || is_other {
            return None;
        }
        let endpoint = |port: u16| Endpoint { outside: number, space: want.space, port };
        if want.space == Space::Other {
            // Its address is all it takes; the first port says which block is in use for it.
            block.live[space] += 1;
            return Some(Taken { endpoint: endpoint(cut.first), generation });
        }
        // With parity, every second port from the first one that is alike.
        let (step, from) = if self.config.parity {
            (2, u32::from(cut.first) + u32::from((cut.first ^ want.like) & 1))
        } else {
            (1, u32::from(cut.first))
        };
        let choices = (u32::from(cut.last) + 1).saturating_sub(from).div_ceil(step);
        if choices == 0 {
            return None;
        }
        let candidate = |choice: u32| endpoint((from + choice % choices * step) as u16);
        let hold = Tick::count(self.config.hold);
        let rests = |choice: u32| match outside.holder(candidate(choice), now) {
            Holder::Free => 0,
            Holder::FreeSince(ticks) => hold.saturating_sub(ticks),
            Holder::Slot(_) => u32::MAX,
        };
        for _ in 0..4 {
            let guess = secret.below(choices);
            if rests(guess) == 0 {
                block.live[space] += 1;
                return Some(Taken { endpoint: candidate(guess), generation });
            }
        }
        let (start, mut least) = (secret.below(choices), u32::MAX);
        for choice in start..start + choices {
            match rests(choice) {
                0 => {
                    block.live[space] += 1;
                    return Some(Taken { endpoint: candidate(choice), generation });
                }
                rest => least = least.min(rest),
            }
        }
        // Ports that mappings of an older set have come back without a word to this one.
        if !self.config.parity && set.older.is_none() {
            // Half a round of ticks is forever: a port that is given back ends it.
            block.full_until[space] = Some(Tick(now.0.wrapping_add(least.min(1 << 30))));
        }
        None
    }

    /// A new block: on the subscriber's address, or if it has none yet, on the emptier one of two drawn by lot.
    fn grant(&mut self, holding: &mut Holding, want: Want, secret: &mut Secret) -> Option<BlockId> {
        let is_paired = holding.newest.is_some() && self.present(holding.outside).is_some();
        let id = if is_paired {
            self.own_again(holding, want).or_else(|| self.block_at(holding.outside, want, secret))
        } else {
            let addresses = self.newest.len() as u32;
            if addresses == 0 {
                return None;
            }
            let room = |n: &u32| {
                self.present(*n as u16).map_or(0, |set| {
                    let set = self.set(set);
                    set.free[want.class(set)].len()
                })
            };
            let lot = match want.home {
                Some(home) => home % addresses,
                None => {
                    let lots = [secret.below(addresses), secret.below(addresses)];
                    *lots.iter().max_by_key(|lot| room(lot)).expect("two")
                }
            };
            (lot..lot + addresses).find_map(|n| self.block_at((n % addresses) as u16, want, secret))
        }?;
        self.hand_over(id, holding, want.subscriber);
        Some(id)
    }

    /// If the subscriber has a block by older rules: a block by the present rules that overlaps no block of another subscriber.
    fn own_again(&self, holding: &Holding, want: Want) -> Option<BlockId> {
        let set = self.present(holding.outside)?;
        let (present, mut next) = (self.set(set), holding.newest);
        while let Some(id) = next {
            let (old, block) = (self.set(id.set), self.block(id));
            next = block.next;
            if !old.is_retired || old.outside != holding.outside {
                continue;
            }
            let range = old.layout.cuts[usize::from(id.index)];
            for index in present.layout.touched(range) {
                let id = BlockId { set, index: index as u16 };
                let is_wanted = present.layout.cuts[index].is_low() == want.wants_low(present);
                let is_dynamic = !present.layout.is_fixed(index);
                if is_wanted && is_dynamic && self.block(id).owner == 0 && !self.is_covered(id, want) {
                    return Some(id);
                }
            }
        }
        None
    }

    /// A free block of an address.
    fn block_at(&mut self, outside: u16, want: Want, secret: &mut Secret) -> Option<BlockId> {
        let set = self.present(outside)?;
        let class = want.class(self.set(set));
        loop {
            let list = &mut self.sets[usize::from(set)].free[class];
            if list.is_empty() {
                return None;
            }
            let index = list.swap_remove(secret.below(list.len() as u32) as usize);
            let id = BlockId { set, index };
            if self.block(id).owner != 0 {
                // Its owner had it by older rules, or before the node began.
                continue;
            }
            if !self.is_covered(id, want) {
                return Some(id);
            }
            self.sets[usize::from(set)].cover(class, index);
        }
    }

    /// Whether a block overlaps a block in use of an older set.
    fn is_covered(&self, id: BlockId, want: Want) -> bool {
        let set = self.set(id.set);
        let range = set.layout.cuts[usize::from(id.index)];
        self.line(set.older).any(|older| {
            let older = self.set(older);
            let owner = |index: usize| older.blocks[index].owner;
            older.layout.touched(range).any(|index| ![0, want.subscriber].contains(&owner(index)))
        })
    }

    /// A slot gave its port back; tells for how long it rests. `at_once`: it need not (a TCP connection that was
    /// followed to its end, RFC 6888 REQ-8A).
    pub(crate) fn give_back(&mut self, taken: Taken, now: Tick, at_once: AtOnce) -> Option<Tick> {
        let Taken { endpoint, generation } = taken;
        let is_it = |set: &u16| self.set(*set).generation == generation;
        let set = self.line(self.newest(endpoint.outside)).find(is_it)?;
        let id = BlockId { set, index: self.set(set).layout.at(endpoint.port)? as u16 };
        let rest = (at_once == AtOnce::No && self.resting_ports.one_more(now)).then_some(now);
        let hold = Tick::count(self.config.hold);
        let block = self.block_mut(id);
        block.live[endpoint.space as usize] -= 1;
        let until = &mut block.full_until[endpoint.space as usize];
        *until = match (*until, rest) {
            (Some(until), Some(_)) => {
                let rested = Tick(now.0.wrapping_add(hold));
                Some(if until.since(now) < rested.since(now) { until } else { rested })
            }
            _ => None,
        };
        if block.is_empty() {
            block.emptied = now;
            self.rest(id, now);
        }
        rest
    }

    /// A block without live ports rests, unless it is its owner's for good.
    fn rest(&mut self, id: BlockId, now: Tick) {
        let is_retired = self.set(id.set).is_retired;
        let block = self.block_mut(id);
        if !block.resting && (!block.fixed || is_retired) {
            block.resting = true;
            self.resting.push_back((now, id));
        }
    }

    /// Whether there are blocks that go back to the pool some time.
    pub(crate) fn has_resting(&self) -> bool {
        !self.resting.is_empty()
    }

    /// A block that had no live port for the time of rest, with its owner; the caller is to [`Pool::release`] it.
    pub(crate) fn rested(&mut self, now: Tick) -> Option<(u32, BlockId)> {
        self.walk_retired(now);
        let hold = Tick::count(self.config.hold);
        while let Some(&(since, id)) = self.resting.front()
            && now.since(since) > hold
        {
            self.resting.pop_front();
            let block = self.block_mut(id);
            match (block.is_empty(), now.since(block.emptied) > hold) {
                (true, true) => return Some((block.owner, id)),
                // It was used and emptied again meanwhile.
                (true, false) => {
                    let emptied = block.emptied;
                    self.resting.push_back((emptied, id));
                }
                (false, _) => block.resting = false,
            }
        }
        None
    }

    /// Takes a rested block from its owner.
    pub(crate) fn release(&mut self, id: BlockId, holding: &mut Holding) -> Granted {
        let next = self.block(id).next;
        let mut at = holding.newest;
        if at == Some(id) {
            holding.newest = next;
        }
        while let Some(before) = at {
            let block = self.block_mut(before);
            if block.next == Some(id) {
                block.next = next;
            }
            at = block.next;
        }
        let granted = self.granted(id);
        *self.block_mut(id) = Block::default();
        let set = &mut self.sets[usize::from(id.set)];
        set.owned -= 1;
        if !set.is_retired {
            let class = usize::from(!set.layout.cuts[usize::from(id.index)].is_low());
            set.free[class].push(id.index);
            return granted;
        }
        let is_walked = self.retiring.iter().all(|retiring| retiring.set != id.set);
        if self.set(id.set).owned == 0 && is_walked {
            self.forget(id.set);
        }
        if let Some(present) = self.present(granted.outside) {
            self.sets[usize::from(present)].uncover();
        }
        granted
    }

    /// All blocks that hosts have, but those that are theirs for good, each with its host.
    pub(crate) fn granted_all(&self) -> impl Iterator<Item = (u32, Granted)> {
        let ids = self.sets.iter().enumerate().flat_map(|(set, of)| {
            (0..of.blocks.len()).map(move |index| BlockId { set: set as u16, index: index as u16 })
        });
        ids.filter(|id| self.block(*id).owner != 0 && !self.block(*id).fixed)
            .map(|id| (self.block(id).owner, self.granted(id)))
    }

    /// Bytes in use.
    pub(crate) fn bytes(&self) -> usize {
        self.sets.iter().map(|set| set.blocks.len() * size_of::<Block>()).sum()
    }

    fn granted(&self, id: BlockId) -> Granted {
        let set = self.set(id.set);
        let Cut { first, last } = set.layout.cuts[usize::from(id.index)];
        Granted { outside: set.outside, first, last }
    }
}

impl Want {
    /// Whether the port is to be a well-known one, where there are any to give.
    fn wants_low(&self, set: &BlockSet) -> bool {
        self.like < LOW && matches!(self.space, Space::Tcp | Space::Udp) && set.has_low
    }

    /// Which of the lists of free blocks it is to be of.
    fn class(&self, set: &BlockSet) -> usize {
        usize::from(!self.wants_low(set))
    }
}

/// Whether a port may be given out again without rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AtOnce {
    Yes,
    No,
}

#[cfg(test)]
#[path = "ports_tests.rs"]
mod tests;
