//! The recipients of the message, spread over domains; a few domains have most of them.

use serde::{Deserialize, Serialize};

/// One message to many recipients. Those of a domain have consecutive numbers, the largest domain the first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Recipients, as many as domains at least.
    pub recipients: u64,
    /// Domains, at least 1.
    pub domains: u32,
    /// Exponent of the distribution of recipients over domains (Zipf): 0 is even; 1 is what user lists are like, where the
    /// largest of 9,113 domains has a tenth of all.
    pub skew: f64,
}

impl Job {
    /// Recipients of each domain, the largest first; each has one at least.
    pub fn sizes(&self) -> Vec<u64> {
        let weights: Vec<f64> = (1..=self.domains).map(|rank| f64::from(rank).powf(-self.skew)).collect();
        let (sum, spare) = (weights.iter().sum::<f64>(), self.recipients.saturating_sub(self.domains.into()));
        let mut sizes: Vec<u64> = weights.iter().map(|w| 1 + (w / sum * spare as f64) as u64).collect();
        // What rounding has left over.
        let given: u64 = sizes.iter().sum();
        sizes.iter_mut().take(self.recipients.saturating_sub(given) as usize).for_each(|size| *size += 1);
        sizes
    }

    /// Another job, or the same one to another server, has another one: an outcome log belongs to one.
    pub(crate) fn fingerprint(&self, to: &str) -> u32 {
        crc32fast::hash(format!("{} {} {} {to}", self.recipients, self.domains, self.skew).as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_domain_has_recipients_and_none_is_left_over() {
        for (recipients, domains, skew, largest) in [
            (200_000, 9_113, 1.0, 19_600..19_800),
            (10, 3, 0.0, 4..5),
            (3, 3, 1.0, 1..2),
            (1000, 1, 2.0, 1000..1001),
        ] {
            let sizes = Job { recipients, domains, skew }.sizes();
            assert_eq!((sizes.len(), sizes.iter().sum::<u64>()), (domains as usize, recipients), "{skew}");
            assert!(sizes.is_sorted_by(|a, b| a >= b) && sizes.iter().all(|size| *size > 0));
            assert!(largest.contains(&sizes[0]), "{} of {recipients}", sizes[0]);
        }
    }
}
