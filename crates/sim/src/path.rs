//! The way of a group's segments behind the bottleneck, and of their ACKs back: fixed delays that lose nothing, then the
//! impairments that the scenario asks for.

use std::collections::VecDeque;

use weir_queue::Time;
use weir_rng::Rng;

use crate::scenario::{Group, Impairment, Loss, Policer};
use crate::segment::{AckMessage, Arrival, Due};

/// What becomes of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    /// It is in the line.
    Queued,
    /// It is overtaken and arrives then.
    Late(Time),
    Lost,
}

/// The tokens of a policer.
#[derive(Debug, Clone, Copy, Default)]
struct Bucket {
    /// Bytes that are missing until it is full.
    missing: f64,
    last: Time,
}

impl Bucket {
    fn passes(&mut self, policer: &Policer, bytes: u32, now: Time) -> bool {
        let earned = (now - self.last).secs() * policer.bits_per_s / 8.0;
        self.last = now;
        self.missing = (self.missing - earned).max(0.0);
        let passes = self.missing + f64::from(bytes) <= policer.burst_bytes;
        if passes {
            self.missing += f64::from(bytes);
        }
        passes
    }
}

/// Two lines, one for each direction; each is in the order of time.
#[derive(Debug)]
pub(crate) struct Path {
    forward: Time,
    back: Time,
    pub(crate) impairment: Impairment,
    in_burst: bool,
    bucket: Bucket,
    rng: Rng,
    pub(crate) segments: VecDeque<Due<Arrival>>,
    pub(crate) acks: VecDeque<Due<AckMessage>>,
}

impl Path {
    pub(crate) fn new(group: &Group, seed: u64) -> Path {
        let forward = group.rtt / 2;
        Path {
            forward,
            back: group.rtt - forward,
            impairment: group.impairment,
            in_burst: false,
            bucket: Bucket::default(),
            rng: Rng::new(seed),
            segments: VecDeque::new(),
            acks: VecDeque::new(),
        }
    }

    fn loses(&mut self) -> bool {
        match self.impairment.loss {
            None => false,
            Some(Loss::Random(p)) => self.rng.unit() < p,
            Some(Loss::Burst { enters, leaves }) => {
                let p = if self.in_burst { leaves } else { enters };
                self.in_burst ^= self.rng.unit() < p;
                self.in_burst
            }
        }
    }

    /// A segment of `bytes` has left the link at `at`.
    pub(crate) fn send(&mut self, arrival: Arrival, bytes: u32, at: Time) -> Sent {
        let policed = self.impairment.policer.is_some_and(|policer| !self.bucket.passes(&policer, bytes, at));
        if policed || self.loses() {
            return Sent::Lost;
        }
        let mut at = at + self.forward;
        let Impairment { jitter, reorder, reorder_by, .. } = self.impairment;
        if jitter > Time::ZERO {
            at += Time::from_ps((self.rng.unit() * jitter.ps() as f64) as u64);
        }
        if reorder > 0.0 && self.rng.unit() < reorder {
            return Sent::Late(at + reorder_by);
        }
        let at = self.segments.back().map_or(at, |last| at.max(last.at));
        self.segments.push_back(Due { at, what: arrival });
        Sent::Queued
    }

    /// The receiver sends an ACK at `now`.
    pub(crate) fn acknowledge(&mut self, ack: AckMessage, now: Time) {
        let mut at = now + self.back;
        let every = self.impairment.ack_every.ps();
        if every > 0 {
            at = Time::from_ps(at.ps().div_ceil(every) * every);
        }
        self.acks.push_back(Due { at, what: ack });
    }
}

#[cfg(test)]
mod tests {
    use weir_queue::Ecn;

    use super::*;
    use crate::cc::Name;
    use crate::segment::Data;

    fn path(impairment: Impairment) -> Path {
        Path::new(&Group { impairment, ..Group::new(1, Name::Reno, Time::from_ms(20)) }, 3)
    }

    fn send(path: &mut Path, ms: u64) -> Sent {
        path.send(Arrival { data: Data { flow: 0, seq: ms }, ecn: Ecn::NotEct }, 1000, Time::from_ms(ms))
    }

    #[test]
    fn jitter_delays_and_keeps_the_order() {
        let mut path = path(Impairment { jitter: Time::from_ms(5), ..Impairment::default() });
        (0..1000).for_each(|ms| assert_eq!(send(&mut path, ms), Sent::Queued));
        let mut last = Time::ZERO;
        for (ms, due) in (0..).zip(&path.segments) {
            let delay = due.at - Time::from_ms(ms);
            assert!(
                due.at >= last && delay >= Time::from_ms(10) && delay <= Time::from_ms(15),
                "{ms} ms: {delay:?}"
            );
            last = due.at;
        }
    }

    #[test]
    fn bursts_have_their_length_and_their_share() {
        // a burst of 10 in 100
        let loss = Some(Loss::Burst { enters: 1.0 / 90.0, leaves: 0.1 });
        let mut path = path(Impairment { loss, ..Impairment::default() });
        let lost: Vec<bool> = (0..100_000).map(|ms| send(&mut path, ms) == Sent::Lost).collect();
        let all = lost.iter().filter(|&&lost| lost).count() as f64;
        let bursts = lost.windows(2).filter(|pair| !pair[0] && pair[1]).count() as f64;
        assert!(
            (all / 1e5 - 0.1).abs() < 0.01 && (all / bursts - 10.0).abs() < 1.0,
            "{all} in {bursts} bursts"
        );
    }

    #[test]
    fn a_policer_passes_a_burst_and_then_its_rate() {
        // 5000 bytes at once, then 1000 bytes in 4 ms
        let policer = Some(Policer { bits_per_s: 2e6, burst_bytes: 5000.0 });
        let mut path = path(Impairment { policer, ..Impairment::default() });
        let passed: Vec<u64> = (0..30).filter(|&ms| send(&mut path, ms) == Sent::Queued).collect();
        assert_eq!(passed, [0, 1, 2, 3, 4, 5, 8, 12, 16, 20, 24, 28]);
    }

    #[test]
    fn acks_come_in_groups() {
        let mut path = path(Impairment { ack_every: Time::from_ms(8), ..Impairment::default() });
        let ack = AckMessage { flow: 0, next: 0, beyond: None, duplicate: false, ce: 0 };
        (0..12).for_each(|ms| path.acknowledge(ack, Time::from_ms(ms)));
        let ms: Vec<u64> = path.acks.iter().map(|due| due.at.ns() / 1_000_000).collect();
        assert_eq!(ms, [16, 16, 16, 16, 16, 16, 16, 24, 24, 24, 24, 24]);
    }
}
