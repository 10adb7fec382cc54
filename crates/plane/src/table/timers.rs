//! When a session is over: ages by class, and the hand that walks over all sessions.
//!
//! There is no list of what ends when. A hand goes over all slots in the order of memory, once in [`ROUND`], and takes
//! what is too old: as many slots per call as the time since the last one asks for, so that no call is long. A frame
//! therefore writes nothing but the time it came, and memory read in order costs little. A reader that finds a session too old
//! before the hand does treats it as gone: its age is exact, only the memory comes back a little later. A mapping of several
//! sessions does not know their ages: it ends when the hand has come to all of them, up to [`ROUND`] after the last was over.

use std::time::Duration;

use crate::time::Time;

/// Nanoseconds of a tick, as a power of two.
const TICK_BITS: u32 = 20;

/// The time of a session's last frame, in ticks of 2^20 ns (1.05 ms), which wrap after 52 days.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Tick(pub(crate) u32);

impl Tick {
    #[inline]
    pub(crate) fn of(now: Time) -> Tick {
        Tick((now.ns() >> TICK_BITS) as u32)
    }

    /// Becomes `now`; memory is written only where that changes it.
    #[inline]
    pub(crate) fn set(&mut self, now: Tick) {
        if *self != now {
            *self = now;
        }
    }

    /// The one of two that is before the other.
    pub(crate) fn earlier(a: Tick, b: Tick) -> Tick {
        if b.since(a) <= u32::MAX / 2 { a } else { b }
    }

    /// When it begins, if it is `now` or later; where it is behind, the tick of now.
    pub(crate) fn time(self, now: Time) -> Time {
        let ahead = self.since(Tick::of(now));
        // A tick is half of all ticks ahead at most.
        let ahead = if ahead > u32::MAX / 2 { 0 } else { ahead };
        Time::from_ns(((now.ns() >> TICK_BITS) + u64::from(ahead)) << TICK_BITS)
    }

    /// Becomes `other`, if that is later.
    pub(crate) fn set_later(&mut self, other: Tick) {
        if other.since(*self) <= u32::MAX / 2 {
            self.set(other);
        }
    }

    /// Ticks since `earlier`.
    #[inline]
    pub(crate) fn since(self, earlier: Tick) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }

    /// Ticks that are no shorter than this time.
    pub(crate) fn count(time: Duration) -> u32 {
        // 20 days: what is older than half a round of ticks looks young again.
        let most = Duration::from_secs(20 * 86_400);
        (time.min(most).as_nanos() >> TICK_BITS) as u32 + 1
    }
}

/// What a session is, as far as its age goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Class {
    Udp,
    Icmp,
    /// Between the first SYN and the end of the handshake.
    TcpOpening,
    TcpEstablished,
    /// Both sides sent their FIN.
    TcpClosing,
    /// A RST was seen.
    TcpReset,
    /// Protocols without ports.
    Other,
    /// A mapping without a session of its own: it lasts as long as others depend on it, or is static.
    Lasting,
}

/// Classes that end by age.
const CLASSES: usize = 7;

/// How long each class lives after its last frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Timeouts(pub(crate) [Duration; CLASSES]);

impl Default for Timeouts {
    /// RFC 4787 REQ-5c, RFC 5508 REQ-2, RFC 5382 REQ-5, RFC 7857 section 2.2.
    fn default() -> Timeouts {
        Timeouts([300, 60, 240, 7440, 240, 240, 300].map(Duration::from_secs))
    }
}

/// An age that can be set, with the least that the RFCs allow.
pub(crate) struct Setting {
    pub(crate) name: &'static str,
    pub(crate) class: Class,
    pub(crate) least_s: u64,
    pub(crate) source: &'static str,
}

/// All of them.
pub(crate) const SETTINGS: &[Setting] = &[
    Setting { name: "udp-timeout", class: Class::Udp, least_s: 120, source: "RFC 4787 REQ-5" },
    Setting { name: "icmp-timeout", class: Class::Icmp, least_s: 60, source: "RFC 5508 REQ-2" },
    Setting { name: "tcp-opening-timeout", class: Class::TcpOpening, least_s: 240, source: "RFC 5382 REQ-5" },
    Setting { name: "tcp-timeout", class: Class::TcpEstablished, least_s: 7440, source: "RFC 5382 REQ-5" },
    Setting { name: "tcp-closing-timeout", class: Class::TcpClosing, least_s: 240, source: "RFC 5382 REQ-5" },
    Setting {
        name: "tcp-reset-timeout",
        class: Class::TcpReset,
        least_s: 240,
        source: "RFC 7857 section 2.2",
    },
    Setting { name: "other-timeout", class: Class::Other, least_s: 120, source: "as UDP" },
];

/// The ages in ticks, as they are compared for each frame.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ages([u32; CLASSES + 1]);

impl Ages {
    pub(crate) fn new(timeouts: &Timeouts) -> Ages {
        let mut ages = [u32::MAX; CLASSES + 1];
        for (age, &time) in ages.iter_mut().zip(&timeouts.0) {
            *age = Tick::count(time);
        }
        Ages(ages)
    }

    /// The last tick at which a session of this class lives that was last seen at `seen`; `None`: it has no age.
    pub(crate) fn end(&self, class: Class, seen: Tick) -> Option<Tick> {
        match class {
            Class::Lasting => None,
            class => Some(Tick(seen.0.wrapping_add(self.0[class as usize]))),
        }
    }

    /// Whether a session of this class that was last seen at `seen` is over.
    #[inline]
    pub(crate) fn over(&self, class: Class, seen: Tick, now: Tick) -> bool {
        now.since(seen) > self.0[class as usize]
    }
}

/// Time in which the hand comes to each slot once, if the node is run often enough.
const ROUND: Duration = Duration::from_secs(8);
/// How often the hand is to be moved while there is something that ends: a fraction of [`ROUND`].
pub(crate) const WALK_INTERVAL: Duration = Duration::from_millis(50);
/// Slots that a call looks at, at most; a thread with nothing else to do calls again as long as the hand is behind.
const MOST: u32 = 256;
/// Slots that a call looks at, at least: a small table is walked whole each time.
const LEAST: u32 = 16;

/// The place that the walk over all slots has come to.
#[derive(Debug, Default)]
pub(crate) struct Hand {
    at: u32,
    last: Tick,
    /// Slots that it should have looked at by now, beside.
    behind: u32,
}

impl Hand {
    /// Whether it should have looked at more slots by now.
    pub(crate) fn is_behind(&self) -> bool {
        self.behind > 0
    }

    /// The slots to look at now, of `slots`: a range up to the end, and a range from the beginning.
    pub(crate) fn walk(&mut self, now: Tick, slots: u32) -> [std::ops::Range<u32>; 2] {
        let passed = now.since(self.last).min(Tick::count(ROUND));
        self.last = now;
        let share = (u64::from(slots) * u64::from(passed)).div_ceil(u64::from(Tick::count(ROUND))) as u32;
        let due = self.behind.saturating_add(share).min(slots);
        let count = due.clamp(LEAST, MOST).min(slots);
        self.behind = due.saturating_sub(count);
        let from = if self.at < slots { self.at } else { 0 };
        let to = (from + count).min(slots);
        let rest = count - (to - from);
        self.at = if rest > 0 { rest } else { to };
        [from..to, 0..rest]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_never_shorter_than_was_asked_for() {
        let ages = Ages::new(&Timeouts::default());
        for (class, s) in [(Class::Udp, 300), (Class::TcpEstablished, 7440), (Class::Icmp, 60)] {
            for begin_ns in [0, 1, 1_048_575, 1_048_576, 999_999_999] {
                let seen = Tick::of(Time::from_ns(begin_ns));
                let after = |ns: u64| Tick::of(Time::from_ns(begin_ns + s * 1_000_000_000 + ns));
                assert!(!ages.over(class, seen, after(0)), "{class:?} {begin_ns}");
                assert!(ages.over(class, seen, after(3 << TICK_BITS)), "{class:?} {begin_ns}");
            }
        }
        assert!(!ages.over(Class::Lasting, Tick(5), Tick(4)));
        // The ticks begin anew after 52 days.
        assert!(!ages.over(Class::Udp, Tick(u32::MAX - 10), Tick(10)));
    }

    #[test]
    fn the_hand_comes_to_each_slot_once_per_round() {
        for (slots, step) in [(3, 1), (40, 1), (100_000, 1), (1_000_000, 1), (100_000, 20)] {
            let mut hand = Hand::default();
            let mut visits = vec![0_u32; slots as usize];
            let mut longest = 0;
            let rounds = Tick::count(ROUND) / step + 2;
            for n in 1..=rounds {
                let ranges = hand.walk(Tick(n * step), slots);
                longest = longest.max(ranges.iter().map(|range| range.len()).sum());
                ranges.into_iter().flatten().for_each(|slot| visits[slot as usize] += 1);
            }
            assert!(longest <= MOST as usize, "{slots}: {longest}");
            let least = visits.iter().min().expect("slots");
            assert!(*least >= 1 || u64::from(slots) > u64::from(rounds) * u64::from(MOST), "{slots} {step}");
        }
    }
}
