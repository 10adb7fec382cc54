//! More queues than sizes of the buffer: which queue keeps the delay short while the link is full.

use super::super::{Cell, JAIN, SOJOURN, UTILISATION};
use super::{Group, ascending, grouped, index, levels};
use weir_report::report::answer::Answer;
use weir_report::report::bars::{Bar, BarChart};
use weir_report::report::block::Block;
use weir_report::view::Table;
use weir_report::view::format::{list, or_dash, significant, time_ns, whole_percent};

/// A queue that leaves more than the rest of the link idle keeps its delay short at the expense of the rate.
const FULL_ENOUGH: f64 = 0.9;

const COLUMNS: &str = "p99: 99th percentile of the time in the queue, median of all traffic, and worst; used: share of the link, of the \
    traffic that uses least of it; Jain: index of the flows' shares, least. BDP: buffer in bandwidth-delay products.";

const CAPTION: &str = "99th percentile of the time in the queue, with the traffic that makes it longest. Shorter is better. A bar with a \
    gap is longer than the axis.";

/// A queue in the largest buffer.
struct Row<'c> {
    queue: &'c str,
    worst_s: f64,
    used: f64,
}

pub(super) fn answer(cells: &[Cell<'_>]) -> Option<Answer> {
    let (queues, sizes) = (levels(cells, "queue"), ascending(cells, "buffer_bdp"));
    if queues.len() <= sizes.len() {
        return None;
    }
    let largest = *sizes.last()?;
    let deep = grouped(cells.iter().filter(|cell| cell.setting("buffer_bdp") == largest), &["queue"]);
    let mut rows: Vec<Row<'_>> = deep.iter().filter_map(row).collect();
    rows.sort_by(|a, b| a.worst_s.total_cmp(&b.worst_s));
    Some(Answer {
        sentences: sentences(&rows, largest)?,
        table: table(cells),
        columns: COLUMNS.into(),
        drawing: Some(drawing(cells)),
    })
}

fn row<'c>(group: &Group<'c, '_>) -> Option<Row<'c>> {
    Some(Row { queue: group.key[0], worst_s: group.most(SOJOURN)?, used: group.least(UTILISATION)? })
}

/// Rows by ascending delay.
fn sentences(rows: &[Row<'_>], size: &str) -> Option<Vec<String>> {
    let (full, idle): (Vec<&Row<'_>>, Vec<_>) = rows.iter().partition(|row| row.used >= FULL_ENOUGH);
    let time = |s: f64| time_ns(s * 1e9);
    let mut sentences = Vec::new();
    match full.split_first() {
        Some((best, rest)) => {
            let last = rest.iter().find(|row| row.queue == "fifo").or(rest.last());
            let beside = last.map_or_else(String::new, |other| {
                let times = significant(other.worst_s / best.worst_s);
                format!("; in {} they wait up to {}, {times} times as long", other.queue, time(other.worst_s))
            });
            sentences.push(format!(
                "{} keeps the delay shortest while the link is full: in a buffer of {size} BDP 99 % of the packets wait at most \
                 {}, whatever the traffic, and at least {} of the link is used{beside}.",
                best.queue,
                time(best.worst_s),
                whole_percent(best.used)
            ));
            let next: Vec<String> =
                rest.iter().take(3).map(|row| format!("{} {}", row.queue, time(row.worst_s))).collect();
            if !next.is_empty() {
                sentences.push(format!("The next ones: {}.", list(&next)));
            }
        }
        None => {
            let most = rows.iter().max_by(|a, b| a.used.total_cmp(&b.used))?;
            sentences.push(format!(
                "No queue keeps the link {} full with all of this traffic in a buffer of {size} BDP; {} comes nearest with {}, where \
                 99 % of the packets wait at most {}.",
                whole_percent(FULL_ENOUGH),
                most.queue,
                whole_percent(most.used),
                time(most.worst_s)
            ));
        }
    }
    let shorter = |row: &&&Row<'_>| full.first().is_none_or(|best| row.worst_s < best.worst_s);
    let of = |row: &&Row<'_>| format!("{} ({}, {})", row.queue, time(row.worst_s), whole_percent(row.used));
    let idle: Vec<String> = idle.iter().filter(shorter).map(of).collect();
    if !idle.is_empty() && !full.is_empty() {
        sentences.push(format!(
            "Less delay, but a link that is idle for longer with some of the traffic (delay, used share): {}.",
            list(&idle)
        ));
    }
    Some(sentences)
}

/// The smallest and the largest size.
fn ends<'c>(cells: &'c [Cell<'_>]) -> Vec<&'c str> {
    let sizes = ascending(cells, "buffer_bdp");
    let mut ends: Vec<&str> = [sizes.first(), sizes.last()].into_iter().flatten().copied().collect();
    ends.dedup();
    ends
}

fn table(cells: &[Cell<'_>]) -> Table {
    let (queues, sizes) = (levels(cells, "queue"), ends(cells));
    let of_size = |size: &&str| [format!("{size} BDP: p99"), "worst".into(), "used".into()];
    let head = std::iter::once("queue".to_string()).chain(sizes.iter().flat_map(of_size));
    let mut table = Table::new(&head.chain(["Jain".to_string()]).collect::<Vec<_>>());
    let groups = grouped(cells, &["queue", "buffer_bdp"]);
    let time = |s: Option<f64>| or_dash(s, |s| time_ns(s * 1e9));
    for queue in queues {
        let of = |size: &&str| {
            let group = groups.iter().find(|group| group.key == [queue, *size]);
            [
                time(group.and_then(|group| group.median(SOJOURN))),
                time(group.and_then(|group| group.most(SOJOURN))),
                or_dash(group.and_then(|group| group.least(UTILISATION)), whole_percent),
            ]
        };
        let several = cells.iter().filter(|cell| cell.setting("queue") == queue && cell.flows() > 1.0);
        let jain = several.filter_map(|cell| cell.value(JAIN)).reduce(f64::min);
        let row = std::iter::once(queue.to_string()).chain(sizes.iter().flat_map(of));
        table.push(row.chain([index(jain)]).collect());
    }
    table.without_empty(&["Jain"])
}

fn drawing(cells: &[Cell<'_>]) -> Block {
    let groups = grouped(cells, &["queue", "buffer_bdp"]);
    let of = |size: &str| {
        let own = groups.iter().filter(move |group| group.key[1] == size);
        own.map(|group| {
            let (value, queue) = (group.most(SOJOURN), group.key[0]);
            Bar::plain(queue, value, or_dash(value, |s| time_ns(s * 1e9)))
        })
        .collect::<Vec<Bar>>()
    };
    let mut chart = BarChart::plain("99th percentile of the time in the queue", |s| time_ns(s * 1e9));
    for size in ends(cells) {
        chart.group(&format!("buffer of {size} BDP"), of(size));
    }
    chart.cut_outliers();
    Block::Wide(chart.draw("Delay by queue", "The numbers are in the table below."), CAPTION)
}
