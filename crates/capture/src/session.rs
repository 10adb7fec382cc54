//! A capture from its first frame to its last: threads for the queues and the file, limits, the trigger, the accounting.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use weir_linux::rtnl::LinkStats;
use weir_port::pcap;
use weir_port::pcapng::{ETHERNET, Interface, write};

use crate::accounting::Accounting;
use crate::disk::{Disk, Message, Progress, Rotation, Writing, Written};
use crate::files::Files;
use crate::interface;
use crate::pool::Pool;
use crate::recorder::{Format, Recorded, Recorder};
use crate::source::Source;
use crate::trigger::{Trigger, Watch};
pub use crate::worker::Reading;
use crate::worker::{Event, Shared, Shown, Worker};

/// How often limits and triggers are checked.
const TICK: Duration = Duration::from_millis(50);
/// How often the view is shown.
const SECOND: Duration = Duration::from_secs(1);
/// Bytes of a buffer, unless files are so small that they would hold a few of them.
const BUFFER_BYTES: u64 = 1 << 20;
/// A buffer holds at least some of the largest packets.
const SMALLEST_BUFFER_BYTES: u64 = 256 << 10;
/// Longest time that a buffer waits to become full.
const PATIENCE: Duration = Duration::from_secs(1);

/// Limits at which a capture ends by itself.
#[derive(Debug, Clone, Copy, Default)]
pub struct Limits {
    /// After this time.
    pub duration: Option<Duration>,
    /// After this many frames, exactly.
    pub frames: Option<u64>,
    /// When this many bytes are in files: some buffers more.
    pub bytes: Option<u64>,
}

/// The files of a capture.
pub struct Recording {
    /// Creates the files.
    pub files: Files,
    /// When the next one begins.
    pub rotation: Rotation,
    /// Format of the packets in a file.
    pub format: Format,
    /// As zstd.
    pub compress: bool,
    /// Nothing is written until the trigger; then the files reach back by this time.
    pub before: Option<(Duration, Trigger)>,
    /// Memory for frames that wait for the disk or the trigger, bytes.
    pub memory: u64,
    /// The program and its version, for the file.
    pub application: String,
    /// The kernel, for the file.
    pub system: String,
}

/// Signals to a running capture.
#[derive(Clone, Copy)]
pub struct Signals<'a> {
    /// End.
    pub stop: &'a AtomicBool,
    /// SIGUSR1 has come.
    pub trigger: &'a AtomicBool,
    /// Was a reopening of the files requested since the last call?
    pub asks_to_reopen: &'a dyn Fn() -> bool,
}

/// A queue as it is now.
#[derive(Debug, Clone)]
pub struct QueueView {
    /// Its interface.
    pub interface: String,
    /// Which of the interface's queues, from 0.
    pub number: usize,
    /// Its counters.
    pub reading: Reading,
    /// Frames per second since the view before.
    pub frames_per_s: f64,
    /// Bits per second since then, of frames without FCS.
    pub bits_per_s: f64,
    /// Frames lost per second since then.
    pub drops_per_s: f64,
}

/// Counts of packets and files written so far.
#[derive(Debug, Clone, Copy, Default)]
pub struct WrittenSoFar {
    /// Packets.
    pub frames: u64,
    /// Bytes.
    pub bytes: u64,
    /// Files begun.
    pub files: u64,
}

/// The capture as it is now.
#[derive(Debug, Clone)]
pub struct View {
    /// Since its begin.
    pub elapsed: Duration,
    /// All queues.
    pub queues: Vec<QueueView>,
    /// Files, if there are any.
    pub written: Option<WrittenSoFar>,
    /// It waits for its trigger.
    pub waiting: bool,
    /// Frames that the interfaces received, captured or not.
    pub offered: u64,
    /// Warnings since the previous view.
    pub notes: Vec<String>,
}

/// Why a capture has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It was asked to end.
    Stopped,
    /// A limit was reached.
    Limit,
    /// No interface is left.
    NothingLeft,
    /// Files cannot be written any more.
    Disk,
}

/// The result of a capture.
#[derive(Debug)]
pub struct Report {
    /// Why it has ended.
    pub end: End,
    /// The accounting of each interface.
    pub accounting: Vec<Accounting>,
    /// The last view.
    pub view: View,
    /// Counts of what was written to the file.
    pub written: Option<Written>,
}

impl Report {
    /// Captured frames that were lost because the disk was too slow.
    pub fn slow(&self) -> u64 {
        self.view.queues.iter().map(|queue| queue.reading.slow).sum()
    }
}

/// A capture that is about to begin.
pub struct Session {
    sources: Vec<Source>,
    /// Their last counters: an interface that is removed takes its counters with it.
    latest: Vec<LinkStats>,
    limits: Limits,
    file: Option<FileSide>,
    events: Receiver<Event>,
    shared: Arc<Shared>,
    queues: Vec<Running>,
    begun: Instant,
    shown: Instant,
}

/// The way to the file.
struct FileSide {
    to: Sender<Message>,
    writer: JoinHandle<Written>,
    progress: Arc<Progress>,
    trigger: Option<Trigger>,
}

/// A queue with a running thread.
struct Running {
    source: usize,
    number: usize,
    shown: Arc<Shown>,
    before: Reading,
}

impl Session {
    /// Starts all threads; the first file is made. `details`: count protocols, sizes and talkers.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn start(
        mut sources: Vec<Source>,
        recording: Option<Recording>,
        limits: Limits,
        details: bool,
    ) -> io::Result<Session> {
        let (tell, events) = channel();
        let wanted = limits.frames.map(|frames| AtomicI64::new(frames.try_into().unwrap_or(i64::MAX)));
        let shared = Arc::new(Shared { stop: AtomicBool::new(false), wanted });
        let queues: Vec<_> = sources
            .iter_mut()
            .enumerate()
            .flat_map(|(source, open)| {
                open.queues.drain(..).enumerate().map(move |(n, queue)| (source, n, queue))
            })
            .collect();
        let places: Vec<_> = queues.iter().map(|(source, number, _)| (*source, *number)).collect();
        let recorder_of = recording.map(|recording| record(recording, &sources, &places)).transpose()?;
        let (file, recorders) = recorder_of.unzip();
        let mut recorders = recorders.into_iter().flatten();
        let mut running = Vec::new();
        for (source, number, queue) in queues {
            let shown = Arc::new(Shown::default());
            let worker = Worker {
                queue,
                recorder: recorders.next(),
                shared: shared.clone(),
                shown: shown.clone(),
                events: tell.clone(),
                quiet: 2 * sources[source].wanted.options.retire,
                longest: sources[source].link.mtu.saturating_add(ETHERNET_AND_TAGS),
                details,
            };
            std::thread::Builder::new().name(format!("queue {number}")).spawn(move || worker.run())?;
            running.push(Running { source, number, shown, before: Reading::default() });
        }
        let now = Instant::now();
        let latest = sources.iter().map(|source| source.start[1]).collect();
        Ok(Session { sources, latest, limits, file, events, shared, queues: running, begun: now, shown: now })
    }

    /// Captures until the end, and shows a view each second.
    pub fn run(mut self, signals: Signals<'_>, mut look: impl FnMut(&View)) -> Report {
        let mut alive = self.queues.len();
        let mut watch = self.file.as_ref().and_then(|file| file.trigger).map(Watch::new);
        let end = loop {
            match self.events.recv_timeout(TICK) {
                Ok(Event::Ended) => alive -= 1,
                // The limit of frames was reached.
                Ok(Event::Stopped) => break End::Limit,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break End::NothingLeft,
            }
            if (signals.asks_to_reopen)() {
                self.tell_writer(Message::Reopen);
            }
            if let Some(end) = self.reason_to_end(alive, signals.stop) {
                break end;
            }
            if let Some(seen) = &mut watch {
                let (frames, bytes) = self.totals();
                if seen.is_due(Instant::now(), frames, bytes) || signals.trigger.load(Ordering::Relaxed) {
                    self.tell_writer(Message::Trigger);
                    watch = None;
                }
            }
            if self.shown.elapsed() >= SECOND {
                look(&self.view(watch.is_some()));
            }
        };
        let ends = self.stop(alive);
        let waiting = watch.is_some();
        let view = self.view(waiting);
        let accounting = self.accounting(&ends);
        self.tell_writer(Message::End);
        let written = self.file.map(|file| file.writer.join().expect("the writer does not panic"));
        Report { end, accounting, view, written }
    }

    fn reason_to_end(&self, alive: usize, stop: &AtomicBool) -> Option<End> {
        let progress = self.file.as_ref().map(|file| &file.progress);
        let bytes = progress.map_or(0, |progress| progress.bytes.load(Ordering::Relaxed));
        let limits = &self.limits;
        if alive == 0 {
            Some(End::NothingLeft)
        } else if stop.load(Ordering::Relaxed) {
            Some(End::Stopped)
        } else if progress.is_some_and(|progress| progress.failed.load(Ordering::Relaxed)) {
            Some(End::Disk)
        } else if limits.duration.is_some_and(|duration| self.begun.elapsed() >= duration)
            || limits.bytes.is_some_and(|most| bytes >= most)
        {
            Some(End::Limit)
        } else {
            None
        }
    }

    /// Stops all queues and waits until they are empty. Returns the counters of each interface before and after.
    fn stop(&mut self, mut alive: usize) -> Vec<Option<[LinkStats; 2]>> {
        let before = self.counters();
        self.shared.stop.store(true, Ordering::Relaxed);
        let (mut stopped, mut after) = (0, None);
        while alive > 0 {
            match self.events.recv() {
                Ok(Event::Stopped) => stopped += 1,
                Ok(Event::Ended) => alive -= 1,
                Err(_) => break,
            }
            if stopped >= alive && after.is_none() {
                after = Some(self.counters());
            }
        }
        let after = after.unwrap_or_else(|| self.counters());
        before.into_iter().zip(after).map(|(before, after)| Some([before?, after?])).collect()
    }

    fn counters(&mut self) -> Vec<Option<LinkStats>> {
        let read = |source: &mut Source| interface::counters(&mut source.rtnl, &source.link).ok();
        self.sources.iter_mut().map(read).collect()
    }

    fn accounting(&self, ends: &[Option<[LinkStats; 2]>]) -> Vec<Accounting> {
        let close = |(n, source): (usize, &Source)| {
            let of_source = self.queues.iter().filter(|queue| queue.source == n);
            let readings: Vec<Reading> = of_source.map(|queue| queue.shown.reading()).collect();
            let accounting = Accounting::close(&source.link.name, source.start, ends[n], &readings);
            Accounting { filtered: !source.wanted.filter.is_empty(), ..accounting }
        };
        self.sources.iter().enumerate().map(close).collect()
    }

    /// Frames, lost ones included, and bytes.
    fn totals(&self) -> (u64, u64) {
        let readings = self.queues.iter().map(|queue| queue.shown.reading());
        readings.fold((0, 0), |(frames, bytes), reading| {
            (frames + reading.frames + reading.account.dropped(), bytes + reading.bytes)
        })
    }

    fn view(&mut self, waiting: bool) -> View {
        let now = self.counters();
        for (latest, now) in self.latest.iter_mut().zip(now) {
            *latest = now.unwrap_or(*latest);
        }
        let since = self.sources.iter().zip(&self.latest);
        let offered =
            since.map(|(source, now)| now.rx_packets.saturating_sub(source.start[1].rx_packets)).sum();
        let seconds = self.shown.elapsed().as_secs_f64().max(1e-6);
        self.shown = Instant::now();
        let sources = &self.sources;
        let queues = self
            .queues
            .iter_mut()
            .map(|queue| queue.view(&sources[queue.source].link.name, seconds))
            .collect();
        let written = self.file.as_ref().map(|file| WrittenSoFar {
            frames: file.progress.frames.load(Ordering::Relaxed),
            bytes: file.progress.bytes.load(Ordering::Relaxed),
            files: file.progress.files.load(Ordering::Relaxed),
        });
        let notes = self.file.as_ref().map(|file| {
            std::mem::take(&mut *file.progress.notes.lock().unwrap_or_else(PoisonError::into_inner))
        });
        let notes = notes.unwrap_or_default();
        View { elapsed: self.begun.elapsed(), queues, written, waiting, offered, notes }
    }

    fn tell_writer(&self, message: Message) {
        if let Some(file) = &self.file {
            // A writer that has ended has reported its error.
            let _ = file.to.send(message);
        }
    }
}

/// Header and two VLAN tags.
const ETHERNET_AND_TAGS: u32 = 14 + 8;

impl Running {
    fn view(&mut self, interface: &str, seconds: f64) -> QueueView {
        let reading = self.shown.look();
        let before = std::mem::replace(&mut self.before, reading.clone());
        let per_s = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
        let lost = |reading: &Reading| reading.account.dropped() + reading.slow;
        QueueView {
            interface: interface.into(),
            number: self.number,
            frames_per_s: per_s(reading.frames, before.frames),
            bits_per_s: 8.0 * per_s(reading.bytes, before.bytes),
            drops_per_s: per_s(lost(&reading), lost(&before)),
            reading,
        }
    }
}

/// Starts the writer; returns the way to it and a recorder for each queue.
fn record(
    recording: Recording,
    sources: &[Source],
    places: &[(usize, usize)],
) -> io::Result<(FileSide, Vec<Recorder>)> {
    let Recording { files, rotation, format, compress, before, memory, application, system } = recording;
    let queues = places.len();
    let bytes = match rotation {
        Rotation::Bytes(most) => BUFFER_BYTES.min(most / 8),
        _ => BUFFER_BYTES,
    };
    let bytes = bytes.max(SMALLEST_BUFFER_BYTES);
    // Each queue fills one buffer while another is written.
    let count = (memory / bytes).max(2 * queues as u64 + 2) as usize;
    let pool = Arc::new(Pool::new(count, bytes as usize));
    let progress = Arc::new(Progress::default());
    let head = match format {
        Format::Pcapng => head(sources, places, &application, &system),
        Format::Pcap => {
            let mut head = Vec::new();
            let snap = sources.iter().map(|source| source.wanted.options.snap).max();
            pcap::header(&mut head, snap.unwrap_or_default(), ETHERNET);
            head
        }
    };
    let writing = Writing { files, rotation, compress, before: before.map(|(time, _)| time), head, queues };
    let disk = Disk::open(writing, pool.clone(), progress.clone())?;
    let (to, messages) = channel();
    let writer = std::thread::Builder::new().name("writer".into()).spawn(move || disk.run(&messages))?;
    // Short waits, so that the file reaches back little further than requested.
    let patience = before.map_or(PATIENCE, |(time, _)| time / 8);
    let capture = Recorded { format, patience, start_ns: crate::now_ns() };
    let recorder = |n| Recorder::new(n as u32, capture, pool.clone(), to.clone());
    let recorders = (0..queues).map(recorder).collect();
    Ok((FileSide { to, writer, progress, trigger: before.map(|(_, trigger)| trigger) }, recorders))
}

/// The beginning of each file: the writing program, and an interface for each queue.
fn head(sources: &[Source], places: &[(usize, usize)], application: &str, system: &str) -> Vec<u8> {
    let mut head = Vec::new();
    write::section(&mut head, &write::Author { hardware: std::env::consts::ARCH, system, application });
    for &(source, number) in places {
        let Source { link, method, wanted, .. } = &sources[source];
        let interface = Interface {
            name: link.name.clone(),
            description: format!("{method}, queue {number}"),
            filter: wanted.filter.clone(),
            system: system.into(),
            snap: wanted.options.snap,
            link_type: ETHERNET,
            bits_per_s: None,
        };
        write::interface(&mut head, &interface);
    }
    head
}
