//! The grid as maps of fairness and utilisation, and what explains them more: the queue management or the buffer.

use crate::record::Figure;
use crate::report::block::{Block, Part};
use crate::report::heat::HeatMap;
use crate::run_data::{MEASURES, PointData, RunData};
use crate::stats::mean;
use crate::view::Table;
use crate::view::format::{list, or_dash, percent, significant, time_ns, whole_percent};

/// Of the section, and of the figures in records.
pub(super) const ID: &str = "bottleneck";
pub(super) const UTILISATION: &str = "utilisation";
pub(super) const JAIN: &str = "Jain's index";
pub(super) const SOJOURN: &str = "p99 of the sojourn";

/// The setting of points that are not simulated.
pub(super) const BED: &str = "bed";

/// A link counts as full from here on.
const FULL: f64 = 0.95;

const FAIRNESS: &str = "Jain's index of the flows' throughputs, median of the seeds: 1 is fair, and 0.5 is one of two flows that \
    has all. Rows: queues; columns: buffer in bandwidth-delay products of the longest path.";

const UTILISED: &str = "Utilisation of the link, median of the seeds; rows and columns as above.";

const METHOD: &str = "Points of the real bed: the kernel's TCP with its offloads, through a bottleneck in namespaces that has the same \
    queue and the same buffer; utilisation and fairness count from the end of the warm-up on, sojourn and loss from the start on. \
    All others: simulated packet by packet in virtual time, the same for the same seed: queues with limits exact to the byte, \
    senders with SACK, RACK, a tail loss probe and pacing. Segments have one size; hosts have no qdisc, no TSO and no CPU time; \
    ACKs take no capacity. Flows of a group start within one of its round trips. BBR version 2 is its rules on version 3's engine. \
    What explains a figure: the share of its variance over the grid that goes with the mean of each setting, by itself.";

/// A point with its figures.
struct Cell<'a> {
    data: &'a PointData,
    figures: &'a [Figure],
}

impl Cell<'_> {
    fn setting(&self, name: &str) -> &str {
        self.data.setting(name).unwrap_or("–")
    }

    fn value(&self, name: &str) -> Option<f64> {
        self.figures.iter().find(|figure| figure.name == name)?.value
    }

    /// What a map has in common.
    fn traffic(&self) -> String {
        let (mix, flows, rtt) = (self.setting("mix"), self.setting("flows"), self.setting("rtt_ms"));
        let bed = if self.data.setting(BED).is_some() { ", real bed" } else { "" };
        format!("{mix}, {flows} flows, {rtt} ms{bed}")
    }
}

fn cells(data: &RunData) -> Vec<Cell<'_>> {
    let points = data.points.iter().filter(|point| point.setting(MEASURES) == Some(ID));
    points
        .filter_map(|data| {
            let procedure = data.point.result.as_ref()?.procedures.first()?;
            Some(Cell { data, figures: &procedure.figures })
        })
        .collect()
}

/// The cells of each map, in the order of the plan.
fn maps<'c, 'a>(cells: &'c [Cell<'a>]) -> Vec<(String, Vec<&'c Cell<'a>>)> {
    let mut maps: Vec<(String, Vec<&Cell<'_>>)> = Vec::new();
    for cell in cells {
        let traffic = cell.traffic();
        match maps.iter_mut().find(|(name, _)| *name == traffic) {
            Some((_, map)) => map.push(cell),
            None => maps.push((traffic, vec![cell])),
        }
    }
    maps
}

/// Its section of a report.
pub(super) fn parts(data: &RunData) -> Vec<Part> {
    let cells = cells(data);
    if cells.is_empty() {
        return Vec::new();
    }
    let blocks = vec![
        Block::Drawing { drawings: drawings(&cells, JAIN), caption: FAIRNESS },
        Block::Drawing { drawings: drawings(&cells, UTILISATION), caption: UTILISED },
        Block::Heading("What explains the figures"),
        Block::Table(explained(&cells)),
        Block::Note(METHOD.into()),
        Block::Folded("All figures of the grid".into(), vec![Block::Table(table(&cells))]),
    ];
    vec![Part { id: ID, heading: "Buffers, queues and fairness".into(), blocks }]
}

fn drawings(cells: &[Cell<'_>], figure: &str) -> Vec<String> {
    let draw = |(name, map): (String, Vec<&Cell<'_>>)| {
        let mut heat = HeatMap::new(format!("{figure}: {name}"));
        for cell in map {
            heat.set(cell.setting("queue"), cell.setting("buffer_bdp"), cell.value(figure));
        }
        heat.draw()
    };
    maps(cells).into_iter().map(draw).collect()
}

fn table(cells: &[Cell<'_>]) -> Table {
    let mut table = Table::new(&[
        "Round trips, ms",
        "Mix",
        "Flows",
        "Queue",
        "Buffer, BDP",
        "Utilisation",
        "Jain",
        "First group",
        "Sojourn, median",
        "Sojourn, p99",
        "Loss",
        "Converged after, s",
    ]);
    for cell in cells {
        let share = |name: &str| or_dash(cell.value(name), percent);
        let time = |name: &str| or_dash(cell.value(name), |s| time_ns(s * 1e9));
        let settings =
            ["rtt_ms", "mix", "flows", "queue", "buffer_bdp"].map(|name| cell.setting(name).to_string());
        let figures = [
            share(UTILISATION),
            or_dash(cell.value(JAIN), |jain| format!("{jain:.3}")),
            share("share of the first group"),
            time("median sojourn"),
            time(SOJOURN),
            share("loss"),
            or_dash(cell.value("convergence"), significant),
        ];
        table.push(settings.into_iter().chain(figures).collect());
    }
    table
}

/// Settings that may explain a figure.
const FACTORS: [(&str, &str); 5] = [
    ("queue", "queue"),
    ("buffer_bdp", "buffer"),
    ("flows", "flows"),
    ("mix", "mix"),
    ("rtt_ms", "round trips"),
];

/// Share of the variance of a figure that goes with the mean of each value of a setting (eta squared); `None` where the figure
/// or the setting is the same everywhere.
fn share_explained(cells: &[&Cell<'_>], figure: &str, factor: &str) -> Option<f64> {
    let values: Vec<(&str, f64)> =
        cells.iter().filter_map(|cell| Some((cell.setting(factor), cell.value(figure)?))).collect();
    let all = mean(&values.iter().map(|(_, value)| *value).collect::<Vec<_>>())?.mean;
    let total: f64 = values.iter().map(|(_, value)| (value - all).powi(2)).sum();
    let mut levels: Vec<&str> = values.iter().map(|(level, _)| *level).collect();
    levels.sort_unstable();
    levels.dedup();
    if levels.len() < 2 || total <= f64::EPSILON {
        return None;
    }
    let between = levels.iter().filter_map(|level| {
        let own: Vec<f64> = values.iter().filter(|(of, _)| of == level).map(|(_, value)| *value).collect();
        Some(own.len() as f64 * (mean(&own)?.mean - all).powi(2))
    });
    Some(between.sum::<f64>() / total)
}

fn explained(cells: &[Cell<'_>]) -> Table {
    let cells: Vec<&Cell<'_>> = cells.iter().collect();
    let names: Vec<&str> = std::iter::once("Figure").chain(FACTORS.map(|(_, name)| name)).collect();
    let mut table = Table::new(&names);
    for figure in [JAIN, UTILISATION, SOJOURN] {
        let shares = FACTORS.map(|(factor, _)| or_dash(share_explained(&cells, figure, factor), percent));
        table.push(std::iter::once(figure.to_string()).chain(shares).collect());
    }
    table.without_empty(&names[1..])
}

/// What a run says, for the summary.
pub(super) fn findings(data: &RunData) -> Vec<String> {
    let cells = cells(data);
    let mut found: Vec<String> = maps(&cells)
        .iter()
        .filter_map(|(name, map)| fairest(name, map))
        .chain(smallest_full(&cells))
        .collect();
    found.extend(cross_check(&cells));
    let all: Vec<&Cell<'_>> = cells.iter().collect();
    let explains = |factor| share_explained(&all, JAIN, factor);
    if let (Some(queue), Some(buffer)) = (explains("queue"), explains("buffer_bdp")) {
        let (queue, buffer) = (whole_percent(queue), whole_percent(buffer));
        found.push(format!(
            "Of the variance of Jain's index over the whole grid, the queue by itself explains {queue} and the buffer {buffer}."
        ));
    }
    found
}

/// How far the real bed and the simulator are apart, at points that both have: mean and largest difference.
fn cross_check(cells: &[Cell<'_>]) -> Option<String> {
    const SAME: [&str; 7] = ["queue", "buffer_bdp", "flows", "mix", "rtt_ms", "rate", "duration_s"];
    let (real, simulated): (Vec<&Cell<'_>>, Vec<_>) =
        cells.iter().partition(|cell| cell.data.setting(BED).is_some());
    let twin = |cell: &Cell<'_>| {
        let same =
            |other: &&&Cell<'_>| SAME.iter().all(|name| cell.data.setting(name) == other.data.setting(name));
        simulated.iter().find(same).copied()
    };
    let pairs: Vec<_> = real.iter().filter_map(|cell| Some((*cell, twin(cell)?))).collect();
    let apart = |figure: &str| {
        let differences =
            pairs.iter().filter_map(|(real, twin)| Some((real, real.value(figure)? - twin.value(figure)?)));
        let differences: Vec<_> = differences.collect();
        let mean = mean(&differences.iter().map(|(_, apart)| apart.abs()).collect::<Vec<_>>())?.mean;
        let (cell, largest) = differences.iter().max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()))?;
        let (queue, buffer) = (cell.setting("queue"), cell.setting("buffer_bdp"));
        Some(format!(
            "{figure} by {mean:.3} on average and {largest:+.3} at most ({}, {queue}, {buffer} BDP)",
            cell.traffic()
        ))
    };
    let apart: Vec<String> = [UTILISATION, JAIN].into_iter().filter_map(apart).collect();
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
    let mut queues: Vec<&str> = Vec::new();
    cells.iter().map(|cell| cell.setting("queue")).for_each(|queue| {
        if !queues.contains(&queue) {
            queues.push(queue);
        }
    });
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
    let sizes: Vec<String> = queues.iter().map(least).collect();
    (!sizes.is_empty()).then(|| {
        format!(
            "The smallest buffer that keeps the link {} full with all of this traffic, in BDP: {}.",
            whole_percent(FULL),
            list(&sizes)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::{figure, unit};
    use crate::fixture;
    use crate::record::{PointResult, ProcedureResult, Statistic};
    use crate::report::block::{page, terminal};

    /// A point with this fairness and utilisation.
    fn cell(index: usize, queue: &str, buffer: &str, (jain, full): (f64, f64)) -> PointData {
        let mut data = fixture::point(index, queue, 64, 1.0);
        let settings = [
            (MEASURES, ID),
            ("queue", queue),
            ("buffer_bdp", buffer),
            ("flows", "2"),
            ("mix", "cubic+bbr2"),
            ("rtt_ms", "20"),
        ];
        data.point.settings = settings.map(|(name, value)| (name.to_string(), value.to_string())).to_vec();
        let of = |name: &str, value| figure(name, unit::RATIO, Statistic::Median, vec![value]);
        let figures = vec![of(UTILISATION, full), of(JAIN, jain)];
        let procedure = ProcedureResult { procedure: ID.into(), figures, ..ProcedureResult::default() };
        data.point.result = Some(PointResult { procedures: vec![procedure], ..PointResult::default() });
        data
    }

    fn run() -> RunData {
        let points = vec![
            cell(0, "fifo", "0.1", (0.5, 0.7)),
            cell(1, "fifo", "1", (0.6, 0.99)),
            cell(2, "ppv", "0.1", (0.98, 0.96)),
            cell(3, "ppv", "1", (0.99, 0.99)),
        ];
        RunData { run: fixture::run(1), points }
    }

    #[test]
    fn findings_name_the_range_the_buffer_and_what_explains() {
        assert_eq!(
            findings(&run()),
            [
                "With cubic+bbr2, 2 flows, 20 ms, Jain's index over all buffers is: fifo 0.50 to 0.60 and ppv 0.98 to 0.99.",
                "The smallest buffer that keeps the link 95 % full with all of this traffic, in BDP: fifo: 1 and ppv: 0.1.",
                "Of the variance of Jain's index over the whole grid, the queue by itself explains 97 % and the buffer 1.6 %.",
            ]
            .map(|text| text.replace(" %", "\u{202f}%"))
        );
        assert!(findings(&fixture::quick()).is_empty() && parts(&fixture::quick()).is_empty());
    }

    #[test]
    fn the_real_bed_is_compared_with_its_twins() {
        let mut data = run();
        let mut real = cell(4, "fifo", "1", (0.75, 0.97));
        real.point.settings.push((BED.to_string(), "real".to_string()));
        data.points.push(real);
        let found = findings(&data);
        let expected = "The real bed differs from the simulator at 1 points: utilisation by 0.020 on average and -0.020 at most \
            (cubic+bbr2, 2 flows, 20 ms, real bed, fifo, 1 BDP) and Jain's index by 0.150 on average and +0.150 at most";
        assert!(found.iter().any(|text| text.starts_with(expected)), "{found:?}");
        assert!(found[1].starts_with("With cubic+bbr2, 2 flows, 20 ms, real bed, Jain"), "{found:?}");
    }

    #[test]
    fn each_cell_is_on_a_map_and_in_the_table() {
        let parts = parts(&run());
        let html = page(&parts);
        for text in ["fifo, buffer 0.1: 0.50", "ppv, buffer 1: 0.99", "fifo, buffer 0.1: 0.70"] {
            assert!(html.contains(text), "{text} in {html}");
        }
        let text = terminal(&parts);
        assert!(text.lines().any(|line| line.contains("ppv") && line.contains("0.980")), "{text}");
    }
}
