//! The rig `buffers`: flows that share a bottleneck, simulated packet by packet or in namespaces; how full the link is, how fair the flows share
//! it, and how long packets wait, by queue management and size of the buffer.

use std::sync::Arc;
use std::time::Duration;

use weir_config::Section;
use weir_linux::namespace::Namespace;
use weir_load::TesterKind;
use weir_port::bpf::BpfError;

use weir_lab::error::RunError;
use weir_lab::error::Unfit;
use weir_lab::rig::{Experiment, Rig};
use weir_lab::run::Running;
use weir_record::run_data::RunData;
use weir_record::shards::COMPUTED;
use weir_report::report::answer::Answer;
use weir_report::report::block::Part;

mod history;
mod mix;
mod plan;
mod real;
mod report;
mod run;
mod shared;

pub use mix::{Mix, Rtts};
pub use plan::{Bed, Buffers};

/// The rig.
pub(super) struct BuffersRig;

impl Rig for BuffersRig {
    fn name(&self) -> &'static str {
        "buffers"
    }

    fn plans(&self) -> &'static [(&'static str, &'static str)] {
        &[
            ("buffers", include_str!("../../../../plans/buffers.toml")),
            ("buffers-real", include_str!("../../../../plans/buffers-real.toml")),
            ("bbr-vs-cubic", include_str!("../../../../plans/bbr-vs-cubic.toml")),
            ("small-buffers", include_str!("../../../../plans/small-buffers.toml")),
            ("latency-under-load", include_str!("../../../../plans/latency-under-load.toml")),
            ("step", include_str!("../../../../plans/step.toml")),
        ]
    }

    fn options(&self) -> &'static str {
        include_str!("options.toml")
    }

    fn read(&self, root: &Section<'_>) -> Option<Arc<dyn Experiment>> {
        plan::read(root.section("buffers")).map(|experiment| Arc::new(experiment) as _)
    }

    fn answer(&self, data: &RunData) -> Option<Answer> {
        report::answer(data)
    }

    fn findings(&self, data: &RunData) -> Vec<String> {
        report::findings(data)
    }

    fn parts(&self, data: &RunData) -> Vec<Part> {
        report::parts(data)
    }
}

impl Experiment for Buffers {
    fn estimate(&self) -> Duration {
        Buffers::estimate(self)
    }

    fn points(&self) -> usize {
        self.cells().len()
    }

    fn bases(&self) -> Vec<Vec<usize>> {
        vec![Vec::new(); self.cells().len()]
    }

    fn settings(&self) -> Vec<Vec<(String, String)>> {
        let of_cell = |cell: &plan::Cell<'_>| {
            let settings = run::settings(self, cell).into_iter();
            settings.map(|(name, value)| (name.to_string(), value)).collect()
        };
        self.cells().iter().map(of_cell).collect()
    }

    fn deviations(&self) -> Vec<String> {
        self.left_out()
    }

    fn without_frames(&self) -> Option<&'static str> {
        (!self.beds.contains(&Bed::Real)).then_some(COMPUTED)
    }

    fn preflight(&self, _: TesterKind) -> Result<(), Unfit> {
        if self.without_frames().is_some() {
            return Ok(());
        }
        let unfit = |error| Unfit {
            what: "flows on a real bed cannot be measured".into(),
            option: "buffers.bed",
            source: Box::new(RunError::Linux(error)),
        };
        Namespace::new().map(drop).map_err(unfit)?;
        let unfit = |error: BpfError| Unfit {
            what: "a congestion control cannot be had on a real bed".into(),
            option: "buffers.mix",
            source: Box::new(RunError::Search(error.to_string())),
        };
        self.mixes.iter().try_for_each(|mix| real::Controls::provide(mix).map(drop).map_err(unfit))
    }

    fn run(&self, run: Running<'_>) -> Result<(), RunError> {
        run::Simulating::from(run.of(self)).all_cells()
    }
}
