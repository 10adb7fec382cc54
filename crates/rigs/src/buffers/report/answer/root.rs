//! Buffers by the square root of the number of flows: is RTT x C / sqrt(n) enough to keep a link full?

use super::super::{Cell, UTILISATION, drawings};
use super::{FULL, Group, ascending, flows, grouped, levels, number, row_settings};
use weir_report::report::answer::Answer;
use weir_report::report::block::Block;
use weir_report::view::Table;
use weir_report::view::format::{count, list, or_dash, whole_percent};

const COLUMNS: &str = "Used share of the link by the size of the buffer, in RTT x C / sqrt(n). full from: the smallest of these sizes \
    from which on the link is 95 % full.";

const CAPTION: &str = "Used share of the link. Rows: traffic; columns: buffer in RTT x C / sqrt(n).";

/// RTT x C / sqrt(n) itself, as plans write it.
const ONE: &str = "1";

pub(super) fn answer(cells: &[Cell<'_>]) -> Option<Answer> {
    let own = cells.iter().any(Cell::is_per_sqrt);
    if !own {
        return None;
    }
    let rows = row_settings(cells, &["mix", "flows", "queue", "rtt_ms"]);
    let traffic = grouped(cells, &rows);
    let names: Vec<String> = traffic.iter().map(|group| name(&rows, group)).collect();
    let keyed: Vec<Group<'_, '_>> = names
        .iter()
        .zip(&traffic)
        .flat_map(|(name, group)| {
            let sizes = grouped(group.cells.iter().copied(), &["buffer_bdp"]);
            sizes.into_iter().map(|size| Group { key: vec![&name[..], size.key[0]], cells: size.cells })
        })
        .collect();
    let drawings = vec![drawings::map("Used share of the link", &keyed, |group| group.least(UTILISATION))];
    Some(Answer {
        sentences: [Some(verdict(cells, &rows)), smallest(cells)].into_iter().flatten().collect(),
        table: table(cells, &rows, &traffic),
        columns: COLUMNS.into(),
        drawing: Some(Block::Drawing { drawings, caption: CAPTION }),
    })
}

/// `reno, 16 flows`.
fn name(rows: &[&str], group: &Group<'_, '_>) -> String {
    let words = rows.iter().zip(&group.key).map(|(setting, value)| match *setting {
        "flows" => flows(value),
        "rtt_ms" => format!("{value} ms"),
        _ => value.to_string(),
    });
    words.collect::<Vec<_>>().join(", ")
}

/// Is it enough?
fn verdict(cells: &[Cell<'_>], rows: &[&str]) -> String {
    let at_one = grouped(cells.iter().filter(|cell| cell.setting("buffer_bdp") == ONE), rows);
    let known: Vec<(&Group<'_, '_>, f64)> =
        at_one.iter().filter_map(|group| Some((group, group.least(UTILISATION)?))).collect();
    let (full, short): (Vec<_>, Vec<_>) = known.iter().partition(|(_, used)| *used >= FULL);
    let least = known.iter().map(|(_, used)| *used).fold(1.0, f64::min);
    let of =
        |(group, used): &&(&Group<'_, '_>, f64)| format!("{} ({})", name(rows, group), whole_percent(*used));
    match (full.len(), short.len()) {
        (0, 0) => "The run has no buffer of exactly RTT x C / sqrt(n): add 1 to the sizes.".into(),
        (_, 0) => format!(
            "Yes: RTT x C / sqrt(n) keeps the link at least {} full with all of this traffic.",
            whole_percent(least)
        ),
        (0, _) => format!(
            "No: with RTT x C / sqrt(n) the link is nowhere {} full; {} at worst.",
            whole_percent(FULL),
            whole_percent(least)
        ),
        (full, _) => format!(
            "Not with all traffic: RTT x C / sqrt(n) keeps the link at least {} full with {full} of {}, but not with {}.",
            whole_percent(FULL),
            count(known.len(), "kind") + " of traffic",
            list(&short.iter().map(of).collect::<Vec<_>>())
        ),
    }
}

/// The smallest size that is enough for each number of flows, by congestion control.
fn smallest(cells: &[Cell<'_>]) -> Option<String> {
    let of = |mix: &&str| {
        let own: Vec<&Cell<'_>> = cells.iter().filter(|cell| cell.setting("mix") == *mix).collect();
        let size = full_from(&grouped(own, &["buffer_bdp"]));
        Some(format!("{mix} {}", size.unwrap_or("none of them")))
    };
    let all: Vec<String> = levels(cells, "mix").iter().filter_map(of).collect();
    (!all.is_empty()).then(|| {
        format!(
            "The smallest of these multiples of RTT x C / sqrt(n) that is enough for every number of flows: {}.",
            list(&all)
        )
    })
}

/// The size from which on the link is full with all of this traffic.
fn full_from<'c>(by_size: &[Group<'c, '_>]) -> Option<&'c str> {
    let mut sizes: Vec<&Group<'_, '_>> = by_size.iter().collect();
    sizes.sort_by(|a, b| number(a.key[0]).total_cmp(&number(b.key[0])));
    let full = |size: &&&Group<'c, '_>| size.least(UTILISATION) >= Some(FULL);
    let first = sizes.iter().rev().take_while(full).last()?;
    by_size.iter().find(|group| group.key == first.key).map(|group| group.key[0])
}

fn table(cells: &[Cell<'_>], rows: &[&str], traffic: &[Group<'_, '_>]) -> Table {
    let sizes = ascending(cells, "buffer_bdp");
    let head: Vec<&str> = rows.iter().map(|setting| super::heading(setting)).collect();
    let mut table = Table::new(&[&head[..], &sizes[..], &["full from"]].concat());
    for group in traffic {
        let by_size = grouped(group.cells.iter().copied(), &["buffer_bdp"]);
        let used = |size: &&str| {
            let own = by_size.iter().find(|group| group.key == [*size]);
            or_dash(own.and_then(|group| group.least(UTILISATION)), whole_percent)
        };
        let names = group.key.iter().map(|name| name.to_string());
        let full = or_dash(full_from(&by_size), str::to_string);
        table.push(names.chain(sizes.iter().map(used)).chain([full]).collect());
    }
    table
}
