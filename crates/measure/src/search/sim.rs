//! Simulated devices under test: what a search may meet, in virtual time and from a seed.
//!
//! Loss is counted in whole frames, as a tester counts it. Virtual time passes from trial to trial, so a
//! periodic disturbance falls where it falls.

use std::time::Duration;

use super::{Measured, Measurer, Stop};
use crate::rng::Rng;

/// How a device loses frames.
#[derive(Debug, Clone, PartialEq)]
pub enum Dut {
    /// Forwards so much and not a frame more.
    Step {
        /// Frames/s.
        capacity_fps: f64,
    },
    /// Loses nothing up to `knee_fps`, and beyond it a share that grows with the square of the excess.
    Soft {
        /// Highest load without loss, frames/s.
        knee_fps: f64,
        /// Loss ratio at twice the knee.
        loss_at_double: f64,
    },
    /// A step that loses a burst of frames now and then, at any load.
    Spikes {
        /// Frames/s.
        capacity_fps: f64,
        /// Mean number of bursts per second; a Poisson process.
        per_s: f64,
        /// Frames lost in each.
        frames: u64,
    },
    /// A step that stands still at regular intervals and loses what its buffer does not hold.
    Stall {
        /// Frames/s.
        capacity_fps: f64,
        /// From one standstill to the next.
        every: Duration,
        /// Length of a standstill.
        stall: Duration,
        /// Buffer in frames.
        buffer: u64,
    },
    /// A step at another place in each trial: normally distributed.
    Noisy {
        /// Median, frames/s.
        capacity_fps: f64,
        /// Standard deviation, as a share of it.
        sigma: f64,
    },
    /// A step that is much lower in some trials, as on a host that moves virtual CPUs.
    Moods {
        /// Frames/s.
        capacity_fps: f64,
        /// Share of the trials that meet it in a bad mood, 0..=1.
        bad: f64,
        /// What is left of its capacity in these.
        left: f64,
    },
    /// As `Soft`, but each frame is lost or not by chance.
    Binomial {
        /// Highest load without loss, frames/s.
        knee_fps: f64,
        /// Probability that a frame is lost at twice the knee.
        loss_at_double: f64,
    },
    /// A step that varies from moment to moment, and a buffer that evens it out.
    Buffered {
        /// Mean, frames/s.
        capacity_fps: f64,
        /// Standard deviation of the capacity of one moment, as a share of the mean.
        sigma: f64,
        /// Length of a moment.
        moment: Duration,
        /// Buffer in frames.
        buffer: f64,
    },
    /// A step that goes up and down slowly, as machines do that heat up: trials close to each other are alike.
    Wave {
        /// Mean, frames/s.
        capacity_fps: f64,
        /// Greatest deviation, as a share of it.
        amplitude: f64,
        /// From one crest to the next.
        period: Duration,
    },
}

/// What is wrong with the tester.
#[derive(Debug, Clone, PartialEq)]
pub struct Tester {
    /// Highest load that it can offer, frames/s.
    pub max_fps: f64,
    /// Share of its trials that are unusable, 0..=1.
    pub unusable: f64,
    /// Time that a trial takes beyond its duration.
    pub overhead: Duration,
}

/// A device, the tester in front of it, and their clock.
#[derive(Debug, Clone)]
pub struct Sim {
    dut: Dut,
    tester: Tester,
    rng: Rng,
    clock_s: f64,
}

impl Default for Tester {
    /// Nothing.
    fn default() -> Tester {
        Tester { max_fps: f64::INFINITY, unusable: 0.0, overhead: Duration::ZERO }
    }
}

impl Sim {
    /// A device behind a tester.
    pub fn new(dut: Dut, tester: Tester, seed: u64) -> Sim {
        Sim { dut, tester, rng: Rng::new(seed), clock_s: 0.0 }
    }

    fn lost(&mut self, sent: u64, load_fps: f64, duration_s: f64) -> u64 {
        let beyond = |capacity_fps: f64| sent.saturating_sub((capacity_fps * duration_s) as u64);
        match self.dut {
            Dut::Step { capacity_fps } => beyond(capacity_fps),
            Dut::Soft { knee_fps, loss_at_double } => {
                let excess = (load_fps / knee_fps - 1.0).max(0.0);
                (sent as f64 * (loss_at_double * excess.powi(2)).min(1.0)) as u64
            }
            Dut::Spikes { capacity_fps, per_s, frames } => {
                beyond(capacity_fps) + frames * self.rng.poisson(per_s * duration_s)
            }
            Dut::Stall { capacity_fps, every, stall, buffer } => {
                let stalls_until = |t: f64| (t / every.as_secs_f64()).floor() as u64;
                let stalls = stalls_until(self.clock_s + duration_s) - stalls_until(self.clock_s);
                let arriving = (load_fps * stall.as_secs_f64()) as u64;
                beyond(capacity_fps) + stalls * arriving.saturating_sub(buffer)
            }
            Dut::Noisy { capacity_fps, sigma } => beyond(capacity_fps * (1.0 + sigma * self.rng.normal())),
            Dut::Moods { capacity_fps, bad, left } => {
                beyond(if self.rng.unit() < bad { left * capacity_fps } else { capacity_fps })
            }
            Dut::Binomial { knee_fps, loss_at_double } => {
                let excess = (load_fps / knee_fps - 1.0).max(0.0);
                self.rng.binomial(sent, (loss_at_double * excess.powi(2)).min(1.0))
            }
            Dut::Buffered { capacity_fps, sigma, moment, buffer } => {
                let moment_s = moment.as_secs_f64();
                let (mut queued, mut lost) = (0.0f64, 0.0);
                for _ in 0..(duration_s / moment_s).ceil() as u64 {
                    let capacity = capacity_fps * (1.0 + sigma * self.rng.normal());
                    queued = (queued + (load_fps - capacity) * moment_s).max(0.0);
                    lost += (queued - buffer).max(0.0);
                    queued = queued.min(buffer);
                }
                lost as u64
            }
            Dut::Wave { capacity_fps, amplitude, period } => {
                let angle = self.clock_s / period.as_secs_f64() * std::f64::consts::TAU;
                beyond(capacity_fps * (1.0 + amplitude * angle.sin()))
            }
        }
    }
}

impl Measurer for Sim {
    fn measure(&mut self, load_fps: f64, duration: Duration) -> Result<Measured, Stop> {
        let duration_s = duration.as_secs_f64();
        let sent = (load_fps * duration_s) as u64;
        let lost = self.lost(sent, load_fps, duration_s).min(sent);
        let effective = duration + self.tester.overhead;
        self.clock_s += effective.as_secs_f64();
        if self.rng.unit() < self.tester.unusable {
            return Ok(Measured::Unusable);
        }
        if load_fps > self.tester.max_fps {
            return Ok(Measured::TesterLimited { achieved_fps: self.tester.max_fps });
        }
        Ok(Measured::Loss { loss_ratio: lost as f64 / sent.max(1) as f64, effective })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Rows: device, load in frames/s, seconds, frames lost.
    fn check(rows: &[(Dut, f64, u64, f64)]) {
        for (dut, load_fps, seconds, lost) in rows {
            let measured =
                Sim::new(dut.clone(), Tester::default(), 1).measure(*load_fps, Duration::from_secs(*seconds));
            let Ok(Measured::Loss { loss_ratio, .. }) = measured else { panic!("{dut:?}: {measured:?}") };
            let got = (loss_ratio * load_fps * *seconds as f64).round();
            assert_eq!(got, *lost, "{dut:?} at {load_fps} for {seconds} s");
        }
    }

    #[test]
    fn frames_lost() {
        let step = Dut::Step { capacity_fps: 1e6 };
        let soft = Dut::Soft { knee_fps: 1e6, loss_at_double: 0.5 };
        let calm = Dut::Spikes { capacity_fps: 1e6, per_s: 0.0, frames: 10 };
        let stall = Dut::Stall { capacity_fps: 1e6, every: 100 * MS, stall: MS, buffer: 500 };
        check(&[
            (step.clone(), 1e6, 10, 0.0),
            (step, 1e6 + 1.0, 10, 10.0),
            (soft.clone(), 1e6, 1, 0.0),
            (soft.clone(), 1.1e6, 1, 5500.0),
            (soft, 5e6, 1, 5e6),
            (calm, 2e6, 1, 1e6),
            (stall.clone(), 5e5, 1, 0.0),
            (stall.clone(), 6e5, 1, 1000.0),
            (stall, 2e6, 1, 1e6 + 15000.0),
        ]);
    }

    #[test]
    fn a_seed_repeats_and_the_tester_has_its_limits() {
        let dut = Dut::Spikes { capacity_fps: 1e6, per_s: 2.0, frames: 10 };
        let trials = |seed| {
            let mut sim = Sim::new(dut.clone(), Tester::default(), seed);
            (0..20).map(|_| sim.measure(1e5, 1000 * MS)).collect::<Vec<_>>()
        };
        assert_eq!(trials(5), trials(5));
        assert_ne!(trials(5), trials(6));
        let slow = Tester { max_fps: 5e5, ..Tester::default() };
        let mut limited = Sim::new(dut.clone(), slow, 1);
        assert_eq!(limited.measure(6e5, MS), Ok(Measured::TesterLimited { achieved_fps: 5e5 }));
        let noise = Tester { unusable: 1.0, ..Tester::default() };
        let mut noisy = Sim::new(dut, noise, 1);
        assert_eq!(noisy.measure(6e5, MS), Ok(Measured::Unusable));
    }
}
