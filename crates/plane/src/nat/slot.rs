//! One cache line per mapping, which carries one session in itself.
//!
//! ```text
//!  Mapping   inside address, port, protocol  <->  outside address, port       found by its inside, or its outside port
//!     ^      and its first session: the remote end, the time, what TCP said
//!     |
//!  Session   a further one of the same mapping: only its remote end and state  found by all five
//! ```
//! Where mapping and filtering ask for no remote end (UDP and ICMP by default), a mapping needs no further session. A
//! mapping that depends on its remote end ([`Kind::Private`], [`Kind::Redirected`]) has an outside port of its own and is
//! found by all five.
//! Addresses are of 128 bits, those of IPv4 mapped into them, so that NAT64 lives in the same table.

use super::block_set::Generation;
use super::outside::Endpoint;
use crate::table::tcp::Track;
use crate::table::timers::Tick;

/// An address of the inside.
pub(crate) type Address = [u32; 4];

/// The kind of a slot. Odd numbers own an outside port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// Free. No key has this kind.
    Free = 0,
    /// Any remote end, with its own outside port.
    Mapping = 1,
    /// A further session of a mapping.
    Session = 2,
    /// One remote end, with its own outside port.
    Private = 3,
    /// One remote end with a server in its place, with its own outside port.
    Redirected = 5,
}

/// The inside end of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Inside {
    pub(crate) address: Address,
    pub(crate) port: u16,
    pub(crate) proto: u8,
}

/// The remote end, IPv4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Remote {
    pub(crate) address: u32,
    pub(crate) port: u16,
}

/// Flag of a mapping that is no longer configured.
const RETIRED: u8 = 1;
/// Flag of a mapping that has or had further sessions.
const SHARED: u8 = 2;
/// Flag of a mapping that any remote host may use.
const OPEN: u8 = 4;
/// Flag of a session that a remote host has begun, and the inside host has not answered.
const CALLED: u8 = 8;
/// The bit where the generation begins: the set of its address that the port is of.
const GENERATION: u32 = 4;

/// A mapping or a session.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Slot {
    address: Address,
    /// Port, protocol and kind: compared at once.
    meta: u32,
    pub(crate) seen: Tick,
    pub(crate) track: Track,
    remote_address: u32,
    /// Its owner; 0: none, it is configured.
    pub(crate) subscriber: u32,
    remote_port: u16,
    /// Outside address by number, and port.
    pub(crate) outside: u16,
    pub(crate) outside_port: u16,
    /// Further sessions of this mapping; of a redirected one the number of its redirect.
    pub(crate) dependents: u16,
}

const _: () = assert!(size_of::<Slot>() == 64);

#[inline]
fn meta(port: u16, proto: u8, kind: Kind) -> u32 {
    u32::from(port) << 16 | u32::from(proto) << 8 | kind as u32
}

impl Slot {
    /// A free slot; as slot 0 the result of a search that finds nothing.
    pub(crate) const FREE: Slot = Slot {
        address: [0; 4],
        meta: 0,
        seen: Tick(0),
        track: Track::FREE,
        remote_address: 0,
        subscriber: 0,
        remote_port: 0,
        outside: 0,
        outside_port: 0,
        dependents: 0,
    };

    /// A free slot, followed by `next` in the list of free slots.
    pub(crate) fn free(next: u32) -> Slot {
        Slot { seen: Tick(next), ..Slot::FREE }
    }

    pub(crate) fn new(inside: Inside, kind: Kind, remote: Remote, track: Track, seen: Tick) -> Slot {
        Slot {
            address: inside.address,
            meta: meta(inside.port, inside.proto, kind),
            seen,
            track,
            remote_address: remote.address,
            remote_port: remote.port,
            ..Slot::FREE
        }
    }

    pub(crate) fn kind(&self) -> Kind {
        match self.meta & 0xff {
            1 => Kind::Mapping,
            2 => Kind::Session,
            3 => Kind::Private,
            5 => Kind::Redirected,
            _ => Kind::Free,
        }
    }

    /// Whether it owns an outside port.
    #[inline]
    pub(crate) fn owns_port(&self) -> bool {
        self.meta & 1 != 0
    }

    #[inline]
    pub(crate) fn inside(&self) -> Inside {
        Inside { address: self.address, port: (self.meta >> 16) as u16, proto: (self.meta >> 8) as u8 }
    }

    #[inline]
    pub(crate) fn remote(&self) -> Remote {
        Remote { address: self.remote_address, port: self.remote_port }
    }

    pub(crate) fn set_remote(&mut self, remote: Remote) {
        (self.remote_address, self.remote_port) = (remote.address, remote.port);
    }

    /// Whether this is the slot of this kind for this inside end.
    #[inline]
    pub(crate) fn is(&self, inside: &Inside, kind: Kind) -> bool {
        // Word by word: a comparison of arrays would have both in memory.
        let differ = self.address.iter().zip(inside.address).fold(0, |all, (a, b)| all | (a ^ b));
        self.meta == meta(inside.port, inside.proto, kind) && differ == 0
    }

    /// Whether it is a mapping by configuration (or one of its sessions).
    #[inline]
    pub(crate) fn is_fixed(&self) -> bool {
        self.subscriber == 0
    }

    /// Whether it is no longer configured: it lasts for the sessions that it has, and takes no new ones.
    pub(crate) fn is_retired(&self) -> bool {
        self.track.flags & RETIRED != 0
    }

    /// Whether it ever had further sessions.
    pub(crate) fn is_shared(&self) -> bool {
        self.track.flags & SHARED != 0
    }

    pub(crate) fn set_shared(&mut self) {
        self.track.flags |= SHARED;
    }

    /// Replaces the state of its session, but for the flags.
    pub(crate) fn set_track(&mut self, track: Track) {
        let flags = self.track.flags;
        self.track = track;
        self.track.flags = flags;
    }

    /// Whether any remote host may use the mapping, whatever the filtering rule.
    pub(crate) fn is_open(&self) -> bool {
        self.track.flags & OPEN != 0
    }

    pub(crate) fn open(&mut self) {
        self.track.flags |= OPEN;
    }

    pub(crate) fn close(&mut self) {
        self.track.flags &= !OPEN;
    }

    pub(crate) fn is_called(&self) -> bool {
        self.track.flags & CALLED != 0
    }

    pub(crate) fn set_called(&mut self) {
        self.track.flags |= CALLED;
    }

    pub(crate) fn clear_called(&mut self) {
        self.track.flags &= !CALLED;
    }

    pub(super) fn generation(&self) -> Generation {
        Generation(self.track.flags >> GENERATION)
    }

    /// Sets the outside end, and the set of its address that the port is of.
    pub(super) fn set_outside(&mut self, endpoint: Endpoint, generation: Generation) {
        (self.outside, self.outside_port) = (endpoint.outside, endpoint.port);
        self.track.flags = self.track.flags & !(0xff << GENERATION) | generation.0 << GENERATION;
    }

    pub(crate) fn set_retired(&mut self) {
        self.track.flags |= RETIRED;
    }
}
