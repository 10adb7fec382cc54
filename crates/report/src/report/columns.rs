//! Stacked columns from 0 to 100 %: what each CPU did.

use crate::record::CpuUse;
use crate::view::format::percent;
use crate::view::svg::{Anchor, Svg, broken};

const WIDTH: f64 = 212.0;
const COLUMN: f64 = 86.0;
const LEFT: f64 = 40.0;
const LINE: f64 = 14.0;
/// Below the heading.
const GAP: f64 = 12.0;
const BOTTOM: f64 = 24.0;

/// The parts of a column: class and name, in the order of [`parts`].
pub(super) const PARTS: [(&str, &str); 3] =
    [("c1 p0", "device under test"), ("c0 p0", "tester"), ("c5 p1", "everything else")];

/// Shares of the device, the tester and all others, 0..=1 together.
pub(super) fn parts(cpu: &CpuUse) -> [f64; 3] {
    let dut = cpu.dut.clamp(0.0, 1.0);
    let tester = cpu.tester.clamp(0.0, 1.0 - dut);
    [dut, tester, (cpu.busy.min(1.0) - dut - tester).max(0.0)]
}

/// One panel: a column per CPU.
pub(super) fn draw(heading: &str, cpus: &[CpuUse]) -> String {
    let lines = broken(heading, WIDTH);
    let bottom = LINE * lines.len() as f64 + GAP + COLUMN;
    let mut svg = Svg::new(WIDTH, bottom + BOTTOM);
    for (i, line) in lines.iter().enumerate() {
        svg.text((0.0, LINE * (i + 1) as f64), Anchor::Start, "label", line);
    }
    for share in [0.0, 0.5, 1.0] {
        let y = bottom - share * COLUMN;
        svg.line((LEFT, y), (WIDTH, y), "grid");
        svg.text((LEFT - 6.0, y + 4.0), Anchor::End, "tick", &format!("{:.0} %", share * 100.0));
    }
    let step = (WIDTH - LEFT) / cpus.len().max(4) as f64;
    let each = (24.0 / step).ceil() as usize;
    for (i, cpu) in cpus.iter().enumerate() {
        let x = LEFT + step * i as f64;
        let mut y = bottom;
        for (share, (class, name)) in parts(cpu).into_iter().zip(PARTS) {
            y -= share * COLUMN;
            let title = format!("CPU {}: {name} {}", cpu.cpu, percent(share));
            let corner = (x + step * 0.12, y);
            svg.rect(corner, (step * 0.76, share * COLUMN), &format!("bar {class}"), &title);
        }
        if i % each == 0 {
            svg.text((x + step / 2.0, bottom + 16.0), Anchor::Middle, "tick", &cpu.cpu.to_string());
        }
    }
    svg.finish(&format!("CPU use: {heading}"), &description(cpus))
}

fn description(cpus: &[CpuUse]) -> String {
    let texts: Vec<_> = cpus.iter().map(|c| format!("CPU {} busy {}", c.cpu, percent(c.busy))).collect();
    texts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_never_exceed_the_column() {
        let part = |busy, dut, tester| parts(&CpuUse { cpu: 0, busy, dut, tester });
        assert_eq!(part(0.9, 0.5, 0.25), [0.5, 0.25, 0.15000000000000002]);
        assert_eq!(part(0.5, 0.75, 0.5), [0.75, 0.25, 0.0], "counters disagree");
        assert_eq!(part(0.0, 0.0, 0.0), [0.0; 3]);
        assert!(draw("none", &[]).starts_with("<svg"));
    }
}
