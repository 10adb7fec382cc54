//! Routes as a text says them.
//!
//! ```text
//! route(default via 198.18.0.1, 10.0.0.0/8 via 198.18.0.1 via 198.18.0.5, 192.0.2.0/24 blackhole)
//! ```
//!
//! | argument | meaning |
//! |---|---|
//! | `PREFIX via ADDRESS` | by this neighbour, which lies in the network of a port; several are used by flow, with equal shares |
//! | `PREFIX blackhole` | dropped in silence |
//! | `PREFIX unreachable` | dropped, and the sender is informed that nobody is there |
//! | `PREFIX prohibit` | dropped, and the sender is informed that it may not |
//! | `options fill` | record route and timestamp of IPv4 are filled in; also `ignore`, `drop`: see `options.rs` |
//!
//! `default` stands for `0.0.0.0/0`, or `::/0` where the neighbour has an address of IPv6. The networks of the ports
//! need no route.

use std::collections::HashSet;
use std::fmt;
use std::net::IpAddr;

use weir_config::Notes;

use super::Options;
use crate::port::Port;
use crate::prefix::Prefix;
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
    Via(Vec<IpAddr>),
    /// Nowhere, in silence.
    Blackhole,
    /// Nowhere: nobody is there.
    Unreachable,
    /// Nowhere: nobody may go there.
    Prohibit,
}

impl fmt::Display for Route {
    /// As the text says it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.prefix)?;
        match &self.target {
            Target::Via(hops) => hops.iter().try_for_each(|hop| write!(f, " via {hop}")),
            Target::Blackhole => f.write_str(" blackhole"),
            Target::Unreachable => f.write_str(" unreachable"),
            Target::Prohibit => f.write_str(" prohibit"),
        }
    }
}

/// Most next hops of a route.
const MOST_HOPS: usize = 64;

/// The routes of an item, and what is done with options of IPv4; mistakes are noted.
pub(crate) fn read(item: &Item, ports: &[Port], notes: &Notes<'_>) -> (Vec<Route>, Options) {
    let (mut routes, mut known, mut options) = (Vec::new(), HashSet::new(), Options::default());
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
            Ok(route) if known.insert(route.prefix) => routes.push(route),
            Ok(Route { prefix, .. }) => {
                arg.wrong(notes, format!("there is a route to {prefix} already: write one, with each `via`"));
            }
            Err(text) => arg.wrong(notes, text),
        }
    }
    (routes, options)
}

fn route(arg: &Arg, ports: &[Port]) -> Result<Route, String> {
    let words = arg.words();
    let target = match words[1..] {
        ["blackhole"] => Target::Blackhole,
        ["unreachable"] => Target::Unreachable,
        ["prohibit"] => Target::Prohibit,
        ["via", ..] if words.len() % 2 == 1 => Target::Via(gateways(&words[1..], ports)?),
        _ => {
            let example = "write PREFIX via ADDRESS, or PREFIX with blackhole, unreachable or prohibit";
            return Err(format!("`{}` is no route: {example}", words.join(" ")));
        }
    };
    let v6 = matches!(&target, Target::Via(hops) if hops[0].is_ipv6());
    let prefix: Prefix = match words[0] {
        "default" => if v6 { "::/0" } else { "0.0.0.0/0" }.parse().expect("a prefix"),
        text => text.parse::<Prefix>()?,
    };
    if prefix.network() != prefix {
        return Err(format!("`{prefix}` has bits behind its length: write {}", prefix.network()));
    }
    if is_of_nobody(prefix) {
        return Err(format!(
            "`{prefix}` holds no addresses of hosts elsewhere: packets to them are never forwarded"
        ));
    }
    match &target {
        Target::Via(hops) if hops.iter().any(|hop| hop.is_ipv4() != prefix.address.is_ipv4()) => {
            Err(format!("`{}` goes by neighbours of another version of IP", words.join(" ")))
        }
        _ => Ok(Route { prefix, target }),
    }
}

/// Whether all addresses of a prefix are those of the host itself, of nobody, of groups or of the link alone.
fn is_of_nobody(prefix: Prefix) -> bool {
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

/// Reads `via A via B ...`.
fn gateways(words: &[&str], ports: &[Port]) -> Result<Vec<IpAddr>, String> {
    let mut gateways = Vec::new();
    for pair in words.chunks(2) {
        let [via, text] = pair else { unreachable!("an even number of words") };
        let address = text.parse::<IpAddr>().ok().filter(|_| *via == "via");
        let address = address.ok_or(format!("`{via} {text}`: write `via` and an address"))?;
        let near = |port: &Port| port.addresses.iter().any(|local| local.contains(address));
        if !ports.iter().any(near) {
            return Err(format!(
                "{address} is in the network of no port: name a neighbour, or give a port an address"
            ));
        }
        if ports.iter().any(|port| port.addresses.iter().any(|local| local.host() == address)) {
            return Err(format!("{address} is the node itself: name a neighbour"));
        }
        if !gateways.contains(&address) {
            gateways.push(address);
        }
    }
    match gateways.len() <= MOST_HOPS {
        true => Ok(gateways),
        false => Err(format!("a route has at most {MOST_HOPS} next hops: these are {}", gateways.len())),
    }
}
