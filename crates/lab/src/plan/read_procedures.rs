//! Reads the sections of the procedures. A section that is there asks for its procedure; what it leaves out is as in
//! the RFC.

use std::time::Duration;

use super::procedures::{BackToBackSpec, FrameLossSpec, LatencySpec, PdvSpec, Procedures};
use super::section::Section;
use super::value;

/// All sections of procedures.
pub(super) fn read_procedures(root: &Section<'_>) -> Procedures {
    Procedures {
        latency: read(root.section("latency"), read_latency),
        pdv: read(root.section("pdv"), read_pdv),
        frame_loss: read(root.section("frame_loss"), read_frame_loss),
        back_to_back: read(root.section("back_to_back"), read_back_to_back),
    }
}

fn read<T>(section: Section<'_>, options: impl Fn(&Section<'_>) -> T) -> Option<T> {
    section.is_present().then(|| {
        let spec = options(&section);
        section.finish();
        spec
    })
}

fn seconds(section: &Section<'_>, key: &'static str, default_s: u64) -> Duration {
    section.one(key, value::seconds).unwrap_or(Duration::from_secs(default_s))
}

fn times(section: &Section<'_>, default: u32) -> u32 {
    section.one("times", value::count(1..=1000)).unwrap_or(default)
}

/// Load in percent of the throughput.
fn percent(section: &Section<'_>, default: f64) -> f64 {
    section.one("percent", value::percent).unwrap_or(default)
}

fn read_latency(section: &Section<'_>) -> LatencySpec {
    let stream = seconds(section, "stream_s", 120);
    LatencySpec { percent: percent(section, 100.0), stream, times: times(section, 20) }
}

fn read_pdv(section: &Section<'_>) -> PdvSpec {
    PdvSpec {
        percent: percent(section, 100.0),
        stream: seconds(section, "stream_s", 60),
        times: times(section, 20),
    }
}

fn read_frame_loss(section: &Section<'_>) -> FrameLossSpec {
    FrameLossSpec {
        step_percent: section.one("step_percent", value::step_percent).unwrap_or(10.0),
        trial: seconds(section, "trial_s", 60),
    }
}

fn read_back_to_back(section: &Section<'_>) -> BackToBackSpec {
    let max_burst = section.one("max_burst_s", value::seconds_up_to::<30>);
    let step_frames = section.one("step_frames", value::count(1..=1_000_000)).unwrap_or(1);
    BackToBackSpec {
        max_burst: max_burst.unwrap_or(Duration::from_secs(2)),
        idle: seconds(section, "idle_s", 2),
        step_frames: step_frames.into(),
        trials: section.one("trials", value::count(1..=100)).unwrap_or(2),
        times: times(section, 50),
    }
}
