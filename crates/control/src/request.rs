//! What a client may ask of a node: a line of JSON.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Request {
    /// What is to be shown.
    Show(String),
    /// The node shall become what a text says.
    Apply(Apply),
}

/// A text that the node shall become.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Apply {
    /// What the user calls its file.
    pub file: String,
    /// The text.
    pub text: String,
    /// The texts of the files that it names.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
}

impl Request {
    /// Reads what a client has sent. Nesting is bounded by the library, length by who received it.
    ///
    /// # Errors
    /// Why it is no request, and what one looks like.
    pub fn read(sent: &[u8]) -> Result<Request, String> {
        serde_json::from_slice(sent).map_err(|error| {
            format!(
                "this is no request: {error}; send {{\"show\": \"counters\"}} or {{\"apply\": {{\"file\": \"x\", \"text\": \"...\"}}}} \
                 in one line"
            )
        })
    }
}

/// What a node can be asked to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// The frame accounting: total and per port.
    Counters,
    /// Dropped frames by reason.
    Drops,
    /// Sessions of NAT and filter.
    Sessions,
    /// Routes.
    Routes,
    /// Rules of the filters, and how many frames each matched.
    Rules,
    /// Queues.
    Queues,
    /// Policers.
    Police,
    /// Frames that rules have logged since this was last asked for.
    Log,
    /// Flows that XDP programs forward.
    Fast,
}

impl Shown {
    const ALL: [(&str, Shown); 9] = [
        ("counters", Shown::Counters),
        ("drops", Shown::Drops),
        ("sessions", Shown::Sessions),
        ("routes", Shown::Routes),
        ("rules", Shown::Rules),
        ("queues", Shown::Queues),
        ("police", Shown::Police),
        ("log", Shown::Log),
        ("fast", Shown::Fast),
    ];

    /// The one of this name.
    pub fn named(name: &str) -> Option<Shown> {
        Shown::ALL.iter().find(|(known, _)| *known == name).map(|(_, shown)| *shown)
    }

    /// The names of all.
    pub fn names() -> Vec<&'static str> {
        Shown::ALL.iter().map(|(name, _)| *name).collect()
    }
}
