//! The data of the application: everything at any time, or at given rates.

use weir_queue::Time;

/// Segments that are there by a time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Supply {
    /// From when on how many segments/s come; nothing before the first. Empty: there are always more.
    steps: Vec<(Time, f64)>,
}

impl Supply {
    /// `steps` in the order of time.
    pub(crate) fn new(steps: Vec<(Time, f64)>) -> Supply {
        Supply { steps }
    }

    fn total(&self, now: Time) -> f64 {
        let ends = self.steps.iter().skip(1).map(|&(at, _)| at).chain([Time::MAX]);
        self.steps.iter().zip(ends).map(|(&(start, rate), end)| (now.min(end) - start).secs() * rate).sum()
    }

    /// Whether segment `seq` is there.
    pub(crate) fn has(&self, seq: u64, now: Time) -> bool {
        self.steps.is_empty() || self.total(now) >= (seq + 1) as f64
    }

    /// When segment `seq` is there; none: never.
    pub(crate) fn when(&self, seq: u64, now: Time) -> Option<Time> {
        let mut missing = (seq + 1) as f64 - self.total(now);
        let ends = self.steps.iter().skip(1).map(|&(at, _)| at).chain([Time::MAX]);
        for (&(start, rate), end) in self.steps.iter().zip(ends) {
            let from = start.max(now);
            let there = (end - from).secs() * rate;
            if rate > 0.0 && there >= missing {
                // rounded up, so that the segment is there
                return Some(from + Time::from_secs(missing / rate) + Time::from_ns(1));
            }
            missing -= there;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_come_at_the_rates_of_the_steps() {
        // 10/s for a second, none for a second, then 100/s
        let supply = Supply::new(vec![(Time::ZERO, 10.0), (Time::from_s(1), 0.0), (Time::from_s(2), 100.0)]);
        for (seq, expected_ms) in [(0, 100), (9, 1000), (10, 2010), (109, 3000)] {
            let when = supply.when(seq, Time::ZERO).unwrap();
            assert_eq!(when.ns() / 1_000_000, expected_ms, "segment {seq}");
            assert!(supply.has(seq, when) && !supply.has(seq + 1, when));
        }
        assert_eq!(Supply::new(vec![(Time::ZERO, 1.0), (Time::from_s(2), 0.0)]).when(2, Time::ZERO), None);
    }
}
