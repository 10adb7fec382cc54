//! What a client may ask of a node: a line of JSON.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Request {
    /// What is to be shown.
    Show(String),
    /// The node shall become what a text says.
    Apply(Apply),
}

/// A text that the node shall become.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Apply {
    /// What the user calls its file.
    pub(super) file: String,
    /// The text.
    pub(super) text: String,
    /// The texts of the files that it names.
    #[serde(default)]
    pub(super) files: BTreeMap<String, String>,
}

impl Request {
    /// Reads what a client has sent. Nesting is bounded by the library, length by who received it.
    ///
    /// # Errors
    /// Why it is no request, and what one looks like.
    pub(super) fn read(sent: &[u8]) -> Result<Request, String> {
        serde_json::from_slice(sent).map_err(|error| {
            format!(
                "this is no request: {error}; send {{\"show\": \"counters\"}} or {{\"apply\": {{\"file\": \"x\", \"text\": \"...\"}}}} \
                 in one line"
            )
        })
    }
}
