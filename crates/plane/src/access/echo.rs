//! Which PPPoE sessions still live: the node asks those that are silent, by echo requests of LCP (RFC 1661, section 5.8).
//!
//! ```text
//! turn of a session, once in its interval:   packets or own PPP since the last turn   > alive, not asked
//!                                            only the answer to the last request      > alive, asked
//!                                            neither > asked; after so many requests in a row without an answer: dead
//! ```
//! All that comes from the subscriber counts as an answer, also echo requests of its own: a device that asks each 30 s is not asked. So a
//! frame costs nothing here: a turn compares the counters of the session with
//! those of the turn before. Turns are places in a wheel of slots of 17 ms; the first turn of a session is at a part of its interval
//! that follows from its index, so that sessions that begin together have turns that are spread evenly.
//!
//! Invariant: each session that is asked has one place that counts: in the slot of its next turn. A place of a session that has ended is
//! ignored when its slot comes.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use crate::time::Time;

/// Nanoseconds of a slot, as a power of two.
const SLOT_BITS: u32 = 24;
/// Slots of the wheel, which turns once in 69 s.
const SLOTS: usize = 4096;
/// Bits of a word of the set of slots.
const WORD: usize = 64;
/// Turns of a call, at most: a request costs more than a frame that passes.
pub(super) const MOST: usize = 64;
/// Events that wait for a reader, at most.
const MOST_EVENTS: usize = 1 << 16;

/// How often a session is asked, s (0: never), and after how many requests in a row without an answer it is dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct EchoTimes {
    pub(crate) interval_s: u16,
    pub(crate) most_lost: u8,
}

/// A session that was alive is dead, or the other way round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SubscriberEvent {
    /// The number of the session.
    pub session: u64,
    /// Whether its subscriber has sent something again; else it has not answered.
    pub is_alive: bool,
}

/// What was counted of what a subscriber has sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Heard {
    /// Packets.
    pub(super) packets: u64,
    /// Frames of PPP that carried none, answers to echo requests among them.
    pub(super) control: u64,
}

/// What is known of a session.
#[derive(Debug, Clone, Copy, Default)]
struct Asked {
    times: EchoTimes,
    /// The slot of its next turn, counted from the beginning of time.
    turn: u64,
    /// The counters at its last turn.
    heard: Heard,
    /// Requests in a row that were not answered.
    lost: u8,
    /// A request was sent at its last turn.
    is_asked: bool,
    is_dead: bool,
    /// Of its last request.
    id: u8,
}

/// The wheel.
#[derive(Debug)]
pub(super) struct Echoes {
    sessions: Vec<Asked>,
    slots: Vec<Vec<u32>>,
    /// A bit for each slot that has places.
    filled: [u64; SLOTS / WORD],
    /// Sessions whose first turn has no slot yet.
    fresh: Vec<u32>,
    /// The first slot that has not come yet, counted from the beginning of time.
    at: u64,
    /// Places of that slot that are for another time round.
    later: Vec<u32>,
    pub(super) events: Vec<SubscriberEvent>,
}

impl Default for Echoes {
    fn default() -> Echoes {
        Echoes {
            sessions: Vec::new(),
            slots: Vec::new(),
            filled: [0; SLOTS / WORD],
            fresh: Vec::new(),
            at: 0,
            later: Vec::new(),
            events: Vec::new(),
        }
    }
}

fn slot_of(now: Time) -> u64 {
    now.ns() >> SLOT_BITS
}

/// Slots that are so many seconds.
fn slots(seconds: u16) -> u64 {
    ((u64::from(seconds) * 1_000_000_000) >> SLOT_BITS).max(1)
}

/// Where a slot is in the wheel.
fn place(slot: u64) -> usize {
    (slot % SLOTS as u64) as usize
}

impl Echoes {
    /// The session of an index is asked so from now on; what was heard of it stays.
    pub(super) fn set(&mut self, index: u32, times: EchoTimes) {
        if self.sessions.len() <= index as usize {
            if times.interval_s == 0 {
                return;
            }
            self.sessions.resize(index as usize + 1, Asked::default());
        }
        let Some(asked) = self.sessions.get_mut(index as usize).filter(|asked| asked.times != times) else {
            return;
        };
        // Its place in the wheel does not count any more.
        *asked = Asked { times, heard: asked.heard, id: asked.id, ..Asked::default() };
        if times.interval_s > 0 {
            // A node without PPPoE has no wheel.
            self.slots.resize(SLOTS, Vec::new());
            self.fresh.push(index);
        }
    }

    /// The session of an index has ended.
    pub(super) fn remove(&mut self, index: u32) {
        self.sessions.get_mut(index as usize).into_iter().for_each(|asked| *asked = Asked::default());
    }

    /// Whether it has not answered.
    pub(super) fn is_dead(&self, index: u32) -> bool {
        self.sessions.get(index as usize).is_some_and(|asked| asked.is_dead)
    }

    /// When there is something to do, if nothing changes.
    pub(super) fn due(&self, now: Time) -> Option<Time> {
        if !self.fresh.is_empty() {
            return Some(now);
        }
        let first = place(self.at);
        let words = self.filled.len();
        // The first word once more at last, with the bits before the first one.
        let found = (0..=words).find_map(|n| {
            let k = (first / WORD + n) % words;
            let bits = self.filled.get(k).copied().unwrap_or_default();
            let behind = u64::MAX << (first % WORD);
            let bits = match n {
                0 => bits & behind,
                n if n == words => bits & !behind,
                _ => bits,
            };
            (bits != 0).then(|| k * WORD + bits.trailing_zeros() as usize)
        })?;
        let ahead = (found + SLOTS - first) % SLOTS;
        Some(Time::from_ns((self.at + ahead as u64 + 1) << SLOT_BITS))
    }

    /// The index of the next session whose turn has come; the caller tells [`Echoes::turn`] what was heard of it.
    pub(super) fn next(&mut self, now: Time) -> Option<u32> {
        let end = slot_of(now);
        self.place_fresh(end);
        // After a long pause each session has one turn.
        self.at = self.at.max(end.saturating_sub(SLOTS as u64));
        while self.at < end {
            let (at, k) = (self.at, place(self.at));
            let slot = self.slots.get_mut(k)?;
            while let Some(index) = slot.pop() {
                match self.sessions.get(index as usize).map_or(0, |asked| asked.turn) {
                    0 => {}
                    turn if turn <= at => return Some(index),
                    turn if place(turn) == k => self.later.push(index),
                    _ => {}
                }
            }
            slot.append(&mut self.later);
            self.mark(k);
            self.at += 1;
        }
        None
    }

    /// Gives sessions that have begun their first turns.
    fn place_fresh(&mut self, now: u64) {
        for _ in 0..MOST {
            let Some(index) = self.fresh.pop() else { return };
            let Some(asked) =
                self.sessions.get_mut(index as usize).filter(|asked| asked.times.interval_s > 0)
            else {
                continue;
            };
            // Multiples of the golden section lie evenly, however many there are.
            let part = u64::from(index.wrapping_mul(0x9e37_79b9));
            asked.turn = now.max(self.at) + 1 + ((part * slots(asked.times.interval_s)) >> 32);
            let turn = asked.turn;
            self.insert(index, turn);
        }
    }

    fn insert(&mut self, index: u32, turn: u64) {
        let k = place(turn);
        self.slots.get_mut(k).into_iter().for_each(|slot| slot.push(index));
        self.mark(k);
    }

    /// Notes whether a slot has places.
    fn mark(&mut self, k: usize) {
        let is_filled = self.slots.get(k).is_some_and(|slot| !slot.is_empty());
        if let Some(bits) = self.filled.get_mut(k / WORD) {
            let bit = 1 << (k % WORD);
            *bits = if is_filled { *bits | bit } else { *bits & !bit };
        }
    }

    /// A session has its turn, before which its subscriber has sent this. Returns the id of a request to send, if any.
    pub(super) fn turn(&mut self, index: u32, session: u64, heard: Heard) -> Option<u8> {
        let asked = self.sessions.get_mut(index as usize)?;
        let is_silent = asked.heard == heard;
        // Of what came one frame is the answer to the last request.
        let control = heard.control.saturating_sub(asked.heard.control);
        let is_idle = asked.heard.packets == heard.packets && control <= u64::from(asked.is_asked);
        asked.heard = heard;
        asked.lost = match (is_silent, asked.is_asked) {
            (true, true) => asked.lost.saturating_add(1),
            (true, false) => asked.lost,
            (false, _) => 0,
        };
        let was_dead = std::mem::replace(&mut asked.is_dead, asked.lost >= asked.times.most_lost);
        if was_dead != asked.is_dead && self.events.len() < MOST_EVENTS {
            self.events.push(SubscriberEvent { session, is_alive: was_dead });
        }
        asked.is_asked = is_idle;
        asked.id = asked.id.wrapping_add(u8::from(is_idle));
        asked.turn = (asked.turn + slots(asked.times.interval_s)).max(self.at + 1);
        let (turn, id) = (asked.turn, asked.id);
        self.insert(index, turn);
        is_idle.then_some(id)
    }

    /// Memory, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.sessions.len() * size_of::<Asked>()
            + self.slots.len() * size_of::<Vec<u32>>()
            + self.slots.iter().map(Vec::capacity).sum::<usize>() * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EACH_30_S: EchoTimes = EchoTimes { interval_s: 30, most_lost: 3 };

    fn packets(packets: u64) -> Heard {
        Heard { packets, control: 0 }
    }

    /// Runs until `end`, and tells of each turn: when, which session, the request.
    fn run(
        echoes: &mut Echoes,
        end: Time,
        heard: impl Fn(Time, u32) -> Heard,
    ) -> Vec<(Time, u32, Option<u8>)> {
        let mut turns = Vec::new();
        let mut now = Time::default();
        while let Some(due) = echoes.due(now).filter(|due| *due <= end) {
            assert!(due >= now, "{due:?} {now:?}");
            now = due;
            while let Some(index) = echoes.next(now) {
                let request = echoes.turn(index, index.into(), heard(now, index));
                turns.push((now, index, request));
            }
        }
        turns
    }

    /// Each session has a turn in each interval, and of 64,000 no more than a few at a time.
    #[test]
    fn turns_are_spread_evenly() {
        let mut echoes = Echoes::default();
        (1..=64_000).for_each(|index| echoes.set(index, EACH_30_S));
        let turns = run(&mut echoes, Time::from_ms(95_000), |now, _| packets(now.ns()));
        let (mut last, mut count) = (vec![None; 64_001], std::collections::BTreeMap::new());
        for (now, index, request) in turns {
            *count.entry(now.ns() >> SLOT_BITS).or_insert(0) += 1;
            if let Some(before) = last[index as usize].replace(now) {
                let passed = (now - before).as_millis();
                assert!((29_960..=30_040).contains(&passed), "{index}: {passed} ms");
            }
            assert_eq!(request, None, "it is heard all the time");
        }
        assert!(last[1..].iter().all(|last| last.is_some_and(|last| last >= Time::from_ms(64_900))));
        // 64,000 in 30 s are 35.8 in a slot.
        let most = count.values().max().expect("turns");
        assert!(*most <= 45, "{most} in a slot");
    }

    #[test]
    fn a_silent_session_is_dead_after_three_requests_and_alive_with_the_next_frame() {
        let mut echoes = Echoes::default();
        echoes.set(1, EACH_30_S);
        echoes.set(2, EACH_30_S);
        echoes.set(3, EACH_30_S);
        echoes.set(4, EACH_30_S);
        // The first one sends until 100 s, and again from 400 s on; the second one always; the third one only answers; the fourth one asks
        // by itself.
        let heard = |now: Time, index| match (index, now.ns() / 1_000_000_000) {
            (1, s @ 100..400) => packets(s.min(100)),
            (3, s) => Heard { packets: 0, control: s / 30 },
            (4, s) => Heard { packets: 0, control: s / 15 },
            (_, s) => packets(s),
        };
        let turns = run(&mut echoes, Time::from_ms(500_000), heard);
        let of = |which: u32| turns.iter().filter(move |(_, index, _)| *index == which);
        assert!(of(2).all(|(_, _, request)| request.is_none()));
        assert!(of(3).all(|(_, _, request)| request.is_some()), "it answers, and sends nothing else");
        assert!(of(4).skip(1).all(|(_, _, request)| request.is_none()), "it asks by itself");
        let asked: Vec<u8> = of(1).filter_map(|(_, _, request)| *request).collect();
        assert!(asked.len() >= 8 && asked.is_sorted_by(|a, b| a + 1 == *b), "{asked:?}");
        let [dead, alive] = &echoes.events[..] else { panic!("{:?}", echoes.events) };
        assert_eq!(*dead, SubscriberEvent { session: 1, is_alive: false });
        assert_eq!(*alive, SubscriberEvent { session: 1, is_alive: true });
        assert!((1..5).all(|index| !echoes.is_dead(index)));
    }

    /// Sessions come, change and go; turns are those of sessions that there are, and come at most once in an interval.
    #[test]
    fn places_of_sessions_that_have_ended_are_ignored() {
        let mut random = crate::random::Random(7);
        let mut echoes = Echoes::default();
        let mut since: Vec<Option<(u64, EchoTimes)>> = vec![None; 50];
        let mut turns = 0;
        for step in 0..40_000_u64 {
            let now = Time::from_ms(step * 50);
            let index = random.below(50) as u32;
            match random.below(20) {
                0 => {
                    echoes.remove(index);
                    since[index as usize] = None;
                }
                1 | 2 => {
                    let times = EchoTimes { interval_s: random.below(150) as u16, most_lost: 3 };
                    if since[index as usize].is_none_or(|(_, old)| old != times) {
                        since[index as usize] = Some((step, times));
                    }
                    echoes.set(index, times);
                }
                _ => {}
            }
            while let Some(index) = echoes.next(now) {
                let (last, times) = since[index as usize].expect("it lives");
                assert!(times.interval_s > 0);
                let passed_ms = (step - last) * 50;
                assert!(
                    passed_ms <= u64::from(times.interval_s) * 1000 + 200,
                    "step {step}: {index} after {passed_ms} ms"
                );
                since[index as usize] = Some((step, times));
                echoes.turn(index, 0, packets(step));
                turns += 1;
            }
            for (index, known) in since.iter().enumerate() {
                let Some((last, times)) = known.filter(|(_, times)| times.interval_s > 0) else { continue };
                let passed_ms = (step - last) * 50;
                assert!(
                    passed_ms <= u64::from(times.interval_s) * 1000 + 200,
                    "step {step}: {index} has no turn"
                );
            }
        }
        assert!(turns > 500, "{turns} turns");
    }
}
