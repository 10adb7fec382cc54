//! The stage in the text.
//!
//! ```text
//! access1(access) access2(vlan 100-199.1-4094, access) > access(gateway 100.64.0.1/10) > route(...) > wan(...)
//! access(gateway 100.64.0.1/10, walled portal 192.0.2.80 dns 192.0.2.53, class 3 dscp ef priority 5, dscp from set 0)
//! ```
//! `loops reject` among the arguments of the stage: a packet of a subscriber for an address or a prefix of its own is dropped in any case
//! (RFC 8987, R-5); its sender is told so then.
//!
//! A gateway is an address that the node has at each access port, and the network that subscribers have their addresses in.

use std::net::IpAddr;

use weir_config::Notes;

use super::dscp::DscpRules;
use super::walled::Garden;
use crate::port::{Port, Rpf, own};
use crate::prefix::Prefix;
use crate::punt::{PuntReason, PuntReasons};
use crate::shape::ShapeConfig;
use crate::text::Item;

/// What access ports punt.
const PUNTED: [PuntReason; 6] = [
    PuntReason::PppControl,
    PuntReason::Nd,
    PuntReason::Dhcp4,
    PuntReason::Dhcp6,
    PuntReason::PppoeDiscovery,
    PuntReason::UnknownSource,
];
/// Most gateways.
const MOST_GATEWAYS: usize = 64;

/// The stage as its text describes it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct AccessConfig {
    gateways: Vec<Prefix>,
    pub(crate) policy: AccessPolicy,
}

/// What becomes of packets of subscribers for addresses and prefixes of their own. All of them are dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Loops {
    /// In silence.
    #[default]
    Drop,
    /// An ICMP error tells the sender so.
    Reject,
}

/// What it says of all subscribers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct AccessPolicy {
    pub(super) garden: Garden,
    pub(super) dscp: DscpRules,
    pub(super) shape: ShapeConfig,
    pub(super) loops: Loops,
}

impl AccessConfig {
    /// Whether a subscriber can have addresses of this network.
    pub(crate) fn holds(&self, prefix: Prefix) -> bool {
        let holds = |gateway: &Prefix| gateway.len <= prefix.len && gateway.contains(prefix.address);
        self.gateways.iter().any(holds)
    }

    /// Whether it is the address of the node at access ports.
    pub(crate) fn is_gateway(&self, address: IpAddr) -> bool {
        self.gateways.iter().any(|gateway| gateway.address == address)
    }

    /// The gateways, for messages.
    pub(crate) fn networks(&self) -> String {
        self.gateways.iter().map(|gateway| gateway.network().to_string()).collect::<Vec<_>>().join(", ")
    }
}

/// Reads the stage `item`, and makes access ports of those that say so; mistakes are noted. `items` are those of the text: the
/// first of the stages is at `first`.
pub(crate) fn read(
    items: &[Item],
    first: Option<usize>,
    ports: &mut [Port],
    notes: &Notes<'_>,
) -> Option<AccessConfig> {
    let is_access = |item: &&Item| item.name.text == "access";
    let item = items.iter().find(is_access);
    if let Some(again) = items.iter().filter(is_access).nth(1) {
        again.wrong(notes, "there is an `access` already: write all gateways in one".to_string());
    }
    let Some(item) = item else {
        for port in ports.iter().filter(|port| port.is_access) {
            let said = items.iter().find(|item| item.name.text == port.name);
            said.into_iter().for_each(|item| {
                let name = &port.name;
                item.wrong(notes, format!("`{name}` is an access port, but the node has no `access`: write `> access(gateway 100.64.0.1/10)` behind its ports"));
            });
        }
        return None;
    };
    check_place(items, item, first, ports, notes);
    let config = read_arguments(item, ports, notes);
    for port in ports.iter_mut().filter(|port| port.is_access) {
        if let Some(said) = items.iter().find(|item| item.name.text == port.name) {
            check_port(said, port, notes);
        }
        port.addresses.clone_from(&config.gateways);
        port.has_subscribers = true;
        // A session says which sources are right.
        port.rpf = Rpf::Off;
        port.punt = port.punt.with(PuntReasons::of(&PUNTED));
    }
    Some(config)
}

fn check_place(items: &[Item], item: &Item, first: Option<usize>, ports: &[Port], notes: &Notes<'_>) {
    let is_first = first.and_then(|first| items.get(first)).is_some_and(|first| first.name.text == "access");
    if !is_first {
        item.wrong(
            notes,
            "`access` stands in front of all other stages: write it behind the access ports".to_string(),
        );
    }
    if !items.iter().any(|item| item.name.text == "route") {
        item.wrong(notes, "`access` needs a router: add `> route(...)`".to_string());
    }
    if !ports.iter().any(|port| port.is_access) {
        let text =
            "no port is an access port: write `access` among the arguments of those that subscribers are at";
        item.wrong(notes, text.to_string());
    }
}

fn read_arguments(item: &Item, ports: &[Port], notes: &Notes<'_>) -> AccessConfig {
    let mut config = AccessConfig::default();
    config.policy.shape.take_ports(ports);
    item.said_once(&["walled"], notes);
    for arg in &item.args {
        let AccessConfig { gateways, policy: AccessPolicy { garden, dscp, shape, loops } } = &mut config;
        let read = match &arg.words()[..] {
            ["gateway", prefix] => gateway(prefix, gateways).map(|gateway| gateways.push(gateway)),
            ["loops", "drop"] => {
                *loops = Loops::Drop;
                Ok(())
            }
            ["loops", "reject"] => {
                *loops = Loops::Reject;
                Ok(())
            }
            ["walled", rest @ ..] => Garden::read(rest).map(|read| *garden = read),
            ["class", rest @ ..] => dscp.read_class(rest),
            ["dscp", rest @ ..] => dscp.read_marking(rest),
            words => shape.read(words, ports).unwrap_or_else(|| {
                Err("`access` is a stage and takes gateways: write `gateway 100.64.0.1/10`, and call a port another name".into())
            }),
        };
        read.unwrap_or_else(|text| arg.wrong(notes, text));
    }
    let gateways = &config.gateways;
    if gateways.is_empty() && notes.is_empty() {
        item.wrong(notes, "`access` has no gateway: write `access(gateway 100.64.0.1/10)`".to_string());
    }
    if gateways.len() > MOST_GATEWAYS {
        item.wrong(
            notes,
            format!("`access` has at most {MOST_GATEWAYS} gateways: these are {}", gateways.len()),
        );
    }
    config
}

/// A gateway beside the others.
fn gateway(prefix: &str, others: &[Prefix]) -> Result<Prefix, String> {
    let prefix: Prefix = prefix.parse().and_then(own)?;
    let overlaps = |other: &&Prefix| other.contains(prefix.address) || prefix.contains(other.address);
    match others.iter().find(overlaps) {
        Some(other) => Err(format!("{prefix} overlaps with the gateway {other}: give each its own network")),
        None => Ok(Prefix { address: prefix.host(), ..prefix }),
    }
}

/// What an access port cannot have besides.
fn check_port(item: &Item, port: &Port, notes: &Notes<'_>) {
    let name = &port.name;
    let wrong = if !port.is_left() {
        Some(format!(
            "`{name}` is on the right side, and subscribers are on the left: write it in front of `access`"
        ))
    } else if !port.addresses.is_empty() {
        Some(format!("an access port has the addresses of `access(gateway ...)`: remove those of `{name}`"))
    } else if !port.neighbours.is_empty() {
        Some(format!("an access port has subscribers and no neighbours: remove those of `{name}`"))
    } else if port.tap.is_some() {
        Some(format!("the machine cannot be at an access port: remove `host tap` of `{name}`"))
    } else {
        None
    };
    wrong.into_iter().for_each(|text| item.wrong(notes, text));
}
