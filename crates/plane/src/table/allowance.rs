//! How often something may happen.

use crate::time::Time;

/// So many times at once, and again by the rate (the virtual scheduling algorithm of ITU-T I.371).
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Allowance {
    /// Time at which all would be allowed again, ns.
    due_ns: u64,
}

impl Allowance {
    /// Whether it may happen once more now, with `burst` at a time and one more every `interval_ns`.
    pub(crate) fn once_more(&mut self, now: Time, interval_ns: u64, burst: u64) -> bool {
        let due_ns = self.due_ns.max(now.ns());
        let may = due_ns - now.ns() <= interval_ns * burst.saturating_sub(1);
        if may {
            self.due_ns = due_ns + interval_ns;
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allowance_is_a_burst_and_a_rate() {
        let mut allowance = Allowance::default();
        let mut count =
            |ms| (0..100).filter(|_| allowance.once_more(Time::from_ms(ms), 100_000_000, 10)).count();
        assert_eq!([count(0), count(1), count(100), count(350), count(10_000)], [10, 0, 1, 2, 10]);
    }
}
