//! The thread that writes: one file or several alternately, compressed or not, and with `before`, nothing until a trigger.
//!
//! ```text
//!  Filled --------------------------------------> file 1 | file 2 | ...
//!         \-> [pre-trigger: the last seconds] --Trigger-->
//! ```
//! A file that is full is put on disk by another thread, while the next one is written; only then its packets are said to
//! be in a file, whatever happens to the machine. Buffers of several queues come as they are filled: in a file the packets
//! of each interface are in order of time, those of several are not (`reordercap` sorts them).

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::files::Files;
use crate::pool::{Buffer, Pool};

/// How often the writer looks at the clock when nothing comes.
const TICK: Duration = Duration::from_millis(100);
/// A fast level, which compresses packets nearly as well as higher ones.
const ZSTD_LEVEL: i32 = 1;

/// A command to the writer.
pub(crate) enum Message {
    /// Blocks for the file.
    Filled(Buffer),
    /// Write the packets before the trigger, and all that follow.
    Trigger,
    /// The file may have been renamed: the next blocks go to a new file of its name.
    Reopen,
    /// Nothing will follow.
    End,
}

/// When a file is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rotation {
    /// Never.
    None,
    /// Before it has more than so many bytes.
    Bytes(u64),
    /// After this time.
    Time(Duration),
}

/// Progress of the writer, for other threads.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Bytes in all files, compressed.
    pub(crate) bytes: AtomicU64,
    /// Packets in all files.
    pub(crate) frames: AtomicU64,
    /// Files begun.
    pub(crate) files: AtomicU64,
    /// Writing has failed: the capture should end.
    pub(crate) failed: AtomicBool,
    /// Warnings to the user, each once.
    pub(crate) notes: Mutex<Vec<String>>,
}

/// Counts of the frames that were handed to the writer.
#[derive(Debug, Default)]
pub struct Written {
    /// Packets in files that are on disk, those that were deleted by `keep` included.
    pub frames: u64,
    /// Bytes in files, compressed.
    pub bytes: u64,
    /// Files begun.
    pub files: u64,
    /// Packets that could not be written.
    pub unwritten: u64,
    /// Packets from before the trigger that were discarded, or all if there was none.
    pub discarded: u64,
    /// How long before the trigger the first packet arrived.
    pub reaches_back: Option<Duration>,
    /// Why writing failed.
    pub error: Option<io::Error>,
}

/// How to write.
pub(crate) struct Writing {
    pub(crate) files: Files,
    pub(crate) rotation: Rotation,
    pub(crate) compress: bool,
    /// Until the trigger, the packets of this time are kept in memory.
    pub(crate) before: Option<Duration>,
    /// The head of each file: the section and its interfaces.
    pub(crate) head: Vec<u8>,
    /// Queues that fill buffers.
    pub(crate) queues: usize,
}

/// The state of the writing thread.
pub(crate) struct Disk {
    writing: Writing,
    pool: Arc<Pool>,
    progress: Arc<Progress>,
    output: Option<Output>,
    /// Packets in it.
    in_output: u64,
    /// The file before it.
    syncing: Option<Syncing>,
    /// The newest buffers from before the trigger, while it is awaited.
    pre_trigger: VecDeque<Kept>,
    awaits_trigger: bool,
    written: Written,
}

/// A buffer that waits for the trigger.
struct Kept {
    buffer: Buffer,
    /// When it was handed over. Its frames are dated by a clock that may be set.
    since: Instant,
}

/// A file that is being synced to disk.
struct Syncing {
    thread: JoinHandle<io::Result<()>>,
    /// Packets in it.
    frames: u64,
}

impl Disk {
    /// Opens the first file now, so that an error is reported before anything is captured.
    pub(crate) fn open(writing: Writing, pool: Arc<Pool>, progress: Arc<Progress>) -> io::Result<Disk> {
        let awaits_trigger = writing.before.is_some();
        let (pre_trigger, written) = (VecDeque::new(), Written::default());
        let (output, in_output, syncing) = (None, 0, None);
        let mut disk = Disk {
            writing,
            pool,
            progress,
            output,
            in_output,
            syncing,
            pre_trigger,
            awaits_trigger,
            written,
        };
        disk.next_file()?;
        Ok(disk)
    }

    /// Writes until [`Message::End`].
    pub(crate) fn run(mut self, messages: &Receiver<Message>) -> Written {
        loop {
            match messages.recv_timeout(TICK) {
                Ok(Message::Filled(buffer)) if self.awaits_trigger => self.keep(buffer),
                Ok(Message::Filled(buffer)) => self.write(buffer),
                Ok(Message::Trigger) => self.release(),
                Ok(Message::Reopen) => _ = self.guard(Disk::reopen),
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Message::End) | Err(RecvTimeoutError::Disconnected) => break,
            }
            let full = matches!(self.writing.rotation, Rotation::Time(time) if self.age() >= time);
            if full && !self.awaits_trigger {
                self.guard(Disk::next_file);
            }
        }
        self.written.discarded += self.pre_trigger.drain(..).map(|kept| kept.buffer.frames).sum::<u64>();
        self.guard(Disk::end_file);
        if let Err(error) = self.wait_for_sync() {
            self.written.error.get_or_insert(error);
        }
        self.written.files = self.progress.files.load(Ordering::Relaxed);
        self.written
    }

    fn age(&self) -> Duration {
        self.output.as_ref().map_or(Duration::ZERO, |output| output.since.elapsed())
    }

    fn keep(&mut self, buffer: Buffer) {
        let before = self.writing.before.unwrap_or_default();
        let since = Instant::now();
        self.pre_trigger.push_back(Kept { buffer, since });
        // Each queue needs a buffer to fill and one to hand on.
        let most = self.pool.size().saturating_sub(2 * self.writing.queues).max(1);
        let is_old = |kept: &Kept| kept.buffer.frames == 0 || since.duration_since(kept.since) > before;
        while self.pre_trigger.len() > most || self.pre_trigger.front().is_some_and(is_old) {
            let Kept { buffer, .. } = self.pre_trigger.pop_front().expect("there is one");
            self.written.discarded += buffer.frames;
            self.pool.give_back(buffer);
        }
    }

    fn release(&mut self) {
        if !std::mem::take(&mut self.awaits_trigger) {
            return;
        }
        let now = crate::now_ns();
        let with_frames = self.pre_trigger.iter().filter(|kept| kept.buffer.frames > 0);
        let first = with_frames.map(|kept| kept.buffer.first_ns).min().unwrap_or(now);
        self.written.reaches_back = Some(Duration::from_nanos(now.saturating_sub(first)));
        while let Some(kept) = self.pre_trigger.pop_front() {
            self.write(kept.buffer);
        }
    }

    fn write(&mut self, buffer: Buffer) {
        let frames = buffer.frames;
        let done = self.guard(|disk| disk.append(&buffer.bytes));
        if done {
            self.written.frames += frames;
            self.in_output += frames;
            self.progress.frames.fetch_add(frames, Ordering::Relaxed);
        } else {
            self.written.unwritten += frames;
        }
        self.pool.give_back(buffer);
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let (Rotation::Bytes(most), Some(output)) = (self.writing.rotation, &self.output)
            && output.begun
            && output.bytes() + bytes.len() as u64 > most
        {
            self.next_file()?;
        }
        let output = self.output.as_mut().expect("open until it fails");
        let before = output.bytes();
        output.write(bytes)?;
        output.begun = true;
        self.count(output_growth(self.output.as_ref(), before));
        Ok(())
    }

    fn count(&mut self, bytes: u64) {
        self.written.bytes += bytes;
        self.progress.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn next_file(&mut self) -> io::Result<()> {
        self.end_file()?;
        let file = self.writing.files.make()?;
        self.begin_file(file)
    }

    /// Goes on in a new file, if one of its name can be made: the old one was renamed, or has a number. Pipes stay.
    fn reopen(&mut self) -> io::Result<()> {
        if !self.output.as_ref().is_some_and(|output| is_file(output.file())) {
            return Ok(());
        }
        match self.writing.files.make() {
            Ok(file) => {
                self.end_file()?;
                self.begin_file(file)
            }
            Err(error) => {
                let note = match error.kind() {
                    io::ErrorKind::AlreadyExists => {
                        "SIGHUP: the file was not renamed; writing continues to it".into()
                    }
                    _ => {
                        format!("SIGHUP: cannot create a new file: {error}; writing continues to the old one")
                    }
                };
                self.progress.notes.lock().unwrap_or_else(PoisonError::into_inner).push(note);
                Ok(())
            }
        }
    }

    fn begin_file(&mut self, file: File) -> io::Result<()> {
        let mut output = Output::new(file, self.writing.compress)?;
        self.progress.files.fetch_add(1, Ordering::Relaxed);
        let done = output.write(&self.writing.head);
        let bytes = output.bytes();
        self.output = Some(output);
        self.count(bytes);
        done
    }

    fn end_file(&mut self) -> io::Result<()> {
        let Some(output) = self.output.take() else { return Ok(()) };
        let before = output.bytes();
        let file = match output.finish() {
            Ok(file) => file,
            Err((output, error)) => {
                self.output = Some(output);
                return Err(error);
            }
        };
        self.count(file.bytes - before);
        let before_it = self.wait_for_sync();
        let thread = std::thread::spawn(move || sync(&file.file));
        self.syncing = Some(Syncing { thread, frames: std::mem::take(&mut self.in_output) });
        before_it
    }

    /// Waits until the file before is on disk.
    fn wait_for_sync(&mut self) -> io::Result<()> {
        let Some(Syncing { thread, frames }) = self.syncing.take() else { return Ok(()) };
        let done = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        done.inspect_err(|_| self.lose(frames))
    }

    /// Counts packets as lost: which of them are on disk is unknown.
    fn lose(&mut self, frames: u64) {
        self.written.frames -= frames;
        self.written.unwritten += frames;
    }

    /// Ends writing after an error; earlier blocks stay in the file.
    fn give_up(&mut self, error: io::Error) {
        self.written.error = Some(error);
        let in_output = std::mem::take(&mut self.in_output);
        if self.output.take().is_some_and(|output| sync(output.file()).is_err()) {
            self.lose(in_output);
        }
        self.progress.failed.store(true, Ordering::Relaxed);
    }

    /// Runs `action` unless writing has failed before; true on success.
    fn guard(&mut self, action: impl FnOnce(&mut Disk) -> io::Result<()>) -> bool {
        if self.written.error.is_some() {
            return false;
        }
        match action(self) {
            Ok(()) => true,
            Err(error) => {
                self.give_up(error);
                false
            }
        }
    }
}

/// Syncs a file to disk; does nothing for a pipe or a device.
fn sync(file: &File) -> io::Result<()> {
    if is_file(file) { file.sync_all() } else { Ok(()) }
}

fn is_file(file: &File) -> bool {
    file.metadata().is_ok_and(|about| about.is_file())
}

fn output_growth(output: Option<&Output>, before: u64) -> u64 {
    output.map_or(0, |output| output.bytes() - before)
}

/// A file that is written.
struct Output {
    kind: Kind,
    since: Instant,
    /// It has more than its head.
    begun: bool,
}

enum Kind {
    Plain(Counted),
    Zstd(zstd::Encoder<'static, Counted>),
}

impl Output {
    fn new(file: File, compress: bool) -> io::Result<Output> {
        let file = Counted { file, bytes: 0 };
        let kind =
            if compress { Kind::Zstd(zstd::Encoder::new(file, ZSTD_LEVEL)?) } else { Kind::Plain(file) };
        Ok(Output { kind, since: Instant::now(), begun: false })
    }

    fn bytes(&self) -> u64 {
        match &self.kind {
            Kind::Plain(file) => file.bytes,
            Kind::Zstd(encoder) => encoder.get_ref().bytes,
        }
    }

    /// Writes whole blocks. If that fails the file ends with the blocks before, where a file can be cut.
    fn write(&mut self, blocks: &[u8]) -> io::Result<()> {
        match &mut self.kind {
            Kind::Plain(file) => {
                let good = file.bytes;
                file.write_all(blocks).inspect_err(|_| {
                    // A pipe cannot be cut; its reader sees where it ends.
                    let _ = file.file.set_len(good);
                })
            }
            // Flushed blocks can be read although the file has no end.
            Kind::Zstd(encoder) => encoder.write_all(blocks).and_then(|()| encoder.flush()),
        }
    }

    fn file(&self) -> &File {
        match &self.kind {
            Kind::Plain(file) => &file.file,
            Kind::Zstd(encoder) => &encoder.get_ref().file,
        }
    }

    /// Ends the file. If that fails, the flushed blocks can still be read.
    fn finish(self) -> Result<Counted, (Output, io::Error)> {
        let Output { kind, since, begun } = self;
        match kind {
            Kind::Plain(file) => Ok(file),
            Kind::Zstd(encoder) => encoder
                .try_finish()
                .map_err(|(encoder, error)| (Output { kind: Kind::Zstd(encoder), since, begun }, error)),
        }
    }
}

/// A file that counts its bytes.
struct Counted {
    file: File,
    bytes: u64,
}

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.file.write(bytes)?;
        self.bytes += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
#[path = "disk_tests.rs"]
mod tests;
