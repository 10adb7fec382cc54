//! Values of a file: how each kind is written, and its range.

use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use toml_edit::Value;

use crate::mistake::did_you_mean;
use crate::rate;
use crate::section::{Parse, shown};
use crate::unit;

/// A sentence or a name.
pub fn text(value: &Value) -> Result<String, String> {
    let text = value.as_str().map(str::trim).filter(|text| !text.is_empty());
    text.map(str::to_string).ok_or_else(|| "takes a text: write it in quotes".to_string())
}

/// One of a closed set of names.
pub fn choice<T: Copy>(what: &'static str, names: &[(T, &'static str)]) -> impl Parse<T> {
    move |value| {
        let word = shown(value);
        let found = names.iter().find(|(_, name)| *name == word).map(|(value, _)| *value);
        found.ok_or_else(|| {
            let names: Vec<_> = names.iter().map(|(_, name)| *name).collect();
            format!("`{word}` is no {what}: {}", did_you_mean(&word, &names))
        })
    }
}

/// A size of a buffer in bytes, 10,000 to 10^12: a number, or one with k, M or G.
pub fn buffer_bytes(value: &Value) -> Result<u64, String> {
    let number = match value.as_str() {
        Some(text) => unit::quantity(text)?,
        None => value.as_integer().map_or(0.0, |number| number as f64),
    };
    if (1e4..=1e12).contains(&number) {
        return Ok(number as u64);
    }
    Err(format!("`{}` is no size of a buffer: use 10000 to 1000G bytes, such as \"64M\"", shown(value)))
}

/// `true` or `false`.
pub fn flag(value: &Value) -> Result<bool, String> {
    value.as_bool().ok_or_else(|| format!("`{}` is neither: use true or false", shown(value)))
}

/// What its type reads; numbers may be written without quotes.
pub fn parsed<T: FromStr<Err = String>>(value: &Value) -> Result<T, String> {
    shown(value).parse()
}

/// A whole number within `range`; `"1k"` and `1e3` are 1000.
pub fn count(range: RangeInclusive<u32>) -> impl Parse<u32> {
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
pub fn ratio(value: &Value) -> Result<f64, String> {
    unit::share(&shown(value))
}

/// A share above 0 and below 1: a width or a resolution.
pub fn width(value: &Value) -> Result<f64, String> {
    ratio(value).and_then(|width| {
        if width > 0.0 { Ok(width) } else { Err("is zero: use 1% or another share below 1".to_string()) }
    })
}

/// A length of time, a number of seconds or `"100ms"`: a millisecond to a day.
pub fn seconds(value: &Value) -> Result<Duration, String> {
    seconds_up_to::<86_400>(value)
}

/// The same, a millisecond to `MOST_S` seconds.
pub fn seconds_up_to<const MOST_S: u64>(value: &Value) -> Result<Duration, String> {
    let text = shown(value).replace('_', "");
    unit::time(&text, Duration::from_millis(1), Duration::from_secs(MOST_S))
}

/// A rate in frames/s, a number or `"2M"`.
pub fn fps(value: &Value) -> Result<f64, String> {
    rate::fps(&number(value).map_or_else(|| shown(value), |n| n.to_string()))
}

/// The speed of a line in bit/s, a number or `"10G"`.
pub fn line_bits_per_s(value: &Value) -> Result<f64, String> {
    rate::line_bits_per_s(&shown(value).replace('_', ""))
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(n) => Some(*n.value() as f64),
        Value::Float(n) => Some(*n.value()),
        Value::String(text) => unit::quantity(text.value()).ok(),
        _ => None,
    }
}
