//! What stages that were removed have logged, and the caller has not read yet.

use crate::filter::{Filter, Logged, MOST_LOGGED};
use crate::nat::{Event, Nat};
use crate::stages::{OneOf, Stage};
use crate::time::Time;

/// Log entries of stages that were removed, until the caller reads them.
#[derive(Debug, Default)]
pub struct UnreadLog {
    /// NAT events: those that were not read yet, and the end of all sessions and blocks.
    pub events: Vec<Event>,
    /// Events that were dropped since the start because the log was full.
    pub lost: u64,
    /// Packets that filter rules have logged; as in a filter, older ones are forgotten.
    pub logged: Vec<Logged>,
}

/// Events that wait for the caller, at most.
const MOST_EVENTS: usize = 1 << 20;

impl UnreadLog {
    /// Adds the log of more stages that were removed.
    pub fn add(&mut self, mut other: UnreadLog) {
        let room = MOST_EVENTS.saturating_sub(self.events.len());
        self.lost += other.lost + other.events.len().saturating_sub(room) as u64;
        other.events.truncate(room);
        self.events.append(&mut other.events);
        self.logged.append(&mut other.logged);
        self.logged.drain(..self.logged.len().saturating_sub(MOST_LOGGED));
    }

    /// Adds what a stage has logged that was removed at this time. It takes its time.
    pub(crate) fn add_ended(&mut self, stage: &mut Stage, removed: Time) {
        if let Some(filter) = Filter::of_mut(stage) {
            self.logged.extend(filter.logged());
        }
        if let Some(nat) = Nat::of_mut(stage) {
            let (events, lost) = nat.table.end_all(removed);
            self.events.extend(events);
            self.lost += lost;
        }
    }

    /// The events since the last call, and how many were dropped since the start because the log was full.
    pub fn events(&mut self) -> (Vec<Event>, u64) {
        (std::mem::take(&mut self.events), self.lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nat::EventKind;

    #[test]
    fn a_log_that_is_not_read_is_bounded() {
        let event = Event {
            at: Time::default(),
            kind: EventKind::BlockReleased,
            inside: [0; 4],
            outside: 1,
            ports: (1, 1),
            proto: 0,
        };
        let logged =
            |n| Logged { time: Time::from_ms(n), rule: String::new(), ether_type: 0, packet: Vec::new() };
        let of = |events: usize, ms: u64| UnreadLog {
            events: vec![event; events],
            lost: 1,
            logged: (ms..ms + 700).map(logged).collect(),
        };
        let mut log = of(MOST_EVENTS - 2, 0);
        log.add(of(5, 700));
        assert_eq!((log.logged.len(), log.logged[0].time), (MOST_LOGGED, Time::from_ms(376)));
        let (events, lost) = log.events();
        assert_eq!((events.len(), lost), (MOST_EVENTS, 1 + 1 + 3));
        assert_eq!((log.events().0.len(), log.lost), (0, 5), "how many is reported for good");
    }
}
