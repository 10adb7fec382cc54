//! Router advertisements to sessions with a prefix of IPv6: when IPV6CP is open, when a device asks, and at intervals (RFC 4861,
//! section 6.2).
//!
//! ```text
//! IPV6CP open, lease stored > first, two more 16 s apart > every interval, with jitter > the session ends, or IPV6CP closes
//! router solicitation       > answered to its sender, at a limited rate
//! ```
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::net::Ipv6Addr;
use std::time::Duration;

use super::{Bng, Deadline, Outputs};
use crate::drops::DropReason;
use crate::limit::Limit;
use crate::line::Line;
use crate::mac::Mac;
use crate::ppp::protocol;
use crate::pppoe::session::SessionFrame;
use crate::prefix::{interface_id, link_local};
use crate::ra::{self, Advertisement};
use crate::session::{Device, Session};
use crate::subscriber::Key;
use crate::subscribers::{Advertised, Index};

/// Advertisements that follow each other soon, and their distance (RFC 4861, section 10).
const FIRST: u32 = 3;
const FIRST_EVERY: Duration = Duration::from_secs(16);
/// Answers to solicitations of a session.
const SOLICITED: Limit = Limit { per_s: 1, burst: 4 };
/// EtherType of IPv6.
const IPV6: [u8; 2] = [0x86, 0xdd];

impl Bng {
    /// The device of a session can be told its prefix: from now on it is, at intervals.
    pub(super) fn start_advertising(&mut self, index: Index, out: &mut Outputs) {
        let has_begun = self.online_mut(index).is_none_or(|online| online.advertised.is_some());
        if has_begun || !self.may_advertise(index) {
            return;
        }
        self.advertise(index, ra::ALL_NODES, out);
        self.schedule(index, Advertised { next: self.now.at + FIRST_EVERY, sent: 1 });
    }

    /// Sessions of before the program began: their devices have had an advertisement, some time ago.
    pub(super) fn resume_advertising(&mut self, index: Index) {
        let has_begun = self.online_mut(index).is_none_or(|online| online.advertised.is_some());
        if !has_begun && self.may_advertise(index) {
            // Soon, since the program may have been away for long, and not all at once.
            let after = self.config.advertise.interval / 4;
            let after = after.mul_f64(part_of(index, 0));
            self.schedule(index, Advertised { next: self.now.at + after, sent: FIRST });
        }
    }

    /// The time for the next one has come.
    pub(super) fn advertise_again(&mut self, index: Index, out: &mut Outputs) {
        let Some(Advertised { sent, .. }) =
            self.online_mut(index).and_then(|online| online.advertised.take())
        else {
            return;
        };
        if !self.may_advertise(index) {
            return;
        }
        self.advertise(index, ra::ALL_NODES, out);
        let sent = sent.saturating_add(1);
        let interval = self.config.advertise.interval;
        let after = if sent < FIRST { FIRST_EVERY.min(interval) } else { self.jittered(index, sent) };
        self.schedule(index, Advertised { next: self.now.at + after, sent });
    }

    /// No more advertisements: the session has ended, or IPV6CP is closed.
    pub(super) fn stop_advertising(&mut self, index: Index) {
        let advertised = self.online_mut(index).and_then(|online| online.advertised.take());
        if let Some(Advertised { next, .. }) = advertised {
            self.deadlines.remove(&(next, Deadline::Advertise(index)));
        }
    }

    /// A router solicitation, in a PPPoE session or not.
    pub(super) fn solicited(
        &mut self,
        index: Index,
        packet: &[u8],
        out: &mut Outputs,
    ) -> Result<(), DropReason> {
        let from = ra::read_solicitation(packet).ok_or(DropReason::RouterSolicitation)?;
        if !self.may_advertise(index) {
            return Err(DropReason::NoPrefix);
        }
        if !self.limiter.takes(self.now.at, &("rs", index), SOLICITED) {
            return Err(DropReason::SubscriberRate);
        }
        self.advertise(index, if from.is_unspecified() { ra::ALL_NODES } else { from }, out);
        Ok(())
    }

    /// A router solicitation over Ethernet.
    pub(super) fn solicited_by_ethernet(
        &mut self,
        line: &Line,
        mac: Mac,
        packet: &[u8],
        out: &mut Outputs,
    ) -> Result<(), DropReason> {
        let keys = [Key::Line(line.clone()), Key::Mac(mac)];
        let known: Vec<Index> = keys.iter().filter_map(|key| self.subscribers.of_key(key)).collect();
        let mut seats = known.iter().flat_map(|index| self.subscribers.seats(*index));
        let online = seats.find(|index| self.is_of(*index, line, mac));
        // Devices ask for routers before they have a lease.
        let missing = if known.is_empty() { DropReason::NoSubscriber } else { DropReason::NoPrefix };
        self.solicited(online.ok_or(missing)?, packet, out)
    }

    /// Whether the session is on disk, has a prefix, and takes packets of IPv6.
    fn may_advertise(&self, index: Index) -> bool {
        let online = self.subscribers.get(index).and_then(|entry| entry.online.as_ref());
        let Some(online) = online.filter(|online| online.is_stored) else { return false };
        let lease = &online.session.lease;
        lease.prefix.is_some()
            && lease.ppp.is_none_or(|ppp| {
                let call = self.calls.of_session(&lease.device.line, ppp, online.session.id);
                call.is_some_and(|call| self.calls.is_ipv6_open(call))
            })
    }

    fn schedule(&mut self, index: Index, advertised: Advertised) {
        if let Some(online) = self.online_mut(index) {
            online.advertised = Some(advertised);
            self.deadlines.insert((advertised.next, Deadline::Advertise(index)));
        }
    }

    /// Between three quarters of the interval and all of it.
    fn jittered(&self, index: Index, sent: u32) -> Duration {
        let quarter = self.config.advertise.interval / 4;
        3 * quarter + quarter.mul_f64(part_of(index, sent))
    }

    fn advertise(&mut self, index: Index, to: Ipv6Addr, out: &mut Outputs) {
        let Some(session) = self.subscribers.get(index).and_then(|entry| entry.online.as_ref()) else {
            return;
        };
        let Session { lease, .. } = &session.session;
        let Device { line, mac, .. } = lease.device.clone();
        let Some(own) = self.config.ports.get(&line.port).and_then(|port| port.mac) else { return };
        let times = &self.config.advertise;
        let advertised = lease.prefix.map(|prefix| ra::Advertised {
            prefix,
            valid_s: times.valid_s,
            preferred_s: times.preferred_s,
        });
        let advertisement = Advertisement {
            router_lifetime_s: times.router_s,
            prefix: advertised,
            mtu: lease.ppp.map(|ppp| ppp.agreed.peer_mru.into()),
            dns: self.config.dns6.clone(),
            source_mac: lease.ppp.is_none().then_some(own),
        };
        let packet = advertisement.packet(link_local(interface_id(own)), to);
        let frame = match lease.ppp {
            Some(ppp) => {
                let (protocol, payload) = (protocol::IPV6, &packet[..]);
                SessionFrame { dst: mac, src: own, session_id: ppp.id, protocol, payload }.write()
            }
            // Several devices may be behind the line, of which one is the subscriber's: it alone is told.
            None => [&mac.0[..], &own.0, &IPV6, &packet].concat(),
        };
        self.send_now(&line, mac, frame, out);
    }
}

/// From 0 to 1, another one for each session and each time.
fn part_of(index: Index, sent: u32) -> f64 {
    let mixed = u64::from(index.0).wrapping_add(u64::from(sent)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 54) as f64 / 1024.0
}
