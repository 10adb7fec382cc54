//! All rigs: a folder and a line each. None uses another one; what several need is the [engine](crate::run)'s, or that of
//! [trials with frames](crate::frames).

pub mod buffers;
pub mod capture;
pub mod capture_peers;
pub mod detect_peers;
pub mod files;
pub mod fixes;
pub mod generators;
pub mod mail;
pub mod nat;
pub mod servers;
#[cfg(test)]
mod sleep;
pub mod throughput;

use crate::report::Sections;
use crate::report::block::Part;
use crate::rig::Rig;
use crate::run_data::RunData;

const ALL: &[&dyn Rig] = &[
    &throughput::ThroughputRig,
    &generators::GeneratorsRig,
    &capture::CaptureRig,
    &capture_peers::CapturePeersRig,
    &detect_peers::DetectPeersRig,
    &nat::NatRig,
    &buffers::BuffersRig,
    &servers::ServersRig,
    &files::FilesRig,
    &mail::MailRig,
    &fixes::FixesRig,
    #[cfg(test)]
    &sleep::SleepRig,
];

/// All rigs, in the order in which people read of them.
pub fn all() -> impl Iterator<Item = &'static dyn Rig> {
    ALL.iter().copied()
}

/// What all rigs say of a run, for reports and exports: each of its own.
pub fn sections() -> &'static dyn Sections {
    &All
}

struct All;

impl Sections for All {
    fn findings(&self, data: &RunData) -> Vec<String> {
        all().flat_map(|rig| rig.findings(data)).collect()
    }

    fn parts(&self, data: &RunData) -> Vec<Part> {
        all().flat_map(|rig| rig.parts(data)).collect()
    }
}
