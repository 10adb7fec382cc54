//! What programs are told of a NAT: its mappings and sessions, forwards, one-to-one addresses.

use std::fmt;
use std::net::{SocketAddr, SocketAddrV4};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A mapping or session of a NAT.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NatSession {
    /// `tcp`, `udp`, `icmp`, or the number of another protocol.
    pub proto: String,
    /// The end inside.
    #[schemars(with = "String")]
    pub inside: SocketAddr,
    /// The end that stands for it outside.
    #[schemars(with = "String")]
    pub outside: SocketAddrV4,
    /// The remote end, 0.0.0.0:0 for any.
    #[schemars(with = "String")]
    pub remote: SocketAddrV4,
    /// The server that replaces the remote end, where the session is redirected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub server: Option<SocketAddrV4>,
}

impl fmt::Display for NatSession {
    /// Protocol, inside end, outside end, remote end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NatSession { proto, inside, outside, remote, server } = self;
        write!(f, "{proto} {inside} as {outside}")?;
        match server {
            Some(server) => write!(f, " with {server} for {remote}"),
            None => write!(f, " with {remote}"),
        }
    }
}
