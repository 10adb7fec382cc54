//! The axes of a run: settings that differ between its points, in short words. Labels of drawings, columns of tables and lines
//! of progress are made of them, so that each names what tells a point from the others, and nothing else.
//!
//! ```text
//! settings of points > names that differ > "flows 200k · buckets 16384"   a label
//!                                        > flows | buckets                columns of a table
//! ```

use std::iter;

use crate::record::Point;
use crate::run_data::PointData;

/// Settings of a point: name and value.
pub type Settings = [(String, String)];

/// Between the parts of a label.
pub const DOT: &str = " · ";

/// Names in records that are longer than a column; all others are as in the record, with spaces.
const SHORT: [(&str, &str); 8] = [
    ("nf_conntrack_buckets", "buckets"),
    ("nf_conntrack_max", "max"),
    ("nf_conntrack_udp_timeout", "UDP timeout"),
    ("frame_bytes", "frame"),
    ("flow_order", "order"),
    ("route_changes_per_s", "changes/s"),
    ("line_bits_per_s", "line"),
    ("broadcast_every", "broadcast 1 of"),
];
/// Settings whose values say what they are.
const SPEAKING: [&str; 2] = ["filter", DEVICE];
/// The setting that every point has as its device.
const DEVICE: &str = "dut";

/// The settings that differ between points, in the order of the record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Axes {
    /// Do the devices differ?
    has_devices: bool,
    names: Vec<String>,
}

/// Points that agree in some axes.
#[derive(Debug)]
pub struct Group<'p> {
    /// In what they agree: `flows 200k`; empty where they are grouped by nothing.
    pub heading: String,
    /// A label for each, by the other axes.
    pub members: Vec<(String, &'p PointData)>,
}

impl Axes {
    /// Of points. Settings that only repeat the device or the frame size are none, nor are those that only some points have.
    pub fn of<'p>(points: impl Iterator<Item = &'p Point> + Clone) -> Axes {
        let mut axes = Axes::of_settings(points.clone().map(|point| &point.settings[..]));
        let first = points.clone().next();
        axes.has_devices = points.clone().any(|point| Some(&point.dut) != first.map(|first| &first.dut));
        axes.names.retain(|name| {
            let repeats = |of: fn(&Point) -> &String| {
                points.clone().all(|point| value(&point.settings, name) == Some(of(point)))
            };
            !repeats(|point| &point.frame) && !repeats(|point| &point.dut)
        });
        axes
    }

    /// Of points of which only the settings are known.
    pub fn of_settings<'p>(points: impl Iterator<Item = &'p Settings> + Clone) -> Axes {
        let mut names: Vec<String> = Vec::new();
        for (name, _) in points.clone().flatten() {
            if name != DEVICE && !names.contains(name) {
                names.push(name.clone());
            }
        }
        names.retain(|name| {
            let first = points.clone().find_map(|settings| value(settings, name));
            points.clone().filter_map(|settings| value(settings, name)).any(|value| Some(value) != first)
        });
        Axes { has_devices: false, names }
    }

    /// The same without these settings.
    pub fn without(mut self, names: &[&str]) -> Axes {
        self.names.retain(|name| !names.contains(&name.as_str()));
        self
    }

    /// Does no setting differ?
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// How many settings differ.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// The names of the settings, as in the record.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// A heading for each, as a column has it.
    pub fn head(&self) -> Vec<String> {
        self.names.iter().map(|name| short_name(name)).collect()
    }

    /// The values of a point, in the order of the headings.
    pub fn cells(&self, settings: &Settings) -> Vec<String> {
        let cell = |name: &String| {
            value(settings, name).map_or_else(|| "–".to_string(), |value| short_value(name, value))
        };
        self.names.iter().map(cell).collect()
    }

    /// What tells a point from the others: `flows 200k · buckets 16384`; empty where nothing does.
    pub fn parts(&self, settings: &Settings) -> Vec<String> {
        self.names.iter().filter_map(|name| Some(part(name, value(settings, name)?))).collect()
    }

    /// The device and its axes: `kernel-nat · flows 200k`.
    pub fn name(&self, point: &Point) -> String {
        let parts = self.parts(&point.settings).into_iter();
        iter::once(point.dut.clone()).chain(parts).collect::<Vec<_>>().join(DOT)
    }

    /// The device, where devices differ or nothing else does, and the axes.
    pub fn label(&self, point: &Point) -> String {
        let parts = self.parts(&point.settings);
        let device = (self.has_devices || parts.is_empty()).then(|| point.dut.clone());
        device.into_iter().chain(parts).collect::<Vec<_>>().join(DOT)
    }

    /// Points in groups that agree in the axes `by`, in the order of the points; each has a label by the other axes.
    pub fn grouped<'p>(&self, points: &[&'p PointData], by: &[&str]) -> Vec<Group<'p>> {
        let (shared, own) = self.split(by);
        let mut groups: Vec<Group<'p>> = Vec::new();
        for &data in points {
            let heading = shared.parts(&data.point.settings).join(DOT);
            let member = (own.label(&data.point), data);
            match groups.iter_mut().find(|group| group.heading == heading) {
                Some(group) => group.members.push(member),
                None => groups.push(Group { heading, members: vec![member] }),
            }
        }
        groups
    }

    /// Those of these names, and the others.
    fn split(&self, by: &[&str]) -> (Axes, Axes) {
        let (shared, own) = self.names.iter().cloned().partition(|name| by.contains(&name.as_str()));
        (Axes { has_devices: false, names: shared }, Axes { has_devices: self.has_devices, names: own })
    }
}

/// A setting as a heading: `buckets`.
pub fn short_name(name: &str) -> String {
    let short = SHORT.iter().find(|(long, _)| *long == name);
    short.map_or_else(|| name.replace('_', " "), |(_, short)| (*short).to_string())
}

/// A value as a cell: `200k`, exact in any case.
pub fn short_value(name: &str, value: &str) -> String {
    let count = value.parse::<u64>().ok().filter(|count| *count > 0 && name != "frame_bytes");
    match count {
        Some(count) if count % 1_000_000 == 0 => format!("{}M", count / 1_000_000),
        Some(count) if count % 1000 == 0 => format!("{}k", count / 1000),
        _ => value.to_string(),
    }
}

/// A setting and its value in a label.
pub fn part(name: &str, value: &str) -> String {
    let shown = (!SPEAKING.contains(&name)).then(|| short_name(name));
    shown.into_iter().chain(iter::once(short_value(name, value))).collect::<Vec<_>>().join(" ")
}

fn value<'s>(settings: &'s Settings, name: &str) -> Option<&'s String> {
    settings.iter().find(|(known, _)| known == name).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(dut: &str, settings: &[(&str, &str)]) -> PointData {
        let settings = settings.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        let point = Point { dut: dut.into(), frame: "128".into(), settings, ..Point::default() };
        PointData { point, trials: Vec::new() }
    }

    /// Points with these flows, buckets and most entries.
    fn tables() -> Vec<PointData> {
        let mut points = Vec::new();
        for (buckets, max) in [("16384", "65536"), ("262144", "524288")] {
            for flows in ["10000", "200000"] {
                let settings = [
                    ("dut", "kernel-nat"),
                    ("frame_bytes", "128"),
                    ("flows", flows),
                    ("nf_conntrack_buckets", buckets),
                    ("nf_conntrack_max", max),
                ];
                points.push(point("kernel-nat", &settings));
            }
        }
        points
    }

    #[test]
    fn labels_name_what_differs_in_few_letters_and_groups_what_is_the_same() {
        let points = tables();
        let axes = Axes::of(points.iter().map(|data| &data.point));
        assert_eq!(axes.head(), ["flows", "buckets", "max"]);
        assert_eq!(axes.cells(&points[1].point.settings), ["200k", "16384", "65536"]);
        assert_eq!(axes.label(&points[1].point), "flows 200k · buckets 16384 · max 65536");
        let all: Vec<&PointData> = points.iter().collect();
        let shown = |by: &[&str]| -> Vec<String> {
            let line = |group: &Group<'_>| {
                let labels: Vec<&str> = group.members.iter().map(|(label, _)| label.as_str()).collect();
                format!("{}: {}", group.heading, labels.join(", "))
            };
            axes.grouped(&all, by).iter().map(line).collect()
        };
        let pairs = "buckets 16384 · max 65536, buckets 262144 · max 524288";
        assert_eq!(shown(&["flows"]), [format!("flows 10k: {pairs}"), format!("flows 200k: {pairs}")]);
        assert_eq!(shown(&["flows", "nf_conntrack_buckets"])[3], "flows 200k · buckets 262144: max 524288");
        assert_eq!(shown(&[]).len(), 1);
    }

    #[test]
    fn a_device_is_named_where_devices_differ_or_nothing_else_does() {
        let label = |points: &[PointData]| {
            let axes = Axes::of(points.iter().map(|data| &data.point));
            axes.label(&points[0].point)
        };
        let of = |dut: &str, flows: &str| point(dut, &[("dut", dut), ("flows", flows)]);
        for (others, expected) in [
            (vec![], "kernel-nat"),
            (vec![of("node-nat", "1")], "kernel-nat"),
            (vec![of("kernel-nat", "1000")], "flows 1"),
            (vec![of("node-nat", "1000")], "kernel-nat · flows 1"),
        ] {
            let points: Vec<_> = iter::once(of("kernel-nat", "1")).chain(others).collect();
            assert_eq!(label(&points), expected);
        }
    }

    #[test]
    fn short_values_are_exact() {
        for (name, value, expected) in [
            ("flows", "0", "0"),
            ("flows", "999", "999"),
            ("flows", "1000", "1k"),
            ("flows", "1500", "1500"),
            ("flows", "2500000", "2500k"),
            ("flows", "4000000", "4M"),
            ("frame_bytes", "9000", "9000"),
            ("filter", "nft-set", "nft-set"),
        ] {
            assert_eq!(short_value(name, value), expected, "{name} {value}");
        }
        assert_eq!((short_name("flow_order"), short_name("own_thing")), ("order".into(), "own thing".into()));
    }
}
