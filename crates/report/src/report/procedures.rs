//! A section per procedure: a figure, the table in the format of its RFC, parameters and irregularities.

use super::bars::{Bar, BarChart, Group};
use super::lines::{Axis, Dot, DotKind, Line, Panel};
use crate::figure::unit;
use crate::record::Figure;
use crate::tables::{Found, by_procedure, cell, has_headline, losses, procedure_sheet, sheets};
use crate::view::format::{list, percent};
use crate::view::page::{bullets, details, figure, legend, note, section};
use crate::view::{Comparison, Table, frame_name};

/// Rows that a figure of bars or an open table holds: about a printed page.
const ROWS: usize = 40;

/// All sections; empty without procedures and without loads of the plan's own.
pub(super) fn html(all: &Comparison<'_>) -> String {
    let loads = sheets(all).into_iter().filter(|sheet| sheet.name == "loads").map(|sheet| {
        section(
            "loads",
            &sheet.title,
            &(sheet.table.html() + &sheet.notes.iter().map(|n| note(n)).collect::<String>()),
        )
    });
    let procedures = by_procedure(all).into_iter().map(|(name, found)| procedure(name, &found));
    loads.chain(procedures).collect()
}

fn procedure(name: &str, found: &[Found<'_, '_>]) -> String {
    let sheet = procedure_sheet(name, found);
    let drawn = match found.iter().any(|f| losses(f.result).next().is_some()) {
        true => loss_curves(found),
        false if has_headline(found) => bars(&sheet.title, found),
        // As many bars as there are figures are the table again.
        false => String::new(),
    };
    let cites = if sheet.cites.is_empty() { String::new() } else { note(&format!("As in {}.", sheet.cites)) };
    let losses = super::timeline::html(found);
    section(
        &format!("procedure-{name}"),
        &sheet.title,
        &(cites + &drawn + &losses + &table(&sheet.table) + &bullets(&sheet.notes)),
    )
}

/// Folded where it is longer than a page: what else there is would be looked for in vain below it.
fn table(table: &Table) -> String {
    match table.rows().len() {
        rows if rows > ROWS => details(&format!("All {rows} rows"), &table.html()),
        _ => table.html(),
    }
}

/// RFC 2544, section 26.3: loss against load, both in percent and from zero, a panel per frame size.
fn loss_curves(found: &[Found<'_, '_>]) -> String {
    let mut frames: Vec<&str> = found.iter().map(|f| f.point.point.frame.as_str()).collect();
    frames.dedup();
    let panels = frames.iter().map(|frame| {
        let here = || found.iter().filter(|f| f.point.point.frame == **frame);
        let panel = Panel {
            heading: frame_name(frame),
            x_name: "load, share of the maximum rate".into(),
            x_text: percent,
            y_text: percent,
            x_range: (0.0, 1.0),
            y_range: (0.0, 1.0),
            y_axis: Axis::Linear,
            lines: here().map(loss_curve).collect(),
        };
        panel.draw(&format!("Frame loss rate, {}", frame_name(frame)), "The table has the values.")
    });
    let mut series: Vec<_> = found.iter().map(|f| f.series).collect();
    series.sort_by_key(|s| s.label.clone());
    series.dedup_by_key(|s| s.label.clone());
    legend(&series) + &figure("multiples", &panels.collect::<Vec<_>>(), LOSS_CAPTION, &Table::default())
}

const LOSS_CAPTION: &str = "Lost frames in percent of those sent, at loads that go down from the maximum rate until two in \
    a row lose nothing.";

fn loss_curve(found: &Found<'_, '_>) -> Line {
    let mut dots: Vec<Dot> = losses(found.result)
        .filter_map(|(load, figure)| {
            let (load, loss) = (load / 100.0, figure.value?);
            let title = format!("{}, {}: loss {}", found.series.label, percent(load), percent(loss));
            Some(Dot { at: (load, loss), kind: DotKind::Filled, title })
        })
        .collect();
    dots.sort_by(|a, b| a.at.0.total_cmp(&b.at.0));
    Line { style: found.series.style, line: dots.iter().map(|d| d.at).collect(), dots, mark: None }
}

/// The headline of each point as a bar, the other figures of the same unit as ticks.
fn bars(title: &str, found: &[Found<'_, '_>]) -> String {
    let Some(headline) = found.iter().find_map(|f| f.result.figures.first()) else { return String::new() };
    let (name, of) = (headline.name.clone(), headline.unit.clone());
    let others = beside(found, headline);
    let mut groups: Vec<Group> = Vec::new();
    for f in found.iter().take(ROWS) {
        let figure = |name: &str| f.result.figures.iter().find(|g| g.name == name && g.unit == of);
        let value = figure(&name).and_then(|g| g.value);
        let text = value.map_or_else(|| "no value".into(), |v| cell(v, &of));
        let bar = Bar {
            label: f.series.label.clone(),
            value,
            parts: Vec::new(),
            interval: figure(&name).and_then(|g| g.interval),
            ticks: others.iter().filter_map(|other| figure(other)?.value.filter(|v| *v > 0.0)).collect(),
            title: format!("{}, {}: {text}", f.series.label, frame_name(&f.point.point.frame)),
            text,
            style: f.series.style,
            fits: true,
        };
        let label = frame_name(&f.point.point.frame);
        match groups.iter_mut().find(|g| g.label == label) {
            Some(group) => group.bars.push(bar),
            None => groups.push(Group { label, bars: vec![bar], limit: None }),
        }
    }
    let ticks = if others.is_empty() { String::new() } else { format!("; thin ticks: {}", list(&others)) };
    let caption = format!("Bars: {name}; whiskers: 95 % interval{ticks}.");
    let chart = BarChart { groups, unit: name, number: number(&of), limit_name: String::new() };
    figure("pair", &[chart.draw(title, &caption)], &caption, &Table::default())
}

/// Beyond so many times the longest bar a tick would make slivers of all bars: it is in the table only.
const REMOTE: f64 = 5.0;

/// Names of the other figures of the headline's unit that can be drawn beside it.
fn beside(found: &[Found<'_, '_>], headline: &Figure) -> Vec<String> {
    let of_unit = || found.iter().flat_map(|f| &f.result.figures).filter(|g| g.unit == headline.unit);
    let largest =
        |name: &str| of_unit().filter(|g| g.name == name).filter_map(|g| g.value).fold(0.0, f64::max);
    let most = REMOTE * largest(&headline.name);
    let mut names: Vec<String> = Vec::new();
    for figure in of_unit().filter(|g| g.name != headline.name) {
        if !names.contains(&figure.name) && (f64::MIN_POSITIVE..=most).contains(&largest(&figure.name)) {
            names.push(figure.name.clone());
        }
    }
    names
}

/// Text for a value in a unit.
fn number(of: &str) -> fn(f64) -> String {
    match of {
        unit::SECONDS => |v| cell(v, unit::SECONDS),
        unit::RATIO => percent,
        _ => crate::view::format::si,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn every_procedure_has_its_section_and_figure() {
        let runs = [fixture::procedures()];
        let text = html(&Comparison::new(&runs));
        for name in fixture::PROCEDURES {
            let start = text
                .find(&format!("<section id=\"procedure-{name}\">"))
                .unwrap_or_else(|| panic!("no {name}"));
            let end = start + text[start..].find("</section>").expect("closed");
            assert_eq!(text[start..end].contains("<svg"), name != "bursts", "{name}");
            assert!(text[start..end].contains("<table"), "{name}");
            assert!(text[start..end].contains("Parameters: "), "{name}");
        }
        assert_eq!(text.matches("<polyline").count(), 6, "a loss curve per device and frame size");
        assert!(text.contains("Frames were lost in 1 of 3 trials"), "irregular");
    }

    #[test]
    fn what_is_far_beyond_the_bars_is_no_tick() {
        let runs = [fixture::procedures()];
        let all = Comparison::new(&runs);
        let (_, latency) =
            by_procedure(&all).into_iter().find(|(name, _)| *name == "latency").expect("latency");
        let typical = latency[0].result.figures[0].clone();
        assert_eq!(beside(&latency, &typical), [""; 0], "the worst case is ten times as long");
        let worst = latency[0].result.figures[1].clone();
        assert_eq!(beside(&latency, &worst), ["typical latency"]);
    }

    #[test]
    fn what_has_no_value_is_shown_as_such() {
        let mut data = fixture::procedures();
        let results = data.points.iter_mut().filter_map(|p| p.point.result.as_mut());
        for procedure in results.flat_map(|r| &mut r.procedures) {
            procedure.irregular.push("No throughput was found.".into());
            procedure.figures.clear();
            procedure.events.clear();
        }
        let runs = [data];
        let text = html(&Comparison::new(&runs));
        assert_eq!(
            text.matches("<li>No throughput was found.</li>").count(),
            fixture::PROCEDURES.len(),
            "{text}"
        );
        assert!(!text.contains("NaN") && !text.contains("<svg"));
    }
}
