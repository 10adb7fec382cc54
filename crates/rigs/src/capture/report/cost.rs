//! The cost of a frame with each method: the owners of its CPU time, its system calls and wake-ups, and where in the kernel the
//! time goes.

use super::{ByTraffic, Method, PARTS, bars, by_traffic};
use weir_record::profile::{CAUSES, Profile};
use weir_record::record::CaptureTime;
use weir_report::report::bars::{Bar, BarChart, Part};
use weir_report::report::block::Block;
use weir_report::report::flame;
use weir_report::view::format::{full, or_dash, percent, significant};
use weir_report::view::page::fill_legend;
use weir_report::view::svg::class;
use weir_report::view::{Style, Table};

/// All but the chart.
pub(super) fn blocks(methods: &[Method<'_>]) -> Vec<Block> {
    let mut blocks = vec![Block::Heading("What a frame costs")];
    blocks.extend(Block::named(costs(methods)));
    blocks.push(Block::Note(COST.into()));
    blocks.extend(time(methods));
    blocks
}

const COST: &str = "At 90 % of the rate without loss, or at full speed where nothing is lost. CPU time in reference cycles: time on a CPU times the frequency of \
    the time stamp counter, per captured frame. Receiving: the kernel's softirq, with the driver, the XDP program, the \
    stack and copies into rings. The capture thread: within system calls, and the method's own code outside of them. \
    Consumer: what the same thread then does with the frame, here reading its first 64 bytes. Receiving: the exact time of the kernel's thread that does it; on the generator's CPU sampled as \
    a share of the exact time of the generator's thread, and with RPS as time of other CPUs; the capture thread's time is exact, its division between kernel \
    and program is sampled by the tick, and that between its own code and the consumer by the profile below. \
    Busy polling takes all of its CPU's time, also that in which nothing comes.";

/// How the parts of a cost are drawn; the last is the generator's, which no capture pays.
fn style(part: usize) -> Style {
    let colour = [1, 2, 3, 5, 0][part];
    Style { colour, marker: 0, pattern: usize::from(part == PARTS.len()) }
}

/// The CPU time of a frame by its owner, method by method, with a legend; empty if unknown.
pub(super) fn chart(methods: &[Method<'_>]) -> String {
    let (groups, text) = bars(methods, bar);
    if text.is_empty() {
        return String::new();
    }
    let unit = format!("{} per frame", unit(methods));
    let drawing = BarChart { groups, unit, number: full, limit_name: String::new() }
        .draw("CPU time per captured frame, by method", &text);
    let names = PARTS.iter().map(|(name, _)| *name).chain(["the generator"]);
    let styles: Vec<_> = names.enumerate().map(|(part, name)| (class(style(part)), name)).collect();
    let legend: Vec<_> = styles.iter().map(|(class, name)| (class.as_str(), *name)).collect();
    format!("<div>{drawing}{}</div>", fill_legend(&legend))
}

fn bar(method: &Method<'_>) -> Option<Bar> {
    let (capture, sending) =
        (method.per_frame(CaptureTime::capture_ns)?, method.per_frame(|time| time.generator_ns)?);
    let part = |(i, name, value): (usize, &str, f64)| Part {
        value,
        title: format!("{}: {name} {}", method.label(), full(value)),
        style: style(i),
    };
    let own = PARTS.iter().filter_map(|(name, of)| Some((*name, method.per_frame(of)?)));
    let parts: Vec<_> = own.chain([("the generator", sending)]).enumerate().collect();
    let title: Vec<_> = parts.iter().map(|(_, (name, value))| format!("{name} {}", full(*value))).collect();
    Some(Bar {
        label: method.label(),
        value: Some(capture + sending),
        parts: parts.into_iter().map(|(i, (name, value))| part((i, name, value))).collect(),
        interval: None,
        ticks: Vec::new(),
        text: format!("{} + {}", full(capture), full(sending)),
        title: format!("{}: {}", method.label(), title.join(", ")),
        style: style(0),
        fits: true,
    })
}

fn unit(methods: &[Method<'_>]) -> &'static str {
    if methods.iter().any(|method| method.cycles_per_ns().is_some()) { "cycles" } else { "ns" }
}

pub(super) fn costs(methods: &[Method<'_>]) -> ByTraffic {
    let table = |(traffic, group): (String, Vec<&Method<'_>>)| {
        let mut table = Table::new(&[
            "Method",
            "At frames/s",
            &format!("Capture, {} per frame", unit(methods)),
            "Receiving (softirq)",
            "Capture thread: system calls",
            "Capture thread: own code",
            "Consumer",
            "Generator",
            "System calls per 1000 frames",
            "Wake-ups per 1000 frames",
        ]);
        for method in group.into_iter().filter(|method| method.cost.is_some()) {
            let part = |of: fn(&CaptureTime) -> u64| or_dash(method.per_frame(of), full);
            table.push(vec![
                method.label(),
                or_dash(method.cost.as_ref(), |(trial, _)| full(trial.sent_fps())),
                part(CaptureTime::capture_ns),
                part(|time| time.receive_ns),
                part(|time| time.system_ns),
                part(|time| time.user_ns),
                or_dash(method.consumer(), full),
                part(|time| time.generator_ns),
                or_dash(method.calls_per_frame(), |n| significant(n * 1000.0)),
                or_dash(method.wakeups_per_frame(), |n| significant(n * 1000.0)),
            ]);
        }
        (traffic, table)
    };
    by_traffic(methods).into_iter().map(table).filter(|(_, table)| !table.is_empty()).collect()
}

// ---- where the time goes -------------------------------------------------------------------------------

/// The owners of the time that capturing costs.
pub(super) const CAPTURING: [&str; 3] = [Profile::RECEIVE, Profile::RECEIVE_ELSEWHERE, Profile::CAPTURE];
/// Functions of each method in the table.
const TOP: usize = 5;

const TIME: &str = "Reference cycles per frame by cause, in the kernel's receive softirq and the capture threads. All \
    CPUs are sampled by the kernel's own clock (cpu-clock) during the trial of costs; the share of the samples is that \
    of the time. A sample counts for the cause of the innermost function that is known. While interrupts are off no \
    sample is taken: that time shows where they come on again, often in locks. Sampling itself costs some percent.";

fn time(methods: &[Method<'_>]) -> Vec<Block> {
    let by_cause = causes(methods);
    if by_cause.is_empty() {
        return Vec::new();
    }
    let flames = methods.iter().filter_map(|method| Some((method, method.profile()?)));
    let flames = flames.map(|(method, profile)| {
        let name = format!("{}, {}", method.label(), method.traffic());
        let drawing = flame::draw(&profile.stacks, &format!("Flame graph of {name}"));
        Block::Folded(format!("Flame graph: {name}"), vec![Block::Wide(drawing, FLAME)])
    });
    let functions = Block::Table(functions(methods));
    let mut blocks = vec![Block::Heading("Where the time goes")];
    blocks.extend(Block::named(by_cause));
    blocks.push(Block::Note(TIME.into()));
    blocks.push(Block::Folded("The functions that take most time".into(), vec![functions]));
    blocks.extend(flames);
    blocks
}

const FLAME: &str = "Width: share of the samples of all CPUs, idle time left out; callers are below the functions that they call.";

/// A table for each kind of traffic: methods stand side by side, and causes below each other.
pub(super) fn causes(methods: &[Method<'_>]) -> ByTraffic {
    let table = |(traffic, group): (String, Vec<&Method<'_>>)| {
        let columns: Vec<_> =
            group.into_iter().filter_map(|method| Some((method.label(), method.shares()?))).collect();
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
        if !table.is_empty() {
            let sums = columns.iter().map(|(_, shares)| full(shares.iter().map(|(_, cost)| cost).sum()));
            table.push(std::iter::once("together".to_string()).chain(sums).collect());
        }
        (traffic, table)
    };
    by_traffic(methods).into_iter().map(table).filter(|(_, table)| !table.is_empty()).collect()
}

pub(super) fn functions(methods: &[Method<'_>]) -> Table {
    let mut table = Table::new(&["Traffic", "Method", "Share", "Function", "Cause"]);
    for (method, profile) in methods.iter().filter_map(|method| Some((method, method.profile()?))) {
        let functions = profile.by_function(&CAPTURING);
        let all: u64 = functions.iter().map(|(_, n)| n).sum();
        for ((function, cause), n) in functions.iter().take(TOP) {
            let share = percent(*n as f64 / all as f64);
            table.push(vec![method.traffic(), method.label(), share, (*function).into(), (*cause).into()]);
        }
    }
    table
}
