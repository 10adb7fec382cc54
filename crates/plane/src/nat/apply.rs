//! Another configuration for a NAT that runs: nothing that lives is lost.
//!
//! | changed | what lives |
//! |---|---|
//! | times, filters, limits | is judged by the new ones from its next frame on |
//! | an address leaves the pool | stays there until it ends; what is new goes elsewhere |
//! | a forward goes | keeps the sessions it has, and takes no new ones |
//! | a forward takes the port of a session | ends: the port was promised to somebody else |

use super::config::{Config, Dependence, Forward};
use super::outside::{Holder, Place, Space};
use super::sessions::Sessions;
use super::slot::{Inside, Kind, Remote, Slot, mapped4};
use super::table::Table;
use crate::table::tcp::Track;
use crate::table::timers::{Ages, Class, Tick};
use crate::time::Time;

/// Slots that a walk for those of a mapping looks at, at a time.
const WALK: u32 = 4096;

/// Another configuration, ready to take; afterwards the old one.
#[derive(Debug)]
pub(crate) struct Change {
    config: Config,
    gone: Vec<u32>,
    come: Vec<u32>,
    forwards_gone: Vec<Forward>,
    forwards_come: Vec<Forward>,
}

impl Change {
    /// What it takes to become `new`, where `old` is what the NAT is.
    ///
    /// # Errors
    /// What cannot be changed while sessions live.
    pub(crate) fn prepare(old: &Config, new: &Config) -> Result<Change, String> {
        if new.deterministic != old.deterministic {
            return Err("deterministic ports change only when the node begins anew".to_string());
        }
        if (&new.ports.ports, new.ports.block) != (&old.ports.ports, old.ports.block) {
            return Err(
                "the ports of a pool and the size of its blocks change only when the node begins anew"
                    .to_string(),
            );
        }
        let all = |config: &Config| -> Vec<u32> {
            config.public.iter().flat_map(|&(first, last)| first..=last).collect()
        };
        let (before, after) = (all(old), all(new));
        let without = |some: &[u32], others: &[u32]| -> Vec<u32> {
            some.iter().copied().filter(|address| others.binary_search(address).is_err()).collect()
        };
        let forwards_without = |some: &Config, others: &Config| -> Vec<Forward> {
            some.forwards.iter().copied().filter(|forward| !others.forwards.contains(forward)).collect()
        };
        Ok(Change {
            gone: without(&before, &after),
            come: without(&after, &before),
            forwards_gone: forwards_without(old, new),
            forwards_come: forwards_without(new, old),
            config: new.clone(),
        })
    }
}

impl Table {
    /// Whether there is room for a change.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn accepts(&self, change: &Change) -> Result<(), String> {
        let new = change.come.len() + change.forwards_come.len();
        match self.outside.len() + new > usize::from(u16::MAX) {
            true => Err("the node had too many public addresses over time: let it begin anew".to_string()),
            false => Ok(()),
        }
    }

    /// Takes another configuration; the old one is left in `change`.
    pub(crate) fn apply(&mut self, now: Time, change: &mut Change) {
        std::mem::swap(&mut self.config, &mut change.config);
        self.pool.apply(&self.config.ports);
        self.ages = Ages::new(&self.config.timeouts);
        self.was_private |= change.config.mapping == Dependence::AddressAndPort;
        self.change_pool(change);
        for &gone in &change.forwards_gone {
            self.awaited.retain(|awaited| *awaited != gone);
            self.retire(now, gone);
        }
        self.await_forwards(change.forwards_come.iter().copied());
        self.place_forwards(now);
    }

    fn change_pool(&mut self, change: &Change) {
        let fixed = self.config.deterministic.as_ref().map_or(0, |deterministic| deterministic.ratio());
        for &address in &change.gone {
            self.pool.withdraw(self.outside.number(address).expect("it was added"));
        }
        for &address in &change.come {
            match self.outside.number(address) {
                Some(number) if self.pool.knows(number) => self.pool.restore(number, fixed),
                Some(number) => self.pool.add_address(number, fixed),
                None => self.pool.add_address(self.outside.add(address), fixed),
            }
        }
    }

    /// From now on these are to be mappings.
    pub(super) fn await_forwards(&mut self, forwards: impl Iterator<Item = Forward>) {
        for forward in forwards {
            if self.outside.number(forward.outside.0).is_none() {
                self.outside.add(forward.outside.0);
            }
            self.awaited.push_back(forward);
        }
    }

    /// Gives mappings that are configured the ends they are to have; whoever has those gives way. A bounded piece of
    /// it: the rest is done by the next calls.
    pub(super) fn place_forwards(&mut self, now: Time) {
        let mut left = WALK;
        while let Some(&forward) = self.awaited.front() {
            let (address, port) = forward.outside;
            let outside = self.outside.number(address).expect("it was added");
            let space = Space::of(forward.proto).expect("TCP or UDP");
            let place = Place { outside, space, port };
            let inside =
                Inside { address: mapped4(forward.inside.0), port: forward.inside.1, proto: forward.proto };
            let mapping = self.sessions.mapping(Sessions::hash(&self.secret, &inside), &inside);
            if !self.evict(now, mapping, &mut left) {
                return;
            }
            if let Holder::Slot(number) = self.outside.holder(place, Tick::of(now))
                && !self.evict(now, number, &mut left)
            {
                return;
            }
            let track = Track::plain(Class::Lasting);
            let mut slot = Slot::new(inside, Kind::Mapping, Remote::default(), track, Tick::of(now));
            (slot.outside, slot.outside_port) = (outside, port);
            let number = self.sessions.insert(&self.secret, slot);
            self.outside.take(place, number);
            self.awaited.pop_front();
        }
    }

    /// Ends a mapping with all its sessions, if so many slots are enough to find them.
    fn evict(&mut self, now: Time, mapping: u32, left: &mut u32) -> bool {
        if mapping == 0 {
            return true;
        }
        let inside = self.sessions[mapping].inside();
        self.sessions[mapping].set_retired();
        // They are found by their remote ends only: a walk over all slots, for who configures so.
        while self.sessions[mapping].dependents > 0 {
            if *left == 0 {
                return false;
            }
            *left -= 1;
            self.walked = if self.walked + 1 < self.sessions.numbers() { self.walked + 1 } else { 1 };
            if self.sessions[self.walked].is(&inside, Kind::Session) {
                self.sessions.remove(&self.secret, self.walked);
                self.leave(mapping);
            }
        }
        let class = self.sessions[mapping].track.class;
        self.remove(now, mapping, class);
        true
    }

    /// A forward that is configured no more.
    fn retire(&mut self, now: Time, forward: Forward) {
        let inside =
            Inside { address: mapped4(forward.inside.0), port: forward.inside.1, proto: forward.proto };
        let mapping = self.sessions.mapping(Sessions::hash(&self.secret, &inside), &inside);
        if mapping != 0 && self.sessions[mapping].is_fixed() {
            self.sessions[mapping].set_retired();
            if self.sessions[mapping].dependents == 0 {
                self.remove(now, mapping, Class::Lasting);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_config::Notes;
    use weir_packet::headers::TCP;

    use super::*;
    use crate::nat::table::Flow;
    use crate::table::tcp::{SYN, Segment};
    use crate::text::items;

    fn config(text: &str) -> Config {
        let notes = Notes::new("a node", text);
        let config = Config::read(&items(text, &notes)[0], &notes);
        assert!(notes.is_empty(), "{}", notes.to_mistakes("n"));
        config
    }

    /// A host opens a connection; its mapping.
    fn open(table: &mut Table, now: Time, host: u32, remote: u32) -> u32 {
        let inside = Inside { address: mapped4(host), port: 1, proto: TCP };
        let remote = Remote { address: remote, port: 80 };
        let flow = Flow { inside, remote, segment: Segment { flags: SYN, ..Segment::default() } };
        let hash = table.hash(&inside, remote);
        table.outbound(now, &flow, hash, 0).expect("a port")
    }

    #[test]
    fn connections_in_the_way_of_a_forward_end_a_piece_at_a_time() {
        let text = "public 192.0.2.1 ports 5000-5000, public 192.0.2.2";
        let (old, now) = (config(&format!("nat({text})")), Time::from_ms(1));
        let mut table = Table::new(old.clone(), 5);
        let mine: Vec<u32> = (0..3 * WALK).map(|remote| open(&mut table, now, 1, remote)).collect();
        let others: Vec<u32> = (0..10).map(|remote| open(&mut table, now, 2, remote)).collect();
        let address = table.outside.address(table.sessions[mine[0]].outside);
        let forward = format!("forward tcp {}:5000 to 10.0.0.9:7", std::net::Ipv4Addr::from(address));
        let mut change =
            Change::prepare(&old, &config(&format!("nat({text}, {forward})"))).expect("a forward");
        table.accepts(&change).expect("room");
        table.apply(now, &mut change);
        let mut calls = 1;
        while !table.awaited.is_empty() {
            table.expire(now);
            calls += 1;
        }
        assert_eq!(calls, 3, "so many slots in three pieces");
        assert_eq!(table.sessions.live(), 10 + 1, "those of the other host, and the forward");
        assert_eq!(open(&mut table, now, 2, 99), others[0], "it goes on");
    }
}
