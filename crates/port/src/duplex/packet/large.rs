//! A large frame, which stands for many that a wire takes: the kernel keeps it at the socket where no slot holds it, and it is
//! cut into chunks, as many at a time as there is room for.
//!
//! ```text
//!   socket > | offloads | frame of up to 64 KB | > chunk, chunk, chunk, ...
//! ```
//! One system call brings some 45 frames, where their senders fill them.

use std::os::fd::{AsRawFd, BorrowedFd};

use weir_packet::offload::segment::Segments;
use weir_packet::offload::virtio;

use super::super::{Chunk, Lost, Pool};
use super::{chunk_for, put_tag_back};
use crate::capture::tag::{self, Tag};

/// The longest frame, without what an administrator may ask for beyond it (BIG TCP).
const LONGEST: usize = 14 + (1 << 16);

/// A large frame that is being cut.
pub(super) struct LargeFrame {
    bytes: Box<[u8]>,
    length: usize,
    segments: Option<Segments>,
    tag: Option<Tag>,
}

impl Default for LargeFrame {
    fn default() -> LargeFrame {
        LargeFrame { bytes: vec![0; virtio::BYTES + LONGEST].into(), length: 0, segments: None, tag: None }
    }
}

impl LargeFrame {
    /// Is there anything left of it?
    pub(super) fn is_there(&self) -> bool {
        self.segments.is_some()
    }

    /// Takes the one that is in a slot; false if it cannot be cut.
    pub(super) fn begin(&mut self, offloads: &[u8; virtio::BYTES], frame: &[u8], tag: Option<Tag>) -> bool {
        let all = virtio::BYTES + frame.len();
        let Some(room) = self.bytes.get_mut(..all) else { return false };
        room[..virtio::BYTES].copy_from_slice(offloads);
        room[virtio::BYTES..].copy_from_slice(frame);
        self.cut(all, tag)
    }

    /// Takes the next that is kept at the socket; false if it cannot be cut.
    pub(super) fn fetch(&mut self, socket: BorrowedFd<'_>, tag: Option<Tag>) -> bool {
        for _ in 0..2 {
            let (to, room) = (self.bytes.as_mut_ptr().cast(), self.bytes.len());
            // With the length that it has, even where it is longer than there is room.
            let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
            // SAFETY: pointer and length describe the bytes, which live through the call.
            let bytes = unsafe { libc::recv(socket.as_raw_fd(), to, room, flags) };
            match usize::try_from(bytes) {
                Ok(bytes) => return bytes <= room && self.cut(bytes, tag),
                // It reports first that the interface went down, once.
                Err(_) => continue,
            }
        }
        false
    }

    fn cut(&mut self, all: usize, tag: Option<Tag>) -> bool {
        (self.length, self.tag) = (all, tag);
        let large = self.bytes[..all].split_first_chunk().and_then(|(offloads, frame)| {
            let large = virtio::read(offloads)?.large?;
            Segments::of(frame, large)
        });
        self.segments = large;
        self.is_there()
    }

    /// The next segment in a chunk of its own. All is over where they are longer than a chunk, which counts once.
    pub(super) fn next_segment(&mut self, pool: &mut Pool, lost: &mut Lost) -> Option<Chunk> {
        let segments = self.segments.as_mut()?;
        let Some(bytes) = segments.next_bytes() else {
            self.segments = None;
            return None;
        };
        let Some(mut chunk) = chunk_for(bytes, pool, lost) else {
            if bytes + tag::ROOM > pool.longest() {
                self.segments = None;
            } else {
                segments.skip_next();
            }
            return None;
        };
        let frame = &self.bytes[virtio::BYTES..self.length];
        segments.write_next(frame, &mut pool.bytes_mut(&chunk)[tag::ROOM..]);
        put_tag_back(&mut chunk, self.tag, pool);
        Some(chunk)
    }
}
