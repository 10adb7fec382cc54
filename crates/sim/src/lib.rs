//! Flows that share a bottleneck, packet by packet, in virtual time. Pure: no clock, no I/O, no unsafe; the same scenario
//! gives the same outcome, bit by bit.
//!
//! ```text
//!            +- bottleneck --------------+      +- path of a group --------+
//! senders -> | weir_queue, link's rate   | ---> | rtt / 2, loss, reordering | ---> receivers
//!    ^       +---------------------------+      +---------------------------+          |
//!    +--------------------------- rtt / 2, nothing is lost ----------------------------+
//! ```
//! ```
//! use weir_queue::{Config, Time};
//! use weir_sim::{Buffer, Group, Scenario, cc::Name};
//!
//! let rtt = Time::from_ms(20);
//! let groups = vec![Group::new(1, Name::Cubic, rtt), Group::new(1, Name::Bbr3, rtt)];
//! let queue = Config::named("pie").unwrap();
//! let outcome = Scenario::new(queue, 10_000_000, Buffer::Bdp(2.0), groups, Time::from_s(5)).run().unwrap();
//! assert!(outcome.utilisation > 0.8 && outcome.jain > 0.5);
//! ```
//!
//! # What is real
//! The queues are those of `weir-queue`, with limits exact to the byte and departures on an exact clock. Senders have a
//! scoreboard, RACK with a tail loss probe, a retransmission timer, PRR, pacing by segment, delivery rate samples; each
//! congestion control follows its RFC or draft, which its file names.
//!
//! # What is a model
//! - All segments have one size. Hosts have no qdisc, no TSO or GSO bursts, no CPU time, unlimited receive windows.
//! - A segment reaches the queue when it is sent: all delay is behind the bottleneck. ACKs take no capacity, are never lost,
//!   and each says all that is new (unlimited SACK blocks, DSACK, counts of CE as in AccECN).
//! - No handshake, no end: a flow sends from its start until the simulation ends.
//! - Recoveries that were not necessary are recognized, and undone, by DSACK only (no F-RTO, no timestamps).
//! - Version 2 of BBR is its rules on version 3's engine; version 1 has no detection of policers.
//! - A packet in service keeps the rate that the link had at its start.
//!
//! # How it compares
//! `tests/expected.rs` has the runs. One Reno or CUBIC flow uses what the sawtooth says (0.6 points for Reno); K of Mathis'
//! formula from halvings is 1.2 to 1.4; shares of BBR 1 among 50 flows are near those measured by others up to a buffer of
//! 10 bandwidth-delay products. Two things differ:
//! - One BBR 1 flow against one CUBIC flow gets less than Ware's model (IMC 2019) says: .47 in place of .78 at 2
//!   bandwidth-delay products, .44 in place of .63 at 4. Its share swings, because its estimate of the smallest round trip
//!   contains CUBIC's queue after some of its probes and not after others.
//! - CUBIC in DualPI2 gets more than a Prague flow (2 to 1 at 10 ms): this Prague grows as at a round trip of 25 ms, the
//!   senders of the published tests of 2020 did not.
//!
//! # Files
//! - `scenario.rs` is the input, `outcome.rs` and `meter.rs` the result; `run.rs`, `world.rs`, `event.rs` run it
//! - `cc/`: one file or folder for each congestion control; `sender/`: loss recovery, round trips, delivery rate
//! - `path.rs`, `receiver.rs`, `supply.rs`, `segment.rs`: what is behind the queue
//! - `tests/expected.rs` compares with theory and with other test beds, `tests/ns3.rs` with ns-3, `cc/bbr3/tests.rs` with BBR's
//!   draft
#![forbid(unsafe_code)]

pub mod cc;
mod event;
mod meter;
mod outcome;
mod path;
mod receiver;
mod run;
mod scenario;
mod segment;
mod sender;
mod supply;
mod world;

pub use outcome::{FlowOutcome, FlowSeries, GroupOutcome, Outcome, Series, Sojourn, jain};
pub use scenario::{Buffer, Group, Impairment, Loss, Policer, Rate, Scenario, ScenarioError};
