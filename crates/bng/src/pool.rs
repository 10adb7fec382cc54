//! Addresses, and prefixes of IPv6: their holders, and which one is assigned next.
//!
//! ```text
//! never used, in the order of the pools > held > freed, the oldest first > held
//!                                         held > quarantine, for a time  > freed
//! ```
//! An address has at most one holder. A subscriber gets its last address again if that is free: others get
//! addresses that were never used, then the one that was freed first. No address of a pool is left out, the last one included.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;
use std::hash::Hash;
use std::net::Ipv4Addr;

use crate::index::Index;
use crate::name::Name;

/// A pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    /// Its name.
    pub name: Name,
    /// Its addresses: first and last of each range.
    pub ranges: Vec<(Ipv4Addr, Ipv4Addr)>,
    /// The address of the node, which is router and DHCP server of these subscribers; never assigned.
    pub router: Ipv4Addr,
    /// Length of the prefix that clients are told, 8 to 32.
    pub prefix_len: u8,
}

impl Pool {
    /// Whether an address is one of its own that may be assigned.
    pub fn has(&self, address: Ipv4Addr) -> bool {
        address != self.router && self.ranges.iter().any(|(first, last)| (first..=last).contains(&&address))
    }

    /// Number of its addresses.
    pub fn size(&self) -> u64 {
        let range = |(first, last): &(Ipv4Addr, Ipv4Addr)| {
            u64::from(u32::from(*last)) + 1 - u64::from(u32::from(*first))
        };
        let all: u64 = self.ranges.iter().map(range).sum();
        let has_router = self.ranges.iter().any(|(first, last)| (first..=last).contains(&&self.router));
        all - u64::from(has_router)
    }

    /// The mask that clients are told.
    pub fn mask(&self) -> Ipv4Addr {
        u32::MAX.checked_shl(32 - u32::from(self.prefix_len)).unwrap_or(0).into()
    }
}

/// What a pool assigns, each unit once.
pub(crate) trait Stock {
    /// An address, or a prefix.
    type Unit: Copy + Eq + Hash + Debug;

    fn name(&self) -> &Name;

    /// Number of units that may be assigned.
    fn size(&self) -> u64;

    /// Whether a unit is one of its own that may be assigned.
    fn has(&self, unit: Self::Unit) -> bool;

    /// The unit at a place, from 0 on, also one that may not be assigned; `None`: the pool ends before.
    fn at(&self, place: u64) -> Option<Self::Unit>;
}

impl Stock for Pool {
    type Unit = Ipv4Addr;

    fn name(&self) -> &Name {
        &self.name
    }

    fn size(&self) -> u64 {
        Pool::size(self)
    }

    fn has(&self, address: Ipv4Addr) -> bool {
        Pool::has(self, address)
    }

    fn at(&self, mut place: u64) -> Option<Ipv4Addr> {
        for (first, last) in &self.ranges {
            let (first, last) = (u64::from(u32::from(*first)), u64::from(u32::from(*last)));
            let count = (last + 1).saturating_sub(first);
            if place < count {
                return u32::try_from(first + place).ok().map(Ipv4Addr::from);
            }
            place -= count;
        }
        None
    }
}

/// Addresses of IPv4.
pub(crate) type Addresses = Assigned<Pool>;

/// Whether a host can have an address: it is of no group, and not of this host or network alone (RFC 1122, section 3.2.1.3).
pub(crate) fn is_assignable(address: Ipv4Addr) -> bool {
    let [first, ..] = address.octets();
    (1..=223).contains(&first) && first != 127
}

/// What an address is, other than never used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Offered to a subscriber, or assigned to its session.
    Held(Index),
    /// Free again, since this turn.
    Freed(u64),
    /// Not to be assigned for a time.
    Declined,
}

/// All addresses that were ever used, and those of the pools that were not.
#[derive(Debug)]
pub(crate) struct Assigned<P: Stock> {
    pools: Vec<P>,
    /// Offset of the next unused address, by pool.
    fresh: Vec<u64>,
    states: HashMap<P::Unit, State>,
    /// Free ones that were used, of each pool, the first one first.
    freed: Vec<BTreeMap<u64, P::Unit>>,
    turns: u64,
    /// Fixed addresses of subscribers.
    reserved: HashMap<P::Unit, Index>,
    /// Whether the last search found nothing.
    pub(crate) is_exhausted: bool,
}

impl<P: Stock> Default for Assigned<P> {
    fn default() -> Assigned<P> {
        Assigned {
            pools: Vec::new(),
            fresh: Vec::new(),
            states: HashMap::new(),
            freed: Vec::new(),
            turns: 0,
            reserved: HashMap::new(),
            is_exhausted: false,
        }
    }
}

impl<P: Stock> Assigned<P> {
    /// Assigns addresses of these pools from now on; what is held stays so.
    pub(crate) fn set_pools(&mut self, pools: Vec<P>) {
        self.fresh = vec![0; pools.len()];
        self.freed = pools.iter().map(|_| BTreeMap::new()).collect();
        self.pools = pools;
        self.is_exhausted = false;
        let Assigned { pools, freed, states, .. } = self;
        // Addresses that no pool has any more are removed.
        states.retain(|unit, state| match state {
            State::Freed(turn) => {
                let place = pools.iter().position(|pool| pool.has(*unit));
                let of_pool = place.and_then(|place| freed.get_mut(place));
                of_pool.map(|of_pool| of_pool.insert(*turn, *unit)).is_some()
            }
            State::Held(_) | State::Declined => true,
        });
    }

    /// The pool of an address.
    pub(crate) fn pool(&self, address: P::Unit) -> Option<&P> {
        self.pools.iter().find(|pool| pool.has(address))
    }

    fn place(&self, unit: P::Unit) -> Option<usize> {
        self.pools.iter().position(|pool| pool.has(unit))
    }

    /// Whether there is a pool of this name.
    pub(crate) fn has_pool(&self, name: &Name) -> bool {
        self.pools.iter().any(|pool| pool.name() == name)
    }

    /// Whether a unit is in the pool of this name; without a name, whether it is in a pool or not does not matter.
    pub(crate) fn is_of(&self, unit: P::Unit, name: Option<&Name>) -> bool {
        name.is_none_or(|name| self.pool(unit).is_some_and(|pool| pool.name() == name))
    }

    pub(crate) fn pools(&self) -> &[P] {
        &self.pools
    }

    pub(crate) fn holder(&self, address: P::Unit) -> Option<Index> {
        match self.states.get(&address) {
            Some(State::Held(holder)) => Some(*holder),
            _ => None,
        }
    }

    pub(crate) fn is_declined(&self, address: P::Unit) -> bool {
        self.states.get(&address) == Some(&State::Declined)
    }

    pub(crate) fn reserved_for(&self, address: P::Unit) -> Option<Index> {
        self.reserved.get(&address).copied()
    }

    /// Keeps an address for a subscriber alone.
    pub(crate) fn reserve(&mut self, address: P::Unit, owner: Index) {
        self.reserved.insert(address, owner);
    }

    /// Ends [`Addresses::reserve`].
    pub(crate) fn unreserve(&mut self, address: P::Unit, owner: Index) {
        if self.reserved_for(address) == Some(owner) {
            self.reserved.remove(&address);
        }
    }

    /// Whether a subscriber may get an address: its pool has it or it is reserved, and no other subscriber holds it.
    pub(crate) fn is_free_for(&self, address: P::Unit, subscriber: Index) -> bool {
        let is_assignable = match self.reserved_for(address) {
            Some(owner) => owner == subscriber,
            None => self.pool(address).is_some(),
        };
        is_assignable && matches!(self.states.get(&address), None | Some(State::Freed(_)))
    }

    /// A subscriber holds an address from now on, whatever it was before.
    pub(crate) fn hold(&mut self, address: P::Unit, subscriber: Index) {
        self.set(address, State::Held(subscriber));
    }

    /// The address is free, if this subscriber holds it.
    pub(crate) fn release(&mut self, address: P::Unit, subscriber: Index) {
        if self.holder(address) == Some(subscriber) {
            self.free(address);
        }
    }

    /// An address is not assigned until [`Addresses::end_quarantine`].
    pub(crate) fn decline(&mut self, address: P::Unit) {
        self.set(address, State::Declined);
    }

    /// An address was used before the program began: others come first.
    pub(crate) fn was_used(&mut self, address: P::Unit) {
        if !self.states.contains_key(&address) && self.pool(address).is_some() {
            self.free(address);
        }
    }

    /// An address may be assigned again.
    pub(crate) fn end_quarantine(&mut self, address: P::Unit) {
        if self.is_declined(address) {
            self.free(address);
        }
    }

    fn free(&mut self, address: P::Unit) {
        self.turns += 1;
        self.set(address, State::Freed(self.turns));
        let place = self.place(address);
        match place.and_then(|place| self.freed.get_mut(place)) {
            Some(of_pool) => _ = of_pool.insert(self.turns, address),
            // A fixed address of no pool, or one of a pool that there was.
            None => _ = self.states.remove(&address),
        }
        self.is_exhausted = false;
    }

    fn set(&mut self, address: P::Unit, state: State) {
        if let Some(State::Freed(turn)) = self.states.insert(address, state)
            && let Some(place) = self.place(address)
            && let Some(of_pool) = self.freed.get_mut(place)
        {
            of_pool.remove(&turn);
        }
    }

    /// Finds an address of a pool for a subscriber: one of these if it is free, else any of the pool of this name, or of all; the caller
    /// holds it. `None`: there is none.
    pub(crate) fn find(
        &mut self,
        subscriber: Index,
        wishes: &[Option<P::Unit>],
        name: Option<&Name>,
    ) -> Option<P::Unit> {
        let is_wanted = |wish: &P::Unit| self.is_free_for(*wish, subscriber) && self.is_of(*wish, name);
        let wish = wishes.iter().flatten().copied().find(is_wanted);
        let found = wish.or_else(|| self.next_fresh(name)).or_else(|| self.oldest_freed(name));
        self.is_exhausted = found.is_none() && name.is_none();
        found
    }

    /// Places of the pool of this name, or of all.
    fn places(&self, name: Option<&Name>) -> Vec<usize> {
        let is_wanted = |pool: &P| name.is_none_or(|name| pool.name() == name);
        (0..).zip(&self.pools).filter(|(_, pool)| is_wanted(pool)).map(|(place, _)| place).collect()
    }

    /// The next address that was never used. It is passed over from now on: it becomes held, and later freed.
    fn next_fresh(&mut self, name: Option<&Name>) -> Option<P::Unit> {
        for place in self.places(name) {
            let (of_pool, fresh) = (self.pools.get(place)?, self.fresh.get_mut(place)?);
            while let Some(unit) = of_pool.at(*fresh) {
                if of_pool.has(unit) && !self.states.contains_key(&unit) && !self.reserved.contains_key(&unit)
                {
                    return Some(unit);
                }
                *fresh += 1;
            }
        }
        None
    }

    /// The address that was freed first.
    fn oldest_freed(&self, name: Option<&Name>) -> Option<P::Unit> {
        let places = self.places(name).into_iter();
        let of_pools = places.filter_map(|place| {
            self.freed.get(place)?.iter().find(|(_, unit)| !self.reserved.contains_key(unit))
        });
        of_pools.min_by_key(|(turn, _)| **turn).map(|(_, unit)| *unit)
    }

    /// Why there is no free address, in words.
    pub(crate) fn exhausted(&self) -> String {
        let declined = self.states.values().filter(|state| **state == State::Declined).count();
        let names: Vec<_> = self.pools.iter().map(|pool| pool.name().as_str()).collect();
        let size: u64 = self.pools.iter().map(P::size).fold(0, u64::saturating_add);
        match *names {
            [] => "the configuration has no pool".into(),
            [name] => format!("pool {name} is exhausted (size {size}, in quarantine {declined})"),
            _ => format!(
                "the pools {} are exhausted (size {size}, in quarantine {declined})",
                names.join(", ")
            ),
        }
    }

    /// Addresses of which something is remembered.
    pub(crate) fn len(&self) -> usize {
        self.states.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Index = Index(0);
    const B: Index = Index(1);
    const C: Index = Index(2);

    fn address(last: u8) -> Ipv4Addr {
        Ipv4Addr::new(100, 64, 0, last)
    }

    fn addresses(first: u8, last: u8) -> Addresses {
        let mut addresses = Addresses::default();
        let ranges = vec![(address(first), address(last))];
        let name = "main".parse().expect("a name");
        addresses.set_pools(vec![Pool { name, ranges, router: address(1), prefix_len: 24 }]);
        addresses
    }

    /// Finds and holds.
    fn take(addresses: &mut Addresses, subscriber: Index, wishes: &[Option<Ipv4Addr>]) -> Option<u8> {
        let found = addresses.find(subscriber, wishes, None)?;
        addresses.hold(found, subscriber);
        Some(found.octets()[3])
    }

    #[test]
    fn every_address_is_assigned_the_last_one_included() {
        let mut all = addresses(0, 255);
        let taken: Vec<_> = std::iter::from_fn(|| take(&mut all, A, &[])).collect();
        assert_eq!(taken.len() as u64, all.pools()[0].size());
        assert_eq!((taken.len(), taken.first(), taken.last()), (255, Some(&0), Some(&255)));
        assert!(!taken.contains(&1), "the router's");
        // As far as numbers go.
        let edge = Pool {
            ranges: vec![(Ipv4Addr::new(255, 255, 255, 254), Ipv4Addr::BROADCAST)],
            ..all.pools()[0].clone()
        };
        all.set_pools(vec![edge]);
        assert_eq!(std::iter::from_fn(|| take(&mut all, A, &[])).count(), 2);
    }

    #[test]
    fn a_subscriber_gets_its_last_address_and_others_the_one_that_was_freed_first() {
        let mut some = addresses(2, 4);
        assert_eq!((2..=4).map(|_| take(&mut some, A, &[])).collect::<Vec<_>>(), [Some(2), Some(3), Some(4)]);
        for last in [3, 4, 2] {
            some.release(address(last), A);
        }
        assert_eq!(take(&mut some, A, &[Some(address(4))]), Some(4), "its last one");
        assert_eq!(take(&mut some, B, &[Some(address(4))]), Some(3), "freed first");
        some.release(address(3), A);
        assert_eq!(some.holder(address(3)), Some(B), "only the holder releases it");
        assert_eq!((take(&mut some, C, &[]), take(&mut some, C, &[])), (Some(2), None));
    }

    #[test]
    fn after_a_start_last_addresses_are_assigned_to_others_last() {
        let mut some = addresses(2, 4);
        some.was_used(address(2));
        some.was_used(Ipv4Addr::new(192, 0, 2, 1));
        assert_eq!([take(&mut some, A, &[]), take(&mut some, B, &[])], [Some(3), Some(4)]);
        some.was_used(address(3));
        assert_eq!((take(&mut some, C, &[]), take(&mut some, C, &[]), some.len()), (Some(2), None, 3));
    }

    #[test]
    fn what_is_declined_or_reserved_is_not_assigned() {
        let mut some = addresses(2, 4);
        some.reserve(address(3), B);
        assert_eq!(take(&mut some, A, &[Some(address(3))]), Some(2));
        some.decline(address(2));
        assert_eq!((take(&mut some, A, &[]), take(&mut some, A, &[])), (Some(4), None));
        assert_eq!(some.exhausted(), "pool main is exhausted (size 3, in quarantine 1)");
        some.end_quarantine(address(2));
        assert_eq!(take(&mut some, A, &[]), Some(2));
        assert!(some.is_free_for(address(3), B) && !some.is_free_for(address(3), A));
    }

    #[test]
    fn a_pool_that_is_named_alone_gives_its_addresses() {
        let pool = |name: &str, first: u8, last: u8| Pool {
            name: name.parse().expect("a name"),
            ranges: vec![(address(first), address(last))],
            router: address(1),
            prefix_len: 24,
        };
        let mut some = Addresses::default();
        some.set_pools(vec![pool("main", 2, 3), pool("gold", 10, 11)]);
        let gold = "gold".parse().expect("a name");
        let take = |some: &mut Addresses, name, wishes: &[Option<Ipv4Addr>]| {
            let found = some.find(A, wishes, name)?;
            some.hold(found, A);
            Some(found.octets()[3])
        };
        assert_eq!(take(&mut some, Some(&gold), &[Some(address(2))]), Some(10));
        assert_eq!([take(&mut some, None, &[]), take(&mut some, None, &[])], [Some(2), Some(3)]);
        assert_eq!([take(&mut some, Some(&gold), &[]), take(&mut some, Some(&gold), &[])], [Some(11), None]);
        some.release(address(3), A);
        some.release(address(10), A);
        assert_eq!(take(&mut some, Some(&gold), &[Some(address(3))]), Some(10));
        assert!(
            some.is_of(address(10), Some(&gold))
                && !some.is_of(address(3), Some(&gold))
                && some.has_pool(&gold)
        );
        // A freed address belongs to the pool that contains it now.
        some.release(address(10), A);
        some.set_pools(vec![pool("gold", 2, 3)]);
        assert_eq!([take(&mut some, Some(&gold), &[]), take(&mut some, None, &[])], [Some(3), None]);
        assert_eq!(some.len(), 3, "an address of no pool that is free is forgotten");
    }

    #[test]
    fn what_is_remembered_is_bounded_by_the_pool() {
        let mut some = addresses(2, 9);
        for _ in 0..10_000 {
            let last = take(&mut some, A, &[]).expect("one is free");
            some.release(address(last), A);
        }
        assert_eq!((some.len(), some.freed[0].len()), (8, 8));
    }
}
