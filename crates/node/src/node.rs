//! A node that runs, from outside: asked, changed, ended.

mod control;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::SystemTime;

use weir_plane::{
    BlockEvent, Count, Cursor, Event, FastState, NewBlocks, PoliceCounts, PortBlock, QueueCounts, UnreadLog,
    Update,
};
use weir_port::bpf::BpfError;
use weir_port::confined::{Work, confine};
use weir_port::thread;
use weir_punt::PuntError;

use crate::backend::OpenError;
use crate::bell::Bell;
use crate::config::{Config, Wait};
use crate::counters::{Shown, Snapshot};
use crate::running_config::{RunningConfig, by_thread};
pub use control::{Attachment, CONTROL_SLOTS, Rings};

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
    /// Another text.
    #[error("{0}")]
    Update(String),
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
struct Thread {
    requests: Option<Sender<Request>>,
    asked: Arc<AtomicBool>,
    bell: Arc<Bell>,
    shown: Arc<Shown>,
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
        Ok(Thread { requests: Some(requests), asked, bell, shown, handle, number })
    }

    /// Has it do something between two batches; what comes of it can be received.
    fn ask<T: Send + 'static>(&self, what: impl FnOnce(&mut Worker) -> T + Send + 'static) -> Receiver<T> {
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

/// Sessions of a node at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sessions {
    /// How many there are.
    pub live: u64,
    /// In words.
    pub shown: Vec<String>,
    /// How many are not among these.
    pub left_out: u64,
}

/// A node that runs. Dropping it ends it.
pub struct Node {
    began: SystemTime,
    running: Mutex<RunningConfig>,
    /// Log entries of stages that were removed. A thread that holds the lock sees all threads with the same text.
    unread_log: Mutex<UnreadLog>,
    /// NATs came or went, so that events of blocks do not say what there is.
    nats_changed: AtomicBool,
    threads: Vec<Thread>,
}

impl Node {
    /// Starts its threads; one that cannot start ends those that have.
    pub(crate) fn start(
        running: RunningConfig,
        began: SystemTime,
        work: Work,
        workers: impl Iterator<Item = (Worker, Arc<Bell>)>,
    ) -> Result<Node, NodeError> {
        let (cpus, wait) = (running.settings.threads.clone(), running.settings.wait);
        let mut node = Node {
            began,
            running: Mutex::new(running),
            unread_log: Mutex::default(),
            nats_changed: AtomicBool::new(false),
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
        self.threads.iter().map(|thread| thread.shown.look()).collect()
    }

    /// The counters of each thread now.
    ///
    /// # Errors
    /// It has ended, or a port can no longer be used.
    pub fn count(&self) -> Result<Vec<Snapshot>, NodeError> {
        self.ask(Worker::snapshot)?.into_iter().map(|counted| counted.map_err(NodeError::Stopped)).collect()
    }

    /// Takes over another configuration between two batches; sessions stay.
    ///
    /// # Errors
    /// What differs cannot change while it runs, or it has ended.
    pub fn apply(&self, config: &Config) -> Result<(), NodeError> {
        let mut running = self.running.lock().expect("no thread panics with it");
        if config.backends != running.backends || config.settings != running.settings {
            return Err(NodeError::Update(
                "a port or how it is run changes only when the node begins anew".into(),
            ));
        }
        let threads = self.threads.len();
        let plane = config.plane.clone().instead_of(&running.config, threads as u8);
        plane.may_share(threads as u8).map_err(NodeError::Update)?;
        let update =
            |new: &weir_plane::Config| Update::prepare(&running.config, new).map_err(NodeError::Update);
        let updates = by_thread(plane.clone(), threads, update).into_iter().collect::<Result<Vec<_>, _>>()?;
        let updates = self.accept(updates)?;
        // A caller that reads the log meanwhile sees the end of a session before its port is allocated again.
        let mut unread_log = self.unread_log.lock().expect("no thread panics with it");
        for update in self.commit(updates)? {
            unread_log.add(update.unread_log());
        }
        self.nats_changed.store(true, Ordering::Release);
        running.config = plane;
        Ok(())
    }

    /// All threads keep room for their updates, or none does.
    fn accept(&self, updates: Vec<Update>) -> Result<Vec<Update>, NodeError> {
        let accept = |(thread, update): (&Thread, Update)| {
            thread.ask(move |worker| (worker.plane.accept(&update), update))
        };
        let asked = answers(self.threads.iter().zip(updates).map(accept).collect())?;
        let Some(why) = asked.iter().find_map(|(accepted, _)| accepted.clone().err()) else {
            return Ok(asked.into_iter().map(|(_, update)| update).collect());
        };
        let decline = |(thread, (accepted, update)): (&Thread, (Result<(), String>, Update))| {
            accepted.is_ok().then(|| thread.ask(move |worker| worker.plane.decline(&update)))
        };
        answers(self.threads.iter().zip(asked).filter_map(decline).collect())?;
        Err(NodeError::Update(why))
    }

    /// Each thread takes its update, a piece behind each batch; returns what the threads gave back.
    fn commit(&self, mut updates: Vec<Update>) -> Result<Vec<Update>, NodeError> {
        let mut more = true;
        while more {
            // A thread gives back what it needs no more, so that it is freed here.
            let piece = |(thread, mut update): (&Thread, Update)| {
                thread.ask(move |worker| (worker.commit(&mut update), update))
            };
            let taken = answers(self.threads.iter().zip(updates).map(piece).collect())?;
            more = taken.iter().any(|(more, _)| *more);
            updates = taken.into_iter().map(|(_, update)| update).collect();
        }
        Ok(updates)
    }

    /// How its fast path is; `None`: it has none.
    ///
    /// # Errors
    /// It has ended.
    pub fn fast(&self) -> Result<Option<FastState>, NodeError> {
        Ok(self.ask(|worker| worker.plane.fast_state())?.into_iter().flatten().next())
    }

    /// Its routes as its text says them.
    pub fn routes(&self) -> Vec<String> {
        let running = self.running.lock().expect("no thread panics with it");
        running.config.routes.iter().flatten().map(ToString::to_string).collect()
    }

    /// What the rules of its filters held for, a list for each filter, in frames.
    ///
    /// # Errors
    /// It has ended.
    pub fn rules(&self) -> Result<Vec<Vec<(String, u64)>>, NodeError> {
        let frames = |(rule, count): (String, Count)| (rule, count.frames);
        let _of_one_text = self.unread_log.lock().expect("no thread panics with it");
        let mut counts = self.ask(|worker| worker.plane.filter_counts())?.into_iter();
        let mut all = counts.next().expect("a node has a thread");
        for other in counts {
            let more = other.into_iter().flatten();
            all.iter_mut().flatten().zip(more).for_each(|((_, to), (_, from))| to.frames += from.frames);
        }
        Ok(all.into_iter().map(|filter| filter.into_iter().map(frames).collect()).collect())
    }

    /// What its queues have done, in the order of the text.
    ///
    /// # Errors
    /// It has ended.
    pub fn queues(&self) -> Result<Vec<QueueCounts>, NodeError> {
        Ok(self.ask(|worker| worker.plane.queue_counts())?.into_iter().flatten().collect())
    }

    /// What its policers have done, in the order of the text.
    ///
    /// # Errors
    /// It has ended.
    pub fn policers(&self) -> Result<Vec<PoliceCounts>, NodeError> {
        Ok(self.ask(|worker| worker.plane.police_counts())?.into_iter().flatten().collect())
    }

    /// Frames that rules of its filters have written down since the last call, in words.
    ///
    /// # Errors
    /// It has ended.
    pub fn logged(&self) -> Result<Vec<String>, NodeError> {
        let mut all = std::mem::take(&mut self.unread_log.lock().expect("no thread panics with it").logged);
        all.extend(self.ask(|worker| worker.plane.logged())?.into_iter().flatten());
        all.sort_by_key(|logged| logged.time);
        Ok(all.iter().map(ToString::to_string).collect())
    }

    /// Its sessions in words: `most` of them, if there are more.
    ///
    /// # Errors
    /// It has ended.
    pub fn sessions(&self, most: usize) -> Result<Sessions, NodeError> {
        let live = |worker: &mut Worker| {
            u64::from(worker.plane.nat_usage().sessions) + u64::from(worker.plane.connections())
        };
        let _of_one_text = self.unread_log.lock().expect("no thread panics with it");
        let live: u64 = self.ask(live)?.iter().sum();
        let mut shown = Vec::new();
        for thread in &self.threads {
            // A page between two batches; it is put in words here.
            let mut from = Some(Cursor::default());
            while let Some(at) = from.filter(|_| shown.len() <= most) {
                let page = thread.ask(move |worker| worker.plane.sessions(at));
                for (some, next) in answers(vec![page])? {
                    shown.extend(some.iter().map(ToString::to_string));
                    from = next;
                }
            }
        }
        // Without more than those, all were shown: what ended meanwhile is not left out.
        let left_out = if shown.len() > most { live.saturating_sub(most as u64).max(1) } else { 0 };
        shown.truncate(most);
        Ok(Sessions { live, shown, left_out })
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
    fn ask<T: Send + 'static>(
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
fn answers<T>(answers: Vec<Receiver<T>>) -> Result<Vec<T>, NodeError> {
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
