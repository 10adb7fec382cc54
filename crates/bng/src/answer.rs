//! The last Access-Accept of a login: what its next session gets when no RADIUS server answers.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::fmt;
use std::str::FromStr;

use crate::hex;
use crate::line::Line;
use crate::mac::Mac;
use crate::radius::attribute::{Attributes, number};
use crate::words::Words;

/// An Accept, and who it was for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastAnswer {
    /// When it came, s since 1970; 0: a server has rejected the login since then.
    pub at_s: u64,
    /// The line of the device.
    pub line: Line,
    /// The device.
    pub mac: Mac,
    /// Hash of the password, if the device has sent it (PAP): a text of argon2.
    pub hash: Option<Box<str>>,
    /// Whether the login came online by it, without a server, since then.
    pub is_used: bool,
    /// What it gives.
    pub attributes: Attributes,
}

/// Attributes that are about one answer alone.
const LEFT_OUT: [u8; 5] = [
    number::REPLY_MESSAGE,
    number::STATE,
    number::PROXY_STATE,
    number::MESSAGE_AUTHENTICATOR,
    number::EVENT_TIMESTAMP,
];

impl LastAnswer {
    /// What is kept of the attributes of an Accept: none of Microsoft, which hold keys and proofs.
    pub(crate) fn kept(attributes: &Attributes) -> Attributes {
        let microsoft = crate::radius::attribute::vendor::MICROSOFT.to_be_bytes();
        let mut kept = Attributes::default();
        for (kind, value) in attributes.iter() {
            let is_microsoft = kind == number::VENDOR_SPECIFIC && value.starts_with(&microsoft);
            if !is_microsoft && !LEFT_OUT.contains(&kind) {
                kept.push(kind, value);
            }
        }
        kept
    }
}

impl fmt::Display for LastAnswer {
    /// `at 1790000000 line access1 mac 02:00:00:00:00:01 hash $argon2id$... used attributes 0x0806...`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {} line {} mac {}", self.at_s, self.line, self.mac)?;
        if let Some(hash) = &self.hash {
            write!(f, " hash {hash}")?;
        }
        if self.is_used {
            f.write_str(" used")?;
        }
        write!(f, " attributes {}", hex::Word(self.attributes.as_bytes()))
    }
}

impl FromStr for LastAnswer {
    type Err = String;

    fn from_str(text: &str) -> Result<LastAnswer, String> {
        let mut words = Words::new(text);
        let answer = LastAnswer::read(&mut words)?;
        words.end()?;
        Ok(answer)
    }
}

impl LastAnswer {
    pub(crate) fn read(words: &mut Words<'_>) -> Result<LastAnswer, String> {
        words.expect("at")?;
        let at_s = words.number("time")?;
        words.expect("line")?;
        let line = words.value("a line")?;
        words.expect("mac")?;
        let mac = words.value("a MAC address")?;
        let hash = if words.takes("hash") { Some(words.word("a hash")?.into()) } else { None };
        let is_used = words.takes("used");
        words.expect("attributes")?;
        let word = words.word("attributes")?;
        let attributes = hex::bytes(word).and_then(|bytes| Attributes::read(&bytes));
        let attributes = attributes.ok_or_else(|| format!("`{word}` is no list of attributes"))?;
        Ok(LastAnswer { at_s, line, mac, hash, is_used, attributes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_as_they_are_written() {
        for text in [
            "at 1790000000 line access1:100.7 mac 02:00:00:00:00:01 attributes 0x",
            "at 0 line access1 mac 02:00:00:00:00:01 hash $argon2id$v=19$m=8,t=1,p=1$c2FsdA$aGFzaA used attributes 0x080664400009",
        ] {
            assert_eq!(text.parse::<LastAnswer>().map(|read| read.to_string()).as_deref(), Ok(text));
        }
        for wrong in ["", "at x", "at 1 line access1 mac 02:00:00:00:00:01 attributes 0x0801"] {
            assert!(wrong.parse::<LastAnswer>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn keys_and_what_is_of_one_answer_alone_are_not_kept() {
        let mut attributes = Attributes::default();
        attributes.push(number::FILTER_ID, b"gold");
        attributes.push(number::STATE, b"x");
        attributes.push_vendor(crate::radius::attribute::vendor::MICROSOFT, 16, b"key");
        attributes.push_vendor(14988, 8, b"1M/2M");
        let kept: Vec<u8> = LastAnswer::kept(&attributes).iter().map(|(kind, _)| kind).collect();
        assert_eq!(kept, [number::FILTER_ID, number::VENDOR_SPECIFIC]);
    }
}
