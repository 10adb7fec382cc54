//! The thread of a node: frames from the ports through the plane to the ports, in turn, until it is told to end.
//!
//! ```text
//!   receive <= 64 > plane > by fate: out[port] > send;   local > host;   held, dropped > chunk back
//! ```

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

use weir_plane::{BATCH, Batch, Departure, Fate, Frame, Plane, PortId, Time};
use weir_port::bpf::now_ns;
use weir_port::duplex::{self, Chunk, FRONT, Pool, Port};

use crate::config::Wait;
use crate::counters::{PortCounts, Shown, Snapshot};

/// Longest sleep: what is due in the plane is late by no more.
const LONGEST_SLEEP: Duration = Duration::from_millis(50);
/// How often counters are shown while there is work, ns: it takes a system call or two per port.
const SHOW_NS: u64 = 10_000_000;
/// And while there is a moment without.
const SHOW_IDLE_NS: u64 = 1_000_000;
/// Most frames for the machine of one batch: each costs as much as passing a hundred on.
const MOST_LOCAL: usize = 32;
/// How often a thread without frames asks its ports whether they are still there.
const CHECK: Duration = Duration::from_secs(1);
/// How long a drain goes on while frames still arrive.
const DRAIN: Duration = Duration::from_millis(500);

/// What a thread is asked for; done between two batches.
pub(crate) type Request = Box<dyn FnOnce(&mut Worker) + Send>;

/// What a thread has to itself.
pub(crate) struct Worker {
    pub(crate) plane: Plane,
    ports: Vec<Box<dyn Port>>,
    pool: Pool,
    host: Machine,
    wait: Wait,
    /// When the node began.
    start_ns: u64,
    now: Time,
    /// Frames that leave, by port.
    out: Vec<Vec<Chunk>>,
    /// Frames of the present batch.
    arrived: Vec<Chunk>,
    local: Vec<Chunk>,
    batches: u64,
    sleeps: u64,
    /// Frames for the machine that were more than it takes, and own ones for which no chunk was free.
    withheld: u64,
    /// When the ports were last asked whether they are still there.
    checked: Time,
    shown_ns: u64,
}

/// Who takes frames for the node itself.
pub(crate) enum Machine {
    /// The stack behind the port at which they arrived.
    Kernel,
    /// A TAP device.
    Tap(Box<dyn Port>),
    /// Nobody.
    Nobody,
}

/// What the rest of the program holds of a worker.
pub(crate) struct Strings {
    pub(crate) requests: Receiver<Request>,
    /// There are requests.
    pub(crate) asked: Arc<AtomicBool>,
    /// Wakes the worker.
    pub(crate) wake: UnixStream,
    pub(crate) shown: Arc<Shown>,
}

/// What became of a frame, and where it begins and ends now.
type Outcome = (Fate, u16, u16);

impl Worker {
    pub(crate) fn new(
        plane: Plane,
        ports: Vec<Box<dyn Port>>,
        pool: Pool,
        host: Machine,
        wait: Wait,
    ) -> Worker {
        Worker {
            plane,
            out: ports.iter().map(|_| Vec::with_capacity(4 * BATCH)).collect(),
            ports,
            pool,
            host,
            wait,
            start_ns: now_ns(),
            now: Time::default(),
            arrived: Vec::with_capacity(BATCH),
            local: Vec::with_capacity(BATCH),
            batches: 0,
            sleeps: 0,
            withheld: 0,
            checked: Time::default(),
            shown_ns: 0,
        }
    }

    /// Works until the strings are let go, or nothing can arrive any more; then takes what is there, and sends it.
    pub(crate) fn run(&mut self, mut strings: Strings) -> io::Result<Snapshot> {
        strings.wake.set_nonblocking(true)?;
        loop {
            if strings.asked.load(Ordering::Acquire) && !self.answer(&mut strings) {
                break;
            }
            let idle = !self.turn()?;
            if idle && self.ports.iter().all(|port| port.is_over()) {
                break;
            }
            let late_ns = if idle { SHOW_IDLE_NS } else { SHOW_NS };
            if self.now.ns() - self.shown_ns > late_ns {
                self.shown_ns = self.now.ns();
                strings.shown.show(&self.snapshot()?);
            }
            if idle && self.wait == Wait::Sleep {
                self.sleep(&strings)?;
            }
        }
        self.drain()?;
        let last = self.snapshot()?;
        strings.shown.show(&last);
        Ok(last)
    }

    /// Does what was asked for; false when nobody can ask any more.
    fn answer(&mut self, strings: &mut Strings) -> bool {
        strings.asked.store(false, Ordering::Release);
        // Emptied before the requests are looked at, so that a later one wakes us again.
        while io::Read::read(&mut strings.wake, &mut [0; 64]).is_ok_and(|bytes| bytes > 0) {}
        loop {
            match strings.requests.try_recv() {
                Ok(request) => request(self),
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    /// One look at each port; false if there was nothing.
    fn turn(&mut self) -> io::Result<bool> {
        let mut any = false;
        for n in 0..self.ports.len() {
            self.ports[n].receive(&mut self.pool, &mut self.arrived)?;
            if !self.arrived.is_empty() {
                any = true;
                self.pass(n)?;
            }
        }
        any |= self.hear_machine()?;
        if !any {
            self.now = Time::from_ns(now_ns() - self.start_ns);
        }
        self.plane.tick(self.now);
        self.depart()?;
        for (port, out) in self.ports.iter_mut().zip(&mut self.out) {
            if !out.is_empty() {
                port.send(&mut self.pool, out)?;
            }
        }
        Ok(any)
    }

    /// Leads the batch that has arrived at port `n` through the plane.
    fn pass(&mut self, n: usize) -> io::Result<()> {
        self.now = Time::from_ns(now_ns() - self.start_ns);
        self.batches += 1;
        let outcome = self.judge(n);
        for (mut chunk, (fate, start, end)) in self.arrived.drain(..).zip(outcome) {
            match fate {
                Fate::Out(port) => {
                    chunk.set_range(start.into()..end.into());
                    self.out[usize::from(port.0)].push(chunk);
                }
                Fate::Local => self.local.push(chunk),
                Fate::Held | Fate::Dropped(_) => self.pool.give_back(chunk),
                Fate::Live => unreachable!("each frame has a fate behind the plane"),
            }
        }
        if self.local.is_empty() { Ok(()) } else { self.leave_to_machine(n) }
    }

    fn judge(&mut self, n: usize) -> [Outcome; BATCH] {
        let mut outcome = [(Fate::Live, 0, 0); BATCH];
        let mut batch = Batch::default();
        for (bytes, range) in self.pool.all_mut(&self.arrived) {
            batch.push(Frame::new(bytes, range.start, range.end, PortId(n as u8)));
        }
        self.plane.run(self.now, &mut batch);
        for (slot, (frame, fate)) in outcome.iter_mut().zip(batch.outcome()) {
            let range = frame.range();
            *slot = (fate, range.start as u16, range.end as u16);
        }
        outcome
    }

    /// Gives the machine what is its own.
    fn leave_to_machine(&mut self, n: usize) -> io::Result<()> {
        while self.local.len() > MOST_LOCAL {
            self.withheld += 1;
            self.pool.give_back(self.local.pop().expect("there are more"));
        }
        match &mut self.host {
            Machine::Kernel => self.ports[n].leave_to_machine(&mut self.pool, &mut self.local),
            Machine::Tap(tap) => tap.send(&mut self.pool, &mut self.local),
            Machine::Nobody => {
                self.local.drain(..).for_each(|chunk| self.pool.give_back(chunk));
                Ok(())
            }
        }
    }

    /// What the machine says by its TAP device leaves by the first port.
    fn hear_machine(&mut self) -> io::Result<bool> {
        let Machine::Tap(tap) = &mut self.host else { return Ok(false) };
        let before = self.out[0].len();
        tap.receive(&mut self.pool, &mut self.out[0])?;
        Ok(self.out[0].len() > before)
    }

    /// Frames of the plane's own leave.
    fn depart(&mut self) -> io::Result<()> {
        let departures: Vec<Departure> = self.plane.departures().collect();
        for Departure { port, bytes } in departures {
            let Some(mut chunk) = self.pool.take() else {
                self.withheld += 1;
                continue;
            };
            chunk.set_range(FRONT..FRONT + bytes.len());
            self.pool.bytes_mut(&chunk).copy_from_slice(&bytes);
            match port {
                Some(port) => self.out[usize::from(port.0)].push(chunk),
                None => {
                    self.local.push(chunk);
                    self.leave_to_machine(0)?;
                }
            }
        }
        Ok(())
    }

    fn sleep(&mut self, strings: &Strings) -> io::Result<()> {
        self.sleeps += 1;
        let tap = match &self.host {
            Machine::Tap(tap) => tap.descriptor(),
            _ => None,
        };
        let ports = self.ports.iter().filter_map(|port| port.descriptor());
        let all: Vec<BorrowedFd<'_>> = [strings.wake.as_fd()].into_iter().chain(ports).chain(tap).collect();
        let failed = duplex::wait(&all, LONGEST_SLEEP)?;
        // Not every kind of port says by itself that its interface has gone.
        if !failed.is_empty() || self.now - self.checked > CHECK {
            self.checked = self.now;
            self.ports.iter_mut().try_for_each(|port| port.check())?;
        }
        Ok(())
    }

    /// Nothing new comes in; what is there leaves.
    fn drain(&mut self) -> io::Result<()> {
        self.ports.iter_mut().try_for_each(|port| port.stop())?;
        let end_ns = now_ns() + DRAIN.as_nanos() as u64;
        while self.turn()? && now_ns() < end_ns {}
        Ok(())
    }

    /// Takes a piece of what is to change; `true`: there is more.
    pub(crate) fn commit(&mut self, change: &mut weir_plane::Change) -> bool {
        self.plane.commit(self.now, change)
    }

    pub(crate) fn snapshot(&mut self) -> io::Result<Snapshot> {
        let port = |port: &mut Box<dyn Port>| {
            let account = port.account()?;
            Ok(PortCounts { received: account.received, sent: account.sent, drops: account.drops })
        };
        let ports = self.ports.iter_mut().map(port).collect::<io::Result<_>>()?;
        let (batches, sleeps, withheld) = (self.batches, self.sleeps, self.withheld);
        Ok(Snapshot { books: self.plane.books(), ports, batches, sleeps, withheld })
    }
}
