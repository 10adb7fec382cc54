//! The places where frames were dropped, and the validity of trials.

use std::collections::BTreeMap;

use crate::record::{DropCounter, Owner, Verdict};
use crate::run_data::PointData;
use crate::view::format::{full, percent};
use crate::view::page::{bullets, note, section};
use crate::view::{Comparison, Table, reasons};

/// The section; empty without trials.
pub(super) fn html(all: &Comparison<'_>) -> String {
    let points = all.all();
    if !points.iter().any(|(_, p)| p.measured().next().is_some()) {
        return String::new();
    }
    let body = format!(
        "{}{}{}{}<h3>Verdicts</h3>\n{}{}",
        note(EXPLANATION),
        losses(all).html(),
        bullets(&sources(all)),
        super::faults::html(all),
        verdicts(all).html(),
        bullets(&reasons(all)),
    );
    section("drops", "Where the lost frames were dropped", &body)
}

const EXPLANATION: &str = "Totals over all trials of a point but the warm-up, whatever their verdict. A search \
    overloads the device on purpose, so the totals say where frames are lost, not how often. Losses of the \
    tester are never the device's. “Unexplained” is what no counter accounts for; negative: the counters \
    account for more than was lost.";

fn lines<'a>(all: &Comparison<'a>) -> impl Iterator<Item = &'a DropCounter> {
    let points = all.all().into_iter().map(|(_, p)| p);
    points.flat_map(|p| p.measured()).flat_map(|t| &t.drop_counters)
}

/// The names of all losses, those of the device first, most frames first.
fn names(all: &Comparison<'_>) -> Vec<(Owner, String)> {
    let mut sums: BTreeMap<&str, (Owner, u64)> = BTreeMap::new();
    for line in lines(all) {
        sums.entry(&line.name).or_insert((line.owner, 0)).1 += line.frames;
    }
    let mut names: Vec<_> = sums.into_iter().collect();
    names.sort_by_key(|(_, (owner, frames))| (*owner == Owner::Tester, std::cmp::Reverse(*frames)));
    names.into_iter().map(|(name, (owner, _))| (owner, name.to_string())).collect()
}

fn owner_name(owner: Owner) -> &'static str {
    match owner {
        Owner::Tester => "tester",
        Owner::Dut => "device",
    }
}

fn losses(all: &Comparison<'_>) -> Table {
    let names = names(all);
    let mut head: Vec<String> = ["Frame", "Device", "Sent", "Lost"].map(String::from).to_vec();
    head.extend(names.iter().map(|(owner, name)| format!("{name} ({})", owner_name(*owner))));
    head.push("Unexplained".into());
    head.push("of lost".into());
    let mut table = Table::new(&head);
    for (series, point) in all.all() {
        let sum = |of: fn(&crate::record::Trial) -> u64| point.measured().map(of).sum::<u64>();
        let (sent, lost) = (sum(|t| t.counts().sent), sum(|t| t.counts().lost));
        let open: i64 = point.measured().map(|t| t.counts().unexplained).sum();
        let mut row =
            vec![point.point.frame.clone(), series.label.clone(), full(sent as f64), full(lost as f64)];
        row.extend(names.iter().map(|(_, name)| full(frames(point, name) as f64)));
        row.push(full(open as f64));
        row.push(if lost > 0 { percent(open as f64 / lost as f64) } else { "–".into() });
        table.push(row);
    }
    table
}

/// Frames of a point lost under a name.
fn frames(point: &PointData, name: &str) -> u64 {
    let lines = point.measured().flat_map(|t| &t.drop_counters);
    lines.filter(|l| l.name == name).map(|l| l.frames).sum()
}

/// Which counters the names were read from.
fn sources(all: &Comparison<'_>) -> Vec<String> {
    let mut sources: BTreeMap<(&str, &str), ()> = BTreeMap::new();
    for line in lines(all).filter(|l| !l.source.is_empty()) {
        sources.insert((&line.name, &line.source), ());
    }
    sources.into_keys().map(|(name, source)| format!("{name}: read from {source}")).collect()
}

fn verdicts(all: &Comparison<'_>) -> Table {
    let kinds = [Verdict::Valid, Verdict::TesterLimited, Verdict::Noisy, Verdict::Invalid];
    let mut head: Vec<String> = ["Frame", "Device", "Trials"].map(String::from).to_vec();
    head.extend(kinds.map(|v| v.name().to_string()));
    let mut table = Table::new(&head);
    for (series, point) in all.all() {
        let trials: Vec<_> = point.measured().collect();
        let mut row = vec![point.point.frame.clone(), series.label.clone(), trials.len().to_string()];
        row.extend(kinds.map(|v| trials.iter().filter(|t| t.verdict == v).count().to_string()));
        table.push(row);
    }
    table
}

/// Reasons and remarks of all trials.
fn reasons(all: &Comparison<'_>) -> Vec<String> {
    let points = all.all();
    let trials = points.iter().flat_map(|(_, point)| point.measured());
    reasons::lines(trials.flat_map(|t| t.reasons.iter().map(|reason| (t.verdict, reason.as_str()))))
}
