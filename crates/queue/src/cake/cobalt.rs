//! COBALT, CAKE's AQM: CoDel with a count that decays step by step, and BLUE for flows that do not respond.
//!
//! The law of one flow, apart from its packets: it judges each packet at the head of the flow, wherever the packets are. The
//! owner of the packets marks and drops them, and never drops the last one of a flow.

use crate::time::Time;

/// Step up of BLUE's probability, at most once in a target.
const UP: f64 = 1.0 / 256.0;
/// Step down, likewise.
const DOWN: f64 = 1.0 / 4096.0;

/// Times of one link.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    pub(super) target: Time,
    pub(super) interval: Time,
    mtu: Time,
}

impl Times {
    /// Target and interval grow where a packet takes long: at least one and a half packets, and two targets. `mtu` is the time of
    /// the longest packet on the link.
    pub fn new(target: Time, interval: Time, mtu: Time) -> Times {
        let longer = target.max(Time::from_ps(mtu.ps().saturating_mul(3) / 2));
        Times { target: longer, interval: (interval + longer - target).max(longer * 2), mtu }
    }
}

/// A packet at the head of its flow.
#[derive(Debug, Clone, Copy)]
pub struct Head {
    /// How long it has waited.
    pub sojourn: Time,
    /// Its endpoints know ECN.
    pub is_ect: bool,
}

/// What happens to a packet that leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It leaves as it is.
    Keep,
    /// It leaves with CE.
    Mark,
    /// It is dropped by CoDel's law.
    DropSojourn,
    /// It is dropped by the probability of BLUE.
    DropBlue {
        /// If it is the last one of its flow, it leaves with CE.
        is_marked: bool,
    },
}

/// The state of one flow, in 32 bytes.
#[derive(Debug, Clone, Default)]
pub struct Cobalt {
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
    pub fn overflowed(&mut self, times: &Times, now: Time) {
        if now - self.blue_changed > times.target {
            self.blue = (self.blue + UP).min(1.0);
            self.blue_changed = now;
        }
        self.dropping = true;
        self.drop_next = now;
        self.count = self.count.max(1);
    }

    /// The flow was found empty.
    pub fn emptied(&mut self, times: &Times, now: Time) {
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
    pub fn rests(&self, now: Time) -> bool {
        self.blue == 0.0 && self.count == 0 && now >= self.drop_next
    }

    /// Judges the packet at the head. `unit` is a random number from 0 to 1, which BLUE asks for; BLUE ignores ECN.
    pub fn judge(&mut self, head: Head, times: &Times, now: Time, unit: impl FnOnce() -> f64) -> Verdict {
        let over = head.sojourn > times.target && head.sojourn > times.mtu * 4;
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
            verdict = if head.is_ect { Verdict::Mark } else { Verdict::DropSojourn };
            self.count = self.count.saturating_add(1);
            self.drop_next = self.law(self.drop_next, times);
        } else if due {
            while self.count > 0 && now >= self.drop_next {
                self.count -= 1;
                self.drop_next = self.law(self.drop_next, times);
            }
        }
        if self.blue > 0.0 && unit() < self.blue {
            verdict = Verdict::DropBlue { is_marked: verdict == Verdict::Mark };
        }
        if self.count == 0 {
            // how long the state is remembered
            self.drop_next = now + times.interval;
        } else if now > self.drop_next && matches!(verdict, Verdict::Keep | Verdict::Mark) {
            self.drop_next = now;
        }
        verdict
    }

    /// Whether nothing is to be remembered of the flow.
    pub fn is_calm(&self) -> bool {
        self.blue == 0.0 && self.count == 0
    }

    /// The clock of the owner began anew, so much later.
    pub fn rebase(&mut self, by: Time) {
        self.drop_next = self.drop_next - by;
        self.blue_changed = self.blue_changed - by;
    }
}
