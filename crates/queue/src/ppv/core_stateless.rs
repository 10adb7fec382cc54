//! A core-stateless AQM: the congestion threshold is the lowest value for which the kept bytes fit into the link.
//!
//! The paper (Laki, Gombos, Hudoba, Nádas, Kiss, Pongrácz, Keszei, ANRW 2018) does not print its control law. This one is
//! ours: each step sets the lowest threshold at which what arrived in the window, at the same rate again, fills the link
//! and brings the backlog to the target within the window. Below it packets are marked or dropped; the lowest
//! value makes room when the buffer is full.

use serde::{Deserialize, Serialize};

use super::histogram::level;
use super::pvpie::Window;
use super::store::Store;
use crate::accounting::{Accounting, Reason};
use crate::packet::Packet;
use crate::time::Time;
use crate::{Bottleneck, ConfigError, Queue};

/// What can be set of the core-stateless AQM.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CoreStatelessConfig {
    /// Delay that is aimed at.
    #[serde(rename = "target_s")]
    pub target: Time,
    /// Time between two thresholds.
    #[serde(rename = "update_s")]
    pub update: Time,
    /// Arrivals of this time are looked at.
    #[serde(rename = "window_s")]
    pub window: Time,
}

impl Default for CoreStatelessConfig {
    fn default() -> CoreStatelessConfig {
        CoreStatelessConfig { target: Time::from_ms(5), update: Time::from_ms(5), window: Time::from_ms(50) }
    }
}

impl CoreStatelessConfig {
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        if self.update < Time::from_us(1) || self.window < self.update {
            return Err(ConfigError(
                "core-stateless: update_s must be 1e-6 or more, window_s no shorter".into(),
            ));
        }
        Ok(())
    }
}

/// A FIFO with a congestion threshold.
#[derive(Debug)]
pub struct CoreStateless<T> {
    config: CoreStatelessConfig,
    limit_bytes: u64,
    bytes_per_s: f64,
    window: Window,
    threshold: u16,
    next: Time,
    store: Store<T>,
    accounting: Accounting<T>,
}

impl<T> CoreStateless<T> {
    /// An empty queue.
    pub fn new(config: CoreStatelessConfig, at: &Bottleneck) -> CoreStateless<T> {
        CoreStateless {
            limit_bytes: at.limit_bytes,
            bytes_per_s: at.bits_per_s as f64 / 8.0,
            window: Window::new(config.window),
            threshold: 0,
            next: config.update,
            store: Store::new(),
            accounting: Accounting::new(),
            config,
        }
    }

    fn advance(&mut self, now: Time) {
        if now < self.next {
            return;
        }
        let update = self.config.update.ps();
        self.next = Time::from_ps((now.ps() / update + 1) * update);
        let room = self.bytes_per_s * (self.config.window.secs() + self.config.target.secs())
            - self.accounting.backlog.bytes as f64;
        let histogram = self.window.histogram(now);
        let excess = histogram.total() as f64 - room;
        self.threshold = if excess > 0.0 { histogram.threshold(excess) } else { 0 };
    }

    fn fits(&self, bytes: u32) -> bool {
        self.accounting.backlog.bytes + u64::from(bytes) <= self.limit_bytes
    }
}

impl<T> Queue<T> for CoreStateless<T> {
    fn offer(&mut self, mut packet: Packet<T>, now: Time) {
        packet.arrival = now;
        self.accounting.offered(packet.bytes);
        self.advance(now);
        self.window.add(&packet);
        let below = packet.value < self.threshold;
        if below && !packet.ecn.capable() {
            return self.accounting.reject(packet, Reason::Value);
        }
        while !self.fits(packet.bytes) {
            let lower = self.store.lowest().is_some_and(|lowest| lowest < level(packet.value));
            if !lower || u64::from(packet.bytes) > self.limit_bytes {
                return self.accounting.reject(packet, Reason::Overflow);
            }
            if let Some(evicted) = self.store.pop_lowest() {
                self.accounting.remove(evicted, Reason::Evicted);
            }
        }
        if below {
            self.accounting.mark(&mut packet);
        }
        self.accounting.queued(packet.bytes);
        self.store.push(packet);
    }

    fn take(&mut self, now: Time) -> Option<Packet<T>> {
        self.advance(now);
        let packet = self.store.pop()?;
        self.accounting.taken(packet.bytes);
        Some(packet)
    }

    fn accounting(&self) -> &Accounting<T> {
        &self.accounting
    }

    fn accounting_mut(&mut self) -> &mut Accounting<T> {
        &mut self.accounting
    }
}
