//! What operators do: each command is checked whole, then carried out, and reported when it is on disk.

use super::{Bng, Outputs, Wait, Waiting};
use crate::config::Config;
use crate::io::{Command, CommandError, Output, SubscriberPatch};
use crate::name::Name;
use crate::nat::Nat;
use crate::plan::Plan;
use crate::pool::is_assignable;
use crate::prefix::LinkPrefix;
use crate::record::Change;
use crate::session::{EndCause, SessionId};
use crate::subscriber::{Status, Subscriber};
use crate::subscribers::{Index, OnDisk};

impl Bng {
    pub(super) fn command(&mut self, id: u64, command: Command, out: &mut Outputs) {
        let before = self.revision;
        let name = match &command {
            Command::AddSubscriber(subscriber) | Command::ChangeSubscriber(subscriber) => {
                Some(&subscriber.name)
            }
            Command::SetStatus(name, _) | Command::PatchSubscriber(name, _) => Some(name),
            _ => None,
        };
        let name = name.cloned();
        let result = match command {
            Command::AddSubscriber(subscriber) => self.add_subscriber(subscriber, out),
            Command::ChangeSubscriber(subscriber) => self.change_subscriber(subscriber, out),
            Command::SetStatus(name, status) => self.set_status(&name, status, out),
            Command::PatchSubscriber(name, patch) => self.patch_subscriber(&name, patch, out),
            Command::RemoveSubscriber(name) => self.remove_subscriber(&name, out),
            Command::Disconnect(session) => self.disconnect(session, out),
            Command::Watch(whom) => {
                self.traces.watches.renew(self.now.at, whom);
                Ok(())
            }
            Command::DisconnectAll => {
                self.disconnect_all(out);
                Ok(())
            }
            Command::Configure(config) => self.configure(*config, out),
        };
        if result.is_ok() && self.revision > before {
            let changed = name.and_then(|name| self.subscribers.of_name(&name));
            self.waiting.push_back(Waiting { revision: self.revision, what: Wait::Command { id, changed } });
        } else {
            out.push(Output::Done { id, result });
        }
    }

    fn index(&self, name: &Name) -> Result<Index, CommandError> {
        self.subscribers.of_name(name).ok_or_else(|| CommandError::SubscriberUnknown(name.clone()))
    }

    pub(super) fn name(&self, index: Index) -> Option<Name> {
        self.subscribers.get(index).map(|entry| entry.subscriber.name.clone())
    }

    /// Whether a subscriber may be so, besides the one that it is now.
    fn check(&self, subscriber: &Subscriber, now: Option<Index>) -> Result<(), CommandError> {
        let others = |index: Option<Index>| {
            index.filter(|index| Some(*index) != now).and_then(|index| self.name(index))
        };
        if let Some(name) = others(self.subscribers.of_key(&subscriber.key)) {
            return Err(CommandError::KeyInUse(subscriber.key.clone(), name));
        }
        if let Plan::Named(plan) = &subscriber.plan
            && !self.config.plans.contains_key(plan)
        {
            return Err(CommandError::PlanUnknown(plan.clone()));
        }
        self.check_fixed_routes(subscriber, now)?;
        if let Nat::OneToOne(address) = subscriber.nat
            && let Some(name) = others(self.subscribers.of_public(address))
        {
            return Err(CommandError::PublicAddressInUse(address, name));
        }
        if let Some(prefix) = subscriber.fixed_prefix {
            if self.prefixes.pools().iter().any(|pool| LinkPrefix::of(pool.router) == prefix) {
                return Err(CommandError::PrefixOfRouter(prefix));
            }
            let holders = [self.prefixes.reserved_for(prefix), self.prefixes.holder(prefix)];
            if let Some(name) = holders.into_iter().find_map(others) {
                return Err(CommandError::PrefixInUse(prefix, name));
            }
        }
        let Some(address) = subscriber.fixed_address else { return Ok(()) };
        if !is_assignable(address) {
            return Err(CommandError::AddressUnusable(address));
        }
        if self.addresses.pools().iter().any(|pool| pool.router == address) {
            return Err(CommandError::AddressOfRouter(address));
        }
        let holders = [self.addresses.reserved_for(address), self.addresses.holder(address)];
        match holders.into_iter().find_map(others) {
            Some(name) => Err(CommandError::AddressInUse(address, name)),
            None => Ok(()),
        }
    }

    fn add_subscriber(&mut self, subscriber: Subscriber, out: &mut Outputs) -> Result<(), CommandError> {
        if self.subscribers.of_name(&subscriber.name).is_some() {
            return Err(CommandError::SubscriberExists(subscriber.name));
        }
        self.check(&subscriber, None)?;
        self.set_subscriber(subscriber.clone(), OnDisk::NotYet);
        self.store(Change::Subscriber(subscriber), out);
        Ok(())
    }

    fn change_subscriber(
        &mut self,
        mut subscriber: Subscriber,
        out: &mut Outputs,
    ) -> Result<(), CommandError> {
        let index = self.index(&subscriber.name)?;
        self.check(&subscriber, Some(index))?;
        let Some(before) = self.subscribers.get(index).map(|entry| entry.subscriber.clone()) else {
            return Ok(());
        };
        // No answer of the API has the password, so a client that changes something else cannot send it again: it stays.
        subscriber.password = subscriber.password.or_else(|| before.password.clone());
        let cause = match subscriber.status {
            Status::Blocked => Some(EndCause::Blocked),
            Status::Active | Status::Walled
                if (&before.key, before.fixed_address, before.fixed_prefix, &before.routes)
                    == (
                        &subscriber.key,
                        subscriber.fixed_address,
                        subscriber.fixed_prefix,
                        &subscriber.routes,
                    ) =>
            {
                None
            }
            Status::Active | Status::Walled => Some(EndCause::SubscriberChanged),
        };
        let seats = self.subscribers.seats(index);
        if let Some(cause) = cause {
            for seat in &seats {
                self.withdraw_offer(*seat);
                self.end(*seat, cause, out);
            }
        }
        self.set_subscriber(subscriber.clone(), OnDisk::NotYet);
        self.store(Change::Subscriber(subscriber), out);
        seats.into_iter().for_each(|seat| self.tell_node(seat, out));
        Ok(())
    }

    fn set_status(&mut self, name: &Name, status: Status, out: &mut Outputs) -> Result<(), CommandError> {
        let patch = SubscriberPatch { status: Some(status), ..SubscriberPatch::default() };
        self.patch_subscriber(name, patch, out)
    }

    fn patch_subscriber(
        &mut self,
        name: &Name,
        patch: SubscriberPatch,
        out: &mut Outputs,
    ) -> Result<(), CommandError> {
        let index = self.index(name)?;
        let Some(entry) = self.subscribers.get(index) else { return Ok(()) };
        let mut subscriber = entry.subscriber.clone();
        let SubscriberPatch { status, plan, group, nat } = patch;
        subscriber.status = status.unwrap_or(subscriber.status);
        subscriber.plan = plan.unwrap_or(subscriber.plan);
        subscriber.group = group.unwrap_or(subscriber.group);
        subscriber.nat = nat.unwrap_or(subscriber.nat);
        self.change_subscriber(subscriber, out)
    }

    fn remove_subscriber(&mut self, name: &Name, out: &mut Outputs) -> Result<(), CommandError> {
        let index = self.index(name)?;
        let seats = self.subscribers.seats(index).into_iter();
        seats.for_each(|seat| self.end(seat, EndCause::SubscriberChanged, out));
        self.forget_subscriber(index);
        self.store(Change::SubscriberRemoved(name.clone()), out);
        Ok(())
    }

    fn disconnect(&mut self, session: SessionId, out: &mut Outputs) -> Result<(), CommandError> {
        let index = self.sessions.get(&session).copied().ok_or(CommandError::SessionUnknown(session))?;
        self.end(index, EndCause::Disconnected, out);
        Ok(())
    }

    fn disconnect_all(&mut self, out: &mut Outputs) {
        let all: Vec<Index> = self.sessions.values().copied().collect();
        all.into_iter().for_each(|index| self.end(index, EndCause::Shutdown, out));
    }

    /// Sessions go on, also those with an address of no pool any more.
    fn configure(&mut self, config: Config, out: &mut Outputs) -> Result<(), CommandError> {
        if let Some(wrong) = config.contradictions().first() {
            return Err(CommandError::Configuration(wrong.clone()));
        }
        for (_, entry) in self.subscribers.iter() {
            if let Plan::Named(plan) = &entry.subscriber.plan {
                let was_there = self.config.plans.contains_key(plan);
                if was_there && !config.plans.contains_key(plan) {
                    return Err(CommandError::PlanInUse(plan.clone(), entry.subscriber.name.clone()));
                }
            }
        }
        if config.pools != self.config.pools {
            self.addresses.set_pools(config.pools.clone());
        }
        if config.prefix_pools != self.config.prefix_pools {
            self.prefixes.set_pools(config.prefix_pools.clone());
        }
        self.calls.configure(config.pppoe.as_ref());
        self.servers_seen.retain(|port, _| config.ports.contains_key(port));
        let limits = config.session_limits;
        self.config = config;
        if limits != self.places.limits() {
            self.count_places();
        }
        self.account_all(out);
        self.plan_all_sessions();
        let online: Vec<_> = self.sessions.values().copied().collect();
        for index in online {
            self.tell_node(index, out);
        }
        Ok(())
    }

    /// The last record of a subscriber is on disk.
    pub(super) fn subscriber_is_stored(&mut self, index: Option<Index>) {
        let main = index.map(|index| self.subscribers.main(index));
        if let Some(entry) = main.and_then(|main| self.subscribers.get_mut(main)) {
            entry.on_disk = OnDisk::Yes;
        }
    }

    /// Adds or changes a subscriber, with the address that is reserved for it.
    pub(super) fn set_subscriber(&mut self, mut subscriber: Subscriber, on_disk: OnDisk) -> Index {
        self.config.share_names(&mut subscriber);
        let (fixed, fixed_prefix) = (subscriber.fixed_address, subscriber.fixed_prefix);
        let routes = subscriber.routes.clone();
        if let Some(before) = self.subscribers.of_name(&subscriber.name) {
            self.unreserve(before);
        }
        let index = self.subscribers.set(subscriber, on_disk);
        if let Some(fixed) = fixed {
            self.addresses.reserve(fixed, index);
        }
        if let Some(fixed) = fixed_prefix {
            self.prefixes.reserve(fixed, index);
        }
        self.fixed_routes.hold(&routes, index);
        index
    }

    /// What a subscriber alone got is not its own any more.
    fn unreserve(&mut self, index: Index) {
        let Some(entry) = self.subscribers.get(index) else { return };
        let Subscriber { fixed_address, fixed_prefix, .. } = entry.subscriber;
        self.fixed_routes.release(&entry.subscriber.routes, index);
        fixed_address.into_iter().for_each(|address| self.addresses.unreserve(address, index));
        fixed_prefix.into_iter().for_each(|prefix| self.prefixes.unreserve(prefix, index));
    }

    /// Removes a subscriber that has no session any more.
    pub(super) fn forget_subscriber(&mut self, index: Index) {
        for seat in self.subscribers.seats(index) {
            self.withdraw_offer(seat);
            self.forget_held_off(seat);
        }
        self.unreserve(index);
        if let Some(key) = self.subscribers.get(index).map(|entry| entry.subscriber.key.clone()) {
            self.forget_answer(&key);
        }
        self.subscribers.remove(index);
    }
}
