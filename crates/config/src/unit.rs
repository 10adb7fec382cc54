//! Numbers with a unit, as people write them on a command line or in a plan: `250`, `2.5M`, `100ms`, `1GiB`, `20kpps`,
//! `100mbit`. All options go through the functions here and in [`crate::rate`], so that a unit means the same everywhere,
//! and each error names the units that would have been right.
//!
//! Prefixes are powers of ten: `k` or `K`, `M`, `G`, `T`; with an `i` powers of two (`KiB`). A bare `m` is minutes for a time
//! and nothing else: as "milli" or "mega" it would be guessed.

use std::time::Duration;

/// A number and what stands behind it, without the space between them.
fn split(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let is_number = |(at, c): (usize, char)| {
        let digits = c.is_ascii_digit() || c == '.' || (at == 0 && (c == '+' || c == '-'));
        // `1e6` and `1e-3` are numbers, `1 e` is not.
        let rest = &text[at + c.len_utf8()..];
        let exponent = (c == 'e' || c == 'E')
            && rest.trim_start_matches(['+', '-']).starts_with(|c: char| c.is_ascii_digit());
        let sign = (c == '+' || c == '-') && text[..at].ends_with(['e', 'E']);
        digits || exponent || sign
    };
    let end = text.char_indices().find(|&at| !is_number(at)).map_or(text.len(), |(at, _)| at);
    let number = text[..end].parse::<f64>().ok().filter(|number| number.is_finite())?;
    Some((number, text[end..].trim_start()))
}

/// A number of at least 0 with a prefix of ten, and the unit behind that: `(2.5e6, "pps")` of `2.5Mpps`.
pub(crate) fn prefixed(text: &str) -> Option<(f64, &str)> {
    let (number, rest) = split(text)?;
    let (factor, unit) = match rest.chars().next() {
        Some('k' | 'K') => (1e3, &rest[1..]),
        Some('M') => (1e6, &rest[1..]),
        Some('G') => (1e9, &rest[1..]),
        Some('T') => (1e12, &rest[1..]),
        // As tc(8) has it: there is no thousandth of a bit.
        Some('m') if rest.starts_with("mbit") => (1e6, &rest[1..]),
        Some('g') if rest.starts_with("gbit") => (1e9, &rest[1..]),
        _ => (1.0, rest),
    };
    let number = number * factor;
    (number.is_finite() && number >= 0.0).then_some((number, unit))
}

/// Reads a number of at least 0 with an optional prefix: `250`, `1k`, `2.5M`, `10G`, `1e6`.
///
/// # Errors
/// Anything else; the message says what to write.
pub fn quantity(text: &str) -> Result<f64, String> {
    match prefixed(text) {
        Some((number, "")) => Ok(number),
        Some((_, "m")) => {
            let text = text.trim();
            let large = text.replace('m', "M");
            Err(format!("`{text}` is no number: use {large} for millions, or 250, 1k, 10G"))
        }
        _ => Err(format!("`{}` is no number: use 250, 1k, 2.5M or 10G", text.trim())),
    }
}

/// Times, and how many seconds each is.
const TIMES: [(&str, f64); 9] = [
    ("", 1.0),
    ("ns", 1e-9),
    ("us", 1e-6),
    ("ms", 1e-3),
    ("s", 1.0),
    ("m", 60.0),
    ("min", 60.0),
    ("h", 3600.0),
    ("d", 86_400.0),
];

/// Reads a length of time: `10` and `10s` are seconds; also `500us`, `100ms`, `5m` or `5min` (minutes), `2h`, `1d`.
///
/// # Errors
/// Anything else, and what is not in `least..=most`; the message names the units and both ends.
pub fn time(text: &str, least: Duration, most: Duration) -> Result<Duration, String> {
    let seconds = split(text).and_then(|(number, unit)| {
        TIMES.iter().find(|(name, _)| *name == unit).map(|(_, seconds)| number * seconds)
    });
    let inside = seconds.filter(|seconds| (least.as_secs_f64()..=most.as_secs_f64()).contains(seconds));
    inside.map(Duration::from_secs_f64).ok_or_else(|| {
        let (text, ends) = (text.trim(), [least, most].map(short));
        format!("`{text}` is no time from {} to {}: use 10s, 100ms, 5m (minutes) or 2h", ends[0], ends[1])
    })
}

/// A time in the largest unit that it is a whole number of.
fn short(time: Duration) -> String {
    let units = [("d", 86_400_000_000_000_u128), ("h", 3_600_000_000_000), ("s", 1_000_000_000)];
    let units = units.into_iter().chain([("ms", 1_000_000), ("us", 1000), ("ns", 1)]);
    let nanos = time.as_nanos();
    let mut fits = units.filter(|(_, unit)| nanos >= *unit && nanos.is_multiple_of(*unit));
    fits.next().map_or_else(|| "0s".into(), |(name, unit)| format!("{}{name}", nanos / unit))
}

/// Reads a share of at least 0 and below 1: `0.5%` or `0.005`.
///
/// # Errors
/// Anything else; the message says what to write.
pub fn share(text: &str) -> Result<f64, String> {
    let text = text.trim();
    let share = match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse().ok().map(|percent: f64| percent / 100.0),
        None => text.parse().ok(),
    };
    let wrong = || format!("`{text}` is no share below 1: write half a percent as \"0.5%\" or 0.005");
    share.filter(|share| (0.0..1.0).contains(share)).ok_or_else(wrong)
}

/// Sizes, and how many bytes each is.
const SIZES: [(&str, u64); 14] = [
    ("", 1),
    ("B", 1),
    ("k", 1000),
    ("kB", 1000),
    ("KB", 1000),
    ("M", 1_000_000),
    ("MB", 1_000_000),
    ("G", 1_000_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

/// Reads a size in bytes above 0: `512`, `100MB`, `1G` (powers of ten), `1GiB` (powers of two).
///
/// # Errors
/// Anything else; the message names the units.
pub fn bytes(text: &str) -> Result<u64, String> {
    let size = split(text).and_then(|(number, unit)| {
        SIZES.iter().find(|(name, _)| *name == unit).map(|(_, bytes)| number * *bytes as f64)
    });
    let size = size.filter(|size| (1.0..1e18).contains(size)).map(|size| size as u64);
    size.ok_or_else(|| {
        format!("`{}` is no size: use 100MB, 1GB (10^9 bytes) or 1GiB (2^30 bytes)", text.trim())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_means_the_same_everywhere() {
        let day = Duration::from_secs(86_400);
        let time = |text: &str| time(text, Duration::from_millis(1), day).map(|time| time.as_secs_f64());
        for (text, seconds) in [
            ("5", 5.0),
            ("5s", 5.0),
            ("1m", 60.0),
            ("1.5 min", 90.0),
            ("2h", 7200.0),
            ("100ms", 0.1),
            ("1e-1", 0.1),
        ] {
            assert_eq!(time(text), Ok(seconds), "{text}");
        }
        for (text, size) in
            [("512", 512), ("1GB", 1_000_000_000), ("1G", 1_000_000_000), ("1.5 MiB", 1_572_864)]
        {
            assert_eq!(bytes(text), Ok(size), "{text}");
        }
        for (text, number) in [("1k", 1e3), ("2.5M", 2.5e6), ("1e6", 1e6), ("0", 0.0), (" 3 K", 3e3)] {
            assert_eq!(quantity(text), Ok(number), "{text}");
        }
        assert_eq!(prefixed("20kpps"), Some((20e3, "pps")));
        assert_eq!(prefixed("100mbit"), Some((100e6, "bit")));
    }

    #[test]
    fn each_error_names_the_units() {
        let (least, most) = (Duration::from_millis(1), Duration::from_secs(86_400));
        for text in ["", "fast", "0", "2d", "-1", "1 parsec", "1M"] {
            let message = time(text, least, most).unwrap_err();
            assert!(message.contains("1ms to 1d: use 10s, 100ms, 5m (minutes)"), "{message}");
        }
        for text in ["", "0", "1gb", "5s", "-1GB", "nanGB", "infGB", "1e30"] {
            let message = bytes(text).unwrap_err();
            assert!(message.contains("1GiB (2^30 bytes)"), "{message}");
        }
        assert!(quantity("5m").unwrap_err().contains("use 5M for millions"));
        for text in ["", "-1", "1e400", "NaN", "inf", "5 pps"] {
            assert!(quantity(text).unwrap_err().contains(": use 250, 1k"), "{text}");
        }
    }
}
