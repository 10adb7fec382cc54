//! Losses over time, one panel per point: when they were, how long nothing came through, how many frames they cost.

use super::lines::{Axis, Dot, DotKind, Line, Panel, range};
use crate::record::{DatedLoss, ProcedureResult, Purpose, Trial};
use crate::run_data::PointData;
use crate::tables::Found;
use crate::time::unix_seconds;
use crate::view::format::{full, significant, time_ns};
use crate::view::page::{details, figure};
use crate::view::{Style, Table, frame_name};

/// Losses in the table; the record has all.
const LISTED: usize = 200;

/// The panels and the list of losses; empty without losses.
pub(super) fn html(found: &[Found<'_, '_>]) -> String {
    let panels: Vec<_> = found.iter().filter_map(panel).collect();
    if panels.is_empty() {
        return String::new();
    }
    figure("multiples", &panels, CAPTION, &Table::default())
        + &details("Losses over time", &table(found).html())
}

/// What the panels show.
pub const CAPTION: &str = "Each dot is a period of loss: when it began, and the time from the last frame before it to the \
    first one after it (logarithmic). Crosses: in trials that are not valid, in which the tester or the host may have \
    had a part.";

fn panel(found: &Found<'_, '_>) -> Option<String> {
    let heading = format!("{}, {}", frame_name(&found.point.point.frame), found.series.label);
    drawing(found.point, found.result, found.series.style, &heading)
}

/// The losses of a point by their times, in this style and with this heading; `None` without any.
pub fn drawing(point: &PointData, result: &ProcedureResult, style: Style, heading: &str) -> Option<String> {
    let events = &result.events;
    let (start, seconds) = span(point, result)?;
    let (unit, unit_s) = unit(seconds);
    let place = |event: &DatedLoss| {
        let since_s = (unix_seconds(&event.at)? - unix_seconds(start)?) as f64;
        Some((since_s / unit_s, event.outage_s * 1e9))
    };
    let dot = |event: &DatedLoss| {
        let (lost, outage) = (full(event.lost as f64), time_ns(event.outage_s * 1e9));
        let title = format!("{} {}: {lost} frames lost, outage {outage}", event.at, event.direction);
        let kind = if event.valid { DotKind::Filled } else { DotKind::Cross };
        Some(Dot { at: place(event)?, kind, title })
    };
    let dots: Vec<Dot> = events.iter().filter_map(dot).collect();
    if dots.is_empty() {
        return None;
    }
    let panel = Panel {
        x_name: format!("{unit} since {start}"),
        x_text: significant,
        y_text: time_ns,
        x_range: (0.0, seconds / unit_s),
        y_range: range(dots.iter().map(|d| d.at.1)),
        y_axis: Axis::Log,
        lines: vec![Line { style, line: Vec::new(), dots, mark: None }],
        heading: heading.to_string(),
    };
    Some(panel.draw(&format!("Losses over time, {heading}"), "The list has the dates."))
}

/// When the procedure began at a point, and how many seconds it took: it is the last one, and names its trials.
fn span<'a>(point: &'a PointData, result: &ProcedureResult) -> Option<(&'a str, f64)> {
    let named = result.parameters.iter().find(|(name, _)| name == "trials");
    let n: usize = named?.1.parse().ok()?;
    let trials: Vec<&Trial> = point.trials.iter().filter(|t| t.purpose == Purpose::Procedure).collect();
    let own = &trials[trials.len().checked_sub(n)?..];
    let (first, last) = (own.first()?, own.last()?);
    let begun_s = |t: &Trial| unix_seconds(&t.started);
    Some((&first.started, (begun_s(last)? - begun_s(first)?) as f64 + last.duration_s))
}

/// The unit of the axis and its length in seconds.
fn unit(seconds: f64) -> (&'static str, f64) {
    match seconds {
        s if s >= 7200.0 => ("hours", 3600.0),
        s if s >= 120.0 => ("minutes", 60.0),
        _ => ("seconds", 1.0),
    }
}

fn table(found: &[Found<'_, '_>]) -> Table {
    let mut table = Table::new(&["Frame", "Device", "At", "Direction", "Lost", "Outage", "Trial"]);
    let events = found.iter().flat_map(|f| f.result.events.iter().map(move |event| (f, event)));
    for (f, event) in events.take(LISTED) {
        table.push(vec![
            f.point.point.frame.clone(),
            f.series.label.clone(),
            event.at.clone(),
            event.direction.clone(),
            full(event.lost as f64),
            time_ns(event.outage_s * 1e9),
            if event.valid { "valid".into() } else { "not valid".into() },
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::run_data::RunData;
    use crate::tables::by_procedure;
    use crate::view::Comparison;

    fn drawn(data: &RunData) -> String {
        let all = Comparison::new(std::slice::from_ref(data));
        let procedures = by_procedure(&all);
        let (_, found) = procedures.iter().find(|(name, _)| *name == "soak").expect("in the fixture");
        html(found)
    }

    #[test]
    fn losses_stand_at_their_time() {
        let mut data = fixture::procedures();
        let text = drawn(&data);
        assert_eq!(text.matches("<svg").count(), 6, "two devices, three sizes");
        assert_eq!(
            (text.matches("\"dot ").count(), text.matches("\"cross ").count()),
            (12, 6),
            "two of three in valid trials"
        );
        assert!(text.contains("hours since 2026-03-01T11:00:00.000Z"), "{text}");
        // A third of an hour after the second of four hours began.
        let axis = 380.0 - 18.0 - 58.0;
        let x = 58.0 + axis * (1.0 + 600.0 / 3600.0) / 4.0 - 3.2;
        assert!(text.contains(&format!("d=\"M{x:.1} ")), "{x} in {text}");
        assert!(text.contains("2026-03-01T12:10:00.000Z a&gt;b: 40 frames lost"), "{text}");
        for result in data.points.iter_mut().filter_map(|p| p.point.result.as_mut()) {
            result.procedures.iter_mut().for_each(|p| p.events.clear());
        }
        assert_eq!(drawn(&data), "");
    }
}
