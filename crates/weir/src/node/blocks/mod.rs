//! Who has which block of a NAT's ports, in a file: a node that begins again after a crash gives its hosts their blocks
//! back, and nobody a block that was somebody else's until it has rested (RFC 6888 REQ-8).
//!
//! ```text
//! events  > end of FILE > fsync                                                     (each time)
//! all     > FILE.spare > fsync > FILE, from its start > fsync > FILE.spare emptied  (when the file is long, or behind)
//! ```
//! Invariant: at any time one of the two files says all that was ever synced. Both stay open and are never renamed: the
//! node has no right to their directory any more. A disk that is full, or fails, does not end the node: what could not be
//! written waits, and is written when there is room. Blocks of deterministic ports are not in it: they follow from the
//! configuration. A block is noted within some 100 ms after it was given: to wait for the disk would hold up the first
//! frame of each host, or drop it. Only of what was given in the last moment before a crash the file knows nothing.

mod text;

use std::fs::{File, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use weir_plane::{BlockEvent, PortBlock};

use text::Live;

/// The file may be so much longer than what it says.
const SLACK_BYTES: u64 = 16 << 20;

/// Whose ports are somebody's.
const PRIVATE: u32 = 0o600;

/// The two files, and what they say.
pub(super) struct Blocks {
    file: File,
    spare: File,
    /// What hosts have now, whether or not it is on disk.
    live: Live,
    /// What is good of the file.
    bytes: u64,
    /// Lines that are not on disk yet.
    waiting: String,
    /// What the file says is not what there is, or nobody knows.
    is_behind: bool,
    /// The file can be read; if not, the spare one can.
    is_whole: bool,
    /// Lines that could not be read when the file was opened.
    unreadable: usize,
}

impl Blocks {
    /// Opens the files, or makes them.
    pub(super) fn open(path: &Path) -> Result<Blocks> {
        let (file, first) = open(path)?;
        let (spare, second) = open(&spare_of(path))?;
        let found = |bytes: &[u8], path: &Path| {
            let shown = path.display();
            text::read(bytes).ok_or_else(|| {
                anyhow!("{shown} has something else than blocks of ports: name the file that --blocks wrote, or a new one")
            })
        };
        let (first, second) = (found(&first, path)?, found(&second, &spare_of(path))?);
        // The end came while the file was written anew.
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

    /// What hosts had.
    pub(super) fn live(&self) -> Vec<PortBlock> {
        self.live.all().collect()
    }

    /// Lines that could not be read when it was opened.
    pub(super) fn unreadable(&self) -> usize {
        self.unreadable
    }

    /// Blocks of which the file does not say whose they are, or lines that it lacks; none if all is on disk.
    pub(super) fn waiting(&self) -> usize {
        if self.is_behind { self.live.len().max(1) } else { self.waiting.lines().count() }
    }

    /// Some blocks were given, or given back; they wait for [`Blocks::sync`].
    pub(super) fn note(&mut self, events: &[BlockEvent]) {
        for event in events {
            self.live.note(event);
            if !self.is_behind {
                text::line(&mut self.waiting, event);
            }
        }
        self.is_behind |=
            self.bytes + self.waiting.len() as u64 > SLACK_BYTES + text::LINE_BYTES * self.live.len() as u64;
    }

    /// These are all that hosts have; they wait for [`Blocks::sync`].
    pub(super) fn set(&mut self, all: &[PortBlock]) {
        let live = Live::of(all);
        self.is_behind |= live != self.live;
        self.live = live;
    }

    /// Puts on disk what waits.
    ///
    /// # Errors
    /// What the disk says; what waits goes on waiting.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        match (self.is_behind, self.waiting.is_empty()) {
            (true, _) => self.write_anew(),
            (false, true) => Ok(()),
            (false, false) => self.append(),
        }
    }

    fn append(&mut self) -> io::Result<()> {
        // What fails in the middle of a line is written over by the next attempt.
        self.file.write_all_at(self.waiting.as_bytes(), self.bytes)?;
        // After a sync that failed nobody knows what is on disk.
        self.file.sync_data().inspect_err(|_| self.is_behind = true)?;
        self.bytes += self.waiting.len() as u64;
        self.waiting.clear();
        Ok(())
    }

    fn write_anew(&mut self) -> io::Result<()> {
        self.is_behind = true;
        // They are in what is written now.
        self.waiting = String::new();
        let text = self.live.text();
        if self.is_whole {
            rewrite(&self.spare, &text)?;
        }
        self.is_whole = false;
        rewrite(&self.file, &text)?;
        self.is_whole = true;
        // Before anything is appended: the spare one would win over it.
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
        bail!("another node keeps its blocks in {shown}: give each node a file of its own");
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).with_context(|| format!("cannot read {shown}"))?;
    Ok((file, bytes))
}

#[cfg(test)]
mod tests;
