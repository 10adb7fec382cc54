//! Findings about the frames of a trial, or about the trial itself.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One thing that went wrong, in one direction of a trial or in all of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// `a>b`, `b>a`, `a>b>a` or `a>a`; empty where it concerns the whole trial.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub direction: String,
    /// The fault.
    #[serde(flatten)]
    pub fault: Fault,
}

/// What can go wrong.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "fault", rename_all = "kebab-case")]
pub enum Fault {
    /// Single frames were lost.
    Loss {
        /// How many.
        frames: u64,
        /// Share of the frames sent, 0..1.
        ratio: f64,
    },
    /// Several frames in a row were lost, again and again.
    LossBursts {
        /// How many times.
        bursts: u64,
        /// Frames lost in all.
        frames: u64,
        /// Frames of the longest one.
        longest: u64,
    },
    /// For a while nothing passed.
    Stall {
        /// How many times.
        stalls: u64,
        /// Frames lost in all.
        frames: u64,
        /// When the first began, ns after the first frame was due.
        first_at_ns: u64,
        /// The longest, ns.
        longest_ns: u64,
    },
    /// Frames arrived after later ones.
    Reordered {
        /// How many.
        frames: u64,
        /// How far behind they were, at most, frames.
        by: u64,
    },
    /// Frames arrived again.
    Duplicated {
        /// How many.
        frames: u64,
    },
    /// Frames arrived with wrong contents.
    Corrupted {
        /// How many.
        frames: u64,
    },
    /// Even the fastest frame took much longer than on a wire.
    Delayed {
        /// By so much, ns.
        by_ns: u64,
    },
    /// The tester did not get its CPU in time: what happened to frames says nothing of the device.
    TesterStarved {
        /// Share of the trial in which it waited, 0..1.
        wait: f64,
        /// How late a frame left, at most, ns.
        late_max_ns: u64,
    },
    /// The tester itself lost frames.
    TesterLost {
        /// How many.
        frames: u64,
    },
    /// Something else used the device's CPU.
    DeviceStarved {
        /// Share of the trial in which the device waited for it, 0..1.
        wait: f64,
    },
}

/// Loss ratios below this are invisible in so many frames: with a chance of one in twenty, none of them is lost
/// ("rule of three").
pub fn invisible_loss(frames: u64) -> f64 {
    (3.0 / frames.max(1) as f64).min(1.0)
}

impl Fault {
    /// The name used in records, reports and on the command line.
    pub fn name(&self) -> &'static str {
        match self {
            Fault::Loss { .. } => "loss",
            Fault::LossBursts { .. } => "loss-bursts",
            Fault::Stall { .. } => "stall",
            Fault::Reordered { .. } => "reordered",
            Fault::Duplicated { .. } => "duplicated",
            Fault::Corrupted { .. } => "corrupted",
            Fault::Delayed { .. } => "delayed",
            Fault::TesterStarved { .. } => "tester-starved",
            Fault::TesterLost { .. } => "tester-lost",
            Fault::DeviceStarved { .. } => "device-starved",
        }
    }
}

impl fmt::Display for Finding {
    /// In words: `a>b loss-bursts: 12 times, 120 frames, at most 10 in a row`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.direction.is_empty() {
            write!(f, "{} ", self.direction)?;
        }
        write!(f, "{}: ", self.fault.name())?;
        let ms = |ns: &u64| *ns as f64 / 1e6;
        let times = |n: &u64| if *n == 1 { "once".to_string() } else { format!("{n} times") };
        match &self.fault {
            Fault::Loss { frames, ratio } => write!(f, "{frames} single frames, {ratio:.1e} of all"),
            Fault::LossBursts { bursts, frames, longest } => {
                write!(f, "{}, {frames} frames, at most {longest} in a row", times(bursts))
            }
            Fault::Stall { stalls, frames, first_at_ns, longest_ns } => write!(
                f,
                "{}, {frames} frames, first after {:.1} ms, at most {:.1} ms long",
                times(stalls),
                ms(first_at_ns),
                ms(longest_ns)
            ),
            Fault::Reordered { frames, by } => write!(f, "{frames} frames, late by at most {by}"),
            Fault::Duplicated { frames } | Fault::Corrupted { frames } | Fault::TesterLost { frames } => {
                write!(f, "{frames} frames")
            }
            Fault::Delayed { by_ns } => write!(f, "every frame by at least {:.3} ms", ms(by_ns)),
            Fault::TesterStarved { wait, late_max_ns } => write!(
                f,
                "it waited {:.1} % of the time for its CPU, and a frame left {:.1} ms late",
                wait * 100.0,
                ms(late_max_ns)
            ),
            Fault::DeviceStarved { wait } => {
                write!(f, "it waited {:.1} % of the time for its CPU", wait * 100.0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_frames_see_little() {
        assert_eq!(invisible_loss(0), 1.0);
        assert_eq!(invisible_loss(3_000_000), 1e-6);
    }

    #[test]
    fn records_carry_the_name_and_the_figures() {
        let fault = Fault::LossBursts { bursts: 2, frames: 9, longest: 5 };
        let finding = Finding { direction: "a>b".into(), fault };
        let text = serde_json::to_string(&finding).expect("plain data");
        let json = r#"{"direction":"a>b","fault":"loss-bursts","bursts":2,"frames":9,"longest":5}"#;
        assert_eq!(text, json);
        assert_eq!(serde_json::from_str::<Finding>(&text).expect("as written"), finding);
        assert_eq!(finding.to_string(), "a>b loss-bursts: 2 times, 9 frames, at most 5 in a row");
    }
}
