//! Records on their way to the log, and reports on their way back.
//!
//! ```text
//! caller > append > Inbox > the thread of the log > disk
//! caller < reports, eventfd < Outbox < the thread of the log
//! ```
//! After a failure the inbox refuses records until the caller has taken the report of it: the control plane counts all records up to
//! then as lost, so none of them may be written.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};
use weir_bng::Record;

use super::error::StoreError;

/// Most records that wait for the disk.
pub(super) const MOST_RECORDS: usize = 1 << 18;

/// Records that wait for the disk.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    state: Mutex<Waiting>,
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    records: Vec<Record>,
    /// When the first of them came.
    since: Option<Instant>,
    /// The caller does not know yet that a write failed, or that there were too many records.
    refuses: bool,
    /// There were too many, and the thread of the log has not seen it.
    is_full: bool,
    has_ended: bool,
}

/// What the thread of the log is to do.
#[derive(Debug)]
pub(super) enum Batch {
    /// Write these.
    Records(Vec<Record>),
    /// Report that the disk does not keep up.
    TooMany,
    /// End.
    End,
}

impl Inbox {
    fn state(&self) -> MutexGuard<'_, Waiting> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a record; never waits for the disk.
    pub(super) fn append(&self, record: Record) {
        let mut state = self.state();
        if state.refuses {
            return;
        }
        if state.records.len() >= MOST_RECORDS {
            (state.refuses, state.is_full) = (true, true);
            state.records = Vec::new();
            self.arrived.notify_one();
            return;
        }
        state.records.push(record);
        if state.since.is_none() {
            state.since = Some(Instant::now());
            self.arrived.notify_one();
        }
    }

    /// Waits for records, and for those that come within `gather` of the first one.
    pub(super) fn take(&self, gather: Duration) -> Batch {
        let idle = |state: &mut Waiting| state.since.is_none() && !state.is_full && !state.has_ended;
        let state = self.arrived.wait_while(self.state(), idle).unwrap_or_else(PoisonError::into_inner);
        let left = state.since.map_or(Duration::ZERO, |since| gather.saturating_sub(since.elapsed()));
        let gathers = |state: &mut Waiting| !state.is_full && !state.has_ended;
        let waited = self.arrived.wait_timeout_while(state, left, gathers);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.since = None;
        if std::mem::take(&mut state.is_full) {
            return Batch::TooMany;
        }
        match std::mem::take(&mut state.records) {
            records if records.is_empty() => Batch::End,
            records => Batch::Records(records),
        }
    }

    /// Waits for a time, unless it is the end.
    pub(super) fn pause(&self, time: Duration) {
        let waits = |state: &mut Waiting| !state.has_ended;
        drop(self.arrived.wait_timeout_while(self.state(), time, waits));
    }

    /// Records are lost from here on, until [`Inbox::accept`].
    pub(super) fn refuse(&self) {
        let mut state = self.state();
        state.refuses = true;
        (state.records, state.since) = (Vec::new(), None);
    }

    /// The caller knows which records are lost.
    pub(super) fn accept(&self) {
        self.state().refuses = false;
    }

    /// Whether no more records come.
    pub(super) fn has_ended(&self) -> bool {
        self.state().has_ended
    }

    /// No more records come.
    pub(super) fn end(&self) {
        self.state().has_ended = true;
        self.arrived.notify_one();
    }
}

/// What the store tells its caller.
#[derive(Debug)]
pub enum Report {
    /// All records up to this one are on disk.
    Stored {
        /// Revision of the last one.
        revision: u64,
    },
    /// No record that was appended before this report was taken, and not reported as stored, is written, nor will be. If the
    /// program ends before the disk works again, the first of them may be there nevertheless, in their order.
    Failed(StoreError),
    /// The database could not be filled. The log has all records; this is tried again, and reported again after a success.
    NotFilled(StoreError),
}

/// Reports that wait for the caller.
#[derive(Debug)]
pub(super) struct Outbox {
    reports: Mutex<Vec<Report>>,
    wake: OwnedFd,
}

impl Outbox {
    pub(super) fn new() -> io::Result<Outbox> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Outbox { reports: Mutex::default(), wake })
    }

    fn reports(&self) -> MutexGuard<'_, Vec<Report>> {
        self.reports.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a report, and wakes the caller.
    pub(super) fn post(&self, report: Report) {
        let mut reports = self.reports();
        match (reports.last_mut(), &report) {
            (Some(last @ Report::Stored { .. }), Report::Stored { .. }) => *last = report,
            _ => reports.push(report),
        }
        // The eventfd is full only if the caller is awake already.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    /// All reports, in their order.
    pub(super) fn take(&self) -> Vec<Report> {
        let mut count = [0; 8];
        // There is nothing to read if it was not written to.
        let _ = rustix::io::read(&self.wake, &mut count);
        std::mem::take(&mut *self.reports())
    }
}

impl AsFd for Outbox {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(revision: u64) -> Record {
        format!("1 {revision} removed anna").parse().expect("a record")
    }

    fn revisions(batch: Batch) -> Vec<u64> {
        match batch {
            Batch::Records(records) => records.iter().map(|record| record.revision).collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn after_a_failure_nothing_is_taken_until_the_caller_knows_of_it() {
        let inbox = Inbox::default();
        inbox.append(record(1));
        assert_eq!(revisions(inbox.take(Duration::ZERO)), [1]);
        inbox.append(record(2));
        inbox.refuse();
        inbox.append(record(3));
        inbox.accept();
        inbox.append(record(4));
        inbox.end();
        assert_eq!(revisions(inbox.take(Duration::ZERO)), [4]);
        assert!(matches!(inbox.take(Duration::ZERO), Batch::End));
    }

    #[test]
    fn records_that_wait_for_a_slow_disk_are_bounded() {
        let inbox = Inbox::default();
        (0..=MOST_RECORDS as u64).for_each(|revision| inbox.append(record(revision)));
        assert!(matches!(inbox.take(Duration::ZERO), Batch::TooMany));
        inbox.append(record(1 << 40));
        inbox.accept();
        inbox.append(record(1 << 41));
        assert_eq!(revisions(inbox.take(Duration::ZERO)), [1 << 41]);
    }

    #[test]
    fn reports_of_success_are_joined_and_keep_their_place_beside_failures() {
        let outbox = Outbox::new().expect("an eventfd");
        let failed = || Report::NotFilled(StoreError::Full { path: "bng.db".into() });
        outbox.post(Report::Stored { revision: 1 });
        outbox.post(Report::Stored { revision: 2 });
        outbox.post(failed());
        outbox.post(Report::Stored { revision: 3 });
        let reports = outbox.take();
        let [Report::Stored { revision: 2 }, Report::NotFilled(_), Report::Stored { revision: 3 }] =
            reports[..]
        else {
            panic!("{reports:?}")
        };
        assert!(outbox.take().is_empty());
    }
}
