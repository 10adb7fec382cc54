//! The requests of a client to a node: a line of JSON.

use std::collections::BTreeMap;
use std::io;

use serde::{Deserialize, Serialize};

/// Bytes of a request: a node's text with all files that it names has no more in JSON, so that each node that runs can also be
/// applied. A million rules have fewer.
pub const LONGEST: usize = 64 << 20;

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

impl Apply {
    /// Checks that the texts fit into one request.
    ///
    /// # Errors
    /// They do not: the message says how long they are.
    pub fn check_length(&self) -> Result<(), String> {
        let mut length = Length(0);
        serde_json::to_writer(&mut length, &BTreeMap::from([("apply", self)]))
            .map_err(|error| error.to_string())?;
        if length.0 > LONGEST {
            let [is, most] = [length.0, LONGEST].map(|bytes| bytes >> 20);
            return Err(format!(
                "{} and the files that it names have {is} MiB, more than {most} MiB: write fewer rules, or sets in place of rules",
                self.file
            ));
        }
        Ok(())
    }
}

/// Counts what is written.
struct Length(usize);

impl io::Write for Length {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_text_that_runs_can_be_sent() {
        let apply =
            |bytes: usize| Apply { file: "x".into(), text: "#".repeat(bytes), files: BTreeMap::new() };
        let empty = serde_json::to_string(&Request::Apply(apply(0))).expect("plain data").len();
        assert_eq!(apply(LONGEST - empty).check_length(), Ok(()));
        let error = apply(LONGEST - empty + 1).check_length().expect_err("one byte too many");
        assert!(error.contains("x and the files that it names have 64 MiB"), "{error}");
        let quotes = Apply { text: "\"".repeat(LONGEST / 2), ..apply(0) };
        assert!(quotes.check_length().is_err(), "each is two bytes in JSON");
    }
}
