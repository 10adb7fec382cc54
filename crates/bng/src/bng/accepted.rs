//! What becomes of an Access-Accept, for PPPoE and DHCP alike: its subscriber, what that may get, and what accounting keeps of it.
//!
//! ```text
//! Accept > plan > subscriber, added with the first one > address, prefix, limits, Class ... > may it be online here? > Given
//! ```
//! A subscriber that RADIUS accepts for the first time is added, so that its session has a record like others.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::net::Ipv4Addr;

use super::{Bng, Outputs};
use crate::account::{Facts, Limits};
use crate::config::Moves;
use crate::drops::DropReason;
use crate::name::Name;
use crate::plan::{Plan, Rates};
use crate::prefix::LinkPrefix;
use crate::radius::access::{Accept, Framed};
use crate::radius::attribute::Attributes;
use crate::radius::limits::quotas;
use crate::radius::plans::PlanWish;
use crate::route::{FramedRoute, MOST_ROUTES};
use crate::session::{Device, NO_ADDRESS};
use crate::subscriber::{Key, Status, Subscriber};
use crate::subscribers::{Index, OnDisk};

/// What a subscriber gets that may come online.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Given {
    /// [`NO_ADDRESS`]: it has IPv6 alone.
    pub(super) address: Ipv4Addr,
    /// `None`: it has IPv4 alone.
    pub(super) prefix: Option<LinkPrefix>,
}

/// What RADIUS wants a client to get, and what the client itself wants.
#[derive(Debug, Clone, Default)]
pub(super) struct Wishes {
    pub(super) address: Option<Ipv4Addr>,
    pub(super) prefix: Option<LinkPrefix>,
    /// The address that the client wants, if it is free.
    pub(super) of_client: Option<Ipv4Addr>,
    /// The pool of its address; `None`: that of the subscriber, or any.
    pub(super) pool: Option<Name>,
    /// The same of its prefix.
    pub(super) prefix_pool: Option<Name>,
}

/// A device that is refused.
pub(super) struct Refusal {
    pub(super) reason: DropReason,
    /// Text for the client and the operator; may be empty.
    pub(super) message: String,
}

impl From<DropReason> for Refusal {
    fn from(reason: DropReason) -> Refusal {
        Refusal { reason, message: String::new() }
    }
}

/// What an Accept says.
pub(super) struct Accepted {
    pub(super) index: Index,
    pub(super) wishes: Wishes,
    /// Networks behind the subscriber.
    pub(super) routes: Vec<FramedRoute>,
    /// For accounting.
    pub(super) facts: Facts,
    /// Whether the session reaches the walled garden alone; `None`: the Accept does not say.
    pub(super) is_walled: Option<bool>,
    /// Reply-Message.
    pub(super) message: Option<String>,
    /// MS-CHAPv2: what shows the peer that the server knows the password.
    pub(super) proof: Option<Vec<u8>>,
}

/// The subscriber of a User-Name; `None`: subscribers cannot have this name.
pub(super) fn login_of(user_name: &[u8]) -> Option<Name> {
    std::str::from_utf8(user_name).ok()?.parse().ok()
}

impl Bng {
    /// Takes in the Accept for a User-Name.
    pub(super) fn accepted(
        &mut self,
        user_name: &[u8],
        attributes: &Attributes,
    ) -> Result<Accepted, DropReason> {
        let accept = Accept::read(attributes, &self.config.aaa.plans, self.config.aaa.unsupported);
        let accept = accept.map_err(|_| DropReason::RadiusAnswer)?;
        self.calls.count_unsupported(&accept.unsupported);
        let quotas = quotas(attributes).map_err(|_| DropReason::RadiusAnswer)?;
        let (wish, is_walled) = self.state_of_wish(&accept.plan);
        let login = login_of(user_name).ok_or(DropReason::RadiusAnswer)?;
        let index = self.subscriber_of_accept(login, &wish)?;
        let address = match accept.framed {
            Some(Framed::Address(address)) => Some(address),
            Some(Framed::Any) | None => None,
        };
        let pool = |name: &Option<String>| name.as_ref().map(|name| name.parse()).transpose();
        let pools = pool(&accept.pool).and_then(|first| Ok((first, pool(&accept.pool6)?)));
        let (pool, prefix_pool) = pools.map_err(|_| DropReason::PoolUnknown)?;
        let wishes = Wishes { address, prefix: prefix_of(&accept)?, of_client: None, pool, prefix_pool };
        let routes: Option<Vec<_>> = accept.routes.iter().map(|text| FramedRoute::read(text)).collect();
        let routes = routes.filter(|routes| routes.len() <= MOST_ROUTES).ok_or(DropReason::RadiusRoute)?;
        let facts = facts(&accept, user_name, quotas);
        let (message, proof) = (accept.message, accept.proof);
        Ok(Accepted { index, wishes, routes, facts, is_walled, message, proof })
    }

    /// The subscriber of a login that RADIUS has accepted, with the plan that the answer says.
    fn subscriber_of_accept(&mut self, login: Name, wish: &PlanWish) -> Result<Index, DropReason> {
        let known = self.subscribers.of_key(&Key::Login(login.clone()));
        let known = known.and_then(|index| Some((index, self.subscribers.get(index)?.subscriber.clone())));
        let before = known.as_ref().map(|(_, subscriber)| subscriber.plan.clone());
        let plan = self.plan_of_wish(wish, before).ok_or(DropReason::RadiusAnswer)?;
        match known {
            Some((index, subscriber)) if subscriber.plan == plan => Ok(index),
            Some((_, subscriber)) => {
                Ok(self.set_subscriber(Subscriber { plan, ..subscriber }, OnDisk::NotYet))
            }
            // Another subscriber, that is known otherwise, has this name.
            None if self.subscribers.of_name(&login).is_some() => Err(DropReason::LoginUnknown),
            None => {
                let (name, key) = (login.clone(), Key::Login(login));
                let text = format!("{name} {key} plan {plan}");
                let subscriber: Subscriber = text.parse().map_err(|_| DropReason::RadiusAnswer)?;
                Ok(self.set_subscriber(Subscriber { status: Status::Active, ..subscriber }, OnDisk::NotYet))
            }
        }
    }

    /// The plan of an answer, the plan of before, or the one that a server has for answers without; `None`: there is no such plan.
    pub(super) fn plan_of_wish(&self, wish: &PlanWish, before: Option<Plan>) -> Option<Plan> {
        if let (Some(down_bits_per_s), Some(up_bits_per_s)) = (wish.down_bits_per_s, wish.up_bits_per_s) {
            return Some(Plan::Own(Rates { down_bits_per_s, up_bits_per_s }));
        }
        if let Some(name) = &wish.plan {
            let plan = Plan::Named(name.parse().ok()?);
            return self.config.rates(&plan).map(|_| plan);
        }
        let default = || self.config.radius.iter().find_map(|server| server.plan.clone()).map(Plan::Named);
        before.or_else(default)
    }

    /// Whether a subscriber has an address, by its session or an offer, or may get it.
    pub(super) fn may_have(&self, address: Ipv4Addr, index: Index) -> bool {
        address == NO_ADDRESS
            || self.addresses.holder(address) == Some(index)
            || self.addresses.is_free_for(address, index)
    }

    /// What a subscriber gets, if it may come online with this device.
    pub(super) fn admit(
        &mut self,
        index: Index,
        device: &Device,
        wishes: Wishes,
        out: &mut Outputs,
    ) -> Result<Given, Refusal> {
        self.check_refusals(index)?;
        let entry = self.subscribers.get(index).ok_or(DropReason::LoginUnknown)?;
        let is_same = |other: &Device| (&other.line, other.mac) == (&device.line, device.mac);
        let online = entry.online.as_ref();
        let is_elsewhere = online.is_some_and(|online| !is_same(&online.session.lease.device));
        if entry.subscriber.status == Status::Blocked {
            return Err(DropReason::SubscriberBlocked.into());
        }
        if self.config.rates(&entry.subscriber.plan).is_none() {
            return Err(DropReason::PlanUnknown.into());
        }
        if is_elsewhere && self.has_one_seat() && self.config.moves == Moves::Refuse {
            return Err(DropReason::SessionElsewhere.into());
        }
        self.check_places(index, device)?;
        let pool = wishes.pool.or_else(|| entry.subscriber.pool.clone());
        let prefix_pool = wishes.prefix_pool.or_else(|| entry.subscriber.prefix_pool.clone());
        let current =
            self.current_address(index).filter(|address| self.addresses.is_of(*address, pool.as_ref()));
        // Without any pool of IPv4 logins have IPv6 alone.
        let fixed = entry.subscriber.fixed_address;
        let has_ipv6_alone = self.addresses.pools().is_empty() && pool.is_none() && fixed.is_none();
        let address = match (wishes.address, current) {
            (Some(wish), _) if self.may_have(wish, index) => wish,
            (Some(_), _) => return Err(DropReason::FixedAddressInUse.into()),
            (None, Some(current)) => current,
            (None, None) if has_ipv6_alone => NO_ADDRESS,
            (None, None) => self.choose_address(index, wishes.of_client, pool.as_ref(), out)?,
        };
        // A relayed device is not on the line: it hears no advertisement.
        let prefix = match device.relay {
            Some(_) => None,
            None => self.prefix_for(index, wishes.prefix, prefix_pool.as_ref(), out)?,
        };
        match (address, prefix) {
            (NO_ADDRESS, None) => Err(DropReason::PoolExhausted.into()),
            _ => Ok(Given { address, prefix }),
        }
    }
}

/// What an Accept says of the session beside its address and plan.
fn facts(accept: &Accept, user_name: &[u8], quotas: Limits) -> Facts {
    let boxed = |bytes: &Vec<u8>| Box::from(bytes.as_slice());
    Facts {
        name: accept.name.as_ref().filter(|own| own.as_slice() != user_name).map(boxed),
        classes: accept.classes.iter().map(boxed).collect(),
        chargeable: accept.chargeable.as_ref().map(boxed),
        is_remote: true,
        limits: Limits {
            session_timeout_s: accept.session_timeout_s,
            idle_timeout_s: accept.idle_timeout_s,
            interim_s: accept.interim_s,
            ..quotas
        },
        circuit_id: None,
        remote_id: None,
        routes: Vec::new(),
    }
}

/// Framed-IPv6-Prefix: a /64, which the concentrator advertises (RFC 5080, section 2.11). Another length could not be used as it was
/// assigned.
fn prefix_of(accept: &Accept) -> Result<Option<LinkPrefix>, DropReason> {
    let Some(prefix) = accept.prefixes.first() else { return Ok(None) };
    let text = format!("{}/{}", prefix.address, prefix.len);
    text.parse().map(Some).map_err(|_| DropReason::RadiusPrefix)
}
