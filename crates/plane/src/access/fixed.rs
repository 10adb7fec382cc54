//! The small static table of subscribers in a node's text.
//!
//! ```text
//! subscribers(anna access 100.5 02:00:00:00:00:01 198.18.0.5 2001:db8:1::/64, bob access untagged 02:00:00:00:00:02 walled plan gold)
//! ```
//! A name, a port, the tags of a line there, an Ethernet address, and addresses or networks that are the subscriber's; behind them a state
//! (`active`, `blocked`, `walled`), `nat none`, `plan NAME` and `group NAME`, and of a PPPoE session `pppoe` and its id. Indexes follow
//! from the order of the text, from 1 on.

use std::net::IpAddr;

use weir_config::Notes;

use super::command::PPPOE_IDS;
use super::labels::{self, Labels};
use super::table::Subscribers;
use super::{AccessState, NatProfile};
use crate::frame::{Line, PortId};
use crate::port::{self, Port, port_named};
use crate::prefix::Prefix;
use crate::tags::Tags;
use crate::text::{Arg, Item};

/// Most subscribers of a text.
const MOST: usize = 4096;
/// Most prefixes of each.
const MOST_PREFIXES: usize = 16;

/// A subscriber of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubscriberConfig {
    /// Its name.
    pub name: String,
    /// Where its frames come from.
    pub line: Line,
    /// Its addresses and networks.
    pub prefixes: Vec<Prefix>,
    /// Whether it may send and receive; at access ports alone.
    pub state: AccessState,
    /// What NATs do with its packets.
    pub nat: NatProfile,
    /// The names of its plan and its group.
    pub(crate) labels: Labels,
}

/// Reads the item of a node with these ports; mistakes are noted.
pub(crate) fn read(item: &Item, ports: &[Port], notes: &Notes<'_>) -> Vec<SubscriberConfig> {
    let (mut all, mut table): (Vec<SubscriberConfig>, _) = (Vec::new(), Subscribers::default());
    if item.args.len() > MOST {
        item.wrong(notes, format!("a text has at most {MOST} subscribers: these are {}", item.args.len()));
        return all;
    }
    for arg in &item.args {
        let read = subscriber(arg, ports).and_then(|one| {
            if all.iter().any(|other| other.name == one.name) {
                return Err(format!("there is a subscriber `{}` already: give each its own name", one.name));
            }
            table.insert(one.line, one.prefixes.clone()).map_err(|taken| taken.to_string())?;
            Ok(one)
        });
        match read {
            Ok(one) => all.push(one),
            Err(text) => arg.wrong(notes, text),
        }
    }
    all
}

fn subscriber(arg: &Arg, ports: &[Port]) -> Result<SubscriberConfig, String> {
    let words = arg.words();
    let [name, port, tags, mac, rest @ ..] = &words[..] else {
        return Err("a subscriber is a name, a port, the tags of its line or `untagged`, an Ethernet address, and its \
                    addresses: anna access 100.5 02:00:00:00:00:01 198.18.0.5"
            .into());
    };
    let number = port_named(ports, port)?;
    let tags = Tags::read(tags)?;
    if let Some(Port { vlan, .. }) = ports.get(number).filter(|port| !port.vlan.accepts(tags)) {
        return Err(format!("`{port}` has no frames with these tags ({tags}), but {vlan}"));
    }
    let mut one = SubscriberConfig {
        name: name.to_string(),
        line: Line { port: PortId(number as u16), tags, mac: port::own_mac(mac)?, pppoe_session: 0 },
        prefixes: Vec::new(),
        state: AccessState::Active,
        nat: NatProfile::Configured,
        labels: Labels::default(),
    };
    let mut rest = rest.iter();
    while let Some(&word) = rest.next() {
        let mut named = || labels::name(rest.next().ok_or_else(|| format!("`{word}` is without a name"))?);
        match word {
            "plan" => one.labels.plan = Some(named()?),
            "group" => one.labels.group = Some(named()?),
            "nat" if rest.next() == Some(&"none") => one.nat = NatProfile::None,
            "nat" => return Err("write `nat none` for a subscriber that no NAT translates".into()),
            "pppoe" if !ports.get(number).is_some_and(|port| port.is_access) => {
                return Err(format!("`{port}` has no PPPoE sessions: write `access` among its arguments"));
            }
            "pppoe" => one.line.pppoe_session = pppoe_session(rest.next().unwrap_or(&""))?,
            "active" | "blocked" | "walled" => one.state = word.parse()?,
            _ => one.prefixes.push(prefix(word)?),
        }
    }
    if one.prefixes.len() > MOST_PREFIXES {
        return Err(format!("a subscriber has at most {MOST_PREFIXES} addresses and networks"));
    }
    Ok(one)
}

/// The id of a PPPoE session.
fn pppoe_session(text: &str) -> Result<u16, String> {
    let id = text.parse().ok().filter(|id| PPPOE_IDS.contains(id));
    id.ok_or_else(|| format!("`{text}` is no id of a PPPoE session: write a number of 1 to 65534"))
}

/// An address, or a network.
fn prefix(text: &str) -> Result<Prefix, String> {
    if text.contains('/') {
        let prefix: Prefix = text.parse()?;
        let is_network = prefix.network() == prefix;
        return is_network
            .then_some(prefix)
            .ok_or_else(|| format!("`{text}` has bits behind its length: write {}", prefix.network()));
    }
    let address: IpAddr = text.parse().map_err(|_| format!("`{text}` is no address and no network"))?;
    Ok(Prefix { address, len: if address.is_ipv4() { 32 } else { 128 } })
}
