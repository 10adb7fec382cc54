//! The first screen: the generators beside each other, and how many times as fast the best of weir is.

use super::{CAPTION, absent, chart, flows, flows_text, interval, name, of, other};
use weir_record::record::Comparison;
use weir_record::run_data::{Measures, PointData, RunData};
use weir_report::report::answer::Answer;
use weir_report::report::block::Block;
use weir_report::view::format::{bracketed, list, or_dash, percent, si, significant, whole_percent};
use weir_report::view::{Bound, Table, frame_name};

/// A generator of which more frames than this share found the receiving ring full sends more than arrives.
const FULL_SHARE: f64 = 0.05;

/// The answer of a run that compares generators.
pub(in crate::generators) fn answer(data: &RunData) -> Option<Answer> {
    let points: Vec<&PointData> = of(data, Measures::Generator).collect();
    let mut sentences: Vec<String> =
        frames(&points).iter().filter_map(|frame| fastest(data, frame)).collect();
    if sentences.is_empty() {
        return None;
    }
    sentences.extend(points.iter().filter_map(|point| with_many_flows(data, point)));
    sentences.extend(absent(data));
    let drawing = Block::Drawing { drawings: vec![chart(&points)], caption: CAPTION };
    Some(Answer { sentences, table: table(data, &points), columns: COLUMNS.into(), drawing: Some(drawing) })
}

const COLUMNS: &str = "Frames/s: what reached the other end of the wire, sent by one CPU, median of the rounds. Weir / it: how many times \
    as many the best generator of weir sends with as few flows, from rounds that alternated. Lost: frames that found the ring at the other end full; \
    with more than 5 % of them the rate is a lower bound (≥).";

/// The points of each frame size.
fn frames<'a>(points: &[&'a PointData]) -> Vec<Vec<&'a PointData>> {
    let mut frames: Vec<Vec<&PointData>> = Vec::new();
    for &point in points {
        match frames.iter_mut().find(|frame| frame[0].point.frame == point.point.frame) {
            Some(frame) => frame.push(point),
            None => frames.push(vec![point]),
        }
    }
    frames
}

fn is_own(point: &PointData) -> bool {
    name(point).starts_with("weir")
}

/// Frames that left and did not arrive, 0..=1.
fn lost_share(point: &PointData) -> Option<f64> {
    let sum = point
        .measured()
        .fold((0, 0), |(sent, lost), trial| (sent + trial.counts().sent, lost + trial.counts().lost));
    (sum.0 > 0).then(|| sum.1 as f64 / sum.0 as f64)
}

fn bound(point: &PointData) -> Bound {
    if lost_share(point).is_some_and(|share| share > FULL_SHARE) { Bound::AtLeast } else { Bound::Exact }
}

/// How many times as fast one is as the other, from their rounds; `None` where both rates are lower bounds.
fn times(data: &RunData, own: &PointData, peer: &PointData) -> Option<(&'static str, Comparison)> {
    let found = own.comparisons().iter().find(|c| c.point_index == peer.point.index)?;
    let sign = match (bound(own), bound(peer)) {
        (Bound::Exact, Bound::Exact) => "",
        (_, Bound::Exact) => "≥\u{202f}",
        (Bound::Exact, _) => "≤\u{202f}",
        _ => return None,
    };
    other(data, found).map(|_| (sign, found.clone()))
}

/// The best generator of weir with the fewest flows, which is how others send.
fn best<'a>(points: &[&'a PointData]) -> Option<&'a PointData> {
    let own = || points.iter().copied().filter(|point| is_own(point) && point.headline_fps().is_some());
    let fewest = own().map(flows).reduce(f64::min)?;
    let fps = |point: &&PointData| point.headline_fps().unwrap_or(0.0);
    own().filter(|point| flows(point) == fewest).max_by(|a, b| fps(a).total_cmp(&fps(b)))
}

fn fastest(data: &RunData, points: &[&PointData]) -> Option<String> {
    let own = best(points)?;
    let fps = |point: &PointData| point.headline_fps().unwrap_or(0.0);
    let mut peers: Vec<&PointData> =
        points.iter().copied().filter(|point| !is_own(point) && fps(point) > 0.0).collect();
    peers.sort_by(|a, b| fps(b).total_cmp(&fps(a)));
    let against = peers.iter().filter_map(|peer| {
        let (sign, found) = times(data, own, peer)?;
        let spread = found.interval.map_or_else(String::new, bracketed);
        let is_open = found.interval.is_some_and(|(low, high)| low <= 1.0 && 1.0 <= high);
        let open = if is_open { ", which is not distinguished," } else { "" };
        let bound = match sign {
            "" => "",
            "≥\u{202f}" => "at least ",
            _ => "at most ",
        };
        Some(format!("{bound}{} times {}{spread}{open}", significant(found.ratio), name(peer)))
    });
    let against: Vec<String> = against.collect();
    let rates = interval(own).map_or_else(String::new, |(a, b)| format!(" ({} to {})", si(a), si(b)));
    let against = if against.is_empty() { String::new() } else { format!(": {}", list(&against)) };
    let first = match peers.first() {
        Some(peer) if fps(peer) > fps(own) => {
            format!("{} sends most, {}{} frames/s; ", name(peer), bound(peer).words(), si(fps(peer)))
        }
        _ => String::new(),
    };
    let text = format!(
        "{first}{} sends {}{} frames/s of {} from one CPU{rates}{against}.",
        name(own),
        bound(own).words(),
        si(fps(own)),
        frame_name(&own.point.frame)
    );
    Some(text.replace(",.", "."))
}

/// What many flows cost a generator of weir.
fn with_many_flows(data: &RunData, point: &PointData) -> Option<String> {
    let few =
        point.comparisons().iter().find(|c| other(data, c).is_some_and(|few| name(few) == name(point)))?;
    let spread = few
        .interval
        .map_or_else(String::new, |(a, b)| format!(" ({} to {})", whole_percent(a), whole_percent(b)));
    Some(format!(
        "With {} {} sends {} frames/s, {}{spread} of its rate with {}.",
        flows_text(point),
        name(point),
        si(point.headline_fps()?),
        whole_percent(few.ratio),
        flows_text(other(data, few)?)
    ))
}

fn table(data: &RunData, points: &[&PointData]) -> Table {
    let sizes = frames(points);
    let mut table = Table::new(&[
        "frame",
        "generator",
        "flows",
        "frames/s",
        "95 % interval",
        "weir / it",
        "95 % interval",
        "lost",
    ]);
    for size in &sizes {
        let own = best(size);
        for point in size.iter().filter(|point| point.headline_fps().is_some()) {
            let found = own.and_then(|own| times(data, own, point));
            let ratio = found.as_ref().map(|(sign, found)| format!("{sign}{}", significant(found.ratio)));
            let spread = found.and_then(|(_, found)| found.interval);
            table.push(vec![
                if sizes.len() > 1 { point.point.frame.clone() } else { String::new() },
                name(point).into(),
                si(flows(point)).replace(".00", ""),
                or_dash(point.headline_fps(), |fps| bound(point).sign().to_string() + &si(fps)),
                or_dash(interval(point).filter(|_| sizes.len() == 1), |(a, b)| {
                    format!("{} – {}", si(a), si(b))
                }),
                or_dash(ratio, |text| text),
                or_dash(spread, |(a, b)| format!("{} – {}", significant(a), significant(b))),
                or_dash(lost_share(point).filter(|share| *share > 0.0), percent),
            ]);
        }
    }
    table.without_empty(&["frame", "95 % interval", "weir / it", "lost"])
}
