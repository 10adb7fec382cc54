//! What each worker of a server has accepted and ended: in memory that its processes share, and that others read as a file.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::sys;

/// Most workers of a server; others share the last place.
const WORKERS: usize = 256;

/// The counters of one worker, in a cache line of their own.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct Worker {
    accepted: AtomicU64,
    ended: AtomicU64,
}

const SIZE: usize = size_of::<Worker>() * WORKERS;

impl Worker {
    /// It has accepted a connection.
    pub(crate) fn accepted(&self) {
        self.accepted.fetch_add(1, Ordering::Relaxed);
    }

    /// A connection has its reply and is closed.
    pub(crate) fn ended(&self) {
        self.ended.fetch_add(1, Ordering::Relaxed);
    }
}

/// The counters of all workers of this server.
#[derive(Debug, Clone, Copy)]
pub struct Tally(&'static [Worker]);

impl Tally {
    /// Counts in a new file, or for this process and its children alone.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn new(path: Option<&Path>) -> io::Result<Tally> {
        let file = path
            .map(|path| {
                let file = File::options().read(true).write(true).create_new(true).open(path)?;
                file.set_len(SIZE as u64).map(|()| file)
            })
            .transpose()?;
        let at = sys::map_shared(file.as_ref(), SIZE)?;
        // SAFETY: a mapping of this size, aligned to a page, zeroed, never unmapped; all access is atomic.
        Ok(Tally(unsafe { std::slice::from_raw_parts(at.cast(), WORKERS) }))
    }

    /// The counters of the worker of this number.
    pub(crate) fn worker(self, number: usize) -> &'static Worker {
        &self.0[number.min(WORKERS - 1)]
    }
}

/// The counters as read from outside: `(accepted, ended)` of each worker up to the last that has accepted any.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts(pub Vec<(u64, u64)>);

impl Counts {
    /// Reads the file of a server.
    ///
    /// # Errors
    /// It is not there.
    pub fn read(path: &Path) -> io::Result<Counts> {
        let mut bytes = Vec::with_capacity(SIZE);
        File::open(path)?.read_to_end(&mut bytes)?;
        let number = |bytes: &[u8]| bytes.first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
        let mut of: Vec<_> =
            bytes.chunks_exact(size_of::<Worker>()).map(|w| (number(w), number(&w[8..]))).collect();
        let used = of.iter().rposition(|(accepted, _)| *accepted > 0).map_or(0, |last| last + 1);
        of.truncate(used);
        Ok(Counts(of))
    }

    /// Connections that the server has accepted and not ended.
    pub fn open(&self) -> u64 {
        self.0.iter().map(|(accepted, ended)| accepted.saturating_sub(*ended)).sum()
    }

    /// Connections that were accepted.
    pub fn accepted(&self) -> u64 {
        self.0.iter().map(|(accepted, _)| accepted).sum()
    }

    /// How unequal the workers' shares of the connections are (Gini): 0 is equal, near 1 is one that has all. `None` with fewer
    /// than two workers.
    pub fn gini(&self) -> Option<f64> {
        let mut shares: Vec<f64> = self.0.iter().map(|(accepted, _)| *accepted as f64).collect();
        let (n, sum) = (shares.len() as f64, shares.iter().sum::<f64>());
        if shares.len() < 2 || sum == 0.0 {
            return None;
        }
        shares.sort_by(f64::total_cmp);
        let weighted: f64 = shares.iter().enumerate().map(|(i, share)| (i + 1) as f64 * share).sum();
        Some(2.0 * weighted / (n * sum) - (n + 1.0) / n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_is_read_from_outside() {
        let folder = weir_testkit::Folder::new();
        let path = folder.join("tally");
        let tally = Tally::new(Some(&path)).unwrap();
        for worker in [0, 2, 2] {
            tally.worker(worker).accepted();
        }
        tally.worker(2).ended();
        let counts = Counts::read(&path).unwrap();
        assert_eq!(counts, Counts(vec![(1, 0), (0, 0), (2, 1)]));
        assert_eq!((counts.accepted(), counts.open()), (3, 2));
    }

    #[test]
    fn shares_are_equal_or_not() {
        let gini = |of: &[u64]| Counts(of.iter().map(|&n| (n, n)).collect()).gini();
        assert_eq!(gini(&[5, 5, 5, 5]), Some(0.0));
        assert_eq!(gini(&[0, 0, 0, 8]), Some(0.75));
        assert_eq!(gini(&[3, 1]), Some(0.25));
        assert_eq!((gini(&[7]), gini(&[0, 0])), (None, None));
    }
}
