//! Commands for sessions of subscribers.

use std::ops::RangeInclusive;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::bucket::MOST_BITS_PER_S;
use super::labels::{Labels, name};
use super::{AccessConfig, AccessSession, AccessSessions, AccessState, EchoTimes, Grace, NatProfile};
use crate::frame::{Line, PortId};
use crate::port::{MacText, Port, port_named};
use crate::prefix::Prefix;
use crate::tags::Tags;
use crate::was::Was;

/// Most addresses and networks of a session.
const MOST_PREFIXES: usize = 16;
/// Ids of PPPoE sessions: 0 is discovery, 65535 reserved (RFC 2516, section 4).
pub(super) const PPPOE_IDS: RangeInclusive<u16> = 1..=65_534;
/// Echo requests, unless the session says otherwise.
const ECHO_S: u16 = 30;
const ECHO_LOST: u8 = 3;
/// What they can be.
const MOST_ECHO_S: u16 = 3600;
const ECHOES_LOST: RangeInclusive<u8> = 1..=20;
/// What an MRU can be.
const MRUS: RangeInclusive<u16> = 576..=9216;

/// A command for the sessions of subscribers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::large_enum_variant, reason = "nearly all commands add a session")]
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
    /// What becomes of packets of PPPoE sessions that the node does not have. A node begins with `ignore`: its control program sets
    /// `terminate` when it has added all sessions that there are.
    UnknownSessions(UnknownSessions),
    /// How long sessions stay whose access port has lost its link, s; then the node ends them. A node begins with 60.
    GraceS(u32),
}

/// What becomes of packets of PPPoE sessions that the node does not have. All of them are dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UnknownSessions {
    /// Nothing else: sessions that there are may not have been added yet.
    #[default]
    Ignore,
    /// Their sender is told by a PADT that the session has ended, once a second for each Ethernet address of a line.
    Terminate,
}

/// A session of a subscriber.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SubscriberEntry {
    /// Its number, which the control program chooses.
    pub session: u64,
    /// What the control program knows its state by; the node only keeps it.
    #[serde(default, skip_serializing_if = "is_default")]
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
    #[serde(default, skip_serializing_if = "is_default")]
    pub from_bits_per_s: Option<u64>,
    /// Rate of frames to the subscriber, bits/s; none: no limit.
    #[serde(default, skip_serializing_if = "is_default")]
    pub to_bits_per_s: Option<u64>,
    /// Rate of the subscriber's line upstream, bits/s, as the access node says (TR-101, section 3.9.1); none: unknown. The smaller one of
    /// this and the rate from the subscriber counts.
    #[serde(default, skip_serializing_if = "is_default")]
    pub line_from_bits_per_s: Option<u64>,
    /// The same downstream, for frames to the subscriber.
    #[serde(default, skip_serializing_if = "is_default")]
    pub line_to_bits_per_s: Option<u64>,
    /// The id of its PPPoE session, 1 to 65534 (RFC 2516); none: it sends IP over Ethernet. A device may have several sessions.
    #[serde(default, skip_serializing_if = "is_default")]
    pub pppoe_session: Option<u16>,
    /// The longest packet that it takes, bytes: the MRU that LCP has agreed on, 576 to 9216; none: 1492 in a PPPoE session, else what
    /// the port carries. TCP in both directions is told so (MSS).
    #[serde(default, skip_serializing_if = "is_default")]
    pub mru: Option<u16>,
    /// The magic number of the node's side of LCP, which its echo replies have; none or 0: none was agreed on.
    #[serde(default, skip_serializing_if = "is_default")]
    pub magic: Option<u32>,
    /// How often the node asks a silent subscriber by an echo request of LCP, s, 1 to 3600, or 0: never; none: 30. Only PPPoE sessions.
    #[serde(default, skip_serializing_if = "is_default")]
    pub echo_interval_s: Option<u16>,
    /// After so many requests in a row without an answer the session is dead, 1 to 20; none: 3.
    #[serde(default, skip_serializing_if = "is_default")]
    pub echo_lost: Option<u8>,
    /// Port, tags and Ethernet address are those of a router, behind which several subscribers are: their packets are told apart by
    /// their sources.
    #[serde(default, skip_serializing_if = "is_default")]
    pub behind_router: bool,
    /// Whether it may send and receive.
    #[serde(default, skip_serializing_if = "is_default")]
    pub state: AccessState,
    /// What NATs do with its packets.
    #[serde(default, skip_serializing_if = "is_default")]
    pub nat: NatProfile,
    /// The name of its plan, which rules of filters and metrics name.
    #[serde(default, skip_serializing_if = "is_default")]
    pub plan: Option<String>,
    /// The name of its group, the same.
    #[serde(default, skip_serializing_if = "is_default")]
    pub group: Option<String>,
}

/// Whether a value need not be said.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// A change of a session.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "nearly all changes are of sessions")]
pub(crate) enum SubscriberChange {
    Session(Was<AccessSession>),
    UnknownSessions(Was<UnknownSessions>),
    Grace(Was<Grace>),
}

impl SubscriberChange {
    pub(crate) fn inverse(self) -> SubscriberChange {
        match self {
            SubscriberChange::Session(was) => SubscriberChange::Session(was.inverse()),
            SubscriberChange::UnknownSessions(was) => SubscriberChange::UnknownSessions(was.inverse()),
            SubscriberChange::Grace(was) => SubscriberChange::Grace(was.inverse()),
        }
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
            SubscriberCommand::UnknownSessions(new) => {
                let was = Was { old: Some(sessions.unknown), new: Some(*new) };
                return Ok(was.if_any().map(SubscriberChange::UnknownSessions));
            }
            SubscriberCommand::GraceS(seconds) => {
                let was = Was { old: Some(sessions.grace), new: Some(Grace(*seconds)) };
                return Ok(was.if_any().map(SubscriberChange::Grace));
            }
        };
        Ok(was.if_any().map(SubscriberChange::Session))
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
            line: Line {
                port: PortId(number as u16),
                tags,
                mac: mac.of_host()?,
                pppoe_session: self.pppoe_id()?,
            },
            prefixes: self.checked_prefixes(access)?,
            from_bits_per_s: rate(self.from_bits_per_s)?,
            to_bits_per_s: rate(self.to_bits_per_s)?,
            line_bits_per_s: [line_rate(self.line_from_bits_per_s), line_rate(self.line_to_bits_per_s)],
            mru: self.checked_mru()?,
            magic: self.magic,
            echo: self.checked_echo()?,
            echo_said: (self.echo_interval_s, self.echo_lost),
            is_routed: self.checked_router()?,
            state: self.state,
            nat: self.nat,
            labels: Labels {
                plan: self.plan.as_deref().map(name).transpose()?,
                group: self.group.as_deref().map(name).transpose()?,
            },
        })
    }

    /// The id of its PPPoE session; 0: none.
    fn pppoe_id(&self) -> Result<u16, String> {
        match self.pppoe_session {
            None => Ok(0),
            Some(id) if PPPOE_IDS.contains(&id) => Ok(id),
            Some(id) => Err(format!(
                "a PPPoE session has an id of {} to {}, not {id} (RFC 2516, section 4)",
                PPPOE_IDS.start(),
                PPPOE_IDS.end()
            )),
        }
    }

    fn checked_echo(&self) -> Result<EchoTimes, String> {
        let (interval_s, most_lost) =
            (self.echo_interval_s.unwrap_or(ECHO_S), self.echo_lost.unwrap_or(ECHO_LOST));
        match (self.pppoe_session, self.echo_interval_s.or(self.echo_lost.map(u16::from))) {
            (None, None) => Ok(EchoTimes::default()),
            (None, Some(_)) => {
                Err("echo requests are for PPPoE sessions: leave `echo_interval_s` and `echo_lost` out"
                    .to_string())
            }
            (Some(_), _) if interval_s > MOST_ECHO_S => Err(format!(
                "echo requests are sent every 1 to {MOST_ECHO_S} s, or never with 0, not every {interval_s} s"
            )),
            (Some(_), _) if !ECHOES_LOST.contains(&most_lost) => Err(format!(
                "a session is dead after {} to {} echo requests without an answer, not {most_lost}",
                ECHOES_LOST.start(),
                ECHOES_LOST.end()
            )),
            (Some(_), _) => Ok(EchoTimes { interval_s, most_lost }),
        }
    }

    fn checked_router(&self) -> Result<bool, String> {
        if self.behind_router && self.pppoe_session.is_some() {
            return Err(
                "a session is in a PPPoE session or behind a router, not both: leave one out".to_string()
            );
        }
        Ok(self.behind_router)
    }

    fn checked_mru(&self) -> Result<u16, String> {
        match self.mru {
            None => Ok(0),
            Some(mru) if MRUS.contains(&mru) => Ok(mru),
            Some(mru) => Err(format!("an MRU is of {} to {} bytes, not {mru}", MRUS.start(), MRUS.end())),
        }
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

/// The rate of a line; 0: unknown. One that is larger than any plan is no limit.
fn line_rate(bits_per_s: Option<u64>) -> u64 {
    bits_per_s.unwrap_or_default().min(MOST_BITS_PER_S)
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
