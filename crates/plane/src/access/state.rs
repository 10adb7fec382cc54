//! Whether a subscriber may send and receive.

use std::fmt;
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
