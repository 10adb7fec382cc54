//! The thread that creates and writes the captures of attacks, up to a limit of files and bytes in their folder. It removes
//! no file: captures are evidence.

use std::convert::Infallible;
use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, channel, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context, Result};
use tracing::warn;
use weir_detect::CaptureSpec;

/// Captured traffic is private.
pub(crate) const PRIVATE: u32 = 0o600;
/// Most pieces that wait for the thread ...
const PIECES: usize = 1024;
/// ... and about their bytes.
const BYTES: usize = 64 << 20;

/// Hands pieces of files to the thread, which ends with this.
pub(crate) struct Writer {
    jobs: SyncSender<Job>,
    folder: Arc<Folder>,
    /// A piece waits for the disk.
    waits: bool,
}

/// Closed when all has been written.
pub(crate) struct Written(Receiver<Infallible>);

/// The file of a capture. Only the thread changes it.
pub(crate) struct Output {
    path: PathBuf,
    file: OnceLock<File>,
    /// Bytes of whole pieces.
    written: AtomicU64,
    /// Writing has failed; no more is written.
    failed: AtomicBool,
}

enum Job {
    Write(Arc<Output>, Vec<u8>),
    /// Count the folder again: files may have been removed.
    Look,
}

/// The contents of the folder.
struct Folder {
    path: PathBuf,
    most_files: u64,
    most_bytes: u64,
    files: AtomicU64,
    bytes: AtomicU64,
    /// Bytes on their way to the thread.
    queued: AtomicUsize,
}

/// Why there is no room for another capture.
pub(crate) enum Full {
    /// The most attacks are being captured.
    Busy(usize),
    /// The folder has the most files.
    Files(PathBuf, u64),
    /// The folder has the most bytes.
    Bytes(PathBuf, u64),
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Full::Busy(most) => write!(f, "{most} attacks are being captured, which is the limit"),
            Full::Files(folder, files) => {
                write!(f, "{} holds {files} files: move some away, or raise captures.files", folder.display())
            }
            Full::Bytes(folder, bytes) => {
                let mib = bytes >> 20;
                write!(
                    f,
                    "{} holds {mib} MiB: move files away, or raise captures.total_mib",
                    folder.display()
                )
            }
        }
    }
}

impl Writer {
    /// Starts the thread.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub(crate) fn start(spec: &CaptureSpec, waits: bool) -> Result<(Writer, Written)> {
        let folder = Arc::new(Folder {
            path: spec.folder.clone(),
            most_files: spec.files.into(),
            most_bytes: spec.total_bytes,
            files: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            queued: AtomicUsize::new(0),
        });
        folder.look().with_context(|| format!("cannot read the folder {}", folder.path.display()))?;
        let (jobs, queue) = sync_channel(PIECES);
        let (is_done, done) = channel();
        let of_thread = folder.clone();
        let run = move || {
            let _is_done = is_done;
            for job in queue {
                of_thread.take(job);
            }
        };
        std::thread::Builder::new().name("captures".into()).spawn(run)?;
        Ok((Writer { jobs, folder, waits }, Written(done)))
    }

    /// From now on pieces wait for the disk.
    pub(crate) fn be_patient(&mut self) {
        self.waits = true;
    }

    /// Reserves a file.
    ///
    /// # Errors
    /// The limit is reached.
    pub(crate) fn reserve(&self) -> Result<(), Full> {
        let Folder { path, most_files, most_bytes, files, bytes, .. } = &*self.folder;
        let full = if files.load(Ordering::Relaxed) >= *most_files {
            Full::Files(path.clone(), *most_files)
        } else if bytes.load(Ordering::Relaxed) >= *most_bytes {
            Full::Bytes(path.clone(), *most_bytes)
        } else {
            files.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        };
        // If the queue is full, a later attack tries again.
        let _ = self.jobs.try_send(Job::Look);
        Err(full)
    }

    /// Queues a piece for writing; returns it if the queue is full.
    pub(crate) fn write(&self, output: &Arc<Output>, piece: Vec<u8>) -> Vec<u8> {
        let length = piece.len();
        if !self.waits && self.folder.queued.load(Ordering::Relaxed) > BYTES {
            return piece;
        }
        self.folder.queued.fetch_add(length, Ordering::Relaxed);
        let job = Job::Write(output.clone(), piece);
        let rejected = if self.waits {
            self.jobs.send(job).err().map(|error| error.0)
        } else {
            self.jobs.try_send(job).err().map(|error| match error {
                TrySendError::Full(job) | TrySendError::Disconnected(job) => job,
            })
        };
        match rejected {
            Some(Job::Write(_, piece)) => {
                self.folder.queued.fetch_sub(length, Ordering::Relaxed);
                piece
            }
            _ => Vec::new(),
        }
    }
}

impl Written {
    /// Waits until all has been written, `most` at most.
    pub(crate) fn wait(self, most: Duration) {
        if self.0.recv_timeout(most) == Err(RecvTimeoutError::Timeout) {
            warn!("note: the disk is too slow: captures of attacks are incomplete");
        }
    }
}

impl Folder {
    fn take(&self, job: Job) {
        match job {
            Job::Write(output, piece) => {
                output.write(&piece, self);
                self.queued.fetch_sub(piece.len(), Ordering::Relaxed);
            }
            // If the folder cannot be read, the counts stay.
            Job::Look => drop(self.look()),
        }
    }

    /// Counts the captures in the folder.
    fn look(&self) -> io::Result<()> {
        let (mut files, mut bytes) = (0, 0);
        for entry in std::fs::read_dir(&self.path)? {
            let entry = entry?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if name.starts_with("attack-") && name.ends_with(".pcapng") {
                files += 1;
                // It may have been moved away just now.
                bytes += entry.metadata().map_or(0, |about| about.len());
            }
        }
        self.files.store(files, Ordering::Relaxed);
        self.bytes.store(bytes, Ordering::Relaxed);
        Ok(())
    }
}

impl Output {
    /// A file that is created with its first piece.
    pub(crate) fn new(path: PathBuf) -> Output {
        Output { path, file: OnceLock::new(), written: AtomicU64::new(0), failed: AtomicBool::new(false) }
    }

    /// Whether writing has failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// Writes a piece, unless that has failed before.
    fn write(&self, piece: &[u8], folder: &Folder) {
        if self.has_failed() {
            return;
        }
        let length = piece.len() as u64;
        let is_full = folder.bytes.fetch_add(length, Ordering::Relaxed) + length > folder.most_bytes;
        let done = if is_full {
            Err(Full::Bytes(folder.path.clone(), folder.most_bytes).to_string())
        } else {
            self.append(piece).map_err(|error| error.to_string())
        };
        match done {
            Ok(()) => {
                self.written.fetch_add(length, Ordering::Relaxed);
            }
            Err(why) => {
                self.failed.store(true, Ordering::Relaxed);
                folder.bytes.fetch_sub(length, Ordering::Relaxed);
                let shown = self.path.display();
                warn!(path = %shown, "note: the capture {shown} ends early: {why}");
            }
        }
    }

    fn append(&self, piece: &[u8]) -> io::Result<()> {
        let file = self.file(&self.path)?;
        (&*file).write_all(piece).inspect_err(|_| {
            // Programs reject a file that ends within a packet, so it is cut after the last complete one. A device cannot be cut.
            let before = self.written.load(Ordering::Relaxed);
            let there = file.metadata().map_or(before, |about| about.len());
            let _ = file.set_len(before + whole_blocks(piece, there.saturating_sub(before)));
        })
    }

    fn file(&self, path: &Path) -> io::Result<&File> {
        if self.file.get().is_none() {
            let file = weir_disk::create(path, PRIVATE)?;
            // Only the thread makes it.
            let _ = self.file.set(file);
        }
        Ok(self.file.get().expect("it was created above"))
    }
}

/// How many of the first bytes of a piece are complete blocks. The length of a block follows its type (draft-ietf-opsawg-pcapng,
/// section 3.1).
fn whole_blocks(piece: &[u8], there: u64) -> u64 {
    let mut whole = 0;
    while let Some(length) = piece.get(whole + 4..).and_then(|rest| rest.first_chunk()) {
        let end = whole + u32::from_le_bytes(*length) as usize;
        if end == whole || end as u64 > there {
            break;
        }
        whole = end;
    }
    whole as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where files are written.
    struct Place(weir_testkit::Folder);

    impl Place {
        fn new() -> Place {
            Place(weir_testkit::Folder::new())
        }

        fn spec(&self, files: u32, total_bytes: u64) -> CaptureSpec {
            CaptureSpec { folder: self.0.to_path_buf(), memory_bytes: 0, frames: 1, files, total_bytes }
        }

        fn output(&self, n: u32) -> Arc<Output> {
            Arc::new(Output::new(self.0.join(format!("attack-{n}.pcapng"))))
        }

        fn length(&self, n: u32) -> u64 {
            std::fs::metadata(self.0.join(format!("attack-{n}.pcapng"))).map_or(0, |about| about.len())
        }
    }

    /// Ends the thread when all has been written.
    fn finish((writer, Written(done)): (Writer, Written)) {
        drop(writer);
        assert_eq!(done.recv().ok(), None);
    }

    #[test]
    fn a_file_that_takes_no_more_is_left_alone() {
        let place = Place::new();
        let (writer, written) = Writer::start(&place.spec(9, 1000), true).expect("a thread");
        let output = Arc::new(Output::new("/dev/full".into()));
        output.file.set(File::options().write(true).open("/dev/full").expect("a device")).expect("the first");
        assert!(!output.has_failed() && writer.write(&output, vec![1; 100]).is_empty());
        finish((writer, written));
        assert!(output.has_failed());
    }

    #[test]
    fn a_piece_that_is_cut_off_ends_with_a_whole_block() {
        let block = |length: u8| {
            let mut bytes = vec![7; length.into()];
            bytes[4..8].copy_from_slice(&u32::from(length).to_le_bytes());
            bytes
        };
        let piece = [block(12), block(40), block(16)].concat();
        for (there, whole) in [(0, 0), (11, 0), (12, 12), (51, 12), (52, 52), (67, 52), (68, 68), (900, 68)] {
            assert_eq!(whole_blocks(&piece, there), whole, "{there} bytes");
        }
        assert_eq!(whole_blocks(&[0; 20], 20), 0, "no block has no length");
    }

    #[test]
    fn a_folder_takes_so_many_files_and_none_is_removed() {
        let place = Place::new();
        for run in 0..3 {
            let (writer, written) = Writer::start(&place.spec(2, 1000), true).expect("a thread");
            // Two of the first run are there ever after.
            for n in 0..3 {
                let is_free = writer.reserve().is_ok();
                assert_eq!(is_free, run == 0 && n < 2, "{run} {n}");
                if is_free {
                    writer.write(&place.output(n), vec![0; 10]);
                }
            }
            let full = writer.reserve().expect_err("no room").to_string();
            assert!(full.ends_with("holds 2 files: move some away, or raise captures.files"), "{full}");
            finish((writer, written));
            assert_eq!([0, 1, 2].map(|n| place.length(n)), [10, 10, 0]);
        }
        // One is moved away: the attempt after the next one sees it.
        std::fs::remove_file(place.0.join("attack-0.pcapng")).expect("it is there");
        let (writer, written) = Writer::start(&place.spec(2, 1000), true).expect("a thread");
        assert!(writer.reserve().is_ok() && writer.reserve().is_err());
        finish((writer, written));
    }

    #[test]
    fn a_folder_takes_so_many_bytes_and_a_capture_ends_with_whole_pieces() {
        let place = Place::new();
        let (writer, written) = Writer::start(&place.spec(9, 1000), true).expect("a thread");
        let [one, two] = [1, 2].map(|n| place.output(n));
        for (output, bytes) in [(&one, 400), (&two, 500), (&one, 200), (&one, 10), (&two, 90)] {
            writer.write(output, vec![0; bytes]);
        }
        finish((writer, written));
        assert_eq!((place.length(1), one.has_failed()), (400, true));
        assert_eq!((place.length(2), two.has_failed()), (590, false));
        let (writer, written) = Writer::start(&place.spec(9, 990), true).expect("a thread");
        let full = writer.reserve().expect_err("no room").to_string();
        assert!(full.ends_with("MiB: move files away, or raise captures.total_mib"), "{full}");
        finish((writer, written));
    }

    #[test]
    fn a_piece_comes_back_when_the_disk_is_too_slow() {
        let place = Place::new();
        let (writer, written) = Writer::start(&place.spec(9, 1 << 40), false).expect("a thread");
        // A pipe without a reader: the thread waits for it as for a disk.
        let path = place.0.join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().expect("mkfifo").success());
        let slow = Arc::new(Output::new(path.clone()));
        let ends = File::options().read(true).write(true).open(&path).expect("both ends");
        slow.file.set(File::options().write(true).open(&path).expect("a reader")).expect("the first");
        let piece = vec![7; 16 << 20];
        let taken = (0..100).take_while(|_| writer.write(&slow, piece.clone()).is_empty()).count();
        assert!((4..=5).contains(&taken), "{taken}");
        assert_eq!(writer.write(&slow, vec![1; 9]), [1; 9], "it is not lost");
        // It reads on until the thread has ended.
        let reader = std::thread::spawn(move || {
            let mut all = io::Read::take(ends, (taken * (16 << 20)) as u64);
            io::copy(&mut all, &mut io::sink()).expect("bytes")
        });
        finish((writer, written));
        assert_eq!(reader.join().expect("it reads"), (taken * (16 << 20)) as u64);
    }
}
