//! What is left to tell of stages that are no more.

use crate::filter::{Logged, MOST_LOGGED};
use crate::nat::Event;

/// What is left to tell of stages that went.
#[derive(Debug, Default)]
pub struct Past {
    /// What the log of NAT gets: what happened until then, and the end of all that lived.
    pub events: Vec<Event>,
    /// Events that there was no room for, ever.
    pub lost: u64,
    /// Frames that rules have written down; as in a filter, older ones are forgotten.
    pub logged: Vec<Logged>,
}

/// Events that nobody has asked for yet, at most.
const MOST_EVENTS: usize = 1 << 20;

impl Past {
    /// What is left to tell of more stages that went.
    pub fn add(&mut self, mut other: Past) {
        let room = MOST_EVENTS.saturating_sub(self.events.len());
        self.lost += other.lost + other.events.len().saturating_sub(room) as u64;
        other.events.truncate(room);
        self.events.append(&mut other.events);
        self.logged.append(&mut other.logged);
        self.logged.drain(..self.logged.len().saturating_sub(MOST_LOGGED));
    }

    /// Events since the last call, and how many there was no room for, ever.
    pub fn events(&mut self) -> (Vec<Event>, u64) {
        (std::mem::take(&mut self.events), self.lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nat::EventKind;
    use crate::time::Time;

    #[test]
    fn a_past_that_nobody_asks_for_has_an_end() {
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
        let of = |events: usize, ms: u64| Past {
            events: vec![event; events],
            lost: 1,
            logged: (ms..ms + 700).map(logged).collect(),
        };
        let mut past = of(MOST_EVENTS - 2, 0);
        past.add(of(5, 700));
        assert_eq!((past.logged.len(), past.logged[0].time), (MOST_LOGGED, Time::from_ms(376)));
        let (events, lost) = past.events();
        assert_eq!((events.len(), lost), (MOST_EVENTS, 1 + 1 + 3));
        assert_eq!((past.events().0.len(), past.lost), (0, 5), "how many is reported for good");
    }
}
