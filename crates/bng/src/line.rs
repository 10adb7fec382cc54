//! Where a customer is connected: a port of the node and the VLAN tags on it.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The name of a port of the node: 1 to 64 letters, digits, `_`, `-`, `.`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortName(Arc<str>);

impl PortName {
    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for PortName {
    type Err = String;

    fn from_str(text: &str) -> Result<PortName, String> {
        let is_letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        match (1..=64).contains(&text.len()) && text.chars().all(is_letter) {
            true => Ok(PortName(text.into())),
            false => Err(format!("`{text}` is no name of a port: use letters, digits, _, - and .")),
        }
    }
}

/// The VLAN tags of a frame, 1 to 4094 each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Tags {
    /// Untagged.
    #[default]
    None,
    /// One tag.
    One(u16),
    /// Two tags (QinQ).
    Two {
        /// Of the service (S-VLAN).
        outer: u16,
        /// Of the customer (C-VLAN).
        inner: u16,
    },
}

impl fmt::Display for Tags {
    /// Nothing, `7` or `100.7`: outer tag first.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Tags::None => Ok(()),
            Tags::One(vid) => write!(f, "{vid}"),
            Tags::Two { outer, inner } => write!(f, "{outer}.{inner}"),
        }
    }
}

impl FromStr for Tags {
    type Err = String;

    /// Reads `7` or `100.7`.
    fn from_str(text: &str) -> Result<Tags, String> {
        let wrong = || format!("`{text}` are no VLAN tags: use 7, or 100.7 for an outer and an inner tag");
        let vid = |text: &str| {
            let vid = text.parse().ok().filter(|vid| (1..=4094).contains(vid));
            vid.filter(|_| !text.starts_with('+')).ok_or_else(wrong)
        };
        match text.split_once('.') {
            None => Ok(Tags::One(vid(text)?)),
            Some((outer, inner)) => Ok(Tags::Two { outer: vid(outer)?, inner: vid(inner)? }),
        }
    }
}

/// A line: a port and the tags on it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Line {
    /// The port of the node.
    pub port: PortName,
    /// The tags of its frames.
    pub tags: Tags,
}

impl fmt::Display for Line {
    /// `access1`, `access1:7`, `access1:100.7`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.tags {
            Tags::None => write!(f, "{}", self.port),
            tags => write!(f, "{}:{tags}", self.port),
        }
    }
}

impl FromStr for Line {
    type Err = String;

    /// Reads what [`fmt::Display`] writes.
    fn from_str(text: &str) -> Result<Line, String> {
        let (port, tags) = match text.split_once(':') {
            None => (text, Tags::None),
            Some((port, tags)) => (port, tags.parse()?),
        };
        Ok(Line { port: port.parse()?, tags })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_they_are_written() {
        for text in ["access1", "access1:7", "access1:100.7", "ge-0_0.1:4094.1"] {
            assert_eq!(text.parse::<Line>().map(|line| line.to_string()).as_deref(), Ok(text));
        }
        for text in ["", ":7", "a:", "a:0", "a:4095", "a:1.2.3", "a:1.", "a b", "a:+1"] {
            assert!(text.parse::<Line>().is_err(), "{text}");
        }
    }
}
