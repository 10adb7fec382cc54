//! The same points simulated and on a real bed: does the simulator tell what the kernel's TCP does?

use super::super::{Cell, JAIN, SOJOURN, UTILISATION};
use super::{Group, grouped, heading, index, row_settings};
use weir_measure::stats::{mean, median};
use weir_report::report::answer::Answer;
use weir_report::report::bars::{Bar, BarChart};
use weir_report::report::block::Block;
use weir_report::view::Table;
use weir_report::view::format::{count, list, or_dash, percent, significant, time_ns, whole_percent};

/// Simulator and kernel agree in a figure where they differ by no more than this on average.
const AGREE: f64 = 0.1;

/// What is compared, in words.
const FIGURES: [(&str, &str); 3] =
    [(UTILISATION, "the utilisation"), (JAIN, "the fairness (Jain's index)"), (SOJOURN, "the delay (p99)")];

const COLUMNS: &str = "k: the kernel's TCP on a real bed; s: simulated; apart: their difference by the kernel's value, mean of the points \
    of a line; used: share of the link; p99: 99th percentile of the time in the queue.";

const CAPTION: &str = "Difference between the simulator and the kernel's TCP, in percent of the kernel's value, mean of the points. Shorter \
    is better. A bar with a gap is longer than the axis.";

/// A point of the real bed and the same one simulated.
#[derive(Clone, Copy)]
struct Twins<'c, 'a> {
    real: &'c Cell<'a>,
    simulated: &'c Cell<'a>,
}

impl Twins<'_, '_> {
    /// The difference by the kernel's value.
    fn apart(&self, figure: &str) -> Option<f64> {
        let (real, simulated) = (self.real.value(figure)?, self.simulated.value(figure)?);
        (real > 0.0).then(|| (simulated / real - 1.0).abs())
    }
}

/// How far all twins are apart in a figure.
struct Apart<'t, 'c, 'a> {
    name: &'static str,
    figure: &'static str,
    mean: f64,
    most: f64,
    furthest: &'t Twins<'c, 'a>,
}

pub(super) fn answer(cells: &[Cell<'_>]) -> Option<Answer> {
    let twins = twins(cells);
    let apart: Vec<Apart<'_, '_, '_>> = FIGURES.iter().filter_map(|figure| apart(&twins, *figure)).collect();
    if apart.is_empty() {
        // None of the real bed has a figure.
        return Some(Answer { sentences: vec![invalid(&twins)?], ..Answer::default() });
    }
    Some(Answer {
        sentences: [Some(verdict(&apart)), furthest(&apart), invalid(&twins)].into_iter().flatten().collect(),
        table: table(cells, &twins),
        columns: COLUMNS.into(),
        drawing: Some(drawing(cells, &twins)),
    })
}

fn twins<'c, 'a>(cells: &'c [Cell<'a>]) -> Vec<Twins<'c, 'a>> {
    let (real, simulated): (Vec<&Cell<'_>>, Vec<_>) = cells.iter().partition(|cell| cell.is_real());
    let twin = |cell: &Cell<'_>| simulated.iter().find(|other| other.is_same_traffic(cell)).copied();
    real.into_iter().filter_map(|real| Some(Twins { real, simulated: twin(real)? })).collect()
}

fn apart<'t, 'c, 'a>(
    twins: &'t [Twins<'c, 'a>],
    (figure, name): (&'static str, &'static str),
) -> Option<Apart<'t, 'c, 'a>> {
    let all: Vec<(&Twins<'_, '_>, f64)> =
        twins.iter().filter_map(|twins| Some((twins, twins.apart(figure)?))).collect();
    let (furthest, most) = *all.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let mean = mean(&all.iter().map(|(_, apart)| *apart).collect::<Vec<_>>())?.mean;
    Some(Apart { name, figure, mean, most, furthest })
}

/// In what do they agree?
fn verdict(apart: &[Apart<'_, '_, '_>]) -> String {
    let (agree, differ): (Vec<&Apart<'_, '_, '_>>, Vec<_>) =
        apart.iter().partition(|apart| apart.mean <= AGREE);
    let of = |apart: &&Apart<'_, '_, '_>| {
        format!(
            "{} ({} off on average, {} at most)",
            apart.name,
            whole_percent(apart.mean),
            whole_percent(apart.most)
        )
    };
    let [agree, differ] = [agree, differ].map(|all| list(&all.iter().map(of).collect::<Vec<_>>()));
    match (agree.is_empty(), differ.is_empty()) {
        (_, true) => format!("Yes: the simulator tells {agree}."),
        (true, _) => format!("No: the simulator does not tell {differ}."),
        _ => format!("In part: the simulator tells {agree}, but not {differ}."),
    }
}

/// The point at which they are furthest apart in the figure in which they differ most.
fn furthest(apart: &[Apart<'_, '_, '_>]) -> Option<String> {
    let worst = apart.iter().max_by(|a, b| a.most.total_cmp(&b.most))?;
    let Twins { real, simulated } = worst.furthest;
    let value = |cell: &Cell<'_>| {
        cell.value(worst.figure).map(|value| match worst.figure {
            SOJOURN => time_ns(value * 1e9),
            _ => significant(value),
        })
    };
    Some(format!(
        "They are furthest apart in {}: {} simulated, {} in the kernel ({}, {}).",
        worst.name,
        value(simulated)?,
        value(real)?,
        real.setting("queue"),
        real.name()
    ))
}

/// Points of the real bed that say nothing, and why.
fn invalid(twins: &[Twins<'_, '_>]) -> Option<String> {
    let without = twins.iter().filter(|twins| twins.real.value(UTILISATION).is_none());
    let n = without.count();
    (n > 0).then(|| {
        format!(
            "{n} of {} of the real bed have no result, because the bottleneck was disturbed: run it on an idle machine.",
            count(twins.len(), "point")
        )
    })
}

fn table(cells: &[Cell<'_>], twins: &[Twins<'_, '_>]) -> Table {
    let rows = row_settings(cells, &["queue", "buffer_bdp", "mix", "flows", "rtt_ms"]);
    let head = rows.iter().map(|setting| heading(setting));
    let figures = ["used k", "s", "apart", "Jain k", "s", "apart", "p99 k", "s", "apart"];
    let mut table = Table::new(&head.chain(figures).collect::<Vec<_>>());
    for group in grouped(twins.iter().map(|twins| twins.real), &rows) {
        let own: Vec<Twins<'_, '_>> = twins
            .iter()
            .filter(|twins| group.cells.iter().any(|cell| std::ptr::eq(*cell, twins.real)))
            .copied()
            .collect();
        let cell = |figure: &str, text: fn(f64) -> String| {
            let of = |value: &dyn Fn(&Twins<'_, '_>) -> Option<f64>| {
                own.iter().filter_map(value).collect::<Vec<_>>()
            };
            let apart = mean(&of(&|twins| twins.apart(figure))).map(|mean| mean.mean);
            [
                or_dash(median(&of(&|twins| twins.real.value(figure))), text),
                or_dash(median(&of(&|twins| twins.simulated.value(figure))), text),
                or_dash(apart, whole_percent),
            ]
        };
        let figures = [
            cell(UTILISATION, whole_percent),
            cell(JAIN, |jain| index(Some(jain))),
            cell(SOJOURN, |s| time_ns(s * 1e9)),
        ];
        table.push(
            group.key.iter().map(|name| name.to_string()).chain(figures.into_iter().flatten()).collect(),
        );
    }
    table
}

fn drawing(cells: &[Cell<'_>], twins: &[Twins<'_, '_>]) -> Block {
    let mut chart = BarChart::plain("apart", percent);
    let rows = row_settings(cells, &["queue", "buffer_bdp"]);
    for (figure, name) in FIGURES {
        let bars =
            grouped(twins.iter().map(|twins| twins.real), &rows).into_iter().map(|group: Group<'_, '_>| {
                let own = twins
                    .iter()
                    .filter(|twins| group.cells.iter().any(|cell| std::ptr::eq(*cell, twins.real)));
                let apart = mean(&own.filter_map(|twins| twins.apart(figure)).collect::<Vec<_>>())
                    .map(|mean| mean.mean);
                let label = rows.iter().zip(&group.key).map(|(setting, value)| match *setting {
                    "buffer_bdp" => format!("{value} BDP"),
                    _ => value.to_string(),
                });
                Bar::plain(&label.collect::<Vec<_>>().join(", "), apart, or_dash(apart, whole_percent))
            });
        chart.group(name, bars.collect());
    }
    chart.cut_outliers();
    Block::Wide(chart.draw("Simulator beside kernel", "The numbers are in the table below."), CAPTION)
}
