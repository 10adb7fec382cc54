//! Somebody who came near a limit: slots of the last second, and where the attack stands.
//!
//! ```text
//! near > suspect > over: start, update, ..., end > near > forgotten
//! ```
//! A start is told when the rate over the last second exceeds a limit and the second lies within the attack, that is,
//! when the newest slot is no faster than the second as a whole; a second after the limit was crossed at the latest.
//! So the first event has the attack's rate, not that of its rise.

use crate::config::Hysteresis;
use crate::counts::{Counts, Limits, Metric, Rates, SLOT_NS, WINDOW};
use crate::evidence::Sample;

/// A rate may still grow by this much while it counts as settled.
const SETTLED: f64 = 1.02;
/// A host is watched from this share of a limit on.
pub(crate) const NEAR: f64 = 0.5;
/// Slots after which a host that stays below that is forgotten.
const FORGET_SLOTS: u32 = 20;

/// One host or group in one direction.
#[derive(Debug, Clone)]
pub(crate) struct Watch {
    /// The newest slot is the last.
    history: [Counts; WINDOW],
    state: State,
    pub(crate) sample: Sample,
    seed: u32,
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// Below all limits, for so many slots also below [`NEAR`].
    Near {
        calm: u32,
    },
    /// Over a limit for so many slots, but the rate has not settled.
    Suspect {
        slots: u32,
    },
    Over(Attack),
}

/// An attack that was told.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attack {
    /// Number of the attack, from 1.
    pub(crate) id: u64,
    /// Slots since the limit was crossed.
    pub(crate) since_crossed: u32,
    /// Slots since its start was told.
    slots: u32,
    pub(crate) metric: Metric,
    pub(crate) limit: f64,
    pub(crate) frames: u64,
    pub(crate) bytes: u64,
    pub(crate) peak_pps: f64,
    pub(crate) peak_bits_per_s: f64,
    /// Slots for which it was below the limit by the margin of hysteresis.
    below: u32,
}

/// What came of a slot.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Change {
    Nothing,
    Start(Attack),
    Update(Attack),
    End(Attack),
    /// Quiet for long: it need not be watched any more.
    Forget,
}

impl Watch {
    /// With the slot that drew attention.
    pub(crate) fn new(first: Counts, seed: u32) -> Watch {
        let mut history = [Counts::default(); WINDOW];
        history[WINDOW - 1] = first;
        Watch { history, state: State::Near { calm: 0 }, sample: Sample::new(seed), seed }
    }

    pub(crate) fn is_over(&self) -> bool {
        matches!(self.state, State::Over(_))
    }

    /// Rates over the last second.
    pub(crate) fn rates(&self) -> Rates {
        Rates::of(&self.history)
    }

    /// A slot has ended. `next_id` is the number of the next attack.
    pub(crate) fn end_slot(
        &mut self,
        counts: Counts,
        limits: &Limits,
        hysteresis: &Hysteresis,
        next_id: &mut u64,
    ) -> Change {
        self.history.rotate_left(1);
        self.history[WINDOW - 1] = counts;
        let second = self.rates();
        match self.state {
            State::Near { .. } | State::Suspect { .. } => self.judge(&second, limits, next_id),
            State::Over(attack) => self.go_on(attack, &second, limits, hysteresis),
        }
    }

    fn judge(&mut self, second: &Rates, limits: &Limits, next_id: &mut u64) -> Change {
        let Some((metric, limit)) = limits.exceeded(second, 1.0) else {
            let calm = match self.state {
                State::Near { calm } if limits.exceeded(second, NEAR).is_none() => calm + 1,
                _ => 0,
            };
            self.state = State::Near { calm };
            return if calm < FORGET_SLOTS { Change::Nothing } else { Change::Forget };
        };
        let slots = match self.state {
            State::Suspect { slots } => slots + 1,
            _ => 0,
        };
        let newest = Rates::of(&self.history[WINDOW - 1..]).get(metric);
        let settled = newest <= second.get(metric) * SETTLED;
        if !settled && slots < WINDOW as u32 {
            self.state = State::Suspect { slots };
            return Change::Nothing;
        }
        let mut attack = Attack {
            id: *next_id,
            since_crossed: slots,
            slots: 0,
            metric,
            limit,
            frames: 0,
            bytes: 0,
            peak_pps: 0.0,
            peak_bits_per_s: 0.0,
            below: 0,
        };
        *next_id += 1;
        self.history.iter().for_each(|slot| attack.add(slot));
        attack.raise_peak(second);
        self.state = State::Over(attack);
        Change::Start(attack)
    }

    fn go_on(
        &mut self,
        mut attack: Attack,
        second: &Rates,
        limits: &Limits,
        hysteresis: &Hysteresis,
    ) -> Change {
        attack.since_crossed += 1;
        attack.slots += 1;
        attack.add(&self.history[WINDOW - 1]);
        attack.raise_peak(second);
        let is_below = limits.exceeded(second, hysteresis.end_share).is_none();
        attack.below = if is_below { attack.below + 1 } else { 0 };
        if attack.below >= slots(hysteresis.end_s) {
            self.state = State::Near { calm: 0 };
            return Change::End(attack);
        }
        self.state = State::Over(attack);
        match attack.slots % slots(hysteresis.update_s) {
            0 => Change::Update(attack),
            _ => Change::Nothing,
        }
    }

    /// The sample so far, and a new one begins.
    pub(crate) fn take_sample(&mut self) -> Sample {
        self.seed = self.seed.wrapping_mul(0x9e37_79b1).wrapping_add(1);
        std::mem::replace(&mut self.sample, Sample::new(self.seed))
    }
}

impl Attack {
    fn add(&mut self, slot: &Counts) {
        self.frames += u64::from(slot.frames);
        self.bytes += u64::from(slot.bytes);
    }

    fn raise_peak(&mut self, second: &Rates) {
        self.peak_pps = self.peak_pps.max(second.pps);
        self.peak_bits_per_s = self.peak_bits_per_s.max(second.bits_per_s);
    }
}

/// Slots of a time, at least one.
fn slots(seconds: f64) -> u32 {
    ((seconds * 1e9 / SLOT_NS as f64).round() as u32).max(1)
}
