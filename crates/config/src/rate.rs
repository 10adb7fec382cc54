//! Rates as people write them: `1M`, `500kpps`, `100Mbit`, `10%`. Read once, here, into a [`Rate`].
//!
//! Prefixes are powers of ten and are distinguished by case: `k` or `K`, `M`, `G`. A small `m` would be
//! "milli" and is refused rather than guessed.

use std::fmt;
use std::str::FromStr;

use weir_packet::size::FrameSizes;

use crate::unit::prefixed;
pub use crate::unit::quantity;

/// How fast frames are to be sent, in one direction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rate {
    /// Frames per second, above 0.
    Fps(f64),
    /// Bits per second, above 0, counted over whole frames with FCS but without preamble and gap, so that
    /// 10 Gbit/s of 64-byte frames are 19.5 M frames/s, more than a 10 Gbit/s line carries.
    BitsPerS(f64),
    /// Percent of the line, above 0, at most 1000; preamble and gap are counted, so that 100 is a full line.
    LinePercent(f64),
}

impl Rate {
    /// The rate in frames/s of frames of these sizes.
    ///
    /// # Errors
    /// A percentage when no `line_bits_per_s` is known; the message says what to give.
    pub fn fps(self, frames: &FrameSizes, line_bits_per_s: Option<f64>) -> Result<f64, String> {
        match self {
            Rate::Fps(fps) => Ok(fps),
            Rate::BitsPerS(bits) => Ok(bits / (frames.mean() * 8.0)),
            Rate::LinePercent(percent) => line_bits_per_s
                .map(|line| frames.line_fps(line) * percent / 100.0)
                .ok_or_else(|| format!("{self} needs a line rate, for example 10Gbit")),
        }
    }
}

impl fmt::Display for Rate {
    /// Writes what [`FromStr`] reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rate::Fps(fps) => write!(f, "{}pps", with_prefix(*fps)),
            Rate::BitsPerS(bits) => write!(f, "{}bit/s", with_prefix(*bits)),
            Rate::LinePercent(percent) => write!(f, "{percent}%"),
        }
    }
}

impl FromStr for Rate {
    type Err = String;

    /// Reads a number with an optional prefix and unit: `pps`, `fps` or nothing for frames/s; `bit`,
    /// `bit/s` or `bps` for bits/s; `%` for a share of the line.
    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if let Some(percent) = text.strip_suffix('%') {
            let percent: f64 = percent.trim().parse().map_err(|_| no_rate(text))?;
            return match percent {
                p if p > 0.0 && p <= 1000.0 => Ok(Rate::LinePercent(p)),
                _ => Err(format!("`{text}` is out of range: use more than 0% and at most 1000%")),
            };
        }
        match prefixed(text).filter(|(number, _)| *number > 0.0) {
            Some((_, "")) if text.ends_with('G') => {
                Err(format!("`{text}` can be frames or bits per second: use {text}pps or {text}bit"))
            }
            Some((number, "" | "pps" | "fps")) => Ok(Rate::Fps(number)),
            Some((number, unit)) if BIT_UNITS.contains(&unit) => Ok(Rate::BitsPerS(number)),
            _ => Err(no_rate(text)),
        }
    }
}

fn no_rate(text: &str) -> String {
    format!("`{text}` is no rate: use 1M or 500kpps (frames/s), 100Mbit (bit/s) or 10% (of the line)")
}

/// Units of bit/s.
const BIT_UNITS: [&str; 3] = ["bit/s", "bit", "bps"];

/// Reads a rate in frames/s: `1000`, `1k`, `2Mpps`.
///
/// # Errors
/// Anything else; the message says what to write.
pub fn fps(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(Rate::Fps(fps)) => Ok(fps),
        _ => Err(format!("`{text}` is no rate in frames/s: use 1000, 1k or 2M")),
    }
}

/// Reads the speed of a line in bit/s: `10e9`, `10G`, `2.5Gbit`.
///
/// # Errors
/// Anything else; the message says what to write.
pub fn line_bits_per_s(text: &str) -> Result<f64, String> {
    let bits = prefixed(text)
        .filter(|(number, unit)| *number > 0.0 && (unit.is_empty() || BIT_UNITS.contains(unit)));
    bits.map(|(bits, _)| bits)
        .ok_or_else(|| format!("`{text}` is no line speed in bit/s: use 10G, 2.5Gbit or 10e9"))
}

/// The shortest exact form: the largest prefix that divides without more than three decimals.
fn with_prefix(number: f64) -> String {
    for (factor, prefix) in [(1e9, "G"), (1e6, "M"), (1e3, "k")] {
        let scaled = number / factor;
        if scaled >= 1.0 && (scaled * 1000.0).fract() == 0.0 {
            return format!("{scaled}{prefix}");
        }
    }
    number.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_and_written_alike() {
        for (text, rate, written) in [
            ("1M", Rate::Fps(1e6), "1Mpps"),
            ("500kpps", Rate::Fps(5e5), "500kpps"),
            ("1234567", Rate::Fps(1_234_567.0), "1234.567kpps"),
            ("2.5Mfps", Rate::Fps(2.5e6), "2.5Mpps"),
            ("1e6", Rate::Fps(1e6), "1Mpps"),
            ("100Mbit", Rate::BitsPerS(1e8), "100Mbit/s"),
            ("1.5Gbit/s", Rate::BitsPerS(1.5e9), "1.5Gbit/s"),
            ("10 Gbps", Rate::BitsPerS(1e10), "10Gbit/s"),
            ("100mbit", Rate::BitsPerS(1e8), "100Mbit/s"),
            ("10%", Rate::LinePercent(10.0), "10%"),
            ("0.5 %", Rate::LinePercent(0.5), "0.5%"),
        ] {
            assert_eq!(text.parse(), Ok(rate), "{text}");
            assert_eq!(rate.to_string(), written);
            assert_eq!(written.parse(), Ok(rate), "{written}");
        }
    }

    #[test]
    fn what_is_no_rate_is_refused() {
        for text in
            ["", "fast", "0", "-1", "1m", "inf", "NaN", "pps", "%", "0%", "1001%", "1e400", "5 parsecs"]
        {
            let message = text.parse::<Rate>().unwrap_err();
            assert!(message.contains(": use "), "`{text}` gives `{message}`");
        }
        let message = "10G".parse::<Rate>().unwrap_err();
        assert!(message.ends_with("use 10Gpps or 10Gbit"), "frames, or the bits of --line 10G? {message}");
    }

    #[test]
    fn bits_are_of_frames_and_percent_is_of_the_line() {
        let frames = FrameSizes::Fixed(64);
        let rate = |text: &str| text.parse::<Rate>().unwrap();
        assert_eq!(rate("1M").fps(&frames, None), Ok(1e6));
        assert_eq!(rate("512Mbit").fps(&frames, None), Ok(1e6));
        assert_eq!(rate("100%").fps(&frames, Some(10e9)).unwrap() as u32, 14_880_952);
        assert!(rate("10%").fps(&frames, None).unwrap_err().contains("needs a line rate"));
    }

    #[test]
    fn lines() {
        assert_eq!(line_bits_per_s("10G"), Ok(10e9));
        assert_eq!(line_bits_per_s("2.5Gbit"), Ok(2.5e9));
        assert_eq!(line_bits_per_s("10e9"), Ok(10e9));
        assert!(line_bits_per_s("10%").is_err());
        assert_eq!(fps("1k"), Ok(1000.0));
        assert!(fps("1Mbit").is_err());
    }
}
