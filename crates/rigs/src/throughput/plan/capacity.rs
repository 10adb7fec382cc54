//! `[capacity]`: the forwarding capacity of all devices, before anything is searched.

use std::time::Duration;

use weir_config::{Section, value};

use super::percent;

/// How the forwarding capacity is measured.
#[derive(Debug, Clone, PartialEq)]
pub struct CapacitySpec {
    /// Rounds over all points, in each of which every point has a trial; at least 1.
    pub rounds: u32,
    /// Length of a trial, which is divided into windows.
    pub trial: Duration,
    /// Load in percent of what the device carries, above 100.
    pub percent: f64,
}

/// A trial has room for three windows at least.
const SHORTEST: Duration = Duration::from_millis(100);

impl CapacitySpec {
    /// The section, if it is there.
    pub(super) fn read(section: Section<'_>) -> Option<CapacitySpec> {
        if !section.is_present() {
            return None;
        }
        let rounds = section.one("rounds", value::count(1..=10_000)).unwrap_or(20);
        let trial = section.one("trial_s", value::seconds).unwrap_or(Duration::from_millis(200));
        let percent = section.one("percent", percent::percent).unwrap_or(135.0);
        if trial < SHORTEST {
            section
                .wrong("trial_s", format!("has no room for windows: use {} or more", SHORTEST.as_secs_f64()));
        }
        if !(110.0..=300.0).contains(&percent) {
            section.wrong("percent", "is no steady overload: use 110 to 300".into());
        }
        section.finish();
        Some(CapacitySpec { rounds, trial, percent })
    }

    /// Trials that find the load of a point before its first round, at most.
    pub const APPROACH: u32 = 4;

    /// Upper bound of the trial time at a point.
    pub(in crate::throughput) fn estimate(&self) -> Duration {
        self.trial * (self.rounds + CapacitySpec::APPROACH)
    }
}
