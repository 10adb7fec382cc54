use super::*;
use crate::fixture;
use crate::record::Verdict;
use crate::run_data::RunData;

/// The lines of a sheet with single plain spaces, then its notes.
fn lines(data: &RunData, name: &str) -> Vec<String> {
    let runs = std::slice::from_ref(data);
    let all = Comparison::new(runs);
    let sheets = sheets(&all);
    let sheet = sheets.iter().find(|s| s.name == name).unwrap_or_else(|| panic!("no sheet {name}"));
    let plain = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    sheet.table.text().lines().map(plain).chain(sheet.notes.iter().map(|n| plain(n))).collect()
}

/// Checks that a sheet of the fixture has these lines.
fn check(data: &RunData, name: &str, expected: &[&str]) {
    let lines = lines(data, name);
    // In tables numbers have no spaces in them, in sentences they have.
    let squeezed = |line: &str| line.replace(' ', "");
    for line in expected {
        assert!(
            lines.iter().any(|l| squeezed(l) == squeezed(line)),
            "{line} is not in\n{}",
            lines.join("\n")
        );
    }
}

#[test]
fn throughput_has_maximum_and_result() {
    let mut data = fixture::procedures();
    let head = "Frame Device Goal Maximum is that of Throughput 95 % interval Mbit/s of maximum";
    check(
        &data,
        "throughput",
        &[
            head,
            "64 kernel-forward NDR 29 761 905 the line 412 300 409 826 – 415 186 211 1.39 %",
            "Streams: UDP, IP version 4. Media: virtual Ethernet.",
        ],
    );
    data.points.iter_mut().for_each(|p| p.point.line_fps = None);
    check(
        &data,
        "throughput",
        &["64 kernel-forward NDR 4 120 000 the wire 412 300 409 826 – 415 186 211 10.0 %"],
    );
    assert!(!lines(&data, "throughput").iter().any(|l| l.contains(" wire NDR")), "the wire is no device");
    data.points.iter_mut().filter(|p| !p.is_ceiling()).for_each(|p| p.point.dut = "external".into());
    check(&data, "throughput", &["Streams: UDP, IP version 4. Media: that of the ports."]);
}

#[test]
fn procedures_have_their_figures_with_spread() {
    let data = fixture::procedures();
    check(
        &data,
        "latency",
        &[
            "Frame Device Load Figure Value 95 % interval P1 P99 N",
            "64 kernel-forward 412 300 frames/s Typical latency 19.4 µs – 19.0 µs 20.0 µs 3",
            "64 kernel-forward 412 300 frames/s Worst-case latency 218 µs – 214 µs 225 µs 3",
            "Parameters: load 100 % of the throughput; stream 120 s; streams 3.",
            "Typical latency: median of the N repetitions; P1 and P99: percentiles of these, the least and the greatest where N is below 100.",
        ],
    );
    check(&data, "pdv", &["Frames were lost in 1 of 3 trials; those that arrived were timed."]);
    check(
        &data,
        "back-to-back",
        &[
            "Frame Device Maximum rate Back-to-back frames 95 % interval Min Max Std dev N Implied buffer time Corrected buffer time",
            "64 kernel-forward 29 761 905 frames/s 512 – 502 527 12.9 3 17.2 µs 17.0 µs",
        ],
    );
    check(
        &data,
        "reset",
        &[
            "Parameters: reset software.",
            "64 kernel-nat 243 100 frames/s 1.43 s – 1.40 s 1.47 s 36.0 ms 3 1.42 s 347 633",
        ],
    );
}

#[test]
fn many_figures_have_a_row_each() {
    let data = fixture::procedures();
    check(
        &data,
        "bursts",
        &[
            "Frame Device Throughput Figure Value 95 % interval N",
            "64 kernel-forward 412 300 frames/s Gap between bursts of 64 155 µs – 3",
            "64 kernel-forward 412 300 frames/s Load without loss in bursts of 64 68 717 frames/s – 3",
        ],
    );
}

#[test]
fn frame_loss_has_a_column_per_load() {
    let mut data = fixture::procedures();
    check(
        &data,
        "frame-loss",
        &[
            "Frame Device Maximum rate No loss at, frames/s Loss at 100 % Loss at 90 % Loss at 80 % Loss at 70 % Loss at 60 % Loss at 50 % Loss at 40 % Loss at 30 %",
            "64 kernel-forward 916 222 frames/s 366 489 55.0 % 50.0 % 43.8 % 35.7 % 25.0 % 10.0 % 0 % 0 %",
        ],
    );
    // Many loads: a row each.
    let result = data.points[3].point.result.as_mut().unwrap();
    let figures = &mut result.procedures.iter_mut().find(|p| p.procedure == "frame-loss").unwrap().figures;
    let one = figures[1].clone();
    figures.extend((1..=9).map(|i| Figure { name: name::loss_at(f64::from(i)), ..one.clone() }));
    check(
        &data,
        "frame-loss",
        &[
            "Frame Device Maximum rate No loss at, frames/s Load, of maximum Loss",
            "64 kernel-forward 916 222 frames/s 366 489 9 % 55.0 %",
        ],
    );
    let others = lines(&data, "frame-loss").iter().filter(|l| l.starts_with("64 kernel-nat ")).count();
    assert_eq!(others, 8, "a point has rows for its own loads");
}

#[test]
fn loads_of_a_plan_without_a_search_are_shown() {
    let mut data = fixture::quick();
    let has_loads = |data: &RunData| {
        sheets(&Comparison::new(std::slice::from_ref(data))).iter().any(|s| s.name == "loads")
    };
    assert!(!has_loads(&data), "a curve has its own figure");
    let point = &mut data.points[3];
    point.point.result.as_mut().unwrap().goals.clear();
    point.trials.truncate(4);
    let again = point.trials[3].clone();
    point.trials.push(again);
    point.trials[1].verdict = Verdict::Noisy;
    check(
        &data,
        "loads",
        &[
            "Frame Device Offered Received Lost Loss Median latency P99 P99.9 Cycles Trials",
            "64 kernel-forward 309 225 309 225 0 0 % 16.3 µs 39.1 µs 81.4 µs 6180 1",
            "64 kernel-forward 437 038 412 300 49 476 5.66 % 1.25 ms 3.00 ms 6.25 ms 6180 2",
        ],
    );
}

#[test]
fn names_become_headings() {
    assert_eq!(
        [title("pdv"), title("back-to-back"), title("table-capacity")],
        ["Delay variation", "Back-to-back frames", "Table capacity"]
    );
}
