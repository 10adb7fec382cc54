//! Access ports that have lost their links: the sessions of their subscribers stay for the grace, then the node ends them, also while no
//! control program is attached.
//!
//! ```text
//!  no carrier --- grace ---> sessions are removed, an event for each; asked for later by `ended_subscribers`
//!        \--- carrier: nothing has happened
//! ```

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::{Duration, Instant};

use weir_plane::PortId;

/// Interval between two looks at the links.
const LOOK: Duration = Duration::from_millis(500);
/// Ended sessions that are remembered, as many as their counters are; one more displaces the oldest.
const MOST_ENDED: usize = 65_536;

/// What is known of the links of access ports.
#[derive(Debug, Default)]
pub(crate) struct Grace {
    looked: Option<Instant>,
    /// Access ports without a link, and when that was first seen.
    lost: HashMap<PortId, Instant>,
    ended: BTreeSet<u64>,
    /// The same, the oldest first.
    order: VecDeque<u64>,
}

impl Grace {
    /// Whether it is time to look at the links.
    pub(crate) fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self.looked.is_none_or(|looked| now.duration_since(looked) >= LOOK);
        if is_due {
            self.looked = Some(now);
        }
        is_due
    }

    /// Takes whether each access port has its link; returns the ports that have had none for the grace.
    pub(crate) fn passed(&mut self, now: Instant, grace: Duration, links: &[(PortId, bool)]) -> Vec<PortId> {
        let is_down = |port: &PortId| links.contains(&(*port, false));
        self.lost.retain(|port, _| is_down(port));
        let mut passed = Vec::new();
        for (port, _) in links.iter().filter(|(_, has_link)| !has_link) {
            let lost = *self.lost.entry(*port).or_insert(now);
            if now.duration_since(lost) >= grace {
                passed.push(*port);
            }
        }
        passed
    }

    pub(crate) fn note(&mut self, ended: &[u64]) {
        for session in ended {
            if self.ended.insert(*session) {
                self.order.push_back(*session);
            }
        }
        while self.order.len() > MOST_ENDED
            && let Some(oldest) = self.order.pop_front()
        {
            self.ended.remove(&oldest);
        }
    }

    /// Ended sessions with larger numbers than this one.
    pub(crate) fn ended_after(&self, session: Option<u64>) -> impl Iterator<Item = u64> {
        let first = session.map_or(Some(0), |session| session.checked_add(1));
        first.into_iter().flat_map(|first| self.ended.range(first..).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_without_a_link_has_its_grace_once() {
        let (begin, ports) = (Instant::now(), [PortId(1), PortId(2)]);
        let mut grace = Grace::default();
        for (at_s, links, expected) in [
            (0, [true, true], &[][..]),
            (1, [false, true], &[]),
            (60, [false, true], &[]),
            // The link is there again in time.
            (61, [true, true], &[]),
            (62, [false, false], &[]),
            (121, [false, false], &[]),
            (122, [false, false], &[PortId(1), PortId(2)]),
            // Sessions that were added meanwhile have no other grace.
            (123, [false, true], &[PortId(1)]),
            (124, [true, true], &[]),
        ] {
            let now = begin + Duration::from_secs(at_s);
            let links: Vec<_> = ports.into_iter().zip(links).collect();
            assert_eq!(grace.passed(now, Duration::from_secs(60), &links), expected, "at {at_s} s");
        }
        // A port that another text has removed.
        assert!(grace.passed(begin, Duration::ZERO, &[]).is_empty() && grace.lost.is_empty());
    }

    #[test]
    fn the_last_ended_sessions_are_remembered() {
        let mut grace = Grace::default();
        let all: Vec<u64> = (1..=MOST_ENDED as u64 + 2).collect();
        grace.note(&all);
        grace.note(&all[10..20]);
        let known: Vec<u64> = grace.ended_after(None).collect();
        assert_eq!((known.len(), known[0]), (MOST_ENDED, 3));
        assert_eq!(grace.ended_after(Some(MOST_ENDED as u64)).collect::<Vec<_>>(), all[MOST_ENDED..]);
        assert_eq!(grace.ended_after(Some(u64::MAX)).count(), 0);
    }
}
