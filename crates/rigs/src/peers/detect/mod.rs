//! The rig `peers-detect`: `weir detect` and programs of other projects that detect attacks, in the same rounds.

use std::sync::Arc;
use std::time::Duration;

use weir_config::{Section, value};
use weir_lab::error::RunError;
use weir_lab::rig::{Experiment, first_alike};
use weir_lab::run::Running;
use weir_lab::run::programs::Programs;
use weir_packet::size::FrameSizes;

use super::{PeersRig, contest};
use program::{Detector, PEERS};

mod answer;
mod program;
mod report;
mod run;

const PROGRAMS: Programs = Programs(include_str!("../../../../../plans/peers-detect.programs"));

/// The rig.
pub(in crate::peers) const RIG: PeersRig = PeersRig {
    plans: &[("peers-detect", include_str!("../../../../../plans/peers-detect.toml"))],
    options: include_str!("options.toml"),
    programs: PROGRAMS,
    read: |root| read(root.section("detect_peers")).map(|experiment| Arc::new(experiment) as _),
    answer: answer::answer,
    findings: report::findings,
    parts: report::parts,
};

/// The experiment. Lists have at least one value.
#[derive(Debug)]
struct DetectPeers {
    /// Programs to compare with.
    names: Vec<&'static Detector>,
    /// Rounds, at least 1.
    rounds: u32,
    /// Rates of the attacks, frames/s.
    attacks_fps: Vec<f64>,
    /// The limit of a host, frames/s.
    limit_fps: f64,
    /// The longest duration of an attack; it ends when it has been reported.
    attack: Duration,
    /// Size of its frames.
    frame: FrameSizes,
}

/// About the time to start a program, to watch for a calm second, and to end it.
const AROUND_AN_ATTACK: Duration = Duration::from_secs(4);

impl Experiment for DetectPeers {
    fn estimate(&self) -> Duration {
        let attacks = (self.names.len() + 1) * self.attacks_fps.len() * self.rounds as usize;
        (self.attack + AROUND_AN_ATTACK) * attacks as u32
    }

    fn bases(&self) -> Vec<Vec<usize>> {
        // For each attack weir and all others.
        let detectors = self.names.len() + 1;
        let attacks: Vec<usize> = (0..self.attacks_fps.len() * detectors).map(|n| n / detectors).collect();
        first_alike(&attacks, |a, b| a == b)
    }

    fn run(&self, run: Running<'_>) -> Result<(), RunError> {
        contest::run(run.of(self), self.rounds)
    }
}

/// Reads `[detect_peers]`.
fn read(section: Section<'_>) -> Option<DetectPeers> {
    let peers = PEERS.map(|peer| (peer, peer.name));
    let names = contest::read_names(&section, "\"fastnetmon\"", "watching peer", &peers);
    let rounds = section.one("rounds", value::count(1..=1000)).unwrap_or(6);
    let attacks_fps = section.axis("attack_fps", value::fps).unwrap_or(vec![40_000.0]);
    let limit_fps = section.one("limit_fps", value::fps).unwrap_or(20_000.0);
    let attack = section.one("attack_s", value::seconds).unwrap_or(Duration::from_secs(10));
    let frame = section.one("frame_bytes", value::parsed::<FrameSizes>).unwrap_or(FrameSizes::Fixed(64));
    for (i, _) in attacks_fps.iter().enumerate().filter(|(_, fps)| **fps <= limit_fps) {
        let text = format!(
            "an attack must exceed limit_fps, {limit_fps} frames/s: use a higher rate, or a lower limit"
        );
        section.wrong_entry("attack_fps", i, text);
    }
    section.finish();
    Some(DetectPeers { names: names?, rounds, attacks_fps, limit_fps, attack, frame })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PLANS;
    use weir_testkit::{golden, set_mistakes};

    #[test]
    fn mistakes_have_remedies() {
        let sets = [
            "detect_peers.names=fastnetmom",
            "detect_peers.attack_fps=[40k,20k]",
            "detect_peers.attack_fps=40k --set detect_peers.limit_fps=50k",
            "detect_peers.rounds=0",
        ];
        golden!(
            "src/peers/detect/mistakes.txt",
            &set_mistakes(&sets, |sets| PLANS.load("peers-detect", sets))
        );
    }

    #[test]
    fn the_short_form_is_short() {
        let short = PLANS.load_short("peers-detect", &[]).unwrap();
        assert!(short.estimate() <= Duration::from_secs(150), "{:?}", short.estimate());
        let plan = PLANS.load("peers-detect", &[]).unwrap();
        let peers = plan.experiment.of::<DetectPeers>().expect("of this rig");
        assert_eq!(peers.rounds, 6, "rounds enough for an interval");
    }
}
