//! How close the CPUs of tester and device are, as classes of the time that a cache line takes between them.
//!
//! Some ten lines go with every frame, so that a device forwards twice as much from one place as from another. The host of
//! a virtual machine moves its CPUs at any time: what is measured in one class says nothing of the other.

use serde::{Deserialize, Serialize};

/// Between threads of a core a line takes less, ns.
const ONE_CORE_NS: f64 = 22.0;
/// Between cores that share a cache it takes less, ns.
const NEAR_NS: f64 = 75.0;

/// A step of the probe of a core takes at most this times as long as the shortest of the run while no other guest uses it.
const ALONE: f64 = 1.10;

/// Where the CPUs of tester and device are, and whether the device has its core for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Place {
    /// The other thread of the device's core worked for another guest.
    pub disturbed: bool,
    /// Where the two CPUs are.
    pub placement: Placement,
}

impl Place {
    /// In words.
    pub fn name(self) -> String {
        let shared = if self.disturbed { ", shared core" } else { "" };
        format!("{}{shared}", self.placement.name())
    }
}

/// What probes before and after something said.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Probes {
    /// Time of a cache line between the CPUs, ns.
    pub core_distance_ns: [Option<f64>; 2],
    /// Time of a step on the device's core, ns.
    pub core_step_ns: [Option<f64>; 2],
}

impl Probes {
    /// Where the CPUs were throughout, where the shortest step on this core took `shortest_ns`. `None` if something changed
    /// meanwhile, or is not known.
    pub fn place(&self, shortest_ns: f64) -> Option<Place> {
        let [before, after] = self.core_distance_ns;
        let placement = Placement::throughout(before, after)?;
        let [Some(before), Some(after)] = self.core_step_ns.map(|ns| ns.map(|ns| !is_alone(ns, shortest_ns)))
        else {
            return Some(Place { disturbed: false, placement });
        };
        (before == after).then_some(Place { disturbed: before, placement })
    }
}

/// Whether no other guest used the core during a probe, by the time of its step and the shortest of the run.
pub fn is_alone(step_ns: f64, shortest_ns: f64) -> bool {
    step_ns <= shortest_ns * ALONE
}

/// Where two CPUs are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// Two threads of one core: they share its execution units.
    OneCore,
    /// Two cores with a common cache.
    NearCores,
    /// Two cores without one, or on two chips.
    FarCores,
}

impl Placement {
    /// The class of two CPUs between which a cache line takes so many ns.
    pub fn of(core_distance_ns: f64) -> Placement {
        match core_distance_ns {
            ns if ns < ONE_CORE_NS => Placement::OneCore,
            ns if ns < NEAR_NS => Placement::NearCores,
            _ => Placement::FarCores,
        }
    }

    /// The class before and after something was measured: `None` if that is not the same, so that one of the CPUs was
    /// moved meanwhile, or if it is not known.
    pub fn throughout(before_ns: Option<f64>, after_ns: Option<f64>) -> Option<Placement> {
        let (before, after) = (Placement::of(before_ns?), Placement::of(after_ns?));
        (before == after).then_some(before)
    }

    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Placement::OneCore => "one core",
            Placement::NearCores => "near cores",
            Placement::FarCores => "far cores",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_is_shared_while_its_steps_take_longer() {
        let place = |steps: [f64; 2]| {
            let probes = Probes { core_distance_ns: [Some(30.0); 2], core_step_ns: steps.map(Some) };
            probes.place(1.0).map(|place| place.name())
        };
        assert_eq!(place([1.0, 1.05]).unwrap(), "near cores");
        assert_eq!(place([1.4, 1.9]).unwrap(), "near cores, shared core");
        assert_eq!(place([1.0, 1.4]), None);
        let unknown = Probes { core_distance_ns: [Some(30.0); 2], ..Probes::default() };
        assert_eq!(unknown.place(1.0), Some(Place { disturbed: false, placement: Placement::NearCores }));
        assert_eq!(Probes::default().place(1.0), None);
    }

    #[test]
    fn a_place_is_known_if_nobody_was_moved() {
        use Placement::*;
        for (before, after, expected) in [
            (Some(14.0), Some(16.0), Some(OneCore)),
            (Some(30.0), Some(32.0), Some(NearCores)),
            (Some(152.0), Some(168.0), Some(FarCores)),
            (Some(30.0), Some(160.0), None),
            (Some(30.0), None, None),
            (None, Some(30.0), None),
        ] {
            assert_eq!(Placement::throughout(before, after), expected, "{before:?} {after:?}");
        }
    }
}
