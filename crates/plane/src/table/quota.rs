//! How often something may happen for each host, and for all of them together.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use super::allowance::Allowance;
use super::secret::Secret;
use super::shares::Host;
use crate::threads::Share;
use crate::time::Time;

/// So many at once, and so many per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rate {
    pub(crate) burst: u64,
    pub(crate) per_s: u64,
}

/// Rates of a quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rates {
    pub(crate) of_host: Rate,
    pub(crate) of_all: Rate,
    /// So many threads share the rate of all.
    pub(crate) threads: u8,
}

impl Rates {
    /// So many per second for all, a quarter of that for a host, and of either this part of a second's at once.
    pub(crate) fn quarters(per_s: u32, at_once: u32, share: Share) -> Rates {
        let rate = |per_s: u64| Rate { burst: per_s.div_ceil(at_once.into()), per_s: per_s.max(1) };
        let per_s = u64::from(per_s);
        Rates { of_host: rate(per_s.div_ceil(4)), of_all: rate(per_s), threads: share.of }
    }
}

const SECOND_NS: u64 = 1_000_000_000;

/// The quotas that hosts and all together have left. Hosts share places by a hash that cannot be predicted from outside.
#[derive(Debug)]
pub(crate) struct Quota {
    secret: Secret,
    rates: Rates,
    all: Allowance,
    hosts: Vec<Allowance>,
}

impl Quota {
    /// All is allowed; the places of hosts, at least one, follow from `seed`.
    pub(crate) fn new(seed: u64, places: usize, rates: Rates) -> Quota {
        Quota {
            secret: Secret::new(seed),
            rates,
            all: Allowance::default(),
            hosts: vec![Allowance::default(); places],
        }
    }

    /// Sets other rates.
    pub(crate) fn set_rates(&mut self, rates: Rates) {
        self.rates = rates;
    }

    /// Whether a host may have one now; if so, it counts.
    pub(crate) fn allows(&mut self, now: Time, Host(host): Host) -> bool {
        let Rates { of_host, of_all, threads } = self.rates;
        let threads = u64::from(threads);
        let place = self.secret.hash(host, 0) as usize % self.hosts.len().max(1);
        // First the host: what it has used up costs others nothing.
        self.hosts
            .get_mut(place)
            .is_some_and(|own| own.once_more(now, SECOND_NS / of_host.per_s, of_host.burst))
            && self.all.once_more(now, SECOND_NS * threads / of_all.per_s, of_all.burst.div_ceil(threads))
    }
}
