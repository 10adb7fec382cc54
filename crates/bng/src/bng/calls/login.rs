//! Who dials in: the subscriber of a name, its password, and its address.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::time::Duration;

use super::super::accepted::{Given, Refusal, Wishes};
use super::super::{Bng, Outputs};
use super::CallId;
use crate::config::Source;
use crate::drops::DropReason;
use crate::ppp::auth::{Attempt, Verdict};
use crate::ppp::endpoint::Network;
use crate::session::Device;
use crate::subscriber::Key;
use crate::subscribers::{Index, Offer};
use crate::why::Outcome;

/// How long an address is kept for IPCP: as long as it may take.
const ADDRESS_KEPT: Duration = Duration::from_secs(60);

/// A subscriber that may come online.
pub(super) struct Login {
    pub(super) index: Index,
    pub(super) given: Given,
    /// The text of the method's success.
    pub(super) message: Vec<u8>,
}

impl Bng {
    /// A client says who it is: the sources of AAA are asked in their order.
    pub(super) fn log_in(&mut self, id: CallId, attempt: &Attempt, out: &mut Outputs) {
        if let Some(call) = self.calls.calls.get(&id) {
            self.traces.dials(&call.key.line, call.mac, &attempt.name);
        }
        let order = self.config.aaa.order.clone();
        for source in order {
            match source {
                Source::Local => {
                    if let Some(result) = self.check_local(id, attempt, out) {
                        return self.answer_login(id, result, out);
                    }
                }
                Source::Radius { .. } if self.config.radius.is_empty() => {}
                Source::Radius { .. } => return self.ask_radius(id, attempt, out),
            }
        }
        let reason = match self.subscriber_of_login(&attempt.name) {
            Some(_) => DropReason::WrongPassword,
            None => DropReason::LoginUnknown,
        };
        self.answer_login(id, Err(reason.into()), out);
    }

    /// A login with a password here; `None`: others are to be asked.
    pub(super) fn check_local(
        &mut self,
        id: CallId,
        attempt: &Attempt,
        out: &mut Outputs,
    ) -> Option<Result<Login, Refusal>> {
        let index = self.subscriber_of_login(&attempt.name)?;
        let password = self.subscribers.get(index)?.subscriber.password.as_ref()?;
        let Some(message) = attempt.check(password) else {
            return Some(Err(DropReason::WrongPassword.into()));
        };
        let device = self.device_of_call(id)?;
        let index = match self.seat_for(index, &device) {
            Ok(index) => index,
            Err(reason) => return Some(Err(reason.into())),
        };
        let given = self.admit(index, &device, Wishes::default(), out);
        Some(given.map(|given| Login { index, given, message }))
    }

    /// The subscriber of a name that a client gives.
    pub(super) fn subscriber_of_login(&self, name: &[u8]) -> Option<Index> {
        let name = std::str::from_utf8(name).ok()?.parse().ok()?;
        self.subscribers.of_key(&Key::Login(name))
    }

    /// Tells a client whether it may come online.
    pub(super) fn answer_login(&mut self, id: CallId, login: Result<Login, Refusal>, out: &mut Outputs) {
        let Some(call) = self.calls.calls.get_mut(&id) else { return };
        call.asks = None;
        let (line, mac) = (call.key.line.clone(), call.mac);
        let (verdict, network) = match login {
            Ok(Login { index, given, message }) => {
                call.login = Some((index, given));
                self.keep_given(id, index, given);
                self.trace(&line, mac, Outcome::Offered(given.address));
                let ipv4 = self.ppp_addresses(given.address);
                let ipv6 = given.prefix.and_then(|_| self.interface_ids(&line, mac));
                let network = Network { ipv4, ipv6 };
                (Verdict::Accept { message }, network)
            }
            Err(Refusal { reason, message }) => {
                self.counts.drops += reason;
                self.trace(&line, mac, Outcome::Dropped(reason));
                self.traces.explain(&line, mac, &message);
                (Verdict::Reject { message: message.into_bytes() }, Network::default())
            }
        };
        let mut outputs = Vec::new();
        if let Some(call) = self.calls.calls.get_mut(&id) {
            call.endpoint.verdict(self.now.at, &verdict, network, &mut outputs);
        }
        self.carry_out_call(id, outputs, out);
    }

    /// The device of a call.
    pub(super) fn device_of_call(&self, id: CallId) -> Option<Device> {
        let call = self.calls.calls.get(&id)?;
        Some(Device { line: call.key.line.clone(), mac: call.mac, relay: None })
    }

    /// Address and prefix are the subscriber's until IPCP has ended.
    fn keep_given(&mut self, id: CallId, index: Index, given: Given) {
        let Given { address, prefix } = given;
        let Some(device) = self.device_of_call(id) else { return };
        let until = self.now.at + self.config.offer.max(ADDRESS_KEPT);
        self.hold_offer(index, Offer { address, prefix, until, device, permit: None });
    }
}
