//! Disconnect and CoA (RFC 5176): which sessions a server means, and what becomes of them.
//!
//! ```text
//! datagram > dynauth::Server > sessions that fit all that identifies > check > change, records, one command of the node each
//!                                                                           ... Stored > ACK     StoreFailed > NAK 506
//! ```
//! A change is made whole or not at all: everything is checked before the first session is changed.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::net::SocketAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Bng, Outputs, Wait, Waiting};
use crate::account::{Account, Facts, Limits};
use crate::io::Output;
use crate::name::Name;
use crate::plan::Plan;
use crate::prefix::LinkPrefix;
use crate::radius::access::{Access, Place};
use crate::radius::dynauth::{
    Action, Ask, Change, ErrorCause, Identification, Ignored, Key, Options, Received,
};
use crate::radius::packet::Distrust;
use crate::radius::plans::PlanWish;
use crate::session::EndCause;
use crate::subscriber::Subscriber;
use crate::subscribers::{Entry, Index, OnDisk};

/// What has become of requests of CoA and Disconnect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DynauthCounts {
    /// Carried out.
    pub acknowledged: u64,
    /// Refused with an Error-Cause.
    pub refused: u64,
    /// Answered again from memory, or still being carried out.
    pub repeated: u64,
    /// Of a source that is not configured.
    pub unknown_source: u64,
    /// With a wrong authenticator, or malformed.
    pub distrusted: u64,
    /// With an Event-Timestamp outside the window.
    pub outside_window: u64,
    /// Beyond the most that are remembered.
    pub too_many: u64,
}

/// Whether a length and the bytes behind it, as in Framed-IPv6-Prefix, are this prefix.
fn is_prefix(wanted: &[u8], own: LinkPrefix) -> bool {
    let [len, bytes @ ..] = wanted else { return false };
    *len == LinkPrefix::LEN && bytes.len() >= 8 && own.network().octets().starts_with(bytes)
}

impl Bng {
    /// What has become of requests of CoA and Disconnect.
    pub fn dynauth_counts(&self) -> DynauthCounts {
        self.dynauth_counts
    }

    /// Servers that may ask, with their secrets.
    pub(super) fn set_dynauth(&mut self, options: Options) {
        let aaa = &self.config.aaa;
        self.dynauth.configure(options, aaa.nas.clone(), aaa.plans.clone());
    }

    /// A datagram of a server.
    pub(super) fn dynauth_datagram(&mut self, from: SocketAddr, bytes: &[u8], out: &mut Outputs) {
        let counts = &mut self.dynauth_counts;
        match self.dynauth.datagram(self.now, from, bytes) {
            Ok(Received::Again(bytes)) => {
                counts.repeated += 1;
                out.push(Output::Dynauth { to: from, bytes });
            }
            Ok(Received::Refused(bytes)) => {
                counts.refused += 1;
                out.push(Output::Dynauth { to: from, bytes });
            }
            Ok(Received::Pending) => counts.repeated += 1,
            Ok(Received::Ask(ask)) => self.dynauth_ask(*ask, out),
            Err(Ignored::UnknownSource) => counts.unknown_source += 1,
            Err(Ignored::Timestamp) => counts.outside_window += 1,
            Err(Ignored::Busy) => counts.too_many += 1,
            Err(Ignored::Distrusted(Distrust::Length) | Ignored::Code | Ignored::Distrusted(_)) => {
                counts.distrusted += 1;
            }
        }
    }

    fn dynauth_ask(&mut self, ask: Ask, out: &mut Outputs) {
        let before = self.revision;
        match self.carry_out_ask(&ask, out) {
            Ok(()) if self.revision > before => {
                let what = Wait::Dynauth { key: ask.key };
                self.waiting.push_back(Waiting { revision: self.revision, what });
            }
            result => self.answer_dynauth(ask.key, result, out),
        }
    }

    /// A request was carried out and is on disk, or was refused.
    pub(super) fn answer_dynauth(&mut self, key: Key, result: Result<(), ErrorCause>, out: &mut Outputs) {
        match result {
            Ok(()) => self.dynauth_counts.acknowledged += 1,
            Err(_) => self.dynauth_counts.refused += 1,
        }
        if let Some(bytes) = self.dynauth.answer(key, result) {
            out.push(Output::Dynauth { to: key.from(), bytes });
        }
    }

    fn carry_out_ask(&mut self, ask: &Ask, out: &mut Outputs) -> Result<(), ErrorCause> {
        let sessions = self.identified(&ask.identification);
        if sessions.is_empty() {
            return Err(ErrorCause::SessionContextNotFound);
        }
        match &ask.action {
            Action::Disconnect => {
                sessions.into_iter().for_each(|index| self.end(index, EndCause::Disconnected, out));
                Ok(())
            }
            Action::Change(change) => {
                let (wish, is_walled) = self.state_of_wish(&change.plan);
                let plan = self.plan_of_change(&wish)?;
                for index in sessions {
                    self.change_session(index, plan.clone(), is_walled, change, out);
                }
                Ok(())
            }
        }
    }

    /// Sessions that fit all that identifies them.
    fn identified(&self, by: &Identification) -> Vec<Index> {
        let of_address = by.address.map(|address| self.addresses.holder(address));
        let of_account = || {
            let id = std::str::from_utf8(by.session_id.as_ref()?).ok()?;
            Some(id.parse().ok().and_then(|id| self.session_of_account(id)))
        };
        let candidates: Vec<Index> = match of_address.or_else(of_account) {
            Some(index) => index.into_iter().collect(),
            None => self.sessions.values().copied().collect(),
        };
        let fits = |index: &Index| self.subscribers.get(*index).is_some_and(|entry| self.fits(entry, by));
        candidates.into_iter().filter(fits).collect()
    }

    fn fits(&self, entry: &Entry, by: &Identification) -> bool {
        let Some(online) = entry.online.as_ref().filter(|online| online.is_stored) else { return false };
        let session = &online.session;
        let account = session.lease.account.clone().unwrap_or_default();
        let name = self.name_of(&entry.subscriber, &account, session.lease.ppp.is_some());
        let id = account.id.to_string();
        let is_ppp = session.lease.ppp.is_some();
        let place = Place {
            access: if is_ppp { Access::Pppoe } else { Access::Dhcp },
            line: &session.lease.device.line,
            mac: session.lease.device.mac,
            circuit_id: account.facts.circuit_id.as_deref(),
            remote_id: account.facts.remote_id.as_deref(),
            up_kbit_per_s: None,
            down_kbit_per_s: None,
            name: &name,
            user_name: None,
            session_id: &id,
        };
        let nas = &self.config.aaa.nas;
        let is = |wanted: &Option<Vec<u8>>, found: &[u8]| {
            wanted.as_ref().is_none_or(|wanted| wanted.eq_ignore_ascii_case(found))
        };
        let is_name =
            |wanted: &Vec<u8>| **wanted == *name || **wanted == *entry.subscriber.name.as_str().as_bytes();
        by.name.as_ref().is_none_or(is_name)
            && is(&by.session_id, id.as_bytes())
            && by.address.is_none_or(|address| address == session.lease.address)
            && is(&by.calling_station_id, nas.calling_station_id.render(&place).as_bytes())
            && is(&by.port_id, nas.port_id.render(&place).as_bytes())
            && by.chargeable.as_ref().is_none_or(|wanted| account.facts.chargeable.as_deref() == Some(wanted))
            && by.prefix.as_ref().is_none_or(|wanted| session.lease.prefix.is_some_and(|own| is_prefix(wanted, own)))
            // Servers do not know the interface identifiers of clients.
            && by.interface_id.is_none()
    }

    /// `walled` and `active` as the name of a plan say the state of the session, unless there is such a plan.
    pub(super) fn state_of_wish(&self, wish: &PlanWish) -> (PlanWish, Option<bool>) {
        let is_plan = |name: &String| {
            let name: Result<Name, _> = name.parse();
            name.is_ok_and(|name| self.config.plans.contains_key(&name))
        };
        let state = match wish.plan.as_ref().filter(|name| !is_plan(name)).map(String::as_str) {
            Some("walled") => Some(true),
            Some("active") => Some(false),
            _ => None,
        };
        match state {
            Some(_) => (PlanWish { plan: None, ..wish.clone() }, state),
            None => (wish.clone(), None),
        }
    }

    /// `None`: the plan stays.
    fn plan_of_change(&self, wish: &PlanWish) -> Result<Option<Plan>, ErrorCause> {
        if *wish == PlanWish::default() {
            return Ok(None);
        }
        self.plan_of_wish(wish, None).map(Some).ok_or(ErrorCause::InvalidAttributeValue)
    }

    fn change_session(
        &mut self,
        index: Index,
        plan: Option<Plan>,
        is_walled: Option<bool>,
        change: &Change,
        out: &mut Outputs,
    ) {
        let Some(entry) = self.subscribers.get(index) else { return };
        let Some(online) = &entry.online else { return };
        let (subscriber, account) = (entry.subscriber.clone(), online.session.lease.account.clone());
        if let Some(plan) = plan.filter(|plan| *plan != subscriber.plan) {
            self.set_subscriber(Subscriber { plan, ..subscriber }, OnDisk::NotYet);
            self.store_subscriber(index, out);
            // Its other sessions have the same plan.
            let seats = self.subscribers.seats(self.subscribers.main(index)).into_iter();
            seats.filter(|seat| *seat != index).for_each(|seat| self.tell_node(seat, out));
        }
        let account = account.unwrap_or_else(|| self.ledger_account());
        let own = account.facts.limits;
        let limits = Limits {
            session_timeout_s: change.session_timeout_s.or(own.session_timeout_s),
            idle_timeout_s: change.idle_timeout_s.or(own.idle_timeout_s),
            interim_s: change.interim_s.or(own.interim_s),
            down_bytes: change.quotas.down_bytes.or(own.down_bytes),
            up_bytes: change.quotas.up_bytes.or(own.up_bytes),
            total_bytes: change.quotas.total_bytes.or(own.total_bytes),
        };
        let is_walled = is_walled.unwrap_or(account.is_walled);
        let facts = Arc::new(Facts { limits, ..(*account.facts).clone() });
        self.set_account(index, Account { is_walled, facts, ..account }, out);
    }
}
