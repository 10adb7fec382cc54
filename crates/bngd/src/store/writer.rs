//! The thread of the log: writes what waits in the inbox, in groups, and reports it.

use std::sync::Arc;
use std::time::SystemTime;

use weir_bng::Record;

use super::Options;
use super::error::StoreError;
use super::inbox::{Batch, Inbox, MOST_RECORDS, Outbox, Report};
use super::log::{Folder, Log};

/// Most records of a group. A group is a frame of the log: all of it is read again, or nothing.
const MOST_IN_GROUP: usize = 4096;

/// The thread of the log.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) log: Log,
    pub(super) folder: Arc<Folder>,
    pub(super) inbox: Arc<Inbox>,
    pub(super) outbox: Arc<Outbox>,
}

impl Writer {
    /// Runs until the end of the inbox; fails if then something could not be written.
    pub(super) fn run(mut self, options: Options) -> Result<(), StoreError> {
        loop {
            let written = match self.inbox.take(options.gather) {
                Batch::Records(records) => self.write(&records),
                Batch::TooMany => {
                    Err(StoreError::Slow { path: self.folder.path().to_path_buf(), records: MOST_RECORDS })
                }
                Batch::End => return self.log.end(),
            };
            if let Err(error) = written {
                self.inbox.refuse();
                if self.inbox.has_ended() {
                    return Err(error);
                }
                self.outbox.post(Report::Failed(error));
                self.inbox.pause(options.retry_after);
            }
        }
    }

    fn write(&mut self, records: &[Record]) -> Result<(), StoreError> {
        for group in records.chunks(MOST_IN_GROUP) {
            self.log.commit(wall_s(), group)?;
            if let Some(last) = group.last() {
                self.outbox.post(Report::Stored { revision: last.revision });
            }
        }
        Ok(())
    }
}

/// s since 1970.
fn wall_s() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
