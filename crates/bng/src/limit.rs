//! Limits of messages from devices: a token bucket for each source, in a table of fixed size.
//!
//! A source without a bucket replaces the fullest of the four buckets that its hash selects, and inherits its level. So made-up sources share buckets with each other, and a source that was just refused is not forgotten.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

/// Buckets that a source may be in.
const WAYS: usize = 4;
/// Groups of buckets.
const GROUPS: usize = 16_384;

/// A limit: messages per second, above 0, and how many at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// Messages per second.
    pub per_s: u32,
    /// Messages at once.
    pub burst: u32,
}

/// A bucket as a virtual schedule (GCRA, ITU-T I.371): the time at which it is full again.
#[derive(Debug, Clone, Copy, Default)]
struct Bucket {
    source: u64,
    full_ns: u64,
}

/// The buckets of all sources.
#[derive(Debug)]
pub(crate) struct Limiter {
    seed: u64,
    groups: Box<[[Bucket; WAYS]]>,
}

impl Limiter {
    /// Full buckets; `seed` decides which sources share them, and should be secret.
    pub(crate) fn new(seed: u64) -> Limiter {
        Limiter { seed, groups: vec![[Bucket::default(); WAYS]; GROUPS].into() }
    }

    /// Takes a token of a source; false: it has none.
    pub(crate) fn takes(&mut self, now: Duration, source: &impl Hash, limit: Limit) -> bool {
        let mut hasher = DefaultHasher::new();
        (self.seed, source).hash(&mut hasher);
        let source = hasher.finish();
        let group = &mut self.groups[(source % GROUPS as u64) as usize];
        let place = group.iter().position(|bucket| bucket.source == source);
        // The fullest one is the one that is full first.
        let fullest = || (0..WAYS).min_by_key(|&at| group[at].full_ns).unwrap_or(0);
        let bucket = &mut group[place.unwrap_or_else(fullest)];
        bucket.source = source;
        let now_ns = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        let interval_ns = 1_000_000_000 / u64::from(limit.per_s.max(1));
        let full_ns = bucket.full_ns.max(now_ns).saturating_add(interval_ns);
        let is_allowed = full_ns - now_ns <= interval_ns * u64::from(limit.burst.max(1));
        if is_allowed {
            bucket.full_ns = full_ns;
        }
        is_allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Limit = Limit { per_s: 10, burst: 3 };

    fn taken(limiter: &mut Limiter, ms: u64, source: u32, times: u32) -> usize {
        (0..times).filter(|_| limiter.takes(Duration::from_millis(ms), &source, LIMIT)).count()
    }

    #[test]
    fn a_burst_passes_and_then_what_the_rate_grants() {
        let mut limiter = Limiter::new(1);
        for (ms, source, times, passed) in
            [(0, 1, 9, 3), (99, 1, 9, 0), (100, 1, 9, 1), (100, 2, 9, 3), (250, 1, 9, 1), (9000, 1, 9, 3)]
        {
            assert_eq!(taken(&mut limiter, ms, source, times), passed, "{ms} ms, source {source}");
        }
    }

    #[test]
    fn made_up_sources_neither_grow_the_table_nor_refill_a_bucket() {
        let mut limiter = Limiter::new(1);
        assert_eq!(taken(&mut limiter, 0, 7, 9), 3);
        let passed: usize = (1000..301_000).map(|source| taken(&mut limiter, 1, source, 1)).sum();
        let most = GROUPS * WAYS * 3;
        assert!(passed <= most, "{passed} of 300000 pass, there is room for {most}");
        assert_eq!(taken(&mut limiter, 2, 7, 9), 0);
    }
}
