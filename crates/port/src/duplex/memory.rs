//! A wire in memory: what goes in at one end comes out at the other.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard};

use super::{Account, BATCH, Chunk, Lost, Pool, Port, copied};

/// Frames that a wire holds.
const MOST: usize = 1024;

/// Frames on their way in one direction.
struct Channel {
    frames: Mutex<VecDeque<Vec<u8>>>,
    /// An eventfd: can be read while there are frames.
    event: std::fs::File,
}

impl Channel {
    fn new() -> io::Result<Arc<Channel>> {
        // SAFETY: no pointers; the result is checked below.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a descriptor that the kernel has just returned.
        let event = unsafe { OwnedFd::from_raw_fd(fd) }.into();
        Ok(Arc::new(Channel { frames: Mutex::default(), event }))
    }

    #[expect(clippy::expect_used, reason = "nothing panics that holds it")]
    fn lock(&self) -> MutexGuard<'_, VecDeque<Vec<u8>>> {
        self.frames.lock().expect("no thread panics with it")
    }

    /// False where there is no room.
    fn put(&self, frame: Vec<u8>) -> bool {
        let mut frames = self.lock();
        let room = frames.len() < MOST;
        if room {
            frames.push_back(frame);
            // It fails only when the counter is full, and then it can be read as well.
            let _ = (&self.event).write(&1_u64.to_ne_bytes());
        }
        room
    }

    fn take(&self) -> Option<Vec<u8>> {
        let mut frames = self.lock();
        let frame = frames.pop_front();
        if frames.is_empty() {
            let _ = (&self.event).read(&mut [0; 8]);
        }
        frame
    }
}

/// The end of a memory wire at which a node is.
pub struct Memory {
    arriving: Arc<Channel>,
    leaving: Arc<Channel>,
    received: u64,
    sent: u64,
    lost: Lost,
    stopped: bool,
}

/// The other end. Clones are of the same end.
#[derive(Clone)]
pub struct MemoryEnd {
    arriving: Arc<Channel>,
    leaving: Arc<Channel>,
}

impl Memory {
    /// A wire of which the node has one end.
    ///
    /// # Errors
    /// There are no descriptors left.
    pub fn new() -> io::Result<(Memory, MemoryEnd)> {
        let (to_node, from_node) = (Channel::new()?, Channel::new()?);
        let end = MemoryEnd { arriving: from_node.clone(), leaving: to_node.clone() };
        let (arriving, leaving, lost) = (to_node, from_node, Lost::default());
        Ok((Memory { arriving, leaving, received: 0, sent: 0, lost, stopped: false }, end))
    }
}

impl MemoryEnd {
    /// Sends a frame to the node; false if the wire is full.
    pub fn send(&self, frame: &[u8]) -> bool {
        self.leaving.put(frame.to_vec())
    }

    /// The next frame from the node.
    pub fn receive(&self) -> Option<Vec<u8>> {
        self.arriving.take()
    }

    /// Can be read when a frame has come from the node.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.arriving.event.as_fd()
    }
}

impl Port for Memory {
    fn receive(&mut self, pool: &mut Pool, into: &mut Vec<Chunk>) -> io::Result<()> {
        // What comes after the end waits in the wire for ever.
        if self.stopped {
            return Ok(());
        }
        for _ in 0..BATCH {
            let Some(frame) = self.arriving.take() else { break };
            let before = into.len();
            into.extend(copied(pool, &frame, &mut self.lost));
            self.received += (into.len() - before) as u64;
        }
        Ok(())
    }

    fn send(&mut self, pool: &mut Pool, frames: &mut Vec<Chunk>) -> io::Result<()> {
        for chunk in frames.drain(..) {
            if self.leaving.put(pool.bytes(&chunk).to_vec()) {
                self.sent += 1
            } else {
                self.lost.no_room += 1
            }
            pool.give_back(chunk);
        }
        Ok(())
    }

    fn stop(&mut self) -> io::Result<()> {
        self.stopped = true;
        Ok(())
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.arriving.event.as_fd())
    }

    fn account(&mut self) -> io::Result<Account> {
        Ok(Account { received: self.received, sent: self.sent, drops: self.lost.drops() })
    }

    fn method(&self) -> String {
        "memory".into()
    }
}
