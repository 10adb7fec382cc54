//! How mappings and sessions begin: the conditions, and a port.

use weir_packet::headers::{ICMP, TCP, UDP};

use super::Table;
use crate::drops::DropReason;
use crate::nat::block_events::NewBlocks;
use crate::nat::flow::Flow;
use crate::nat::log::EventKind;
use crate::nat::outside::Space;
use crate::nat::ports::{AtOnce, Refusal, Taken, Want};
use crate::nat::slot::{Inside, Kind, Remote, Slot};
use crate::nat::words::Dependence;
use crate::table::tcp::{SYN, Segment, Side, Track};
use crate::table::timers::{Class, Tick};
use crate::time::Time;

/// Distinguishes the hash for the choice of an outside address from other hashes of an inside one.
const HOME: u64 = 1 << 63;

/// What a new mapping is to be.
#[derive(Debug, Clone, Copy)]
pub(super) struct New {
    /// A kind with an outside port.
    pub(super) kind: Kind,
    /// The number of its redirect, if it is redirected.
    pub(super) redirect: u16,
    /// Its first session.
    pub(super) track: Track,
}

/// The state of a session after its first frame.
pub(super) fn begin(proto: u8, side: Side, segment: &Segment) -> Result<Track, DropReason> {
    match proto {
        // From outside, only a SYN begins a connection.
        TCP if side == Side::Outside && segment.flags & SYN == 0 => Err(DropReason::NatNoMapping),
        TCP => Track::begin(side, segment).ok_or(DropReason::NatNoMapping),
        UDP => Ok(Track::plain(Class::Udp)),
        ICMP => Ok(Track::plain(Class::Icmp)),
        _ => Ok(Track::plain(Class::Other)),
    }
}

impl Table {
    /// The session of a mapping with this remote end, or 0. A session that is too old ends here, and the mapping with its last
    /// session.
    pub(super) fn session_of(&mut self, now: Time, mapping: u32, remote: Remote) -> u32 {
        let slot = &self.sessions[mapping];
        let inside = slot.inside();
        if !self.by_remote(inside.proto) {
            return mapping;
        }
        let end = self.end(inside.proto, remote);
        let is_own = slot.track.class != Class::Lasting && slot.remote() == end;
        if is_own && self.alive(now, mapping) != 0 && self.sessions[mapping].track.class != Class::Lasting {
            return mapping;
        }
        let session = self.sessions.session(&self.secret, &inside, end, Kind::Session);
        self.alive(now, session)
    }

    /// One more session of a mapping.
    pub(super) fn join(
        &mut self,
        now: Time,
        mapping: u32,
        side: Side,
        flow: &Flow,
    ) -> Result<(), DropReason> {
        let track = begin(flow.inside.proto, side, &flow.segment)?;
        if self.sessions[mapping].is_retired() && !self.sessions[mapping].is_fixed() {
            // Its port is about to be another mapping's.
            return Err(DropReason::NatNoMapping);
        }
        let is_call = side == Side::Outside && flow.inside.proto == TCP;
        if is_call {
            self.may_call(mapping)?;
        }
        let (tick, end) = (Tick::of(now), self.end(flow.inside.proto, flow.remote));
        let slot = &mut self.sessions[mapping];
        let session = if slot.track.class == Class::Lasting && !slot.is_fixed() {
            // The session in the mapping's slot is over: this one replaces it.
            slot.set_remote(end);
            slot.set_track(track);
            slot.seen = tick;
            self.sessions.renew(mapping);
            mapping
        } else {
            self.add_session(now, mapping, Slot::new(flow.inside, Kind::Session, end, track, tick))?
        };
        if is_call {
            self.called(session);
        }
        let knows_addresses = self.config.filtering == Dependence::Address && flow.inside.proto == TCP;
        if knows_addresses && side == Side::Inside {
            // A host that was called may call back, from any port.
            let caller = Remote { port: 0, ..flow.remote };
            match self.session_of(now, mapping, caller) {
                0 => {
                    let track = Track::plain(Class::Other);
                    self.add_session(
                        now,
                        mapping,
                        Slot::new(flow.inside, Kind::Session, caller, track, tick),
                    )?;
                }
                known => self.sessions[known].seen = tick,
            }
        }
        Ok(())
    }

    pub(super) fn add_session(
        &mut self,
        now: Time,
        mapping: u32,
        mut session: Slot,
    ) -> Result<u32, DropReason> {
        self.room_for(now, &session.inside())?;
        let subscriber = self.sessions[mapping].subscriber;
        if subscriber != 0 && self.subscribers[subscriber].sessions >= self.config.subscriber_sessions {
            return Err(DropReason::NatQuota);
        }
        let owner = &mut self.sessions[mapping];
        owner.dependents = owner.dependents.checked_add(1).ok_or(DropReason::NatQuota)?;
        owner.set_shared();
        session.subscriber = subscriber;
        let number = self.sessions.insert(&self.secret, session);
        self.subscribers[subscriber].sessions += 1;
        Ok(number)
    }

    /// A new mapping with its first session.
    pub(super) fn create(&mut self, now: Time, flow: &Flow) -> Result<u32, DropReason> {
        let proto = flow.inside.proto;
        let kind = if Space::of(proto).is_none() { Kind::Private } else { self.kind() };
        let track = begin(proto, Side::Inside, &flow.segment)?;
        self.create_as(now, flow.inside, flow.remote, New { kind, redirect: 0, track })
    }

    /// A new mapping of an inside end for a remote one.
    pub(super) fn create_as(
        &mut self,
        now: Time,
        inside: Inside,
        remote: Remote,
        new: New,
    ) -> Result<u32, DropReason> {
        let New { kind, redirect, track } = new;
        let proto = inside.proto;
        let space = Space::of(proto).unwrap_or(Space::Other);
        self.room_for(now, &inside)?;
        let subscriber = self.subscribers.find_or_add(&self.secret, inside.address);
        let taken = match self.port_for(now, subscriber, space, inside.port) {
            Ok(taken) => taken,
            Err(reason) => {
                self.subscribers.forget_idle(&self.secret, subscriber);
                return Err(reason);
            }
        };
        let Taken { endpoint, generation } = taken;
        if space == Space::Other && self.portless(now, endpoint.outside, proto, remote.address) != 0 {
            self.pool.give_back(taken, Tick::of(now), AtOnce::Yes);
            self.subscribers.forget_idle(&self.secret, subscriber);
            return Err(DropReason::NatConflict);
        }
        let end = if kind == Kind::Mapping { self.end(proto, remote) } else { remote };
        let mut slot = Slot::new(inside, kind, end, track, Tick::of(now));
        slot.dependents = redirect;
        slot.subscriber = subscriber;
        slot.set_outside(endpoint, generation);
        let number = self.sessions.insert(&self.secret, slot);
        match space {
            Space::Other => self.sessions.add_hash(self.hash_outside(&slot), number),
            _ => self.outside.take(endpoint, number),
        }
        self.subscribers[subscriber].sessions += 1;
        self.log_session(now, EventKind::SessionCreated, &slot);
        Ok(number)
    }

    /// An outside port for a new mapping.
    fn port_for(&mut self, now: Time, number: u32, space: Space, like: u16) -> Result<Taken, DropReason> {
        let subscriber = &mut self.subscribers[number];
        if subscriber.sessions >= self.config.subscriber_sessions {
            self.log_refusal(now, EventKind::QuotaExceeded, number);
            return Err(DropReason::NatQuota);
        }
        if !self.pool.has_fixed(&subscriber.holding) {
            let [_, _, _, address] = subscriber.address;
            let fixed = self.config.deterministic.as_ref().and_then(|fixed| fixed.outside(address));
            let fixed = fixed
                .map(|(address, ports)| (self.outside.number(address).expect("of the pool"), *ports.start()));
            self.pool.fix(&mut subscriber.holding, fixed, number);
        }
        if let Some(rate) = self.config.rate_per_s
            && !subscriber.new.once_more(now, 1_000_000_000 / u64::from(rate), u64::from(rate))
        {
            return Err(DropReason::NatRate);
        }
        let home = (self.share.of > 1).then(|| self.secret.hash(subscriber.address, HOME));
        let want = Want { space, like, subscriber: number, home };
        let taken =
            self.pool.take(&mut subscriber.holding, want, Tick::of(now), &self.outside, &mut self.secret);
        match taken {
            Ok((taken, block)) => {
                if let Some(block) = block {
                    self.log_block(now, EventKind::BlockAllocated, number, block);
                }
                Ok(taken)
            }
            Err(Refusal::Quota) => {
                self.log_refusal(now, EventKind::QuotaExceeded, number);
                Err(DropReason::NatQuota)
            }
            Err(Refusal::NoPort) => {
                self.log_refusal(now, EventKind::PortsExhausted, number);
                Err(DropReason::NatNoPort)
            }
            // Not logged: the caller itself has withheld new blocks.
            Err(Refusal::Withheld) => Err(DropReason::NatWithheld),
        }
    }

    /// The slot of a protocol without ports between an outside address and a remote one, or 0.
    pub(crate) fn portless(&mut self, now: Time, outside: u16, proto: u8, remote: u32) -> u32 {
        let is = |slot: &Slot| {
            (slot.kind(), slot.outside, slot.inside().proto) == (Kind::Private, outside, proto)
                && slot.remote() == Remote { address: remote, port: 0 }
        };
        let number = self.sessions.find(self.hash_of_outside(outside, proto, remote), is);
        self.alive(now, number)
    }

    /// Whether hosts are given further port blocks from now on.
    pub(crate) fn set_new_blocks(&mut self, new_blocks: NewBlocks) {
        self.pool.set_new_blocks(new_blocks);
    }
}
