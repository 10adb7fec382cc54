//! The experiment `peers-generator`: which frame generators are measured in the same rounds.

use std::time::Duration;

use toml_edit::Value;
use weir_config::{Section, shown, value};
use weir_packet::flow::MAX_FLOWS;
use weir_packet::size::FrameSizes;

/// The experiment `peers-generator`: all generators alternately, round by round.
#[derive(Debug, Clone, PartialEq)]
pub struct Peers {
    /// Generators to compare with, at least one.
    pub names: Vec<Peer>,
    /// Rounds, at least 1.
    pub rounds: u32,
    /// Length of each trial.
    pub trial: Duration,
    /// Frame sizes in bytes, FCS included, at least one.
    pub frame_bytes: Vec<u16>,
    /// Numbers of flows, at least one.
    pub flows: Vec<u32>,
}

impl Peers {
    /// Rates at which the generator's pacing is measured, frames/s.
    pub const PACES_FPS: [f64; 5] = [1e3, 1e4, 1e5, 1e6, 2e6];
    /// Measurements of the receiver: on the sender's CPU, and on one of its own.
    const RECEIVERS: usize = 2;

    /// The longest time that it takes.
    pub(super) fn estimate(&self) -> Duration {
        // Two generators of ours with each number of flows; peers repeat one frame.
        let generators = (self.names.len() + 2 * self.flows.len()) * self.frame_bytes.len();
        let others = Peers::PACES_FPS.len() + Peers::RECEIVERS;
        self.trial * self.rounds * (generators + others) as u32
    }
}

/// Another frame generator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// netsniff-ng's trafgen.
    Trafgen,
    /// tcpreplay with a prepared capture.
    Tcpreplay,
    /// iperf3 sending UDP.
    Iperf3,
    /// xdp-trafficgen of xdp-tools.
    XdpTrafficgen,
}

impl Peer {
    /// All peers with the names of their programs.
    pub const ALL: [(Peer, &'static str); 4] = [
        (Peer::Trafgen, "trafgen"),
        (Peer::Tcpreplay, "tcpreplay"),
        (Peer::Iperf3, "iperf3"),
        (Peer::XdpTrafficgen, "xdp-trafficgen"),
    ];

    /// The name of its program.
    pub fn name(self) -> &'static str {
        Peer::ALL.iter().find(|(peer, _)| *peer == self).expect("every peer is in ALL").1
    }
}

/// Reads `[peers]`.
pub(super) fn read(section: Section<'_>) -> Option<Peers> {
    let names =
        section.required_axis("names", "[\"trafgen\", \"iperf3\"]", value::choice("peer", &Peer::ALL));
    let rounds = section.one("rounds", value::count(1..=1000));
    let trial = section.one("trial_s", value::seconds);
    let frame_bytes = section.axis("frame_bytes", fixed_size);
    let flows = section.axis("flows", value::count(1..=MAX_FLOWS));
    section.finish();
    Some(Peers {
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
