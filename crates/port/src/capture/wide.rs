//! Counters of 64 bits that follow those of the kernel, which have 32 and turn over: at 10 M frames/s every 429 s.

/// Follows one counter.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Wide {
    total: u64,
    seen: u32,
}

impl Wide {
    /// The narrow counter is now at `now`, less than one turn further; returns by how much.
    pub(super) fn follow(&mut self, now: u32) -> u64 {
        let step = u64::from(now.wrapping_sub(self.seen));
        (self.total, self.seen) = (self.total + step, now);
        step
    }

    /// All that it has counted.
    pub(super) fn total(self) -> u64 {
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_narrow_counter_may_turn_over() {
        let mut wide = Wide::default();
        let steps = [4_000_000_000, 4_294_967_295, 5, 5, 4_000_000_000, 0].map(|now| wide.follow(now));
        assert_eq!(steps, [4_000_000_000, 294_967_295, 6, 0, 3_999_999_995, 294_967_296]);
        assert_eq!(wide.total(), 2 << 32);
    }
}
