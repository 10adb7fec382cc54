//! Why has this device no session? The last step that it reached, what came of it, and its last frames.
//!
//! Traces are bounded in number, for each line and for all of them, so that made-up addresses of one line displace each other.
//! Passwords are in none of them. Who follows a device live gets the same frames.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::net::Ipv4Addr;
use std::time::Duration;

use crate::conceal::conceal;
use crate::drops::DropReason;
use crate::line::Line;
use crate::mac::Mac;
use crate::name::Name;
use crate::ppp::endpoint::End;
use crate::session::{EndCause, NO_ADDRESS};
use crate::step::Step;
pub use crate::traced::{Direction, TraceFrame};
use crate::watch::{Watched, Watches, Whom};

/// Most devices that are remembered.
pub const MOST_TRACES: usize = 512;
/// Most devices of one line that are remembered.
pub const MOST_TRACES_OF_LINE: usize = 16;
/// Frames of a device that are remembered.
pub const MOST_FRAMES: usize = 24;
/// What came of a device that was just heard first.
const UNKNOWN: Outcome = Outcome::Dropped(DropReason::NotDhcp);
/// Bytes of a frame that are remembered.
const MOST_BYTES: usize = 1514;

/// What came of the last frame of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It was not answered.
    Dropped(DropReason),
    /// RADIUS servers are asked for it.
    Asked,
    /// This address was offered.
    Offered(Ipv4Addr),
    /// Its request was refused (DHCPNAK), because of this.
    Refused(DropReason),
    /// A lease of this address waits for the disk.
    Waiting(Ipv4Addr),
    /// It has a session with this address.
    Up(Ipv4Addr),
    /// Its session has ended.
    Ended(EndCause),
    /// Its PPPoE session has ended before it had an address.
    LinkEnded(End),
}

impl Outcome {
    /// The step that it is an outcome of.
    pub fn step(self) -> Step {
        match self {
            Outcome::Dropped(reason) | Outcome::Refused(reason) => reason.step(),
            Outcome::Asked => Step::Authentication,
            Outcome::Offered(_) => Step::Offer,
            Outcome::Waiting(_) => Step::Store,
            Outcome::Up(_) | Outcome::Ended(_) => Step::Up,
            Outcome::LinkEnded(End::NoCredentials | End::Rejected) => Step::Authentication,
            Outcome::LinkEnded(End::NoNetwork) => Step::Request,
            Outcome::LinkEnded(_) => Step::Link,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Dropped(reason) => f.write_str(reason.meaning()),
            Outcome::Asked => f.write_str("a RADIUS server is asked, and has not answered yet"),
            Outcome::Offered(NO_ADDRESS) => {
                f.write_str("IPv6 was offered, and the client has not asked for it")
            }
            Outcome::Offered(address) => {
                write!(f, "{address} was offered, and the client has not asked for it")
            }
            Outcome::Refused(reason) => write!(f, "its request was refused (DHCPNAK): {}", reason.meaning()),
            Outcome::Waiting(NO_ADDRESS) => f.write_str("its session is being written to disk"),
            Outcome::Waiting(address) => write!(f, "the lease of {address} is being written to disk"),
            Outcome::Up(NO_ADDRESS) => f.write_str("it has a session with IPv6 alone"),
            Outcome::Up(address) => write!(f, "it has a session with {address}"),
            Outcome::Ended(cause) => write!(f, "its session has ended: {cause}"),
            Outcome::LinkEnded(end) => end.fmt(f),
        }
    }
}

/// The answer to the question why a device, or any device of a line, has no session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Why {
    /// The subscriber, if there is one.
    pub subscriber: Option<Name>,
    /// How far it came; `None`: no frame of it is known.
    pub step: Option<Step>,
    /// What came of it.
    pub reason: String,
    /// The device that was heard, and its line.
    pub device: Option<(Line, Mac)>,
    /// The name that it gave by PPP, if it gave one.
    pub login: Option<String>,
    /// When that came of it.
    pub at: Option<Duration>,
    /// Frames of it that were not answered or refused, by reason, since it was heard first.
    pub drops: Vec<(DropReason, u64)>,
    /// Its last frames, oldest first.
    pub frames: Vec<TraceFrame>,
}

impl fmt::Display for Why {
    /// `no subscriber has this MAC (step: identify)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)?;
        self.step.map_or(Ok(()), |step| write!(f, " (step: {step})"))
    }
}

/// What is remembered of a device.
#[derive(Debug)]
pub(crate) struct Trace {
    /// Which of all traces was touched later.
    touched: u64,
    pub(crate) outcome: Outcome,
    /// When it was so.
    pub(crate) at: Duration,
    /// What a server says of it.
    pub(crate) detail: Option<Box<str>>,
    /// The name that it gave by PPP.
    pub(crate) login: Option<Box<str>>,
    /// How often each reason was the outcome.
    pub(crate) drops: Vec<(DropReason, u64)>,
    pub(crate) frames: VecDeque<TraceFrame>,
}

/// Devices by what was last heard of them.
#[derive(Debug, Default)]
pub(crate) struct Traces {
    of_device: HashMap<(Line, Mac), Trace>,
    by_age: BTreeMap<u64, (Line, Mac)>,
    by_line: BTreeMap<(Line, u64), Mac>,
    touches: u64,
    pub(crate) watches: Watches,
}

impl Traces {
    /// A frame of a device was read.
    pub(crate) fn heard(&mut self, line: &Line, mac: Mac, frame: TraceFrame) {
        self.touches += 1;
        let touched = self.touches;
        let device = (line.clone(), mac);
        match self.of_device.get_mut(&device) {
            Some(trace) => {
                self.by_age.remove(&trace.touched);
                self.by_line.remove(&(line.clone(), trace.touched));
                trace.touched = touched;
            }
            None => {
                self.make_room(line);
                let outcome = UNKNOWN;
                let (at, frames) = (frame.at, VecDeque::new());
                let (detail, login, drops) = (None, None, Vec::new());
                let trace = Trace { touched, outcome, at, detail, login, drops, frames };
                self.of_device.insert(device.clone(), trace);
            }
        }
        self.by_age.insert(touched, device);
        self.by_line.insert((line.clone(), touched), mac);
        self.keep(line, mac, frame);
    }

    /// The oldest trace of the line goes if it has its share, else the oldest of all if there is no room.
    fn make_room(&mut self, line: &Line) {
        let mut of_line = self.by_line.range((line.clone(), 0)..=(line.clone(), u64::MAX));
        let oldest = of_line.next().map(|((_, touched), _)| *touched);
        let is_full = of_line.count() + 1 >= MOST_TRACES_OF_LINE;
        let gone = match oldest {
            Some(oldest) if is_full => Some(oldest),
            _ if self.of_device.len() >= MOST_TRACES => self.by_age.keys().next().copied(),
            _ => None,
        };
        if let Some(device) = gone.and_then(|touched| self.by_age.remove(&touched))
            && let Some(trace) = self.of_device.remove(&device)
        {
            self.by_line.remove(&(device.0, trace.touched));
        }
    }

    /// A frame for a device, or of it.
    pub(crate) fn keep(&mut self, line: &Line, mac: Mac, mut frame: TraceFrame) {
        if let Some(trace) = self.of_device.get_mut(&(line.clone(), mac)) {
            frame.bytes.truncate(MOST_BYTES);
            conceal(&mut frame.bytes);
            self.watches.keep(line, mac, trace.login.as_deref(), &frame);
            if trace.frames.len() >= MOST_FRAMES {
                trace.frames.pop_front();
            }
            trace.frames.push_back(frame);
        }
    }

    /// What came of its last frame.
    pub(crate) fn note(&mut self, line: &Line, mac: Mac, outcome: Outcome) {
        if let Some(trace) = self.of_device.get_mut(&(line.clone(), mac)) {
            trace.outcome = outcome;
            trace.at = trace.frames.back().map_or(trace.at, |frame| frame.at);
            trace.detail = None;
            if let Outcome::Dropped(reason) | Outcome::Refused(reason) = outcome {
                match trace.drops.iter_mut().find(|(of, _)| *of == reason) {
                    Some((_, count)) => *count += 1,
                    None => trace.drops.push((reason, 1)),
                }
            }
        }
    }

    /// A device has given a name by PPP. Who follows the name gets the frames before, too.
    pub(crate) fn dials(&mut self, line: &Line, mac: Mac, name: &[u8]) {
        let Some(trace) = self.of_device.get_mut(&(line.clone(), mac)) else { return };
        let name = String::from_utf8_lossy(name);
        if trace.login.as_deref() != Some(&*name) {
            let whom = Whom::Login(name.clone().into_owned());
            trace.frames.iter().for_each(|frame| self.watches.keep_for(&whom, line, mac, frame));
            trace.login = Some(name.into());
        }
    }

    /// What was last heard of a device that gave this name.
    pub(crate) fn of_login(&self, login: &str) -> Option<(&Line, Mac, &Trace)> {
        let found = self.of_device.iter().filter(|(_, trace)| trace.login.as_deref() == Some(login));
        found.max_by_key(|(_, trace)| trace.touched).map(|((line, mac), trace)| (line, *mac, trace))
    }

    /// Frames of a client that is followed, behind a number.
    pub(crate) fn watched(&self, whom: &Whom, number: u64) -> Vec<Watched> {
        self.watches.after(whom, number).cloned().collect()
    }

    /// What a server says of the last outcome of a device.
    pub(crate) fn explain(&mut self, line: &Line, mac: Mac, detail: &str) {
        if let Some(trace) = self.of_device.get_mut(&(line.clone(), mac)) {
            trace.detail = Some(detail.into()).filter(|_| !detail.is_empty());
        }
    }

    /// What came of a frame that begins nothing: a device that is known keeps what came of its last attempt.
    pub(crate) fn note_if_unknown(&mut self, line: &Line, mac: Mac, outcome: Outcome) {
        let known = self.of_device.get(&(line.clone(), mac));
        if known.is_some_and(|trace| trace.outcome == UNKNOWN) {
            self.note(line, mac, outcome);
        }
    }

    /// What was last heard of a MAC address, on whichever line.
    pub(crate) fn of_mac(&self, mac: Mac) -> Option<(&Line, &Trace)> {
        let found = self.of_device.iter().filter(|((_, found), _)| *found == mac);
        found.max_by_key(|(_, trace)| trace.touched).map(|((line, _), trace)| (line, trace))
    }

    /// What was last heard of a line.
    pub(crate) fn of_line(&self, line: &Line) -> Option<(Mac, &Trace)> {
        let mut found = self.by_line.range((line.clone(), 0)..=(line.clone(), u64::MAX));
        let mac = *found.next_back()?.1;
        Some((mac, self.of_device.get(&(line.clone(), mac))?))
    }

    /// How many devices are remembered.
    pub(crate) fn len(&self) -> usize {
        self.of_device.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(traces: &mut Traces, line: &str, n: u32) {
        let [a, b, c, d] = n.to_be_bytes();
        let frame =
            TraceFrame { at: Duration::ZERO, direction: Direction::FromSubscriber, bytes: vec![0; 2000] };
        traces.heard(&line.parse().expect("a line"), Mac([2, 0, a, b, c, d]), frame);
    }

    #[test]
    fn made_up_addresses_of_a_line_displace_each_other_alone() {
        let mut traces = Traces::default();
        heard(&mut traces, "a:1", 7);
        (0..100_000).for_each(|n| heard(&mut traces, "a:2", n));
        assert_eq!(traces.len(), 1 + MOST_TRACES_OF_LINE);
        assert!(traces.of_mac(Mac([2, 0, 0, 0, 0, 7])).is_some());
        for line in 1..4095 {
            (0..9).for_each(|n| heard(&mut traces, &format!("b:{line}"), n));
        }
        assert_eq!(traces.len(), MOST_TRACES);
        assert_eq!((traces.by_age.len(), traces.by_line.len()), (MOST_TRACES, MOST_TRACES));
        for _ in 0..100 {
            heard(&mut traces, "c", 1);
        }
        let (_, trace) = traces.of_line(&"c".parse().expect("a line")).expect("it was heard");
        assert_eq!((trace.frames.len(), trace.frames[0].bytes.len()), (MOST_FRAMES, MOST_BYTES));
    }
}
