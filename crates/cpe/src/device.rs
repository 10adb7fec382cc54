//! One device: where it is in its life, and what it has.
//!
//! ```text
//!  Waiting > Selecting  > Requesting > Resolving   > Proving > Up <> Renewing > Rebinding
//!            DISCOVER     REQUEST      ARP           first packet     (RFC 2131, section 4.4.5)
//!  Waiting > Soliciting > Confirming > Negotiating > Proving > Up
//!            PADI         PADR         PPP
//!            any of them > Failed(step);  Up > Released
//! ```

use std::net::Ipv4Addr;

use weir_bng::Mac;

use crate::summary::Step;

/// No deadline.
pub(crate) const NEVER: u64 = u64::MAX;

/// Where a device is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// It has not started.
    Waiting,
    /// It waits for an offer.
    Selecting,
    /// It waits for an ACK.
    Requesting,
    /// It waits for a PADO.
    Soliciting,
    /// It waits for a PADS.
    Confirming,
    /// It negotiates the link, authentication and addresses (PPP), for the first time or again.
    Negotiating,
    /// It has an address and waits for the MAC address of its gateway.
    Resolving,
    /// It sends its first packet.
    Proving,
    /// All is done.
    Up,
    /// It is up, and asks its server to prolong the lease.
    Renewing,
    /// It is up, and asks any server to prolong the lease.
    Rebinding,
    /// It has no session.
    Failed(Step),
    /// It gave its address back.
    Released,
}

/// A device.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Device {
    pub(crate) state: State,
    /// Whether it was up before.
    pub(crate) was_up: bool,
    /// Whether a router advertisement gave a session of it a prefix of IPv6.
    pub(crate) had_prefix: bool,
    /// Failures in a row after which it began again.
    pub(crate) failures: u32,
    /// When it ends its session itself, or [`NEVER`].
    pub(crate) leave_ns: u64,
    /// Number of its exchange.
    pub(crate) xid: u32,
    /// How often the message of this state was sent.
    pub(crate) sends: u32,
    /// How often a NAK made it begin again.
    pub(crate) naks: u32,
    /// When it does something by itself, or [`NEVER`].
    pub(crate) due_ns: u64,
    /// When this state began.
    pub(crate) since_ns: u64,
    /// Its first DISCOVER or PADI.
    pub(crate) first_ns: u64,
    /// From then to its ACK or to the addresses of IPCP, and to its first packet; [`NEVER`]: not yet.
    pub(crate) setup_ns: u64,
    pub(crate) first_packet_ns: u64,
    /// What it was offered or has.
    pub(crate) address: Ipv4Addr,
    pub(crate) prefix_len: u8,
    pub(crate) server: Ipv4Addr,
    /// From where the server's messages come.
    pub(crate) server_mac: Mac,
    /// To which address and MAC address its packets go.
    pub(crate) next_hop: Option<Ipv4Addr>,
    pub(crate) next_hop_mac: Mac,
    pub(crate) renew_ns: u64,
    pub(crate) rebind_ns: u64,
    pub(crate) end_ns: u64,
}

impl Default for Device {
    fn default() -> Device {
        let none = Ipv4Addr::UNSPECIFIED;
        Device {
            state: State::Waiting,
            was_up: false,
            had_prefix: false,
            failures: 0,
            leave_ns: NEVER,
            xid: 0,
            sends: 0,
            naks: 0,
            due_ns: NEVER,
            since_ns: 0,
            first_ns: 0,
            setup_ns: NEVER,
            first_packet_ns: NEVER,
            address: none,
            prefix_len: 32,
            server: none,
            server_mac: Mac::default(),
            next_hop: None,
            next_hop_mac: Mac::default(),
            renew_ns: NEVER,
            rebind_ns: NEVER,
            end_ns: NEVER,
        }
    }
}

impl Device {
    /// Whether it has an address of its own.
    pub(crate) fn is_bound(&self) -> bool {
        use State::{Proving, Rebinding, Renewing, Resolving, Up};
        matches!(self.state, Resolving | Proving | Up | Renewing | Rebinding)
    }

    /// Whether its set-up is done, and its session has not ended.
    pub(crate) fn is_up(&self) -> bool {
        matches!(self.state, State::Up | State::Renewing | State::Rebinding)
    }

    /// The step of DHCP that it waits for.
    pub(crate) fn step(&self) -> Step {
        match self.state {
            State::Requesting => Step::Request,
            State::Resolving => Step::Arp,
            State::Proving => Step::FirstPacket,
            State::Renewing | State::Rebinding => Step::Renew,
            _ => Step::Discover,
        }
    }

    /// Goes over to another state.
    pub(crate) fn enter(&mut self, state: State, now_ns: u64) {
        (self.state, self.sends, self.since_ns, self.due_ns) = (state, 0, now_ns, NEVER);
    }
}
