//! Commands for routes, and routes as programs are told of them.

use std::fmt;
use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::config::{NextHop, Routes, Target, checked, next_hops};
use crate::port::Port;
use crate::prefix::Prefix;
use crate::was::Was;

/// A command for routes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RouteCommand {
    /// Adds a route, or changes where its prefix leads.
    Set(RouteEntry),
    /// Removes the route of a prefix.
    Remove {
        /// The prefix.
        prefix: Prefix,
    },
}

/// A route.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RouteEntry {
    /// The packets.
    pub prefix: Prefix,
    /// Where they go.
    pub target: RouteTarget,
}

/// Where packets go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RouteTarget {
    /// To one of these neighbours; a flow keeps its neighbour.
    Via(Vec<Via>),
    /// Nowhere, in silence.
    Blackhole,
    /// Nowhere: the sender gets "host unreachable".
    Unreachable,
    /// Nowhere: the sender gets "administratively prohibited".
    Prohibit,
}

/// A next hop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Via {
    /// Its address.
    pub address: IpAddr,
    /// The port of its link; needed for link-local addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<String>,
}

impl fmt::Display for RouteEntry {
    /// As the text of a node says it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.prefix)?;
        match &self.target {
            RouteTarget::Via(via) => via.iter().try_for_each(|via| {
                write!(f, " via {}", via.address)?;
                via.port.as_ref().map_or(Ok(()), |port| write!(f, " on {port}"))
            }),
            RouteTarget::Blackhole => f.write_str(" blackhole"),
            RouteTarget::Unreachable => f.write_str(" unreachable"),
            RouteTarget::Prohibit => f.write_str(" prohibit"),
        }
    }
}

impl RouteEntry {
    /// A route of a node with these ports.
    pub(crate) fn of(prefix: &Prefix, target: &Target, ports: &[Port]) -> RouteEntry {
        let name = |port: usize| ports.get(port).map(|port| port.name.clone());
        let target = match target {
            Target::Via(hops) => {
                let via = hops.iter().map(|hop| Via {
                    address: hop.address,
                    port: hop.port.and_then(|port| name(port.0.into())),
                });
                RouteTarget::Via(via.collect())
            }
            Target::Blackhole => RouteTarget::Blackhole,
            Target::Unreachable => RouteTarget::Unreachable,
            Target::Prohibit => RouteTarget::Prohibit,
        };
        RouteEntry { prefix: *prefix, target }
    }

    fn target(&self, ports: &[Port]) -> Result<Target, String> {
        Ok(match &self.target {
            RouteTarget::Via(via) => {
                Target::Via(next_hops(via.iter().map(|via| (via.address, via.port.as_deref())), ports)?)
            }
            RouteTarget::Blackhole => Target::Blackhole,
            RouteTarget::Unreachable => Target::Unreachable,
            RouteTarget::Prohibit => Target::Prohibit,
        })
    }
}

/// A change of where a prefix leads.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RouteChange {
    pub(crate) prefix: Prefix,
    pub(crate) was: Was<Target>,
}

impl RouteChange {
    pub(crate) fn inverse(self) -> RouteChange {
        RouteChange { was: self.was.inverse(), ..self }
    }

    /// The neighbours that the new route leads to.
    pub(crate) fn gateways(&self) -> &[NextHop] {
        match &self.was.new {
            Some(Target::Via(hops)) => hops,
            _ => &[],
        }
    }
}

impl RouteCommand {
    /// What the command changes of these routes, if anything.
    ///
    /// # Errors
    /// Why it cannot be done, and what to do about it.
    pub(crate) fn change(&self, routes: &Routes, ports: &[Port]) -> Result<Option<RouteChange>, String> {
        let (prefix, new) = match self {
            RouteCommand::Set(entry) => {
                let route = checked(entry.prefix, entry.target(ports)?)?;
                (route.prefix, Some(route.target))
            }
            RouteCommand::Remove { prefix } => (*prefix, None),
        };
        let old = routes.get(&prefix).cloned();
        if old.is_none() && new.is_none() {
            return Err(format!("there is no route to {prefix}: ask for `routes` to see those there are"));
        }
        Ok(Was { old, new }.if_any().map(|was| RouteChange { prefix, was }))
    }
}

impl Routes {
    /// Changes where a prefix leads.
    pub(crate) fn take(&mut self, change: &RouteChange) {
        self.set(change.prefix, change.was.new.clone());
    }

    /// What differs, new routes first.
    pub(crate) fn changes_to<'a>(&'a self, new: &'a Routes) -> impl Iterator<Item = RouteChange> {
        let come = new.iter().filter(|(prefix, target)| self.get(prefix) != Some(target));
        let come = come.map(|(&prefix, target)| RouteChange {
            prefix,
            was: Was { old: self.get(&prefix).cloned(), new: Some(target.clone()) },
        });
        let gone = self.iter().filter(|(prefix, _)| new.get(prefix).is_none());
        let gone = gone.map(|(&prefix, target)| RouteChange {
            prefix,
            was: Was { old: Some(target.clone()), new: None },
        });
        come.chain(gone)
    }
}
