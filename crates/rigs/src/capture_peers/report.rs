//! `weir capture` and other programs that capture: rates at full speed and without loss, what a frame costs, and how many times
//! as fast one is as the other.

use super::run::BED_SHARE;
use weir_lab::frames::mirror::RING_FULL;
use weir_measure::stats::{self, Ratio};
use weir_record::record::{Capture, GoalResult, Purpose, Trial};
use weir_record::run_data::{Measures, PointData, RunData};
use weir_report::report::bars::{Bar, BarChart, Group};
use weir_report::report::block::{Block, Part};
use weir_report::view::format::{full, list, or_dash, percent, range, si, significant};
use weir_report::view::{Style, Table, frame_name};

mod answer;

pub(super) use answer::answer;

/// Its section of a report.
pub(super) fn parts(data: &RunData) -> Vec<Part> {
    let tools = tools(data);
    if tools.is_empty() {
        return Vec::new();
    }
    let blocks = vec![
        Block::Drawing { drawings: vec![chart(&tools)], caption: CAPTION },
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

/// What a run of such programs says, for the summary.
pub(super) fn findings(data: &RunData) -> Vec<String> {
    answer(data).map_or_else(|| absent(&tools(data)), |answer| answer.sentences)
}

const CAPTION: &str = "Frames/s captured while the generator sends as fast as it can; median of the rounds, whiskers: 95 % interval of the \
    median, the mark: the rate without loss. ≥: the generator sends hardly more.";

const RATIOS: &str = "Ratios are formed round by round; shown are their median and its exact 95 % interval, which needs \
    six rounds. Captured at full speed: none where neither program was sent 1.05 times what it captured. Cost: that of the peer divided by that of weir.";

const FIELD: &str = "What was looked for, in the field of programs that capture everything: missing ones could be installed. \
    stenotype is the part of stenographer that captures: it has no other way than to write whole frames. FastNetMon \
    captures to watch for attacks, neither writes frames nor takes a size for its buffer: the plan `peers-detect` \
    compares it. Not looked for: Suricata, Zeek and Arkime, which analyse what they capture; n2disk, PF_RING and netmap, \
    which need modules of the kernel.";

fn method(tools: &[CaptureTool<'_>]) -> String {
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
         kernel's buffer, on frames that are addressed to another host, as at a mirror port. Jobs: counting, the first 96 bytes of \
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
struct CaptureTool<'a> {
    data: &'a PointData,
    /// The trials at full speed of its rounds.
    full: Vec<&'a Trial>,
    /// What a frame costs in each round, in reference cycles, or in ns where their frequency is not known.
    costs: Vec<Option<f64>>,
}

fn tools(data: &RunData) -> Vec<CaptureTool<'_>> {
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

    fn name(&self) -> &str {
        self.setting("program")
    }

    fn is_own(&self) -> bool {
        self.name().starts_with("weir")
    }

    fn goal(&self, name: &str) -> Option<&GoalResult> {
        self.data.goals().iter().find(|goal| goal.goal == name)
    }

    fn lossless(&self) -> Option<&GoalResult> {
        self.goal(LOSSLESS)
    }

    fn cost(&self) -> Option<f64> {
        stats::median(&self.costs.iter().flatten().copied().collect::<Vec<_>>())
    }

    fn own_cost(&self) -> Option<f64> {
        let own = |capture: &Capture| capture.time.system_ns + capture.time.user_ns;
        let own = self.full.iter().filter_map(|trial| per_frame(trial, own));
        stats::median(&own.collect::<Vec<_>>())
    }

    /// Frames lost at full speed, of all rounds, as a share; frames that were left over are none.
    fn lost_share(&self) -> Option<f64> {
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

const LOSSLESS: &str = "without loss";
const FULL: &str = "full speed";
const LEFT: &str = "left in the buffer at the end";

/// The share of a trial's frames that are excused as the test bed's loss, 0..=1.
fn excused_share(trial: &Trial) -> f64 {
    let share = trial.dropped_at(RING_FULL) as f64 / trial.counts().sent.max(1) as f64;
    if share <= BED_SHARE { share } else { 0.0 }
}

/// Programs that did the same with the same frames.
fn groups<'c, 'a>(tools: &'c [CaptureTool<'a>]) -> Vec<Vec<&'c CaptureTool<'a>>> {
    let mut groups: Vec<Vec<&CaptureTool>> = Vec::new();
    let key = |tool: &CaptureTool| (tool.data.point.frame.clone(), tool.setting("job").to_string());
    for tool in tools {
        match groups.iter_mut().find(|group| key(group[0]) == key(tool)) {
            Some(group) => group.push(tool),
            None => groups.push(vec![tool]),
        }
    }
    groups
}

fn job(tool: &CaptureTool<'_>) -> &'static str {
    match tool.setting("job") {
        "count" => "count",
        "headers" => "headers",
        _ => "file",
    }
}

// ---- rates ---------------------------------------------------------------------------------------------

fn chart(tools: &[CaptureTool<'_>]) -> String {
    let groups: Vec<Group> = groups(tools)
        .iter()
        .map(|group| Group {
            label: format!("{}, {}", frame_name(&group[0].data.point.frame), job(group[0])),
            bars: group.iter().map(|tool| bar(tool)).collect(),
            limit: None,
        })
        .collect();
    let texts: Vec<String> = groups
        .iter()
        .flat_map(|group| group.bars.iter().map(|bar| format!("{}, {}", group.label, bar.title)))
        .collect();
    let chart = BarChart { groups, unit: "frames/s".into(), number: si, limit_name: String::new() };
    chart.draw("Frames/s captured at full speed, by program", &texts.join("; "))
}

fn bar(tool: &CaptureTool<'_>) -> Bar {
    let rate = answer::rate(tool);
    let value = rate.map(|rate| rate.fps);
    let missing = if tool.full.is_empty() { "left out" } else { "none" };
    let text = rate.map_or_else(|| missing.into(), |rate| rate.sign());
    let own = tool.is_own();
    let style = Style { colour: if own { 1 } else { 2 }, marker: 0, pattern: usize::from(!own) };
    let (label, title) = (tool.name().to_string(), format!("{}: {text} frames/s", tool.name()));
    let interval = rate.and_then(|rate| rate.interval);
    let (parts, ticks) = (Vec::new(), tool.lossless().and_then(|goal| goal.fps_median).into_iter().collect());
    Bar { label, value, parts, interval, ticks, text, title, style, fits: true }
}

/// Is the cost of a frame known in cycles?
fn has_cycles<'c, 'a: 'c>(tools: impl IntoIterator<Item = &'c CaptureTool<'a>>) -> bool {
    tools.into_iter().flat_map(|tool| &tool.full).any(|trial| cycles_per_ns(trial).is_some())
}

fn rates(tools: &[CaptureTool<'_>]) -> Table {
    let cycles = tools.iter().flat_map(|tool| &tool.full).any(|trial| cycles_per_ns(trial).is_some());
    let interval = |(a, b): (f64, f64)| format!("{} – {}", si(a), si(b));
    let unit = if cycles { "Cycles/frame" } else { "ns/frame" };
    let mut table = Table::new(&[
        "Frame",
        "Job",
        "Program",
        "At full speed: captured",
        "95 % interval",
        "lost",
        "Where",
        unit,
        "program",
        "Without loss, frames/s",
        "Its 95 % interval",
    ]);
    for tool in tools.iter().filter(|tool| !tool.full.is_empty()) {
        let (goal, rate) = (tool.lossless(), answer::rate(tool));
        table.push(vec![
            tool.data.point.frame.clone(),
            job(tool).into(),
            tool.name().into(),
            or_dash(rate, |rate| rate.sign()),
            or_dash(rate.and_then(|rate| rate.interval), interval),
            or_dash(tool.lost_share(), percent),
            tool.places(),
            or_dash(tool.cost(), full),
            or_dash(tool.own_cost(), full),
            or_dash(goal.and_then(|goal| goal.fps_median), full),
            or_dash(goal.and_then(|goal| goal.fps_interval), interval),
        ]);
    }
    table
}

/// The programs that were looked for, and those that were found.
fn field(tools: &[CaptureTool<'_>]) -> Table {
    let mut table = Table::new(&["Program", "Version", "Jobs", "Left out"]);
    for name in unique(tools.iter().map(CaptureTool::name)) {
        let of = || tools.iter().filter(|tool| tool.name() == name);
        let jobs = unique(of().filter(|tool| !tool.full.is_empty()).map(job));
        let jobs: Vec<String> = jobs.into_iter().map(str::to_string).collect();
        let version = of().map(|tool| tool.setting("version")).find(|version| !version.is_empty());
        let why = of().filter(|tool| tool.full.is_empty()).flat_map(|tool| &tool.data.point.notes);
        let cells = [name, version.unwrap_or("–"), &list(&jobs), why.last().map_or("", String::as_str)];
        table.push(cells.map(str::to_string).to_vec());
    }
    table
}

fn unique<'s>(texts: impl Iterator<Item = &'s str>) -> Vec<&'s str> {
    let mut list = Vec::new();
    for text in texts {
        if !list.contains(&text) {
            list.push(text);
        }
    }
    list
}

fn commands(tools: &[CaptureTool<'_>]) -> Table {
    let mut table = Table::new(&["Program", "Command"]);
    let mut seen: Vec<&str> = Vec::new();
    for tool in tools.iter().filter(|tool| !tool.full.is_empty()) {
        let line = tool.setting("command");
        if !seen.contains(&line) {
            seen.push(line);
            table.push(vec![format!("{}, {}", tool.name(), job(tool)), line.into()]);
        }
    }
    table
}

/// Why programs were left out, each reason once.
fn absent(tools: &[CaptureTool<'_>]) -> Vec<String> {
    let mut reasons: Vec<String> = Vec::new();
    for tool in tools.iter().filter(|tool| tool.full.is_empty()) {
        for reason in tool.data.point.notes.iter().filter(|note| !reasons.contains(note)).collect::<Vec<_>>()
        {
            reasons.push(reason.clone());
        }
    }
    reasons
}

// ---- ratios --------------------------------------------------------------------------------------------

/// Ours by theirs, round by round.
fn ratio(own: &CaptureTool<'_>, other: &CaptureTool<'_>, goal: &str) -> Option<Ratio> {
    let pairs = own.goal(goal)?.repetitions.iter().zip(&other.goal(goal)?.repetitions);
    stats::ratio(&pairs.filter_map(|(own, other)| own.fps.zip(other.fps)).collect::<Vec<_>>())
}

/// Their cost by ours, round by round.
fn cost_ratio(own: &CaptureTool<'_>, other: &CaptureTool<'_>) -> Option<Ratio> {
    let pairs = other.costs.iter().zip(&own.costs);
    stats::ratio(&pairs.filter_map(|(other, own)| other.zip(*own)).collect::<Vec<_>>())
}

fn with_interval(ratio: Option<Ratio>) -> String {
    or_dash(ratio, |ratio| {
        let interval = ratio.interval.map_or_else(String::new, |interval| format!(" ({})", range(interval)));
        significant(ratio.value) + &interval
    })
}

fn ratios(tools: &[CaptureTool<'_>]) -> Table {
    let mut table = Table::new(&[
        "Frame",
        "Job",
        "Program",
        "Against",
        "Captured at full speed",
        "Rate without loss",
        "Cost of a frame, theirs by ours",
    ]);
    for group in groups(tools) {
        let there = || group.iter().filter(|tool| !tool.full.is_empty());
        for own in there().filter(|tool| tool.is_own()) {
            for other in there().filter(|tool| !tool.is_own()) {
                table.push(vec![
                    own.data.point.frame.clone(),
                    job(own).into(),
                    own.name().into(),
                    other.name().into(),
                    with_interval(answer::times(own, other)),
                    with_interval(ratio(own, other, LOSSLESS)),
                    with_interval(cost_ratio(own, other)),
                ]);
            }
        }
    }
    table
}

#[cfg(test)]
mod tests;
