//! Numbers with units.

use weir_config::rate;
use weir_queue::Time;

/// A rate in bits/s, with the prefixes of tc(8) as well: `100mbit`, `1.5Gbit/s`.
pub(crate) fn bits_per_s(text: &str) -> Result<f64, String> {
    let known = text.trim().replace("mbit", "Mbit").replace("gbit", "Gbit");
    rate::line_bits_per_s(&known)
        .map_err(|_| format!("`{text}` is no line speed: use 100mbit, 2.5Gbit or 10e9"))
}

/// A length of time of at most 100 s: `20ms`, `500us`, `1.5s`.
pub(crate) fn time(text: &str) -> Result<Time, String> {
    let text = text.trim();
    let units = [("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0)];
    let found = units.iter().find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, seconds)));
    let seconds = match (found, text) {
        (Some((number, seconds)), _) => number.trim().parse::<f64>().ok().map(|number| number * seconds),
        (None, "0") => Some(0.0),
        _ => None,
    };
    let seconds = seconds.filter(|seconds| (0.0..=100.0).contains(seconds));
    seconds
        .map(Time::from_secs)
        .ok_or_else(|| format!("`{text}` is no time from 0 to 100 s: use 20ms, 500us or 1.5s"))
}

/// A share of at least 0 and below 1: `0.5%` or `0.005`.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    let share = match text.trim().strip_suffix('%') {
        Some(percent) => percent.trim().parse().ok().map(|percent: f64| percent / 100.0),
        None => text.trim().parse().ok(),
    };
    share
        .filter(|share| (0.0..1.0).contains(share))
        .ok_or_else(|| format!("`{text}` is no share below 1: write half a percent as 0.5% or 0.005"))
}
