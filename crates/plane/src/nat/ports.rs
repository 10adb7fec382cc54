//! Who gets which outside port: blocks of ports for subscribers, and an unpredictable port inside the block.
//!
//! ```text
//! subscriber > its outside address (one: paired pooling) > its blocks > a port that rests no more
//! ```
//! Nothing in use is ever taken away (RFC 6888 REQ-11D): who has used up its blocks, or finds no block free, gets none.
//!
//! Invariant: a block is free, or it is its owner's; `live` counts the ports of a block that have a slot.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::held::Held;
use super::outside::{ALL_SPACES, Holder, Outside, Place, Space};
use crate::table::secret::Secret;
use crate::table::timers::Tick;

/// How ports are given out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Config {
    /// Ports of each address, in order and apart from each other.
    pub(crate) ports: Vec<RangeInclusive<u16>>,
    /// Ports of a block.
    pub(crate) block: u16,
    /// Blocks of a subscriber, at most.
    pub(crate) blocks: u16,
    /// An even port stays even, an odd one odd (RFC 4787 REQ-4).
    pub(crate) parity: bool,
    /// How long a port rests before somebody else gets it (RFC 6888 REQ-8).
    pub(crate) hold: Duration,
    /// Ports that may rest at a time; beyond it, a port is given out again at once.
    pub(crate) held: u32,
}

/// Why there is no port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The subscriber has all the blocks that it may have.
    Quota,
    /// No block is free on its address, or on any.
    NoPort,
}

/// A block of a port range on each address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cut {
    first: u16,
    last: u16,
}

impl Cut {
    fn ports(self) -> u32 {
        u32::from(self.last - self.first) + 1
    }

    /// Well-known ports keep apart (RFC 4787 REQ-3a).
    fn is_low(self) -> bool {
        self.last < LOW
    }
}

/// The first port that is not well-known.
const LOW: u16 = 1024;

/// A block of an address.
#[derive(Debug, Clone, Copy, Default)]
struct Block {
    /// Subscriber; 0: nobody.
    owner: u32,
    /// The owner's next block.
    next: Option<BlockId>,
    /// Ports with a slot, by space.
    live: [u16; ALL_SPACES],
    /// When the last live port was given back.
    emptied: Tick,
    /// It is in the row of those that rest.
    resting: bool,
    /// It is its owner's by configuration, for good.
    fixed: bool,
    /// No port of the space was found before this tick, and none was given back since.
    full_until: [Option<Tick>; ALL_SPACES],
}

const _: () = assert!(size_of::<Block>() == 60);

/// A block of the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockId(u32);

/// The blocks of a subscriber.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Holding {
    /// Outside address by number, as soon as there is a block.
    pub(crate) outside: u16,
    pub(crate) blocks: u16,
    newest: Option<BlockId>,
}

impl Holding {
    /// Whether there is a block.
    pub(crate) fn is_some(&self) -> bool {
        self.newest.is_some()
    }
}

/// Ports as a log tells them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Granted {
    pub(crate) outside: u16,
    pub(crate) first: u16,
    pub(crate) last: u16,
}

/// What is wanted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Want {
    pub(crate) space: Space,
    /// The inside port, which the outside one resembles.
    pub(crate) like: u16,
    pub(crate) subscriber: u32,
}

/// All blocks of all addresses.
pub(crate) struct Pool {
    config: Config,
    cuts: Vec<Cut>,
    blocks: Vec<Block>,
    /// Free blocks of each address of the pool, by the place in the address: those below [`LOW`], the others.
    free: Vec<[Vec<u16>; 2]>,
    /// Addresses of which nobody gets a new port: they are no longer of the pool, or never were.
    withdrawn: Vec<bool>,
    /// Blocks that had no live ports at that time, in its order.
    resting: VecDeque<(Tick, BlockId)>,
    held: Held,
}

impl Pool {
    pub(crate) fn new(config: Config) -> Pool {
        let mut cuts = Vec::new();
        for range in &config.ports {
            // Well-known ports share no block with others.
            let (low, high) =
                (*range.start()..=(*range.end()).min(LOW - 1), (*range.start()).max(LOW)..=*range.end());
            for part in [low, high] {
                let mut first = u32::from(*part.start());
                while first <= u32::from(*part.end()) && !part.is_empty() {
                    let last = (first + u32::from(config.block) - 1).min(u32::from(*part.end()));
                    cuts.push(Cut { first: first as u16, last: last as u16 });
                    first = last + 1;
                }
            }
        }
        let held = Held::new(config.hold, config.held);
        Pool {
            config,
            cuts,
            blocks: Vec::new(),
            free: Vec::new(),
            withdrawn: Vec::new(),
            resting: VecDeque::new(),
            held,
        }
    }

    /// One more outside address, by its number, with all its blocks free but the first, which are somebody's by
    /// configuration.
    pub(crate) fn add_address(&mut self, outside: u16, fixed: u32) {
        let mut free = [Vec::new(), Vec::new()];
        for (place, cut) in self.cuts.iter().enumerate().skip(fixed as usize) {
            free[usize::from(!cut.is_low())].push(place as u16);
        }
        let outside = usize::from(outside);
        let addresses = self.free.len().max(outside + 1);
        self.free.resize(addresses, [Vec::new(), Vec::new()]);
        self.free[outside] = free;
        self.blocks.resize(addresses * self.cuts.len(), Block::default());
        self.withdrawn.resize(addresses, true);
        self.withdrawn[outside] = false;
    }

    /// Whether an outside address is or was one of the pool.
    pub(crate) fn knows(&self, outside: u16) -> bool {
        usize::from(outside) < self.free.len()
    }

    /// Nobody gets a new port of an address: what lives there lives on.
    pub(crate) fn withdraw(&mut self, outside: u16) {
        self.free[usize::from(outside)].iter_mut().for_each(Vec::clear);
        self.withdrawn[usize::from(outside)] = true;
    }

    /// Gives out ports of a withdrawn address again.
    pub(crate) fn restore(&mut self, outside: u16, fixed: u32) {
        self.withdrawn[usize::from(outside)] = false;
        let first = usize::from(outside) * self.cuts.len();
        for (place, cut) in self.cuts.iter().enumerate().skip(fixed as usize) {
            if self.blocks[first + place].owner == 0 {
                self.free[usize::from(outside)][usize::from(!cut.is_low())].push(place as u16);
            }
        }
    }

    /// Other rules for the same blocks.
    pub(crate) fn apply(&mut self, config: &Config) {
        self.held = Held::new(config.hold, config.held);
        self.config = config.clone();
    }

    /// Gives a subscriber one of the blocks that are somebody's for good (RFC 7422).
    pub(crate) fn fix(&mut self, holding: &mut Holding, outside: u16, first: u16, subscriber: u32) {
        let cut = self.cut_of(first).expect("deterministic ports are the pool's");
        let id = BlockId((usize::from(outside) * self.cuts.len() + cut) as u32);
        let block = &mut self.blocks[id.0 as usize];
        (block.owner, block.fixed, block.next) = (subscriber, true, holding.newest);
        *holding = Holding { outside, blocks: holding.blocks, newest: Some(id) };
    }

    /// A port for the subscriber: of a block it has, else of a new one, which is told.
    pub(crate) fn take(
        &mut self,
        holding: &mut Holding,
        want: Want,
        now: Tick,
        outside: &Outside,
        secret: &mut Secret,
    ) -> Result<(Place, Option<Granted>), Refusal> {
        let mut next = holding.newest;
        while let Some(id) = next {
            if let Some(place) = self.port_of(id, want, now, outside, secret) {
                return Ok((place, None));
            }
            next = self.blocks[id.0 as usize].next;
        }
        if holding.blocks >= self.config.blocks {
            return Err(Refusal::Quota);
        }
        let id = self.grant(holding, want, secret).ok_or(Refusal::NoPort)?;
        let place = self.port_of(id, want, now, outside, secret).ok_or(Refusal::NoPort)?;
        Ok((place, Some(self.granted(id))))
    }

    /// A port of a block: four guesses, then all behind a last one.
    fn port_of(
        &mut self,
        id: BlockId,
        want: Want,
        now: Tick,
        outside: &Outside,
        secret: &mut Secret,
    ) -> Option<Place> {
        let cut = self.cuts[id.0 as usize % self.cuts.len()];
        let space = want.space as usize;
        let is_other =
            self.wants_low(want) != cut.is_low() || self.withdrawn[id.0 as usize / self.cuts.len()];
        let block = &mut self.blocks[id.0 as usize];
        let is_full = u32::from(block.live[space]) >= cut.ports()
            || block.full_until[space].is_some_and(|until| (now.since(until) as i32) < 0);
        if is_full || is_other {
            return None;
        }
        if want.space == Space::Other {
            // Its address is all it takes; the first port says which block is in use for it.
            block.live[space] += 1;
            let outside = (id.0 as usize / self.cuts.len()) as u16;
            return Some(Place { outside, space: want.space, port: cut.first });
        }
        // With parity, every second port from the first one that is alike.
        let (step, from) = match self.config.parity {
            true => (2, u32::from(cut.first) + u32::from((cut.first ^ want.like) & 1)),
            false => (1, u32::from(cut.first)),
        };
        let choices = (u32::from(cut.last) + 1).saturating_sub(from).div_ceil(step);
        if choices == 0 {
            return None;
        }
        let number = (id.0 as usize / self.cuts.len()) as u16;
        let place = |choice: u32| Place {
            outside: number,
            space: want.space,
            port: (from + choice % choices * step) as u16,
        };
        let hold = Tick::count(self.config.hold);
        let rests = |choice: u32| match outside.holder(place(choice), now) {
            Holder::Nobody => 0,
            Holder::NobodySince(ticks) => hold.saturating_sub(ticks),
            Holder::Slot(_) => u32::MAX,
        };
        for _ in 0..4 {
            let guess = secret.below(choices);
            if rests(guess) == 0 {
                block.live[space] += 1;
                return Some(place(guess));
            }
        }
        let (start, mut least) = (secret.below(choices), u32::MAX);
        for choice in start..start + choices {
            match rests(choice) {
                0 => {
                    block.live[space] += 1;
                    return Some(place(choice));
                }
                rest => least = least.min(rest),
            }
        }
        if !self.config.parity {
            // Half a round of ticks is forever: a port that is given back ends it.
            block.full_until[space] = Some(Tick(now.0.wrapping_add(least.min(1 << 30))));
        }
        None
    }

    /// Whether the port is to be a well-known one, where there are any to give.
    fn wants_low(&self, want: Want) -> bool {
        want.like < LOW
            && matches!(want.space, Space::Tcp | Space::Udp)
            && self.cuts.iter().any(|cut| cut.is_low())
    }

    /// A new block: on the subscriber's address, or if it has none yet, on the emptier one of two drawn by lot.
    fn grant(&mut self, holding: &mut Holding, want: Want, secret: &mut Secret) -> Option<BlockId> {
        let class = usize::from(!self.wants_low(want));
        let addresses = self.free.len() as u32;
        let outside = match holding.newest {
            Some(_) if !self.withdrawn[usize::from(holding.outside)] => holding.outside,
            _ if addresses == 0 => return None,
            _ => {
                let room = |n: &u32| self.free[*n as usize][class].len();
                let lots = [secret.below(addresses), secret.below(addresses)];
                let lot = *lots.iter().max_by_key(|lot| room(lot)).expect("two");
                (lot..lot + addresses).map(|n| n % addresses).find(|n| room(n) > 0)? as u16
            }
        };
        let list = &mut self.free[usize::from(outside)][class];
        if list.is_empty() {
            return None;
        }
        let place = list.swap_remove(secret.below(list.len() as u32) as usize);
        let id = BlockId((usize::from(outside) * self.cuts.len() + usize::from(place)) as u32);
        self.blocks[id.0 as usize] =
            Block { owner: want.subscriber, next: holding.newest, ..Block::default() };
        *holding = Holding { outside, blocks: holding.blocks + 1, newest: Some(id) };
        Some(id)
    }

    /// A slot gave its port back; tells for how long it rests. `at_once`: it need not (a TCP connection that was
    /// followed to its end, RFC 6888 REQ-8A).
    pub(crate) fn give_back(&mut self, place: Place, now: Tick, at_once: AtOnce) -> Option<Tick> {
        let cut = self.cut_of(place.port)?;
        let id = BlockId((usize::from(place.outside) * self.cuts.len() + cut) as u32);
        let rest = (at_once == AtOnce::No && self.held.one_more(now)).then_some(now);
        let block = self.blocks.get_mut(id.0 as usize)?;
        block.live[place.space as usize] -= 1;
        let until = &mut block.full_until[place.space as usize];
        *until = match (*until, rest) {
            (Some(until), Some(_)) => {
                let rested = Tick(now.0.wrapping_add(Tick::count(self.config.hold)));
                Some(if until.since(now) < rested.since(now) { until } else { rested })
            }
            _ => None,
        };
        if block.live == [0; ALL_SPACES] {
            block.emptied = now;
            if !block.fixed && !block.resting {
                block.resting = true;
                self.resting.push_back((now, id));
            }
        }
        rest
    }

    /// A block that had no live port for the time of rest, with its owner; the caller is to [`Pool::release`] it.
    pub(crate) fn rested(&mut self, now: Tick) -> Option<(u32, BlockId)> {
        let hold = Tick::count(self.config.hold);
        while let Some(&(since, id)) = self.resting.front()
            && now.since(since) > hold
        {
            self.resting.pop_front();
            let block = &mut self.blocks[id.0 as usize];
            match (block.live == [0; ALL_SPACES], now.since(block.emptied) > hold) {
                (true, true) => return Some((block.owner, id)),
                // It was used and emptied again meanwhile.
                (true, false) => self.resting.push_back((block.emptied, id)),
                (false, _) => block.resting = false,
            }
        }
        None
    }

    /// Takes a rested block from its owner.
    pub(crate) fn release(&mut self, id: BlockId, holding: &mut Holding) -> Granted {
        let next = self.blocks[id.0 as usize].next;
        let mut at = holding.newest;
        if at == Some(id) {
            holding.newest = next;
        }
        while let Some(before) = at {
            let block = &mut self.blocks[before.0 as usize];
            if block.next == Some(id) {
                block.next = next;
            }
            at = block.next;
        }
        holding.blocks -= 1;
        self.blocks[id.0 as usize] = Block::default();
        let (outside, place) = (id.0 as usize / self.cuts.len(), id.0 as usize % self.cuts.len());
        if self.withdrawn[outside] {
            return self.granted(id);
        }
        self.free[outside][usize::from(!self.cuts[place].is_low())].push(place as u16);
        self.granted(id)
    }

    /// Bytes in use.
    pub(crate) fn bytes(&self) -> usize {
        self.blocks.len() * size_of::<Block>()
    }

    fn granted(&self, id: BlockId) -> Granted {
        let cut = self.cuts[id.0 as usize % self.cuts.len()];
        Granted { outside: (id.0 as usize / self.cuts.len()) as u16, first: cut.first, last: cut.last }
    }

    /// The block that a port lies in, by its place in the address.
    fn cut_of(&self, port: u16) -> Option<usize> {
        let at = self.cuts.partition_point(|cut| cut.last < port);
        self.cuts.get(at).filter(|cut| cut.first <= port).map(|_| at)
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
