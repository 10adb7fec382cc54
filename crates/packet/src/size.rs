//! Frame sizes: fixed, mixed, random. Sizes are Ethernet frame sizes in bytes, FCS included (RFC 2544,
//! section 9), so that 64 is the smallest frame; the interface carries 4 bytes less.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Length of the frame check sequence, part of a frame's size but never seen by software.
pub const FCS_BYTES: usize = 4;
/// Preamble, start delimiter and inter-frame gap: what a frame occupies on the wire beyond its size.
pub(crate) const WIRE_OVERHEAD_BYTES: usize = 20;

/// The sizes of the frames of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FrameSizes {
    /// All frames have this size.
    Fixed(u16),
    /// Sizes in this order, again and again: a list, or an RFC 6985 genome.
    Cycle {
        /// As written in the plan (`imix`, `imix:aab`, `mix:64,128`).
        name: String,
        /// The sizes in order, at most [`MAX_CYCLE`].
        sizes: Vec<u16>,
    },
    /// Uniformly random between both, inclusive.
    Random {
        /// Smallest size.
        min: u16,
        /// Largest size.
        max: u16,
    },
}

/// Longest cycle of sizes.
pub const MAX_CYCLE: usize = 64;
/// Smallest and largest frame size that weir sends.
pub(crate) const SIZE_RANGE: std::ops::RangeInclusive<u16> = 64..=9018;

/// RFC 6985 letters and their sizes (section 3); `z` (MTU) is not supported.
const GENOME: [(char, u16); 9] = [
    ('a', 64),
    ('b', 128),
    ('c', 256),
    ('d', 512),
    ('e', 1024),
    ('f', 1280),
    ('g', 1518),
    ('h', 2112),
    ('i', 9000),
];

impl FrameSizes {
    /// Mean size in bytes, FCS included.
    pub fn mean(&self) -> f64 {
        match self {
            FrameSizes::Fixed(size) => f64::from(*size),
            FrameSizes::Cycle { sizes, .. } => {
                sizes.iter().map(|&s| f64::from(s)).sum::<f64>() / sizes.len() as f64
            }
            FrameSizes::Random { min, max } => (f64::from(*min) + f64::from(*max)) / 2.0,
        }
    }

    /// Smallest size in bytes.
    pub fn min(&self) -> u16 {
        match self {
            FrameSizes::Fixed(size) => *size,
            FrameSizes::Cycle { sizes, .. } => sizes.iter().copied().min().unwrap_or(0),
            FrameSizes::Random { min, .. } => *min,
        }
    }

    /// Largest size in bytes.
    pub fn max(&self) -> u16 {
        match self {
            FrameSizes::Fixed(size) => *size,
            FrameSizes::Cycle { sizes, .. } => sizes.iter().copied().max().unwrap_or(0),
            FrameSizes::Random { max, .. } => *max,
        }
    }

    /// Theoretical maximum rate of a line in frames/s, one direction (RFC 2544, appendix B).
    pub fn line_fps(&self, line_bits_per_s: f64) -> f64 {
        line_bits_per_s / ((self.mean() + WIRE_OVERHEAD_BYTES as f64) * 8.0)
    }
}

impl fmt::Display for FrameSizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FrameSizes::Fixed(size) => write!(f, "{size}"),
            FrameSizes::Cycle { name, .. } => f.write_str(name),
            FrameSizes::Random { min, max } => write!(f, "random:{min}-{max}"),
        }
    }
}

impl FromStr for FrameSizes {
    type Err = String;

    /// Reads `64`, `imix`, `imix:aabg` (RFC 6985 genome), `mix:64,128,1518` or `random:64-1518`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        match kind {
            "imix" => {
                // The Simple IMIX: 7 x 64, 4 x 570-ish and 1 x 1518, with 512 for the middle as RFC 6985 letters allow.
                let genome = if rest.is_empty() { "aaaaaaaddddg" } else { rest };
                let sizes = genome.chars().map(genome_size).collect::<Result<Vec<_>, _>>()?;
                cycle(text, sizes)
            }
            "mix" => cycle(text, rest.split(',').map(size).collect::<Result<Vec<_>, _>>()?),
            "random" => {
                let (min, max) = rest.split_once('-').ok_or("write a range as random:64-1518")?;
                let (min, max) = (size(min)?, size(max)?);
                if min > max {
                    return Err(format!("the smaller size comes first: random:{max}-{min}"));
                }
                Ok(FrameSizes::Random { min, max })
            }
            _ => size(text).map(FrameSizes::Fixed),
        }
    }
}

fn cycle(name: &str, sizes: Vec<u16>) -> Result<FrameSizes, String> {
    if sizes.len() > MAX_CYCLE {
        return Err(format!("{} sizes are more than {MAX_CYCLE}", sizes.len()));
    }
    Ok(FrameSizes::Cycle { name: name.to_string(), sizes })
}

fn genome_size(letter: char) -> Result<u16, String> {
    GENOME.iter().find(|(l, _)| *l == letter).map(|(_, s)| *s).ok_or_else(|| {
        format!("`{letter}` is no size letter of RFC 6985: use a=64 b=128 c=256 d=512 e=1024 f=1280 g=1518 h=2112 i=9000")
    })
}

fn size(text: &str) -> Result<u16, String> {
    text.trim().parse().ok().filter(|s| SIZE_RANGE.contains(s)).ok_or_else(|| {
        format!(
            "`{text}` is no frame size: use {} to {}, imix, imix:GENOME, mix:64,128 or random:64-1518",
            SIZE_RANGE.start(),
            SIZE_RANGE.end()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_rate_is_the_table_of_rfc2544_appendix_b() {
        for (size, fps) in
            [(64, 14880), (128, 8445), (256, 4528), (512, 2349), (1024, 1197), (1280, 961), (1518, 812)]
        {
            assert_eq!(FrameSizes::Fixed(size).line_fps(10e6) as u32, fps, "{size} bytes");
        }
    }

    #[test]
    fn sizes_are_read_and_written_alike() {
        for text in ["64", "1518", "imix", "imix:aabg", "mix:64,128,1518", "random:64-1518"] {
            assert_eq!(text.parse::<FrameSizes>().unwrap().to_string(), text);
        }
        for text in ["", "63", "9019", "imix:z", "random:9-8", "random:200-100", "mix:", "big"] {
            assert!(text.parse::<FrameSizes>().is_err(), "{text}");
        }
        assert_eq!("imix".parse::<FrameSizes>().unwrap().mean(), (7 * 64 + 4 * 512 + 1518) as f64 / 12.0);
    }
}
