//! Points by their axes: what an answer compares differs in one axis and is alike in all others.

use weir_record::run_data::{PointData, RunData};
use weir_report::view::format::{count, full};
use weir_report::view::{self, frame_name};

/// The axes by which the points of a run differ, without those that an answer compares.
pub(super) struct Axes {
    /// `frame_bytes` and `dut` first, where there are several of them.
    names: Vec<String>,
}

/// Points that are alike in all axes but those that are compared.
pub(super) struct Group<'a> {
    /// `kernel-forward, 64 bytes`.
    pub(super) label: String,
    /// A cell for each axis.
    pub(super) cells: Vec<String>,
    /// The points, in the order of the plan.
    pub(super) points: Vec<&'a PointData>,
}

impl Axes {
    /// The axes of a run but these.
    pub(super) fn without(data: &RunData, compared: &[&str]) -> Axes {
        let differ = |of: fn(&PointData) -> &str| {
            let mut values = devices(data).map(of);
            values.next().is_some_and(|first| values.any(|other| other != first))
        };
        let frames = differ(|point| &point.point.frame).then_some(FRAME);
        let devices = differ(|point| &point.point.dut).then_some(DEVICE);
        let others = view::Axes::of(self::devices(data).map(|point| &point.point));
        let all = frames.into_iter().chain(devices).chain(others.names());
        Axes { names: all.filter(|name| !compared.contains(name)).map(str::to_string).collect() }
    }

    /// Headings of the columns.
    pub(super) fn head(&self) -> Vec<String> {
        let heading = |name: &String| match name.as_str() {
            FRAME => "frame".into(),
            DEVICE => "device".into(),
            name => name.replace('_', " "),
        };
        self.names.iter().map(heading).collect()
    }

    /// The points of the run that have a device, in groups.
    pub(super) fn groups<'a>(&self, data: &'a RunData) -> Vec<Group<'a>> {
        let mut groups: Vec<Group<'a>> = Vec::new();
        for point in devices(data) {
            let cells: Vec<String> = self.names.iter().map(|name| cell(point, name)).collect();
            match groups.iter_mut().find(|group| group.cells == cells) {
                Some(group) => group.points.push(point),
                None => groups.push(Group { label: self.label(point), cells, points: vec![point] }),
            }
        }
        groups
    }

    /// The device and what else tells a point from others, for a sentence.
    fn label(&self, point: &PointData) -> String {
        let others = self.names.iter().filter(|name| *name != DEVICE);
        let words = others.filter_map(|name| words(name, value(point, name)?));
        std::iter::once(point.point.dut.clone()).chain(words).collect::<Vec<_>>().join(", ")
    }
}

const FRAME: &str = "frame_bytes";
const DEVICE: &str = "dut";

/// The points of a run that have a device.
pub(super) fn devices(data: &RunData) -> impl Iterator<Item = &PointData> + Clone {
    data.points.iter().filter(|point| !point.is_ceiling() && point.is_device())
}

impl<'a> Group<'a> {
    /// The point with this frame size.
    pub(super) fn at(&self, frame: &str) -> Option<&'a PointData> {
        self.points.iter().find(|point| point.point.frame == frame).copied()
    }

    /// Its points by their number on an axis, the smallest first; of those with the same number the first.
    pub(super) fn along(&self, axis: &str) -> Vec<(f64, &'a PointData)> {
        // `all` is as many as the machine has.
        let number = |point: &PointData| match axis {
            "cpus" => (!point.point.cpus.is_empty()).then_some(point.point.cpus.len() as f64),
            axis => point.setting(axis)?.parse().ok(),
        };
        let numbered = self.points.iter().filter_map(|point| Some((number(point)?, *point)));
        let mut found: Vec<(f64, &PointData)> = numbered.collect();
        found.sort_by(|a, b| a.0.total_cmp(&b.0));
        found.dedup_by_key(|(number, _)| *number);
        found
    }
}

fn value<'p>(point: &'p PointData, name: &str) -> Option<&'p str> {
    match name {
        FRAME => Some(&point.point.frame),
        DEVICE => Some(&point.point.dut),
        name => point.setting(name),
    }
}

fn cell(point: &PointData, name: &str) -> String {
    value(point, name).unwrap_or("–").to_string()
}

/// A value of an axis as people say it; `None` where it goes without saying.
pub(super) fn words(name: &str, value: &str) -> Option<String> {
    let number = value.parse::<f64>().ok();
    Some(match (name, number) {
        (FRAME, _) => frame_name(value),
        ("ip", _) => format!("IPv{value}"),
        ("cpus", Some(n)) => count(n as usize, "CPU"),
        ("flows", Some(1.0)) => "1 flow".into(),
        ("flows", Some(n)) => format!("{} flows", full(n)),
        ("rules", Some(1.0)) => "1 rule".into(),
        ("rules", Some(n)) => format!("{} rules", full(n)),
        ("filter" | DEVICE, _) => value.to_string(),
        (name, _) => format!("{} {value}", name.replace('_', " ")),
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Measured, run};
    use super::*;

    #[test]
    fn points_are_grouped_by_what_is_not_compared() {
        let point = |dut, frame, flows| Measured { dut, frame, settings: vec![("flows", flows)], fps: 1e5 };
        let data = run(&[
            point("wire", 64, "1"),
            point("kernel-nat", 64, "1"),
            point("kernel-nat", 64, "1000"),
            point("kernel-nat", 1518, "1"),
            point("kernel-forward", 64, "1000"),
        ]);
        let axes = Axes::without(&data, &["flows"]);
        assert_eq!(axes.head(), ["frame", "device"]);
        let groups = axes.groups(&data);
        let found: Vec<_> = groups.iter().map(|group| (group.label.as_str(), group.points.len())).collect();
        assert_eq!(
            found,
            [("kernel-nat, 64 bytes", 2), ("kernel-nat, 1518 bytes", 1), ("kernel-forward, 64 bytes", 1)]
        );
        let flows: Vec<_> = groups[0].along("flows").iter().map(|(n, _)| *n).collect();
        assert_eq!(flows, [1.0, 1000.0]);
        let axes = Axes::without(&data, &[]);
        assert_eq!(axes.groups(&data)[0].label.replace('\u{202f}', " "), "kernel-nat, 64 bytes, 1 flow");
    }
}
