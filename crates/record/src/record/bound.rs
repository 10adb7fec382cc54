//! How a figure relates to the true value of the device: exactly, or as a bound where the tester was the limit.

use serde::{Deserialize, Serialize};

/// How a figure relates to the true value, the weakest last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// It is the value.
    #[default]
    Exact,
    /// The true value may be higher: the tester was the limit.
    AtLeast,
    /// The true value may be lower: it was divided by a lower bound.
    AtMost,
    /// The search ended early; the true value may be higher or lower.
    Rough,
    /// Nothing follows from it: its interval is too wide, or both rates of a ratio are bounds.
    NoResult,
}

impl Bound {
    /// The upper end of an interval by the lower one, from which on the figure is no result.
    const WIDE: f64 = 2.0;

    /// Is it the value itself?
    pub fn is_exact(&self) -> bool {
        *self == Bound::Exact
    }

    /// The same, or no result where this is the interval of the figure.
    pub fn within(self, interval: Option<(f64, f64)>) -> Bound {
        let is_wide = interval.is_some_and(|(low, high)| high > Bound::WIDE * low);
        if is_wide { Bound::NoResult } else { self }
    }

    /// What a rate with this bound divided by one with that bound says.
    pub fn over(self, base: Bound) -> Bound {
        match (self, base) {
            (Bound::Exact, Bound::Exact) => Bound::Exact,
            (Bound::AtLeast, Bound::Exact) | (Bound::Exact, Bound::AtMost) => Bound::AtLeast,
            (Bound::AtMost, Bound::Exact) | (Bound::Exact, Bound::AtLeast) => Bound::AtMost,
            _ => Bound::NoResult,
        }
    }

    /// Before a number in a sentence.
    pub fn words(self) -> &'static str {
        match self {
            Bound::Exact => "",
            Bound::AtLeast => "at least ",
            Bound::AtMost => "at most ",
            Bound::Rough => "roughly ",
            Bound::NoResult => "not known, about ",
        }
    }

    /// Before a number in a table or figure.
    pub fn sign(self) -> &'static str {
        match self {
            Bound::Exact => "",
            Bound::AtLeast => "≥\u{202f}",
            Bound::AtMost => "≤\u{202f}",
            Bound::Rough => "~\u{202f}",
            Bound::NoResult => "?\u{202f}",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Bound::{self, *};

    #[test]
    fn a_ratio_says_no_more_than_its_rates() {
        for (own, base, expected) in [
            (Exact, Exact, Exact),
            (AtLeast, Exact, AtLeast),
            (Exact, AtLeast, AtMost),
            (AtLeast, AtLeast, NoResult),
            (Rough, Exact, NoResult),
            (Exact, NoResult, NoResult),
        ] {
            assert_eq!(own.over(base), expected, "{own:?} by {base:?}");
        }
    }

    #[test]
    fn a_wide_interval_is_no_result() {
        for (interval, expected) in [
            (None, AtLeast),
            (Some((300e3, 330e3)), AtLeast),
            (Some((165e3, 330e3)), AtLeast),
            (Some((5.7e3, 327e3)), NoResult),
            (Some((0.0, 1.0)), NoResult),
        ] {
            assert_eq!(Bound::AtLeast.within(interval), expected, "{interval:?}");
        }
        assert_eq!(serde_json::to_string(&NoResult).expect("a name"), "\"no-result\"");
    }
}
