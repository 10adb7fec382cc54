//! Commands for hosts whose Ethernet addresses are configured.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use weir_packet::frame::Mac;

use super::is_near;
use crate::frame::PortId;
use crate::port::{MacText, Port, port_named};
use crate::prefix::is_link_local;
use crate::was::Was;

/// A command for hosts with configured Ethernet addresses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NeighbourCommand {
    /// Configures the Ethernet address of a host, which is not asked for any more.
    Set(NeighbourEntry),
    /// The host is asked for its Ethernet address again.
    Remove {
        /// The port of its link.
        port: String,
        /// Its address.
        address: IpAddr,
    },
}

/// A host with a configured Ethernet address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NeighbourEntry {
    /// The port of its link.
    pub port: String,
    /// Its address.
    pub address: IpAddr,
    /// Its Ethernet address.
    pub mac: MacText,
}

/// A change of a host's configured Ethernet address.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NeighbourChange {
    pub(crate) port: PortId,
    pub(crate) address: IpAddr,
    pub(crate) was: Was<Mac>,
}

impl NeighbourChange {
    pub(crate) fn inverse(self) -> NeighbourChange {
        NeighbourChange { was: self.was.inverse(), ..self }
    }

    /// Changes it in the configuration of the ports.
    pub(crate) fn done_in(&self, ports: &mut [Port]) {
        let neighbours = &mut ports[usize::from(self.port.0)].neighbours;
        match self.was.new {
            Some(mac) => neighbours.insert(self.address, mac),
            None => neighbours.remove(&self.address),
        };
    }
}

impl NeighbourCommand {
    /// What the command changes, if anything.
    ///
    /// # Errors
    /// Why it cannot be done, and what to do about it.
    pub(crate) fn change(&self, ports: &[Port]) -> Result<Option<NeighbourChange>, String> {
        let (NeighbourCommand::Set(NeighbourEntry { port: name, address, .. })
        | NeighbourCommand::Remove { port: name, address }) = self;
        let number = port_named(ports, name)?;
        let port = &ports[number];
        let old = port.neighbours.get(address).copied();
        let new = match self {
            NeighbourCommand::Set(entry) => Some(entry.mac.of_host()?),
            NeighbourCommand::Remove { .. } => None,
        };
        if old.is_none() && new.is_none() {
            return Err(format!("no Ethernet address of {address} is configured at `{name}`"));
        }
        if !is_link_local(*address) && !port.addresses.iter().any(|local| is_near(local, *address)) {
            return Err(format!("{address} is in no network of `{name}`: its neighbours are"));
        }
        let was = Was { old, new }.if_any();
        Ok(was.map(|was| NeighbourChange { port: PortId(number as u16), address: *address, was }))
    }
}
