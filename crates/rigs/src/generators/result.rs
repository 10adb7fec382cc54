//! Results over all rounds. Pure.

use weir_record::record::{GoalResult, GoalValue};

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
        ("order".to_string(), "all alternately within a round, rotated from round to round".to_string()),
    ];
    weir_record::figure::goal_result(name, parameters, rates.iter().map(value).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_without_a_rate_is_kept_and_said() {
        let goal = goal("rate", &[Some(3.0), None, Some(1.0)], 2.0);
        assert_eq!((goal.fps_median, goal.fps_interval), (Some(2.0), None));
        assert_eq!(goal.repetitions[1].irregular.as_deref(), Some("no rate"));
    }
}
