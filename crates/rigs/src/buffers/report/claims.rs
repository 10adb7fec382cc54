//! Claims of a study of 2019 about buffer sizes, queue management and fairness, one by one: reproduced or not by the points
//! of a run, or not tested by them.

use super::variance::share_explained;
use super::{Cell, JAIN, UTILISATION};
use weir_measure::stats::{mean, median};
use weir_report::view::Table;
use weir_report::view::format::{count, list, significant, whole_percent};

/// What the points say of a sentence.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Answer {
    pub(super) reproduced: bool,
    /// What was found.
    pub(super) found: String,
}

/// A sentence, and how it is tested; `None` where the run has no points for it.
type Claim = (&'static str, fn(&[Cell<'_>]) -> Option<Answer>);

const CLAIMS: [Claim; 8] = [
    ("Buffers of 5 to 10 % of the BDP with few flows use 60 to 70 % of the link.", tiny_buffers),
    ("A little more buffer or more flows fill it.", more_fills),
    ("Packet values (PPV) are fair in every scenario.", ppv_is_fair),
    ("PIE and GSP hardly change the fairness of CUBIC against BBR.", aqm_and_bbr),
    ("With different round trips PIE and GSP help only CUBIC against CUBIC.", aqm_and_rtts),
    (
        "BBR version 2 alone with different round trips is fairest at about half the BDP of the shorter path.",
        bbr2_best,
    ),
    ("Large buffers help CUBIC alone.", large_helps_cubic),
    (
        "The choice of the queue management matters more for fairness than the size of the buffer.",
        queue_over_buffer,
    ),
];

/// A change of Jain's index below this is none.
const HARDLY: f64 = 0.1;
/// Jain's index of flows that share a link fairly.
const FAIR: f64 = 0.95;

pub(super) fn answers(cells: &[Cell<'_>]) -> Vec<(&'static str, Option<Answer>)> {
    CLAIMS.iter().map(|(claim, of)| (*claim, of(cells))).collect()
}

pub(super) fn table(answers: &[(&'static str, Option<Answer>)]) -> Table {
    let mut table = Table::new(&["Published", "Here", "Found"]);
    for (claim, answer) in answers {
        let (verdict, found) = match answer {
            None => ("not tested", "–"),
            Some(answer) if answer.reproduced => ("reproduced", &answer.found[..]),
            Some(answer) => ("not reproduced", &answer.found[..]),
        };
        table.push([claim, verdict, found].map(str::to_string).to_vec());
    }
    table
}

fn values<'c>(cells: impl Iterator<Item = &'c Cell<'c>>, figure: &str) -> Vec<f64> {
    cells.filter_map(|cell| cell.value(figure)).collect()
}

fn range(values: &[f64]) -> Option<(f64, f64)> {
    let ends = |(low, high): (f64, f64), v: &f64| (low.min(*v), high.max(*v));
    (!values.is_empty()).then(|| values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), ends))
}

fn fifo<'c, 'a>(cells: &'c [Cell<'a>]) -> impl Iterator<Item = &'c Cell<'a>> {
    cells.iter().filter(|cell| cell.setting("queue") == "fifo")
}

fn tiny_buffers(cells: &[Cell<'_>]) -> Option<Answer> {
    let tiny = |cell: &&Cell<'_>| (0.05..=0.1).contains(&cell.buffer_bdp()) && cell.flows() <= 4.0;
    let found = values(fifo(cells).filter(tiny), UTILISATION);
    let (median, (low, high)) = (median(&found)?, range(&found)?);
    let found = format!(
        "utilisation in a FIFO of 0.05 to 0.1 BDP with up to 4 flows: {} to {}, median {}",
        whole_percent(low),
        whole_percent(high),
        whole_percent(median)
    );
    Some(Answer { reproduced: (0.55..=0.75).contains(&median), found })
}

fn more_fills(cells: &[Cell<'_>]) -> Option<Answer> {
    let more_buffer = |cell: &&Cell<'_>| (0.25..=0.5).contains(&cell.buffer_bdp()) && cell.flows() <= 4.0;
    let more_flows = |cell: &&Cell<'_>| cell.buffer_bdp() <= 0.1 && cell.flows() >= 20.0;
    let buffer = median(&values(fifo(cells).filter(more_buffer), UTILISATION));
    let flows = median(&values(fifo(cells).filter(more_flows), UTILISATION));
    let text =
        |what: &str, median: Option<f64>| median.map(|median| format!("{what}: {}", whole_percent(median)));
    let found: Vec<String> = [
        text("0.25 to 0.5 BDP with up to 4 flows", buffer),
        text("up to 0.1 BDP with 20 flows and more", flows),
    ]
    .into_iter()
    .flatten()
    .collect();
    let filled = [buffer, flows].into_iter().flatten().all(|median| median >= 0.9);
    let found = format!("median utilisation in a FIFO: {}", list(&found));
    (buffer.or(flows).is_some()).then_some(Answer { reproduced: filled, found })
}

/// PVPIE in a buffer no longer than its target never sees a reason to drop: it is a FIFO.
fn is_inert(cell: &Cell<'_>) -> bool {
    const TARGET_MS: f64 = 20.0;
    let longest_ms = cell.rtts().into_iter().fold(0.0, f64::max);
    cell.setting("queue") == "pvpie" && cell.buffer_bdp() * longest_ms <= TARGET_MS
}

fn ppv_is_fair(cells: &[Cell<'_>]) -> Option<Answer> {
    let of_values = ["ppv-drop-min", "pvpie", "core-stateless"];
    let own = cells.iter().filter(|cell| of_values.contains(&cell.setting("queue")) && cell.flows() > 1.0);
    let own = own.filter(|cell| !is_inert(cell));
    let all: Vec<(&Cell<'_>, f64)> = own.filter_map(|cell| Some((cell, cell.value(JAIN)?))).collect();
    let (cell, least) = all.iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
    let fair = all.iter().filter(|(_, jain)| *jain >= FAIR).count();
    let found = format!(
        "Jain's index is at least {FAIR} at {fair} of {}; least {least:.2}: {}, {}",
        count(all.len(), "point"),
        cell.setting("queue"),
        cell.name()
    );
    Some(Answer { reproduced: *least >= FAIR, found })
}

/// How much Jain's index is higher with PIE and GSP than in a FIFO with the same buffer and traffic, at each such point.
fn gains<'c>(cells: &'c [Cell<'c>], of: impl Fn(&Cell<'_>) -> bool) -> Vec<f64> {
    const SAME: [&str; 8] =
        ["buffer_bdp", "flows", "mix", "rtt_ms", "rate", "duration_s", super::BED, super::PER_SQRT];
    let is_twin =
        |a: &Cell<'_>, b: &Cell<'_>| SAME.iter().all(|name| a.data.setting(name) == b.data.setting(name));
    let managed = ["pie", "pie-basic", "gsp", "gsp-adaptive"];
    let own = cells.iter().filter(|cell| managed.contains(&cell.setting("queue")) && of(cell));
    own.filter_map(|cell| {
        let twin = fifo(cells).find(|twin| is_twin(cell, twin))?;
        Some(cell.value(JAIN)? - twin.value(JAIN)?)
    })
    .collect()
}

fn has_bbr(cell: &Cell<'_>) -> bool {
    cell.setting("mix").contains("bbr")
}

fn aqm_and_bbr(cells: &[Cell<'_>]) -> Option<Answer> {
    let mixed =
        |cell: &Cell<'_>| has_bbr(cell) && cell.setting("mix").contains("cubic") && cell.rtts().len() == 1;
    let found = mean(&gains(cells, mixed))?.mean;
    let text = format!("Jain's index changes by {found:+.2} on average with PIE and GSP in place of a FIFO");
    Some(Answer { reproduced: found.abs() <= HARDLY, found: text })
}

fn aqm_and_rtts(cells: &[Cell<'_>]) -> Option<Answer> {
    let several = |cell: &Cell<'_>| cell.rtts().len() > 1;
    let cubic = mean(&gains(cells, |cell| several(cell) && cell.setting("mix") == "cubic"))?.mean;
    let others = mean(&gains(cells, |cell| several(cell) && has_bbr(cell)))?.mean;
    let found = format!(
        "Jain's index changes by {cubic:+.2} with CUBIC alone and by {others:+.2} with BBR among the flows"
    );
    Some(Answer { reproduced: cubic >= HARDLY / 2.0 && others < HARDLY / 2.0, found })
}

fn bbr2_best(cells: &[Cell<'_>]) -> Option<Answer> {
    let own = fifo(cells).filter(|cell| cell.setting("mix") == "bbr2" && cell.rtts().len() > 1);
    let shorter = |cell: &Cell<'_>| {
        let (low, high) = range(&cell.rtts())?;
        Some(cell.buffer_bdp() * high / low)
    };
    let mut by_buffer: Vec<(f64, Vec<f64>)> = Vec::new();
    for (size, jain) in own.filter_map(|cell| Some((shorter(cell)?, cell.value(JAIN)?))) {
        match by_buffer.iter_mut().find(|(known, _)| (*known / size - 1.0).abs() < 1e-9) {
            Some((_, values)) => values.push(jain),
            None => by_buffer.push((size, vec![jain])),
        }
    }
    if by_buffer.len() < 2 {
        return None;
    }
    let means = by_buffer.iter().filter_map(|(size, values)| Some((*size, mean(values)?.mean)));
    let (size, jain) = means.max_by(|a, b| a.1.total_cmp(&b.1))?;
    let found = format!("fairest at {size:.2} BDP of the shorter path, where Jain's index is {jain:.2}");
    Some(Answer { reproduced: (0.25..=1.0).contains(&size), found })
}

fn large_helps_cubic(cells: &[Cell<'_>]) -> Option<Answer> {
    let own: Vec<&Cell<'_>> =
        fifo(cells).filter(|cell| cell.setting("mix") == "cubic" && cell.flows() > 1.0).collect();
    let sizes: Vec<f64> = own.iter().map(|cell| cell.buffer_bdp()).collect();
    let (small, large) = range(&sizes).filter(|(small, large)| large > small)?;
    let at = |size: f64| {
        let same = own.iter().copied().filter(|cell| cell.buffer_bdp() == size);
        mean(&values(same, JAIN)).map(|mean| mean.mean)
    };
    let (first, last) = (at(small)?, at(large)?);
    let found = format!(
        "Jain's index {first:.2} at {} BDP and {last:.2} at {} BDP on average",
        significant(small),
        significant(large)
    );
    Some(Answer { reproduced: last >= first + HARDLY / 2.0, found })
}

fn queue_over_buffer(cells: &[Cell<'_>]) -> Option<Answer> {
    let all: Vec<&Cell<'_>> = cells.iter().collect();
    let (queue, buffer) = (share_explained(&all, JAIN, "queue")?, share_explained(&all, JAIN, "buffer_bdp")?);
    let found = format!(
        "of the variance of Jain's index, the queue explains {} and the buffer {}",
        whole_percent(queue),
        whole_percent(buffer)
    );
    Some(Answer { reproduced: queue > buffer, found })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{point, run_of};
    use super::*;
    use crate::buffers::report::cells;

    /// Points as queue, buffer, flows, mix, round trips, Jain's index, utilisation; the verdict on a claim.
    fn verdict(claim: usize, points: &[(&str, &str, &str, &str, &str, f64, f64)]) -> Option<bool> {
        let points = points.iter().enumerate().map(|(i, (queue, buffer, flows, mix, rtt, jain, full))| {
            let settings = [
                ("queue", *queue),
                ("buffer_bdp", *buffer),
                ("flows", *flows),
                ("mix", *mix),
                ("rtt_ms", *rtt),
            ];
            point(i, &settings, &[(JAIN, *jain), (UTILISATION, *full)])
        });
        let data = run_of(points.collect());
        answers(&cells(&data))[claim].1.as_ref().map(|answer| answer.reproduced)
    }

    #[test]
    fn each_sentence_can_be_reproduced_and_not() {
        let fifo = |buffer, flows, full| ("fifo", buffer, flows, "cubic", "20", 0.9, full);
        assert_eq!(verdict(0, &[fifo("0.05", "2", 0.65)]), Some(true));
        assert_eq!(verdict(0, &[fifo("0.05", "2", 0.9), fifo("1", "2", 0.65)]), Some(false));
        assert_eq!(verdict(1, &[fifo("0.25", "2", 0.95), fifo("0.1", "20", 0.5)]), Some(false));
        assert_eq!(verdict(1, &[fifo("0.25", "2", 0.95), fifo("0.1", "20", 0.95)]), Some(true));
        let of = |queue, buffer, mix, rtt, jain| (queue, buffer, "20", mix, rtt, jain, 1.0);
        assert_eq!(verdict(2, &[of("ppv-drop-min", "1", "cubic", "20", 0.97)]), Some(true));
        assert_eq!(verdict(2, &[of("pvpie", "2", "cubic", "20", 0.9)]), Some(false));
        assert_eq!(
            verdict(2, &[of("pvpie", "1", "cubic", "20", 0.6)]),
            None,
            "20 ms: never above its target"
        );
        let bbr = |queue, jain| of(queue, "1", "cubic+bbr2", "20", jain);
        assert_eq!(verdict(3, &[bbr("fifo", 0.6), bbr("pie", 0.65)]), Some(true));
        assert_eq!(verdict(3, &[bbr("fifo", 0.6), bbr("pie", 0.9)]), Some(false));
        let mixed = |queue, mix, jain| of(queue, "1", mix, "10+100", jain);
        let pairs = |cubic, bbr| {
            [
                mixed("fifo", "cubic", 0.5),
                mixed("gsp", "cubic", cubic),
                mixed("fifo", "bbr2", 0.5),
                mixed("gsp", "bbr2", bbr),
            ]
        };
        assert_eq!(verdict(4, &pairs(0.7, 0.5)), Some(true));
        assert_eq!(verdict(4, &pairs(0.7, 0.7)), Some(false));
        let bbr2 = |buffer, jain| of("fifo", buffer, "bbr2", "10+100", jain);
        assert_eq!(verdict(5, &[bbr2("0.05", 0.9), bbr2("1", 0.6)]), Some(true));
        assert_eq!(verdict(5, &[bbr2("0.05", 0.5), bbr2("1", 0.6)]), Some(false));
        let cubic = |buffer, jain| of("fifo", buffer, "cubic", "20", jain);
        assert_eq!(verdict(6, &[cubic("0.1", 0.6), cubic("8", 0.9)]), Some(true));
        assert_eq!(verdict(6, &[cubic("0.1", 0.9), cubic("8", 0.6)]), Some(false));
        let grid = |a, b, c, d| [("fifo", "1", a), ("fifo", "2", b), ("pie", "1", c), ("pie", "2", d)];
        let grid =
            |a, b, c, d| grid(a, b, c, d).map(|(queue, buffer, jain)| of(queue, buffer, "cubic", "20", jain));
        assert_eq!(verdict(7, &grid(0.5, 0.5, 0.9, 0.9)), Some(true));
        assert_eq!(verdict(7, &grid(0.5, 0.9, 0.5, 0.9)), Some(false));
    }

    #[test]
    fn without_points_nothing_is_tested() {
        assert_eq!((0..8).map(|claim| verdict(claim, &[])).collect::<Vec<_>>(), vec![None; 8]);
    }
}
