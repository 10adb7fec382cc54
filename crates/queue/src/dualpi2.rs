//! DualPI2 (RFC 9332, appendix A): a low-latency queue for scalable senders (ECT(1), CE), a classic one for the others,
//! one controller that couples them.
//!
//! ```text
//!               +-> L queue -> mark with max(ramp, k p)  -+
//! arrival -> ECN                                          +-> weighted round robin -> link
//!               +-> C queue -> drop or mark with p^2     -+
//! p: proportional-integral controller over the larger of both delays
//! ```
//! The scheduler is the weighted round robin that the RFC recommends, in the form of a credit (as in Linux). Signals
//! are spaced by counting (`recur` of the RFC), not drawn.
//!
//! The square of the probability is claimed in US patent 10,069,744.

use serde::{Deserialize, Serialize};

use crate::accounting::{Accounting, Reason};
use crate::buffer::Buffer;
use crate::packet::Packet;
use crate::time::Time;
use crate::{Bottleneck, ConfigError, Queue};

/// What can be set of DualPI2; the defaults are those of RFC 9332, appendix A.1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Delay of the classic queue that is aimed at.
    #[serde(rename = "target_s")]
    pub target: Time,
    /// Largest round trip that the controller is stable for.
    #[serde(rename = "rtt_max_s")]
    pub rtt_max: Time,
    /// Coupling factor.
    pub k: f64,
    /// Sojourn at which the ramp of the low-latency queue begins.
    #[serde(rename = "ramp_min_s")]
    pub ramp_min: Time,
    /// Length of the ramp.
    #[serde(rename = "ramp_s")]
    pub ramp: Time,
    /// No ramp while no more packets than these are in the low-latency queue, the one at its head included.
    pub ramp_packets: u64,
    /// Of so many bytes ..
    pub weight_of: u32,
    /// .. so many are of the classic queue while both wait.
    pub weight_classic: u32,
    /// A packet of the largest size, in bytes.
    pub mtu_bytes: u32,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            target: Time::from_ms(15),
            rtt_max: Time::from_ms(100),
            k: 2.0,
            ramp_min: Time::from_us(800),
            ramp: Time::from_us(400),
            ramp_packets: 1,
            weight_of: 16,
            weight_classic: 1,
            mtu_bytes: 1514,
        }
    }
}

impl Config {
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        if self.weight_classic == 0 || self.weight_classic >= self.weight_of {
            return Err(ConfigError("dualpi2: weight_classic must be above 0 and below weight_of".into()));
        }
        if self.target.min(self.rtt_max / 3) < Time::from_us(1) {
            return Err(ConfigError(
                "dualpi2: target_s must be at least 1e-6, rtt_max_s three times that".into(),
            ));
        }
        if self.k.is_nan() || self.k <= 0.0 {
            return Err(ConfigError("dualpi2: k must be above 0".into()));
        }
        Ok(())
    }
}

/// The proportional-integral controller.
#[derive(Debug)]
struct Controller {
    update: Time,
    target_s: f64,
    alpha_hz: f64,
    beta_hz: f64,
    p: f64,
    old_delay_s: f64,
    next: Time,
}

impl Controller {
    fn new(config: &Config) -> Controller {
        let update = config.target.min(config.rtt_max / 3);
        let rtt_s = config.rtt_max.secs();
        Controller {
            update,
            target_s: config.target.secs(),
            alpha_hz: 0.1 * update.secs() / (rtt_s * rtt_s),
            beta_hz: 0.3 / rtt_s,
            p: 0.0,
            old_delay_s: 0.0,
            next: update,
        }
    }

    fn step(&mut self, delay: Time) {
        let delay_s = delay.secs();
        let change = self.alpha_hz * (delay_s - self.target_s) + self.beta_hz * (delay_s - self.old_delay_s);
        self.p = (self.p + change).clamp(0.0, 1.0);
        self.old_delay_s = delay_s;
    }
}

/// Evenly spaced signals: one whenever the likelihoods sum up to more than 1.
#[derive(Debug, Default)]
struct Recur(f64);

impl Recur {
    fn signals(&mut self, likelihood: f64) -> bool {
        self.0 += likelihood;
        let due = self.0 > 1.0;
        if due {
            self.0 -= 1.0;
        }
        due
    }
}

/// The coupled queues.
#[derive(Debug)]
pub struct DualPi2<T> {
    config: Config,
    limit_bytes: u64,
    pi: Controller,
    low: Buffer<T>,
    classic: Buffer<T>,
    low_signals: Recur,
    classic_signals: Recur,
    credit: i64,
    accounting: Accounting<T>,
}

impl<T> DualPi2<T> {
    /// Empty queues.
    pub fn new(config: Config, at: &Bottleneck) -> DualPi2<T> {
        let mut queue = DualPi2 {
            limit_bytes: at.limit_bytes,
            pi: Controller::new(&config),
            low: Buffer::new(),
            classic: Buffer::new(),
            low_signals: Recur::default(),
            classic_signals: Recur::default(),
            credit: 0,
            accounting: Accounting::new(),
            config,
        };
        queue.reset_credit();
        queue
    }

    fn weights(&self) -> (i64, i64) {
        let classic = i64::from(self.config.weight_classic);
        (i64::from(self.config.weight_of) - classic, classic)
    }

    fn reset_credit(&mut self) {
        let (low, classic) = self.weights();
        self.credit = i64::from(self.config.mtu_bytes) * (classic - low);
    }

    /// Steps of the controller that were due before or at `now`.
    fn advance(&mut self, now: Time) {
        while self.pi.next <= now {
            let empty = self.low.is_empty() && self.classic.is_empty();
            if empty && self.pi.p == 0.0 && self.pi.old_delay_s == 0.0 {
                let update = self.pi.update.ps();
                self.pi.next = Time::from_ps((now.ps() / update + 1) * update);
                return;
            }
            let at = self.pi.next;
            self.pi.step(self.low.head_age(at).max(self.classic.head_age(at)));
            self.pi.next += self.pi.update;
        }
    }

    /// Whether the low-latency queue is next; a credit above 0 is the classic queue's.
    fn low_is_next(&self) -> bool {
        !self.low.is_empty() && (self.classic.is_empty() || self.credit <= 0)
    }

    fn charge_low(&mut self, bytes: u32) {
        if !self.classic.is_empty() {
            self.credit += self.weights().1 * i64::from(bytes);
        }
    }

    fn charge_classic(&mut self, bytes: u32) {
        if !self.low.is_empty() {
            self.credit -= self.weights().0 * i64::from(bytes);
        }
    }

    fn ramp(&self, sojourn: Time, packets: u64) -> f64 {
        if packets <= self.config.ramp_packets || sojourn < self.config.ramp_min {
            return 0.0;
        }
        let over = sojourn - self.config.ramp_min;
        if over >= self.config.ramp { 1.0 } else { over.ps() as f64 / self.config.ramp.ps() as f64 }
    }

    /// The head of the low-latency queue, unless it is dropped.
    fn take_low(&mut self, now: Time) -> Option<Packet<T>> {
        let packets = self.low.packets();
        let mut packet = self.low.pop()?;
        let coupled = self.config.k * self.pi.p;
        if coupled < 1.0 {
            let p = self.ramp(now - packet.arrival, packets).max(coupled);
            if self.low_signals.signals(p) {
                self.accounting.mark(&mut packet);
            }
        } else {
            // overload: marks are no longer enough. With a likelihood above 1 the RFC's counter would grow without
            // bound, and then drop all; so every packet that stays is marked, and only drops are counted.
            if self.low_signals.signals(self.pi.p * self.pi.p) {
                self.accounting.remove(packet, Reason::Early);
                return None;
            }
            self.accounting.mark(&mut packet);
        }
        self.charge_low(packet.bytes);
        Some(packet)
    }

    /// The head of the classic queue, unless it is dropped.
    fn take_classic(&mut self) -> Option<Packet<T>> {
        let mut packet = self.classic.pop()?;
        let p = self.pi.p * self.pi.p;
        if self.classic_signals.signals(p) {
            let most = (1.0 / (self.config.k * self.config.k)).min(1.0);
            if p >= most || !self.accounting.mark(&mut packet) {
                self.accounting.remove(packet, Reason::Early);
                return None;
            }
        }
        self.charge_classic(packet.bytes);
        Some(packet)
    }
}

impl<T> Queue<T> for DualPi2<T> {
    fn offer(&mut self, mut packet: Packet<T>, now: Time) {
        packet.arrival = now;
        self.accounting.offered(packet.bytes);
        self.advance(now);
        if self.accounting.backlog.bytes + u64::from(packet.bytes) > self.limit_bytes {
            return self.accounting.reject(packet, Reason::Overflow);
        }
        self.accounting.queued(packet.bytes);
        if packet.ecn.scalable() { self.low.push(packet) } else { self.classic.push(packet) }
    }

    fn take(&mut self, now: Time) -> Option<Packet<T>> {
        self.advance(now);
        while self.accounting.backlog.packets > 0 {
            let taken = if self.low_is_next() { self.take_low(now) } else { self.take_classic() };
            if let Some(packet) = taken {
                self.accounting.taken(packet.bytes);
                return Some(packet);
            }
        }
        self.reset_credit();
        None
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
    use crate::Ecn;

    fn queue() -> DualPi2<u64> {
        DualPi2::new(Config::default(), &Bottleneck { limit_bytes: 1 << 30, bits_per_s: 1, seed: 0 })
    }

    fn packet(ecn: Ecn, index: u64) -> Packet<u64> {
        Packet { ecn, ..Packet::new(1000, 0, index) }
    }

    #[test]
    fn constants_are_those_of_rfc_9332_figure_2() {
        let pi = Controller::new(&Config::default());
        assert_eq!(pi.update, Time::from_ms(15));
        assert!((pi.alpha_hz - 0.15).abs() < 1e-12 && (pi.beta_hz - 3.0).abs() < 1e-12);
    }

    #[test]
    fn the_ramp_is_that_of_figure_5() {
        for (us, packets, expected) in
            [(799, 9, 0.0), (800, 9, 0.0), (1000, 9, 0.5), (1200, 9, 1.0), (5000, 1, 0.0)]
        {
            assert_eq!(queue().ramp(Time::from_us(us), packets), expected, "{us} us, {packets} packets");
        }
    }

    /// Of 10,000 packets that wait alone: how many were marked, and how many dropped, at this p.
    fn signals(ecn: Ecn, p: f64) -> (u64, u64) {
        let mut queue = queue();
        queue.pi.next = Time::MAX;
        queue.pi.p = p;
        for i in 0..10_000 {
            queue.offer(packet(ecn, i), Time::ZERO);
            queue.take(Time::ZERO);
        }
        (queue.counters().marked, queue.counters().dropped_packets())
    }

    #[test]
    fn signals_are_coupled_by_the_square() {
        for (ecn, p, expected) in [
            (Ecn::NotEct, 0.1, (0, 99)),
            (Ecn::Ect0, 0.1, (99, 0)),
            (Ecn::Ect1, 0.1, (1999, 0)),
            (Ecn::NotEct, 0.4, (0, 1599)),
            (Ecn::Ect1, 0.4, (7999, 0)),
            // overload: 25 % is the most that is marked in the classic queue, and the other one drops, too
            (Ecn::Ect0, 0.5, (0, 2499)),
            (Ecn::Ect1, 0.75, (4375, 5624)),
        ] {
            let (marked, dropped) = signals(ecn, p);
            let near = |got: u64, expected: u64| got.abs_diff(expected) <= 2;
            let right = near(marked, expected.0) && near(dropped, expected.1);
            assert!(right, "{ecn:?} at {p}: {marked} marked, {dropped} dropped");
        }
    }

    #[test]
    fn the_classic_queue_gets_a_sixteenth_while_both_wait() {
        let mut queue = queue();
        for i in 0..320 {
            queue.offer(packet(Ecn::Ect1, i), Time::ZERO);
            queue.offer(packet(Ecn::Ect0, i), Time::ZERO);
        }
        let classic =
            (0..192).filter_map(|_| queue.take(Time::ZERO)).skip(32).filter(|packet| packet.ecn == Ecn::Ect0);
        assert_eq!(classic.count(), 10);
    }
}
