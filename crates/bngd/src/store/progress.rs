//! How far the log is written, for the thread that fills the database.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What is on disk of a file of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Extent {
    /// Number of the file.
    pub(super) number: u64,
    /// Its bytes up to here.
    pub(super) end: u64,
    /// Its last record.
    pub(super) last: u64,
}

/// Files of the log that the database has not whole, the oldest first; the last one is appended to.
#[derive(Debug, Default)]
pub(super) struct Progress {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    extents: VecDeque<Extent>,
    has_ended: bool,
}

impl Progress {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The log is on disk up to here.
    pub(super) fn committed(&self, extent: Extent) {
        let mut state = self.state();
        match state.extents.back_mut().filter(|last| last.number == extent.number) {
            Some(last) => *last = extent,
            None => state.extents.push_back(extent),
        }
        self.changed.notify_one();
    }

    /// Nothing more is written.
    pub(super) fn end(&self) {
        self.state().has_ended = true;
        self.changed.notify_one();
    }

    /// Waits for records behind `filled`; the oldest file that has some. `None`: there are none, nor will be.
    pub(super) fn wait(&self, filled: u64) -> Option<Extent> {
        let has_more = |state: &State| state.extents.iter().copied().find(|extent| extent.last > filled);
        let waits = |state: &mut State| has_more(state).is_none() && !state.has_ended;
        let state = self.changed.wait_while(self.state(), waits).unwrap_or_else(PoisonError::into_inner);
        has_more(&state)
    }

    /// Waits for a time, or until nothing more is written; whether that is so.
    pub(super) fn pause(&self, time: Duration) -> bool {
        let waits = |state: &mut State| !state.has_ended;
        let waited = self.changed.wait_timeout_while(self.state(), time, waits);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.has_ended
    }

    /// Numbers of files that are not appended to any more, and of which all records are up to `filled`; they are forgotten.
    pub(super) fn take_filled(&self, filled: u64) -> Vec<u64> {
        let mut state = self.state();
        let mut numbers = Vec::new();
        while state.extents.len() > 1 {
            match state.extents.pop_front_if(|extent| extent.last <= filled) {
                Some(extent) => numbers.push(extent.number),
                None => break,
            }
        }
        numbers
    }
}
