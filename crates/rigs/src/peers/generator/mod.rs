//! The rig `peers-generator`: frame generators compared in the same rounds, with pacing and receiver of the tester.

use std::sync::Arc;
use std::time::Duration;

use toml_edit::Value;
use weir_config::{Section, shown, value};
use weir_lab::error::RunError;
use weir_lab::rig::{Experiment, first_alike};
use weir_lab::run::Running;
use weir_lab::run::programs::Programs;
use weir_packet::flow::MAX_FLOWS;
use weir_packet::size::FrameSizes;

use super::{PeersRig, contest};
use program::{PEERS, Peer};
use run::Stream;
use sender::Generator;
use weir_load::TesterKind;

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
    /// Measurements of the receiver: on the sender's CPU, and on its own CPU.
    const RECEIVERS: usize = 2;

    /// All generators, each with its frames.
    fn streams(&self) -> Vec<Stream> {
        let mut list = Vec::new();
        for &frame_bytes in &self.frame_bytes {
            for (i, &flows) in self.flows.iter().enumerate() {
                let own = [TesterKind::Xdp, TesterKind::Packet].map(Generator::Weir);
                list.extend(own.map(|generator| Stream { generator, frame_bytes, flows }));
                // Peers repeat one frame, which is fastest for them.
                let peers = self.names.iter().filter(|_| i == 0).map(|&peer| Generator::Peer(peer));
                list.extend(peers.map(|generator| Stream { generator, frame_bytes, flows: 1 }));
            }
        }
        list
    }
}

impl Experiment for GeneratorPeers {
    fn estimate(&self) -> Duration {
        // Two generators of weir with each number of flows; peers repeat one frame.
        let generators = (self.names.len() + 2 * self.flows.len()) * self.frame_bytes.len();
        let others = GeneratorPeers::PACES_FPS.len() + GeneratorPeers::RECEIVERS;
        self.trial * self.rounds * (generators + others) as u32
    }

    fn bases(&self) -> Vec<Vec<usize>> {
        let wires = GeneratorPeers::PACES_FPS.len() + GeneratorPeers::RECEIVERS;
        let of_streams = first_alike(&self.streams(), |a, b| a.frame_bytes == b.frame_bytes);
        of_streams.into_iter().chain(vec![Vec::new(); wires]).collect()
    }

    fn run(&self, run: Running<'_>) -> Result<(), RunError> {
        contest::run(run.of(self), self.rounds)
    }
}

/// Reads `[peers]`.
fn read(section: Section<'_>) -> Option<GeneratorPeers> {
    let peers = PEERS.map(|peer| (peer, peer.name));
    let names = contest::read_names(&section, "[\"trafgen\", \"iperf3\"]", "peer", &peers);
    let rounds = section.one("rounds", value::count(1..=1000)).unwrap_or(6);
    let trial = section.one("trial_s", value::seconds).unwrap_or(Duration::from_secs(2));
    let frame_bytes = section.axis("frame_bytes", fixed_size).unwrap_or(vec![64]);
    let flows = section.axis("flows", value::count(1..=MAX_FLOWS)).unwrap_or(vec![1]);
    section.finish();
    Some(GeneratorPeers { names: names?, rounds, trial, frame_bytes, flows })
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
