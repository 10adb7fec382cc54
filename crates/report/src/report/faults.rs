//! Findings about frames, by point.

use crate::record::{Fault, Finding, Trial};
use crate::run_data::{PointData, TESTER};
use crate::view::page::note;
use crate::view::{Comparison, Table};

/// A load may be so much above the throughput without being an overload.
const STILL_THE_THROUGHPUT: f64 = 1.001;

/// A heading and a table; empty where nothing was found.
pub(super) fn html(all: &Comparison<'_>) -> String {
    let table = table(all);
    if table.is_empty() {
        return String::new();
    }
    format!("<h3>What went wrong with frames</h3>\n{}{}", note(EXPLANATION), table.html())
}

const EXPLANATION: &str = "Reported from the frames alone, whatever the verdict of the trial. Loss and delay above the throughput \
    of a point are what its search looks for, and are left out; those of a reset, which is done on purpose, are not.";

fn table(all: &Comparison<'_>) -> Table {
    let mut table = Table::new(&["Frame", "Device", "Direction", "Trials", "Finding, the worst of them"]);
    for (series, point) in all.all() {
        let trials = point.measured().count();
        for kind in kinds(point) {
            let direction = &kind.worst.direction;
            let text = kind.worst.to_string();
            table.push(vec![
                point.point.frame.clone(),
                series.label.clone(),
                if direction.is_empty() { "–".into() } else { direction.clone() },
                format!("{} of {trials}", kind.trials),
                text.strip_prefix(direction).unwrap_or(&text).trim_start().into(),
            ]);
        }
    }
    table
}

/// Findings of one name in one direction at a point.
pub struct Kind<'p> {
    /// Trials in which it was found.
    pub trials: usize,
    /// The worst of them.
    pub worst: &'p Finding,
}

/// What was found at a point and is not what an overload explains, the most frequent first.
pub fn kinds(point: &PointData) -> Vec<Kind<'_>> {
    let mut kinds: Vec<Kind<'_>> = Vec::new();
    let findings = point.measured().flat_map(|trial| trial.findings.iter().map(move |f| (trial, f)));
    for (_, finding) in findings.filter(|(trial, finding)| !is_sought(point, trial, &finding.fault)) {
        let same = |kind: &&mut Kind<'_>| {
            (&kind.worst.direction, kind.worst.fault.name()) == (&finding.direction, finding.fault.name())
        };
        match kinds.iter_mut().find(same) {
            Some(kind) => {
                kind.trials += 1;
                if gravity(&finding.fault) > gravity(&kind.worst.fault) {
                    kind.worst = finding;
                }
            }
            None => kinds.push(Kind { trials: 1, worst: finding }),
        }
    }
    kinds.sort_by_key(|kind| std::cmp::Reverse(kind.trials));
    kinds
}

/// Does an overload explain it? Before an external DUT the tester overloads that: only what it does itself counts.
fn is_sought(point: &PointData, trial: &Trial, fault: &Fault) -> bool {
    if point.point.dut == TESTER {
        return !matches!(fault, Fault::TesterStarved { .. } | Fault::TesterLost { .. });
    }
    let overload =
        point.headline_fps().is_some_and(|fps| trial.counts().offered_fps > fps * STILL_THE_THROUGHPUT);
    let by_load = match fault {
        Fault::Loss { .. } | Fault::LossBursts { .. } | Fault::Stall { .. } | Fault::Delayed { .. } => true,
        Fault::Reordered { .. }
        | Fault::Duplicated { .. }
        | Fault::Corrupted { .. }
        | Fault::TesterStarved { .. }
        | Fault::TesterLost { .. }
        | Fault::DeviceStarved { .. } => false,
    };
    overload && by_load
}

/// To compare findings of one name.
fn gravity(fault: &Fault) -> f64 {
    match *fault {
        Fault::Loss { frames, .. }
        | Fault::LossBursts { frames, .. }
        | Fault::Reordered { frames, .. }
        | Fault::Duplicated { frames }
        | Fault::Corrupted { frames }
        | Fault::TesterLost { frames } => frames as f64,
        Fault::Stall { longest_ns, .. } => longest_ns as f64,
        Fault::Delayed { by_ns } => by_ns as f64,
        Fault::TesterStarved { wait, .. } | Fault::DeviceStarved { wait } => wait,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::run_data::RunData;

    fn finding(direction: &str, fault: Fault) -> Finding {
        Finding { direction: direction.into(), fault }
    }

    fn rows(data: &RunData) -> Vec<String> {
        let runs = std::slice::from_ref(data);
        table(&Comparison::new(runs)).rows().iter().map(|row| row.join("; ")).collect()
    }

    #[test]
    fn what_a_box_does_at_full_speed_is_not_the_tester_s() {
        let mut data = fixture::quick();
        let wire = data.points.iter_mut().find(|p| p.is_ceiling()).expect("a wire");
        let found = [Fault::Duplicated { frames: 7 }, Fault::TesterLost { frames: 3 }];
        wire.trials.last_mut().expect("a trial").findings = found.map(|fault| finding("", fault)).to_vec();
        assert_eq!(kinds(wire).len(), 2);
        wire.point.dut = TESTER.into();
        assert_eq!(
            kinds(wire).iter().map(|kind| kind.worst.fault.name()).collect::<Vec<_>>(),
            ["tester-lost"]
        );
    }

    #[test]
    fn only_what_was_found_is_shown_and_no_overload() {
        let mut data = fixture::quick();
        let html_of = |data: &RunData| html(&Comparison::new(std::slice::from_ref(data)));
        assert_eq!(html_of(&data), "", "nothing was found");
        let point = data.points.iter_mut().find(|p| p.point.dut == "kernel-forward").expect("a router");
        let (fps, n) = (point.headline_fps().expect("a throughput"), point.measured().count());
        let (mut below, mut above): (Vec<_>, Vec<_>) =
            point.trials.iter_mut().skip(1).partition(|t| t.counts().offered_fps <= fps);
        let reorder = |frames| finding("a>b", Fault::Reordered { frames, by: 2 });
        below[0].findings = vec![reorder(7), finding("b>a", Fault::Loss { frames: 3, ratio: 1e-5 })];
        below[1].findings = vec![reorder(9)];
        above[0].findings = vec![reorder(8), finding("b>a", Fault::Loss { frames: 5000, ratio: 0.1 })];
        above[1].findings = vec![finding("", Fault::DeviceStarved { wait: 0.25 })];
        let frame = point.point.frame.clone();
        assert_eq!(
            rows(&data),
            [
                format!("{frame}; kernel-forward; a>b; 3 of {n}; reordered: 9 frames, late by at most 2"),
                format!("{frame}; kernel-forward; b>a; 1 of {n}; loss: 3 single frames, 1.0e-5 of all"),
                format!(
                    "{frame}; kernel-forward; –; 1 of {n}; device-starved: it waited 25.0 % of the time for its CPU"
                ),
            ]
        );
        assert!(html_of(&data).contains("<td>reordered: 9 frames"));
    }
}
