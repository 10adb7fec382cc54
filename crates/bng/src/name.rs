//! Names of subscribers, plans and pools.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// A name: 1 to 64 letters, digits, `_`, `-`, `.`, `:`, `@`, `/`, `+`. It is one word in every text, as logins of customers, MAC addresses and
/// circuit-ids are.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<str>);

impl Name {
    /// Most bytes of a name.
    pub const MOST_BYTES: usize = 64;

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_name(text: &str) -> bool {
    let is_letter = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '@' | '/' | '+');
    (1..=Name::MOST_BYTES).contains(&text.len()) && text.chars().all(is_letter)
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Name {
    type Err = String;

    fn from_str(text: &str) -> Result<Name, String> {
        match is_name(text) {
            true => Ok(Name(text.into())),
            false => {
                Err(format!("`{text}` is no name: use up to 64 letters, digits, _, -, ., :, @, / and +"))
            }
        }
    }
}

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}
