//! Emulated devices of customers.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4};
use std::time::Duration;

use clap::{Args, ValueEnum};
use weir_bng::{LineRates, bits_per_s};
use weir_config::rate::fps;
use weir_config::unit;
use weir_cpe::{
    ClientId, Lines, Load, Mac, Method, Options, Pppoe, Preset, SHORTEST_FRAME, SHORTEST_FRAME6, Tapped,
    Template,
};

use super::frames::seconds;

/// UDP port of the far end: echo (RFC 862).
const ECHO_PORT: u16 = 7;
/// Frame check sequence, which sizes of frames include.
const FCS_BYTES: u16 = 4;

/// `weir cpe`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir cpe --dhcp 1000 --rate 500 --on eth1
  weir cpe --dhcp 64000 --rate 2000 --on eth1 --lines 100-199.1-4094 --far eth2 --first-packet-to 198.18.0.2
  weir cpe --dhcp 100 --on eth1 --far eth2 --first-packet-to 198.18.0.2 --from-subscriber 10 --to-subscriber 100 --hold 30s
  weir cpe --pppoe 1000 --rate 500 --on eth1 --lines 100-199.1-4094 --login 'user{n}@isp' --password secret --dual-stack
  weir cpe --dhcp 1 --on eth1 --lines 100.7 --tap cpe0      then: curl --interface cpe0 http://198.18.0.2/

Exit code 1: a device failed, or a session got a frame of another one.")]
pub(crate) struct Cpe {
    /// Number of devices with a DHCPv4 client, 1 to 16 million
    #[arg(long, value_name = "N", value_parser = devices, required_unless_present = "pppoe", conflicts_with = "pppoe")]
    dhcp: Option<u32>,
    /// Number of devices that dial in by PPPoE
    #[arg(long, value_name = "N", value_parser = devices)]
    pub(crate) pppoe: Option<u32>,
    #[command(flatten)]
    dial: Dial,
    /// Interface to which the BNG's subscriber side is connected
    #[arg(long, value_name = "IF")]
    pub(crate) on: String,
    /// Devices that start per second, evenly paced: 0.1 to 1M
    #[arg(long, value_name = "N/S", default_value = "100", value_parser = fps)]
    pub(crate) rate: f64,
    /// VLAN tags of the devices in order: untagged, 7, 100-199, or 100-199.1-4094 for outer (0x88a8) and inner tags
    #[arg(long, value_name = "TAGS", default_value = "untagged")]
    lines: Lines,
    /// MAC address of the first device; the others count up from it
    #[arg(long, value_name = "MAC", default_value = "02:00:00:00:00:01")]
    first_mac: Mac,
    /// Time until a message is sent again; doubles each time, up to 64s (RFC 2131); in PPP it does not double
    #[arg(long, value_name = "TIME", default_value = "4s", value_parser = seconds)]
    timeout: Duration,
    /// How often a message is sent before the device has failed: 1 to 20
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=20))]
    tries: u32,
    /// Let devices that have failed begin again, as those of customers do, until the end of --hold; the set-up ends after this time
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    redial: Option<Duration>,
    /// Send a client identifier (option 61): `mac`, or a text with {n}, {tags} or {mac}
    #[arg(long, value_name = "ID", value_parser = client_id)]
    client_id: Option<ClientId>,
    /// Send this circuit-id (option 82 of DHCP, tag 0x0105 of PPPoE), as an access node does: a text with {n}, {tags} or {mac}
    #[arg(long, value_name = "TEXT")]
    circuit: Option<String>,
    /// Send this remote-id (option 82, tag 0x0105)
    #[arg(long, value_name = "TEXT")]
    remote: Option<String>,
    /// Send these rates of the line upstream and downstream (tag 0x0105), as an access node does: 10Mbit/50Mbit
    #[arg(long, value_name = "UP/DOWN", requires = "pppoe", value_parser = line_rates)]
    line_rates: Option<LineRates>,
    /// Ask the server to answer by broadcast
    #[arg(long)]
    broadcast: bool,
    /// Send the first packet of each session there (UDP, default port 7), and measure when it arrives: at --far, or when an echo
    /// server returns it
    #[arg(long, value_name = "ADDR[:PORT]", value_parser = far_end)]
    first_packet_to: Option<SocketAddrV4>,
    /// Time after which a session without a received first packet has failed
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = seconds)]
    first_packet_timeout: Duration,
    /// Interface behind the BNG: be the host of --first-packet-to there
    #[arg(long, value_name = "IF", requires = "first_packet_to")]
    pub(crate) far: Option<String>,
    /// Be the host of this IPv6 address at --far, too: every second frame of the traffic is IPv6
    #[arg(long, value_name = "ADDR", requires = "far", requires = "dual_stack")]
    far6: Option<Ipv6Addr>,
    /// Frames/s from each subscriber while sessions are held
    #[arg(long, value_name = "PPS", requires = "far", value_parser = fps)]
    from_subscriber: Option<f64>,
    /// Frames/s to each subscriber while sessions are held
    #[arg(long, value_name = "PPS", requires = "far", value_parser = fps)]
    to_subscriber: Option<f64>,
    /// Bytes of a frame of the traffic with FCS, without tags: 64 to 1518
    #[arg(long, value_name = "BYTES", default_value_t = 64, value_parser = clap::value_parser!(u16).range(64..=1518))]
    frame: u16,
    /// Keep the sessions up for this time after the last set-up, with renewals [default: 0s; with --tap until Ctrl-C]
    #[arg(long, value_name = "TIME", value_parser = hold)]
    hold: Option<Duration>,
    /// End each session after an exponentially distributed time with this mean, and begin again a second later
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    churn: Option<Duration>,
    /// Lose, double, delay, reorder and change messages by this seed and cut the power once, until the end of --hold; then all devices
    /// must come up again
    #[arg(long, value_name = "SEED", requires = "hold")]
    monkey: Option<u64>,
    /// Release the addresses or end the sessions (PADT) at the end, at the same rate
    #[arg(long)]
    release: bool,
    /// Make the session of the first device an interface of this name (TAP) with its MAC address and IP address
    #[arg(long, value_name = "NAME")]
    pub(crate) tap: Option<String>,
    /// Seed of transaction numbers and of the variation of time-outs [default: random]
    #[arg(long)]
    seed: Option<u64>,
    /// Write the result as one JSON document to standard output
    #[arg(long)]
    pub(crate) json: bool,
    /// Run even if the default route goes through one of the interfaces
    #[arg(long)]
    pub(crate) allow_default_route: bool,
}

/// How devices dial in.
#[derive(Debug, Args)]
#[command(next_help_heading = "PPPoE")]
struct Dial {
    /// Name of each device: a text with {n}, {tags} or {mac}
    #[arg(long, value_name = "TEXT", default_value = "user{n}@isp", requires = "pppoe")]
    login: String,
    /// Password of each device: a text with {n}, {tags} or {mac}
    #[arg(long, value_name = "TEXT", default_value = "secret", requires = "pppoe")]
    password: String,
    /// Accept only these methods of authentication, and ask for the first one if the BNG wants another
    #[arg(long, value_name = "METHOD", value_enum, value_delimiter = ',', requires = "pppoe", default_values = ["chap", "mschapv2", "pap"])]
    auth: Vec<Auth>,
    /// Negotiate IPv6 (IPV6CP) as well as IPv4; a device without it has failed
    #[arg(long, requires = "pppoe")]
    dual_stack: bool,
    /// Largest payload of PPP: 1492, or up to 1500 (RFC 4638), for which the interface needs an MTU of 1508
    #[arg(long, value_name = "BYTES", default_value_t = 1492, requires = "pppoe", value_parser = clap::value_parser!(u16).range(1492..=1500))]
    max_payload: u16,
    /// Service-Name that devices ask for
    #[arg(long, value_name = "TEXT", default_value = "", requires = "pppoe", hide_default_value = true)]
    service: String,
    /// Send LCP Echo-Requests at this interval while sessions are held; after 3 without an answer a session has ended
    #[arg(long, value_name = "TIME", requires = "pppoe", value_parser = seconds)]
    echo: Option<Duration>,
    /// Time from the first PADI after which a device that is not up has failed
    #[arg(long, value_name = "TIME", default_value = "60s", requires = "pppoe", value_parser = seconds)]
    dial_timeout: Duration,
    /// Use sessions that a node was told of, without discovery and PPP: session id of the first device; the others count up from it
    #[arg(long, value_name = "FIRST_ID", requires = "pppoe", requires = "first_address", requires = "bng_mac", value_parser = clap::value_parser!(u16).range(1..=65_534))]
    pppoe_preset: Option<u16>,
    /// Address of the first device with --pppoe-preset; the others count up from it
    #[arg(long, value_name = "ADDR", requires = "pppoe_preset")]
    first_address: Option<Ipv4Addr>,
    /// MAC address of the node's port with --pppoe-preset
    #[arg(long, value_name = "MAC", requires = "pppoe_preset")]
    bng_mac: Option<Mac>,
}

/// A method of authentication.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Auth {
    /// Password in clear text (RFC 1334)
    Pap,
    /// CHAP with MD5 (RFC 1994)
    Chap,
    /// MS-CHAPv2 (RFC 2759)
    Mschapv2,
}

impl Dial {
    fn preset(&self) -> Option<Preset> {
        let (first_id, first_address, bng_mac) = (self.pppoe_preset?, self.first_address?, self.bng_mac?);
        Some(Preset { first_id, first_address, bng_mac })
    }

    fn options(&self) -> Pppoe {
        let method = |auth: &Auth| match auth {
            Auth::Pap => Method::Pap,
            Auth::Chap => Method::ChapMd5,
            Auth::Mschapv2 => Method::MsChapV2,
        };
        Pppoe {
            login: Template(self.login.clone()),
            password: Template(self.password.clone()),
            methods: self.auth.iter().map(method).collect(),
            dual_stack: self.dual_stack,
            max_payload: self.max_payload,
            service: self.service.clone(),
            echo: self.echo,
            dial_timeout: self.dial_timeout,
            preset: self.preset(),
        }
    }
}

/// Headers of PPPoE and PPP.
const PPPOE_BYTES: u16 = 8;

impl Cpe {
    /// The options of the run; `seed` is used if the command line has none.
    pub(crate) fn options(&self, seed: u64) -> Options {
        let has_traffic = self.from_subscriber.is_some() || self.to_subscriber.is_some();
        let shortest = if self.far6.is_some() { SHORTEST_FRAME6 } else { SHORTEST_FRAME };
        let load = Load {
            from_subscriber_fps: self.from_subscriber.unwrap_or(0.0),
            to_subscriber_fps: self.to_subscriber.unwrap_or(0.0),
            frame_bytes: usize::from(self.frame - FCS_BYTES).max(shortest),
        };
        Options {
            devices: self.pppoe.or(self.dhcp).unwrap_or(0),
            lines: self.lines,
            first_mac: self.first_mac,
            rate_per_s: self.rate,
            timeout: self.timeout,
            tries: self.tries,
            redial: self.redial,
            pppoe: self.pppoe.map(|_| self.dial.options()),
            client_id: self.client_id.clone().unwrap_or(ClientId::None),
            circuit: self.circuit.clone().map(Template),
            remote: self.remote.clone().map(Template),
            line_rates: self.line_rates.unwrap_or_default(),
            broadcast: self.broadcast,
            far: self.first_packet_to,
            far6: self.far6,
            own_far: self.far.is_some(),
            first_packet_timeout: self.first_packet_timeout,
            hold: self.hold.or_else(|| self.tap.is_none().then_some(Duration::ZERO)),
            flood: None,
            load: has_traffic.then_some(load),
            churn: self.churn,
            monkey: self.monkey,
            release: self.release,
            release_per_s: None,
            tap: if self.tap.is_some() { Tapped::First } else { Tapped::None },
            seed: self.seed.unwrap_or(seed),
        }
    }

    /// Longest frame on the access side, with FCS.
    pub(crate) fn longest_frame(&self) -> u16 {
        match self.pppoe {
            None => self.frame.max(350),
            // The largest packet of a session, and its Ethernet header.
            Some(_) => self.dial.max_payload + PPPOE_BYTES + 14 + FCS_BYTES,
        }
    }
}

fn devices(text: &str) -> Result<u32, String> {
    let count = unit::quantity(text).ok().filter(|n| n.fract() == 0.0 && (1.0..=16_777_216.0).contains(n));
    count.map(|n| n as u32).ok_or_else(|| format!("`{text}` is no number of devices: use 1 to 16M"))
}

fn client_id(text: &str) -> Result<ClientId, String> {
    match text {
        "mac" => Ok(ClientId::Mac),
        "" => Err("a client identifier has at least one letter: use mac, or a text".into()),
        text => Ok(ClientId::Text(Template(text.into()))),
    }
}

fn line_rates(text: &str) -> Result<LineRates, String> {
    let wrong = || format!("`{text}` is no pair of rates: use 10Mbit/50Mbit");
    let (up, down) = text.split_once('/').ok_or_else(wrong)?;
    let kbit_per_s = |text: &str| {
        let kbit = bits_per_s(text)? / 1000;
        u32::try_from(kbit).ok().filter(|kbit| *kbit > 0).ok_or_else(wrong)
    };
    Ok(LineRates { up_kbit_per_s: kbit_per_s(up)?, down_kbit_per_s: kbit_per_s(down)? })
}

fn far_end(text: &str) -> Result<SocketAddrV4, String> {
    let address = text.parse::<Ipv4Addr>().map(|address| SocketAddrV4::new(address, ECHO_PORT));
    let wrong = || format!("`{text}` is no IPv4 address: use 198.18.0.2, or 198.18.0.2:7 with a UDP port");
    address.or_else(|_| text.parse()).ok().filter(|end| end.port() != 0).ok_or_else(wrong)
}

fn hold(text: &str) -> Result<Duration, String> {
    unit::time(text, Duration::ZERO, Duration::from_secs(30 * 86_400))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read() {
        assert_eq!(devices("64k"), Ok(64_000));
        assert!(devices("0").is_err() && devices("1.5").is_err());
        assert_eq!(far_end("198.18.0.2").unwrap().to_string(), "198.18.0.2:7");
        assert_eq!(far_end("198.18.0.2:9").unwrap().port(), 9);
        assert!(far_end("2001:db8::1").is_err() && far_end("198.18.0.2:0").is_err());
        assert_eq!(client_id("mac"), Ok(ClientId::Mac));
        assert_eq!(hold("0"), Ok(Duration::ZERO));
    }
}
