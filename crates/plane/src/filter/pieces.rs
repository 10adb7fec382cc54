//! Packets in pieces: the later ones have no ports to be judged by, and share the fate of the first one.
//!
//! ```text
//! first piece > rules > passed or refused, which is kept for the others
//! later piece > known: passes, or does not        unknown: held until the first one comes, or too long
//! ```
//! What became of a first piece is remembered by a hash alone, and a new one may displace an old one. A later piece that
//! there is no room to hold is judged by the rules that ask for no ports. Where no rule asks for what only a first piece
//! has, none is held. A piece that would overwrite the header of TCP never passes (RFC 1858, RFC 3128).
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::time::Duration;

use weir_packet::headers::TCP;

use crate::address::{mapped4, words6};
use crate::drops::Drop;
use crate::frame::{Frame, Kind, PortId};
use crate::own::{Entry, Own};
use crate::stage::{Dir, Step};
use crate::table::pieces::Waiting;
use crate::table::secret::Secret;
use crate::table::timers::Tick;

/// Packets that are remembered.
const MOST: usize = 1 << 12;
/// How long later pieces may follow the first: as long as they would wait for it (RFC 791, section 3.2).
const AGE: Duration = Duration::from_secs(15);
/// The header of TCP without options.
const TCP_HEADER: usize = 20;

/// What becomes of a later piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Later {
    Passes,
    /// It is judged like any frame.
    Judged,
    /// Its fate is decided.
    Gone,
}

/// What became of the first piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum First {
    Passed,
    Refused,
}

/// What the pieces of a packet have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Key {
    /// Where it is remembered.
    place: usize,
    /// The rest of its hash, which is not 0.
    rest: u32,
}

#[derive(Debug)]
struct Held {
    dir: Dir,
    port: PortId,
    buf: Vec<u8>,
}

/// The packets that are remembered.
#[derive(Debug)]
pub(super) struct Pieces {
    secret: Secret,
    /// By hash: the rest of the hash, when the first piece came, and what became of it.
    seen: Vec<(u32, Tick, First)>,
    waiting: Waiting<Key, Held>,
}

impl Pieces {
    pub(super) fn new(seed: u64) -> Pieces {
        let seen = vec![(0, Tick(0), First::Refused); MOST];
        Pieces { secret: Secret::new(seed), seen, waiting: Waiting::default() }
    }

    /// A first piece was judged: those that waited for it go on, or go no further.
    pub(super) fn judged(&mut self, step: &mut Step<'_, '_>, i: usize, first: First) {
        let key = self.key(&step.frames[i]);
        if let Some(place) = self.seen.get_mut(key.place) {
            *place = (key.rest, Tick::of(step.now), first);
        }
        for Held { dir, port, buf } in self.waiting.take(&key) {
            match first {
                First::Passed => step.own.release(step.onward(dir), port, buf),
                First::Refused => give_up(step, 1),
            }
        }
    }

    /// A later piece; `asked` says whether a rule asks for what only the first one has.
    pub(super) fn later(&mut self, step: &mut Step<'_, '_>, i: usize, dir: Dir, asked: bool) -> Later {
        let frame = &step.frames[i];
        if frame.proto() == TCP && frame.fragment_offset() < TCP_HEADER {
            step.drop(i, Drop::FilterFragment);
            return Later::Gone;
        }
        if !asked {
            return Later::Judged;
        }
        let key = self.key(frame);
        if let Some(&(known, seen, first)) = self.seen.get(key.place)
            && known == key.rest
            && Tick::of(step.now).since(seen) <= Tick::count(AGE)
        {
            return match first {
                First::Passed => Later::Passes,
                First::Refused => {
                    step.drop(i, Drop::FilterFragment);
                    Later::Gone
                }
            };
        }
        if !self.waiting.has_room() {
            return Later::Judged;
        }
        self.waiting.push(step.now, key, Held { dir, port: frame.port, buf: frame.copy() });
        step.hold(i);
        Later::Gone
    }

    /// The filter goes away: what waited in it goes on where frames of its direction enter.
    pub(super) fn let_go(&mut self, own: &mut Own, entry: impl Fn(Dir) -> Entry) {
        for (_, Held { dir, port, buf }) in self.waiting.take_all() {
            own.release(entry(dir), port, buf);
        }
    }

    /// Pieces that wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Gives up what waited too long.
    pub(super) fn expire(&mut self, step: &mut Step<'_, '_>) {
        let lapsed = self.waiting.expire(step.now);
        give_up(step, lapsed);
    }

    /// What the pieces of a packet have in common (RFC 791, section 3.2, RFC 8200, section 4.5).
    fn key(&self, frame: &Frame<'_>) -> Key {
        let (src, dst, proto) = match frame.kind() {
            Kind::V4 => {
                let (src, dst) = frame.addresses4();
                (mapped4(src), mapped4(dst), frame.proto())
            }
            // The first piece tells the protocol behind further headers, the later ones do not.
            _ => {
                let (src, dst) = frame.addresses6();
                (words6(src), words6(dst), 0)
            }
        };
        let rest = u64::from(frame.fragment_id()) << 8 | u64::from(proto);
        let mix = |seed: u64| self.secret.hash(dst, u64::from(self.secret.hash(src, rest | seed << 40)));
        Key { place: mix(1) as usize % MOST, rest: mix(2) | 1 }
    }
}

/// Pieces that were held go no further.
fn give_up(step: &mut Step<'_, '_>, pieces: u64) {
    step.own.lapse(pieces);
    (0..pieces).for_each(|_| step.drops.count(Drop::FilterFragment));
}
