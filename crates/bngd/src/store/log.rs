//! The log: files to which groups of records are appended, each file preallocated.
//!
//! ```text
//! log-0000000007: header, groups, zeros      written in place: an append changes no size and no block map, only data
//! ```
//! - A group is on disk when [`Log::commit`] returns.
//! - After a failed write nothing is written to that file any more: what the kernel reports as written then may not be on disk
//!   (`fsync(2)`). The file is cut behind its last group that is on disk, and the next group begins a new file, whose header names the last
//!   record on disk, so that later ones in the file before it do not count even if the cut failed.
//! - A file is deleted after the database has all of its records.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_bng::Record;
use weir_disk::Directory;

use super::error::StoreError;
use super::frame::{self, Damage, Group};
use super::progress::{Extent, Progress};

/// What the name of a file of the log begins with.
const PREFIX: &str = "log-";

/// The folder of a store.
#[derive(Debug)]
pub(super) struct Folder {
    directory: Directory,
    path: PathBuf,
}

impl Folder {
    /// Opens a folder, and makes it where missing.
    pub(super) fn open(path: &Path) -> Result<Folder, StoreError> {
        let error = |source| StoreError::Folder { path: path.to_path_buf(), source };
        let mut builder = std::fs::DirBuilder::new();
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o750);
        builder.recursive(true).create(path).map_err(error)?;
        Ok(Folder { directory: Directory::open(path).map_err(error)?, path: path.to_path_buf() })
    }

    /// The path of a name in it.
    pub(super) fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Its path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The path of a file of the log.
    pub(super) fn segment(&self, number: u64) -> PathBuf {
        self.join(&segment_name(number))
    }

    /// Numbers of the files of the log, in their order.
    fn segments(&self) -> Result<Vec<u64>, StoreError> {
        let entries = std::fs::read_dir(&self.path).map_err(StoreError::io(&self.path))?;
        let mut numbers = Vec::new();
        for entry in entries {
            let name = entry.map_err(StoreError::io(&self.path))?.file_name();
            let number = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.parse().ok());
            numbers.extend(number.filter(|number| *segment_name(*number) == *name));
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Deletes a file of the log.
    pub(super) fn remove_segment(&self, number: u64) -> Result<(), StoreError> {
        let removed = self.directory.remove(OsStr::new(&segment_name(number)));
        removed.map_err(StoreError::io(&self.segment(number)))
    }

    fn create_segment(&self, number: u64) -> io::Result<File> {
        self.directory.create_new(OsStr::new(&segment_name(number)), 0o640)
    }
}

fn segment_name(number: u64) -> String {
    format!("{PREFIX}{number:010}")
}

/// What the files of the log contain.
#[derive(Debug)]
pub(super) struct Contents {
    /// Groups of records behind those of the database.
    pub(super) groups: Vec<Group>,
    /// Numbers of the files.
    pub(super) segments: Vec<u64>,
}

/// Reads all files of the log; `filled` is the last record of the database.
pub(super) fn read(folder: &Folder, filled: u64) -> Result<Contents, StoreError> {
    let segments = folder.segments()?;
    let mut groups: Vec<Group> = Vec::new();
    let mut known = filled;
    for &number in &segments {
        let path = folder.segment(number);
        let bytes = std::fs::read(&path).map_err(StoreError::io(&path))?;
        let damaged =
            |Damage { offset, why }| StoreError::Damaged { path: path.clone(), offset, why, filled };
        let Some(segment) = frame::read(&bytes).map_err(damaged)? else { continue };
        if segment.number != number {
            let why = format!("it is segment {}, renamed", segment.number);
            return Err(damaged(Damage { offset: 0, why }));
        }
        if segment.after > known {
            return Err(StoreError::Missing { path: path.clone(), known, after: segment.after, filled });
        }
        let after = segment.after.max(filled);
        cut(&mut groups, after);
        groups.extend(segment.groups.into_iter().map(|mut group| {
            group.records.retain(|record| record.revision > after);
            group
        }));
        known =
            groups.iter().rev().find_map(|group| group.records.last()).map_or(filled, |last| last.revision);
    }
    Ok(Contents { groups, segments })
}

/// Drops records behind one: they were not reported.
fn cut(groups: &mut [Group], after: u64) {
    for group in groups.iter_mut().rev() {
        group.records.retain(|record| record.revision <= after);
        if !group.records.is_empty() {
            return;
        }
    }
}

/// Appends groups.
#[derive(Debug)]
pub(super) struct Log {
    folder: Arc<Folder>,
    progress: Arc<Progress>,
    segment_bytes: u64,
    /// Number of the next file.
    next: u64,
    /// The last record on disk.
    last: u64,
    active: Option<Active>,
}

/// The file that is appended to.
#[derive(Debug)]
struct Active {
    number: u64,
    path: PathBuf,
    file: File,
    /// Bytes of its header.
    start: u64,
    /// Bytes of its header and of its groups on disk.
    end: u64,
    size: u64,
}

/// Where a log goes on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Start {
    /// Number of the next file.
    pub(super) segment: u64,
    /// The last record on disk.
    pub(super) last: u64,
    /// Size of a file.
    pub(super) segment_bytes: u64,
}

impl Log {
    /// A log that goes on in a new file.
    pub(super) fn begin(
        folder: Arc<Folder>,
        progress: Arc<Progress>,
        start: Start,
    ) -> Result<Log, StoreError> {
        let Start { segment: next, last, segment_bytes } = start;
        let mut log = Log { folder, progress, segment_bytes, next, last, active: None };
        log.active = Some(log.new_segment(0)?);
        Ok(log)
    }

    /// Writes a group; when this returns, it is on disk.
    ///
    /// # Errors
    /// It is not, and will not be: the next group begins a new file.
    pub(super) fn commit(&mut self, at_s: u64, records: &[Record]) -> Result<(), StoreError> {
        let frame = frame::group(at_s, records);
        let written = self.write(&frame);
        if let Err(error) = written {
            self.abandon();
            return Err(error);
        }
        self.last = records.last().map_or(self.last, |record| record.revision);
        if let Some(Active { number, end, .. }) = self.active {
            self.progress.committed(Extent { number, end, last: self.last });
        }
        Ok(())
    }

    fn write(&mut self, frame: &[u8]) -> Result<(), StoreError> {
        let length = frame.len() as u64;
        let mut active = match self.active.take() {
            Some(active) if active.end + length <= active.size => active,
            full => {
                // A file without groups is unknown to the thread that fills the database; what is left is deleted at the next start.
                if let Some(Active { number, start, end, .. }) = full
                    && start == end
                {
                    let _ = self.folder.remove_segment(number);
                }
                self.new_segment(length)?
            }
        };
        let written = active.file.write_all_at(frame, active.end).and_then(|()| active.file.sync_data());
        let written = written.map_err(StoreError::io(&active.path));
        if written.is_ok() {
            active.end += length;
        }
        self.active = Some(active);
        written
    }

    /// Nothing is written to the file any more. That it can be neither cut nor deleted changes nothing: the header of the next
    /// file says where this one ends.
    fn abandon(&mut self) {
        let Some(active) = self.active.take() else { return };
        let _ = match active.end == active.start {
            true => self.folder.remove_segment(active.number),
            false => active.file.set_len(active.end).map_err(StoreError::io(&active.path)),
        };
    }

    /// Ends the log so that it has no records but those on disk.
    ///
    /// # Errors
    /// The end of a file that was abandoned could not be written.
    pub(super) fn end(&mut self) -> Result<(), StoreError> {
        if self.active.is_none() {
            self.active = Some(self.new_segment(0)?);
        }
        Ok(())
    }

    /// Makes a file with room for `length` bytes behind its header.
    fn new_segment(&mut self, length: u64) -> Result<Active, StoreError> {
        let number = self.next;
        let path = self.folder.segment(number);
        let header = frame::header(number, self.last);
        let start = header.len() as u64;
        let size = self.segment_bytes.max(start + length);
        let file = self.folder.create_segment(number).map_err(StoreError::io(&path))?;
        // What is left of a file that cannot be made is empty, and deleted at the next start if not here.
        self.next += 1;
        let made = preallocate(&file, header, size).and_then(|()| self.folder.directory.sync());
        if let Err(error) = made {
            let _ = self.folder.remove_segment(number);
            return Err(StoreError::io(&path)(error));
        }
        Ok(Active { number, path, file, start, end: start, size })
    }
}

/// Writes zeros: blocks that are only reserved (`fallocate(2)`) change the block map when they are first written.
fn preallocate(file: &File, mut bytes: Vec<u8>, size: u64) -> io::Result<()> {
    bytes.resize(size as usize, 0);
    file.write_all_at(&bytes, 0)?;
    file.sync_all()
}
