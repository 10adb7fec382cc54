//! Reads the sections of the procedures. A section that is there asks for its procedure; what it leaves out is as in
//! the RFC.

use std::time::Duration;

use super::axes::DutAxes;
use super::percent;
use super::procedures::{
    BackToBackSpec, BurstsSpec, ForwardingSpec, FrameLossSpec, LatencySpec, PdvSpec, Procedures,
    RecoverySpec, ResetSpec, SoakSpec,
};
use weir_config::Section;
use weir_config::value;
use weir_lab::frames::ResetKind;

/// All sections of procedures, for these devices.
pub(super) fn read_procedures(root: &Section<'_>, dut: Option<&DutAxes>) -> Procedures {
    Procedures {
        latency: read(root.section("latency"), read_latency),
        pdv: read(root.section("pdv"), read_pdv),
        frame_loss: read(root.section("frame_loss"), read_frame_loss),
        back_to_back: read(root.section("back_to_back"), read_back_to_back),
        recovery: read(root.section("recovery"), read_recovery),
        reset: read(root.section("reset"), |section| read_reset(section, dut)),
        bursts: read(root.section("bursts"), read_bursts),
        forwarding: read(root.section("forwarding"), read_forwarding),
        soak: read(root.section("soak"), read_soak),
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
    section.one("percent", percent::percent).unwrap_or(default)
}

fn read_latency(section: &Section<'_>) -> LatencySpec {
    let stream = seconds(section, "stream_s", 120);
    let after = section.one("after_s", value::seconds).unwrap_or(stream / 2);
    if after >= stream {
        let stream_s = stream.as_secs_f64();
        section.wrong("after_s", format!("leaves no part of the stream to time: use less than {stream_s}"));
    }
    LatencySpec { percent: percent(section, 100.0), stream, after, times: times(section, 20) }
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
        step_percent: section.one("step_percent", percent::step_percent).unwrap_or(10.0),
        trial: seconds(section, "trial_s", 60),
    }
}

fn read_back_to_back(section: &Section<'_>) -> BackToBackSpec {
    let max_burst = section.one("max_burst_s", value::seconds_up_to::<30>);
    let step_frames = section.one("step_frames", value::count(1..=1_000_000)).unwrap_or(1);
    BackToBackSpec {
        max_burst: max_burst.unwrap_or(Duration::from_secs(2)),
        idle: seconds(section, "idle_s", 2),
        drain: seconds(section, "drain_s", 2),
        step_frames: step_frames.into(),
        trials: section.one("trials", value::count(1..=100)).unwrap_or(2),
        times: times(section, 50),
    }
}

fn read_recovery(section: &Section<'_>) -> RecoverySpec {
    let (percent, drop_percent) = (percent(section, 110.0), section.one("drop_percent", percent::percent));
    if percent <= 100.0 {
        section.wrong("percent", "is no overload: use more than 100 percent of the throughput".into());
    }
    if drop_percent.is_some_and(|drop| drop >= 100.0) {
        section.wrong("drop_percent", "does not lower the load: use less than 100 percent of it".into());
    }
    RecoverySpec {
        percent,
        overload: seconds(section, "overload_s", 60),
        drop_percent: drop_percent.unwrap_or(50.0),
        settle: seconds(section, "settle_s", 10),
        times: times(section, 20),
    }
}

fn read_reset(section: &Section<'_>, dut: Option<&DutAxes>) -> ResetSpec {
    let kind = section.one("kind", value::choice("reset", &ResetKind::ALL)).unwrap_or(ResetKind::Links);
    let fits = |dut: &DutAxes| dut.kind.iter().any(|dut| kind.fits(*dut));
    if !dut.is_none_or(fits) {
        let devices = match kind {
            ResetKind::Links => "the routers of the kernel and xdp-forward",
            ResetKind::Rules => "kernel-stateless, kernel-stateful and kernel-nat",
            ResetKind::Stall => "faulty",
        };
        let name = kind.name();
        section
            .wrong("kind", format!("`{name}` is a reset of {devices}: use another kind of reset or device"));
    }
    let stall = section.one("stall_s", value::seconds).unwrap_or(Duration::from_millis(500));
    let trial = seconds(section, "trial_s", 10);
    if kind == ResetKind::Stall && stall >= trial / 2 {
        let half = trial.as_secs_f64() / 2.0;
        section.wrong(
            "stall_s",
            format!("does not end within the second half of a trial: use less than {half}"),
        );
    }
    ResetSpec { kind, trial, stall, times: times(section, 20) }
}

fn read_bursts(section: &Section<'_>) -> BurstsSpec {
    let frames = section.axis("frames", value::count(2..=65_535));
    BurstsSpec {
        frames: frames.unwrap_or(vec![16, 64, 256, 1024]),
        step_percent: section.one("step_percent", percent::step_percent).unwrap_or(10.0),
        trial: seconds(section, "trial_s", 60),
    }
}

fn read_soak(section: &Section<'_>) -> SoakSpec {
    let duration = section.one("duration_s", value::seconds_up_to::<{ 30 * 86_400 }>);
    SoakSpec {
        percent: percent(section, 90.0),
        duration: duration.unwrap_or(Duration::from_secs(3600)),
        trial: seconds(section, "trial_s", 60),
    }
}

fn read_forwarding(section: &Section<'_>) -> ForwardingSpec {
    ForwardingSpec {
        step_percent: section.one("step_percent", percent::step_percent).unwrap_or(10.0),
        up_to_percent: section.one("up_to_percent", percent::up_to_percent).unwrap_or(200.0),
        trial: seconds(section, "trial_s", 30),
        times: times(section, 1),
    }
}
