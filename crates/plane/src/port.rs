//! A port of the node: its name, addresses and tags; frames in memory come and go by it.
//!
//! ```text
//! lan(192.168.0.1/16, 2001:db8:1::1/64, mtu 1500, vlan 10.20, mac 02:00:00:00:00:01, on eth0)
//! ```
//!
//! | argument | meaning | else |
//! |---|---|---|
//! | `PREFIX` | an address of the port and its network; where only the network is written, its first host | none: the port is a bump in the wire |
//! | `mtu BYTES` | longest IP packet, 68 to 9216 | 1500 |
//! | `vlan TAG[.TAG]` | 802.1Q tag of its frames, or 802.1ad and 802.1Q tag, 1 to 4094; each may be a range: `100-199.1-4094` | untagged |
//! | `untagged` | beside `vlan`: frames without tags are the port's as well | |
//! | `mac ADDRESS` | its Ethernet address | that of the interface |
//! | `neighbour ADDRESS MAC` | a host of its link that is not to be asked | they are asked (ARP, neighbour discovery) |
//! | `rpf strict\|end\|loose\|off` | in a router: where the route back to the source of its packets must lead: to this port, to a port of the same end, to any port; or it is not checked | `end` |
//! | `punt REASON...` | frames that go to the control program in place of their usual way: `dhcp4 dhcp6 pppoe_discovery ppp_control nd arp unknown_source`, see `punter.rs` | none |
//! | `access` | subscribers are at it, see the stage `access` | none are |
//! | `host tap NAME` | the machine that the node runs on is at this port by a TAP device: it gets frames for the node itself that come in here, and what it sends there leaves here | as the node says for all ports |
//! | `on NAME` | the interface it stands for | that of its own name |

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_config::{Notes, closest, did_you_mean};
use weir_packet::frame::Mac;

use crate::prefix::{Prefix, is_unicast4, mask4};
use crate::punt::PuntReasons;
use crate::tags::{PortTags, TagSet};
use crate::text::{Arg, Item};

/// The configuration of a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// Its name in the text and in reports; empty: no port has this number.
    pub name: String,
    /// Its end of the node. `None`: no port has this number, since the port that had it was removed while the node ran.
    pub end: Option<End>,
    /// Its addresses with their networks.
    pub addresses: Vec<Prefix>,
    /// Longest IP packet that leaves, in bytes.
    pub mtu: u16,
    /// The VLAN tags of its frames.
    pub vlan: TagSet,
    /// Its Ethernet address, where the text gives one.
    pub mac: Option<Mac>,
    /// Hosts of its link with configured Ethernet addresses.
    pub neighbours: BTreeMap<IpAddr, Mac>,
    /// How the sources of its frames are checked, if the node is a router.
    pub rpf: Rpf,
    /// What of its frames goes to the control program.
    pub punt: PuntReasons,
    /// Subscribers are at it: the stage `access` decides about its frames.
    pub is_access: bool,
    /// Frames that come in by it may be those of subscribers.
    pub has_subscribers: bool,
    /// The TAP device by which the machine is at this port, if it has one of its own.
    pub tap: Option<String>,
    /// The interface it stands for.
    pub interface: String,
}

/// An end of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The inside: frames that come in here go outward.
    Left,
    /// The outside: frames that come in here go inward.
    Right,
}

/// Reverse path forwarding: what is checked of the route back to a source (BCP 38 = RFC 2827, RFC 3704).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Rpf {
    /// It leads to the port that the packet came in by.
    Strict,
    /// It leads to a port of the same end of the node.
    #[default]
    End,
    /// It leads to any port.
    Loose,
    /// Nothing is checked.
    Off,
}

impl Rpf {
    /// The modes by their names in texts.
    const NAMES: [(&str, Rpf); 4] =
        [("strict", Rpf::Strict), ("end", Rpf::End), ("loose", Rpf::Loose), ("off", Rpf::Off)];
}

const MTU: std::ops::RangeInclusive<u16> = 68..=9216;
const ARGS: &[&str] = &["mtu", "vlan", "untagged", "mac", "neighbour", "rpf", "punt", "access", "host", "on"];

impl Port {
    /// A bump in the wire.
    pub fn plain(name: &str) -> Port {
        let name = name.to_string();
        Port {
            interface: name.clone(),
            name,
            end: Some(End::Left),
            addresses: Vec::new(),
            mtu: 1500,
            vlan: TagSet::UNTAGGED,
            mac: None,
            neighbours: BTreeMap::new(),
            rpf: Rpf::default(),
            punt: PuntReasons::default(),
            is_access: false,
            has_subscribers: false,
            tap: None,
        }
    }

    /// The place of a number that no port has.
    pub(crate) fn absent() -> Port {
        Port { end: None, ..Port::plain("") }
    }

    /// Whether it is there, and not the place of a number that no port has.
    pub fn is_present(&self) -> bool {
        self.end.is_some()
    }

    /// Whether its hosts are known by line, and not by address alone: it has several lines, or subscribers.
    pub(crate) fn has_lines(&self) -> bool {
        self.is_access || !self.vlan.is_fixed()
    }

    /// The tags of its frames.
    pub(crate) fn port_tags(&self) -> PortTags {
        if self.is_access { PortTags::Lines(self.vlan) } else { PortTags::of(&self.vlan) }
    }

    /// Whether it is of the left end.
    pub fn is_left(&self) -> bool {
        self.end == Some(End::Left)
    }

    /// Whether it is the same port, possibly with other arguments: it has the name, the end and the interface.
    pub(crate) fn is_same(&self, other: &Port) -> bool {
        self.is_present()
            && (&self.name, self.end, &self.interface) == (&other.name, other.end, &other.interface)
    }

    /// Reads an item, which is none of those with these names; mistakes are noted.
    pub(crate) fn read(item: &Item, no_ports: &[&str], notes: &Notes<'_>) -> Port {
        let name = &item.name.text;
        let mut port = Port::plain(name);
        // Whatever is no stage is a port.
        let meant = closest(name, no_ports);
        let hint = meant.map(|stage| format!("; or did you mean `{stage}` where you write `{name}`?"));
        for arg in &item.args {
            if let Err(text) = port.argument(arg) {
                arg.wrong(notes, text + hint.as_deref().unwrap_or_default());
            }
        }
        item.said_once(&["mtu", "vlan", "untagged", "mac", "rpf", "punt", "access", "host", "on"], notes);
        port.vlan.untagged |= item.args.iter().any(|arg| arg.words() == ["untagged"]);
        port.check_lines(item, notes);
        port
    }

    /// A port with several lines knows no host of its link but by the line of a frame.
    fn check_lines(&self, item: &Item, notes: &Notes<'_>) {
        let neighbour = item.args.iter().find(|arg| arg.words().first() == Some(&"neighbour"));
        if let Some(arg) = neighbour.filter(|_| !self.vlan.is_fixed()) {
            let text = "a port with several lines has no neighbours: give the neighbour a port with the tags of its line";
            arg.wrong(notes, text.to_string());
        }
    }

    fn argument(&mut self, arg: &Arg) -> Result<(), String> {
        match arg.words()[..] {
            ["mtu", bytes] => {
                let mtu = bytes.parse().ok().filter(|mtu| MTU.contains(mtu));
                self.mtu = mtu.ok_or(format!("mtu takes bytes from {} to {}", MTU.start(), MTU.end()))?;
            }
            ["vlan", tags] => self.vlan = TagSet::read(tags)?,
            // Beside `vlan`, wherever that stands, see `read`.
            ["untagged"] => {}
            ["mac", address] => self.mac = Some(own_mac(address)?),
            ["neighbour", ip, address] => {
                let ip = ip.parse().map_err(|_| format!("`{ip}` is no address"))?;
                self.neighbours.insert(ip, own_mac(address)?);
            }
            ["rpf", word] => {
                let found = Rpf::NAMES.into_iter().find(|(name, _)| *name == word);
                self.rpf = found.ok_or(format!("`{word}`: rpf is strict, end, loose or off"))?.1;
            }
            ["punt", ref reasons @ ..] => self.punt = PuntReasons::read(reasons)?,
            ["access"] => self.is_access = true,
            ["host", "tap", name] => self.tap = Some(device(name)?),
            ["host", ..] => return Err("host of a port takes `tap` and a name: host tap tap0".to_string()),
            ["on", interface] => self.interface = interface.to_string(),
            [prefix] if prefix.contains(['.', ':']) => self.addresses.push(own(prefix.parse()?)?),
            [word, ..] => {
                let hint = match ARGS.contains(&word) {
                    true if word == "neighbour" => {
                        "`neighbour` takes an address and an Ethernet address".to_string()
                    }
                    true => format!("`{word}` takes one word"),
                    false => format!("`{word}` is no argument of a port: {}", did_you_mean(word, ARGS)),
                };
                return Err(format!("{hint} (an address needs its network: 192.168.0.1/24)"));
            }
            [] => unreachable!("an argument has a word"),
        }
        Ok(())
    }

    /// Its addresses as those of a host, with their networks.
    pub(crate) fn hosts(&self) -> Vec<Prefix> {
        self.addresses.iter().map(|local| Prefix { address: local.host(), len: local.len }).collect()
    }

    /// Whether it is the same, but for the Ethernet addresses of its neighbours.
    pub(crate) fn has_the_shape_of(&self, other: &Port) -> bool {
        let shape = |port: &Port| Port { neighbours: BTreeMap::new(), ..port.clone() };
        shape(self) == shape(other)
    }

    /// The VLAN tags of its frames, as they stand between addresses and type; where each line has its own, those of the first.
    pub fn tags(&self) -> Vec<[u8; 4]> {
        self.vlan.first().write(&mut [[0; 4]; 2]).to_vec()
    }
}

/// The name of a device: what the kernel takes (dev_valid_name of net/core/dev.c), without `%`, where it would choose a number.
fn device(name: &str) -> Result<String, String> {
    const MOST_BYTES: usize = 15;
    let is_odd = |c: char| c.is_whitespace() || c.is_control() || "/:%".contains(c);
    let is_name = name.len() <= MOST_BYTES && !name.contains(is_odd) && ![".", ".."].contains(&name);
    let wrong =
        || format!("`{name}` is no name of a TAP device: write at most {MOST_BYTES} letters and digits");
    is_name.then(|| name.to_string()).ok_or_else(wrong)
}

/// An address that one host can have.
pub(crate) fn own(prefix: Prefix) -> Result<Prefix, String> {
    let has_hosts = match prefix.host() {
        IpAddr::V4(host) => {
            let is_last = prefix.len < 31 && u32::from(host) | mask4(prefix.len) == u32::MAX;
            is_unicast4(host.into()) && !is_last
        }
        IpAddr::V6(host) => !host.is_unspecified() && !host.is_loopback() && !host.is_multicast(),
    };
    let host = prefix.host();
    has_hosts
        .then_some(prefix)
        .ok_or_else(|| format!("{host} is no host's address: write one, as in 192.0.2.1/24"))
}

/// An Ethernet address: six bytes in hexadecimal with colons.
pub(crate) fn mac(text: &str) -> Result<Mac, String> {
    let bytes: Option<Vec<u8>> = text.split(':').map(|byte| u8::from_str_radix(byte, 16).ok()).collect();
    bytes
        .and_then(|bytes| bytes.try_into().ok())
        .ok_or_else(|| format!("`{text}` is no Ethernet address: write six bytes, as in 02:00:00:00:00:01"))
}

/// The number of the port with this name.
///
/// # Errors
/// There is none: which there are.
pub(crate) fn port_named(ports: &[Port], name: &str) -> Result<usize, String> {
    ports.iter().position(|port| port.name == name).ok_or_else(|| {
        let names: Vec<&str> = ports.iter().map(|port| port.name.as_str()).collect();
        format!("`{name}` is no port of the node: {}", did_you_mean(name, &names))
    })
}

/// An Ethernet address as programs write it: six bytes in hexadecimal with colons.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct MacText(pub String);

impl MacText {
    /// The address, if one host can have it.
    ///
    /// # Errors
    /// It is none.
    pub(crate) fn of_host(&self) -> Result<Mac, String> {
        own_mac(&self.0)
    }
}

impl fmt::Display for MacText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<Mac> for MacText {
    fn from(mac: Mac) -> MacText {
        MacText(mac.map(|byte| format!("{byte:02x}")).join(":"))
    }
}

/// An Ethernet address that one host can have.
pub(crate) fn own_mac(text: &str) -> Result<Mac, String> {
    match mac(text)? {
        mac if mac[0] & 1 != 0 || mac == [0; 6] => Err(format!(
            "`{text}` is no address of one host: its first byte is to be even, and not all may be zero"
        )),
        mac => Ok(mac),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::punt::PuntReason;
    use crate::text::items;

    fn read(text: &str) -> Result<Port, String> {
        let notes = Notes::new("a node", text);
        let port = Port::read(&items(text, &notes)[0], &["filter", "nat"], &notes);
        if notes.is_empty() { Ok(port) } else { Err(notes.to_mistakes("n").to_string()) }
    }

    #[test]
    fn arguments_of_a_port() {
        let port =
            read("lan(192.168.0.1/16, 2001:db8::/64, mtu 9000, vlan 10.20, mac 02:00:00:00:00:01, on eth0)");
        let port = port.expect("right");
        assert_eq!(
            port.addresses.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["192.168.0.1/16", "2001:db8::/64"]
        );
        assert_eq!((port.mtu, port.interface.as_str(), port.mac), (9000, "eth0", Some([2, 0, 0, 0, 0, 1])));
        assert_eq!(port.tags(), [[0x88, 0xa8, 0, 10], [0x81, 0, 0, 20]]);
        assert_eq!(read("lan(host tap t0)").map(|port| port.tap), Ok(Some("t0".into())));
        assert_eq!(read("lan"), Ok(Port::plain("lan")));
        let port = read("lan(vlan 7, punt dhcp4 arp nd)").expect("right");
        let punted = PuntReason::ALL.into_iter().filter(|reason| port.punt.contains(*reason));
        assert_eq!(punted.collect::<Vec<_>>(), [PuntReason::Nd, PuntReason::Arp, PuntReason::Dhcp4]);
    }

    #[test]
    fn all_mistakes_of_a_port_are_reported() {
        let wrong = read("lan(192.168.0.1/33,\nmtu 12, vlan 0,\nmac 1:2, colour red)").expect_err("wrong");
        let lines: Vec<_> = wrong.lines().collect();
        assert_eq!(lines.len(), 5, "{wrong}");
        assert!(lines[0].starts_with("n:1: `192.168.0.1/33` has no length"), "{wrong}");
        assert!(lines.contains(&"n:2: mtu takes bytes from 68 to 9216"), "{wrong}");
        assert!(lines[4].contains("colour` is no argument of a port: use mtu, vlan"), "{wrong}");
        for address in
            ["198.18.0.255/24", "224.0.0.1/24", "127.0.0.1/8", "0.0.0.0/32", "::1/128", "ff02::1/64"]
        {
            let wrong = read(&format!("lan({address})")).expect_err(address);
            assert!(wrong.contains("is no host's address"), "{wrong}");
        }
        for (text, stage) in [("filtr(rules.fw)", "filter"), ("nats(public 192.0.2.1)", "nat")] {
            let wrong = read(text).expect_err(text);
            assert!(wrong.contains(&format!("did you mean `{stage}` where you write")), "{wrong}");
        }
        let wrong = read("lan(punt arp dhpc4,\npunt)").expect_err("wrong");
        assert!(wrong.starts_with("n:1: `dhpc4` is no reason to punt: did you mean `dhcp4`?"), "{wrong}");
        assert!(
            wrong.contains("n:2: punt takes at least one reason: ppp_control, nd, arp, dhcp4"),
            "{wrong}"
        );
        for text in ["lan(host tap)", "lan(host t0)", "lan(host kernel)", "lan(host tap a b)"] {
            let wrong = read(text).expect_err(text);
            assert!(wrong.contains("host of a port takes `tap` and a name"), "{wrong}");
        }
        for name in ["a/b", "a-name-far-too-long", ".."] {
            let wrong = read(&format!("lan(host tap {name})")).expect_err(name);
            assert!(wrong.contains("is no name of a TAP device"), "{wrong}");
        }
        let wrong = read("lan(mtu 1500,\nmtu 1400, on a, on a)").expect_err("twice");
        assert_eq!(
            wrong,
            "n:2: `mtu` is said already: leave one of them out\nn:2: `on` is said already: leave one of them out"
        );
    }
}
