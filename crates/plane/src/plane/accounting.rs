//! The frame accounting of a node.

use crate::drops::Drops;
use crate::local::Punts;
use crate::punt::PuntCounts;

/// The frame accounting.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Accounting {
    /// Frames that came in by a port.
    pub entered: u64,
    /// Frames that the node made itself: ICMP errors, ARP; and those that its machine sent by TAP devices.
    pub originated: u64,
    /// Frames that the control program injected.
    pub injected: u64,
    /// Frames that left by a port.
    pub left: u64,
    /// Frames that were punted to the machine that the node runs on.
    pub local: Punts,
    /// Frames that were punted to the control program.
    pub control: PuntCounts,
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
        self.came() == self.gone() + self.kept
    }

    /// Frames that came in some way.
    pub(crate) fn came(&self) -> u64 {
        self.entered + self.originated + self.injected + self.taken
    }

    /// Frames that went in some way.
    pub(crate) fn gone(&self) -> u64 {
        self.left + self.local.total() + self.control.total() + self.handed + self.drops.total()
    }

    /// Adds those of another thread of the same node.
    pub fn add(&mut self, other: &Accounting) {
        self.entered += other.entered;
        self.originated += other.originated;
        self.injected += other.injected;
        self.left += other.left;
        self.local += other.local;
        self.control += other.control;
        self.kept += other.kept;
        self.taken += other.taken;
        self.handed += other.handed;
        self.drops += other.drops;
    }
}
