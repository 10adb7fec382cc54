//! `[nat_tcp]`: TCP connections through NATs.

use std::time::Duration;

use weir_config::{Section, value};
use weir_load::tcp::FRAME_BYTES;
use weir_packet::flow::{Direction, FlowOrder};
use weir_packet::frame::Transport;
use weir_packet::size::FrameSizes;
use weir_testbed::dut::{DutKind, Function};
use weir_testbed::external::ExternalSpec;

use super::super::flows::{MOST_SUBSCRIBERS, Ranges};
use super::super::plan::{Hosts, PublicRange, check, check_external, read_devices, read_hosts};
use weir_lab::frames::read_external::read_external;
use weir_lab::frames::setup::AddressRange;
use weir_lab::frames::{Cpus, PointSpec, SpreadAxes};

/// Hosts that flood on each side. More than one, since a NAT may limit each.
pub(super) const FLOODERS: u32 = 16;

/// The experiment. Lists are axes with at least one value.
#[derive(Debug, Clone, PartialEq)]
pub struct TcpLoad {
    /// Devices under test.
    pub kind: Vec<DutKind>,
    /// CPU sets.
    pub cpus: Vec<Cpus>,
    /// CPUs for the work of the device's interfaces.
    pub spreading: SpreadAxes,
    /// Connections that are open meanwhile.
    pub concurrent: Vec<u32>,
    /// Connections of a trial that are established, used and closed.
    pub connections: u32,
    /// Ranges of addresses and ports.
    pub hosts: Hosts,
    /// Public addresses of an external DUT.
    pub public: Vec<AddressRange>,
    /// The external DUT; there if a device is one.
    pub external: Option<ExternalSpec>,
    /// How long the tester waits for segments that are under way.
    pub timeout: Duration,
    /// A search ends when its bounds are this close, relative to the upper one.
    pub error: f64,
    /// This share of the connections of a trial may fail.
    pub failures: f64,
    /// Floods, each tried after the searches; none: nothing.
    pub floods: Vec<Flood>,
    /// Independent repetitions.
    pub repetitions: u32,
}

/// A SYN flood.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Flood {
    /// SYN/s from each side that floods.
    pub fps: f64,
    /// The source of the flood.
    pub from: Side,
}

/// Where a flood comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Some hosts behind the NAT, each SYN from another port.
    Inside,
    /// Hosts before it, to ports of its public addresses.
    Outside,
    /// Both at once.
    Both,
}

impl Side {
    /// In the order of the plan's words.
    const ALL: [(Side, &'static str); 3] =
        [(Side::Inside, "inside"), (Side::Outside, "outside"), (Side::Both, "both")];

    /// Its word in plans, or in a sentence after "from".
    pub(super) fn name(self) -> &'static str {
        match self {
            Side::Inside => "inside",
            Side::Outside => "outside",
            Side::Both => "both sides",
        }
    }
}

/// Most connections that are open.
const MOST_CONCURRENT: u32 = 2_000_000;
/// Most connections of a trial.
const MOST_CONNECTIONS: u32 = 1_000_000;
/// Rates that a search tries.
pub(super) const TRIALS: u32 = 12;
/// A rate that any device can establish at, to estimate times.
const ASSUMED_CPS: f64 = 50e3;

impl TcpLoad {
    /// The points: concurrent connections fastest, devices slowest.
    pub fn points(&self) -> Vec<PointSpec> {
        let mut list = Vec::new();
        for &kind in &self.kind {
            for &cpus in self.cpus.iter().filter(|cpus| cpus.suit(kind)) {
                for spreading in self.spreading.all(kind) {
                    list.extend(self.concurrent.iter().map(|&concurrent| PointSpec {
                        cpus,
                        spreading: spreading.clone(),
                        frame: FrameSizes::Fixed(FRAME_BYTES),
                        transport: Transport::Syn,
                        order: FlowOrder::Unique,
                        direction: Direction::Both,
                        keeps_whole: true,
                        ..PointSpec::plain(kind, FRAME_BYTES, concurrent)
                    }));
                }
            }
        }
        list
    }

    /// All connections of a point: those that are held, then those of so many trials.
    pub(super) fn ranges(&self, held: u32, trials: u32) -> Ranges {
        let Hosts { subscribers, destinations, destination_ports } = self.hosts;
        let flows = held + self.connections * trials;
        Ranges { flows, subscribers: subscribers.min(flows), destinations, destination_ports }
    }

    /// About how long the trials at a point take.
    pub(super) fn estimate_at(&self, spec: &PointSpec) -> Duration {
        let took = |connections: u32| Duration::from_secs_f64(f64::from(connections) / ASSUMED_CPS);
        let (hold, whole) = (took(spec.flows), took(self.connections) + self.timeout / 4);
        let searches = (hold + self.timeout / 4) * TRIALS + (hold + whole) * TRIALS;
        let floods = (hold + whole + self.timeout) * u32::try_from(self.floods.len()).unwrap_or(u32::MAX);
        (searches + floods + hold * 4) * self.repetitions
    }
}

/// Reads `[nat_tcp]` and, for an external DUT, `[external]`.
pub(in crate::nat) fn read(root: &Section<'_>) -> Option<TcpLoad> {
    let external = read_external(root.section("external"));
    let section = root.section("nat_tcp");
    let (kind, cpus) = read_devices(&section, &[Function::Nat]);
    let spreading = SpreadAxes::read(&section);
    let concurrent =
        section.axis("concurrent", value::count(1..=MOST_CONCURRENT)).unwrap_or(vec![1, 1000, 100_000]);
    let connections = section.one("connections", value::count(100..=MOST_CONNECTIONS)).unwrap_or(20_000);
    let hosts = read_hosts(&section);
    let public = section.axis("public", value::parsed::<PublicRange>).unwrap_or_default();
    let timeout = section.one("timeout_s", value::seconds).unwrap_or(Duration::from_millis(500));
    let error = section.one("error", value::width).unwrap_or(0.02);
    let failures = section.one("failures", value::ratio).unwrap_or(0.0);
    let floods = read_floods(&section, hosts);
    let repetitions = section.one("repetitions", value::count(1..=1000)).unwrap_or(1);
    let all: Vec<u32> = concurrent.iter().map(|held| held + connections).collect();
    check(&section, (&[], "connections"), (&all, "concurrent"), hosts);
    if kind.as_ref().is_some_and(|kind| kind.contains(&DutKind::EXTERNAL)) {
        check_external(&section, external.as_ref(), &public);
    }
    section.finish();
    Some(TcpLoad {
        kind: kind?,
        cpus,
        spreading,
        concurrent,
        connections,
        hosts,
        public: public.into_iter().map(|range| range.0).collect(),
        external,
        timeout,
        error,
        failures,
        floods,
        repetitions,
    })
}

/// Each rate of a flood from each side that is wanted.
fn read_floods(section: &Section<'_>, hosts: Hosts) -> Vec<Flood> {
    let rates = section.axis("flood", value::fps).unwrap_or_default();
    let sides =
        section.axis("flood_from", value::choice("side of a NAT", &Side::ALL)).unwrap_or(vec![Side::Both]);
    if !rates.is_empty() && hosts.subscribers > MOST_SUBSCRIBERS - FLOODERS {
        let most = MOST_SUBSCRIBERS - FLOODERS;
        section.wrong("subscribers", format!("leaves no addresses for the flood: use {most} or fewer"));
    }
    let of_side = |from| rates.iter().map(move |&fps| Flood { fps, from });
    sides.into_iter().flat_map(of_side).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PLANS;
    use weir_testkit::{golden, set_mistakes};

    #[test]
    fn mistakes_have_remedies() {
        let sets = [
            "nat_tcp.concurrent=5000000",
            "nat_tcp.connections=1",
            "nat_tcp.failures=\"100%\"",
            "nat_tcp.kind=external",
            "nat_tcp.flood_from=above",
            "nat_tcp.subscribers=32768",
        ];
        golden!("src/nat/tcp/mistakes.txt", &set_mistakes(&sets, |sets| PLANS.load("nat-tcp", sets)));
    }

    #[test]
    fn each_flood_comes_from_each_side_and_the_short_form_is_short() {
        let sets = ["nat_tcp.flood=[\"10k\",\"1M\"]", "nat_tcp.flood_from=[\"inside\",\"both\"]"];
        let plan = PLANS.load("nat-tcp", &sets.map(String::from)).unwrap();
        let floods = &plan.experiment.of::<TcpLoad>().unwrap().floods;
        let named: Vec<_> = floods.iter().map(|flood| (flood.fps, flood.from)).collect();
        assert_eq!(named, [(1e4, Side::Inside), (1e6, Side::Inside), (1e4, Side::Both), (1e6, Side::Both)]);
        let short = PLANS.load_short("nat-tcp", &[]).unwrap();
        assert!(short.estimate() <= Duration::from_secs(180), "{:?}", short.estimate());
    }
}
