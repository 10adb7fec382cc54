//! A thread of a node: frames from the ports and from other threads through the plane to the ports, alternately, until it is
//! asked to end.
//!
//! ```text
//!   receive <= 64 > plane > by verdict: out[port] > send;   local > machine;   control > control program;   handed > another thread
//!                     ^              held, dropped > chunk back
//!                     `---- shelf <- kept
//! ```

mod control;
mod fast;
mod host;
mod idle;
mod panics;
mod ports;

use std::io;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

use idle::Idle;
use weir_plane::{
    BATCH, Batch, Departure, Emitted, Event, FastState, Frame, Ingress, Leave, Plane, PortBlock, PortId,
    Punt, Subscriber, Ticket, Time, Verdict,
};
use weir_port::bpf::now_ns;
use weir_port::duplex::{Chunk, PollSet, Pool, Port};
use weir_punt::Damage;

use crate::config::Wait;
use crate::counters::{PortCounts, Shown, Snapshot};
use crate::handover::{Arrival, Exchange, Origin};
use crate::kept::{KeptFrames, in_chunk};
pub use control::{AttachmentId, ControlState};
pub(crate) use control::{ControlEnd, PuntRing};
use control::{PuntQueues, Queued};
pub(crate) use fast::HitRate;
pub(crate) use host::{Machine, Recipient};
pub use panics::PanicReport;
pub(crate) use ports::PortParts;

/// Longest sleep, where nothing is due in the plane before: so often counters are shown.
const LONGEST_SLEEP: Duration = Duration::from_millis(50);
/// How often counters are shown while there is work, ns: it takes a system call or two per port.
const SHOW_NS: u64 = 10_000_000;
/// And while there is a moment without.
const SHOW_IDLE_NS: u64 = 1_000_000;
/// Batches that a port is asked for in one turn: frames cost less when many leave together.
pub(crate) const IN_TURN: usize = 4;
/// Ports that a thread looks at before what they have received leaves: so many need memory for it at a time.
pub(crate) const PORTS_AT_ONCE: usize = 64;
/// Counters of a port are shown no more often than so, times the number of ports, ns.
const SHOW_PORT_NS: u64 = 20_000;
/// How often a thread asks its ports whether they are still there.
const CHECK: Duration = Duration::from_secs(1);
/// How long a drain goes on while frames still arrive.
const DRAIN: Duration = Duration::from_millis(500);
/// How long a thread that has drained waits for the others: longer than a busy machine keeps them from their drains.
const OTHERS: Duration = Duration::from_secs(10);

/// A request to a thread; it runs between two batches.
pub(crate) type Request = Box<dyn FnOnce(&mut Worker) + Send>;

/// The state of a thread, which no other thread shares.
pub(crate) struct Worker {
    pub(crate) plane: Plane,
    ports: Vec<Box<dyn Port>>,
    pool: Pool,
    machine: Machine,
    exchange: Exchange,
    wait: Wait,
    idle: Idle,
    waited_for: PollSet,
    /// Where counters are shown from now on, if that has changed.
    new_shown: Option<Arc<Shown>>,
    /// When the node began.
    start_ns: u64,
    now: Time,
    /// More is due in the plane than was done.
    is_behind: bool,
    /// Frames that leave, by port.
    out: Vec<Vec<Chunk>>,
    /// Frames of the present batch, and how each came.
    arrived: Vec<Chunk>,
    arrived_by: Vec<Origin>,
    /// Of frames that the plane has kept and goes on with, of each.
    tickets: Vec<Ticket>,
    kept: KeptFrames,
    /// Frames for the machine, by reason, and by the port that they came in by.
    punted: [Vec<Vec<Chunk>>; Punt::ALL.len()],
    batches: u64,
    sleeps: u64,
    /// Frames of the node's own for which no chunk was free.
    withheld: u64,
    /// When the ports were last asked whether they are still there.
    checked: Time,
    shown_ns: u64,
    /// Reports of panics that were not read yet.
    panic_reports: Vec<PanicReport>,
    panics: u64,
    /// The control program, if one is attached.
    control: Option<Box<ControlEnd>>,
    to_control: PuntQueues,
    /// The next batch is of frames that it has injected.
    are_injected: bool,
    /// What was found in the rings of the last control program that was detached because of it, and how many there were.
    control_damage: Vec<Damage>,
    damaged: u64,
    /// Whether the fast path is faster, if the node is to find out.
    hit_rate: Option<HitRate>,
}

/// What a worker is made of.
pub(crate) struct Parts {
    pub(crate) plane: Plane,
    pub(crate) ports: Vec<Box<dyn Port>>,
    pub(crate) pool: Pool,
    /// How many chunks frames that the plane keeps may be in.
    pub(crate) most_chunks: usize,
    pub(crate) machine: Machine,
    pub(crate) exchange: Exchange,
    pub(crate) wait: Wait,
    /// When the node begins.
    pub(crate) start_ns: u64,
}

/// What a worker shares with the rest of the program: requests to it, and the counters that it publishes.
pub(crate) struct WorkerHandle {
    pub(crate) requests: Receiver<Request>,
    /// There are requests.
    pub(crate) asked: Arc<AtomicBool>,
    pub(crate) shown: Arc<Shown>,
}

/// Final counters and records of a worker that has ended.
pub(crate) struct FinalReport {
    /// The counters, or why a port failed.
    pub(crate) counted: io::Result<Snapshot>,
    /// NAT events that were not read yet, and how many were dropped since the start because the log was full.
    pub(crate) events: (Vec<Event>, u64),
    /// The port blocks that hosts have.
    pub(crate) blocks: Vec<PortBlock>,
    /// Why the input of a port ended early.
    pub(crate) ended_early: Vec<String>,
}

/// How a batch comes into the plane: [`Plane::run`], [`Plane::resume`] or [`Plane::send`].
type Decide = fn(&mut Plane, Time, &mut Batch<'_>);
/// What became of a frame, where it begins and ends now, and its subscriber.
type Outcome = (Verdict, u16, u16, Subscriber);

impl Worker {
    pub(crate) fn new(parts: Parts) -> Worker {
        let Parts { plane, ports, pool, most_chunks, machine, exchange, wait, start_ns } = parts;
        Worker {
            plane,
            out: ports.iter().map(|_| Vec::with_capacity(4 * BATCH)).collect(),
            punted: Punt::ALL.map(|_| ports.iter().map(|_| Vec::new()).collect()),
            ports,
            pool,
            machine,
            exchange,
            wait,
            idle: Idle::default(),
            waited_for: PollSet::default(),
            new_shown: None,
            start_ns,
            now: Time::default(),
            is_behind: false,
            arrived: Vec::with_capacity(BATCH),
            arrived_by: Vec::with_capacity(BATCH),
            tickets: Vec::new(),
            kept: KeptFrames::new(most_chunks),
            batches: 0,
            sleeps: 0,
            withheld: 0,
            checked: Time::default(),
            shown_ns: 0,
            panic_reports: Vec::new(),
            panics: 0,
            control: None,
            to_control: PuntQueues::default(),
            are_injected: false,
            control_damage: Vec::new(),
            damaged: 0,
            hit_rate: None,
        }
    }

    /// Runs until the request channel is closed, or no port can receive any more; then forwards the frames that are there.
    pub(crate) fn run(&mut self, handle: WorkerHandle) -> FinalReport {
        let counted = self.work(handle);
        let ended_early = self.ports.iter().filter_map(|port| port.ended_early()).collect();
        FinalReport { counted, events: self.plane.events(), blocks: self.plane.blocks(), ended_early }
    }

    fn work(&mut self, mut handle: WorkerHandle) -> io::Result<Snapshot> {
        loop {
            if handle.asked.load(Ordering::Acquire) && !self.answer(&mut handle) {
                break;
            }
            if let Some(shown) = self.new_shown.take() {
                handle.shown = shown;
            }
            let idle = !self.turn()?;
            if idle && self.ports.iter().all(|port| port.is_over()) {
                break;
            }
            let late_ns = if idle { SHOW_IDLE_NS } else { SHOW_NS };
            if self.now.ns() - self.shown_ns > late_ns.max(SHOW_PORT_NS * self.ports.len() as u64) {
                self.shown_ns = self.now.ns();
                // A thread that never sleeps notices here that the control program has ended.
                self.control_woke(true);
                handle.shown.show(&self.snapshot()?);
            }
            if self.now - self.checked > CHECK {
                self.check()?;
            }
            match (idle && self.wait == Wait::Sleep, self.is_behind) {
                (true, false) if self.idle.looks_again(self.now.ns()) => {}
                (true, false) => self.sleep()?,
                // The rest is not urgent: the kernel's receive path on this CPU goes first.
                (true, true) => std::thread::yield_now(),
                (false, _) => self.idle.is_over(),
            }
        }
        self.drain()?;
        let counted = self.snapshot()?;
        handle.shown.show(&counted);
        Ok(counted)
    }

    /// Does what was asked for; false when the request channel is closed.
    fn answer(&mut self, handle: &mut WorkerHandle) -> bool {
        self.now = Time::from_ns(now_ns() - self.start_ns);
        // Read as well as written, and before the requests are looked at: one that is not found here is reported once more.
        handle.asked.swap(false, Ordering::Acquire);
        loop {
            match handle.requests.try_recv() {
                Ok(request) => request(self),
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    /// One look at each port, and at what other threads have; false if there was nothing.
    pub(crate) fn turn(&mut self) -> io::Result<bool> {
        let (mut any, all) = (false, self.ports.len());
        for first in (0..all).step_by(PORTS_AT_ONCE) {
            let end = all.min(first + PORTS_AT_ONCE);
            let some = self.receive(first..end)?;
            any |= some;
            if some || end == all {
                any |= self.hear_machine()?;
                any |= self.hear_control();
                any |= self.turn_to_threads()?;
            }
        }
        Ok(any)
    }

    /// One look at each of these ports; false if there was nothing.
    fn receive(&mut self, ports: Range<usize>) -> io::Result<bool> {
        let mut any = false;
        for n in ports {
            for _ in 0..IN_TURN {
                self.ports[n].receive(&mut self.pool, &mut self.arrived)?;
                if self.arrived.is_empty() {
                    break;
                }
                any = true;
                self.arrived_by.resize(self.arrived.len(), Origin::wire(PortId(n as u16)));
                self.pass();
            }
        }
        Ok(any)
    }

    /// One look at what other threads have, and all leaves; false if there was nothing. They have as much as all ports
    /// together: of what the ports of all threads receive, most belongs to another one.
    fn turn_to_threads(&mut self) -> io::Result<bool> {
        let mut any = false;
        for _ in 0..IN_TURN * self.ports.len().min(PORTS_AT_ONCE) {
            if !self.take_over() {
                break;
            }
            any = true;
        }
        if !any {
            self.now = Time::from_ns(now_ns() - self.start_ns);
        }
        let now = self.now;
        let mut more = false;
        self.guarded(|plane| more = plane.tick(now));
        self.is_behind = more;
        self.resume();
        // Before questions leave: others may get their answers.
        for news in self.plane.neighbour_news() {
            self.exchange.publish(&news);
        }
        self.depart();
        self.leave_to_machine()?;
        self.leave_to_control();
        self.exchange.landed();
        self.exchange.flush();
        for (port, out) in self.ports.iter_mut().zip(&mut self.out) {
            if !out.is_empty() {
                port.send(&mut self.pool, out)?;
            }
        }
        Ok(any)
    }

    /// Runs a batch of what other threads have handed over through the plane.
    fn take_over(&mut self) -> bool {
        let mut any = false;
        self.exchange.ask_next();
        for _ in 0..BATCH {
            let Some(arrival) = self.exchange.take(&mut self.pool) else { break };
            any = true;
            match arrival {
                Arrival::Frame(chunk, origin) => {
                    self.arrived.push(chunk);
                    self.arrived_by.push(origin);
                }
                Arrival::News(news) => {
                    let now = self.now;
                    self.guarded(|plane| plane.on_neighbour_news(now, &news));
                }
                Arrival::NoChunk => self.plane.lost_on_the_way(),
            }
        }
        if self.arrived.is_empty() {
            self.resume()
        } else {
            self.pass()
        }
        any
    }

    /// Passes the batch that has arrived through the plane, and the frames that the plane has kept and goes on with.
    fn pass(&mut self) {
        self.pass_batch(Plane::run);
        self.resume();
    }

    /// Passes all frames through the plane that it has kept and goes on with.
    fn resume(&mut self) {
        loop {
            while self.arrived.len() < BATCH {
                match self.plane.next_emitted() {
                    Some(Emitted::Back(ticket)) => self.bring_back(ticket),
                    Some(Emitted::Free(ticket)) => self.kept.free(&mut self.pool, ticket),
                    None => break,
                }
            }
            if self.arrived.is_empty() {
                return;
            }
            self.pass_batch(Plane::resume);
        }
    }

    /// A frame that was kept is one of the next batch.
    fn bring_back(&mut self, ticket: Ticket) {
        match self.kept.take(&mut self.pool, ticket) {
            (port, Some(chunk)) => {
                self.arrived.push(chunk);
                self.arrived_by.push(Origin::wire(port));
                self.tickets.push(ticket);
            }
            (_, None) => self.plane.lost_while_kept(ticket),
        }
    }

    /// Has the plane decide about the batch that has arrived, by one of its ways for frames to come in.
    fn pass_batch(&mut self, decide: Decide) {
        self.now = Time::from_ns(now_ns() - self.start_ns);
        self.batches += 1;
        let Some(outcome) = self.judge(decide) else {
            self.give_up();
            return;
        };
        for ((mut chunk, Origin { port: from, .. }), (verdict, start, end, subscriber)) in
            self.arrived.drain(..).zip(self.arrived_by.drain(..)).zip(outcome)
        {
            match verdict {
                Verdict::Out(port) => {
                    chunk.set_range(start.into()..end.into());
                    self.out[usize::from(port.0)].push(chunk);
                }
                Verdict::Punted(punt) => self.punted[punt as usize][usize::from(from.0)].push(chunk),
                Verdict::Control(reason) => {
                    chunk.set_range(start.into()..end.into());
                    let arrival_ns = self.start_ns + self.now.ns();
                    self.to_control.push(reason, Queued { chunk, port: from, arrival_ns });
                }
                Verdict::Handed(to) => {
                    chunk.set_range(start.into()..end.into());
                    let origin = Origin { port: from, ingress: to.ingress, subscriber };
                    if !self.exchange.hand(to.to, origin, self.pool.bytes(&chunk)) {
                        self.plane.handover_failed();
                    }
                    self.pool.give_back(chunk);
                }
                Verdict::Kept(ticket) => {
                    chunk.set_range(start.into()..end.into());
                    self.kept.put(&mut self.pool, ticket, from, chunk);
                }
                Verdict::KeptCopy | Verdict::Dropped(_) => self.pool.give_back(chunk),
                Verdict::Local | Verdict::Live => unreachable!("each frame has a verdict behind the plane"),
            }
        }
        self.tickets.clear();
    }

    /// What becomes of the batch; `None` if the plane panicked.
    fn judge(&mut self, decide: Decide) -> Option<[Outcome; BATCH]> {
        let mut outcome = [(Verdict::Live, 0, 0, Subscriber::NONE); BATCH];
        let is_injected = std::mem::take(&mut self.are_injected);
        let mut batch = if is_injected { Batch::injected() } else { Batch::default() };
        let mut tickets = self.tickets.iter();
        for ((bytes, range), &origin) in self.pool.all_mut(&self.arrived).zip(&self.arrived_by) {
            let Origin { port, ingress, subscriber } = origin;
            let frame = Frame::new(bytes, range.start, range.end, port);
            match (tickets.next(), ingress) {
                (Some(&ticket), _) => batch.push_kept(frame, ticket),
                (None, Ingress::Wire) => batch.push(frame),
                (None, ingress) => batch.push_handed(frame.of_subscriber(subscriber), ingress),
            }
        }
        let (plane, now) = (&mut self.plane, self.now);
        catch_unwind(AssertUnwindSafe(|| decide(plane, now, &mut batch))).ok()?;
        for (slot, (frame, verdict)) in outcome.iter_mut().zip(batch.outcome()) {
            let range = frame.range();
            *slot = (verdict, range.start as u16, range.end as u16, frame.subscriber());
        }
        Some(outcome)
    }

    /// Frames of the plane's own leave.
    fn depart(&mut self) {
        let departures: Vec<Departure> = self.plane.departures().collect();
        for Departure { to, bytes } in departures {
            if let Leave::Thread(to, from) = to {
                let origin = Origin { ingress: to.ingress, ..Origin::wire(from) };
                if !self.exchange.hand(to.to, origin, &bytes) {
                    self.plane.handover_failed();
                }
                continue;
            }
            let Some(chunk) = in_chunk(&mut self.pool, &bytes) else {
                self.withheld += 1;
                continue;
            };
            match to {
                Leave::Port(port) => self.out[usize::from(port.0)].push(chunk),
                Leave::Machine(punt, port) => self.punted[punt as usize][usize::from(port.0)].push(chunk),
                Leave::Thread(..) => unreachable!("it has been handed over"),
            }
        }
    }

    fn sleep(&mut self) -> io::Result<()> {
        if !self.exchange.may_sleep() {
            return Ok(());
        }
        if !self.control_may_sleep() {
            self.exchange.woke(false);
            return Ok(());
        }
        self.sleeps += 1;
        let mut waited_for = std::mem::take(&mut self.waited_for);
        waited_for.clear();
        let bell = waited_for.add(self.exchange.descriptor());
        let control = self.control_descriptor().map(|control| waited_for.add(control));
        let ports = self.ports.iter().filter_map(|port| port.descriptor());
        ports.chain(self.machine.descriptors()).for_each(|descriptor| {
            waited_for.add(descriptor);
        });
        let due = self.plane.due(self.now).map_or(LONGEST_SLEEP, |due| due - self.now);
        let has_failed = waited_for.wait(due.min(LONGEST_SLEEP))?;
        self.idle.slept(now_ns() - self.start_ns - self.now.ns());
        self.exchange.woke(waited_for.is_readable(bell));
        self.control_woke(control.is_some_and(|control| waited_for.is_readable(control)));
        self.waited_for = waited_for;
        if has_failed { self.check() } else { Ok(()) }
    }

    /// Not every kind of port says by itself that its interface has gone.
    fn check(&mut self) -> io::Result<()> {
        self.checked = self.now;
        self.ports.iter_mut().try_for_each(|port| port.check())?;
        self.look_fast();
        Ok(())
    }

    /// Goes on with another plane.
    pub(crate) fn begin_anew(&mut self, plane: Plane) {
        let fast = self.plane.take_fast();
        self.plane = plane;
        self.plane.set_control(self.control.is_some());
        self.kept.clear(&mut self.pool);
        if let Some(table) = fast {
            self.plane.set_fast(table);
            self.look_fast();
        }
    }

    /// Nothing new comes in; what is there leaves, and what other threads have handed over until they are done as well.
    fn drain(&mut self) -> io::Result<()> {
        self.plane.use_fast(false);
        self.plane.settle_fast();
        self.drain_control();
        self.ports.iter_mut().try_for_each(|port| port.stop())?;
        self.machine.stop()?;
        let end_ns = now_ns() + DRAIN.as_nanos() as u64;
        while self.turn()? && now_ns() < end_ns {}
        self.exchange.done();
        let end_ns = now_ns() + OTHERS.as_nanos() as u64;
        while !self.exchange.is_over() && now_ns() < end_ns {
            if !self.turn_to_threads()? {
                std::thread::yield_now();
            }
        }
        Ok(())
    }

    /// Takes a piece of an update; `true`: there is more.
    pub(crate) fn commit(&mut self, update: &mut weir_plane::Update) -> bool {
        let more = self.plane.commit(self.now, update);
        self.resume();
        more
    }

    /// Chunks that are free.
    #[cfg(test)]
    pub(crate) fn free_chunks(&self) -> usize {
        self.pool.free()
    }

    /// Takes all of its free memory away.
    #[cfg(test)]
    pub(crate) fn starve(&mut self) {
        while self.pool.take().is_some() {}
    }

    /// The counters of this thread now.
    pub(crate) fn snapshot(&mut self) -> io::Result<Snapshot> {
        let port = |port: &mut Box<dyn Port>| {
            let account = port.account()?;
            Ok(PortCounts { received: account.received, sent: account.sent, drops: account.drops })
        };
        let mut ports = self.ports.iter_mut().map(port).collect::<io::Result<Vec<_>>>()?;
        if let Some(FastState { counts, .. }) = self.plane.fast_state() {
            for (port, (received, sent)) in ports.iter_mut().zip(counts.received.iter().zip(&counts.sent)) {
                port.received += received;
                port.sent += sent;
            }
        }
        let (batches, sleeps, withheld) = (self.batches, self.sleeps, self.withheld);
        let (accounting, unheard) = (self.plane.accounting(), self.exchange.unheard());
        let (panics, damaged) = (self.panics, self.damaged);
        Ok(Snapshot { accounting, ports, batches, sleeps, withheld, unheard, panics, damaged })
    }
}
