//! Queues and sizes of the buffer: which size is enough to fill the link, and which queue shares it fairly.

use super::super::{Cell, JAIN, SOJOURN, UTILISATION, drawings};
use super::{FULL, Group, ROWS, ascending, flows, grouped, index, levels, number};
use weir_report::report::answer::Answer;
use weir_report::report::block::Block;
use weir_report::view::Table;
use weir_report::view::format::{list, or_dash, time_ns, whole_percent};

const COLUMNS: &str = "used: share of the link, of the traffic that uses least of it; Jain: index of the flows' shares, median of all \
    traffic and least; p99: 99th percentile of the time in the queue, median of all traffic.";

const CAPTION: &str = "Share of the link that is used, with the traffic that uses least of it; and Jain's index of the flows' shares, \
    median of all traffic: 1 is fair. Rows: queues; columns: buffer in bandwidth-delay products of the longest path.";

pub(super) fn answer(cells: &[Cell<'_>]) -> Option<Answer> {
    let said: Vec<String> = [enough(cells), fairest(cells)].into_iter().flatten().collect();
    let first = (!said.is_empty()).then(|| said.join("; ") + ".")?;
    let of_sizes = |cells: Vec<_>| grouped(cells, &["queue", "buffer_bdp"]);
    let (all, several) = (of_sizes(cells.iter().collect()), of_sizes(several(cells)));
    let drawings = vec![
        drawings::map("Used share of the link", &all, |group| group.least(UTILISATION)),
        drawings::map("Jain's index", &several, |group| group.median(JAIN)),
    ];
    Some(Answer {
        sentences: [Some(first), fairness(cells), delays(cells)].into_iter().flatten().collect(),
        table: table(cells),
        columns: COLUMNS.into(),
        drawing: Some(Block::Drawing { drawings, caption: CAPTION }),
    })
}

/// The points of several flows: one alone is always fair.
fn several<'c, 'a>(cells: &'c [Cell<'a>]) -> Vec<&'c Cell<'a>> {
    cells.iter().filter(|cell| cell.flows() > 1.0).collect()
}

/// The buffer that fills the link, for the fewest and for the most flows.
fn enough(cells: &[Cell<'_>]) -> Option<String> {
    let counts = ascending(cells, "flows");
    let mut ends: Vec<&str> = [counts.first(), counts.last()].into_iter().flatten().copied().collect();
    ends.dedup();
    let of = |(i, count): (usize, &&str)| {
        let (flows, size) = (flows(count), needed(cells, count)?);
        Some(if i == 0 {
            format!("{flows} need a buffer of {size}")
        } else {
            format!("{flows} one of {size}")
        })
    };
    let needed: Vec<String> = ends.iter().enumerate().filter_map(of).collect();
    (!needed.is_empty())
        .then(|| format!("To fill the link to at least {}, {}", whole_percent(FULL), needed.join(", ")))
}

/// `1 BDP (fifo, pie) or more than 4 BDP (gsp)`.
fn needed(cells: &[Cell<'_>], count: &str) -> Option<String> {
    let queues = levels(cells, "queue");
    let mut by_size: Vec<(f64, String, Vec<&str>)> = Vec::new();
    for queue in &queues {
        let own =
            cells.iter().filter(|cell| cell.setting("queue") == *queue && cell.setting("flows") == count);
        let Some((order, text)) = smallest(&grouped(own, &["buffer_bdp"])) else { continue };
        match by_size.iter_mut().find(|(_, known, _)| *known == text) {
            Some((_, _, same)) => same.push(queue),
            None => by_size.push((order, text, vec![queue])),
        }
    }
    by_size.sort_by(|a, b| a.0.total_cmp(&b.0));
    let all: Vec<String> = match &by_size[..] {
        [(_, text, _)] if queues.len() > 1 => vec![format!("{text} in every queue")],
        [(_, text, _)] => vec![text.clone()],
        several => several.iter().map(|(_, text, of)| format!("{text} ({})", of.join(", "))).collect(),
    };
    (!all.is_empty()).then(|| all.join(" or "))
}

/// The smallest size from which on the link is full with all of this traffic, for sorting and in words.
fn smallest(by_size: &[Group<'_, '_>]) -> Option<(f64, String)> {
    let mut sizes: Vec<(f64, &str, bool)> = by_size
        .iter()
        .map(|size| (number(size.key[0]), size.key[0], size.least(UTILISATION) >= Some(FULL)))
        .collect();
    sizes.sort_by(|a, b| a.0.total_cmp(&b.0));
    let full = sizes.iter().rev().take_while(|(_, _, full)| *full).last();
    match (full, sizes.last()?) {
        (Some((size, name, _)), _) => Some((*size, format!("{name} BDP"))),
        (None, (_, largest, _)) => Some((f64::INFINITY, format!("more than {largest} BDP"))),
    }
}

/// The queue that shares the link most fairly, beside the FIFO or the least fair one.
fn fairest(cells: &[Cell<'_>]) -> Option<String> {
    let queues = by_fairness(cells);
    let (best, rest) = queues.split_first()?;
    let other = rest.iter().find(|group| group.key[0] == "fifo").or(rest.last())?;
    let index = |group: &Group<'_, '_>| Some((group.median(JAIN)?, group.least(JAIN)?));
    let ((median, least), (median_of_other, least_of_other)) = (index(best)?, index(other)?);
    let (name, other) = (best.key[0], other.key[0]);
    Some(format!(
        "{name} shares it most fairly, with a Jain's index of {median:.2} (at worst {least:.2}), beside {other} with \
         {median_of_other:.2} ({least_of_other:.2})"
    ))
}

/// All queues, the fairest first.
fn by_fairness<'c, 'a>(cells: &'c [Cell<'a>]) -> Vec<Group<'c, 'a>> {
    let mut queues = grouped(several(cells), &["queue"]);
    queues.retain(|group| group.median(JAIN).is_some());
    queues.sort_by(|a, b| b.median(JAIN).unwrap_or(0.0).total_cmp(&a.median(JAIN).unwrap_or(0.0)));
    queues
}

fn fairness(cells: &[Cell<'_>]) -> Option<String> {
    let of = |group: &Group<'_, '_>| {
        Some(format!("{} {:.2} ({:.2})", group.key[0], group.median(JAIN)?, group.least(JAIN)?))
    };
    let all: Vec<String> = by_fairness(cells).iter().filter_map(of).collect();
    (all.len() > 1).then(|| format!("Jain's index of all points, median (and least): {}.", list(&all)))
}

/// What a large buffer costs: the delay at the smallest and the largest size.
fn delays(cells: &[Cell<'_>]) -> Option<String> {
    let sizes = ascending(cells, "buffer_bdp");
    let (first, last) = (*sizes.first()?, *sizes.last()?);
    let groups = grouped(cells, &["queue", "buffer_bdp"]);
    let at = |queue: &str, size: &str| {
        groups.iter().find(|group| group.key == [queue, size])?.median(SOJOURN).map(|s| time_ns(s * 1e9))
    };
    let of = |queue: &&str| Some(format!("{queue} {} to {}", at(queue, first)?, at(queue, last)?));
    let all: Vec<String> = levels(cells, "queue").iter().filter_map(of).collect();
    (first != last && !all.is_empty()).then(|| {
        format!(
            "The price of a large buffer is delay, 99th percentile of the time in the queue from {first} to {last} BDP: {}.",
            list(&all)
        )
    })
}

/// Queues and sizes; of more sizes than there is room for, some, the smallest and the largest among them.
fn table(cells: &[Cell<'_>]) -> Table {
    let (queues, sizes, counts) =
        (levels(cells, "queue"), ascending(cells, "buffer_bdp"), ascending(cells, "flows"));
    let shown = spread(&sizes, ROWS / queues.len().max(1));
    let head = ["queue", "BDP"].map(String::from).into_iter();
    let head = head.chain(counts.iter().map(|count| format!("used, {}", flows(count))));
    let mut table = Table::new(&head.chain(["Jain", "least", "p99"].map(String::from)).collect::<Vec<_>>());
    for (queue, size) in queues.iter().flat_map(|queue| shown.iter().map(move |size| (*queue, *size))) {
        let own = |cell: &&Cell<'_>| cell.setting("queue") == queue && cell.setting("buffer_bdp") == size;
        let all = Group { key: Vec::new(), cells: cells.iter().filter(own).collect() };
        let several = Group { key: Vec::new(), cells: several(cells).into_iter().filter(own).collect() };
        let used = counts.iter().map(|count| {
            let own = all.cells.iter().filter(|cell| cell.setting("flows") == *count);
            let least = own.filter_map(|cell| cell.value(UTILISATION)).reduce(f64::min);
            or_dash(least, whole_percent)
        });
        let names = [queue, size].map(String::from).into_iter();
        let p99 = or_dash(all.median(SOJOURN), |s| time_ns(s * 1e9));
        table.push(
            names.chain(used).chain([index(several.median(JAIN)), index(several.least(JAIN)), p99]).collect(),
        );
    }
    table.without_empty(&["Jain", "least", "p99"])
}

/// At most so many of them, the first and the last among them.
fn spread<'s>(all: &[&'s str], most: usize) -> Vec<&'s str> {
    let (last, most) = (all.len().saturating_sub(1), most.max(2));
    if all.len() <= most {
        return all.to_vec();
    }
    (0..most).map(|i| all[(i * last + (most - 1) / 2) / (most - 1)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_with_little_room_has_both_ends() {
        let sizes = ["0.05", "0.1", "0.25", "0.5", "1", "2", "4", "8"];
        assert_eq!(spread(&sizes, 4), ["0.05", "0.25", "2", "8"]);
        assert_eq!(spread(&sizes, 0), ["0.05", "8"]);
        assert_eq!(spread(&sizes[..3], 4), sizes[..3]);
    }
}
