//! The outcome of a simulation: figures and a series.

use serde::{Deserialize, Serialize};
use weir_queue::Counters;

/// Delay in the queue of packets that left it, in s. Percentiles are exact to 1.6 %.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Sojourn {
    /// Mean.
    pub mean_s: f64,
    /// First percentile.
    pub p1_s: f64,
    /// Median.
    pub p50_s: f64,
    /// 95th percentile.
    pub p95_s: f64,
    /// 99th percentile.
    pub p99_s: f64,
    /// Largest.
    pub max_s: f64,
}

/// A group of flows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GroupOutcome {
    /// Its congestion control.
    pub cc: String,
    /// Flows.
    pub flows: u32,
    /// Round trip without queues, in s.
    pub rtt_s: f64,
    /// Share of all bytes that left the bottleneck, 0 to 1.
    pub share: f64,
    /// That share over the group's share of the flows; 1 is fair.
    pub share_of_fair: f64,
    /// Jain's index within the group.
    pub jain: f64,
    /// Mean goodput of a flow, in bits/s.
    pub goodput_bits_per_s: f64,
    /// Segments that the queue dropped, per segment offered.
    pub loss: f64,
    /// Segments that left with CE, per segment that left.
    pub marks: f64,
}

/// One flow, from the end of the warm-up on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FlowOutcome {
    /// Index of its group.
    pub group: u32,
    /// Payload that arrived in order, in bits/s.
    pub goodput_bits_per_s: f64,
    /// Bytes that left the bottleneck, in bits/s on the link.
    pub throughput_bits_per_s: f64,
    /// Segments that reached the bottleneck.
    pub offered: u64,
    /// Of these, dropped by the queue.
    pub dropped: u64,
    /// Of those that left, with CE.
    pub marked: u64,
    /// Segments sent again.
    pub retransmitted: u64,
    /// Recoveries: windows with a loss.
    pub recoveries: u64,
    /// Expired retransmission timers.
    pub timeouts: u64,
    /// Longest time without a departure at the bottleneck, in s.
    pub longest_gap_s: f64,
    /// Nothing left the bottleneck for more than five timeouts: its figures are not those of a running flow.
    pub stalled: bool,
}

/// Samples of a flow, one for each interval.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct FlowSeries {
    /// Bytes that left the bottleneck, in bits/s.
    pub bits_per_s: Vec<f64>,
    /// Window at the end of the interval, in segments.
    pub cwnd: Vec<f64>,
    /// Smoothed round trip, in s.
    pub srtt_s: Vec<f64>,
}

/// Samples of all, from the start on.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Series {
    /// Length of an interval, in s.
    pub interval_s: f64,
    /// Bytes in the queue at the end of each.
    pub queue_bytes: Vec<u64>,
    /// The flows, in the order of the groups.
    pub flows: Vec<FlowSeries>,
}

/// What a simulation shows. Figures count from the end of the warm-up on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Bytes that left, over what the link could have sent.
    pub utilisation: f64,
    /// Share of the time in which the link was idle and nothing was queued.
    pub idle_empty: f64,
    /// Share of the time in which the link was idle although something was queued: only shapers do that.
    pub idle_with_backlog: f64,
    /// Bytes of the buffer.
    pub buffer_bytes: u64,
    /// Jain's index of the flows' throughputs.
    pub jain: f64,
    /// Its smallest value in a second after the flows have converged.
    pub jain_min_after_convergence: Option<f64>,
    /// First second, from the start on, of the first five in which it was at least 0.9; none if there are none.
    pub convergence_s: Option<f64>,
    /// Delay in the queue.
    pub sojourn: Sojourn,
    /// What the queue did, from the start on.
    pub queue: Counters,
    /// The groups.
    pub groups: Vec<GroupOutcome>,
    /// The flows, in the order of the groups.
    pub flows: Vec<FlowOutcome>,
    /// Samples.
    pub series: Series,
}

impl Outcome {
    /// Segments that the queue dropped, per segment offered, all flows together.
    pub fn loss(&self) -> f64 {
        let sum = |of: fn(&FlowOutcome) -> u64| self.flows.iter().map(of).sum::<u64>() as f64;
        sum(|flow| flow.dropped) / sum(|flow| flow.offered).max(1.0)
    }
}

/// Jain's index of fairness: 1 if all are equal, 1/n if one has all; 1 for none.
pub fn jain(shares: impl Iterator<Item = f64>) -> f64 {
    let (mut n, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for share in shares {
        n += 1.0;
        sum += share;
        squares += share * share;
    }
    if squares == 0.0 { 1.0 } else { sum * sum / (n * squares) }
}

impl Series {
    /// Jain's index of each whole second, of the flows that had started before it.
    pub fn jain_per_second(&self) -> Vec<f64> {
        let per_second = (1.0 / self.interval_s).round().max(1.0) as usize;
        let seconds = self.queue_bytes.len() / per_second;
        let sum = |flow: &FlowSeries, s: usize| -> f64 {
            flow.bits_per_s[s * per_second..(s + 1) * per_second].iter().sum()
        };
        (0..seconds)
            .map(|s| {
                let started =
                    |flow: &&FlowSeries| flow.cwnd[..=s * per_second].last().is_some_and(|&cwnd| cwnd > 0.0);
                jain(self.flows.iter().filter(started).map(|flow| sum(flow, s)))
            })
            .collect()
    }

    /// First second of the first five with an index of at least 0.9, and the smallest index from there on.
    pub fn convergence(&self) -> Option<(f64, f64)> {
        convergence(&self.jain_per_second())
    }
}

fn convergence(jain: &[f64]) -> Option<(f64, f64)> {
    let first = jain.windows(5).position(|five| five.iter().all(|&index| index >= 0.9))?;
    let smallest = jain[first..].iter().copied().fold(1.0, f64::min);
    Some((first as f64, smallest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jain_is_one_for_equals_and_one_nth_for_one() {
        for (shares, expected) in [
            (vec![3.0, 3.0, 3.0], 1.0),
            (vec![1.0, 0.0, 0.0, 0.0], 0.25),
            (vec![0.75, 0.25], 0.8),
            (vec![], 1.0),
        ] {
            assert!((jain(shares.iter().copied()) - expected).abs() < 1e-12, "{shares:?}");
        }
    }

    #[test]
    fn flows_have_converged_when_five_seconds_are_fair() {
        let jain = [0.5, 0.95, 0.8, 0.91, 0.95, 0.99, 0.92, 0.93, 0.85];
        assert_eq!(convergence(&jain), Some((3.0, 0.85)));
        assert_eq!(convergence(&[0.5; 9]), None);
    }
}
