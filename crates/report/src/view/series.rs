//! Which points belong together: same settings but for the frame size make a *series*, one line in a figure.
//! Points of several runs with the same settings get the same colour and stand next to each other.

use super::axes::Axes;
use crate::record::Run;
use crate::run_data::{PointData, RunData};

/// Colours of the palette, without the grey of the wire.
pub const COLOURS: usize = 7;

/// All runs of a report, sorted for comparison.
pub struct Comparison<'a> {
    /// The runs.
    pub runs: &'a [RunData],
    /// Frame sizes as named in the plans, smallest mean first.
    pub frames: Vec<&'a str>,
    /// Devices in plan order, the wire last.
    pub series: Vec<Series<'a>>,
    /// The settings that differ between points of devices, without the frame size.
    pub axes: Axes,
}

/// Points of one run that differ only in the frame size.
pub struct Series<'a> {
    /// Device and the settings that vary: `kernel-nat · cpus 2`.
    pub name: String,
    /// The name, with the run where there are several: `kernel-nat · cpus 2 · run 3`.
    pub label: String,
    /// Run of the points.
    pub run: &'a Run,
    /// At most one point per frame size.
    pub points: Vec<&'a PointData>,
    /// How it is drawn.
    pub style: Style,
}

/// How a series is drawn: never by colour alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Colour, 0 (the grey of the wire) to 7.
    pub colour: usize,
    /// Shape of the markers.
    pub marker: usize,
    /// Dashes of a line, filling of a bar: tells runs apart.
    pub pattern: usize,
}

impl<'a> Comparison<'a> {
    /// Sorts the points of all runs.
    pub fn new(runs: &'a [RunData]) -> Self {
        let axes = axes(runs, false);
        // What the devices differ in says nothing of a ceiling that is measured once for all of them.
        let of_ceilings = self::axes(runs, true);
        let mut bases: Vec<String> = Vec::new();
        let mut found: Vec<(usize, usize, Series<'a>)> = Vec::new();
        for (run_index, data) in runs.iter().enumerate() {
            // What measures a part of the tester has a separate section.
            for point in data.points.iter().filter(|p| p.is_device()) {
                let name = if point.is_ceiling() { &of_ceilings } else { &axes }.name(&point.point);
                let base = bases.iter().position(|b| *b == name).unwrap_or_else(|| {
                    bases.push(name.clone());
                    bases.len() - 1
                });
                let free = found.iter_mut().find(|(b, r, series)| {
                    (*b, *r) == (base, run_index) && series.at(&point.point.frame).is_none()
                });
                match free {
                    Some((_, _, series)) => series.points.push(point),
                    None => found.push((base, run_index, Series::new(name, data, point, runs.len() > 1))),
                }
            }
        }
        found.sort_by_key(|(base, run, series)| (series.is_ceiling(), *base, *run));
        number_styles(&mut found);
        let series = found.into_iter().map(|(_, _, series)| series).collect();
        Comparison { runs, frames: frames(runs), series, axes }
    }

    /// Points of one frame size with their series.
    pub fn at(&self, frame: &str) -> Vec<(&Series<'a>, &'a PointData)> {
        self.series.iter().filter_map(|s| s.at(frame).map(|p| (s, p))).collect()
    }

    /// Headings of the columns that say which point a line is of: the device, and a column for each axis.
    pub fn device_head(&self, device: &str) -> Vec<String> {
        std::iter::once(device.to_string()).chain(self.axes.head()).collect()
    }

    /// The cells below them.
    pub fn device_cells(&self, series: &Series<'_>, point: &PointData) -> Vec<String> {
        let run = if self.runs.len() > 1 { format!(" · run {}", series.run.id) } else { String::new() };
        let device = format!("{}{run}", point.point.dut);
        std::iter::once(device).chain(self.axes.cells(&point.point.settings)).collect()
    }

    /// All points: frame size by frame size, series by series.
    pub fn all(&self) -> Vec<(&Series<'a>, &'a PointData)> {
        self.frames.iter().flat_map(|frame| self.at(frame)).collect()
    }
}

impl<'a> Series<'a> {
    fn new(name: String, data: &'a RunData, point: &'a PointData, several: bool) -> Self {
        let label = if several { format!("{name} · run {}", data.run.id) } else { name.clone() };
        let style = Style { colour: 0, marker: 0, pattern: 0 };
        Series { name, label, run: &data.run, points: vec![point], style }
    }

    /// The point of a frame size.
    pub fn at(&self, frame: &str) -> Option<&'a PointData> {
        self.points.iter().find(|p| p.point.frame == frame).copied()
    }

    /// True for the tester's own ceiling.
    pub fn is_ceiling(&self) -> bool {
        self.points.iter().any(|p| p.is_ceiling())
    }
}

/// Frame size as people say it: `64 bytes`, `imix`.
pub fn frame_name(frame: &str) -> String {
    if frame.parse::<u32>().is_ok() { format!("{frame} bytes") } else { frame.to_string() }
}

/// The axes of the devices, or of the ceilings.
fn axes(runs: &[RunData], is_ceiling: bool) -> Axes {
    let points = runs.iter().flat_map(|run| &run.points);
    let points = points.filter(move |point| point.is_device() && point.is_ceiling() == is_ceiling);
    Axes::of(points.map(|point| &point.point))
}

/// Frame sizes of all runs, smallest mean first.
fn frames(runs: &[RunData]) -> Vec<&str> {
    let mut sizes: Vec<(f64, &str)> = Vec::new();
    for point in runs.iter().flat_map(|r| &r.points).map(|p| &p.point) {
        if !sizes.iter().any(|(_, frame)| *frame == point.frame) {
            sizes.push((point.frame_bytes_mean, &point.frame));
        }
    }
    sizes.sort_by(|a, b| a.0.total_cmp(&b.0));
    sizes.into_iter().map(|(_, frame)| frame).collect()
}

fn number_styles(series: &mut [(usize, usize, Series<'_>)]) {
    let mut order: Vec<usize> = Vec::new();
    for (base, run, series) in series {
        if series.is_ceiling() {
            series.style = Style { colour: 0, marker: 5, pattern: *run };
            continue;
        }
        let index = order.iter().position(|b| b == base).unwrap_or_else(|| {
            order.push(*base);
            order.len() - 1
        });
        series.style = Style { colour: 1 + index % COLOURS, marker: index, pattern: *run + index / COLOURS };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn one_series_per_device_and_the_wire_last() {
        let runs = [fixture::quick()];
        let all = Comparison::new(&runs);
        let labels: Vec<_> = all.series.iter().map(|s| s.label.as_str()).collect();
        assert_eq!(
            labels,
            ["kernel-forward", "kernel-stateless", "kernel-stateful", "kernel-nat", "xdp-forward", "wire"]
        );
        assert_eq!(all.frames, ["64", "512", "1518"]);
        assert_eq!(all.all().len(), 18);
    }

    #[test]
    fn runs_are_matched_by_settings() {
        let runs = [fixture::quick(), fixture::quick_again()];
        let all = Comparison::new(&runs);
        assert_eq!(all.series[0].label, "kernel-forward · run 1");
        assert_eq!(all.series[1].label, "kernel-forward · run 2");
        assert_eq!(all.series[0].style.colour, all.series[1].style.colour);
        assert_ne!(all.series[0].style.pattern, all.series[1].style.pattern);
    }

    #[test]
    fn settings_that_vary_are_named() {
        let mut data = fixture::quick();
        data.points[3].point.settings[2].1 = "2".into();
        let runs = [data];
        let all = Comparison::new(&runs);
        let labels: Vec<_> = all.series.iter().map(|s| s.label.as_str()).collect();
        let others = ["kernel-stateless", "kernel-stateful", "kernel-nat", "xdp-forward", "wire"];
        let expected: Vec<_> = ["kernel-forward · cpus 2".to_string(), "kernel-forward · cpus 1".to_string()]
            .into_iter()
            .chain(others.map(|name| if name == "wire" { name.into() } else { format!("{name} · cpus 1") }))
            .collect();
        assert_eq!(labels, expected);
    }

    #[test]
    fn a_form_of_rules_needs_no_name() {
        let mut data = fixture::quick();
        for (index, form) in [(6, "nft-chain"), (9, "nft-set")] {
            data.points[index].point.settings.push(("filter".into(), form.into()));
        }
        let runs = [data];
        let all = Comparison::new(&runs);
        assert!(all.series.iter().any(|s| s.label.ends_with("· nft-chain")), "{:?}", all.series[1].label);
    }

    #[test]
    fn a_setting_of_some_devices_is_named_only_where_it_varies() {
        let mut data = fixture::quick();
        let mut rules = |index: usize, n: &str| {
            data.points[index].point.settings.push(("rules".into(), n.into()));
            let runs = [data.clone()];
            Comparison::new(&runs).series.iter().any(|s| s.label.contains("rules"))
        };
        assert!(!rules(6, "25"));
        assert!(rules(9, "100"));
    }

    #[test]
    fn no_point_is_hidden_when_two_have_the_same_settings() {
        let mut data = fixture::quick();
        let twin = data.points[0].clone();
        data.points.push(twin);
        let runs = [data];
        assert_eq!(Comparison::new(&runs).all().len(), 19);
    }
}
