//! Lines with markers over an axis of loads: one panel of a row of small multiples.

use crate::view::scale::Scale;
use crate::view::svg::{Anchor, Svg, class, marker};
use crate::view::{Style, format};

/// A panel.
pub struct Panel {
    /// Heading (`64 bytes`).
    pub heading: String,
    /// Name and unit of the horizontal axis.
    pub x_name: String,
    /// Text for a value of the horizontal axis.
    pub x_text: fn(f64) -> String,
    /// Text for a value of the vertical axis.
    pub y_text: fn(f64) -> String,
    /// Range of the horizontal axis; logarithmic when its ends are more than 20 times apart.
    pub x_range: (f64, f64),
    /// Range of the vertical axis; of a logarithmic one without zero.
    pub y_range: (f64, f64),
    /// What the vertical axis is.
    pub y_axis: Axis,
    /// Lines, later ones on top.
    pub lines: Vec<Line>,
}

/// A vertical axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Axis {
    /// From zero.
    Linear,
    /// Without zero.
    Log,
    /// With a lane for the value zero below.
    LogWithZero,
}

/// A series in a panel.
pub struct Line {
    /// Colour, marker and dashes.
    pub style: Style,
    /// The line: (load, value), ascending load.
    pub line: Vec<(f64, f64)>,
    /// The measurements.
    pub dots: Vec<Dot>,
    /// A load to point out.
    pub mark: Option<(f64, String)>,
}

/// A measurement.
pub struct Dot {
    /// Load and value.
    pub at: (f64, f64),
    /// How it is drawn.
    pub kind: DotKind,
    /// Tooltip.
    pub title: String,
}

/// What a measurement is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DotKind {
    /// Part of the line.
    Filled,
    /// Valid, but not part of the line: small and faint.
    Faint,
    /// Not to be believed: a small cross.
    Cross,
}

const WIDTH: f64 = 380.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 58.0;
const RIGHT: f64 = 18.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 44.0;
/// Height of the lane for zero.
const LANE: f64 = 22.0;

impl Panel {
    /// Draws the panel.
    pub fn draw(&self, title: &str, description: &str) -> String {
        let mut svg = Svg::new(WIDTH, HEIGHT);
        let (x, y) = (self.x_scale(), self.y_scale());
        svg.text((0.0, 16.0), Anchor::Start, "head", &self.heading);
        self.draw_axes(&mut svg, x, y);
        for line in &self.lines {
            self.draw_mark(&mut svg, x, line);
        }
        for line in &self.lines {
            self.draw_dots(&mut svg, x, y, line, |kind| kind != DotKind::Filled);
        }
        for line in &self.lines {
            self.draw_line(&mut svg, x, y, line);
        }
        svg.finish(title, description)
    }

    fn x_scale(&self) -> Scale {
        let (low, high) = self.x_range;
        if low > 0.0 && high / low > 20.0 {
            Scale::log(low, high, LEFT, WIDTH - RIGHT)
        } else {
            Scale::linear(high, LEFT, WIDTH - RIGHT)
        }
    }

    fn y_scale(&self) -> Scale {
        let bottom = HEIGHT - BOTTOM;
        match self.y_axis {
            Axis::Linear => Scale::linear(self.y_range.1, bottom, TOP),
            Axis::Log => Scale::log(self.y_range.0, self.y_range.1, bottom, TOP),
            Axis::LogWithZero => Scale::log(self.y_range.0, self.y_range.1, bottom - LANE, TOP),
        }
    }

    fn y_at(&self, scale: Scale, value: f64) -> f64 {
        if self.y_axis == Axis::LogWithZero && value <= 0.0 { HEIGHT - BOTTOM } else { scale.at(value) }
    }

    fn draw_axes(&self, svg: &mut Svg, x: Scale, y: Scale) {
        let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
        for tick in y.ticks() {
            let at = y.at(tick);
            svg.line((LEFT, at), (right, at), "grid");
            svg.text((LEFT - 6.0, at + 4.0), Anchor::End, "tick", &format::tick(&(self.y_text)(tick)));
        }
        if self.y_axis == Axis::LogWithZero {
            svg.line((LEFT, bottom), (right, bottom), "zero");
            svg.text((LEFT - 6.0, bottom + 4.0), Anchor::End, "tick", "none");
        }
        let mut free = f64::MIN;
        for tick in x.ticks() {
            let (at, text) = (x.at(tick), format::tick(&(self.x_text)(tick)));
            svg.line((at, TOP), (at, bottom), "grid");
            let half = crate::view::svg::text_width(&text) / 2.0;
            if at - half >= free {
                svg.text((at, bottom + 16.0), Anchor::Middle, "tick", &text);
                free = at + half + 4.0;
            }
        }
        svg.text((right, bottom + 34.0), Anchor::End, "axis", &self.x_name);
    }

    fn draw_mark(&self, svg: &mut Svg, x: Scale, line: &Line) {
        let Some((load, title)) = &line.mark else { return };
        let (at, class) = (x.at(*load), class(line.style));
        svg.line((at, TOP), (at, HEIGHT - BOTTOM), &format!("rule {class}"));
        let flag = format!("M{:.1} {:.1}h8l-4 6Z", at - 4.0, TOP - 7.0);
        svg.path(&flag, &format!("dot {class}"), title);
    }

    fn draw_line(&self, svg: &mut Svg, x: Scale, y: Scale, line: &Line) {
        let points: Vec<_> =
            line.line.iter().map(|(load, value)| (x.at(*load), self.y_at(y, *value))).collect();
        if points.len() > 1 {
            svg.polyline(&points, &format!("line {}", class(line.style)));
        }
        self.draw_dots(svg, x, y, line, |kind| kind == DotKind::Filled);
    }

    /// The dots of some kinds. Those beyond the axis of loads have no place.
    fn draw_dots(&self, svg: &mut Svg, x: Scale, y: Scale, line: &Line, chosen: fn(DotKind) -> bool) {
        let class = class(line.style);
        for dot in line.dots.iter().filter(|dot| chosen(dot.kind) && x.contains(dot.at.0)) {
            let at = (x.at(dot.at.0), self.y_at(y, dot.at.1));
            let (kind, shape) = match dot.kind {
                DotKind::Filled => ("dot", marker(line.style, at)),
                DotKind::Faint => ("faint", speck(at)),
                DotKind::Cross => ("cross", cross(at)),
            };
            svg.path(&shape, &format!("{kind} {class}"), &dot.title);
        }
    }
}

fn speck((x, y): (f64, f64)) -> String {
    format!("M{:.1} {y:.1}a1.8 1.8 0 1 0 3.6 0a1.8 1.8 0 1 0-3.6 0Z", x - 1.8)
}

fn cross((x, y): (f64, f64)) -> String {
    format!("M{:.1} {:.1}l4 4m0-4l-4 4", x - 2.0, y - 2.0)
}

/// Smallest and largest of all loads, for panels that share an axis.
pub fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) = values
        .filter(|v| v.is_finite() && *v > 0.0)
        .fold((f64::MAX, 0.0f64), |(low, high), v| (low.min(v), high.max(v)));
    if low > high { (1.0, 1.0) } else { (low, high) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_and_odd_panels_are_drawn() {
        let style = Style { colour: 1, marker: 3, pattern: 0 };
        let dot = Dot { at: (0.0, 0.0), kind: DotKind::Cross, title: "t".into() };
        for lines in [vec![], vec![Line { style, line: vec![(5.0, 0.0)], dots: vec![dot], mark: None }]] {
            let panel = Panel {
                heading: "64".into(),
                x_name: "x".into(),
                x_text: format::si,
                y_text: format::si,
                x_range: range(std::iter::empty()),
                y_range: (1e-5, 1.0),
                y_axis: Axis::LogWithZero,
                lines,
            };
            let text = panel.draw("t", "d");
            assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
        }
    }

    #[test]
    fn a_range_leaves_out_what_has_no_place() {
        assert_eq!(range([3.0, 0.0, f64::NAN, 7.0].into_iter()), (3.0, 7.0));
    }
}
