//! Who dials in: the subscriber of a name, its password, and its address.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::net::Ipv4Addr;
use std::time::Duration;

use super::super::{Bng, Deadline, Outputs};
use super::CallId;
use crate::config::Moves;
use crate::drops::DropReason;
use crate::ppp::auth::{Attempt, Verdict};
use crate::ppp::endpoint::Network;
use crate::session::Device;
use crate::subscriber::{Key, Status};
use crate::subscribers::{Index, Offer};
use crate::why::Outcome;

/// How long an address is kept for IPCP: as long as it may take.
const ADDRESS_KEPT: Duration = Duration::from_secs(60);

/// A subscriber that may come online.
struct Login {
    index: Index,
    address: Ipv4Addr,
    /// The text of the method's success.
    message: Vec<u8>,
}

impl Bng {
    /// A client says who it is.
    pub(super) fn log_in(&mut self, id: CallId, attempt: &Attempt, out: &mut Outputs) {
        let Some(call) = self.calls.calls.get(&id) else { return };
        let device = Device { line: call.key.line.clone(), mac: call.mac, relay: None };
        let login = self.check_login(attempt, &device, out);
        let (verdict, network) = match &login {
            Ok(Login { address, message, .. }) => {
                let network = Network { ipv4: Some(self.ppp_addresses(*address)), ipv6: None };
                (Verdict::Accept { message: message.clone() }, network)
            }
            Err(reason) => {
                self.counts.drops += *reason;
                self.trace(&device.line, device.mac, Outcome::Dropped(*reason));
                (Verdict::Reject { message: Vec::new() }, Network::default())
            }
        };
        if let Ok(Login { index, address, .. }) = login {
            self.keep_address(index, address);
            self.trace(&device.line, device.mac, Outcome::Offered(address));
            if let Some(call) = self.calls.calls.get_mut(&id) {
                call.login = Some((index, address));
            }
        }
        let mut outputs = Vec::new();
        if let Some(call) = self.calls.calls.get_mut(&id) {
            call.endpoint.verdict(self.now.at, &verdict, network, &mut outputs);
        }
        self.carry_out_call(id, outputs, out);
    }

    fn check_login(
        &mut self,
        attempt: &Attempt,
        device: &Device,
        out: &mut Outputs,
    ) -> Result<Login, DropReason> {
        let name = std::str::from_utf8(&attempt.name).ok().and_then(|name| name.parse().ok());
        let index = name.and_then(|name| self.subscribers.of_key(&Key::Login(name)));
        let index = index.ok_or(DropReason::LoginUnknown)?;
        let entry = self.subscribers.get(index).ok_or(DropReason::LoginUnknown)?;
        let message = entry.subscriber.password.as_ref().and_then(|password| attempt.check(password));
        let message = message.ok_or(DropReason::WrongPassword)?;
        let online = entry.online.as_ref();
        let is_elsewhere = online.is_some_and(|online| online.session.lease.device != *device);
        if entry.subscriber.status == Status::Blocked {
            return Err(DropReason::SubscriberBlocked);
        }
        if self.config.rates(&entry.subscriber.plan).is_none() {
            return Err(DropReason::PlanUnknown);
        }
        if is_elsewhere && self.config.moves == Moves::Refuse {
            return Err(DropReason::SessionElsewhere);
        }
        let address = match self.current_address(index) {
            Some(address) => address,
            None => self.choose_address(index, None, out)?,
        };
        Ok(Login { index, address, message })
    }

    /// The address is the subscriber's until IPCP has ended.
    fn keep_address(&mut self, index: Index, address: Ipv4Addr) {
        self.withdraw_offer(index);
        self.addresses.hold(address, index);
        let until = self.now.at + self.config.offer.max(ADDRESS_KEPT);
        self.deadlines.insert((until, Deadline::Offer(index)));
        if let Some(entry) = self.subscribers.get_mut(index) {
            entry.offer = Some(Offer { address, until });
        }
    }
}
