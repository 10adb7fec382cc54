//! The first screen: the generators beside each other, and how many times as fast the best generator of weir is.

use weir_record::run_data::{Measures, PointData, RunData};
use weir_report::report::answer::Answer;
use weir_report::view::format::{bracketed, list, or_dash, percent, si, significant, whole_percent};
use weir_report::view::{Bound, Rate, Ratio, Table, frame_name};

use super::report::{
    CAPTION, absent, chart, flows, flows_text, interval, lost_share, name, of, other, percent_spread,
};
use crate::peers::contest::is_own;
use crate::peers::report::{self, bounded, drawing, grouped, is_open, span};

/// A generator of which more frames than this share found the receiving ring full sends more than arrives.
const FULL_SHARE: f64 = 0.05;

const COLUMNS: &str = "Frames/s: what reached the other end of the wire, sent by one CPU, median of the rounds. Weir / it: how many times \
    as many the best generator of weir sends with as few flows, from rounds that alternated. Lost: frames that found the ring at the other end full; \
    with more than 5 % of them the rate is a lower bound (≥).";

/// The answer of a run that compares generators.
pub(super) fn answer(data: &RunData) -> Option<Answer> {
    let points: Vec<&PointData> = of(data, Measures::Generator).collect();
    let sizes = grouped(points.iter().copied(), |point| point.point.frame.as_str());
    let mut sentences: Vec<String> = sizes.iter().filter_map(|size| fastest(size)).collect();
    if sentences.is_empty() {
        return None;
    }
    sentences.extend(points.iter().filter_map(|point| with_many_flows(data, point)));
    sentences.extend(absent(data));
    Some(report::answer(sentences, table(&sizes), COLUMNS, drawing(chart(&points), CAPTION)))
}

fn rate(point: &PointData) -> Option<Rate> {
    let is_full = lost_share(point).is_some_and(|share| share > FULL_SHARE);
    let bound = if is_full { Bound::AtLeast } else { Bound::Exact };
    point.headline_fps().map(|fps| Rate { fps, interval: interval(point), bound })
}

/// How many times as fast one is as the other, from their rounds; `None` where both rates are lower bounds.
fn times(own: &PointData, peer: &PointData) -> Option<Ratio> {
    let found = own.comparisons().iter().find(|c| c.point_index == peer.point.index)?;
    bounded(found.ratio, found.interval, [rate(own)?.bound, rate(peer)?.bound])
}

/// The best generator of weir with the fewest flows, which is how others send.
fn best<'a>(points: &[&'a PointData]) -> Option<(&'a PointData, Rate)> {
    let own =
        || points.iter().filter(|point| is_own(name(point))).filter_map(|&point| Some((point, rate(point)?)));
    let fewest = own().map(|(point, _)| flows(point)).reduce(f64::min)?;
    own().filter(|(point, _)| flows(point) == fewest).max_by(|(_, a), (_, b)| a.fps.total_cmp(&b.fps))
}

fn fastest(points: &[&PointData]) -> Option<String> {
    let (own, own_rate) = best(points)?;
    let others = points.iter().filter(|point| !is_own(name(point)));
    let mut peers: Vec<(&PointData, Rate)> =
        others.filter_map(|&peer| Some((peer, rate(peer).filter(|rate| rate.fps > 0.0)?))).collect();
    peers.sort_by(|(_, a), (_, b)| b.fps.total_cmp(&a.fps));
    let against = peers.iter().filter_map(|(peer, _)| {
        let found = times(own, peer)?;
        let spread = found.interval.map_or_else(String::new, bracketed);
        let open = if is_open(found.interval) { ", which is not distinguished," } else { "" };
        Some(format!(
            "{}{} times {}{spread}{open}",
            found.bound.words(),
            significant(found.value),
            name(peer)
        ))
    });
    let against: Vec<String> = against.collect();
    let against = if against.is_empty() { String::new() } else { format!(": {}", list(&against)) };
    let rates = own_rate.interval.map_or_else(String::new, |(a, b)| format!(" ({} to {})", si(a), si(b)));
    let first = match peers.first() {
        Some((peer, rate)) if rate.fps > own_rate.fps => {
            format!("{} sends most, {} frames/s; ", name(peer), rate.words())
        }
        _ => String::new(),
    };
    let frame = frame_name(&own.point.frame);
    let text = format!(
        "{first}{} sends {} frames/s of {frame} from one CPU{rates}{against}.",
        name(own),
        own_rate.words()
    );
    Some(text.replace(",.", "."))
}

/// What many flows cost a generator of weir.
fn with_many_flows(data: &RunData, point: &PointData) -> Option<String> {
    let all = point.comparisons().iter().filter_map(|c| Some((c, other(data, c)?)));
    let (found, few) = all.into_iter().find(|(_, few)| name(few) == name(point))?;
    Some(format!(
        "With {} {} sends {} frames/s, {}{} of its rate with {}.",
        flows_text(point),
        name(point),
        si(point.headline_fps()?),
        whole_percent(found.ratio),
        percent_spread(found),
        flows_text(few)
    ))
}

fn table(sizes: &[Vec<&PointData>]) -> Table {
    let columns = "frame | generator | flows | frames/s | 95 % interval | weir / it | 95 % interval | lost";
    let mut table = report::table(columns);
    for size in sizes {
        let own = best(size);
        for (point, rate) in size.iter().filter_map(|&point| Some((point, rate(point)?))) {
            let ratio = own.and_then(|(own, _)| times(own, point));
            table.push(vec![
                if sizes.len() > 1 { point.point.frame.clone() } else { String::new() },
                name(point).into(),
                si(flows(point)).replace(".00", ""),
                rate.sign(),
                span(rate.interval.filter(|_| sizes.len() == 1), si),
                or_dash(ratio, |ratio| ratio.sign()),
                span(ratio.and_then(|ratio| ratio.interval), significant),
                or_dash(lost_share(point).filter(|share| *share > 0.0), percent),
            ]);
        }
    }
    table.without_empty(&["frame", "95 % interval", "weir / it", "lost"])
}
