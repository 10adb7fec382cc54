//! When each frame of a stream is due. Pure: generators, the dates of losses and the judgement of a trial all ask
//! here, so that they agree to the last fraction of a ns.
//!
//! A schedule has two phases with a gap of their own between frames:
//!
//! ```text
//! steady  | | | | | | | | | | | |      phase 0 never ends
//! step    | | | | | | |   |   |   |    phase 1 never ends
//! bursts  ||||      ||||      ||||     phase 1 is the last frame of a burst, and the pause after it
//! ```

use std::time::Duration;

use crate::counts::{Load, Shape};

/// Frames of a phase that never ends.
const FOR_EVER: u64 = u64::MAX;

/// Frames with the same gap after each of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Phase {
    /// How many.
    pub(crate) frames: u64,
    /// Time to the next frame, ns * 65536.
    pub(crate) gap_q16: u64,
}

/// Due times of one stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Schedule {
    /// Both alternately, the first one first.
    pub(crate) phases: [Phase; 2],
    /// Frames in all.
    pub(crate) total: u64,
    /// When the first frame is due, ns * 65536 after the start.
    pub(crate) first_q16: u64,
}

impl Schedule {
    /// That of stream `stream` of `streams` under `load`; `None` where frames leave as fast as they can.
    ///
    /// # Panics
    /// If bursts have no frames.
    pub(crate) fn of(load: &Load, stream: usize, streams: usize) -> Option<Schedule> {
        let streams = if load.only.is_some() { 1 } else { streams };
        let equal = 1.0 / streams as f64;
        let own = if load.only.is_some() { None } else { load.share };
        let share = own.map_or(equal, |first| if stream == 0 { first } else { 1.0 - first });
        let fps = load.fps? * share;
        let (phases, total) = phases(&load.shape, fps, load.duration, streams);
        // Both directions are interleaved, not simultaneous.
        let first_q16 = if stream == 1 { gap_q16(fps) / 2 } else { 0 };
        Some(Schedule { phases, total: total.min(load.max_frames.unwrap_or(u64::MAX)), first_q16 })
    }

    /// When frame `n` is due, ns * 65536 after the start.
    pub(crate) fn due_q16(&self, n: u64) -> u64 {
        let [a, b] = self.phases;
        let (rounds, rest) = (n.checked_div(self.frames()).unwrap_or(0), n % self.frames());
        let (in_a, in_b) = (rest.min(a.frames), rest.saturating_sub(a.frames));
        let within = span(in_a, a.gap_q16).saturating_add(span(in_b, b.gap_q16));
        let due = u128::from(rounds).saturating_mul(self.round_q16()).saturating_add(within);
        u64::try_from(due.saturating_add(self.first_q16.into())).unwrap_or(u64::MAX)
    }

    /// When frame `n` is due, ns after the start.
    pub(crate) fn due_ns(&self, n: u64) -> u64 {
        self.due_q16(n) >> 16
    }

    /// How many frames are due `ns` after the start.
    pub(crate) fn due_by(&self, ns: u64) -> u64 {
        let Some(time) = (u128::from(ns) << 16).checked_sub(self.first_q16.into()) else { return 0 };
        let [a, b] = self.phases;
        let (rounds, rest) = (
            time.checked_div(self.round_q16()).unwrap_or(0),
            time.checked_rem(self.round_q16()).unwrap_or(0),
        );
        let a_q16 = span(a.frames, a.gap_q16);
        let within = match rest.checked_sub(a_q16) {
            None => rest / u128::from(a.gap_q16) + 1,
            Some(rest) => {
                let in_b = rest.checked_div(b.gap_q16.into()).unwrap_or(u128::MAX);
                in_b.saturating_add(1).saturating_add(a.frames.into())
            }
        };
        let due =
            rounds.saturating_mul(self.frames().into()).saturating_add(within.min(self.frames().into()));
        u64::try_from(due).unwrap_or(u64::MAX).min(self.total)
    }

    /// Frames of a round.
    fn frames(&self) -> u64 {
        self.phases[0].frames.saturating_add(self.phases[1].frames)
    }

    fn round_q16(&self) -> u128 {
        let [a, b] = self.phases;
        span(a.frames, a.gap_q16).saturating_add(span(b.frames, b.gap_q16))
    }
}

fn span(frames: u64, gap_q16: u64) -> u128 {
    u128::from(frames) * u128::from(gap_q16)
}

/// ns * 65536 between two frames; a rate that no clock resolves has none.
fn gap_q16(fps: f64) -> u64 {
    (65_536e9 / fps).round() as u64
}

/// Both phases, and the frames that are due within `duration`.
fn phases(shape: &Shape, fps: f64, duration: Duration, streams: usize) -> ([Phase; 2], u64) {
    let frames = |fps: f64, time: Duration| (fps * time.as_secs_f64()).round() as u64;
    let steady = Phase { frames: FOR_EVER, gap_q16: gap_q16(fps) };
    match *shape {
        Shape::Steady | Shape::Bursts { frames: 1, .. } => ([steady; 2], frames(fps, duration)),
        Shape::Step { at, fps: then } => {
            let then = then / streams as f64;
            let first = frames(fps, at.min(duration));
            let second = frames(then, duration.saturating_sub(at));
            let phases =
                [Phase { frames: first, ..steady }, Phase { frames: FOR_EVER, gap_q16: gap_q16(then) }];
            (phases, first + second)
        }
        Shape::Bursts { frames: 0, .. } => panic!("a burst has frames"),
        Shape::Bursts { frames: burst, within_fps } => {
            let inner = Phase {
                frames: u64::from(burst) - 1,
                gap_q16: within_fps.map_or(0, |fps| gap_q16(fps / streams as f64)),
            };
            let mean = (65_536e9 * f64::from(burst) / fps).round() as u128;
            // Where bursts leave no room for a pause, there is none.
            let pause = mean.saturating_sub(span(inner.frames, inner.gap_q16)).max(inner.gap_q16.into());
            let last = Phase { frames: 1, gap_q16: u64::try_from(pause).unwrap_or(u64::MAX) };
            // Whole bursts only.
            let bursts = (fps * duration.as_secs_f64() / f64::from(burst)).round() as u64;
            ([inner, last], bursts.max(1).saturating_mul(burst.into()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(load: Load, total: u64, due_ns: &[(u64, u64)]) {
        let schedule = Schedule::of(&load, 0, 1).expect("a paced load");
        assert_eq!(schedule.total, total, "{load:?}");
        for &(n, expected) in due_ns {
            assert_eq!(schedule.due_ns(n), expected, "{load:?}: frame {n} is due");
        }
        // One function is the inverse of the other.
        let mut sum_q16 = 0;
        for n in 0..total.min(5000) {
            assert_eq!(schedule.due_q16(n), sum_q16, "{load:?}: frame {n}");
            let by = schedule.due_by(schedule.due_ns(n) + 1);
            assert!(
                by > n && schedule.due_ns(by - 1) <= schedule.due_ns(n) + 1,
                "{load:?}: {by} by frame {n}"
            );
            let place = n % schedule.frames();
            sum_q16 += schedule.phases[usize::from(place >= schedule.phases[0].frames)].gap_q16;
        }
    }

    #[test]
    fn frames_are_due_as_the_shape_says() {
        let second = Duration::from_secs(1);
        let steady = Load::steady(1e6, second);
        check(steady, 1_000_000, &[(0, 0), (1, 1000), (999_999, 999_999_000)]);
        check(Load { max_frames: Some(7), ..steady }, 7, &[(6, 6000)]);
        let step = Shape::Step { at: Duration::from_millis(1), fps: 5e5 };
        check(
            Load { shape: step, ..steady },
            1000 + 499_500,
            &[(999, 999_000), (1000, 1_000_000), (1001, 1_002_000), (2000, 3_000_000)],
        );
        let bursts = |within_fps| Load { shape: Shape::Bursts { frames: 4, within_fps }, ..steady };
        check(bursts(None), 1_000_000, &[(3, 0), (4, 4000), (7, 4000), (8, 8000)]);
        check(bursts(Some(2e6)), 1_000_000, &[(1, 500), (3, 1500), (4, 4000), (5, 4500)]);
        // Faster on average than within a burst: no pause.
        check(bursts(Some(5e5)), 1_000_000, &[(3, 6000), (4, 8000), (5, 10_000)]);
    }

    #[test]
    fn streams_share_the_rate_and_take_turns() {
        let load = Load::steady(2e6, Duration::from_secs(1));
        let of = |stream| Schedule::of(&load, stream, 2).expect("a paced load");
        assert_eq!((of(0).total, of(0).due_ns(1)), (1_000_000, 1000));
        assert_eq!((of(1).due_ns(0), of(1).due_ns(1)), (500, 1500));
        assert_eq!((of(1).due_by(499), of(1).due_by(500), of(1).due_by(1500)), (0, 1, 2));
        assert_eq!(Schedule::of(&Load::full_speed(Duration::from_secs(1)), 0, 1), None);
    }

    #[test]
    fn rates_that_no_clock_resolves_are_no_trouble() {
        for (fps, ns, due) in [(1e30, 1, u64::MAX), (1e-9, 1_000_000, 1)] {
            let load = Load { max_frames: None, ..Load::steady(fps, Duration::from_secs(u64::MAX)) };
            let schedule = Schedule::of(&load, 0, 1).expect("a paced load");
            assert_eq!(schedule.due_by(ns), due.min(schedule.total), "{fps}");
        }
    }
}
