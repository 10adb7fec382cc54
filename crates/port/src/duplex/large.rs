//! A large frame, which stands for many that a wire takes: the kernel keeps it at the socket where no slot holds it, or a TAP
//! device brings it, and it is cut into chunks, as many at a time as there is room for.
//!
//! ```text
//!   socket, device > | offloads | frame of up to 64 KB | > chunk, chunk, chunk, ...
//! ```
//! One system call brings some 45 frames, where their senders fill them.
//!
//! The offload header comes from the sender, which may be a guest of this machine: the frame is cut by what its own headers say,
//! into as many segments as any stack would make, or not at all.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use weir_packet::offload::segment::Segments;
use weir_packet::offload::virtio;

use super::{Chunk, FRONT, Lost, Pool};
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
        let room = self.bytes.get_mut(..all).and_then(<[u8]>::split_first_chunk_mut);
        let Some((head, room)) = room else { return false };
        *head = *offloads;
        room.copy_from_slice(frame);
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

    /// Has `read` bring a frame, large or not, behind its offloads; with what it tells: how many bytes these are.
    pub(super) fn bring(
        &mut self,
        read: impl FnOnce(&mut [u8]) -> io::Result<usize>,
    ) -> io::Result<Option<(&[u8; virtio::BYTES], &mut [u8])>> {
        let bytes = read(&mut self.bytes)?;
        let all = self.bytes.get_mut(..bytes).and_then(<[u8]>::split_first_chunk_mut);
        Ok(all.map(|(offloads, frame)| (&*offloads, frame)))
    }

    /// Cuts what was brought, of so many bytes; false if it cannot be cut.
    pub(super) fn cut_brought(&mut self, frame_bytes: usize) -> bool {
        self.cut(virtio::BYTES + frame_bytes, None)
    }

    fn cut(&mut self, all: usize, tag: Option<Tag>) -> bool {
        (self.length, self.tag) = (all, tag);
        let large = self.offloads_and_frame().and_then(|(offloads, frame)| {
            let large = virtio::read(offloads)?.large?;
            Segments::of(frame, large)
        });
        self.segments = large;
        self.is_there()
    }

    fn offloads_and_frame(&self) -> Option<(&[u8; virtio::BYTES], &[u8])> {
        self.bytes.get(..self.length)?.split_first_chunk()
    }

    /// The next segment in its own chunk. All is over where they are longer than a chunk, which counts once.
    pub(super) fn next_segment(&mut self, pool: &mut Pool, lost: &mut Lost) -> Option<Chunk> {
        let mut segments = self.segments.take()?;
        let bytes = segments.next_bytes()?;
        let Some(mut chunk) = chunk_for(bytes, pool, lost) else {
            if bytes + tag::ROOM <= pool.longest() {
                segments.skip_next();
                self.segments = Some(segments);
            }
            return None;
        };
        let to = pool.bytes_mut(&chunk).get_mut(tag::ROOM..);
        let is_written =
            self.offloads_and_frame().zip(to).is_some_and(|((_, frame), to)| segments.write_next(frame, to));
        if !is_written {
            // Not what was read when it came, although it was not written in between.
            lost.unknown_offload += 1;
            pool.give_back(chunk);
            return None;
        }
        self.segments = Some(segments);
        put_tag_back(&mut chunk, self.tag, pool);
        Some(chunk)
    }
}

/// A chunk for a frame that is written behind [`tag::ROOM`]; `None`, which is counted, where there is none, or none so long.
pub(super) fn chunk_for(bytes: usize, pool: &mut Pool, lost: &mut Lost) -> Option<Chunk> {
    if bytes + tag::ROOM > pool.longest() {
        lost.too_long += 1;
        return None;
    }
    let Some(mut chunk) = pool.take() else {
        lost.no_chunk += 1;
        return None;
    };
    chunk.set_range(FRONT..FRONT + tag::ROOM + bytes);
    Some(chunk)
}

/// The frame begins where it does, with its tag if it has one.
pub(super) fn put_tag_back(chunk: &mut Chunk, tag: Option<Tag>, pool: &mut Pool) {
    let length = tag::put_back(pool.bytes_mut(chunk), tag, u32::MAX).len();
    let end = chunk.range().end;
    chunk.set_range(end - length..end);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame of TCP over IPv4 with so much payload.
    fn frame(payload: usize) -> Vec<u8> {
        let total = (40 + payload) as u16;
        let [a, b] = total.to_be_bytes();
        let ip = [0x45, 0, a, b, 0, 7, 0x40, 0, 64, 6, 0, 0, 198, 18, 0, 1, 192, 0, 2, 1];
        let tcp = [4, 0, 0, 80, 0, 0, 0, 1, 0, 0, 0, 9, 0x50, 0x18, 1, 0, 0, 0, 0, 0];
        [&[2; 12][..], &[8, 0], &ip, &tcp, &vec![7; payload]].concat()
    }

    fn header(kind: u8, size: u16, start: u16, offset: u16) -> [u8; virtio::BYTES] {
        let mut header = [1, kind, 0xff, 0xff, 0, 0, 0, 0, 0, 0];
        for (at, field) in [(4, size), (6, start), (8, offset)] {
            header[at..at + 2].copy_from_slice(&field.to_ne_bytes());
        }
        header
    }

    /// How many segments come of it, and what is lost.
    fn cut(offloads: &[u8; virtio::BYTES], frame: &[u8], pool: &mut Pool) -> (usize, Lost) {
        let (mut large, mut lost, mut came) = (LargeFrame::default(), Lost::default(), 0);
        let tag = Some(Tag { tpid: 0x8100, tci: 7 });
        lost.unknown_offload += u64::from(!large.begin(offloads, frame, tag));
        while large.is_there() {
            if let Some(chunk) = large.next_segment(pool, &mut lost) {
                assert!(pool.bytes(&chunk).len() <= frame.len() + tag::ROOM);
                came += 1;
                pool.give_back(chunk);
            }
        }
        (came, lost)
    }

    #[test]
    fn what_a_sender_says_of_a_frame_costs_no_more_than_the_frame() {
        let mut pool = Pool::new(2, 1500).expect("memory");
        let whole = frame(4000);
        for (offloads, frame, expected) in [
            (header(1, 1000, 34, 16), &whole[..], (4, 0)),
            // No checksum is looked for where it is said to be: segments have their own.
            (header(1, 1000, 0xffff, 0xffff), &whole, (4, 0)),
            (header(1, 8, 34, 16), &whole, (500, 0)),
            // No length, a kind that cannot be cut, another protocol, more segments than any stack makes.
            (header(1, 0, 34, 16), &whole, (0, 1)),
            (header(3, 1000, 34, 16), &whole, (0, 1)),
            (header(5, 1000, 34, 6), &whole, (0, 1)),
            (header(1, 1, 34, 16), &frame(9000), (0, 1)),
            // Lengths that go behind the end of the frame, and a frame without any headers.
            (header(1, 1000, 34, 16), &whole[..whole.len() - 1], (0, 1)),
            (header(1, 1000, 34, 16), &whole[..53], (0, 1)),
            (header(1, 1000, 34, 16), &[], (0, 1)),
            // Longer than any that the kernel gives.
            (header(1, 1000, 34, 16), &vec![0; LONGEST + 1], (0, 1)),
        ] {
            let (came, lost) = cut(&offloads, frame, &mut pool);
            assert_eq!((came, lost.unknown_offload), expected, "{offloads:?}, {} bytes", frame.len());
        }
        // Longer segments than a chunk holds count once.
        let (came, lost) = cut(&header(1, 3000, 34, 16), &whole, &mut pool);
        assert_eq!((came, lost.too_long), (0, 1));
        // Without a chunk each of them is lost.
        let kept = [(); 2].map(|()| pool.take().expect("a chunk"));
        let (came, lost) = cut(&header(1, 1000, 34, 16), &whole, &mut pool);
        assert_eq!((came, lost.no_chunk), (0, 4));
        kept.into_iter().for_each(|chunk| pool.give_back(chunk));
    }
}
