//! The axes of a plan and the points that they span.
//!
//! A combination that has no meaning (64 bytes over IPv6, both directions through a NAT) is left out. A value
//! of an axis that is left in no combination at all is a mistake of the plan, so that nothing which was asked
//! for goes missing silently. Axes that a device under test does not have (`rules` of a plain router) do not
//! multiply its points.

use std::num::NonZeroU32;

use weir_packet::flow::{Direction, FlowOrder, IpVersion};
use weir_packet::frame::Transport;
use weir_packet::size::FrameSizes;
use weir_testbed::dut::DutKind;
use weir_testbed::link::LinkSpec;
use weir_testbed::rules::RuleForm;
use weir_testbed::spread::{Spread, Spreading};

use weir_lab::frames::point::{Conflict, Cpus, PointSpec, Routing};
use weir_lab::frames::{LinkAxes, SpreadAxes};

/// `[dut]`: each field is an axis with at least one value.
#[derive(Debug, Clone, PartialEq)]
pub struct DutAxes {
    /// Devices under test.
    pub kind: Vec<DutKind>,
    /// Numbers of filter rules, 0..=10000; only the filters have them.
    pub rules: Vec<u32>,
    /// Forms of these rules; without rules they have none.
    pub filter: Vec<RuleForm>,
    /// Links; only a bottleneck has one.
    pub link: LinkAxes,
    /// CPU sets.
    pub cpus: Vec<Cpus>,
    /// Routes added or removed per second while frames pass; 0 = none. Only routers have routes.
    pub route_changes_per_s: Vec<u32>,
    /// CPUs for the work of its interfaces.
    pub spreading: SpreadAxes,
}

/// `[traffic]`: each list is an axis with at least one value.
#[derive(Debug, Clone, PartialEq)]
pub struct TrafficAxes {
    /// Frame sizes.
    pub frame_bytes: Vec<FrameSizes>,
    /// IP versions.
    pub ip: Vec<IpVersion>,
    /// Transport protocol of the frames.
    pub transport: Vec<Transport>,
    /// Numbers of flows, 1..=[`weir_packet::flow::MAX_FLOWS`].
    pub flows: Vec<u32>,
    /// Orders of the flows.
    pub flow_order: Vec<FlowOrder>,
    /// Directions.
    pub direction: Vec<Direction>,
    /// Networks of each side, 1..=[`weir_packet::flow::MAX_NETWORKS`]; a router has a route to each.
    pub networks: Vec<u32>,
    /// Test frames of a stream from one broadcast to the next; 0 = no broadcasts.
    pub broadcast_every: Vec<u32>,
    /// Flow groups that are counted apart, 1..=256.
    pub groups: u32,
    /// Packets of IPv4 may not be cut into fragments.
    pub keeps_whole: bool,
    /// Speed of the line in bit/s that results are compared with; a virtual wire has none.
    pub line_bits_per_s: Option<f64>,
}

/// A value of an axis that no combination can use.
#[derive(Debug, PartialEq)]
pub(super) struct Unused {
    /// `dut` or `traffic`.
    pub(super) section: &'static str,
    /// Option in the section.
    pub(super) key: &'static str,
    /// Entry of the list, from 0.
    pub(super) index: usize,
    /// Why, and what to do.
    pub(super) why: String,
}

/// All combinations, the device under test slowest and the frame size fastest, so that a test bed is built
/// once for all sizes.
pub(in crate::throughput) fn points(dut: &DutAxes, traffic: &TrafficAxes) -> Vec<PointSpec> {
    combinations(dut, traffic).into_iter().filter(|point| point.conflicts().is_empty()).collect()
}

/// Picks one of the three.
type Part = fn(&Spreading) -> &Spread;

/// The values that are left in no combination. Each reason is reported once.
pub(super) fn unused(dut: &DutAxes, traffic: &TrafficAxes) -> Vec<Unused> {
    let all: Vec<_> =
        combinations(dut, traffic).into_iter().map(|point| (point.conflicts(), point)).collect();
    let mut list = without_point(&all, ("dut", "kind"), &dut.kind, |point| point.dut);
    for (key, values, part) in [
        ("buffer", &dut.link.buffer, (|link| &link.buffer) as fn(&LinkSpec) -> &String),
        ("delay", &dut.link.delay, |link| &link.delay),
    ] {
        let values: Vec<_> = values.iter().map(Some).collect();
        list.extend(without_point(&all, ("dut", key), &values, |point| point.link.as_ref().map(part)));
    }
    list.extend(without_point(&all, ("traffic", "frame_bytes"), &traffic.frame_bytes, |point| {
        point.frame.clone()
    }));
    list.extend(without_point(&all, ("traffic", "ip"), &traffic.ip, |point| point.ip));
    list.extend(without_point(&all, ("traffic", "transport"), &traffic.transport, |point| point.transport));
    list.extend(without_point(&all, ("traffic", "flows"), &traffic.flows, |point| point.flows));
    let some: Vec<_> = traffic.networks.iter().copied().map(Some).collect();
    let networks = |point: &PointSpec| point.routing.map(|routing| routing.networks);
    list.extend(without_point(&all, ("traffic", "networks"), &some, networks));
    list.extend(without_point(&all, ("traffic", "direction"), &traffic.direction, |point| point.direction));
    let parts: [(_, &[Spread], Part); 3] = [
        ("interrupts", &dut.spreading.interrupts, |spreading| &spreading.interrupts),
        ("rps", &dut.spreading.rps, |spreading| &spreading.rps),
        ("xps", &dut.spreading.xps, |spreading| &spreading.xps),
    ];
    for (key, values, part) in parts {
        let values: Vec<_> = values.iter().map(Some).collect();
        list.extend(without_point(&all, ("dut", key), &values, |point| point.spreading.as_ref().map(part)));
    }
    let mut reported = Vec::new();
    list.retain(|unused| {
        !reported.contains(&unused.why) && {
            reported.push(unused.why.clone());
            true
        }
    });
    list
}

/// The values of one axis all of whose combinations have a conflict, where that is the fault of this axis.
fn without_point<'p, T: PartialEq>(
    all: &'p [(Vec<Conflict>, PointSpec)],
    (section, key): (&'static str, &'static str),
    values: &[T],
    value_of: impl Fn(&'p PointSpec) -> T,
) -> Vec<Unused> {
    let mut list = Vec::new();
    for (index, value) in values.iter().enumerate() {
        let conflicts =
            || all.iter().filter(|(_, point)| value_of(point) == *value).map(|(conflicts, _)| conflicts);
        if conflicts().all(|conflicts| !conflicts.is_empty()) {
            let reason = conflicts().flatten().find(|conflict| conflict.axes.contains(&key));
            list.extend(reason.map(|reason| Unused { section, key, index, why: reason.why.clone() }));
        }
    }
    list
}

fn combinations(dut: &DutAxes, traffic: &TrafficAxes) -> Vec<PointSpec> {
    let mut list = Vec::new();
    for Device { kind, filter: (rules, form), link, cpus, spreading } in devices(dut) {
        for (routing, (ip, transport, flows, order, direction, broadcast_every)) in routed(kind, dut, traffic)
        {
            for frame in &traffic.frame_bytes {
                list.push(PointSpec {
                    dut: kind,
                    rules,
                    form,
                    link: link.clone(),
                    cpus,
                    spreading: spreading.clone(),
                    routing,
                    frame: frame.clone(),
                    ip,
                    transport,
                    flows,
                    order,
                    direction,
                    broadcast_every,
                    groups: traffic.groups,
                    keeps_whole: traffic.keeps_whole,
                    line_bits_per_s: traffic.line_bits_per_s,
                });
            }
        }
    }
    list
}

type StreamAxes = (IpVersion, Transport, u32, FlowOrder, Direction, Option<NonZeroU32>);

/// All streams with all that a router may do meanwhile; other devices do not multiply them.
fn routed(kind: DutKind, dut: &DutAxes, traffic: &TrafficAxes) -> Vec<(Option<Routing>, StreamAxes)> {
    let mut list = vec![None];
    if kind.has_kernel_routes() {
        let all = |&networks: &u32| {
            dut.route_changes_per_s
                .iter()
                .map(move |&changes_per_s| Some(Routing { networks, changes_per_s }))
        };
        list = traffic.networks.iter().flat_map(all).collect();
    }
    list.iter()
        .flat_map(|&routing| streams(traffic).into_iter().map(move |stream| (routing, stream)))
        .collect()
}

/// Number and form of the rules of a filter.
type Filter = (Option<u32>, Option<RuleForm>);

/// A device with what it is made of.
struct Device {
    kind: DutKind,
    filter: Filter,
    link: Option<LinkSpec>,
    cpus: Cpus,
    spreading: Option<Spreading>,
}

fn devices(dut: &DutAxes) -> Vec<Device> {
    let mut list = Vec::new();
    for &kind in &dut.kind {
        let rules = match kind.has_rules() {
            // Its rules have one form.
            true if kind.is_node() => dut.rules.iter().map(|&rules| (Some(rules), None)).collect(),
            true => filters(dut),
            false => vec![(None, None)],
        };
        // A wire has no CPU of its own: more of them make no other point.
        let cpus = if kind.has_cpus() { &dut.cpus[..] } else { &dut.cpus[..1] };
        let all = dut.spreading.all(kind);
        for &filter in &rules {
            for link in dut.link.all(kind) {
                for &cpus in cpus {
                    list.extend(all.iter().cloned().map(|spreading| {
                        let link = link.clone();
                        Device { kind, filter, link, cpus, spreading }
                    }));
                }
            }
        }
    }
    list
}

/// The form runs slower than the number, so that the points of a form stand together.
fn filters(dut: &DutAxes) -> Vec<Filter> {
    let without = dut.rules.contains(&0).then_some((Some(0), None));
    let some = dut.rules.iter().filter(|&&rules| rules > 0);
    let forms = dut.filter.iter().flat_map(|&form| some.clone().map(move |&rules| (Some(rules), Some(form))));
    without.into_iter().chain(forms).collect()
}

fn streams(traffic: &TrafficAxes) -> Vec<StreamAxes> {
    let mut list = Vec::new();
    let carried = traffic.ip.iter().flat_map(|&ip| traffic.transport.iter().map(move |&above| (ip, above)));
    for (ip, transport) in carried {
        for &flows in &traffic.flows {
            for &order in &traffic.flow_order {
                for &direction in &traffic.direction {
                    let all = traffic.broadcast_every.iter().map(|&every| NonZeroU32::new(every));
                    list.extend(all.map(|every| (ip, transport, flows, order, direction, every)));
                }
            }
        }
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axes() -> (DutAxes, TrafficAxes) {
        let dut = DutAxes {
            kind: vec![DutKind::KERNEL_FORWARD],
            rules: vec![25],
            filter: vec![RuleForm::NftChain],
            link: LinkAxes::default(),
            cpus: vec![Cpus::Count(1)],
            route_changes_per_s: vec![0],
            spreading: SpreadAxes::default(),
        };
        let traffic = TrafficAxes {
            frame_bytes: vec![FrameSizes::Fixed(64), FrameSizes::Fixed(1518)],
            ip: vec![IpVersion::V4],
            transport: vec![Transport::Udp],
            flows: vec![1000],
            flow_order: vec![FlowOrder::Sequential],
            direction: vec![Direction::Both],
            networks: vec![1],
            broadcast_every: vec![0],
            groups: 1,
            keeps_whole: false,
            line_bits_per_s: None,
        };
        (dut, traffic)
    }

    fn short(points: &[PointSpec]) -> Vec<String> {
        let rules = |point: &PointSpec| point.rules.map_or(String::new(), |rules| format!("/{rules}"));
        let one = |p: &PointSpec| format!("{}{} cpus {} ip{} {}", p.dut, rules(p), p.cpus, p.ip, p.frame);
        points.iter().map(one).collect()
    }

    #[test]
    fn the_product_is_stable_and_the_frame_size_runs_fastest() {
        let (mut dut, traffic) = axes();
        dut.kind.push(DutKind::KERNEL_STATEFUL);
        dut.rules.push(100);
        dut.cpus.push(Cpus::All);
        let points = points(&dut, &traffic);
        assert_eq!(
            short(&points),
            [
                "kernel-forward cpus 1 ip4 64",
                "kernel-forward cpus 1 ip4 1518",
                "kernel-forward cpus all ip4 64",
                "kernel-forward cpus all ip4 1518",
                "kernel-stateful/25 cpus 1 ip4 64",
                "kernel-stateful/25 cpus 1 ip4 1518",
                "kernel-stateful/25 cpus all ip4 64",
                "kernel-stateful/25 cpus all ip4 1518",
                "kernel-stateful/100 cpus 1 ip4 64",
                "kernel-stateful/100 cpus 1 ip4 1518",
                "kernel-stateful/100 cpus all ip4 64",
                "kernel-stateful/100 cpus all ip4 1518",
            ]
        );
    }

    #[test]
    fn without_rules_there_is_one_point_for_all_forms() {
        let (mut dut, mut traffic) = axes();
        dut.kind.push(DutKind::KERNEL_STATELESS);
        dut.rules = vec![0, 1, 10];
        dut.filter.push(RuleForm::LegacySet);
        traffic.frame_bytes.pop();
        let all = points(&dut, &traffic);
        let filters = all.iter().map(|p| (p.rules, p.form));
        let (chain, set) = (Some(RuleForm::NftChain), Some(RuleForm::LegacySet));
        let expected = [
            (None, None),
            (Some(0), None),
            (Some(1), chain),
            (Some(10), chain),
            (Some(1), set),
            (Some(10), set),
        ];
        assert_eq!(filters.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn only_a_bottleneck_has_links() {
        let (mut dut, mut traffic) = axes();
        dut.kind.push(DutKind::BOTTLENECK);
        dut.link.aqm.push("pie".into());
        dut.link.buffer = vec!["64kB".into(), "1bdp".into()];
        dut.link.delay.push("10ms".into());
        traffic.frame_bytes.pop();
        let links = |dut: &DutAxes| -> Vec<String> {
            let link = |p: PointSpec| {
                p.link.map_or("none".into(), |l| format!("{} {} {}", l.buffer, l.aqm, l.delay))
            };
            points(dut, &traffic).into_iter().map(link).collect()
        };
        let expected = [
            "none",
            "64kB fifo 0s",
            "64kB fifo 10ms",
            "64kB pie 0s",
            "64kB pie 10ms",
            "1bdp fifo 10ms",
            "1bdp pie 10ms",
        ];
        assert_eq!(links(&dut), expected, "without a delay there is no bandwidth-delay product");
        assert_eq!(unused(&dut, &traffic), []);
        dut.link.delay.pop();
        let unused = unused(&dut, &traffic);
        assert_eq!((unused[0].key, unused[0].index, unused.len()), ("buffer", 1, 1), "{unused:?}");
    }

    #[test]
    fn only_routers_have_networks_and_changes() {
        let (mut dut, mut traffic) = axes();
        dut.kind.push(DutKind::KERNEL_BRIDGE);
        dut.route_changes_per_s.push(100);
        traffic.networks.push(256);
        traffic.frame_bytes.pop();
        let all = points(&dut, &traffic);
        let routing = all.iter().map(|p| p.routing.map(|r| (r.networks, r.changes_per_s)));
        let expected = [Some((1, 0)), Some((1, 100)), Some((256, 0)), Some((256, 100)), None];
        assert_eq!(routing.collect::<Vec<_>>(), expected);
        traffic.flows = vec![255];
        assert_eq!(points(&dut, &traffic).len(), 3);
        assert_eq!(unused(&dut, &traffic)[0].why[..18], *"256 networks need ");
    }

    #[test]
    fn what_has_no_meaning_is_left_out() {
        let (mut dut, mut traffic) = axes();
        dut.kind = vec![DutKind::WIRE, DutKind::KERNEL_NAT];
        dut.cpus.push(Cpus::All);
        traffic.ip.push(IpVersion::V6);
        traffic.direction.push(Direction::Reflect);
        let points = points(&dut, &traffic);
        assert!(unused(&dut, &traffic).is_empty());
        // Wire: 2 directions x (2 sizes of IPv4 + 1 of IPv6); NAT: 2 CPU sets x 1 direction x 3.
        assert_eq!(points.len(), 12, "{:?}", short(&points));
    }

    #[test]
    fn jumbo_frames_are_not_for_the_xdp_router() {
        let (mut dut, mut traffic) = axes();
        traffic.frame_bytes.push(FrameSizes::Fixed(9000));
        dut.kind.push(DutKind::XDP_FORWARD);
        assert_eq!(points(&dut, &traffic).len(), 5);
        assert!(unused(&dut, &traffic).is_empty(), "the other router takes them");
        dut.kind.remove(0);
        let unused = unused(&dut, &traffic);
        assert_eq!((unused[0].key, unused[0].index, unused.len()), ("frame_bytes", 2, 1));
    }

    #[test]
    fn a_value_without_a_point_is_found() {
        let (mut dut, mut traffic) = axes();
        dut.kind.push(DutKind::KERNEL_NAT);
        traffic.ip = vec![IpVersion::V6];
        let unused = unused(&dut, &traffic);
        let found: Vec<_> = unused.iter().map(|u| (u.section, u.key, u.index, &u.why[..6])).collect();
        assert_eq!(found, [("dut", "kind", 1, "side b"), ("traffic", "frame_bytes", 0, "`64` i")]);
    }

    #[test]
    fn a_syn_is_no_business_of_rules_for_udp() {
        let (mut dut, mut traffic) = axes();
        dut.kind.push(DutKind::KERNEL_STATELESS);
        traffic.transport.push(Transport::Syn);
        let all = points(&dut, &traffic);
        let with = |transport| all.iter().filter(|p| p.transport == transport).count();
        assert_eq!((with(Transport::Udp), with(Transport::Syn)), (4, 2));
        let named = |p: &&PointSpec| p.settings().contains(&("transport".into(), "syn".into()));
        assert_eq!(all.iter().filter(named).count(), 2);
        dut.kind.remove(0);
        let unused = unused(&dut, &traffic);
        assert_eq!((unused[0].key, unused[0].index, unused.len()), ("transport", 1, 1));
    }

    #[test]
    fn settings_name_everything() {
        let (mut dut, mut traffic) = axes();
        dut.kind = vec![DutKind::KERNEL_STATELESS];
        traffic.line_bits_per_s = Some(10e9);
        let settings = points(&dut, &traffic)[0].settings();
        let text: Vec<_> = settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(
            text.join(" "),
            "dut=kernel-stateless rules=25 filter=nft-chain cpus=1 route_changes_per_s=0 networks=1 frame_bytes=64 \
             ip=4 flows=1000 flow_order=sequential direction=both broadcast_every=0 groups=1 \
             line_bits_per_s=10000000000"
        );
    }
}
