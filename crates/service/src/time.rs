//! Durations as text.

use std::time::Duration;

/// The two largest units, rounded up: `1 min 43 s`, `2 days 3 h`; `0 s` for nothing.
pub fn in_words(time: Duration) -> String {
    let seconds = time.as_secs() + u64::from(time.subsec_nanos() > 0);
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => two(seconds, 60, "min", "s"),
        3600..86_400 => two(seconds.div_ceil(60), 60, "h", "min"),
        _ => two(seconds.div_ceil(3600), 24, "days", "h"),
    }
}

fn two(count: u64, per_large: u64, large: &str, small: &str) -> String {
    match count % per_large {
        0 => format!("{} {large}", count / per_large),
        rest => format!("{} {large} {rest} {small}", count / per_large),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rounded_up() {
        for (ms, words) in [
            (0, "0 s"),
            (58_001, "59 s"),
            (60_000, "1 min"),
            (102_500, "1 min 43 s"),
            (3_600_000, "1 h"),
            (3_601_000, "1 h 1 min"),
            (411_480_000, "4 days 19 h"),
        ] {
            assert_eq!(in_words(Duration::from_millis(ms)), words, "{ms} ms");
        }
    }
}
