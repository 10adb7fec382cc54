//! Where all frames of a node are.

use crate::drops::Drops;
use crate::local::Punts;

/// Where all frames are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Accounting {
    /// Frames that came in by a port.
    pub entered: u64,
    /// Frames that the node made.
    pub own: u64,
    /// Frames that left by a port.
    pub left: u64,
    /// Frames that were punted to the machine that the node runs on.
    pub local: Punts,
    /// Frames that wait inside.
    pub held: u64,
    /// Frames that other threads of the node handed over.
    pub taken: u64,
    /// Frames that other threads went on with.
    pub handed: u64,
    /// Frames that went no further, by reason.
    pub drops: Drops,
}

impl Accounting {
    /// Whether each frame is accounted for.
    pub fn balance(&self) -> bool {
        let gone = self.left + self.local.total() + self.handed + self.drops.total();
        self.entered + self.own + self.taken == gone + self.held
    }

    /// Adds those of another thread of the same node.
    pub fn add(&mut self, other: &Accounting) {
        self.entered += other.entered;
        self.own += other.own;
        self.left += other.left;
        self.local += other.local;
        self.held += other.held;
        self.taken += other.taken;
        self.handed += other.handed;
        self.drops += other.drops;
    }
}
