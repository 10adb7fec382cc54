//! Where the rate of a goal lies, with a confidence that holds whatever the device does and however the loads were
//! chosen. Relevant bounds are no such interval: with few trials, a noisy device puts them anywhere near its rate.
//!
//! The rate sought is the highest load up to which a trial of the goal's length exceeds the goal's loss ratio
//! with at most the goal's exceed ratio as its probability. Two things are assumed: that probability does not
//! fall with the load, and what happens in one trial does not depend on the outcome of others.
//!
//! The hypothesis that the rate is below `x` implies that every trial at `x` or more is a low-loss trial with at most a known
//! probability. The test bets against it on each such trial, at odds that are fair if it is true: the wealth is then a
//! martingale, and exceeds 40 times the stake with a probability of at most 1/40, however many trials follow (Ville's
//! inequality; Waudby-Smith, Ramdas: "Estimating means of bounded random variables by betting", JRSS B 2024). How much to bet
//! follows from earlier trials. The same from the other side bounds the rate from above. Where the trials do not suffice, an
//! end stays open.

use std::time::Duration;

use crate::search::RateInterval;

/// A valid trial.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Seen {
    pub(super) load_fps: f64,
    pub(super) duration: Duration,
    pub(super) loss_ratio: f64,
}

/// What makes a trial a high-loss trial, and how often it may be one.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Sought {
    pub(super) loss_ratio: f64,
    pub(super) exceed_ratio: f64,
    pub(super) trial: Duration,
}

/// Which end of the interval a bet is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Low,
    High,
}

/// Each end is wrong at most this often.
const ERROR: f64 = 0.025;
/// Weight of the doubter's opinion against earlier trials; the smaller, the bolder the bets.
const CAUTION: f64 = 0.25;

/// Trials, and what bets on them have won for each end.
#[derive(Debug)]
pub(super) struct Evidence {
    sought: Sought,
    trials: Vec<Seen>,
    /// Logarithm of the factor by which the bet on each trial changed what one owns.
    gains: [Vec<f64>; 2],
}

impl Evidence {
    pub(super) fn new(sought: Sought) -> Evidence {
        Evidence { sought, trials: Vec::new(), gains: [Vec::new(), Vec::new()] }
    }

    /// A valid trial, later than all others.
    pub(super) fn add(&mut self, trial: &Seen) {
        for end in [End::Low, End::High] {
            let gain = self.sought.gain(end, &self.trials, trial);
            self.gains[end as usize].push(gain);
        }
        self.trials.push(trial.clone());
    }

    pub(super) fn interval(&self) -> RateInterval {
        RateInterval {
            low_fps: self.end(End::Low),
            high_fps: self.end(End::High),
            confidence: 1.0 - 2.0 * ERROR,
            method: "bets on each full-length trial (test martingale)".into(),
        }
    }

    /// One end of the interval, frames/s; `None` while it is open.
    pub(super) fn end(&self, end: End) -> Option<f64> {
        let gains = &self.gains[end as usize];
        let mut loads: Vec<f64> = self.trials.iter().map(|trial| trial.load_fps).collect();
        loads.sort_by(|a, b| if end == End::Low { a.total_cmp(b) } else { b.total_cmp(a) });
        loads.dedup();
        let refuted = |x: &f64| {
            let bets = self.trials.iter().zip(gains).filter(|(trial, _)| end.concerns(trial.load_fps, *x));
            let mut fortune = 0.0;
            bets.map(|(_, gain)| gain).any(|gain| {
                fortune += gain;
                fortune >= -ERROR.ln()
            })
        };
        // One doubt after the other: only the first one that is right can be refuted by mistake.
        loads.into_iter().take_while(refuted).last()
    }
}

impl Sought {
    /// Logarithm of the factor by which a bet on `trial` changes what one owns.
    fn gain(&self, end: End, earlier: &[Seen], trial: &Seen) -> f64 {
        // The doubter's probability that the trial turns out as this end needs it.
        let doubt = match end {
            End::Low => 1.0 - self.exceed_ratio,
            End::High => self.exceed_ratio,
        };
        // That there is no loss, ever, cannot be shown; that there is, one trial shows.
        if !self.speaks(end, trial) || doubt == 1.0 {
            return 0.0;
        }
        if doubt == 0.0 {
            return if self.favours(end, trial) { f64::INFINITY } else { 0.0 };
        }
        // Trials that turned out so where that was harder, against those that did not where it was easier.
        let count = |of: End| {
            let harder = |t: &&Seen| of.concerns(t.load_fps, trial.load_fps);
            let reported = |t: &&Seen| self.speaks(of, t) && self.favours(of, t);
            earlier.iter().filter(harder).filter(reported).count() as f64
        };
        let (fors, againsts) = (count(end), count(end.other()));
        let guess = ((fors + CAUTION * doubt) / (fors + againsts + CAUTION)).max(doubt);
        let gain = if self.favours(end, trial) { guess / doubt } else { (1.0 - guess) / (1.0 - doubt) };
        gain.ln()
    }

    /// Does a trial tell anything about trials of the goal's length? Where no loss is allowed, a shorter one that
    /// lost frames would have lost them in full length too, and a longer one that lost none neither in part.
    fn speaks(&self, end: End, trial: &Seen) -> bool {
        let strict = self.loss_ratio == 0.0;
        match end {
            End::Low => trial.duration == self.trial || strict && trial.duration > self.trial,
            End::High => trial.duration == self.trial || strict && trial.duration < self.trial,
        }
    }

    /// Did it turn out as this end needs it?
    pub(super) fn favours(&self, end: End, trial: &Seen) -> bool {
        (trial.loss_ratio > self.loss_ratio) == (end == End::High)
    }
}

impl End {
    /// Whether the hypothesis about this end at `x` predicts trials at `load`.
    fn concerns(self, load: f64, x: f64) -> bool {
        match self {
            End::Low => load >= x,
            End::High => load <= x,
        }
    }

    fn other(self) -> End {
        match self {
            End::Low => End::High,
            End::High => End::Low,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    /// Trials of 1 s in words of a load and outcomes (`.` no loss, `x` loss), then the interval.
    fn check(sought: &Sought, trials: &str, expected: (Option<f64>, Option<f64>)) {
        let mut evidence = Evidence::new(sought.clone());
        for word in trials.split_whitespace() {
            let (load, outcomes) = word.split_once(':').expect("LOAD:OUTCOMES");
            for outcome in outcomes.chars() {
                let loss_ratio = if outcome == 'x' { 0.1 } else { 0.0 };
                let load_fps = load.parse().expect("a load");
                evidence.add(&Seen { load_fps, duration: S, loss_ratio });
            }
        }
        let interval = evidence.interval();
        assert_eq!((interval.low_fps, interval.high_fps), expected, "{trials}");
    }

    #[test]
    fn ends_close_with_enough_trials_that_agree() {
        let half = Sought { loss_ratio: 0.0, exceed_ratio: 0.5, trial: S };
        check(&half, "", (None, None));
        check(&half, "5:......", (None, None));
        check(&half, "5:.......", (Some(5.0), None));
        check(&half, "7:xxxxxxx 5:.......", (Some(5.0), Some(7.0)));
        // One that disagrees costs some more.
        check(&half, "5:...x....", (None, None));
        check(&half, "5:...x............", (Some(5.0), None));
        // Trials at lower loads bet on what was seen above them, and what happens far above does not matter.
        check(&half, "9:xxxx 5:.... 3:... 2:.", (Some(3.0), None));
        // Loss inversion: nothing is certain above the lower of the two.
        check(&half, "5:xxxxxxxx 7:........", (None, Some(5.0)));
    }

    #[test]
    fn odds_follow_the_exceed_ratio() {
        let seldom = Sought { loss_ratio: 0.0, exceed_ratio: 0.1, trial: S };
        check(&seldom, "7:xxx", (None, Some(7.0)));
        check(&seldom, "5:....................", (None, None));
        let never = Sought { exceed_ratio: 0.0, ..seldom };
        check(&never, "5:.................................... 7:x", (None, Some(7.0)));
    }

    #[test]
    fn other_lengths_count_where_they_must() {
        let minute = Sought { loss_ratio: 0.0, exceed_ratio: 0.5, trial: 60 * S };
        check(&minute, "5:................", (None, None));
        check(&minute, "7:xxxxxxxx", (None, Some(7.0)));
        check(&Sought { loss_ratio: 0.01, ..minute }, "7:xxxxxxxx", (None, None));
    }
}
