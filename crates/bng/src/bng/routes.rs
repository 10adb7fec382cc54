//! Networks behind subscribers: those of their entries, and those of an Accept. No address is in networks of two subscribers.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::net::IpAddr;
use std::sync::Arc;

use super::Bng;
use super::accepted::{Given, Refusal};
use crate::account::{Account, Facts};
use crate::drops::DropReason;
use crate::io::CommandError;
use crate::name::Name;
use crate::route::{FramedRoute, Route};
use crate::session::Session;
use crate::subscriber::Subscriber;
use crate::subscribers::Index;

/// What a network is in the way of.
enum Clash {
    /// A pool of this name.
    Pool(Name),
    /// The node.
    Router(IpAddr),
    /// This network of another subscriber.
    Other(Route, Index),
}

impl Bng {
    /// The networks of an Accept, or those of the entry of the subscriber.
    ///
    /// # Errors
    /// One of them is another subscriber's, or has another gateway.
    pub(super) fn routes_of(
        &self,
        index: Index,
        framed: &[FramedRoute],
        given: Given,
    ) -> Result<Vec<Route>, Refusal> {
        let is_own = |gateway: IpAddr| match gateway {
            IpAddr::V4(gateway) => gateway == given.address,
            IpAddr::V6(gateway) => {
                let prefix = given.prefix.map(|prefix| prefix.network().octets());
                gateway.is_unicast_link_local()
                    || prefix.is_some_and(|prefix| prefix.iter().take(8).eq(gateway.octets().iter().take(8)))
            }
        };
        if let Some(other) = framed.iter().find(|framed| !framed.gateway.is_none_or(is_own)) {
            let gateway = other.gateway.map(|gateway| gateway.to_string()).unwrap_or_default();
            let message = format!("{} by {gateway}, which is not the subscriber's", other.route);
            return Err(Refusal { reason: DropReason::RadiusRoute, message });
        }
        let own = self.own_routes(index);
        let routes = match framed {
            [] => own,
            framed => framed.iter().map(|framed| framed.route).collect(),
        };
        self.check_routes(index, &routes)?;
        Ok(routes)
    }

    /// The networks of the subscriber itself, which its first session has.
    fn own_routes(&self, index: Index) -> Vec<Route> {
        let entry = self.subscribers.get(index).filter(|entry| entry.seat == 0);
        entry.map(|entry| entry.subscriber.routes.clone()).unwrap_or_default()
    }

    /// Whether a subscriber may have these networks.
    ///
    /// # Errors
    /// One of them is another subscriber's, or has addresses of a pool or the node.
    pub(super) fn check_routes(&self, index: Index, routes: &[Route]) -> Result<(), Refusal> {
        let clash = routes.iter().find_map(|route| Some((*route, self.clash(*route, Some(index))?)));
        let Some((route, clash)) = clash else { return Ok(()) };
        let message = match clash {
            Clash::Pool(name) => format!("{route} has addresses of pool {name}"),
            Clash::Router(address) => format!("{route} has the address {address} of the node"),
            Clash::Other(found, holder) => {
                let name = self.name(holder).map(|name| name.to_string()).unwrap_or_default();
                format!("{route} overlaps with {found} of subscriber {name}")
            }
        };
        Err(Refusal { reason: DropReason::RouteInUse, message })
    }

    fn clash(&self, route: Route, index: Option<Index>) -> Option<Clash> {
        let is_v4 = route.address().is_ipv4();
        for pool in self.addresses.pools().iter().filter(|_| is_v4) {
            if route.has(pool.router.into()) {
                return Some(Clash::Router(pool.router.into()));
            }
            let first = |first: IpAddr| route.has(first);
            let has_route = |(first, last): &(_, _)| (first..=last).contains(&&route.address());
            let mut ranges =
                pool.ranges.iter().map(|(first, last)| (IpAddr::from(*first), IpAddr::from(*last)));
            if ranges.any(|range| first(range.0) || has_route(&range)) {
                return Some(Clash::Pool(pool.name.clone()));
            }
        }
        for pool in self.prefixes.pools().iter().filter(|_| !is_v4) {
            if route.has(pool.router.into()) {
                return Some(Clash::Router(pool.router.into()));
            }
            if Route::new(pool.first.network().into(), pool.len).is_some_and(|all| all.overlaps(route)) {
                return Some(Clash::Pool(pool.name.clone()));
            }
        }
        // No subscriber has the number 2^32 - 1.
        let index = index.unwrap_or(Index(u32::MAX));
        let other = self.fixed_routes.other(route, index).or_else(|| self.routes.other(route, index));
        other.map(|(route, holder)| Clash::Other(route, holder))
    }

    /// Whether a subscriber may be so, besides the one that it is now.
    pub(super) fn check_fixed_routes(
        &self,
        subscriber: &Subscriber,
        now: Option<Index>,
    ) -> Result<(), CommandError> {
        for name in [&subscriber.pool, &subscriber.prefix_pool].into_iter().flatten() {
            let is_known = self.addresses.has_pool(name) || self.prefixes.has_pool(name);
            if !is_known {
                return Err(CommandError::PoolUnknown(name.clone()));
            }
        }
        for (place, route) in (0..).zip(&subscriber.routes) {
            if let Some(other) = subscriber.routes.iter().take(place).find(|other| other.overlaps(*route)) {
                return Err(CommandError::RouteTwice(*route, *other));
            }
            match self.clash(*route, now) {
                None => {}
                Some(Clash::Pool(name)) => return Err(CommandError::RouteOfPool(*route, name)),
                Some(Clash::Router(address)) => return Err(CommandError::RouteOfNode(*route, address)),
                Some(Clash::Other(found, holder)) => {
                    let name = self.name(holder).unwrap_or_else(|| subscriber.name.clone());
                    return Err(CommandError::RouteInUse(*route, found, name));
                }
            }
        }
        Ok(())
    }

    /// The account of a new session with the networks of its subscriber, unless AAA has said others.
    pub(super) fn with_fixed_routes(&mut self, index: Index, account: Option<Account>) -> Option<Account> {
        let routes = self.own_routes(index);
        let is_said = account.as_ref().is_some_and(|account| account.facts.is_remote);
        if is_said || routes.is_empty() {
            return account;
        }
        let account = account.unwrap_or_else(|| self.ledger_account());
        let facts = Arc::new(Facts { routes, ..(*account.facts).clone() });
        Some(Account { facts, ..account })
    }

    /// The networks of a session are its subscriber's alone.
    pub(super) fn hold_routes(&mut self, session: &Session, index: Index) {
        if let Some(account) = &session.lease.account {
            self.routes.hold(&account.facts.routes, index);
        }
    }

    /// A session has ended: its networks are free.
    pub(super) fn release_routes(&mut self, session: &Session, index: Index) {
        if let Some(account) = &session.lease.account {
            self.routes.release(&account.facts.routes, index);
        }
    }

    /// Another subscriber that has one of the networks of a session of the records.
    pub(super) fn holder_of_routes(&self, session: &Session, index: Index) -> Option<Index> {
        let account = session.lease.account.as_ref()?;
        account
            .facts
            .routes
            .iter()
            .find_map(|route| self.routes.other(*route, index))
            .map(|(_, holder)| holder)
    }
}
