//! The tester itself: its generator against those of others, how exactly frames leave, what the receiver
//! takes, and what a trial costs beyond its duration.

use weir_measure::stats;
use weir_record::record::{Comparison, Departures, Trial};
use weir_record::run_data::{Measures, PointData, RunData};
use weir_report::report::bars::{Bar, BarChart, Group};
use weir_report::report::block::{Block, Part};
use weir_report::view::format::{
    bracketed, exact, full, list, or_dash, percent, range, si, significant, time_ns, whole_percent,
};
use weir_report::view::{Style, Table, frame_name};

mod answer;

pub(super) use answer::answer;

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
        Block::Drawing { drawings: vec![chart(&points)], caption: CAPTION },
        Block::Table(generators(data)),
        Block::Heading("How many times as fast"),
        Block::Table(ratios(data)),
        Block::Note(EXPLANATION.into()),
        Block::Bullets(absent(data)),
    ]
}

fn pacing_blocks(data: &RunData) -> Vec<Block> {
    if paces(data).is_empty() {
        return Vec::new();
    }
    vec![
        Block::Table(pacing(data)),
        Block::Note(
            "Mean rate: frames per time from the first frame's due time to the last departure. Error: that of the \
             worst round. Lateness: departure after the due time, that is, jitter; percentiles are medians of \
             the rounds, the largest is that of all rounds."
                .into(),
        ),
        Block::Heading("Frames by lateness"),
        Block::Table(lateness(data)),
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

fn of(data: &RunData, measures: Measures) -> impl Iterator<Item = &PointData> {
    data.points.iter().filter(move |p| p.measures() == Some(measures))
}

fn name(point: &PointData) -> &str {
    point.setting("generator").unwrap_or(&point.point.dut)
}

fn flows(point: &PointData) -> f64 {
    point.setting("flows").and_then(|n| n.parse().ok()).unwrap_or(1.0)
}

/// `1 flow`, `1 M flows`.
fn flows_text(point: &PointData) -> String {
    let n = flows(point);
    if n == 1.0 { "1 flow".into() } else { format!("{} flows", si(n).replace(".00", "")) }
}

/// The point that a comparison is made with.
fn other<'a>(data: &'a RunData, comparison: &Comparison) -> Option<&'a PointData> {
    data.points.iter().find(|p| p.point.index == comparison.point_index)
}

fn interval(point: &PointData) -> Option<(f64, f64)> {
    point.goals().first()?.fps_interval
}

// ---- generators ----------------------------------------------------------------------------------------

const CAPTION: &str = "Frames/s that reached the other end of a veth, sent by one CPU; median of the rounds, \
    whiskers: 95 % interval of the median.";

const EXPLANATION: &str = "All generators send alternately within each round, and the order is rotated from round to \
    round. Frames are counted by the receiving interface, not by the generator. The frames end in an XDP \
    program that drops them, on the CPU of the sender; those of iperf3 end at its own server, which has \
    another CPU. Ratios are formed round by round; shown are their median and its exact 95 % interval, which needs six rounds.";

fn chart(points: &[&PointData]) -> String {
    let mut groups: Vec<Group> = Vec::new();
    for point in points {
        let label = format!("{}, {}", frame_name(&point.point.frame), flows_text(point));
        let bar = bar(point);
        match groups.iter_mut().find(|g| g.label == label) {
            Some(group) => group.bars.push(bar),
            None => groups.push(Group { label, bars: vec![bar], limit: None }),
        }
    }
    let texts: Vec<String> = groups
        .iter()
        .flat_map(|g| g.bars.iter().map(move |b| format!("{}, {}: {}", g.label, b.label, b.text)))
        .collect();
    let chart = BarChart { groups, unit: "frames/s".into(), number: si, limit_name: String::new() };
    chart.draw("Frames/s by generator", &texts.join("; "))
}

fn bar(point: &PointData) -> Bar {
    let value = point.headline_fps();
    let text = value.map_or_else(|| "left out".into(), si);
    let own = name(point).starts_with("weir");
    let style = Style { colour: if own { 1 } else { 2 }, marker: 0, pattern: usize::from(!own) };
    let title = format!("{}: {text} frames/s", name(point));
    let label = name(point).into();
    let (parts, ticks) = (Vec::new(), Vec::new());
    Bar { label, value, parts, interval: interval(point), ticks, text, title, style, fits: true }
}

fn generators(data: &RunData) -> Table {
    let mut table = Table::new(&[
        "Frame",
        "Flows",
        "Generator",
        "frames/s",
        "95 % interval",
        "ns per frame",
        "Rounds",
        "How",
    ]);
    for point in of(data, Measures::Generator) {
        let fps = point.headline_fps();
        table.push(vec![
            point.point.frame.clone(),
            full(flows(point)),
            name(point).into(),
            or_dash(fps, full),
            or_dash(interval(point), |(a, b)| format!("{} – {}", full(a), full(b))),
            or_dash(fps.filter(|fps| *fps > 0.0), |fps| exact(1e9 / fps)),
            point.goals().first().map_or(0, |g| g.repetitions.len()).to_string(),
            point.point.notes.join(" "),
        ]);
    }
    table
}

fn ratios(data: &RunData) -> Table {
    let mut table = Table::new(&[
        "Frame",
        "Generator",
        "Flows",
        "Against",
        "Its flows",
        "Ratio",
        "95 % interval",
        "Rounds",
    ]);
    for point in of(data, Measures::Generator) {
        for c in point.comparisons() {
            let Some(other) = other(data, c) else { continue };
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

fn absent(data: &RunData) -> Vec<String> {
    let absent = of(data, Measures::Generator).filter(|p| p.goals().is_empty());
    absent.flat_map(|p| p.point.notes.iter().cloned()).collect()
}

// ---- pacing --------------------------------------------------------------------------------------------

/// Departures of all trials at one rate.
struct Pace<'a> {
    offered_fps: f64,
    trials: Vec<&'a Departures>,
}

impl Pace<'_> {
    /// The largest difference between a trial's mean rate and what was asked for, as a share.
    fn worst_error(&self) -> f64 {
        let errors = self.trials.iter().map(|d| d.rate_fps / self.offered_fps - 1.0);
        errors.max_by(|a, b| a.abs().total_cmp(&b.abs())).unwrap_or(0.0)
    }

    fn median_rate(&self) -> f64 {
        let rates: Vec<f64> = self.trials.iter().map(|d| d.rate_fps).collect();
        stats::median(&rates).unwrap_or(0.0)
    }

    /// Median over the trials of a percentile of lateness, ns.
    fn late(&self, percentile: fn(&Departures) -> u64) -> f64 {
        let values: Vec<f64> = self.trials.iter().map(|d| percentile(d) as f64).collect();
        stats::median(&values).unwrap_or(0.0)
    }

    fn late_max(&self) -> f64 {
        self.trials.iter().map(|d| d.late_max_ns).max().unwrap_or(0) as f64
    }

    /// Share of all frames that left at most this late. Where a bound cuts a bucket, the bucket is beyond it.
    fn share_within(&self, bound_ns: u64) -> f64 {
        let buckets = || self.trials.iter().flat_map(|d| &d.buckets);
        let all: u64 = buckets().map(|(_, n)| n).sum();
        let within: u64 = buckets().filter(|(upper, _)| *upper <= bound_ns).map(|(_, n)| n).sum();
        if all == 0 { 0.0 } else { within as f64 / all as f64 }
    }
}

fn paces(data: &RunData) -> Vec<Pace<'_>> {
    let pace = |point: &'_ PointData| -> Option<f64> { point.setting("offered_fps")?.parse().ok() };
    let points = of(data, Measures::Pacing).filter_map(|p| Some((p, pace(p)?)));
    let paces = points.map(|(point, offered_fps)| Pace {
        offered_fps,
        trials: point.measured().filter_map(|t| t.noise.departures.as_ref()).collect(),
    });
    paces.filter(|pace| !pace.trials.is_empty()).collect()
}

fn pacing(data: &RunData) -> Table {
    let head =
        ["Asked frames/s", "Mean frames/s", "Worst error", "Late p50", "p99", "p99.9", "Largest", "Rounds"];
    let mut table = Table::new(&head);
    for pace in paces(data) {
        table.push(vec![
            full(pace.offered_fps),
            format!("{:.3}", pace.median_rate()),
            percent(pace.worst_error()),
            time_ns(pace.late(|d| d.late_p50_ns)),
            time_ns(pace.late(|d| d.late_p99_ns)),
            time_ns(pace.late(|d| d.late_p999_ns)),
            time_ns(pace.late_max()),
            pace.trials.len().to_string(),
        ]);
    }
    table
}

fn lateness(data: &RunData) -> Table {
    let mut head = vec!["Asked frames/s".to_string()];
    head.extend(LATE_BOUNDS.map(|(_, name)| name.to_string()));
    let mut table = Table::new(&head);
    for pace in paces(data) {
        let shares =
            LATE_BOUNDS.map(|(bound, _)| format!("{:.3}\u{202f}%", pace.share_within(bound) * 100.0));
        table.push(std::iter::once(full(pace.offered_fps)).chain(shares).collect());
    }
    table
}

// ---- receiver ------------------------------------------------------------------------------------------

fn receivers(data: &RunData) -> Table {
    let mut table = Table::new(&["Receiver runs on", "Received frames/s", "95 % interval", "Lost", "Rounds"]);
    for point in of(data, Measures::Receiver) {
        let (sent, lost) =
            point.measured().fold((0, 0), |(s, l), t: &Trial| (s + t.counts().sent, l + t.counts().lost));
        table.push(vec![
            format!("{} CPU", point.setting("receiver_cpu").unwrap_or("one"))
                .replace("own CPU", "a CPU of its own"),
            or_dash(point.headline_fps(), full),
            or_dash(interval(point), |(a, b)| format!("{} – {}", full(a), full(b))),
            if sent == 0 { "–".into() } else { percent(lost as f64 / sent as f64) },
            point.measured().count().to_string(),
        ]);
    }
    table
}

/// What a trial of the whole tester takes beyond its duration.
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

/// One of our generators against others; nothing for the others.
fn generator_sentence(data: &RunData, point: &PointData) -> Option<String> {
    let fps = point.headline_fps()?;
    let with = |c: &Comparison| {
        let other = other(data, c)?;
        let spread = c.interval.map_or_else(String::new, bracketed);
        Some(if name(other) == name(point) {
            format!("{}{} of its rate with {}", whole_percent(c.ratio), percent_spread(c), flows_text(other))
        } else {
            format!("{} times {}{spread}", significant(c.ratio), name(other))
        })
    };
    let all = point.comparisons();
    // With many flows, the comparison that matters is with few.
    let own = |c: &&Comparison| other(data, c).is_some_and(|o| name(o) == name(point));
    let chosen: Vec<String> = match all.iter().filter(own).collect::<Vec<_>>() {
        few if few.is_empty() => all.iter().filter_map(with).collect(),
        few => few.into_iter().filter_map(with).collect(),
    };
    (name(point).starts_with("weir")).then(|| {
        let against = if chosen.is_empty() { String::new() } else { format!(": {}", list(&chosen)) };
        format!(
            "{} sends {} frames/s of {} with {} from one CPU{against}.",
            name(point),
            si(fps),
            frame_name(&point.point.frame),
            flows_text(point)
        )
    })
}

fn percent_spread(c: &Comparison) -> String {
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
        time_ns(paces.iter().map(|p| p.late(|d| d.late_p99_ns)).fold(0.0, f64::max))
    ))
}

fn receiver_sentence(point: &PointData) -> Option<String> {
    let place = match point.setting("receiver_cpu")? {
        "own" => "on a CPU of its own",
        _ => "on the CPU that also sends",
    };
    Some(format!("The receiver takes {} frames/s {place}.", si(point.headline_fps()?)))
}

#[cfg(test)]
mod tests;
