//! The capture ladder: the rate of each method in overload and without loss, the cost of a frame, and the story of what changes
//! from method to method.

use weir_record::profile::Profile;
use weir_record::record::{Capture, CaptureTime, Purpose, Trial};
use weir_record::run_data::{BUSY_POLL, Measures, PointData, RECEIVE, RunData, TRAFFIC, received_fps};
use weir_report::report::bars::{Bar, BarChart, Group};
use weir_report::report::block::{Block, Part};
use weir_report::view::format::{bytes, full, or_dash, percent, si};
use weir_report::view::{Bound, Rate, Style, Table, frame_name};

mod answer;
mod captured;
mod cost;
mod story;

pub(super) use answer::answer;
pub(super) use story::findings;

/// A method that loses no more than this share at full speed takes what the kernel receives.
const KEPT_UP: f64 = 0.01;

/// Its section of a report.
pub(super) fn parts(data: &RunData) -> Vec<Part> {
    let methods = methods(data);
    if methods.is_empty() {
        return Vec::new();
    }
    let mut blocks = vec![
        Block::Drawing { drawings: vec![chart(&methods), cost::chart(&methods)], caption: CAPTION },
        Block::Heading("From method to method"),
    ];
    blocks.extend(story::blocks(&methods));
    blocks.push(Block::Heading("Rates"));
    blocks.extend(Block::named(rates(&methods)));
    blocks.push(Block::Folded(
        "Buffers, and what the kernel granted".into(),
        vec![Block::Table(buffers(&methods))],
    ));
    blocks.push(Block::Note(METHOD.into()));
    blocks.extend(cost::blocks(&methods));
    vec![Part { id: "ladder", heading: "The capture ladder".into(), blocks }]
}

/// Tables of one kind of traffic each, under its name.
type ByTraffic = Vec<(String, Table)>;

/// The methods that were climbed with each kind of traffic.
fn by_traffic<'r, 'a>(methods: &'r [Method<'a>]) -> Vec<(String, Vec<&'r Method<'a>>)> {
    let mut groups: Vec<(String, Vec<&Method<'_>>)> = Vec::new();
    for method in methods {
        let traffic = method.traffic();
        match groups.iter_mut().find(|(name, _)| *name == traffic) {
            Some((_, group)) => group.push(method),
            None => groups.push((traffic, vec![method])),
        }
    }
    groups
}

const CAPTION: &str = "Left: frames/s that each way of capturing takes of more than it can take (overload), in times in which the host stopped no \
    CPU; median of the rounds with its 95 % interval; the mark is the rate without loss. Right: CPU time per captured frame in the middle round, in reference cycles where \
    their frequency is known, else in ns; beside each bar what capturing costs, and what sending adds.";

const METHOD: &str = "In overload: the generator sends as fast as it can, and what a method takes is counted in windows of 16 ms. Windows in which the host, or a \
    thread that has no part in the trial, took a CPU do not count; the rate of a round is the median of the others. All methods have a trial in each round, in random order; the figure is the median of the \
    rounds in the placement of the CPUs that most of them had, with its exact 95 % interval, which needs six rounds. ≥: the generator sent less than 1.05 times what was captured, so that the method may \
    take more. Ratios are formed round by round; where their interval holds 1, the two are not distinguished. Without loss: the rate at full speed if three trials in a row lose nothing, which is a lower bound (≥); or else found by bisection, where a load \
    counts when three trials in a row lose nothing, each at least twice as long as what the buffers hold. A single stop of a CPU loses frames: on a virtual machine the host decides this rate. \
    All methods have the same buffer time, unless the plan gives them the same memory. The kernel \
    receives on the CPU of the capture threads and before them, as behind a network card whose ring holds 256 frames: under overload it takes \
    their time, and what it does not get to is lost in the ring. `count` \
    captures nothing: it is what receiving costs every method. Received on the generator's CPU, never more is sent than the kernel receives, \
    and frames (0.1 % at most) that found the ring full do not count as lost at full speed; there, at most is what the slower of the two parts would take if the \
    generator, whose part is taken from `count` at full speed, needed no time of the CPU that receives: a method that loses at full speed has no such bound, nor has one that polls busily. With RPS the kernel hands frames to other CPUs, whose backlog can be \
    full, too. Frames are addressed to another machine, as at a \
    mirror port. A SYN flood is minimum TCP SYN frames from 32,768 sources in no order; the others are UDP.";

/// Picks a part of the CPU time.
type Share = fn(&CaptureTime) -> u64;

/// Parts of the cost, and what they are called in sentences.
const PARTS: [(&str, Share); 4] = [
    ("receiving", |time| time.receive_ns),
    ("system calls", |time| time.system_ns),
    ("code of its own", |time| time.user_ns),
    ("the consumer", |time| time.consumer_ns.unwrap_or(0)),
];

/// A method with its results.
struct Method<'a> {
    data: &'a PointData,
    name: &'a str,
    /// What it captures in overload.
    rate: Option<Rate>,
    /// Its trial at full speed, the middle one of the rounds.
    full: Option<&'a Trial>,
    /// Its trial for costs, the middle one of the rounds.
    cost: Option<(&'a Trial, Capture)>,
    /// What a frame cost in each round that found a rate, ns.
    costs_ns: Vec<Option<f64>>,
}

fn methods(data: &RunData) -> Vec<Method<'_>> {
    data.points.iter().filter(|p| p.measures() == Some(Measures::Capture)).filter_map(method).collect()
}

fn method(data: &PointData) -> Option<Method<'_>> {
    let cost = middle(data, Purpose::Curve, |trial| trial.cost.ns_per_frame.unwrap_or(0.0));
    let cost = cost.and_then(|trial| Some((trial, trial.detail::<Capture>()?)));
    let mut costs = data.trials.iter().filter(|trial| trial.purpose == Purpose::Curve);
    let costs_ns = rounds(data).map(|fps| fps.and_then(|_| costs.next()?.cost.ns_per_frame)).collect();
    let full = middle(data, Purpose::FullSpeed, received_fps);
    Some(Method { data, name: data.setting("method")?, rate: captured::rate(data), full, cost, costs_ns })
}

/// The rate without loss of each round.
fn rounds(data: &PointData) -> impl Iterator<Item = Option<f64>> {
    data.goals().first().into_iter().flat_map(|goal| goal.repetitions.iter().map(|value| value.fps))
}

/// Of the trials that the rounds made for this purpose, the middle one by a measure of theirs.
fn middle(data: &PointData, purpose: Purpose, by: fn(&Trial) -> f64) -> Option<&Trial> {
    let mut all: Vec<_> = data.trials.iter().filter(|trial| trial.purpose == purpose).collect();
    all.sort_by(|a, b| by(a).total_cmp(&by(b)));
    all.get(all.len() / 2).copied()
}

impl Method<'_> {
    fn threads(&self) -> &str {
        self.data.setting("threads").unwrap_or("1")
    }

    /// Does the reader itself have the driver receive?
    fn polls(&self) -> bool {
        self.data.setting(BUSY_POLL).is_some()
    }

    /// Does the kernel receive on another CPU than the generator's?
    fn receives_apart(&self) -> bool {
        self.data.setting(RECEIVE).is_some()
    }

    /// `ring`, `xdp, busy polling`.
    fn way(&self) -> String {
        format!("{}{}", self.name, if self.polls() { ", busy polling" } else { "" })
    }

    /// `ring`, `ring-fanout on all CPUs`.
    fn label(&self) -> String {
        let name = self.way();
        match self.threads() {
            "1" => name,
            "all" => format!("{name} on all CPUs"),
            threads => format!("{name} with {threads} threads"),
        }
    }

    /// `ring`, `ring-fanout, all`: for a table that is not to be wide.
    fn short_label(&self) -> String {
        let name = if self.polls() { format!("{} polling", self.name) } else { self.name.to_string() };
        if self.threads() == "1" { name } else { format!("{name}, {}", self.threads()) }
    }

    fn is_flood(&self) -> bool {
        self.data.setting(TRAFFIC).is_some()
    }

    fn traffic(&self) -> String {
        let flows = self.data.setting("flows").and_then(|n| n.parse().ok()).unwrap_or(1.0);
        let kind = if self.is_flood() { "SYN flood, " } else { "" };
        let rps = self.data.setting("rps").map(|cpus| format!(", RPS to {}", cpus_named(cpus)));
        let frame = frame_name(&self.data.point.frame);
        let receive = if self.receives_apart() { "" } else { ", received on the generator's CPU" };
        format!("{kind}{frame}, {} flows{receive}{}", full(flows), rps.unwrap_or_default())
    }

    fn lossless_fps(&self) -> Option<f64> {
        self.data.headline_fps()
    }

    /// Of that rate, the median of the rounds.
    fn interval(&self) -> Option<(f64, f64)> {
        self.data.goals().first()?.fps_interval
    }

    /// Is the rate only a bound, because the generator sends no more?
    fn is_bound(&self) -> bool {
        let rounds = self.data.goals().first().map_or(&[][..], |goal| &goal.repetitions[..]);
        rounds.iter().any(|value| value.fps.is_some() && value.irregular.is_some())
    }

    /// Before the rate without loss in a table.
    fn lossless_sign(&self) -> String {
        if self.is_bound() { Bound::AtLeast.sign().into() } else { String::new() }
    }

    /// Reference cycles per ns; 1 where the frequency is not known, so that costs are in ns.
    fn cycles_per_ns(&self) -> Option<f64> {
        let (trial, _) = self.cost.as_ref()?;
        Some(trial.cost.cycles_per_frame? / trial.cost.ns_per_frame?)
    }

    /// What part of the CPU time a frame costs, in cycles or ns.
    fn per_frame(&self, part: impl Fn(&CaptureTime) -> u64) -> Option<f64> {
        let (trial, capture) = self.cost.as_ref()?;
        let frames = (trial.counts().received > 0).then_some(trial.counts().received as f64)?;
        Some(part(&capture.time) as f64 / frames * self.cycles_per_ns().unwrap_or(1.0))
    }

    /// Frames/s that it would capture if sending cost the CPU nothing on which the kernel receives: an upper bound, from
    /// its trial at full speed and that of the method that only counts.
    fn at_most(&self, methods: &[Method<'_>]) -> Option<f64> {
        let is_floor = |method: &&Method| method.name == "count" && method.traffic() == self.traffic();
        let (full, floor) = (self.full?, methods.iter().find(is_floor)?.full?);
        // A polling method uses a whole CPU at any rate: its CPU time does not show its capacity.
        let alone = self.name != "count" && self.threads() == "1" && !self.polls() && !self.receives_apart();
        let keeps_up = full.counts().lost as f64 <= KEPT_UP * full.counts().sent as f64;
        if !(alone && keeps_up && full.counts().received > 0 && floor.counts().received > 0) {
            return None;
        }
        let ns = |trial: &Trial, part: fn(&CaptureTime) -> u64| {
            let time = trial.detail::<Capture>().map(|capture| capture.time);
            time.map(|time| part(&time) as f64 / trial.counts().received as f64)
        };
        let sending = |time: &CaptureTime| time.generator_ns + time.receive_ns;
        let kernel_ns = ns(full, sending)? - ns(floor, sending)?;
        let capture_ns = ns(full, |time| time.capture_ns() - time.receive_ns)?;
        let slowest_ns = kernel_ns.max(capture_ns);
        (slowest_ns > 0.0).then_some(1e9 / slowest_ns)
    }

    /// What of a frame's cost is the consumer's, where that is known apart.
    fn consumer(&self) -> Option<f64> {
        self.cost.as_ref()?.1.time.consumer_ns?;
        self.per_frame(|time| time.consumer_ns.unwrap_or(0))
    }

    fn calls_per_frame(&self) -> Option<f64> {
        let (trial, capture) = self.cost.as_ref()?;
        (trial.counts().received > 0).then(|| capture.calls as f64 / trial.counts().received as f64)
    }

    fn profile(&self) -> Option<&Profile> {
        self.cost.as_ref()?.1.profile.as_ref()
    }

    /// What a frame costs by cause, the largest first.
    fn shares(&self) -> Option<Vec<(&'static str, f64)>> {
        let causes = self.profile()?.by_cause(&cost::CAPTURING);
        let all: u64 = causes.iter().map(|(_, n)| n).sum();
        let cost = self.per_frame(CaptureTime::capture_ns).filter(|_| all > 0)?;
        Some(causes.into_iter().map(|(cause, n)| (cause, cost * n as f64 / all as f64)).collect())
    }

    fn wakeups_per_frame(&self) -> Option<f64> {
        let (trial, capture) = self.cost.as_ref()?;
        (trial.counts().received > 0).then(|| capture.wakeups as f64 / trial.counts().received as f64)
    }
}

/// `CPU 1`, `CPUs 0-1`, `all CPUs`, `no CPU`.
fn cpus_named(cpus: &str) -> String {
    match cpus {
        "all" => "all CPUs".into(),
        "off" => "no CPU".into(),
        one if one.parse::<usize>().is_ok() => format!("CPU {one}"),
        several => format!("CPUs {several}"),
    }
}

// ---- rates ---------------------------------------------------------------------------------------------

/// The bars of all methods, a group for each kind of traffic, and what they say in words.
fn bars(methods: &[Method<'_>], bar: fn(&Method<'_>) -> Option<Bar>) -> (Vec<Group>, String) {
    let group = |(label, methods): (String, Vec<&Method<'_>>)| Group {
        label,
        bars: methods.into_iter().filter_map(bar).collect(),
        limit: None,
    };
    let groups: Vec<Group> = by_traffic(methods).into_iter().map(group).collect();
    let text = |group: &Group, bar: &Bar| format!("{}, {}", group.label, bar.title);
    let texts = groups.iter().flat_map(|group| group.bars.iter().map(move |bar| text(group, bar)));
    let texts: Vec<String> = texts.collect();
    (groups, texts.join("; "))
}

fn chart(methods: &[Method<'_>]) -> String {
    let (groups, text) = bars(methods, |method| Some(bar(method)));
    let chart = BarChart { groups, unit: "frames/s".into(), number: si, limit_name: String::new() };
    chart.draw("Frames/s captured in overload, by method", &text)
}

fn bar(method: &Method<'_>) -> Bar {
    let value = method.rate.map(|rate| rate.fps);
    let text = or_dash(method.rate, |rate| rate.sign());
    let captures = method.name != "count";
    let style = Style { colour: if captures { 1 } else { 2 }, marker: 0, pattern: usize::from(!captures) };
    let lossless = method.lossless_fps();
    let without_loss = lossless.map(|fps| format!(", {}{} without loss", method.lossless_sign(), si(fps)));
    let title = format!("{}: {text} frames/s{}", method.label(), without_loss.unwrap_or_default());
    let (label, parts, ticks) = (method.label(), Vec::new(), lossless.into_iter().collect());
    let interval = method.rate.and_then(|rate| rate.interval);
    Bar { label, value, parts, interval, ticks, text, title, style, fits: captures }
}

fn rates(methods: &[Method<'_>]) -> ByTraffic {
    let interval = |(low, high): (f64, f64)| format!("{} – {}", full(low), full(high));
    let table = |(traffic, group): (String, Vec<&Method<'_>>)| {
        let mut table = Table::new(&[
            "Method",
            "In overload, frames/s",
            "95 % interval",
            "Sent meanwhile, frames/s",
            "Lost of it",
            "Where it was lost, frames",
            "Without loss, frames/s",
            "Its 95 % interval",
            "At most, frames/s",
        ]);
        for method in group {
            table.push(vec![
                method.label(),
                or_dash(method.rate, |rate| rate.bound.sign().to_string() + &full(rate.fps)),
                or_dash(method.rate.and_then(|rate| rate.interval), interval),
                or_dash(method.full, |trial| full(trial.counts().sent as f64 / trial.duration_s)),
                or_dash(method.full.filter(|t| t.counts().sent > 0), |t| {
                    percent(t.counts().lost as f64 / t.counts().sent as f64)
                }),
                or_dash(method.full, places),
                or_dash(method.lossless_fps(), |fps| method.lossless_sign() + &full(fps)),
                or_dash(method.interval(), interval),
                or_dash(method.at_most(methods), full),
            ]);
        }
        let optional = ["95 % interval", "Without loss, frames/s", "Its 95 % interval", "At most, frames/s"];
        (traffic, table.without_empty(&optional))
    };
    by_traffic(methods).into_iter().map(table).collect()
}

fn buffers(methods: &[Method<'_>]) -> Table {
    let mut table = Table::new(&["Traffic", "Method", "Threads", "Frames", "Memory", "How"]);
    let capture = |method: &Method<'_>| method.full.and_then(|trial| trial.detail::<Capture>());
    for (method, capture) in methods.iter().filter_map(|method| Some((method, capture(method)?))) {
        table.push(vec![
            method.traffic(),
            method.way(),
            method.threads().into(),
            full(capture.buffer_frames as f64),
            bytes(capture.buffer_bytes as f64),
            capture.method,
        ]);
    }
    table
}

/// Where a trial's frames were lost, the worst place first.
fn places(trial: &Trial) -> String {
    let mut lines: Vec<_> = trial.drop_counters.iter().collect();
    lines.sort_by_key(|line| std::cmp::Reverse(line.frames));
    let mut parts: Vec<String> =
        lines.iter().map(|line| format!("{} {}", line.name, full(line.frames as f64))).collect();
    if trial.counts().unexplained != 0 {
        parts.push(format!("unexplained {}", trial.counts().unexplained));
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests;
