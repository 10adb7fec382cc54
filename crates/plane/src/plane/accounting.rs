//! The frame accounting of a node.

use crate::drops::Drops;
use crate::local::Punts;

/// The frame accounting.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Accounting {
    /// Frames that came in by a port.
    pub entered: u64,
    /// Frames that the node made itself: ICMP errors, ARP; and those that its machine sent by TAP devices.
    pub originated: u64,
    /// Frames that left by a port.
    pub left: u64,
    /// Frames that were punted to the machine that the node runs on.
    pub local: Punts,
    /// Frames that wait inside, themselves or as copies.
    pub kept: u64,
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
        self.entered + self.originated + self.taken == gone + self.kept
    }

    /// Adds those of another thread of the same node.
    pub fn add(&mut self, other: &Accounting) {
        self.entered += other.entered;
        self.originated += other.originated;
        self.left += other.left;
        self.local += other.local;
        self.kept += other.kept;
        self.taken += other.taken;
        self.handed += other.handed;
        self.drops += other.drops;
    }
}
