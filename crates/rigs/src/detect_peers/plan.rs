//! The experiment `peers-detect`: which programs watch for the same attacks alternately, and how large these are.

use std::time::Duration;

use weir_config::{Section, value};
use weir_packet::size::FrameSizes;

/// The experiment. Lists have at least one value.
#[derive(Debug, Clone, PartialEq)]
pub struct DetectPeers {
    /// Programs to compare with.
    pub names: Vec<DetectPeer>,
    /// Rounds, at least 1.
    pub rounds: u32,
    /// Rates of the attacks, frames/s.
    pub attacks_fps: Vec<f64>,
    /// What a host may get, frames/s.
    pub limit_fps: f64,
    /// The longest that an attack goes on; it ends when it has been reported.
    pub attack: Duration,
    /// Size of its frames.
    pub frame: FrameSizes,
}

/// Another program that watches for attacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DetectPeer {
    /// FastNetMon, the community edition.
    FastNetMon,
}

impl DetectPeer {
    /// All of them with the names of their programs.
    pub const ALL: [(DetectPeer, &'static str); 1] = [(DetectPeer::FastNetMon, "fastnetmon")];

    /// The name of its program, and of its Debian package.
    pub fn name(self) -> &'static str {
        DetectPeer::ALL.iter().find(|(peer, _)| *peer == self).expect("every peer is in ALL").1
    }
}

impl DetectPeers {
    /// About what starting a program, a calm second and ending it takes.
    const AROUND_AN_ATTACK: Duration = Duration::from_secs(4);

    /// The longest time that it takes.
    pub(super) fn estimate(&self) -> Duration {
        let attacks = (self.names.len() + 1) * self.attacks_fps.len() * self.rounds as usize;
        (self.attack + DetectPeers::AROUND_AN_ATTACK) * attacks as u32
    }
}

/// Reads `[detect_peers]`.
pub(super) fn read(section: Section<'_>) -> Option<DetectPeers> {
    let names =
        section.required_axis("names", "\"fastnetmon\"", value::choice("watching peer", &DetectPeer::ALL));
    let rounds = section.one("rounds", value::count(1..=1000));
    let attacks = section.axis("attack_fps", value::fps);
    let limit_fps = section.one("limit_fps", value::fps).unwrap_or(20_000.0);
    let attack = section.one("attack_s", value::seconds);
    let frame = section.one("frame_bytes", value::parsed::<FrameSizes>);
    let attacks = attacks.unwrap_or(vec![40_000.0]);
    for (i, _) in attacks.iter().enumerate().filter(|(_, fps)| **fps <= limit_fps) {
        let text = format!(
            "an attack must exceed limit_fps, {limit_fps} frames/s: use a higher rate, or a lower limit"
        );
        section.wrong_entry("attack_fps", i, text);
    }
    section.finish();
    Some(DetectPeers {
        names: names?,
        rounds: rounds.unwrap_or(6),
        attacks_fps: attacks,
        limit_fps,
        attack: attack.unwrap_or(Duration::from_secs(10)),
        frame: frame.unwrap_or(FrameSizes::Fixed(64)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PLANS;
    use weir_testkit::{golden, set_mistakes};

    fn peers(sets: &[&str]) -> Result<DetectPeers, String> {
        let sets: Vec<String> = sets.iter().map(|set| set.to_string()).collect();
        let plan = PLANS.load("peers-detect", &sets).map_err(|error| error.to_string())?;
        let peers = plan.experiment.of::<DetectPeers>().expect("of this rig").clone();
        Ok(peers)
    }

    #[test]
    fn mistakes_have_remedies() {
        let sets = [
            "detect_peers.names=fastnetmom",
            "detect_peers.attack_fps=[40k,20k]",
            "detect_peers.attack_fps=40k --set detect_peers.limit_fps=50k",
            "detect_peers.rounds=0",
        ];
        golden!(
            "src/detect_peers/mistakes.txt",
            &set_mistakes(&sets, |sets| PLANS.load("peers-detect", sets))
        );
    }

    #[test]
    fn the_short_form_is_short() {
        let short = PLANS.load_short("peers-detect", &[]).unwrap();
        assert!(short.estimate() <= Duration::from_secs(150), "{:?}", short.estimate());
        assert_eq!(peers(&[]).unwrap().rounds, 6, "rounds enough for an interval");
    }
}
