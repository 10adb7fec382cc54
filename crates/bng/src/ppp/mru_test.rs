//! Whether a line carries packets longer than 1492 bytes, which both ends alone cannot know: an LCP Echo-Request of the length of the
//! peer's MRU (RFC 4638, section 5.2).
//!
//! ```text
//! LCP open, MRU above 1492 > Echo-Request, again after 1 s and 2 s > Echo-Reply: the MRU holds
//!                                                                  > none: packets to the peer have 1492 bytes at most
//! ```
//! Until the answer the MRU counts as 1492, and no protocol waits for it.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::time::Duration;

use super::packet::{Packet, code};
use crate::pppoe::MAX_PAYLOAD;

/// Requests, and the time between two of them.
const TRIES: u8 = 3;
const EVERY: Duration = Duration::from_secs(1);
/// Bytes of a packet of LCP in front of its data.
const HEADER: usize = 4;

/// What is known of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MruTest {
    /// Its MRU needs no test, or has passed it.
    Holds,
    /// Requests of this id were sent; so many are left, the next one at this time.
    Asked { id: u8, left: u8, next: Duration },
    /// No answer came.
    Fails,
}

impl MruTest {
    /// The link is open, with an MRU that needs the test.
    pub(super) fn begin(id: u8, now: Duration) -> MruTest {
        MruTest::Asked { id, left: TRIES, next: now }
    }

    /// The MRU of the peer, as far as it is known to hold.
    pub(super) fn limit(self, peer_mru: u16) -> u16 {
        if self == MruTest::Holds { peer_mru } else { peer_mru.min(MAX_PAYLOAD) }
    }

    pub(super) fn deadline(self) -> Option<Duration> {
        match self {
            MruTest::Asked { next, .. } => Some(next),
            MruTest::Holds | MruTest::Fails => None,
        }
    }

    /// The request that is due.
    pub(super) fn due(&mut self, now: Duration, peer_mru: u16, magic: u32) -> Option<Vec<u8>> {
        let MruTest::Asked { id, left, next } = *self else { return None };
        if next > now {
            return None;
        }
        if left == 0 {
            *self = MruTest::Fails;
            return None;
        }
        *self = MruTest::Asked { id, left: left - 1, next: now + EVERY };
        let mut data = magic.to_be_bytes().to_vec();
        data.resize(usize::from(peer_mru).saturating_sub(HEADER), 0);
        Some(Packet { code: code::ECHO_REQUEST, id, data: &data }.write())
    }

    /// An Echo-Reply came.
    pub(super) fn replied(&mut self, packet: Packet<'_>) {
        if packet.code == code::ECHO_REPLY && matches!(*self, MruTest::Asked { id, .. } if id == packet.id) {
            *self = MruTest::Holds;
        }
    }
}
