//! Whether a subscriber may send and receive.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The state of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AccessState {
    /// All is forwarded.
    #[default]
    Active,
    /// Nothing is forwarded in either direction.
    Blocked,
    /// Only the walled garden is reached: name servers, the portal, and what the text permits.
    Walled,
}

impl AccessState {
    /// All of them.
    pub const ALL: [AccessState; 3] = [AccessState::Active, AccessState::Blocked, AccessState::Walled];

    /// Its name in texts.
    pub const fn name(self) -> &'static str {
        match self {
            AccessState::Active => "active",
            AccessState::Blocked => "blocked",
            AccessState::Walled => "walled",
        }
    }
}

impl fmt::Display for AccessState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for AccessState {
    type Err = String;

    fn from_str(text: &str) -> Result<AccessState, String> {
        let found = AccessState::ALL.into_iter().find(|state| state.name() == text);
        found.ok_or_else(|| format!("`{text}` is no state of a subscriber: use active, blocked or walled"))
    }
}

/// What the NATs of the node do with packets of a subscriber.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NatProfile {
    /// What their configurations say: port blocks, deterministic ports or one-to-one addresses, by the address of the subscriber.
    #[default]
    Configured,
    /// Nothing: its addresses are public.
    None,
    /// Port blocks.
    Block,
    /// Deterministic ports (RFC 7422): its addresses are in a network of the text that has them.
    Deterministic,
    /// This public address with all its ports, as long as the session lasts, for its first address of IPv4.
    OneToOne(Ipv4Addr),
}

/// The state of a subscriber in its entry, and whether NATs pass it by: one byte, so that the entry stays a cache line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Standing(u8);

/// The bits of the state; 0: the subscriber was removed.
const STATE: u8 = 0b011;
const UNTRANSLATED: u8 = 0b100;

impl Standing {
    /// Of an active subscriber.
    pub(super) fn active() -> Standing {
        Standing::default().with_state(AccessState::Active)
    }

    pub(super) fn with_state(self, state: AccessState) -> Standing {
        let bits = match state {
            AccessState::Active => 1,
            AccessState::Blocked => 2,
            AccessState::Walled => 3,
        };
        Standing(self.0 & !STATE | bits)
    }

    pub(super) fn with_nat(self, nat: NatProfile) -> Standing {
        if nat == NatProfile::None {
            Standing(self.0 | UNTRANSLATED)
        } else {
            Standing(self.0 & !UNTRANSLATED)
        }
    }

    /// Whether NATs pass it by.
    #[inline]
    pub(super) fn is_untranslated(self) -> bool {
        self.0 & UNTRANSLATED != 0
    }

    /// The state; `None`: it was removed.
    #[inline]
    pub(super) fn state(self) -> Option<AccessState> {
        match self.0 & STATE {
            1 => Some(AccessState::Active),
            2 => Some(AccessState::Blocked),
            3 => Some(AccessState::Walled),
            _ => None,
        }
    }

    #[inline]
    pub(super) fn is_live(self) -> bool {
        self.0 & STATE != 0
    }
}
