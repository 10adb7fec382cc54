//! What programs are told of a filter: its connections, and what its rules held for.

use std::fmt;
use std::net::SocketAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Filter;

/// A connection that a filter remembers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FilterSession {
    /// `tcp`, `udp`, `icmp`, `icmp6`, `sctp`, or the number of another protocol.
    pub proto: String,
    /// The end that began it. Protocols without ports have port 0.
    #[schemars(with = "String")]
    pub from: SocketAddr,
    /// The other end.
    #[schemars(with = "String")]
    pub to: SocketAddr,
    /// Whether the other end has answered.
    pub answered: bool,
}

impl fmt::Display for FilterSession {
    /// The end that began it comes first.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FilterSession { proto, from, to, answered } = self;
        if proto.bytes().all(|byte| byte.is_ascii_digit()) {
            return write!(f, "protocol {proto} {} > {}", from.ip(), to.ip());
        }
        write!(f, "{proto} {from} > {to} {}", if *answered { "answered" } else { "not answered" })
    }
}

/// What a rule of a filter, or its policy, held for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RuleCount {
    /// The filter among the stages of the text, from 1.
    pub stage: usize,
    /// The rule as the text says it.
    pub rule: String,
    /// Frames.
    pub frames: u64,
    /// Bytes of their packets.
    pub bytes: u64,
}

impl Filter {
    /// What its rules held for, as the stage of this number.
    pub(crate) fn rule_counts(&self, stage: usize) -> impl Iterator<Item = RuleCount> {
        self.counts().map(move |(rule, count)| RuleCount {
            stage,
            rule: rule.to_string(),
            frames: count.frames,
            bytes: count.bytes,
        })
    }
}
