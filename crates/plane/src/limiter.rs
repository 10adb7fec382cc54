//! How many errors of ICMP and resets the node sends (RFC 1812, section 4.3.2.8, RFC 4443, section 2.4 f).
//!
//! | | of a host (with IPv6, of a /64) | of all at a port |
//! |---|---|---|
//! | too big | 10 at once, 50 per second | 50 at once, 1000 per second |
//! | time exceeded | the same | the same |
//! | all other errors | the same | the same |
//! | resets | the same | the same |
//!
//! This is with `limits(errors 1000)`, the default; another number changes all of them alike. Without "too big" no host finds the
//! path MTU, and without "time exceeded" no path, so that kinds share nothing. A host that provokes many errors uses up its own
//! limit. A host that sends under made-up addresses uses up that of its port. Hosts share places by a hash that cannot be
//! predicted from outside.

use std::ops::Range;

use crate::frame::Frame;
use crate::icmp::{self, Error};
use crate::limits::Limits;
use crate::table::quota::Quota;
use crate::table::shares::Host;
use crate::threads::Share;
use crate::time::Time;

/// Places for hosts at a port, and at all ports of a node together.
const PLACES: usize = 1024;
const ALL_PLACES: usize = 64 * PLACES;

/// The right to send one error or one reset. Only the [`Limiter`] gives it, and the function that builds such a frame takes it:
/// what is refused costs no memory and no checksum.
#[derive(Debug)]
pub(crate) struct Permit(());

/// What hosts may still be reported, by the port that their frames come in by.
#[derive(Debug)]
pub(crate) struct Limiter {
    ports: Vec<Row>,
    share: Share,
}

/// Those of a port.
pub(crate) type Row = [Quota; 4];

/// What is sent. Each has quotas of its own.
#[derive(Debug, Clone, Copy)]
enum Message {
    TooBig,
    TimeExceeded,
    OtherError,
    Reset,
}

impl Message {
    const ALL: [Message; 4] = [Message::TooBig, Message::TimeExceeded, Message::OtherError, Message::Reset];

    fn of(error: Error) -> Message {
        match error {
            Error::TooBig(_) => Message::TooBig,
            Error::TimeExceeded => Message::TimeExceeded,
            _ => Message::OtherError,
        }
    }
}

impl Default for Limiter {
    fn default() -> Limiter {
        Limiter::new(1, &Limits::default(), Share::default(), 0)
    }
}

impl Limiter {
    /// All is allowed at so many ports; the places of hosts follow from `seed`.
    pub(crate) fn new(ports: usize, limits: &Limits, share: Share, seed: u64) -> Limiter {
        let mut limiter = Limiter { ports: Vec::new(), share };
        limiter.add(Limiter::rows(0..ports, limits, share, seed));
        limiter
    }

    /// What is allowed at ports that come, of these numbers.
    pub(crate) fn rows(ports: Range<usize>, limits: &Limits, share: Share, seed: u64) -> Vec<Row> {
        let places = PLACES.min(ALL_PLACES / ports.end.max(1)).max(1);
        let quota = || Quota::new(seed, places, limits.errors(share));
        ports.map(|_| Message::ALL.map(|_| quota())).collect()
    }

    /// Ports come behind the others.
    pub(crate) fn add(&mut self, rows: Vec<Row>) {
        self.ports.extend(rows);
    }

    /// Other limits.
    pub(crate) fn limit(&mut self, limits: &Limits) {
        for quota in self.ports.iter_mut().flatten() {
            quota.set_rates(limits.errors(self.share));
        }
    }

    /// Whether the sender of a frame may be informed of this error at `now`, by the rules of ICMP and by the rates; if so, it
    /// counts.
    pub(crate) fn error(&mut self, now: Time, frame: &Frame<'_>, error: Error) -> Option<Permit> {
        (icmp::may_be_reported(frame, error) && self.allows(now, frame, Message::of(error)))
            .then_some(Permit(()))
    }

    /// Whether the sender of a frame may be given a reset at `now`; if so, it counts.
    pub(crate) fn reset(&mut self, now: Time, frame: &Frame<'_>) -> Option<Permit> {
        self.allows(now, frame, Message::Reset).then_some(Permit(()))
    }

    fn allows(&mut self, now: Time, frame: &Frame<'_>, message: Message) -> bool {
        let quotas = self.ports.get_mut(usize::from(frame.port.0));
        let quota = quotas.and_then(|quotas| quotas.get_mut(message as usize));
        quota.is_some_and(|quota| quota.allows(now, Host::of(frame)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{HEAD_ROOM, PortId};
    use crate::scenario::packet;

    /// How many of so many packets of a host its limits allow to tell it of.
    fn reported(limiter: &mut Limiter, ms: u64, host: &str, error: Error, packets: usize) -> usize {
        let line = if host.contains(':') {
            format!("udp [{host}]:1 > [2001:db8:2::9]:2")
        } else {
            format!("udp {host}:1 > 192.0.2.1:2")
        };
        let kind = if host.contains(':') { [0x86, 0xdd] } else { [8, 0] };
        let mut buf = [&[0; HEAD_ROOM][..], &[2; 12], &kind, &packet(&line).expect("a packet")].concat();
        let end = buf.len();
        let mut frame = Frame::new(&mut buf, HEAD_ROOM, end, PortId(0));
        frame.read(12).expect("readable");
        (0..packets).filter_map(|_| limiter.error(Time::from_ms(ms), &frame, error)).count()
    }

    #[test]
    fn who_asks_for_many_takes_from_himself() {
        let mut limiter = Limiter::default();
        let mut reported = |ms, host, error| reported(&mut limiter, ms, host, error, 900);
        assert_eq!(reported(0, "198.18.0.5", Error::NoRoute), 10);
        assert_eq!(reported(0, "198.18.0.5", Error::TooBig(1280)), 10, "by itself");
        assert_eq!(reported(0, "198.18.0.5", Error::TimeExceeded), 10, "by itself");
        assert_eq!(reported(0, "198.18.0.5", Error::NoPort), 0, "as one without a route");
        assert_eq!(reported(0, "198.18.0.6", Error::NoRoute), 10, "another host");
        assert_eq!(reported(20, "198.18.0.5", Error::NoRoute), 1);
        assert_eq!(reported(0, "2001:db8:1::5", Error::NoRoute), 10);
        assert_eq!(reported(0, "2001:db8:1::6", Error::NoRoute), 0, "of the same /64");
    }

    #[test]
    fn all_together_are_limited_and_threads_share_that() {
        for (parts, most) in [(1, 50), (4, 13)] {
            let share = Share { thread: 0, of: parts };
            let mut limiter = Limiter::new(1, &Limits::default(), share, 7);
            let hosts: Vec<String> = (1..250).map(|n| format!("198.18.1.{n}")).collect();
            let all: usize =
                hosts.iter().map(|host| reported(&mut limiter, 0, host, Error::NoRoute, 5)).sum();
            assert_eq!(all, most, "{parts}");
            assert_eq!(reported(&mut limiter, 0, "198.18.2.1", Error::TooBig(1280), 5), 5, "{parts}");
        }
    }
}
