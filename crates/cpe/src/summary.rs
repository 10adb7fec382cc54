//! The figures of a run.

use std::fmt;
use std::time::Duration;

use weir_bng::{Mac, Tags};

/// How far a device came that has failed: the step that did not succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// No offer came.
    Discover,
    /// A request was not answered.
    Request,
    /// The server refused each time.
    Nak,
    /// The address was not usable, or was another device's.
    Declined,
    /// The gateway did not answer ARP, or none was named.
    Arp,
    /// No packet reached the far end.
    FirstPacket,
    /// The lease ended, or its renewal was refused.
    Renew,
    /// No PADO came.
    Padi,
    /// No PADS came, or it refused the session.
    Padr,
    /// The link was not negotiated.
    Lcp,
    /// Name or password were refused, or not asked for in time.
    Auth,
    /// No address was agreed on, or another device has it.
    Ipcp,
    /// No interface identifier was agreed on.
    Ipv6cp,
    /// The BNG ended the session of PPPoE, or did not answer its echoes.
    Ended,
}

impl Step {
    /// All, in the order in which a device takes them.
    pub const ALL: [Step; 14] = [
        Step::Discover,
        Step::Request,
        Step::Nak,
        Step::Declined,
        Step::Arp,
        Step::Padi,
        Step::Padr,
        Step::Lcp,
        Step::Auth,
        Step::Ipcp,
        Step::Ipv6cp,
        Step::FirstPacket,
        Step::Renew,
        Step::Ended,
    ];

    /// `first-packet`.
    pub fn name(self) -> &'static str {
        match self {
            Step::Discover => "discover",
            Step::Request => "request",
            Step::Nak => "nak",
            Step::Declined => "declined",
            Step::Arp => "arp",
            Step::FirstPacket => "first-packet",
            Step::Renew => "renew",
            Step::Padi => "padi",
            Step::Padr => "padr",
            Step::Lcp => "lcp",
            Step::Auth => "auth",
            Step::Ipcp => "ipcp",
            Step::Ipv6cp => "ipv6cp",
            Step::Ended => "ended",
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A device that has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failed {
    /// The device.
    pub mac: Mac,
    /// Its line.
    pub tags: Tags,
    /// At which step.
    pub step: Step,
}

/// Times of many devices, by nearest rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// The median.
    pub p50: Duration,
    /// The 99th percentile.
    pub p99: Duration,
    /// The longest.
    pub max: Duration,
}

impl Times {
    /// Of times in ns, in any order; `None`: there are none.
    pub(crate) fn of(mut times_ns: Vec<u64>) -> Option<Times> {
        times_ns.sort_unstable();
        let at = |share: f64| {
            let rank = (share * times_ns.len() as f64).ceil().max(1.0) as usize;
            times_ns.get(rank - 1).copied().map(Duration::from_nanos)
        };
        Some(Times { p50: at(0.5)?, p99: at(0.99)?, max: at(1.0)? })
    }
}

/// Messages that were sent once more because no answer came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Retransmissions {
    /// DISCOVER.
    pub discover: u64,
    /// REQUEST, also of a renewal.
    pub request: u64,
    /// Questions for the gateway.
    pub arp: u64,
    /// First packets.
    pub first_packet: u64,
    /// PADI.
    pub padi: u64,
    /// PADR.
    pub padr: u64,
    /// Requests of LCP, PAP or CHAP, and the NCPs.
    pub ppp: u64,
}

/// Messages and frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Messages {
    /// DISCOVER that were sent, again ones included.
    pub discovers: u64,
    /// REQUEST that were sent.
    pub requests: u64,
    /// Offers that came for a device.
    pub offers: u64,
    /// ACKs.
    pub acks: u64,
    /// NAKs.
    pub naks: u64,
    /// Leases that were prolonged.
    pub renewals: u64,
    /// ARP questions for an address of a device, which it answered.
    pub arp_answers: u64,
    /// Messages that no device waits for: late, doubled, or not of this exchange.
    pub unexpected: u64,
    /// Frames to port 68 that are no message of DHCP, and frames of PPPoE that are none.
    pub malformed: u64,
    /// PADI that were sent, again ones included.
    pub padis: u64,
    /// PADO that were taken.
    pub pados: u64,
    /// PADR that were sent.
    pub padrs: u64,
    /// PADS that were taken, also refusals.
    pub padss: u64,
    /// PADT that were sent.
    pub padts: u64,
    /// PADT that ended a session of a device.
    pub padts_received: u64,
    /// Packets of LCP, PAP, CHAP and the NCPs that were sent.
    pub ppp_sent: u64,
    /// Such packets that came for a session.
    pub ppp_received: u64,
    /// Echo-Requests that were sent.
    pub echoes: u64,
    /// Answers to them.
    pub echo_replies: u64,
    /// Echo-Requests of the BNG that were answered.
    pub echoes_answered: u64,
    /// Router solicitations that were sent (IPv6).
    pub solicitations: u64,
    /// Router advertisements that came for a session.
    pub advertisements: u64,
}

/// Numbered traffic in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TrafficSummary {
    /// Frames sent.
    pub sent: u64,
    /// Frames that arrived, each counted once.
    pub received: u64,
    /// Of those sent, frames of IPv6.
    pub sent6: u64,
    /// Of those that arrived, frames of IPv6.
    pub received6: u64,
    /// Frames that arrived once more.
    pub duplicated: u64,
    /// Frames that arrived behind a later one of their session.
    pub reordered: u64,
    /// Sessions of which frames were lost.
    pub sessions_with_loss: u64,
    /// From the first frame to the last one.
    pub duration: Duration,
    /// From sending a frame to its arrival; `None`: none arrived.
    pub latency: Option<Times>,
}

impl TrafficSummary {
    /// Frames that did not arrive.
    pub fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.received)
    }

    /// Received frames per second.
    pub fn received_fps(&self) -> f64 {
        let seconds = self.duration.as_secs_f64();
        if seconds > 0.0 { self.received as f64 / seconds } else { 0.0 }
    }
}

/// What the monkey did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MonkeySummary {
    /// From which it did so.
    pub seed: u64,
    /// Messages of devices that it lost.
    pub lost: u64,
    /// That it sent twice.
    pub doubled: u64,
    /// That it sent up to 5 s later.
    pub late: u64,
    /// That it sent behind the next ones.
    pub overtaken: u64,
    /// That it cut or changed.
    pub malformed: u64,
    /// In which it changed the session id, the identifier of PPP, or the transaction number of DHCP.
    pub wrong_ids: u64,
    /// Messages of the BNG that it lost.
    pub lost_answers: u64,
    /// How often all devices lost what they knew.
    pub power_cuts: u64,
    /// Failures after which a device began again.
    pub tries_again: u64,
    /// Devices that were up at the end.
    pub up_at_end: u64,
}

/// Sessions that devices ended while the run went on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ChurnSummary {
    /// Sessions that were ended.
    pub ended: u64,
    /// Sessions of devices that had one before, also after a power cut.
    pub up_again: u64,
    /// Packets of sessions of PPPoE that their devices had just ended.
    pub late: u64,
    /// Of them, packets of IPv6.
    pub late6: u64,
}

/// What came of a run.
#[derive(Debug, Clone, Default)]
pub struct Summary {
    /// Devices that were to start.
    pub devices: u64,
    /// Devices that did start.
    pub started: u64,
    /// Sessions that came up, also if they ended later.
    pub up: u64,
    /// Failed devices by step; steps without any are left out.
    pub failures: Vec<(Step, u64)>,
    /// Failures, by step, after which devices began again.
    pub redials: Vec<(Step, u64)>,
    /// The first devices that failed.
    pub first_failed: Vec<Failed>,
    /// Starts per second, as they were.
    pub starts_per_s: Option<f64>,
    /// ACKs of set-ups, or addresses of IPCP, per second, from the first start and the shortest set-up time on to the last one.
    pub setups_per_s: Option<f64>,
    /// From the first DISCOVER to the ACK, or from the first PADI to the address of IPCP.
    pub setup: Option<Times>,
    /// From the first DISCOVER or PADI until the first packet was received at the far end, or came back from it.
    pub first_packet: Option<Times>,
    /// From the first start until the last device was up; `None`: some are not.
    pub all_up: Option<Duration>,
    /// Frames of the flood that were sent.
    pub flood: u64,
    /// Devices of PPPoE that got a prefix of IPv6 by a router advertisement.
    pub prefixes: u64,
    /// Messages sent again.
    pub retransmissions: Retransmissions,
    /// Messages.
    pub messages: Messages,
    /// Devices that released their address or session.
    pub released: u64,
    /// Frames for one session that arrived at another one.
    pub foreign: u64,
    /// Churn, if sessions came up again or were ended.
    pub churn: Option<ChurnSummary>,
    /// The monkey, if there was one.
    pub monkey: Option<MonkeySummary>,
    /// Numbered traffic from subscribers.
    pub from_subscriber: Option<TrafficSummary>,
    /// Numbered traffic to subscribers.
    pub to_subscriber: Option<TrafficSummary>,
    /// Frames that the emulator itself could not take or send, by the name of the place.
    pub own_losses: Vec<(String, u64)>,
}

impl Summary {
    /// Devices that have failed.
    pub fn failed(&self) -> u64 {
        self.failures.iter().map(|(_, count)| count).sum()
    }

    /// Messages of set-ups and releases, echoes and first packets, sent and received.
    pub fn set_up_frames(&self) -> u64 {
        let m = &self.messages;
        let dhcp = m.discovers + m.offers + m.requests + m.acks + m.naks;
        let discovery = m.padis + m.pados + m.padrs + m.padss + m.padts + m.padts_received;
        dhcp + discovery
            + m.ppp_sent
            + m.ppp_received
            + m.advertisements
            + self.up
            + self.retransmissions.first_packet
    }

    /// Whether every device came up and stayed, and no session got a frame of another one.
    pub fn is_clean(&self) -> bool {
        let is_up_at_end = self.monkey.is_none_or(|monkey| monkey.up_at_end == self.devices);
        self.up == self.devices && self.failed() == 0 && self.foreign == 0 && is_up_at_end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_by_nearest_rank() {
        let ms = Duration::from_millis;
        let of = |last: u64| Times::of((1..=last).rev().map(|ms| ms * 1_000_000).collect());
        assert_eq!(of(0), None);
        assert_eq!(of(1), Some(Times { p50: ms(1), p99: ms(1), max: ms(1) }));
        assert_eq!(of(200), Some(Times { p50: ms(100), p99: ms(198), max: ms(200) }));
    }
}
