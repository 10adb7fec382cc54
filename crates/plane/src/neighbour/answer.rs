//! What programs are told of neighbours.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{MOST, Neighbours, Slot, State};
use crate::port::MacText;
use crate::table::page::Page;

/// A host on the link of a port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NeighbourState {
    /// The port.
    pub port: String,
    /// Its address.
    pub address: IpAddr,
    /// Its Ethernet address, if that is known.
    pub mac: Option<MacText>,
    /// How well it is known: `unknown`, `asking`, `reachable`, `stale`, `delay`, `probing` (RFC 4861, section 7.3.2), `static`.
    pub state: String,
}

impl Neighbours {
    /// Those from this number on, a page of them, at ports with these names.
    pub(crate) fn shown(&self, from: u32, ports: &[String]) -> Page<NeighbourState> {
        let numbers = from..(self.slots.len().min(MOST) as u32).max(from);
        Page::of(numbers, |number| {
            let known = self.known(Slot(number));
            (self.find(known.port, known.ip) == Some(Slot(number))).then(|| NeighbourState {
                port: ports.get(usize::from(known.port.0)).cloned().unwrap_or_default(),
                address: known.ip,
                mac: Some(known.mac).filter(|mac| *mac != [0; 6]).map(MacText::from),
                state: name(known.state).to_string(),
            })
        })
    }
}

fn name(state: State) -> &'static str {
    match state {
        State::Unknown => "unknown",
        State::Asking(_) => "asking",
        State::Reachable => "reachable",
        State::Stale => "stale",
        State::Delay => "delay",
        State::Probing(_) => "probing",
        State::Static => "static",
    }
}
