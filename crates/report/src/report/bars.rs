//! Horizontal bars in groups, labelled directly: no legend to look up, any number of rows.
//!
//! ```text
//! 64 bytes                        line 29.8 M
//!   kernel-forward |=========|-|     412 k
//!   wire           |============//   4.12 M     (cut: the axis is for the devices)
//! ```

use crate::run_data::PointData;
use crate::view::axes::{self, Axes, DOT};
use crate::view::format::tick;
use crate::view::scale::Scale;
use crate::view::svg::{Anchor, Svg, class, shorten, text_width};
use crate::view::{COLOURS, Rate, Style};

/// Rows of one group.
#[derive(Clone)]
pub struct Group {
    /// Heading.
    pub label: String,
    /// Rows.
    pub bars: Vec<Bar>,
    /// A value that holds for the whole group (theoretical maximum).
    pub limit: Option<f64>,
}

/// One row.
#[derive(Clone)]
pub struct Bar {
    /// Name at the left.
    pub label: String,
    /// Length; `None` where there is nothing to show.
    pub value: Option<f64>,
    /// What it is made of, drawn one after the other in place of the whole; may be empty.
    pub parts: Vec<Part>,
    /// Whiskers.
    pub interval: Option<(f64, f64)>,
    /// Further values, drawn as ticks.
    pub ticks: Vec<f64>,
    /// Text after the bar; what is missing where there is no value.
    pub text: String,
    /// Tooltip.
    pub title: String,
    /// Colour and filling.
    pub style: Style,
    /// False: the axis need not be long enough for it.
    pub fits: bool,
}

/// A part of a row.
#[derive(Clone)]
pub struct Part {
    /// Length.
    pub value: f64,
    /// Tooltip.
    pub title: String,
    /// Colour and filling.
    pub style: Style,
}

/// A figure of bars.
pub struct BarChart {
    /// Groups from top to bottom.
    pub groups: Vec<Group>,
    /// Unit of the axis.
    pub unit: String,
    /// Text for a value.
    pub number: fn(f64) -> String,
    /// What the limit of a group is called.
    pub limit_name: String,
}

/// The widest column of labels, px.
const LABELS: f64 = 240.0;
/// Bars that are longer than the others by this factor are cut, ..
const OUTLIER: f64 = 4.0;
/// .. if they are at most this share of all bars.
const FEW: f64 = 1.0 / 3.0;

const WIDTH: f64 = 520.0;
const ROW: f64 = 21.0;
const BAR: f64 = 13.0;
const HEAD: f64 = 24.0;
const GAP: f64 = 8.0;
const AXIS: f64 = 40.0;

/// Bars of rates in groups that agree in the axes `by`; bars with the same label look the same in all of them.
pub fn of_points(
    axes: &Axes,
    by: &[&str],
    points: &[&PointData],
    rate: impl Fn(&PointData) -> Option<Rate>,
) -> Vec<Group> {
    let mut labels: Vec<String> = Vec::new();
    let mut bar = |(label, data): (String, &PointData)| {
        let at = labels.iter().position(|known| *known == label).unwrap_or_else(|| {
            labels.push(label.clone());
            labels.len() - 1
        });
        let rate = rate(data);
        let text = rate.map_or_else(|| "none found".to_string(), |rate| rate.sign());
        Bar {
            title: format!("{}: {text}", axes.name(&data.point)),
            label,
            value: rate.map(|rate| rate.fps),
            parts: Vec::new(),
            interval: rate.and_then(|rate| rate.interval),
            ticks: Vec::new(),
            text,
            style: Style { colour: 1 + at % COLOURS, marker: at, pattern: at / COLOURS },
            fits: true,
        }
    };
    let groups = axes.grouped(points, by).into_iter();
    groups
        .map(|axes::Group { heading, members }| Group {
            label: heading,
            bars: members.into_iter().map(&mut bar).collect(),
            limit: None,
        })
        .collect()
}

impl Bar {
    /// A bar of one value with its text.
    pub fn plain(label: &str, value: Option<f64>, text: String) -> Bar {
        Bar {
            label: label.into(),
            value,
            parts: Vec::new(),
            interval: None,
            ticks: Vec::new(),
            title: format!("{label}: {text}"),
            text,
            style: Style { colour: 1, marker: 0, pattern: 0 },
            fits: true,
        }
    }
}

impl BarChart {
    /// A figure without groups.
    pub fn plain(unit: &str, number: fn(f64) -> String) -> BarChart {
        BarChart { groups: Vec::new(), unit: unit.into(), number, limit_name: String::new() }
    }

    /// Adds a group of rows.
    pub fn group(&mut self, label: &str, bars: Vec<Bar>) {
        self.groups.push(Group { label: label.into(), bars, limit: None });
    }

    /// Lets the axis end before bars that would hide all others: few that are much longer than the next one.
    pub fn cut_outliers(&mut self) {
        let mut lengths: Vec<f64> = self.bars().filter_map(|bar| bar.value).collect();
        lengths.sort_by(|a, b| b.total_cmp(a));
        let most = (lengths.len() as f64 * FEW) as usize;
        let is_gap = |n: &usize| lengths[n - 1] > OUTLIER * lengths[*n];
        let Some(longest) = (1..=most).rev().find(is_gap).map(|n| lengths[n]) else { return };
        for bar in self.groups.iter_mut().flat_map(|group| &mut group.bars) {
            bar.fits = bar.value.is_none_or(|value| value <= longest);
        }
    }

    /// Draws the figure.
    pub fn draw(&self, title: &str, description: &str) -> String {
        let BarChart { unit, number, limit_name, .. } = self;
        let groups = self.groups.iter().map(with_short_labels).collect();
        let chart = BarChart { groups, unit: unit.clone(), number: *number, limit_name: limit_name.clone() };
        chart.draw_whole(title, description)
    }

    fn draw_whole(&self, title: &str, description: &str) -> String {
        let height = self.groups.iter().map(|g| HEAD + ROW * g.bars.len() as f64 + GAP).sum::<f64>() + AXIS;
        let mut svg = Svg::new(WIDTH, height);
        let scale = self.scale();
        self.draw_axis(&mut svg, scale, height - AXIS + 4.0);
        let mut y = 0.0;
        for group in &self.groups {
            self.draw_group(&mut svg, scale, group, y);
            y += HEAD + ROW * group.bars.len() as f64 + GAP;
        }
        svg.finish(title, description)
    }

    fn bars(&self) -> impl Iterator<Item = &Bar> {
        self.groups.iter().flat_map(|g| &g.bars)
    }

    /// Left of this is the column of labels, px.
    fn left(&self) -> f64 {
        (self.bars().map(|b| text_width(&b.label)).fold(0.0, f64::max) + 14.0).clamp(60.0, LABELS)
    }

    /// The axis is as long as the bars that must fit need; if none must, as all need.
    fn scale(&self) -> Scale {
        let longest = |fits: bool| {
            let bars = self.bars().filter(|b| b.fits || !fits);
            let ends = bars
                .flat_map(|b| b.ticks.iter().copied().map(Some).chain([b.value, b.interval.map(|i| i.1)]));
            ends.flatten().fold(0.0, f64::max)
        };
        let right = WIDTH - self.bars().map(|b| text_width(&b.text)).fold(40.0, f64::max).min(150.0) - 12.0;
        let all = longest(false);
        let highest =
            Some(longest(true)).filter(|devices| *devices > 0.0 && all > devices * 2.0).unwrap_or(all);
        Scale::linear(highest, self.left(), right)
    }

    fn draw_axis(&self, svg: &mut Svg, scale: Scale, y: f64) {
        for value in scale.ticks() {
            let x = scale.at(value);
            svg.line((x, 18.0), (x, y), "grid");
            svg.text((x, y + 14.0), Anchor::Middle, "tick", &tick(&(self.number)(value)));
        }
        svg.text((scale.at(scale.high()), y + 30.0), Anchor::End, "axis", &self.unit);
    }

    fn draw_group(&self, svg: &mut Svg, scale: Scale, group: &Group, top: f64) {
        svg.text((0.0, top + 16.0), Anchor::Start, "head", &group.label);
        if let Some(limit) = group.limit {
            let text = format!("{} {}", self.limit_name, (self.number)(limit));
            svg.text((WIDTH, top + 16.0), Anchor::End, "tick", &text);
        }
        let rows = || group.bars.iter().enumerate().map(|(i, bar)| (bar, top + HEAD + ROW * i as f64));
        for (bar, y) in rows() {
            draw_bar(svg, scale, bar, y + ROW / 2.0 - 1.0);
        }
        let end = top + HEAD + ROW * group.bars.len() as f64;
        if let Some(limit) = group.limit.filter(|limit| *limit <= scale.high()) {
            svg.line((scale.at(limit), top + HEAD - 4.0), (scale.at(limit), end), "limit");
        }
        for (bar, y) in rows() {
            self.draw_texts(svg, scale, bar, y + ROW / 2.0 + 3.0);
        }
    }

    fn draw_texts(&self, svg: &mut Svg, scale: Scale, bar: &Bar, baseline: f64) {
        let left = scale.at(0.0);
        svg.text((left - 8.0, baseline), Anchor::End, "label", &shorten(&bar.label, self.left() - 8.0));
        let end = [bar.value, bar.interval.map(|i| i.1)].into_iter().flatten().fold(0.0, f64::max);
        let class = if bar.value.is_some() { "value" } else { "none" };
        let ticks = bar.ticks.iter().map(|tick| scale.at(*tick));
        svg.text((beside(scale.at(end), ticks, &bar.text), baseline), Anchor::Start, class, &bar.text);
    }
}

/// The group with labels that fit: where one is too long, the parts that all of several parts share move to the heading.
fn with_short_labels(group: &Group) -> Group {
    let parts: Vec<Vec<&str>> = group.bars.iter().map(|bar| bar.label.split(DOT).collect()).collect();
    let fits = |bar: &Bar| text_width(&bar.label) + 14.0 <= LABELS;
    let whole = || parts.iter().filter(|parts| parts.len() > 1);
    if group.bars.iter().all(fits) || whole().count() < 2 {
        return group.clone();
    }
    let is_shared = |part: &&str| whole().all(|parts| parts.contains(part));
    let shared: Vec<&str> =
        whole().next().into_iter().flatten().copied().filter(|part| is_shared(part)).collect();
    let label = |parts: &Vec<&str>| {
        let own: Vec<&str> = parts.iter().copied().filter(|part| !shared.contains(part)).collect();
        if own.is_empty() { parts.join(DOT) } else { own.join(DOT) }
    };
    let heading = std::iter::once(group.label.as_str()).chain(shared.iter().copied());
    let heading: Vec<&str> = heading.filter(|part| !part.is_empty()).collect();
    let bars = group.bars.iter().zip(&parts).map(|(bar, parts)| Bar { label: label(parts), ..bar.clone() });
    Group { label: heading.join(DOT), bars: bars.collect(), limit: group.limit }
}

/// Where a text begins that belongs to a bar with this end: next to it, or else past the ticks in its way.
fn beside(end: f64, ticks: impl Iterator<Item = f64>, text: &str) -> f64 {
    let mut ticks: Vec<f64> = ticks.filter(|x| *x > end).collect();
    ticks.sort_by(f64::total_cmp);
    let passed =
        ticks.into_iter().fold(end, |from, x| if x < from + text_width(text) + 12.0 { x } else { from });
    passed + 6.0
}

/// The bar with whiskers and ticks, or its beginning with a cut where it is longer than the axis.
fn draw_bar(svg: &mut Svg, scale: Scale, bar: &Bar, middle: f64) {
    let Some(value) = bar.value else { return };
    let (left, end) = (scale.at(0.0), scale.at(value));
    let mut rect = |from: f64, to: f64, style: Style, title: &str| {
        svg.rect((from, middle - BAR / 2.0), (to - from, BAR), &format!("bar {}", class(style)), title);
    };
    if bar.parts.is_empty() {
        rect(left, end, bar.style, &bar.title);
    }
    let mut sum = 0.0;
    for part in &bar.parts {
        rect(scale.at(sum), scale.at(sum + part.value), part.style, &part.title);
        sum += part.value;
    }
    if value > scale.high() {
        let (x, y) = (end - 18.0, middle + BAR / 2.0 + 2.0);
        svg.path(&format!("M{x:.1} {y:.1}l5-17h5l-5 17Z"), "cut", "longer than the axis");
        return;
    }
    for tick in bar.ticks.iter().filter(|t| **t <= scale.high()) {
        let x = scale.at(*tick);
        svg.line((x, middle - BAR / 2.0 - 2.0), (x, middle + BAR / 2.0 + 2.0), "second");
    }
    if let Some((low, high)) = bar.interval {
        whisker(svg, (scale.at(low), scale.at(high)), middle);
    }
}

fn whisker(svg: &mut Svg, (low, high): (f64, f64), y: f64) {
    svg.line((low, y), (high, y), "whisker");
    for x in [low, high] {
        svg.line((x, y - 3.5), (x, y + 3.5), "whisker");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(value: Option<f64>, fits: bool) -> Bar {
        let style = Style { colour: 1, marker: 0, pattern: 0 };
        let (label, text, title) = ("name".into(), "text".into(), "title".into());
        let (parts, ticks) = (Vec::new(), Vec::new());
        Bar { label, value, parts, interval: None, ticks, text, title, style, fits }
    }

    fn chart(bars: Vec<Bar>) -> BarChart {
        let groups = vec![Group { label: "64 bytes".into(), bars, limit: Some(1e9) }];
        BarChart {
            groups,
            unit: "frames/s".into(),
            number: crate::view::format::si,
            limit_name: "line".into(),
        }
    }

    #[test]
    fn a_much_longer_ceiling_is_cut_and_a_longer_one_is_not() {
        let cut = |bars| chart(bars).draw("t", "d").contains("longer than the axis");
        assert!(cut(vec![bar(Some(400e3), true), bar(Some(4e6), false)]));
        assert!(!cut(vec![bar(Some(400e3), true), bar(Some(700e3), false)]));
        assert!(!cut(vec![bar(None, true), bar(Some(4e6), false)]), "the only bar sets the axis");
    }

    #[test]
    fn long_labels_differ_since_what_they_share_is_in_the_heading() {
        let bars = |labels: &[&str]| -> Vec<Bar> {
            labels.iter().map(|label| Bar { label: label.to_string(), ..bar(Some(1.0), true) }).collect()
        };
        let labels = |group: &Group| group.bars.iter().map(|bar| bar.label.clone()).collect::<Vec<_>>();
        let long = [
            "kernel-nat · flows 200k · buckets 16384 · max 65536",
            "kernel-nat · flows 200k · buckets 262144 · max 524288",
            "wire",
        ];
        let group = |labels| Group { label: "128 bytes".into(), bars: bars(labels), limit: None };
        let short = with_short_labels(&group(&long));
        assert_eq!(short.label, "128 bytes · kernel-nat · flows 200k");
        assert_eq!(labels(&short), ["buckets 16384 · max 65536", "buckets 262144 · max 524288", "wire"]);
        let unchanged = with_short_labels(&group(&["kernel-nat · flows 200k", "node-nat · flows 200k"]));
        assert_eq!((unchanged.label.as_str(), labels(&unchanged).len()), ("128 bytes", 2));
        let drawn = chart(bars(&long)).draw("t", "d");
        assert!(drawn.contains(">buckets 16384 · max 65536<") && !drawn.contains('…'), "{drawn}");
    }

    #[test]
    fn few_much_longer_bars_are_cut_and_many_are_not() {
        let cut = |values: &[f64]| {
            let mut chart = chart(values.iter().map(|value| bar(Some(*value), true)).collect());
            chart.cut_outliers();
            let fits: Vec<bool> = chart.bars().map(|bar| bar.fits).collect();
            assert_eq!(chart.draw("t", "d").contains("longer than the axis"), fits.contains(&false));
            fits.iter().filter(|fits| !**fits).count()
        };
        assert_eq!(cut(&[40.0, 300.0, 2500.0, 50.0, 60.0, 70.0]), 2, "the ones before the gap");
        assert_eq!(cut(&[40.0, 50.0, 60.0, 150.0]), 0, "all can be seen");
        assert_eq!(cut(&[40.0, 2500.0]), 0, "one of two is not an exception");
        assert_eq!(cut(&[]), 0);
    }

    #[test]
    fn a_text_stands_at_its_bar_unless_a_tick_is_in_the_way() {
        let at = |ticks: &[f64]| beside(100.0, ticks.iter().copied(), "691 k");
        assert_eq!([at(&[]), at(&[90.0]), at(&[300.0])], [106.0; 3]);
        assert_eq!((at(&[120.0]), at(&[150.0, 130.0])), (126.0, 156.0));
    }

    #[test]
    fn parts_stand_in_place_of_the_whole_one_after_the_other() {
        let mut whole = bar(Some(300.0), true);
        let drawn = |bar: &Bar| -> Vec<(f64, f64)> {
            let svg = chart(vec![bar.clone()]).draw("t", "d");
            let number = |text: &str, name: &str| -> f64 {
                let rest = text.split_once(&format!(" {name}=\"")).unwrap().1;
                rest.split_once('"').unwrap().0.parse().unwrap()
            };
            svg.lines()
                .filter(|line| line.starts_with("<rect"))
                .map(|line| (number(line, "x"), number(line, "width")))
                .collect()
        };
        let [(left, width)] = drawn(&whole)[..] else { panic!("one bar") };
        let part = |value| Part { value, title: String::new(), style: whole.style };
        whole.parts = vec![part(100.0), part(200.0)];
        let [first, second] = drawn(&whole)[..] else { panic!("two parts") };
        assert_eq!((first.0, second.0), (left, left + first.1));
        assert!((first.1 + second.1 - width).abs() < 0.2 && (second.1 - 2.0 * first.1).abs() < 0.2);
    }

    #[test]
    fn nothing_to_draw_is_drawn() {
        assert!(chart(vec![bar(None, true)]).draw("t", "d").contains(">text<"));
        assert!(chart(Vec::new()).draw("t", "d").starts_with("<svg"));
    }
}
