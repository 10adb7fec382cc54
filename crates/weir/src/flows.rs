//! `weir flows`: TCP load, and the server that counts it.

use std::io::{IsTerminal, Write};
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use weir_capture::privilege;
use weir_flows::{
    FlowOutcome, FlowsError, Group, Interval, Load, Observe, Outcome as Found, PORT, Server, listen, run,
};
use weir_port::bpf::congestion::CongestionControl;

use crate::cli;
use crate::outcome::Outcome;
use weir_service::say;
use weir_service::units::{bits, size};

/// Interval between checks for signals.
const LOOK: Duration = Duration::from_millis(100);
/// Most flows that are listed one by one.
const NAMED: usize = 20;

pub(crate) fn run_one(arguments: &cli::Flows, out: &mut impl Write) -> Result<Outcome> {
    match arguments.to() {
        Some(to) => send(arguments, &to, out),
        None => serve(arguments),
    }
}

fn serve(arguments: &cli::Flows) -> Result<Outcome> {
    let stop = crate::run::stop_flag()?;
    let all = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), PORT);
    let cc = arguments.cc.as_deref().map(CongestionControl::provide).transpose()?;
    // Before privileges are dropped: root may select any congestion control.
    let listener = listen(arguments.bind.unwrap_or(all), cc.as_ref().map(CongestionControl::name))?;
    // Any client can send anything to the port. Must precede the threads of the server.
    privilege::drop_all().context("cannot give up privileges")?;
    privilege::run_no_program();
    let server = Server::over(listener)?;
    say::say(&format!("serving at {}", server.address()));
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(LOOK);
    }
    Ok(Outcome::Done)
}

/// The congestion controls of these groups; the groups get the names that the kernel uses.
fn provide(groups: &mut [Group]) -> Result<Vec<CongestionControl>> {
    let mut provided: Vec<(String, CongestionControl)> = Vec::new();
    for group in groups {
        let Some(name) = group.cc.clone() else { continue };
        let known = provided.iter().position(|(known, _)| *known == name);
        let at = match known {
            Some(at) => at,
            None => {
                let control = CongestionControl::provide(&name)?;
                if control.note().is_some() {
                    say::say(&format!("{name} is loaded as {} until this program ends", control.name()));
                }
                provided.push((name, control));
                provided.len() - 1
            }
        };
        group.cc = Some(provided[at].1.name().into());
    }
    Ok(provided.into_iter().map(|(_, control)| control).collect())
}

fn send(arguments: &cli::Flows, to: &[SocketAddr], out: &mut impl Write) -> Result<Outcome> {
    let stop = crate::run::stop_flag()?;
    if arguments.duration <= arguments.groups().iter().map(|group| group.start).max().unwrap_or_default() {
        bail!("a group starts at or after the deadline: use a longer --duration or an earlier start");
    }
    let mut groups = arguments.groups();
    let controls = provide(&mut groups)?;
    let (first, others) = reachable_from(to, &groups)?;
    let mut load = Load {
        to: first,
        groups,
        duration: arguments.duration,
        interval: arguments.interval,
        grace: arguments.grace,
        reset: arguments.reset,
        iperf3: arguments.iperf3,
        rate: arguments.rate,
    };
    let terminal = std::io::stderr().is_terminal();
    let mut broken = Ok(());
    let mut see = |interval: &Interval| {
        if arguments.json && broken.is_ok() {
            broken = json(out, interval);
            // Without a reader of the output the measurement ends.
            stop.fetch_or(broken.is_err(), Ordering::Relaxed);
        } else if !arguments.json {
            show(interval, terminal);
        }
    };
    let mut found = run(&load, Observe { stop: &stop, see: &mut see });
    for to in others {
        let Err(FlowsError::Unreachable { to: former, source, .. }) = &found else { break };
        say::say(&format!("note: cannot connect to {former}: {source}; trying {to}"));
        load.to = to;
        found = run(&load, Observe { stop: &stop, see: &mut see });
    }
    if terminal && !arguments.json {
        say::say("");
    }
    broken?;
    let mut found = match found {
        Err(_) if stop.load(Ordering::Relaxed) => return Ok(Outcome::Interrupted),
        found => found?,
    };
    found.notes.extend(controls.iter().filter_map(CongestionControl::note));
    if arguments.json {
        json(out, &found)?;
    } else {
        out.write_all(text(&found).as_bytes())?;
    }
    Ok(Outcome::Done)
}

/// The first server address of the IP version of all source addresses, and the other ones.
fn reachable_from(to: &[SocketAddr], groups: &[Group]) -> Result<(SocketAddr, Vec<SocketAddr>)> {
    let sources: Vec<_> = groups.iter().filter_map(|group| group.from).collect();
    let fits = |to: &&SocketAddr| sources.iter().all(|from| from.is_ipv4() == to.is_ipv4());
    let mut fitting = to.iter().filter(fits).copied();
    let Some(first) = fitting.next() else {
        bail!("the server has no address of the IP version of the source addresses: change from= or --from");
    };
    Ok((first, fitting.collect()))
}

fn json(out: &mut impl Write, what: &impl serde::Serialize) -> Result<()> {
    writeln!(out, "{}", serde_json::to_string(what)?)?;
    Ok(out.flush()?)
}

fn show(interval: &Interval, terminal: bool) {
    let rtts = interval.info.iter().map(|info| info.rtt_us).filter(|&rtt| rtt > 0);
    let (least, most) = rtts.fold((u32::MAX, 0), |(least, most), rtt| (least.min(rtt), most.max(rtt)));
    let again: u64 = interval.info.iter().map(|info| u64::from(info.retransmissions)).sum();
    let stalled = match interval.stalled.len() {
        0 => String::new(),
        _ => format!(", stalled: {}", names(&interval.stalled)),
    };
    let rtt = if most == 0 { String::new() } else { format!(", rtt {:.1} to {:.1} ms", ms(least), ms(most)) };
    let line = format!(
        "{:.0} s {}, {} flows, Jain {:.3}, {again} retransmissions{rtt}{stalled}",
        interval.to_s,
        bits(interval.sum_bits_per_s),
        interval.goodput_bits_per_s.len(),
        interval.jain,
    );
    if terminal {
        let _ = write!(std::io::stderr(), "\r{line}\x1b[K");
    } else {
        say::say(&line);
    }
}

fn ms(us: u32) -> f64 {
    f64::from(us) / 1e3
}

fn names(flows: &[u32]) -> String {
    let more = if flows.len() > NAMED { format!(" and {} more", flows.len() - NAMED) } else { String::new() };
    flows.iter().take(NAMED).map(u32::to_string).collect::<Vec<_>>().join(" ") + &more
}

fn text(found: &Found) -> String {
    // Counts of received bytes come from the server, which is untrusted: saturate.
    let sum = |of: fn(&FlowOutcome) -> u64| found.flows.iter().map(of).fold(0, u64::saturating_add);
    let mut text = format!(
        "{} in {:.3} s, {} flows, Jain {:.3}\n",
        bits(found.sum_bits_per_s),
        found.window_s,
        found.flows.len(),
        found.jain
    );
    text += &format!(
        "sent {}, received {} ({} of it after the deadline); {} retransmissions\n",
        size(sum(|flow| flow.sent_bytes)),
        size(sum(|flow| flow.received_bytes)),
        size(sum(|flow| flow.late_bytes)),
        sum(|flow| flow.info.retransmissions.into()),
    );
    let received = found.arrival_spread_s.map(|s| format!(", received within {:.3} ms", s * 1e3));
    text += &format!(
        "first bytes sent within {:.3} ms{}, minimum round-trip time {:.3} ms\n",
        found.start_spread_s * 1e3,
        received.unwrap_or_default(),
        found.min_rtt_s * 1e3
    );
    if !found.stalled.is_empty() {
        text += &format!("stalled: flows {}\n", names(&found.stalled));
    }
    if !found.incomplete.is_empty() {
        text += &format!("incomplete: flows {}\n", names(&found.incomplete));
    }
    for flow in found.flows.iter().filter(|flow| !flow.stalls.is_empty()).take(NAMED) {
        let times = flow.stalls.iter().map(|stall| match stall.to_s {
            Some(to) => format!("{:.1} to {to:.1} s", stall.from_s),
            None => format!("{:.1} s on", stall.from_s),
        });
        let times = times.collect::<Vec<_>>().join(", ");
        text += &format!("  flow {} from {} ({}): no progress {times}\n", flow.flow, flow.from, flow.cc);
    }
    found.notes.iter().for_each(|note| text += &format!("note: {note}\n"));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_flows_cannot_come_to_are_left_out() {
        let end = |text: &str| text.parse::<SocketAddr>().expect("an address");
        let to = ["[2001:db8::1]:5301", "192.0.2.1:5301", "192.0.2.2:5301"].map(end);
        let group =
            |from: Option<&str>| Group { flows: 1, cc: None, from: from.map(end), start: Duration::ZERO };
        for (from, expected) in [
            (vec![None], Some((to[0], to[1..].to_vec()))),
            (vec![Some("198.18.0.1:0"), None], Some((to[1], vec![to[2]]))),
            (vec![Some("[fe80::1%2]:0")], Some((to[0], vec![]))),
            (vec![Some("198.18.0.1:0"), Some("[fe80::1%2]:0")], None),
        ] {
            let groups: Vec<_> = from.iter().map(|from| group(*from)).collect();
            assert_eq!(reachable_from(&to, &groups).ok(), expected, "{from:?}");
        }
    }
}
