//! The ladder as a story: what each method does otherwise than the one before it, how much faster that is, which cost goes
//! away and which comes.

use super::{Method, PARTS, Share, by_traffic, methods, rounds};
use crate::record::{CaptureTime, Trial};
use crate::report::block::Block;
use crate::run_data::{RunData, received_fps};
use crate::stats::{self, Ratio};
use crate::view::format::{bracketed, full, list, si, significant};
use weir_port::capture as port;

/// Differences below this share of a rate are no change: trials of the same method differ by as much.
const SAME: f64 = 0.05;
/// Causes that are named on each side.
const NAMED: usize = 3;

/// What a method does otherwise than those below it.
fn novelty(method: port::Method) -> &'static str {
    match method {
        port::Method::Recv => "a system call for each frame",
        port::Method::RecvMmsg => "a system call for many frames",
        port::Method::Fanout => "sockets that share the frames, a thread for each",
        port::Method::Libpcap => "a ring of blocks through a library, as most programs have it",
        port::Method::Ring => "a ring of blocks in memory that the kernel shares",
        port::Method::RingFanout => "rings that share the frames, a thread for each",
        port::Method::Xdp => "frames out of the driver, past the network stack",
        port::Method::Count => "an XDP program that keeps no frame",
    }
}

/// All sentences, under the name of the traffic.
pub(super) fn blocks(methods: &[Method<'_>]) -> Vec<Block> {
    let part = |(traffic, sentences): (String, Vec<String>)| {
        [Block::Sentence(format!("{traffic}:")), Block::Bullets(sentences)]
    };
    sentences(methods).into_iter().flat_map(part).collect()
}

/// How far a run climbed with each traffic, for the summary; the story is in its section.
pub(in crate::rigs::capture) fn findings(data: &RunData) -> Vec<String> {
    let methods = methods(data);
    let groups = by_traffic(&methods);
    let mut found: Vec<String> =
        groups.iter().filter_map(|(traffic, methods)| top(methods, traffic)).collect();
    let crowded =
        methods.iter().any(|method| method.threads() == "all" && !method.data.point.cpus_shared.is_empty());
    if crowded {
        found.push(
            "With threads on all CPUs, capture threads share the generator's: this machine has too few to show what \
             a fan-out gains."
                .into(),
        );
    }
    found
}

/// The method that captures most, beside the first one and what people have today.
fn top(methods: &[&Method<'_>], traffic: &str) -> Option<String> {
    let fps = |method: &&Method<'_>| method.lossless_fps().unwrap_or(0.0);
    let all = || methods.iter().copied().filter(|method| method.name != "count" && fps(method) > 0.0);
    let (best, first) = (all().max_by(|a, b| fps(a).total_cmp(&fps(b)))?, all().next()?);
    let other = |method: &&Method<'_>| method.label() != best.label();
    let today = all().filter(|method| method.name == "libpcap" && method.label() != first.label());
    let others = std::iter::once(first).chain(today).filter(other);
    let times: Vec<String> =
        others.filter_map(|method| Some(beside(&rates(best, method)?, &method.label()))).collect();
    let times = if times.is_empty() { String::new() } else { format!(", {}", list(&times)) };
    let cost = |method: &Method<'_>| method.per_frame(CaptureTime::capture_ns).map(full);
    let unit = if best.cycles_per_ns().is_some() { "cycles" } else { "ns" };
    let cost = match (cost(best), cost(first).filter(|_| other(&first))) {
        (Some(is), Some(was)) => format!(" A frame costs {is} {unit} in place of {was}."),
        (Some(is), None) => format!(" A frame costs {is} {unit}."),
        _ => String::new(),
    };
    let bound = if best.is_bound() { "at least " } else { "" };
    let name = best.label();
    let overload = overload(methods).unwrap_or_default();
    Some(format!(
        "{traffic}: {name} captures most without loss, {bound}{} frames/s{times}.{cost}{overload}",
        si(fps(&best))
    ))
}

/// What the best and the worst method capture of far too much.
fn overload(methods: &[&Method<'_>]) -> Option<String> {
    let overloaded = methods.iter().filter(|method| method.name != "count" && method.receives_apart());
    let mut all: Vec<_> = overloaded
        .filter_map(|method| Some((method.full.filter(|full| full.counts().lost > 0)?, method.label())))
        .collect();
    all.sort_by(|(a, _), (b, _)| received_fps(a).total_cmp(&received_fps(b)));
    let said = |(full, name): &(&Trial, String)| {
        format!("{name} captures {} of {} frames/s", si(received_fps(full)), si(full.sent_fps()))
    };
    let (worst, best) = all.split_first().and_then(|(worst, others)| Some((worst, others.last()?)))?;
    Some(format!(" In overload {}, and {}.", said(best), said(worst)))
}

/// A sentence or two for each method: how it stands to the one before it with the same traffic.
fn sentences(methods: &[Method<'_>]) -> Vec<(String, Vec<String>)> {
    let of_group = |(traffic, group): (String, Vec<&Method<'_>>)| {
        let before = |i: usize| group[..i].iter().rev().find(|other| other.lossless_fps().is_some()).copied();
        let sentences = group.iter().enumerate().filter_map(|(i, method)| sentence(method, before(i)));
        (traffic, sentences.collect())
    };
    by_traffic(methods).into_iter().map(of_group).collect()
}

fn sentence(method: &Method<'_>, before: Option<&Method<'_>>) -> Option<String> {
    let fps = method.lossless_fps()?;
    let bound = if method.is_bound() { "at least " } else { "" };
    let verb = if method.name == "count" { "counts" } else { "captures" };
    let novelty = match method.name.parse() {
        _ if method.polls() => ", whose reader itself has the driver receive,".into(),
        Ok(method) => format!(", {},", novelty(method)),
        Err(_) => String::new(),
    };
    let head = format!("{}{novelty} {verb} {bound}{} frames/s without loss", method.label(), si(fps));
    let Some(before) = before else {
        let parts =
            PARTS.iter().filter_map(|(name, of)| Some(format!("{} in {name}", full(method.per_frame(of)?))));
        let parts: Vec<String> = parts.collect();
        let cost = method.per_frame(CaptureTime::capture_ns).filter(|_| !parts.is_empty());
        let unit = if method.cycles_per_ns().is_some() { "cycles" } else { "ns" };
        let cost = cost.map(|all| format!(": a frame costs {} {unit}, {}", full(all), list(&parts)));
        return Some(head + &cost.unwrap_or_default() + ".");
    };
    let how = rates(method, before).map(|ratio| format!(", {}", beside(&ratio, &before.label())));
    let change = change(method, before).map(|text| format!(" {text}"));
    Some(format!("{head}{}.{}", how.unwrap_or_default(), change.unwrap_or_default()))
}

/// One method's rates by those of another one, round by round.
fn rates(method: &Method<'_>, other: &Method<'_>) -> Option<Ratio> {
    ratio(rounds(method.data), rounds(other.data))
}

fn ratio(own: impl Iterator<Item = Option<f64>>, other: impl Iterator<Item = Option<f64>>) -> Option<Ratio> {
    stats::ratio(&own.zip(other).filter_map(|(own, other)| own.zip(other)).collect::<Vec<_>>())
}

/// Does the interval leave open which of the two is more?
fn is_open(ratio: &Ratio) -> bool {
    ratio.interval.is_some_and(|(low, high)| low <= 1.0 && 1.0 <= high)
}

fn beside(ratio: &Ratio, other: &str) -> String {
    let is_same = |value: f64| (value - 1.0).abs() <= SAME;
    let (low, high) = ratio.interval.unwrap_or((ratio.value, ratio.value));
    let (times, interval) = (significant(ratio.value), ratio.interval.map(bracketed).unwrap_or_default());
    if is_same(low) && is_same(high) {
        format!("as {other} does{interval}")
    } else if is_open(ratio) {
        format!("not distinguished from {other}, {times} times as much{interval}")
    } else {
        format!("{times} times {other}{interval}")
    }
}

/// Which cost went away, or came, and with which habit.
fn change(method: &Method<'_>, before: &Method<'_>) -> Option<String> {
    let unit = if method.cycles_per_ns().is_some() { "cycles" } else { "ns" };
    let all = |method: &Method<'_>| method.per_frame(CaptureTime::capture_ns).map(full);
    let (was, is) = (all(before)?, all(method)?);
    let calls = |method: &Method<'_>| method.calls_per_frame().map(|calls| significant(calls * 1000.0));
    let calls = match (calls(before), calls(method)) {
        (Some(was), Some(is)) if was != is => format!(" System calls per 1000 frames: {was}, now {is}."),
        _ => String::new(),
    };
    let costs = ratio(method.costs_ns.iter().copied(), before.costs_ns.iter().copied())?;
    let times =
        costs.interval.map(|interval| format!("{} times{}", significant(costs.value), bracketed(interval)));
    let times = times.unwrap_or_default();
    if is_open(&costs) {
        return Some(format!(
            "What a frame costs is not distinguished: {is} {unit} and {was}, {times}.{calls}"
        ));
    }
    let difference = |of: &Share| Some(method.per_frame(of)? - before.per_frame(of)?);
    let (name, of) = PARTS.iter().max_by(|(_, a), (_, b)| {
        let size = |of| difference(of).unwrap_or(0.0).abs();
        size(a).total_cmp(&size(b))
    })?;
    let [part_was, part_is] = [before.per_frame(of)?, method.per_frame(of)?].map(full);
    let gone = excess(before, method).map(|gone| format!(" What goes away: {gone}.")).unwrap_or_default();
    let come = excess(method, before).map(|come| format!(" What comes: {come}.")).unwrap_or_default();
    let times = if times.is_empty() { times } else { format!(", {times}") };
    Some(format!(
        "A frame costs {is} {unit} in place of {was}{times}; what changes most is {name}: {part_is} in place of \
         {part_was}.{gone}{come}{calls}"
    ))
}

/// The causes that cost more on this method than on the other one, as far as they are worth a word.
fn excess(method: &Method<'_>, other: &Method<'_>) -> Option<String> {
    let (shares, others) = (method.shares()?, other.shares()?);
    let sum = |shares: &[(&str, f64)]| shares.iter().map(|(_, cost)| cost).sum::<f64>();
    let worth = sum(&shares).max(sum(&others)) * SAME;
    let more = shares.iter().map(|(cause, cost)| {
        let there = others.iter().find(|(other, _)| other == cause).map_or(0.0, |(_, cost)| *cost);
        (cost - there, format!("{cause} ({} of {})", full(cost - there), full(*cost)))
    });
    let mut more: Vec<_> = more.filter(|(cost, _)| *cost > worth).collect();
    more.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    let named: Vec<String> = more.into_iter().take(NAMED).map(|(_, text)| text).collect();
    (!named.is_empty()).then(|| list(&named))
}
