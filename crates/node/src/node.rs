//! A node that runs, from outside: asked, changed, ended.

mod apply;
mod control;
mod links;
mod ports;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::SystemTime;

use weir_plane::{
    BlockEvent, Command, Event, NewBlocks, Populator, PortBlock, Refused, SubscriberEvent, UnreadLog, Update,
};
use weir_port::bpf::BpfError;
use weir_port::confined::{Work, confine};
use weir_port::thread;
use weir_punt::PuntError;

use crate::applied::{Applied, Turns};
use crate::backend::OpenError;
use crate::bell::Bell;
use crate::config::Wait;
use crate::counters::{Shown, Snapshot};
use crate::grace::Grace;
use crate::links::Links;
use crate::running_config::RunningConfig;
pub use apply::PartsOfPort;
pub use control::{Attachment, CONTROL_SLOTS, Rings};
pub(crate) use ports::{ETHERNET, choice, rings};

use crate::worker::{FinalReport, PanicReport, Request, Worker, WorkerHandle};

/// What goes wrong with a node.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// A port cannot be opened.
    #[error("port {port}: {source}")]
    Open {
        /// Its name in the text.
        port: String,
        /// Why.
        source: OpenError,
    },
    /// A thread of the node.
    #[error("{step}: {source}")]
    Thread {
        /// What was to be done.
        step: &'static str,
        /// Why not.
        source: io::Error,
    },
    /// Another text, or what there is no room for.
    #[error("{0}")]
    Update(String),
    /// A list of commands.
    #[error("{0}")]
    Refused(Refused),
    /// Programs that pass frames on.
    #[error("the fast path: {0}")]
    Fast(BpfError),
    /// A control program cannot be attached.
    #[error("the rings for the control program: {0}")]
    Control(PuntError),
    /// A port can no longer be used.
    #[error("the node has stopped: {0}")]
    Stopped(io::Error),
}

pub(crate) fn thread_error(step: &'static str) -> impl Fn(io::Error) -> NodeError {
    move |source| NodeError::Thread { step, source }
}

/// How a thread runs.
#[derive(Clone, Copy)]
struct Placement {
    /// Its CPU, if it is bound to one.
    cpu: Option<usize>,
    wait: Wait,
    /// The system calls that it may make.
    work: Work,
}

/// A thread of the node, as the rest of the program sees it.
pub(crate) struct Thread {
    requests: Option<Sender<Request>>,
    asked: Arc<AtomicBool>,
    bell: Arc<Bell>,
    shown: Mutex<Arc<Shown>>,
    handle: Option<JoinHandle<FinalReport>>,
    number: u32,
}

impl Thread {
    fn start(mut worker: Worker, bell: Arc<Bell>, placement: Placement) -> Result<Thread, NodeError> {
        let Placement { cpu, wait, work } = placement;
        let first = worker.snapshot().map_err(thread_error("asking the ports"))?;
        let shown = Arc::new(Shown::new(&first));
        let (requests, queue) = channel();
        let asked = Arc::new(AtomicBool::new(false));
        let handle = WorkerHandle { requests: queue, asked: asked.clone(), shown: shown.clone() };
        let (ready, placed) = channel();
        let run = move || {
            let done = cpu.map_or(Ok(()), thread::pin_to).map(|()| thread::number());
            let failed = done.is_err();
            // Or what is due is up to 50 us late, and so is a pause before the way out changes.
            let _ = thread::exact_waits();
            if wait == Wait::Poll {
                // Without the right to it, frames are later where this machine has other work.
                let _ = thread::prefer();
            }
            // A kernel without such filters is no reason not to forward.
            let _ = confine(work);
            // The starting thread waits for it.
            let _ = ready.send(done);
            if failed {
                let (blocks, ended_early) = (Vec::new(), Vec::new());
                FinalReport { counted: Ok(first), events: (Vec::new(), 0), blocks, ended_early }
            } else {
                worker.run(handle)
            }
        };
        let handle = std::thread::Builder::new().name("node".into()).spawn(run);
        let handle = Some(handle.map_err(thread_error("starting a thread of the node"))?);
        let number = placed.recv().expect("the thread says how it began");
        let number = number.map_err(thread_error("moving a thread of the node to its CPU"))?;
        let shown = Mutex::new(shown);
        Ok(Thread { requests: Some(requests), asked, bell, shown, handle, number })
    }

    /// Has it do something between two batches; what comes of it can be received.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        what: impl FnOnce(&mut Worker) -> T + Send + 'static,
    ) -> Receiver<T> {
        let (reply, answer) = channel();
        let request: Request = Box::new(move |worker| {
            // The asking thread may have gone.
            let _ = reply.send(what(worker));
        });
        let requests = self.requests.as_ref().expect("until the end");
        // Without a thread there is no answer.
        if requests.send(request).is_ok() {
            self.wake();
        }
        answer
    }

    fn wake(&self) {
        self.asked.store(true, Ordering::Release);
        self.bell.ring();
    }

    /// Closes the request channel, so that the thread ends.
    fn request_end(&mut self) {
        self.requests = None;
        self.wake();
    }

    fn join(&mut self) -> Option<FinalReport> {
        let done = self.handle.take()?.join();
        Some(done.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    }
}

/// Final counters and records of a node that has ended.
#[derive(Debug)]
pub struct Ended {
    /// Its last counters, by thread, or why a port could no longer be used.
    pub threads: Result<Vec<Snapshot>, NodeError>,
    /// Events of its NATs since [`Node::events`] was last called, in the order of time, and how many events there was no room
    /// for, ever.
    pub events: (Vec<Event>, u64),
    /// The blocks of ports that hosts had, but those that follow from their addresses.
    pub blocks: Vec<PortBlock>,
    /// Why what was to arrive by a port, a capture file, has ended early. What came before was forwarded.
    pub ended_early: Vec<String>,
}

/// Has a thread make pages of tables before threads of frames need them: these would wait for them, and may start no thread any more. One
/// for all nodes of the process; where there can be none, pages are made as they are touched.
fn populate_ahead() {
    if let Some(populator) = Populator::first() {
        let run = move || {
            // A thread of frames on its CPU goes first.
            let _ = thread::step_back();
            populator.run();
        };
        let _ = std::thread::Builder::new().name("memory".into()).spawn(run);
    }
}

/// A node that runs. Dropping it ends it.
pub struct Node {
    began: SystemTime,
    pub(crate) running: Mutex<RunningConfig>,
    /// The names of its ports by their numbers; nothing takes long with the lock.
    pub(crate) names: Mutex<Arc<[String]>>,
    /// Log entries of stages that were removed. A thread that holds the lock sees all threads with the same text.
    pub(crate) unread_log: Mutex<UnreadLog>,
    /// NATs came or went, so that events of blocks do not say what there is.
    nats_changed: AtomicBool,
    /// Access ports without links. The lock of `running` is taken first.
    pub(crate) grace: Mutex<Grace>,
    /// Asks the kernel about the interfaces of ports.
    pub(crate) links: Mutex<Links>,
    pub(crate) threads: Vec<Thread>,
}

impl Node {
    /// Starts its threads; one that cannot start ends those that have.
    pub(crate) fn start(
        running: RunningConfig,
        began: SystemTime,
        work: Work,
        workers: impl Iterator<Item = (Worker, Arc<Bell>)>,
    ) -> Result<Node, NodeError> {
        populate_ahead();
        let (cpus, wait) = (running.settings.threads.clone(), running.settings.wait);
        let mut node = Node {
            began,
            names: Mutex::new(running.port_names().into()),
            running: Mutex::new(running),
            unread_log: Mutex::default(),
            nats_changed: AtomicBool::new(false),
            grace: Mutex::default(),
            links: Mutex::default(),
            threads: Vec::new(),
        };
        for ((worker, bell), cpu) in workers.zip(cpus) {
            node.threads.push(Thread::start(worker, bell, Placement { cpu, wait, work })?);
        }
        Ok(node)
    }

    /// The numbers of its threads.
    pub fn threads(&self) -> Vec<u32> {
        self.threads.iter().map(|thread| thread.number).collect()
    }

    /// The counters of each thread, not older than some 50 ms.
    pub fn snapshots(&self) -> Vec<Snapshot> {
        let look = |thread: &Thread| {
            let shown = thread.shown.lock().expect("no thread panics with it").clone();
            shown.look()
        };
        self.threads.iter().map(look).collect()
    }

    /// The counters of each thread now.
    ///
    /// # Errors
    /// It has ended, or a port can no longer be used.
    pub fn count(&self) -> Result<Vec<Snapshot>, NodeError> {
        self.ask(Worker::snapshot)?.into_iter().map(|counted| counted.map_err(NodeError::Stopped)).collect()
    }

    /// Does a list of commands between batches: all of them, or none. Others may see it partly done meanwhile.
    ///
    /// # Errors
    /// A command cannot be done, there is no room for what comes, or the node has ended.
    pub fn command(&self, commands: &[Command]) -> Result<Applied, NodeError> {
        let mut running = self.running.lock().expect("no thread panics with it");
        let changes = running.config.decide(commands).map_err(NodeError::Refused)?;
        let updates = self.threads.iter().map(|_| Update::of_changes(&changes)).collect();
        let done = self.accept(updates).and_then(|updates| self.commit(updates));
        if let Err(NodeError::Update(_)) = &done {
            running.config.undo(changes);
        }
        Ok(running.applied(done?.1))
    }

    /// All threads keep room for their updates, or none does.
    fn accept(&self, mut updates: Vec<Update>) -> Result<Vec<Update>, NodeError> {
        let mut more = true;
        while more {
            let (accepted, asked) = self.each(updates, |worker, update| worker.plane.accept(update))?;
            updates = asked;
            match accepted.into_iter().collect::<Result<Vec<bool>, String>>() {
                Ok(all) => more = all.contains(&true),
                Err(why) => {
                    self.decline(updates)?;
                    return Err(NodeError::Update(why));
                }
            }
        }
        Ok(updates)
    }

    /// No thread keeps room any more.
    fn decline(&self, mut updates: Vec<Update>) -> Result<(), NodeError> {
        let mut more = vec![true];
        while more.contains(&true) {
            (more, updates) = self.each(updates, |worker, update| worker.plane.decline(update))?;
        }
        Ok(())
    }

    /// Each thread takes its update, a piece behind each batch; returns what the threads gave back, and how long that took.
    fn commit(&self, mut updates: Vec<Update>) -> Result<(Vec<Update>, Turns), NodeError> {
        let (mut more, mut turns) = (true, Turns::default());
        while more {
            // A thread gives back what it needs no more, so that it is freed here.
            let (taken, given_back) = self.each(updates, |worker, update| {
                let before = thread::cpu_time();
                let more = worker.commit(update);
                (more, thread::cpu_time().saturating_sub(before))
            })?;
            updates = given_back;
            more = taken.iter().any(|(more, _)| *more);
            turns.count(taken.into_iter().map(|(_, time)| time).max().unwrap_or_default());
        }
        Ok((updates, turns))
    }

    /// Has each thread do something with its update between two batches.
    fn each<T: Send + 'static>(
        &self,
        updates: Vec<Update>,
        what: fn(&mut Worker, &mut Update) -> T,
    ) -> Result<(Vec<T>, Vec<Update>), NodeError> {
        let ask = |(thread, mut update): (&Thread, Update)| {
            thread.ask(move |worker| (what(worker, &mut update), update))
        };
        Ok(answers(self.threads.iter().zip(updates).map(ask).collect())?.into_iter().unzip())
    }

    /// PPPoE sessions of subscribers that have died or come alive since the last call.
    ///
    /// # Errors
    /// The node has ended.
    pub fn subscriber_events(&self) -> Result<Vec<SubscriberEvent>, NodeError> {
        Ok(self.ask(|worker| worker.plane.subscriber_events())?.into_iter().flatten().collect())
    }

    /// Events of its NATs since the last call, in the order of time, and how many events there was no room for, ever.
    ///
    /// # Errors
    /// It has ended.
    pub fn events(&self) -> Result<(Vec<Event>, u64), NodeError> {
        let mut unread_log = self.unread_log.lock().expect("no thread panics with it");
        let of_threads = self.ask(|worker| worker.plane.events())?;
        Ok(in_order(unread_log.events(), of_threads))
    }

    /// Panics since the last call and what was lost by them: of each thread the first ones.
    ///
    /// # Errors
    /// It has ended.
    pub fn panic_reports(&self) -> Result<Vec<PanicReport>, NodeError> {
        Ok(self.ask(Worker::panic_reports)?.into_iter().flatten().collect())
    }

    /// Blocks of ports that hosts were given or have given back since the last call; `None`: there were too many, or the
    /// node is what another text says, and [`Node::blocks`] says what there is.
    ///
    /// # Errors
    /// It has ended.
    pub fn block_events(&self) -> Result<Option<Vec<BlockEvent>>, NodeError> {
        if self.nats_changed.load(Ordering::Acquire) {
            return Ok(None);
        }
        let of_threads = self.ask(|worker| worker.plane.block_events())?;
        Ok(of_threads.into_iter().collect::<Option<Vec<_>>>().map(|all| all.concat()))
    }

    /// All blocks of ports that hosts have, but those that follow from their addresses.
    ///
    /// # Errors
    /// It has ended.
    pub fn blocks(&self) -> Result<Vec<PortBlock>, NodeError> {
        // First: an update that comes meanwhile asks for all once more.
        self.nats_changed.store(false, Ordering::Release);
        Ok(self.ask(|worker| worker.plane.blocks())?.concat())
    }

    /// Whether hosts are given further port blocks from now on, see [`weir_plane::Plane::set_new_blocks`].
    ///
    /// # Errors
    /// It has ended.
    pub fn set_new_blocks(&self, new_blocks: NewBlocks) -> Result<(), NodeError> {
        self.ask(move |worker| worker.plane.set_new_blocks(new_blocks)).map(drop)
    }

    /// When its time began.
    pub fn began(&self) -> SystemTime {
        self.began
    }

    /// Begins anew with its planes: sessions, neighbours and counters are gone.
    ///
    /// # Errors
    /// It has ended.
    pub fn forget(&self) -> Result<(), NodeError> {
        let planes = self.running.lock().expect("no thread panics with it").planes();
        let mut planes = planes.into_iter();
        let new = |thread: &Thread| {
            let plane = planes.next().expect("one for each thread");
            thread.ask(move |worker| worker.begin_anew(plane))
        };
        self.nats_changed.store(true, Ordering::Release);
        answers(self.threads.iter().map(new).collect()).map(drop)
    }

    /// Has each thread say or do something between two batches, when it knows of all frames until now, and waits for what comes of it.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        what: impl Fn(&mut Worker) -> T + Clone + Send + 'static,
    ) -> Result<Vec<T>, NodeError> {
        let mut next = Some(0);
        while let Some(from) = next {
            let settle = move |worker: &mut Worker| worker.plane.settle_some(from);
            let rest = answers(self.threads.iter().map(|thread| thread.ask(settle)).collect())?;
            next = rest.into_iter().flatten().max();
        }
        // All of them at once, then one after the other.
        answers(self.threads.iter().map(|thread| thread.ask(what.clone())).collect())
    }

    /// Whether it has ended by itself: its files are at their end, or a port is gone.
    pub fn has_ended(&self) -> bool {
        self.threads.iter().any(|thread| thread.handle.as_ref().is_none_or(JoinHandle::is_finished))
    }

    /// Ends it: nothing new comes in, what is there leaves.
    pub fn stop(mut self) -> Ended {
        let (mut counted, mut events, mut blocks) = (Vec::new(), Vec::new(), Vec::new());
        let mut ended_early = Vec::new();
        for last in self.end_threads() {
            counted.push(last.counted);
            events.push(last.events);
            blocks.extend(last.blocks);
            ended_early.extend(last.ended_early);
        }
        let threads = counted.into_iter().collect::<io::Result<_>>().map_err(NodeError::Stopped);
        let unread_log = self.unread_log.get_mut().expect("no thread panics with it");
        Ended { threads, events: in_order(unread_log.events(), events), blocks, ended_early }
    }

    fn end_threads(&mut self) -> Vec<FinalReport> {
        self.threads.iter_mut().for_each(Thread::request_end);
        self.threads.iter_mut().filter_map(Thread::join).collect()
    }
}

/// Unread events and those of all threads in the order of time, and how many there was no room for.
fn in_order((mut all, mut lost): (Vec<Event>, u64), of_threads: Vec<(Vec<Event>, u64)>) -> (Vec<Event>, u64) {
    for (events, lost_there) in of_threads {
        all.extend(events);
        lost += lost_there;
    }
    all.sort_by_key(|event| event.at);
    (all, lost)
}

/// What threads were asked for.
pub(crate) fn answers<T>(answers: Vec<Receiver<T>>) -> Result<Vec<T>, NodeError> {
    let gone = |_| NodeError::Stopped(io::Error::other("a thread of it has ended"));
    answers.into_iter().map(|answer| answer.recv().map_err(gone)).collect()
}

impl Drop for Node {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.end_threads();
        }
    }
}
