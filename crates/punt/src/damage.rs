//! What was found in the memory of a ring that an intact other process never writes, by name.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

/// A kind of damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Damage {
    /// The header has changed; it was restored.
    Header,
    /// An index was overwritten, or is further from the other one than the ring is long.
    Index,
    /// The flag of a sleeping consumer is neither 0 nor 1.
    SleepFlag,
    /// A frame is longer than its slot.
    Length,
    /// An injection neither leaves nor enters by a port.
    How,
    /// An inner tag without an outer one, or a TCI without a TPID.
    Tags,
}

impl Damage {
    /// All kinds.
    pub const ALL: [Damage; 6] =
        [Damage::Header, Damage::Index, Damage::SleepFlag, Damage::Length, Damage::How, Damage::Tags];

    /// Its name in counters.
    pub const fn name(self) -> &'static str {
        match self {
            Damage::Header => "header",
            Damage::Index => "index",
            Damage::SleepFlag => "sleep_flag",
            Damage::Length => "length",
            Damage::How => "how",
            Damage::Tags => "tags",
        }
    }
}

/// How often each kind of damage was found by one end of a ring.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DamageCounts([u64; Damage::ALL.len()]);

impl DamageCounts {
    /// Of one kind.
    pub fn of(&self, damage: Damage) -> u64 {
        self.0.get(damage as usize).copied().unwrap_or_default()
    }

    /// Of all kinds together.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    pub(crate) fn add(&mut self, damage: Damage) {
        if let Some(count) = self.0.get_mut(damage as usize) {
            *count += 1;
        }
    }
}
