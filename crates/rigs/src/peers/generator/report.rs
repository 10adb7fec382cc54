//! The tester itself: its generator beside those of other projects, how exactly frames leave, how much the receiver takes, and
//! how much longer than its duration a trial takes.

use weir_measure::stats;
use weir_record::record::{Comparison, Departures};
use weir_record::run_data::{Measures, PointData, RunData};
use weir_report::report::bars::Bar;
use weir_report::report::block::{Block, Part};
use weir_report::view::format::{
    bracketed, exact, full, list, or_dash, percent, range, si, significant, time_ns, whole_percent,
};
use weir_report::view::{Table, frame_name};

use crate::peers::contest::is_own;
use crate::peers::report::{Chart, bar, drawing, span, table};

/// Bounds of the lateness table, ns.
const LATE_BOUNDS: [(u64, &str); 5] =
    [(100, "≤ 100 ns"), (1_000, "≤ 1 µs"), (10_000, "≤ 10 µs"), (100_000, "≤ 100 µs"), (1_000_000, "≤ 1 ms")];

/// Its sections of a report.
pub(super) fn parts(data: &RunData) -> Vec<Part> {
    let part = |id, heading: &str, blocks| Part { id, heading: heading.into(), blocks };
    let parts = [
        part("generators", "Generators compared", compared(data)),
        part("pacing", "Pacing", pacing_blocks(data)),
        part("receiver", "Receiver", receiver_blocks(data)),
    ];
    parts.into_iter().filter(|part| !part.is_empty()).collect()
}

fn compared(data: &RunData) -> Vec<Block> {
    let points: Vec<_> = of(data, Measures::Generator).collect();
    if points.is_empty() {
        return Vec::new();
    }
    vec![
        drawing(chart(&points), CAPTION),
        Block::Table(generators(&points)),
        Block::Heading("How many times as fast"),
        Block::Table(ratios(data)),
        Block::Note(EXPLANATION.into()),
        Block::Bullets(absent(data)),
    ]
}

fn pacing_blocks(data: &RunData) -> Vec<Block> {
    let paces = paces(data);
    if paces.is_empty() {
        return Vec::new();
    }
    vec![
        Block::Table(pacing(&paces)),
        Block::Note(
            "Mean rate: frames per time from the first frame's due time to the last departure. Error: that of the \
             worst round. Lateness: departure after the due time, that is, jitter; percentiles are medians of \
             the rounds, the largest is that of all rounds."
                .into(),
        ),
        Block::Heading("Frames by lateness"),
        Block::Table(lateness(&paces)),
        Block::Note(
            "Share of all frames of all rounds that left at most this late. The record holds the full histogram."
                .into(),
        ),
    ]
}

fn receiver_blocks(data: &RunData) -> Vec<Block> {
    let table = receivers(data);
    if table.is_empty() {
        return Vec::new();
    }
    let note = Block::Note(
        "Each frame is checked (both checksums), its sequence number noted, its latency entered in the histogram. On the \
         sender's CPU the figure contains the generator's work as well."
            .into(),
    );
    let cost = overhead(data).map(Block::Sentence);
    [Block::Table(table), note].into_iter().chain(cost).collect()
}

pub(super) fn of(data: &RunData, measures: Measures) -> impl Iterator<Item = &PointData> {
    data.points.iter().filter(move |p| p.measures() == Some(measures))
}

pub(super) fn name(point: &PointData) -> &str {
    point.setting("generator").unwrap_or(&point.point.dut)
}

pub(super) fn flows(point: &PointData) -> f64 {
    point.setting("flows").and_then(|n| n.parse().ok()).unwrap_or(1.0)
}

/// `1 flow`, `1 M flows`.
pub(super) fn flows_text(point: &PointData) -> String {
    let n = flows(point);
    if n == 1.0 { "1 flow".into() } else { format!("{} flows", si(n).replace(".00", "")) }
}

/// The point that a comparison is made with.
pub(super) fn other<'a>(data: &'a RunData, comparison: &Comparison) -> Option<&'a PointData> {
    data.points.iter().find(|p| p.point.index == comparison.point_index)
}

pub(super) fn interval(point: &PointData) -> Option<(f64, f64)> {
    point.goals().first()?.fps_interval
}

/// Frames that were sent, and the share of them that was lost; `None`: none was sent.
pub(super) fn lost_share(point: &PointData) -> Option<f64> {
    let counts = point.measured().map(|trial| trial.counts());
    let (sent, lost) = counts.fold((0, 0), |(sent, lost), trial| (sent + trial.sent, lost + trial.lost));
    (sent > 0).then(|| lost as f64 / sent as f64)
}

// ---- generators ----------------------------------------------------------------------------------------

pub(super) const CAPTION: &str = "Frames/s that reached the other end of a veth, sent by one CPU; median of the rounds, \
    whiskers: 95 % interval of the median.";

const EXPLANATION: &str = "All generators send alternately within each round, and the order is rotated from round to \
    round. Frames are counted by the receiving interface, not by the generator. The frames end in an XDP \
    program that drops them, on the CPU of the sender; those of iperf3 end at its own server, which has \
    another CPU. Ratios are formed round by round; shown are their median and its exact 95 % interval, which needs six rounds.";

const CHART: Chart = Chart {
    heading: "Frames/s by generator",
    unit: "frames/s",
    number: si,
    said: |group, bar| format!("{group}, {}: {}", bar.label, bar.text),
};

pub(super) fn chart(points: &[&PointData]) -> String {
    let label = |point: &&PointData| format!("{}, {}", frame_name(&point.point.frame), flows_text(point));
    CHART.draw(points.iter().copied(), label, one_bar)
}

fn one_bar(point: &PointData) -> Bar {
    let text = point.headline_fps().map_or_else(|| "left out".into(), si);
    let title = format!("{}: {text} frames/s", name(point));
    Bar { title, ..bar(name(point), point.headline_fps(), interval(point), text) }
}

fn generators(points: &[&PointData]) -> Table {
    let mut table =
        table("Frame | Flows | Generator | frames/s | 95 % interval | ns per frame | Rounds | How");
    for point in points {
        let fps = point.headline_fps();
        table.push(vec![
            point.point.frame.clone(),
            full(flows(point)),
            name(point).into(),
            or_dash(fps, full),
            span(interval(point), full),
            or_dash(fps.filter(|fps| *fps > 0.0), |fps| exact(1e9 / fps)),
            point.goals().first().map_or(0, |g| g.repetitions.len()).to_string(),
            point.point.notes.join(" "),
        ]);
    }
    table
}

fn ratios(data: &RunData) -> Table {
    let mut table = table("Frame | Generator | Flows | Against | Its flows | Ratio | 95 % interval | Rounds");
    for point in of(data, Measures::Generator) {
        for (c, other) in point.comparisons().iter().filter_map(|c| Some((c, other(data, c)?))) {
            table.push(vec![
                point.point.frame.clone(),
                name(point).into(),
                full(flows(point)),
                name(other).into(),
                full(flows(other)),
                significant(c.ratio),
                or_dash(c.interval, range),
                c.rounds.to_string(),
            ]);
        }
    }
    table
}

pub(super) fn absent(data: &RunData) -> Vec<String> {
    let absent = of(data, Measures::Generator).filter(|p| p.goals().is_empty());
    absent.flat_map(|p| p.point.notes.iter().cloned()).collect()
}

// ---- pacing --------------------------------------------------------------------------------------------

/// Departures of all trials at one rate.
pub(super) struct Pace<'a> {
    offered_fps: f64,
    trials: Vec<&'a Departures>,
}

impl Pace<'_> {
    /// The largest difference between a trial's mean rate and the offered rate, as a share.
    fn worst_error(&self) -> f64 {
        let errors = self.trials.iter().map(|d| d.rate_fps / self.offered_fps - 1.0);
        errors.max_by(|a, b| a.abs().total_cmp(&b.abs())).unwrap_or(0.0)
    }

    /// Median over the trials.
    fn median(&self, value: fn(&Departures) -> f64) -> f64 {
        stats::median(&self.trials.iter().map(|d| value(d)).collect::<Vec<_>>()).unwrap_or(0.0)
    }

    /// Share of all frames that left at most this late. Where a bound cuts a bucket, the bucket is beyond it.
    pub(super) fn share_within(&self, bound_ns: u64) -> f64 {
        let buckets = || self.trials.iter().flat_map(|d| &d.buckets);
        let all: u64 = buckets().map(|(_, n)| n).sum();
        let within: u64 = buckets().filter(|(upper, _)| *upper <= bound_ns).map(|(_, n)| n).sum();
        if all == 0 { 0.0 } else { within as f64 / all as f64 }
    }
}

pub(super) fn paces(data: &RunData) -> Vec<Pace<'_>> {
    let pace = |point: &'_ PointData| -> Option<f64> { point.setting("offered_fps")?.parse().ok() };
    let points = of(data, Measures::Pacing).filter_map(|p| Some((p, pace(p)?)));
    let paces = points.map(|(point, offered_fps)| Pace {
        offered_fps,
        trials: point.measured().filter_map(|t| t.noise.departures.as_ref()).collect(),
    });
    paces.filter(|pace| !pace.trials.is_empty()).collect()
}

fn pacing(paces: &[Pace<'_>]) -> Table {
    let mut table =
        table("Asked frames/s | Mean frames/s | Worst error | Late p50 | p99 | p99.9 | Largest | Rounds");
    for pace in paces {
        let largest_ns = pace.trials.iter().map(|d| d.late_max_ns).max().unwrap_or(0);
        table.push(vec![
            full(pace.offered_fps),
            format!("{:.3}", pace.median(|d| d.rate_fps)),
            percent(pace.worst_error()),
            time_ns(pace.median(|d| d.late_p50_ns as f64)),
            time_ns(pace.median(|d| d.late_p99_ns as f64)),
            time_ns(pace.median(|d| d.late_p999_ns as f64)),
            time_ns(largest_ns as f64),
            pace.trials.len().to_string(),
        ]);
    }
    table
}

fn lateness(paces: &[Pace<'_>]) -> Table {
    let mut table = table(&format!("Asked frames/s | {}", LATE_BOUNDS.map(|(_, name)| name).join(" | ")));
    for pace in paces {
        let share = |(bound, _)| format!("{:.3}\u{202f}%", pace.share_within(bound) * 100.0);
        table.push(std::iter::once(full(pace.offered_fps)).chain(LATE_BOUNDS.map(share)).collect());
    }
    table
}

// ---- receiver ------------------------------------------------------------------------------------------

fn receivers(data: &RunData) -> Table {
    let mut table = table("Receiver runs on | Received frames/s | 95 % interval | Lost | Rounds");
    for point in of(data, Measures::Receiver) {
        let place = format!("{} CPU", point.setting("receiver_cpu").unwrap_or("one"));
        table.push(vec![
            place.replace("own CPU", "a CPU of its own"),
            or_dash(point.headline_fps(), full),
            span(interval(point), full),
            or_dash(lost_share(point), percent),
            point.measured().count().to_string(),
        ]);
    }
    table
}

/// How much longer than its duration a trial of the whole tester takes.
fn overhead(data: &RunData) -> Option<String> {
    let points =
        data.points.iter().filter(|p| matches!(p.measures(), Some(Measures::Pacing | Measures::Receiver)));
    let values: Vec<f64> = points.flat_map(PointData::measured).map(|t| t.overhead_s).collect();
    let most = values.iter().copied().max_by(f64::total_cmp)?;
    Some(format!(
        "A trial takes {} longer than it sends (median of {}; at most {}).",
        time_ns(stats::median(&values)? * 1e9),
        values.len(),
        time_ns(most * 1e9)
    ))
}

// ---- in plain words ------------------------------------------------------------------------------------

/// The findings of a run that measured the tester.
pub(super) fn findings(data: &RunData) -> Vec<String> {
    let mut found: Vec<String> =
        of(data, Measures::Generator).filter_map(|point| generator_sentence(data, point)).collect();
    found.extend(pacing_sentence(&paces(data)));
    found.extend(of(data, Measures::Receiver).filter_map(receiver_sentence));
    found.extend(overhead(data));
    found.extend(absent(data));
    found
}

/// A generator of weir beside others; nothing for the others.
fn generator_sentence(data: &RunData, point: &PointData) -> Option<String> {
    let fps = point.headline_fps().filter(|_| is_own(name(point)))?;
    let all: Vec<_> = point.comparisons().iter().filter_map(|c| Some((c, other(data, c)?))).collect();
    // With many flows, the comparison that matters is with few.
    let with_few = all.iter().filter(|(_, other)| name(other) == name(point));
    let mut chosen: Vec<String> = with_few
        .map(|(c, few)| {
            format!("{}{} of its rate with {}", whole_percent(c.ratio), percent_spread(c), flows_text(few))
        })
        .collect();
    if chosen.is_empty() {
        let times = |(c, peer): &(&Comparison, &PointData)| {
            let spread = c.interval.map_or_else(String::new, bracketed);
            format!("{} times {}{spread}", significant(c.ratio), name(peer))
        };
        chosen = all.iter().map(times).collect();
    }
    let against = if chosen.is_empty() { String::new() } else { format!(": {}", list(&chosen)) };
    Some(format!(
        "{} sends {} frames/s of {} with {} from one CPU{against}.",
        name(point),
        si(fps),
        frame_name(&point.point.frame),
        flows_text(point)
    ))
}

pub(super) fn percent_spread(c: &Comparison) -> String {
    c.interval.map_or_else(String::new, |(a, b)| format!(" ({} to {})", whole_percent(a), whole_percent(b)))
}

fn pacing_sentence(paces: &[Pace<'_>]) -> Option<String> {
    let (first, last) = (paces.first()?, paces.last()?);
    let worst = paces.iter().max_by(|a, b| a.worst_error().abs().total_cmp(&b.worst_error().abs()))?;
    Some(format!(
        "From {} to {} frames/s the mean rate is within {} of what was asked (worst at {}); 99 % of the frames \
         leave at most {} late.",
        si(first.offered_fps),
        si(last.offered_fps),
        percent(worst.worst_error().abs()),
        si(worst.offered_fps),
        time_ns(paces.iter().map(|p| p.median(|d| d.late_p99_ns as f64)).fold(0.0, f64::max))
    ))
}

fn receiver_sentence(point: &PointData) -> Option<String> {
    let place = match point.setting("receiver_cpu")? {
        "own" => "on a CPU of its own",
        _ => "on the CPU that also sends",
    };
    Some(format!("The receiver takes {} frames/s {place}.", si(point.headline_fps()?)))
}
