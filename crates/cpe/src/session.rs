//! What a device keeps of its session of PPPoE. An end of PPP exists only while something is negotiated, so that 64,000 sessions that are
//! up take some 100 bytes each.

use std::net::Ipv6Addr;

use weir_bng::ppp::endpoint::{Endpoint, Layer};
use weir_bng::ppp::ipcp::Addresses;
use weir_bng::ppp::ipv6cp::InterfaceIds;
use weir_bng::ppp::lcp::Agreed;
use weir_bng::pppoe::tags::TagList;
use weir_bng::{LinkPrefix, link_local};

use crate::device::{Device, NEVER};
use crate::summary::Step;

/// LCP Echo-Requests without an answer after which a session counts as dead.
pub(crate) const MOST_ECHOES: u8 = 3;

/// Router solicitations without an answer, and the time between two (RFC 4861, section 10).
const MOST_SOLICITATIONS: u8 = 3;
const SOLICITATION_NS: u64 = 4_000_000_000;

/// A device and its session take at most so many bytes while nothing is negotiated.
const _: () = assert!(size_of::<Device>() + size_of::<Session>() <= 320);

/// A session of a device.
#[derive(Debug)]
pub(crate) struct Session {
    /// Its id; 0: none.
    pub(crate) id: u16,
    /// The id of the session before; late frames of it are nothing special.
    pub(crate) previous_id: u16,
    /// When the device has failed if it is not up.
    pub(crate) dial_end_ns: u64,
    /// Whether it was up, so that its end is no failure of the set-up.
    pub(crate) was_up: bool,
    /// How far the negotiation is.
    pub(crate) step: Step,
    /// What is needed until the session is up.
    pub(crate) work: Work,
    /// What the link agreed on.
    pub(crate) agreed: Agreed,
    pub(crate) ipv4: Option<Addresses>,
    pub(crate) ipv6: Option<InterfaceIds>,
    /// The prefix of its link, by a router advertisement.
    pub(crate) prefix: Option<LinkPrefix>,
    /// Router solicitations that were sent, and when the last one was.
    solicitations: u8,
    solicited_ns: u64,
    /// Echo-Requests since the last answer, and the number of the last one.
    pub(crate) echoes: u8,
    pub(crate) echo_id: u8,
}

/// What a device needs only for a while.
#[derive(Debug, Default)]
pub(crate) enum Work {
    /// Nothing.
    #[default]
    None,
    /// Tags of the PADO that go back in the PADR.
    Offer(Box<TagList>),
    /// The negotiation.
    Ppp(Box<Endpoint>),
}

impl Default for Session {
    fn default() -> Session {
        Session {
            id: 0,
            previous_id: 0,
            dial_end_ns: 0,
            was_up: false,
            step: Step::Padi,
            work: Work::None,
            agreed: Agreed { max_mru: 0, peer_mru: 0, magic: 0, peer_magic: 0 },
            ipv4: None,
            ipv6: None,
            prefix: None,
            solicitations: 0,
            solicited_ns: 0,
            echoes: 0,
            echo_id: 0,
        }
    }
}

impl Session {
    /// The negotiation, if one is going on; the session is without it then.
    pub(crate) fn take_endpoint(&mut self) -> Option<Box<Endpoint>> {
        match std::mem::take(&mut self.work) {
            Work::Ppp(endpoint) => Some(endpoint),
            other => {
                self.work = other;
                None
            }
        }
    }

    /// The source of the router solicitation that is due; it counts as sent then.
    pub(crate) fn solicit(&mut self, now_ns: u64) -> Option<Ipv6Addr> {
        let ids = self.ipv6.filter(|_| now_ns >= self.solicitation_ns())?;
        self.solicitations = self.solicitations.saturating_add(1);
        self.solicited_ns = now_ns;
        Some(link_local(ids.own))
    }

    /// When the next router solicitation is due, or [`NEVER`].
    pub(crate) fn solicitation_ns(&self) -> u64 {
        let waits = self.ipv6.is_some() && self.prefix.is_none() && self.solicitations < MOST_SOLICITATIONS;
        match (waits, self.solicitations) {
            (false, _) => NEVER,
            (true, 0) => 0,
            (true, _) => self.solicited_ns.saturating_add(SOLICITATION_NS),
        }
    }

    /// IPV6CP is not open any more.
    pub(crate) fn close_ipv6(&mut self) {
        (self.ipv6, self.prefix, self.solicitations) = (None, None, 0);
    }

    /// At which step a device has failed that was at this one.
    pub(crate) fn failed_at(&self, step: Step) -> Step {
        if self.was_up { Step::Ended } else { step }
    }

    /// Protocols of the network layer that are open.
    pub(crate) fn layers(&self) -> Vec<Layer> {
        let layers = [self.ipv4.map(Layer::Ipv4), self.ipv6.map(Layer::Ipv6)];
        layers.into_iter().flatten().collect()
    }

    /// The session has ended: its id, if there was one.
    pub(crate) fn end(&mut self) -> Option<u16> {
        let id = self.id;
        let previous_id = if id == 0 { self.previous_id } else { id };
        *self = Session { previous_id, ..Session::default() };
        (id != 0).then_some(id)
    }
}
