//! The ladder as text: how each method differs from the previous one, how much faster it is, and which cost goes away and which
//! comes.

use super::captured::{Times, times};
use super::{Method, PARTS, Share, by_traffic, methods};
use weir_measure::stats::{self, Ratio};
use weir_port::capture as port;
use weir_record::record::CaptureTime;
use weir_record::run_data::RunData;
use weir_report::report::block::Block;
use weir_report::view::format::{bracketed, full, list, si, significant, whole_percent};
use weir_report::view::{Bound, Rate};

/// Differences below this share of a rate are no change: trials of the same method differ by as much.
const SAME: f64 = 0.05;
/// Rates without loss below this share of those in overload are decided by stops.
const STOPPED: f64 = 0.8;
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

/// What a run captured of each traffic, for the summary; the story is in its section.
pub(in crate::capture) fn findings(data: &RunData) -> Vec<String> {
    let methods = methods(data);
    let groups = by_traffic(&methods);
    let tops = groups.iter().filter_map(|(traffic, methods)| top(methods, traffic));
    tops.chain(disturbed(&methods)).chain(without_loss(&methods)).chain(crowded(&methods)).collect()
}

/// What a fan-out over all CPUs cannot show on a small machine.
pub(super) fn crowded(methods: &[Method<'_>]) -> Option<String> {
    let shares = |method: &Method<'_>| method.threads() == "all" && !method.data.point.cpus_shared.is_empty();
    methods.iter().any(shares).then(|| {
        "With threads on all CPUs, capture threads share the generator's: this machine has too few to show what a fan-out gains."
            .into()
    })
}

/// The method that captures most in overload, beside the next one, what most programs use, and the lowest one.
pub(super) fn top(methods: &[&Method<'_>], traffic: &str) -> Option<String> {
    let fps = |method: &Method<'_>| method.rate.map_or(0.0, |rate| rate.fps);
    let all = || methods.iter().copied().filter(|method| method.name != "count" && method.rate.is_some());
    let (best, first) = (all().max_by(|a, b| fps(a).total_cmp(&fps(b)))?, all().next()?);
    let is_best = |method: &&Method<'_>| method.label() == best.label();
    let next = all().filter(|method| !is_best(method)).max_by(|a, b| fps(a).total_cmp(&fps(b)));
    let today = all().find(|method| method.name == "libpcap");
    let mut others: Vec<&Method<'_>> = Vec::new();
    for other in [next, today, Some(first)].into_iter().flatten().filter(|method| !is_best(method)) {
        if others.iter().all(|known| known.label() != other.label()) {
            others.push(other);
        }
    }
    let times = others.iter().filter_map(|other| Some(beside(&times(best, other)?, &other.label())));
    let times: Vec<String> = times.collect();
    let times = if times.is_empty() { String::new() } else { format!(", {}", list(&times)) };
    let cost = |method: &Method<'_>| method.per_frame(CaptureTime::capture_ns).map(full);
    let unit = if best.cycles_per_ns().is_some() { "cycles" } else { "ns" };
    let cost = match (cost(best), cost(first).filter(|_| !is_best(&first))) {
        (Some(is), Some(was)) => format!(" A frame costs {is} {unit}, and {was} with {}.", first.label()),
        (Some(is), None) => format!(" A frame costs {is} {unit}."),
        _ => String::new(),
    };
    let rate = with_interval(&best.rate?);
    Some(format!("In overload ({traffic}) {} captures most: {rate}{times}.{cost}", best.label()))
}

/// `1.66 M frames/s (1.60 M to 1.71 M)`.
fn with_interval(rate: &Rate) -> String {
    let interval = rate.interval.map(|(low, high)| format!(" ({} to {})", si(low), si(high)));
    format!("{} frames/s{}", rate.words(), interval.unwrap_or_default())
}

/// What a run cannot answer since most of its time does not count, and what would.
pub(super) fn disturbed(methods: &[Method<'_>]) -> Option<String> {
    let trials = methods.iter().flat_map(|method| &method.data.trials);
    let windows = trials.flat_map(|trial| &trial.windows);
    let (ran, all) = windows.fold((0, 0), |(ran, all), window| (ran + usize::from(window.ran), all + 1));
    (2 * ran < all).then(|| {
        format!(
            "Only {} of the time counts: in the rest the host or other programs took a CPU from generator or capture. \
             Run it again while the machine is quiet, or with more rounds (`--set capture.overload_rounds=40`).",
            whole_percent(ran as f64 / all as f64)
        )
    })
}

/// What receiving takes alone.
pub(super) fn floor(methods: &[&Method<'_>]) -> Option<String> {
    let rate = methods.iter().find(|method| method.name == "count")?.rate?;
    let limit = if rate.bound == Bound::Exact { ": no method can take more" } else { "" };
    Some(format!("The kernel receives {} where no frame is kept (`count`){limit}.", with_interval(&rate)))
}

/// What all take without loss, and what that rate depends on.
pub(super) fn without_loss(methods: &[Method<'_>]) -> Option<String> {
    let capturing = methods.iter().filter(|method| method.name != "count" && !method.is_bound());
    let all: Vec<(f64, f64)> =
        capturing.filter_map(|method| Some((method.lossless_fps()?, method.rate?.fps))).collect();
    let least = all.iter().map(|(fps, _)| *fps).reduce(f64::min)?;
    let most = all.iter().map(|(fps, _)| *fps).reduce(f64::max)?;
    let shares: Vec<f64> = all.iter().map(|(fps, in_overload)| fps / in_overload).collect();
    let why = if stats::median(&shares)? < STOPPED {
        ": one stop of a CPU by the host is enough to lose frames, so that these rates say more of the machine than of the methods"
    } else {
        ""
    };
    let rates = if least == most { si(least) } else { format!("{} to {}", si(least), si(most)) };
    Some(format!("Without loss the methods take {rates} frames/s{why}."))
}

/// A sentence or two for each method: how it stands to the one before it with the same traffic.
fn sentences(methods: &[Method<'_>]) -> Vec<(String, Vec<String>)> {
    let of_group = |(traffic, group): (String, Vec<&Method<'_>>)| {
        let before = |i: usize| group[..i].iter().rev().find(|other| other.rate.is_some()).copied();
        let sentences = group.iter().enumerate().filter_map(|(i, method)| sentence(method, before(i)));
        (traffic, sentences.collect())
    };
    by_traffic(methods).into_iter().map(of_group).collect()
}

fn sentence(method: &Method<'_>, before: Option<&Method<'_>>) -> Option<String> {
    let rate = method.rate?;
    let verb = if method.name == "count" { "counts" } else { "captures" };
    let novelty = match method.name.parse() {
        _ if method.polls() => ", whose reader itself has the driver receive,".into(),
        Ok(method) => format!(", {},", novelty(method)),
        Err(_) => String::new(),
    };
    let head = format!("{}{novelty} {verb} {} frames/s in overload", method.label(), rate.words());
    let Some(before) = before else {
        let parts =
            PARTS.iter().filter_map(|(name, of)| Some(format!("{} in {name}", full(method.per_frame(of)?))));
        let parts: Vec<String> = parts.collect();
        let cost = method.per_frame(CaptureTime::capture_ns).filter(|_| !parts.is_empty());
        let unit = if method.cycles_per_ns().is_some() { "cycles" } else { "ns" };
        let cost = cost.map(|all| format!(": a frame costs {} {unit}, {}", full(all), list(&parts)));
        return Some(head + &cost.unwrap_or_default() + ".");
    };
    let how = times(method, before).map(|times| format!(", {}", beside(&times, &before.label())));
    let change = change(method, before).map(|text| format!(" {text}"));
    Some(format!("{head}{}.{}", how.unwrap_or_default(), change.unwrap_or_default()))
}

fn ratio(own: impl Iterator<Item = Option<f64>>, other: impl Iterator<Item = Option<f64>>) -> Option<Ratio> {
    stats::ratio(&own.zip(other).filter_map(|(own, other)| own.zip(other)).collect::<Vec<_>>())
}

/// Does the interval leave open which of the two is more?
fn is_open(ratio: &Ratio) -> bool {
    ratio.interval.is_some_and(|(low, high)| low <= 1.0 && 1.0 <= high)
}

fn beside(Times { ratio, bound }: &Times, other: &str) -> String {
    let is_same = |value: f64| (value - 1.0).abs() <= SAME;
    let (low, high) = ratio.interval.unwrap_or((ratio.value, ratio.value));
    let (times, interval) = (significant(ratio.value), ratio.interval.map(bracketed).unwrap_or_default());
    if bound.is_empty() && is_same(low) && is_same(high) {
        format!("as much as {other}{interval}")
    } else if is_open(ratio) {
        format!("not distinguished from {other}, {bound}{times} times as much{interval}")
    } else {
        format!("{bound}{times} times {other}{interval}")
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
