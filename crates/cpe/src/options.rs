//! What a run is asked to do.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4};
use std::time::Duration;

use weir_bng::ppp::auth::Method;
use weir_bng::pppoe::MAX_PAYLOAD;
use weir_bng::{LineRates, Mac, Tags};

use crate::flood::Flood;
use crate::lines::Lines;
use crate::numbered::{MOST_DEVICES, SHORTEST_FRAME, SHORTEST_FRAME6};

/// Bytes of a VLAN tag, and of the headers of PPPoE and PPP.
const TAG_BYTES: usize = 4;
const PPPOE_BYTES: usize = 8;

/// A run.
#[derive(Debug, Clone)]
pub struct Options {
    /// Number of devices, 1 to 16 million.
    pub devices: u32,
    /// Their lines.
    pub lines: Lines,
    /// MAC address of device 0; the others count up from it.
    pub first_mac: Mac,
    /// Devices that start per second, evenly paced.
    pub rate_per_s: f64,
    /// Time until a message of DHCP is sent again; it doubles each time, up to 64 s, and varies by a quarter (RFC 2131, section 4.1).
    pub timeout: Duration,
    /// How often a message is sent before the device has failed.
    pub tries: u32,
    /// How long devices that have failed begin again, as those of customers do; those that are not up at the end of the hold have failed.
    /// The set-up ends after this time at the latest. `None`: a device that has failed stays so.
    pub redial: Option<Duration>,
    /// How they dial in by PPPoE; `None`: they ask for addresses by DHCP.
    pub pppoe: Option<Pppoe>,
    /// Option 61 of their messages.
    pub client_id: ClientId,
    /// Circuit-id of each device, as an access node adds it (option 82 of DHCP, tag 0x0105 of PPPoE).
    pub circuit: Option<Template>,
    /// Remote-id of each device.
    pub remote: Option<Template>,
    /// Rates of each line, as an access node says them (tag 0x0105 of PPPoE).
    pub line_rates: LineRates,
    /// Whether devices ask for answers by broadcast.
    pub broadcast: bool,
    /// The far end, to which each device sends its first packet.
    pub far: Option<SocketAddrV4>,
    /// Its address of IPv6: every second frame of the traffic of a session with a prefix is of IPv6.
    pub far6: Option<Ipv6Addr>,
    /// Whether the far end is this emulator's; else it returns packets (UDP echo).
    pub own_far: bool,
    /// How long a first packet is sent again and again.
    pub first_packet_timeout: Duration,
    /// How long sessions stay up after the last set-up has ended; `None`: until the run is stopped.
    pub hold: Option<Duration>,
    /// Numbered traffic meanwhile; needs an own far end.
    pub load: Option<Load>,
    /// Frames that no device sent meanwhile.
    pub flood: Option<Flood>,
    /// Mean time, exponentially distributed, after which a device that is up ends its session and begins again; `None`: it stays up.
    pub churn: Option<Duration>,
    /// Seed of the monkey, which disturbs messages and cuts the power; `None`: there is none.
    pub monkey: Option<u64>,
    /// Whether devices release their addresses at the end.
    pub release: bool,
    /// Releases per second at the end; `None`: as many as starts.
    pub release_per_s: Option<f64>,
    /// Devices whose other frames come from and go to an interface.
    pub tap: Tapped,
    /// Seed of transaction numbers and of the variation of time-outs; also identifies the packets of this run.
    pub seed: u64,
}

/// Devices that the stack of this machine has by an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tapped {
    /// None.
    #[default]
    None,
    /// Device 0, with its frames as they are.
    First,
    /// All of them, for IPv4: the interface has all their addresses, and the emulator answers its ARP.
    All,
}

/// How devices dial in.
#[derive(Debug, Clone, PartialEq)]
pub struct Pppoe {
    /// Name of each device.
    pub login: Template,
    /// Password of each device.
    pub password: Template,
    /// Methods of authentication that they accept; the first one is asked for if the BNG wants another.
    pub methods: Vec<Method>,
    /// Whether they negotiate IPv6 too.
    pub dual_stack: bool,
    /// Largest payload of PPP: 1492, or more by RFC 4638.
    pub max_payload: u16,
    /// Service-Name that they ask for.
    pub service: String,
    /// Time between two LCP Echo-Requests of a device that is up; `None`: it sends none.
    pub echo: Option<Duration>,
    /// Time after which a device that is not up has failed.
    pub dial_timeout: Duration,
    /// Sessions that exist without discovery and PPP; `None`: devices dial in.
    pub preset: Option<Preset>,
}

/// Sessions that a node was told of, so that it is tested without a control plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preset {
    /// Session id of device 0; the others count up from it, from 65,534 on to 1.
    pub first_id: u16,
    /// Address of device 0; the others count up from it.
    pub first_address: Ipv4Addr,
    /// MAC address of the BNG.
    pub bng_mac: Mac,
}

impl Preset {
    /// Session ids: 1 to 65,534 (RFC 2516, section 4).
    const IDS: u32 = 65_534;

    /// The session id of a device.
    pub(crate) fn id(&self, number: u32) -> u16 {
        let place = u32::from(self.first_id).saturating_sub(1) + number % Preset::IDS;
        (place % Preset::IDS + 1) as u16
    }

    /// The address of a device.
    pub(crate) fn address(&self, number: u32) -> Ipv4Addr {
        Ipv4Addr::from(u32::from(self.first_address).wrapping_add(number))
    }
}

impl Default for Pppoe {
    fn default() -> Pppoe {
        Pppoe {
            login: Template("user{n}@isp".into()),
            password: Template("secret".into()),
            methods: vec![Method::ChapMd5, Method::MsChapV2, Method::Pap],
            dual_stack: false,
            max_payload: MAX_PAYLOAD,
            service: String::new(),
            echo: None,
            dial_timeout: Duration::from_secs(60),
            preset: None,
        }
    }
}

/// Numbered traffic of each session.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load {
    /// Frames/s from each subscriber.
    pub from_subscriber_fps: f64,
    /// Frames/s to each subscriber.
    pub to_subscriber_fps: f64,
    /// Bytes of a frame without tags and FCS, [`SHORTEST_FRAME`] to 1514.
    pub frame_bytes: usize,
}

/// Option 61 (RFC 2132, section 9.14).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientId {
    /// None is sent.
    None,
    /// Hardware type 1 and the MAC address.
    Mac,
    /// Type 0 and a text.
    Text(Template),
}

/// A text for each device: `{n}` is its number, `{tags}` its VLAN tags, `{mac}` its MAC address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template(pub String);

impl Template {
    /// The text of a device, at most 250 bytes.
    pub(crate) fn of(&self, device: u32, mac: Mac, tags: Tags) -> Vec<u8> {
        let text = self.0.replace("{n}", &device.to_string());
        let text = text.replace("{tags}", &tags.to_string()).replace("{mac}", &mac.to_string());
        text.into_bytes().into_iter().take(250).collect()
    }
}

impl Options {
    /// So many untagged devices, 100 per second, as RFC 2131 says.
    pub fn new(devices: u32) -> Options {
        Options {
            devices,
            lines: Lines::default(),
            first_mac: Mac([2, 0, 0, 0, 0, 1]),
            rate_per_s: 100.0,
            timeout: Duration::from_secs(4),
            tries: 4,
            redial: None,
            pppoe: None,
            client_id: ClientId::None,
            circuit: None,
            remote: None,
            line_rates: LineRates::default(),
            broadcast: false,
            far: None,
            far6: None,
            own_far: false,
            first_packet_timeout: Duration::from_secs(5),
            hold: Some(Duration::ZERO),
            load: None,
            flood: None,
            churn: None,
            monkey: None,
            release: false,
            release_per_s: None,
            tap: Tapped::None,
            seed: 1,
        }
    }

    /// What contradicts itself, each with what to do about it.
    pub fn contradictions(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut wrong = |is_wrong: bool, text: &str| is_wrong.then(|| found.push(text.to_string()));
        wrong(
            !(1..=MOST_DEVICES).contains(&self.devices),
            "there are 1 to 16777216 devices: use such a number",
        );
        wrong(
            self.rate_per_s <= 0.0 || self.rate_per_s.is_nan(),
            "no device starts at a rate of 0: use a higher rate",
        );
        wrong(self.tries == 0, "a message is sent at least once: use 1 try or more");
        wrong(self.timeout.is_zero(), "a time-out is longer than 0: use 1ms or more");
        wrong(
            !self.first_mac.is_station(),
            "the first MAC address is a group address: use one as 02:00:00:00:00:01",
        );
        wrong(
            self.own_far && self.far.is_none(),
            "an own far end needs the address to which first packets go",
        );
        wrong(self.load.is_some() && !self.own_far, "numbered traffic needs an own far end");
        wrong(self.far6.is_some() && !self.own_far, "an address of IPv6 of the far end needs an own far end");
        wrong(
            self.far6.is_some() && !self.pppoe.as_ref().is_some_and(|pppoe| pppoe.dual_stack),
            "traffic of IPv6 needs sessions of PPPoE with IPv6: add dual stack",
        );
        wrong(
            self.far6.is_some() && self.load.is_some_and(|load| load.frame_bytes < SHORTEST_FRAME6),
            "a numbered frame of IPv6 has 80 bytes or more without FCS: use longer frames",
        );
        wrong(
            self.flood.is_some_and(|flood| flood.per_s <= 0.0 || flood.per_s.is_nan()),
            "a flood has a rate above 0: use a higher rate",
        );
        wrong(self.tap != Tapped::None && self.devices == 0, "an interface needs a device");
        wrong(
            self.hold.is_none() && self.monkey.is_some(),
            "the monkey stops at the end of the hold: set a time for it",
        );
        wrong(
            self.churn.is_some_and(|mean| mean.is_zero()),
            "sessions that end at once never hold: use a longer mean time",
        );
        if let Some(pppoe) = &self.pppoe {
            wrong(
                pppoe.methods.is_empty(),
                "a device without a method of authentication cannot dial in: add one",
            );
            if let Some(Preset { first_id, bng_mac, .. }) = &pppoe.preset {
                wrong(
                    [0, u16::MAX].contains(first_id),
                    "the ids of sessions are 1 to 65534: use such a first id",
                );
                wrong(
                    !bng_mac.is_station(),
                    "the MAC address of the BNG is a group address: use that of its port",
                );
            }
            wrong(
                !(MAX_PAYLOAD..=1500).contains(&pppoe.max_payload),
                "the largest payload of PPP is 1492, or up to 1500 by RFC 4638",
            );
            let longest = usize::from(pppoe.max_payload) + 14;
            wrong(
                self.load.is_some_and(|load| load.frame_bytes > longest),
                "frames of the traffic are longer than the largest payload of PPP allows: use shorter ones",
            );
        }
        if let Some(load) = &self.load
            && !(SHORTEST_FRAME..=1514).contains(&load.frame_bytes)
        {
            found.push(format!(
                "a frame has {SHORTEST_FRAME} to 1514 bytes without FCS, not {}",
                load.frame_bytes
            ));
        }
        found
    }

    /// Bytes that a frame has on the line of device 0 with its tags and the headers of PPPoE; without them it has `frame_bytes`.
    pub fn line_bytes(&self, frame_bytes: usize) -> usize {
        let tags = match self.lines.tags(0) {
            Tags::None => 0,
            Tags::One(_) => 1,
            Tags::Two { .. } => 2,
        };
        frame_bytes + TAG_BYTES * tags + self.pppoe.as_ref().map_or(0, |_| PPPOE_BYTES)
    }

    /// The MAC address of a device.
    pub fn mac(&self, device: u32) -> Mac {
        let [a, b, rest @ ..] = self.first_mac.0;
        let [c, d, e, f] = u32::from_be_bytes(rest).wrapping_add(device).to_be_bytes();
        Mac([a, b, c, d, e, f])
    }

    /// The device of a MAC address; `None`: it is of none.
    pub(crate) fn device(&self, mac: Mac) -> Option<u32> {
        let ([a, b, rest @ ..], [c, d, first @ ..]) = (mac.0, self.first_mac.0);
        let device = u32::from_be_bytes(rest).wrapping_sub(u32::from_be_bytes(first));
        ([a, b] == [c, d] && device < self.devices).then_some(device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_known_by_their_mac_addresses() {
        let options = Options { first_mac: Mac([2, 0, 0xff, 0xff, 0xff, 0xff]), ..Options::new(3) };
        let macs = [0, 1, 2].map(|device| options.mac(device));
        assert_eq!(macs[1], Mac([2, 0, 0, 0, 0, 0]));
        assert_eq!(macs.map(|mac| options.device(mac)), [Some(0), Some(1), Some(2)]);
        assert_eq!(options.device(options.mac(3)), None);
        assert_eq!(options.device(Mac([4, 0, 0, 0, 0, 0])), None);
    }

    #[test]
    fn contradictions_are_named() {
        assert_eq!(Options::new(1).contradictions(), [""; 0]);
        let load = Load { from_subscriber_fps: 1.0, to_subscriber_fps: 1.0, frame_bytes: 59 };
        let wrong = Options { rate_per_s: 0.0, load: Some(load), ..Options::new(0) };
        assert_eq!(wrong.contradictions().len(), 4, "{:?}", wrong.contradictions());
    }

    #[test]
    fn preset_ids_and_addresses_count_up() {
        let first_address = Ipv4Addr::new(100, 64, 0, 255);
        let preset = Preset { first_id: 65_533, first_address, bng_mac: Mac([2, 0, 0, 0, 0, 9]) };
        assert_eq!([0, 1, 2, 65_533, 65_534].map(|n| preset.id(n)), [65_533, 65_534, 1, 65_532, 65_533]);
        assert_eq!(preset.address(1), Ipv4Addr::new(100, 64, 1, 0));
    }

    #[test]
    fn templates_name_the_device() {
        let text = Template("olt1/{n}:{tags} {mac}".into()).of(7, Mac([2, 0, 0, 0, 0, 8]), Tags::One(100));
        assert_eq!(text, b"olt1/7:100 02:00:00:00:00:08");
    }
}
