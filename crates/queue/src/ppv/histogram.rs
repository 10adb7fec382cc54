//! Bytes by value.

use super::LEVELS;

/// Bytes of each value, and their sum.
#[derive(Debug, Clone)]
pub(crate) struct Histogram {
    bytes: Box<[u64; LEVELS]>,
    total: u64,
}

impl Histogram {
    pub(crate) fn new() -> Histogram {
        Histogram { bytes: Box::new([0; LEVELS]), total: 0 }
    }

    pub(crate) fn add(&mut self, value: u16, bytes: u32) {
        self.bytes[level(value)] += u64::from(bytes);
        self.total += u64::from(bytes);
    }

    pub(crate) fn remove(&mut self, value: u16, bytes: u32) {
        self.bytes[level(value)] -= u64::from(bytes);
        self.total -= u64::from(bytes);
    }

    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// The highest value below which there are no more than `bytes`.
    pub(crate) fn threshold(&self, bytes: f64) -> u16 {
        let mut below = 0;
        for (value, here) in self.bytes.iter().enumerate() {
            below += here;
            if below as f64 > bytes {
                return value as u16;
            }
        }
        LEVELS as u16
    }
}

/// A value as an index; values that are too high count as the highest.
pub(crate) fn level(value: u16) -> usize {
    usize::from(value).min(LEVELS - 1)
}
