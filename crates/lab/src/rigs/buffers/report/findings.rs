//! What a run says, one sentence each.

use super::variance::share_explained;
use super::{CONVERGENCE, Cell, FIRST_SHARE, JAIN, SOJOURN, UTILISATION, bands, cells, claims, maps};
use crate::run_data::RunData;
use crate::stats::{mean, median};
use crate::view::format::{count, list, significant, time_ns, whole_percent};

/// A link counts as full from here on.
const FULL: f64 = 0.95;
/// Maps that are described one by one.
const MOST_MAPS: usize = 6;

/// What a run says, for the summary; what it was made for comes first.
pub(in super::super) fn findings(data: &RunData) -> Vec<String> {
    let cells = cells(data);
    if cells.is_empty() {
        return Vec::new();
    }
    let mut found: Vec<String> = cross_check(&cells).into_iter().chain(after_changes(&cells)).collect();
    found.extend(shares_of_bbr(&cells));
    let general = [fairest_overall(&cells), smallest_full(&cells), delays(&cells)];
    // Where there are many queues and few sizes, the question is how long packets wait.
    let by_queue = levels(&cells, "queue").len() > levels(&cells, "buffer_bdp").len() + 2;
    match (by_queue, general) {
        (true, [fair, full, delay]) => found.extend([delay, full, fair].into_iter().flatten()),
        (false, general) => found.extend(general.into_iter().flatten()),
    }
    found.extend(explained(&cells));
    found.extend(convergence(&cells));
    found.extend(published(&cells));
    let maps = maps(&cells);
    // Of more, the drawings say it better.
    if maps.len() <= MOST_MAPS {
        found.extend(maps.iter().filter_map(|(name, map)| fairest(name, map)));
    }
    found
}

/// The values of a setting, in the order of the plan.
fn levels<'c>(cells: &'c [Cell<'_>], setting: &str) -> Vec<&'c str> {
    let mut levels: Vec<&str> = Vec::new();
    cells.iter().map(|cell| cell.setting(setting)).for_each(|level| {
        if !levels.contains(&level) {
            levels.push(level);
        }
    });
    levels
}

fn explained(cells: &[Cell<'_>]) -> Option<String> {
    let all: Vec<&Cell<'_>> = cells.iter().collect();
    let explains = |factor| share_explained(&all, JAIN, factor).map(whole_percent);
    let (queue, buffer) = (explains("queue")?, explains("buffer_bdp")?);
    Some(format!(
        "Of the variance of Jain's index over the whole grid, the queue by itself explains {queue} and the buffer {buffer}."
    ))
}

/// How fair each queue is over all of the grid.
fn fairest_overall(cells: &[Cell<'_>]) -> Option<String> {
    let of = |queue: &&str| {
        let own = cells.iter().filter(|cell| cell.setting("queue") == *queue && cell.flows() > 1.0);
        let values: Vec<f64> = own.filter_map(|cell| cell.value(JAIN)).collect();
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        Some(format!("{queue} {:.2} ({least:.2})", median(&values)?))
    };
    let all: Vec<String> = levels(cells, "queue").iter().filter_map(of).collect();
    (!all.is_empty()).then(|| {
        format!("Jain's index over the whole grid has this median (and least value): {}.", list(&all))
    })
}

/// How long packets wait in each queue, over all of the grid.
fn delays(cells: &[Cell<'_>]) -> Option<String> {
    let of = |queue: &&str| {
        let own = cells.iter().filter(|cell| cell.setting("queue") == *queue);
        let values: Vec<f64> = own.filter_map(|cell| cell.value(SOJOURN)).collect();
        Some(format!("{queue} {}", time_ns(median(&values)? * 1e9)))
    };
    let all: Vec<String> = levels(cells, "queue").iter().filter_map(of).collect();
    (!all.is_empty()).then(|| {
        format!("The 99th percentile of the time in the queue, median over the grid: {}.", list(&all))
    })
}

/// What BBR has of a link that it shares with loss-based flows, from the smallest buffer to the largest.
fn shares_of_bbr(cells: &[Cell<'_>]) -> Option<String> {
    let is_one = levels(cells, "queue").len() == 1;
    let is_mixed =
        |cell: &&Cell<'_>| cell.setting("mix").starts_with("bbr") && cell.setting("mix").contains('+');
    let mixed = maps(cells).into_iter().filter(|(_, map)| map.first().is_some_and(is_mixed));
    let of = |(name, map): (String, Vec<&Cell<'_>>)| {
        let (first, last) = (map.first()?, map.last()?);
        let share = |cell: &Cell<'_>| {
            Some(format!("{} at {} BDP", whole_percent(cell.value(FIRST_SHARE)?), cell.setting("buffer_bdp")))
        };
        Some(format!("{name}: {} and {}", share(first)?, share(last)?))
    };
    let all: Vec<String> = mixed.filter_map(of).collect();
    (is_one && !all.is_empty())
        .then(|| format!("The share of BBR, by the size of the buffer: {}.", all.join("; ")))
}

/// What follows changes of the rate: medians over the grid, by queue.
fn after_changes(cells: &[Cell<'_>]) -> Vec<String> {
    let mut names: Vec<&str> = Vec::new();
    for figure in cells.iter().flat_map(|cell| cell.figures) {
        if figure.name.contains("after the change at") && !names.contains(&&figure.name[..]) {
            names.push(&figure.name);
        }
    }
    let sentence = |name: &&str| {
        let of = |queue: &&str| {
            let own = cells.iter().filter(|cell| cell.setting("queue") == *queue);
            let values: Vec<f64> = own.filter_map(|cell| cell.value(name)).collect();
            Some(format!("{queue} {}", time_ns(median(&values)? * 1e9)))
        };
        let all: Vec<String> = levels(cells, "queue").iter().filter_map(of).collect();
        let mut name = name.to_string();
        name.replace_range(..1, &name[..1].to_uppercase());
        (!all.is_empty()).then(|| format!("{name}, median over the grid: {}.", list(&all)))
    };
    names.iter().filter_map(sentence).collect()
}

/// How soon flows have converged, and how often they do not.
fn convergence(cells: &[Cell<'_>]) -> Option<String> {
    let several: Vec<&Cell<'_>> = cells.iter().filter(|cell| cell.flows() > 1.0).collect();
    let found: Vec<f64> = several.iter().filter_map(|cell| cell.value(CONVERGENCE)).collect();
    let never = several.len() - found.len();
    let after = median(&found).map_or_else(String::new, |s| format!(" after {} s (median)", significant(s)));
    (!several.is_empty()).then(|| {
        format!(
            "Flows converge (Jain's index of at least 0.9 in five seconds in a row) at {} of {}{after}.",
            several.len() - never,
            count(several.len(), "point")
        )
    })
}

/// How the run stands to published results.
fn published(cells: &[Cell<'_>]) -> Vec<String> {
    let checks = bands::checks(cells);
    let pass = checks.iter().filter(|check| check.passes).count();
    let mut found = Vec::new();
    if !checks.is_empty() {
        found.push(format!(
            "Of {} with theory and other test beds {pass} pass.",
            count(checks.len(), "comparison")
        ));
    }
    let answers = claims::answers(cells);
    let tested: Vec<_> = answers.iter().filter_map(|(_, answer)| answer.as_ref()).collect();
    if !tested.is_empty() {
        let reproduced = tested.iter().filter(|answer| answer.reproduced).count();
        found.push(format!(
            "Of the {} sentences of the study of 2019, {reproduced} are reproduced, {} are not, and {} are not tested.",
            answers.len(),
            tested.len() - reproduced,
            answers.len() - tested.len()
        ));
    }
    found
}

/// How far the real bed and the simulator are apart, at points that both have: mean and largest difference.
fn cross_check(cells: &[Cell<'_>]) -> Option<String> {
    let (real, simulated): (Vec<&Cell<'_>>, Vec<_>) = cells.iter().partition(|cell| cell.is_real());
    let twin = |cell: &Cell<'_>| simulated.iter().find(|other| other.is_same_traffic(cell)).copied();
    let pairs: Vec<_> = real.iter().filter_map(|cell| Some((*cell, twin(cell)?))).collect();
    let apart = |figure: &str| {
        let differences =
            pairs.iter().filter_map(|(real, twin)| Some((real, real.value(figure)? - twin.value(figure)?)));
        let differences: Vec<_> = differences.collect();
        let mean = mean(&differences.iter().map(|(_, apart)| apart.abs()).collect::<Vec<_>>())?.mean;
        let (cell, largest) = differences.iter().max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()))?;
        let (queue, buffer) = (cell.setting("queue"), cell.setting("buffer_bdp"));
        let value = |value: f64| match figure {
            SOJOURN => format!("{:+.1} ms", value * 1e3),
            _ => format!("{value:+.3}"),
        };
        let (mean, largest) = (value(mean).replace('+', ""), value(*largest));
        let at = format!("{}, {queue}, {buffer} BDP", cell.traffic());
        Some(format!("{figure} by {mean} on average and {largest} at most ({at})"))
    };
    let apart: Vec<String> = [UTILISATION, JAIN, SOJOURN].into_iter().filter_map(apart).collect();
    (!apart.is_empty()).then(|| {
        format!("The real bed differs from the simulator at {} points: {}.", pairs.len(), list(&apart))
    })
}

/// How fair each queue is with this traffic, over all buffers.
fn fairest(name: &str, map: &[&Cell<'_>]) -> Option<String> {
    let mut queues: Vec<&str> = map.iter().map(|cell| cell.setting("queue")).collect();
    queues.dedup();
    let range = |queue: &&str| {
        let values =
            map.iter().filter(|cell| cell.setting("queue") == *queue).filter_map(|cell| cell.value(JAIN));
        let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
        (low <= high).then(|| format!("{queue} {low:.2} to {high:.2}"))
    };
    let ranges: Vec<String> = queues.iter().filter_map(range).collect();
    (!ranges.is_empty()).then(|| format!("With {name}, Jain's index over all buffers is: {}.", list(&ranges)))
}

/// The smallest buffer that fills the link, by queue, whatever the traffic.
fn smallest_full(cells: &[Cell<'_>]) -> Option<String> {
    let least = |queue: &&str| {
        let own = || cells.iter().filter(|cell| cell.setting("queue") == *queue);
        let fills = |size: &str| {
            own()
                .filter(|cell| cell.setting("buffer_bdp") == size)
                .all(|cell| cell.value(UTILISATION) >= Some(FULL))
        };
        let mut sizes: Vec<&str> = own().map(|cell| cell.setting("buffer_bdp")).collect();
        sizes.sort_by(|a, b| a.parse::<f64>().unwrap_or(0.0).total_cmp(&b.parse().unwrap_or(0.0)));
        sizes.dedup();
        let size = sizes.into_iter().find(|size| fills(size));
        size.map_or_else(|| format!("{queue}: none of these"), |size| format!("{queue}: {size}"))
    };
    let sizes: Vec<String> = levels(cells, "queue").iter().map(least).collect();
    let unit = if cells.iter().any(Cell::is_per_sqrt) { "BDP / sqrt(n)" } else { "BDP" };
    (!sizes.is_empty()).then(|| {
        format!(
            "The smallest buffer that keeps the link {} full with all of this traffic, in {unit}: {}.",
            whole_percent(FULL),
            list(&sizes)
        )
    })
}
