//! The requests of a client to a node: a line of JSON.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Request {
    /// Return this table.
    Show(String),
    /// Apply a node file.
    Apply(Apply),
}

/// A node file to apply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Apply {
    /// The name of the file, for messages.
    pub(super) file: String,
    /// The text.
    pub(super) text: String,
    /// The texts of the files that it names.
    #[serde(default)]
    pub(super) files: BTreeMap<String, String>,
}

impl Request {
    /// Parses the bytes of a client. The library limits nesting, the caller limits the length.
    ///
    /// # Errors
    /// Why it is no request, with an example of one.
    pub(super) fn read(sent: &[u8]) -> Result<Request, String> {
        serde_json::from_slice(sent).map_err(|error| {
            format!(
                "this is no valid request: {error}; send {{\"show\": \"counters\"}} or {{\"apply\": {{\"file\": \"x\", \"text\": \"...\"}}}} \
                 in one line"
            )
        })
    }
}
