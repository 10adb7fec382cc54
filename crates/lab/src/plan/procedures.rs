//! What is measured at each point after the search, based on the rate that it found: one section of the plan for
//! each procedure, whose defaults are those of its RFC.

use std::time::Duration;

use crate::search::burst;

/// The procedures of a plan, in the order in which they are made; `None`: not asked for.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Procedures {
    /// `[latency]`
    pub latency: Option<LatencySpec>,
    /// `[pdv]`
    pub pdv: Option<PdvSpec>,
    /// `[frame_loss]`
    pub frame_loss: Option<FrameLossSpec>,
    /// `[back_to_back]`
    pub back_to_back: Option<BackToBackSpec>,
}

/// Latency: RFC 2544, section 26.2, with the figures of RFC 8219, section 7.2.
#[derive(Debug, Clone, PartialEq)]
pub struct LatencySpec {
    /// Load in percent of the throughput, above 0.
    pub percent: f64,
    /// Length of a stream.
    pub stream: Duration,
    /// Streams, at least 1.
    pub times: u32,
}

/// Packet delay variation: RFC 8219, section 7.3.
#[derive(Debug, Clone, PartialEq)]
pub struct PdvSpec {
    /// Load in percent of the throughput, above 0.
    pub percent: f64,
    /// Length of a stream.
    pub stream: Duration,
    /// Streams, at least 1.
    pub times: u32,
}

/// Frame loss rate: RFC 2544, section 26.3.
#[derive(Debug, Clone, PartialEq)]
pub struct FrameLossSpec {
    /// From one load to the next, in percent of the maximum rate, above 0, at most 100.
    pub step_percent: f64,
    /// Length of a trial.
    pub trial: Duration,
}

/// Back-to-back frames: RFC 2544, section 26.4, as updated by RFC 9004.
#[derive(Debug, Clone, PartialEq)]
pub struct BackToBackSpec {
    /// Longest burst that is tried.
    pub max_burst: Duration,
    /// Pause before each burst, at least; as long as the burst where that is longer.
    pub idle: Duration,
    /// The search ends when its bounds are so many frames apart, at least 1.
    pub step_frames: u64,
    /// A burst is lossy if so many in a row lost frames, at least 1.
    pub trials: u32,
    /// Independent searches, at least 1.
    pub times: u32,
}

/// The back-to-back rate that an estimate assumes before the wire is measured, frames/s.
const ASSUMED_MAX_FPS: f64 = 20e6;

impl Procedures {
    /// Upper bound of the trial time at one point, repeated trials not counted.
    pub fn estimate(&self) -> Duration {
        let times = [
            self.latency.as_ref().map(|spec| spec.stream * spec.times),
            self.pdv.as_ref().map(|spec| spec.stream * spec.times),
            self.frame_loss.as_ref().map(|spec| spec.trial * spec.percents().len() as u32),
            self.back_to_back.as_ref().map(BackToBackSpec::estimate),
        ];
        times.into_iter().flatten().sum()
    }
}

impl FrameLossSpec {
    /// The loads in percent of the maximum rate, the highest first.
    pub fn percents(&self) -> Vec<f64> {
        let below = |i: u32| 100.0 - f64::from(i) * self.step_percent;
        (0..).map(below).take_while(|percent| *percent > 1e-9).collect()
    }
}

impl BackToBackSpec {
    /// The search for bursts that leave at `fps`.
    pub fn search(&self, fps: f64) -> burst::Config {
        let longest = (self.max_burst.as_secs_f64() * fps) as u64;
        burst::Config { longest: longest.max(1), step: self.step_frames, trials: self.trials }
    }

    /// The pause before a burst of this length.
    pub fn pause(&self, burst: Duration) -> Duration {
        self.idle.max(burst)
    }

    fn estimate(&self) -> Duration {
        let most = self.search(ASSUMED_MAX_FPS).most_bursts();
        // The bursts of doubled lengths are as long as two of the longest; no other is longer than that one.
        (self.pause(Duration::ZERO) * most + self.max_burst * 4) * self.times
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_go_down_to_above_nothing() {
        let percents = |step_percent| FrameLossSpec { step_percent, trial: Duration::ZERO }.percents();
        assert_eq!(percents(10.0), [100.0, 90.0, 80.0, 70.0, 60.0, 50.0, 40.0, 30.0, 20.0, 10.0]);
        assert_eq!(percents(40.0), [100.0, 60.0, 20.0]);
        assert_eq!(percents(100.0), [100.0]);
    }

    #[test]
    fn estimates_add_up() {
        let seconds = Duration::from_secs;
        let mut procedures = Procedures::default();
        assert_eq!(procedures.estimate(), Duration::ZERO);
        procedures.latency = Some(LatencySpec { percent: 100.0, stream: seconds(120), times: 20 });
        procedures.pdv = Some(PdvSpec { percent: 100.0, stream: seconds(60), times: 20 });
        procedures.frame_loss = Some(FrameLossSpec { step_percent: 10.0, trial: seconds(60) });
        assert_eq!(procedures.estimate(), seconds(2400 + 1200 + 600));
    }
}
