//! One object of a configuration that has changed: what it was, and what it is. Commands and texts are made into changes, which
//! each thread of the node then takes, some behind each batch.
//!
//! Invariant: the inverse of a change undoes it.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use crate::access::SubscriberChange;
use crate::config::Config;
use crate::frame::PortId;
use crate::neighbour::{NeighbourChange, nearest};
use crate::route::{NextHop, RouteChange, Target};
use crate::stages::StageChange;
use crate::was::Was;

/// A change of one object. Stages are counted from 0.
#[derive(Debug, Clone, PartialEq)]
pub struct Change(pub(crate) Object);

/// The object.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Object {
    Route(RouteChange),
    Neighbour(NeighbourChange),
    Stage(usize, StageChange),
    Subscriber(SubscriberChange),
}

impl Change {
    fn inverse(self) -> Change {
        Change(match self.0 {
            Object::Route(change) => Object::Route(change.inverse()),
            Object::Neighbour(change) => Object::Neighbour(change.inverse()),
            Object::Stage(stage, change) => Object::Stage(stage, change.inverse()),
            Object::Subscriber(change) => Object::Subscriber(change.inverse()),
        })
    }

    /// The next hops that are to be known before it is done.
    pub(crate) fn gateways(&self) -> Vec<NextHop> {
        match &self.0 {
            Object::Route(change) => change.gateways().to_vec(),
            Object::Neighbour(NeighbourChange { port, address, was }) => {
                let host = NextHop { address: *address, port: Some(*port) };
                was.new.map(|_| host).into_iter().collect()
            }
            Object::Stage(..) | Object::Subscriber(_) => Vec::new(),
        }
    }

    /// Whether frames that know their way must find it anew: routes and neighbours say so themselves, and frames of subscribers look
    /// their subscriber up.
    pub(crate) fn is_of_stage(&self) -> bool {
        matches!(self.0, Object::Stage(..))
    }
}

impl Config {
    /// Changes an object.
    ///
    /// # Errors
    /// It cannot be so beside the others; nothing has changed then.
    pub(crate) fn take(&mut self, change: &Change) -> Result<(), String> {
        match &change.0 {
            Object::Route(change) => self.routes.iter_mut().for_each(|routes| routes.take(change)),
            Object::Neighbour(change) => change.done_in(&mut self.ports),
            Object::Subscriber(SubscriberChange::Session(was)) => {
                self.sessions.replace(was.old.as_ref(), was.new.as_ref());
            }
            Object::Subscriber(SubscriberChange::UnknownSessions(was)) => {
                self.sessions.unknown = was.new.unwrap_or_default();
            }
            Object::Stage(stage, change) => return self.stages[*stage].take(change),
            Object::Subscriber(SubscriberChange::Grace(was)) => {
                self.sessions.grace = was.new.unwrap_or_default();
            }
        }
        Ok(())
    }

    /// Undoes changes, the last ones that were made.
    ///
    /// # Panics
    /// If they were not.
    pub fn undo(&mut self, changes: Vec<Change>) {
        for change in changes.into_iter().rev() {
            self.take(&change.inverse()).expect("it was so before");
        }
    }

    /// What changes of ports' neighbours and of routes from this configuration to another of the same ports: new routes first, since
    /// a prefix that comes in the place of others leaves no gap.
    pub(crate) fn changes_to(&self, new: &Config) -> Vec<Change> {
        let mut changes = Vec::new();
        for n in 0..self.ports.len().max(new.ports.len()) {
            let [old, new] = [&self.ports, &new.ports].map(|ports| ports.get(n).map(|port| &port.neighbours));
            let all: BTreeSet<_> = [old, new].into_iter().flatten().flat_map(|hosts| hosts.keys()).collect();
            for address in all {
                let [old, new] = [old, new].map(|hosts| hosts?.get(address).copied());
                let change = Was { old, new }.if_any();
                let change =
                    change.map(|was| NeighbourChange { port: PortId(n as u16), address: *address, was });
                changes.extend(change.map(Object::Neighbour).map(Change));
            }
        }
        if let (Some(old), Some(new)) = (&self.routes, &new.routes) {
            changes.extend(old.changes_to(new).map(Object::Route).map(Change));
        }
        let gone = self.sessions.iter().filter(|old| new.sessions.get(old.session).is_none());
        let gone = gone.map(|old| SubscriberChange::Session(Was { old: Some(old.clone()), new: None }));
        changes.extend(gone.map(Object::Subscriber).map(Change));
        changes
    }

    /// The same where ports change, too: also routes that stay, but whose next hops are at other ports then. Next hops that are new have
    /// their ports.
    pub(crate) fn changes_to_ports(&self, new: &Config) -> Vec<Change> {
        let mut changes = self.changes_to(new);
        let (mut ports, mut moves) = (HashMap::new(), HashMap::new());
        let mut port_of = |address| *ports.entry(address).or_insert_with(|| new.port_of(address));
        if let (Some(old), Some(routes)) = (&self.routes, &new.routes) {
            let mut is_moved = |hop: &NextHop| {
                let moved = || self.port_of(hop.address) != new.port_of(hop.address);
                hop.port.is_none() && *moves.entry(hop.address).or_insert_with(moved)
            };
            let stays = routes.iter().filter(|(prefix, target)| old.get(prefix) == Some(*target));
            let moved = stays
                .filter(|(_, target)| matches!(target, Target::Via(hops) if hops.iter().any(&mut is_moved)));
            changes.extend(moved.map(|(&prefix, target)| {
                let was = Was { old: Some(target.clone()), new: Some(target.clone()) };
                Change(Object::Route(RouteChange { prefix, was }))
            }));
        }
        for Change(object) in &mut changes {
            if let Object::Route(RouteChange { was: Was { new: Some(Target::Via(hops)), .. }, .. }) = object {
                hops.iter_mut().for_each(|hop| hop.port = hop.port.or_else(|| port_of(hop.address)));
            }
        }
        changes
    }

    /// The port whose network holds an address; of several the one with the longest prefix.
    fn port_of(&self, ip: IpAddr) -> Option<PortId> {
        let fixed = self.ordered().filter(|(_, port)| !port.has_lines());
        nearest(fixed.map(|(number, port)| (number, &port.addresses[..])), ip)
    }
}
