//! Box plots: how values scatter, a row for each kind.
//!
//! ```text
//! fifo  |----[  |   ]-----|      least, lower quartile, median, upper quartile, largest
//! ```

use crate::view::scale::Scale;
use crate::view::svg::{Anchor, Svg, text_width};

const WIDTH: f64 = 380.0;
const ROW: f64 = 26.0;
const HEAD: f64 = 30.0;
const AXIS: f64 = 26.0;
const HALF_BOX: f64 = 7.0;
const GAP: f64 = 8.0;

/// Rows of boxes over one axis.
pub struct BoxPlot {
    /// What the values are.
    pub title: String,
    /// Name and values of each row; those without values are left out.
    pub rows: Vec<(String, Vec<f64>)>,
    /// Text for a value.
    pub number: fn(f64) -> String,
    /// Logarithmic axis?
    pub log: bool,
}

/// The ends and the quarters of sorted values, between two of them in proportion.
fn quarters(sorted: &[f64]) -> [f64; 5] {
    let at = |share: f64| {
        let place = share * (sorted.len() - 1) as f64;
        let (below, above) = (place.floor() as usize, place.ceil() as usize);
        sorted[below] + (sorted[above] - sorted[below]) * place.fract()
    };
    [0.0, 0.25, 0.5, 0.75, 1.0].map(at)
}

impl BoxPlot {
    /// The drawing; `None` without values.
    pub fn draw(&self) -> Option<String> {
        let rows: Vec<(&str, [f64; 5], usize)> = self.rows.iter().filter_map(row).collect();
        let least = rows.iter().map(|(_, q, _)| q[0]).fold(f64::INFINITY, f64::min);
        let lowest = rows.iter().map(|(_, q, _)| q[0]).filter(|v| *v > 0.0).fold(f64::INFINITY, f64::min);
        let highest = rows.iter().map(|(_, q, _)| q[4]).fold(f64::NEG_INFINITY, f64::max);
        if rows.is_empty() {
            return None;
        }
        let names = rows.iter().map(|(name, ..)| text_width(name)).fold(0.0, f64::max) + GAP;
        let (left, right) = (names, WIDTH - 22.0);
        let bottom = HEAD + rows.len() as f64 * ROW;
        let scale = if self.log {
            Scale::log(lowest, highest, left, right)
        } else {
            Scale::span(least, highest, left, right)
        };
        let mut svg = Svg::new(WIDTH, bottom + AXIS);
        svg.text((0.0, 14.0), Anchor::Start, "head", &self.title);
        for tick in scale.ticks() {
            let x = scale.at(tick);
            svg.line((x, HEAD), (x, bottom), "grid");
            svg.text((x, bottom + 16.0), Anchor::Middle, "tick", &(self.number)(tick));
        }
        let mut said = Vec::new();
        for (i, (name, quarters, count)) in rows.iter().enumerate() {
            let y = HEAD + (i as f64 + 0.5) * ROW;
            let words = quarters.map(self.number);
            let [least, lower, median, upper, largest] = &words;
            let title = format!("{name}: {least}, {lower}, {median}, {upper}, {largest} ({count} values)");
            svg.text((names - GAP, y + 4.0), Anchor::End, "tick", name);
            draw_box(&mut svg, y, quarters.map(|value| scale.at(value)), &title);
            said.push(title);
        }
        Some(svg.finish(&self.title, &said.join("; ")))
    }
}

fn row((name, values): &(String, Vec<f64>)) -> Option<(&str, [f64; 5], usize)> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    (!sorted.is_empty()).then(|| (&name[..], quarters(&sorted), sorted.len()))
}

fn draw_box(svg: &mut Svg, y: f64, [least, lower, median, upper, largest]: [f64; 5], title: &str) {
    svg.polyline(&[(least, y), (lower, y)], "line c1");
    svg.polyline(&[(upper, y), (largest, y)], "line c1");
    for end in [least, largest] {
        svg.polyline(&[(end, y - HALF_BOX / 2.0), (end, y + HALF_BOX / 2.0)], "line c1");
    }
    svg.rect((lower, y - HALF_BOX), (upper - lower, 2.0 * HALF_BOX), "heat h5", title);
    svg.polyline(&[(median, y - HALF_BOX), (median, y + HALF_BOX)], "line c1");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quarters_are_between_values() {
        assert_eq!(quarters(&[1.0, 2.0, 3.0, 4.0]), [1.0, 1.75, 2.5, 3.25, 4.0]);
        assert_eq!(quarters(&[7.0]), [7.0; 5]);
    }

    #[test]
    fn a_row_without_values_is_left_out() {
        let of = |rows: &[(&str, &[f64])]| BoxPlot {
            title: "Delay".into(),
            rows: rows.iter().map(|(name, values)| (name.to_string(), values.to_vec())).collect(),
            number: |value| format!("{value:.3} s"),
            log: true,
        };
        let drawn = of(&[("fifo", &[0.1, 0.2, f64::NAN]), ("pie", &[])]).draw().expect("one has values");
        let described = drawn.split_once("<desc>").and_then(|(_, rest)| rest.split_once("</desc>"));
        assert_eq!(
            described.map(|(text, _)| text),
            Some("fifo: 0.100 s, 0.125 s, 0.150 s, 0.175 s, 0.200 s (2 values)")
        );
        assert_eq!(of(&[("pie", &[])]).draw(), None);
    }
}
