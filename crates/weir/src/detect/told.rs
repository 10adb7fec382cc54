//! How attacks are told: a line each, for people or for programs.

use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use anyhow::Result;
use serde_json::json;
use weir_detect::{Direction, Event, Kind, Metric, Share, Status};

use super::actions::Actions;
use crate::time::in_words;
use crate::units::{bits, rate};

/// At the end actions may take so long: who has come to it wants to leave.
const LAST_WAIT: Duration = Duration::from_secs(30);

/// Where events go.
pub(super) struct Told<'a, W> {
    out: &'a mut W,
    json: bool,
    actions: Actions,
    broken: Option<io::Error>,
}

impl<'a, W: Write> Told<'a, W> {
    pub(super) fn new(out: &'a mut W, json: bool, actions: Actions) -> Self {
        Told { out, json, actions, broken: None }
    }

    /// Acts upon an event, and tells it with the capture that was begun. That nobody listens any more is no reason not to
    /// act.
    pub(super) fn tell(&mut self, event: &Event, capture: Option<&Path>) {
        let mut document = serde_json::to_value(event).expect("an event is plain");
        document["capture"] = json!(capture);
        let announced = self.actions.of(event, &document);
        if self.json {
            document["announcement"] = json!(announced);
            return self.write(&format!("{document}\n"));
        }
        let mut text = line(event) + "\n";
        if let Some(path) = capture {
            text += &format!("  captured: {}\n", path.display());
        }
        if let Some(announced) = announced {
            let verb = if announced.sent { "said" } else { "not said (send = false)" };
            text += &format!("  {verb}: {}\n", announced.command);
        }
        self.write(&text);
    }

    fn write(&mut self, text: &str) {
        if self.broken.is_none() {
            // Whoever reads acts upon it.
            self.broken = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush()).err();
        }
    }

    /// Nobody listens any more.
    pub(super) fn is_broken(&self) -> bool {
        self.broken.is_some()
    }

    /// The end: what was counted.
    ///
    /// # Errors
    /// Not all could be told.
    pub(super) fn finish(mut self, status: &Status) -> Result<()> {
        let text = if self.json {
            let mut document = serde_json::to_value(status)?;
            document["event"] = json!("status");
            format!("{document}\n")
        } else {
            summary(status) + "\n"
        };
        self.write(&text);
        self.actions.finish(LAST_WAIT);
        self.broken.map_or(Ok(()), |error| Err(error.into()))
    }
}

fn line(event: &Event) -> String {
    let time = weir_lab::time::rfc3339(UNIX_EPOCH + Duration::from_nanos(event.time_ns));
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
        "{time} {kind} {}: {who} {way} {least}{}, {}{}; {learned} {}",
        event.attack,
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
        let time = Duration::from_nanos(event.time_ns - event.crossed_ns);
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
        "{} frames of IP, {} of them of other networks; {} hosts and directions; {} lost before they were seen",
        status.frames, status.foreign, status.hosts, status.lost
    );
    for (count, what) in [
        (status.attacks, "attacks go on"),
        (status.hosts_evicted, "busy hosts had to give way: raise memory.hosts_mib"),
        (status.flows_forgotten, "flows were forgotten early: raise memory.flows_mib"),
        (status.unwatched, "times a host near its limit could not be watched: raise the limits"),
    ] {
        if count > 0 {
            text += &format!("; {count} {what}");
        }
    }
    text
}
