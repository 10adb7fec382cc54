//! What the trials found, and the figures of a point. Pure.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_cpe::{FloodKind, Step, Summary, TrafficSummary};

use weir_record::figure::{figure, unit};
use weir_record::record::{Bound, Detail, Figure, Statistic};

use super::churned::Churned;
use super::device::{Program, RestartTimes};
use super::many::Many;

/// Of the section, and of the figures in records.
pub(super) const ID: &str = "bng";
/// Set-ups that come slower than this share of the rate did not keep up.
const KEPT_UP: f64 = 0.95;
/// Where a smaller share of the frames is lost, the tester did not offer more than the device forwards.
const ARRIVED: f64 = 0.005;
const MBIT_PER_S: &str = "Mbit/s";
const KIB: &str = "KiB";
const PERCENT: &str = "%";
const BYTES: &str = "bytes";
const SESSIONS_UNIT: &str = "sessions";

/// Set-ups at one rate.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct SetUps {
    pub(super) asked_per_s: f64,
    pub(super) devices: u64,
    pub(super) up: u64,
    /// Devices that failed, by step.
    pub(super) failures: Vec<(String, u64)>,
    pub(super) starts_per_s: f64,
    pub(super) reached_per_s: f64,
    /// Messages of DHCP, ARP, PPPoE discovery and PPP that were sent again.
    pub(super) sent_again: u64,
    /// Devices that have no prefix, though they negotiated IPv6.
    #[serde(default)]
    pub(super) without_prefix: u64,
    /// Messages and first packets of the set-ups and releases, in both directions.
    #[serde(default)]
    pub(super) frames: u64,
    /// p50, p99, maximum.
    pub(super) first_packet_s: Option<[f64; 3]>,
    /// Frames that the emulator lost itself.
    pub(super) own_losses: u64,
}

impl Detail for SetUps {
    const KEY: &'static str = "bng_set_ups";
}

impl SetUps {
    pub(super) fn of(asked_per_s: f64, summary: &Summary) -> SetUps {
        let again = summary.retransmissions;
        SetUps {
            asked_per_s,
            devices: summary.devices,
            up: summary.up,
            failures: failures(summary),
            starts_per_s: summary.starts_per_s.unwrap_or(asked_per_s),
            reached_per_s: summary.setups_per_s.unwrap_or(0.0),
            sent_again: again.discover + again.request + again.arp + again.padi + again.padr + again.ppp,
            without_prefix: if summary.messages.solicitations > 0 {
                summary.up - summary.prefixes
            } else {
                0
            },
            frames: summary.set_up_frames(),
            first_packet_s: summary
                .first_packet
                .map(|times| [times.p50, times.p99, times.max].map(|time| time.as_secs_f64())),
            own_losses: own_losses(summary),
        }
    }

    /// Whether every device came up, and as fast as asked.
    pub(super) fn passes(&self) -> bool {
        let kept_up = self.reached_per_s >= KEPT_UP * self.asked_per_s || self.devices < 10;
        let is_whole = self.up == self.devices && self.failures.is_empty() && self.without_prefix == 0;
        is_whole && self.sent_again == 0 && kept_up
    }

    /// Whether the emulator could not start so many, or lost frames itself.
    pub(super) fn is_tester_limited(&self) -> bool {
        self.starts_per_s < KEPT_UP * self.asked_per_s || self.own_losses > 0
    }
}

pub(super) fn failures(summary: &Summary) -> Vec<(String, u64)> {
    by_step(&summary.failures)
}

fn by_step(steps: &[(Step, u64)]) -> Vec<(String, u64)> {
    steps.iter().map(|(step, count)| (step.name().to_string(), *count)).collect()
}

pub(super) fn own_losses(summary: &Summary) -> u64 {
    summary.own_losses.iter().map(|(_, frames)| frames).sum()
}

/// Frames in both directions with a number of sessions.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Forwarded {
    pub(super) sessions: u32,
    pub(super) up: u64,
    pub(super) from: Counted,
    pub(super) to: Counted,
    /// Devices that failed, by step.
    pub(super) failures: Vec<(String, u64)>,
    pub(super) foreign: u64,
    /// Bytes of memory that each session took in node and control program.
    pub(super) memory_bytes: Option<[f64; 2]>,
    pub(super) own_losses: u64,
}

impl Detail for Forwarded {
    const KEY: &'static str = "bng_forwarded";
}

/// Frames in one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Counted {
    pub(super) sent: u64,
    pub(super) received: u64,
    pub(super) duplicated: u64,
    pub(super) reordered: u64,
    /// Of those sent and received, frames of IPv6.
    #[serde(default)]
    pub(super) sent6: u64,
    #[serde(default)]
    pub(super) received6: u64,
    pub(super) seconds: f64,
}

impl Counted {
    pub(super) fn of(traffic: Option<TrafficSummary>) -> Counted {
        let traffic = traffic.unwrap_or_default();
        Counted {
            sent: traffic.sent,
            received: traffic.received,
            duplicated: traffic.duplicated,
            reordered: traffic.reordered,
            sent6: traffic.sent6,
            received6: traffic.received6,
            seconds: traffic.duration.as_secs_f64(),
        }
    }

    pub(super) fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.received)
    }

    fn lost6(&self) -> u64 {
        self.sent6.saturating_sub(self.received6)
    }

    pub(super) fn received_fps(&self) -> f64 {
        if self.seconds > 0.0 { self.received as f64 / self.seconds } else { 0.0 }
    }

    /// Whether nearly everything arrived, so that more may.
    fn is_all(&self) -> bool {
        self.lost() as f64 <= ARRIVED * self.sent as f64
    }
}

impl Forwarded {
    pub(super) fn of(sessions: u32, summary: &Summary, memory_bytes: Option<[f64; 2]>) -> Forwarded {
        Forwarded {
            sessions,
            up: summary.up,
            from: Counted::of(summary.from_subscriber),
            to: Counted::of(summary.to_subscriber),
            failures: failures(summary),
            foreign: summary.foreign,
            memory_bytes,
            own_losses: own_losses(summary),
        }
    }
}

/// Frames that were dropped, by reason.
pub(super) type Drops = BTreeMap<String, u64>;

/// What was dropped of the messages of a cold start.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct ColdDrops {
    pub(super) node: Drops,
    pub(super) control: Drops,
}

/// All devices at once, then idle.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Cold {
    pub(super) devices: u64,
    pub(super) up: u64,
    /// Devices that failed, by step.
    pub(super) failures: Vec<(String, u64)>,
    /// Failures after which devices began again, by step.
    #[serde(default)]
    pub(super) redials: Vec<(String, u64)>,
    /// From the first start until all were up.
    pub(super) seconds: Option<f64>,
    pub(super) sent_again: u64,
    #[serde(default)]
    pub(super) drops: ColdDrops,
    /// Share of a CPU that idle sessions take in node and control program.
    pub(super) idle_cpu: Option<f64>,
    /// Sessions that the control program has after all were released.
    pub(super) left_behind: Option<u64>,
    pub(super) own_losses: u64,
}

impl Detail for Cold {
    const KEY: &'static str = "bng_cold";
}

impl Cold {
    pub(super) fn of(
        summary: &Summary,
        idle_cpu: Option<f64>,
        left_behind: Option<u64>,
        drops: ColdDrops,
    ) -> Cold {
        let set_ups = SetUps::of(0.0, summary);
        Cold {
            devices: summary.devices,
            up: summary.up,
            failures: set_ups.failures,
            redials: by_step(&summary.redials),
            drops,
            seconds: summary.all_up.map(|time| time.as_secs_f64()),
            sent_again: set_ups.sent_again,
            idle_cpu,
            left_behind,
            own_losses: set_ups.own_losses,
        }
    }
}

/// Packets of sessions beside a flood.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Stormed {
    /// Whether the flood was of PADI, else of frames on a line that the BNG does not have.
    pub(super) is_padi: bool,
    pub(super) flood: u64,
    pub(super) from: Counted,
    pub(super) to: Counted,
    /// 99th percentile of the time that packets from and to subscribers took.
    pub(super) p99_s: Option<[f64; 2]>,
    /// Frames that the node dropped, by reason.
    pub(super) drops: Drops,
    pub(super) own_losses: u64,
}

impl Detail for Stormed {
    const KEY: &'static str = "bng_stormed";
}

impl Stormed {
    pub(super) fn of(kind: FloodKind, summary: &Summary, drops: Drops) -> Stormed {
        let p99 = |traffic: Option<TrafficSummary>| Some(traffic?.latency?.p99.as_secs_f64());
        Stormed {
            is_padi: kind == FloodKind::Padi,
            flood: summary.flood,
            from: Counted::of(summary.from_subscriber),
            to: Counted::of(summary.to_subscriber),
            p99_s: p99(summary.from_subscriber).zip(p99(summary.to_subscriber)).map(|(from, to)| [from, to]),
            drops,
            own_losses: own_losses(summary),
        }
    }

    /// Share of the flood that the node dropped.
    fn dropped(&self) -> f64 {
        self.drops.values().sum::<u64>() as f64 / self.flood.max(1) as f64
    }

    /// Frames that the node dropped and that are not of the flood, for which these reasons are.
    fn dropped_beside(&self) -> u64 {
        const OF_FLOOD: [&str; 4] = ["punt_pppoe_discovery", "punt_full", "no_control", "unknown_vlan"];
        self.drops
            .iter()
            .filter(|(reason, _)| !OF_FLOOD.contains(&&***reason))
            .map(|(_, frames)| frames)
            .sum()
    }
}

/// Traffic while a program was killed and started again.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Restarted {
    /// Whether it was the node, else the control program.
    #[serde(default)]
    pub(super) is_node: bool,
    /// Sessions of the control program before and after.
    #[serde(default)]
    pub(super) before_after: [u64; 2],
    pub(super) sessions: u32,
    pub(super) from: Counted,
    pub(super) to: Counted,
    /// From the kill until the program was ready.
    pub(super) seconds: f64,
}

impl Restarted {
    pub(super) fn of(what: Program, sessions: u32, summary: &Summary, times: RestartTimes) -> Restarted {
        let (from, to) = (Counted::of(summary.from_subscriber), Counted::of(summary.to_subscriber));
        let RestartTimes { seconds, sessions: before_after } = times;
        Restarted { is_node: what == Program::Node, before_after, sessions, from, to, seconds }
    }
}

impl Detail for Restarted {
    const KEY: &'static str = "bng_restarted";
}

/// TCP to a subscriber with a plan of 20 Mbit/s.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Goodput {
    pub(super) bits_per_s: f64,
}

impl Detail for Goodput {
    const KEY: &'static str = "bng_goodput";
}

/// What the rounds of a point found.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The highest rate of each round that passed, and whether a higher one was tried.
    pub(super) set_ups: Vec<(SetUps, bool)>,
    /// At half of that rate.
    pub(super) half: Vec<SetUps>,
    pub(super) forwarded: Vec<Forwarded>,
    pub(super) restarted: Vec<Restarted>,
    pub(super) cold: Vec<Cold>,
    pub(super) churned: Vec<Churned>,
    pub(super) stormed: Vec<Stormed>,
    /// Mbit/s of TCP through a plan.
    pub(super) goodput: Vec<f64>,
    pub(super) many: Vec<Many>,
}

/// `frames/s from subscriber, 1000 sessions`.
pub(super) fn forwarding_name(direction: &str, sessions: u32) -> String {
    format!("forwarded {direction} subscriber, {sessions} sessions")
}

pub(super) const SESSIONS: &str = "sessions online";
pub(super) const SET_UP_RATE: &str = "set-up rate";
pub(super) const FRAMES: &str = "frames of a session until it has ended";
pub(super) const FIRST_PACKET: [&str; 3] =
    ["time to first packet, p50", "time to first packet, p99", "time to first packet, maximum"];
pub(super) const MEMORY: [&str; 2] = ["memory per session, node", "memory per session, control program"];
pub(super) const RESTART_LOSS: &str = "frames lost by a restart of the control program";
pub(super) const RESTART_LOSS6: &str = "IPv6 frames lost by a restart of the control program";
pub(super) const NODE_LOSS: &str = "frames lost by a restart of the node";
pub(super) const RESTARTED: &str = "sessions that a restart of node or control program ended";
pub(super) const NODE_RESTART: &str = "restart of the node until it has all sessions";
pub(super) const COLD_START: &str = "cold start until all are up";
pub(super) const COLD_FAILED: &str = "cold start, devices not up";
pub(super) const COLD_LEFT: &str = "cold start, sessions left behind";
pub(super) const IDLE_CPU: &str = "CPU of idle sessions";
pub(super) const CHURN_RATE: &str = "sessions that ended and began again";
pub(super) const CHURN_DIFFERENCE: &str = "churn, difference of the counters at both ends";
pub(super) const CHURN_BYTES: &str = "churn, difference of the bytes at both ends";
pub(super) const CHURN_UNACCOUNTED: &str = "churn, sessions without Start or Stop";
pub(super) const CHURN_TOLD: &str = "churn, difference of accounting and node";
pub(super) const CHURN_LEFT: &str = "churn, sessions left behind";
pub(super) const STORM_LOST: &str = "frames lost beside a flood of PADI";
pub(super) const STORM_LOST6: &str = "IPv6 frames lost beside a flood of PADI";
pub(super) const STORM_DROPS: &str = "frames of sessions that the node dropped beside a flood of PADI";
pub(super) const STORM_DROPPED: &str = "PADI of the flood dropped before the control program";
pub(super) const STORM_P99: &str = "p99 beside a flood of PADI by p99 beside unknown_vlan";
pub(super) const MANY_ERROR: &str = "TCP at 1 Mbit/s, largest difference of a byte counter";
pub(super) const MANY_DELAY: [&str; 2] =
    ["TCP at 1 Mbit/s, time in the node, p50", "TCP at 1 Mbit/s, time in the node, p99"];
pub(super) const GOODPUT: &str = "TCP through a plan of 20 Mbit/s";

impl Found {
    /// The figures; those without values are left out.
    pub(super) fn figures(&self) -> Vec<Figure> {
        let median = |name: &str, unit: &str, values: Vec<f64>| figure(name, unit, Statistic::Median, values);
        let rates = self.set_ups.iter().map(|(set_ups, _)| set_ups.reached_per_s).collect();
        let mut rate = median(SET_UP_RATE, "1/s", rates);
        if self.set_ups.iter().any(|(_, is_bounded)| !is_bounded) {
            rate.bound = Bound::AtLeast;
        }
        let most = self.sessions().into_iter().max();
        let of_most = || self.forwarded.iter().filter(|forwarded| Some(forwarded.sessions) == most);
        let online = of_most().map(|forwarded| forwarded.up as f64).collect();
        let mut figures = vec![rate, median(SESSIONS, "sessions", online)];
        for (place, name) in FIRST_PACKET.into_iter().enumerate() {
            let times = self.half.iter().filter_map(|set_ups| Some(set_ups.first_packet_s?[place]));
            figures.push(median(name, unit::SECONDS, times.collect()));
        }
        let frames = self.half.iter().filter(|set_ups| set_ups.frames > 0 && set_ups.up > 0);
        let of_each = frames.map(|set_ups| set_ups.frames as f64 / set_ups.up as f64);
        figures.push(median(FRAMES, unit::FRAMES, of_each.collect()));
        figures.extend(self.sessions().into_iter().flat_map(|sessions| self.forwarding(sessions)));
        for (place, name) in MEMORY.into_iter().enumerate() {
            // Of the most sessions: what is there anyway counts least.
            let kib = of_most().filter_map(|forwarded| Some(forwarded.memory_bytes?[place] / 1024.0));
            figures.push(median(name, KIB, kib.collect()));
        }
        let control = self.restarted.iter().filter(|restarted| !restarted.is_node);
        let lost = control.map(|restarted| (restarted.from.lost() + restarted.to.lost()) as f64);
        figures.push(median(RESTART_LOSS, unit::FRAMES, lost.collect()));
        let control = self.restarted.iter().filter(|restarted| !restarted.is_node);
        let lost6 = control.filter_map(|restarted| lost6(&restarted.from, &restarted.to));
        figures.push(median(RESTART_LOSS6, unit::FRAMES, lost6.collect()));
        figures.push(median(GOODPUT, MBIT_PER_S, self.goodput.clone()));
        let many = |of: &dyn Fn(&Many) -> Option<f64>| self.many.iter().filter_map(of).collect();
        figures.push(median(MANY_ERROR, PERCENT, many(&|many| Some(many.error() * 100.0))));
        for (place, name) in MANY_DELAY.into_iter().enumerate() {
            figures.push(median(name, unit::SECONDS, many(&|many| Some(many.delay_s?[place]))));
        }
        figures.extend(self.of_life());
        figures.retain(|figure| !figure.values.is_empty());
        figures
    }

    /// What happens to sessions.
    fn of_life(&self) -> Vec<Figure> {
        let median = |name: &str, unit: &str, values: Vec<f64>| figure(name, unit, Statistic::Median, values);
        let ended = |restarted: &Restarted| {
            let [before, after] = restarted.before_after;
            before.abs_diff(after) as f64
        };
        let cold = |of: &dyn Fn(&Cold) -> Option<f64>| self.cold.iter().filter_map(of).collect();
        let churn = |of: &dyn Fn(&Churned) -> Option<f64>| self.churned.iter().filter_map(of).collect();
        let node = || self.restarted.iter().filter(|restarted| restarted.is_node);
        vec![
            median(RESTARTED, SESSIONS_UNIT, self.restarted.iter().map(ended).collect()),
            median(NODE_RESTART, unit::SECONDS, node().map(|restarted| restarted.seconds).collect()),
            median(
                NODE_LOSS,
                unit::FRAMES,
                node().map(|restarted| (restarted.from.lost() + restarted.to.lost()) as f64).collect(),
            ),
            median(COLD_START, unit::SECONDS, cold(&|cold| cold.seconds)),
            median(COLD_FAILED, SESSIONS_UNIT, cold(&|cold| Some((cold.devices - cold.up) as f64))),
            median(IDLE_CPU, PERCENT, cold(&|cold| Some(cold.idle_cpu? * 100.0))),
            median(COLD_LEFT, SESSIONS_UNIT, cold(&|cold| Some(cold.left_behind? as f64))),
            median(CHURN_RATE, "1/s", churn(&|churned| Some(churned.ended as f64 / churned.seconds))),
            median(CHURN_DIFFERENCE, unit::FRAMES, churn(&|churned| Some(churned.difference()?[0] as f64))),
            median(CHURN_BYTES, BYTES, churn(&|churned| Some(churned.difference()?[1] as f64))),
            median(CHURN_UNACCOUNTED, SESSIONS_UNIT, churn(&|churned| Some(churned.unaccounted()? as f64))),
            median(CHURN_TOLD, BYTES, churn(&|churned| Some(churned.accounting_difference()?[1] as f64))),
            median(CHURN_LEFT, SESSIONS_UNIT, churn(&|churned| Some(churned.left_behind? as f64))),
            median(
                STORM_LOST,
                unit::FRAMES,
                self.beside_padi(|stormed| Some((stormed.from.lost() + stormed.to.lost()) as f64)),
            ),
            median(STORM_LOST6, unit::FRAMES, self.beside_padi(|stormed| lost6(&stormed.from, &stormed.to))),
            median(
                STORM_DROPS,
                unit::FRAMES,
                self.beside_padi(|stormed| Some(stormed.dropped_beside() as f64)),
            ),
            median(STORM_DROPPED, PERCENT, self.beside_padi(|stormed| Some(stormed.dropped() * 100.0))),
            median(STORM_P99, unit::RATIO, self.storm_ratios()),
        ]
    }

    fn beside_padi(&self, of: impl Fn(&Stormed) -> Option<f64>) -> Vec<f64> {
        self.stormed.iter().filter(|stormed| stormed.is_padi).filter_map(of).collect()
    }

    /// Longest of both directions' p99 beside PADI by that beside the flood that follows, which the node drops at once.
    fn storm_ratios(&self) -> Vec<f64> {
        let p99 = |stormed: &Stormed| stormed.p99_s.map(|[from, to]| from.max(to));
        let of = |pair: &[Stormed]| {
            let [padi, other] = pair else { return None };
            (padi.is_padi && !other.is_padi).then(|| Some(p99(padi)? / p99(other)?)).flatten()
        };
        self.stormed.windows(2).filter_map(of).collect()
    }

    /// Numbers of sessions, in the order of the plan.
    fn sessions(&self) -> Vec<u32> {
        let mut list: Vec<u32> = Vec::new();
        for forwarded in &self.forwarded {
            if !list.contains(&forwarded.sessions) {
                list.push(forwarded.sessions);
            }
        }
        list
    }

    fn forwarding(&self, sessions: u32) -> Vec<Figure> {
        let own: Vec<&Forwarded> =
            self.forwarded.iter().filter(|forwarded| forwarded.sessions == sessions).collect();
        ["from", "to"]
            .map(|direction| {
                let of =
                    |forwarded: &Forwarded| if direction == "from" { forwarded.from } else { forwarded.to };
                let values = own.iter().map(|forwarded| of(forwarded).received_fps()).collect();
                let name = forwarding_name(direction, sessions);
                let mut found = figure(name, unit::FRAMES_PER_S, Statistic::Median, values);
                // Frames that the emulator lost itself may have been forwarded.
                if own.iter().all(|forwarded| of(forwarded).is_all() || forwarded.own_losses > 0) {
                    found.bound = Bound::AtLeast;
                }
                found
            })
            .into()
    }

    /// What happened to the messages of each cold start.
    fn cold_starts(&self) -> impl Iterator<Item = String> {
        self.cold.iter().map(|cold| {
            format!(
                "Cold start: {} messages sent again; devices began again after failures: {}; not up: {}; dropped by the node: {}; by the \
                 control program: {}; lost by the emulator: {}.",
                cold.sent_again,
                counts(cold.redials.iter().map(|(step, count)| (step, *count))),
                counts(cold.failures.iter().map(|(step, count)| (step, *count))),
                counts(cold.drops.node.iter().map(|(reason, count)| (reason, *count))),
                counts(cold.drops.control.iter().map(|(reason, count)| (reason, *count))),
                cold.own_losses
            )
        })
    }

    /// What is irregular: sessions that did not come up, frames at the wrong session, losses of the emulator.
    pub(super) fn irregular(&self) -> Vec<String> {
        let mut found = Vec::new();
        for forwarded in &self.forwarded {
            if forwarded.up < u64::from(forwarded.sessions) {
                let steps =
                    forwarded.failures.iter().map(|(step, count)| format!("{count} failed at {step}"));
                let steps = steps.collect::<Vec<_>>().join(", ");
                found.push(format!("{} of {} sessions came up: {steps}.", forwarded.up, forwarded.sessions));
            }
            if forwarded.foreign > 0 {
                found.push(format!("{} frames for one session arrived at another one.", forwarded.foreign));
            }
            if forwarded.from.is_all() && forwarded.to.is_all() {
                found.push(format!(
                    "The tester is the limit with {} sessions: its frames were forwarded.",
                    forwarded.sessions
                ));
            }
        }
        found.extend(self.cold_starts());
        for many in self.many.iter().filter(|many| many.left_out_s > 0.0) {
            found.push(format!(
                "This machine stood still for {:.1} s while TCP sent to subscribers: {:.0} s of {:.0} s are left out.",
                many.stopped_s,
                many.left_out_s,
                many.seconds + many.left_out_s
            ));
        }
        if self.set_ups.iter().any(|(_, is_bounded)| !is_bounded) {
            found.push(
                "The set-up rate is a lower bound: the highest rate that was tried had no failure.".into(),
            );
        }
        found.sort();
        found.dedup();
        found
    }
}

/// `padi 3, padr 1`, or `none`.
fn counts<'a>(all: impl Iterator<Item = (&'a String, u64)>) -> String {
    let all: Vec<String> = all.map(|(name, count)| format!("{name} {count}")).collect();
    if all.is_empty() { "none".into() } else { all.join(", ") }
}

/// Frames of IPv6 that were lost; `None`: none was sent.
fn lost6(from: &Counted, to: &Counted) -> Option<f64> {
    (from.sent6 + to.sent6 > 0).then(|| (from.lost6() + to.lost6()) as f64)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn found(rate: f64, fps: f64) -> Found {
        let set_ups = SetUps {
            asked_per_s: rate,
            devices: 100,
            up: 100,
            starts_per_s: rate,
            reached_per_s: rate,
            first_packet_s: Some([0.001, 0.004, 0.02]),
            ..SetUps::default()
        };
        let counted =
            Counted { sent: 2 * fps as u64, received: fps as u64, seconds: 1.0, ..Counted::default() };
        let forwarded = |sessions: u32| Forwarded {
            sessions,
            up: sessions.into(),
            from: counted,
            to: counted,
            memory_bytes: Some([640.0, 1024.0]),
            ..Forwarded::default()
        };
        let all = Counted { sent: 10, received: 10, seconds: 1.0, ..Counted::default() };
        Found {
            set_ups: vec![(set_ups.clone(), true)],
            half: vec![set_ups],
            forwarded: vec![forwarded(1), forwarded(1000)],
            restarted: vec![Restarted { from: all, to: all, seconds: 0.3, ..Restarted::default() }],
            goodput: vec![19.1],
            ..Found::default()
        }
    }

    #[test]
    fn figures_have_names_units_and_bounds() {
        let mut found = found(5000.0, 1e5);
        found.set_ups[0].1 = false;
        let figures = found.figures();
        let names: Vec<String> = figures
            .iter()
            .map(|figure| format!("{} [{}] {:?}", figure.name, figure.unit, figure.bound))
            .collect();
        assert_eq!(
            names,
            [
                "set-up rate [1/s] AtLeast",
                "sessions online [sessions] Exact",
                "time to first packet, p50 [s] Exact",
                "time to first packet, p99 [s] Exact",
                "time to first packet, maximum [s] Exact",
                "forwarded from subscriber, 1 sessions [frames/s] Exact",
                "forwarded to subscriber, 1 sessions [frames/s] Exact",
                "forwarded from subscriber, 1000 sessions [frames/s] Exact",
                "forwarded to subscriber, 1000 sessions [frames/s] Exact",
                "memory per session, node [KiB] Exact",
                "memory per session, control program [KiB] Exact",
                "frames lost by a restart of the control program [frames] Exact",
                "TCP through a plan of 20 Mbit/s [Mbit/s] Exact",
                "sessions that a restart of node or control program ended [sessions] Exact",
            ]
        );
        assert_eq!(found.irregular().len(), 1, "{:?}", found.irregular());
    }

    #[test]
    fn what_was_lost_and_where_is_said_of_cold_starts_floods_and_restarts() {
        let drops = |all: &[(&str, u64)]| -> Drops {
            all.iter().map(|(reason, count)| (reason.to_string(), *count)).collect()
        };
        let cold = Cold {
            devices: 10,
            up: 9,
            failures: vec![("padi".into(), 1)],
            redials: vec![("padr".into(), 4)],
            sent_again: 7,
            drops: ColdDrops { node: drops(&[("punt_full", 5)]), control: Drops::default() },
            ..Cold::default()
        };
        let both = Counted { sent: 20, received: 18, sent6: 10, received6: 9, ..Counted::default() };
        let stormed = Stormed {
            is_padi: true,
            flood: 100,
            from: both,
            to: both,
            drops: drops(&[("punt_pppoe_discovery", 90), ("queue_full", 2)]),
            ..Stormed::default()
        };
        let restarted = Restarted { from: both, to: both, ..Restarted::default() };
        let node = Restarted { is_node: true, ..restarted.clone() };
        let found = Found {
            cold: vec![cold],
            stormed: vec![stormed],
            restarted: vec![restarted, node],
            ..Found::default()
        };
        let figures = found.figures();
        let value =
            |name: &str| figures.iter().find(|figure| figure.name == name).and_then(|figure| figure.value);
        let rows = [
            (COLD_FAILED, 1.0),
            (STORM_LOST, 4.0),
            (STORM_LOST6, 2.0),
            (STORM_DROPS, 2.0),
            (RESTART_LOSS, 4.0),
            (RESTART_LOSS6, 2.0),
            (NODE_LOSS, 4.0),
        ];
        for (name, wanted) in rows {
            assert_eq!(value(name), Some(wanted), "{name}");
        }
        let said = "Cold start: 7 messages sent again; devices began again after failures: padr 4; not up: padi 1; dropped by the node: \
                    punt_full 5; by the control program: none; lost by the emulator: 0.";
        assert!(found.irregular().iter().any(|text| text == said), "{:?}", found.irregular());
    }

    #[test]
    fn a_rate_passes_only_if_nothing_failed_and_nothing_was_sent_again() {
        let good = found(1000.0, 1.0).half.remove(0);
        assert!(good.passes() && !good.is_tester_limited());
        let bad = |change: fn(&mut SetUps)| {
            let mut set_ups = good.clone();
            change(&mut set_ups);
            set_ups
        };
        assert!(!bad(|s| s.up = 99).passes());
        assert!(!bad(|s| s.sent_again = 1).passes());
        assert!(!bad(|s| s.without_prefix = 1).passes());
        assert!(!bad(|s| s.reached_per_s = 900.0).passes());
        assert!(!bad(|s| s.failures = vec![("arp".into(), 1)]).passes());
        assert!(bad(|s| s.starts_per_s = 900.0).is_tester_limited());
    }
}
