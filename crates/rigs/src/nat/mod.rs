//! The rig `nat`: how many frames a NAT translates, how long they take there and back, and whether the translations are correct.
//!
//! ```text
//! [a] generator ---> NAT ---> [b] checks the outside tuple, reflects
//! [a] checks the subscriber, times <--- NAT <---
//! ```

use std::sync::Arc;
use std::time::Duration;

use weir_config::Section;
use weir_load::TesterKind;

use weir_lab::error::RunError;
use weir_lab::error::Unfit;
use weir_lab::frames::preflight;
use weir_lab::rig::{Experiment, Rig};
use weir_lab::run::Running;
use weir_record::run_data::RunData;
use weir_report::report::answer::Answer;
use weir_report::report::block::Part;

mod answer;
mod bench;
mod capacity;
mod evidence;
mod figure;
mod flows;
mod judged;
mod plan;
mod published;
mod report;
mod run;
mod section;
mod sessions;
mod table;
mod tcp;
#[cfg(test)]
mod tests;

pub use flows::Ranges;
pub use plan::{Hosts, NatLoad, NatPoint, NatSearch};
pub use sessions::Rfc9693;
pub use table::{TableAxes, TableSettings};
pub use tcp::{Flood, Side, TcpLoad};

/// The rig.
pub(super) struct NatRig;

impl Rig for NatRig {
    fn name(&self) -> &'static str {
        "nat"
    }

    fn plans(&self) -> &'static [(&'static str, &'static str)] {
        &[
            ("nat", include_str!("../../../../plans/nat.toml")),
            ("nat-flows", include_str!("../../../../plans/nat-flows.toml")),
            ("rfc9693", include_str!("../../../../plans/rfc9693.toml")),
            ("nat-tcp", include_str!("../../../../plans/nat-tcp.toml")),
            ("conntrack", include_str!("../../../../plans/conntrack.toml")),
        ]
    }

    fn options(&self) -> &'static str {
        include_str!("options.toml")
    }

    fn read(&self, root: &Section<'_>) -> Option<Arc<dyn Experiment>> {
        if root.has("rfc9693") {
            return sessions::read(root).map(|experiment| Arc::new(experiment) as _);
        }
        if root.has("nat_tcp") {
            return tcp::read(root).map(|experiment| Arc::new(experiment) as _);
        }
        plan::read(root).map(|experiment| Arc::new(experiment) as _)
    }

    fn answer(&self, data: &RunData) -> Option<Answer> {
        answer::of(data)
    }

    fn findings(&self, data: &RunData) -> Vec<String> {
        let sessions = sessions::report::findings(data).into_iter();
        report::findings(data).into_iter().chain(sessions).chain(tcp::report::findings(data)).collect()
    }

    fn parts(&self, data: &RunData) -> Vec<Part> {
        let sessions = sessions::report::parts(data).into_iter();
        report::parts(data).into_iter().chain(sessions).chain(tcp::report::parts(data)).collect()
    }
}

impl Experiment for NatLoad {
    fn estimate(&self) -> Duration {
        NatLoad::points(self).iter().map(|point| self.estimate_at(&point.spec)).sum()
    }

    fn points(&self) -> usize {
        NatLoad::points(self).len()
    }

    fn bases(&self) -> Vec<Vec<usize>> {
        run::bases(&NatLoad::points(self))
    }

    fn settings(&self) -> Vec<Vec<(String, String)>> {
        NatLoad::points(self).iter().map(NatPoint::settings).collect()
    }

    fn preflight(&self, tester: TesterKind) -> Result<(), Unfit> {
        preflight::devices(&self.specs(), tester)
    }

    fn run(&self, run: Running<'_>) -> Result<(), RunError> {
        run::Measuring::from(run.of(self)).all_points()
    }
}
