//! Pages of memory before they are used. The thread that touches a page first waits until the kernel has made it: some microseconds for a
//! small page, 0.2 ms for a huge one, and 5 to 80 ms for a huge one where a virtual machine gets its memory from the host at that moment. A
//! thread of frames would delay frames meanwhile, or lose them.
//!
//! ```text
//!   segment passes the middle of a huge page > range > another thread: the kernel makes the next one
//! ```
//! Invariant: what memory holds does not change. Should the other thread be late, the pages are made as they are touched.

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, Sender, channel};

use rustix::mm::{Advice, madvise};

/// To the thread that makes pages.
static PAGES: OnceLock<Sender<Range<usize>>> = OnceLock::new();

/// Makes pages of the large tables of a process before they are needed.
pub struct Populator(Receiver<Range<usize>>);

impl Populator {
    /// The one of this process, to the first caller.
    pub fn first() -> Option<Populator> {
        let (sender, receiver) = channel();
        PAGES.set(sender).ok().map(|()| Populator(receiver))
    }

    /// Makes pages in the calling thread, until the process ends.
    pub fn run(self) {
        for pages in self.0 {
            let first = std::ptr::with_exposed_provenance_mut(pages.start);
            // SAFETY: the advice makes pages and changes nothing that memory holds. If the table has gone meanwhile, the kernel refuses, or
            // makes pages earlier that others have there by now.
            let _ = unsafe { madvise(first, pages.len(), Advice::LinuxPopulateWrite) };
        }
    }
}

/// These addresses will be used soon.
pub(crate) fn populate(pages: Range<usize>) {
    if let Some(populator) = PAGES.get() {
        // It may have gone.
        let _ = populator.send(pages);
    }
}
