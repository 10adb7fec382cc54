//! The buffers between the threads that capture and the one that writes: a fixed number, so that a slow disk costs
//! frames and never memory.
//!
//! ```text
//!  capture thread --filled--> writer --empty--> pool --empty--> capture thread
//! ```
//! Memory is touched only where it is used: the buffer that came back last is the next one that is given out.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

/// Packets on their way to the file.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    /// Whole blocks.
    pub(crate) bytes: Vec<u8>,
    /// Packets among them.
    pub(crate) frames: u64,
    /// Arrival of the first one, ns since 1970.
    pub(crate) first_ns: u64,
}

/// Empty buffers.
pub(crate) struct Pool {
    empty: Mutex<Vec<Buffer>>,
    returned: Condvar,
    /// How many there are, to be seen without the lock.
    count: AtomicUsize,
    size: usize,
}

impl Pool {
    /// `count` buffers of `bytes` each.
    pub(crate) fn new(count: usize, bytes: usize) -> Pool {
        let buffer = |_| Buffer { bytes: Vec::with_capacity(bytes), ..Buffer::default() };
        let empty = Mutex::new((0..count).map(buffer).collect());
        Pool { empty, returned: Condvar::new(), count: AtomicUsize::new(count), size: count }
    }

    /// How many buffers there are in all.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// An empty buffer if there is one. Costs no lock if there is none.
    pub(crate) fn take(&self) -> Option<Buffer> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.out_of(&mut self.empty.lock().expect("no thread panics with the lock"))
    }

    /// An empty buffer, once there is one; `None` if that takes longer than `wait`.
    pub(crate) fn wait(&self, wait: Duration) -> Option<Buffer> {
        let empty = self.empty.lock().expect("no thread panics with the lock");
        let (mut empty, _) = self
            .returned
            .wait_timeout_while(empty, wait, |empty| empty.is_empty())
            .expect("no thread panics with the lock");
        self.out_of(&mut empty)
    }

    fn out_of(&self, empty: &mut Vec<Buffer>) -> Option<Buffer> {
        let buffer = empty.pop();
        self.count.store(empty.len(), Ordering::Relaxed);
        buffer
    }

    /// Takes a buffer back.
    pub(crate) fn give_back(&self, mut buffer: Buffer) {
        buffer.bytes.clear();
        buffer.frames = 0;
        let mut empty = self.empty.lock().expect("no thread panics with the lock");
        empty.push(buffer);
        self.count.store(empty.len(), Ordering::Relaxed);
        self.returned.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_as_were_made() {
        let pool = Pool::new(2, 100);
        let (mut a, b) = (pool.take().unwrap(), pool.take().unwrap());
        assert!(pool.take().is_none() && pool.wait(Duration::ZERO).is_none());
        a.bytes.extend([1; 100]);
        a.frames = 3;
        pool.give_back(a);
        let again = pool.wait(Duration::ZERO).unwrap();
        assert_eq!((again.bytes.len(), again.bytes.capacity(), again.frames), (0, 100, 0));
        pool.give_back(again);
        pool.give_back(b);
        assert_eq!(
            (pool.take().is_some(), pool.take().is_some(), pool.take().is_some()),
            (true, true, false)
        );
    }

    #[test]
    fn who_waits_is_woken() {
        let pool = Pool::new(1, 10);
        let buffer = pool.take().unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| pool.wait(Duration::from_secs(60)).is_some());
            pool.give_back(buffer);
            assert!(waiting.join().unwrap());
        });
    }
}
