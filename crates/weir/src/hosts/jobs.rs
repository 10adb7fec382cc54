//! Jobs of a plan, and who does them. A job whose host failed goes back and is done by another one.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// A part of a plan that one host measures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Job {
    /// Its place among all.
    pub(crate) index: usize,
    /// For the user: `shard 3/8`.
    pub(crate) name: String,
    /// The text of its plan.
    pub(crate) plan: String,
}

/// Jobs that wait or are being done.
pub(crate) struct Jobs {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    waiting: VecDeque<Job>,
    /// How many hosts have one.
    busy: usize,
}

impl Jobs {
    pub(crate) fn new(jobs: impl IntoIterator<Item = Job>) -> Jobs {
        let state = State { waiting: jobs.into_iter().collect(), busy: 0 };
        Jobs { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// The next job for a host. Waits while another host is busy, because its job may come back; `None` when all are done.
    pub(crate) fn next(&self) -> Option<Job> {
        let mut state = self.state();
        loop {
            if let Some(job) = state.waiting.pop_front() {
                state.busy += 1;
                return Some(job);
            }
            if state.busy == 0 {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// A host has done its job.
    pub(crate) fn done(&self) {
        self.state().busy -= 1;
        self.changed.notify_all();
    }

    /// A host failed: its job is the next one of another host.
    pub(crate) fn give_back(&self, job: Job) {
        let mut state = self.state();
        state.busy -= 1;
        state.waiting.push_front(job);
        drop(state);
        self.changed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn jobs(n: usize) -> Jobs {
        Jobs::new((0..n).map(|index| Job { index, name: String::new(), plan: String::new() }))
    }

    #[test]
    fn a_job_of_a_failed_host_is_done_by_another() {
        let jobs = jobs(3);
        let [first, second] = [(); 2].map(|()| jobs.next().expect("three"));
        jobs.give_back(first.clone());
        assert_eq!(jobs.next(), Some(first), "before those that nobody began");
        jobs.done();
        assert_eq!(jobs.next().map(|job| job.index), Some(2));
        jobs.done();
        // The last host waits for the busy one, whose job may come back.
        thread::scope(|scope| {
            let waiting = scope.spawn(|| jobs.next().map(|job| job.index));
            jobs.give_back(second);
            assert_eq!(waiting.join().expect("it ends"), Some(1));
        });
        jobs.done();
        assert_eq!(jobs.next(), None);
    }
}
