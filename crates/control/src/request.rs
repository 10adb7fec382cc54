//! The lines between a node and its clients, as types: greetings, requests, refusals. docs/control.md has examples of all of them.
//!
//! ```text
//!   node    {"weir": "0.1.0", "protocol": 1}     {"id": 7, "ok": ...}
//!   client  {"protocol": 1}     {"id": 7, "query": "counters"}
//! ```
//! The bytes come from outside: what does not fit is an error with the remedy, and no unknown key is ignored in a request.

use std::collections::BTreeMap;
use std::{fmt, io};

use schemars::JsonSchema;
use serde::de::Error;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use weir_node::{CONTROL_SLOTS, Query};
use weir_plane::Command;

/// Bytes of a line of a client: a node's text with all files that it names has no more in JSON, so that each node that runs can also
/// be applied. A million rules have fewer.
pub const LONGEST: usize = 64 << 20;

/// The version of the protocol: another one is refused.
pub const PROTOCOL: u64 = 1;

/// The version of weir.
pub const WEIR: &str = env!("CARGO_PKG_VERSION");

/// Shortest and longest interval of counters, in ms.
pub const INTERVALS_MS: std::ops::RangeInclusive<u64> = 100..=86_400_000;

/// The first line of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Greeting {
    /// Its version of weir.
    pub weir: String,
    /// Its version of the protocol.
    pub protocol: u64,
}

impl Greeting {
    /// That of this program.
    pub fn own() -> Greeting {
        Greeting { weir: WEIR.into(), protocol: PROTOCOL }
    }
}

/// The first line of a client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Hello {
    /// Its version of the protocol.
    pub protocol: u64,
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
}

impl Hello {
    /// Parses the first line of a client.
    ///
    /// # Errors
    /// The client has another version, or the line is no greeting: the message has both versions and the remedy.
    pub fn read(sent: &[u8]) -> Result<Hello, Refusal> {
        #[derive(Deserialize)]
        struct Version {
            protocol: u64,
        }
        let node = format!("this node is weir {WEIR} and speaks protocol {PROTOCOL}");
        let remedy = "use weir of the same version as the node";
        match serde_json::from_slice(sent) {
            Ok(Version { protocol: PROTOCOL }) => serde_json::from_slice(sent).map_err(|error| {
                let example = r#"{"protocol": 1, "client": "name"}"#;
                format!("the greeting of the client is not valid: {error}; send {example}").into()
            }),
            Ok(Version { protocol }) => {
                Err(format!("{node}, its client speaks protocol {protocol}: {remedy}").into())
            }
            Err(_) => Err(format!(
                "{node}, its client did not greet with a version: {remedy}; the first line of a program is {{\"protocol\": {PROTOCOL}}}"
            )
            .into()),
        }
    }
}

/// A request of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The number that its answer has, too.
    pub id: u64,
    /// What the client wants.
    pub wants: Wants,
}

/// What a client wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wants {
    /// An answer of the node.
    Answer(Ask),
    /// Lines about this from now on, with the number of this request.
    Subscription(Topic),
    /// No more lines of the subscription with this number.
    End(u64),
}

/// What the node is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// State of the node.
    Query(Query),
    /// Apply a node file.
    Apply(Apply),
    /// Do these commands, or none of them.
    Commands(Vec<Command>),
    /// Give frames to this program, and take frames from it.
    Control(Attach),
}

/// How a control program attaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Attach {
    /// Slots of each ring, a power of two: as many frames wait for a program that is slow.
    #[serde(default = "usual_slots")]
    pub slots: u32,
}

fn usual_slots() -> u32 {
    CONTROL_SLOTS
}

/// What a subscription is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topic {
    /// Each event of the node.
    Events,
    /// The counters of the node, once per interval.
    Counters {
        /// The interval, one of [`INTERVALS_MS`].
        interval_ms: u64,
    },
}

/// A topic in JSON.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum TopicLine {
    Events(bool),
    Counters(CountersLine),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CountersLine {
    interval_ms: u64,
}

impl Serialize for Topic {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let line = match *self {
            Topic::Events => TopicLine::Events(true),
            Topic::Counters { interval_ms } => TopicLine::Counters(CountersLine { interval_ms }),
        };
        line.serialize(to)
    }
}

impl<'de> Deserialize<'de> for Topic {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Topic, D::Error> {
        match TopicLine::deserialize(from)? {
            TopicLine::Events(true) => Ok(Topic::Events),
            TopicLine::Events(false) => {
                Err(D::Error::custom("`events` is true; a subscription ends with `unsubscribe`"))
            }
            TopicLine::Counters(CountersLine { interval_ms }) if INTERVALS_MS.contains(&interval_ms) => {
                Ok(Topic::Counters { interval_ms })
            }
            TopicLine::Counters(_) => {
                let [shortest, longest] = [INTERVALS_MS.start(), INTERVALS_MS.end()];
                Err(D::Error::custom(format!("`interval_ms` is between {shortest} and {longest}")))
            }
        }
    }
}

/// A node file to apply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
        #[derive(Serialize)]
        struct Line<'a> {
            id: u64,
            apply: &'a Apply,
        }
        let mut length = Length(0);
        serde_json::to_writer(&mut length, &Line { id: u64::MAX, apply: self })
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

impl Serialize for Request {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut line = to.serialize_map(Some(2))?;
        line.serialize_entry("id", &self.id)?;
        match &self.wants {
            Wants::Answer(Ask::Query(query)) => line.serialize_entry("query", query)?,
            Wants::Answer(Ask::Apply(apply)) => line.serialize_entry("apply", apply)?,
            Wants::Answer(Ask::Commands(commands)) => line.serialize_entry("commands", commands)?,
            Wants::Answer(Ask::Control(attach)) => line.serialize_entry("control", attach)?,
            Wants::Subscription(topic) => line.serialize_entry("subscribe", topic)?,
            Wants::End(subscription) => line.serialize_entry("unsubscribe", subscription)?,
        }
        line.end()
    }
}

/// A request in JSON: one of the keys beside `id`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestLine {
    id: u64,
    query: Option<Query>,
    apply: Option<Apply>,
    commands: Option<Vec<Command>>,
    control: Option<Attach>,
    subscribe: Option<Topic>,
    unsubscribe: Option<u64>,
}

impl RequestLine {
    fn request(self) -> Option<Request> {
        let RequestLine { id, query, apply, commands, control, subscribe, unsubscribe } = self;
        let mut all = [
            query.map(|query| Wants::Answer(Ask::Query(query))),
            apply.map(|apply| Wants::Answer(Ask::Apply(apply))),
            commands.map(|commands| Wants::Answer(Ask::Commands(commands))),
            control.map(|attach| Wants::Answer(Ask::Control(attach))),
            subscribe.map(Wants::Subscription),
            unsubscribe.map(Wants::End),
        ]
        .into_iter()
        .flatten();
        let wants = all.next().filter(|_| all.next().is_none())?;
        Some(Request { id, wants })
    }
}

/// A line that is no request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// The number of the request, as far as it has one.
    pub id: Option<u64>,
    /// Why it is none.
    pub why: Refusal,
}

impl Request {
    /// Parses a line of a client. The library limits nesting, the caller limits the length.
    ///
    /// # Errors
    /// Why it is no request, with an example of one.
    pub fn read(sent: &[u8]) -> Result<Request, Unreadable> {
        #[derive(Deserialize)]
        struct Id {
            id: u64,
        }
        let read = serde_json::from_slice(sent).map_err(|error| error.to_string());
        let one =
            "it has one of `query`, `apply`, `commands`, `control`, `subscribe`, `unsubscribe` beside `id`";
        read.and_then(|line: RequestLine| line.request().ok_or_else(|| one.to_string())).map_err(|error| {
            let example = r#"{"id": 1, "query": "counters"}"#;
            Unreadable {
                id: serde_json::from_slice(sent).ok().map(|Id { id }| id),
                why: format!("this is no valid request: {error}; send {example} in one line").into(),
            }
        })
    }
}

/// Why the node did not do what a client asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Refusal {
    /// The reason and the remedy.
    pub message: String,
    /// The first command that was refused, of a list of them: its index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<usize>,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Refusal {}

impl From<String> for Refusal {
    fn from(message: String) -> Refusal {
        Refusal { message, command: None }
    }
}

impl From<anyhow::Error> for Refusal {
    fn from(error: anyhow::Error) -> Refusal {
        format!("{error:#}").into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply(bytes: usize) -> Apply {
        Apply { file: "x".into(), text: "#".repeat(bytes), files: BTreeMap::new() }
    }

    #[test]
    fn the_longest_text_that_runs_can_be_sent() {
        let request = Request { id: u64::MAX, wants: Wants::Answer(Ask::Apply(apply(0))) };
        let empty = serde_json::to_string(&request).expect("plain data").len();
        assert_eq!(apply(LONGEST - empty).check_length(), Ok(()));
        let error = apply(LONGEST - empty + 1).check_length().expect_err("one byte too many");
        assert!(error.contains("x and the files that it names have 64 MiB"), "{error}");
        let quotes = Apply { text: "\"".repeat(LONGEST / 2), ..apply(0) };
        assert!(quotes.check_length().is_err(), "each is two bytes in JSON");
    }

    #[test]
    fn requests_are_the_same_when_they_are_written_and_read() {
        for line in [
            r#"{"id":7,"query":"counters"}"#,
            r#"{"id":8,"query":{"routes":{"most":2,"within":"192.0.2.0/24"}}}"#,
            r#"{"id":9,"commands":[{"route":{"set":{"prefix":"192.0.2.0/24","target":{"via":[{"address":"198.18.0.1"}]}}}}]}"#,
            r##"{"id":0,"apply":{"file":"x","text":"node","files":{"a":"#"}}}"##,
            r#"{"id":12,"control":{"slots":256}}"#,
            r#"{"id":10,"subscribe":{"events":true}}"#,
            r#"{"id":11,"subscribe":{"counters":{"interval_ms":1000}}}"#,
            r#"{"id":18446744073709551615,"unsubscribe":10}"#,
        ] {
            let request = Request::read(line.as_bytes()).expect("a request");
            assert_eq!(serde_json::to_string(&request).expect("plain data"), line);
        }
    }

    #[test]
    fn what_is_no_request_keeps_its_number() {
        let one =
            "it has one of `query`, `apply`, `commands`, `control`, `subscribe`, `unsubscribe` beside `id`";
        for (line, id, why) in [
            ("{\"id\": 7}", Some(7), one),
            ("{\"id\": 7, \"unsubscribe\": 1, \"query\": \"log\"}", Some(7), one),
            ("{\"id\": 7, \"stop\": true}", Some(7), "unknown field `stop`"),
            ("{\"id\": -7, \"unsubscribe\": 1}", None, "expected u64"),
            ("{\"unsubscribe\": 1}", None, "missing field `id`"),
            ("{\"id\": 1, \"subscribe\": {\"events\": false}}", Some(1), "ends with `unsubscribe`"),
            (
                "{\"id\": 1, \"subscribe\": {\"counters\": {\"interval_ms\": 99}}}",
                Some(1),
                "`interval_ms` is between 100 and 86400000",
            ),
            ("{\"id\": 7, \"unsubscribe\": 1", None, "EOF"),
        ] {
            let unreadable = Request::read(line.as_bytes()).expect_err(line);
            assert_eq!(unreadable.id, id, "{line}");
            let message = unreadable.why.message;
            assert!(message.contains(why) && message.contains("send {\"id\": 1"), "{line}: {message}");
        }
    }

    #[test]
    fn a_client_of_another_version_is_told_both_versions_and_the_remedy() {
        let hello = Hello { protocol: 1, client: Some("x".into()) };
        assert_eq!(Hello::read(br#"{"protocol": 1, "client": "x"}"#), Ok(hello));
        for (line, has) in [
            (
                &br#"{"protocol": 2, "new": []}"#[..],
                "its client speaks protocol 2: use weir of the same version",
            ),
            (br#""counters""#, "did not greet with a version: use weir of the same version as the node"),
            (b"\xff", "did not greet with a version"),
            (br#"{"protocol": 1, "clint": "x"}"#, "unknown field `clint`"),
        ] {
            let message = Hello::read(line).expect_err("refused").message;
            assert!(message.contains(has), "{message}");
            assert!(
                message.contains("clint") || message.contains(&format!("weir {WEIR} and speaks protocol 1")),
                "{message}"
            );
        }
    }
}
