//! The ports of public addresses where several threads are one NAT: the thread that allocates each port.
//!
//! ```text
//! ports of an address    | piece 0 | piece 1 | piece 2 | piece 3 | ...      pieces of the blocks that the node began with
//! thread (of three)      |    0    |    1    |    2    |    0    | ...      the next address begins with the next thread
//! ```
//! Invariant: a port belongs to the same thread as long as the node runs, in whatever blocks it is cut meanwhile. So a thread
//! knows all sessions at its ports, and threads need not agree on what an earlier text said.

use std::ops::RangeInclusive;

use super::outside::LOW;

/// How ports are shared by threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sharding {
    threads: u8,
    /// The port at which the first piece begins: blocks that begin with it are whole.
    first: u16,
    /// Ports of a piece.
    pub(super) ports: u16,
}

impl Sharding {
    /// How so many threads share these ports, in blocks of so many.
    pub(super) fn new<'a>(
        ranges: impl Iterator<Item = &'a RangeInclusive<u16>>,
        block: u16,
        threads: u8,
    ) -> Sharding {
        let first = ranges.map(|range| *range.start()).find(|&first| first >= LOW).unwrap_or(LOW);
        Sharding { threads, first, ports: block }
    }

    /// The thread of a port of a public address.
    #[inline]
    pub(super) fn thread(self, address: u32, port: u16) -> u8 {
        (i64::from(address) + i64::from(self.piece(port))).rem_euclid(self.threads.into()) as u8
    }

    /// How many threads there are.
    pub(super) fn threads(self) -> usize {
        self.threads.into()
    }

    /// The last port of the piece that a port is in.
    pub(super) fn last(self, port: u16) -> u16 {
        let next = (self.piece(port) + 1) * i32::from(self.ports) + i32::from(self.first);
        (next - 1).min(u16::MAX.into()) as u16
    }

    fn piece(self, port: u16) -> i32 {
        (i32::from(port) - i32::from(self.first)).div_euclid(self.ports.into())
    }
}
