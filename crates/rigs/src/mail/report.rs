//! Mail: how the rate grows with connections, where that ends and why; the whole task; others beside it; what was published.

use weir_record::record::{Figure, Trial};
use weir_record::run_data::{PointData, RunData};
use weir_report::report::answer::Answer;
use weir_report::report::bars::{Bar, BarChart};
use weir_report::report::block::{Block, Part};
use weir_report::report::lines::{Axis, Dot, DotKind, Line, Panel, range};
use weir_report::view::format::{
    bracketed, full, list, or_dash, range as interval, si, significant, time_ns, whole_percent,
};
use weir_report::view::{Style, Table};

use super::result::{Delivered, Limit};
use weir_measure::stats::{self, Ratio};

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

const CURVE: &str = "Recipients per second; median of the rounds.";

const COLUMNS: &str = "RCPT p99: 99th percentile of the time until a recipient is accepted; CPUs: in use by the engine and by the receivers; \
    limit: what is busy; ramp: with the delay of the plan; whole: each recipient once, without delay.";

const PAIRS: &str = "Messages per second from a sender to a receiver, median of the rounds.";

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
    fn limit(&self) -> Option<Limit> {
        let all: Vec<Limit> = self.delivered.iter().filter_map(Delivered::limit).collect();
        all.iter().copied().max_by_key(|limit| all.iter().filter(|other| *other == limit).count())
    }

    fn limit_text(&self) -> &'static str {
        self.limit().map_or("", Limit::text)
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
        blocks.push(Block::Drawing { drawings: vec![curve(&ramp)], caption: CURVE });
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
            row.limit_text().into(),
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

/// How many recipients per second, and where more connections stop helping; or how fast weir is beside others.
pub(super) fn answer(data: &RunData) -> Option<Answer> {
    let (ramp, whole, pairs) = (rows(data, "ramp"), rows(data, "whole"), rows(data, "pair"));
    let alone =
        growth(&ramp).into_iter().chain(whole.iter().filter_map(whole_task)).chain(capacity(data, &ramp));
    let sentences: Vec<String> = alone.chain(beside(&pairs)).chain(left_out(&pairs)).collect();
    if sentences.is_empty() {
        return None;
    }
    let delivered: Vec<&Row<'_>> = ramp.iter().chain(&whole).collect();
    let answer = if delivered.is_empty() {
        let table = pair_table(&pairs);
        Answer { table, drawing: Some(Block::Wide(bars(&pairs), PAIRS)), ..Answer::default() }
    } else {
        let drawing = (ramp.len() > 1).then(|| Block::Wide(curve(&ramp), CURVE));
        Answer { table: short_table(&delivered), columns: COLUMNS.into(), drawing, ..Answer::default() }
    };
    Some(Answer { sentences, ..answer })
}

fn short_table(rows: &[&Row<'_>]) -> Table {
    let mut table =
        Table::new(&["case", "connections", "recipients/s", "95 % interval", "RCPT p99", "CPUs", "limit"]);
    for row in rows {
        table.push(vec![
            row.setting("case").into(),
            full(row.connections()),
            or_dash(row.value("rate"), full),
            or_dash(row.figure("rate").and_then(|figure| figure.interval), all_digits),
            or_dash(row.value("99 % latency of RCPT"), |s| time_ns(s * 1e9)),
            row.busy(),
            row.limit().map_or("–", Limit::name).into(),
        ]);
    }
    table.without_empty(&["95 % interval"])
}

fn pair_table(rows: &[Row<'_>]) -> Table {
    let mut table = Table::new(&["sender", "receiver", "messages/s", "95 % interval"]);
    for row in rows {
        table.push(vec![
            row.setting("sender").into(),
            row.setting("receiver").into(),
            or_dash(row.value("rate"), full),
            or_dash(row.figure("rate").and_then(|figure| figure.interval), all_digits),
        ]);
    }
    table.without_empty(&["95 % interval"])
}

/// An interval of rates of which all digits are shown.
fn all_digits((low, high): (f64, f64)) -> String {
    format!("{} – {}", full(low), full(high))
}

/// Why some have no rate, each reason once.
fn left_out(rows: &[Row<'_>]) -> Vec<String> {
    let mut reasons: Vec<String> = Vec::new();
    for row in rows.iter().filter(|row| row.value("rate").is_none() && !row.note().is_empty()) {
        if !reasons.iter().any(|reason| reason == row.note()) {
            reasons.push(row.note().into());
        }
    }
    reasons
}

/// Senders by receiver.
fn bars(pairs: &[Row<'_>]) -> String {
    let mut chart = BarChart::plain("messages/s", si);
    for receiver in distinct(pairs, "receiver") {
        let own = pairs.iter().filter(|row| row.setting("receiver") == receiver);
        let bars = own.map(|row| {
            let rate = row.value("rate");
            Bar::plain(row.setting("sender"), rate, or_dash(rate, |rate| format!("{}/s", si(rate))))
        });
        chart.group(&format!("to {receiver}, from"), bars.collect());
    }
    chart.draw("Messages per second", "The numbers are in the table below.")
}

/// What a run says, for the summary.
pub(super) fn findings(data: &RunData) -> Vec<String> {
    let answer = answer(data).map_or_else(Vec::new, |answer| answer.sentences);
    answer.into_iter().chain(rows(data, "pair").iter().filter_map(pair)).collect()
}

/// Where more connections stop helping.
fn growth(ramp: &[Row<'_>]) -> Option<String> {
    let rates: Vec<(&Row<'_>, f64)> = ramp.iter().filter_map(|row| Some((row, row.value("rate")?))).collect();
    let most = rates.iter().map(|(_, rate)| *rate).reduce(f64::max)?;
    let (row, rate) = rates.iter().find(|(_, rate)| *rate >= most * (1.0 - GROWTH))?;
    let (last, of_last) = rates.last()?;
    let interval = row.figure("rate").and_then(|figure| figure.interval);
    let interval =
        interval.map_or_else(String::new, |(low, high)| format!(" ({} to {})", full(low), full(high)));
    let (connections, rate_text) = (full(row.connections()), full(*rate));
    if std::ptr::eq(*row, *last) {
        return Some(format!(
            "This machine delivers to {rate_text} recipients/s{interval} with {connections} connections, the most that were tried: more \
             may still help."
        ));
    }
    Some(format!(
        "This machine delivers to {rate_text} recipients/s{interval} with {connections} connections, and more do not help, since {}: {} \
         connections bring {} of it.",
        row.limit_text(),
        full(last.connections()),
        whole_percent(of_last / rate)
    ))
}

fn whole_task(row: &Row<'_>) -> Option<String> {
    let (time, rate) = (row.value("time")?, row.value("rate")?);
    Some(format!(
        "The whole task takes {} s with {} connections: {} recipients/s; {}.",
        significant(time),
        full(row.connections()),
        full(rate),
        row.limit_text()
    ))
}

fn capacity(data: &RunData, ramp: &[Row<'_>]) -> Option<String> {
    let capacity = rows(data, "capacity").first().and_then(|row| row.value("rate"))?;
    let most = ramp.iter().filter_map(|row| row.value("rate")).reduce(f64::max)?;
    Some(format!(
        "The receivers take {} transactions/s from a client without logic, {} times what the engine delivers in the ramp.",
        si(capacity),
        significant(capacity / most)
    ))
}

/// The values of a setting, in the order of the plan.
fn distinct<'r>(rows: &'r [Row<'_>], setting: &str) -> Vec<&'r str> {
    let mut names: Vec<&str> = Vec::new();
    for row in rows {
        if !names.contains(&row.setting(setting)) {
            names.push(row.setting(setting));
        }
    }
    names
}

/// weir's name as a sender and as a receiver.
const WEIR: &str = "weir";

/// Rates of one pair by those of another one, round by round.
fn ratio(own: &Row<'_>, other: &Row<'_>) -> Option<Ratio> {
    let (own, other) = (own.data.by_key::<Delivered>(), other.data.by_key::<Delivered>());
    let of = |round: &str| other.iter().find(|(name, _)| name == round).map(|(_, delivered)| delivered.rate);
    let pairs = own.iter().filter_map(|(round, delivered)| Some((delivered.rate, of(round)?)));
    stats::ratio(&pairs.collect::<Vec<_>>())
}

/// weir's engine beside other senders to each receiver, and its receivers beside others from each sender.
fn beside(pairs: &[Row<'_>]) -> Vec<String> {
    let times = |own: &Row<'_>, other: &Row<'_>| {
        let ratio = ratio(own, other)?;
        Some(format!("{}{}", significant(ratio.value), ratio.interval.map_or_else(String::new, bracketed)))
    };
    let find = |sender: &str, receiver: &str| {
        pairs.iter().find(|row| row.setting("sender") == sender && row.setting("receiver") == receiver)
    };
    let (senders, receivers) = (distinct(pairs, "sender"), distinct(pairs, "receiver"));
    let engine = senders.iter().filter(|sender| **sender != WEIR).filter_map(|sender| {
        let of = |to: &&str| Some(format!("{} to {to}", times(find(WEIR, to)?, find(sender, to)?)?));
        let all: Vec<String> = receivers.iter().filter_map(of).collect();
        (!all.is_empty())
            .then(|| format!("weir's engine sends {} times as many messages/s as {sender}", list(&all)))
    });
    let sink = receivers.iter().filter(|receiver| **receiver != WEIR).filter_map(|receiver| {
        let of =
            |from: &&str| Some(format!("{} from {from}", times(find(from, WEIR)?, find(from, receiver)?)?));
        let all: Vec<String> = senders.iter().filter_map(of).collect();
        (!all.is_empty()).then(|| format!("weir's receivers take {} times as many as {receiver}", list(&all)))
    });
    let said: Vec<String> = engine.chain(sink).collect();
    if said.is_empty() { Vec::new() } else { vec![said.join("; ") + "."] }
}

fn pair(row: &Row<'_>) -> Option<String> {
    let rate = row.value("rate")?;
    Some(format!("{} to {}: {} messages/s.", row.setting("sender"), row.setting("receiver"), full(rate)))
}

#[cfg(test)]
mod tests {
    use weir_testkit::golden;

    use super::super::result::{self, tests::delivered};
    use super::*;
    use crate::first_screen;
    use weir_record::fixture;
    use weir_record::record::{PointResult, ProcedureResult};

    /// A point with the rates of its rounds; the engine and the receivers have used so much CPU time in two seconds.
    fn point(settings: &[(&str, &str)], cpu_s: (f64, f64), rates: &[f64]) -> PointData {
        let mut data = fixture::point(0, ID, 64, 1.0);
        let settings = settings.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        data.point.settings = settings.collect();
        let found: Vec<Delivered> =
            rates.iter().map(|rate| Delivered { rate: *rate, ..delivered(cpu_s, 1000) }).collect();
        let trial = data.trials[1].clone();
        let trial = |(i, one): (usize, &Delivered)| {
            let mut trial = trial.clone().with_detail(one);
            trial.key = Some(format!("round {}", i + 1));
            trial
        };
        data.trials = found.iter().enumerate().map(trial).collect();
        let figures = result::figures(&found);
        let procedure = ProcedureResult { procedure: ID.into(), figures, ..ProcedureResult::default() };
        data.point.result = Some(PointResult::without_search("rounds", procedure));
        data
    }

    fn shown(points: Vec<PointData>) -> String {
        first_screen(&RunData { run: fixture::run(1), points })
    }

    #[test]
    fn the_first_screen_says_where_more_connections_stop_helping() {
        let ramp = |connections, cpu_s, rate: f64| {
            let rates: Vec<f64> = (0..6).map(|i| rate + f64::from(i)).collect();
            point(&[("case", "ramp"), ("connections", connections)], cpu_s, &rates)
        };
        let points = vec![
            ramp("100", (0.5, 0.4), 2000.0),
            ramp("500", (1.9, 0.9), 9000.0),
            ramp("5000", (1.9, 0.9), 9100.0),
            point(&[("case", "whole"), ("connections", "500")], (1.9, 0.9), &[25e3; 6]),
            point(&[("case", "capacity")], (0.1, 1.9), &[80e3; 6]),
        ];
        let grows = points.iter().take(2).cloned().collect();
        golden!("src/mail/answer.txt", &[shown(points), shown(grows)].join("\n----\n"));
    }

    #[test]
    fn the_first_screen_compares_senders_and_receivers() {
        let pair = |sender, receiver, rate: f64| {
            let rates: Vec<f64> = (0..6).map(|i| rate + f64::from(i)).collect();
            point(&[("case", "pair"), ("sender", sender), ("receiver", receiver)], (1.0, 1.0), &rates)
        };
        let mut absent = pair("smtp-source", "postfix", 1.0);
        absent.trials.clear();
        absent.point.result = Some(PointResult { search: "left out".into(), ..PointResult::default() });
        absent.point.notes = vec!["postfix is left out: it is not installed.".into()];
        let points = vec![
            pair("weir", "weir", 8000.0),
            pair("smtp-source", "weir", 4000.0),
            pair("weir", "smtp-sink", 7000.0),
            pair("smtp-source", "smtp-sink", 3900.0),
            absent,
        ];
        golden!("src/mail/peers.txt", &shown(points));
    }
}
