//! `[rfc9693]`: the benchmarks of stateful NATs.

use std::time::Duration;

use weir_config::{Section, value};
use weir_packet::flow::{Direction, FlowOrder, IpVersion};
use weir_packet::size::FrameSizes;
use weir_testbed::dut::{DutKind, Function};
use weir_testbed::external::ExternalSpec;
use weir_testbed::topology::Side;

use super::super::flows::Ranges;
use super::super::plan::{Hosts, MOST_FLOWS, PublicRange, check, check_external, read_devices, read_hosts};
use weir_lab::frames::read_external::read_external;
use weir_lab::frames::setup::AddressRange;
use weir_lab::frames::{Cpus, MIN_IPV6_FRAME_BYTES, PointSpec, SpreadAxes};

/// The experiment of RFC 9693. Lists are axes with at least one value.
#[derive(Debug, Clone, PartialEq)]
pub struct Rfc9693 {
    /// Devices under test.
    pub kind: Vec<DutKind>,
    /// CPU sets.
    pub cpus: Vec<Cpus>,
    /// CPUs for the work of the device's interfaces.
    pub spreading: SpreadAxes,
    /// Frame size, bytes with FCS.
    pub frame: FrameSizes,
    /// Numbers of sessions (N).
    pub sessions: Vec<u32>,
    /// Ranges of addresses and ports.
    pub hosts: Hosts,
    /// Public addresses of an external DUT.
    pub public: Vec<AddressRange>,
    /// The external DUT; there if a device is one.
    pub external: Option<ExternalSpec>,
    /// Rate of the validation phase as a share of that of establishing (alpha), above 0, at most 1.
    pub alpha: f64,
    /// How long the tester waits for frames that are under way (T).
    pub timeout: Duration,
    /// A search ends when its bounds are this close, relative to the upper one (e).
    pub error: f64,
    /// Length of a throughput trial.
    pub trial: Duration,
    /// Loss ratio of a throughput trial that counts as none; 0 by the RFC.
    pub loss_ratio: f64,
    /// Most sessions that the search for the table's capacity tries; `None`: no search.
    pub capacity: Option<u32>,
    /// Independent repetitions.
    pub repetitions: u32,
}

/// Rates that a search tries at most: from the ceiling of a tester down to an error of some percent.
const MOST_TRIALS: u32 = 14;
/// A rate that any device can establish at, to estimate times.
const ASSUMED_CPS: f64 = 100e3;

impl Rfc9693 {
    /// The points: sessions fastest, devices slowest.
    pub fn points(&self) -> Vec<PointSpec> {
        let mut list = Vec::new();
        for &kind in &self.kind {
            for &cpus in self.cpus.iter().filter(|cpus| cpus.suit(kind)) {
                for spreading in self.spreading.all(kind) {
                    list.extend(self.sessions.iter().map(|&sessions| PointSpec {
                        cpus,
                        spreading: spreading.clone(),
                        frame: self.frame.clone(),
                        order: FlowOrder::Unique,
                        direction: Direction::Both,
                        keeps_whole: true,
                        ip: kind.ip_on(Side::A, IpVersion::V4),
                        ..PointSpec::plain(kind, 128, sessions)
                    }));
                }
            }
        }
        list
    }

    /// So many sessions.
    pub(super) fn ranges(&self, sessions: u32) -> Ranges {
        let Hosts { subscribers, destinations, destination_ports } = self.hosts;
        Ranges { flows: sessions, subscribers: subscribers.min(sessions), destinations, destination_ports }
    }

    /// About how long the trials at a point take.
    pub(super) fn estimate_at(&self, spec: &PointSpec) -> Duration {
        let establish = Duration::from_secs_f64(f64::from(spec.flows) / ASSUMED_CPS) + self.timeout / 4;
        // Without validation, with it, throughput, tear-down.
        let searches =
            establish * MOST_TRIALS + establish * 2 * MOST_TRIALS + (establish + self.trial) * MOST_TRIALS;
        let capacity = self.capacity.map_or(Duration::ZERO, |most| {
            Duration::from_secs_f64(f64::from(most) / ASSUMED_CPS) * 2 * MOST_TRIALS
        });
        (searches + capacity) * self.repetitions
    }
}

/// Reads `[rfc9693]` and, for an external DUT, `[external]`.
pub(in crate::nat) fn read(root: &Section<'_>) -> Option<Rfc9693> {
    let external = read_external(root.section("external"));
    let section = root.section("rfc9693");
    let (kind, cpus) = read_devices(&section, &[Function::Nat, Function::Nat64]);
    let spreading = SpreadAxes::read(&section);
    let frame = section.one("frame_bytes", value::parsed::<FrameSizes>).unwrap_or(FrameSizes::Fixed(84));
    let sessions = section.axis("sessions", value::count(1..=MOST_FLOWS)).unwrap_or(vec![100_000]);
    let hosts = read_hosts(&section);
    let public = section.axis("public", value::parsed::<PublicRange>).unwrap_or_default();
    let alpha = section.one("alpha", alpha).unwrap_or(1.0);
    let timeout = section.one("timeout_s", value::seconds).unwrap_or(Duration::from_millis(500));
    let error = section.one("error", value::width).unwrap_or(0.02);
    let trial = section.one("trial_s", value::seconds).unwrap_or(Duration::from_secs(60));
    let loss_ratio = section.one("loss_ratio", value::ratio).unwrap_or(0.0);
    let capacity = section.one("capacity", value::count(1..=MOST_FLOWS));
    let repetitions = section.one("repetitions", value::count(1..=1000)).unwrap_or(10);
    check(&section, (std::slice::from_ref(&frame), "frame_bytes"), (&sessions, "sessions"), hosts);
    let has = |wanted| kind.as_ref().is_some_and(|kind| kind.contains(&wanted));
    if has(DutKind::NODE_NAT64) && frame.min() < MIN_IPV6_FRAME_BYTES {
        let why = format!(
            "`{frame}` is too small for node-nat64, whose test frames are IPv6: use {MIN_IPV6_FRAME_BYTES} bytes or more"
        );
        section.wrong("frame_bytes", why);
    }
    if has(DutKind::EXTERNAL) {
        check_external(&section, external.as_ref(), &public);
    }
    section.finish();
    Some(Rfc9693 {
        kind: kind?,
        cpus,
        spreading,
        frame,
        sessions,
        hosts,
        public: public.into_iter().map(|range| range.0).collect(),
        external,
        alpha,
        timeout,
        error,
        trial,
        loss_ratio,
        capacity,
        repetitions,
    })
}

fn alpha(value: &toml_edit::Value) -> Result<f64, String> {
    let text = weir_config::shown(value);
    let alpha = text.parse().ok().filter(|alpha| (0.01..=1.0).contains(alpha));
    alpha.ok_or_else(|| format!("`{text}` is no share of a rate: use 0.01 to 1"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PLANS;
    use weir_testkit::{golden, set_mistakes};

    #[test]
    fn mistakes_have_remedies() {
        let sets = [
            "rfc9693.alpha=0",
            "rfc9693.sessions=5000000",
            "rfc9693.kind=external",
            "rfc9693.frame_bytes=9000",
            "rfc9693.frame_bytes=64",
        ];
        golden!("src/nat/sessions/mistakes.txt", &set_mistakes(&sets, |sets| PLANS.load("rfc9693", sets)));
    }

    #[test]
    fn the_full_form_is_that_of_the_rfc_and_the_short_one_short() {
        let plan = PLANS.load("rfc9693", &[]).unwrap();
        let full = plan.experiment.of::<Rfc9693>().unwrap();
        assert_eq!((full.repetitions, full.loss_ratio, full.trial), (10, 0.0, Duration::from_secs(60)));
        let short = PLANS.load_short("rfc9693", &[]).unwrap();
        assert!(short.estimate() <= Duration::from_secs(180), "{:?}", short.estimate());
    }
}
