//! Which trials of a point make the line of a figure. The trials of the curve do: their loads are spread on
//! purpose. A search crowds around one load and overloads in between; joined up, its trials are a tangle.

use crate::record::{Purpose, Trial, Verdict};
use crate::run_data::PointData;
use crate::stats::median;

/// True if `trial` is one of those that the line of `point` goes through: the valid trials of its curve, or
/// all valid ones where it has no curve.
pub fn in_line(point: &PointData, trial: &Trial) -> bool {
    let is_curve = |t: &Trial| t.purpose == Purpose::Curve;
    let usable =
        trial.verdict == Verdict::Valid && !matches!(trial.purpose, Purpose::WarmUp | Purpose::Procedure);
    usable && (is_curve(trial) || !point.valid().any(is_curve))
}

/// Median of a value at each load, ascending: trials at the same load are one point of the line.
pub fn by_load(values: impl Iterator<Item = (f64, f64)>) -> Vec<(f64, f64)> {
    let mut loads: Vec<(f64, Vec<f64>)> = Vec::new();
    for (load, value) in values {
        match loads.iter_mut().find(|(other, _)| (*other / load - 1.0).abs() < 1e-6) {
            Some((_, values)) => values.push(value),
            None => loads.push((load, vec![value])),
        }
    }
    loads.sort_by(|a, b| a.0.total_cmp(&b.0));
    loads.into_iter().filter_map(|(load, values)| Some((load, median(&values)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn a_search_makes_the_line_only_without_a_curve() {
        let mut point = fixture::point(0, "kernel-forward", 64, 1000.0);
        let purposes = |point: &PointData| {
            let mut found: Vec<_> =
                point.trials.iter().filter(|t| in_line(point, t)).map(|t| t.purpose).collect();
            found.dedup();
            found
        };
        assert_eq!(purposes(&point), [Purpose::Curve]);
        let curve = point.trials.iter_mut().filter(|t| t.purpose == Purpose::Curve);
        curve.for_each(|t| t.verdict = Verdict::Noisy);
        assert_eq!(purposes(&point), [Purpose::Search]);
        point.trials.iter_mut().for_each(|t| t.purpose = Purpose::Procedure);
        assert_eq!(purposes(&point), [], "a burst is no load of the line");
        point.trials.iter_mut().for_each(|t| t.verdict = Verdict::Noisy);
        assert_eq!(purposes(&point), []);
    }

    #[test]
    fn trials_at_one_load_are_one_point_of_the_line() {
        let values = [(20.0, 0.9), (10.0, 0.0), (20.0, 0.1), (20.0, 0.2)];
        assert_eq!(by_load(values.into_iter()), [(10.0, 0.0), (20.0, 0.2)]);
    }
}
