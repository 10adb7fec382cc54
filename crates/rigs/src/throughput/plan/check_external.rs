//! Conflicts of `[external]` with the rest of a plan.

use std::net::IpAddr;

use weir_config::Section;
use weir_packet::flow::Direction;
use weir_testbed::dut::DutKind;
use weir_testbed::external::ExternalSpec;

use super::axes::{DutAxes, TrafficAxes};

/// Notes procedures that need one clock for both ends of a way, where there are two.
pub(super) fn check_clocks(
    root: &Section<'_>,
    external: Option<&ExternalSpec>,
    (dut, traffic): (&DutAxes, &TrafficAxes),
) {
    let outside = dut.kind.contains(&DutKind::EXTERNAL);
    let one_way = traffic.direction.iter().any(|&direction| direction != Direction::Reflect);
    if !outside || !one_way || external.is_none_or(|external| external.remote.is_none()) {
        return;
    }
    for key in ["latency", "pdv"] {
        if root.has(key) {
            let text = "the ports are on two hosts without a common clock: measure round trips with traffic.direction \
                        = \"reflect\", or omit this section";
            root.wrong(key, text.into());
        }
    }
}

/// Notes what does not go together with the rest of the plan.
pub(super) fn check(root: &Section<'_>, external: Option<&ExternalSpec>, axes: (&DutAxes, &TrafficAxes)) {
    let (dut, traffic) = axes;
    if !dut.kind.contains(&DutKind::EXTERNAL) {
        return;
    }
    let Some(external) = external else {
        if !root.has("external") {
            let text =
                "external is another machine, connected to interfaces of this one: add [external] with `ports`".into();
            root.section("dut").wrong("kind", text);
        }
        return;
    };
    if external.is_hairpin() && traffic.direction != [Direction::Forward] {
        let text = "frames return on the port of [external]: use direction = \"forward\"".into();
        root.section("traffic").wrong("direction", text);
    }
    for (key, addresses) in [("box", external.box_ip), ("tester", external.tester_ip)] {
        let version = |ip: &IpAddr| if ip.is_ipv4() { "4" } else { "6" };
        let wrong = addresses.iter().flatten().find(|ip| {
            let other = |v: &weir_packet::flow::IpVersion| v.to_string() != version(ip);
            traffic.ip.iter().any(other)
        });
        if let Some(ip) = wrong {
            let text = format!(
                "{ip} is no address for the other IP version of [traffic]: measure one, ip = {}",
                version(ip)
            );
            root.section("external").wrong(key, text);
        }
    }
}
