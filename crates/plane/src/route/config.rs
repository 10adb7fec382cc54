//! Routes as a text says them.
//!
//! ```text
//! route(default via 198.18.0.1, 10.0.0.0/8 via 198.18.0.1 via 198.18.0.5, 192.0.2.0/24 blackhole)
//! route(default via fe80::1 on wan)
//! ```
//!
//! | argument | meaning |
//! |---|---|
//! | `PREFIX via ADDRESS` | by this neighbour, which lies in the network of a port; several are used by flow, with equal shares |
//! | `PREFIX via ADDRESS on PORT` | by this neighbour at this port; a link-local address of IPv6 needs the port, since each link has such addresses |
//! | `PREFIX blackhole` | dropped in silence |
//! | `PREFIX unreachable` | dropped, and the sender gets "host unreachable" |
//! | `PREFIX prohibit` | dropped, and the sender gets "administratively prohibited" |
//! | `options fill` | record route and timestamp of IPv4 are filled in; also `ignore`, `drop`: see `options.rs` |
//!
//! `default` stands for `0.0.0.0/0`, or `::/0` where the neighbour has an address of IPv6. The networks of the ports
//! need no route.
//!
//! A next hop with a link-local address is what a provider's router is known by (RFC 4861, section 4.2). The port needs an address
//! of IPv6 of its own, and no network of link-local addresses: it has the link-local address that follows from its Ethernet
//! address (RFC 4291, section 2.1 and appendix A), and asks for the next hop from that one (RFC 4861, section 7.2.2).

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::net::IpAddr;
use std::ops::Bound;

use weir_config::Notes;

use super::Options;
use crate::frame::PortId;
use crate::neighbour::{MOST as MOST_NEIGHBOURS, is_near};
use crate::port::{Port, port_named};
use crate::prefix::{Prefix, is_link_local};
use crate::text::{Arg, Item};

/// A prefix and where its packets go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The packets.
    pub prefix: Prefix,
    /// Where they go.
    pub target: Target,
}

/// Where packets go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// To one of these neighbours, at least one; a flow keeps its neighbour.
    Via(Vec<NextHop>),
    /// Nowhere, in silence.
    Blackhole,
    /// Nowhere: the sender gets "host unreachable".
    Unreachable,
    /// Nowhere: the sender gets "administratively prohibited".
    Prohibit,
}

/// A neighbour that routes lead to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NextHop {
    /// Its address.
    pub address: IpAddr,
    /// The port of its link; `None`: the port whose network has the address.
    pub port: Option<PortId>,
}

impl From<IpAddr> for NextHop {
    fn from(address: IpAddr) -> NextHop {
        NextHop { address, port: None }
    }
}

impl fmt::Display for Route {
    /// As the text says it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.prefix)?;
        match &self.target {
            Target::Via(hops) => hops.iter().try_for_each(|hop| write!(f, " via {}", hop.address)),
            Target::Blackhole => f.write_str(" blackhole"),
            Target::Unreachable => f.write_str(" unreachable"),
            Target::Prohibit => f.write_str(" prohibit"),
        }
    }
}

/// The routes of a node, one to each prefix.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Routes(BTreeMap<Prefix, Target>);

impl Routes {
    /// Where a prefix leads.
    pub fn get(&self, prefix: &Prefix) -> Option<&Target> {
        self.0.get(prefix)
    }

    /// All of them, in order of their prefixes.
    pub fn iter(&self) -> impl Iterator<Item = (&Prefix, &Target)> {
        self.0.iter()
    }

    /// Those behind a prefix, in their order.
    pub(crate) fn behind(&self, after: Option<Prefix>) -> impl Iterator<Item = (&Prefix, &Target)> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.0.range((from, Bound::Unbounded))
    }

    /// Gives each port that a next hop names another number.
    pub(crate) fn renumber(&mut self, to: impl Fn(PortId) -> PortId) {
        for target in self.0.values_mut() {
            if let Target::Via(hops) = target {
                hops.iter_mut().filter_map(|hop| hop.port.as_mut()).for_each(|port| *port = to(*port));
            }
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Sets where a prefix leads; `None`: nowhere of its own.
    pub(crate) fn set(&mut self, prefix: Prefix, target: Option<Target>) {
        match target {
            Some(target) => self.0.insert(prefix, target),
            None => self.0.remove(&prefix),
        };
    }
}

impl FromIterator<Route> for Routes {
    fn from_iter<T: IntoIterator<Item = Route>>(routes: T) -> Routes {
        Routes(routes.into_iter().map(|Route { prefix, target }| (prefix, target)).collect())
    }
}

/// Most next hops of a route.
const MOST_HOPS: usize = 64;

/// The routes of an item, and what is done with options of IPv4; mistakes are noted.
pub(crate) fn read(item: &Item, ports: &[Port], notes: &Notes<'_>) -> (Routes, Options) {
    let (mut routes, mut options) = (Routes::default(), Options::default());
    item.said_once(&["options"], notes);
    for arg in &item.args {
        if let ["options", how @ ..] = &arg.words()[..] {
            match Options::NAMES.iter().find(|(name, _)| *how == [*name]) {
                Some((_, wanted)) => options = *wanted,
                None => {
                    arg.wrong(notes, format!("`{}`: options is fill, ignore or drop", arg.words().join(" ")))
                }
            }
            continue;
        }
        match route(arg, ports) {
            Ok(Route { prefix, target }) if routes.get(&prefix).is_none() => routes.set(prefix, Some(target)),
            Ok(Route { prefix, .. }) => {
                arg.wrong(notes, format!("there is a route to {prefix} already: write one, with each `via`"));
            }
            Err(text) => arg.wrong(notes, text),
        }
    }
    let hops = routes.iter().filter_map(|(_, target)| match target {
        Target::Via(hops) => Some(hops),
        Target::Blackhole | Target::Unreachable | Target::Prohibit => None,
    });
    let hops: HashSet<&NextHop> = hops.flatten().collect();
    let all = hops.len() + ports.iter().map(|port| port.neighbours.len()).sum::<usize>();
    if all > MOST_NEIGHBOURS {
        item.wrong(
            notes,
            format!("a node knows at most {MOST_NEIGHBOURS} neighbours: these are {all} next hops"),
        );
    }
    (routes, options)
}

fn route(arg: &Arg, ports: &[Port]) -> Result<Route, String> {
    let words = arg.words();
    let target = match words[1..] {
        ["blackhole"] => Target::Blackhole,
        ["unreachable"] => Target::Unreachable,
        ["prohibit"] => Target::Prohibit,
        ["via", _, ..] => Target::Via(gateways(&words[1..], ports)?),
        _ => {
            let example = "write PREFIX via ADDRESS, or PREFIX with blackhole, unreachable or prohibit";
            return Err(format!("`{}` is no route: {example}", words.join(" ")));
        }
    };
    let v6 = matches!(&target, Target::Via(hops) if hops[0].address.is_ipv6());
    let prefix: Prefix = match words[0] {
        "default" => if v6 { "::/0" } else { "0.0.0.0/0" }.parse().expect("a prefix"),
        text => text.parse::<Prefix>()?,
    };
    checked(prefix, target)
}

/// A route, if it can be one.
///
/// # Errors
/// Why not, and what to do about it.
pub(super) fn checked(prefix: Prefix, target: Target) -> Result<Route, String> {
    if prefix.network() != prefix {
        return Err(format!("`{prefix}` has bits behind its length: write {}", prefix.network()));
    }
    if is_never_forwarded(prefix) {
        return Err(format!(
            "`{prefix}` holds no addresses of hosts elsewhere: packets to them are never forwarded"
        ));
    }
    match &target {
        Target::Via(hops) if hops.iter().any(|hop| hop.address.is_ipv4() != prefix.address.is_ipv4()) => {
            Err(format!("`{}` goes by neighbours of another version of IP", Route { prefix, target }))
        }
        _ => Ok(Route { prefix, target }),
    }
}

/// Whether all addresses of a prefix are loopback, unspecified, group or link-local addresses.
fn is_never_forwarded(prefix: Prefix) -> bool {
    match prefix.address {
        IpAddr::V4(address) => {
            let first = u32::from(address);
            prefix.len >= 8 && matches!(first >> 24, 0 | 127) || prefix.len >= 4 && first >> 28 == 14
        }
        IpAddr::V6(address) => {
            let own = address.is_loopback() || address.is_unspecified();
            let (group, link) = (address.is_multicast(), address.is_unicast_link_local());
            prefix.len == 128 && own || prefix.len >= 8 && group || prefix.len >= 10 && link
        }
    }
}

/// Reads `via A via B on PORT ...`.
fn gateways(words: &[&str], ports: &[Port]) -> Result<Vec<NextHop>, String> {
    let (mut named, mut rest) = (Vec::new(), words);
    while let Some((via, behind)) = rest.split_first() {
        let text = behind.first().copied().unwrap_or_default();
        let address = text.parse::<IpAddr>().ok().filter(|_| *via == "via");
        let address = address.ok_or(format!("`{via} {text}`: write `via` and an address"))?;
        let port = match behind[1..] {
            ["on", name, ..] => Some(name),
            ["on"] => return Err("`on` takes a port of the node".into()),
            _ => None,
        };
        rest = &behind[if port.is_some() { 3 } else { 1 }..];
        named.push((address, port));
    }
    next_hops(named.into_iter(), ports)
}

/// The neighbours with these addresses, at these ports where they are named.
///
/// # Errors
/// What is no neighbour, and what to write.
pub(super) fn next_hops<'a>(
    named: impl Iterator<Item = (IpAddr, Option<&'a str>)>,
    ports: &[Port],
) -> Result<Vec<NextHop>, String> {
    let mut gateways = Vec::new();
    for (address, port) in named {
        let hop = next_hop(address, port, ports)?;
        if !gateways.contains(&hop) {
            gateways.push(hop);
        }
    }
    if gateways.is_empty() {
        return Err("a route leads to at least one next hop".into());
    }
    if gateways.len() <= MOST_HOPS {
        Ok(gateways)
    } else {
        Err(format!("a route has at most {MOST_HOPS} next hops: these are {}", gateways.len()))
    }
}

/// The neighbour with this address, at this port if one is named.
fn next_hop(address: IpAddr, name: Option<&str>, ports: &[Port]) -> Result<NextHop, String> {
    if ports.iter().any(|port| port.addresses.iter().any(|local| local.host() == address)) {
        return Err(format!("{address} is the node itself: name a neighbour"));
    }
    let holds = |port: &Port| port.addresses.iter().any(|local| is_near(local, address));
    let is_at = |port: &Port| !port.has_lines() && holds(port);
    let is_meant = |port: &&Port| match name {
        Some(name) => port.name == name,
        None => holds(port),
    };
    if !ports.iter().any(is_at)
        && let Some(port) = ports.iter().filter(is_meant).find(|port| port.has_lines())
    {
        return Err(format!(
            "`{}` has several lines, and {address} may be on each: give it a port with the tags of its line",
            port.name
        ));
    }
    let Some(name) = name else {
        return match (is_link_local(address), ports.iter().any(is_at)) {
            (true, _) => Err(format!(
                "{address} may be a neighbour at each port: write at which, as in `via {address} on {}`",
                ports.last().map_or("wan", |port| &port.name)
            )),
            (false, true) => Ok(address.into()),
            (false, false) => Err(format!(
                "{address} is in the network of no port: name a neighbour, or give a port an address"
            )),
        };
    };
    let number = port_named(ports, name)?;
    let hop = NextHop { address, port: Some(PortId(number as u16)) };
    let has_v6 = ports[number].addresses.iter().any(|local| local.address.is_ipv6());
    match is_link_local(address) {
        true if has_v6 => Ok(hop),
        true => Err(format!(
            "`{name}` has no address of IPv6, from which {address} can be asked for: give it one, as in {name}(fe80::2/64)"
        )),
        false if is_at(&ports[number]) => Ok(hop),
        false => Err(format!(
            "{address} is in no network of `{name}`: name a neighbour, or give the port an address"
        )),
    }
}
