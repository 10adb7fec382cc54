//! A trial: offered load, received frames, lost frames by place, and the verdict.

use serde::{Deserialize, Serialize};
use weir_measure::capacity::Window;
use weir_measure::stops::Stop;

use super::{Cost, Details, Finding, Noise, Stream};

/// One measurement: with test frames at one offered load, or of another kind.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Number in the archive.
    pub id: i64,
    /// Number of the point that it belongs to.
    pub point_id: i64,
    /// Place within the point, from 0: with the key of the point, its own.
    pub index: usize,
    /// What it was for.
    pub purpose: Purpose,
    /// What it measures, where that is no load of frames: a run that is resumed knows it by this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Start, UTC, RFC 3339 with milliseconds.
    pub started: String,
    /// Intended length of sending in seconds.
    pub duration_s: f64,
    /// Time spent on this trial beyond `duration_s`, in seconds: set-up, drain, reading counters.
    pub overhead_s: f64,
    /// Frames that were sent, received and lost; `None` where there are no test frames.
    #[serde(flatten)]
    pub frames: Option<FrameCounts>,
    /// What the load was beyond rate and time, as name and value: `bursts`, `rate changes`, `timed`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub load: Vec<(String, String)>,
    /// When the rate changed, in a trial whose load does so: the departure of the first frame that is followed by
    /// the new gap, ns after the first frame of the trial was due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_changed_ns: Option<u64>,
    /// Broadcasts that went along, in no other count of this trial; `None` unless they were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broadcasts: Option<Broadcasts>,
    /// Counts and latency per direction and flow group.
    pub streams: Vec<Stream>,
    /// Where the lost frames went, by name.
    #[serde(alias = "ledger")]
    pub drop_counters: Vec<DropCounter>,
    /// Is this trial to be believed?
    pub verdict: Verdict,
    /// Why the verdict is not `Valid`, one sentence each; also remarks on valid trials.
    pub reasons: Vec<String>,
    /// What the trial cost the device under test.
    pub cost: Cost,
    /// How quiet the machine and how exact the tester was.
    pub noise: Noise,
    /// When tester and device did not run, in a trial that has a witness of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub witnessed: Option<Witnessed>,
    /// What arrived, window by window, in a trial of forwarding capacity.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<Window>,
    /// What went wrong with frames, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
    /// What only its rig knows.
    #[serde(flatten)]
    pub details: Details,
}

/// Frames that were sent, received and lost in a trial, all directions together; fields of the trial in JSON.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct FrameCounts {
    /// Intended load in frames/s: at first, if the rate changes, and as a mean of bursts.
    pub offered_fps: f64,
    /// Frames that the tester was to send.
    pub offered: u64,
    /// Frames that left the tester.
    pub sent: u64,
    /// Frames that came back, each counted once.
    pub received: u64,
    /// Frames that did not: `sent - received`.
    pub lost: u64,
    /// Lost frames that no counter explains (negative: counters explain more than was lost).
    pub unexplained: i64,
}

/// What a witness saw in a trial.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Witnessed {
    /// Times in which a CPU of tester or device did not run what it should; times since the first frame was due.
    pub stops: Vec<Stop>,
    /// Frames lost meanwhile and by the queue that a stop filled; the others were lost while everything ran.
    pub lost_by_stops: u64,
}

/// Frames to the Ethernet broadcast address that went along with the test frames (RFC 2544, section 11.1).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Broadcasts {
    /// That left the tester.
    pub sent: u64,
    /// That a bridge, or whatever forwards them, brought to the other port.
    pub received: u64,
    /// That the device took in and did not pass on, as a router does: by its own counters, or, of an external DUT,
    /// all others. The drop counters have the rest.
    #[serde(default)]
    pub discarded: u64,
}

impl Trial {
    /// Whether test frames were offered, so that the counts of frames say something.
    pub fn has_frames(&self) -> bool {
        self.frames.is_some_and(|frames| frames.offered > 0 || frames.sent > 0)
    }

    /// The counts of frames; all 0 where there are no test frames.
    pub fn counts(&self) -> FrameCounts {
        self.frames.unwrap_or_default()
    }

    /// The trial with other counts of frames.
    pub fn counting(mut self, change: impl FnOnce(&mut FrameCounts)) -> Trial {
        change(self.frames.get_or_insert_default());
        self
    }

    /// Frames that a drop counter of this owner explains.
    pub fn dropped_by(&self, owner: Owner) -> u64 {
        self.drop_counters.iter().filter(|line| line.owner == owner).map(|line| line.frames).sum()
    }

    /// Frames that the drop counters of this name explain.
    pub fn dropped_at(&self, name: &str) -> u64 {
        self.drop_counters.iter().filter(|line| line.name == name).map(|line| line.frames).sum()
    }

    /// The load that was really sent, frames/s: less than intended where the tester was too slow.
    pub fn sent_fps(&self) -> f64 {
        self.counts().offered_fps * (1.0 + self.noise.rate_error)
    }

    /// The loss that a search or a procedure may count, 0..=1: all but what the tester lost itself.
    pub fn dut_loss_ratio(&self) -> f64 {
        let FrameCounts { sent, lost, .. } = self.counts();
        let lost = lost.saturating_sub(self.dropped_by(Owner::Tester));
        if sent == 0 { 0.0 } else { lost as f64 / sent as f64 }
    }

    /// The same without what was lost by stops of a CPU, where a witness saw them.
    pub fn running_loss_ratio(&self) -> f64 {
        let by_stops = self.witnessed.as_ref().map_or(0, |seen| seen.lost_by_stops);
        let FrameCounts { sent, lost, .. } = self.counts();
        let lost = lost.saturating_sub(self.dropped_by(Owner::Tester)).saturating_sub(by_stops);
        if sent == 0 { 0.0 } else { lost as f64 / sent as f64 }
    }
}

/// What a trial was for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    /// First contact; not used for any figure.
    WarmUp,
    /// One step of a search.
    #[default]
    Search,
    /// A point of the loss and latency curve.
    Curve,
    /// The tester's own ceiling: at full speed with nothing in between.
    Ceiling,
    /// At full speed, for what a device or a tool makes of it.
    FullSpeed,
    /// How exactly frames leave at an asked rate.
    Pacing,
    /// A trial of a procedure after the search: [`super::ProcedureResult`].
    Procedure,
}

impl Purpose {
    /// Is it sent as fast as the tester can, whatever becomes of it?
    pub fn is_full_speed(self) -> bool {
        matches!(self, Purpose::Ceiling | Purpose::FullSpeed)
    }
}

/// Is a trial to be believed?
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The tester did its part, the machine was quiet, the frame accounting balances.
    #[default]
    Valid,
    /// The tester could not send what was offered, or lost frames itself.
    TesterLimited,
    /// Steal, foreign load or pacing error beyond the limits.
    Noisy,
    /// The frame accounting does not balance, the test bed changed, the clock jumped.
    Invalid,
}

impl Verdict {
    /// The name used in records, reports and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Valid => "valid",
            Verdict::TesterLimited => "tester-limited",
            Verdict::Noisy => "noisy",
            Verdict::Invalid => "invalid",
        }
    }
}

/// One named place where frames were lost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DropCounter {
    /// Short name: `dut ring full`, `tester ring full`, `ip discards`, `conntrack full`, `filter`, ...
    pub name: String,
    /// The owner of the loss.
    pub owner: Owner,
    /// Frames.
    pub frames: u64,
    /// The counters that it was read from (`t0 tx_queue_0_xdp_xmit_errors`).
    pub source: String,
}

/// The owner of the frames that a drop counter lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Owner {
    /// Lost in the tester: never the DUT's fault.
    Tester,
    /// Lost in the device under test.
    Dut,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn what_the_tester_lost_is_never_loss_of_the_dut() {
        let line =
            |(owner, frames)| DropCounter { name: "ring".into(), owner, frames, source: "test".into() };
        let drop_counters = [(Owner::Tester, 60), (Owner::Dut, 40)].map(line).to_vec();
        let trial = fixture::quick().points[0].trials[0].clone();
        let trial =
            Trial { drop_counters, ..trial }.counting(|c| (c.sent, c.received, c.lost) = (1000, 900, 100));
        assert_eq!(trial.dut_loss_ratio(), 0.04);
        assert_eq!(trial.dropped_by(Owner::Tester), 60);
        assert_eq!(trial.counting(|c| (c.sent, c.lost) = (0, 0)).dut_loss_ratio(), 0.0);
    }
}
