//! The capture ladder: what each rung captures without loss, what of too much, what a frame costs on it, and the
//! story of what changes from rung to rung.

use super::bars::{Bar, BarChart, Group};
use super::flame;
use super::format::{bytes, full, list, or_dash, percent, si, significant};
use super::page::{bullets, details, figure, note, paragraph, section};
use super::series::{Style, frame_name};
use super::table::Table;
use crate::profile::{CAUSES, Profile, cause};
use crate::record::{Capture, CaptureTime, Purpose, Trial};
use crate::run_data::{BUSY_POLL, Measures, PointData, RunData, TRAFFIC};

/// Differences below this share of a rate are no change: trials of the same rung differ by as much.
const SAME: f64 = 0.05;

/// A rung that loses no more than this share at full speed takes what the kernel receives.
const KEPT_UP: f64 = 0.01;

/// All of it for each run that has such points.
pub(crate) fn html(runs: &[RunData]) -> String {
    let several = runs.len() > 1;
    let part = |data: &RunData| {
        let rungs = rungs(data);
        if rungs.is_empty() {
            return String::new();
        }
        let body = figure("pair", &[chart(&rungs)], CAPTION, &Table::default())
            + &rates(&rungs).html()
            + &details("Buffers, and what the kernel granted", &buffers(&rungs).html())
            + &note(METHOD)
            + "<h3>What a frame costs</h3>\n"
            + &costs(&rungs).html()
            + &note(COST)
            + &time(&rungs)
            + "<h3>From rung to rung</h3>\n"
            + &bullets(&story(&rungs));
        let of = if several { format!(" of run {}", data.run.id) } else { String::new() };
        section(&format!("ladder-{}", data.run.id), &format!("The capture ladder{of}"), &body)
    };
    runs.iter().map(part).collect()
}

/// The same as tables for a terminal.
pub(crate) fn text(data: &RunData) -> Vec<String> {
    let rungs = rungs(data);
    let by_cause = causes(&rungs).into_iter().map(|(traffic, table)| format!("{traffic}\n{}", table.text()));
    let tables = |list: &[Table]| -> Vec<String> {
        list.iter().filter(|table| !table.is_empty()).map(Table::text).collect()
    };
    let before = tables(&[rates(&rungs), buffers(&rungs), costs(&rungs)]);
    let after = tables(&[functions(&rungs)]);
    before.into_iter().chain(by_cause).chain(after).collect()
}

/// How far a run climbed with each traffic, for the summary; the story is in its section.
pub(crate) fn findings(data: &RunData) -> Vec<String> {
    let rungs = rungs(data);
    let mut traffics: Vec<String> = rungs.iter().map(Rung::traffic).collect();
    traffics.dedup();
    let mut found: Vec<String> = traffics.iter().filter_map(|traffic| top(&rungs, traffic)).collect();
    let crowded = rungs.iter().any(|rung| rung.threads() == "all" && !rung.data.point.cpus_shared.is_empty());
    if crowded {
        found.push(
            "With threads on all CPUs, capture threads share the generator's: this machine has too few to show what \
             a fan-out gains."
                .into(),
        );
    }
    found
}

const CAPTION: &str = "Frames/s that each way of capturing takes without loss: three trials of three.";

const METHOD: &str = "Without loss: the rate at full speed if three trials in a row lose nothing but the few frames (0.1 % \
    at most) that find the interface's ring of 256 full, which is a lower bound (≥); or else found by bisection, where a load \
    counts when three trials in a row lose nothing, each at least twice as long as what the buffers hold. At full speed: what is captured while the generator sends as fast as \
    it can. All rungs have the same buffer time, unless the plan gives them the same memory. The kernel \
    receives on the generator's CPU, so that never more is sent than it receives; capture threads have others. `count` \
    captures nothing: it is what receiving costs anybody. With RPS the kernel receives on other CPUs, whose backlog can be \
    full, too. At most: what the slower of the two parts would take if the \
    generator, whose part is taken from `count` at full speed, needed no time of the CPU that receives; a rate without loss \
    lies between the two bounds, and a rung that loses at full speed has none. Frames are for somebody else, as at a \
    mirror port. A SYN flood is minimum TCP SYN frames from 32,768 sources in no order; the others are UDP.";

const COST: &str = "At 90 % of the rate without loss, or at full speed where nothing is lost. CPU time in reference cycles: time on a CPU times the frequency of \
    the time stamp counter, per captured frame. Receiving: the kernel's softirq, with the driver, the XDP program, the \
    stack and copies into rings. The capture thread: within system calls, and the rung's own code outside of them. \
    Consumer: what the same thread then does with the frame, here reading its first 64 bytes. Receiving is sampled, as \
    a share of the exact time of the generator's thread, and with RPS as time of other CPUs; the capture thread's time is exact, its division between kernel \
    and program is sampled by the tick, and that between its own code and the consumer by the profile below.";

/// A rung with its results.
struct Rung<'a> {
    data: &'a PointData,
    name: &'a str,
    /// Its trial at full speed.
    full: Option<&'a Trial>,
    /// Its trial for costs.
    cost: Option<(&'a Trial, &'a Capture)>,
}

fn rungs(data: &RunData) -> Vec<Rung<'_>> {
    data.points.iter().filter(|p| p.measures() == Some(Measures::Capture)).filter_map(rung).collect()
}

fn rung(data: &PointData) -> Option<Rung<'_>> {
    let last = |purpose| data.trials.iter().rfind(|t| t.purpose == purpose);
    let cost = last(Purpose::Curve).and_then(|trial| Some((trial, trial.capture.as_ref()?)));
    Some(Rung { data, name: data.setting("rung")?, full: last(Purpose::Ceiling), cost })
}

impl Rung<'_> {
    fn threads(&self) -> &str {
        self.data.setting("threads").unwrap_or("1")
    }

    /// `ring`, `xdp, busy polling`.
    fn way(&self) -> String {
        let polls = if self.data.setting(BUSY_POLL).is_some() { ", busy polling" } else { "" };
        format!("{}{polls}", self.name)
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

    fn traffic(&self) -> String {
        let flows = self.data.setting("flows").and_then(|n| n.parse().ok()).unwrap_or(1.0);
        let kind = if self.data.setting(TRAFFIC).is_some() { "SYN flood, " } else { "" };
        let rps = self.data.setting("rps").map(|cpus| format!(", RPS to {}", cpus_named(cpus)));
        let frame = frame_name(&self.data.point.frame);
        format!("{kind}{frame}, {} flows{}", full(flows), rps.unwrap_or_default())
    }

    fn lossless_fps(&self) -> Option<f64> {
        self.data.headline_fps()
    }

    /// Is the rate only a bound, because the generator sends no more?
    fn is_bound(&self) -> bool {
        let first = self.data.goals().first().and_then(|goal| goal.repetitions.first());
        first.is_some_and(|value| value.fps.is_some() && value.irregular.is_some())
    }

    fn lossless_text(&self) -> String {
        or_dash(
            self.lossless_fps(),
            |fps| if self.is_bound() { format!("≥ {}", full(fps)) } else { full(fps) },
        )
    }

    /// Reference cycles per ns; 1 where nobody knows the frequency, so that costs are in ns.
    fn cycles_per_ns(&self) -> Option<f64> {
        let (trial, _) = self.cost?;
        Some(trial.cost.cycles_per_frame? / trial.cost.ns_per_frame?)
    }

    /// What part of the CPU time a frame costs, in cycles or ns.
    fn per_frame(&self, part: impl Fn(&CaptureTime) -> u64) -> Option<f64> {
        let (trial, capture) = self.cost?;
        let frames = (trial.received > 0).then_some(trial.received as f64)?;
        Some(part(&capture.time) as f64 / frames * self.cycles_per_ns().unwrap_or(1.0))
    }

    /// Frames/s that it would capture if sending cost the CPU nothing on which the kernel receives: an upper bound, from
    /// its trial at full speed and that of the rung that only counts.
    fn at_most(&self, rungs: &[Rung<'_>]) -> Option<f64> {
        let is_floor = |rung: &&Rung| rung.name == "count" && rung.traffic() == self.traffic();
        let (full, floor) = (self.full?, rungs.iter().find(is_floor)?.full?);
        let alone = self.name != "count" && self.threads() == "1";
        let keeps_up = full.lost as f64 <= KEPT_UP * full.sent as f64;
        if !(alone && keeps_up && full.received > 0 && floor.received > 0) {
            return None;
        }
        let ns = |trial: &Trial, part: fn(&CaptureTime) -> u64| {
            let time = trial.capture.as_ref().map(|capture| capture.time);
            time.map(|time| part(&time) as f64 / trial.received as f64)
        };
        let sending = |time: &CaptureTime| time.generator_ns + time.receive_ns;
        let kernel_ns = ns(full, sending)? - ns(floor, sending)?;
        let capture_ns = ns(full, |time| time.capture_ns() - time.receive_ns)?;
        let slowest_ns = kernel_ns.max(capture_ns);
        (slowest_ns > 0.0).then_some(1e9 / slowest_ns)
    }

    /// What of a frame's cost is the consumer's, where that is known apart.
    fn consumer(&self) -> Option<f64> {
        self.cost?.1.time.consumer_ns?;
        self.per_frame(|time| time.consumer_ns.unwrap_or(0))
    }

    fn calls_per_frame(&self) -> Option<f64> {
        let (trial, capture) = self.cost?;
        (trial.received > 0).then(|| capture.calls as f64 / trial.received as f64)
    }

    fn profile(&self) -> Option<&Profile> {
        self.cost?.1.profile.as_ref()
    }

    /// What a frame costs by cause, the largest first.
    fn shares(&self) -> Option<Vec<(&'static str, f64)>> {
        let causes = self.profile()?.by_cause(&CAPTURING);
        let all: u64 = causes.iter().map(|(_, n)| n).sum();
        let cost = self.per_frame(CaptureTime::capture_ns).filter(|_| all > 0)?;
        Some(causes.into_iter().map(|(cause, n)| (cause, cost * n as f64 / all as f64)).collect())
    }

    fn wakeups_per_frame(&self) -> Option<f64> {
        let (trial, capture) = self.cost?;
        (trial.received > 0).then(|| capture.wakeups as f64 / trial.received as f64)
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

fn chart(rungs: &[Rung<'_>]) -> String {
    let mut groups: Vec<Group> = Vec::new();
    for rung in rungs {
        let (label, bar) = (rung.traffic(), bar(rung));
        match groups.iter_mut().find(|group| group.label == label) {
            Some(group) => group.bars.push(bar),
            None => groups.push(Group { label, bars: vec![bar], limit: None }),
        }
    }
    let texts: Vec<String> = groups
        .iter()
        .flat_map(|group| group.bars.iter().map(|bar| format!("{}, {}", group.label, bar.title)))
        .collect();
    let chart = BarChart { groups, unit: "frames/s".into(), number: si, limit_name: String::new() };
    chart.draw("Frames/s captured without loss, by rung", &texts.join("; "))
}

fn bar(rung: &Rung<'_>) -> Bar {
    let value = rung.lossless_fps();
    let text = or_dash(value, |fps| if rung.is_bound() { format!("≥ {}", si(fps)) } else { si(fps) });
    let captures = rung.name != "count";
    let style = Style { colour: if captures { 1 } else { 2 }, marker: 0, pattern: usize::from(!captures) };
    let title = format!("{}: {text} frames/s", rung.label());
    Bar { label: rung.label(), value, interval: None, ticks: vec![], text, title, style, fits: captures }
}

fn rates(rungs: &[Rung<'_>]) -> Table {
    let mut table = Table::new(&[
        "Traffic",
        "Rung",
        "Threads",
        "Without loss, frames/s",
        "at most",
        "At full speed: sent, frames/s",
        "captured, frames/s",
        "lost",
        "Where",
    ]);
    for rung in rungs {
        table.push(vec![
            rung.traffic(),
            rung.way(),
            rung.threads().into(),
            rung.lossless_text(),
            or_dash(rung.at_most(rungs), full),
            or_dash(rung.full, |trial| full(trial.sent as f64 / trial.duration_s)),
            or_dash(rung.full, |trial| full(trial.received as f64 / trial.duration_s)),
            or_dash(rung.full.filter(|t| t.sent > 0), |t| percent(t.lost as f64 / t.sent as f64)),
            or_dash(rung.full, places),
        ]);
    }
    table
}

fn buffers(rungs: &[Rung<'_>]) -> Table {
    let mut table = Table::new(&["Traffic", "Rung", "Threads", "Frames", "Memory", "How"]);
    let capture = |rung: &Rung<'_>| rung.full.and_then(|trial| trial.capture.clone());
    for (rung, capture) in rungs.iter().filter_map(|rung| Some((rung, capture(rung)?))) {
        table.push(vec![
            rung.traffic(),
            rung.way(),
            rung.threads().into(),
            full(capture.buffer_frames as f64),
            bytes(capture.buffer_bytes as f64),
            capture.method,
        ]);
    }
    table
}

/// Where a trial's frames were lost, the worst place first.
fn places(trial: &Trial) -> String {
    let mut lines: Vec<_> = trial.ledger.iter().collect();
    lines.sort_by_key(|line| std::cmp::Reverse(line.frames));
    let mut parts: Vec<String> =
        lines.iter().map(|line| format!("{} {}", line.name, full(line.frames as f64))).collect();
    if trial.unexplained != 0 {
        parts.push(format!("unexplained {}", trial.unexplained));
    }
    parts.join(", ")
}

// ---- costs ---------------------------------------------------------------------------------------------

fn costs(rungs: &[Rung<'_>]) -> Table {
    let unit = if rungs.iter().any(|rung| rung.cycles_per_ns().is_some()) { "cycles" } else { "ns" };
    let mut table = Table::new(&[
        "Traffic".to_string(),
        "Rung".into(),
        "Threads".into(),
        "frames/s".into(),
        format!("Capture {unit}/frame"),
        "Receiving".into(),
        "Capture thread: system".into(),
        "own code".into(),
        "Consumer".into(),
        "Generator".into(),
        "System calls per 1000 frames".into(),
        "Wake-ups per 1000 frames".into(),
    ]);
    for rung in rungs.iter().filter(|rung| rung.cost.is_some()) {
        let part = |of: Part| or_dash(rung.per_frame(of), full);
        table.push(vec![
            rung.traffic(),
            rung.way(),
            rung.threads().into(),
            or_dash(rung.cost, |(trial, _)| full(trial.sent_fps())),
            part(CaptureTime::capture_ns),
            part(|time| time.receive_ns),
            part(|time| time.system_ns),
            part(|time| time.user_ns),
            or_dash(rung.consumer(), full),
            part(|time| time.generator_ns),
            or_dash(rung.calls_per_frame(), |n| significant(n * 1000.0)),
            or_dash(rung.wakeups_per_frame(), |n| significant(n * 1000.0)),
        ]);
    }
    table
}

// ---- where the time goes -------------------------------------------------------------------------------

/// Whose time it is that capturing costs.
const CAPTURING: [&str; 3] = [Profile::RECEIVE, Profile::RECEIVE_ELSEWHERE, Profile::CAPTURE];
/// Functions of each rung in the table.
const TOP: usize = 5;

const TIME: &str = "Reference cycles per frame by cause, in the kernel's receive softirq and the capture threads. All \
    CPUs are sampled by the kernel's own clock (cpu-clock) during the trial of costs; the share of the samples is that \
    of the time. A sample counts for the cause of the innermost function that is known. While interrupts are off no \
    sample is taken: that time shows where they come on again, often in locks. Sampling itself costs some percent.";

fn time(rungs: &[Rung<'_>]) -> String {
    let tables = causes(rungs);
    if tables.is_empty() {
        return String::new();
    }
    let tables: String =
        tables.iter().map(|(traffic, table)| paragraph(&format!("{traffic}:")) + &table.html()).collect();
    let flames = rungs.iter().filter_map(|rung| Some((rung, rung.profile()?)));
    let flames = flames.map(|(rung, profile)| {
        let name = format!("{}, {}", rung.label(), rung.traffic());
        let drawing = flame::draw(&profile.stacks, &format!("Flame graph of {name}"));
        details(&format!("Flame graph: {name}"), &figure("", &[drawing], FLAME, &Table::default()))
    });
    "<h3>Where the time goes</h3>\n".to_string()
        + &tables
        + &note(TIME)
        + &details("The functions that take most time", &functions(rungs).html())
        + &flames.collect::<String>()
}

const FLAME: &str =
    "Width: share of the samples of all CPUs, idle time left out; what calls stands below what is called.";

/// A table for each kind of traffic: rungs stand side by side, and causes below each other.
fn causes(rungs: &[Rung<'_>]) -> Vec<(String, Table)> {
    let mut traffics: Vec<String> = rungs.iter().map(Rung::traffic).collect();
    traffics.dedup();
    let table = |traffic: &String| {
        let columns = rungs.iter().filter(|rung| rung.traffic() == *traffic);
        let columns: Vec<_> = columns.filter_map(|rung| Some((rung.label(), rung.shares()?))).collect();
        let names = columns.iter().map(|(name, _)| name.as_str());
        let mut table = Table::new(&std::iter::once("Cause").chain(names).collect::<Vec<_>>());
        for cause in CAUSES {
            let cost =
                |shares: &[(&str, f64)]| shares.iter().find(|(c, _)| *c == cause).map(|(_, cost)| *cost);
            let costs: Vec<_> = columns.iter().map(|(_, shares)| cost(shares)).collect();
            // A cause that plays no part has no row.
            if costs.iter().any(Option::is_some) {
                let cells = costs.into_iter().map(|cost| or_dash(cost, full));
                table.push(std::iter::once(cause.to_string()).chain(cells).collect());
            }
        }
        (traffic.clone(), table)
    };
    traffics.iter().map(table).filter(|(_, table)| !table.is_empty()).collect()
}

fn functions(rungs: &[Rung<'_>]) -> Table {
    let mut table = Table::new(&["Traffic", "Rung", "Threads", "Share", "Function", "Cause"]);
    for (rung, profile) in rungs.iter().filter_map(|rung| Some((rung, rung.profile()?))) {
        let functions = profile.by_function(&CAPTURING);
        let all: u64 = functions.iter().map(|(_, n)| n).sum();
        for (function, n) in functions.iter().take(TOP) {
            table.push(vec![
                rung.traffic(),
                rung.way(),
                rung.threads().into(),
                percent(*n as f64 / all as f64),
                (*function).into(),
                cause(function).into(),
            ]);
        }
    }
    table
}

// ---- the story -----------------------------------------------------------------------------------------

/// Picks a part of the CPU time.
type Part = fn(&CaptureTime) -> u64;

/// Parts of the cost, and what they are called in sentences.
const PARTS: [(&str, Part); 4] = [
    ("receiving", |time| time.receive_ns),
    ("system calls", |time| time.system_ns),
    ("code of its own", |time| time.user_ns),
    ("the consumer", |time| time.consumer_ns.unwrap_or(0)),
];

/// The rung that captures most, beside the first one and what people have today.
fn top(rungs: &[Rung<'_>], traffic: &str) -> Option<String> {
    let fps = |rung: &&Rung<'_>| rung.lossless_fps().unwrap_or(0.0);
    let all =
        || rungs.iter().filter(|rung| rung.traffic() == traffic && rung.name != "count" && fps(rung) > 0.0);
    let (best, first) = (all().max_by(|a, b| fps(a).total_cmp(&fps(b)))?, all().next()?);
    let other = |rung: &&Rung<'_>| rung.label() != best.label();
    let today = all().filter(|rung| rung.name == "libpcap" && rung.label() != first.label());
    let others = std::iter::once(first).chain(today).filter(other);
    let times: Vec<String> = others
        .map(|rung| format!("{} times {}", significant(fps(&best) / fps(&rung)), rung.label()))
        .collect();
    let times = if times.is_empty() { String::new() } else { format!(", {}", list(&times)) };
    let cost = |rung: &Rung<'_>| rung.per_frame(CaptureTime::capture_ns).map(full);
    let unit = if best.cycles_per_ns().is_some() { "cycles" } else { "ns" };
    let cost = match (cost(best), cost(first).filter(|_| other(&first))) {
        (Some(is), Some(was)) => format!(" A frame costs {is} {unit} in place of {was}."),
        (Some(is), None) => format!(" A frame costs {is} {unit}."),
        _ => String::new(),
    };
    let bound = if best.is_bound() { "at least " } else { "" };
    let name = best.label();
    Some(format!(
        "{traffic}: {name} captures most without loss, {bound}{} frames/s{times}.{cost}",
        si(fps(&best))
    ))
}

/// A sentence or two for each rung: how it stands to the one before it with the same traffic.
fn story(rungs: &[Rung<'_>]) -> Vec<String> {
    let before = |i: usize| {
        let earlier = rungs[..i].iter().rev();
        earlier
            .into_iter()
            .find(|other| other.traffic() == rungs[i].traffic() && other.lossless_fps().is_some())
    };
    rungs.iter().enumerate().filter_map(|(i, rung)| sentence(rung, before(i))).collect()
}

fn sentence(rung: &Rung<'_>, before: Option<&Rung<'_>>) -> Option<String> {
    let fps = rung.lossless_fps()?;
    let bound = if rung.is_bound() { "at least " } else { "" };
    let verb = if rung.name == "count" { "counts" } else { "captures" };
    let head =
        format!("{} ({}) {verb} {bound}{} frames/s without loss", rung.label(), rung.traffic(), si(fps));
    let Some(before) = before else {
        let parts =
            PARTS.iter().filter_map(|(name, of)| Some(format!("{} in {name}", full(rung.per_frame(of)?))));
        let parts: Vec<String> = parts.collect();
        let cost = rung.per_frame(CaptureTime::capture_ns).filter(|_| !parts.is_empty());
        let unit = if rung.cycles_per_ns().is_some() { "cycles" } else { "ns" };
        let cost = cost.map(|all| format!(": a frame costs {} {unit}, {}", full(all), list(&parts)));
        return Some(head + &cost.unwrap_or_default() + ".");
    };
    let ratio = fps / before.lossless_fps()?;
    let how = match ratio {
        _ if (ratio - 1.0).abs() <= SAME => format!("as {} does", before.label()),
        _ => format!("{} times {}", significant(ratio), before.label()),
    };
    let change = change(rung, before).map(|text| format!(" {text}")).unwrap_or_default();
    Some(format!("{head}, {how}.{change}"))
}

/// Which cost went away, or came, and with which habit.
fn change(rung: &Rung<'_>, before: &Rung<'_>) -> Option<String> {
    let unit = if rung.cycles_per_ns().is_some() { "cycles" } else { "ns" };
    let all = |rung: &Rung<'_>| rung.per_frame(CaptureTime::capture_ns);
    let (was, is) = (all(before)?, all(rung)?);
    let difference = |of: &Part| Some(rung.per_frame(of)? - before.per_frame(of)?);
    let (name, of) = PARTS.iter().max_by(|(_, a), (_, b)| {
        let size = |of| difference(of).unwrap_or(0.0).abs();
        size(a).total_cmp(&size(b))
    })?;
    let (part_was, part_is) = (before.per_frame(of)?, rung.per_frame(of)?);
    let calls = |rung: &Rung<'_>| rung.calls_per_frame().map(|calls| significant(calls * 1000.0));
    let calls = match (calls(before), calls(rung)) {
        (Some(was), Some(is)) if was != is => format!(" System calls per 1000 frames: {was}, now {is}."),
        _ => String::new(),
    };
    let gone = went_away(rung, before).map(|gone| format!(" What goes away: {gone}.")).unwrap_or_default();
    Some(format!(
        "A frame costs {} {unit} in place of {}; what changes most is {name}: {} in place of {}.{gone}{calls}",
        full(is),
        full(was),
        full(part_is),
        full(part_was)
    ))
}

/// The causes that cost less than on the rung before, as far as they are worth a word.
fn went_away(rung: &Rung<'_>, before: &Rung<'_>) -> Option<String> {
    let (now, then) = (rung.shares()?, before.shares()?);
    let worth = then.iter().map(|(_, cost)| cost).sum::<f64>() * SAME;
    let saved = then.iter().map(|(cause, cost)| {
        let left = now.iter().find(|(c, _)| c == cause).map_or(0.0, |(_, cost)| *cost);
        (cost - left, format!("{cause} ({} of {})", full(cost - left), full(*cost)))
    });
    let mut saved: Vec<_> = saved.filter(|(cost, _)| *cost > worth).collect();
    saved.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    let list: Vec<String> = saved.into_iter().take(3).map(|(_, text)| text).collect();
    (!list.is_empty()).then(|| super::format::list(&list))
}

#[cfg(test)]
mod tests;
