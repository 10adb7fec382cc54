//! Mappings, sessions, subscribers and ports of a NAT, and the facts about the node around it.
//!
//! Files; each uses only files that are listed before it:
//! - `log.rs`: the event log
//! - `steer.rs`, `shared.rs`: the owner of a port among several threads, and among several boxes
//! - `ending.rs`: a session ends, and its mapping with the last one
//! - `scarce.rs`: which session is replaced when there is no more room
//! - `opening.rs`: which host gets a mapping, a session, a port
//! - `traffic.rs`, `portless.rs`, `redirected.rs`: what a frame changes
//! - `leases.rs`, `apply.rs`, `restore.rs`: mappings that hosts request, that a new text brings, that existed before a crash
//! - `upkeep.rs`: timeouts
//! - `recipe.rs`, `shown.rs`: the NAT's part of a recipe; the sessions that a node shows
//!
//! Invariant: the entry of a port names the slot that owns it, and the slot is counted by its block and its subscriber;
//! `dependents` of a mapping counts its further sessions.

mod apply;
mod ending;
mod leases;
mod log;
mod opening;
mod portless;
mod recipe;
mod redirected;
mod restore;
mod scarce;
mod shared;
mod shown;
mod steer;
mod traffic;
mod upkeep;

use std::collections::{HashMap, VecDeque};

use weir_packet::headers::TCP;

use super::block_events::BlockEvents;
use super::config::{Config, Public};
use super::leases::Leases;
use super::log::Log;
use super::node::Node;
use super::outside::{Endpoint, Outside, Space};
use super::ports::Pool;
use super::redirect::{Reach, Redirect};
use super::sessions::Sessions;
use super::slot::{Inside, Kind, Remote, Slot};
use super::subscribers::Subscribers;
use super::words::Dependence;
use crate::frame::{Frame, Kind as Packet};
use crate::table::secret::Secret;
use crate::table::timers::{Ages, Hand};
use crate::threads::Share;

use apply::Awaited;
pub(crate) use apply::Update;
pub(crate) use redirected::Lookup;
pub(crate) use shown::Mapped;
pub(crate) use steer::{Departs, Destination};

/// How much a NAT holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Mappings and sessions.
    pub sessions: u32,
    /// Memory of all that belongs to them: indexes, subscribers, ports; bytes.
    pub bytes: usize,
}

/// The state of a NAT.
pub(crate) struct Table {
    pub(crate) config: Config,
    /// The thread.
    pub(super) share: Share,
    pub(super) ages: Ages,
    pub(super) secret: Secret,
    pub(crate) sessions: Sessions,
    pub(super) subscribers: Subscribers,
    pub(crate) outside: Outside,
    pub(super) pool: Pool,
    /// Redirects that ever were configured.
    pub(super) redirects: Vec<Redirect>,
    pub(super) redirect_numbers: HashMap<Redirect, u16>,
    /// The frames that the configured redirects may concern.
    pub(super) reach: Reach,
    /// There may be redirected sessions of a configuration before this one.
    pub(super) were_redirects: bool,
    /// There may be private mappings of a configuration before this one.
    pub(super) was_private: bool,
    pub(super) leases: Leases,
    /// Mappings that are to begin or to end.
    pub(super) awaited: VecDeque<Awaited>,
    /// Public addresses with the ports that are allocated, or were by an earlier text.
    pub(super) given: Vec<Public>,
    /// The slot that the search for sessions in the way has come to.
    pub(super) walked: u32,
    /// There is, or was, a configured mapping.
    pub(super) has_forwards: bool,
    /// Configured mappings of other threads.
    pub(super) foreign: u32,
    hand: Hand,
    /// The slot that was last looked at for eviction.
    pub(super) victim: u32,
    pub(crate) log: Log,
    pub(super) block_events: BlockEvents,
    /// The node around it.
    pub(super) node: Node,
    /// Identification of the next packet of each public address (RFC 6864).
    ids: Vec<u16>,
    seed: u64,
}

impl Table {
    /// Whether the addresses of frames must be looked at before all else.
    pub(crate) fn is_special(&self) -> bool {
        let Config { exclude, pairs, .. } = &self.config;
        !exclude.is_empty() || !pairs.is_empty() || !self.redirects.is_empty()
    }

    /// Whether the table is full.
    pub(super) fn is_full(&self) -> bool {
        self.sessions.live() - self.foreign >= self.share.part(self.config.sessions)
    }

    /// What it holds.
    pub(crate) fn usage(&self) -> Usage {
        let bytes =
            self.sessions.bytes() + self.subscribers.bytes() + self.outside.bytes() + self.pool.bytes();
        Usage { sessions: self.sessions.live() - self.foreign, bytes }
    }

    /// Whether an address is one of this NAT's.
    #[inline]
    pub(crate) fn is_public(&self, address: u32) -> bool {
        self.outside.number(address).is_some() || self.config.pairs.at(address).is_some()
    }

    /// The port of a public address that a frame is for.
    #[inline]
    pub(super) fn endpoint(&self, frame: &Frame<'_>) -> Option<Endpoint> {
        if frame.kind() != Packet::V4 {
            return None;
        }
        let outside = self.outside.number(frame.addresses4().1)?;
        Some(Endpoint { outside, space: Space::of(frame.proto())?, port: frame.ports().1 })
    }

    /// The identification of the next packet of a public address; two threads use different ones.
    #[inline]
    pub(super) fn next_id(&mut self, outside: u16) -> u16 {
        let id = &mut self.ids[usize::from(outside)];
        *id = id.wrapping_add(self.share.of.into());
        *id
    }

    /// The kind of slots that new flows from inside get.
    #[inline]
    fn kind(&self) -> Kind {
        match self.config.mapping {
            Dependence::AddressAndPort => Kind::Private,
            _ => Kind::Mapping,
        }
    }

    /// The hash of the slot of a flow.
    #[inline]
    pub(crate) fn hash(&self, inside: &Inside, remote: Remote) -> u32 {
        match self.kind() {
            Kind::Private => Sessions::hash_with(&self.secret, inside, remote),
            _ => Sessions::hash(&self.secret, inside),
        }
    }

    /// Whether sessions of a mapping are distinguished by their remote ends.
    #[inline]
    pub(super) fn by_remote(&self, proto: u8) -> bool {
        proto == TCP || self.config.filtering != Dependence::Independent
    }

    /// The hash of a slot, as seen from outside.
    pub(super) fn hash_outside(&self, slot: &Slot) -> u32 {
        self.hash_of_outside(slot.outside, slot.inside().proto, slot.remote().address)
    }

    fn hash_of_outside(&self, outside: u16, proto: u8, remote: u32) -> u32 {
        self.secret.hash([0, 0, u32::from(outside), remote], 1 << 62 | u64::from(proto))
    }

    /// The remote end, as far as sessions are distinguished by it.
    pub(super) fn end(&self, proto: u8, remote: Remote) -> Remote {
        match (proto, self.config.filtering) {
            // For UDP and ICMP the filter only asks who may answer.
            (TCP, _) | (_, Dependence::AddressAndPort) => remote,
            _ => Remote { port: 0, ..remote },
        }
    }
}

#[cfg(test)]
mod tests;
