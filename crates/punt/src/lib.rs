//! Rings in shared memory between a thread of a node and the program that controls it: frames that are punted to the
//! program, and frames that it injects. Either process may be stopped or killed at any instruction; the other one never
//! waits for it.
//!
//! ```text
//!   thread of a node   Producer<Punts>      > ring >  Consumer<Punts>        control program
//!                      Consumer<Injections> < ring <  Producer<Injections>
//!
//!   a ring is a memfd of 64-bit words, in the byte order of the machine (fields as on a little-endian one):
//!     byte    0  magic | version:u32 kind:u32 | slots | bytes of a slot      header, written when the ring is made
//!           128  producer index                                              written by the producer alone
//!           256  consumer index                                              written by the consumer alone
//!           384  1: the consumer sleeps                                      set by the consumer, cleared by both
//!          4096  slot 0 | slot 1 | ...                                       record i is in slot i modulo slots
//!
//!     ... free | consumer index -> record record record | producer index -> free free ...
//!
//!   a slot:
//!     byte    0  length of the frame:u32  port:u16  reason or how:u16
//!             8  outer TPID:u16 TCI:u16  inner TPID:u16 TCI:u16              0: no such tag
//!            16  arrival, ns                                                 0 in an injection
//!            24  the frame without these tags
//! ```
//! A node makes a new ring for each program that attaches, so that nothing of one program is left for the next. It hands
//! over two descriptors of it: the memory, and a socket that becomes readable when a sleeping consumer is to wake.
//!
//! Invariants, and who keeps them:
//!
//! - *Only whole records are seen.* The producer writes a record, then its index (release); the consumer reads the index
//!   (acquire), then the record. A producer that is killed between the two has added nothing.
//! - *Neither end waits.* A full ring refuses the record, an empty one has none. Indices are the only thing that one end
//!   needs of the other. Waking is a send that never blocks, once per batch at most: to a consumer that has said that it
//!   sleeps, and, since that flag may have been overwritten, after damage and for each whole ring of refused records.
//! - *No wake-up is lost.* The producer stores its index, then reads the flag; the consumer stores the flag, then reads
//!   the index; a sequentially consistent fence stands in both between the two.
//! - *Memory is bytes from outside.* Each end works with its own copy of its index and of the header, and puts the shared
//!   ones right where they have changed. The consumer copies each word of a record once, and judges the copy. What cannot
//!   be is counted as [`Damage`] by name; no value in the memory leads outside it, ends a process or keeps a loop going.
//! - *Damage ends.* The index of the producer decides. A consumer that finds it further away than the ring is long
//!   continues there, and loses the records between. A producer that finds such an index of the consumer refuses records
//!   and wakes the consumer, until it has looked.

mod consumer;
mod damage;
mod geometry;
mod memory;
mod producer;
mod record;
mod ring;
mod wake;

use std::io;
use std::os::fd::OwnedFd;

pub use consumer::Consumer;
pub use damage::{Damage, DamageCounts};
pub use geometry::Geometry;
pub use producer::Producer;
pub use record::{How, Injection, Injections, Kind, Punt, Punts, Tag, Tags};
pub use ring::Refused;

/// What the other process needs of a ring. The process that made the ring closes them once they are sent, or it does not
/// learn that the other one has ended.
#[derive(Debug)]
pub struct Descriptors {
    /// A memfd, sealed against other sizes.
    pub memory: OwnedFd,
    /// A Unix socket: the producer's end or the consumer's.
    pub wake: OwnedFd,
}

/// Why there is no ring.
#[derive(Debug, thiserror::Error)]
pub enum PuntError {
    /// See [`Geometry::new`].
    #[error("a ring has a power of two of slots, 2 to {max}, not {found}", max = geometry::MAX_SLOTS)]
    Slots {
        /// How many were asked for.
        found: u64,
    },
    /// See [`Geometry::new`].
    #[error(
        "a slot has a multiple of {unit} bytes, {min} to {max}, not {found}",
        unit = geometry::SLOT_UNIT_BYTES, min = geometry::MIN_SLOT_BYTES, max = geometry::MAX_SLOT_BYTES
    )]
    SlotBytes {
        /// How many were asked for.
        found: u64,
    },
    /// The kernel refused something.
    #[error("{action} failed: {source}")]
    System {
        /// What.
        action: &'static str,
        /// Why.
        source: io::Error,
    },
    /// The descriptor is no memfd, or not one that keeps its size.
    #[error("the memory is not sealed (F_SEAL_SHRINK): pass on the descriptor that the node sent")]
    Unsealed,
    /// The memory does not begin with the header of a ring.
    #[error("the memory holds no ring: pass on the descriptor that the node sent")]
    NoRing,
    /// The memory was laid out by another version of weir.
    #[error("the ring has version {found}, this program knows {known}: use the program of the node's version", known = geometry::VERSION)]
    Version {
        /// The ring's.
        found: u32,
    },
    /// A ring of punts was attached to as one of injections, or the reverse.
    #[error("the ring is of another kind: punts and injections were exchanged")]
    OtherKind,
    /// The memory is not as long as its header says.
    #[error("the memory has {found} bytes, a ring of its geometry {expected}")]
    Size {
        /// Bytes of the memory.
        found: u64,
        /// Bytes of such a ring.
        expected: u64,
    },
}

impl PuntError {
    fn system<E: Into<io::Error>>(action: &'static str) -> impl FnOnce(E) -> PuntError {
        move |source| PuntError::System { action, source: source.into() }
    }
}
