//! What sessions had counted when they were removed: the control program asks for it, for the last message of accounting.

use std::collections::{HashMap, VecDeque};

use super::answer::SubscriberCount;
use super::counts::Traffic;

/// Most sessions that are remembered; one more displaces the oldest.
const MOST: usize = 65_536;

/// Sessions that were removed last.
#[derive(Debug, Default)]
pub(super) struct Removed {
    /// From the subscriber, and to it.
    counts: HashMap<u64, [Traffic; 2]>,
    order: VecDeque<u64>,
}

impl Removed {
    /// A session was removed.
    pub(super) fn add(&mut self, session: u64, counts: [Traffic; 2]) {
        if self.counts.insert(session, counts).is_none() {
            self.order.push_back(session);
        }
        if self.order.len() > MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.counts.remove(&oldest);
        }
    }

    /// Those of these sessions that are remembered.
    pub(super) fn of(&self, sessions: &[u64]) -> Vec<SubscriberCount> {
        let one = |session: &u64| {
            let [from, to] = self.counts.get(session)?;
            Some(SubscriberCount {
                session: *session,
                is_dead: false,
                from_frames: from.frames,
                from_bytes: from.bytes,
                to_frames: to.frames,
                to_bytes: to.bytes,
            })
        };
        sessions.iter().filter_map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ones_are_remembered() {
        let mut removed = Removed::default();
        let traffic = |frames| Traffic { frames, bytes: 10 * frames };
        for session in 1..=MOST as u64 + 2 {
            removed.add(session, [traffic(session), traffic(0)]);
        }
        let found = removed.of(&[1, 2, 3, 9]);
        assert_eq!(
            found.iter().map(|one| (one.session, one.from_bytes)).collect::<Vec<_>>(),
            [(3, 30), (9, 90)]
        );
        assert_eq!((removed.counts.len(), removed.order.len()), (MOST, MOST));
    }
}
