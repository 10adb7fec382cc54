//! Percentages of a plan: loads, and the steps between them.

use toml_edit::Value;
use weir_config::shown;

/// A percentage of the throughput found: above 0, at most 1000.
pub(super) fn percent(value: &Value) -> Result<f64, String> {
    let word = shown(value);
    let percent = word.trim_end_matches('%').trim().parse().ok();
    let wrong = || format!("`{word}` is no percentage: use more than 0 and at most 1000");
    percent.filter(|p| *p > 0.0 && *p <= 1000.0).ok_or_else(wrong)
}

/// From one load to the next, in percent of the highest: 1 to 100.
pub(super) fn step_percent(value: &Value) -> Result<f64, String> {
    let wrong = || format!("`{}` is no step between loads: use 1 to 100 percent", shown(value));
    percent(value).ok().filter(|step| (1.0..=100.0).contains(step)).ok_or_else(wrong)
}

/// The end of loads that begin at 100 percent.
pub(super) fn up_to_percent(value: &Value) -> Result<f64, String> {
    let wrong = || format!("`{}` is no end of loads above 100 percent: use 100 to 1000", shown(value));
    percent(value).ok().filter(|percent| *percent >= 100.0).ok_or_else(wrong)
}
