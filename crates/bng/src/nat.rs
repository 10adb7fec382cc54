//! What the NAT of the node does with the packets of a subscriber.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use crate::words::Words;

/// The NAT profile of a subscriber.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Nat {
    /// What the text of the node says of its address.
    #[default]
    Configured,
    /// Nothing: its address is public.
    None,
    /// Port blocks.
    Block,
    /// Deterministic ports (RFC 7422).
    Deterministic,
    /// This public address with all its ports, as long as its session lasts.
    OneToOne(Ipv4Addr),
}

impl fmt::Display for Nat {
    /// Writes what [`FromStr`] reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Nat::Configured => f.write_str("configured"),
            Nat::None => f.write_str("none"),
            Nat::Block => f.write_str("block"),
            Nat::Deterministic => f.write_str("deterministic"),
            Nat::OneToOne(address) => write!(f, "one-to-one {address}"),
        }
    }
}

impl FromStr for Nat {
    type Err = String;

    fn from_str(text: &str) -> Result<Nat, String> {
        let mut words = Words::new(text);
        let nat = Nat::read(&mut words)?;
        words.end()?;
        Ok(nat)
    }
}

impl Nat {
    /// Reads as far as the words are of a profile.
    pub(crate) fn read(words: &mut Words<'_>) -> Result<Nat, String> {
        match words.word("a NAT profile")? {
            "configured" => Ok(Nat::Configured),
            "none" => Ok(Nat::None),
            "block" => Ok(Nat::Block),
            "deterministic" => Ok(Nat::Deterministic),
            "one-to-one" => Ok(Nat::OneToOne(words.number("IPv4 address")?)),
            other => Err(format!(
                "`{other}` is no NAT profile: use configured, block, deterministic, none, or one-to-one ADDRESS"
            )),
        }
    }
}
