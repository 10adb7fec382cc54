//! One object of a configuration that has changed: what it was, and what it is. Commands and texts are made into changes, which
//! each thread of the node then takes, some behind each batch.
//!
//! Invariant: the inverse of a change undoes it.

use std::collections::BTreeSet;

use crate::config::{Config, StageConfig};
use crate::filter::RulesChange;
use crate::frame::PortId;
use crate::nat::NatChange;
use crate::neighbour::NeighbourChange;
use crate::police::RateChange;
use crate::route::{NextHop, RouteChange};
use crate::was::Was;

/// A change of one object. Stages are counted from 0.
#[derive(Debug, Clone, PartialEq)]
pub struct Change(pub(crate) Object);

/// The object.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Object {
    Route(RouteChange),
    Neighbour(NeighbourChange),
    Filter(usize, RulesChange),
    Nat(usize, NatChange),
    Police(usize, RateChange),
}

impl Change {
    fn inverse(self) -> Change {
        Change(match self.0 {
            Object::Route(change) => Object::Route(change.inverse()),
            Object::Neighbour(change) => Object::Neighbour(change.inverse()),
            Object::Filter(stage, was) => Object::Filter(stage, was.inverse()),
            Object::Nat(stage, change) => Object::Nat(stage, change.inverse()),
            Object::Police(stage, change) => Object::Police(stage, change.inverse()),
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
            Object::Filter(..) | Object::Nat(..) | Object::Police(..) => Vec::new(),
        }
    }

    /// Whether frames that know their way must find it anew: routes and neighbours say so themselves.
    pub(crate) fn is_of_stage(&self) -> bool {
        !matches!(self.0, Object::Route(_) | Object::Neighbour(_))
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
            Object::Filter(stage, change) => match &mut self.stages[*stage] {
                StageConfig::Filter(filter) => filter.take(change),
                other => unreachable!("{other:?} is no filter"),
            },
            Object::Nat(stage, change) => match &mut self.stages[*stage] {
                StageConfig::Nat(nat) => return nat.take(change),
                other => unreachable!("{other:?} is no NAT"),
            },
            Object::Police(stage, change) => match &mut self.stages[*stage] {
                StageConfig::Police(police) => police.take(change),
                other => unreachable!("{other:?} is no policer"),
            },
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
        for (n, (old, new)) in self.ports.iter().zip(&new.ports).enumerate() {
            let all: BTreeSet<_> = old.neighbours.keys().chain(new.neighbours.keys()).collect();
            for address in all {
                let [old, new] = [old, new].map(|port| port.neighbours.get(address).copied());
                let change = Was { old, new }.if_any();
                let change =
                    change.map(|was| NeighbourChange { port: PortId(n as u16), address: *address, was });
                changes.extend(change.map(Object::Neighbour).map(Change));
            }
        }
        if let (Some(old), Some(new)) = (&self.routes, &new.routes) {
            changes.extend(old.changes_to(new).map(Object::Route).map(Change));
        }
        changes
    }
}
