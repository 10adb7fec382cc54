//! All rigs: a line each, and a folder; three of them share `peers`. None uses another one; what several need is the
//! [engine](weir_lab::run)'s, or that of [trials with frames](weir_lab::frames).
//!
//! Files:
//! - `throughput/`: rates of devices and the procedures of the RFCs
//! - `nat/`: translation under load; `nat/sessions/`: RFC 9693; `nat/tcp/`: TCP connections
//! - `bng/`: subscribers of a concentrator: set-ups, forwarding, memory
//! - `capture/`: capture methods; `peers/`: weir beside other programs that generate, capture and detect
//! - `buffers/`: queues and buffers at a bottleneck; `buffers/real.rs`: the same with the kernel's TCP
//! - `servers/`, `files/`, `mail/`, `fixes/`: loads of applications; what a setting of the machine gains
//! - `sleep/`: the smallest rig, for tests

/// A run of one experiment: what the engine has for a rig, to which the rig adds how it measures.
macro_rules! run_of {
    ($(#[$document:meta])* $visible:vis $name:ident, $experiment:ty) => {
        $(#[$document])*
        $visible struct $name<'a>(weir_lab::run::Running<'a, $experiment>);

        impl<'a> From<weir_lab::run::Running<'a, $experiment>> for $name<'a> {
            fn from(run: weir_lab::run::Running<'a, $experiment>) -> Self {
                Self(run)
            }
        }

        impl<'a> std::ops::Deref for $name<'a> {
            type Target = weir_lab::run::Running<'a, $experiment>;

            fn deref(&self) -> &Self::Target {
                &self.0
            }
        }

        impl std::ops::DerefMut for $name<'_> {
            fn deref_mut(&mut self) -> &mut Self::Target {
                &mut self.0
            }
        }
    };
}

pub mod bng;
pub mod buffers;
pub mod capture;
pub mod files;
pub mod fixes;
pub mod mail;
pub mod nat;
mod peers;
#[cfg(test)]
mod plans_tests;
pub mod servers;
#[cfg(test)]
mod sleep;
#[cfg(test)]
mod testing;
pub mod throughput;

use weir_lab::plan::Plans;
use weir_lab::rig::Rig;
use weir_record::run_data::RunData;
use weir_report::report::Sections;
use weir_report::report::answer::Answer;
use weir_report::report::block::Part;

const ALL: &[&dyn Rig] = &[
    &throughput::ThroughputRig,
    &peers::GENERATOR,
    &capture::CaptureRig,
    &peers::CAPTURE,
    &peers::DETECT,
    &nat::NatRig,
    &bng::BngRig,
    &buffers::BuffersRig,
    &servers::ServersRig,
    &files::FilesRig,
    &mail::MailRig,
    &fixes::FixesRig,
    #[cfg(test)]
    &sleep::SleepRig,
];

/// The plans of all rigs.
pub const PLANS: Plans = Plans(ALL);

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

    fn answer(&self, data: &RunData) -> Option<Answer> {
        all().find_map(|rig| rig.answer(data))
    }
}

/// The first screen of a run, on a terminal of 80 columns, after the same one of a page was looked at: for tests.
///
/// # Panics
/// If a line of it is too long, or the page has no drawing.
#[cfg(test)]
pub(crate) fn first_screen(data: &RunData) -> String {
    use weir_report::report::block::page;
    let text = weir_report::export::answer(data, sections(), 80);
    let long = text.lines().find(|line| line.chars().count() > 80);
    assert!(long.is_none(), "{long:?} has {:?} columns", long.map(|line| line.chars().count()));
    let answer = sections().answer(data).expect("an answer of the rig");
    let blocks = answer.drawing.into_iter().collect();
    let drawing = page(&[Part { id: "drawing", heading: "Drawing".into(), blocks }]);
    assert!(drawing.contains("<svg") && !drawing.contains("NaN"), "{drawing}");
    text
}
