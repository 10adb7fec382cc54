//! Values of a plan: how each kind is written, and its range.

use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use toml_edit::Value;

use super::mistake::did_you_mean;
use super::section::{Parse, shown};
use crate::rate;

/// A sentence or a name.
pub(super) fn text(value: &Value) -> Result<String, String> {
    let text = value.as_str().map(str::trim).filter(|text| !text.is_empty());
    text.map(str::to_string).ok_or_else(|| "takes a text: write it in quotes".to_string())
}

/// One of a closed set of names.
pub(super) fn choice<T: Copy>(what: &'static str, names: &[(T, &'static str)]) -> impl Parse<T> {
    move |value| {
        let word = shown(value);
        let found = names.iter().find(|(_, name)| *name == word).map(|(value, _)| *value);
        found.ok_or_else(|| {
            let names: Vec<_> = names.iter().map(|(_, name)| *name).collect();
            format!("`{word}` is no {what}: {}", did_you_mean(&word, &names))
        })
    }
}

/// `true` or `false`.
pub(super) fn flag(value: &Value) -> Result<bool, String> {
    value.as_bool().ok_or_else(|| format!("`{}` is neither: use true or false", shown(value)))
}

/// What its type reads; numbers may be written without quotes.
pub(super) fn parsed<T: FromStr<Err = String>>(value: &Value) -> Result<T, String> {
    shown(value).parse()
}

/// A whole number within `range`; `"1k"` and `1e3` are 1000.
pub(super) fn count(range: RangeInclusive<u32>) -> impl Parse<u32> {
    move |value| {
        let number = number(value).filter(|n| n.fract() == 0.0 && within(*n, &range));
        let wrong = || {
            format!(
                "`{}` is out of range: use a whole number from {} to {}",
                shown(value),
                range.start(),
                range.end()
            )
        };
        number.map(|n| n as u32).ok_or_else(wrong)
    }
}

fn within(number: f64, range: &RangeInclusive<u32>) -> bool {
    (f64::from(*range.start())..=f64::from(*range.end())).contains(&number)
}

/// A share of at least 0 and below 1, as `"0.5%"` or `0.005`.
pub(super) fn ratio(value: &Value) -> Result<f64, String> {
    let word = shown(value);
    let ratio = match word.strip_suffix('%') {
        Some(percent) => percent.trim().parse().ok().map(|percent: f64| percent / 100.0),
        None => word.parse().ok(),
    };
    let wrong = || format!("`{word}` is no share below 1: write half a percent as \"0.5%\" or 0.005");
    ratio.filter(|ratio| (0.0..1.0).contains(ratio)).ok_or_else(wrong)
}

/// A share above 0 and below 1: a width or a resolution.
pub(super) fn width(value: &Value) -> Result<f64, String> {
    ratio(value).and_then(|width| {
        if width > 0.0 { Ok(width) } else { Err("is zero: use 1% or another share below 1".to_string()) }
    })
}

/// A length of time in seconds, a millisecond to a day.
pub(super) fn seconds(value: &Value) -> Result<Duration, String> {
    seconds_up_to::<86_400>(value)
}

/// A length of time in seconds, a millisecond to `MOST_S` seconds.
pub(super) fn seconds_up_to<const MOST_S: u64>(value: &Value) -> Result<Duration, String> {
    let seconds = number(value).filter(|s| (0.001..=MOST_S as f64).contains(s));
    seconds
        .map(Duration::from_secs_f64)
        .ok_or_else(|| format!("`{}` is no time in seconds: use 0.001 to {MOST_S}", shown(value)))
}

/// A rate in frames/s, a number or `"2M"`.
pub(super) fn fps(value: &Value) -> Result<f64, String> {
    rate::fps(&number(value).map_or_else(|| shown(value), |n| n.to_string()))
}

/// The speed of a line in bit/s, a number or `"10G"`.
pub(super) fn line_bits_per_s(value: &Value) -> Result<f64, String> {
    rate::line_bits_per_s(&shown(value).replace('_', ""))
}

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

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(n) => Some(*n.value() as f64),
        Value::Float(n) => Some(*n.value()),
        Value::String(text) => rate::quantity(text.value()).ok(),
        _ => None,
    }
}
