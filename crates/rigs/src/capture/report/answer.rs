//! The first screen: the ladder from the bottom up, by what each method captures in overload.

use super::captured::times;
use super::{CAPTION, Method, by_traffic, chart, methods, story};
use weir_record::record::CaptureTime;
use weir_record::run_data::RunData;
use weir_report::report::answer::Answer;
use weir_report::report::block::Block;
use weir_report::view::Table;
use weir_report::view::format::{full, or_dash, si, significant};

/// The answer of a run that climbed the ladder.
pub(in crate::capture) fn answer(data: &RunData) -> Option<Answer> {
    let methods = methods(data);
    let groups = by_traffic(&methods);
    let (_, first) = groups.first()?;
    let tops: Vec<String> =
        groups.iter().filter_map(|(traffic, methods)| story::top(methods, traffic)).collect();
    let (top, others) = tops.split_first()?;
    let sentences = std::iter::once(top.clone())
        .chain(story::disturbed(&methods))
        .chain(story::floor(first))
        .chain(others.iter().cloned())
        .chain(story::without_loss(&methods))
        .chain(story::crowded(&methods))
        .collect();
    let table = if groups.len() == 1 { ladder(first) } else { matrix(&methods, &groups) };
    Some(Answer {
        sentences,
        table,
        columns: COLUMNS.into(),
        drawing: Some(Block::Drawing { drawings: vec![chart(&methods)], caption: CAPTION }),
    })
}

const COLUMNS: &str = "Frames/s: captured while more was sent than the method takes, in times in which the host stopped no CPU. \
    × below: times the method in the line above it, from rounds that alternated, with its interval. No loss: the highest rate at which nothing \
    was lost. Cycles: CPU time of a captured frame. apart, sender: the kernel receives on the CPU of the capture threads, or \
    on the generator's.";

/// A line for each method, from the bottom up.
fn ladder(methods: &[&Method<'_>]) -> Table {
    let cost = if methods.iter().any(|method| method.cycles_per_ns().is_some()) { "cycles" } else { "ns" };
    let mut table =
        Table::new(&["method", "frames/s", "95 % interval", "× below", "its 95 %", "no loss", cost]);
    for (i, method) in methods.iter().enumerate() {
        let below = methods[..i].iter().rev().find(|below| below.rate.is_some());
        let times = below.and_then(|below| times(method, below));
        let ratio = times.as_ref().map(|times| {
            let sign = match times.bound {
                "at least " => "≥\u{202f}",
                "at most " => "≤\u{202f}",
                _ => "",
            };
            format!("{sign}{}", significant(times.ratio.value))
        });
        let interval = times.and_then(|times| times.ratio.interval);
        table.push(vec![
            method.short_label(),
            or_dash(method.rate, |rate| rate.sign()),
            or_dash(method.rate.and_then(|rate| rate.interval), |(a, b)| format!("{} – {}", si(a), si(b))),
            or_dash(ratio, |text| text),
            or_dash(interval, |(a, b)| format!("{} – {}", significant(a), significant(b))),
            or_dash(method.lossless_fps(), |fps| method.lossless_sign() + &si(fps)),
            or_dash(method.per_frame(CaptureTime::capture_ns), full),
        ]);
    }
    table.without_empty(&["95 % interval", "× below", "its 95 %", "no loss", cost])
}

/// A line for each method, a column for each traffic.
fn matrix(methods: &[Method<'_>], groups: &[(String, Vec<&Method<'_>>)]) -> Table {
    let mut head = vec!["method".to_string()];
    head.extend(groups.iter().filter_map(|(_, group)| Some(short_traffic(group.first()?, methods))));
    let mut labels: Vec<String> = Vec::new();
    for label in methods.iter().map(Method::short_label) {
        if !labels.contains(&label) {
            labels.push(label);
        }
    }
    let mut table = Table::new(&head);
    for label in labels {
        let of = |(_, group): &(String, Vec<&Method<'_>>)| {
            let method = group.iter().find(|method| method.short_label() == label);
            or_dash(method.and_then(|method| method.rate), |rate| rate.sign())
        };
        let cells = groups.iter().map(of).collect::<Vec<_>>();
        table.push(std::iter::once(label.clone()).chain(cells).collect());
    }
    table
}

/// What of the traffic varies in the run, in a word or two each: `flood apart`, `imix sender`.
fn short_traffic(method: &Method<'_>, all: &[Method<'_>]) -> String {
    let kind = |method: &Method<'_>| {
        if method.is_flood() { "flood".to_string() } else { method.data.point.frame.clone() }
    };
    let flows = |method: &Method<'_>| match (method.is_flood(), method.data.setting("flows")) {
        (false, Some(flows)) => format!("{} flows", si(flows.parse().unwrap_or(1.0)).replace(".00", "")),
        _ => String::new(),
    };
    let receive = |method: &Method<'_>| if method.receives_apart() { "apart" } else { "sender" }.to_string();
    let rps = |method: &Method<'_>| format!("RPS {}", method.data.setting("rps").unwrap_or("–"));
    let udp = || all.iter().filter(|method| !method.is_flood());
    let parts = [
        (kind(method), true),
        (flows(method), udp().any(|one| udp().any(|other| flows(one) != flows(other)))),
        (receive(method), all.iter().any(|one| receive(one) != receive(&all[0]))),
        (rps(method), all.iter().any(|one| rps(one) != rps(&all[0]))),
    ];
    let shown = parts.into_iter().filter(|(_, varies)| *varies).map(|(part, _)| part);
    shown.filter(|text| !text.is_empty()).collect::<Vec<_>>().join(" ")
}
