//! `weir cpe`: emulated devices of customers in front of a concentrator of any make.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Result, bail};
use serde_json::{Value, json};
use weir_cpe::run::{Event, Interfaces, run};
use weir_cpe::{Emulator, Messages, MonkeySummary, Phase, Step, Summary, Times, TrafficSummary};
use weir_lab::interface::{check_ethernet, check_mtu, check_not_default_route, check_ready};
use weir_service::say;
use weir_service::units::rate;

use crate::cli;
use crate::live::Live;
use crate::outcome::Outcome;
use crate::run::{fresh_seed, stop_flag};

/// Runs the devices, and prints what came of them.
pub(crate) fn emulate(arguments: &cli::Cpe, out: &mut impl Write) -> Result<Outcome> {
    if !crate::privilege::may_use_packet_sockets() {
        bail!("no permission to send or receive raw frames: run weir as root, or give it CAP_NET_RAW");
    }
    for name in [Some(&arguments.on), arguments.far.as_ref()].into_iter().flatten() {
        let link = weir_lab::interface::find(name)?;
        if !arguments.allow_default_route {
            check_not_default_route(name, "--allow-default-route")?;
        }
        check_ready(&link)?;
        check_ethernet(&link)?;
        check_mtu(&link, arguments.longest_frame(), "--frame")?;
    }
    let options = arguments.options(fresh_seed());
    let interfaces =
        Interfaces { access: &arguments.on, far: arguments.far.as_deref(), tap: arguments.tap.as_deref() };
    let (stop, live, until_stopped) = (stop_flag()?, Live::new(), options.hold.is_none());
    let mut observe = |event: Event<'_>| match event {
        Event::Progress(emulator) => live.update_with(|| progress(emulator)),
        Event::Tap { name, address, gateway } => {
            let route = match gateway {
                Some(gateway) => {
                    format!("; a route: ip route add 198.18.0.0/15 via {gateway} dev {name} onlink")
                }
                // Every host is at the other end of PPP.
                None if arguments.pppoe.is_some() => {
                    format!("; a route: ip route add 198.18.0.0/15 dev {name}")
                }
                None => String::new(),
            };
            say::say(&format!("{name} has the address {address}{route}"));
        }
    };
    let summary = run(options, &interfaces, &stop, &mut observe);
    live.finish();
    let report = Report { arguments, summary: &summary? };
    if arguments.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&report.json())?)?;
    } else {
        out.write_all(report.text().as_bytes())?;
    }
    let interrupted = stop.load(Ordering::Relaxed) && !until_stopped;
    Ok(match (interrupted, report.summary.is_clean()) {
        (true, _) => Outcome::Interrupted,
        (false, true) => Outcome::Done,
        (false, false) => Outcome::Unfit,
    })
}

fn progress(emulator: &Emulator) -> String {
    let state = match emulator.phase() {
        Phase::SettingUp => "setting up",
        Phase::Holding => "holding",
        Phase::Settling => "waiting until all are up again",
        Phase::Draining => "waiting for the last frames",
        Phase::Releasing => "releasing",
        Phase::Done => "done",
    };
    format!("{state}: {} up, {} failed", emulator.up(), emulator.failed())
}

/// The result.
struct Report<'a> {
    arguments: &'a cli::Cpe,
    summary: &'a Summary,
}

impl Report<'_> {
    fn text(&self) -> String {
        let summary = self.summary;
        let mut text = first_line(summary) + "\n";
        let per_s = |rate: Option<f64>| rate.map_or_else(|| "-".into(), |rate| format!("{rate:.1}/s"));
        let mut row = |name: &str, value: String| text += &format!("{name:15} {value}\n");
        row("starts", format!("{} of {}/s", per_s(summary.starts_per_s), self.arguments.rate));
        let (from, way) = match self.arguments.pppoe {
            None => ("DISCOVER", "DISCOVER to ACK"),
            Some(_) => ("PADI", "PADI to the address of IPCP"),
        };
        row("set-ups", format!("{}; {way} {}", per_s(summary.setups_per_s), times(summary.setup)));
        if let Some(first) = summary.first_packet {
            let place =
                self.arguments.far.as_ref().map_or("and back from the echo server", |_| "to the far end");
            row("first packet", format!("{}; from the first {from} {place}", times(Some(first))));
        }
        let again = summary.retransmissions;
        let again: Vec<String> = match self.arguments.pppoe {
            None => [("DISCOVER", again.discover), ("REQUEST", again.request), ("ARP", again.arp)],
            Some(_) => [("PADI", again.padi), ("PADR", again.padr), ("PPP", again.ppp)],
        }
        .into_iter()
        .chain([("first packet", again.first_packet)])
        .map(|(name, count)| format!("{name} {count}"))
        .collect();
        row("sent again", again.join(", "));
        if let Some(echoes) = echoes_text(&summary.messages) {
            row("echoes", echoes);
        }
        if summary.messages.naks > 0 {
            row("NAK", summary.messages.naks.to_string());
        }
        if summary.messages.renewals > 0 {
            row("renewals", summary.messages.renewals.to_string());
        }
        if summary.released > 0 {
            row("released", summary.released.to_string());
        }
        if let Some(churn) = &summary.churn {
            row("churn", format!("{} sessions ended, {} came up again", churn.ended, churn.up_again));
        }
        if let Some(monkey) = &summary.monkey {
            row("monkey", monkey_text(monkey));
        }
        for (name, traffic) in self.traffic() {
            row(name, traffic_text(&traffic));
        }
        for (step, count) in &summary.failures {
            let first = summary.first_failed.iter().filter(|failed| failed.step == *step);
            let first: Vec<String> =
                first.map(|failed| format!("{}{}", failed.mac, bracketed(failed.tags))).collect();
            row("failed", format!("{count} at {step}: {}", first.join(", ")));
        }
        if !summary.redials.is_empty() {
            let steps = summary.redials.iter().map(|(step, count)| format!("{step} {count}"));
            row("began again", format!("after failures at {}", steps.collect::<Vec<_>>().join(", ")));
        }
        if summary.foreign > 0 {
            row("foreign", format!("{} frames for one session arrived at another one", summary.foreign));
        }
        for (place, frames) in &summary.own_losses {
            row("note", format!("The emulator lost {frames} frames ({place}): it is the limit here."));
        }
        text
    }

    fn traffic(&self) -> impl Iterator<Item = (&'static str, TrafficSummary)> {
        let both = [
            ("from subscriber", self.summary.from_subscriber),
            ("to subscriber", self.summary.to_subscriber),
        ];
        both.into_iter().filter_map(|(name, traffic)| Some((name, traffic?)))
    }

    fn json(&self) -> Value {
        let summary = self.summary;
        let (messages, again) = (summary.messages, summary.retransmissions);
        json!({
            "interface": self.arguments.on,
            "devices": summary.devices,
            "started": summary.started,
            "up": summary.up,
            "released": summary.released,
            "failed": summary.failed(),
            "failures": by_step(&summary.failures),
            "redials": by_step(&summary.redials),
            "first_failed": summary.first_failed.iter().map(|failed| json!({
                "mac": failed.mac.to_string(),
                "tags": failed.tags.to_string(),
                "step": failed.step.name(),
            })).collect::<Vec<_>>(),
            "rate_per_s": self.arguments.rate,
            "starts_per_s": summary.starts_per_s,
            "setups_per_s": summary.setups_per_s,
            "setup_ns": times_json(summary.setup),
            "first_packet_ns": times_json(summary.first_packet),
            "retransmissions": {
                "discover": again.discover,
                "request": again.request,
                "arp": again.arp,
                "padi": again.padi,
                "padr": again.padr,
                "ppp": again.ppp,
                "first_packet": again.first_packet,
            },
            "messages": {
                "discover": messages.discovers,
                "offer": messages.offers,
                "request": messages.requests,
                "ack": messages.acks,
                "nak": messages.naks,
                "renewals": messages.renewals,
                "arp_answers": messages.arp_answers,
                "padi": messages.padis,
                "pado": messages.pados,
                "padr": messages.padrs,
                "pads": messages.padss,
                "padt_sent": messages.padts,
                "padt_received": messages.padts_received,
                "ppp_sent": messages.ppp_sent,
                "ppp_received": messages.ppp_received,
                "echo_requests": messages.echoes,
                "echo_replies": messages.echo_replies,
                "echoes_answered": messages.echoes_answered,
                "router_solicitations": messages.solicitations,
                "router_advertisements": messages.advertisements,
                "unexpected": messages.unexpected,
                "malformed": messages.malformed,
            },
            "prefixes": summary.prefixes,
            "foreign": summary.foreign,
            "churn": summary.churn.map(|churn| json!({ "ended": churn.ended, "up_again": churn.up_again })),
            "monkey": summary.monkey.as_ref().map(monkey_json),
            "from_subscriber": summary.from_subscriber.map(traffic_json),
            "to_subscriber": summary.to_subscriber.map(traffic_json),
            "own_losses": summary.own_losses.iter().map(|(place, frames)| json!({
                "place": place,
                "frames": frames,
            })).collect::<Vec<_>>(),
        })
    }
}

/// Counts by the name of a step.
fn by_step(steps: &[(Step, u64)]) -> BTreeMap<&'static str, u64> {
    steps.iter().map(|(step, count)| (step.name(), *count)).collect()
}

/// The answer: how many are up, how fast they came, how many failed.
fn first_line(summary: &Summary) -> String {
    let (what, found) = match summary.first_packet {
        Some(first) => ("first packet", Some(first)),
        None => ("set-up", summary.setup),
    };
    let how_fast = found.map_or_else(String::new, |found| {
        format!(", {what} p50 {} p99 {}", shown(found.p50), shown(found.p99))
    });
    format!("{} of {} up{how_fast}, failures {}", summary.up, summary.devices, summary.failed())
}

/// What the monkey did, and whether all recovered.
fn monkey_text(monkey: &MonkeySummary) -> String {
    format!(
        "seed {}: {} messages lost, {} doubled, {} late, {} overtaken, {} malformed, {} with a wrong id; {} answers lost; \
         {} power cuts; {} devices began again; {} up at the end",
        monkey.seed,
        monkey.lost,
        monkey.doubled,
        monkey.late,
        monkey.overtaken,
        monkey.malformed,
        monkey.wrong_ids,
        monkey.lost_answers,
        monkey.power_cuts,
        monkey.tries_again,
        monkey.up_at_end
    )
}

fn monkey_json(monkey: &MonkeySummary) -> Value {
    json!({
        "seed": monkey.seed,
        "lost": monkey.lost,
        "doubled": monkey.doubled,
        "late": monkey.late,
        "overtaken": monkey.overtaken,
        "malformed": monkey.malformed,
        "wrong_ids": monkey.wrong_ids,
        "lost_answers": monkey.lost_answers,
        "power_cuts": monkey.power_cuts,
        "tries_again": monkey.tries_again,
        "up_at_end": monkey.up_at_end,
    })
}

/// Echoes of PPP; `None`: there were none.
fn echoes_text(messages: &Messages) -> Option<String> {
    let Messages { echoes, echo_replies, echoes_answered, .. } = messages;
    (echoes + echoes_answered > 0)
        .then(|| format!("{echoes} sent, {echo_replies} answered; {echoes_answered} of the BNG answered"))
}

fn bracketed(tags: impl ToString) -> String {
    let tags = tags.to_string();
    if tags.is_empty() { tags } else { format!(" ({tags})") }
}

fn shown(time: Duration) -> String {
    match time.as_secs_f64() {
        s if s >= 10.0 => format!("{s:.1} s"),
        s if s >= 0.01 => format!("{:.0} ms", s * 1e3),
        s => format!("{:.2} ms", s * 1e3),
    }
}

fn times(found: Option<Times>) -> String {
    found.map_or_else(
        || "-".into(),
        |found| format!("p50 {}, p99 {}, max {}", shown(found.p50), shown(found.p99), shown(found.max)),
    )
}

fn times_json(found: Option<Times>) -> Value {
    found.map_or(Value::Null, |found| {
        let ns = |time: Duration| time.as_nanos() as u64;
        json!({ "p50": ns(found.p50), "p99": ns(found.p99), "max": ns(found.max) })
    })
}

fn traffic_text(traffic: &TrafficSummary) -> String {
    let (lost, received) = (traffic.lost(), rate(traffic.received_fps()));
    format!(
        "{} sent, {} received ({received}), {lost} lost in {} sessions, {} duplicated, {} reordered",
        traffic.sent, traffic.received, traffic.sessions_with_loss, traffic.duplicated, traffic.reordered
    )
}

fn traffic_json(traffic: TrafficSummary) -> Value {
    json!({
        "sent": traffic.sent,
        "received": traffic.received,
        "sent_ipv6": traffic.sent6,
        "received_ipv6": traffic.received6,
        "lost": traffic.lost(),
        "duplicated": traffic.duplicated,
        "reordered": traffic.reordered,
        "sessions_with_loss": traffic.sessions_with_loss,
        "seconds": traffic.duration.as_secs_f64(),
        "received_fps": traffic.received_fps(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_answers() {
        let ms = Duration::from_micros;
        let first = Times { p50: ms(1200), p99: ms(34_000), max: ms(50_000) };
        let summary = Summary { devices: 1000, up: 999, first_packet: Some(first), ..Summary::default() };
        assert_eq!(first_line(&summary), "999 of 1000 up, first packet p50 1.20 ms p99 34 ms, failures 0");
        let none =
            Summary { devices: 3, failures: vec![(weir_cpe::Step::Discover, 3)], ..Summary::default() };
        assert_eq!(first_line(&none), "0 of 3 up, failures 3");
    }
}
