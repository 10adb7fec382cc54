//! What a subscriber pays for: rates in both directions.

use std::fmt;

use weir_config::rate::Rate;

use crate::name::Name;

/// Rates in bit/s, above 0, of whole frames without FCS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rates {
    /// To the subscriber.
    pub down_bits_per_s: u64,
    /// From the subscriber.
    pub up_bits_per_s: u64,
}

impl fmt::Display for Rates {
    /// `down 20Mbit/s up 5Mbit/s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [down, up] = [self.down_bits_per_s, self.up_bits_per_s].map(|bits| Rate::BitsPerS(bits as f64));
        write!(f, "down {down} up {up}")
    }
}

/// The plan of a subscriber.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Plan {
    /// One that the configuration has by this name: when it changes there, it changes for all its subscribers.
    Named(Name),
    /// Rates of this subscriber alone.
    Own(Rates),
}

impl fmt::Display for Plan {
    /// What stands behind the word `plan`: a name, or `down 20Mbit/s up 5Mbit/s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Plan::Named(name) => name.fmt(f),
            Plan::Own(rates) => rates.fmt(f),
        }
    }
}

/// Reads a rate in bit/s.
///
/// # Errors
/// Anything else; the message says what to write.
pub fn bits_per_s(text: &str) -> Result<u64, String> {
    match text.parse::<Rate>() {
        Ok(Rate::BitsPerS(bits)) if (1.0..1e13).contains(&bits) => Ok(bits.round() as u64),
        _ => Err(format!("`{text}` is no rate of a plan: use 20Mbit or 1Gbit (bit/s, below 10Tbit)")),
    }
}
