//! What many rounds say together. Pure.

use crate::record::{Comparison, GoalResult, GoalValue};
use crate::stats;

/// The result of a contestant with one rate per round; `None` where a round gave none.
pub(super) fn goal(name: &str, rates: &[Option<f64>], trial_s: f64) -> GoalResult {
    let value = |rate: &Option<f64>| GoalValue {
        fps: *rate,
        irregular: rate.is_none().then(|| "no rate".to_string()),
        trials: 1,
        trial_s,
        ..GoalValue::default()
    };
    let parameters = vec![
        ("trial".to_string(), format!("{trial_s} s")),
        ("order".to_string(), "all in turn within a round, rotated from round to round".to_string()),
    ];
    super::super::goal_result(name, parameters, rates.iter().map(value).collect())
}

/// `own` rates against those of the point `other`, paired by round.
pub(super) fn comparison(
    own: &[Option<f64>],
    (point_index, other): (usize, &[Option<f64>]),
) -> Option<Comparison> {
    let pairs: Vec<(f64, f64)> = own.iter().zip(other).filter_map(|(a, b)| (*a).zip(*b)).collect();
    let ratio = stats::ratio(&pairs)?;
    Some(Comparison { point_index, ratio: ratio.value, interval: ratio.interval, rounds: pairs.len() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_compared_within_their_rounds() {
        // The second round was slow for both; the last one has no partner.
        let own = [10e6, 5e6, 10e6, 10e6, 10e6, 10e6, 99e6].map(Some);
        let other = [Some(1e6), Some(0.5e6), Some(1e6), Some(1e6), Some(1e6), Some(1e6), None];
        let found = comparison(&own, (3, &other)).unwrap();
        assert_eq!((found.point_index, found.ratio, found.rounds), (3, 10.0, 6));
        let (low, high) = found.interval.unwrap();
        assert!((low, high) == (10.0, 10.0), "{low} to {high}");
        assert_eq!(comparison(&own, (3, &[None; 7])), None);
    }

    #[test]
    fn a_round_without_a_rate_is_kept_and_said() {
        let goal = goal("rate", &[Some(3.0), None, Some(1.0)], 2.0);
        assert_eq!((goal.fps_median, goal.fps_interval), (Some(2.0), None));
        assert_eq!(goal.repetitions[1].irregular.as_deref(), Some("no rate"));
    }
}
