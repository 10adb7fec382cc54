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
    /// Reads the axes of the section [dut]; mistakes are noted.
    pub fn read(section: &Section<'_>) -> SpreadAxes {
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
    pub fn all(&self, kind: DutKind) -> Vec<Option<Spreading>> {
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
