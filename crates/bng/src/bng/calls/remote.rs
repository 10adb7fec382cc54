//! Logins that RADIUS knows.
//!
//! ```text
//! login without a password here > Access-Request > Accept: the subscriber, with the plan of the answer > address > IPCP
//!                                                > Reject, no answer: the client is refused, and may dial again
//! ```
//! A subscriber that RADIUS accepts for the first time is added, so that its session has a record like others. No call waits for
//! another one's answer.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::login::{Login, Refusal, Wishes};
use super::{Bng, CallId, Deadline, Outputs};
use crate::account::{Facts, Limits};
use crate::drops::DropReason;
use crate::name::Name;
use crate::plan::{Plan, Rates};
use crate::ppp::auth::Attempt;
use crate::prefix::LinkPrefix;
use crate::radius::Service;
use crate::radius::access::{Accept, Framed, Place, reject_message, request};
use crate::radius::attribute::Attributes;
use crate::radius::client::{self, Client, Failure, Server, Timers, Token};
use crate::radius::limits::quotas;
use crate::radius::packet::code;
use crate::radius::plans::PlanWish;
use crate::random::Random;
use crate::subscriber::{Key, Status, Subscriber};
use crate::subscribers::{Index, OnDisk};

/// The client of RADIUS, and what it is told.
#[derive(Debug)]
pub(super) struct Remote {
    client: Client,
    /// How often attributes of Accepts were ignored: vendor (0: none) and type.
    unsupported: BTreeMap<(u32, u8), u64>,
    deadline: Option<Duration>,
}

impl Remote {
    pub(super) fn new(random: &mut Random) -> Remote {
        let client = Client::new(Timers::default(), Random::new(random.bytes()));
        Remote { client, unsupported: BTreeMap::new(), deadline: None }
    }

    pub(super) fn client(&mut self) -> &mut Client {
        &mut self.client
    }

    pub(super) fn cancel(&mut self, id: CallId) {
        self.client.cancel(Token(id.0));
    }
}

impl Bng {
    pub(in crate::bng) fn set_radius_servers(&mut self, servers: Vec<Server>, out: &mut Outputs) {
        let most = self.config.aaa.radius_most();
        self.tell_radius(Service::Access, out, |client, now, outputs| {
            client.set_most(most);
            client.configure(now, servers, outputs);
        });
    }

    pub(in crate::bng) fn radius_timer(&mut self, out: &mut Outputs) {
        self.calls.remote.deadline = None;
        self.tell_radius(Service::Access, out, |client, now, outputs| client.timer(now, outputs));
    }

    /// Asks to be called when something of a request is due.
    pub(in crate::bng) fn plan_radius(&mut self) {
        let remote = &mut self.calls.remote;
        let deadline = remote.client.deadline();
        if deadline != remote.deadline {
            if let Some(before) = std::mem::replace(&mut remote.deadline, deadline) {
                self.deadlines.remove(&(before, Deadline::Radius));
            }
            if let Some(at) = deadline {
                self.deadlines.insert((at, Deadline::Radius));
            }
        }
    }

    /// How often attributes of Accepts were ignored, because they are not supported: vendor (0: none) and type.
    pub fn unsupported_attributes(&self) -> impl Iterator<Item = ((u32, u8), u64)> {
        self.calls.remote.unsupported.iter().map(|(attribute, count)| (*attribute, *count))
    }

    /// What the client of RADIUS has counted, for each server, and whether it answers.
    pub fn radius_counts(&self) -> impl Iterator<Item = (&str, client::Counts, bool)> {
        let client = &self.calls.remote.client;
        client.counts().map(|(server, counts)| (server, counts, client.is_alive(server)))
    }

    pub(super) fn ask_radius(&mut self, id: CallId, attempt: &Attempt, out: &mut Outputs) {
        let account = self.account_of_call(id);
        let Some(call) = self.calls.calls.get_mut(&id) else { return };
        let tag = call.line_tag.as_ref();
        let session_id = account.id.to_string();
        let place = Place {
            line: &call.key.line,
            mac: call.mac,
            circuit_id: tag.and_then(|tag| tag.circuit_id.as_deref()),
            remote_id: tag.and_then(|tag| tag.remote_id.as_deref()),
            up_kbit_per_s: tag.and_then(|tag| tag.up_kbit_per_s),
            down_kbit_per_s: tag.and_then(|tag| tag.down_kbit_per_s),
            name: &attempt.name,
            session_id: &session_id,
        };
        let request = request(&self.config.aaa.nas, &place, attempt, self.now.wall_s);
        call.asks = Some(Box::new(attempt.clone()));
        call.account = Some(Box::new(account));
        self.tell_radius(Service::Access, out, |client, now, outputs| {
            client.send(now, Token(id.0), request, outputs);
        });
    }

    /// The answer to a login, or why there is none.
    pub(in crate::bng) fn login_is_answered(
        &mut self,
        token: Token,
        result: Result<(u8, Attributes), Failure>,
        out: &mut Outputs,
    ) {
        let id = CallId(token.0);
        let attempt = self.calls.calls.get_mut(&id).and_then(|call| call.asks.take());
        let Some(attempt) = attempt else { return };
        let login = match result {
            Ok((code::ACCESS_ACCEPT, attributes)) => {
                let login = self.radius_accept(id, &attempt.name, &attributes, out);
                if login.is_ok() {
                    self.remember(id, &attempt, &attributes, out);
                }
                login.map_err(Refusal::from)
            }
            // A challenge is no answer to PAP, CHAP or MS-CHAPv2.
            Ok((_, attributes)) => {
                self.rejected(id, &attempt, out);
                Err(Refusal { reason: DropReason::RadiusReject, message: reject_message(&attributes) })
            }
            Err(_) => match self.without_radius(id, &attempt, out) {
                Ok(Some(login)) => Ok(login),
                Ok(None) => {
                    if let Some(call) = self.calls.calls.get_mut(&id) {
                        call.asks = Some(attempt);
                    }
                    return;
                }
                Err(reason) => Err(reason.into()),
            },
        };
        self.counts.accepted += u64::from(login.is_ok());
        self.answer_login(id, login, out);
    }

    /// No server has answered: a password here, if it counts then, or the last answer. `Ok(None)`: it is being checked.
    fn without_radius(
        &mut self,
        id: CallId,
        attempt: &Attempt,
        out: &mut Outputs,
    ) -> Result<Option<Login>, DropReason> {
        if self.config.aaa.is_local_after_radius()
            && let Some(result) = self.check_local(id, attempt, out)
        {
            return result.map(Some);
        }
        self.brown_out(id, attempt, out)
    }

    pub(super) fn radius_accept(
        &mut self,
        id: CallId,
        name: &[u8],
        attributes: &Attributes,
        out: &mut Outputs,
    ) -> Result<Login, DropReason> {
        let accept = Accept::read(attributes, &self.config.aaa.plans, self.config.aaa.unsupported);
        let accept = accept.map_err(|_| DropReason::RadiusAnswer)?;
        for attribute in &accept.unsupported {
            *self.calls.remote.unsupported.entry(*attribute).or_default() += 1;
        }
        let quotas = quotas(attributes).map_err(|_| DropReason::RadiusAnswer)?;
        let (wish, is_walled) = self.state_of_wish(&accept.plan);
        let index = self.subscriber_of_accept(name, &wish)?;
        let wish = match accept.framed {
            Some(Framed::Address(address)) => Some(address),
            Some(Framed::Any) | None => None,
        };
        let wishes = Wishes { address: wish, prefix: prefix_of(&accept)? };
        let given = self.admit_login(id, index, wishes, out)?;
        self.take_facts(id, name, &accept, quotas);
        self.take_state(id, is_walled);
        let text = || accept.message.clone().unwrap_or_default().into_bytes();
        Ok(Login { index, given, message: accept.proof.clone().unwrap_or_else(text) })
    }

    /// What the Accept says of the session beside its address and plan.
    fn take_facts(&mut self, id: CallId, name: &[u8], accept: &Accept, quotas: Limits) {
        let call = self.calls.calls.get_mut(&id);
        let Some(account) = call.and_then(|call| call.account.as_mut()) else { return };
        let boxed = |bytes: &Vec<u8>| Box::from(bytes.as_slice());
        account.facts = Arc::new(Facts {
            name: accept.name.as_ref().filter(|own| own.as_slice() != name).map(boxed),
            classes: accept.classes.iter().map(boxed).collect(),
            chargeable: accept.chargeable.as_ref().map(boxed),
            is_remote: true,
            limits: Limits {
                session_timeout_s: accept.session_timeout_s,
                idle_timeout_s: accept.idle_timeout_s,
                interim_s: accept.interim_s,
                ..quotas
            },
            ..(*account.facts).clone()
        });
    }

    fn take_state(&mut self, id: CallId, is_walled: Option<bool>) {
        let call = self.calls.calls.get_mut(&id);
        if let Some(account) = call.and_then(|call| call.account.as_mut()) {
            account.is_walled = is_walled.unwrap_or(false);
        }
    }

    /// The subscriber of a name that RADIUS has accepted, with the plan that the answer says.
    fn subscriber_of_accept(&mut self, name: &[u8], wish: &PlanWish) -> Result<Index, DropReason> {
        let known = self.subscriber_of_login(name);
        let known = known.and_then(|index| Some((index, self.subscribers.get(index)?.subscriber.clone())));
        let login: Option<Name> = std::str::from_utf8(name).ok().and_then(|name| name.parse().ok());
        let login = login.ok_or(DropReason::RadiusAnswer)?;
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
    pub(in crate::bng) fn plan_of_wish(&self, wish: &PlanWish, before: Option<Plan>) -> Option<Plan> {
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
}

/// Framed-IPv6-Prefix: a /64, which the concentrator advertises (RFC 5080, section 2.11). Another length could not be used as it was
/// assigned.
fn prefix_of(accept: &Accept) -> Result<Option<LinkPrefix>, DropReason> {
    let Some(prefix) = accept.prefixes.first() else { return Ok(None) };
    let text = format!("{}/{}", prefix.address, prefix.len);
    text.parse().map(Some).map_err(|_| DropReason::RadiusPrefix)
}
