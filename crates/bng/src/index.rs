//! Numbers of subscribers, which stand for them within the program.

/// Number of a subscriber, used again after it was removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Index(pub(crate) u32);
