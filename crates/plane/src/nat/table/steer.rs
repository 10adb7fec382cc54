//! One NAT of several threads: which thread a frame belongs to. Each thread has tables and port blocks of its own, so that two
//! threads never disagree.
//!
//! | frame | belongs to the thread of |
//! |---|---|
//! | from inside | its source address; without ports, as GRE: its remote address |
//! | for a port of a public address | the thread that allocates it, see `../sharding.rs` |
//! | for a port that is forwarded, an address that is one-to-one, a deterministic block | the inside address |
//! | for a public address, without ports | its remote address |
//! | that is not translated | both addresses |
//! | an error of ICMP | the packet that it quotes, as if it came back |
//!
//! A frame from inside for a public address has two owners: one thread translates its source, another its destination.
//! A forward holds its port in all threads, so that all know its owner, and none allocates the port to another host.
//!
//! Where NATs stand behind each other, an inside end of one may be a port that another, before it, has allocated: its owner is
//! that port's. So a flow belongs to one thread on its whole way, see `../../steer/nats.rs`.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use weir_packet::steer::{mix4, mix6, pick};

use super::Table;
use crate::address::bits;
use crate::frame::Frame;
use crate::nat::config::Config;
use crate::nat::deterministic::Owner;
use crate::nat::outside::{Endpoint, Space};
use crate::nat::quoted::{Receiver, Sender};
use crate::nat::slot::{Address, Inside, Slot};

/// Where one NAT sends a packet for a receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Destination {
    /// On as it is: the receiver is no public end of this NAT.
    On,
    /// To this end, by configuration: that of a host, or a public one of a NAT before it.
    Inside(u32, u16),
    /// To an end that this thread knows.
    Thread(u8),
    /// To an end that the thread of the remote address knows.
    Remote,
}

/// What the NAT makes of the source of a packet from inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Departs {
    /// It stays, or becomes this address, without a session.
    As(u32),
    /// A port of the thread of the source.
    Host,
    /// A public address, without a port: the thread of the remote address knows it.
    Remote,
}

impl Config {
    /// Whether a port of a public address is allocated to hosts by this NAT.
    pub(super) fn gives_out(&self, address: u32, port: u16) -> bool {
        let of_it = self.public.iter().filter(|public| (public.first..=public.last).contains(&address));
        of_it.flat_map(|public| &public.ports).any(|ports| ports.contains(&port))
    }

    /// Where the configuration alone sends a packet for a receiver, in a NAT that so many threads share.
    fn destination(&self, to: &Receiver, threads: u8) -> Destination {
        if let Some(pair) = self.pairs.at(to.address) {
            return Destination::Inside(pair.inside, to.port);
        }
        if let Some(forward) = self.forwards.at(to.proto, (to.address, to.port)) {
            return Destination::Inside(forward.inside.0, forward.inside.1);
        }
        if !self.has_public(to.address) {
            return Destination::On;
        }
        if Space::of(to.proto).is_none() {
            return Destination::Remote;
        }
        match self.deterministic.as_ref().map(|fixed| fixed.owner(to.address, to.port)) {
            Some(Owner::Subscriber(address)) => Destination::Thread(pick(mix4(address), threads)),
            _ => {
                Destination::Thread(self.sharding.map_or(0, |sharding| sharding.thread(to.address, to.port)))
            }
        }
    }

    /// Whether an address is a public one of a NAT before this one.
    pub(super) fn is_given_before(&self, address: u32) -> bool {
        self.before.iter().any(|nat| nat.has_public(address) || nat.pairs.at(address).is_some())
    }
}

impl Table {
    /// Where the NAT sends a packet for a receiver.
    pub(crate) fn destination(&self, to: &Receiver) -> Destination {
        if let Some(pair) = self.config.pairs.at(to.address) {
            return Destination::Inside(pair.inside, to.port);
        }
        match (self.outside.number(to.address), Space::of(to.proto)) {
            (None, _) => Destination::On,
            (_, None) => Destination::Remote,
            (Some(outside), Some(space)) => {
                self.destination_of_port(Endpoint { outside, space, port: to.port })
            }
        }
    }

    /// What the NAT makes of the source of a packet.
    pub(crate) fn departs(&self, from: &Sender) -> Departs {
        let config = &self.config;
        if config.exclude.contains(from.remote) {
            return Departs::As(from.address);
        }
        match (Space::of(from.proto), config.pairs.of(from.address)) {
            (Some(_), _) => Departs::Host,
            (None, Some(pair)) => Departs::As(pair.outside),
            (None, None) => Departs::Remote,
        }
    }

    /// Whether an IPv6 address is in the prefix of NAT64.
    pub(crate) fn stands_for(&self, remote: u128) -> bool {
        self.config.prefix64.is_some_and(|prefix| prefix.extract(remote).is_some())
    }

    /// The inside address of a one-to-one public address; the address itself, if it is none.
    pub(crate) fn paired(&self, address: u32) -> u32 {
        self.config.pairs.at(address).map_or(address, |pair| pair.inside)
    }

    /// The thread that the source of a frame from inside belongs to.
    pub(crate) fn owner_of_source(&self, frame: &Frame<'_>) -> u8 {
        let (address, remote) = frame.addresses4();
        self.owner_behind(Receiver { remote, address, port: frame.ports().0, proto: frame.proto() })
    }

    /// The thread that the destination of a frame belongs to.
    pub(crate) fn owner_of_destination(&self, frame: &Frame<'_>) -> u8 {
        let to = Receiver::of(frame);
        match self.destination(&to) {
            Destination::On => pick(mix4(to.address).wrapping_add(mix4(to.remote)), self.share.of),
            Destination::Inside(address, port) => self.owner_behind(to.at(address, port)),
            Destination::Thread(thread) => thread,
            Destination::Remote => pick(mix4(to.remote), self.share.of),
        }
    }

    /// Its number among the NATs of the node, where several threads are the node.
    pub(crate) fn number(&self) -> u8 {
        self.config.before.len() as u8
    }

    /// Where the NAT sends a packet for a port of a public address.
    fn destination_of_port(&self, endpoint: Endpoint) -> Destination {
        let address = self.outside.address(endpoint.outside);
        if self.has_forwards {
            let number = self.outside.slot(endpoint);
            if number != 0 && self.sessions[number].is_fixed() {
                let Inside { address: [.., address], port, .. } = self.sessions[number].inside();
                return Destination::Inside(address, port);
            }
        }
        let is_of_another = self.config.before.iter().any(|nat| nat.has_public(address));
        if is_of_another && !self.config.gives_out(address, endpoint.port) {
            return Destination::On;
        }
        let fixed = self.config.deterministic.as_ref();
        match fixed.map(|fixed| fixed.owner_at(endpoint.outside.into(), endpoint.port)) {
            Some(Owner::Subscriber(address)) => Destination::Thread(pick(mix4(address), self.share.of)),
            _ => Destination::Thread(
                self.config.sharding.map_or(0, |sharding| sharding.thread(address, endpoint.port)),
            ),
        }
    }

    /// The thread of a receiver behind this NAT.
    fn owner_behind(&self, mut to: Receiver) -> u8 {
        for nat in self.config.before.iter().rev() {
            match nat.destination(&to, self.share.of) {
                Destination::On => {}
                Destination::Inside(address, port) => to = to.at(address, port),
                Destination::Thread(thread) => return thread,
                Destination::Remote => return pick(mix4(to.remote), self.share.of),
            }
        }
        pick(mix4(to.address), self.share.of)
    }

    /// The thread of an inside end.
    fn owner_of(&self, inside: &Inside) -> u8 {
        match inside.address {
            [0, 0, 0xffff, address] => {
                self.owner_behind(Receiver { remote: 0, address, port: inside.port, proto: inside.proto })
            }
            words => pick(mix6(bits(words)), self.share.of),
        }
    }

    /// Whether a host may have a block in this thread. For the address of a NAT before this one the port decides, so all threads
    /// may.
    pub(super) fn may_own(&self, host: Address) -> bool {
        let is_given = matches!(host, [0, 0, 0xffff, address] if self.config.is_given_before(address));
        is_given || self.owner_of(&Inside { address: host, port: 0, proto: 0 }) == self.share.thread
    }

    /// Whether a configured mapping belongs to another thread, and only holds its port here.
    pub(super) fn is_foreign(&self, slot: &Slot) -> bool {
        self.share.of > 1 && slot.is_fixed() && self.owner_of(&slot.inside()) != self.share.thread
    }
}
