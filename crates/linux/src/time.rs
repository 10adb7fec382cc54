//! Points in time as records have them, and whether the clocks that tell them can be trusted.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

/// How the machine's clocks stand to each other. Slewing moves all of them alike; they move apart when the time
/// of day is set, and when the machine sleeps. clock_gettime(2).
#[derive(Debug, Clone, Copy)]
pub struct Clocks {
    /// CLOCK_REALTIME and CLOCK_BOOTTIME, ns ahead of CLOCK_MONOTONIC.
    ahead_ns: [i64; 2],
}

impl Clocks {
    /// As they stand.
    pub fn now() -> Clocks {
        Clocks { ahead_ns: [ClockId::Realtime, ClockId::Boottime].map(ahead_ns) }
    }

    /// How far they have moved apart since `earlier`.
    pub fn jump_since(&self, earlier: &Clocks) -> Duration {
        let moved = self.ahead_ns.iter().zip(earlier.ahead_ns).map(|(now, then)| now.abs_diff(then));
        Duration::from_nanos(moved.max().unwrap_or(0))
    }
}

/// Reads `clock` between two looks at CLOCK_MONOTONIC. Of a few attempts the quickest counts, since the thread
/// may lose its CPU in between.
fn ahead_ns(clock: ClockId) -> i64 {
    let attempt = |_| {
        let before = read_ns(ClockId::Monotonic);
        let time = read_ns(clock);
        let width = read_ns(ClockId::Monotonic) - before;
        (width, time - (before + width / 2))
    };
    (0..3).map(attempt).min().map_or(0, |(_, ahead)| ahead)
}

fn read_ns(clock: ClockId) -> i64 {
    let time = clock_gettime(clock);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// Now, in UTC, as RFC 3339 with milliseconds: `2026-05-04T03:02:01.234Z`.
pub fn now() -> String {
    rfc3339(SystemTime::now())
}

/// A time that [`now`] reported, and so much later; `None` for what it did not tell.
pub fn later(time: &str, by: Duration) -> Option<String> {
    let (seconds, ms) = (u64::try_from(unix_seconds(time)?).ok()?, time.get(20..23)?.parse::<u32>().ok()?);
    Some(rfc3339(UNIX_EPOCH + Duration::new(seconds, ms * 1_000_000) + by))
}

/// A time as [`now`] writes it.
pub fn rfc3339(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (s, ms) = (since.as_secs(), since.subsec_millis());
    let (year, month, day) = civil((s / 86_400) as i64);
    let (hour, minute, second) = (s / 3600 % 24, s / 60 % 60, s % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

/// Year, month and day of a day since 1970-01-01 in the Gregorian calendar. Years begin in March here, so
/// that the leap day is the last one.
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let march_month = (5 * of_year + 2) / 153;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, of_year - (153 * march_month + 2) / 5 + 1)
}

/// Seconds since the Unix epoch at a time as [`now`] writes it; a fraction of a second is left out.
pub fn unix_seconds(time: &str) -> Option<i64> {
    let number = |range: std::ops::Range<usize>| time.get(range)?.parse::<i64>().ok();
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
    // Years begin in March, as above.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year.div_euclid(4) - year.div_euclid(100)
        + year.div_euclid(400)
        + (153 * month + 2) / 5
        + day
        - 1
        - 719_468;
    (time.ends_with('Z')).then_some(((days * 24 + hour) * 60 + minute) * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_set_has_jumped() {
        let then = Clocks { ahead_ns: [7_000_000_000, 0] };
        for (ahead_ns, jump_ms) in
            [([7_000_000_000, 0], 0), ([5_500_000_000, 0], 1500), ([7_000_000_000, 20_000_000], 20)]
        {
            assert_eq!(Clocks { ahead_ns }.jump_since(&then), Duration::from_millis(jump_ms));
        }
        let now = Clocks::now();
        assert!(Clocks::now().jump_since(&now) < Duration::from_millis(1), "{now:?}");
    }

    #[test]
    fn what_is_no_time_has_no_seconds() {
        for text in ["", "2026-03-01", "2026-03-01T10:00:00+02:00", "2026-xx-01T10:00:00Z"] {
            assert_eq!(unix_seconds(text), None, "{text}");
        }
    }

    #[test]
    fn times_are_written_as_date_does() {
        for (s, expected) in [
            (0, "1970-01-01T00:00:00.007Z"),
            (951_782_400, "2000-02-29T00:00:00.007Z"),
            (1_772_323_199, "2026-02-28T23:59:59.007Z"),
            (4_107_542_400, "2100-03-01T00:00:00.007Z"),
        ] {
            assert_eq!(rfc3339(UNIX_EPOCH + Duration::from_millis(s * 1000 + 7)), expected);
            assert_eq!(unix_seconds(expected), Some(s as i64));
        }
    }

    #[test]
    fn later_is_after_midnight_and_leap_days_too() {
        for (time, ms, expected) in [
            ("2024-02-28T23:59:59.900Z", 86_400_100, "2024-03-01T00:00:00.000Z"),
            ("2026-12-31T23:59:59.999Z", 1, "2027-01-01T00:00:00.000Z"),
            ("2026-05-04T03:02:01.234Z", 0, "2026-05-04T03:02:01.234Z"),
        ] {
            assert_eq!(later(time, Duration::from_millis(ms)).as_deref(), Some(expected));
        }
        assert_eq!(later("yesterday", Duration::ZERO), None);
    }
}
