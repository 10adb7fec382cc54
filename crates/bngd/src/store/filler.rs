//! The thread that fills the database from the log, and deletes files of the log that the database has whole.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use super::Options;
use super::database::Database;
use super::error::StoreError;
use super::frame::{self, Damage, Group};
use super::inbox::{Outbox, Report};
use super::log::Folder;
use super::progress::{Extent, Progress};

/// The thread that fills the database.
#[derive(Debug)]
pub(super) struct Filler {
    pub(super) database: Database,
    pub(super) folder: Arc<Folder>,
    pub(super) progress: Arc<Progress>,
    pub(super) outbox: Arc<Outbox>,
    /// The database has this file of the log up to here.
    pub(super) read: Position,
}

/// A place in the log.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Position {
    segment: u64,
    offset: u64,
}

impl Filler {
    /// Runs until the log has ended and all of it is in the database; fails if the rest cannot be filled.
    pub(super) fn run(mut self, options: Options) -> Result<(), StoreError> {
        let mut is_failing = false;
        while let Some(extent) = self.progress.wait(self.database.filled()) {
            let pause = if is_failing { options.retry_after } else { options.fill_every };
            let has_ended = self.progress.pause(pause);
            // The log has gone on meanwhile.
            let extent = self.progress.wait(self.database.filled()).unwrap_or(extent);
            match self.fill(extent) {
                Ok(()) => is_failing = false,
                Err(error) if has_ended => return Err(error),
                Err(error) => {
                    if !std::mem::replace(&mut is_failing, true) {
                        self.outbox.post(Report::NotFilled(error));
                    }
                    // SQLite may not be able to go on where it failed.
                    if let Ok(again) = Database::open(&self.folder) {
                        self.database = again;
                    }
                }
            }
        }
        Ok(())
    }

    /// Fills the rest of a file into the database.
    fn fill(&mut self, extent: Extent) -> Result<(), StoreError> {
        let start = if extent.number == self.read.segment { self.read.offset } else { 0 };
        self.database.fill(&self.groups(extent, start)?)?;
        self.read = Position { segment: extent.number, offset: extent.end };
        for number in self.progress.take_filled(self.database.filled()) {
            self.folder.remove_segment(number)?;
        }
        Ok(())
    }

    /// The groups of a file from a place on.
    fn groups(&self, extent: Extent, start: u64) -> Result<Vec<Group>, StoreError> {
        let path = self.folder.segment(extent.number);
        let mut bytes = vec![0; extent.end.saturating_sub(start) as usize];
        let file = File::open(&path).map_err(StoreError::io(&path))?;
        file.read_exact_at(&mut bytes, start).map_err(StoreError::io(&path))?;
        let filled = self.database.filled();
        let groups = match start {
            0 => frame::read(&bytes).map(|segment| segment.map_or(Vec::new(), |segment| segment.groups)),
            _ => frame::groups(&bytes, 0, filled),
        };
        groups.map_err(|Damage { offset, why }| StoreError::Damaged {
            path,
            offset: start as usize + offset,
            why,
            filled,
        })
    }
}
