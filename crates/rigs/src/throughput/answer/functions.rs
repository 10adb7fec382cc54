//! Devices that do the same job: the node beside the kernel, function by function.

use weir_testbed::dut::{DutKind, Function, System};

use super::axes::{Axes, Group};
use super::bars::{self, Group as Bars};
use weir_record::run_data::{PointData, RunData};
use weir_report::report::answer::{Answer, cycles, headline, p99_at_half, times, trust};
use weir_report::view::format::{full, list, or_dash, range, time_ns};
use weir_report::view::{Bound, Ratio, Table};

const AXIS: &str = "dut";
const COLUMNS: &str = "of kernel: the rate divided by that of the kernel's device with the same function; cycles: reference cycles \
    of the device per frame; p99: 99th percentile of the latency at about half of the rate.";

/// `None` where no device of the node stands beside one of the kernel that does the same.
pub(super) fn answer(data: &RunData) -> Option<Answer> {
    let axes = Axes::without(data, &[AXIS]);
    let groups = axes.groups(data);
    let all: Vec<(&Group<'_>, Vec<Job<'_>>)> = groups
        .iter()
        .map(|group| (group, jobs(group)))
        .filter(|(_, jobs)| jobs.iter().any(Job::is_compared))
        .collect();
    if all.is_empty() {
        return None;
    }
    let single = all.len() == 1;
    let sentences = all.iter().map(|(group, jobs)| sentence(&place(group, single), jobs));
    let beside = all.first().and_then(|(_, jobs)| beside(jobs));
    let rows = all.iter().flat_map(|(group, jobs)| jobs.iter().map(move |job| (*group, job)));
    let bars = rows.map(|(group, job)| {
        let label = if single {
            job.name().to_string()
        } else {
            format!("{}, {}", job.name(), group.cells.join(", "))
        };
        Bars {
            label,
            points: job.points.iter().map(|(_, point)| (point.point.dut.clone(), *point)).collect(),
        }
    });
    Some(Answer {
        sentences: sentences.chain(beside).chain(trust(data)).collect(),
        table: table(&axes, &all),
        columns: COLUMNS.into(),
        drawing: bars::of_rates(bars.collect()),
    })
}

/// What devices of the kernel with another function have of what plain forwarding has, at the first traffic.
pub(super) fn by_forwarding(data: &RunData) -> Option<String> {
    let groups = Axes::without(data, &[AXIS]).groups(data);
    let group = groups.first()?;
    let plain = *group.points.iter().find(|point| point.point.dut == DutKind::KERNEL_FORWARD.to_string())?;
    let others = group.points.iter().filter(|point| point.point.index != plain.point.index);
    let parts =
        others.filter_map(|point| Some(format!("{} has {}", point.point.dut, times(point, plain)?.words())));
    let parts: Vec<String> = parts.collect();
    let place =
        if group.cells.is_empty() { String::new() } else { format!("With {}: ", place(group, false)) };
    (!parts.is_empty()).then(|| format!("{place}{} of what {} forwards.", list(&parts), plain.point.dut))
}

/// The traffic of a group, which begins a sentence.
fn place(group: &Group<'_>, single: bool) -> String {
    let words = group.label.split_once(", ").map_or("", |(_, words)| words);
    if single || words.is_empty() { String::new() } else { words.to_string() }
}

/// Devices that do the same with the same frames.
struct Job<'a> {
    function: Function,
    points: Vec<(DutKind, &'a PointData)>,
}

fn jobs<'a>(group: &Group<'a>) -> Vec<Job<'a>> {
    let mut jobs: Vec<Job<'a>> = Vec::new();
    for point in &group.points {
        let Ok(kind) = point.point.dut.parse::<DutKind>() else { continue };
        match jobs.iter_mut().find(|job| job.function == kind.function()) {
            Some(job) => job.points.push((kind, point)),
            None => jobs.push(Job { function: kind.function(), points: vec![(kind, point)] }),
        }
    }
    jobs
}

impl<'a> Job<'a> {
    fn name(&self) -> &'static str {
        match self.function {
            Function::Forward => "forwarding",
            Function::Stateless => "rules without connections",
            Function::Stateful => "rules with connections",
            Function::Nat => "NAT",
            Function::Nat64 => "NAT64",
            Function::Bridge => "bridge",
            Function::Pass | Function::Queue | Function::Faults | Function::Unknown => "other",
        }
    }

    /// The kernel's device.
    fn kernel(&self) -> Option<&'a PointData> {
        self.points.iter().find(|(kind, _)| kind.system() == System::Kernel).map(|(_, point)| *point)
    }

    /// The node's, that with the highest rate first.
    fn nodes(&self) -> Vec<&'a PointData> {
        let mut nodes: Vec<&PointData> = self.of(|kind| kind.is_node()).collect();
        let fps = |point: &PointData| headline(point).map_or(0.0, |rate| rate.fps);
        nodes.sort_by(|a, b| fps(b).total_cmp(&fps(a)));
        nodes
    }

    /// Programs of XDP, which show what the test bed allows.
    fn programs(&self) -> impl Iterator<Item = &'a PointData> + '_ {
        self.of(|kind| kind.system() == System::Xdp)
    }

    fn of(&self, is_it: fn(DutKind) -> bool) -> impl Iterator<Item = &'a PointData> + '_ {
        self.points.iter().filter(move |(kind, _)| is_it(*kind)).map(|(_, point)| *point)
    }

    fn is_compared(&self) -> bool {
        self.kernel().is_some() && self.points.iter().any(|(kind, _)| kind.is_node())
    }

    /// The node's devices with how many times as much they pass as the kernel's.
    fn ratios(&self) -> Vec<(&'a PointData, Option<Ratio>)> {
        let Some(kernel) = self.kernel() else { return Vec::new() };
        self.nodes().into_iter().map(|node| (node, times(node, kernel))).collect()
    }

    /// `node-nat-fast passes 4.70 times (4.61 to 4.80) as many frames as kernel-nat, node-nat 2.20 times`
    fn words(&self) -> Option<String> {
        let kernel = self.kernel()?;
        let (known, unknown): (Vec<_>, Vec<_>) =
            self.ratios().into_iter().partition(|(_, ratio)| ratio.is_some());
        let mut parts = Vec::new();
        for (i, (node, ratio)) in
            known.iter().filter_map(|(node, ratio)| Some((node, ratio.as_ref()?))).enumerate()
        {
            let (name, ratio) = (&node.point.dut, ratio.words());
            parts.push(match i {
                0 => format!("{name} passes {ratio} times as many frames as {}", kernel.point.dut),
                _ => format!("{name} {ratio} times"),
            });
        }
        let (bounds, missing): (Vec<&PointData>, Vec<&PointData>) = unknown
            .iter()
            .map(|(node, _)| *node)
            .partition(|node| headline(node).is_some() && headline(kernel).is_some());
        let cannot = |nodes: &[&PointData], why: &str| {
            let names: Vec<String> = nodes.iter().map(|node| node.point.dut.clone()).collect();
            format!("{} cannot be compared with {}: {why}", list(&names), kernel.point.dut)
        };
        parts.extend((!bounds.is_empty()).then(|| cannot(&bounds, "their rates are bounds")));
        parts.extend((!missing.is_empty()).then(|| cannot(&missing, "a rate is missing")));
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}

/// The faster device, and by how much in each function.
fn sentence(place: &str, jobs: &[Job<'_>]) -> String {
    let ratios: Vec<Ratio> = jobs.iter().flat_map(Job::ratios).filter_map(|(_, ratio)| ratio).collect();
    if ratios.is_empty() {
        return "Whether the node is faster than the kernel is unknown: no two devices of the same function have comparable rates."
            .into();
    }
    let ends = |ratio: &Ratio| ratio.interval.unwrap_or((ratio.value, ratio.value));
    let is_faster = |ratio: &&Ratio| ratio.bound != Bound::AtMost && ends(ratio).0 > 1.0;
    let is_slower = |ratio: &&Ratio| ratio.bound != Bound::AtLeast && ends(ratio).1 < 1.0;
    let (faster, slower) = (ratios.iter().filter(is_faster).count(), ratios.iter().filter(is_slower).count());
    let verdict = match ratios.len() {
        n if faster == n => "The node is faster than the kernel".to_string(),
        n if slower == n => "The node is slower than the kernel".into(),
        n => format!("The node is faster than the kernel in {faster} of {n} comparisons, slower in {slower}"),
    };
    let place = if place.is_empty() { String::new() } else { format!(" ({place})") };
    // What is known first.
    let (known, unknown): (Vec<_>, Vec<_>) = jobs
        .iter()
        .filter(|job| job.is_compared())
        .partition(|job| job.ratios().iter().any(|(_, ratio)| ratio.is_some()));
    let parts: Vec<String> = known.into_iter().chain(unknown).filter_map(Job::words).collect();
    format!("{verdict}{place}: {}.", parts.join("; "))
}

/// What programs in the driver pass beside the node, which shows what the test bed allows.
fn beside(jobs: &[Job<'_>]) -> Option<String> {
    let found = jobs.iter().find_map(|job| Some((*job.nodes().first()?, job.programs().next()?)));
    let (node, program) = found?;
    let (own, most) = (headline(node)?, headline(program)?);
    Some(format!(
        "{}, which only forwards frames in the driver, has {} frames/s, and {} {}.",
        program.point.dut,
        most.words(),
        node.point.dut,
        own.words()
    ))
}

fn table(axes: &Axes, all: &[(&Group<'_>, Vec<Job<'_>>)]) -> Table {
    let own = ["device", "frames/s", "of kernel", "95 % interval", "cycles", "p99 at half"];
    let mut table = Table::new(&axes.head().into_iter().chain(own.map(String::from)).collect::<Vec<_>>());
    for (group, job) in all.iter().flat_map(|(group, jobs)| jobs.iter().map(move |job| (group, job))) {
        for (_, point) in &job.points {
            let other = job.kernel().filter(|kernel| kernel.point.index != point.point.index);
            let ratio = other.and_then(|kernel| times(point, kernel));
            let cells = [
                point.point.dut.clone(),
                or_dash(headline(point), |rate| rate.sign()),
                or_dash(ratio, |ratio| ratio.sign()),
                or_dash(ratio.and_then(|ratio| ratio.interval), range),
                or_dash(cycles(point), full),
                or_dash(p99_at_half(point), time_ns),
            ];
            table.push(group.cells.iter().cloned().chain(cells).collect());
        }
    }
    table.without_empty(&["of kernel", "95 % interval", "cycles", "p99 at half"])
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Measured, run, shown};

    fn of(dut: &str, fps: f64) -> Measured<'_> {
        Measured { dut, frame: 64, settings: Vec::new(), fps }
    }

    #[test]
    fn each_device_of_the_node_is_divided_by_the_kernels_of_its_function() {
        let text = shown(&run(&[
            of("xdp-forward", 970e3),
            of("kernel-forward", 400e3),
            of("node-forward", 480e3),
            of("node-forward-fast", 1100e3),
            of("kernel-nat", 200e3),
            of("node-nat", 440e3),
            of("node-nat-fast", 940e3),
        ]));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[..2],
            [
                "The node is faster than the kernel: node-forward-fast passes 2.75 (2.71 to 2.79) times as many frames as \
                 kernel-forward, node-forward 1.20 (1.18 to 1.22) times; node-nat-fast passes 4.70 (4.64 to 4.76) times as \
                 many frames as kernel-nat, node-nat 2.20 (2.17 to 2.23) times.",
                "xdp-forward, which only forwards frames in the driver, has 970 k frames/s, and \
                 node-forward-fast 1.10 M."
            ]
        );
        let row = lines.iter().rfind(|line| line.starts_with("node-nat-fast ")).unwrap();
        let cells: Vec<&str> = row.split_whitespace().take(4).collect();
        assert_eq!(cells, ["node-nat-fast", "940k", "4.70", "4.64–4.76"]);
    }

    #[test]
    fn without_rates_nothing_is_known() {
        let mut data = run(&[of("kernel-nat", 200e3), of("node-nat", 440e3)]);
        data.points
            .iter_mut()
            .filter_map(|point| point.point.result.as_mut())
            .for_each(|result| result.goals.clear());
        assert!(
            shown(&data).starts_with("Whether the node is faster than the kernel is unknown"),
            "{}",
            shown(&data)
        );
    }

    #[test]
    fn a_slower_node_is_said_to_be_slower() {
        let said = shown(&run(&[of("kernel-nat", 200e3), of("node-nat", 100e3)]));
        assert!(said.starts_with("The node is slower than the kernel: node-nat passes 0.500 "), "{said}");
        let mixed = [of("kernel-nat", 200e3), of("node-nat", 100e3), of("node-nat-fast", 400e3)];
        assert!(
            shown(&run(&mixed))
                .starts_with("The node is faster than the kernel in 1 of 2 comparisons, slower in 1: ")
        );
    }
}
