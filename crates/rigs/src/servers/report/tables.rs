//! Tables and bars of servers.

use weir_apps::client::Mode;

use super::super::counters;
use super::{Limit, Placed, ratios, replies};
use weir_report::report::bars::{Bar, BarChart, Group};
use weir_report::view::format::{full, list, or_dash, range, significant, time_ns, whole_percent};
use weir_report::view::{Style, Table};

pub(super) const CAPTION: &str = "CPU time of the server for a connection, us; median of the rounds. Shorter is better. A bar with a gap is longer than the axis.";

/// At about so many connections at a time servers are compared by one picture.
const PICTURED: f64 = 1000.0;

fn of_mode<'a, 'd>(all: &'a [Placed<'d>], is: fn(Mode) -> bool) -> impl Iterator<Item = &'a Placed<'d>> {
    all.iter().filter(move |placed| placed.mode().is_some_and(is))
}

fn is_closed(mode: Mode) -> bool {
    matches!(mode, Mode::Closed(_))
}

fn time(value: Option<f64>) -> String {
    or_dash(value, |s| time_ns(s * 1e9))
}

fn ns(value: Option<f64>) -> String {
    or_dash(value, time_ns)
}

pub(super) fn us(value: Option<f64>) -> String {
    or_dash(value, |s| significant(s * 1e6))
}

/// `≥` where the server can do more than its client.
fn rate(placed: &Placed<'_>) -> String {
    let sign = if placed.limit() == Some(Limit::Client) { "≥\u{202f}" } else { "" };
    or_dash(placed.median(|s| s.per_s()), |rate| format!("{sign}{}", full(rate)))
}

fn failed(placed: &Placed<'_>) -> String {
    let sum: u64 = placed.found.iter().flat_map(|(_, served)| served.outcome.failed.values()).sum();
    if sum == 0 { String::new() } else { full(sum as f64) }
}

fn limit(placed: &Placed<'_>) -> String {
    placed.limit().map_or("–", Limit::name).into()
}

pub(super) fn closed(all: &[Placed<'_>]) -> Table {
    let mut table = Table::new(&[
        "Reply",
        "At a time",
        "Server",
        "Client",
        "Connections/s",
        "p50",
        "p99",
        "Maximum",
        "CPU, us",
        "Switches",
        "Open at the server",
        "At most",
        "Server busy",
        "Client busy",
        "Limit",
        "Failed",
    ]);
    for placed in of_mode(all, is_closed) {
        table.push(vec![
            placed.setting("reply").into(),
            placed.setting("concurrency").into(),
            placed.setting("server").into(),
            placed.setting("client").into(),
            rate(placed),
            ns(placed.median(|s| Some(s.outcome.latency.p50 as f64))),
            ns(placed.median(|s| Some(s.outcome.latency.p99 as f64))),
            ns(placed.median(|s| Some(s.outcome.latency.max as f64)).filter(|max| *max > 0.0)),
            us(placed.median(|s| s.cpu_s())),
            or_dash(placed.median(|s| s.switches()), significant),
            or_dash(placed.median(|s| Some(s.open?.0)), significant),
            or_dash(placed.median(|s| Some(s.open?.1 as f64)), full),
            or_dash(placed.median(|s| Some(s.server_busy())), whole_percent),
            or_dash(placed.median(|s| Some(s.client_busy())), whole_percent),
            limit(placed),
            failed(placed),
        ]);
    }
    table.without_empty(&["Failed"])
}

pub(super) fn open(all: &[Placed<'_>]) -> Table {
    let mut table = Table::new(&[
        "Reply",
        "Asked, 1/s",
        "Server",
        "Answered, 1/s",
        "p50",
        "p99",
        "p99.9",
        "Maximum",
        "p99 from connect",
        "Client late, p99",
        "CPU, us",
        "Limit",
        "Failed",
    ]);
    for placed in of_mode(all, |mode| matches!(mode, Mode::Open(_))) {
        table.push(vec![
            placed.setting("reply").into(),
            placed.setting("rate").into(),
            placed.setting("server").into(),
            rate(placed),
            ns(placed.median(|s| Some(s.outcome.latency.p50 as f64))),
            ns(placed.median(|s| Some(s.outcome.latency.p99 as f64))),
            ns(placed.median(|s| Some(s.outcome.latency.p999 as f64))),
            ns(placed.median(|s| Some(s.outcome.latency.max as f64))),
            ns(placed.median(|s| Some(s.outcome.from_start?.p99 as f64))),
            ns(placed.median(|s| Some(s.outcome.late?.p99 as f64))),
            us(placed.median(|s| s.cpu_s())),
            limit(placed),
            failed(placed),
        ]);
    }
    table.without_empty(&["Failed"])
}

pub(super) fn held(all: &[Placed<'_>]) -> Table {
    let mut table = Table::new(&[
        "Asked",
        "Server",
        "Held",
        "KiB each",
        "Tasks each",
        "All open after",
        "CPU, us",
        "Limit",
    ]);
    for placed in of_mode(all, |mode| matches!(mode, Mode::Hold(_))) {
        let tasks = placed.median(|s| {
            (s.outcome.held > 0).then(|| s.held_tasks.map(|n| n as f64 / s.outcome.held as f64))?
        });
        table.push(vec![
            placed.setting("hold").into(),
            placed.setting("server").into(),
            or_dash(placed.median(|s| Some(s.outcome.held as f64)), full),
            or_dash(placed.median(|s| s.kib()), significant),
            or_dash(tasks, significant),
            time(placed.median(|s| (s.limit() == Limit::Load).then_some(s.outcome.opened_s))),
            us(placed.median(|s| s.cpu_s())),
            limit(placed),
        ]);
    }
    table
}

pub(super) fn kernel(all: &[Placed<'_>]) -> Table {
    const COUNTERS: [&str; 5] =
        ["ListenOverflows", "TCPSynRetrans", "SyncookiesSent", "TWRecycled", counters::TIME_WAIT];
    let columns = ["Reply", "Load", "Client", "Server", "Backlog", "Waiting at most", "Workers", "Gini"];
    let mut table = Table::new(&columns.into_iter().chain(COUNTERS).collect::<Vec<_>>());
    for placed in all.iter().filter(|placed| !placed.found.is_empty()) {
        let (reply, client, load) = placed.load();
        let (backlog, sockets) = (placed.max(|s| s.backlog.into()), placed.max(|s| s.sockets.into()));
        let backlog = match (backlog, sockets) {
            (Some(0) | None, _) => "–".into(),
            (Some(n), Some(2..)) => format!("{} x {}", sockets.unwrap_or(1), full(n as f64)),
            (Some(n), _) => full(n as f64),
        };
        let mut row = vec![
            reply,
            load,
            client,
            placed.setting("server").into(),
            backlog,
            or_dash(placed.max(|s| s.waiting_max), |n| full(n as f64)),
            or_dash(placed.max(|s| s.shares.len() as u64).filter(|n| *n > 0), |n| n.to_string()),
            or_dash(placed.median(|s| s.gini), |gini| format!("{gini:.2}")),
        ];
        row.extend(COUNTERS.map(|name| or_dash(placed.max(|s| s.counter(name)), |n| full(n as f64))));
        table.push(row);
    }
    table.without_empty(&["Gini"])
}

/// Bars of the cost, for each reply at the number of connections that is nearest to the published one.
pub(super) fn charts(all: &[Placed<'_>]) -> Vec<String> {
    let own = |placed: &&Placed<'_>| placed.setting("client") == "weir";
    let concurrency = |placed: &Placed<'_>| placed.setting("concurrency").parse::<f64>().ok();
    let distance = |n: f64| (n / PICTURED).ln().abs();
    let numbers = of_mode(all, is_closed).filter_map(concurrency);
    let Some(nearest) = numbers.min_by(|a, b| distance(*a).total_cmp(&distance(*b))) else {
        return Vec::new();
    };
    let groups: Vec<Group> = replies()
        .filter_map(|reply| {
            let of = of_mode(all, is_closed).filter(own).filter(|placed| placed.setting("reply") == reply);
            let bars: Vec<Bar> = of.filter(|placed| concurrency(placed) == Some(nearest)).map(bar).collect();
            let label = format!("{reply}, {} at a time", full(nearest));
            (!bars.is_empty()).then_some(Group { label, bars, limit: None })
        })
        .collect();
    vec![drawn(groups)]
}

/// Bars of the cost under one load.
pub(super) fn chart(all: &[&Placed<'_>]) -> String {
    let (reply, _, load) = all.first().map(|placed| placed.load()).unwrap_or_default();
    let bars = all.iter().map(|placed| bar(placed)).collect();
    drawn(vec![Group { label: format!("{reply}, {load}"), bars, limit: None }])
}

fn drawn(groups: Vec<Group>) -> String {
    let texts: Vec<String> = groups.iter().flat_map(|g| g.bars.iter().map(|bar| bar.title.clone())).collect();
    let mut chart = BarChart { groups, ..BarChart::plain("us", significant) };
    chart.cut_outliers();
    chart.draw("CPU time of a connection, by server", &list(&texts))
}

fn bar(placed: &Placed<'_>) -> Bar {
    let (value, name) = (placed.median(|s| s.cpu_s()).map(|s| s * 1e6), placed.setting("server"));
    let text = or_dash(value, |us| format!("{} us", significant(us)));
    let own = placed.is_event_loop();
    let style = Style { colour: if own { 1 } else { 2 }, marker: 0, pattern: usize::from(!own) };
    Bar { style, ..Bar::plain(name, value, text) }
}

/// Servers under one load: what a connection costs them, and what else differs.
pub(super) fn compared(all: &[Placed<'_>], loaded: &[&Placed<'_>]) -> Table {
    let mut table = Table::new(&[
        "server",
        "CPU, us",
        "of epoll",
        "95 % interval",
        "connections/s",
        "p99",
        "KiB held",
        "limit",
    ]);
    for placed in loaded {
        let times = ratios::cpu(all, placed);
        table.push(vec![
            placed.setting("server").into(),
            us(placed.median(|s| s.cpu_s())),
            or_dash(times.as_ref(), |ratio| significant(ratio.value)),
            or_dash(times.and_then(|ratio| ratio.interval), range),
            rate(placed),
            ns(placed.median(|s| Some(s.outcome.latency.p99 as f64))),
            or_dash(kib(all, placed.setting("server")), significant),
            limit(placed),
        ]);
    }
    table.without_empty(&["of epoll", "95 % interval", "KiB held"])
}

/// Memory of a connection that this server holds, of the most that it was asked to hold.
fn kib(all: &[Placed<'_>], server: &str) -> Option<f64> {
    let held = of_mode(all, |mode| matches!(mode, Mode::Hold(_)));
    let own = held.filter(|placed| placed.setting("server") == server);
    own.filter_map(|placed| placed.median(|s| s.kib())).last()
}
