//! The trigger that makes a capture with --ring-before begin to write.

use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};

use weir_config::rate;

/// Rates are those of this time.
const WINDOW: Duration = Duration::from_secs(1);

/// What sets a capture off.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Trigger {
    /// SIGUSR1.
    Signal,
    /// More frames per second, those that were lost included.
    FramesPerS(f64),
    /// More bits per second of frames without FCS.
    BitsPerS(f64),
}

impl FromStr for Trigger {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no trigger: use pps>100k (frames/s), bps>1G (bit/s) or signal");
        if text == "signal" {
            return Ok(Trigger::Signal);
        }
        let (what, rate) = text.split_once('>').ok_or_else(wrong)?;
        match what.trim() {
            "pps" => rate::fps(rate).map(Trigger::FramesPerS).map_err(|_| wrong()),
            "bps" => rate::line_bits_per_s(rate).map(Trigger::BitsPerS).map_err(|_| wrong()),
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trigger::Signal => f.write_str("SIGUSR1"),
            Trigger::FramesPerS(rate) => write!(f, "more than {rate} frames/s"),
            Trigger::BitsPerS(rate) => write!(f, "more than {rate} bit/s"),
        }
    }
}

/// Looks at growing counts, and says whether a rate is exceeded.
pub(crate) struct Watch {
    trigger: Trigger,
    /// Frames and bytes at instants of the last window.
    seen: VecDeque<(Instant, u64, u64)>,
}

impl Watch {
    pub(crate) fn new(trigger: Trigger) -> Self {
        Watch { trigger, seen: VecDeque::new() }
    }

    /// Updates the counts at `now`; returns whether the trigger fires.
    pub(crate) fn is_due(&mut self, now: Instant, frames: u64, bytes: u64) -> bool {
        self.seen.push_back((now, frames, bytes));
        // The one before the window stays, so that the whole window is seen.
        while self.seen.get(1).is_some_and(|(at, _, _)| now - *at >= WINDOW) {
            self.seen.pop_front();
        }
        let (at, frames_before, bytes_before) = self.seen[0];
        let elapsed = (now - at).max(WINDOW).as_secs_f64();
        match self.trigger {
            Trigger::Signal => false,
            Trigger::FramesPerS(rate) => (frames - frames_before) as f64 / elapsed > rate,
            Trigger::BitsPerS(rate) => (bytes - bytes_before) as f64 * 8.0 / elapsed > rate,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn triggers_are_read() {
        for (text, trigger) in [
            ("signal", Trigger::Signal),
            ("pps>100k", Trigger::FramesPerS(1e5)),
            ("pps > 2.5M", Trigger::FramesPerS(2.5e6)),
            ("bps>1G", Trigger::BitsPerS(1e9)),
            ("bps>100mbit", Trigger::BitsPerS(1e8)),
        ] {
            assert_eq!(text.parse(), Ok(trigger));
        }
        for text in ["", "pps", "pps>", "pps>-1", "fps>3", "pps<3", "bps>1m", "pps>inf"] {
            assert!(text.parse::<Trigger>().unwrap_err().contains("use pps>100k"), "{text}");
        }
    }

    #[test]
    fn a_rate_is_that_of_a_second() {
        let start = Instant::now();
        let mut watch = Watch::new(Trigger::FramesPerS(1000.0));
        let mut at = |ms, frames| watch.is_due(start + Duration::from_millis(ms), frames, 0);
        assert!(!at(0, 0));
        assert!(!at(100, 900), "a burst is no rate");
        assert!(!at(1000, 1000), "not more");
        assert!(!at(1100, 1900), "the burst has left the window");
        assert!(at(1200, 2100), "1200 since 100 ms ago");
        let mut watch = Watch::new(Trigger::BitsPerS(8000.0));
        assert!(!watch.is_due(start, 0, 0));
        assert!(watch.is_due(start + Duration::from_millis(50), 1, 1001));
    }
}
