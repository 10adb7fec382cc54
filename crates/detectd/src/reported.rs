//! The output lines of attacks, as text or JSON. The actions of an attack run first, and do not wait for the reader of the
//! lines.

use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use anyhow::Result;
use serde_json::{Value, json};
use weir_detect::{ClockStep, Direction, Event, Gap, Kind, Metric, Share, Status, Unjudged};

use super::actions::Actions;
use weir_service::time::in_words;
use weir_service::units::{bits, rate};

/// Time limit for the actions at the end: the user wants to exit.
pub(crate) const LAST_WAIT: Duration = Duration::from_secs(30);

/// Most lines about time stamps: a file can have any number of wrong ones.
const CLOCK_LINES: u32 = 20;

/// Runs the actions for events, and formats their lines.
pub(crate) struct Teller {
    json: bool,
    actions: Actions,
    unjudged: Unjudged,
    clock_lines: u32,
}

/// A frame with a wrong time stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OddStamp {
    /// The corrected time, ns since 1970.
    pub(crate) time_ns: u64,
    /// The time stamp in the file.
    pub(crate) stamp_ns: u64,
}

impl Teller {
    pub(crate) fn new(json: bool, actions: Actions) -> Self {
        Teller { json, actions, unjudged: Unjudged::default(), clock_lines: 0 }
    }

    /// Runs the actions for an event; returns its lines, with the capture that began.
    pub(crate) fn event(&mut self, event: &Event, capture: Option<&Path>) -> String {
        let mut document = serde_json::to_value(event).expect("an event is plain");
        document["capture"] = json!(capture);
        let announced = self.actions.of(event, &document);
        if self.json {
            document["announcement"] = json!(announced);
            return format!("{document}\n");
        }
        let mut text = line(event) + "\n";
        if let Some(path) = capture {
            text += &format!("  captured: {}\n", path.display());
        }
        if let Some(announced) = announced {
            let verb = announced.reason.map_or("sent".to_string(), |reason| format!("not sent ({reason})"));
            text += &format!("  {verb}: {}\n", announced.command);
        }
        text
    }

    /// Lines for frames that are not judged, from about this time on.
    pub(crate) fn gaps(&mut self, status: &Status, now_ns: u64) -> Vec<String> {
        let line = |(gap, count): (Gap, u64)| {
            if !self.json {
                return format!("{} not judged: {count} {}\n", time(now_ns), gap.words());
            }
            let document = json!({
                "event": "gap", "time_ns": now_ns, "gap": gap.name(), "protocol": gap.protocol(),
                "count": count, "words": gap.words(),
            });
            format!("{document}\n")
        };
        self.unjudged.look(status.gaps(), now_ns).into_iter().map(line).collect()
    }

    /// The line about a clock that went back.
    pub(crate) fn clock_step(&mut self, step: &ClockStep) -> Option<String> {
        let back_s = seconds(i128::from(step.back_ns));
        self.clock_line(
            step.time_ns,
            json!({ "event": "clock", "time_ns": step.time_ns, "back_s": back_s }),
            || format!("the clock went back {back_s:.1} s: a new period begins"),
        )
    }

    /// The line about a frame with a wrong time stamp.
    pub(crate) fn odd_stamp(&mut self, odd: &OddStamp) -> Option<String> {
        let off_s = seconds(i128::from(odd.stamp_ns) - i128::from(odd.time_ns));
        let way = if off_s > 0.0 { "ahead of" } else { "behind" };
        self.clock_line(
            odd.time_ns,
            json!({ "event": "time_stamp", "time_ns": odd.time_ns, "off_s": off_s }),
            || {
                format!(
                    "the time stamp of a frame is {:.1} s {way} its neighbours: their time is used",
                    off_s.abs()
                )
            },
        )
    }

    /// A line about time, up to a number of them.
    fn clock_line(&mut self, at_ns: u64, document: Value, words: impl Fn() -> String) -> Option<String> {
        self.clock_lines = self.clock_lines.saturating_add(1);
        if self.clock_lines > CLOCK_LINES {
            return None;
        }
        if self.json {
            return Some(format!("{document}\n"));
        }
        let last = if self.clock_lines == CLOCK_LINES { " (later ones are only counted)" } else { "" };
        Some(format!("{} {}{last}\n", time(at_ns), words()))
    }

    /// The line with the counters.
    pub(crate) fn status(&self, status: &Status) -> String {
        if !self.json {
            return summary(status) + "\n";
        }
        let mut document = serde_json::to_value(status).expect("it is plain");
        document["event"] = json!("status");
        document["announcements"] = json!(self.actions.announcements());
        format!("{document}\n")
    }

    /// Waits for the actions at the end.
    pub(crate) fn finish(self) {
        self.actions.finish(LAST_WAIT);
    }
}

/// The output. Without a reader the actions continue.
pub(crate) struct Page<'a, W> {
    out: &'a mut W,
    broken: Option<io::Error>,
}

impl<'a, W: Write> Page<'a, W> {
    pub(crate) fn new(out: &'a mut W) -> Self {
        Page { out, broken: None }
    }

    pub(crate) fn write(&mut self, text: &str) {
        if self.broken.is_none() {
            // Flushed at once: the reader may react to it.
            self.broken = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush()).err();
        }
    }

    /// Whether the reader has gone.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.is_some()
    }

    /// # Errors
    /// Writing the output failed.
    pub(crate) fn finish(self) -> Result<()> {
        self.broken.map_or(Ok(()), |error| Err(error.into()))
    }
}

/// Seconds of ns, to the millisecond.
fn seconds(ns: i128) -> f64 {
    (ns as f64 / 1e6).round() / 1e3
}

fn time(ns: u64) -> String {
    weir_linux::time::rfc3339(UNIX_EPOCH + Duration::from_nanos(ns))
}

fn line(event: &Event) -> String {
    let time = time(event.time_ns);
    let kind = match event.event {
        Kind::Start => "start",
        Kind::Update => "goes on",
        Kind::End => "end",
    };
    let who = match (&event.host, &event.group) {
        (Some(host), Some(group)) => format!("{host} ({group})"),
        (Some(host), None) => host.to_string(),
        (None, Some(group)) => format!("group {group}"),
        (None, None) => "all hosts".to_string(),
    };
    let way = if event.direction == Direction::In { "receives" } else { "sends" };
    let (rates, least) = (&event.rates, if event.lost_pps > 0.0 { "at least " } else { "" });
    let learned = if event.limit_learned { "learned" } else { "limit" };
    let mut line = format!(
        "{time} {kind} {}: {}, {who} {way} {least}{}, {}{}; {learned} {}",
        event.attack,
        event.class,
        rate(rates.pps),
        bits(rates.bits_per_s),
        if event.measured_s < 1.0 { format!(" for {:.1} s", event.measured_s) } else { String::new() },
        limit(event.metric, event.limit)
    );
    let evidence = &event.evidence;
    line += &commonest("of", &evidence.protocols);
    line += &commonest(if event.direction == Direction::In { "from" } else { "to" }, &evidence.others);
    line += &commonest("from port", &evidence.source_ports);
    line += &commonest("to port", &evidence.destination_ports);
    if event.event == Kind::End {
        let time = Duration::from_nanos(event.time_ns.saturating_sub(event.crossed_ns));
        line += &format!("; {} frames in {}, peak {}", event.frames, in_words(time), rate(event.peak_pps));
    }
    line
}

fn limit(metric: Metric, limit: f64) -> String {
    match metric {
        Metric::Pps => rate(limit),
        Metric::BitsPerS => bits(limit),
        Metric::FlowsPerS => format!("{limit} new flows/s"),
        Metric::TcpPps => format!("{} of TCP", rate(limit)),
        Metric::UdpPps => format!("{} of UDP", rate(limit)),
        Metric::IcmpPps => format!("{} of ICMP", rate(limit)),
        Metric::FragmentPps => format!("{} of fragments", rate(limit)),
        Metric::SynPps => format!("{limit} SYN/s"),
        Metric::SynShare => format!("{:.0} % SYN", limit * 100.0),
    }
}

/// The commonest value, if it says anything.
fn commonest<T: std::fmt::Display>(before: &str, shares: &[Share<T>]) -> String {
    let first = shares.first().filter(|first| first.share >= 0.1);
    first.map_or(String::new(), |first| format!(", {before} {} ({:.0} %)", first.value, first.share * 100.0))
}

fn summary(status: &Status) -> String {
    let mut text = format!(
        "{} IP frames, {} of them outside the watched networks; {} hosts and directions; {} frames lost before detection",
        status.frames, status.foreign, status.hosts, status.lost
    );
    if status.joined > 0 {
        text += &format!("; {} captured frames were merged from segments, and count as those", status.joined);
    }
    if status.control > 0 {
        text += &format!("; {} frames of control protocols (ARP, LLDP and others)", status.control);
    }
    if status.clock_steps > 0 {
        text += &format!("; the clock went back {} times", status.clock_steps);
    }
    if status.odd_stamps > 0 {
        text += &format!("; {} time stamps were corrected", status.odd_stamps);
    }
    if status.attacks > 0 {
        text += &format!("; {} attacks continue", status.attacks);
    }
    for (gap, count) in status.gaps().into_iter().filter(|(gap, count)| *gap != Gap::Lost && *count > 0) {
        text += &format!("; not judged: {count} {}", gap.words());
    }
    text
}
