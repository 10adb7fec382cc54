//! Congestion controls, one file each. All volumes are segments, all rates segments/s: the simulator has one segment size.

pub mod bbr1;
pub mod bbr2;
pub mod bbr3;
pub mod cubic;
pub mod dctcp;
mod filter;
mod hystart;
pub mod prague;
pub mod reno;
mod window;

use serde::{Deserialize, Serialize};
use weir_queue::{Ecn, Time};

/// Smallest window after a reduction, RFC 5681.
pub(crate) const SMALLEST: f64 = 2.0;
/// Initial window, RFC 6928.
pub(crate) const INITIAL: f64 = 10.0;

/// A congestion control's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Name {
    /// RFC 5681 with ABC.
    Reno,
    /// RFC 9438, with HyStart++ (RFC 9406).
    Cubic,
    /// BBR as in Linux: version 1, without its policer detection.
    Bbr1,
    /// BBR version 2, its rules on the engine of version 3.
    Bbr2,
    /// BBR version 3, draft-ietf-ccwg-bbr.
    Bbr3,
    /// RFC 8257.
    Dctcp,
    /// Like TCP Prague: DCTCP's response, paced, growth that depends less on the round trip.
    Prague,
}

impl Name {
    /// All of them.
    pub const ALL: [Name; 7] =
        [Name::Reno, Name::Cubic, Name::Bbr1, Name::Bbr2, Name::Bbr3, Name::Dctcp, Name::Prague];

    /// Its name in files.
    pub fn text(self) -> &'static str {
        match self {
            Name::Reno => "reno",
            Name::Cubic => "cubic",
            Name::Bbr1 => "bbr1",
            Name::Bbr2 => "bbr2",
            Name::Bbr3 => "bbr3",
            Name::Dctcp => "dctcp",
            Name::Prague => "prague",
        }
    }

    pub(crate) fn build(self, ecn: Ecn, seed: u64, min_rtt: Option<Time>) -> Box<dyn CongestionControl> {
        match self {
            Name::Reno => Box::new(reno::Reno::new(ecn)),
            Name::Cubic => Box::new(cubic::Cubic::new(ecn)),
            Name::Bbr1 => Box::new(bbr1::Bbr1::new(seed, min_rtt)),
            Name::Bbr2 => Box::new(bbr3::Bbr3::new(bbr2::RULES, ecn, seed)),
            Name::Bbr3 => Box::new(bbr3::Bbr3::new(bbr3::RULES, ecn, seed)),
            Name::Dctcp => Box::new(dctcp::Dctcp::new()),
            Name::Prague => Box::new(prague::Prague::new()),
        }
    }
}

/// What a congestion control may know of its connection.
#[derive(Debug, Clone, Copy)]
pub struct Connection {
    /// The present.
    pub now: Time,
    /// Segments sent and neither delivered nor lost.
    pub in_flight: u64,
    /// Segments delivered so far.
    pub delivered: u64,
    /// Segments declared lost so far.
    pub lost: u64,
    /// Smoothed round trip, in s; 0 before the first sample.
    pub srtt_s: f64,
    /// Whether losses are being repaired.
    pub in_recovery: bool,
    /// Whether the window, not the application or the pacing, limited the flow in the last round trip.
    pub cwnd_limited: bool,
}

/// What one ACK says about the rate of delivery. Volumes are segments.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct RateSample {
    /// Segments/s; 0 if this ACK gives no reliable rate.
    pub delivery_rate: f64,
    /// Segments delivered over the interval.
    pub delivered: u64,
    /// All that had been delivered when the newest segment of this ACK was sent.
    pub prior_delivered: u64,
    /// Whether that segment was sent while the application limited the flow.
    pub is_app_limited: bool,
    /// What was in flight when it was sent, itself included.
    pub tx_in_flight: u64,
    /// Segments that were lost since then.
    pub lost: u64,
    /// Segments that were delivered with CE since then.
    pub ce: u64,
}

/// What an ACK says.
#[derive(Debug, Clone, Copy)]
pub struct Ack {
    /// Segments that it delivers.
    pub delivered: u64,
    /// Of these, with CE.
    pub ce: u64,
    /// Round trip of the newest segment, unless that was sent twice.
    pub rtt: Option<Time>,
    /// The delivery rate.
    pub rate: RateSample,
}

/// A segment that is declared lost.
#[derive(Debug, Clone, Copy)]
pub struct Lost {
    /// Its number in the flow.
    pub seq: u64,
    /// What was in flight when it was sent, itself included.
    pub tx_in_flight: u64,
    /// Segments lost since it was sent, itself included.
    pub lost_since: u64,
    /// Whether it was sent while the application limited the flow.
    pub is_app_limited: bool,
}

/// Decides how much may be in flight, and how fast.
///
/// In the order of one ACK: [`CongestionControl::on_lost`] for each segment that it shows lost,
/// [`CongestionControl::on_recovery`] if that begins a recovery, [`CongestionControl::on_ack`].
pub trait CongestionControl: std::fmt::Debug {
    /// An ACK delivers something.
    fn on_ack(&mut self, ack: &Ack, connection: &Connection);
    /// A segment is lost.
    fn on_lost(&mut self, _lost: &Lost, _connection: &Connection) {}
    /// The first loss of a window.
    fn on_recovery(&mut self, connection: &Connection);
    /// All losses of the window are repaired.
    fn on_recovered(&mut self, _connection: &Connection) {}
    /// The retransmission timer has expired.
    fn on_timeout(&mut self, connection: &Connection);
    /// Everything that was repaired had not been lost.
    fn on_spurious(&mut self, _connection: &Connection) {}
    /// A segment is about to be sent.
    fn on_send(&mut self, _connection: &Connection, _app_limited: bool) {}
    /// Segments that may be in flight.
    fn cwnd(&self) -> f64;
    /// The target of proportional rate reduction while losses are repaired; none if the window counts as it is.
    fn reduces_to(&self) -> Option<f64>;
    /// Segments/s; none if not paced.
    fn pacing(&self) -> Option<f64> {
        None
    }
    /// Whether rates that are measured now say little, because it sends little on purpose.
    fn ignores_rates(&self) -> bool {
        false
    }
    /// The codepoint of data segments.
    fn ecn(&self) -> Ecn {
        Ecn::NotEct
    }
    /// Its phase, for tables and tests.
    fn phase(&self) -> &'static str;
    /// The engine of BBR version 3, for its acceptance tests.
    fn as_bbr3(&self) -> Option<&bbr3::Bbr3> {
        None
    }
}

/// The response to CE of RFC 3168: once in a round trip, as if a segment was lost.
#[derive(Debug, Clone, Default)]
pub(crate) struct ClassicEcn {
    /// No response until so many segments are delivered.
    until: u64,
}

impl ClassicEcn {
    /// Whether this ACK demands a reduction.
    pub(crate) fn reacts(&mut self, ack: &Ack, connection: &Connection) -> bool {
        let reacts = ack.ce > 0 && connection.delivered >= self.until && !connection.in_recovery;
        if reacts {
            self.until = connection.delivered + connection.in_flight;
        }
        reacts
    }
}
