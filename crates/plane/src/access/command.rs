//! Commands for sessions of subscribers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::bucket::MOST_BITS_PER_S;
use super::labels::{Labels, name};
use super::{AccessConfig, AccessSession, AccessSessions, AccessState};
use crate::frame::{Line, PortId};
use crate::port::{MacText, Port, port_named};
use crate::prefix::Prefix;
use crate::tags::Tags;
use crate::was::Was;

/// Most addresses and networks of a session.
const MOST_PREFIXES: usize = 16;

/// A command for the sessions of subscribers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SubscriberCommand {
    /// Adds a session, or replaces the one of this number, whose counters go on.
    Add(SubscriberEntry),
    /// Changes the state of a session; all else stays.
    SetState {
        /// Its number.
        session: u64,
        /// What it becomes.
        state: AccessState,
    },
    /// Removes a session.
    Remove {
        /// Its number.
        session: u64,
    },
}

/// A session of a subscriber.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SubscriberEntry {
    /// Its number, which the control program chooses.
    pub session: u64,
    /// What the control program knows its state by; the node only keeps it.
    #[serde(default)]
    pub revision: u64,
    /// The access port.
    pub port: String,
    /// The VLAN tags of the line: `100.7`, `7`, `untagged`.
    pub tags: String,
    /// The Ethernet address of the subscriber's device.
    pub mac: MacText,
    /// The addresses and networks of the subscriber, each within a network of a gateway.
    pub prefixes: Vec<Prefix>,
    /// Rate of frames from the subscriber, bits/s; none: no limit.
    #[serde(default)]
    pub from_bits_per_s: Option<u64>,
    /// Rate of frames to the subscriber, bits/s; none: no limit.
    #[serde(default)]
    pub to_bits_per_s: Option<u64>,
    /// Whether it may send and receive.
    #[serde(default)]
    pub state: AccessState,
    /// The name of its plan, which rules of filters and metrics name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// The name of its group, the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
}

/// A change of a session.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SubscriberChange(pub(crate) Was<AccessSession>);

impl SubscriberChange {
    pub(crate) fn inverse(self) -> SubscriberChange {
        SubscriberChange(self.0.inverse())
    }
}

impl SubscriberCommand {
    /// What the command changes, if anything.
    ///
    /// # Errors
    /// Why it cannot be done, and what to do about it.
    pub(crate) fn change(
        &self,
        access: &AccessConfig,
        sessions: &AccessSessions,
        ports: &[Port],
    ) -> Result<Option<SubscriberChange>, String> {
        let was = match self {
            SubscriberCommand::Add(entry) => {
                let new = entry.session(access, ports)?;
                sessions.check(&new)?;
                Was { old: sessions.get(new.session).cloned(), new: Some(new) }
            }
            SubscriberCommand::SetState { session, state } => {
                let old = sessions.get(*session).cloned();
                let old = old.ok_or_else(|| format!("there is no session {session}"))?;
                Was { new: Some(AccessSession { state: *state, ..old.clone() }), old: Some(old) }
            }
            SubscriberCommand::Remove { session } => {
                let old = sessions.get(*session).cloned();
                Was { old: Some(old.ok_or_else(|| format!("there is no session {session}"))?), new: None }
            }
        };
        Ok(was.if_any().map(SubscriberChange))
    }
}

impl SubscriberEntry {
    fn session(&self, access: &AccessConfig, ports: &[Port]) -> Result<AccessSession, String> {
        let SubscriberEntry { session, revision, port: port_name, tags, mac, .. } = self;
        let number = port_named(ports, port_name)?;
        let port = ports.get(number).filter(|port| port.is_access);
        let port = port
            .ok_or_else(|| format!("`{port_name}` is no access port: write `access` among its arguments"))?;
        let tags = Tags::read(tags)?;
        if !port.vlan.accepts(tags) {
            return Err(format!("`{port_name}` has no frames with these tags ({tags}), but {}", port.vlan));
        }
        Ok(AccessSession {
            session: *session,
            revision: *revision,
            line: Line { port: PortId(number as u16), tags, mac: mac.of_host()? },
            prefixes: self.checked_prefixes(access)?,
            from_bits_per_s: rate(self.from_bits_per_s)?,
            to_bits_per_s: rate(self.to_bits_per_s)?,
            state: self.state,
            labels: Labels {
                plan: self.plan.as_deref().map(name).transpose()?,
                group: self.group.as_deref().map(name).transpose()?,
            },
        })
    }

    fn checked_prefixes(&self, access: &AccessConfig) -> Result<Vec<Prefix>, String> {
        if !(1..=MOST_PREFIXES).contains(&self.prefixes.len()) {
            return Err(format!("a session has 1 to {MOST_PREFIXES} addresses and networks"));
        }
        for (n, prefix) in self.prefixes.iter().enumerate() {
            if prefix.network() != *prefix {
                return Err(format!("{prefix} has bits behind its length: write {}", prefix.network()));
            }
            if !access.holds(*prefix) {
                return Err(format!(
                    "{prefix} is in no network of a gateway: those are {}",
                    access.networks()
                ));
            }
            if access.is_gateway(prefix.address) {
                return Err(format!("{} is the address of the node", prefix.address));
            }
            if self.prefixes.iter().take(n).any(|other| other == prefix) {
                return Err(format!("{prefix} is there twice"));
            }
        }
        Ok(self.prefixes.clone())
    }
}

fn rate(bits_per_s: Option<u64>) -> Result<u64, String> {
    match bits_per_s {
        None => Ok(0),
        Some(bits) if (1..=MOST_BITS_PER_S).contains(&bits) => Ok(bits),
        Some(bits) => {
            Err(format!("a rate is of 1 to {MOST_BITS_PER_S} bits/s, not {bits}: leave it out for no limit"))
        }
    }
}
