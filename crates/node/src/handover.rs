//! Frames from thread to thread of a node: a ring of bytes from each to each other, so that no thread waits for a lock and no two
//! threads share memory for frames.
//!
//! ```text
//!   thread a:  frame > [ length, port, ingress, subscriber | bytes ] > ring a-b > chunk of thread b's pool
//! ```
//! `termination.rs` knows when nothing can come any more, `bell.rs` wakes threads.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use rtrb::{Consumer, Producer, RingBuffer};
use weir_plane::{Ingress, NeighbourNews, PortId, Subscriber};
use weir_port::duplex::{Chunk, FRONT, Pool};

use crate::bell::Bell;
use crate::termination::Termination;

/// Bytes of a ring: all frames that a thread receives in a turn of two ports, if they are long and belong to another thread.
pub(crate) const RING_BYTES: usize = 1 << 20;
/// Length, port, ingress and subscriber of a record.
const HEADER: usize = 10;
/// A record that is no frame on its way but news about neighbours.
const NEWS: u8 = 0xff;

/// A thread's place among the others.
pub(crate) struct Exchange {
    /// By thread; none to itself.
    to: Vec<Option<Lane>>,
    from: Vec<Consumer<u8>>,
    /// The one of `from` that is asked first, next time.
    turn: usize,
    bell: Arc<Bell>,
    woken: UnixStream,
    termination: Arc<Termination>,
    thread: usize,
    record: Vec<u8>,
    handed: u64,
    /// Frames that came out of the rings.
    taken: u64,
    /// News that there was no room for.
    unheard: u64,
    is_done: bool,
}

/// The way to another thread.
struct Lane {
    ring: Producer<u8>,
    bell: Arc<Bell>,
    /// Something was put there since the bell was last looked at.
    used: bool,
}

/// How a frame came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Origin {
    /// The port that it came in by.
    pub(crate) port: PortId,
    pub(crate) ingress: Ingress,
    /// The subscriber that another thread has found for it.
    pub(crate) subscriber: Subscriber,
}

impl Origin {
    /// Of a frame that came in by a port of this thread.
    pub(crate) fn wire(port: PortId) -> Origin {
        Origin { port, ingress: Ingress::Wire, subscriber: Subscriber::NONE }
    }
}

/// What comes from another thread.
pub(crate) enum Arrival {
    /// A frame in a chunk of this thread's pool.
    Frame(Chunk, Origin),
    /// Something about neighbours.
    News(NeighbourNews),
    /// A frame that no chunk was free for.
    NoChunk,
}

/// Places for so many threads, each with rings to the others of this size.
pub(crate) fn exchanges(threads: usize, ring_bytes: usize) -> io::Result<Vec<Exchange>> {
    let termination = Arc::new(Termination::new(threads));
    let bells = (0..threads).map(|_| Bell::new()).collect::<io::Result<Vec<_>>>()?;
    let lanes: Vec<Arc<Bell>> = bells.iter().map(|(bell, _)| bell.clone()).collect();
    let place = |(thread, (bell, woken))| Exchange {
        to: Vec::new(),
        from: Vec::new(),
        turn: 0,
        bell,
        woken,
        termination: termination.clone(),
        thread,
        record: Vec::new(),
        handed: 0,
        taken: 0,
        unheard: 0,
        is_done: false,
    };
    let mut all: Vec<Exchange> = bells.into_iter().enumerate().map(place).collect();
    for from in 0..threads {
        for to in 0..threads {
            if from == to {
                all[from].to.push(None);
                continue;
            }
            let (ring, end) = RingBuffer::new(ring_bytes);
            all[from].to.push(Some(Lane { ring, bell: lanes[to].clone(), used: false }));
            all[to].from.push(end);
        }
    }
    Ok(all)
}

impl Exchange {
    /// What others wake this thread with.
    pub(crate) fn bell(&self) -> Arc<Bell> {
        self.bell.clone()
    }

    /// Hands a frame to another thread; false if there is no room.
    pub(crate) fn hand(&mut self, to: u8, origin: Origin, frame: &[u8]) -> bool {
        // Before it can come out at the other end.
        self.termination.handed(self.thread, self.handed + 1);
        let is_there = self.put(usize::from(to), origin, origin.ingress.code(), frame);
        if is_there {
            self.handed += 1
        } else {
            self.termination.handed(self.thread, self.handed)
        }
        is_there
    }

    /// Sends the news to all other threads; a thread without room for it asks the neighbour itself.
    pub(crate) fn publish(&mut self, news: &NeighbourNews) {
        for to in 0..self.to.len() {
            if self.to[to].is_some() && !self.put(to, Origin::wire(news.port), NEWS, &news.frame) {
                self.unheard += 1;
            }
        }
    }

    fn put(&mut self, to: usize, origin: Origin, kind: u8, bytes: &[u8]) -> bool {
        let lane = self.to[to].as_mut().expect("no thread hands anything to itself");
        let [a, b] = (bytes.len() as u16).to_le_bytes();
        self.record.clear();
        let Origin { port, subscriber, .. } = origin;
        let [c, d] = port.0.to_le_bytes();
        let [e, f, g, h] = subscriber.index.to_le_bytes();
        self.record.extend_from_slice(&[a, b, c, d, kind, e, f, g, h, subscriber.generation]);
        self.record.extend_from_slice(bytes);
        lane.used = true;
        lane.ring.push_entire_slice(&self.record).is_ok()
    }

    /// Wakes those that something was handed to.
    pub(crate) fn flush(&mut self) {
        for lane in self.to.iter_mut().flatten().filter(|lane| lane.used) {
            lane.used = false;
            lane.bell.ring_if_asleep();
        }
    }

    /// The next thing from another thread.
    pub(crate) fn take(&mut self, pool: &mut Pool) -> Option<Arrival> {
        for i in 0..self.from.len() {
            let at = (self.turn + i) % self.from.len();
            let ring = &mut self.from[at];
            let mut header = [0; HEADER];
            if ring.pop_entire_slice(&mut header).is_err() {
                continue;
            }
            // The next one of this ring first: what one thread hands over stays in a row.
            self.turn = at;
            let [a, b, c, d, kind, e, f, g, h, generation] = header;
            let (bytes, port) = (usize::from(u16::from_le_bytes([a, b])), PortId(u16::from_le_bytes([c, d])));
            // A record is put there whole.
            let whole = "all of a record is there";
            if kind == NEWS {
                let mut frame = vec![0; bytes];
                ring.pop_entire_slice(&mut frame).expect(whole);
                return Some(Arrival::News(NeighbourNews { port, frame }));
            }
            self.taken += 1;
            let fits = bytes <= pool.longest();
            let Some(mut chunk) = fits.then(|| pool.take()).flatten() else {
                ring.read_chunk(bytes).expect(whole).commit_all();
                return Some(Arrival::NoChunk);
            };
            chunk.set_range(FRONT..FRONT + bytes);
            ring.pop_entire_slice(pool.bytes_mut(&chunk)).expect(whole);
            let ingress = Ingress::of_code(kind).expect("a thread wrote it");
            let subscriber = Subscriber { index: u32::from_le_bytes([e, f, g, h]), generation };
            return Some(Arrival::Frame(chunk, Origin { port, ingress, subscriber }));
        }
        None
    }

    /// Whether nothing is on its way here.
    pub(crate) fn is_empty(&self) -> bool {
        self.from.iter().all(Consumer::is_empty)
    }

    /// From now on another ring is asked first.
    pub(crate) fn ask_next(&mut self) {
        self.turn += 1;
    }

    /// What was taken has been dealt with, and handed on where need be.
    pub(crate) fn landed(&mut self) {
        self.termination.landed(self.thread, self.taken);
    }

    /// News that there was no room for.
    pub(crate) fn unheard(&self) -> u64 {
        self.unheard
    }

    /// Can be read when this thread is to wake.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.woken.as_fd()
    }

    /// The thread is about to sleep; false if it must not, because something waits for it.
    pub(crate) fn may_sleep(&self) -> bool {
        self.bell.may_sleep(|| self.is_empty())
    }

    /// The thread is awake. `is_readable`: its wait has said that the descriptor can be read.
    pub(crate) fn woke(&self, is_readable: bool) {
        self.bell.woke(&self.woken, is_readable);
    }

    /// This thread's ports have nothing left and get nothing new.
    pub(crate) fn done(&mut self) {
        self.is_done = true;
        self.termination.done();
    }

    /// Whether nothing can come from any thread any more, or one of them has failed.
    pub(crate) fn is_over(&self) -> bool {
        self.termination.is_over()
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        if !self.is_done {
            self.termination.failed();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn pool(chunks: u32) -> Pool {
        Pool::new(chunks, 1518).expect("memory")
    }

    fn origin(port: u16, number: u32) -> Origin {
        let subscriber = Subscriber { index: number << 16, generation: number as u8 };
        Origin { port: PortId(port), ingress: Ingress::Found, subscriber }
    }

    #[test]
    fn frames_come_out_as_they_went_in_and_none_is_cut() {
        let [mut a, mut b] = <[Exchange; 2]>::try_from(exchanges(2, 1000).expect("sockets"))
            .unwrap_or_else(|_| unreachable!("two"));
        let mut pool = pool(64);
        let mut sent = 0_u32;
        // The ring is short, so that frames lie across its end.
        for round in 0..200_u32 {
            let mut lengths = Vec::new();
            for n in 0..8 {
                let bytes = 60 + (round * 37 + n * 101) % 300;
                let frame = vec![sent as u8; bytes as usize];
                if a.hand(1, origin(300 + n as u16, sent), &frame) {
                    lengths.push((bytes as usize, sent, 300 + n as u16));
                    sent += 1;
                }
            }
            assert!((1..8).contains(&lengths.len()), "some find room, and not all");
            for (bytes, number, port) in lengths {
                let Some(Arrival::Frame(chunk, from)) = b.take(&mut pool) else {
                    panic!("{bytes} of {number}")
                };
                assert_eq!(
                    (pool.bytes(&chunk), from),
                    (&vec![number as u8; bytes][..], origin(port, number))
                );
                pool.give_back(chunk);
            }
            assert!(b.take(&mut pool).is_none());
            b.landed();
        }
        a.done();
        assert!(!b.is_over(), "b is not done");
        b.done();
        assert!(a.hand(1, origin(0, 0), &[0; 60]));
        assert!(!b.is_over(), "a frame is on its way");
        while pool.take().is_some() {}
        assert!(matches!(b.take(&mut pool), Some(Arrival::NoChunk)));
        b.landed();
        assert!(a.is_over() && b.is_over());
    }

    #[test]
    fn nobody_waits_for_a_thread_that_has_failed() {
        let [mut a, b] = <[Exchange; 2]>::try_from(exchanges(2, 1000).expect("sockets"))
            .unwrap_or_else(|_| unreachable!("two"));
        a.done();
        assert!(!a.is_over(), "b is not done");
        drop(b);
        assert!(a.is_over());
    }

    #[test]
    fn a_sleeper_is_woken_and_nobody_else() {
        let mut all = exchanges(3, 1000).expect("sockets");
        let news = NeighbourNews { port: PortId(1), frame: vec![7; 42] };
        assert!(all[1].may_sleep() && all[2].may_sleep());
        assert!(all[0].hand(1, origin(0, 0), &[0; 60]));
        all[0].flush();
        let method = |exchange: &mut Exchange| {
            let ready = weir_port::duplex::wait(&[exchange.descriptor()], std::time::Duration::ZERO);
            ready.expect("a wait");
            exchange.woken.read(&mut [0; 64]).is_ok()
        };
        assert_eq!((method(&mut all[1]), method(&mut all[2])), (true, false));
        all[2].woke(false);
        assert!(!all[1].may_sleep(), "a frame waits");
        all[0].publish(&news);
        all[0].flush();
        assert!(!method(&mut all[2]), "it is awake");
        let mut pool = pool(8);
        assert!(matches!(all[2].take(&mut pool), Some(Arrival::News(heard)) if heard == news));
        assert!(matches!(all[1].take(&mut pool), Some(Arrival::Frame(..))));
        assert!(matches!(all[1].take(&mut pool), Some(Arrival::News(_))));
        // The bell rings whether the thread sleeps or not: one sleep is cut short, and no other.
        all[2].bell.ring();
        assert!(all[2].may_sleep());
        all[2].woke(false);
        assert!(!method(&mut all[2]), "the next sleep is a sleep");
    }
}
