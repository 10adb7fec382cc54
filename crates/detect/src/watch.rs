//! A host near a limit: slots of the last second, and the state of the attack.
//!
//! ```text
//! near > suspect > over: start, update, ..., end > near > forgotten
//! ```
//! A limit is exceeded when more came within the last second than it allows for a second: a large attack has done that
//! long before it has lasted for one. Its start is reported as soon as its rate is known, too, so that the first event has
//! the attack's rate, not that of its rise:
//!
//! - from the newest slots alone, half a second at least, when they are so even that three standard errors of their mean
//!   are within [`PRECISION`]. The error is taken from the scatter of the slots, or from the number of frames if that
//!   says more (of N that arrive at random, 1 / sqrt N). So a random stream must have brought 22,500.
//! - from the whole second, when the newest slots are no faster than it, that is, when it lies within the attack, or when
//!   the attack was shorter. A burst of less than half a second is always reported so.
//! - otherwise a second after the limit was crossed.

use crate::config::Hysteresis;
use crate::counts::{Counts, Limits, Metric, Rates, SLOT_NS, WINDOW};
use crate::evidence::Sample;

/// A rate is known when it is certain to this share.
const PRECISION: f64 = 0.02;
/// Standard errors that are to be within it.
const STANDARD_ERRORS: f64 = 3.0;
/// Slots that are needed to judge how even they are: half a second.
const EVEN_SLOTS: usize = WINDOW / 2;
/// The newest slots, by which a second is seen to lie within an attack.
const NEWEST_SLOTS: usize = 3;
/// A host is watched from this share of a limit on.
pub(crate) const NEAR: f64 = 0.5;
/// Slots after which a host that stays below that is forgotten.
const FORGET_SLOTS: u32 = 5 * WINDOW as u32;

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

/// An attack that was reported.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attack {
    /// Number of the attack, from 1.
    pub(crate) id: u64,
    /// Slots since the limit was crossed.
    pub(crate) since_crossed: u32,
    /// Newest slots from which its rates are reported.
    pub(crate) measured: usize,
    /// Slots since its start was reported.
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

/// The result of evaluating a slot.
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
    /// With the slot that drew attention, and how many slots without a frame followed it.
    pub(crate) fn new(first: Counts, silent: usize, seed: u32) -> Watch {
        let mut history = [Counts::default(); WINDOW];
        history[WINDOW - 1 - silent] = first;
        Watch { history, state: State::Near { calm: 0 }, sample: Sample::new(seed), seed }
    }

    pub(crate) fn is_over(&self) -> bool {
        matches!(self.state, State::Over(_))
    }

    /// Rates over so many of the newest slots.
    pub(crate) fn rates(&self, slots: usize) -> Rates {
        Rates::of(self.newest(slots))
    }

    fn newest(&self, slots: usize) -> &[Counts] {
        &self.history[WINDOW - slots..]
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
        let second = self.rates(WINDOW);
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
        let late = (slots >= WINDOW as u32).then_some(WINDOW);
        let Some(measured) = self.known_from(metric, second).or(late) else {
            self.state = State::Suspect { slots };
            return Change::Nothing;
        };
        let mut attack = Attack {
            id: *next_id,
            since_crossed: slots,
            measured,
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

    /// So many of the newest slots tell the rate in this metric, and that in frames/s, as exactly as they should.
    fn known_from(&self, metric: Metric, second: &Rates) -> Option<usize> {
        let metrics = [metric, Metric::Pps];
        let newest = self.rates(NEWEST_SLOTS);
        let is_settled = |&metric: &Metric| newest.get(metric) <= second.get(metric) * (1.0 + PRECISION);
        let is_known = |&slots: &usize| {
            self.rates(slots).get(metric) >= second.get(metric)
                && metrics.iter().all(|&metric| is_even(self.newest(slots), metric))
        };
        let all = metrics.iter().all(is_settled).then_some(WINDOW);
        all.or_else(|| (EVEN_SLOTS..WINDOW).rev().find(is_known))
    }

    fn go_on(
        &mut self,
        mut attack: Attack,
        second: &Rates,
        limits: &Limits,
        hysteresis: &Hysteresis,
    ) -> Change {
        attack.since_crossed += 1;
        attack.measured = WINDOW;
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

/// Whether the mean of these slots is certain to [`PRECISION`].
fn is_even(slots: &[Counts], metric: Metric) -> bool {
    let Some(event) = metric.event() else { return false };
    let n = slots.len() as f64;
    let rates = slots.iter().map(|slot| Rates::of(std::slice::from_ref(slot)).get(metric));
    let mean = rates.clone().sum::<f64>() / n;
    let variance = rates.map(|rate| (rate - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let events = mean * n * SLOT_NS as f64 / 1e9 / event;
    let error = (variance / n / mean.powi(2)).max(1.0 / events).sqrt();
    error * STANDARD_ERRORS <= PRECISION
}

/// After so many slots without a frame every attack has ended and every host is forgotten.
pub(crate) fn longest_silence(hysteresis: &Hysteresis) -> u32 {
    2 * WINDOW as u32 + slots(hysteresis.end_s) + FORGET_SLOTS
}

/// Slots of a time, at least one.
fn slots(seconds: f64) -> u32 {
    ((seconds * 1e9 / SLOT_NS as f64).round() as u32).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYSTERESIS: Hysteresis = Hysteresis { end_share: 0.8, end_s: 1.0, update_s: 10.0 };

    fn limit(metric: Metric, limit: f64) -> Limits {
        Limits::default().at_most(metric, limit)
    }

    /// After how many slots the first start is reported, and from which rates over how many of them.
    fn reported(limits: Limits, slots: impl IntoIterator<Item = Counts>) -> Option<(usize, Rates, usize)> {
        // The first slot was the one that drew attention; it is judged with the next.
        let mut watch = Watch::new(Counts::default(), 0, 1);
        slots.into_iter().enumerate().find_map(|(slot, counts)| {
            match watch.end_slot(counts, &limits, &HYSTERESIS, &mut 1) {
                Change::Start(attack) => Some((slot + 1, watch.rates(attack.measured), attack.measured)),
                _ => None,
            }
        })
    }

    fn udp(frames: u32) -> Counts {
        Counts { frames, bytes: frames * 60, udp: frames, ..Counts::default() }
    }

    /// Slots with so many frames each, as `frames x slots`, and how they are reported at 20,000 frames/s.
    fn check(slots: &str, expected: &str) {
        let slots = slots.split_whitespace().flat_map(|part| {
            let (frames, times) = part.split_once('x').unwrap_or((part, "1"));
            vec![udp(frames.parse().unwrap()); times.parse().unwrap()]
        });
        let slots: Vec<Counts> = slots.chain([Counts::default(); 20]).collect();
        let found = reported(limit(Metric::Pps, 20_000.0), slots.clone());
        let found = found.map_or("never".into(), |(slot, rates, measured)| {
            format!("slot {slot}: {:.0} over {measured}", rates.pps)
        });
        assert_eq!(found, expected, "{:?}", slots.iter().map(|slot| slot.frames).collect::<Vec<_>>());
    }

    #[test]
    fn a_start_is_reported_when_the_limit_is_exceeded_and_the_rate_is_known() {
        // Far above the limit: half a second of whole slots.
        check("20000x20", "slot 5: 200000 over 5");
        check("100 13000 20000x20", "slot 7: 200000 over 5");
        check("1000x10 20000x20", "slot 15: 200000 over 5");
        // Smaller: fewer frames say less. Just above it: the second itself.
        check("4000x20", "slot 6: 40000 over 6");
        check("3000x20", "slot 8: 30000 over 8");
        check("2020x20", "slot 10: 20200 over 10");
        check("1010 2020x20", "slot 11: 20200 over 10");
        check("1990x20", "never");
        // A burst has the rate of a second that it lies in, unless it lasts for half of one.
        check("20000x3", "slot 6: 60000 over 10");
        check("500x10 20000x3 500x10", "slot 16: 63500 over 10");
        check("6000x3", "never");
        check("9000 20000x4 9000", "slot 7: 98000 over 10");
        check("20000x5", "slot 5: 200000 over 5");
        // A larger attack that begins within a small one.
        check("5000x5 20000x9", "slot 5: 50000 over 5");
        check("5000x4 20000x9", "slot 9: 200000 over 5");
        // It grows: the last second of two.
        check(
            "500 1500 2500 3500 4500 5500 6500 7500 8500 9500 10500 11500 12500 13500 14500 15500 16500 17500 18500",
            "slot 17: 120000 over 10",
        );
        // It comes in gusts, all of a second or of half of one.
        check(
            "15000 25000 15000 25000 15000 25000 15000 25000 15000 25000 15000 25000",
            "slot 11: 200000 over 10",
        );
        check(
            "10000 40000 0 10000 40000 0 10000 40000 0 10000 40000 0 10000 40000",
            "slot 11: 190000 over 10",
        );
    }

    #[test]
    fn bits_are_known_later_than_frames_and_a_share_of_syn_never_sooner_than_its_second() {
        let bits = |bytes| reported(limit(Metric::BitsPerS, 50e6), vec![Counts { bytes, ..udp(20_000) }; 20]);
        // 22,500 of the largest frames are 34 MB.
        assert_eq!(bits(20_000 * 512).map(|(slot, rates, _)| (slot, rates.bits_per_s)), Some((5, 819.2e6)));
        assert_eq!(bits(20_000 * 200).map(|(slot, rates, _)| (slot, rates.bits_per_s)), Some((9, 320e6)));
        assert_eq!(bits(20_000 * 60).map(|(slot, rates, _)| (slot, rates.bits_per_s)), Some((10, 96e6)));
        let flood = Counts { frames: 20_000, tcp: 20_000, syn: 20_000, ..Counts::default() };
        let (slot, rates, measured) = reported(limit(Metric::SynShare, 0.9), [flood; 20]).expect("a flood");
        assert_eq!((slot, rates.pps, rates.syn_share, measured), (10, 200_000.0, 1.0, 10));
        let few = Counts { frames: 20_000, tcp: 500, syn: 50, udp: 19_500, ..Counts::default() };
        assert!(reported(limit(Metric::SynPps, 100.0), [few; 20]).is_some_and(|(slot, ..)| slot == 10));
        assert!(reported(limit(Metric::SynShare, 0.9), [few; 20]).is_none());
    }

    #[test]
    fn what_comes_at_random_is_reported_early_only_when_it_is_known_to_two_percent() {
        // The mean of a slot, and of the frames that come at once.
        for (frames, cluster) in
            [(2200, 1), (4000, 1), (4000, 4), (20_000, 1), (20_000, 10), (20_000, 50), (100_000, 1000)]
        {
            let mut random = Random(0x1234_5678);
            let (mut early, mut wrong) = (0, 0);
            for _ in 0..500 {
                let slots: Vec<_> = (0..30).map(|_| udp(random.frames(frames, cluster))).collect();
                let (_, rates, measured) =
                    reported(limit(Metric::Pps, 20_000.0), slots).expect("it is reported");
                early += u32::from(measured < WINDOW);
                let error = rates.pps / f64::from(frames * 10) - 1.0;
                wrong += u32::from(measured < WINDOW && error.abs() > PRECISION);
            }
            assert!(wrong <= 20, "{frames} in clusters of {cluster}: {wrong} wrong of {early}");
            assert!(cluster > 1 || frames < 4000 || early > 450, "{frames}: {early} were reported early");
        }
    }

    /// A sequence that looks random (SplitMix64).
    struct Random(u64);

    impl Random {
        fn uniform(&mut self) -> f64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((mixed ^ mixed >> 31) >> 11) as f64 / (1_u64 << 53) as f64
        }

        /// Frames of a slot in which clusters of `cluster` frames arrive at random.
        fn frames(&mut self, mean: u32, cluster: u32) -> u32 {
            let clusters = f64::from(mean / cluster);
            // So many are nearly normally distributed: the sum of twelve.
            let normal = (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0;
            (clusters + normal * clusters.sqrt()).max(0.0).round() as u32 * cluster
        }
    }
}
