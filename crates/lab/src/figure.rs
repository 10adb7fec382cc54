//! Figures of procedures: their names, which records and reports share, and how each follows from its repetitions.

use crate::record::{Figure, Statistic};
use crate::stats;

/// Names of procedures, in the order in which they are made.
pub(crate) mod procedure {
    pub(crate) const CAPACITY: &str = "capacity";
    pub(crate) const LATENCY: &str = "latency";
    pub(crate) const PDV: &str = "pdv";
    pub(crate) const FRAME_LOSS: &str = "frame-loss";
    pub(crate) const BACK_TO_BACK: &str = "back-to-back";
    pub(crate) const RECOVERY: &str = "recovery";
    pub(crate) const RESET: &str = "reset";
    pub(crate) const BURSTS: &str = "bursts";
    pub(crate) const FORWARDING: &str = "forwarding-rates";
    pub(crate) const SOAK: &str = "soak";
}

/// Names of figures.
pub(crate) mod name {
    use weir_measure::placement::Place;

    /// Frames/s in steady overload, while tester and device ran.
    pub(crate) const CAPACITY: &str = "forwarding capacity";
    /// What a frame costs the device meanwhile, reference cycles.
    pub(crate) const CYCLES: &str = "cycles per frame";
    /// The same by that of the first device of the plan with the same traffic, round by round.
    pub(crate) const CAPACITY_RATIO: &str = "capacity by the reference";

    /// A figure of rounds in which the CPUs of tester and device were there.
    pub(crate) fn at_place(name: &str, place: Option<Place>) -> String {
        place.map_or_else(|| name.to_string(), |place| format!("{name} ({})", place.name()))
    }

    /// RFC 8219, section 7.2: median of the latencies of a stream.
    pub(crate) const TYPICAL_LATENCY: &str = "typical latency";
    /// RFC 8219, section 7.2: 99.9th percentile of the latencies of a stream.
    pub(crate) const WORST_CASE_LATENCY: &str = "worst-case latency";
    pub(crate) const MEAN_LATENCY: &str = "mean latency";
    /// RFC 8219, section 7.3.1: 99.9th percentile - minimum.
    pub(crate) const PDV: &str = "PDV";
    /// RFC 8219, section 7.3.2: latency of a frame - that of the one before.
    pub(crate) const IPDV_MIN: &str = "IPDV minimum";
    pub(crate) const IPDV_MEDIAN: &str = "IPDV median";
    pub(crate) const IPDV_MAX: &str = "IPDV maximum";
    /// RFC 2544, section 26.3: the higher of two successive loads without loss.
    pub(crate) const LOAD_WITHOUT_LOSS: &str = "load without loss";
    pub(crate) const BURST: &str = "back-to-back frames";
    /// RFC 9004, section 6.4.
    pub(crate) const IMPLIED_BUFFER: &str = "implied buffer time";
    /// RFC 9004, section 6.4.
    pub(crate) const CORRECTED_BUFFER: &str = "corrected buffer time";

    /// RFC 2544, section 26.5.
    pub(crate) const RECOVERY_TIME: &str = "recovery time";
    /// RFC 6201: by the number of frames lost.
    pub(crate) const RESET_BY_LOSS: &str = "reset time by frame loss";
    /// RFC 6201: by the arrivals of the frames before and after it.
    pub(crate) const RESET_BY_TIME_STAMPS: &str = "reset time by time stamps";
    pub(crate) const LOSS_EVENTS: &str = "loss events per hour";
    pub(crate) const LOSS_RATIO: &str = "loss ratio";

    /// Highest mean load at which bursts of so many frames come through whole.
    pub(crate) fn load_in_bursts(frames: u32) -> String {
        format!("{LOAD_WITHOUT_LOSS} in bursts of {frames}")
    }

    /// RFC 2544, section 21: the pause between such bursts.
    pub(crate) fn gap_between_bursts(frames: u32) -> String {
        format!("gap between bursts of {frames}")
    }

    /// RFC 2285, section 3.6.3: maximum forwarding rate.
    pub(crate) const MFR: &str = "maximum forwarding rate";
    pub(crate) const LOAD_OF_MFR: &str = "load of the maximum forwarding rate";
    /// RFC 2285, section 3.6.2.
    pub(crate) const FRMOL: &str = "forwarding rate at maximum offered load";
    pub(crate) const MAXIMUM_LOAD: &str = "maximum offered load";

    /// Loss ratio at so many percent of the throughput as a mean.
    pub(crate) fn loss_in_bursts(percent: f64, frames: u32) -> String {
        format!("{} in bursts of {frames}", loss_at(percent))
    }

    /// Loss ratio at so many percent of the maximum rate.
    pub(crate) fn loss_at(percent: f64) -> String {
        format!("loss at {percent} %")
    }

    /// The percentage in such a name.
    pub(crate) fn percent_of_loss_at(name: &str) -> Option<f64> {
        name.strip_prefix("loss at ")?.strip_suffix(" %")?.parse().ok()
    }
}

/// Units of figures.
pub(crate) mod unit {
    pub(crate) const SECONDS: &str = "s";
    pub(crate) const FRAMES: &str = "frames";
    pub(crate) const FRAMES_PER_S: &str = "frames/s";
    pub(crate) const PER_HOUR: &str = "1/h";
    /// Reference cycles of a CPU (TSC).
    pub(crate) const CYCLES: &str = "cycles";
    /// One rate by another.
    pub(crate) const TIMES: &str = "times";
    /// 0..=1.
    pub(crate) const RATIO: &str = "ratio";
}

/// A figure from its repetitions.
pub(crate) fn figure(name: impl Into<String>, unit: &str, statistic: Statistic, values: Vec<f64>) -> Figure {
    let (value, interval) = match statistic {
        Statistic::Average => (stats::mean(&values).map(|m| m.mean), average_interval(&values)),
        Statistic::Median => (stats::median(&values), stats::median_interval(&values)),
    };
    Figure { name: name.into(), unit: unit.into(), statistic, value, values, interval }
}

/// What is never below nothing has no interval that reaches there.
fn average_interval(values: &[f64]) -> Option<(f64, f64)> {
    let least = if values.iter().all(|value| *value >= 0.0) { 0.0 } else { f64::NEG_INFINITY };
    stats::mean_interval(values).map(|(low, high)| (low.max(least), high))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_what_its_statistic_says() {
        let values = vec![1.0, 2.0, 6.0];
        let of = |statistic, values: &[f64]| figure("x", unit::SECONDS, statistic, values.to_vec());
        assert_eq!(of(Statistic::Average, &values).value, Some(3.0));
        assert_eq!(of(Statistic::Median, &values).value, Some(2.0));
        assert_eq!(of(Statistic::Median, &[]).value, None);
        assert_eq!(of(Statistic::Average, &values[..2]).interval, None, "two values have no spread");
        // Student with two degrees of freedom: 4.303 times the standard deviation, sqrt(7), by sqrt(3).
        let (low, high) = of(Statistic::Average, &values).interval.expect("three values");
        assert!(low == 0.0 && (high - 9.572).abs() < 1e-3, "{low} to {high}");
        let (low, _) = of(Statistic::Average, &[-1.0, 0.0, 4.0]).interval.expect("three values");
        assert!((low + 5.572).abs() < 1e-3, "{low}");
        assert_eq!(of(Statistic::Median, &values).interval, None, "three values do not bound a median");
    }
}
