//! What the trials found, and the figures of a point. Pure.

use serde::{Deserialize, Serialize};
use weir_cpe::{Summary, TrafficSummary};

use weir_record::figure::{figure, unit};
use weir_record::record::{Bound, Detail, Figure, Statistic};

/// Of the section, and of the figures in records.
pub(super) const ID: &str = "bng";
/// Set-ups that come slower than this share of the rate did not keep up.
const KEPT_UP: f64 = 0.95;
/// Where a smaller share of the frames is lost, the tester did not offer more than the device forwards.
const ARRIVED: f64 = 0.005;
const MBIT_PER_S: &str = "Mbit/s";
const KIB: &str = "KiB";

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
    /// Messages of DHCP and ARP that were sent again.
    pub(super) sent_again: u64,
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
            sent_again: again.discover + again.request + again.arp,
            first_packet_s: summary
                .first_packet
                .map(|times| [times.p50, times.p99, times.max].map(|time| time.as_secs_f64())),
            own_losses: own_losses(summary),
        }
    }

    /// Whether every device came up, and as fast as asked.
    pub(super) fn passes(&self) -> bool {
        let kept_up = self.reached_per_s >= KEPT_UP * self.asked_per_s || self.devices < 10;
        self.up == self.devices && self.failures.is_empty() && self.sent_again == 0 && kept_up
    }

    /// Whether the emulator could not start so many, or lost frames itself.
    pub(super) fn is_tester_limited(&self) -> bool {
        self.starts_per_s < KEPT_UP * self.asked_per_s || self.own_losses > 0
    }
}

fn failures(summary: &Summary) -> Vec<(String, u64)> {
    summary.failures.iter().map(|(step, count)| (step.name().to_string(), *count)).collect()
}

fn own_losses(summary: &Summary) -> u64 {
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
    pub(super) seconds: f64,
}

impl Counted {
    fn of(traffic: Option<TrafficSummary>) -> Counted {
        let traffic = traffic.unwrap_or_default();
        Counted {
            sent: traffic.sent,
            received: traffic.received,
            duplicated: traffic.duplicated,
            reordered: traffic.reordered,
            seconds: traffic.duration.as_secs_f64(),
        }
    }

    pub(super) fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.received)
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

/// Traffic while the control program was killed and started again.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Restarted {
    pub(super) sessions: u32,
    pub(super) from: Counted,
    pub(super) to: Counted,
    /// From the kill until the program was ready.
    pub(super) seconds: f64,
}

impl Restarted {
    pub(super) fn of(sessions: u32, summary: &Summary, seconds: f64) -> Restarted {
        let (from, to) = (Counted::of(summary.from_subscriber), Counted::of(summary.to_subscriber));
        Restarted { sessions, from, to, seconds }
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
    /// Mbit/s of TCP through a plan.
    pub(super) goodput: Vec<f64>,
}

/// `frames/s from subscriber, 1000 sessions`.
pub(super) fn forwarding_name(direction: &str, sessions: u32) -> String {
    format!("forwarded {direction} subscriber, {sessions} sessions")
}

pub(super) const SESSIONS: &str = "sessions online";
pub(super) const SET_UP_RATE: &str = "set-up rate";
pub(super) const FIRST_PACKET: [&str; 3] =
    ["time to first packet, p50", "time to first packet, p99", "time to first packet, maximum"];
pub(super) const MEMORY: [&str; 2] = ["memory per session, node", "memory per session, control program"];
pub(super) const RESTART_LOSS: &str = "frames lost by a restart of the control program";
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
        figures.extend(self.sessions().into_iter().flat_map(|sessions| self.forwarding(sessions)));
        for (place, name) in MEMORY.into_iter().enumerate() {
            // Of the most sessions: what is there anyway counts least.
            let kib = of_most().filter_map(|forwarded| Some(forwarded.memory_bytes?[place] / 1024.0));
            figures.push(median(name, KIB, kib.collect()));
        }
        let lost =
            self.restarted.iter().map(|restarted| (restarted.from.lost() + restarted.to.lost()) as f64);
        figures.push(median(RESTART_LOSS, unit::FRAMES, lost.collect()));
        figures.push(median(GOODPUT, MBIT_PER_S, self.goodput.clone()));
        figures.retain(|figure| !figure.values.is_empty());
        figures
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
            restarted: vec![Restarted { sessions: 1000, from: all, to: all, seconds: 0.3 }],
            goodput: vec![19.1],
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
            ]
        );
        assert_eq!(found.irregular().len(), 1, "{:?}", found.irregular());
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
        assert!(!bad(|s| s.reached_per_s = 900.0).passes());
        assert!(!bad(|s| s.failures = vec![("arp".into(), 1)]).passes());
        assert!(bad(|s| s.starts_per_s = 900.0).is_tester_limited());
    }
}
