//! Translations of a NAT in a trial.

use serde::{Deserialize, Serialize};
use weir_load::translation::{NatFault, Translated};

use weir_load::tcp::Said;

use super::Detail;

/// Counts of both sides of a NAT.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Translation {
    /// Frames that arrived outside, translated as they should be.
    pub outside: u64,
    /// Flows of which one did.
    pub flows: u64,
    /// Frames that came back inside to the subscriber that they belong to.
    pub inside: u64,
    /// Flows of which one did.
    pub flows_inside: u64,
    /// What was wrong, and how often; empty for a NAT that works.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<(NatFault, u64)>,
    /// Entries of flows that ended during the trial, of the kernel's table, at least; counted where flows changed or shared
    /// outside tuples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_entries: Option<u64>,
    /// The file with frames that show it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<String>,
}

impl Detail for Translation {
    const KEY: &'static str = "translation";
}

/// TCP connections in a trial whose load is a part of them.
impl Detail for Said {
    const KEY: &'static str = "tcp";
}

impl Translation {
    /// Of what a tester has seen.
    pub fn of(seen: &Translated) -> Translation {
        let Translated { outside, flows, inside, flows_inside, ref faults } = *seen;
        let faults = faults.clone();
        Translation { outside, flows, inside, flows_inside, faults, ended_entries: None, evidence: None }
    }

    /// Did flows share or change outside tuples? Both are faults, unless the entries of these flows have ended meanwhile.
    pub fn has_new_tuples(&self) -> bool {
        self.faults.iter().any(|(fault, _)| matches!(fault, NatFault::Clashed | NatFault::Remapped))
    }

    /// What was wrong in words, one each.
    pub fn mistakes(&self) -> impl Iterator<Item = String> {
        self.faults.iter().map(|(fault, n)| format!("{n} {}", fault.text()))
    }
}
