//! The longest burst of frames that comes through whole: a binary search with loss verification (ETSI GS NFV-TST 009,
//! clause 12.3) over the length of the burst in place of the load, as RFC 9004, section 6.2 asks for.
//!
//! ```text
//! 16, 32, 64 ... whole > first lossy length > middle ... until the bounds are a step apart
//! ```
//! It begins with short bursts, since most buffers are far shorter than the longest burst allowed.

/// Length of the first burst.
const FIRST: u64 = 16;

/// A search for the longest burst. Lengths are frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Longest burst that is tried, at least 1.
    pub longest: u64,
    /// The search ends when its bounds are this close, at least 1.
    pub step: u64,
    /// A burst is lossy if so many in a row lost frames, at least 1: a device that was interrupted once is given
    /// another chance.
    pub trials: u32,
}

/// The outcome of a burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Burst {
    /// All of it arrived.
    Whole,
    /// The device lost frames.
    Lossy,
    /// No valid trial could be had.
    Unusable,
}

/// How a search ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Longest {
    /// The longest burst that came through; one that is a step longer did not.
    Frames(u64),
    /// The longest burst allowed came through.
    AtLimit(u64),
    /// Not even a single frame came through.
    Nothing,
    /// The search ended for want of a valid trial.
    Unknown,
}

impl Longest {
    /// The length of the longest burst that came through.
    pub fn frames(self) -> Option<u64> {
        match self {
            Longest::Frames(frames) | Longest::AtLimit(frames) => Some(frames),
            Longest::Nothing | Longest::Unknown => None,
        }
    }
}

impl Config {
    /// Searches with `send`, which sends a burst of so many frames after a pause.
    ///
    /// # Errors
    /// Those of `send`.
    pub fn run<E>(&self, mut send: impl FnMut(u64) -> Result<Burst, E>) -> Result<Longest, E> {
        let (mut whole, mut lossy) = (0, None);
        while let Some(frames) = self.next(whole, lossy) {
            match self.verified(frames, &mut send)? {
                Burst::Whole => whole = frames,
                Burst::Lossy => lossy = Some(frames),
                Burst::Unusable => return Ok(Longest::Unknown),
            }
        }
        Ok(match (whole, lossy) {
            (0, _) => Longest::Nothing,
            (whole, None) => Longest::AtLimit(whole),
            (whole, Some(_)) => Longest::Frames(whole),
        })
    }

    /// The length to try next: doubled until one is lossy, then the middle.
    fn next(&self, whole: u64, lossy: Option<u64>) -> Option<u64> {
        match lossy {
            None if whole == self.longest => None,
            None => Some((whole * 2).max(FIRST).min(self.longest)),
            Some(lossy) => (lossy - whole > self.step).then(|| whole.midpoint(lossy)),
        }
    }

    /// Loss counts only if it comes again.
    fn verified<E>(&self, frames: u64, send: &mut impl FnMut(u64) -> Result<Burst, E>) -> Result<Burst, E> {
        for _ in 1..self.trials {
            match send(frames)? {
                Burst::Lossy => {}
                other => return Ok(other),
            }
        }
        send(frames)
    }

    /// No search sends more bursts than this.
    pub fn most_bursts(&self) -> u32 {
        let doublings = self.longest.div_ceil(FIRST).next_power_of_two().ilog2() + 1;
        let halvings = self.longest.div_ceil(self.step).next_power_of_two().ilog2();
        doublings + self.trials + halvings * self.trials
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;
    use crate::rng::Rng;

    /// A buffer in front of a forwarder: frames come in faster than they go out, and what the buffer does not hold
    /// is lost. Now and then the forwarder pauses, for as long as it takes to fill so much of the buffer.
    struct Buffer {
        frames: f64,
        /// Throughput as a share of the rate of the burst.
        drain: f64,
        pause: f64,
        paused: f64,
        rng: Rng,
    }

    impl Buffer {
        fn send(&mut self, burst: u64) -> Burst {
            let pause = if self.rng.unit() < self.paused { self.pause } else { 0.0 };
            let held = burst as f64 * (1.0 - self.drain) + pause.min(burst as f64) * self.drain;
            if held > self.frames { Burst::Lossy } else { Burst::Whole }
        }
    }

    fn buffer(frames: f64, drain: f64, paused: f64, seed: u64) -> Buffer {
        Buffer { frames, drain, pause: 2.0 * frames, paused, rng: Rng::new(seed) }
    }

    fn search(config: Config, mut buffer: Buffer) -> (Longest, u32) {
        let mut bursts = 0;
        let found = config.run(|frames| {
            bursts += 1;
            Ok::<_, Infallible>(buffer.send(frames))
        });
        let Ok(found) = found;
        assert!(
            bursts <= config.most_bursts(),
            "{bursts} bursts, {} at most: {config:?}",
            config.most_bursts()
        );
        (found, bursts)
    }

    const CONFIG: Config = Config { longest: 1_000_000, step: 1, trials: 2 };

    #[test]
    fn the_longest_burst_fills_the_buffer() {
        for (frames, drain, longest) in [
            (256.0, 0.0, Longest::Frames(256)),
            (256.0, 0.5, Longest::Frames(512)),
            (256.0, 0.75, Longest::Frames(1024)),
            (1.0, 0.0, Longest::Frames(1)),
            (15.0, 0.0, Longest::Frames(15)),
            (16.0, 0.0, Longest::Frames(16)),
            (17.0, 0.0, Longest::Frames(17)),
            (999_999.0, 0.0, Longest::Frames(999_999)),
            (1e6, 0.0, Longest::AtLimit(1_000_000)),
            (1.0, 1.0, Longest::AtLimit(1_000_000)),
            (0.5, 0.0, Longest::Nothing),
        ] {
            let (found, _) = search(CONFIG, buffer(frames, drain, 0.0, 1));
            assert_eq!(found, longest, "{frames} frames, drained at {drain}");
        }
    }

    #[test]
    fn a_step_bounds_the_error_and_saves_bursts() {
        let (_, exact) = search(CONFIG, buffer(700.0, 0.0, 0.0, 1));
        let (found, rough) = search(Config { step: 64, ..CONFIG }, buffer(700.0, 0.0, 0.0, 1));
        let frames = found.frames().expect("a burst");
        assert!((637..=700).contains(&frames), "{frames}");
        assert!(rough < exact, "{rough} bursts in place of {exact}");
    }

    /// An interruption of every other burst shortens half of the results without verification, and hardly any with it.
    #[test]
    fn loss_that_does_not_come_again_does_not_count() {
        let exact = |trials| {
            let right = |seed: &u64| {
                let config = Config { trials, ..CONFIG };
                search(config, buffer(256.0, 0.5, 0.5, *seed)).0 == Longest::Frames(512)
            };
            (0..200).filter(right).count()
        };
        let (once, verified) = (exact(1), exact(8));
        assert!(once < 130 && verified > 190, "{once} and {verified} of 200 right");
    }

    #[test]
    fn without_a_valid_trial_nothing_is_known() {
        let found = CONFIG
            .run(|frames| Ok::<_, Infallible>(if frames > 64 { Burst::Unusable } else { Burst::Whole }));
        assert_eq!(found, Ok(Longest::Unknown));
        assert_eq!(CONFIG.run(|_| Err("stopped")), Err("stopped"));
    }
}
