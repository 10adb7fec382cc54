//! PVPIE: PIE says how much is dropped, the values of recent arrivals say what.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::histogram::Histogram;
use crate::accounting::{Accounting, Reason};
use crate::buffer::Buffer;
use crate::packet::Packet;
use crate::pie::{self, Controller};
use crate::time::Time;
use crate::{Bottleneck, ConfigError, Queue};

/// What can be set of PVPIE; the defaults are those of its ns-3 model.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PvPieConfig {
    /// The controller; only its probability is used.
    pub pie: pie::Config,
    /// Arrivals of this time are compared.
    #[serde(rename = "window_s")]
    pub window: Time,
}

impl Default for PvPieConfig {
    fn default() -> PvPieConfig {
        let pie = pie::Config {
            target: Time::from_ms(20),
            update: Time::from_ms(30),
            burst: Time::from_ms(100),
            ..pie::Config::basic()
        };
        PvPieConfig { pie, window: Time::from_s(1) }
    }
}

impl PvPieConfig {
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        self.pie.check()
    }
}

/// Arrivals of a window.
#[derive(Debug)]
pub(super) struct Window {
    length: Time,
    arrivals: VecDeque<(Time, u16, u32)>,
    histogram: Histogram,
}

impl Window {
    pub(super) fn new(length: Time) -> Window {
        Window { length, arrivals: VecDeque::new(), histogram: Histogram::new() }
    }

    pub(super) fn add<T>(&mut self, packet: &Packet<T>) {
        self.arrivals.push_back((packet.arrival, packet.value, packet.bytes));
        self.histogram.add(packet.value, packet.bytes);
    }

    /// The arrivals after `now` - length.
    pub(super) fn histogram(&mut self, now: Time) -> &Histogram {
        while let Some(&(at, value, bytes)) = self.arrivals.front() {
            if at + self.length > now {
                break;
            }
            self.arrivals.pop_front();
            self.histogram.remove(value, bytes);
        }
        &self.histogram
    }
}

/// A FIFO that drops arrivals below a value that follows from PIE.
#[derive(Debug)]
pub struct PvPie<T> {
    limit_bytes: u64,
    controller: Controller,
    window: Window,
    threshold: u16,
    buffer: Buffer<T>,
    accounting: Accounting<T>,
}

impl<T> PvPie<T> {
    /// An empty queue.
    pub fn new(config: PvPieConfig, at: &Bottleneck) -> PvPie<T> {
        PvPie {
            limit_bytes: at.limit_bytes,
            controller: Controller::new(config.pie, at.limit_bytes, at.seed),
            window: Window::new(config.window),
            threshold: 0,
            buffer: Buffer::new(),
            accounting: Accounting::new(),
        }
    }

    /// The threshold is the p-quantile, by bytes, of the values in the window; it follows each step of PIE.
    fn advance(&mut self, now: Time) {
        if self.controller.advance(self.buffer.bytes(), now) {
            let p = self.controller.probability();
            let histogram = self.window.histogram(now);
            self.threshold = if p > 0.0 { histogram.threshold(p * histogram.total() as f64) } else { 0 };
        }
    }
}

impl<T> Queue<T> for PvPie<T> {
    fn offer(&mut self, mut packet: Packet<T>, now: Time) {
        packet.arrival = now;
        self.accounting.offered(packet.bytes);
        self.advance(now);
        self.window.add(&packet);
        if packet.value < self.threshold && !packet.ecn.capable() {
            return self.accounting.reject(packet, Reason::Value);
        }
        if self.buffer.bytes() + u64::from(packet.bytes) > self.limit_bytes {
            return self.accounting.reject(packet, Reason::Overflow);
        }
        if packet.value < self.threshold {
            self.accounting.mark(&mut packet);
        }
        self.accounting.queued(packet.bytes);
        self.buffer.push(packet);
    }

    fn take(&mut self, now: Time) -> Option<Packet<T>> {
        self.advance(now);
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
