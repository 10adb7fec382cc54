//! The rate of a method in overload, by which methods are compared.

use super::Method;
use crate::capture::overload::{OVERLOADED, captured};
use weir_measure::stats::{self, Ratio};
use weir_record::record::{Comparison, Figure, Purpose, Trial};
use weir_record::run_data::PointData;
use weir_report::view::{Bound, Rate};

/// The rate in overload; a lower bound where the generator sent hardly more. Runs without rounds of overload have the trials
/// at full speed before their searches.
pub(super) fn rate(data: &PointData) -> Option<Rate> {
    let (fps, interval, sent_fps) = of_rounds(data).or_else(|| of_trials(data))?;
    let bound = if sent_fps < OVERLOADED * fps { Bound::AtLeast } else { Bound::Exact };
    Some(Rate { fps, interval, bound })
}

type Found = (f64, Option<(f64, f64)>, f64);

/// The first two figures are those of the place of the headline.
fn of_rounds(data: &PointData) -> Option<Found> {
    let [captured, sent, ..] = &data.capacity()?.figures[..] else { return None };
    let Figure { value, interval, .. } = captured;
    Some(((*value)?, *interval, sent.value?))
}

fn of_trials(data: &PointData) -> Option<Found> {
    let rates: Vec<f64> = full_speed(data).filter_map(captured).collect();
    let sent: Vec<f64> = full_speed(data).map(Trial::sent_fps).collect();
    Some((stats::median(&rates)?, stats::median_interval(&rates), stats::median(&sent)?))
}

fn full_speed(data: &PointData) -> impl Iterator<Item = &Trial> {
    data.trials.iter().filter(|trial| trial.purpose == Purpose::FullSpeed)
}

/// How many times as much one method captures as another one.
pub(super) struct Times {
    pub(super) ratio: Ratio,
    /// `at least `, `at most ` or nothing.
    pub(super) bound: &'static str,
}

/// From the rounds of both; `None` where both rates are lower bounds: they have no ratio.
pub(super) fn times(own: &Method<'_>, other: &Method<'_>) -> Option<Times> {
    let bound = match (own.rate?.bound, other.rate?.bound) {
        (Bound::Exact, Bound::Exact) => "",
        (_, Bound::Exact) => "at least ",
        (Bound::Exact, _) => "at most ",
        _ => return None,
    };
    let of = |own: &PointData, other: &PointData| {
        let found = own.capacity()?.comparisons.iter().find(|c| c.point_index == other.point.index)?;
        let Comparison { ratio: value, interval, .. } = *found;
        Some(Ratio { value, interval })
    };
    let inverse = |ratio: Ratio| {
        let interval = ratio.interval.map(|(low, high)| (1.0 / high, 1.0 / low));
        Ratio { value: 1.0 / ratio.value, interval }
    };
    let by_trials = || {
        let pairs = full_speed(own.data).zip(full_speed(other.data));
        let pairs: Vec<(f64, f64)> = pairs.filter_map(|(a, b)| captured(a).zip(captured(b))).collect();
        stats::ratio(&pairs)
    };
    let (own, other) = (own.data, other.data);
    let ratio = of(own, other).or_else(|| of(other, own).map(inverse)).or_else(by_trials)?;
    Some(Times { ratio, bound })
}
