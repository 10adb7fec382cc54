//! A rate: when the next packet may be sent, to the billionth of a second, so that the long-term rate is exact.
//!
//! ```text
//! open at `free_ns`; a packet moves that by its bytes / rate. A gate that was not used has a burst of 1 ms and one packet;
//! one that had to wait catches up 10 ms, so that a thread that is late loses no rate
//! ```

/// What a gate that was idle may send at once, ns of its rate, beside one packet.
const IDLE_NS: u64 = 1_000_000;
/// How much of its rate a gate makes good if its packets had to wait, ns.
const LATE_NS: u64 = 10_000_000;
/// Costs are in 2^-20 ns.
const FRACTION: u32 = 20;
/// The smallest rate has this cost for a byte: 30 bits/s.
const MOST_COST: u64 = 1 << 48;
/// A packet has fewer bytes.
pub(super) const MOST_BYTES: u32 = 1 << 15;

/// A rate and the time of its next packet.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Gate {
    /// 2^-20 ns for a byte; 0: no limit.
    cost: u64,
    /// A packet may be sent from then on, ns.
    free_ns: u64,
    fraction: u32,
    /// Packets had to wait for it.
    pub(super) has_waited: bool,
}

impl Gate {
    /// A gate that is open; 0 bits/s: no limit.
    pub(super) fn new(bits_per_s: u64) -> Gate {
        Gate { cost: cost(bits_per_s), ..Gate::default() }
    }

    /// Another rate: what is left to wait for is waited for at the new rate.
    pub(super) fn set_rate(&mut self, bits_per_s: u64, now_ns: u64) {
        let new = cost(bits_per_s);
        if new == self.cost {
            return;
        }
        let rest = u128::from(self.free_ns.saturating_sub(now_ns));
        if rest > 0 {
            self.free_ns = now_ns + (rest * u128::from(new) / u128::from(self.cost.max(1))) as u64;
        }
        (self.cost, self.fraction) = (new, 0);
    }

    #[inline]
    pub(super) fn is_open(&self, now_ns: u64) -> bool {
        self.free_ns <= now_ns
    }

    #[inline]
    pub(super) fn has_limit(&self) -> bool {
        self.cost != 0
    }

    /// When it is open.
    #[inline]
    pub(super) fn free_ns(&self) -> u64 {
        self.free_ns
    }

    /// A packet of so many bytes is sent.
    #[inline]
    pub(super) fn charge(&mut self, bytes: u32, now_ns: u64) {
        let floor = now_ns.saturating_sub(if self.has_waited { LATE_NS } else { IDLE_NS });
        if self.free_ns < floor {
            (self.free_ns, self.fraction) = (floor, 0);
        }
        if self.cost == 0 {
            self.free_ns = now_ns;
            return;
        }
        let cost = self.cost * u64::from(bytes.min(MOST_BYTES)) + u64::from(self.fraction);
        self.free_ns += cost >> FRACTION;
        self.fraction = cost as u32 & ((1 << FRACTION) - 1);
    }

    /// Time of so many bytes, ns; 0 without a limit.
    #[inline]
    pub(super) fn time_ns(&self, bytes: u32) -> u64 {
        (self.cost * u64::from(bytes.min(MOST_BYTES))) >> FRACTION
    }
}

fn cost(bits_per_s: u64) -> u64 {
    if bits_per_s == 0 {
        return 0;
    }
    (((8_000_000_000_u128 << FRACTION) / u128::from(bits_per_s)) as u64).clamp(1, MOST_COST)
}
