//! Configures a table, when it is made and while it runs: sessions are not lost.
//!
//! | changed | what lives |
//! |---|---|
//! | times, filters, limits | is judged by the new ones from its next frame on |
//! | an address leaves the pool | stays there until it ends; what is new goes elsewhere |
//! | ports, blocks, deterministic ports | keeps its port; blocks of ports are those of the new rules as the old ones come free |
//! | a forward goes | keeps its sessions, and takes no new ones |
//! | a redirect comes or goes | sessions that were redirected stay so, connections that were not stay so |
//! | a forward takes the port of a session | ends: the port was configured for another host |
//!
//! Where several threads are one NAT, a port belongs to one of them for good (`sharding.rs`). So blocks become no longer than
//! those that the node began with, and deterministic ports stay as they are: by other rules a port would belong to another host,
//! and that host to another thread, while a session still uses the port.

use std::collections::{HashMap, HashSet, VecDeque};
use std::net::Ipv4Addr;
use std::sync::Arc;

use super::Table;
use crate::address::mapped4;
use crate::nat::block_events::BlockEvents;
use crate::nat::block_set::{BlockSet, Layout};
use crate::nat::command::{Mapping, NatChange};
use crate::nat::config::Config;
use crate::nat::forwards::Forward;
use crate::nat::leases::Leases;
use crate::nat::log::Log;
use crate::nat::node::Node;
use crate::nat::outside::{Endpoint, Holder, Outside, Space};
use crate::nat::ports::Pool;
use crate::nat::redirect::{Reach, Redirect};
use crate::nat::sessions::Sessions;
use crate::nat::slot::{Inside, Kind, Remote, Slot};
use crate::nat::subscribers::Subscribers;
use crate::nat::words::Dependence;
use crate::table::secret::Secret;
use crate::table::tcp::Track;
use crate::table::timers::{Ages, Class, Hand, Tick};
use crate::threads::Share;
use crate::time::Time;

/// Slots that one call looks at, to find the sessions of a mapping.
const WALK: u32 = 4096;

/// What is to be done with a mapping. The sessions of one are found by a walk over all, a part in each call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::nat) enum Awaited {
    /// This forward becomes one.
    Place(Forward),
    /// This one ends.
    End(Mapping),
}

/// Another configuration, ready to be applied; afterwards the old one.
#[derive(Debug)]
pub(crate) struct Update {
    config: Config,
    gone: Vec<u32>,
    /// Addresses that are new, or have other blocks, each with its blocks.
    come: Vec<(u32, BlockSet)>,
    forwards_gone: Vec<Forward>,
    forwards_come: Vec<Forward>,
    redirects_come: Vec<Redirect>,
    /// Some redirects are removed; they may have sessions.
    redirects_go: bool,
    reach: Reach,
}

impl Update {
    /// The update from `old` to `new`.
    pub(crate) fn prepare(old: &Config, new: &Config) -> Update {
        let (before, after) = (old.layouts(), new.layouts());
        let find = |all: &[(u32, Arc<Layout>)], address: u32| {
            all.binary_search_by_key(&address, |(address, _)| *address).ok().map(|at| all[at].1.clone())
        };
        let gone = before.iter().map(|(address, _)| *address);
        let gone = gone.filter(|&address| find(&after, address).is_none()).collect();
        // By other rules, deterministic ports belong to other subscribers, even if the blocks are the same.
        let is_alike = |address: u32, layout: &Arc<Layout>| {
            new.deterministic == old.deterministic && find(&before, address).as_ref() == Some(layout)
        };
        let come = after.iter().filter(|(address, layout)| !is_alike(*address, layout));
        let come = come.map(|(address, layout)| (*address, BlockSet::new(*address, layout))).collect();
        let forwards_without = |some: &Config, others: &Config| -> Vec<Forward> {
            some.forwards.iter().copied().filter(|forward| !others.forwards.contains(forward)).collect()
        };
        let [old_redirects, new_redirects] =
            [old, new].map(|config| config.redirects.iter().collect::<HashSet<_>>());
        Update {
            gone,
            come,
            forwards_gone: forwards_without(old, new),
            forwards_come: forwards_without(new, old),
            redirects_come: new
                .redirects
                .iter()
                .copied()
                .filter(|one| !old_redirects.contains(one))
                .collect(),
            redirects_go: old_redirects.iter().any(|one| !new_redirects.contains(one)),
            reach: Reach::new(&new.redirects),
            config: new.clone(),
        }
    }
}

impl Table {
    /// An empty table with this configuration, or a thread's share of it.
    pub(crate) fn new(config: Config, seed: u64, share: Share) -> Table {
        let mut table = Table {
            share,
            ages: Ages::new(&config.timeouts),
            secret: Secret::new(seed).of_thread(share.thread),
            sessions: Sessions::new(),
            subscribers: Subscribers::new(),
            outside: Outside::new(),
            pool: Pool::new(config.ports.clone(), share, config.sharding),
            redirects: Vec::new(),
            redirect_numbers: HashMap::new(),
            reach: Reach::new(&config.redirects),
            were_redirects: false,
            was_private: false,
            leases: Leases::default(),
            awaited: VecDeque::new(),
            given: config.public.clone(),
            walked: 0,
            has_forwards: false,
            foreign: 0,
            hand: Hand::default(),
            victim: 0,
            log: Log::default(),
            block_events: BlockEvents::default(),
            node: Node::default(),
            ids: Vec::new(),
            seed,
            config,
        };
        for (address, layout) in table.config.layouts() {
            let outside = table.outside.add(address);
            table.pool.put(outside, BlockSet::new(address, &layout));
        }
        let redirects = table.config.redirects.clone();
        let forwards: Vec<Forward> = table.config.forwards.iter().copied().collect();
        table.number_redirects(&redirects);
        table.await_forwards(forwards.into_iter());
        table.do_awaited(Time::default());
        let first = (seed as u16).wrapping_mul(share.of.into()).wrapping_add(share.thread.into());
        table.ids = vec![first; table.outside.len()];
        table
    }

    /// Forgets all sessions.
    pub(crate) fn begin_anew(&mut self) {
        let mut new = Table::new(self.config.clone(), self.seed, self.share);
        new.block_events = BlockEvents::behind();
        (new.node, new.ids) = (std::mem::take(&mut self.node), std::mem::take(&mut self.ids));
        *self = new;
    }

    /// Whether there is room for an update.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn accepts(&self, update: &Update) -> Result<(), String> {
        let new = update.come.len() + update.forwards_come.len();
        let most = usize::from(u16::MAX);
        if let Some(sharding) = self.config.sharding {
            let begin_anew = "when the node begins anew, since it has several threads";
            if update.config.deterministic != self.config.deterministic {
                return Err(format!("deterministic ports change only {begin_anew}"));
            }
            if update.config.ports.block > sharding.ports {
                return Err(format!("blocks of more than {} ports come only {begin_anew}", sharding.ports));
            }
        }
        self.has_room_for(new)?;
        let is_crowded = |address: u32| !self.pool.has_room(self.outside.number(address));
        if let Some((address, _)) = update.come.iter().find(|(address, _)| is_crowded(*address)) {
            let address = Ipv4Addr::from(*address);
            return Err(format!(
                "sessions live by many older rules for the ports of {address}: wait until some have ended"
            ));
        }
        if self.pool.room() < update.come.len() {
            return Err("sessions live at too many public addresses: wait until some have ended".to_string());
        }
        if self.redirects.len() + update.config.redirects.len() > most {
            Err("the node had too many redirects over time: let it begin anew".to_string())
        } else {
            Ok(())
        }
    }

    /// Applies another configuration; the old one is left in `update`.
    pub(crate) fn apply(&mut self, now: Time, update: &mut Update) {
        std::mem::swap(&mut self.config, &mut update.config);
        self.note_given();
        self.pool.apply(&self.config.ports);
        self.ages = Ages::new(&self.config.timeouts);
        self.was_private |= update.config.mapping == Dependence::AddressAndPort;
        self.number_redirects(&update.redirects_come);
        self.were_redirects |= update.redirects_go;
        std::mem::swap(&mut self.reach, &mut update.reach);
        self.update_pool(update);
        for &gone in &update.forwards_gone {
            self.awaited.retain(|awaited| *awaited != Awaited::Place(gone));
            self.retire(now, gone);
        }
        self.await_forwards(update.forwards_come.iter().copied());
        self.do_awaited(now);
        let first = self.ids.first().copied().unwrap_or_default();
        self.ids.resize(self.outside.len(), first);
        if self.has_forwards && self.config.before != update.config.before {
            self.count_foreign();
        }
    }

    /// Whether there is room for forwards at so many addresses more.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn has_room_for(&self, addresses: usize) -> Result<(), String> {
        if self.outside.len() + addresses > usize::from(u16::MAX) {
            return Err("the node had too many public addresses over time: let it begin anew".to_string());
        }
        Ok(())
    }

    /// Takes a change of one forward or one-to-one address, which was decided beside the others.
    pub(crate) fn change(&mut self, now: Time, change: &NatChange) {
        self.config.take_end(change).expect("it has its own ends");
        match change {
            NatChange::OneToOne(_) => return,
            NatChange::Forward(was) => {
                if let Some(old) = was.old {
                    self.awaited.retain(|awaited| *awaited != Awaited::Place(old));
                    self.retire(now, old);
                }
                self.await_forwards(was.new.into_iter());
            }
            NatChange::EndMapping(mapping) => self.awaited.push_back(Awaited::End(*mapping)),
        }
        self.do_awaited(now);
        let first = self.ids.first().copied().unwrap_or_default();
        self.ids.resize(self.outside.len(), first);
    }

    /// Adds the public addresses and ports of this text: those of earlier texts may still have sessions.
    pub(super) fn note_given(&mut self) {
        for public in &self.config.public {
            if !self.given.contains(public) {
                self.given.push(public.clone());
            }
        }
    }

    /// Counts the configured mappings of other threads anew, since the NATs before this one have changed.
    fn count_foreign(&mut self) {
        let is_foreign = |number: &u32| {
            let slot = &self.sessions[*number];
            slot.kind() == Kind::Mapping && self.is_foreign(slot)
        };
        self.foreign = (1..self.sessions.numbers()).filter(is_foreign).count() as u32;
    }

    fn update_pool(&mut self, update: &mut Update) {
        for &address in &update.gone {
            self.pool.withdraw(self.outside.number(address).expect("it was added"));
        }
        for (address, set) in update.come.drain(..) {
            let outside = self.outside.number(address).unwrap_or_else(|| self.outside.add(address));
            self.pool.put(outside, set);
        }
    }

    /// These forwards are to become mappings.
    pub(super) fn await_forwards(&mut self, forwards: impl Iterator<Item = Forward>) {
        for forward in forwards {
            if self.outside.number(forward.outside.0).is_none() {
                self.outside.add(forward.outside.0);
            }
            self.has_forwards = true;
            self.awaited.push_back(Awaited::Place(forward));
        }
    }

    /// Does what is awaited of mappings. Each call does a bounded part.
    pub(super) fn do_awaited(&mut self, now: Time) {
        let mut left = WALK;
        while let Some(&awaited) = self.awaited.front() {
            let is_done = match awaited {
                Awaited::Place(forward) => self.place_forward(now, forward, &mut left),
                Awaited::End(mapping) => self.end_mapping(now, mapping, &mut left),
            };
            if !is_done {
                return;
            }
            self.awaited.pop_front();
        }
    }

    /// Gives a configured mapping its ends; sessions that hold those end. False: there is more to do.
    fn place_forward(&mut self, now: Time, forward: Forward, left: &mut u32) -> bool {
        let endpoint = self.endpoint_of(forward.proto, forward.outside).expect("it was added");
        let inside =
            Inside { address: mapped4(forward.inside.0), port: forward.inside.1, proto: forward.proto };
        let mapping = self.sessions.mapping(Sessions::hash(&self.secret, &inside), &inside);
        if !self.evict(now, mapping, left) {
            return false;
        }
        if let Holder::Slot(number) = self.outside.holder(endpoint, Tick::of(now))
            && !self.evict(now, number, left)
        {
            return false;
        }
        let track = Track::plain(Class::Lasting);
        let mut slot = Slot::new(inside, Kind::Mapping, Remote::default(), track, Tick::of(now));
        (slot.outside, slot.outside_port) = (endpoint.outside, endpoint.port);
        let number = self.sessions.insert(&self.secret, slot);
        self.foreign += u32::from(self.is_foreign(&slot));
        self.outside.take(endpoint, number);
        true
    }

    /// Ends the mapping of a host. False: there is more to do.
    fn end_mapping(&mut self, now: Time, mapping: Mapping, left: &mut u32) -> bool {
        let Some(endpoint) = self.endpoint_of(mapping.proto, mapping.outside) else { return true };
        let Holder::Slot(number) = self.outside.holder(endpoint, Tick::of(now)) else { return true };
        self.sessions[number].is_fixed() || self.evict(now, number, left)
    }

    fn endpoint_of(&self, proto: u8, (address, port): (u32, u16)) -> Option<Endpoint> {
        Some(Endpoint { outside: self.outside.number(address)?, space: Space::of(proto)?, port })
    }

    /// Ends a mapping with all its sessions, if so many slots are enough to find them.
    fn evict(&mut self, now: Time, mapping: u32, left: &mut u32) -> bool {
        if mapping == 0 {
            return true;
        }
        let (inside, kind) = (self.sessions[mapping].inside(), self.sessions[mapping].kind());
        if kind == Kind::Mapping && self.is_leased(&inside) {
            self.end_lease(now, &inside);
            if self.sessions[mapping].kind() == Kind::Free {
                return true;
            }
        }
        self.sessions[mapping].set_retired();
        self.sessions.renew(mapping);
        // They are found by their remote ends only, so that all slots are walked; such a configuration is rare.
        while kind == Kind::Mapping && self.sessions[mapping].dependents > 0 {
            if *left == 0 {
                return false;
            }
            *left -= 1;
            self.walked = if self.walked + 1 < self.sessions.numbers() { self.walked + 1 } else { 1 };
            if self.sessions[self.walked].is(&inside, Kind::Session) {
                self.call_is_over(self.walked);
                self.sessions.remove(&self.secret, self.walked);
                self.leave(mapping);
            }
        }
        let class = self.sessions[mapping].track.class;
        self.remove(now, mapping, class);
        true
    }

    /// A forward is no longer configured.
    fn retire(&mut self, now: Time, forward: Forward) {
        let inside =
            Inside { address: mapped4(forward.inside.0), port: forward.inside.1, proto: forward.proto };
        let mapping = self.sessions.mapping(Sessions::hash(&self.secret, &inside), &inside);
        if mapping != 0 && self.sessions[mapping].is_fixed() {
            self.sessions[mapping].set_retired();
            self.sessions.renew(mapping);
            // A forward of another thread holds the port for good: this thread cannot know when that one is done with it.
            let is_foreign = self.is_foreign(&self.sessions[mapping]);
            if self.sessions[mapping].dependents == 0 && !is_foreign {
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
    use crate::nat::flow::Flow;
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
        table.outbound(now, flow, hash, 0).expect("a port")
    }

    #[test]
    fn connections_in_the_way_of_a_forward_end_a_piece_at_a_time() {
        let text = "public 192.0.2.1-192.0.2.2 ports 5000-5000";
        let (old, now) = (config(&format!("nat({text})")), Time::from_ms(1));
        let mut table = Table::new(old.clone(), 5, Share::default());
        let mine: Vec<u32> = (0..3 * WALK).map(|remote| open(&mut table, now, 1, remote)).collect();
        let others: Vec<u32> = (0..10).map(|remote| open(&mut table, now, 2, remote)).collect();
        let address = table.outside.address(table.sessions[mine[0]].outside);
        let forward = format!("forward tcp {}:5000 to 10.0.0.9:7", std::net::Ipv4Addr::from(address));
        let mut update = Update::prepare(&old, &config(&format!("nat({text}, {forward})")));
        table.accepts(&update).expect("room");
        table.apply(now, &mut update);
        let mut calls = 1;
        while !table.awaited.is_empty() {
            table.expire(now);
            calls += 1;
        }
        assert_eq!(calls, 3, "so many slots in three fragments");
        assert_eq!(table.sessions.live(), 10 + 1, "those of the other host, and the forward");
        assert_eq!(open(&mut table, now, 2, 99), others[0], "it goes on");
    }
}
