//! The sections of the experiment `throughput`, but for those that have files of their own.

use std::time::Duration;

use weir_config::{Section, value};
use weir_packet::flow::{Direction, FlowOrder, IpVersion, MAX_FLOWS, MAX_NETWORKS};
use weir_packet::frame::Transport;
use weir_packet::size::FrameSizes;
use weir_testbed::dut::DutKind;
use weir_testbed::fault::Faults;
use weir_testbed::rules::RuleForm;
use weir_testbed::updates::MAX_CHANGES_PER_S;

use super::axes::{self, DutAxes, TrafficAxes};
use super::capacity::CapacitySpec;
use super::check_external;
use super::percent;
use super::read_procedures::read_procedures;
use super::read_search::read_search;
use crate::throughput::{Curve, Repeat, Throughput};
use weir_lab::frames::read_external::read_external;
use weir_lab::frames::{Cpus, LinkAxes, SpreadAxes};

/// Reads them all.
pub(in crate::throughput) fn read(root: &Section<'_>) -> Option<Throughput> {
    let (dut_section, traffic_section) = (root.section("dut"), root.section("traffic"));
    let dut = read_dut(&dut_section);
    let traffic = read_traffic(&traffic_section);
    let faults = dut_section.one("faults", value::parsed::<Faults>).unwrap_or_default();
    if let (Some(dut), Some(traffic)) = (&dut, &traffic) {
        for unused in axes::unused(dut, traffic) {
            let section = if unused.section == "dut" { &dut_section } else { &traffic_section };
            section.wrong_entry(unused.key, unused.index, unused.why);
        }
    }
    let external = read_external(root.section("external"));
    if let (Some(dut), Some(traffic)) = (&dut, &traffic) {
        check_external::check(root, external.as_ref(), (dut, traffic));
        check_external::check_clocks(root, external.as_ref(), (dut, traffic));
    }
    dut_section.finish();
    traffic_section.finish();
    let capacity = CapacitySpec::read(root.section("capacity"));
    let search = read_search(root.section("search"), capacity.as_ref());
    let repeat = read_repeat(root.section("repeat"));
    let curve = read_curve(root.section("curve"));
    let procedures = read_procedures(root, dut.as_ref());
    let (search, search_loss) = search?;
    Some(Throughput {
        dut: dut?,
        faults,
        external,
        traffic: traffic?,
        search,
        search_loss,
        repeat,
        capacity,
        curve,
        procedures,
    })
}

fn read_dut(section: &Section<'_>) -> Option<DutAxes> {
    let kind = section.required_axis(
        "kind",
        "\"kernel-forward\"",
        value::choice("device under test", &DutKind::ALL),
    );
    let rules = section.axis("rules", value::count(0..=10_000));
    let filter = section.axis("filter", value::choice("form of rules", &RuleForm::ALL));
    let link = LinkAxes::read(section);
    let cpus = section.axis("cpus", value::parsed::<Cpus>);
    let changes = section.axis("route_changes_per_s", value::count(0..=MAX_CHANGES_PER_S));
    let spreading = SpreadAxes::read(section);
    // One value that is not used does no harm: `--set dut.kind=...` need not mind the rules of the plan.
    let lists = [
        ("rules", rules.as_ref().map_or(0, Vec::len) > 1),
        ("filter", filter.as_ref().map_or(0, Vec::len) > 1),
    ];
    for (key, _) in lists.iter().filter(|(_, is_list)| *is_list) {
        if kind.as_ref().is_some_and(|kind| !kind.iter().any(|&kind| kind.has_rules())) {
            let text = "only kernel-stateless and kernel-stateful have rules: omit the list";
            section.wrong(key, text.to_string());
        } else if *key == "filter" && rules.as_deref() == Some(&[0]) {
            section.wrong(key, "without rules there is no form of rules: omit the list".to_string());
        }
    }
    Some(DutAxes {
        kind: kind?,
        rules: rules.unwrap_or(vec![25]),
        filter: filter.unwrap_or(vec![RuleForm::NftChain]),
        link,
        cpus: cpus.unwrap_or(vec![Cpus::All]),
        route_changes_per_s: changes.unwrap_or(vec![0]),
        spreading,
    })
}

fn read_traffic(section: &Section<'_>) -> Option<TrafficAxes> {
    let frame_bytes = section.required_axis("frame_bytes", "[64, 1518]", value::parsed::<FrameSizes>);
    let ip = section.axis("ip", value::parsed::<IpVersion>);
    let transport = section.axis("transport", value::parsed::<Transport>);
    let flows = section.axis("flows", value::count(1..=MAX_FLOWS));
    let flow_order = section.axis("flow_order", value::parsed::<FlowOrder>);
    let direction = section.axis("direction", value::parsed::<Direction>);
    let networks = section.axis("networks", value::count(1..=MAX_NETWORKS));
    let broadcast_every = section.axis("broadcast_every", value::count(0..=1_000_000));
    let groups = section.one("groups", value::count(1..=256));
    let keeps_whole = section.one("dont_fragment", value::flag).unwrap_or(false);
    let line_bits_per_s = section.one("line_bits_per_s", value::line_bits_per_s);
    Some(TrafficAxes {
        frame_bytes: frame_bytes?,
        ip: ip.unwrap_or(vec![IpVersion::V4]),
        transport: transport.unwrap_or(vec![Transport::Udp]),
        flows: flows.unwrap_or(vec![1]),
        flow_order: flow_order.unwrap_or(vec![FlowOrder::Sequential]),
        direction: direction.unwrap_or(vec![Direction::Both]),
        networks: networks.unwrap_or(vec![1]),
        broadcast_every: broadcast_every.unwrap_or(vec![0]),
        groups: groups.unwrap_or(1),
        keeps_whole,
        line_bits_per_s,
    })
}

fn read_repeat(section: Section<'_>) -> Repeat {
    let times = section.one("times", value::count(1..=1000));
    let in_turn = section.one("in_turn", value::flag);
    section.finish();
    Repeat { times: times.unwrap_or(1), in_turn: in_turn.unwrap_or(false) }
}

fn read_curve(section: Section<'_>) -> Option<Curve> {
    if !section.is_present() {
        return None;
    }
    let percent = section.required_axis("percent", "[10, 50, 90, 100]", percent::percent);
    let trial = section.one("trial_s", value::seconds);
    section.finish();
    Some(Curve { percent: percent?, trial: trial.unwrap_or(Duration::from_secs(1)) })
}
