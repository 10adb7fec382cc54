//! DHCP clients that RADIUS knows (`dhcp-radius`).
//!
//! ```text
//! DISCOVER, REQUEST of no subscriber here > User-Name by the template > Access-Request, the message waits
//!     Accept > the subscriber, address, prefix: an offer with a permit for this device > the message as of any subscriber
//!     Reject > no answer, and the servers are not asked again for a while      no answer > the last Accept (brown-out), or none
//! ```
//! - A client has one request on its way, and repeats its message meanwhile: the last one is answered. No client waits for another
//!   one's answer.
//! - A session is renewed without a question, unless the configuration says so; then a Reject ends it, and without an answer it goes on.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::accepted::{Accepted, Given, Refusal, Wishes, login_of};
use super::calls::Shown;
use super::dhcp::{Answered, Call};
use super::{Bng, Outputs};
use crate::account::{Account, Facts};
use crate::config::{DhcpRadius, Renewals};
use crate::dhcp4::message::MessageType;
use crate::dhcp4::relay_info::{REMOTE_ID, sub_option};
use crate::dhcp4::request::{Ask, Request};
use crate::drops::DropReason;
use crate::line::Line;
use crate::mac::Mac;
use crate::ppp::auth::Password;
use crate::radius::Service;
use crate::radius::access::{Access, Place, device_request, reject_message};
use crate::radius::attribute::Attributes;
use crate::radius::client::{Failure, Token};
use crate::radius::packet::code;
use crate::session::{Device, EndCause, NO_ADDRESS};
use crate::subscriber::Key;
use crate::subscribers::{Entry, Index, Offer};
use crate::why::Outcome;

/// Most clients that are remembered because a server has rejected them.
const MOST_REJECTED: usize = 65_536;
/// Most bytes of a User-Name.
const MOST_NAME_BYTES: usize = 253;

/// Number of a question, never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct AskId(u64);

impl AskId {
    /// In tokens of the client, which also has those of calls.
    const MARK: u64 = 1 << 63;

    pub(super) fn of(token: Token) -> Option<AskId> {
        (token.0 & AskId::MARK != 0).then_some(AskId(token.0 & !AskId::MARK))
    }

    fn token(self) -> Token {
        Token(self.0 | AskId::MARK)
    }
}

/// A client that waits for an answer.
#[derive(Debug)]
struct Pending {
    /// The subscriber of the lease to be renewed; `None`: a session is to begin.
    renews: Option<Index>,
    device: Device,
    request: Request,
    src_mac: Mac,
    user_name: String,
    account: Account,
}

/// A client that a server has rejected.
#[derive(Debug)]
struct Rejected {
    until: Duration,
    message: Box<str>,
}

/// Questions for DHCP clients.
#[derive(Debug, Default)]
pub(super) struct DhcpAsks {
    pending: BTreeMap<AskId, Pending>,
    by_device: HashMap<(Line, Mac), AskId>,
    last: u64,
    rejected: HashMap<(Line, Mac), Rejected>,
    /// Those that were rejected, the first one first.
    rejections: VecDeque<(Duration, (Line, Mac))>,
}

impl DhcpAsks {
    /// Clients that wait for an answer.
    pub(super) fn len(&self) -> usize {
        self.pending.len()
    }

    fn remove(&mut self, id: AskId) -> Option<Pending> {
        let pending = self.pending.remove(&id)?;
        self.by_device.remove(&(pending.device.line.clone(), pending.device.mac));
        Some(pending)
    }

    fn reject(&mut self, device: &Device, now: Duration, rejected: Rejected) {
        let is_over = |until: &Duration| *until <= now;
        while self.rejections.len() >= MOST_REJECTED
            || self.rejections.front().is_some_and(|(until, _)| is_over(until))
        {
            let Some((until, device)) = self.rejections.pop_front() else { break };
            if self.rejected.get(&device).is_some_and(|rejected| rejected.until == until) {
                self.rejected.remove(&device);
            }
        }
        if !is_over(&rejected.until) {
            let device = (device.line.clone(), device.mac);
            self.rejections.push_back((rejected.until, device.clone()));
            self.rejected.insert(device, rejected);
        }
    }
}

/// What a device and its access node say of themselves, for templates and attributes.
struct Seen<'a> {
    device: &'a Device,
    circuit_id: Option<&'a [u8]>,
    remote_id: Option<&'a [u8]>,
}

impl<'a> Seen<'a> {
    fn of(device: &'a Device, request: &'a Request) -> Seen<'a> {
        let info = request.relay_info.as_deref();
        let remote_id = info.and_then(|info| sub_option(info, REMOTE_ID).ok().flatten());
        Seen { device, circuit_id: request.circuit_id.as_deref(), remote_id }
    }

    /// Attributes that the request does not have come from the session.
    fn or(self, facts: &'a Facts) -> Seen<'a> {
        let circuit_id = self.circuit_id.or(facts.circuit_id.as_deref());
        let remote_id = self.remote_id.or(facts.remote_id.as_deref());
        Seen { circuit_id, remote_id, ..self }
    }

    fn place<'b>(&self, user_name: &'b str, session_id: &'b str) -> Place<'b>
    where
        'a: 'b,
    {
        Place {
            access: Access::Dhcp,
            line: &self.device.line,
            mac: self.device.mac,
            circuit_id: self.circuit_id,
            remote_id: self.remote_id,
            up_kbit_per_s: None,
            down_kbit_per_s: None,
            name: user_name.as_bytes(),
            user_name: Some(user_name.as_bytes()),
            session_id,
        }
    }

    /// User-Name; `None`: nothing is known that the template names, or it is too long.
    fn user_name(&self, dhcp: &DhcpRadius) -> Option<String> {
        let name = dhcp.user_name.render(&self.place("", ""));
        (1..=MOST_NAME_BYTES).contains(&name.len()).then_some(name)
    }
}

impl Bng {
    /// Whether a message of a client begins a session.
    pub(super) fn is_asked_for(&self, ask: &Ask) -> bool {
        match ask {
            Ask::Discover { .. } | Ask::Reboot { .. } | Ask::Renew { .. } => true,
            Ask::Select { server, .. } => self.is_server(*server),
            Ask::Decline { .. } | Ask::Release { .. } | Ask::Inform { .. } => false,
        }
    }

    /// The subscriber that RADIUS has accepted with this device: it is online, or has an offer.
    pub(super) fn accepted_before(&self, device: &Device, request: &Request) -> Option<Index> {
        let user_name = Seen::of(device, request).user_name(self.config.aaa.dhcp.as_ref()?)?;
        let main = self.subscribers.of_key(&Key::Login(login_of(user_name.as_bytes())?))?;
        let has_permit = |offer: &Offer| offer.permit.is_some() && offer.device == *device;
        let is_of = |entry: &Entry| is_online(entry, device) || entry.offer.as_ref().is_some_and(has_permit);
        self.subscribers.seats(main).into_iter().find(|seat| self.subscribers.get(*seat).is_some_and(is_of))
    }

    /// What AAA has said of the device of a call when it was offered its address.
    pub(super) fn permitted(&self, call: &Call) -> Option<Account> {
        let offer = self.subscribers.get(call.index)?.offer.as_ref()?;
        offer.permit.as_ref().filter(|_| offer.device == call.device).map(|account| (**account).clone())
    }

    /// Whether RADIUS is asked for the renewal of a session that it has accepted.
    pub(super) fn asks_for_renewal(&self, index: Index, device: &Device, request: &Request) -> bool {
        let dhcp = self.config.aaa.dhcp.as_ref();
        let online = self.subscribers.get(index).filter(|entry| is_online(entry, device));
        let account = online.and_then(|entry| entry.online.as_ref()?.session.lease.account.as_ref());
        dhcp.is_some_and(|dhcp| dhcp.renewals == Renewals::Asked)
            && account.is_some_and(|account| account.facts.is_remote)
            && (request.ask.is_for_lease() || matches!(request.ask, Ask::Discover { .. }))
    }

    fn login_of_subscriber(&self, index: Index) -> Option<String> {
        match &self.subscribers.get(index)?.subscriber.key {
            Key::Login(login) => Some(login.to_string()),
            Key::Mac(_) | Key::Line(_) | Key::Circuit(_) => None,
        }
    }

    /// Asks the servers for a device; its message is answered when they have.
    pub(super) fn ask_for_device(
        &mut self,
        renews: Option<Index>,
        device: Device,
        request: Request,
        src_mac: Mac,
        out: &mut Outputs,
    ) -> Result<Answered, Refusal> {
        let Some(dhcp) = self.config.aaa.dhcp.as_ref() else { return Err(DropReason::NoSubscriber.into()) };
        let key = (device.line.clone(), device.mac);
        if let Some(rejected) = self.dhcp_asks.rejected.get(&key).filter(|of| of.until > self.now.at) {
            return Err(Refusal { reason: DropReason::RadiusReject, message: rejected.message.to_string() });
        }
        if let Some(id) = self.dhcp_asks.by_device.get(&key)
            && let Some(pending) = self.dhcp_asks.pending.get_mut(id)
        {
            (pending.request, pending.src_mac, pending.device) = (request, src_mac, device);
            self.counts.drops += DropReason::Superseded;
            return Ok(Answered::Later);
        }
        let online = renews.and_then(|index| self.subscribers.get(index)?.online.as_ref());
        let before = online.and_then(|online| online.session.lease.account.clone());
        let facts = before.as_ref().map(|account| account.facts.clone()).unwrap_or_default();
        let seen = Seen::of(&device, &request).or(&facts);
        // What is sent to the server itself has no circuit-id, of which the name may be.
        let known = renews.and_then(|index| self.login_of_subscriber(index));
        let name = known.or_else(|| seen.user_name(dhcp));
        let name = name.filter(|name| login_of(name.as_bytes()).is_some());
        let user_name = name.ok_or(DropReason::RadiusUserName)?;
        self.traces.dials(&device.line, device.mac, user_name.as_bytes());
        let account = before.unwrap_or_else(|| self.ledger.account());
        let session_id = account.id.to_string();
        let place = seen.place(&user_name, &session_id);
        let password = dhcp.password.as_ref().map(|template| template.render(&place));
        let password = password.map(|password| Password::new(password.as_bytes()));
        let asked = device_request(&self.config.aaa.nas, &place, password, self.now.wall_s);
        self.dhcp_asks.last += 1;
        let id = AskId(self.dhcp_asks.last);
        self.trace(&device.line, device.mac, Outcome::Asked);
        self.dhcp_asks.by_device.insert(key, id);
        let pending = Pending { renews, device, request, src_mac, user_name, account };
        self.dhcp_asks.pending.insert(id, pending);
        self.tell_radius(Service::Access, out, |client, now, outputs| {
            client.send(now, id.token(), asked, outputs);
        });
        Ok(Answered::Later)
    }

    /// The servers have answered, or have not.
    pub(super) fn dhcp_is_answered(
        &mut self,
        id: AskId,
        result: Result<(u8, Attributes), Failure>,
        out: &mut Outputs,
    ) {
        let Some(pending) = self.dhcp_asks.remove(id) else { return };
        let (line, mac) = (pending.device.line.clone(), pending.device.mac);
        let Some(login) = login_of(pending.user_name.as_bytes()) else { return };
        let shown = Shown { login: login.clone(), line: line.clone(), mac, password: None };
        let result = match result {
            Ok((code::ACCESS_ACCEPT, attributes)) => {
                let done = self.admit_device(pending, &attributes, out);
                if done.is_ok() {
                    self.remember(shown, &attributes, out);
                }
                done
            }
            // A challenge is no answer for a client that cannot be asked.
            Ok((_, attributes)) => {
                self.rejected(&shown, out);
                self.device_is_rejected(pending, &reject_message(&attributes), out)
            }
            Err(_) if pending.renews.is_some_and(|index| self.still_has(index, &pending.device)) => {
                self.renew(pending, None, out)
            }
            Err(_) => match self.answer_of_device(&shown) {
                Ok(attributes) => {
                    let done = self.admit_device(pending, &attributes, out);
                    if done.is_ok() {
                        self.answer_is_used(&login, out);
                    }
                    done
                }
                Err(reason) => Err(reason.into()),
            },
        };
        self.request_is_done(line, mac, result, out);
    }

    fn still_has(&self, index: Index, device: &Device) -> bool {
        self.subscribers.get(index).is_some_and(|entry| is_online(entry, device))
    }

    /// An Accept for a device.
    fn admit_device(
        &mut self,
        pending: Pending,
        attributes: &Attributes,
        out: &mut Outputs,
    ) -> Result<Answered, Refusal> {
        let Accepted { index, wishes, routes, facts, is_walled, .. } =
            self.accepted(pending.user_name.as_bytes(), attributes)?;
        let of_client = match pending.request.ask {
            Ask::Discover { wish } => wish,
            Ask::Select { address, .. } | Ask::Reboot { address } | Ask::Renew { address } => Some(address),
            Ask::Decline { .. } | Ask::Release { .. } | Ask::Inform { .. } => None,
        };
        let index = self.seat_for(index, &pending.device)?;
        if self.still_has(index, &pending.device) {
            let account = pending.account(facts, is_walled);
            return self.renew(Pending { renews: Some(index), ..pending }, Some(account), out);
        }
        let wishes = Wishes { of_client, ..wishes };
        let given = self.admit(index, &pending.device, wishes, out)?;
        if given.address == NO_ADDRESS {
            return Err(DropReason::PoolExhausted.into());
        }
        let facts = Facts { routes: self.routes_of(index, &routes, given)?, ..facts };
        let account = pending.account(facts, is_walled);
        let Given { address, prefix } = given;
        let (device, until) = (pending.device.clone(), self.now.at + self.config.offer);
        let permit = Some(Box::new(account));
        self.hold_offer(index, Offer { address, prefix, until, device, permit });
        let Pending { device, request, src_mac, .. } = pending;
        self.request_of(Call { index, device, request, src_mac, account: None }, out)
    }

    /// A session goes on, perhaps with another account.
    fn renew(
        &mut self,
        pending: Pending,
        account: Option<Account>,
        out: &mut Outputs,
    ) -> Result<Answered, Refusal> {
        let Pending { renews, device, request, src_mac, .. } = pending;
        let index = renews.ok_or(DropReason::NoSubscriber)?;
        self.request_of(Call { index, device, request, src_mac, account }, out)
    }

    /// A Reject for a device: it is not asked for again for a time. A lease that was to be renewed ends.
    fn device_is_rejected(
        &mut self,
        pending: Pending,
        message: &str,
        out: &mut Outputs,
    ) -> Result<Answered, Refusal> {
        let Pending { renews, device, request, src_mac, .. } = pending;
        let time = self.config.aaa.dhcp.as_ref().map_or(Duration::ZERO, |dhcp| dhcp.reject);
        let rejected = Rejected { until: self.now.at + time, message: message.into() };
        self.dhcp_asks.reject(&device, self.now.at, rejected);
        let refusal = Refusal { reason: DropReason::RadiusReject, message: message.into() };
        let Some(index) = renews.filter(|index| self.still_has(*index, &device)) else { return Err(refusal) };
        self.end(index, EndCause::Blocked, out);
        let call = Call { index, device, request, src_mac, account: None };
        match call.request.ask.is_for_lease() {
            true => {
                let frame = self.reply(&call, MessageType::Nak, None)?;
                Ok(Answered::Now(Outcome::Refused(DropReason::RadiusReject), frame))
            }
            false => Err(refusal),
        }
    }
}

impl Pending {
    /// The account of the session, as an Accept says.
    fn account(&self, facts: Facts, is_walled: Option<bool>) -> Account {
        let Seen { circuit_id, remote_id, .. } =
            Seen::of(&self.device, &self.request).or(&self.account.facts);
        // Accounting uses the name of the request, unless the Accept has another one (RFC 2865, section 5.1).
        let name = facts.name.clone().or_else(|| Some(Box::from(self.user_name.as_bytes())));
        let (circuit_id, remote_id) = (circuit_id.map(Box::from), remote_id.map(Box::from));
        let facts = Arc::new(Facts { name, circuit_id, remote_id, ..facts });
        Account { is_walled: is_walled.unwrap_or(false), facts, ..self.account.clone() }
    }
}

/// Whether a subscriber is online with this device, by DHCP.
fn is_online(entry: &Entry, device: &Device) -> bool {
    let lease = entry.online.as_ref().map(|online| &online.session.lease);
    lease.is_some_and(|lease| lease.ppp.is_none() && lease.device == *device)
}
