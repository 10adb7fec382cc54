//! The requests of a client to a node: a line of JSON.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Request {
    /// Return this table.
    Show(String),
    /// Apply a node file.
    Apply(Apply),
}

/// A node file to apply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Apply {
    /// The name of the file, for messages.
    pub file: String,
    /// The text.
    pub text: String,
    /// The texts of the files that it names.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
}

impl Request {
    /// Parses the bytes of a client. The library limits nesting, the caller limits the length.
    ///
    /// # Errors
    /// Why it is no request, with an example of one.
    pub fn read(sent: &[u8]) -> Result<Request, String> {
        serde_json::from_slice(sent).map_err(|error| {
            format!(
                "this is no valid request: {error}; send {{\"show\": \"counters\"}} or {{\"apply\": {{\"file\": \"x\", \"text\": \"...\"}}}} \
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
