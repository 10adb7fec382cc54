//! The first screen: the captured rate and the loss of each program at full speed, and the ratio of weir to it.

use weir_measure::stats;
use weir_record::run_data::RunData;
use weir_report::report::answer::Answer;
use weir_report::view::format::{bracketed, full, list, or_dash, percent, si, significant, whole_percent};
use weir_report::view::{Bound, Rate, Ratio, Table, frame_name};

use super::report::{
    CAPTION, CaptureTool, FULL, absent, chart, cost_ratio, groups, has_cycles, job, ratio, tools,
};
use crate::peers::report::{self, bounded, drawing, grouped, is_open, span, unique};

/// A program that is sent less than this times what it captures may capture more.
const OVERLOADED: f64 = 1.05;
/// A program that loses less than this share is not named for it.
const NAMED_LOSS: f64 = 0.01;
/// With more groups than this, a table has no room for what each loses.
const GROUPS_WITH_LOSS: usize = 3;

type Group<'c, 'a> = Vec<&'c CaptureTool<'a>>;

/// The answer of a run that compares programs that capture.
pub(super) fn answer(data: &RunData) -> Option<Answer> {
    let tools = tools(data);
    let groups = groups(&tools);
    let frames = grouped(&groups, |group| group[0].data.point.frame.as_str());
    let mut sentences: Vec<String> = frames.iter().filter_map(|groups| sentence(groups)).collect();
    if sentences.is_empty() {
        return None;
    }
    sentences.extend(lost(&tools));
    sentences.extend(absent(&tools));
    let table = if let [one] = &groups[..] { alone(one) } else { matrix(&tools, &groups) };
    Some(report::answer(sentences, table, COLUMNS, drawing(chart(&tools), CAPTION)))
}

const COLUMNS: &str = "Frames/s captured while the generator sends as fast as it can, the time included in which a program empties its \
    buffer afterwards; lost: of what was sent then. ≥: the generator sent less than 1.05 times as much, so that the program may capture \
    more; two such rates have no ratio.";

/// What a program captures at full speed; a lower bound where the generator sends hardly more.
pub(super) fn rate(tool: &CaptureTool<'_>) -> Option<Rate> {
    let goal = tool.goal(FULL)?;
    let fps = goal.fps_median?;
    let sent: Vec<f64> =
        tool.full.iter().map(|trial| trial.counts().sent as f64 / trial.duration_s).collect();
    let overloaded = stats::median(&sent).is_some_and(|sent| sent >= OVERLOADED * fps);
    let bound = if overloaded { Bound::Exact } else { Bound::AtLeast };
    Some(Rate { fps, interval: goal.fps_interval, bound })
}

/// The best of ours or of the others.
fn best<'c, 'a>(group: &[&'c CaptureTool<'a>], own: bool) -> Option<(&'c CaptureTool<'a>, Rate)> {
    let all = group.iter().filter(|tool| tool.is_own() == own).filter_map(|&tool| Some((tool, rate(tool)?)));
    all.max_by(|(_, a), (_, b)| a.fps.total_cmp(&b.fps))
}

/// How many times as much ours captures, round by round; `None` where both rates are lower bounds.
pub(super) fn times(own: &CaptureTool<'_>, peer: &CaptureTool<'_>) -> Option<Ratio> {
    let found = ratio(own, peer, FULL)?;
    bounded(found.value, found.interval, [rate(own)?.bound, rate(peer)?.bound])
}

/// `2.10 times tcpdump (1.90 to 2.30)`: how many times as much ours captures; by the CPU time of a frame where both rates are
/// lower bounds.
fn beside(own: &CaptureTool<'_>, peer: &CaptureTool<'_>) -> Option<String> {
    let name = peer.name();
    if rate(own)?.bound.over(rate(peer)?.bound) == Bound::NoResult {
        let cost = cost_ratio(own, peer)?;
        let interval = cost.interval.map_or_else(String::new, bracketed);
        let times = significant(cost.value);
        return Some(format!("and a frame costs {name} {times} times as much CPU time{interval}"));
    }
    let found = times(own, peer)?;
    let interval = found.interval.map_or_else(String::new, bracketed);
    let open = if is_open(found.interval) { "not distinguished from " } else { "" };
    Some(format!("{}{} times {open}{name}{interval}", found.bound.words(), significant(found.value)))
}

/// One frame size: what the best of ours captures at each job, beside the best of the others.
fn sentence(groups: &[&Group<'_, '_>]) -> Option<String> {
    let jobs = groups.iter().filter_map(|group| {
        let (tool, found) = best(group, true)?;
        let (verb, to) = match job(tool) {
            "count" => ("counts", ""),
            "headers" => ("writes headers of", ""),
            _ => ("writes", " to a file"),
        };
        let beside = best(group, false).and_then(|(peer, _)| beside(tool, peer));
        let beside = beside.map_or_else(String::new, |text| format!(", {text}"));
        Some(format!("{} {verb} {} frames/s{to}{beside}", tool.name(), found.words()))
    });
    let jobs: Vec<String> = jobs.collect();
    let frame = frame_name(&groups[0][0].data.point.frame);
    (!jobs.is_empty()).then(|| format!("At {frame} {}.", jobs.join("; ")))
}

/// Which programs lose how much at full speed, at worst of their jobs.
fn lost(tools: &[CaptureTool<'_>]) -> Option<String> {
    let worst = grouped(tools, |tool| tool.name()).into_iter().filter_map(|same| {
        let shares = same.iter().filter_map(|tool| tool.lost_share());
        Some((same[0].name(), shares.reduce(f64::max)?))
    });
    let said = |(name, share): (&str, f64)| match share {
        share if share < NAMED_LOSS => format!("{name} less than 1 %"),
        share => format!("{name} {}", whole_percent(share)),
    };
    let named: Vec<String> = worst.map(said).collect();
    (!named.is_empty()).then(|| format!("At full speed they lose, at most of their jobs: {}.", list(&named)))
}

/// A single job with a single kind of frames: a line for each program.
fn alone(group: &[&CaptureTool<'_>]) -> Table {
    let own = best(group, true);
    let cost = if has_cycles(group.iter().copied()) { "cycles" } else { "ns" };
    let columns = format!("program | frames/s | 95 % interval | lost | weir / it | 95 % interval | {cost}");
    let mut table = report::table(&columns);
    for tool in group.iter().filter(|tool| tool.takes_part()) {
        let found = rate(tool);
        let by_it = own.filter(|_| !tool.is_own()).and_then(|(own, _)| times(own, tool));
        table.push(vec![
            tool.name().into(),
            or_dash(found, |rate| rate.sign()),
            span(found.and_then(|rate| rate.interval), si),
            or_dash(tool.lost_share(), percent),
            or_dash(by_it, |ratio| significant(ratio.value)),
            span(by_it.and_then(|ratio| ratio.interval), significant),
            or_dash(tool.cost(), full),
        ]);
    }
    table.without_empty(&["95 % interval", "weir / it"])
}

/// A line for each program, columns for each job and frame size.
fn matrix(tools: &[CaptureTool<'_>], groups: &[Group<'_, '_>]) -> Table {
    let with_loss = groups.len() <= GROUPS_WITH_LOSS;
    let frames = groups.iter().any(|group| group[0].data.point.frame != groups[0][0].data.point.frame);
    let mut head = vec!["program".to_string()];
    for group in groups {
        let frame = if frames { format!("{} ", group[0].data.point.frame) } else { String::new() };
        head.push(format!("{frame}{}", job(group[0])));
        head.extend(with_loss.then(|| "lost".to_string()));
    }
    let mut table = Table::new(&head);
    let present = tools.iter().filter(|tool| tool.takes_part()).map(CaptureTool::name);
    for name in unique(present) {
        let mut row = vec![name.to_string()];
        for group in groups {
            let tool = group.iter().find(|tool| tool.name() == name);
            row.push(or_dash(tool.and_then(|tool| rate(tool)), |rate| rate.sign()));
            let lost = || or_dash(tool.and_then(|tool| tool.lost_share()), percent);
            row.extend(with_loss.then(lost));
        }
        table.push(row);
    }
    table
}
