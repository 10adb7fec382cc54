//! The procedures at each point after the search, based on the found rate: one section of the plan for each procedure, whose
//! defaults are those of its RFC.

use std::time::Duration;

use weir_lab::frames::ResetKind;
use weir_measure::search::burst;
use weir_record::figure::procedure;

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
    /// `[recovery]`
    pub recovery: Option<RecoverySpec>,
    /// `[reset]`
    pub reset: Option<ResetSpec>,
    /// `[bursts]`
    pub bursts: Option<BurstsSpec>,
    /// `[forwarding]`
    pub forwarding: Option<ForwardingSpec>,
    /// `[soak]`
    pub soak: Option<SoakSpec>,
}

/// Latency: RFC 2544, section 26.2, with the figures of RFC 8219, section 7.2.
#[derive(Debug, Clone, PartialEq)]
pub struct LatencySpec {
    /// Load in percent of the throughput, above 0.
    pub percent: f64,
    /// Length of a stream.
    pub stream: Duration,
    /// Frames are timed from here on, before the end of the stream.
    pub after: Duration,
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
    /// Counting ends when nothing has arrived for so long after a burst; as long as the burst where that is longer.
    pub drain: Duration,
    /// The search ends when its bounds are so many frames apart, at least 1.
    pub step_frames: u64,
    /// A burst is lossy if so many in a row lost frames, at least 1.
    pub trials: u32,
    /// Independent searches, at least 1.
    pub times: u32,
}

/// System recovery: RFC 2544, section 26.5.
#[derive(Debug, Clone, PartialEq)]
pub struct RecoverySpec {
    /// Load in percent of the throughput, above 100.
    pub percent: f64,
    /// How long that load lasts.
    pub overload: Duration,
    /// The load after that, in percent of the first one, below 100.
    pub drop_percent: f64,
    /// How long that one lasts.
    pub settle: Duration,
    /// Trials, at least 1.
    pub times: u32,
}

/// Reset: RFC 2544, section 26.6, as updated by RFC 6201.
#[derive(Debug, Clone, PartialEq)]
pub struct ResetSpec {
    /// What is done to the device.
    pub kind: ResetKind,
    /// Length of a trial, in the middle of which it is done.
    pub trial: Duration,
    /// How long a stall takes, where that is asked for.
    pub stall: Duration,
    /// Trials, at least 1.
    pub times: u32,
}

/// Bursty traffic: RFC 2544, section 21.
#[derive(Debug, Clone, PartialEq)]
pub struct BurstsSpec {
    /// Frames of a burst, at least one number.
    pub frames: Vec<u32>,
    /// From one mean load to the next, in percent of the throughput, above 0, at most 100.
    pub step_percent: f64,
    /// Length of a trial.
    pub trial: Duration,
}

/// Hours at a share of the throughput.
#[derive(Debug, Clone, PartialEq)]
pub struct SoakSpec {
    /// Load in percent of the throughput, above 0.
    pub percent: f64,
    /// Length of it all.
    pub duration: Duration,
    /// Length of a trial; they follow each other without a pause.
    pub trial: Duration,
}

/// Forwarding rates: RFC 2889, sections 5.1 and 5.6.
#[derive(Debug, Clone, PartialEq)]
pub struct ForwardingSpec {
    /// From one load to the next, in percent of the throughput, 1 to 100.
    pub step_percent: f64,
    /// Highest load before the maximum, in percent of the throughput, at least 100.
    pub up_to_percent: f64,
    /// Length of a trial.
    pub trial: Duration,
    /// Repetitions of all loads, at least 1.
    pub times: u32,
}

/// The back-to-back rate that an estimate assumes before the wire is measured, frames/s.
const ASSUMED_MAX_FPS: f64 = 20e6;

impl Procedures {
    /// Upper bounds of the trial time at a point by the name of the procedure, in their order, repeated trials not
    /// counted; a reset is for the smallest frames only.
    pub fn estimates(&self, smallest: bool) -> Vec<(&'static str, Duration)> {
        let reset = self.reset.as_ref().filter(|_| smallest);
        let times = [
            (procedure::LATENCY, self.latency.as_ref().map(|spec| spec.stream * spec.times)),
            (procedure::PDV, self.pdv.as_ref().map(|spec| spec.stream * spec.times)),
            (procedure::FRAME_LOSS, self.frame_loss.as_ref().map(FrameLossSpec::estimate)),
            (procedure::BACK_TO_BACK, self.back_to_back.as_ref().map(BackToBackSpec::estimate)),
            (
                procedure::RECOVERY,
                self.recovery.as_ref().map(|spec| (spec.overload + spec.settle) * spec.times),
            ),
            (procedure::RESET, reset.map(|spec| spec.trial * spec.times)),
            (procedure::BURSTS, self.bursts.as_ref().map(BurstsSpec::estimate)),
            (procedure::FORWARDING, self.forwarding.as_ref().map(ForwardingSpec::estimate)),
            (procedure::SOAK, self.soak.as_ref().map(|spec| spec.trial * spec.trials())),
        ];
        times.into_iter().filter_map(|(name, time)| Some((name, time?))).collect()
    }

    /// The sum of these.
    pub fn estimate(&self, smallest: bool) -> Duration {
        self.estimates(smallest).into_iter().map(|(_, time)| time).sum()
    }
}

/// 100 and all that is whole steps below it and above 0.
pub(crate) fn percents(step: f64) -> Vec<f64> {
    let below = |i: u32| 100.0 - f64::from(i) * step;
    (0..).map(below).take_while(|percent| *percent > 1e-9).collect()
}

impl FrameLossSpec {
    fn estimate(&self) -> Duration {
        self.trial * (1 + percents(self.step_percent).len() as u32)
    }
}

impl BurstsSpec {
    fn estimate(&self) -> Duration {
        self.trial * (self.frames.len() * percents(self.step_percent).len()) as u32
    }
}

impl SoakSpec {
    /// How many trials it takes.
    pub fn trials(&self) -> u32 {
        self.duration.div_duration_f64(self.trial).ceil() as u32
    }
}

impl ForwardingSpec {
    /// The paced loads in percent of the throughput, the lowest first.
    pub fn percents(&self) -> Vec<f64> {
        let above = |i: u32| 100.0 + f64::from(i) * self.step_percent;
        (0..).map(above).take_while(|percent| *percent <= self.up_to_percent + 1e-9).collect()
    }

    fn estimate(&self) -> Duration {
        self.trial * (self.percents().len() as u32 + 1) * self.times
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

    /// How long nothing must have arrived after a burst of this length.
    pub fn quiet(&self, burst: Duration) -> Duration {
        self.drain.max(burst)
    }

    fn estimate(&self) -> Duration {
        let most = self.search(ASSUMED_MAX_FPS).most_bursts();
        // The bursts of doubled lengths are as long as two of the longest; no other is longer than that one.
        ((self.idle + self.drain) * most + self.max_burst * 4) * self.times
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_go_down_to_above_nothing() {
        assert_eq!(percents(10.0), [100.0, 90.0, 80.0, 70.0, 60.0, 50.0, 40.0, 30.0, 20.0, 10.0]);
        assert_eq!(percents(40.0), [100.0, 60.0, 20.0]);
        assert_eq!(percents(100.0), [100.0]);
    }

    #[test]
    fn estimates_add_up() {
        let seconds = Duration::from_secs;
        let mut procedures = Procedures::default();
        assert_eq!(procedures.estimate(true), Duration::ZERO);
        procedures.latency =
            Some(LatencySpec { percent: 100.0, stream: seconds(120), after: seconds(60), times: 20 });
        procedures.pdv = Some(PdvSpec { percent: 100.0, stream: seconds(60), times: 20 });
        procedures.frame_loss = Some(FrameLossSpec { step_percent: 10.0, trial: seconds(60) });
        assert_eq!(procedures.estimate(true), seconds(2400 + 1200 + 660));
        let kind = ResetKind::Links;
        procedures.reset = Some(ResetSpec { kind, trial: seconds(10), stall: Duration::ZERO, times: 20 });
        procedures.recovery = Some(RecoverySpec {
            percent: 110.0,
            overload: seconds(60),
            drop_percent: 50.0,
            settle: seconds(10),
            times: 20,
        });
        procedures.bursts = Some(BurstsSpec { frames: vec![16, 64], step_percent: 10.0, trial: seconds(60) });
        procedures.soak = Some(SoakSpec { percent: 90.0, duration: seconds(100), trial: seconds(30) });
        let large = 4260 + 1400 + 1200 + 120;
        assert_eq!(procedures.estimate(false), seconds(large));
        assert_eq!(procedures.estimate(true), seconds(large + 200));
        let trial = seconds(30);
        let forwarding = ForwardingSpec { step_percent: 25.0, up_to_percent: 200.0, trial, times: 2 };
        assert_eq!(forwarding.percents(), [100.0, 125.0, 150.0, 175.0, 200.0]);
        procedures = Procedures { forwarding: Some(forwarding), ..Procedures::default() };
        assert_eq!(procedures.estimates(false), [("forwarding-rates", seconds(30 * 6 * 2))]);
        let burst = Duration::from_micros(1);
        let back_to_back = BackToBackSpec {
            max_burst: burst,
            idle: trial,
            drain: trial,
            step_frames: 1,
            trials: 1,
            times: 2,
        };
        // At 20 M frames/s 20 frames: 16 and 20 of them, then at most five halvings and a last one.
        let most = (back_to_back.search(20e6).most_bursts(), 8);
        assert_eq!(most.0, most.1);
        procedures = Procedures { back_to_back: Some(back_to_back), ..Procedures::default() };
        assert_eq!(procedures.estimate(false), seconds(60 * 8 * 2) + burst * 8);
    }
}
