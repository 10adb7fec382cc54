//! What was not judged, reported when it begins: who reads of no attack must know that there could have been one.

use serde::Serialize;

use crate::engine::Status;

/// What stood still for so long and grows again has begun again.
const QUIET_NS: u64 = 10_000_000_000;

/// Why something is not judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Gap {
    /// Frames were lost before they could be counted.
    Lost,
    /// Busy hosts had to give way to others: there is no more memory for hosts.
    HostsEvicted,
    /// Flows were forgotten early: there is no more memory for flows.
    FlowsForgotten,
    /// Hosts near a limit are not watched: too many others are.
    Unwatched,
}

impl Gap {
    /// All of them, with their counts.
    pub fn all(status: &Status) -> [(Gap, u64); 4] {
        [
            (Gap::Lost, status.lost),
            (Gap::HostsEvicted, status.hosts_evicted),
            (Gap::FlowsForgotten, status.flows_forgotten),
            (Gap::Unwatched, status.unwatched),
        ]
    }

    /// What it is, behind its count, and what helps.
    pub fn words(self) -> &'static str {
        match self {
            Gap::Lost => "frames were lost before they were seen: raise --buffer or --threads",
            Gap::HostsEvicted => "busy hosts had to give way: raise memory.hosts_mib",
            Gap::FlowsForgotten => "flows were forgotten early: raise memory.flows_mib",
            Gap::Unwatched => "times a host near its limit could not be watched: raise the limits",
        }
    }
}

/// What has been reported.
#[derive(Debug, Default)]
pub struct Unjudged {
    /// Of each gap: its count, and when that last grew.
    seen: [(u64, Option<u64>); 4],
}

impl Unjudged {
    /// What has begun since the last look, with its count since then.
    pub fn look(&mut self, status: &Status, now_ns: u64) -> Vec<(Gap, u64)> {
        let mut begun = Vec::new();
        for (seen, (gap, count)) in self.seen.iter_mut().zip(Gap::all(status)) {
            let (before, grew_ns) = *seen;
            if count > before {
                if grew_ns.is_none_or(|grew_ns| now_ns.abs_diff(grew_ns) >= QUIET_NS) {
                    begun.push((gap, count - before));
                }
                *seen = (count, Some(now_ns));
            }
        }
        begun
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_reported_when_it_begins_and_when_it_begins_again() {
        let mut unjudged = Unjudged::default();
        let mut look = |second: u64, lost, unwatched| {
            let status = Status { lost, unwatched, ..Status::default() };
            unjudged.look(&status, second * 1_000_000_000)
        };
        assert_eq!(look(1, 0, 0), []);
        assert_eq!(look(2, 0, 5), [(Gap::Unwatched, 5)]);
        assert_eq!(look(3, 7, 6), [(Gap::Lost, 7)]);
        assert_eq!(look(12, 8, 7), []);
        assert_eq!(look(21, 8, 7), []);
        // Ten seconds after it last grew.
        assert_eq!(look(22, 9, 7), [(Gap::Lost, 1)]);
        assert_eq!(look(40, 9, 9), [(Gap::Unwatched, 2)]);
    }
}
