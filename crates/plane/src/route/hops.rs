//! Route look-up for the frames of a batch.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use super::v4::V4;
use super::v6::V6;
use super::{Hop, Lpm};
use crate::batch::{BATCH, Frames, PerFrame, Set};
use crate::frame::Kind;

/// An end of a packet.
#[derive(Clone, Copy)]
pub(super) enum End {
    Source,
    Destination,
}

impl End {
    #[inline]
    fn of<A>(self, (source, destination): (A, A)) -> A {
        match self {
            End::Source => source,
            End::Destination => destination,
        }
    }
}

/// The hops of one end of each frame of `set`.
pub(super) fn hops((v4, v6): (&V4, &V6), frames: &Frames<'_, '_>, set: Set, end: End) -> PerFrame<Hop> {
    let mut hops = PerFrame::all(Hop::NONE);
    let of4 = |i| (frames[i].kind() == Kind::V4).then(|| end.of(frames[i].addresses4()));
    let rest = hops_of(v4, set, of4, &mut hops);
    hops_of(v6, rest, |i| Some(end.of(frames[i].addresses6())), &mut hops);
    hops
}

/// Looks an address up for each number of `set` that has one, and returns the others; once for neighbours that have the same:
/// frames of a host come in bursts.
#[inline]
#[expect(clippy::indexing_slicing, reason = "no set has more numbers than there are places")]
fn hops_of<T: Lpm>(
    table: &T,
    set: Set,
    address: impl Fn(usize) -> Option<T::Address>,
    hops: &mut PerFrame<Hop>,
) -> Set
where
    T::Address: Default + PartialEq,
{
    let (mut keys, mut found) = ([T::Address::default(); BATCH], [Hop::NONE; BATCH]);
    let (mut count, mut key_of, mut others) = (0, PerFrame::all(0_u8), Set::EMPTY);
    // Not read back from `keys`: a load of what was just stored is what the next one would wait for.
    let mut before = T::Address::default();
    for i in set {
        let Some(key) = address(i) else {
            others.insert(i);
            continue;
        };
        if count == 0 || before != key {
            keys[count % BATCH] = key;
            before = key;
            count += 1;
        }
        key_of[i] = (count - 1) as u8;
    }
    if count > 0 {
        table.lookup(&keys[..count], &mut found[..count]);
    }
    for i in set.without(others) {
        hops[i] = found[usize::from(key_of[i]) % BATCH];
    }
    others
}
