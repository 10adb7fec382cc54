//! Packets in pieces whose first piece passed: the later ones, which have no ports to be judged by, follow it.
//!
//! Each is remembered by a hash alone, and a new one may displace an old one: what is displaced or came before its
//! first piece is judged by the rules that ask for no ports.

use std::time::Duration;

use crate::frame::{Frame, Kind};
use crate::table::secret::Secret;
use crate::table::timers::Tick;
use crate::time::Time;

/// Packets that are remembered.
const MOST: usize = 1 << 12;
/// How long later pieces may follow the first: as long as they would wait for it (RFC 791, section 3.2).
const AGE: Duration = Duration::from_secs(15);

/// The packets that are remembered.
#[derive(Debug)]
pub(crate) struct Pieces {
    secret: Secret,
    /// By hash: the rest of the hash, and when the first piece passed.
    seen: Vec<(u32, Tick)>,
}

impl Pieces {
    pub(crate) fn new(seed: u64) -> Pieces {
        Pieces { secret: Secret::new(seed), seen: vec![(0, Tick(0)); MOST] }
    }

    /// A first piece passed.
    pub(crate) fn passed(&mut self, frame: &Frame<'_>, now: Time) {
        let (place, rest) = self.hash(frame);
        self.seen[place] = (rest, Tick::of(now));
    }

    /// Whether the first piece of this later one passed not long ago.
    pub(crate) fn follows(&self, frame: &Frame<'_>, now: Time) -> bool {
        let (place, rest) = self.hash(frame);
        let (known, seen) = self.seen[place];
        known == rest && Tick::of(now).since(seen) <= Tick::count(AGE)
    }

    /// What the pieces of a packet have in common (RFC 791, section 3.2, RFC 8200, section 4.5), as a place and the
    /// rest, which is not 0.
    fn hash(&self, frame: &Frame<'_>) -> (usize, u32) {
        let (ip, id) = (frame.ip(), frame.fragment_id());
        let (addresses, proto) = match frame.kind() {
            Kind::V4 => (&ip[12..20], frame.proto()),
            // The first piece tells the protocol behind further headers, the later ones do not.
            _ => (&ip[8..40], 0),
        };
        let rest = u64::from(id) << 8 | u64::from(proto);
        let mix = |seed: u32| {
            addresses.chunks(8).fold(seed, |hash, part| {
                let half =
                    |at: usize| u32::from_be_bytes([part[at], part[at + 1], part[at + 2], part[at + 3]]);
                self.secret.hash([half(0), half(4), seed, hash], rest)
            })
        };
        (mix(1) as usize % MOST, mix(2) | 1)
    }
}
