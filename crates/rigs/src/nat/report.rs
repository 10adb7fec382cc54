//! The section of a NAT: correctness, rate, latency, and the cost of flows.

use super::figure::{
    ID, LATE, MEMORY, PERCENTILES, cycles, figures, inside_fps, loss_at, rate_fps, round_trip_at,
    shared_loads, value,
};
use super::judged::{Seen, ended_entries, mistakes};
use super::plan::Step;
use super::published;
use super::table::{self, CHAIN, EARLY_DROP, FORMULA, INSERT_FAILED, TABLE_DROP};
use weir_record::record::{Latency, Translation, Trial, Verdict};
use weir_record::run_data::{PointData, RunData, latency, loss_ratio};
use weir_report::report::block::{Block, Part};
use weir_report::report::lines::{Axis, Dot, DotKind, Line, Panel, range};
use weir_report::view::curve::by_load;
use weir_report::view::format::{bytes, full, list, or_dash, percent, si, significant, time_ns};
use weir_report::view::{Comparison, Series, Style, Table};

const CAPTION: &str = "One line for each NAT, the median of its valid trials at a load; dots are trials, crosses those that are not \
    valid. Flag: the highest load with a loss ratio as the plan allows it. Time: from the tester through the NAT, reflected, and \
    back through it to the tester.";

const METHOD: &str = "Every frame is checked on both sides: outside, its source must be a public address, its tuple that of the first \
    frame of its flow, its destination the one that was sent to, and no two flows may share a tuple; inside, an answer must be for \
    the subscriber and the port that its flow began at. What fails a check is no translated frame and counts as lost. The checks \
    and the reflection run on the device's CPU and are part of what it has to do; the wire's ceiling includes them. A line is no \
    limit here: the wires are virtual.";

/// Is a point one of this rig?
fn is_nat(data: &PointData) -> bool {
    data.point.result.as_ref().is_some_and(|result| result.procedures.iter().any(|p| p.procedure == ID))
}

pub(super) fn points(data: &RunData) -> Vec<&PointData> {
    data.points.iter().filter(|point| is_nat(point)).collect()
}

/// Its section of a report.
pub(super) fn parts(data: &RunData) -> Vec<Part> {
    let points = points(data);
    if points.is_empty() {
        return Vec::new();
    }
    let mut blocks = Vec::new();
    let broken = broken(&points);
    if !broken.is_empty() {
        blocks.push(Block::Bullets(broken));
    }
    let alike = alike(&points);
    if !alike.is_empty() {
        blocks.extend([Block::Sentence(ALIKE.into()), Block::Table(alike)]);
    }
    blocks.extend(curves(data));
    blocks.extend([Block::Heading("All steps of load"), Block::Table(steps(data))]);
    blocks.push(Block::Note(METHOD.into()));
    let flows = flows(&points);
    if !flows.is_empty() {
        blocks.extend([
            Block::Heading("What flows cost"),
            Block::Table(flows),
            Block::Note(MEMORY_NOTE.into()),
        ]);
    }
    let tables = tables(&points);
    if !tables.is_empty() {
        let both = |(heading, table)| [Block::Heading(heading), Block::Table(table)];
        blocks.extend(tables.into_iter().flat_map(both));
        blocks.extend(advice(&points).map(Block::Sentence));
        blocks.push(Block::Note(TABLE_NOTE.into()));
    }
    blocks.extend([
        Block::Heading("Beside published figures"),
        Block::Table(published::table(&data.run, &points)),
        Block::Note(published::CAVEATS.into()),
    ]);
    vec![Part { id: ID, heading: "NAT under load".into(), blocks }]
}

const MEMORY_NOTE: &str = "Memory: what the kernel's slabs and this program have grown by while the flows were established, divided by \
    them; a node has a part of its tables from the start, and the tester's own growth is in it. Fewer than 10,000 flows cannot be seen.";

const ALIKE: &str = "Round trips at loads that are the same for all:";

/// How addresses and ports were translated in each trial.
fn seen(data: &PointData) -> impl Iterator<Item = Seen> {
    Seen::of_point(data)
}

const TABLE_NOTE: &str = "Per bucket: each flow is in the chains of both its directions, whatever the chains really are. Memory by the \
    formula: 8 bytes a bucket and an object of the slab nf_conntrack an entry. Round trips are at half of the rate that the search of \
    the row found. A flow that comes back after its timeout is a new \
    one: with short timeouts and many flows the table churns.";

/// A row for each setting of the kernel's table: what it forwards, what it loses, what it takes; none where the plan does not set
/// it. No table is wider than a terminal.
fn tables(points: &[&PointData]) -> Vec<(&'static str, Table)> {
    let number = |data: &PointData, name: &str, text: fn(f64) -> String| or_dash(value(data, name), text);
    let trip = |data: &PointData, name: &str| {
        number(data, &round_trip_at(name, Step::Percent(50.0)), |s| time_ns(s * 1e9))
    };
    let speed = by_setting(points, &["per bucket", "frames/s", "p50 at half", "p99 at half"], |data| {
        let fps = or_dash(rate_fps(data), full);
        vec![number(data, CHAIN, significant), fps, trip(data, "median"), trip(data, LATE)]
    });
    let lost = by_setting(points, &["not inserted", "early drops", "no entry"], |data| {
        [INSERT_FAILED, EARLY_DROP, TABLE_DROP].map(|name| number(data, name, full)).to_vec()
    });
    let memory = by_setting(points, &["of a flow", "by the formula"], |data| {
        [MEMORY, FORMULA].map(|name| number(data, name, bytes)).to_vec()
    });
    let all = [("The kernel's connection table", speed), ("What it loses", lost), ("Its memory", memory)];
    all.into_iter().filter(|(_, table)| !table.is_empty()).collect()
}

fn by_setting(points: &[&PointData], names: &[&str], cells: impl Fn(&PointData) -> Vec<String>) -> Table {
    const SETTINGS: &[(&str, &str)] = &[
        ("nf_conntrack_buckets", "buckets"),
        ("nf_conntrack_max", "max"),
        ("nf_conntrack_udp_timeout", "UDP timeout"),
    ];
    let is_set = |data: &PointData| SETTINGS.iter().any(|(name, _)| data.setting(name).is_some());
    let set: Vec<&&PointData> = points.iter().filter(|data| is_set(data)).collect();
    // A timeout that is the same everywhere is among the options of the plan.
    let varies = |name: &str| set.windows(2).any(|pair| pair[0].setting(name) != pair[1].setting(name));
    let shown: Vec<_> =
        SETTINGS.iter().filter(|(name, text)| *text != "UDP timeout" || varies(name)).collect();
    let head = shown.iter().map(|(_, text)| *text).chain(["flows"]);
    let mut table = Table::new(&head.chain(names.iter().copied()).collect::<Vec<_>>());
    for data in set {
        let setting = |name: &str| data.setting(name).unwrap_or("as it is").to_string();
        let own = shown.iter().map(|(name, _)| setting(name)).chain([setting("flows")]);
        table.push(own.chain(cells(data)).collect());
    }
    table
}

/// The setting that this machine should have for the most flows that were measured.
fn advice(points: &[&PointData]) -> Option<String> {
    let of = |data: &&PointData| {
        data.setting("nf_conntrack_buckets").and(data.setting("flows")?.parse::<u64>().ok())
    };
    let flows = points.iter().filter_map(of).max()?;
    let entry = points.iter().filter_map(|data| value(data, MEMORY)).fold(320.0, f64::max);
    let fastest = points
        .iter()
        .filter(|data| of(data) == Some(flows))
        .filter_map(|data| Some((data, rate_fps(data)?)))
        .max_by(|a, b| a.1.total_cmp(&b.1));
    let fastest = fastest.map_or(String::new(), |(data, fps)| {
        let setting = |name: &str| data.setting(name).unwrap_or("as it is").to_string();
        format!(
            " Measured fastest with so many: {} frames/s with {} buckets and at most {} entries.",
            full(fps),
            setting("nf_conntrack_buckets"),
            setting("nf_conntrack_max")
        )
    });
    Some(format!("{}.{fastest}", table::advice(flows, entry)))
}

/// What is wrong, by device.
fn broken(points: &[&PointData]) -> Vec<String> {
    let of = |data: &&PointData| {
        let found = mistakes(seen(data)).into_iter().chain(ended_entries(seen(data)));
        let dut = &data.point.dut;
        found.map(move |text| format!("{dut}: {text}.")).collect::<Vec<_>>()
    };
    points.iter().flat_map(of).collect()
}

/// Throughput and round trips against load, all devices in each drawing.
fn curves(data: &RunData) -> Vec<Block> {
    let all = Comparison::new(std::slice::from_ref(data));
    let drawn: Vec<(&Series<'_>, &PointData)> = all
        .series
        .iter()
        .flat_map(|series| {
            series.points.iter().filter(|point| is_nat(point)).map(move |point| (series, *point))
        })
        .filter(|(_, point)| point.chosen_loads().next().is_some())
        .collect();
    if drawn.is_empty() {
        return Vec::new();
    }
    let legend: Vec<(Style, String)> =
        drawn.iter().map(|(series, _)| (series.style, series.label.clone())).collect();
    let mut drawings =
        vec![panel(&drawn, "translated there and back, frames/s", si, |trial| Some(inside_fps(trial)))];
    for (name, value) in PERCENTILES {
        drawings.push(panel(&drawn, &format!("round trip, {name}"), time_ns, move |trial| {
            round_trip(trial, value)
        }));
    }
    vec![Block::Legend(legend), Block::Drawing { drawings, caption: CAPTION }]
}

fn round_trip(trial: &Trial, value: fn(&Latency) -> u64) -> Option<f64> {
    latency(&trial.streams).map(|latency| value(&latency) as f64)
}

fn panel(
    drawn: &[(&Series<'_>, &PointData)],
    heading: &str,
    y_text: fn(f64) -> String,
    value: impl Fn(&Trial) -> Option<f64>,
) -> String {
    let trials = |point: &PointData| -> Vec<(Trial, f64)> {
        let steps = point.measured().filter(|trial| is_step(trial));
        steps.filter_map(|trial| value(trial).map(|value| (trial.clone(), value))).collect()
    };
    let line = |(series, point): &(&Series<'_>, &PointData)| {
        let dot = |(trial, value): &(Trial, f64)| Dot {
            at: (trial.counts().offered_fps, *value),
            kind: if trial.verdict == Verdict::Valid { DotKind::Filled } else { DotKind::Cross },
            title: format!(
                "{}, {} frames/s: {}",
                series.label,
                full(trial.counts().offered_fps),
                y_text(*value)
            ),
        };
        let dots: Vec<Dot> = trials(point).iter().map(dot).collect();
        let mark = point.headline_fps().map(|fps| (fps, format!("{}: {} frames/s", series.label, full(fps))));
        let line = by_load(dots.iter().filter(|dot| dot.kind == DotKind::Filled).map(|dot| dot.at));
        Line { style: series.style, line, dots, mark }
    };
    let lines: Vec<Line> = drawn.iter().map(line).collect();
    let values = |of: fn(&Dot) -> f64| range(lines.iter().flat_map(|line| line.dots.iter().map(of)));
    let (x_range, y_range) = (values(|dot| dot.at.0), values(|dot| dot.at.1));
    let panel = Panel {
        heading: heading.to_string(),
        x_name: "offered load, frames/s".into(),
        x_text: si,
        y_text,
        x_range,
        y_range,
        y_axis: Axis::Log,
        lines,
    };
    panel.draw(&format!("{heading} against load"), "The table has the values.")
}

/// Was it a step of load after the search?
fn is_step(trial: &Trial) -> bool {
    trial.purpose == weir_record::record::Purpose::Curve
}

/// Loads that all devices had, the least first, with the medians of their valid trials.
fn alike(points: &[&PointData]) -> Table {
    let head = ["Load, frames/s", "NAT", "RTT median", "RTT p99", "RTT p99.9", "Loss", "Trials"];
    let mut table = Table::new(&head);
    for fps in shared_loads(points) {
        let step = Step::Fps(fps);
        for data in points {
            let Some(loss) = figures(data).find(|figure| figure.name == loss_at(step)) else { continue };
            let time = |name| or_dash(value(data, &round_trip_at(name, step)), |s| time_ns(s * 1e9));
            let times = PERCENTILES[1..].iter().map(|(name, _)| time(name));
            let row = [full(fps), data.point.dut.clone()].into_iter().chain(times);
            table.push(row.chain([or_dash(loss.value, percent), loss.values.len().to_string()]).collect());
        }
    }
    table
}

/// All steps of all devices.
fn steps(data: &RunData) -> Table {
    let mut table = Table::new(&[
        "NAT",
        "Offered, frames/s",
        "Right outside, frames/s",
        "Right inside, frames/s",
        "Loss",
        "RTT min",
        "RTT median",
        "RTT p99",
        "RTT p99.9",
        "Cycles/frame",
        "Limit",
    ]);
    let all = Comparison::new(std::slice::from_ref(data));
    for series in &all.series {
        for point in series.points.iter().filter(|point| is_nat(point)) {
            let mut trials: Vec<&Trial> = point.measured().filter(|trial| is_step(trial)).collect();
            trials.sort_by(|a, b| a.counts().offered_fps.total_cmp(&b.counts().offered_fps));
            trials.into_iter().for_each(|trial| table.push(step(&series.label, trial)));
        }
    }
    table
}

fn step(label: &str, trial: &Trial) -> Vec<String> {
    let seen: Translation = trial.detail().unwrap_or_default();
    let latency = latency(&trial.streams);
    let outside = seen.outside as f64 / trial.duration_s;
    let mut row =
        vec![label.to_string(), full(trial.counts().offered_fps), full(outside), full(inside_fps(trial))];
    row.push(or_dash(loss_ratio(trial), percent));
    row.extend(PERCENTILES.map(|(_, value)| or_dash(latency.as_ref(), |l| time_ns(value(l) as f64))));
    row.push(or_dash(trial.cost.cycles_per_frame, full));
    row.push(match trial.verdict {
        Verdict::Valid => "–".into(),
        Verdict::TesterLimited => "tester".into(),
        Verdict::Noisy => "disturbed".into(),
        Verdict::Invalid => "invalid".into(),
    });
    row
}

/// A row for each point, where the numbers or the order of flows differ.
fn flows(points: &[&PointData]) -> Table {
    let mut table = Table::new(&[
        "NAT",
        "Flows",
        "Order",
        "Capacity, 1/s",
        "Throughput, 1/s",
        "Memory/flow",
        "Cycles/frame",
    ]);
    let traffic = |data: &PointData| {
        (data.setting("flows").map(str::to_string), data.setting("flow_order").map(str::to_string))
    };
    if points.iter().all(|data| traffic(data) == traffic(points[0])) {
        return table;
    }
    for data in points {
        let setting = |name: &str| data.setting(name).unwrap_or("–").to_string();
        let order = if setting("flow_order") == "sequential" { "ordered" } else { "random" };
        table.push(vec![
            data.point.dut.clone(),
            setting("flows"),
            order.to_string(),
            or_dash(data.capacity().and(rate_fps(data)), full),
            or_dash(data.headline_fps(), full),
            or_dash(value(data, MEMORY), bytes),
            or_dash(cycles(data), full),
        ]);
    }
    table.without_empty(&["Capacity, 1/s"])
}

/// What a run says, for the summary.
pub(super) fn findings(data: &RunData) -> Vec<String> {
    let points = points(data);
    let mut found = broken(&points);
    let mut names: Vec<&String> = points.iter().map(|data| &data.point.dut).collect();
    names.dedup();
    let is_right = |data: &&PointData| mistakes(seen(data)).is_empty() && ended_entries(seen(data)).is_none();
    let of = |name: &&String| points.iter().filter(|data| data.point.dut == **name).all(&is_right);
    let right: Vec<String> = names.into_iter().filter(|name| of(name)).cloned().collect();
    if !right.is_empty() {
        found.push(format!(
            "Each frame that came through {} had the right addresses and ports, outside and back inside.",
            list(&right)
        ));
    }
    found.extend(points.iter().filter_map(|data| trip(data)));
    found.extend(advice(&points));
    found.extend(points.iter().filter_map(|data| {
        let irregular = &data.point.result.as_ref()?.procedures.first()?.irregular;
        let text = irregular.iter().find(|text| text.starts_with("the tester"))?;
        Some(format!("{}: {text}.", data.point.dut))
    }));
    found
}

/// How long a round trip takes at half of the maximum, and at all of it.
fn trip(data: &PointData) -> Option<String> {
    let maximum = data.headline_fps()?;
    let capacity = data.capacity().and(rate_fps(data));
    let capacity = capacity.map_or(String::new(), |fps| format!(" ({} in overload)", full(fps)));
    let at = |share: f64| {
        let near = |trial: &&Trial| {
            is_step(trial) && (trial.counts().offered_fps / maximum / share - 1.0).abs() < 0.1
        };
        let mut valid = data.valid().filter(near);
        valid.find_map(|trial| latency(&trial.streams))
    };
    let (half, all) = (at(0.5)?, at(1.0)?);
    Some(format!(
        "{}: {} frames/s there and back{capacity}; a round trip takes {} (99th percentile {}) at {} frames/s and {} ({}) at {}.",
        data.point.dut,
        full(maximum),
        time_ns(half.p50_ns as f64),
        time_ns(half.p99_ns as f64),
        full(maximum / 2.0),
        time_ns(all.p50_ns as f64),
        time_ns(all.p99_ns as f64),
        full(maximum),
    ))
}

#[cfg(test)]
mod tests {
    use weir_load::translation::NatFault;
    use weir_testkit::golden;

    use super::*;
    use weir_record::fixture;
    use weir_record::record::{PointResult, Purpose};
    use weir_report::report::block::{page, terminal};

    /// A NAT with two steps of load, the second one as many frames/s for all.
    fn point(index: usize, dut: &str, faults: Vec<(NatFault, u64)>) -> PointData {
        let mut data = fixture::point(index, dut, 128, 400_000.0);
        let maximum = data.headline_fps().unwrap();
        let mut steps = Vec::new();
        let planned = [Step::Percent(50.0), Step::Fps(maximum)];
        for (trial, step) in data.trials.iter_mut().filter(|t| t.purpose == Purpose::Curve).zip(planned) {
            let evidence = (!faults.is_empty()).then(|| "leak.pcapng".to_string());
            let inside = trial.counts().received;
            let seen = Translation {
                outside: inside,
                inside,
                flows: 9,
                flows_inside: 9,
                evidence,
                faults: faults.clone(),
                ..Translation::default()
            };
            let offered_fps = step.fps(Some(maximum)).unwrap();
            let at_step = trial.clone().counting(|counts| counts.offered_fps = offered_fps);
            *trial = at_step.with_detail(&seen);
            steps.push((step, trial.clone()));
        }
        data.point.settings.push(("flow_order".into(), "unique".into()));
        let footprint = Some(super::super::figure::Footprint { flows: 10_000, bytes: 3.2e6 });
        let procedure = super::super::figure::procedure(&steps, footprint);
        let result = data.point.result.take().unwrap_or_default();
        data.point.result = Some(PointResult { procedures: vec![procedure], ..result });
        data
    }

    fn run(faults: Vec<(NatFault, u64)>) -> RunData {
        let points = vec![point(0, "kernel-nat", Vec::new()), point(1, "prefix-nat", faults)];
        RunData { run: fixture::run(1), points }
    }

    #[test]
    fn a_broken_nat_is_said_first_and_with_the_file() {
        let [broken, right] = [vec![(NatFault::Leaked, 20)], Vec::new()].map(|faults| findings(&run(faults)));
        let text = [broken.join("\n"), right.join("\n")].join("\n\n").replace('\u{202f}', " ");
        golden!("src/nat/findings.txt", &text);
        assert!(findings(&fixture::quick()).is_empty() && parts(&fixture::quick()).is_empty());
    }

    #[test]
    fn tables_of_the_kernel_s_settings_fit_on_a_terminal() {
        let mut data = run(Vec::new());
        for (point, buckets) in data.points.iter_mut().zip(["16384", "1048576"]) {
            let set = [
                ("nf_conntrack_buckets", buckets),
                ("nf_conntrack_max", "2097152"),
                ("nf_conntrack_udp_timeout", "120"),
            ];
            point.point.settings.extend(set.map(|(name, value)| (name.to_string(), value.to_string())));
            let figures = &mut point.point.result.as_mut().unwrap().procedures[0].figures;
            for name in [CHAIN, INSERT_FAILED, EARLY_DROP, TABLE_DROP, FORMULA] {
                figures.push(weir_record::figure::figure(
                    name,
                    "",
                    weir_record::record::Statistic::Median,
                    vec![123_456_789.0],
                ));
            }
        }
        let points: Vec<&PointData> = data.points.iter().collect();
        let tables = tables(&points);
        let mut text = String::new();
        for (heading, table) in tables {
            for line in table.text().lines() {
                assert!(line.chars().count() <= 80, "{heading}: {line}");
            }
            text += &format!("{heading}\n{}\n", table.text());
        }
        // The timeout, which is the same everywhere, is no column.
        golden!("src/nat/tables.txt", &text.replace('\u{202f}', " "));
    }

    #[test]
    fn all_nats_are_in_one_drawing_and_beside_what_was_published() {
        let parts = parts(&run(Vec::new()));
        let html = page(&parts);
        for text in
            ["round trip, 99.9th percentile", "Intel i7-6700", "this run: ", "kernel-nat", "prefix-nat"]
        {
            assert!(html.contains(text), "{text} in {html}");
        }
        assert_eq!(html.matches("class=\"legend\"").count(), 1);
        golden!("src/nat/report.txt", &terminal(&parts).replace('\u{202f}', " "));
    }
}
