//! A trend as an HTML page: one drawing per point and quantity.

use super::text::{chance, day, heading, levels, sentence};
use super::{Track, Trend};
use crate::compare::text::value;
use crate::view::page::{bullets, details, document, note, paragraph, section};
use crate::view::scale::Scale;
use crate::view::svg::{Anchor, Svg, escape, text_width};
use crate::view::{Table, format};

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 230.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 30.0;

/// The whole page.
pub fn html(trend: &Trend) -> String {
    let title = format!("weir: trend of {}", trend.plan);
    let left_out: Vec<_> = trend.left_out.iter().map(|what| format!("Left out: {what}.")).collect();
    let head = format!(
        "<header>\n<h1>{}</h1>\n<p class=\"kicker\">{}</p>\n</header>\n",
        escape(&title),
        escape(&heading(trend))
    );
    let overview = levels(trend).html() + &note(&chance(trend)) + &bullets(&left_out);
    let tracks = trend.tracks.iter().enumerate().map(|(i, track)| {
        let heading =
            format!("{}, {}, {}", crate::view::frame_name(&track.frame), track.device, track.quantity);
        let said: Vec<_> = track.changes.iter().map(|change| sentence(track, change)).collect();
        let said = if said.is_empty() { paragraph(&nothing(track)) } else { bullets(&said) };
        let figure = format!("<figure>\n{}</figure>\n", draw(trend, track, &heading));
        section(
            &format!("track-{i}"),
            &heading,
            &(said + &figure + &details("The numbers of this figure", &numbers(trend, track).html())),
        )
    });
    document(&title, &(head + &section("levels", "Levels", &overview) + &tracks.collect::<String>()))
}

fn nothing(track: &Track) -> String {
    track.too_few.clone().map_or_else(|| "No change is shown.".into(), |why| format!("Too few: {why}."))
}

fn numbers(trend: &Trend, track: &Track) -> Table {
    let mut table = Table::new(&["Run", "Started", "weir", "Value"]);
    for (run, v) in &track.values {
        let seen = trend.runs.iter().find(|s| s.run == *run).expect("a value has a run");
        table.push(vec![run.to_string(), seen.started.clone(), seen.version.clone(), value(*v, &track.unit)]);
    }
    table
}

/// Values over the runs, evenly spaced; the levels as lines; the changes as rules.
fn draw(trend: &Trend, track: &Track, title: &str) -> String {
    let mut svg = Svg::new(WIDTH, HEIGHT);
    let values: Vec<f64> = track.values.iter().map(|(_, v)| *v).collect();
    let ends = |pick: fn(f64, f64) -> f64| values.iter().copied().reduce(pick).unwrap_or(0.0);
    let y = Scale::span(ends(f64::min), ends(f64::max), HEIGHT - BOTTOM, TOP);
    let step = (WIDTH - LEFT - RIGHT) / values.len().max(2) as f64;
    let x = |i: f64| LEFT + step * (i + 0.5);
    for tick in y.ticks() {
        svg.line((LEFT, y.at(tick)), (WIDTH - RIGHT, y.at(tick)), "grid");
        svg.text(
            (LEFT - 6.0, y.at(tick) + 4.0),
            Anchor::End,
            "tick",
            &format::tick(&value(tick, &track.unit)),
        );
    }
    svg.text((LEFT - 6.0, TOP - 8.0), Anchor::Start, "axis", &track.unit);
    let started = |i: usize| {
        let run = track.values[i].0;
        trend.runs.iter().find(|s| s.run == run).map_or("", |s| day(&s.started))
    };
    let mut free = f64::MIN;
    for i in 0..values.len() {
        let (at, half) = (x(i as f64), text_width(started(i)) / 2.0);
        let is_new = i == 0 || started(i) != started(i - 1);
        if is_new && at - half >= free && at + half <= WIDTH {
            svg.text((at, HEIGHT - 10.0), Anchor::Middle, "tick", started(i));
            free = at + half + 10.0;
        }
    }
    draw_levels(&mut svg, track, x, y);
    for (i, (run, v)) in track.values.iter().enumerate() {
        let (cx, cy) = (x(i as f64) - 3.2, y.at(*v));
        let circle = format!("M{cx:.1} {cy:.1}a3.2 3.2 0 1 0 6.4 0a3.2 3.2 0 1 0-6.4 0Z");
        svg.path(&circle, "dot c1", &format!("run {run}, {}: {}", started(i), value(*v, &track.unit)));
    }
    let said: Vec<_> = track.changes.iter().map(|change| sentence(track, change)).collect();
    svg.finish(title, &said.join("; "))
}

fn draw_levels(svg: &mut Svg, track: &Track, x: impl Fn(f64) -> f64, y: Scale) {
    let place = |run: i64| track.values.iter().position(|(r, _)| *r == run).expect("a change is at a run");
    let mut from = 0;
    let ends = track.changes.iter().map(|c| (place(c.run), c.before));
    for (to, level) in ends.chain([(track.values.len(), track.level)]) {
        let (left, right) = (x(from as f64 - 0.5), x(to as f64 - 0.5));
        svg.polyline(&[(left, y.at(level)), (right, y.at(level))], "line c2");
        if to < track.values.len() {
            svg.line((right, TOP), (right, HEIGHT - BOTTOM), "rule c2");
        }
        from = to;
    }
}
