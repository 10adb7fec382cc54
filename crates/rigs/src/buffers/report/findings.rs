//! Findings of a run, one sentence each.

use super::variance::share_explained;
use super::{CONVERGENCE, Cell, JAIN, answer, bands, cells, claims, maps};
use weir_measure::stats::median;
use weir_record::run_data::RunData;
use weir_report::view::format::{count, list, significant, whole_percent};

/// Maps that are described one by one.
const MOST_MAPS: usize = 6;

/// What a run says, for the summary; the answer to its question comes first.
pub(in super::super) fn findings(data: &RunData) -> Vec<String> {
    let cells = cells(data);
    if cells.is_empty() {
        return Vec::new();
    }
    let mut found = answer(data).map_or_else(Vec::new, |answer| answer.sentences);
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

fn explained(cells: &[Cell<'_>]) -> Option<String> {
    let all: Vec<&Cell<'_>> = cells.iter().collect();
    let explains = |factor| share_explained(&all, JAIN, factor).map(whole_percent);
    let (queue, buffer) = (explains("queue")?, explains("buffer_bdp")?);
    Some(format!(
        "Of the variance of Jain's index over the whole grid, the queue by itself explains {queue} and the buffer {buffer}."
    ))
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
