//! `[nat]`: devices, flows and loads of the experiment `nat`.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;
use std::time::Duration;

use weir_config::{Section, value};
use weir_packet::flow::{Direction, FlowOrder};
use weir_packet::size::FrameSizes;
use weir_testbed::dut::{DutKind, Function};
use weir_testbed::external::ExternalSpec;
use weir_testbed::fault::Faults;

use super::flows::{MOST_SUBSCRIBERS, Ranges};
use super::table::{TableAxes, TableSettings};
use weir_lab::frames::read_external::read_external;
use weir_lab::frames::setup::AddressRange;
use weir_lab::frames::{Cpus, PointSpec, SpreadAxes};
use weir_measure::search::Search;
use weir_measure::search::mlr::{self, Goal};
use weir_record::figure::unit;

/// Trials that look for the load of a capacity.
pub(super) const APPROACH: u32 = 3;

/// The experiment: throughput, then steps of load, for each NAT. Lists are axes with at least one value.
#[derive(Debug, Clone, PartialEq)]
pub struct NatLoad {
    /// Devices under test.
    pub kind: Vec<DutKind>,
    /// CPU sets.
    pub cpus: Vec<Cpus>,
    /// CPUs for the work of the device's interfaces.
    pub spreading: SpreadAxes,
    /// Frame sizes, bytes with FCS.
    pub frame_bytes: Vec<FrameSizes>,
    /// Numbers of flows.
    pub flows: Vec<u32>,
    /// Orders of the flows.
    pub order: Vec<FlowOrder>,
    /// Where flows begin and end.
    pub hosts: Hosts,
    /// Public addresses of an external DUT.
    pub public: Vec<AddressRange>,
    /// What prefix-nat does wrong.
    pub faults: Faults,
    /// The external DUT; there if a device is one.
    pub external: Option<ExternalSpec>,
    /// Settings of the kernel's connection table.
    pub tables: TableAxes,
    /// How fast flows are established before anything is measured, flows/s.
    pub establish_fps: f64,
    /// Trials in steady overload in each round, whose median is the main result; 0: none.
    pub capacity_trials: u32,
    /// Their length.
    pub capacity_trial: Duration,
    /// The search for the maximum.
    pub search: NatSearch,
    /// Steps of load after it.
    pub steps: Vec<Step>,
    /// Length of a trial at a step.
    pub trial: Duration,
    /// How often all of this is repeated; devices alternate.
    pub rounds: u32,
}

/// Where flows begin and end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hosts {
    /// Source addresses.
    pub subscribers: u32,
    /// Destination addresses.
    pub destinations: u32,
    /// Destination ports, from 1.
    pub destination_ports: u32,
}

/// A step of load after the search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Step {
    /// Percent of the maximum that the device reached.
    Percent(f64),
    /// Frames/s, the same for all devices.
    Fps(f64),
}

/// The search for the highest load at which almost no frame is lost there and back.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NatSearch {
    /// Loss ratio that counts as none, 0..1.
    pub loss_ratio: f64,
    /// Lowest load, frames/s.
    pub min_fps: f64,
    /// Length of a full trial.
    pub trial: Duration,
    /// Trial time that decides a load.
    pub sum: Duration,
    /// Relative distance of the bounds at the end.
    pub width: f64,
    /// Longest time of a search.
    pub time_limit: Duration,
}

/// Frames of IPv4 that have room for a signature, and fit into a page.
const FRAME_BYTES: std::ops::RangeInclusive<u16> = 64..=1518;
/// Most flows.
pub(super) const MOST_FLOWS: u32 = 4_000_000;

/// A point of the experiment.
#[derive(Debug, Clone, PartialEq)]
pub struct NatPoint {
    /// Device and traffic.
    pub spec: PointSpec,
    /// Settings of its connection table.
    pub table: TableSettings,
}

impl NatPoint {
    /// As names and values: device, traffic, table.
    pub(super) fn settings(&self) -> Vec<(String, String)> {
        self.spec.settings().into_iter().chain(self.table.settings()).collect()
    }
}

impl NatLoad {
    /// The points: devices fastest, since those that differ in nothing else are measured alternately.
    pub fn points(&self) -> Vec<NatPoint> {
        let point = |table| move |spec: PointSpec| NatPoint { spec, table };
        self.tables.all().into_iter().flat_map(|table| self.specs().into_iter().map(point(table))).collect()
    }

    /// Devices and traffic of the points.
    pub(super) fn specs(&self) -> Vec<PointSpec> {
        let mut list = Vec::new();
        for &flows in &self.flows {
            for &order in &self.order {
                for frame in &self.frame_bytes {
                    for &cpus in &self.cpus {
                        list.extend(self.kind.iter().filter(|kind| cpus.suit(**kind)).flat_map(|&kind| {
                            let spreadings = self.spreading.all(kind).into_iter();
                            let spec = move |spreading| PointSpec {
                                cpus,
                                spreading,
                                frame: frame.clone(),
                                order,
                                direction: Direction::Reflect,
                                keeps_whole: true,
                                ..PointSpec::plain(kind, 128, flows)
                            };
                            spreadings.map(spec)
                        }));
                    }
                }
            }
        }
        list
    }

    /// The flows of a point.
    pub(super) fn ranges(&self, spec: &PointSpec) -> Ranges {
        let Hosts { subscribers, destinations, destination_ports } = self.hosts;
        let flows = spec.flows;
        Ranges { flows, subscribers: subscribers.min(flows), destinations, destination_ports }
    }

    /// Upper bound of the trial time at a point.
    pub(super) fn estimate_at(&self, spec: &PointSpec) -> Duration {
        let establish = Duration::from_secs_f64(f64::from(spec.flows) / self.establish_fps);
        let capacity = self.capacity_trial * (self.capacity_trials + APPROACH);
        (establish + capacity + self.search.time_limit + self.trial * self.steps.len() as u32) * self.rounds
    }
}

impl Step {
    /// Its load, where the device's maximum is this one.
    pub(super) fn fps(self, maximum_fps: Option<f64>) -> Option<f64> {
        match self {
            Step::Percent(percent) => Some(maximum_fps? * percent / 100.0),
            Step::Fps(fps) => Some(fps),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Percent(percent) => write!(f, "{percent} %"),
            Step::Fps(fps) => write!(f, "{fps} {}", unit::FRAMES_PER_S),
        }
    }
}

impl NatSearch {
    /// The search up to this load.
    pub(super) fn up_to(&self, max_fps: f64) -> Search {
        let NatSearch { loss_ratio, min_fps, trial, sum, width, time_limit } = *self;
        let goal = Goal {
            name: Goal::name_of(loss_ratio),
            loss_ratio,
            exceed_ratio: 0.5,
            final_trial: trial,
            duration_sum: sum,
            initial_trial: trial.min(INITIAL),
            width,
        };
        let config = mlr::Config {
            goals: vec![goal],
            min_fps: min_fps.min(max_fps / 2.0),
            max_fps,
            warm_up: None,
            time_limit,
            preceding_targets: 2,
            expansion: 2,
            confident: false,
        };
        Search::Mlr(config)
    }
}

/// A trial in overload has room for three windows at least.
const SHORTEST_CAPACITY: Duration = Duration::from_millis(100);
/// Length of the first, coarse trials.
const INITIAL: Duration = Duration::from_millis(100);

/// Reads `[nat]` and, for an external DUT, `[external]`.
pub(super) fn read(root: &Section<'_>) -> Option<NatLoad> {
    let external = read_external(root.section("external"));
    let section = root.section("nat");
    let (kind, cpus) = read_devices(&section, &[Function::Nat]);
    let spreading = SpreadAxes::read(&section);
    let frame_bytes = section.axis("frame_bytes", value::parsed::<FrameSizes>);
    let flows = section.axis("flows", value::count(1..=MOST_FLOWS));
    let order = section.axis("flow_order", value::choice("flow order", &ORDERS));
    let hosts = read_hosts(&section);
    let public = section.axis("public", value::parsed::<PublicRange>).unwrap_or_default();
    let faults = section.one("faults", value::parsed::<Faults>).unwrap_or_default();
    let establish_fps = section.one("establish", value::fps).unwrap_or(100e3);
    let capacity_trials = section.one("capacity_trials", value::count(0..=1000)).unwrap_or(0);
    let capacity_trial =
        section.one("capacity_trial_s", value::seconds).unwrap_or(Duration::from_millis(200));
    if capacity_trial < SHORTEST_CAPACITY {
        let shortest = SHORTEST_CAPACITY.as_secs_f64();
        section.wrong("capacity_trial_s", format!("has no room for windows: use {shortest} or more"));
    }
    let search = read_search(&section);
    let percent = section.axis("percent", percent).unwrap_or_default().into_iter().map(Step::Percent);
    let loads_fps = section.axis("loads_fps", value::fps).unwrap_or_default().into_iter().map(Step::Fps);
    let trial = section.one("trial_s", value::seconds).unwrap_or(Duration::from_secs(1));
    let rounds = section.one("rounds", value::count(1..=1000)).unwrap_or(1);
    let tables = read_tables(&section, kind.as_deref());
    let (frame_bytes, flows) =
        (frame_bytes.unwrap_or(vec![FrameSizes::Fixed(128)]), flows.unwrap_or(vec![10_000]));
    check(&section, (&frame_bytes, "frame_bytes"), (&flows, "flows"), hosts);
    if kind.as_ref().is_some_and(|kind| kind.contains(&DutKind::EXTERNAL)) {
        check_external(&section, external.as_ref(), &public);
    }
    section.finish();
    Some(NatLoad {
        kind: kind?,
        cpus,
        spreading,
        frame_bytes,
        flows,
        order: order.unwrap_or(vec![FlowOrder::Unique]),
        hosts,
        public: public.into_iter().map(|range| range.0).collect(),
        faults,
        external,
        tables,
        establish_fps,
        capacity_trials,
        capacity_trial,
        search,
        steps: loads_fps.chain(percent).collect(),
        trial,
        rounds,
    })
}

/// Each flow comes once before any comes again, so that a frame's number tells its flow.
const ORDERS: [(FlowOrder, &str); 2] = [(FlowOrder::Sequential, "ordered"), (FlowOrder::Unique, "random")];

/// The kernel rounds the number of buckets to pages of pointers.
const BUCKETS_STEP: u32 = 512;

fn read_tables(section: &Section<'_>, kinds: Option<&[DutKind]>) -> TableAxes {
    let axis = |key, most| section.axis(key, value::count(1..=most)).unwrap_or_default();
    let tables = TableAxes {
        buckets: axis("conntrack_buckets", 1 << 24),
        max: axis("conntrack_max", 1 << 26),
        udp_timeout_s: axis("udp_timeout_s", 86_400),
    };
    for (i, buckets) in tables.buckets.iter().enumerate() {
        if buckets % BUCKETS_STEP != 0 {
            let text = format!("{buckets}: use a multiple of {BUCKETS_STEP}, which the kernel rounds it to");
            section.wrong_entry("conntrack_buckets", i, text);
        }
    }
    let allowed = section.one("host_wide", value::flag).unwrap_or(false);
    if tables.is_host_wide() && !allowed {
        let text =
            "buckets and max apply to the whole machine: add host_wide = true to change them during the run";
        section.wrong("host_wide", text.into());
    }
    let is_kernels = |kinds: &[DutKind]| kinds.iter().all(|kind| *kind == DutKind::KERNEL_NAT);
    if tables != TableAxes::default() && !kinds.is_none_or(is_kernels) {
        section.wrong(
            "kind",
            "conntrack_buckets, conntrack_max and udp_timeout_s are settings of the kernel: use kernel-nat"
                .into(),
        );
    }
    tables
}

fn read_search(section: &Section<'_>) -> NatSearch {
    NatSearch {
        loss_ratio: section.one("loss_ratio", value::ratio).unwrap_or(0.005),
        min_fps: section.one("min_fps", value::fps).unwrap_or(5e3),
        trial: section.one("search_trial_s", value::seconds).unwrap_or(Duration::from_millis(500)),
        sum: section.one("duration_sum_s", value::seconds).unwrap_or(Duration::from_secs(5)),
        width: section.one("width", value::width).unwrap_or(0.03),
        time_limit: section.one("time_limit_s", value::seconds).unwrap_or(Duration::from_secs(60)),
    }
}

/// Reads the devices, of those that have one of these functions or may have it, and their CPUs.
pub(super) fn read_devices(
    section: &Section<'_>,
    functions: &[Function],
) -> (Option<Vec<DutKind>>, Vec<Cpus>) {
    let fits = |kind: DutKind| functions.contains(&kind.function()) || kind == DutKind::EXTERNAL;
    let nats: Vec<_> = DutKind::ALL.into_iter().filter(|(kind, _)| fits(*kind)).collect();
    let kind = section.required_axis("kind", "[\"kernel-nat\", \"node-nat\"]", value::choice("NAT", &nats));
    let cpus = section.axis("cpus", value::parsed::<Cpus>).unwrap_or(vec![Cpus::Count(1)]);
    let lost = kind.iter().flatten().find(|kind| !cpus.iter().any(|cpus| cpus.suit(**kind)));
    if let Some(kind) = lost {
        section.wrong("cpus", format!("the fast path of {kind} works with one thread only: use 1"));
    }
    (kind, cpus)
}

/// Reads where flows begin and end.
pub(super) fn read_hosts(section: &Section<'_>) -> Hosts {
    Hosts {
        subscribers: section.one("subscribers", value::count(1..=MOST_SUBSCRIBERS)).unwrap_or(4096),
        destinations: section.one("destinations", value::count(1..=MOST_SUBSCRIBERS)).unwrap_or(1),
        destination_ports: section.one("destination_ports", value::count(1..=49_151)).unwrap_or(100),
    }
}

/// Notes sizes and numbers of flows that cannot be.
pub(super) fn check(
    section: &Section<'_>,
    (frames, frame_key): (&[FrameSizes], &str),
    (flows, flows_key): (&[u32], &str),
    hosts: Hosts,
) {
    for (i, frame) in frames.iter().enumerate() {
        if frame.min() < *FRAME_BYTES.start() || frame.max() > *FRAME_BYTES.end() {
            section.wrong_entry(frame_key, i, format!("`{frame}` is out of range: use 64 to 1518 bytes"));
        }
    }
    let Hosts { subscribers, destinations, destination_ports } = hosts;
    for (i, &flows) in flows.iter().enumerate() {
        let ranges = Ranges { flows, subscribers: subscribers.min(flows), destinations, destination_ports };
        if !ranges.fit() {
            let text = format!(
                "{flows} flows of {subscribers} subscribers need more ports than a subscriber has: use more subscribers"
            );
            section.wrong_entry(flows_key, i, text);
        }
    }
}

/// Notes what an external DUT needs beside its interfaces.
pub(super) fn check_external(section: &Section<'_>, external: Option<&ExternalSpec>, public: &[PublicRange]) {
    match external {
        None => section.wrong(
            "kind",
            "external is another machine, connected to interfaces of this one: add [external] with `ports`"
                .into(),
        ),
        Some(external) if external.ports.len() != 2 => section.wrong(
            "kind",
            "one host must check both sides of a NAT: give both interfaces in external.ports".into(),
        ),
        Some(_) => {}
    }
    if public.is_empty() {
        let text = "is missing: add the public addresses of the device, for example `public = [\"192.0.2.1-192.0.2.4\"]`";
        section.wrong("public", text.into());
    }
}

fn percent(value: &toml_edit::Value) -> Result<f64, String> {
    let text = weir_config::shown(value);
    let percent = text.parse().ok().filter(|percent| (0.1..=1000.0).contains(percent));
    percent.ok_or_else(|| format!("`{text}` is no share of the maximum: use 0.1 to 1000 percent"))
}

/// One address, or the first and the last of several.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct PublicRange(pub(super) AddressRange);

impl FromStr for PublicRange {
    type Err = String;

    fn from_str(text: &str) -> Result<PublicRange, String> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let address = |text: &str| text.trim().parse::<Ipv4Addr>().ok();
        let range = address(first).zip(address(last)).filter(|(first, last)| first <= last);
        range.map(PublicRange).ok_or_else(|| {
            format!("`{text}` is no range of IPv4 addresses: use 192.0.2.1 or 192.0.2.1-192.0.2.4")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PLANS;
    use weir_testkit::{golden, set_mistakes};

    fn nat(name: &str, sets: &[&str]) -> Result<NatLoad, String> {
        let sets: Vec<String> = sets.iter().map(|set| (*set).to_string()).collect();
        let plan = PLANS.load(name, &sets).map_err(|error| error.to_string())?;
        Ok(plan.experiment.of::<NatLoad>().expect("of this rig").clone())
    }

    #[test]
    fn mistakes_have_remedies() {
        let sets = [
            "nat.kind=kernel-forward",
            "nat.frame_bytes=60",
            "nat.frame_bytes=9000",
            "nat.flow_order=sequential",
            "nat.subscribers=0",
            "nat.percent=0",
            "nat.loads_fps=fast",
            "nat.public=192.0.2.9-192.0.2.1",
            "nat.cpus=2",
            "nat.kind=external",
            "nat.faults=leek=1/2",
            "nat.conntrack_max=1024",
            "nat.conntrack_buckets=1000",
            "nat.udp_timeout_s=1",
            "nat.subscribers=1 --set nat.flows=64513",
        ];
        golden!("src/nat/mistakes.txt", &set_mistakes(&sets, |sets| PLANS.load("nat", sets)));
    }

    #[test]
    fn what_is_compared_is_next_to_each_other() {
        let plan = nat("nat-flows", &[]).unwrap();
        let points = plan.points();
        assert_eq!(points.len(), plan.flows.len() * plan.order.len() * plan.kind.len());
        assert!(
            points
                .chunks(plan.kind.len())
                .all(|group| group.iter().all(|point| point.spec.is_rival(&group[0].spec)))
        );
        let most = *plan.flows.last().unwrap();
        assert_eq!((plan.flows[0], most), (1, 4_000_000));
    }

    #[test]
    fn s1_is_followed_to_the_letter() {
        let plan = nat("nat", &[]).unwrap();
        assert_eq!((&plan.flows[..], &plan.frame_bytes[..]), (&[10_000][..], &[FrameSizes::Fixed(128)][..]));
        let (shared, own): (Vec<Step>, Vec<Step>) =
            plan.steps.iter().partition(|step| matches!(step, Step::Fps(_)));
        let loads: Vec<f64> = own.iter().filter_map(|step| step.fps(Some(100.0))).collect();
        assert!(loads.is_sorted() && plan.steps.last() == Some(&Step::Percent(200.0)), "{loads:?}");
        assert!(shared.len() >= 3, "round trips are compared at loads that are the same for all");
    }

    #[test]
    fn the_short_forms_take_three_minutes_at_most() {
        for name in ["nat", "nat-flows", "conntrack"] {
            let short = PLANS.load_short(name, &[]).unwrap();
            assert!(short.estimate() <= Duration::from_secs(150), "{name}: {:?}", short.estimate());
        }
    }
}
