//! Findings about servers, one sentence each.

use std::cmp::Reverse;

use weir_apps::client::Mode;

use super::super::measured::Served;
use super::{Limit, Placed, all, ratios, tables};
use weir_record::run_data::RunData;
use weir_report::report::answer::Answer;
use weir_report::report::block::Block;
use weir_report::view::format::{bracketed, full, significant};

/// Those of the summary.
pub(in super::super) fn findings(data: &RunData) -> Vec<String> {
    let all = all(data);
    let mut found: Vec<String> = costs(&all, &heaviest(&all)).into_iter().chain(beside_peers(&all)).collect();
    found.extend(held(&all).into_iter().chain(client_limited(&all)));
    for why in all.iter().filter_map(|placed| placed.data.why_left_out()) {
        if !found.iter().any(|text| text == why) {
            found.push(why.into());
        }
    }
    found
}

const COLUMNS: &str = "CPU: CPU time of the server for a connection; of epoll: times that of epoll, round by round; ≥: the client is the limit, and \
    the server can do more; p99: latency in a closed loop; KiB held: memory of a connection that stays open, without its socket.";

/// What a connection costs each server.
pub(in super::super) fn answer(data: &RunData) -> Option<Answer> {
    let all = all(data);
    let loaded = heaviest(&all);
    let first = costs(&all, &loaded)?;
    Some(Answer {
        sentences: std::iter::once(first).chain(beside_peers(&all)).chain(client_limited(&all)).collect(),
        table: tables::compared(&all, &loaded),
        columns: COLUMNS.into(),
        drawing: Some(Block::Wide(tables::chart(&loaded), tables::CAPTION)),
    })
}

/// The load with most connections at a time, of those with the reply that most servers give.
fn heaviest<'a, 'd>(all: &'a [Placed<'d>]) -> Vec<&'a Placed<'d>> {
    let closed: Vec<&Placed<'_>> = all
        .iter()
        .filter(|placed| matches!(placed.mode(), Some(Mode::Closed(_))) && placed.setting("client") == "weir")
        .collect();
    let number = |placed: &&&Placed<'_>| placed.setting("concurrency").parse::<u64>().unwrap_or(0);
    let Some(most) = closed.iter().map(|placed| number(&placed)).max() else { return Vec::new() };
    let at = |reply: &str| -> Vec<&'a Placed<'d>> {
        let own = closed.iter().filter(|placed| number(placed) == most && placed.setting("reply") == reply);
        own.copied().collect()
    };
    // Of several with as many, the first.
    super::replies().map(at).min_by_key(|servers| Reverse(servers.len())).unwrap_or_default()
}

/// What a connection costs with a process or a thread, as a multiple of the event loop's cost.
fn costs(all: &[Placed<'_>], loaded: &[&Placed<'_>]) -> Option<String> {
    let cost = |placed: &Placed<'_>| placed.median(Served::cpu_s).map(|s| s * 1e6);
    let us = |name: &str, us: f64| format!("{name} {} us", significant(us));
    let event_loop = loaded.iter().find(|placed| placed.setting("server") == "epoll")?;
    let times = |name: &str| {
        let placed = loaded.iter().find(|placed| placed.setting("server") == name)?;
        let ratio = ratios::cpu(all, placed)?;
        let interval = ratio.interval.map_or_else(String::new, bracketed);
        Some(format!("{name} {} times as much{interval}", significant(ratio.value)))
    };
    let others: Vec<String> = ["fork", "fork-exec", "thread", "pool"].into_iter().filter_map(times).collect();
    let (reply, _, load) = event_loop.load();
    let first = us("epoll", cost(event_loop)?);
    let known = loaded.iter().filter_map(|placed| Some((placed.setting("server"), cost(placed)?)));
    let cheapest = known.min_by(|a, b| a.1.total_cmp(&b.1)).filter(|(name, _)| *name != "epoll");
    let cheapest =
        cheapest.map_or_else(String::new, |(name, cost)| format!("; the cheapest is {}", us(name, cost)));
    (!others.is_empty()).then(|| {
        format!(
            "A connection (reply {reply}, {load}) costs {first} of CPU time, {}{cheapest}.",
            others.join(", ")
        )
    })
}

/// The cheapest event loop beside each server by others, where most connections are open at a time.
fn beside_peers(all: &[Placed<'_>]) -> Vec<String> {
    let peers = all.iter().filter(|placed| placed.setting("client") == "weir" && is_peer(placed));
    let mut heaviest: Vec<&Placed<'_>> = Vec::new();
    let number = |placed: &Placed<'_>| placed.setting("concurrency").parse::<u64>().unwrap_or(0);
    for peer in peers.filter(|peer| !peer.found.is_empty() && number(peer) > 0) {
        match heaviest.iter_mut().find(|other| other.setting("server") == peer.setting("server")) {
            Some(other) if number(other) < number(peer) => *other = peer,
            Some(_) => {}
            None => heaviest.push(peer),
        }
    }
    heaviest.into_iter().filter_map(|peer| beside(all, peer)).collect()
}

fn is_peer(placed: &Placed<'_>) -> bool {
    super::Architecture::ALL.iter().all(|(_, name)| *name != placed.setting("server"))
}

fn beside(all: &[Placed<'_>], peer: &Placed<'_>) -> Option<String> {
    let same = all.iter().filter(|placed| placed.is_event_loop() && placed.load() == peer.load());
    let cost = |placed: &&Placed<'_>| placed.median(Served::cpu_s).unwrap_or(f64::MAX);
    let best = same.min_by(|a, b| cost(a).total_cmp(&cost(b)))?;
    let ratio = ratios::ratio(best, peer, Served::cpu_s)?;
    let interval = ratio.interval.map_or_else(String::new, bracketed);
    let (server, peer, (_, _, load)) = (best.setting("server"), peer.setting("server"), peer.load());
    Some(format!(
        "For an HTTP reply ({load}) the cheapest event loop, {server}, needs {} times{interval} the CPU time of {peer}.",
        significant(ratio.value)
    ))
}

/// Below this the pages of a process are no measure of a connection.
const LITTLE_KIB: f64 = 0.1;

fn held(all: &[Placed<'_>]) -> Option<String> {
    let holds = |placed: &&Placed<'_>| matches!(placed.mode(), Some(Mode::Hold(_)));
    let most = |placed: &Placed<'_>| placed.median(|s| Some(s.outcome.held as f64)).unwrap_or(0.0);
    let value = all.iter().filter(holds).map(most).fold(0.0, f64::max);
    let best = all.iter().filter(holds).filter(|placed| most(placed) == value);
    let kib = |placed: &&Placed<'_>| placed.median(Served::kib).unwrap_or(f64::MAX);
    let best = best.min_by(|a, b| kib(a).total_cmp(&kib(b))).filter(|_| value > 0.0)?;
    let each = match best.median(Served::kib)? {
        little if little < LITTLE_KIB => format!("less than {LITTLE_KIB} KiB each beside the sockets"),
        kib => format!("{} KiB each beside the sockets", significant(kib)),
    };
    let server = best.setting("server");
    Some(format!("{} connections were held at a time, with least memory by {server}: {each}.", full(value)))
}

/// The client is never the limit in silence.
fn client_limited(all: &[Placed<'_>]) -> Option<String> {
    let closed: Vec<_> = all
        .iter()
        .filter(|placed| matches!(placed.mode(), Some(Mode::Closed(_))) && placed.setting("client") == "weir")
        .collect();
    let limited = closed.iter().filter(|placed| placed.limit() == Some(Limit::Client)).count();
    let ceiling =
        closed.iter().filter_map(|placed| placed.median(|s| Some(s.client_cpus as f64 / s.client_cpu_s()?)));
    let ceiling = ceiling.fold(0.0, f64::max);
    let proof = closed.iter().filter(|placed| placed.limit() == Some(Limit::Client));
    let reached = proof.filter_map(|placed| placed.median(Served::per_s)).fold(0.0, f64::max);
    let proof = match reached {
        0.0 => ", which no server asked of it".to_string(),
        rate => format!(", and it reached {}/s", full(rate)),
    };
    (ceiling > 0.0).then(|| {
        format!(
            "The client was the limit at {limited} of {} points, whose rates are at least what is shown; by its CPU time \
             it can make {} connections/s{proof}.",
            closed.len(),
            full(ceiling)
        )
    })
}
