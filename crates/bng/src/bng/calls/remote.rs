//! Logins that RADIUS knows.
//!
//! ```text
//! login without a password here > Access-Request > Accept: the subscriber, with the plan of the answer > address > IPCP
//!                                                > Reject, no answer: the client is refused, and may dial again
//! ```
//! No call waits for another one's answer.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::super::accepted::Refusal;
use super::super::dhcp_radius::AskId;
use super::login::Login;
use super::{Bng, CallId, Calls, Deadline, Outputs};
use crate::account::Facts;
use crate::drops::DropReason;
use crate::ppp::auth::Attempt;
use crate::radius::Service;
use crate::radius::access::{Access, Place, reject_message, request};
use crate::radius::attribute::Attributes;
use crate::radius::client::{self, Client, Failure, Server, Timers, Token};
use crate::radius::packet::code;
use crate::random::Random;

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

impl Calls {
    /// Attributes of an Accept were ignored, because they are not supported.
    pub(in crate::bng) fn count_unsupported(&mut self, attributes: &[(u32, u8)]) {
        for attribute in attributes {
            *self.remote.unsupported.entry(*attribute).or_default() += 1;
        }
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
            access: Access::Pppoe,
            line: &call.key.line,
            mac: call.mac,
            circuit_id: tag.and_then(|tag| tag.circuit_id.as_deref()),
            remote_id: tag.and_then(|tag| tag.remote_id.as_deref()),
            up_kbit_per_s: tag.and_then(|tag| tag.up_kbit_per_s),
            down_kbit_per_s: tag.and_then(|tag| tag.down_kbit_per_s),
            name: &attempt.name,
            user_name: None,
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
        if let Some(ask) = AskId::of(token) {
            return self.dhcp_is_answered(ask, result, out);
        }
        let id = CallId(token.0);
        let attempt = self.calls.calls.get_mut(&id).and_then(|call| call.asks.take());
        let Some(attempt) = attempt else { return };
        let login = match result {
            Ok((code::ACCESS_ACCEPT, attributes)) => {
                let login = self.radius_accept(id, &attempt.name, &attributes, out);
                if login.is_ok() {
                    self.remember_attempt(id, &attempt, &attributes, out);
                }
                login
            }
            // A challenge is no answer to PAP, CHAP or MS-CHAPv2.
            Ok((_, attributes)) => {
                self.attempt_rejected(id, &attempt, out);
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
                Err(refusal) => Err(refusal),
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
    ) -> Result<Option<Login>, Refusal> {
        if self.config.aaa.is_local_after_radius()
            && let Some(result) = self.check_local(id, attempt, out)
        {
            return result.map(Some);
        }
        self.brown_out(id, attempt, out)
    }

    /// A login comes online by an Accept, or by one of before.
    pub(super) fn radius_accept(
        &mut self,
        id: CallId,
        name: &[u8],
        attributes: &Attributes,
        out: &mut Outputs,
    ) -> Result<Login, Refusal> {
        let accepted = self.accepted(name, attributes)?;
        let device = self.device_of_call(id).ok_or(DropReason::PppoeSession)?;
        let index = self.seat_for(accepted.index, &device)?;
        let given = self.admit(index, &device, accepted.wishes, out)?;
        let routes = self.routes_of(index, &accepted.routes, given)?;
        let call = self.calls.calls.get_mut(&id);
        if let Some(account) = call.and_then(|call| call.account.as_mut()) {
            let Facts { circuit_id, remote_id, .. } = (*account.facts).clone();
            account.facts = Arc::new(Facts { circuit_id, remote_id, routes, ..accepted.facts });
            account.is_walled = accepted.is_walled.unwrap_or(false);
        }
        let text = || accepted.message.clone().unwrap_or_default().into_bytes();
        Ok(Login { index, given, message: accepted.proof.clone().unwrap_or_else(text) })
    }
}
