//! COBALT, CAKE's AQM: CoDel with a count that decays step by step, and BLUE for flows that do not respond.

use weir_rng::Rng;

use crate::accounting::Accounting;
use crate::packet::Packet;
use crate::time::Time;

/// Step up of BLUE's probability, at most once in a target.
const UP: f64 = 1.0 / 256.0;
/// Step down, likewise.
const DOWN: f64 = 1.0 / 4096.0;

/// Times of one link.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    pub(crate) target: Time,
    pub(crate) interval: Time,
    pub(crate) mtu: Time,
}

impl Times {
    /// Target and interval grow where a packet takes long: at least one and a half packets, and two targets.
    pub(crate) fn new(target: Time, interval: Time, mtu: Time) -> Times {
        let longer = target.max(Time::from_ps(mtu.ps().saturating_mul(3) / 2));
        Times { target: longer, interval: (interval + longer - target).max(longer * 2), mtu }
    }
}

/// What happens to a packet that leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Keep,
    DropSojourn,
    DropBlue,
}

/// The state of one flow.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cobalt {
    count: u32,
    dropping: bool,
    drop_next: Time,
    blue: f64,
    blue_changed: Time,
}

impl Cobalt {
    fn law(&self, from: Time, times: &Times) -> Time {
        from + Time::from_ps((times.interval.ps() as f64 / f64::from(self.count.max(1)).sqrt()) as u64)
    }

    /// The buffer overflowed, and this flow was the largest.
    pub(crate) fn overflowed(&mut self, times: &Times, now: Time) {
        if now - self.blue_changed > times.target {
            self.blue = (self.blue + UP).min(1.0);
            self.blue_changed = now;
        }
        self.dropping = true;
        self.drop_next = now;
        self.count = self.count.max(1);
    }

    /// The flow was found empty.
    pub(crate) fn emptied(&mut self, times: &Times, now: Time) {
        if self.blue > 0.0 && now - self.blue_changed > times.target {
            self.blue = (self.blue - DOWN).max(0.0);
            self.blue_changed = now;
        }
        self.dropping = false;
        if self.count > 0 && now >= self.drop_next {
            self.count -= 1;
            self.drop_next = self.law(self.drop_next, times);
        }
    }

    /// Whether the state has decayed to that of a new flow.
    pub(crate) fn rests(&self, now: Time) -> bool {
        self.blue == 0.0 && self.count == 0 && now >= self.drop_next
    }

    /// Judges a packet at the head; marks it instead of a drop if it knows ECN. BLUE ignores ECN.
    pub(crate) fn judge<T>(
        &mut self,
        packet: &mut Packet<T>,
        times: &Times,
        now: Time,
        accounting: &mut Accounting<T>,
        rng: &mut Rng,
    ) -> Verdict {
        let sojourn = now - packet.arrival;
        let over = sojourn > times.target && sojourn > times.mtu * 4;
        let due = self.count > 0 && now >= self.drop_next;
        if over {
            if !self.dropping {
                self.dropping = true;
                self.drop_next = self.law(now, times);
            }
            self.count = self.count.max(1);
        } else {
            self.dropping = false;
        }
        let mut verdict = Verdict::Keep;
        if due && self.dropping {
            if !accounting.mark(packet) {
                verdict = Verdict::DropSojourn;
            }
            self.count = self.count.saturating_add(1);
            self.drop_next = self.law(self.drop_next, times);
        } else if due {
            while self.count > 0 && now >= self.drop_next {
                self.count -= 1;
                self.drop_next = self.law(self.drop_next, times);
            }
        }
        if self.blue > 0.0 && rng.unit() < self.blue {
            verdict = Verdict::DropBlue;
        }
        if self.count == 0 {
            // how long the state is remembered
            self.drop_next = now + times.interval;
        } else if now > self.drop_next && verdict == Verdict::Keep {
            self.drop_next = now;
        }
        verdict
    }
}
