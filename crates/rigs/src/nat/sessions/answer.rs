//! How fast each NAT establishes, forwards and deletes connections, and how many it holds (RFC 9693).

use super::super::answer::{Bars, by_name, is_bounded, one_by_one};
use super::super::section::{Measured, find, points};
use super::report::name;
use weir_record::run_data::{PointData, RunData};
use weir_report::report::answer::Answer;
use weir_report::view::axes::{Axes, short_value};
use weir_report::view::format::or_dash;
use weir_report::view::{Bound, Rate, Table};

/// Sessions of a point.
const SESSIONS: &str = "flows";

/// Figures, their columns, and how a sentence has them.
const FIGURES: [(&str, &str, &str); 5] = [
    (name::PLAIN, "opened/s", ""),
    (name::VALIDATED, "validated/s", "establishes {} connections/s with validation"),
    (name::THROUGHPUT, "frames/s", "forwards {} frames/s"),
    (name::TEAR_DOWN, "deleted/s", "deletes {} connections/s"),
    (name::CAPACITY, "holds", "holds {}"),
];

const COLUMNS: &str = "opened/s: connections whose first frame passes, all of them. validated/s: those of which the answer comes \
    back as well. frames/s: both directions together, once all are established. deleted/s: when all are at once. holds: connections \
    that fit.";
const CAPTION: &str = "Connections/s that are established with validation.";
const BOUNDED: &str =
    "Figures with ≥ are lower bounds: the search ended at what the tester or the plan allows.";

pub(in crate::nat) fn of(data: &RunData) -> Option<Answer> {
    let points = points(data, name::ID);
    let all: Vec<&PointData> = points.iter().map(|(data, _)| *data).collect();
    let axes = Axes::of(all.iter().map(|data| &data.point));
    if points.is_empty() {
        return None;
    }
    let mut sentences: Vec<String> = rates(&points, &axes).into_iter().collect();
    let any = points.iter().flat_map(|point| FIGURES.map(|(name, ..)| rate(point, name)));
    sentences.extend(is_bounded(any).then(|| BOUNDED.to_string()));
    sentences.extend(repetitions(&points));
    Some(Answer {
        sentences,
        table: table(&points, &axes),
        columns: COLUMNS.into(),
        drawing: Bars { axes: &axes, by: &[SESSIONS], unit: "connections/s", caption: CAPTION }.draw(
            &all,
            |data| {
                let point = points.iter().find(|(other, _)| other.point.index == data.point.index)?;
                rate(point, name::VALIDATED)
            },
        ),
    })
}

/// A figure with what it bounds.
fn rate((_, procedure): &Measured<'_>, of: &str) -> Option<Rate> {
    let figure = find(procedure, of)?;
    let has = |text: &str| procedure.irregular.iter().any(|irregular| irregular.contains(text));
    let is_open = match of {
        name::CAPACITY => has(name::CAPACITY_OR_MORE),
        name::PLAIN | name::VALIDATED => has(name::TESTER_ENDS),
        _ => false,
    };
    let bound = if is_open { Bound::AtLeast } else { Bound::Exact };
    Some(Rate { fps: figure.value?, interval: figure.interval, bound })
}

/// What each NAT does beside the most sessions, that which establishes fastest first.
fn rates(points: &[Measured<'_>], axes: &Axes) -> Option<String> {
    let number = |data: &PointData| data.setting(SESSIONS).and_then(|sessions| sessions.parse::<u64>().ok());
    let found = |data: &&PointData| points.iter().find(|(other, _)| other.point.index == data.point.index);
    let measured =
        |data: &&PointData| found(data).is_some_and(|point| rate(point, name::VALIDATED).is_some());
    let most = points.iter().map(|(data, _)| *data).filter(measured).filter_map(number).max()?;
    let names = axes.clone().without(&[SESSIONS]);
    let said: Vec<_> = FIGURES.into_iter().filter(|(.., words)| !words.is_empty()).collect();
    let mut each = Vec::new();
    for (name, members) in by_name(&names, points.iter().map(|(data, _)| *data)) {
        let Some(point) = members.iter().find(|data| number(data) == Some(most)).and_then(found) else {
            continue;
        };
        let Some(validated) = rate(point, name::VALIDATED) else { continue };
        let values: Vec<_> = said.iter().map(|(figure, ..)| rate(point, figure)).collect();
        each.push((validated.fps, name, values));
    }
    each.sort_by(|a, b| b.0.total_cmp(&a.0));
    let verbs: Vec<&str> = said.iter().map(|(.., words)| *words).collect();
    let is_complete = each.iter().all(|(.., values)| values.iter().all(Option::is_some));
    let each = each.into_iter().map(|(_, name, values)| {
        // Where a figure is missing, all others have their verbs, so that each can be told.
        let told = values.into_iter().zip(&verbs).filter_map(|(value, verb)| {
            let words = value?.words();
            Some(if is_complete { words } else { verb.replace("{}", &words) })
        });
        (name, told.collect::<Vec<_>>())
    });
    let text = one_by_one(each, if is_complete { &verbs } else { &["{}"; 4] });
    let most = short_value(SESSIONS, &most.to_string());
    (!text.is_empty()).then(|| format!("With {most} sessions {text}."))
}

fn repetitions(points: &[Measured<'_>]) -> Option<String> {
    let once = |(_, procedure): &Measured<'_>| {
        find(procedure, name::PLAIN).is_some_and(|figure| figure.values.len() == 1)
    };
    points.iter().all(once).then(|| {
        "Each figure rests on one repetition, so that its spread is not known: the RFC asks for 10, and the plan without --short \
         makes them."
            .into()
    })
}

fn table(points: &[Measured<'_>], axes: &Axes) -> Table {
    let own = FIGURES.iter().map(|(_, column, _)| (*column).to_string());
    let head = axes.head().into_iter().map(|name| if name == SESSIONS { "sessions".into() } else { name });
    let mut table = Table::new(&head.chain(["NAT".to_string()]).chain(own).collect::<Vec<_>>());
    for point in points {
        let mut row = axes.cells(&point.0.point.settings);
        row.push(point.0.point.dut.clone());
        row.extend(FIGURES.map(|(name, ..)| or_dash(rate(point, name), |rate| rate.sign())));
        table.push(row);
    }
    table.without_empty(&["holds"])
}

#[cfg(test)]
mod tests {
    use weir_testkit::golden;

    use super::*;
    use weir_record::figure::figure;
    use weir_record::fixture;
    use weir_record::record::{PointResult, ProcedureResult, Statistic};
    use weir_report::export;

    /// A NAT with so many sessions, and its figures in the order of the columns.
    fn point(index: usize, (dut, sessions): (&str, &str), values: [f64; 5]) -> PointData {
        let mut data = fixture::point(index, dut, 84, 1.0);
        let settings = [("cpus", "1"), ("flows", sessions)];
        data.point.settings = settings.map(|(name, value)| (name.to_string(), value.to_string())).to_vec();
        data.trials.clear();
        let of = |((name, ..), value): ((&str, &str, &str), f64)| {
            figure(name, name::CPS, Statistic::Median, vec![value])
        };
        let figures = FIGURES.into_iter().zip(values).map(of).collect();
        let irregular = vec![format!("the capacity is 1000000 {}", name::CAPACITY_OR_MORE)];
        let procedure =
            ProcedureResult { procedure: name::ID.into(), figures, irregular, ..Default::default() };
        data.point.result = Some(PointResult { procedures: vec![procedure], ..PointResult::default() });
        data
    }

    #[test]
    fn the_first_screen_has_the_rates_of_each_nat() {
        let points = vec![
            point(0, ("kernel-nat", "40000"), [190e3, 180e3, 300e3, 2e6, 1e6]),
            point(1, ("kernel-nat", "200000"), [150e3, 140e3, 250e3, 1.8e6, 1e6]),
            point(2, ("node-nat", "40000"), [500e3, 490e3, 900e3, 12e6, 1e6]),
            point(3, ("node-nat", "200000"), [450e3, 440e3, 850e3, 11e6, 1e6]),
        ];
        let data = RunData { run: fixture::run_of("nat"), points };
        let text = export::answer(&data, crate::sections(), 80);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        golden!("src/nat/sessions/answer.txt", &text);
    }
}
