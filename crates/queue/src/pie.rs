//! PIE (RFC 8033): drops arrivals with a probability that a proportional-integral controller sets from the queue's delay.
//!
//! "PIE" alone names no algorithm: appendix A of the RFC (basic) and appendix B (enhanced) differ in ECN, in the bound of a
//! step, in the decay, and in that B sleeps while the buffer is less than a third full. So the variant has a name here.
//!
//! A buffer that holds less than half of the target at the rate of the link never drops early: there PIE is taildrop.

use serde::{Deserialize, Serialize};
use weir_rng::Rng;

use crate::accounting::{Accounting, Reason};
use crate::buffer::Buffer;
use crate::packet::Packet;
use crate::time::Time;
use crate::{Bottleneck, ConfigError, Queue};

/// Which appendix of RFC 8033.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Variant {
    /// Appendix A: no ECN, independent drops.
    Basic,
    /// Appendix B: ECN, evenly spaced drops, bounded steps, sleeps at low load.
    #[default]
    Enhanced,
}

/// How the delay of the queue is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Delay {
    /// The sojourn of the packet that left last (appendix A).
    #[default]
    Sojourn,
    /// Backlog over the measured departure rate (appendix B).
    Rate,
}

/// What can be set of PIE; the defaults are those of RFC 8033, section 4 and 5.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Basic or enhanced.
    pub variant: Variant,
    /// Source of the delay.
    pub delay: Delay,
    /// Delay that is aimed at (QDELAY_REF).
    #[serde(rename = "target_s")]
    pub target: Time,
    /// Time between two steps of the controller (T_UPDATE).
    #[serde(rename = "update_s")]
    pub update: Time,
    /// A burst of this length after an idle time passes unharmed (MAX_BURST).
    #[serde(rename = "burst_s")]
    pub burst: Time,
    /// Weight of the deviation from the target, in Hz.
    pub alpha_hz: f64,
    /// Weight of the trend, in Hz.
    pub beta_hz: f64,
    /// Mean packet, in bytes: nothing is dropped early while no more than two are queued.
    pub mean_bytes: u32,
    /// Below this probability the enhanced variant marks packets that know ECN (MAX_ECNTH); 0: it always drops.
    pub mark_below: f64,
    /// The enhanced variant wakes up when this share of the limit is queued; 0: it never sleeps.
    pub wake_share: f64,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            variant: Variant::Enhanced,
            delay: Delay::Sojourn,
            target: Time::from_ms(15),
            update: Time::from_ms(15),
            burst: Time::from_ms(150),
            alpha_hz: 0.125,
            beta_hz: 1.25,
            mean_bytes: 1500,
            mark_below: 0.1,
            wake_share: 1.0 / 3.0,
        }
    }
}

impl Config {
    /// Appendix A of RFC 8033.
    pub fn basic() -> Config {
        Config { variant: Variant::Basic, ..Config::default() }
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        ConfigError::share("pie: mark_below", self.mark_below)?;
        ConfigError::share("pie: wake_share", self.wake_share)?;
        if self.update < Time::from_us(1) {
            return Err(ConfigError("pie: update_s must be at least 1e-6".into()));
        }
        Ok(())
    }
}

/// What is to be done with an arrival that fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Accept,
    Mark,
    Drop,
}

/// Appendix B's measurement of the departure rate: the time that 16 KiB take.
#[derive(Debug, Clone, Copy, Default)]
struct Rate {
    since: Option<Time>,
    bytes: u64,
    average_s: Option<f64>,
}

const MEASURED_BYTES: u64 = 16_384;
/// Weight of a new measurement: 2^14 / 2^16.
const WEIGHT: f64 = 0.25;

impl Rate {
    fn departed(&mut self, bytes: u32, backlog: u64, now: Time) {
        if let Some(since) = self.since {
            self.bytes += u64::from(bytes);
            if self.bytes >= MEASURED_BYTES {
                let took = (now - since).secs();
                self.average_s =
                    Some(self.average_s.map_or(took, |average| WEIGHT * took + (1.0 - WEIGHT) * average));
                self.since = None;
            }
        }
        if self.since.is_none() && backlog >= MEASURED_BYTES {
            self.since = Some(now);
            self.bytes = 0;
        }
    }

    fn delay_s(&self, backlog: u64) -> f64 {
        backlog as f64 * self.average_s.unwrap_or(0.0) / MEASURED_BYTES as f64
    }
}

/// The controller, for one list of packets.
#[derive(Debug, Clone)]
pub(crate) struct Controller {
    config: Config,
    wake_bytes: f64,
    target_s: f64,
    p: f64,
    delay_s: f64,
    old_delay_s: f64,
    last_sojourn_s: f64,
    burst: Time,
    accumulated: f64,
    active: bool,
    rate: Rate,
    next: Time,
    rng: Rng,
}

impl Controller {
    pub(crate) fn new(config: Config, limit_bytes: u64, seed: u64) -> Controller {
        Controller {
            config,
            wake_bytes: config.wake_share * limit_bytes as f64,
            target_s: config.target.secs(),
            p: 0.0,
            delay_s: 0.0,
            old_delay_s: 0.0,
            last_sojourn_s: 0.0,
            burst: config.burst,
            accumulated: 0.0,
            active: config.variant == Variant::Basic || config.wake_share == 0.0,
            rate: Rate::default(),
            next: config.update,
            rng: Rng::new(seed),
        }
    }

    /// The probability of a drop, 0 to 1.
    pub(crate) fn probability(&self) -> f64 {
        self.p
    }

    fn calm(&self) -> bool {
        self.delay_s < self.target_s / 2.0 && self.old_delay_s < self.target_s / 2.0
    }

    /// Makes the steps that were due before or at `now`, while `backlog` bytes were queued. Whether there was one.
    pub(crate) fn advance(&mut self, backlog: u64, now: Time) -> bool {
        let mut stepped = false;
        while self.next <= now {
            let asleep = !self.active || self.p == 0.0 && self.delay_s == 0.0 && self.old_delay_s == 0.0;
            if asleep && backlog == 0 && self.burst == Time::ZERO || !self.active {
                // nothing changes until something is queued
                let update = self.config.update.ps();
                self.next = Time::from_ps((now.ps() / update + 1) * update);
                return true;
            }
            self.step(backlog);
            self.next += self.config.update;
            stepped = true;
        }
        stepped
    }

    fn step(&mut self, backlog: u64) {
        self.delay_s = match self.config.delay {
            _ if backlog == 0 => 0.0,
            Delay::Sojourn => self.last_sojourn_s,
            Delay::Rate => self.rate.delay_s(backlog),
        };
        let mut change = self.config.alpha_hz * (self.delay_s - self.target_s)
            + self.config.beta_hz * (self.delay_s - self.old_delay_s);
        change /= match self.p {
            p if p < 1e-6 => 2048.0,
            p if p < 1e-5 => 512.0,
            p if p < 1e-4 => 128.0,
            p if p < 1e-3 => 32.0,
            p if p < 1e-2 => 8.0,
            p if p < 1e-1 => 2.0,
            _ => 1.0,
        };
        let decays = match self.config.variant {
            Variant::Basic => self.delay_s == 0.0 && self.old_delay_s == 0.0,
            Variant::Enhanced => {
                if self.p >= 0.1 && change > 0.02 {
                    change = 0.02;
                }
                self.calm()
            }
        };
        self.p += change;
        if decays {
            self.p *= 0.98;
        }
        self.p = self.p.clamp(0.0, 1.0);
        self.old_delay_s = self.delay_s;
        self.burst = self.burst - self.config.update;
        // the RFC asks this at each arrival: then a queue that has just woken up falls asleep before it is measured
        if self.sleeps() && self.p == 0.0 && self.delay_s == 0.0 {
            self.active = false;
        }
    }

    fn sleeps(&self) -> bool {
        self.config.variant == Variant::Enhanced && self.config.wake_share > 0.0
    }

    /// Judges an arrival of `ect` that finds `backlog` bytes and fits. Call [`Controller::advance`] first.
    pub(crate) fn arrived(&mut self, ect: bool, backlog: u64) -> Verdict {
        match self.config.variant {
            Variant::Basic => {
                if self.p == 0.0 && self.calm() {
                    self.burst = self.config.burst;
                }
                if self.burst == Time::ZERO && self.is_early(backlog) {
                    Verdict::Drop
                } else {
                    Verdict::Accept
                }
            }
            Variant::Enhanced => {
                let early = self.active && self.is_early(backlog) && self.burst == Time::ZERO;
                let verdict = if !early {
                    Verdict::Accept
                } else if ect && self.p < self.config.mark_below {
                    Verdict::Mark
                } else {
                    self.accumulated = 0.0;
                    Verdict::Drop
                };
                self.wake(backlog);
                verdict
            }
        }
    }

    /// The arrival did not fit.
    pub(crate) fn overflowed(&mut self, backlog: u64) {
        self.accumulated = 0.0;
        self.wake(backlog);
    }

    fn wake(&mut self, backlog: u64) {
        if self.sleeps() && !self.active && backlog as f64 >= self.wake_bytes {
            self.active = true;
            self.old_delay_s = 0.0;
            self.p = 0.0;
            self.accumulated = 0.0;
            self.burst = self.config.burst;
            self.rate = Rate::default();
        }
    }

    fn is_early(&mut self, backlog: u64) -> bool {
        let low = self.old_delay_s < self.target_s / 2.0 && self.p < 0.2;
        if low || backlog <= 2 * u64::from(self.config.mean_bytes) {
            return false;
        }
        if self.config.variant == Variant::Basic {
            return self.rng.unit() < self.p;
        }
        if self.p == 0.0 {
            self.accumulated = 0.0;
        }
        self.accumulated += self.p;
        if self.accumulated < 0.85 {
            return false;
        }
        if self.accumulated >= 8.5 {
            return true;
        }
        let early = self.rng.unit() < self.p;
        if early {
            self.accumulated = 0.0;
        }
        early
    }

    /// A packet left that had waited for `sojourn`; `backlog` bytes stay.
    pub(crate) fn departed(&mut self, bytes: u32, sojourn: Time, backlog: u64, now: Time) {
        self.last_sojourn_s = sojourn.secs();
        self.rate.departed(bytes, backlog, now);
    }
}

/// A queue with PIE.
#[derive(Debug)]
pub struct Pie<T> {
    limit_bytes: u64,
    controller: Controller,
    buffer: Buffer<T>,
    accounting: Accounting<T>,
}

impl<T> Pie<T> {
    /// An empty queue.
    pub fn new(config: Config, at: &Bottleneck) -> Pie<T> {
        Pie {
            limit_bytes: at.limit_bytes,
            controller: Controller::new(config, at.limit_bytes, at.seed),
            buffer: Buffer::new(),
            accounting: Accounting::new(),
        }
    }
}

impl<T> Queue<T> for Pie<T> {
    fn offer(&mut self, mut packet: Packet<T>, now: Time) {
        packet.arrival = now;
        self.accounting.offered(packet.bytes);
        let backlog = self.buffer.bytes();
        self.controller.advance(backlog, now);
        if backlog + u64::from(packet.bytes) > self.limit_bytes {
            self.controller.overflowed(backlog);
            return self.accounting.reject(packet, Reason::Overflow);
        }
        match self.controller.arrived(packet.ecn.capable(), backlog) {
            Verdict::Drop => return self.accounting.reject(packet, Reason::Early),
            Verdict::Mark => {
                self.accounting.mark(&mut packet);
            }
            Verdict::Accept => {}
        }
        self.accounting.queued(packet.bytes);
        self.buffer.push(packet);
    }

    fn take(&mut self, now: Time) -> Option<Packet<T>> {
        self.controller.advance(self.buffer.bytes(), now);
        let packet = self.buffer.pop()?;
        self.accounting.taken(packet.bytes);
        self.controller.departed(packet.bytes, now - packet.arrival, self.buffer.bytes(), now);
        Some(packet)
    }

    fn accounting(&self) -> &Accounting<T> {
        &self.accounting
    }

    fn accounting_mut(&mut self) -> &mut Accounting<T> {
        &mut self.accounting
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_those_of_rfc_8033_section_4_2() {
        // p, delay and old delay in ms -> p after a step; alpha 0.125, beta 1.25, reference 15 ms
        for (variant, p, delay_ms, old_ms, expected) in [
            // 0.125 * 0.015 + 1.25 * 0.015 = 0.020625, scaled by the size of p
            (Variant::Basic, 0.0, 30.0, 15.0, 0.020625 / 2048.0),
            (Variant::Basic, 5e-6, 30.0, 15.0, 5e-6 + 0.020625 / 512.0),
            (Variant::Basic, 5e-5, 30.0, 15.0, 5e-5 + 0.020625 / 128.0),
            (Variant::Basic, 5e-4, 30.0, 15.0, 5e-4 + 0.020625 / 32.0),
            (Variant::Basic, 5e-3, 30.0, 15.0, 5e-3 + 0.020625 / 8.0),
            (Variant::Basic, 5e-2, 30.0, 15.0, 5e-2 + 0.020625 / 2.0),
            (Variant::Basic, 0.5, 30.0, 15.0, 0.520625),
            // appendix B: no step above 0.02 from 10 % on
            (Variant::Enhanced, 0.5, 30.0, 15.0, 0.52),
            (Variant::Enhanced, 0.05, 30.0, 15.0, 0.05 + 0.020625 / 2.0),
            // falling; no further than 0
            (Variant::Basic, 0.5, 15.0, 30.0, 0.5 - 0.01875),
            (Variant::Basic, 1e-9, 0.0, 0.0, 0.0),
            // decay: in A of an empty queue, in B below half of the reference
            (Variant::Basic, 0.5, 0.0, 0.0, (0.5 - 0.001875) * 0.98),
            (Variant::Basic, 0.5, 7.0, 7.0, 0.5 - 0.001),
            (Variant::Enhanced, 0.5, 7.0, 7.0, (0.5 - 0.001) * 0.98),
            (Variant::Enhanced, 1.0, 30.0, 15.0, 1.0),
        ] {
            let mut controller = Controller::new(Config { variant, ..Config::default() }, 1, 0);
            controller.p = p;
            controller.last_sojourn_s = delay_ms / 1e3;
            controller.old_delay_s = old_ms / 1e3;
            controller.step(1);
            let got = controller.p;
            assert!(
                (got - expected).abs() < 1e-15,
                "{variant:?} {p} {delay_ms} {old_ms}: {got}, not {expected}"
            );
        }
    }

    #[test]
    fn the_rate_is_measured_over_16_kib() {
        // 1000 bytes/ms: 17 packets until the first measurement, of 17 ms
        let mut rate = Rate::default();
        for ms in 0..=17 {
            assert_eq!(rate.delay_s(50_000), 0.0, "{ms} ms");
            rate.departed(1000, 50_000, Time::from_ms(ms));
        }
        assert!((rate.delay_s(16_384) - 0.017).abs() < 1e-12);
    }
}
