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

impl Table {
    /// Takes another configuration.
    ///
    /// # Errors
    /// What cannot be changed while sessions live.
    pub(crate) fn apply(&mut self, now: Time, config: Config) -> Result<(), String> {
        if config.deterministic != self.config.deterministic {
            return Err("deterministic ports change only when the node begins anew".to_string());
        }
        let addresses = |range: &(u32, u32)| (range.1 - range.0) as usize + 1;
        let new = config.public.iter().map(addresses).sum::<usize>() + config.forwards.len();
        if self.outside.len() + new > usize::from(u16::MAX) {
            return Err("the node had too many public addresses over time: let it begin anew".to_string());
        }
        if !self.pool.apply(config.ports.clone()) {
            return Err(
                "the ports of a pool and the size of its blocks change only when the node begins anew"
                    .to_string(),
            );
        }
        self.ages = Ages::new(&config.timeouts);
        self.was_private |= self.config.mapping == Dependence::AddressAndPort;
        let old = std::mem::replace(&mut self.config, config);
        self.change_pool(&old);
        let forwards = self.config.forwards.clone();
        for &gone in old.forwards.iter().filter(|forward| !forwards.contains(forward)) {
            self.retire(now, gone);
        }
        for &new in forwards.iter().filter(|forward| !old.forwards.contains(forward)) {
            self.forward(now, new);
        }
        Ok(())
    }

    fn change_pool(&mut self, old: &Config) {
        let fixed = self.config.deterministic.as_ref().map_or(0, |deterministic| deterministic.ratio());
        let all = |config: &Config| -> Vec<u32> {
            config.public.iter().flat_map(|&(first, last)| first..=last).collect()
        };
        let (before, after) = (all(old), all(&self.config));
        for address in before.iter().filter(|address| after.binary_search(address).is_err()) {
            self.pool.withdraw(self.outside.number(*address).expect("it was added"));
        }
        for address in after.into_iter().filter(|address| before.binary_search(address).is_err()) {
            match self.outside.number(address) {
                Some(number) if self.pool.knows(number) => self.pool.restore(number, fixed),
                Some(number) => self.pool.add_address(number, fixed),
                None => self.pool.add_address(self.outside.add(address), fixed),
            }
        }
    }

    /// A mapping that is configured; whoever has its ends gives way.
    pub(super) fn forward(&mut self, now: Time, forward: Forward) {
        let (address, port) = forward.outside;
        let outside = self.outside.number(address).unwrap_or_else(|| self.outside.add(address));
        let space = Space::of(forward.proto).expect("TCP or UDP");
        let place = Place { outside, space, port };
        let inside =
            Inside { address: mapped4(forward.inside.0), port: forward.inside.1, proto: forward.proto };
        let mapping = self.sessions.mapping(Sessions::hash(&self.secret, &inside), &inside);
        self.evict(now, mapping);
        if let Holder::Slot(number) = self.outside.holder(place, Tick::of(now)) {
            self.evict(now, number);
        }
        let track = Track::plain(Class::Lasting);
        let mut slot = Slot::new(inside, Kind::Mapping, Remote::default(), track, Tick::of(now));
        (slot.outside, slot.outside_port) = (outside, port);
        let number = self.sessions.insert(&self.secret, slot);
        self.outside.take(place, number);
    }

    /// Ends a mapping with all its sessions.
    fn evict(&mut self, now: Time, mapping: u32) {
        if mapping == 0 {
            return;
        }
        let inside = self.sessions[mapping].inside();
        let dependents = self.sessions[mapping].dependents;
        if dependents > 0 {
            // They are found by their remote ends only: a walk over all slots, for who configures so.
            for number in 1..self.sessions.numbers() {
                if self.sessions[number].is(&inside, Kind::Session) {
                    self.sessions.remove(&self.secret, number);
                    self.leave(mapping);
                }
            }
        }
        let class = self.sessions[mapping].track.class;
        self.remove(now, mapping, class);
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
