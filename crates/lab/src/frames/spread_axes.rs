//! The axes for the CPUs and the timing of an interface's work: `interrupts`, `rps`, `xps` and `coalesce_us` of `[dut]`.

use toml_edit::Value;
use weir_config::{Section, value};
use weir_testbed::dut::DutKind;
use weir_testbed::spread::{Spread, Spreading};

/// Each list is an axis; empty where the plan says nothing, so that everything is as it is.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SpreadAxes {
    /// CPUs of the interrupts.
    pub interrupts: Vec<Spread>,
    /// CPUs that receive queues hand frames to.
    pub rps: Vec<Spread>,
    /// CPUs that transmit queues belong to.
    pub xps: Vec<Spread>,
    /// How long receive queues gather frames, us.
    pub coalesce_us: Vec<u32>,
}

/// A frame must not wait longer than a trial of the shortest kind takes.
const MAX_COALESCE_US: u32 = 10_000;

impl SpreadAxes {
    pub(crate) fn read(section: &Section<'_>) -> SpreadAxes {
        let interrupts = |value: &Value| match value::parsed(value)? {
            Spread::Off => {
                Err("an interrupt needs a CPU: use numbers such as \"0-1\", \"all\" or \"default\"".into())
            }
            spread => Ok(spread),
        };
        let of = |key| section.axis(key, value::parsed::<Spread>).unwrap_or_default();
        let interrupts = section.axis("interrupts", interrupts).unwrap_or_default();
        let (rps, xps) = (of("rps"), of("xps"));
        let coalesce_us = section.axis("coalesce_us", value::count(0..=MAX_COALESCE_US)).unwrap_or_default();
        SpreadAxes { interrupts, rps, xps, coalesce_us }
    }

    /// All combinations; `None` where the plan says nothing, or the device has no interfaces of its own.
    pub(crate) fn all(&self, kind: DutKind) -> Vec<Option<Spreading>> {
        if *self == SpreadAxes::default() || kind == DutKind::WIRE {
            return vec![None];
        }
        let or_as_is = |list: &[Spread]| if list.is_empty() { vec![Spread::AsIs] } else { list.to_vec() };
        let [interrupts, rps, xps] = [&self.interrupts, &self.rps, &self.xps].map(|list| or_as_is(list));
        let coalesce: Vec<_> = match &self.coalesce_us[..] {
            [] => vec![None],
            list => list.iter().copied().map(Some).collect(),
        };
        let mut list = Vec::new();
        for interrupts in &interrupts {
            for rps in &rps {
                for xps in &xps {
                    list.extend(coalesce.iter().map(|&coalesce_us| {
                        let (interrupts, rps, xps) = (interrupts.clone(), rps.clone(), xps.clone());
                        Some(Spreading { interrupts, rps, xps, coalesce_us })
                    }));
                }
            }
        }
        list
    }
}

#[cfg(test)]
mod tests {
    use crate::frames::PointSpec;
    use weir_testkit::golden;

    use crate::plan::mistakes;
    use crate::rigs::PLANS;

    fn points(sets: &[&str]) -> Result<Vec<PointSpec>, String> {
        let sets: Vec<String> = sets.iter().map(|set| set.to_string()).collect();
        let plan = PLANS.load("router", &sets).map_err(|error| error.to_string())?;
        assert!(plan.throughput().is_some());
        Ok(plan.points())
    }

    const ONE: [&str; 3] = ["dut.kind=kernel-forward", "traffic.frame_bytes=64", "traffic.ip=4"];

    fn rps(point: &PointSpec) -> Option<String> {
        point.settings().into_iter().find(|(name, _)| name == "rps").map(|(_, value)| value)
    }

    #[test]
    fn each_combination_is_a_point_and_says_all_three() {
        let plain = points(&ONE).unwrap();
        assert!(plain.iter().all(|point| rps(point).is_none()));
        let sets =
            [&ONE[..], &["dut.rps=[\"default\",\"off\",0,\"0-1\"]", "dut.xps=[\"off\",\"all\"]"]].concat();
        let all = points(&sets).unwrap();
        assert_eq!(all.len(), plain.len() * 8);
        let first: Vec<_> = all.iter().filter_map(rps).take(2).collect();
        assert!(all.iter().all(|point| rps(point).is_some()), "{first:?}");
        let wires = points(&["dut.kind=[wire,kernel-forward]", "dut.cpus=1", "dut.rps=[off,all]"]).unwrap();
        let of = |kind: &str| wires.iter().filter(|point| point.dut.to_string() == kind).count();
        assert_eq!(of("wire") * 2, of("kernel-forward"), "a wire is there once");
    }

    #[test]
    fn queues_gather_frames_as_long_as_the_plan_says() {
        let reported = |set: &str| -> Vec<Option<u32>> {
            let points = points(&[&ONE[..], &["dut.cpus=1", set]].concat()).unwrap();
            points.iter().map(|point| point.spreading.as_ref()?.coalesce_us).collect()
        };
        assert_eq!(reported("dut.coalesce_us=[0,50]"), [Some(0), Some(50)]);
        assert_eq!(reported("dut.rps=off"), [None]);
    }

    #[test]
    fn mistakes_have_remedies() {
        let sets = [
            "dut.rps=1-0",
            "dut.interrupts=off",
            "dut.interrupts=0",
            "dut.xps=0",
            "dut.coalesce_us=10001",
            "dut.kind=xdp-forward --set dut.rps=0",
            "dut.kind=xdp-forward --set dut.xps=0-1",
        ];
        let with = |sets: &[String]| {
            let sets: Vec<&str> = ONE.into_iter().chain(sets.iter().map(String::as_str)).collect();
            points(&sets)
        };
        golden!("src/frames/golden/spread-mistakes.txt", &mistakes(&sets, with));
    }
}
