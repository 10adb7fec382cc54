//! Figures of procedures: their names, which records and reports share, and how each follows from its repetitions.

use weir_measure::search::GoalValue;

use crate::record::{Better, Bound, Figure, GoalResult, Statistic};
use weir_measure::stats;

/// Names of procedures, in the order in which they are made.
pub mod procedure {
    /// Forwarding capacity, in interleaved rounds.
    pub const CAPACITY: &str = "capacity";
    /// RFC 8219, section 7.2; RFC 2544, section 26.2.
    pub const LATENCY: &str = "latency";
    /// RFC 8219, section 7.3: delay variation.
    pub const PDV: &str = "pdv";
    /// RFC 2544, section 26.3.
    pub const FRAME_LOSS: &str = "frame-loss";
    /// RFC 2544, section 26.4; RFC 9004.
    pub const BACK_TO_BACK: &str = "back-to-back";
    /// RFC 2544, section 26.5: after overload.
    pub const RECOVERY: &str = "recovery";
    /// RFC 6201.
    pub const RESET: &str = "reset";
    /// RFC 2544, section 21.
    pub const BURSTS: &str = "bursts";
    /// What is forwarded of more than the throughput (RFC 2285).
    pub const FORWARDING: &str = "forwarding-rates";
    /// Hours at one load.
    pub const SOAK: &str = "soak";
}

/// Names of figures.
pub mod name {
    use weir_measure::placement::Place;

    /// Frames/s in steady overload, while tester and device ran.
    pub const CAPACITY: &str = "forwarding capacity";
    /// What a frame costs the device meanwhile, reference cycles.
    pub const CYCLES: &str = "cycles per frame";
    /// The same by that of the first device of the plan with the same traffic, round by round.
    pub const CAPACITY_RATIO: &str = "capacity by the reference";

    /// A figure of rounds in which the CPUs of tester and device were there.
    pub fn at_place(name: &str, place: Option<Place>) -> String {
        place.map_or_else(|| name.to_string(), |place| format!("{name} ({})", place.name()))
    }

    /// RFC 8219, section 7.2: median of the latencies of a stream.
    pub const TYPICAL_LATENCY: &str = "typical latency";
    /// RFC 8219, section 7.2: 99.9th percentile of the latencies of a stream.
    pub const WORST_CASE_LATENCY: &str = "worst-case latency";
    /// RFC 2544, section 26.2: the average of the latencies of a stream.
    pub const MEAN_LATENCY: &str = "mean latency";
    /// RFC 8219, section 7.3.1: 99.9th percentile - minimum.
    pub const PDV: &str = "PDV";
    /// RFC 8219, section 7.3.2: latency of a frame - that of the one before.
    pub const IPDV_MIN: &str = "IPDV minimum";
    /// The same, in the median.
    pub const IPDV_MEDIAN: &str = "IPDV median";
    /// The same, at most.
    pub const IPDV_MAX: &str = "IPDV maximum";
    /// RFC 2544, section 26.3: the higher of two successive loads without loss.
    pub const LOAD_WITHOUT_LOSS: &str = "load without loss";
    /// RFC 2544, section 26.4: the longest burst without loss.
    pub const BURST: &str = "back-to-back frames";
    /// RFC 9004, section 6.4.
    pub const IMPLIED_BUFFER: &str = "implied buffer time";
    /// RFC 9004, section 6.4.
    pub const CORRECTED_BUFFER: &str = "corrected buffer time";

    /// RFC 2544, section 26.5.
    pub const RECOVERY_TIME: &str = "recovery time";
    /// RFC 6201: by the number of frames lost.
    pub const RESET_BY_LOSS: &str = "reset time by frame loss";
    /// RFC 6201: by the arrivals of the frames before and after it.
    pub const RESET_BY_TIME_STAMPS: &str = "reset time by time stamps";
    /// Periods in which frames were lost, by the time of the soak.
    pub const LOSS_EVENTS: &str = "loss events per hour";
    /// Lost by sent frames, 0..=1.
    pub const LOSS_RATIO: &str = "loss ratio";

    /// Highest mean load at which bursts of so many frames come through whole.
    pub fn load_in_bursts(frames: u32) -> String {
        format!("{LOAD_WITHOUT_LOSS} in bursts of {frames}")
    }

    /// RFC 2544, section 21: the pause between such bursts.
    pub fn gap_between_bursts(frames: u32) -> String {
        format!("gap between bursts of {frames}")
    }

    /// RFC 2285, section 3.6.3: maximum forwarding rate.
    pub const MFR: &str = "maximum forwarding rate";
    /// RFC 2285, section 3.6.3: the offered load at which it was reached.
    pub const LOAD_OF_MFR: &str = "load of the maximum forwarding rate";
    /// RFC 2285, section 3.6.2.
    pub const FRMOL: &str = "forwarding rate at maximum offered load";
    /// RFC 2285, section 3.5.3.
    pub const MAXIMUM_LOAD: &str = "maximum offered load";

    /// Loss ratio at so many percent of the throughput as a mean.
    pub fn loss_in_bursts(percent: f64, frames: u32) -> String {
        format!("{} in bursts of {frames}", loss_at(percent))
    }

    /// Loss ratio at so many percent of the maximum rate.
    pub fn loss_at(percent: f64) -> String {
        format!("loss at {percent} %")
    }

    /// The percentage in such a name.
    pub fn percent_of_loss_at(name: &str) -> Option<f64> {
        name.strip_prefix("loss at ")?.strip_suffix(" %")?.parse().ok()
    }
}

/// Behind the name of a goal: without what was lost while a CPU of tester or device stood still. The same goal without this counts
/// all losses.
pub const OUTSIDE_OF_STOPS: &str = " outside of stops";

/// Units of figures.
pub mod unit {
    /// Seconds.
    pub const SECONDS: &str = "s";
    /// Frames.
    pub const FRAMES: &str = "frames";
    /// Frames per second.
    pub const FRAMES_PER_S: &str = "frames/s";
    /// So many in an hour.
    pub const PER_HOUR: &str = "1/h";
    /// Reference cycles of a CPU (TSC).
    pub const CYCLES: &str = "cycles";
    /// One rate by another.
    pub const TIMES: &str = "times";
    /// 0..=1.
    pub const RATIO: &str = "ratio";
}

impl Figure {
    /// Which way it is better: as its record says, or else as figures of this name and unit are.
    pub fn better(&self) -> Better {
        self.better.unwrap_or_else(|| usually_better(&self.name, &self.unit))
    }
}

/// Which way figures of this name and unit are better, unless a rig knows more.
fn usually_better(name: &str, unit: &str) -> Better {
    match (name, unit) {
        (name::IMPLIED_BUFFER | name::CORRECTED_BUFFER | name::MAXIMUM_LOAD | name::LOAD_OF_MFR, _) => {
            Better::Neither
        }
        (name::BURST, _) => Better::Higher,
        (_, unit::TIMES) => Better::Higher,
        (_, unit) if unit.ends_with("/s") => Better::Higher,
        (_, unit::SECONDS | unit::CYCLES | unit::PER_HOUR | "us" | "KiB") => Better::Lower,
        (name, unit::RATIO) if name.starts_with("loss") => Better::Lower,
        _ => Better::Neither,
    }
}

/// A figure from its repetitions.
pub fn figure(name: impl Into<String>, unit: &str, statistic: Statistic, values: Vec<f64>) -> Figure {
    let (value, interval) = match statistic {
        Statistic::Average => (stats::mean(&values).map(|m| m.mean), average_interval(&values)),
        Statistic::Median => (stats::median(&values), stats::median_interval(&values)),
    };
    let name = name.into();
    let better = Some(usually_better(&name, unit));
    Figure { name, unit: unit.into(), better, statistic, value, values, interval, bound: Bound::Exact }
}

/// What is never below nothing has no interval that reaches there.
fn average_interval(values: &[f64]) -> Option<(f64, f64)> {
    let least = if values.iter().all(|value| *value >= 0.0) { 0.0 } else { f64::NEG_INFINITY };
    stats::mean_interval(values).map(|(low, high)| (low.max(least), high))
}

/// The rates of a goal, one of each repetition, with their median; its interval only where each repetition found one.
pub fn goal_result(goal: &str, parameters: Vec<(String, String)>, repetitions: Vec<GoalValue>) -> GoalResult {
    let values: Vec<f64> = repetitions.iter().filter_map(|r| r.fps).collect();
    let all = values.len() == repetitions.len();
    GoalResult {
        goal: goal.to_string(),
        parameters,
        fps_median: stats::median(&values),
        fps_interval: stats::median_interval(&values).filter(|_| all),
        repetitions,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_figure_says_which_way_it_is_better() {
        for (name, unit, expected) in [
            (name::CAPACITY, unit::FRAMES_PER_S, Better::Higher),
            ("files made per second, durable: fsync", "1/s", Better::Higher),
            (name::CAPACITY_RATIO, unit::TIMES, Better::Higher),
            (name::TYPICAL_LATENCY, unit::SECONDS, Better::Lower),
            (name::CYCLES, unit::CYCLES, Better::Lower),
            ("memory per connection", "KiB", Better::Lower),
            (name::loss_at(90.0).as_str(), unit::RATIO, Better::Lower),
            (name::BURST, unit::FRAMES, Better::Higher),
            (name::CORRECTED_BUFFER, unit::SECONDS, Better::Neither),
            ("utilisation", unit::RATIO, Better::Neither),
        ] {
            let made = figure(name, unit, Statistic::Median, Vec::new());
            let of_before = Figure { better: None, ..made.clone() };
            assert_eq!((made.better(), of_before.better()), (expected, expected), "{name}");
        }
        let other =
            Figure { better: Some(Better::Neither), ..figure("time", "s", Statistic::Median, Vec::new()) };
        assert_eq!(other.better(), Better::Neither, "a rig knows more");
    }

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
