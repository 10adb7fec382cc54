//! How much may wait in front of a link.

use std::time::Duration;

use weir_config::unit;
use weir_queue::Time;

/// Longest delay.
const LONGEST: Duration = Duration::from_secs(100);
/// Largest buffer.
const MOST_BUFFER_BYTES: u64 = 10_000_000_000;

/// A size of the buffer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Buffer {
    /// Bytes.
    Bytes(u64),
    /// Time at the rate of the link.
    Time(Time),
    /// Bandwidth-delay products: rate times the longest round trip without queues, which is twice the longest delay.
    Bdp(f64),
}

impl Buffer {
    /// Reads `1bdp`, `20ms`, `64kB` or `1500`.
    ///
    /// # Errors
    /// Anything else; the message says what to write.
    pub fn read(text: &str) -> Result<Buffer, String> {
        let wrong = || format!("`{text}` is no buffer: use 1bdp, 20ms, 64kB or 1500 (bytes)");
        if let Some(times) = text.strip_suffix("bdp") {
            let times = times.trim().parse().ok().filter(|times| (0.001..=1000.0).contains(times));
            return times.map(Buffer::Bdp).ok_or_else(wrong);
        }
        if let Ok(time) = time(text) {
            return if time > Time::ZERO { Ok(Buffer::Time(time)) } else { Err(wrong()) };
        }
        let bytes = unit::bytes(text).ok().filter(|bytes| *bytes <= MOST_BUFFER_BYTES);
        bytes.map(Buffer::Bytes).ok_or_else(wrong)
    }

    /// Its bytes in front of a link of this rate, with this longest round trip.
    pub fn bytes(self, bits_per_s: u64, rtt: Time) -> u64 {
        let seconds = |s: f64| (s * bits_per_s as f64 / 8.0).round() as u64;
        match self {
            Buffer::Bytes(bytes) => bytes,
            Buffer::Time(time) => seconds(time.secs()),
            Buffer::Bdp(times) => seconds(times * rtt.secs()),
        }
    }
}

/// A length of time with its unit, as in `20ms`: a bare 20 would be guessed.
///
/// # Errors
/// Anything else, or more than 100 s; the message says what to write.
pub fn time(text: &str) -> Result<Time, String> {
    let text = text.trim();
    if text != "0" && !text.ends_with(|c: char| c.is_ascii_alphabetic()) {
        return Err(format!("`{text}` is a time without a unit: use 20ms, 500us or 1.5s"));
    }
    let time = unit::time(text, Duration::ZERO, LONGEST)?;
    Ok(Time::from_secs(time.as_secs_f64()))
}
