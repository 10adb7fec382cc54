//! CPUs for the work of an interface, as settings of a point, and the devices for which they have no meaning.

use weir_testbed::dut::DutKind;
use weir_testbed::spread::{Spread, Spreading};

/// As name and value, in the order of the plan.
pub(crate) fn settings(spreading: &Spreading) -> Vec<(&'static str, String)> {
    let Spreading { interrupts, rps, xps, coalesce_us } = spreading;
    let mut list =
        vec![("interrupts", interrupts.to_string()), ("rps", rps.to_string()), ("xps", xps.to_string())];
    list.extend(coalesce_us.map(|us| ("coalesce_us", us.to_string())));
    list
}

/// The options that have no meaning for a device, and why.
pub(crate) fn conflicts(kind: DutKind, spreading: &Spreading) -> Vec<(&'static str, String)> {
    let mut list = Vec::new();
    let mut add = |key, why: String| list.push((key, why));
    if spreading.interrupts != Spread::AsIs && kind != DutKind::EXTERNAL {
        add(
            "interrupts",
            format!(
                "{kind} uses a veth, which has no interrupts: omit this, or measure an external DUT (kind = \"external\") \
                 through interfaces with interrupts"
            ),
        );
    }
    if kind.is_in_driver() && !matches!(spreading.rps, Spread::AsIs | Spread::Off) {
        add("rps", format!("{kind} receives frames in the driver, before RPS: omit this"));
    }
    if kind.is_in_driver() && !matches!(spreading.xps, Spread::AsIs | Spread::Off) {
        add("xps", format!("{kind} sends without XPS: omit this"));
    }
    if matches!(&spreading.xps, Spread::Over(cpus) if cpus.len() < 2) && kind != DutKind::EXTERNAL {
        let text = "each CPU has its own transmit queue, so that XPS has no effect with one CPU: use two CPUs or more";
        add("xps", text.into());
    }
    list
}
