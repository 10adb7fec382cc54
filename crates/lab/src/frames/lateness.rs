//! Lateness of frames at the link of a bottleneck, and whether the results are still valid.

use serde::{Deserialize, Serialize};
use weir_bottleneck::too_late;
use weir_load::histogram::Histogram;

use weir_record::record::{Detail, Trial, Verdict};

/// How late frames left, ns.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Lateness {
    /// Median.
    pub p50_ns: u64,
    /// 95th percentile.
    pub p95_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// Maximum.
    pub max_ns: u64,
    /// Time of a full frame on the link: the figures do not count where it is less than the 99th percentile.
    pub slot_ns: u64,
}

/// In records of frames; in those of flows it is a part of what the rig says.
impl Detail for Lateness {
    const KEY: &'static str = "link_lateness";
}

impl Lateness {
    pub(crate) fn of(ns: &Histogram, slot_ns: u64) -> Lateness {
        let [p50_ns, p95_ns, p99_ns, max_ns] = [0.5, 0.95, 0.99, 1.0].map(|p| ns.percentile(p));
        Lateness { p50_ns, p95_ns, p99_ns, max_ns, slot_ns }
    }

    /// The trial with this, invalid if frames left more than a slot late.
    pub(crate) fn judged(&self, mut trial: Trial) -> Trial {
        if let Some(late) = too_late(self.p99_ns, self.slot_ns) {
            trial.verdict = Verdict::Invalid;
            let reason = format!("{late}: use a machine with an idle CPU, or a lower dut.rate");
            trial.reasons.insert(0, reason);
        }
        trial.with_detail(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trial_is_invalid_beyond_a_slot() {
        for (late_ns, frames_late, verdict) in
            [(12_000, 100, Verdict::Valid), (13_000, 100, Verdict::Invalid), (1_000_000, 1, Verdict::Valid)]
        {
            let mut ns = Histogram::latency();
            (0..100).for_each(|n| ns.record(if n < frames_late { late_ns } else { 100 }));
            let trial = Lateness::of(&ns, 12_112).judged(Trial::default());
            assert_eq!(trial.verdict, verdict, "{late_ns} {frames_late}");
            let kept: Lateness = trial.detail().expect("it is in the record");
            assert_eq!(
                (kept.slot_ns, trial.reasons.len()),
                (12_112, usize::from(verdict == Verdict::Invalid))
            );
            assert!(kept.max_ns.abs_diff(late_ns) <= late_ns / 100, "{kept:?}");
        }
    }
}
