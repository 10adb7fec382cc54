//! Ratios to an event loop, beside those that were published.

use super::super::measured::Served;
use super::{Limit, Placed};
use weir_measure::stats::{self, Ratio};
use weir_report::view::Table;
use weir_report::view::format::{or_dash, range, significant};

pub(super) const EXPLANATION: &str = "Each server beside epoll with the same load, round by round: how many times its CPU time a \
    connection costs, and its share of the rate.";

pub(super) const CONTRADICTION: &str = "Published (Rothman and Buckman, SysAdmin, July 2001; one CPU, four operating systems): an event \
    loop is 12 times as fast as a process per connection, a process per connection has 5 % of its rate, which is 20 times, and an event \
    loop bears 35 % more than threads at 1,000 connections. 12 is a ratio of averages over the whole ramp, 20 and 35 % are read at one load; \
    a ratio that grows with the load has no single value. It also depends on who is the limit: where the client is (≥ above), \
    the rates of fast servers are cut off, and ratios of rates are too small, while ratios of CPU time are not. And with a server that answers \
    at once, a client that asks for 1,000 at a time seldom has 1,000 open at the server, see there.";

/// The event loop that others are divided by.
fn base<'a, 'd>(all: &'a [Placed<'d>], placed: &Placed<'_>) -> Option<&'a Placed<'d>> {
    let load = placed.load();
    let mut same =
        all.iter().filter(|other| other.is_event_loop() && other.load() == load && !other.found.is_empty());
    let first = same.clone().next();
    same.find(|other| other.setting("server") == "epoll").or(first)
}

/// Round by round.
pub(super) fn ratio(
    own: &Placed<'_>,
    base: &Placed<'_>,
    value: impl Fn(&Served) -> Option<f64>,
) -> Option<Ratio> {
    let of = |round: &str| base.found.iter().find(|(other, _)| other == round).and_then(|(_, s)| value(s));
    let pairs = own.found.iter().filter_map(|(round, served)| value(served).zip(of(round)));
    stats::ratio(&pairs.collect::<Vec<_>>())
}

/// CPU time by that of the event loop with the same load.
pub(super) fn cpu(all: &[Placed<'_>], own: &Placed<'_>) -> Option<Ratio> {
    ratio(own, base(all, own)?, Served::cpu_s)
}

pub(super) fn table(all: &[Placed<'_>]) -> Table {
    let mut table = Table::new(&[
        "Reply",
        "Load",
        "Client",
        "Server",
        "Times the CPU time",
        "95 % interval",
        "Share of the rate",
    ]);
    for placed in all.iter().filter(|placed| !placed.found.is_empty()) {
        let Some(base) = base(all, placed).filter(|base| !std::ptr::eq(*base, placed)) else { continue };
        let (reply, client, load) = placed.load();
        let cpu = ratio(placed, base, Served::cpu_s);
        let limited = [placed, base].map(|one| one.limit() == Some(Limit::Client));
        let sign = match limited {
            [false, true] => "≤\u{202f}",
            [true, false] => "≥\u{202f}",
            [true, true] => "~\u{202f}",
            [false, false] => "",
        };
        let rate = ratio(placed, base, Served::per_s);
        table.push(vec![
            reply,
            load,
            client,
            placed.setting("server").into(),
            or_dash(cpu.as_ref(), |ratio| significant(ratio.value)),
            or_dash(cpu.as_ref().and_then(|ratio| ratio.interval), range),
            or_dash(rate, |ratio| format!("{sign}{}", significant(ratio.value))),
        ]);
    }
    table
}
