//! Shares of flows at a bottleneck, for the record. Pure.

use serde::{Deserialize, Serialize};
use weir_sim::{GroupOutcome, Outcome, Scenario, Sojourn};

use super::history::Response;
use weir_lab::frames::lateness::Lateness;
use weir_record::record::Detail;

/// What a simulation found, without its series.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Shared {
    pub(super) utilisation: f64,
    pub(super) idle_empty: f64,
    pub(super) jain: f64,
    pub(super) jain_least: Option<f64>,
    pub(super) convergence_s: Option<f64>,
    pub(super) sojourn: Sojourn,
    pub(super) groups: Vec<GroupOutcome>,
    /// Dropped by the queue, per segment offered, all flows together.
    pub(super) loss: f64,
    /// Flows of which nothing left the bottleneck for long: no figure averages over them in silence.
    pub(super) stalled: usize,
    /// Why the figures of a real bed do not count.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) invalid: Vec<String>,
    /// How late frames left the bottleneck of a real bed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) lateness: Option<Lateness>,
    /// Of Reno alone: K of Mathis' formula, rate = segment / round trip * K / sqrt(p).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) mathis: Option<Mathis>,
    /// What followed each change of the rate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) responses: Vec<Response>,
}

/// K of Mathis' formula by two meanings of p.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Mathis {
    /// Windows halved, per segment sent.
    pub(super) by_halvings: f64,
    /// Segments dropped, per segment sent.
    pub(super) by_losses: f64,
}

impl Mathis {
    /// `None` if there are other senders than Reno, or nothing was lost.
    fn of(outcome: &Outcome, scenario: &Scenario) -> Option<Mathis> {
        let sum = |of: fn(&weir_sim::FlowOutcome) -> u64| outcome.flows.iter().map(of).sum::<u64>() as f64;
        let (sent, drops) = (sum(|flow| flow.offered), sum(|flow| flow.dropped));
        let halvings = sum(|flow| flow.recoveries);
        let flows = outcome.flows.len() as f64;
        if outcome.groups.iter().any(|group| group.cc != "reno") || halvings == 0.0 || drops == 0.0 {
            return None;
        }
        let rtt = |group: &GroupOutcome| group.rtt_s * f64::from(group.flows);
        let rtt_s = outcome.groups.iter().map(rtt).sum::<f64>() / flows + outcome.sojourn.mean_s;
        let time_s = (scenario.duration - scenario.warm_up).secs();
        let window = (sent - drops) / flows / time_s * rtt_s;
        Some(Mathis {
            by_halvings: window * (halvings / sent).sqrt(),
            by_losses: window * (drops / sent).sqrt(),
        })
    }
}

impl Detail for Shared {
    const KEY: &'static str = "bottleneck";
}

impl Shared {
    pub(super) fn of(outcome: Outcome, scenario: &Scenario) -> Shared {
        Shared {
            mathis: Mathis::of(&outcome, scenario),
            responses: Response::all(&outcome.series, scenario),
            utilisation: outcome.utilisation,
            idle_empty: outcome.idle_empty,
            jain: outcome.jain,
            jain_least: outcome.jain_min_after_convergence,
            convergence_s: outcome.convergence_s,
            sojourn: outcome.sojourn,
            loss: outcome.loss(),
            stalled: outcome.flows.iter().filter(|flow| flow.stalled).count(),
            groups: outcome.groups,
            invalid: Vec::new(),
            lateness: None,
        }
    }
}
