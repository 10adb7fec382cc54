//! How far apart the CPUs of tester and device were: the time of a cache line between them, before each trial.
//! Some ten lines go with every frame, so that rates are comparable only where this time is alike.

use super::Comparison;
use super::Table;
use super::format::{count, full};
use super::page::note;
use crate::record::Trial;
use crate::run_data::{PointData, RunData};
use crate::stats::{median, percentile};

/// Times that differ by more than this are not alike.
const ALIKE: f64 = 1.5;

/// The table; empty when nothing was measured.
pub fn html(all: &Comparison<'_>) -> String {
    let mut table = Table::new(&["Frame", "Device", "min ns", "median ns", "max ns", "trials"]);
    for (series, point) in all.all() {
        let times = times(point.measured());
        let Some((low, high)) = ends(&times) else { continue };
        let mut row = vec![point.point.frame.clone(), series.label.clone()];
        row.extend([Some(low), median(&times), Some(high)].map(|ns| ns.map_or_else(|| "–".into(), full)));
        row.push(times.len().to_string());
        table.push(row);
    }
    if table.is_empty() {
        return String::new();
    }
    format!("<h3>Between the CPUs</h3>\n{}{}", note(EXPLANATION), table.html())
}

const EXPLANATION: &str = "Time of a cache line from the tester's CPU to the device's, measured before each trial: \
    some 30 ns between two threads of a core, 200 ns and more between cores or chips. The host of a virtual \
    machine may move its CPUs at any time; rates are comparable only where this time is alike.";

/// A sentence when the time was not alike throughout a run.
pub fn moved(data: &RunData) -> Option<String> {
    let times = times(data.points.iter().flat_map(PointData::measured));
    let (low, high) = ends(&times).filter(|(low, high)| high / low > ALIKE)?;
    let remote = times.iter().filter(|ns| **ns / low > ALIKE).count();
    let is_guest = data.run.machine.facts.iter().any(|(name, _)| name == "hypervisor");
    let what = if is_guest {
        "The host moved the virtual CPUs during the run"
    } else {
        "The CPUs of tester and device were not equally close throughout the run"
    };
    Some(format!(
        "{what}: a cache line took {} to {} between them, in {remote} of {} more than {} times the shortest. \
         Throughput varies with it by a factor of two and more: compare points only where it is alike (see \
         “Between the CPUs”).",
        full(low),
        ns(high),
        count(times.len(), "trial"),
        ALIKE,
    ))
}

/// Why two points cannot be compared, if the time was not alike in most of their trials.
pub fn apart(a: &PointData, b: &PointData) -> Option<String> {
    let (a, b) = (times(a.measured()), times(b.measured()));
    // One trial in ten may lie elsewhere: it decides no rate.
    let ends = |times: &[f64]| percentile(times, 10.0).zip(percentile(times, 90.0));
    let ((a_low, a_high), (b_low, b_high)) = (ends(&a)?, ends(&b)?);
    (a_high.max(b_high) / a_low.min(b_low) > ALIKE).then(|| {
        format!(
            "a cache line took {} between the CPUs of one and {} of the other",
            span(a_low, a_high),
            span(b_low, b_high)
        )
    })
}

fn span(low: f64, high: f64) -> String {
    if high / low > ALIKE { format!("{} to {}", full(low), ns(high)) } else { ns(low) }
}

fn ns(value: f64) -> String {
    format!("{}\u{202f}ns", full(value))
}

fn times<'t>(trials: impl Iterator<Item = &'t Trial>) -> Vec<f64> {
    trials.filter_map(|t| t.noise.handover_ns).filter(|ns| *ns > 0.0).collect()
}

fn ends(times: &[f64]) -> Option<(f64, f64)> {
    percentile(times, 0.0).zip(percentile(times, 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    fn point(times_ns: &[f64]) -> PointData {
        let mut point = fixture::point(0, "kernel-forward", 64, 1000.0);
        let all = point.trials.iter_mut().zip(times_ns.iter().cycle());
        all.for_each(|(trial, ns)| trial.noise.handover_ns = Some(*ns));
        point
    }

    #[test]
    fn points_are_alike_or_apart() {
        let (near, remote, both) = (point(&[30.0, 32.0]), point(&[210.0]), point(&[31.0, 31.0, 220.0]));
        assert_eq!(apart(&near, &near), None);
        let why = apart(&near, &remote).unwrap().replace('\u{202f}', " ");
        assert_eq!(why, "a cache line took 30 ns between the CPUs of one and 210 ns of the other");
        let why = apart(&near, &both).unwrap().replace('\u{202f}', " ");
        assert_eq!(why, "a cache line took 30 ns between the CPUs of one and 31 to 220 ns of the other");
        assert_eq!(apart(&near, &fixture::point(0, "kernel-nat", 64, 1000.0)), None, "not measured");
    }

    #[test]
    fn a_run_that_was_moved_says_so() {
        let said = |times: &[f64]| {
            let mut run = fixture::run(1);
            run.machine.facts.push(("hypervisor".into(), "yes".into()));
            moved(&RunData { run, points: vec![point(times)] })
        };
        assert_eq!(said(&[30.0, 40.0]), None);
        assert_eq!(
            said(&[30.0, 270.0]).unwrap().replace('\u{202f}', " "),
            "The host moved the virtual CPUs during the run: a cache line took 30 to 270 ns between them, in 9 of 17 \
             trials more than 1.5 times the shortest. Throughput varies with it by a factor of two and more: compare \
             points only where it is alike (see “Between the CPUs”)."
        );
    }
}
