//! A rate as it may be claimed: with its interval, and "at least" where the search ended without an upper bound.

use super::format::{bracketed, si, significant};
use crate::record;
pub use crate::record::Bound;
use crate::record::{GoalResult, GoalValue, Trial, Verdict};
use crate::run_data::{PointData, received_fps};

/// The rate found for a goal, or in overload.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// Frames/s, all directions together.
    pub fps: f64,
    /// 95 % interval: of the median, when there were enough repetitions, or that of the only search.
    pub interval: Option<(f64, f64)>,
    /// Whether the rate is a lower or an upper bound.
    pub bound: Bound,
}

/// The relation of two rates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    /// Quotient of the medians.
    pub value: f64,
    /// Smallest and largest quotient that the two intervals allow: wider than a 95 % interval.
    pub interval: Option<(f64, f64)>,
    /// Whether the quotient is a lower or an upper bound.
    pub bound: Bound,
}

impl Rate {
    /// What is forwarded in steady overload; `None` where that was not measured.
    pub fn capacity(point: &PointData) -> Option<Rate> {
        let figure = point.capacity()?.figures.first()?;
        Some(Rate { fps: figure.value?, interval: figure.interval, bound: figure.bound })
    }

    /// The rate of a goal; `None` if none was found.
    pub fn of(goal: &GoalResult) -> Option<Rate> {
        let bound = goal.repetitions.iter().filter_map(bound).max().unwrap_or(Bound::Exact);
        // The search of a single repetition may know its own; ends that are open are no interval.
        let searched = || match &goal.repetitions[..] {
            [one] => one.interval.as_ref().and_then(|i| i.low_fps.zip(i.high_fps)),
            _ => None,
        };
        let interval = goal.fps_interval.or_else(searched);
        goal.fps_median.map(|fps| Rate { fps, interval, bound: bound.within(interval) })
    }

    /// The rate of a point's first goal. A wire without one is judged by what came through it in trials that
    /// were valid or asked for more than the tester has.
    pub fn headline(point: &PointData) -> Option<Rate> {
        let searched = point.goals().first().and_then(Rate::of);
        let usable = |t: &&Trial| t.verdict == Verdict::Valid || t.purpose.is_full_speed();
        let most = || point.measured().filter(usable).map(received_fps).max_by(f64::total_cmp);
        let wire = || most().map(|fps| Rate { fps, interval: None, bound: Bound::AtLeast });
        searched.or_else(|| if point.is_ceiling() { wire() } else { None })
    }

    /// This rate divided by another; `None` where nothing follows from the two: both are bounds, or one is rough.
    pub fn over(&self, base: &Rate) -> Option<Ratio> {
        let interval = self.interval.zip(base.interval).map(|(a, b)| (a.0 / b.1, a.1 / b.0));
        let bound = self.bound.over(base.bound);
        let says = bound != Bound::NoResult && base.fps > 0.0;
        says.then(|| Ratio { value: self.fps / base.fps, interval, bound })
    }

    /// Before a unit in a sentence: `412 k`, `at least 4.12 M`, `an unknown number of`.
    pub fn words(&self) -> String {
        match self.bound {
            Bound::NoResult => "an unknown number of".into(),
            bound => format!("{}{}", bound.words(), si(self.fps)),
        }
    }

    /// In a table or drawing: `412 k`, `≥ 4.12 M`, `no result`.
    pub fn sign(&self) -> String {
        match self.bound {
            Bound::NoResult => "no result".into(),
            bound => format!("{}{}", bound.sign(), si(self.fps)),
        }
    }
}

impl Ratio {
    /// The same with the value and the interval of rounds in which both were measured; `None` where that is too wide.
    pub fn of_rounds(self, rounds: &record::Comparison) -> Option<Ratio> {
        let record::Comparison { ratio: value, interval, .. } = *rounds;
        let bound = self.bound.within(interval);
        (bound != Bound::NoResult).then_some(Ratio { value, interval, bound })
    }

    /// `0.590 (0.550 to 0.610)`, `at least 0.590`.
    pub fn words(&self) -> String {
        let interval = self.interval.filter(|_| self.bound.is_exact()).map_or_else(String::new, bracketed);
        format!("{}{}{interval}", self.bound.words(), significant(self.value))
    }

    /// `0.590`, `≥ 0.590`.
    pub fn sign(&self) -> String {
        format!("{}{}", self.bound.sign(), significant(self.value))
    }
}

fn bound(repetition: &GoalValue) -> Option<Bound> {
    Some(match repetition.irregular.as_deref()? {
        "max load is not an upper bound" | "tester-limited" => Bound::AtLeast,
        _ => Bound::Rough,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::RateInterval;

    fn goal(irregular: &[Option<&str>]) -> GoalResult {
        let value = |why: &Option<&str>| GoalValue {
            fps: Some(1000.0),
            lower_fps: Some(1000.0),
            irregular: why.map(String::from),
            trials: 1,
            trial_s: 1.0,
            ..GoalValue::default()
        };
        GoalResult {
            goal: "NDR".into(),
            parameters: Vec::new(),
            repetitions: irregular.iter().map(value).collect(),
            fps_median: Some(1000.0),
            fps_interval: Some((900.0, 1100.0)),
        }
    }

    #[test]
    fn one_irregular_repetition_is_enough() {
        let words = |irregular: &[_]| Rate::of(&goal(irregular)).unwrap().words().replace('\u{202f}', " ");
        assert_eq!(words(&[None, None]), "1.00 k");
        assert_eq!(words(&[None, Some("tester-limited")]), "at least 1.00 k");
        assert_eq!(words(&[Some("max load is not an upper bound")]), "at least 1.00 k");
        assert_eq!(words(&[Some("tester-limited"), Some("time limit")]), "roughly 1.00 k");
    }

    #[test]
    fn a_single_search_has_an_interval_of_its_own() {
        let mut goal = goal(&[None]);
        goal.fps_interval = None;
        let mut interval = |low_fps, high_fps| {
            let interval = RateInterval { low_fps, high_fps, confidence: 0.95, method: "test".into() };
            goal.repetitions[0].interval = Some(interval);
            Rate::of(&goal).expect("a rate").interval
        };
        assert_eq!(interval(Some(900.0), Some(1100.0)), Some((900.0, 1100.0)));
        assert_eq!(interval(Some(900.0), None), None, "an open end");
        let interval = RateInterval {
            low_fps: Some(6.0),
            high_fps: Some(1100.0),
            confidence: 0.95,
            method: "test".into(),
        };
        goal.repetitions[0].interval = Some(interval);
        assert_eq!(Rate::of(&goal).expect("a rate").sign(), "no result", "too wide");
    }

    #[test]
    fn a_wire_that_was_not_searched_has_a_ceiling() {
        let mut wire = crate::fixture::point(0, "wire", 64, 4e6);
        wire.point.result = None;
        assert_eq!(Rate::headline(&wire).unwrap().fps, 4e6);
        wire.trials.iter_mut().for_each(|t| t.verdict = Verdict::TesterLimited);
        assert_eq!(Rate::headline(&wire), None);
        wire.trials[1].purpose = crate::record::Purpose::Ceiling;
        assert_eq!(Rate::headline(&wire).unwrap().bound, Bound::AtLeast);
        wire.point.dut = "kernel-forward".into();
        assert_eq!(Rate::headline(&wire), None, "a device needs a goal");
    }

    #[test]
    fn ratios_say_no_more_than_the_rates_do() {
        let exact = Rate::of(&goal(&[None])).unwrap();
        let at_least = Rate { bound: Bound::AtLeast, fps: 2000.0, interval: None };
        let ratio = exact.over(&exact).unwrap();
        assert_eq!((ratio.value, ratio.interval), (1.0, Some((900.0 / 1100.0, 1100.0 / 900.0))));
        let bound = |own: &Rate, base: &Rate| own.over(base).map(|ratio| ratio.bound);
        assert_eq!(bound(&at_least, &exact), Some(Bound::AtLeast));
        assert_eq!(bound(&exact, &at_least), Some(Bound::AtMost));
        assert_eq!(bound(&at_least, &at_least), None, "of two lower bounds");
        assert_eq!(bound(&Rate { bound: Bound::Rough, ..exact }, &exact), None);
        assert_eq!(exact.over(&Rate { fps: 0.0, ..exact }), None);
    }
}
