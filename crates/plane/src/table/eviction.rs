//! Which entry of a full table is evicted for a new one, if any. A host that floods a table evicts its own entries, and none of
//! a host that holds few.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use super::timers::Tick;

/// Entries that are looked at for one that may be evicted.
pub(crate) const CANDIDATES: u32 = 16;

/// A host with no more entries keeps all that are in use, however full the table is. A host with more entries than these and
/// than twice those of the newcomer does not.
const A_FEW: u32 = 16;

/// A host that holds one of so many entries floods the table.
const FLOOD_SHARE: u32 = 16;

/// Entries that may be evicted, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum EvictionClass {
    /// A connection that was never answered, or is over.
    NotOpen,
    /// Any packet can begin it anew, and its host holds many more entries than the newcomer.
    Renewable,
    /// An open TCP connection of a host that holds many more entries than the newcomer, and floods the table.
    OpenOfFlooder,
}

/// How many entries the holder of an entry has, how many the host that wants a new one, and how many there are in all.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Holdings {
    pub(crate) holder: u32,
    pub(crate) newcomer: u32,
    pub(crate) live: u32,
}

impl Holdings {
    /// The holder has many more entries than the newcomer.
    pub(crate) fn holder_has_more(self) -> bool {
        has_many_more(self.holder, self.newcomer)
    }

    pub(crate) fn holder_floods(self) -> bool {
        self.floods(self.holder)
    }

    fn floods(self, held: u32) -> bool {
        held > A_FEW && held.saturating_mul(FLOOD_SHARE) > self.live
    }

    /// The class of a connection that is not open. `None`: it stays, since a newcomer that floods the table evicts no entry of a
    /// host that holds many fewer.
    pub(crate) fn not_open(self) -> Option<EvictionClass> {
        let is_unfair = self.floods(self.newcomer) && has_many_more(self.newcomer, self.holder);
        (!is_unfair).then_some(EvictionClass::NotOpen)
    }

    /// The class of an open TCP connection; `None`: it stays.
    pub(crate) fn open(self) -> Option<EvictionClass> {
        (self.holder_floods() && self.holder_has_more()).then_some(EvictionClass::OpenOfFlooder)
    }
}

fn has_many_more(one: u32, other: u32) -> bool {
    one > other.saturating_mul(2).saturating_add(A_FEW)
}

/// The entry to evict among those that were looked at: the first by class, and of its class the oldest.
#[derive(Debug, Default)]
pub(crate) struct Candidate(Option<(EvictionClass, Tick, u32)>);

impl Candidate {
    /// Looks at one more entry.
    pub(crate) fn look(&mut self, class: EvictionClass, seen: Tick, number: u32) {
        let is_better = |(other, since, _): (EvictionClass, Tick, u32)| {
            class < other || class == other && (seen.since(since) as i32) < 0
        };
        if self.0.is_none_or(is_better) {
            self.0 = Some((class, seen, number));
        }
    }

    /// The number of the entry.
    pub(crate) fn number(self) -> Option<u32> {
        self.0.map(|(_, _, number)| number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_with_many_entries_gives_way_to_one_with_few() {
        // Of 1000 entries: those of the holder, of the newcomer > class of an entry that is not open, that is open.
        for (holder, newcomer, not_open, open) in [
            (1, 0, Some(EvictionClass::NotOpen), None),
            (16, 0, Some(EvictionClass::NotOpen), None),
            // Much more, but no sixteenth of all.
            (62, 0, Some(EvictionClass::NotOpen), None),
            (63, 0, Some(EvictionClass::NotOpen), Some(EvictionClass::OpenOfFlooder)),
            (63, 23, Some(EvictionClass::NotOpen), Some(EvictionClass::OpenOfFlooder)),
            // No more than twice as many and a few.
            (63, 24, Some(EvictionClass::NotOpen), None),
            (900, 900, Some(EvictionClass::NotOpen), None),
            // A newcomer that floods the table evicts no entry of the others.
            (1, 63, None, None),
            (23, 63, None, None),
            (24, 63, Some(EvictionClass::NotOpen), None),
        ] {
            let holdings = Holdings { holder, newcomer, live: 1000 };
            assert_eq!((holdings.not_open(), holdings.open()), (not_open, open), "{holdings:?}");
        }
        let few = Holdings { holder: 16, newcomer: 0, live: 17 };
        assert!(!few.holder_floods(), "a few are a few in a small table, too");
    }

    #[test]
    fn the_first_class_gives_way_and_of_it_the_oldest() {
        let tick = |ms| Tick::of(crate::time::Time::from_ms(ms));
        let mut best = Candidate::default();
        for (number, (class, ms)) in (0..).zip([
            (EvictionClass::OpenOfFlooder, 100),
            (EvictionClass::Renewable, 5000),
            (EvictionClass::NotOpen, 9000),
            (EvictionClass::NotOpen, 7000),
            (EvictionClass::NotOpen, 8000),
            (EvictionClass::Renewable, 0),
        ]) {
            best.look(class, tick(ms), number);
        }
        assert_eq!(best.number(), Some(3));
        assert_eq!(Candidate::default().number(), None);
    }
}
