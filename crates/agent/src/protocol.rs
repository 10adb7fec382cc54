//! Lines that both sides exchange. The other side is not trusted: lines have a limit, and a line that is wrong ends the link.

use std::io::{self, BufRead, Read};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Both sides send [`Signal::Alive`] this often.
pub const BEAT: Duration = Duration::from_secs(2);
/// An agent that hears nothing for this time ends.
pub const SILENCE: Duration = Duration::from_secs(10);
/// The version of both sides: the requests of roles are no public format.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Longest line, bytes: counts of 256 flow groups with all buckets in use are shorter.
pub const LONGEST: u64 = 64 << 20;

/// The first line of an agent.
#[derive(Debug, Serialize, Deserialize)]
pub struct Hello<M> {
    /// Its version of weir.
    pub weir: String,
    /// Its machine.
    pub machine: M,
}

/// A line that has no reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Signal {
    /// The other side is still there.
    Alive,
    /// The current request is to end early.
    Stop,
}

/// A line of the local side.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Line<R> {
    /// Without a reply.
    Signal(Signal),
    /// Of a role, with a reply.
    Request(R),
}

/// A line of the agent.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply<T> {
    /// The result of a request.
    Done(T),
    /// The request failed; the agent goes on.
    Failed(String),
    /// Progress of a request that goes on.
    Note(String),
}

/// Why a request has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// The agent cannot do it.
    #[error("{0}")]
    Failed(String),
    /// The link cannot be used any more.
    #[error("{0}")]
    Lost(String),
}

/// The reply in a line.
///
/// # Errors
/// [`Trouble::Failed`] with the agent's words, [`Trouble::Lost`] if the line is no reply.
pub fn reply<T: DeserializeOwned>(line: &str) -> Result<Option<T>, Trouble> {
    match serde_json::from_str(line) {
        Ok(Reply::Done(value)) => Ok(Some(value)),
        Ok(Reply::Note(_)) => Ok(None),
        Ok(Reply::Failed(why)) => Err(Trouble::Failed(why)),
        Err(error) => Err(Trouble::Lost(format!("`{line:.80}` is no reply: {error}"))),
    }
}

/// The greeting in a line. `option` names the program of the other host in the user's file.
///
/// # Errors
/// In words: no greeting, or one of another version.
pub fn greeting<M: DeserializeOwned>(line: &str, option: &str) -> Result<Hello<M>, String> {
    let value: serde_json::Value = serde_json::from_str(line).unwrap_or_default();
    let Some(there) = value["done"]["weir"].as_str() else {
        return Err(format!(
            "it printed `{line:.80}` instead of a greeting: set `{option}` to weir {VERSION}, and make sure that the login \
             shell there prints nothing"
        ));
    };
    if there != VERSION {
        return Err(format!(
            "it has weir {there}, this host has {VERSION}: install the same version on both hosts"
        ));
    }
    match serde_json::from_value(value) {
        Ok(Reply::Done(hello)) => Ok(hello),
        Ok(Reply::Failed(why) | Reply::Note(why)) => Err(why),
        Err(error) => Err(format!(
            "its greeting cannot be parsed ({error}): install the same version of weir on both hosts"
        )),
    }
}

/// A line as bytes, with its end.
pub(crate) fn bytes<T: Serialize>(message: &T) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

/// Why there is no next line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoLine {
    /// The stream ended.
    End,
    /// In words: the line is none.
    Wrong(String),
}

/// The next line of a stream.
///
/// # Errors
/// The end of the stream, or a line that is too long, torn or no UTF-8.
pub fn line(from: &mut impl BufRead) -> Result<String, NoLine> {
    let mut bytes = Vec::new();
    let read = from.by_ref().take(LONGEST).read_until(b'\n', &mut bytes);
    if read.is_err() || bytes.is_empty() {
        return Err(NoLine::End);
    }
    if bytes.pop_if(|last| *last == b'\n').is_none() {
        return Err(if bytes.len() as u64 >= LONGEST {
            NoLine::Wrong(format!("it sent a line of more than {} MiB", LONGEST >> 20))
        } else {
            NoLine::End
        });
    }
    String::from_utf8(bytes).map_err(|error| {
        let start = String::from_utf8_lossy(error.as_bytes()).chars().take(40).collect::<String>();
        NoLine::Wrong(format!("it sent bytes that are no text: `{}`", start.escape_debug()))
    })
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Read, repeat};

    use super::*;

    #[test]
    fn a_line_has_an_end_and_is_text() {
        let mut two = &b"one\n\ntorn"[..];
        assert_eq!(
            [line(&mut two), line(&mut two), line(&mut two), line(&mut two)],
            [Ok("one".into()), Ok(String::new()), Err(NoLine::End), Err(NoLine::End)]
        );
        let long = line(&mut BufReader::new(repeat(b'x').take(LONGEST + 7)));
        assert_eq!(long, Err(NoLine::Wrong("it sent a line of more than 64 MiB".into())));
        let wrong = line(&mut &b"\xffab\x1b[2J\n"[..]);
        assert_eq!(
            wrong,
            Err(NoLine::Wrong("it sent bytes that are no text: `\u{fffd}ab\\u{1b}[2J`".into()))
        );
    }

    #[test]
    fn a_line_that_is_no_reply_ends_the_link() {
        assert_eq!(reply::<u64>(r#"{"done": 7}"#), Ok(Some(7)));
        assert_eq!(reply::<u64>(r#"{"note": "so far"}"#), Ok(None));
        assert_eq!(reply::<u64>(r#"{"failed": "no"}"#), Err(Trouble::Failed("no".into())));
        for (line, expected) in [
            (
                r#"{"done": -1}"#,
                "`{\"done\": -1}` is no reply: invalid value: integer `-1`, expected u64 at line 1 column 11",
            ),
            ("", "`` is no reply: EOF while parsing a value at line 1 column 0"),
        ] {
            assert_eq!(reply::<u64>(line), Err(Trouble::Lost(expected.into())));
        }
    }

    #[test]
    fn signals_and_requests_are_told_apart() {
        #[derive(Debug, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        enum Request {
            Counters,
            Arm { epoch: u8 },
        }
        let kind = |line: &str| match serde_json::from_str::<Line<Request>>(line) {
            Ok(Line::Signal(Signal::Alive)) => "alive",
            Ok(Line::Signal(Signal::Stop)) => "stop",
            Ok(Line::Request(Request::Counters)) => "counters",
            Ok(Line::Request(Request::Arm { epoch: 7 })) => "arm",
            Ok(Line::Request(Request::Arm { .. })) => "another epoch",
            Err(_) => "wrong",
        };
        let lines = [r#""alive""#, r#""stop""#, r#""counters""#, r#"{"arm":{"epoch":7}}"#, r#""halt""#, "7"];
        assert_eq!(lines.map(kind), ["alive", "stop", "counters", "arm", "wrong", "wrong"]);
    }

    #[test]
    fn a_greeting_names_the_version() {
        let read = |line: &str| greeting::<u32>(line, "weir").map(|hello| hello.machine);
        let own = format!(r#"{{"done":{{"weir":"{VERSION}","machine":4}}}}"#);
        assert_eq!(read(&own), Ok(4));
        for (line, start) in [
            ("Welcome", "it printed `Welcome` instead of a greeting: set `weir` to weir "),
            (r#"{"done":{"weir":"0.0.9"}}"#, "it has weir 0.0.9, this host has "),
            (&own.replace('4', "-1"), "its greeting cannot be parsed ("),
        ] {
            let why = read(line).expect_err(line);
            assert!(why.starts_with(start), "{why}");
        }
    }
}
