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
