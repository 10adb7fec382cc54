//! `weir capture` and other programs that capture: rates at full speed and without loss, what a frame costs, and how many times
//! as fast one is as the other.

use weir_lab::frames::mirror::RING_FULL;
use weir_measure::stats::{self, Ratio};
use weir_record::record::{Capture, GoalResult, Purpose, Trial};
use weir_record::run_data::{Measures, PointData, RunData};
use weir_report::report::bars::Bar;
use weir_report::report::block::{Block, Part};
use weir_report::view::format::{full, list, or_dash, percent, range, si, significant};
use weir_report::view::{Table, frame_name};

use super::answer::{self, answer};
use super::run::BED_SHARE;
use crate::peers::contest::is_own;
use crate::peers::report::{Chart, bar, by_rounds, drawing, grouped, span, table, unique};

/// Its section of a report.
pub(super) fn parts(data: &RunData) -> Vec<Part> {
    let tools = tools(data);
    if tools.is_empty() {
        return Vec::new();
    }
    let blocks = vec![
        drawing(chart(&tools), CAPTION),
        Block::Table(rates(&tools).without_empty(&["95 % interval", "Its 95 % interval"])),
        Block::Note(method(&tools)),
        Block::Heading("How many times as fast"),
        Block::Table(ratios(&tools)),
        Block::Note(RATIOS.into()),
        Block::Heading("Programs of the field"),
        Block::Table(field(&tools).without_empty(&["Left out"])),
        Block::Note(FIELD.into()),
        Block::Heading("How they were called"),
        Block::Table(commands(&tools)),
    ];
    vec![Part { id: "capture tools", heading: "Programs that capture, compared".into(), blocks }]
}

/// The findings of a run.
pub(super) fn findings(data: &RunData) -> Vec<String> {
    answer(data).map_or_else(|| absent(&tools(data)), |answer| answer.sentences)
}

pub(super) const CAPTION: &str = "Frames/s captured while the generator sends as fast as it can; median of the rounds, whiskers: 95 % interval of the \
    median, the mark: the rate without loss. ≥: the generator sends hardly more.";

const RATIOS: &str = "Ratios are formed round by round; shown are their median and its exact 95 % interval, which needs \
    six rounds. Captured at full speed: none where neither program was sent 1.05 times what it captured. Cost: that of the peer divided by that of weir.";

const FIELD: &str = "What was looked for, in the field of programs that capture everything: missing ones could be installed. \
    stenotype is the part of stenographer that captures: it has no other way than to write whole frames. FastNetMon \
    captures to watch for attacks, neither writes frames nor takes a size for its buffer: the plan `peers-detect` \
    compares it. Not looked for: Suricata, Zeek and Arkime, which analyse what they capture; n2disk, PF_RING and netmap, \
    which need modules of the kernel.";

pub(super) fn method(tools: &[CaptureTool<'_>]) -> String {
    let place = match tools.first().map(|tool| tool.setting("place")) {
        Some("apart") => {
            "The kernel receives on the generator's CPU, and the programs have another one: a rate is what the slower of the two \
             takes."
        }
        Some("receiver") => {
            "The generator has a CPU of its own; the kernel receives on the programs' CPU and before them, as behind a network \
             card: under overload a program that is too slow gets less and less of it, and the interface's ring loses what \
             nobody receives."
        }
        _ => {
            "Generator, the kernel's receive work and the program share one CPU, so that all that a frame costs counts: never \
             more is sent than that CPU can also receive, and a program that is too slow loses frames in its buffer."
        }
    };
    let rounds = tools.iter().map(|tool| tool.full.len()).max().unwrap_or(0);
    let excused = tools.iter().flat_map(|tool| tool.data.measured()).map(excused_share);
    let excused = percent(excused.fold(0.0, f64::max));
    format!(
        "All programs capture alternately within each of {rounds} rounds, started by the command lines below, with the same memory for the \
         kernel's buffer, on frames that are for somebody else, as at a mirror port. Jobs: counting, the first 96 bytes of \
         each frame to /dev/null, whole frames to a file. {place} Rates at full \
         speed are frames by the time in which they were sent and captured: that in which a program still empties its buffer \
         afterwards counts. Without loss: the rate at full speed if nothing was lost then, or else the highest load found by \
         bisection below it. What a program says of itself \
         is held against what was sent and, where it writes one, its file; the smaller number counts. Lost: frames in no \
         file and in no count. Of these, up to 5 % that find the interface's ring of 256 frames full are the test bed's (it \
         sends while the kernel waits for its turn to receive): in this run at most {excused} of a trial. Frames that are left in a buffer when the program is reported \
         to end are not lost for lack of speed. Cycles: reference cycles, CPU time \
         times the frequency of the time stamp counter, per captured frame at full speed, of generator, kernel and program, \
         less what generator and wire cost when an XDP program drops all frames (measured in each round); program: its own \
         part, without the kernel's receive work."
    )
}

/// A program at a job, with its results.
pub(super) struct CaptureTool<'a> {
    pub(super) data: &'a PointData,
    /// The trials at full speed of its rounds.
    pub(super) full: Vec<&'a Trial>,
    /// What a frame costs in each round, in reference cycles, or in ns where their frequency is not known.
    pub(super) costs: Vec<Option<f64>>,
}

pub(super) fn tools(data: &RunData) -> Vec<CaptureTool<'_>> {
    let points = || data.points.iter().filter(|point| point.measures() == Some(Measures::CaptureTool));
    let is_nothing = |point: &&PointData| point.setting("program") == Some("nothing");
    let tool = |point| {
        let full = at_full_speed(point);
        let nothing = points().find(|other| is_nothing(other) && other.point.frame == point.point.frame);
        let nothing = nothing.map(at_full_speed).unwrap_or_default();
        let costs = full.iter().enumerate().map(|(round, trial)| {
            let bed = nothing.get(round).and_then(|trial| per_frame(trial, all_ns))?;
            Some(per_frame(trial, all_ns)? - bed)
        });
        let costs = costs.collect();
        CaptureTool { data: point, full, costs }
    };
    points().filter(|point| !is_nothing(point)).map(tool).collect()
}

fn at_full_speed(point: &PointData) -> Vec<&Trial> {
    point.trials.iter().filter(|trial| trial.purpose == Purpose::FullSpeed).collect()
}

fn all_ns(capture: &Capture) -> u64 {
    capture.time.generator_ns + capture.time.capture_ns()
}

/// CPU time per captured frame, in reference cycles where their frequency is known.
fn per_frame(trial: &Trial, time: fn(&Capture) -> u64) -> Option<f64> {
    let ns = time(&trial.detail::<Capture>()?) as f64
        / (trial.counts().received > 0).then_some(trial.counts().received as f64)?;
    Some(ns * cycles_per_ns(trial).unwrap_or(1.0))
}

fn cycles_per_ns(trial: &Trial) -> Option<f64> {
    Some(trial.cost.cycles_per_frame? / trial.cost.ns_per_frame?)
}

impl CaptureTool<'_> {
    fn setting(&self, name: &str) -> &str {
        self.data.setting(name).unwrap_or("")
    }

    pub(super) fn name(&self) -> &str {
        self.setting("program")
    }

    pub(super) fn is_own(&self) -> bool {
        is_own(self.name())
    }

    pub(super) fn goal(&self, name: &str) -> Option<&GoalResult> {
        self.data.goals().iter().find(|goal| goal.goal == name)
    }

    /// It was not left out.
    pub(super) fn takes_part(&self) -> bool {
        !self.full.is_empty()
    }

    fn lossless(&self) -> Option<&GoalResult> {
        self.goal(LOSSLESS)
    }

    pub(super) fn cost(&self) -> Option<f64> {
        stats::median(&self.costs.iter().flatten().copied().collect::<Vec<_>>())
    }

    fn own_cost(&self) -> Option<f64> {
        let own = |capture: &Capture| capture.time.system_ns + capture.time.user_ns;
        let own = self.full.iter().filter_map(|trial| per_frame(trial, own));
        stats::median(&own.collect::<Vec<_>>())
    }

    /// Frames lost at full speed, of all rounds, as a share; frames that were left over are none.
    pub(super) fn lost_share(&self) -> Option<f64> {
        let (sent, captured) = self
            .full
            .iter()
            .fold((0, 0), |(s, c), t| (s + t.counts().sent, c + t.counts().received + t.dropped_at(LEFT)));
        (sent > 0).then(|| 1.0 - captured as f64 / sent as f64)
    }

    /// Where frames were lost at full speed, the worst place first.
    fn places(&self) -> String {
        let mut places: Vec<(&str, u64)> = Vec::new();
        for line in self.full.iter().flat_map(|trial| &trial.drop_counters).filter(|line| line.name != LEFT) {
            match places.iter_mut().find(|(name, _)| *name == line.name) {
                Some((_, frames)) => *frames += line.frames,
                None => places.push((&line.name, line.frames)),
            }
        }
        places.sort_by_key(|(_, frames)| std::cmp::Reverse(*frames));
        let unexplained: i64 = self.full.iter().map(|trial| trial.counts().unexplained).sum();
        let mut texts: Vec<String> =
            places.iter().map(|(name, frames)| format!("{name} {}", full(*frames as f64))).collect();
        texts.extend((unexplained != 0).then(|| format!("unexplained {unexplained}")));
        texts.join(", ")
    }
}

pub(super) const LOSSLESS: &str = "without loss";
pub(super) const FULL: &str = "full speed";
/// Frames that are left in a buffer when the program ends: neither captured nor lost for lack of speed.
pub(super) const LEFT: &str = "left in the buffer at the end";

/// The share of a trial's frames that are excused as the test bed's loss, 0..=1.
fn excused_share(trial: &Trial) -> f64 {
    let share = trial.dropped_at(RING_FULL) as f64 / trial.counts().sent.max(1) as f64;
    if share <= BED_SHARE { share } else { 0.0 }
}

/// Programs that did the same with the same frames.
pub(super) fn groups<'c, 'a>(tools: &'c [CaptureTool<'a>]) -> Vec<Vec<&'c CaptureTool<'a>>> {
    grouped(tools, |tool| (tool.data.point.frame.as_str(), tool.setting("job")))
}

pub(super) fn job(tool: &CaptureTool<'_>) -> &'static str {
    match tool.setting("job") {
        "count" => "count",
        "headers" => "headers",
        _ => "file",
    }
}

// ---- rates ---------------------------------------------------------------------------------------------

const CHART: Chart = Chart {
    heading: "Frames/s captured at full speed, by program",
    unit: "frames/s",
    number: si,
    said: |group, bar| format!("{group}, {}", bar.title),
};

pub(super) fn chart(tools: &[CaptureTool<'_>]) -> String {
    let label = |tool: &&CaptureTool<'_>| format!("{}, {}", frame_name(&tool.data.point.frame), job(tool));
    CHART.draw(tools, label, one_bar)
}

fn one_bar(tool: &CaptureTool<'_>) -> Bar {
    let rate = answer::rate(tool);
    let missing = if tool.takes_part() { "none" } else { "left out" };
    let text = rate.map_or_else(|| missing.into(), |rate| rate.sign());
    let title = format!("{}: {text} frames/s", tool.name());
    let ticks = tool.lossless().and_then(|goal| goal.fps_median).into_iter().collect();
    let (value, interval) = (rate.map(|rate| rate.fps), rate.and_then(|rate| rate.interval));
    Bar { title, ticks, ..bar(tool.name(), value, interval, text) }
}

/// Is the cost of a frame known in cycles?
pub(super) fn has_cycles<'c, 'a: 'c>(tools: impl IntoIterator<Item = &'c CaptureTool<'a>>) -> bool {
    tools.into_iter().flat_map(|tool| &tool.full).any(|trial| cycles_per_ns(trial).is_some())
}

fn rates(tools: &[CaptureTool<'_>]) -> Table {
    let unit = if has_cycles(tools) { "Cycles/frame" } else { "ns/frame" };
    let mut table = table(&format!(
        "Frame | Job | Program | At full speed: captured | 95 % interval | lost | Where | {unit} | program | \
         Without loss, frames/s | Its 95 % interval"
    ));
    for tool in tools.iter().filter(|tool| tool.takes_part()) {
        let (goal, rate) = (tool.lossless(), answer::rate(tool));
        table.push(vec![
            tool.data.point.frame.clone(),
            job(tool).into(),
            tool.name().into(),
            or_dash(rate, |rate| rate.sign()),
            span(rate.and_then(|rate| rate.interval), si),
            or_dash(tool.lost_share(), percent),
            tool.places(),
            or_dash(tool.cost(), full),
            or_dash(tool.own_cost(), full),
            or_dash(goal.and_then(|goal| goal.fps_median), full),
            span(goal.and_then(|goal| goal.fps_interval), si),
        ]);
    }
    table
}

/// Programs that were looked for, and those that were found.
fn field(tools: &[CaptureTool<'_>]) -> Table {
    let mut table = table("Program | Version | Jobs | Left out");
    for same in grouped(tools, |tool| tool.name()) {
        let jobs = unique(same.iter().filter(|tool| tool.takes_part()).map(|tool| job(tool)));
        let jobs: Vec<String> = jobs.into_iter().map(str::to_string).collect();
        let version = same.iter().map(|tool| tool.setting("version")).find(|version| !version.is_empty());
        let why =
            same.iter().filter(|tool| !tool.takes_part()).flat_map(|tool| &tool.data.point.notes).last();
        let cells = [same[0].name(), version.unwrap_or("–"), &list(&jobs), why.map_or("", String::as_str)];
        table.push(cells.map(str::to_string).to_vec());
    }
    table
}

fn commands(tools: &[CaptureTool<'_>]) -> Table {
    let mut table = table("Program | Command");
    for same in grouped(tools.iter().filter(|tool| tool.takes_part()), |tool| tool.setting("command")) {
        let first = same[0];
        table.push(vec![format!("{}, {}", first.name(), job(first)), first.setting("command").into()]);
    }
    table
}

/// Why programs were left out, each reason once.
pub(super) fn absent(tools: &[CaptureTool<'_>]) -> Vec<String> {
    let absent = tools.iter().filter(|tool| !tool.takes_part());
    let reasons = unique(absent.flat_map(|tool| &tool.data.point.notes).map(String::as_str));
    reasons.into_iter().map(String::from).collect()
}

// ---- ratios --------------------------------------------------------------------------------------------

/// A rate of weir by that of another program, round by round.
pub(super) fn ratio(own: &CaptureTool<'_>, other: &CaptureTool<'_>, goal: &str) -> Option<Ratio> {
    let rates = |goal: &'_ GoalResult| goal.repetitions.iter().map(|round| round.fps).collect::<Vec<_>>();
    by_rounds(rates(own.goal(goal)?), rates(other.goal(goal)?))
}

/// The cost of another program by that of weir, round by round.
pub(super) fn cost_ratio(own: &CaptureTool<'_>, other: &CaptureTool<'_>) -> Option<Ratio> {
    by_rounds(other.costs.iter().copied(), own.costs.iter().copied())
}

fn with_interval(value: f64, interval: Option<(f64, f64)>) -> String {
    let interval = interval.map_or_else(String::new, |interval| format!(" ({})", range(interval)));
    significant(value) + &interval
}

fn ratios(tools: &[CaptureTool<'_>]) -> Table {
    let mut table = table(
        "Frame | Job | Program | Against | Captured at full speed | Rate without loss | Cost of a frame, theirs by ours",
    );
    for group in groups(tools) {
        let (own, others): (Vec<_>, Vec<_>) =
            group.into_iter().filter(|tool| tool.takes_part()).partition(|tool| tool.is_own());
        for (own, other) in own.iter().flat_map(|own| others.iter().map(move |other| (own, other))) {
            table.push(vec![
                own.data.point.frame.clone(),
                job(own).into(),
                own.name().into(),
                other.name().into(),
                or_dash(answer::times(own, other), |ratio| with_interval(ratio.value, ratio.interval)),
                or_dash(ratio(own, other, LOSSLESS), |ratio| with_interval(ratio.value, ratio.interval)),
                or_dash(cost_ratio(own, other), |ratio| with_interval(ratio.value, ratio.interval)),
            ]);
        }
    }
    table
}
