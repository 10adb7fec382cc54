//! A rate as it may be claimed: with its interval, and "at least" where the search ended without an upper bound.

use super::format::si;
use crate::record::{GoalResult, GoalValue, Trial, Verdict};
use crate::run_data::{PointData, received_fps};

/// How a rate relates to the device's true rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// The search closed in on it.
    Exact,
    /// The device may be faster.
    AtLeast,
    /// The search ended early; the device may be faster or slower.
    Rough,
}

/// The rate found for a goal.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// Frames/s, all directions together.
    pub fps: f64,
    /// 95 % interval: of the median, when there were enough repetitions, or that of the only search.
    pub interval: Option<(f64, f64)>,
    /// What it bounds.
    pub bound: Bound,
}

/// The relation of two rates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    /// Quotient of the medians.
    pub value: f64,
    /// Smallest and largest quotient that the two intervals allow: wider than a 95 % interval.
    pub interval: Option<(f64, f64)>,
}

impl Rate {
    /// The rate of a goal; `None` if none was found.
    pub fn of(goal: &GoalResult) -> Option<Rate> {
        let bound =
            goal.repetitions.iter().filter_map(bound).max_by_key(|b| *b as u8).unwrap_or(Bound::Exact);
        // The search of a single repetition may know its own; ends that are open are no interval.
        let searched = || match &goal.repetitions[..] {
            [one] => one.interval.as_ref().and_then(|i| i.low_fps.zip(i.high_fps)),
            _ => None,
        };
        let interval = goal.fps_interval.or_else(searched);
        goal.fps_median.map(|fps| Rate { fps, interval, bound })
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

    /// This rate divided by another; `None` unless both are exact: a quotient of bounds says nothing that a
    /// reader would take right.
    pub fn over(&self, base: &Rate) -> Option<Ratio> {
        let interval = self.interval.zip(base.interval).map(|(a, b)| (a.0 / b.1, a.1 / b.0));
        let exact = [self.bound, base.bound] == [Bound::Exact; 2] && base.fps > 0.0;
        exact.then(|| Ratio { value: self.fps / base.fps, interval })
    }

    /// `412 k`, `at least 4.12 M`.
    pub fn words(&self) -> String {
        format!("{}{}", self.bound.words(), si(self.fps))
    }

    /// `412 k`, `≥ 4.12 M`.
    pub fn sign(&self) -> String {
        format!("{}{}", self.bound.sign(), si(self.fps))
    }
}

impl Bound {
    /// Before a number in a sentence.
    pub fn words(self) -> &'static str {
        match self {
            Bound::Exact => "",
            Bound::AtLeast => "at least ",
            Bound::Rough => "roughly ",
        }
    }

    /// Before a number in a table or figure.
    pub fn sign(self) -> &'static str {
        match self {
            Bound::Exact => "",
            Bound::AtLeast => "≥\u{202f}",
            Bound::Rough => "~\u{202f}",
        }
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
        assert_eq!(at_least.over(&exact), None);
        assert_eq!(exact.over(&at_least), None);
        assert_eq!(exact.over(&Rate { fps: 0.0, ..exact }), None);
    }
}
