//! Untrusted replies of the remote side: lines have a limit, and values are checked.

use std::io::{BufRead, Read};

use serde::de::DeserializeOwned;
use weir_linux::rtnl::Mac;
use weir_load::counts::Counts;
use weir_load::foreign::{MOST_CLOCK_NS, MOST_NS};
use weir_testbed::interface::Device;

use super::{Fired, Reply};

/// Bytes of a line. Counts of 256 flow groups with all buckets in use are less.
const LONGEST: u64 = 64 << 20;

/// Why a request has no result.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The remote side cannot do it.
    Failed(String),
    /// The connection is of no use any more.
    Lost(String),
}

/// What the remote side replies. What depends on the trial is checked where that is known.
pub(crate) trait Heard: DeserializeOwned {
    /// Whether it can be so.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }
}

impl Heard for () {}
impl Heard for Mac {}
impl Heard for Device {}
impl Heard for Vec<String> {}
// With what was sent, see `Counts::check`.
impl Heard for Counts {}

/// A reading of its clock.
impl Heard for u64 {
    fn check(&self) -> Result<(), String> {
        in_time("its clock", *self, MOST_CLOCK_NS)
    }
}

impl Heard for Fired {
    fn check(&self) -> Result<(), String> {
        in_time("its clock", self.at_ns, MOST_CLOCK_NS)?;
        in_time("the time it waited for a CPU", self.wait_ns, MOST_NS)
    }
}

fn in_time(what: &str, ns: u64, most: u64) -> Result<(), String> {
    if ns <= most { Ok(()) } else { Err(format!("{what}: {ns} ns, which is impossible")) }
}

/// A reply to a request.
pub(super) fn reply<T: Heard>(line: &str) -> Result<T, Trouble> {
    match serde_json::from_str(line) {
        Ok(Reply::Done(value)) => match T::check(&value) {
            Ok(()) => Ok(value),
            Err(why) => Err(Trouble::Lost(format!("it sent impossible values: {why}"))),
        },
        Ok(Reply::Failed(why)) => Err(Trouble::Failed(why)),
        Err(error) => Err(Trouble::Lost(format!("`{line:.80}` is no reply: {error}"))),
    }
}

/// The next line; `None`: there is none, or it has no end.
pub(super) fn line(from: &mut impl BufRead) -> Option<String> {
    let mut bytes = Vec::new();
    from.by_ref().take(LONGEST).read_until(b'\n', &mut bytes).ok()?;
    bytes.pop_if(|last| *last == b'\n')?;
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Read, repeat};

    use super::*;

    #[test]
    fn a_line_has_an_end() {
        let mut two = &b"one\n\ntorn"[..];
        assert_eq!(
            [line(&mut two), line(&mut two), line(&mut two)],
            [Some("one".into()), Some(String::new()), None]
        );
        assert_eq!(line(&mut BufReader::new(repeat(b'x').take(LONGEST + 7))), None);
        assert_eq!(line(&mut &b"\xff\n"[..]), None);
    }

    #[test]
    fn what_cannot_be_is_no_reply() {
        assert_eq!(reply::<u64>(r#"{"done": 7}"#).unwrap(), 7);
        assert!(matches!(reply::<u64>(r#"{"failed": "no"}"#), Err(Trouble::Failed(why)) if why == "no"));
        for (line, expected) in [
            (
                r#"{"done": 18446744073709551615}"#,
                "it sent impossible values: its clock: 18446744073709551615 ns, which is impossible",
            ),
            (
                r#"{"done": -1}"#,
                "`{\"done\": -1}` is no reply: invalid value: integer `-1`, expected u64 at line 1 column 11",
            ),
            ("", "`` is no reply: EOF while parsing a value at line 1 column 0"),
        ] {
            let Err(Trouble::Lost(why)) = reply::<u64>(line) else { panic!("{line}") };
            assert_eq!(why, expected);
        }
    }
}
