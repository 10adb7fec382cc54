//! Why a result is not a plain "the rate is between these two bounds".

use std::fmt;

/// Reason to mark a result, as it stands in the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Irregular {
    /// The goal is met at the highest load that the search may offer: the rate is at least this.
    MaxIsNotUpper,
    /// The goal is met at the highest load that the tester can offer: the rate is at least this, and no
    /// figure of the device under test.
    TesterLimited,
    /// The goal is missed at the lowest load: there is no rate.
    MinIsLossy,
    /// The search ran out of time; the bounds are valid but wide, or missing.
    TimeLimit,
    /// Where a trial was needed, no valid one could be had; the bounds are valid but wide, or missing.
    NoValidTrial,
}

impl fmt::Display for Irregular {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Irregular::MaxIsNotUpper => "max load is not an upper bound",
            Irregular::TesterLimited => "tester-limited",
            Irregular::MinIsLossy => "min load is lossy",
            Irregular::TimeLimit => "time limit",
            Irregular::NoValidTrial => "no valid trial",
        })
    }
}
