//! The rig `peers-generator`: frame generators compared in the same rounds, and what the tester itself can do.

use std::sync::Arc;
use std::time::Duration;

use toml_edit::Value;
use weir_config::{Section, shown, value};
use weir_lab::error::RunError;
use weir_lab::rig::Experiment;
use weir_lab::run::Running;
use weir_lab::run::programs::Programs;
use weir_packet::flow::MAX_FLOWS;
use weir_packet::size::FrameSizes;

use super::{PeersRig, contest};
use program::{PEERS, Peer};

mod answer;
mod program;
mod report;
mod run;
mod sender;

const PROGRAMS: Programs = Programs(include_str!("../../../../../plans/peers-generator.programs"));

/// The rig.
pub(in crate::peers) const RIG: PeersRig = PeersRig {
    plans: &[("peers-generator", include_str!("../../../../../plans/peers-generator.toml"))],
    options: include_str!("options.toml"),
    programs: PROGRAMS,
    read: |root| read(root.section("peers")).map(|experiment| Arc::new(experiment) as _),
    answer: answer::answer,
    findings: report::findings,
    parts: report::parts,
};

/// The experiment. Lists have at least one value.
#[derive(Debug)]
struct GeneratorPeers {
    /// Generators to compare with.
    names: Vec<&'static Peer>,
    /// Rounds, at least 1.
    rounds: u32,
    /// Length of each trial.
    trial: Duration,
    /// Frame sizes in bytes, FCS included.
    frame_bytes: Vec<u16>,
    /// Numbers of flows.
    flows: Vec<u32>,
}

impl GeneratorPeers {
    /// Rates at which the generator's pacing is measured, frames/s.
    const PACES_FPS: [f64; 5] = [1e3, 1e4, 1e5, 1e6, 2e6];
    /// Measurements of the receiver: on the sender's CPU, and on a CPU of its own.
    const RECEIVERS: usize = 2;
}

impl Experiment for GeneratorPeers {
    fn estimate(&self) -> Duration {
        // Two generators of weir with each number of flows; peers repeat one frame.
        let generators = (self.names.len() + 2 * self.flows.len()) * self.frame_bytes.len();
        let others = GeneratorPeers::PACES_FPS.len() + GeneratorPeers::RECEIVERS;
        self.trial * self.rounds * (generators + others) as u32
    }

    fn run(&self, run: Running<'_>) -> Result<(), RunError> {
        contest::run(run.of(self))
    }
}

/// Reads `[peers]`.
fn read(section: Section<'_>) -> Option<GeneratorPeers> {
    let peers = PEERS.map(|peer| (peer, peer.name));
    let names = section.required_axis("names", "[\"trafgen\", \"iperf3\"]", value::choice("peer", &peers));
    let rounds = section.one("rounds", value::count(1..=1000));
    let trial = section.one("trial_s", value::seconds);
    let frame_bytes = section.axis("frame_bytes", fixed_size);
    let flows = section.axis("flows", value::count(1..=MAX_FLOWS));
    section.finish();
    Some(GeneratorPeers {
        names: names?,
        rounds: rounds.unwrap_or(6),
        trial: trial.unwrap_or(Duration::from_secs(2)),
        frame_bytes: frame_bytes.unwrap_or(vec![64]),
        flows: flows.unwrap_or(vec![1]),
    })
}

/// One size: not every peer can mix sizes.
fn fixed_size(value: &Value) -> Result<u16, String> {
    match value::parsed(value)? {
        FrameSizes::Fixed(size) => Ok(size),
        _ => {
            Err(format!("`{}` is a mix, which not every peer sends: use sizes from 64 to 9018", shown(value)))
        }
    }
}

#[cfg(test)]
mod report_tests;
#[cfg(test)]
mod tests;
