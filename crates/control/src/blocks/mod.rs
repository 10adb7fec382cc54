//! The port blocks of a NAT in a file: after a crash the node gives hosts their blocks back, and gives no block to another
//! host before its hold time has passed (RFC 6888 REQ-8).
//!
//! ```text
//! events  > end of FILE > fsync                                                     (each time)
//! all     > FILE.spare > fsync > FILE, from its start > fsync > FILE.spare emptied  (when the file is long, or behind)
//! ```
//! Invariant: at any time one of the two files holds all that was ever synced. Both stay open and are never renamed: the
//! node has dropped the right to write to their directory. A disk that is full, or fails, does not end the node: changes wait
//! until they can be written. Blocks of deterministic ports are not in it: they follow from the configuration. A block is
//! recorded within about 100 ms after it was assigned: waiting for the disk would delay or drop the first frame of each host.
//! Blocks that were assigned in the last 100 ms before a crash are missing.

mod text;

use std::fs::{File, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use weir_plane::{BlockEvent, PortBlock};

use text::Live;

/// The file may be this much longer than its current contents need.
const SLACK_BYTES: u64 = 16 << 20;

/// The assignment of ports is private.
const PRIVATE: u32 = 0o600;

/// The two files, and their contents.
pub(crate) struct Blocks {
    file: File,
    spare: File,
    /// The current blocks, whether or not they are on disk.
    live: Live,
    /// Valid bytes of the file.
    bytes: u64,
    /// Lines that are not on disk yet.
    waiting: String,
    /// The file differs from the current blocks, or may differ.
    is_behind: bool,
    /// The file is complete; if not, the spare one is.
    is_whole: bool,
    /// Unreadable lines when the file was opened.
    unreadable: usize,
}

impl Blocks {
    /// Opens the files, or creates them.
    pub(crate) fn open(path: &Path) -> Result<Blocks> {
        let (file, first) = open(path)?;
        let (spare, second) = open(&spare_of(path))?;
        let found = |bytes: &[u8], path: &Path| {
            let shown = path.display();
            text::read(bytes).ok_or_else(|| {
                anyhow!("{shown} is no file of port blocks: use a file that --blocks wrote, or a new one")
            })
        };
        let (first, second) = (found(&first, path)?, found(&second, &spare_of(path))?);
        // A crash happened while the file was rewritten.
        let is_whole = !second.is_whole;
        let found = if is_whole { first } else { second };
        Ok(Blocks {
            file,
            spare,
            live: found.live,
            bytes: 0,
            waiting: String::new(),
            is_behind: true,
            is_whole,
            unreadable: found.unreadable,
        })
    }

    /// The blocks in the file.
    pub(crate) fn live(&self) -> Vec<PortBlock> {
        self.live.all().collect()
    }

    /// Unreadable lines when the file was opened.
    pub(crate) fn unreadable(&self) -> usize {
        self.unreadable
    }

    /// Blocks or lines that are not on disk yet; 0 if all are.
    pub(crate) fn waiting(&self) -> usize {
        if self.is_behind { self.live.len().max(1) } else { self.waiting.lines().count() }
    }

    /// Records assigned and released blocks; they wait for [`Blocks::sync`].
    pub(crate) fn note(&mut self, events: &[BlockEvent]) {
        for event in events {
            self.live.note(event);
            if !self.is_behind {
                text::line(&mut self.waiting, event);
            }
        }
        self.is_behind |=
            self.bytes + self.waiting.len() as u64 > SLACK_BYTES + text::LINE_BYTES * self.live.len() as u64;
    }

    /// Replaces all blocks; they wait for [`Blocks::sync`].
    pub(crate) fn set(&mut self, all: &[PortBlock]) {
        let live = Live::of(all);
        self.is_behind |= live != self.live;
        self.live = live;
    }

    /// Writes the waiting lines to disk.
    ///
    /// # Errors
    /// Writing failed; the lines still wait.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        match (self.is_behind, self.waiting.is_empty()) {
            (true, _) => self.write_anew(),
            (false, true) => Ok(()),
            (false, false) => self.append(),
        }
    }

    fn append(&mut self) -> io::Result<()> {
        // The next attempt overwrites a line that was written in part.
        self.file.write_all_at(self.waiting.as_bytes(), self.bytes)?;
        // After a failed sync the contents of the disk are unknown.
        self.file.sync_data().inspect_err(|_| self.is_behind = true)?;
        self.bytes += self.waiting.len() as u64;
        self.waiting.clear();
        Ok(())
    }

    fn write_anew(&mut self) -> io::Result<()> {
        self.is_behind = true;
        // The new text includes them.
        self.waiting = String::new();
        let text = self.live.text();
        if self.is_whole {
            rewrite(&self.spare, &text)?;
        }
        self.is_whole = false;
        rewrite(&self.file, &text)?;
        self.is_whole = true;
        // Before anything is appended: a complete spare file is preferred at the next start.
        rewrite(&self.spare, "")?;
        self.bytes = text.len() as u64;
        self.is_behind = false;
        Ok(())
    }
}

fn rewrite(file: &File, text: &str) -> io::Result<()> {
    file.set_len(0)?;
    file.write_all_at(text.as_bytes(), 0)?;
    file.sync_all()
}

fn spare_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(".spare");
    name.into()
}

fn open(path: &Path) -> Result<(File, Vec<u8>)> {
    let shown = path.display();
    let mut file = weir_disk::keep(path, PRIVATE).with_context(|| format!("cannot write {shown}"))?;
    if let Err(TryLockError::WouldBlock) = file.try_lock() {
        bail!("another node uses {shown} for its blocks: give each node its own file");
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).with_context(|| format!("cannot read {shown}"))?;
    Ok((file, bytes))
}

#[cfg(test)]
mod tests;
