//! Results of flows: for each interval, and at the end.

use serde::Serialize;

use crate::info::Info;

/// A time without progress.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Stall {
    /// When the last byte had been acknowledged, in s since the start.
    pub from_s: f64,
    /// When the next one was; `None`: never.
    pub to_s: Option<f64>,
}

/// One interval, of all flows.
#[derive(Debug, Clone, Serialize)]
pub struct Interval {
    /// Its number, from 0 on.
    pub number: u32,
    /// Its beginning and its end by the receiver's clock, in s since the start.
    pub from_s: f64,
    /// See `from_s`.
    pub to_s: f64,
    /// Rate at which the bytes of each flow arrived, in bits/s, over the real length of the interval.
    pub goodput_bits_per_s: Vec<f64>,
    /// Their sum.
    pub sum_bits_per_s: f64,
    /// Jain's index of the flows that had begun.
    pub jain: f64,
    /// Flows that are without progress now.
    pub stalled: Vec<u32>,
    /// TCP_INFO of each flow from the sender's kernel.
    pub info: Vec<Info>,
}

/// The outcome of a flow.
#[derive(Debug, Clone, Serialize)]
pub struct FlowOutcome {
    /// Its number.
    pub flow: u32,
    /// Its group, from 0 on.
    pub group: u32,
    /// Its congestion control, as the kernel says.
    pub cc: String,
    /// Its own address.
    pub from: String,
    /// When its first byte was written, in s since the start; `None` if none was.
    pub started_s: Option<f64>,
    /// When its first byte was read, in s since the start by the server's clock; `None` if it never arrived, or the server does
    /// not report it.
    pub arrived_s: Option<f64>,
    /// Bytes that it wrote.
    pub sent_bytes: u64,
    /// Bytes that arrived, late ones included.
    pub received_bytes: u64,
    /// Of these, after the deadline.
    pub late_bytes: u64,
    /// Bits that arrived until the deadline, per second of the time from its planned start to the deadline.
    pub goodput_bits_per_s: f64,
    /// TCP_INFO at the end.
    pub info: Info,
    /// Times without progress.
    pub stalls: Vec<Stall>,
    /// How it ended: `closed` (all has arrived), `reset` (as asked for), `cut` (not all had arrived in the time of grace),
    /// `ended by the server` (iperf3), or the error.
    pub end: String,
}

/// Results of all flows.
#[derive(Debug, Clone, Serialize)]
pub struct Outcome {
    /// Time from start to deadline by the receiver's clock, in s: rates are means over it.
    pub window_s: f64,
    /// Rate at which all flows arrived until the deadline, in bits/s.
    pub sum_bits_per_s: f64,
    /// Jain's index of the flows' goodputs.
    pub jain: f64,
    /// Time between the first and the last flow's first byte as they were written, each measured from its planned start, in s.
    pub start_spread_s: f64,
    /// The same as they were read by the server; `None` if it does not report it.
    pub arrival_spread_s: Option<f64>,
    /// The smallest round trip of all flows, in s: what the spread should not exceed.
    pub min_rtt_s: f64,
    /// Flows that were without progress for five retransmission timeouts, or never had any.
    pub stalled: Vec<u32>,
    /// Flows whose bytes did not all arrive.
    pub incomplete: Vec<u32>,
    /// Warnings for the reader of the results.
    pub notes: Vec<String>,
    /// The flows.
    pub flows: Vec<FlowOutcome>,
}

/// Difference between the largest and the smallest of these times; `None` without any.
pub(crate) fn spread(times: impl Iterator<Item = f64>) -> Option<f64> {
    let ends = times.fold(None, |ends: Option<(f64, f64)>, at| {
        Some(ends.map_or((at, at), |(first, last)| (first.min(at), last.max(at))))
    });
    ends.map(|(first, last)| last - first)
}

/// Jain's index of fairness: 1 if all are equal, 1/n if one has all; 1 for none.
pub fn jain(shares: impl Iterator<Item = f64>) -> f64 {
    let (n, sum, squares) =
        shares.fold((0.0, 0.0, 0.0), |(n, sum, squares), x| (n + 1.0, sum + x, squares + x * x));
    if squares == 0.0 { 1.0 } else { sum * sum / (n * squares) }
}
