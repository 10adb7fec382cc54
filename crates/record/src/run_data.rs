//! A run with all its measurements: the input of exports and reports.

use serde::{Deserialize, Serialize};

use crate::figure::{OUTSIDE_OF_STOPS, procedure};
use crate::record::{
    Comparison, Detail, FrameCounts, GoalResult, Latency, Point, ProcedureResult, Purpose, Run, RunState,
    Stream, Trial, Verdict,
};

/// A run, its points in order, and their trials. Serialised, this is the `--json` document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunData {
    /// The run.
    pub run: Run,
    /// Its points in the order of the plan.
    pub points: Vec<PointData>,
}

impl RunData {
    /// Does the run say anything? Each point that was measured needs a valid trial (repeated ones do not matter), where
    /// rates were searched for, one must have been found, and not all may have been left out.
    pub fn is_believable(&self) -> bool {
        if !self.points.is_empty() && self.points.iter().all(PointData::is_left_out) {
            return false;
        }
        let says_something = |point: &PointData| point.trials.is_empty() || point.valid().next().is_some();
        let mut goals = self.points.iter().filter(|p| !p.is_ceiling()).flat_map(PointData::goals).peekable();
        let finds = goals.peek().is_none() || goals.any(|goal| goal.fps_median.is_some());
        finds && self.points.iter().all(says_something)
    }
}

/// A point and its trials in order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PointData {
    /// The point.
    pub point: Point,
    /// Its trials, warm-up included.
    pub trials: Vec<Trial>,
}

/// What the trials of the searches of a point lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SearchLosses {
    /// Trials in which a stop lost frames.
    pub trials: usize,
    /// Frames, of all trials.
    pub lost: u64,
    /// Those of them that were lost by stops.
    pub by_stops: u64,
}

/// Name of the pseudo device that is only the tester's own cable.
pub const WIRE: &str = "wire";
/// Name of the pseudo device that is the tester before an external DUT: what leaves it.
pub const TESTER: &str = "tester";
/// Name of the external DUT.
pub const EXTERNAL: &str = "external";
/// Setting of points that are no device under test but a part of the tester, see [`Measures`].
pub const MEASURES: &str = "measures";
/// Setting of a point that does not capture UDP: its traffic, as its plan names it.
pub const TRAFFIC: &str = "traffic";
/// Setting of a point whose reader has the driver receive.
pub const BUSY_POLL: &str = "busy_poll";
/// Setting of a point: where the kernel receives; without it, on the generator's CPU.
pub const RECEIVE: &str = "receive";
/// Trials whose load is within this share of a rate count as measured at that rate.
const NEAR: f64 = 0.05;

/// Which part of a tester a point measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measures {
    /// How many frames/s a generator sends.
    Generator,
    /// How exactly frames leave.
    Pacing,
    /// How many frames/s the receiver counts.
    Receiver,
    /// How many frames/s a method of the capture ladder takes.
    Capture,
    /// How many frames/s a program captures.
    CaptureTool,
    /// How soon a program tells an attack.
    Detector,
}

impl Measures {
    const ALL: [Measures; 6] = [
        Measures::Generator,
        Measures::Pacing,
        Measures::Receiver,
        Measures::Capture,
        Measures::CaptureTool,
        Measures::Detector,
    ];

    /// The name in records.
    pub fn name(self) -> &'static str {
        match self {
            Measures::Generator => "generator",
            Measures::Pacing => "pacing",
            Measures::Receiver => "receiver",
            Measures::Capture => "capture",
            Measures::CaptureTool => "captor",
            Measures::Detector => "detector",
        }
    }
}

impl PointData {
    /// Could it not be measured here? Its notes say why.
    pub fn is_left_out(&self) -> bool {
        self.trials.is_empty() && self.point.result.as_ref().is_some_and(|r| r.search == "left out")
    }

    /// Why it was left out, in one sentence of its notes.
    pub fn why_left_out(&self) -> Option<&str> {
        self.point.notes.iter().find(|note| note.contains("is left out")).map(String::as_str)
    }

    /// The details of its trials that are believed, by the trials' keys.
    pub fn by_key<D: Detail>(&self) -> Vec<(String, D)> {
        self.measured().filter_map(|trial| Some((trial.key.clone()?, trial.believed()?))).collect()
    }

    /// The value of a setting; records of 0.1 have a capture method as `rung`.
    pub fn setting(&self, name: &str) -> Option<&str> {
        let is = |n: &str| n == name || (name == "method" && n == "rung");
        self.point.settings.iter().find(|(n, _)| is(n)).map(|(_, value)| value.as_str())
    }

    /// The part of the tester that was measured; `None` for a device under test.
    pub fn measures(&self) -> Option<Measures> {
        let value = self.setting(MEASURES)?;
        Measures::ALL.into_iter().find(|m| m.name() == value)
    }

    /// Is it a device under test, or the tester before it? Others have sections of their own.
    pub fn is_device(&self) -> bool {
        self.setting(MEASURES).is_none()
    }

    /// Trials that say something about the device: all but the warm-up.
    pub fn measured(&self) -> impl Iterator<Item = &Trial> {
        self.trials.iter().filter(|t| t.purpose != Purpose::WarmUp)
    }

    /// Trials that may be used in figures.
    pub fn valid(&self) -> impl Iterator<Item = &Trial> {
        self.measured().filter(|t| t.verdict == Verdict::Valid)
    }

    /// Trials of the search and the curve: those of procedures have loads of their own kind, and figures of their own.
    pub fn at_loads(&self) -> impl Iterator<Item = &Trial> {
        self.measured().filter(|t| t.purpose != Purpose::Procedure)
    }

    /// The valid ones of these.
    fn valid_at_loads(&self) -> impl Iterator<Item = &Trial> {
        self.at_loads().filter(|t| t.verdict == Verdict::Valid)
    }

    /// The valid trials at loads that were chosen: those of the curve, and all where nothing was searched for.
    pub fn chosen_loads(&self) -> impl Iterator<Item = &Trial> {
        let is_fixed = self.goals().is_empty();
        self.valid().filter(move |t| match t.purpose {
            Purpose::Curve => true,
            Purpose::Search => is_fixed,
            _ => false,
        })
    }

    /// What it forwards in steady overload, where that was measured.
    pub fn capacity(&self) -> Option<&ProcedureResult> {
        let mut procedures = self.point.result.iter().flat_map(|result| &result.procedures);
        procedures.find(|p| p.procedure == procedure::CAPACITY && !p.figures.is_empty())
    }

    /// All goals of the point's result; the first is the headline.
    pub fn goals(&self) -> &[GoalResult] {
        self.point.result.as_ref().map_or(&[], |r| &r.goals)
    }

    /// The goal in which what was lost by stops does not count, beside this one; `None` where the plan does not ask for both.
    pub fn outside_of_stops(&self, goal: &GoalResult) -> Option<&GoalResult> {
        let is_it =
            |other: &&GoalResult| other.goal.strip_suffix(OUTSIDE_OF_STOPS) == Some(goal.goal.as_str());
        self.goals().iter().find(is_it)
    }

    /// What the trials of its searches lost, and how much of that while a CPU of tester or device stood still; `None` where no
    /// clock of the CPUs told.
    pub fn search_losses(&self) -> Option<SearchLosses> {
        let searched = self.measured().filter(|trial| trial.purpose == Purpose::Search);
        let witnessed = searched.filter_map(|trial| Some((trial, trial.witnessed.as_ref()?)));
        let losses = witnessed.map(|(trial, seen)| SearchLosses {
            trials: usize::from(seen.lost_by_stops > 0),
            lost: trial.counts().lost,
            by_stops: seen.lost_by_stops,
        });
        losses.reduce(|a, b| SearchLosses {
            trials: a.trials + b.trials,
            lost: a.lost + b.lost,
            by_stops: a.by_stops + b.by_stops,
        })
    }

    /// How its rate relates to those of others that were measured alternately with it.
    pub fn comparisons(&self) -> &[Comparison] {
        self.point.result.as_ref().map_or(&[], |r| &r.comparisons)
    }

    /// Headline rate in frames/s.
    pub fn headline_fps(&self) -> Option<f64> {
        self.goals().first().and_then(|g| g.fps_median)
    }

    /// True for the tester's own ceiling: over a wire, or before an external DUT.
    pub fn is_ceiling(&self) -> bool {
        self.point.dut == WIRE || self.point.dut == TESTER
    }

    /// Frame bits per second, in Mbit/s, at `fps`: frame bytes with FCS, without preamble and gap.
    pub fn mbit_per_s(&self, fps: f64) -> f64 {
        fps * self.point.frame_bytes_mean * 8.0 / 1e6
    }

    /// Largest rate received in a valid trial of the search or the curve, frames/s.
    pub fn peak_received_fps(&self) -> Option<f64> {
        self.valid_at_loads().map(received_fps).max_by(f64::total_cmp)
    }

    /// The valid trials at the headline rate (within 5 %), closest first, or else the one closest to it;
    /// without a headline rate, the valid trial that received most per second.
    pub fn at_headline(&self) -> Vec<&Trial> {
        let Some(fps) = self.headline_fps().filter(|fps| *fps > 0.0) else {
            return self
                .valid_at_loads()
                .max_by(|a, b| received_fps(a).total_cmp(&received_fps(b)))
                .into_iter()
                .collect();
        };
        let distance = |t: &Trial| (t.counts().offered_fps / fps - 1.0).abs();
        let mut near: Vec<_> = self.valid_at_loads().filter(|t| is_near(t, fps)).collect();
        near.sort_by(|a, b| distance(a).total_cmp(&distance(b)));
        if !near.is_empty() {
            return near;
        }
        self.valid_at_loads().min_by(|a, b| distance(a).total_cmp(&distance(b))).into_iter().collect()
    }
}

/// How a run ended, as records have it: `complete`.
pub fn state_name(state: RunState) -> String {
    name(&state)
}

/// The name of a unit variant as records have it (`warm-up`).
pub fn name<T: Serialize>(variant: &T) -> String {
    serde_json::to_value(variant).ok().and_then(|v| v.as_str().map(String::from)).unwrap_or_default()
}

/// True if a trial was measured at about this rate (within 5 %).
pub fn is_near(trial: &Trial, fps: f64) -> bool {
    (trial.counts().offered_fps / fps - 1.0).abs() <= NEAR
}

/// Received frames/s over the time of sending.
pub fn received_fps(trial: &Trial) -> f64 {
    if trial.duration_s > 0.0 { trial.counts().received as f64 / trial.duration_s } else { 0.0 }
}

/// Lost frames / sent frames, 0..=1; `None` when nothing was sent.
pub fn loss_ratio(trial: &Trial) -> Option<f64> {
    let FrameCounts { sent, lost, .. } = trial.counts();
    (sent > 0).then(|| lost as f64 / sent as f64)
}

/// Latency of all streams of a trial together; `None` when no frame was timed.
///
/// Histograms are added up. Where a stream has none, each percentile is that of the worst stream, so that
/// the answer is never too good.
pub fn latency(streams: &[Stream]) -> Option<Latency> {
    let timed: Vec<_> = streams.iter().map(|s| &s.latency).filter(|l| l.count > 0).collect();
    let worst = |field: fn(&Latency) -> u64| timed.iter().map(|l| field(l)).max().unwrap_or(0);
    match timed.as_slice() {
        [] => return None,
        [one] => return Some((*one).clone()),
        _ => {}
    }
    let count = timed.iter().map(|l| l.count).sum::<u64>();
    let mut all = Latency {
        count,
        min_ns: timed.iter().map(|l| l.min_ns).min().unwrap_or(0),
        mean_ns: timed.iter().map(|l| l.mean_ns * l.count as f64).sum::<f64>() / count as f64,
        p50_ns: worst(|l| l.p50_ns),
        p90_ns: worst(|l| l.p90_ns),
        p99_ns: worst(|l| l.p99_ns),
        p999_ns: worst(|l| l.p999_ns),
        max_ns: worst(|l| l.max_ns),
        buckets: Vec::new(),
    };
    if timed.iter().all(|l| !l.buckets.is_empty()) {
        add_up(&mut all, &timed);
    }
    Some(all)
}

/// Fills buckets and percentiles of `all` from the histograms of `parts`.
fn add_up(all: &mut Latency, parts: &[&Latency]) {
    let mut sum = std::collections::BTreeMap::<u64, u64>::new();
    for (bound, frames) in parts.iter().flat_map(|l| &l.buckets) {
        *sum.entry(*bound).or_default() += frames;
    }
    all.buckets = sum.into_iter().collect();
    let max_ns = all.max_ns;
    let at = |share: f64| percentile(&all.buckets, share).unwrap_or(max_ns).min(max_ns);
    (all.p50_ns, all.p90_ns, all.p99_ns, all.p999_ns) = (at(0.5), at(0.9), at(0.99), at(0.999));
}

/// Upper bound of the bucket that holds the given share (0..=1) of all frames.
fn percentile(buckets: &[(u64, u64)], share: f64) -> Option<u64> {
    let total = buckets.iter().map(|(_, n)| n).sum::<u64>();
    let rank = (total as f64 * share).ceil() as u64;
    let mut below = 0;
    buckets
        .iter()
        .find(|(_, n)| {
            below += n;
            below >= rank
        })
        .map(|(bound, _)| *bound)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::PointResult;

    fn stream(buckets: &[(u64, u64)], p50_ns: u64, max_ns: u64) -> Stream {
        let count = buckets.iter().map(|(_, n)| n).sum::<u64>().max(1);
        Stream {
            latency: Latency { count, p50_ns, max_ns, buckets: buckets.to_vec(), ..Latency::default() },
            ..Stream::default()
        }
    }

    #[test]
    fn records_of_before_call_a_capture_method_rung() {
        let mut data = crate::fixture::point(0, "ring", 64, 1000.0);
        data.point.settings = vec![("rung".to_string(), "ring".to_string())];
        assert_eq!([data.setting("method"), data.setting("threads")], [Some("ring"), None]);
    }

    #[test]
    fn a_run_that_finds_no_rate_is_not_believed() {
        let mut data = crate::fixture::quick();
        assert!(data.is_believable());
        let goals = |data: &mut RunData, only_first: bool| {
            let found = data.points.iter_mut().filter(|p| !p.is_ceiling());
            let results = found.filter_map(|p| p.point.result.as_mut()).flat_map(|r| &mut r.goals);
            results.take(if only_first { 1 } else { usize::MAX }).for_each(|goal| goal.fps_median = None);
        };
        goals(&mut data, true);
        assert!(data.is_believable(), "others were found");
        goals(&mut data, false);
        assert!(!data.is_believable());
        let mut data = crate::fixture::quick();
        data.points[0].trials.iter_mut().for_each(|trial| trial.verdict = Verdict::Invalid);
        assert!(!data.is_believable());
        let mut data = crate::fixture::quick();
        let leave_out = |point: &mut PointData| {
            point.trials.clear();
            point.point.result = Some(PointResult { search: "left out".into(), ..PointResult::default() });
        };
        leave_out(&mut data.points[0]);
        assert!(data.is_believable(), "others were measured");
        data.points.iter_mut().for_each(leave_out);
        assert!(!data.is_believable());
    }

    #[test]
    fn latency_of_all_streams() {
        let (fast, slow) = (stream(&[(10, 90), (20, 10)], 10, 19), stream(&[(20, 50), (1000, 50)], 20, 900));
        assert_eq!(latency(&[]), None);
        assert_eq!(latency(&[Stream::default()]), None, "no frame timed");
        assert_eq!(latency(std::slice::from_ref(&fast)).unwrap(), fast.latency);

        let both = latency(&[fast, slow]).unwrap();
        assert_eq!(both.buckets, [(10, 90), (20, 60), (1000, 50)]);
        assert_eq!((both.count, both.p50_ns, both.p99_ns, both.max_ns), (200, 20, 900, 900));

        let worst = latency(&[stream(&[(10, 5)], 10, 10), stream(&[], 70, 80)]).unwrap();
        assert_eq!((worst.p50_ns, worst.max_ns), (70, 80), "without a histogram the worst stream counts");
    }
}
