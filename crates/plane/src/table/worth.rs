//! What an entry of a full table is worth beside a new one: which of those that are looked at gives way, if any does. Whoever
//! floods a table displaces himself, and nobody who holds little.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use super::timers::Tick;

/// Entries that are looked at for one that may give way.
pub(crate) const LOOKED_AT: u32 = 16;

/// Who holds no more keeps all that is in use, however full the table is; who holds more than these and twice as many as who
/// asks does not.
const A_FEW: u32 = 16;

/// Who holds one entry of so many fills the table.
const MUCH_OF_ALL: u32 = 16;

/// What may give way, the least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Worth {
    /// A connection that nobody has answered, or that is over.
    NotOpen,
    /// It can be begun anew by any packet, and its host holds much more than who asks.
    OfTheRicher,
    /// An open connection of TCP of a host that holds much more than who asks, and fills the table.
    OfWhoFills,
}

/// Who has an entry and who wants one: how many each of them holds, and how many there are in all.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rivals {
    pub(crate) holder: u32,
    pub(crate) newcomer: u32,
    pub(crate) live: u32,
}

impl Rivals {
    pub(crate) fn holder_is_richer(self) -> bool {
        has_much_more(self.holder, self.newcomer)
    }

    pub(crate) fn holder_fills(self) -> bool {
        self.fills(self.holder)
    }

    fn fills(self, held: u32) -> bool {
        held > A_FEW && held.saturating_mul(MUCH_OF_ALL) > self.live
    }

    /// What a connection is worth that is not open; `None`: it stays, since who fills the table takes nothing from one who holds
    /// much less.
    pub(crate) fn not_open(self) -> Option<Worth> {
        let takes_from_the_poor = self.fills(self.newcomer) && has_much_more(self.newcomer, self.holder);
        (!takes_from_the_poor).then_some(Worth::NotOpen)
    }

    /// What an open connection of TCP is worth; `None`: it stays.
    pub(crate) fn open(self) -> Option<Worth> {
        (self.holder_fills() && self.holder_is_richer()).then_some(Worth::OfWhoFills)
    }
}

fn has_much_more(one: u32, other: u32) -> bool {
    one > other.saturating_mul(2).saturating_add(A_FEW)
}

/// The one of some entries that gives way: what is worth least, of these the oldest.
#[derive(Debug, Default)]
pub(crate) struct Least(Option<(Worth, Tick, u32)>);

impl Least {
    /// Looks at one more entry.
    pub(crate) fn look(&mut self, worth: Worth, seen: Tick, number: u32) {
        let is_less = |(other, since, _): (Worth, Tick, u32)| {
            worth < other || worth == other && (seen.since(since) as i32) < 0
        };
        if self.0.is_none_or(is_less) {
            self.0 = Some((worth, seen, number));
        }
    }

    /// Its number.
    pub(crate) fn number(self) -> Option<u32> {
        self.0.map(|(_, _, number)| number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_holds_much_gives_way_to_who_holds_little() {
        // Of 1000 entries: who has an entry, who wants one > what an entry is worth that is not open, that is open.
        for (holder, newcomer, not_open, open) in [
            (1, 0, Some(Worth::NotOpen), None),
            (16, 0, Some(Worth::NotOpen), None),
            // Much more, but no sixteenth of all.
            (62, 0, Some(Worth::NotOpen), None),
            (63, 0, Some(Worth::NotOpen), Some(Worth::OfWhoFills)),
            (63, 23, Some(Worth::NotOpen), Some(Worth::OfWhoFills)),
            // No more than twice as many and a few.
            (63, 24, Some(Worth::NotOpen), None),
            (900, 900, Some(Worth::NotOpen), None),
            // Who fills the table takes nothing from the others.
            (1, 63, None, None),
            (23, 63, None, None),
            (24, 63, Some(Worth::NotOpen), None),
        ] {
            let rivals = Rivals { holder, newcomer, live: 1000 };
            assert_eq!((rivals.not_open(), rivals.open()), (not_open, open), "{rivals:?}");
        }
        let few = Rivals { holder: 16, newcomer: 0, live: 17 };
        assert!(!few.holder_fills(), "a few are a few in a small table, too");
    }

    #[test]
    fn what_is_worth_least_gives_way_and_of_these_the_oldest() {
        let tick = |ms| Tick::of(crate::time::Time::from_ms(ms));
        let mut least = Least::default();
        for (number, (worth, ms)) in (0..).zip([
            (Worth::OfWhoFills, 100),
            (Worth::OfTheRicher, 5000),
            (Worth::NotOpen, 9000),
            (Worth::NotOpen, 7000),
            (Worth::NotOpen, 8000),
            (Worth::OfTheRicher, 0),
        ]) {
            least.look(worth, tick(ms), number);
        }
        assert_eq!(least.number(), Some(3));
        assert_eq!(Least::default().number(), None);
    }
}
