//! A trend for the terminal.

use super::{Change, Track, Trend};
use crate::compare::text::{ratio, value};
use crate::view::Table;
use crate::view::format::{count, or_dash};

/// The levels of today, then each change with what changed with it.
pub fn text(trend: &Trend) -> String {
    let mut text = format!("{}\n", heading(trend));
    text.extend(trend.left_out.iter().map(|what| format!("left out: {what}\n")));
    if trend.tracks.is_empty() {
        return text + "\nno point has such a goal or setting\n";
    }
    text += &format!("\n{}", levels(trend).text());
    for track in trend.tracks.iter().filter(|t| !t.changes.is_empty()) {
        text += &format!("\n{}, {}, {}\n", track.frame, track.device, track.quantity);
        text.extend(track.changes.iter().map(|change| format!("  {}\n", sentence(track, change))));
    }
    text + &format!("\n{}\n", chance(trend))
}

/// What was looked at.
pub(super) fn heading(trend: &Trend) -> String {
    let (first, last) = (&trend.runs[0], &trend.runs[trend.runs.len() - 1]);
    let runs = count(trend.runs.len(), "run");
    format!("{} on {}: {runs}, {} to {}", trend.plan, trend.machine, day(&first.started), day(&last.started))
}

/// The date of a time.
pub(super) fn day(time: &str) -> &str {
    time.get(..10).unwrap_or(time)
}

/// The level of each track.
pub(super) fn levels(trend: &Trend) -> Table {
    let mut table = Table::new(&[
        "frame",
        "device",
        "quantity",
        "runs",
        "level now",
        "95 % interval",
        "since",
        "changes",
    ]);
    for track in &trend.tracks {
        let in_unit = |v| value(v, &track.unit);
        table.push(vec![
            track.frame.clone(),
            track.device.clone(),
            track.quantity.clone(),
            track.values.len().to_string(),
            in_unit(track.level),
            or_dash(track.level_interval, |(low, high)| format!("{} – {}", in_unit(low), in_unit(high))),
            track.changes.last().map_or_else(|| "the first run".into(), |c| format!("run {}", c.run)),
            track.too_few.clone().unwrap_or_else(|| match track.changes.len() {
                0 => "none".into(),
                n => n.to_string(),
            }),
        ]);
    }
    table
}

/// A change in one line.
pub(super) fn sentence(track: &Track, change: &Change) -> String {
    let interval = or_dash(change.interval, |(low, high)| format!("{} – {}", ratio(low), ratio(high)));
    let with = match change.changed_with_it.as_slice() {
        [] => "no recorded property changed at the same time".into(),
        list => {
            let parts = list.iter().map(|d| format!("{} ({} > {})", d.what, d.base, d.other));
            format!("changed at the same time: {}", parts.collect::<Vec<_>>().join(", "))
        }
    };
    format!(
        "{} run {} (weir {}): {} times, {interval}; from {} to {}; {with}",
        change.started,
        change.run,
        change.version,
        ratio(change.factor),
        value(change.before, &track.unit),
        value(change.after, &track.unit),
    )
}

/// How many changes would be seen by chance.
pub(super) fn chance(trend: &Trend) -> String {
    let searched = trend.tracks.iter().filter(|t| t.too_few.is_none()).count();
    format!(
        "A change is reported if a permutation test has p < 5 %: of {searched} series without a change, at most {:.1} \
         would show one by chance. The position of a change is exact to one or two runs.",
        searched as f64 * 0.05
    )
}
