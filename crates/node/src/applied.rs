//! What became of another text or a list of commands, and what it cost the threads.

use std::time::Duration;

/// A text or a list of commands that a node has applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Applied {
    /// Texts and lists that the node has applied since it began.
    pub revision: u64,
    /// How it was done.
    pub turns: Turns,
}

/// The turns between batches that a change has taken of the threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Turns {
    /// How many: a thread changes up to [`weir_plane::AT_A_TIME`] objects in each.
    pub count: u64,
    /// The longest, of any thread, in CPU time.
    pub longest: Duration,
}

impl Turns {
    pub(crate) fn count(&mut self, time: Duration) {
        (self.count, self.longest) = (self.count + 1, self.longest.max(time));
    }
}
