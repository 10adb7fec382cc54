//! Reasons to punt a frame to the control program of the node, and how many frames were punted for each.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::arithmetic_side_effects)]

use std::ops::AddAssign;

use weir_config::did_you_mean;

use crate::drops::DropReason;

/// Why a frame is punted to the control program. It is given frames in this order, the most important first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PuntReason {
    /// PPP of a PPPoE session that carries no packet: LCP, authentication, NCPs.
    PppControl,
    /// Neighbour discovery, router discovery, redirects.
    Nd,
    /// ARP.
    Arp,
    /// DHCP to a server or a relay.
    Dhcp4,
    /// DHCPv6 to a server or a relay.
    Dhcp6,
    /// PPPoE discovery.
    PppoeDiscovery,
    /// No subscriber has its source.
    UnknownSource,
}

impl PuntReason {
    /// All of them, in the order in which the control program is given them.
    pub const ALL: [PuntReason; 7] = [
        PuntReason::PppControl,
        PuntReason::Nd,
        PuntReason::Arp,
        PuntReason::Dhcp4,
        PuntReason::Dhcp6,
        PuntReason::PppoeDiscovery,
        PuntReason::UnknownSource,
    ];

    /// Its name in texts and counters.
    pub const fn name(self) -> &'static str {
        match self {
            PuntReason::PppControl => "ppp_control",
            PuntReason::Nd => "nd",
            PuntReason::Arp => "arp",
            PuntReason::Dhcp4 => "dhcp4",
            PuntReason::Dhcp6 => "dhcp6",
            PuntReason::PppoeDiscovery => "pppoe_discovery",
            PuntReason::UnknownSource => "unknown_source",
        }
    }

    /// Its number in the records of a ring; it never changes.
    pub const fn number(self) -> u16 {
        match self {
            PuntReason::Dhcp4 => 1,
            PuntReason::Dhcp6 => 2,
            PuntReason::PppoeDiscovery => 3,
            PuntReason::PppControl => 4,
            PuntReason::Nd => 5,
            PuntReason::Arp => 6,
            PuntReason::UnknownSource => 7,
        }
    }

    /// The drop reason of frames beyond its rate.
    pub(crate) const fn over_limit(self) -> DropReason {
        match self {
            PuntReason::PppControl => DropReason::PuntPppControl,
            PuntReason::Nd => DropReason::PuntNd,
            PuntReason::Arp => DropReason::PuntArp,
            PuntReason::Dhcp4 => DropReason::PuntDhcp4,
            PuntReason::Dhcp6 => DropReason::PuntDhcp6,
            PuntReason::PppoeDiscovery => DropReason::PuntPppoeDiscovery,
            PuntReason::UnknownSource => DropReason::PuntUnknownSource,
        }
    }
}

/// Some reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PuntReasons(u8);

impl PuntReasons {
    /// Whether it is one of them.
    pub fn contains(self, reason: PuntReason) -> bool {
        self.0 & 1 << reason as u8 != 0
    }

    /// These.
    pub(crate) fn of(reasons: &[PuntReason]) -> PuntReasons {
        PuntReasons(reasons.iter().fold(0, |all, &reason| all | 1 << reason as u8))
    }

    /// These and others.
    pub(crate) fn with(self, others: PuntReasons) -> PuntReasons {
        PuntReasons(self.0 | others.0)
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Reads reasons by their names.
    pub(crate) fn read(names: &[&str]) -> Result<PuntReasons, String> {
        let all = PuntReason::ALL.map(PuntReason::name);
        if names.is_empty() {
            return Err(format!("punt takes at least one reason: {}", all.join(", ")));
        }
        let mut reasons = PuntReasons::default();
        for name in names {
            let found = PuntReason::ALL.into_iter().find(|reason| reason.name() == *name);
            let unknown = || format!("`{name}` is no reason to punt: {}", did_you_mean(name, &all));
            reasons.0 |= 1 << found.ok_or_else(unknown)? as u8;
        }
        Ok(reasons)
    }
}

/// How many frames were punted to the control program, by reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PuntCounts([u64; PuntReason::ALL.len()]);

impl PuntCounts {
    fn of_mut(&mut self, reason: PuntReason) -> Option<&mut u64> {
        self.0.get_mut(reason as usize)
    }

    /// Counts a frame.
    pub(crate) fn count(&mut self, reason: PuntReason) {
        self.of_mut(reason).into_iter().for_each(|count| *count += 1);
    }

    /// A frame that was counted has not reached the control program.
    pub(crate) fn take_back(&mut self, reason: PuntReason) {
        self.of_mut(reason).into_iter().for_each(|count| *count -= 1);
    }

    /// Frames punted for this reason.
    pub fn of(&self, reason: PuntReason) -> u64 {
        self.0.get(reason as usize).copied().unwrap_or_default()
    }

    /// Frames punted for any reason.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Each reason with its frames.
    pub fn by_reason(&self) -> impl Iterator<Item = (PuntReason, u64)> {
        PuntReason::ALL.into_iter().zip(self.0)
    }
}

impl AddAssign for PuntCounts {
    fn add_assign(&mut self, other: PuntCounts) {
        self.0.iter_mut().zip(other.0).for_each(|(to, from)| *to += from);
    }
}

impl FromIterator<u64> for PuntCounts {
    /// Counts in the order of [`PuntReason::ALL`].
    fn from_iter<T: IntoIterator<Item = u64>>(counts: T) -> PuntCounts {
        let mut all = PuntCounts::default();
        all.0.iter_mut().zip(counts).for_each(|(to, from)| *to = from);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_read_by_name_and_numbers_are_apart() {
        let reasons = PuntReasons::read(&["arp", "dhcp4"]).expect("known");
        let all = PuntReason::ALL;
        assert_eq!(
            all.map(|reason| reasons.contains(reason)),
            [false, false, true, true, false, false, false]
        );
        assert_eq!(
            PuntReasons::read(&["arp", "dhpc4"]).expect_err("unknown"),
            "`dhpc4` is no reason to punt: did you mean `dhcp4`?"
        );
        assert!(
            PuntReasons::read(&[]).expect_err("none").starts_with("punt takes at least one reason: ppp_")
        );
        let mut numbers = all.map(PuntReason::number);
        numbers.sort_unstable();
        assert_eq!(numbers, [1, 2, 3, 4, 5, 6, 7]);
        for reason in all {
            assert_eq!(reason.over_limit().name(), format!("punt_{}", reason.name()));
        }
    }
}
