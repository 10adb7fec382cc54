//! What a run of servers says, one sentence each.

use weir_apps::client::Mode;

use super::super::measured::Served;
use super::{Limit, Placed, all, ratios};
use crate::run_data::RunData;
use crate::view::format::{bracketed, full, significant};

/// Those of the summary.
pub(in super::super) fn findings(data: &RunData) -> Vec<String> {
    let all = all(data);
    let mut found: Vec<String> =
        costs(&all).into_iter().chain(beside_peers(&all)).chain(held(&all)).collect();
    found.extend(client_limited(&all));
    for why in all.iter().filter_map(|placed| placed.data.why_left_out()) {
        if !found.iter().any(|text| text == why) {
            found.push(why.into());
        }
    }
    found
}

/// The load with most connections at a time, of those with the first reply.
fn heaviest<'a, 'd>(all: &'a [Placed<'d>]) -> Vec<&'a Placed<'d>> {
    let closed = |placed: &&Placed<'_>| matches!(placed.mode(), Some(Mode::Closed(_)));
    let number = |placed: &Placed<'_>| placed.setting("concurrency").parse::<u64>().unwrap_or(0);
    let Some(reply) = all.iter().find(closed).map(|placed| placed.setting("reply").to_string()) else {
        return Vec::new();
    };
    let own = |placed: &&Placed<'_>| placed.setting("reply") == reply && placed.setting("client") == "weir";
    let most = all.iter().filter(closed).filter(own).map(number).max().unwrap_or(0);
    all.iter().filter(closed).filter(own).filter(|placed| number(placed) == most).collect()
}

/// What a connection costs with a process or a thread, as a multiple of the event loop's cost.
fn costs(all: &[Placed<'_>]) -> Option<String> {
    let heaviest = heaviest(all);
    let event_loop = heaviest.iter().find(|placed| placed.setting("server") == "epoll")?;
    let us = event_loop.median(Served::cpu_s)? * 1e6;
    let times = |name: &str| {
        let placed = heaviest.iter().find(|placed| placed.setting("server") == name)?;
        let ratio = ratios::cpu(all, placed)?;
        let interval = ratio.interval.map_or_else(String::new, bracketed);
        Some(format!("{name} {} times as much{interval}", significant(ratio.value)))
    };
    let others: Vec<String> = ["fork", "fork-exec", "thread", "pool"].into_iter().filter_map(times).collect();
    let (reply, _, load) = event_loop.load();
    (!others.is_empty()).then(|| {
        format!(
            "A connection (reply {reply}, {load}) costs epoll {} us of CPU time, {}.",
            significant(us),
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
        0.0 => "which no server asked of it".to_string(),
        rate => format!("it reached {}/s", full(rate)),
    };
    (ceiling > 0.0).then(|| {
        format!(
            "The client was the limit at {limited} of {} points, whose rates are at least what is shown; by its CPU time \
             it can make {} connections/s, and {proof}.",
            closed.len(),
            full(ceiling)
        )
    })
}
