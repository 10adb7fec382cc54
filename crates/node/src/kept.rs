//! Frames that a plane keeps, in the memory that they came in. So many may have chunks of their own; ports need the others,
//! so that further frames wait as copies.

use weir_plane::{PortId, Shelf, Ticket};
use weir_port::duplex::{Chunk, FRONT, Pool};

/// Frames of a worker that its plane keeps.
pub(crate) struct KeptFrames {
    shelf: Shelf<(PortId, Memory)>,
    /// How many of them are in chunks, and how many may be.
    chunks: usize,
    most_chunks: usize,
}

enum Memory {
    Chunk(Chunk),
    Copied(Vec<u8>),
}

impl KeptFrames {
    /// None, of which so many may be in chunks.
    pub(crate) fn new(most_chunks: usize) -> KeptFrames {
        KeptFrames { shelf: Shelf::default(), chunks: 0, most_chunks }
    }

    /// A frame waits that came in by a port.
    pub(crate) fn put(&mut self, pool: &mut Pool, ticket: Ticket, port: PortId, chunk: Chunk) {
        let memory = if self.chunks < self.most_chunks {
            self.chunks += 1;
            Memory::Chunk(chunk)
        } else {
            let copy = pool.bytes(&chunk).to_vec();
            pool.give_back(chunk);
            Memory::Copied(copy)
        };
        self.shelf.put(ticket, (port, memory));
    }

    /// A frame has waited: the port that it came in by, and its chunk, if there is one for it.
    pub(crate) fn take(&mut self, pool: &mut Pool, ticket: Ticket) -> (PortId, Option<Chunk>) {
        let (port, memory) = self.shelf.take(ticket);
        let chunk = match memory {
            Memory::Chunk(chunk) => {
                self.chunks -= 1;
                Some(chunk)
            }
            Memory::Copied(bytes) => in_chunk(pool, &bytes),
        };
        (port, chunk)
    }

    /// A frame was dropped.
    pub(crate) fn free(&mut self, pool: &mut Pool, ticket: Ticket) {
        if let (_, Memory::Chunk(chunk)) = self.shelf.take(ticket) {
            self.chunks -= 1;
            pool.give_back(chunk);
        }
    }

    /// The plane that kept them is no more.
    pub(crate) fn clear(&mut self, pool: &mut Pool) {
        self.chunks = 0;
        for (_, memory) in self.shelf.drain() {
            if let Memory::Chunk(chunk) = memory {
                pool.give_back(chunk);
            }
        }
    }
}

/// A frame in a chunk, if one is free.
pub(crate) fn in_chunk(pool: &mut Pool, bytes: &[u8]) -> Option<Chunk> {
    let mut chunk = pool.take()?;
    // What became longer on its way than any frame that arrives begins further in front.
    let start = FRONT.min((FRONT + pool.longest()).saturating_sub(bytes.len()));
    chunk.set_range(start..start + bytes.len());
    pool.bytes_mut(&chunk).copy_from_slice(bytes);
    Some(chunk)
}
