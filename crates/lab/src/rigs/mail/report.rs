//! Mail: how the rate grows with connections, where that ends and why; the whole task; others beside it; what was published.

use crate::record::{Figure, Trial};
use crate::report::block::{Block, Part};
use crate::report::lines::{Axis, Dot, DotKind, Line, Panel, range};
use crate::run_data::{PointData, RunData};
use crate::view::format::{full, or_dash, range as interval, si, significant, whole_percent};
use crate::view::{Style, Table};

use super::result::Delivered;

/// Of the section, and of the figures in records.
pub(super) const ID: &str = "mail";
/// More connections that bring less than this share help no more.
const GROWTH: f64 = 0.05;

/// Sentences of the article of 2001 (translated), which gives no absolute rates.
const PUBLISHED: [&str; 3] = [
    "\u{201c}The program performed all the steps of sending mail, but at the last moment sent the RSET command instead of DATA: \
     one message to 200,000 different addresses spread over 9,113 domains.\u{201d}",
    "\u{201c}Growth practically stopped when the number of connections exceeded 1,500.\u{201d} The best system was 35 % ahead of \
     the second and 75 % ahead of the last.",
    "\u{201c}FreeBSD issued a warning about lack of resources and refused to work with more than 2,500 connections.\u{201d}",
];

const METHOD: &str = "Engine, receivers and name server are processes of their own in a namespace with nothing but a loopback, \
    started for each trial. Ramp: the message is sent again and again for the time of the trial after a warm-up, with the \
    delay of the plan before each group of replies; a recipient counts when its transaction is complete. Whole: every \
    recipient once, without delay. Open: connections on average, to be held against those that were asked for. Latencies are \
    those of a closed loop: a connection that waits asks nothing. CPU: CPUs in use by the engine and by the receivers. \
    Capacity: transactions that a client without any logic has the receivers take; where their threads are busy and the \
    engine's are not, they were the limit, and the trial says so.";

struct Row<'a> {
    data: &'a PointData,
    delivered: Vec<Delivered>,
}

impl Row<'_> {
    fn setting(&self, name: &str) -> &str {
        self.data.setting(name).unwrap_or("")
    }

    fn figure(&self, name: &str) -> Option<&Figure> {
        let procedures = &self.data.point.result.as_ref()?.procedures;
        procedures.iter().flat_map(|procedure| &procedure.figures).find(|figure| figure.name == name)
    }

    fn value(&self, name: &str) -> Option<f64> {
        self.figure(name)?.value
    }

    fn connections(&self) -> f64 {
        self.setting("connections").parse().unwrap_or(0.0)
    }

    /// Why there were not more, in most of its trials.
    fn limit(&self) -> &'static str {
        let mut all: Vec<_> =
            self.delivered.iter().filter_map(Delivered::limit).map(|limit| limit.text()).collect();
        all.sort_unstable();
        all.get(all.len() / 2).copied().unwrap_or("")
    }

    fn busy(&self) -> String {
        let n = self.delivered.len().max(1) as f64;
        let all = self.delivered.iter().filter_map(Delivered::busy);
        let (engine, receivers) = all.fold((0.0, 0.0), |(a, b), (c, d)| (a + c / n, b + d / n));
        format!("{engine:.2} + {receivers:.2}")
    }

    fn troubles(&self) -> String {
        let all = self.delivered.iter().filter_map(|delivered| delivered.report.as_ref());
        let mut names: Vec<&str> =
            all.flat_map(|report| report.troubles.keys()).map(String::as_str).collect();
        names.sort_unstable();
        names.dedup();
        names.join(", ")
    }

    fn note(&self) -> &str {
        self.data.point.notes.first().map_or("", String::as_str)
    }
}

fn rows<'a>(data: &'a RunData, case: &str) -> Vec<Row<'a>> {
    let points =
        data.points.iter().filter(|point| point.point.dut == ID && point.setting("case") == Some(case));
    let delivered = |data: &PointData| data.measured().filter_map(Trial::believed).collect();
    points.map(|data| Row { data, delivered: delivered(data) }).collect()
}

/// Its section of a report.
pub(super) fn parts(data: &RunData) -> Vec<Part> {
    let (ramp, whole, pairs) = (rows(data, "ramp"), rows(data, "whole"), rows(data, "pair"));
    if ramp.is_empty() && whole.is_empty() && pairs.is_empty() {
        return Vec::new();
    }
    let mut blocks = Vec::new();
    if ramp.len() > 1 {
        blocks.push(Block::Drawing {
            drawings: vec![curve(&ramp)],
            caption: "Recipients per second; median of the rounds.",
        });
    }
    let alone: Vec<Row<'_>> = ramp.into_iter().chain(whole).collect();
    blocks.push(Block::Table(deliveries(&alone).without_empty(&["95 % interval", "Troubles"])));
    blocks.push(Block::Table(compared(&pairs).without_empty(&["95 % interval", "Left out"])));
    if !alone.is_empty() {
        blocks.push(Block::Sentence(
            "Published in 2001, of four operating systems on a Pentium III of 550 MHz:".into(),
        ));
        blocks.push(Block::Bullets(PUBLISHED.map(String::from).to_vec()));
    }
    blocks.push(Block::Note(METHOD.into()));
    vec![Part { id: ID, heading: "Mail".into(), blocks }]
}

fn curve(ramp: &[Row<'_>]) -> String {
    let dots: Vec<((f64, f64), String)> = ramp
        .iter()
        .filter_map(|row| {
            let rate = row.value("rate")?;
            Some(((row.connections(), rate), format!("{} connections: {}/s", row.connections(), si(rate))))
        })
        .collect();
    let line: Vec<(f64, f64)> = dots.iter().map(|(at, _)| *at).collect();
    let texts: Vec<&str> = dots.iter().map(|(_, text)| text.as_str()).collect();
    let description = texts.join("; ");
    let (_, most) = range(line.iter().map(|(_, rate)| *rate));
    let panel = Panel {
        heading: "recipients/s".into(),
        x_name: "connections".into(),
        x_text: si,
        y_text: si,
        x_range: range(line.iter().map(|(connections, _)| *connections)),
        y_range: (0.0, most),
        y_axis: Axis::Linear,
        lines: vec![Line {
            style: Style { colour: 1, marker: 0, pattern: 0 },
            line,
            dots: dots.into_iter().map(|(at, title)| Dot { at, kind: DotKind::Filled, title }).collect(),
            mark: None,
        }],
    };
    panel.draw("Recipients per second by number of connections", &description)
}

fn deliveries(rows: &[Row<'_>]) -> Table {
    let mut table = Table::new(&[
        "Case",
        "Connections",
        "Open",
        "Recipients/s",
        "95 % interval",
        "Time, s",
        "RCPT p50, ms",
        "RCPT p99, ms",
        "CPUs, engine + receivers",
        "CPU per recipient, us",
        "Memory per connection, KiB",
        "Limit",
        "Troubles",
    ]);
    for row in rows {
        let ms = |name| or_dash(row.value(name), |s| significant(s * 1e3));
        let rate = row.figure("rate");
        table.push(vec![
            row.setting("case").into(),
            full(row.connections()),
            or_dash(row.value("open connections"), |n| full(n.round())),
            or_dash(row.value("rate"), full),
            or_dash(rate.and_then(|figure| figure.interval), interval),
            or_dash(row.value("time"), significant),
            ms("median latency of RCPT"),
            ms("99 % latency of RCPT"),
            row.busy(),
            or_dash(row.value("CPU time per recipient"), significant),
            or_dash(row.value("memory per connection"), significant),
            row.limit().into(),
            row.troubles(),
        ]);
    }
    table
}

fn compared(rows: &[Row<'_>]) -> Table {
    let mut table = Table::new(&["Sender", "Receiver", "Messages/s", "95 % interval", "Left out"]);
    for row in rows {
        table.push(vec![
            row.setting("sender").into(),
            row.setting("receiver").into(),
            or_dash(row.value("rate"), full),
            or_dash(row.figure("rate").and_then(|figure| figure.interval), interval),
            if row.value("rate").is_none() { row.note().into() } else { String::new() },
        ]);
    }
    table
}

/// What a run says, for the summary.
pub(super) fn findings(data: &RunData) -> Vec<String> {
    let ramp = rows(data, "ramp");
    let mut found: Vec<String> = growth(&ramp).into_iter().collect();
    for row in rows(data, "whole") {
        if let (Some(time), Some(rate)) = (row.value("time"), row.value("rate")) {
            found.push(format!(
                "The whole task takes {} s with {} connections: {} recipients/s; {}.",
                significant(time),
                full(row.connections()),
                full(rate),
                row.limit()
            ));
        }
    }
    let capacity = rows(data, "capacity").first().and_then(|row| row.value("rate"));
    let most = ramp.iter().filter_map(|row| row.value("rate")).reduce(f64::max);
    if let (Some(capacity), Some(most)) = (capacity, most) {
        found.push(format!(
            "The receivers take {} transactions/s from a client without logic, {} times what the engine delivers in the ramp.",
            si(capacity),
            significant(capacity / most)
        ));
    }
    found.extend(rows(data, "pair").iter().filter_map(pair));
    found
}

/// Where more connections stop helping.
fn growth(ramp: &[Row<'_>]) -> Option<String> {
    let rates: Vec<(&Row<'_>, f64)> = ramp.iter().filter_map(|row| Some((row, row.value("rate")?))).collect();
    let most = rates.iter().map(|(_, rate)| *rate).reduce(f64::max)?;
    let (row, rate) = rates.iter().find(|(_, rate)| *rate >= most * (1.0 - GROWTH))?;
    let (last, of_last) = rates.last()?;
    let (connections, rate_text) = (full(row.connections()), full(*rate));
    if std::ptr::eq(*row, *last) {
        return Some(format!(
            "The rate grows up to {connections} connections, the most that were tried: {rate_text} recipients/s."
        ));
    }
    Some(format!(
        "Growth ends at {connections} connections with {rate_text} recipients/s, since {}; {} connections bring {} of it.",
        row.limit(),
        full(last.connections()),
        whole_percent(of_last / rate)
    ))
}

fn pair(row: &Row<'_>) -> Option<String> {
    let rate = row.value("rate")?;
    Some(format!("{} to {}: {} messages/s.", row.setting("sender"), row.setting("receiver"), full(rate)))
}
