//! The monkey: disturbs the messages of devices as a bad line and bad devices do, from a seed.
//!
//! ```text
//!  message of a device > lost | doubled | late | overtaken | malformed | wrong id | as it is > line
//!  message of the BNG  > lost | as it is > device
//! ```
//! Packets of sessions (IP) pass undisturbed: their counts are the check.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use weir_bng::pppoe::{DISCOVERY, SESSION};
use weir_packet::fields::be16;
use weir_rng::Rng;

use crate::device::NEVER;
use crate::summary::MonkeySummary;

/// Of 100 messages that a device sends, so many are disturbed in each way.
const LOST: usize = 5;
const DOUBLED: usize = 4;
const LATE: usize = 4;
const OVERTAKEN: usize = 4;
const MALFORMED: usize = 4;
const WRONG_ID: usize = 3;
/// Of 100 messages of the BNG, so many are lost.
const LOST_ANSWERS: usize = 5;
/// A late message comes after this time, at most.
const LATE_NS: u64 = 5_000_000_000;
/// An overtaken message comes so much later, enough for those behind it.
const OVERTAKEN_NS: u64 = 20_000_000;
/// Messages that wait; more are lost.
const MOST_WAITING: usize = 100_000;
/// Bytes of an Ethernet header without tags.
const ETHERNET: usize = 14;
/// Where the session id of PPPoE, the identifier of PPP and the transaction number of DHCP are in an untagged frame.
const SESSION_ID: usize = 16;
const PPP_ID: usize = 23;
const XID: usize = 46;

/// A message that comes later: first by time, then by number.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Late {
    at_ns: u64,
    number: u64,
    device: u32,
    frame: Vec<u8>,
}

/// The monkey.
#[derive(Debug)]
pub(crate) struct Monkey {
    rng: Rng,
    waiting: BinaryHeap<Reverse<Late>>,
    number: u64,
    pub(crate) counts: MonkeySummary,
}

impl Monkey {
    pub(crate) fn new(seed: u64) -> Monkey {
        Monkey {
            rng: Rng::new(seed),
            waiting: BinaryHeap::new(),
            number: 0,
            counts: MonkeySummary { seed, ..MonkeySummary::default() },
        }
    }

    /// What is sent at once in place of an untagged message of a device.
    pub(crate) fn disturb(&mut self, device: u32, mut frame: Vec<u8>, now_ns: u64) -> Vec<Vec<u8>> {
        let mut throw = self.rng.below(100);
        let mut is = |share: usize| {
            let is = throw < share;
            throw = throw.wrapping_sub(share);
            is
        };
        if is(LOST) {
            self.counts.lost += 1;
            return Vec::new();
        }
        if is(DOUBLED) {
            self.counts.doubled += 1;
            return vec![frame.clone(), frame];
        }
        if is(LATE) {
            self.counts.late += 1;
            let wait_ns = (self.rng.unit() * LATE_NS as f64) as u64;
            self.wait(device, frame, now_ns + wait_ns);
            return Vec::new();
        }
        if is(OVERTAKEN) {
            self.counts.overtaken += 1;
            self.wait(device, frame, now_ns + OVERTAKEN_NS);
            return Vec::new();
        }
        if is(MALFORMED) {
            self.counts.malformed += 1;
            self.deform(&mut frame);
        } else if is(WRONG_ID) {
            self.counts.wrong_ids += 1;
            self.change_id(&mut frame);
        }
        vec![frame]
    }

    /// Whether a message of the BNG is lost.
    pub(crate) fn loses_answer(&mut self) -> bool {
        let is_lost = self.rng.below(100) < LOST_ANSWERS;
        self.counts.lost_answers += u64::from(is_lost);
        is_lost
    }

    fn wait(&mut self, device: u32, frame: Vec<u8>, at_ns: u64) {
        if self.waiting.len() < MOST_WAITING {
            self.number += 1;
            self.waiting.push(Reverse(Late { at_ns, number: self.number, device, frame }));
        }
    }

    /// Cuts a message, or changes a byte behind the Ethernet header.
    fn deform(&mut self, frame: &mut Vec<u8>) {
        let behind = frame.len().saturating_sub(ETHERNET);
        if behind == 0 {
            return;
        }
        let place = ETHERNET + self.rng.below(behind);
        if self.rng.below(2) == 0 {
            frame.truncate(place);
        } else if let Some(byte) = frame.get_mut(place) {
            *byte ^= 1 << self.rng.below(8);
        }
    }

    fn change_id(&mut self, frame: &mut [u8]) {
        let place = match be16(frame, 12) {
            Some(SESSION) if self.rng.below(2) == 0 => PPP_ID,
            Some(SESSION | DISCOVERY) => SESSION_ID + self.rng.below(2),
            _ => XID + self.rng.below(4),
        };
        if let Some(byte) = frame.get_mut(place) {
            *byte ^= 1 + self.rng.below(255) as u8;
        }
    }

    /// The next message whose time has come, and its device.
    pub(crate) fn next_late(&mut self, now_ns: u64) -> Option<(u32, Vec<u8>)> {
        self.waiting.peek().filter(|Reverse(late)| late.at_ns <= now_ns)?;
        self.waiting.pop().map(|Reverse(late)| (late.device, late.frame))
    }

    /// When the next message comes.
    pub(crate) fn due_ns(&self) -> u64 {
        self.waiting.peek().map_or(NEVER, |Reverse(late)| late.at_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_is_counted_once_and_the_seed_decides() {
        let run = || {
            let mut monkey = Monkey::new(7);
            let mut sent = 0;
            for n in 0..10_000_u32 {
                sent += monkey.disturb(n, vec![0; 60], 0).len() as u64;
            }
            let late = std::iter::from_fn(|| monkey.next_late(NEVER)).count() as u64;
            (sent, late, monkey.counts)
        };
        let (sent, late, counts) = run();
        assert_eq!(sent + late, 10_000 - counts.lost + counts.doubled);
        assert_eq!(late, counts.late + counts.overtaken);
        for (count, share) in [
            (counts.lost, LOST),
            (counts.doubled, DOUBLED),
            (counts.late, LATE),
            (counts.overtaken, OVERTAKEN),
            (counts.malformed, MALFORMED),
            (counts.wrong_ids, WRONG_ID),
        ] {
            assert!(count.abs_diff(share as u64 * 100) < 100, "{counts:?}");
        }
        assert_eq!(run(), (sent, late, counts));
    }
}
