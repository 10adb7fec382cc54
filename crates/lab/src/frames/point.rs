//! One combination of a plan's axes: its settings, and why it may be invalid.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use weir_load::xdp::MAX_FRAME_BYTES;
use weir_packet::flow::{Direction, FlowOrder, IpVersion};
use weir_packet::frame::Transport;
use weir_packet::size::FrameSizes;
use weir_testbed::dut::DutKind;
use weir_testbed::link::LinkSpec;
use weir_testbed::rules::RuleForm;
use weir_testbed::spread::Spreading;

use super::spreading;

/// Smallest IPv6 test frame in bytes: Ethernet 14, IPv6 40, UDP 8, signature 18, FCS 4.
pub const MIN_IPV6_FRAME_BYTES: u16 = 84;

/// CPUs of the device under test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cpus {
    /// This many, from 1.
    Count(u32),
    /// All that the machine has.
    All,
}

impl Cpus {
    /// Can this device have them? A fast path, and a link, is one thread's.
    pub fn suit(self, dut: DutKind) -> bool {
        self == Cpus::Count(1) || !dut.is_one_thread()
    }
}

/// One combination of the axes.
#[derive(Debug, Clone, PartialEq)]
pub struct PointSpec {
    /// Device under test.
    pub dut: DutKind,
    /// Filter rules; `None` for a device without a filter.
    pub rules: Option<u32>,
    /// Form of these rules; `None` without any.
    pub form: Option<RuleForm>,
    /// The link of a bottleneck; `None` for another device.
    pub link: Option<LinkSpec>,
    /// CPUs of the device under test.
    pub cpus: Cpus,
    /// CPUs for the work of its interfaces, or of this machine's interfaces to an external DUT; `None`: unchanged.
    pub spreading: Option<Spreading>,
    /// What concerns the routes; `None` for a device without any.
    pub routing: Option<Routing>,
    /// Frame sizes.
    pub frame: FrameSizes,
    /// IP version.
    pub ip: IpVersion,
    /// Transport protocol of the frames.
    pub transport: Transport,
    /// Flows of each stream.
    pub flows: u32,
    /// Order of the flows.
    pub order: FlowOrder,
    /// Which way the frames go.
    pub direction: Direction,
    /// Test frames of a stream from one broadcast to the next, which goes along with them; `None`: no broadcasts.
    pub broadcast_every: Option<NonZeroU32>,
    /// Flow groups that are counted apart.
    pub groups: u32,
    /// Its packets of IPv4 may not be cut into fragments.
    pub keeps_whole: bool,
    /// Speed of the line in bit/s, if the plan names one.
    pub line_bits_per_s: Option<f64>,
}

/// Routes of the device under test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Routing {
    /// Networks of each side that the traffic is spread over, each with a route.
    pub networks: u32,
    /// Other routes that are added or removed per second.
    pub changes_per_s: u32,
}

impl PointSpec {
    /// A device on one CPU that takes frames of one size from a to b over IPv4, flow after flow.
    pub fn plain(dut: DutKind, frame_bytes: u16, flows: u32) -> PointSpec {
        PointSpec {
            dut,
            rules: None,
            form: None,
            link: None,
            cpus: Cpus::Count(1),
            spreading: None,
            routing: None,
            frame: FrameSizes::Fixed(frame_bytes),
            ip: IpVersion::V4,
            transport: Transport::Udp,
            flows,
            order: FlowOrder::Sequential,
            direction: Direction::Forward,
            broadcast_every: None,
            groups: 1,
            keeps_whole: false,
            line_bits_per_s: None,
        }
    }

    /// The same traffic without a device.
    pub fn over_the_wire(&self) -> PointSpec {
        PointSpec {
            dut: DutKind::WIRE,
            rules: None,
            form: None,
            link: None,
            cpus: Cpus::Count(1),
            spreading: None,
            routing: None,
            broadcast_every: None,
            ..self.clone()
        }
    }

    /// All settings as name and value, in the order of the plan.
    pub fn settings(&self) -> Vec<(String, String)> {
        let rules = self.rules.map(|rules| ("rules", rules.to_string()));
        // Left out where it is as it always was, so that such points can be compared with old ones.
        let transport = (self.transport != Transport::Udp).then(|| ("transport", self.transport.to_string()));
        let whole = self.keeps_whole.then(|| ("dont_fragment", "true".to_string()));
        let line = self.line_bits_per_s.map(|line| ("line_bits_per_s", line.to_string()));
        let mut list = vec![("dut", self.dut.to_string())];
        list.extend(rules);
        list.extend(self.form.map(|form| ("filter", form.to_string())));
        list.extend(self.link.iter().flat_map(|link| {
            let LinkSpec { rate, buffer, aqm, delay } = link.clone();
            [("rate", rate), ("buffer", buffer), ("aqm", aqm), ("delay", delay)]
        }));
        // Those of an external DUT are its own affair.
        list.extend((self.dut != DutKind::EXTERNAL).then(|| ("cpus", self.cpus.to_string())));
        list.extend(self.spreading.iter().flat_map(spreading::settings));
        list.extend(self.routing.iter().flat_map(|routing| {
            [
                ("route_changes_per_s", routing.changes_per_s.to_string()),
                ("networks", routing.networks.to_string()),
            ]
        }));
        list.extend([
            ("frame_bytes", self.frame.to_string()),
            ("ip", self.ip.to_string()),
            ("flows", self.flows.to_string()),
            ("flow_order", self.order.to_string()),
            ("direction", self.direction.to_string()),
            ("broadcast_every", self.broadcast_every.map_or(0, NonZeroU32::get).to_string()),
            ("groups", self.groups.to_string()),
        ]);
        list.extend(transport);
        list.extend(whole);
        list.extend(line);
        list.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
    }

    /// Are its frames the smallest of these that its IP version can have?
    pub fn is_smallest(&self, sizes: &[FrameSizes]) -> bool {
        let possible = |size: &&FrameSizes| self.ip == IpVersion::V4 || size.min() >= MIN_IPV6_FRAME_BYTES;
        sizes.iter().filter(possible).all(|size| size.mean() >= self.frame.mean())
    }

    /// Does another device do the same job here, at the same traffic?
    pub fn is_rival(&self, other: &PointSpec) -> bool {
        let PointSpec { dut, form, routing, .. } = *self;
        // A device without routes has those that others have where the plan asks for nothing.
        let routes = |spec: &PointSpec| spec.routing.unwrap_or(Routing { networks: 1, changes_per_s: 0 });
        let here = PointSpec { dut, form, routing, ..other.clone() };
        here == *self && routes(self) == routes(other) && dut.function() == other.dut.function()
    }

    /// Has it the same traffic, whatever the device is and does with it?
    pub fn has_traffic_of(&self, other: &PointSpec) -> bool {
        let PointSpec { dut, rules, form, ref link, cpus, ref spreading, routing, .. } = *self;
        let (link, spreading) = (link.clone(), spreading.clone());
        PointSpec { dut, rules, form, link, cpus, spreading, routing, ..other.clone() } == *self
    }

    /// Why this combination has no meaning; empty if it has one.
    pub fn conflicts(&self) -> Vec<Conflict> {
        let mut list = Vec::new();
        if self.ip == IpVersion::V6 && self.frame.min() < MIN_IPV6_FRAME_BYTES {
            let why = format!(
                "`{}` is too small for an IPv6 test frame: use {MIN_IPV6_FRAME_BYTES} bytes or more, or ip = 4",
                self.frame
            );
            list.push(Conflict { axes: ["frame_bytes", "ip"], why });
        }
        if self.dut.is_in_driver() && self.frame.max() > MAX_FRAME_BYTES {
            let why = format!(
                "`{}` is too large for {}, whose program can read one page: use {MAX_FRAME_BYTES} bytes or less",
                self.frame, self.dut
            );
            list.push(Conflict { axes: ["frame_bytes", "kind"], why });
        }
        if self.dut.translates() && self.direction == Direction::Both {
            let why = format!(
                "side b cannot begin a flow through {}: use direction = \"reflect\" or \"forward\"",
                self.dut
            );
            list.push(Conflict { axes: ["kind", "direction"], why });
        }
        let matches_udp = self.dut.has_rules() || self.dut.translates();
        if matches_udp && self.transport != Transport::Udp {
            let why = format!("the rules and states of {} are for UDP: use transport = \"udp\"", self.dut);
            list.push(Conflict { axes: ["kind", "transport"], why });
        }
        if let Some(only) = self.dut.only_ip().filter(|only| *only != self.ip) {
            let why =
                format!("{} accepts only IPv{only} on side a: use ip = {only}, or another device", self.dut);
            list.push(Conflict { axes: ["kind", "ip"], why });
        }
        if !self.cpus.suit(self.dut) {
            let what = if self.dut.is_fast() { "fast path" } else { "link" };
            let why = format!("the {what} of {} works with one thread only: use cpus = 1", self.dut);
            list.push(Conflict { axes: ["kind", "cpus"], why });
        }
        if let Some(why) = self.link.as_ref().and_then(|link| link.check().err()) {
            list.push(Conflict { axes: ["buffer", "delay"], why });
        }
        if let Some(Routing { networks, .. }) = self.routing
            && networks > self.flows
        {
            let why = format!(
                "{networks} networks need at least {networks} flows: use more flows or fewer networks"
            );
            list.push(Conflict { axes: ["flows", "networks"], why });
        }
        let spreading = self.spreading.iter().flat_map(|spreading| spreading::conflicts(self.dut, spreading));
        list.extend(spreading.map(|(key, why)| Conflict { axes: [key, "kind"], why }));
        if self.groups > self.flows {
            let why =
                format!("{0} groups need at least {0} flows: use more flows or fewer groups", self.groups);
            list.push(Conflict { axes: ["flows", "groups"], why });
        }
        list
    }
}

/// Why a combination has no meaning.
pub struct Conflict {
    /// The options that do not go together.
    pub axes: [&'static str; 2],
    /// The reason and the remedy.
    pub why: String,
}

impl fmt::Display for Cpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cpus::Count(count) => write!(f, "{count}"),
            Cpus::All => f.write_str("all"),
        }
    }
}

impl FromStr for Cpus {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(count @ 1..=4096) => Ok(Cpus::Count(count)),
            _ if text == "all" => Ok(Cpus::All),
            _ => Err(format!("`{text}` is no number of CPUs: use 1 to 4096 or \"all\"")),
        }
    }
}
